"""Measure the overhead of the sweep engine, and the reading of finished points.

``python benchmarks/sweep.py [--runs 5]`` times whole processes and prints medians. A
point is `mrc_subgradient` on iris, stopped at round 0, so that nearly all of the time
is the engine's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from workbench.core.measures import errors
from workbench.core.stream import geometric, stopping
from workbench.core.trace import write_trace
from workbench.data import load
from workbench.runs.grid import Point, grid
from workbench.runs.run import run
from workbench.runs.sweep import planned, solve, sweep, task
from workbench.runs.worker import ONE_THREAD, Limits

FEW = 200
MANY = 1200  # points; the difference to FEW excludes the start of processes
FINISHED = 10_000
ROUNDS = 30  # rows of a finished point that is read again
COST = 5.0
RELOAD = 10.0  # targets: COST in ms per point, RELOAD in seconds


def main() -> None:
    """Measure both, and print them with their targets."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="runs of every process (default 5)"
    )
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        what, count, folder = given.child
        return {"loop": loop, "sweep": engine, "reload": reload}[what](
            int(count), Path(folder)
        )
    busy = psutil.cpu_percent(interval=1.0) / 100 * (os.cpu_count() or 1)
    if busy > 0.2:
        print(
            f"warning: other work keeps {busy:.1f} cores busy; repeat on an idle "
            "machine"
        )
    work = []
    ours = []
    for _ in range(given.runs):
        for kind, found in (("loop", work), ("sweep", ours)):
            seconds = [timed(kind, count) for count in (FEW, MANY)]
            found.append(1e3 * (seconds[1] - seconds[0]) / (MANY - FEW))
    cost = median(ours) - median(work)
    print(
        f"the work itself: {spread(work)} ms per point; in a sweep: {spread(ours)} ms"
    )
    print(f"engine: {cost:.1f} ms per point, target at most {COST:g}")
    with tempfile.TemporaryDirectory() as folder:
        fill(FINISHED, Path(folder))
        seconds = [timed("reload", FINISHED, folder) for _ in range(given.runs)]
    print(f"{FINISHED:,} finished points, {ROUNDS + 1} rows each, as one table: "
          f"{spread(seconds)} s, target at most {RELOAD:g}")  # fmt: skip


def timed(kind: str, count: int, folder: str | None = None) -> float:
    """Return the wall seconds of a fresh process, by default in a fresh folder."""
    own = folder or tempfile.mkdtemp()
    command = [sys.executable, __file__, "--child", kind, str(count), own]
    tic = time.perf_counter()
    subprocess.run(command, env=os.environ | ONE_THREAD, check=True)
    seconds = time.perf_counter() - tic
    if folder is None:
        shutil.rmtree(own)
    return seconds


def points(count: int, rounds: int = 0) -> list[Point]:
    """Return points that differ only in their repetition."""
    return grid("mrc_subgradient", "iris", stop={"rounds": rounds}, repetitions=count)


def loop(count: int, folder: Path) -> None:
    """Solve and evaluate the points one after the other, and keep nothing."""
    problem = load("iris")
    judge = errors(problem)
    for point in points(count):
        rules = stopping(point.stop)
        options = {
            "parameters": point.parameters,
            "measure": judge,
            "when": geometric(),
        }
        trace, state = run(
            point.solver, problem, *rules, warm_up=point.repetition == 0, **options
        )
        trace.last.update(judge(state))


def engine(count: int, folder: Path) -> None:
    """Run the points as a sweep with one worker, and read them as one table."""
    frame = sweep(points(count), folder=folder, say=lambda line: None).frame()
    assert len(frame) == count and (frame["status"] == "done").all()


def fill(count: int, folder: Path) -> None:
    """Write finished points: the trace of one run, under the key of each point."""
    chosen = points(count, ROUNDS)
    trace, _ = run("mrc_subgradient", load("iris"), *stopping(chosen[0].stop))
    for point in planned(chosen, False):
        path = task(point).path(folder)
        if point.repetition == 0:
            solve(point, False, path, Limits())
            continue
        trace.header["key"] = point.key
        write_trace(path, trace)


def reload(count: int, folder: Path) -> None:
    """Sweep over finished points, and read them as one table."""
    said: list[str] = []
    frame = sweep(points(count, ROUNDS), folder=folder, say=said.append).frame()
    assert said[-1].endswith("0 to run") and len(frame) == count


def spread(values: list[float]) -> str:
    """Return the median and the range as text."""
    return f"{median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


if __name__ == "__main__":
    main()
