"""Measure two Dask workers against this process, and compute a round on a hundred.

``python benchmarks/cluster.py [--rows 1000000]`` writes rows of 100 float32 features
and ten classes into a temporary folder, which it removes. It prints the wall seconds of
a round and the CPU seconds of all processes together; rounds here and on the cluster
alternate. ``--computed`` prints the README's table without a run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

import dask
from distributed import Client, LocalCluster
from rows import write

from workbench.data import load
from workbench.least_squares.cluster import on_cluster
from workbench.registry import SOLVERS

SOLVED = "ls_generalized", "ls_accelerated"
WORKERS = 100
MEMORY = 64e9  # bytes of each process
LINK = 1.25e9  # bytes per second of this process
RATE = 2e11  # float32 operations/s of a worker
FEATURES = 512


def main() -> None:
    """Print the line of each solver, or the computed table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="default 1000000")
    parser.add_argument("--solvers", nargs="+", default=SOLVED)
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each solver (default 3)"
    )
    parser.add_argument(
        "--dask", action="store_true", help="with Dask's own MALLOC_TRIM_THRESHOLD_"
    )
    parser.add_argument("--computed", action="store_true")
    given = parser.parse_args()
    if given.computed:
        return print("\n".join(computed()))
    # With it, the pages of a buffer are allocated anew whenever rows are read.
    if not given.dask:
        dask.config.get("distributed.nanny.pre-spawn-environ").pop(
            "MALLOC_TRIM_THRESHOLD_"
        )
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        path = Path(folder) / "rows.npy"
        write(path, given.rows, 100, 10)
        for solver in given.solvers:
            measured(solver, path, client, given.rounds)


def measured(solver: str, path: Path, client: Client, rounds: int) -> None:
    """Print the median seconds of a round here and on the cluster, after three
    rounds."""
    here = load(path)
    steps = SOLVERS[solver].steps
    times = ([], [])
    streams = steps(here), steps(on_cluster(here, client))
    for stream in streams:
        for _ in islice(stream, 3):
            pass
    for _ in range(rounds):
        for stream, taken in zip(streams, times):
            before = time.perf_counter(), used(client)
            next(stream)
            taken.append((time.perf_counter() - before[0], used(client) - before[1]))
    (wall, cpu), (wall_there, cpu_there) = (
        tuple(map(median, zip(*taken))) for taken in times
    )
    more = f"{wall_there / wall - 1:+.0%} ({cpu_there / cpu - 1:+.0%})"
    print(f"{solver:16}here {wall:.2f} s ({cpu:.2f} CPU), ", end="")
    print(f"on the cluster {wall_there:.2f} s ({cpu_there:.2f} CPU): {more}")


def used(client: Client) -> float:
    """Return the CPU seconds of this process with its scheduler, and of the workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def computed() -> list[str]:
    """Return a table of `ls_accelerated` on 100 workers, from bytes and operations.

    All bytes pass through the network link of this process.
    """
    names = "rows | classes | GB sent | network s | work s | worker GB | here GB"
    lines = [f"| {names} | breaks first |", "|---" * 8 + "|"]
    for n in (10**7, 10**8, 10**9):
        for k in (10, 10**3, 10**5):
            sent, work, worker, here = costs(n, k)
            network = sent / LINK
            busy = work / RATE
            over = {"a worker's memory": worker, "this process's memory": here}
            broken = max(over, key=over.get) if max(over.values()) > MEMORY else ""
            broken = broken or ("the network" if network > busy else "nothing")
            shown = sent / 1e9, network, busy, worker / 1e9, here / 1e9
            numbers = " | ".join(f"{number:.3g}" for number in shown)
            lines.append(f"| 10^{len(str(n)) - 1} | {k:,} | {numbers} | {broken} |")
    return lines


def costs(n: int, k: int) -> tuple[float, float, float, float]:
    """Return bytes sent, operations and bytes of a worker, and bytes of this process.

    A round sends W and receives X'R, both in float64.
    """
    d = FEATURES
    own = 4 * n / WORKERS * d * k
    return 16 * d * k * WORKERS, own, 16 * d * k, 12 * n + 40 * d * k


if __name__ == "__main__":
    main()
