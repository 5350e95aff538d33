"""Measure two Dask workers next to two threads, and compute a round on a hundred workers.

``python benchmarks/cluster.py [--rows 1000000]`` writes rows of 100 float32 features and ten
classes into a temporary folder, which it removes, and gives wall and CPU seconds of a round, of all
processes together, with rounds in turn. ``--computed`` prints the README's table without a run.
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

SETTINGS = {
    "ls_accelerated": {},
    "ls_stagewise": {"n_features": 512, "block": 256, "passes": 5, "kept": 0, "inner": 2},
}
WORKERS, MEMORY, LINK = 100, 64e9, 1.25e9  # bytes of each process, bytes/s of that of this process
RATE = 2e11  # float32 operations/s of a worker
FEATURES, BLOCK, INNER, VISITS = 512, 1024, 4, 24  # of the rows; of stagewise least squares


def main() -> None:
    """Print the line of each solver, or the computed table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="default 1000000")
    parser.add_argument("--solvers", nargs="+", default=[*SETTINGS])
    parser.add_argument("--rounds", type=int, default=3, help="of each solver (default 3)")
    parser.add_argument(
        "--dask", action="store_true", help="with Dask's own MALLOC_TRIM_THRESHOLD_"
    )
    parser.add_argument("--computed", action="store_true")
    given = parser.parse_args()
    if given.computed:
        return print("\n".join(computed()))
    if not given.dask:  # with it, each buffer's pages are made again whenever rows are read
        dask.config.get("distributed.nanny.pre-spawn-environ").pop("MALLOC_TRIM_THRESHOLD_")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        path = Path(folder) / "rows.npy"
        write(path, given.rows, 100, 10)
        for solver in given.solvers:
            measured(solver, path, client, given.rounds)


def measured(solver: str, path: Path, client: Client, rounds: int) -> None:
    """Print the median seconds of a round here and on the cluster, after three that compile."""
    here, settings = load(path), SETTINGS[solver]
    threads = {"workers": 2} if solver == "ls_stagewise" else {}
    steps, times = SOLVERS[solver].steps, ([], [])
    streams = steps(here, **settings, **threads), steps(on_cluster(here, client), **settings)
    for stream in streams:
        for _ in islice(stream, 3):
            pass
    for _ in range(rounds):
        for stream, taken in zip(streams, times):
            before = time.perf_counter(), used(client)
            next(stream)
            taken.append((time.perf_counter() - before[0], used(client) - before[1]))
    (wall, cpu), (wall_there, cpu_there) = (tuple(map(median, zip(*taken))) for taken in times)
    more = f"{wall_there / wall - 1:+.0%} ({cpu_there / cpu - 1:+.0%})"
    print(f"{solver:16}here {wall:.2f} s ({cpu:.2f} CPU), ", end="")
    print(f"on the cluster {wall_there:.2f} s ({cpu_there:.2f} CPU): {more}")


def used(client: Client) -> float:
    """Return the CPU seconds of this process, with its scheduler, and of the workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def computed() -> list[str]:
    """Return a table of a round on 100 workers, from the bytes and operations of the algorithm.

    All bytes pass through the link of the one process, next to the scheduler.
    """
    names = "solver | rows | classes | GB sent | network s | work s | worker GB | here GB"
    lines = [f"| {names} | breaks first |", "|---" * 9 + "|"]
    for n in (10**7, 10**8, 10**9):
        for k in (10, 10**3, 10**5):
            for solver, (sent, work, worker, here) in costs(n, k).items():
                network, busy = sent / LINK, work / RATE
                over = {"a worker's memory": worker, "this process's memory": here}
                broken = max(over, key=over.get) if max(over.values()) > MEMORY else ""
                broken = broken or ("the network" if network > busy else "nothing")
                shown = sent / 1e9, network, busy, worker / 1e9, here / 1e9
                numbers = " | ".join(f"{number:.3g}" for number in shown)
                size = f"10^{len(str(n)) - 1} | {k:,}"
                lines.append(f"| `{solver}` | {size} | {numbers} | {broken} |")
    return lines


def costs(n: int, k: int) -> dict[str, tuple[float, float, float, float]]:
    """Return bytes sent, operations of a worker, bytes of a worker and of this process."""
    own, d, p, labels = n / WORKERS, FEATURES, BLOCK, 12 * n
    return {
        # sends W and gets X'R, float64
        "ls_accelerated": (16 * d * k * WORKERS, 4 * own * d * k, 16 * d * k, labels + 40 * d * k),
        # a visit with its factor: sends V and gets Z'R, `inner` times; Dask keeps every visit's V
        "ls_stagewise": (
            16 * p * k * WORKERS * INNER,
            own * p * (2 * d + 4 * INNER * k),
            8 * own * k + 16 * p * k,
            labels + (40 + 8 * VISITS) * p * k,
        ),
    }


if __name__ == "__main__":
    main()
