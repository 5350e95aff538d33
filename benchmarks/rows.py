"""Measure solvers on a memory-mapped file of rows, in a process of limited memory.

``python benchmarks/rows.py [--gb 20] [--memory-gb 2] [--cold]`` writes float32 rows
into a temporary folder, which it removes. The time of a round is given as a multiple of
reading the file once, in wall and in CPU seconds; readings and rounds alternate.
``--cold`` drops the file from the system's cache before each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.measuring import Clock, PeakMemory
from workbench.core.blocks import blocks, pieces
from workbench.data import load
from workbench.registry import SOLVERS

SETTINGS = {
    "ls_stagewise_passes": {"n_features": 512, "block": 256, "inner": 1},
    "memoir_pegasos": {"batch_size": 1000},
}
CHUNK = 10_000  # rows that are made together


def main() -> None:
    """Write the file, measure each solver in a fresh process, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--gb", type=float, default=2.0, help="size of the file (default 2)"
    )
    parser.add_argument(
        "--features", type=int, default=512, help="per row (default 512)"
    )
    parser.add_argument("--classes", type=int, default=10, help="default 10")
    parser.add_argument(
        "--memory-gb", type=float, default=2.0, help="limit (default 2)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each solver (default 5)"
    )
    parser.add_argument(
        "--solvers",
        nargs="+",
        default=["ls_accelerated", "ls_stagewise_passes", "memoir_pegasos"],
    )
    parser.add_argument(
        "--cold", action="store_true", help="read from the disk, not its cache"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the temporary folder is made"
    )
    parser.add_argument(
        "--child", nargs=2, metavar=("SOLVER", "FILE"), help=argparse.SUPPRESS
    )
    given = parser.parse_args()
    if given.child:
        limit = int(given.memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        return print(json.dumps(measured(*given.child, given.rounds, given.cold)))
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "rows.npy"
        n = int(given.gb * 1e9) // (4 * given.features)
        write(path, n, given.features, given.classes)
        print(
            f"{n:,} rows x {given.features} float32, {given.classes} classes: "
            f"{given.gb:g} GB"
        )
        print(f"{'':16}{'load s':>8}{'start s':>9}{'read s':>8}{'round s':>9}"
              f"{'x read':>8}{'x its CPU':>11}{'peak MB':>9}")  # fmt: skip
        for solver in given.solvers:
            command = [
                sys.executable,
                __file__,
                *sys.argv[1:],
                "--child",
                solver,
                str(path),
            ]
            output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
            m = json.loads(output.splitlines()[-1])
            print(f"{solver:16}{m['load']:8.1f}{m['start']:9.1f}{m['read'][0]:8.2f}"
                  f"{m['round'][0]:9.2f}{m['round'][0] / m['read'][0]:8.2f}"
                  f"{m['round'][1] / m['read'][1]:11.2f}{m['peak']:9.0f}")  # fmt: skip


def write(path: Path, n: int, d: int, k: int) -> None:
    """Write rows around one centre per class and their labels, chunk by chunk."""
    rng = np.random.default_rng(0)
    y = rng.integers(k, size=n)
    centres = rng.standard_normal((k, d), np.float32) / 8
    np.save(path.with_suffix(".labels.npy"), y)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(file, header)
        for rows in pieces(n, CHUNK):
            X = rng.standard_normal((rows.stop - rows.start, d), np.float32)
            (X + centres[y[rows]]).tofile(file)
        file.flush()
        os.fsync(file.fileno())  # `forget` drops only what is written


def measured(solver: str, path: str, rounds: int, cold: bool) -> dict:
    """Return wall and CPU seconds of reading and of a round, and the peak memory in
    MB."""
    steps = SOLVERS[solver].steps
    settings = SETTINGS.get(solver, {})
    memory = PeakMemory()
    with Clock() as loading:
        problem = load(path)
    for _ in islice(steps(problem.tiny(), **settings), 3):
        pass
    stream = steps(problem, **settings)
    with Clock() as starting:
        next(stream)
    readings = []
    times = []
    for _ in range(rounds):
        if cold:
            forget(path)
        with Clock() as reading:
            for block in blocks(np.load(path, mmap_mode="r")):
                block.max()
        if cold:
            forget(path)
        with Clock() as clock:
            if next(stream, None) is None:
                break
        readings.append((reading.seconds, reading.cpu))
        times.append((clock.seconds, clock.cpu))
    found = {"load": loading.seconds, "start": starting.seconds, "peak": memory.stop()}
    read, round_ = (tuple(map(median, zip(*taken))) for taken in (readings, times))
    return found | {"read": read, "round": round_}


def forget(path: str) -> None:
    """Drop a file from the system's cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
