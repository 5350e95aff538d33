"""A long sweep whose processes are killed at random and which must lose nothing.

``python benchmarks/endurance.py [--minutes 60]`` sweeps one new set of points after
another. Meanwhile it kills a worker every few seconds and sometimes the whole sweep,
which is then started again; some points need more memory than they are allowed. In the
end every finished point must be as it was written, every point that can be done must be
done, and the first three sets must give the same traces when they are run alone. It
also prints the resident memory of the longest sweep.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from workbench.core.stream import stopping
from workbench.runs.grid import Point, grid
from workbench.runs.run import run
from workbench.runs.sweep import Sweep, sweep

SOLVERS = {
    "mrc_ccg": {},
    "ww_walrus_fast": {"C": [0.1, 1.0]},
    "cs_working_set": {"C": [0.1, 1.0]},
    "ls_accelerated": {"alpha": [1e-3, 1e-2]},
    "cuts_linear_time_fast": {"r": [20, 100]},
    "ridge": {},
}
DATA = ("iris", "wine", "breast_cancer", "digits")
GREEDY = "synthetic 200000x200x4 @ given"  # 320 MB of rows
MEMORY = 0.2  # GB that a point may take
CLOCKS = ("seconds", "cpu")
MARK = "WORKBENCH_ENDURANCE"  # in the environment of all processes that a sweep starts


def main() -> int:
    """Disturb sweeps for the given time; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    parser.add_argument(
        "--every", type=float, default=10.0, help="seconds between kills (10)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--seed", type=int, default=0, help="of the kills (0)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return sweeping(given.child, given.jobs)
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "compiled"  # by a sweep that is not disturbed
        sweep(points(0), jobs=given.jobs, folder=compiled, say=quiet)
        chance = random.Random(given.seed)
        return torment(
            Path(folder) / "runs", given.minutes, given.every, given.jobs, chance
        )


def torment(
    folder: Path, minutes: float, every: float, jobs: int, chance: random.Random
) -> int:
    """Start sweeps, kill them and their workers, and check what is left."""
    end = time.monotonic() + 60 * minutes
    kills = 0
    starts = 0
    known: dict[Path, str] = {}
    lost: set[str] = set()
    while time.monotonic() < end:
        command = [
            sys.executable,
            __file__,
            "--child",
            str(folder),
            "--jobs",
            str(jobs),
        ]
        mark = os.environ | {MARK: str(folder)}
        child = subprocess.Popen(command, env=mark, start_new_session=True)
        starts += 1
        while time.monotonic() < end and child.poll() is None:
            time.sleep(every * chance.uniform(0.2, 1.8))
            victims = [child.pid] if chance.random() < 0.03 else workers(child.pid)
            kills += bool(victims) and dead(chance.choice(victims))
            lost |= changed(folder, known)
        dead(child.pid)
        child.wait()
    left = leftovers(folder)
    print(
        f"{minutes:g} minutes: {starts} sweeps, {kills} kills, {len(known)} finished "
        "points"
    )
    done = [
        sweep(points(n), jobs=jobs, memory=MEMORY, folder=folder, say=quiet)
        for n in range(rounds_of(folder))
    ]
    lost |= changed(folder, known)
    missing = []
    for part in done:
        for point in part.points:
            if point.key in part.failures and point.data != GREEDY:
                missing.append(f"{point.label}: {part.failures[point.key]}")
    different = [label for part in done[:3] for label in unlike(part)]
    growth = flat(folder)
    print(f"finished points that changed or went: {sorted(lost) or 'none'}")
    print(f"points that could not be done in the end: {missing or 'none'}")
    print(f"traces unlike those of an undisturbed run: {different or 'none'}")
    print(f"processes left behind: {left or 'none'}")
    print(f"resident memory of the longest sweep: {growth}")
    return 1 if lost or missing or different or left else 0


def sweeping(folder: Path, jobs: int) -> int:
    """Sweep one set of points after another, and record this process's memory."""
    for n in range(sys.maxsize):
        sweep(points(n), jobs=jobs, memory=MEMORY, folder=folder, say=quiet)
        row = {
            "pid": os.getpid(),
            "round": n,
            "mb": psutil.Process().memory_info().rss / 1e6,
        }
        with open(folder / "memory.log", "a", encoding="ascii") as log:
            log.write(json.dumps(row) + "\n")


def points(n: int) -> list[Point]:
    """Return the points of one round: new random splits, and one that is too large."""
    stop = {"cpu": 1.0, "rounds": 40}
    found = grid(SOLVERS, list(DATA), stop=stop, test=0.3, seeds=[n])
    return found + (grid("ridge", GREEDY, stop=stop, seeds=[n]) if n % 5 == 0 else [])


def workers(parent: int) -> list[int]:
    """Return the worker processes of a sweep."""
    try:
        children = psutil.Process(parent).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [
        process.pid for process in children if "loky" in "".join(asked(process.cmdline))
    ]


def asked(question: Callable):
    """Return the answer about a process; empty if the process has ended."""
    try:
        return question()
    except psutil.Error:
        return ()


def dead(pid: int) -> bool:
    """Kill a process as the system does when memory is short."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def changed(folder: Path, known: dict[Path, str]) -> set[str]:
    """Return the finished points that have changed, and add the new ones to `known`."""
    strange = {str(path) for path in known if not path.exists()}
    for path in folder.glob("??/*.jsonl"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if known.setdefault(path, digest) != digest:
            strange.add(str(path))
    return strange


def rounds_of(folder: Path) -> int:
    """Return how many rounds of points were swept."""
    return 1 + max((row["round"] for row in noted(folder)), default=0)


def noted(folder: Path) -> list[dict]:
    """Return the memory that the sweeps recorded."""
    log = folder / "memory.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines]


def unlike(done: Sweep) -> list[str]:
    """Return the labels of points whose traces differ from undisturbed ones."""
    from workbench.data import load

    found = []
    for point in done.points:
        if point.key in done.failures:
            continue
        kept = done.trace(point)
        if "processor" in kept.stopped_by:
            continue  # its end depends on the machine
        problem = load(point.data, seed=point.seed, test=point.test)
        again, _ = run(
            point.solver, problem, *stopping(point.stop), parameters=point.parameters
        )
        is_same = len(kept.rows) == len(again.rows)
        for new, old in zip(again.rows, kept.rows):
            columns = [name for name in new if name not in CLOCKS]
            is_same &= all(new[name] == old[name] for name in columns)
        if not is_same:
            found.append(point.label)
    return found


def leftovers(folder: Path) -> list[int]:
    """Return the processes of killed sweeps that still run ten seconds later."""
    time.sleep(10)
    return [
        process.pid
        for process in psutil.process_iter()
        if dict(asked(process.environ)).get(MARK) == str(folder)
    ]


def flat(folder: Path) -> str:
    """Describe the memory of the longest process, after its first third."""
    rows = noted(folder)
    if not rows:
        return "no sweep ended"
    pids = [row["pid"] for row in rows]
    longest = max(set(pids), key=pids.count)
    mb = np.array([row["mb"] for row in rows if row["pid"] == longest])
    late = mb[len(mb) // 3 :]
    growth = f"{late[0]:.0f} MB to {late[-1]:.0f} MB (at most {mb.max():.0f})"
    return f"{len(mb)} rounds of points, {growth}"


def quiet(line: str) -> None:
    """Print nothing, because the kills would give many lines."""


if __name__ == "__main__":
    sys.exit(main())
