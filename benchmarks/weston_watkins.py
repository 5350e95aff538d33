"""Compare our fast Weston-Watkins solver and path with the methods of the paper.

``python benchmarks/weston_watkins.py [CASE ...] [--runs 3] [--out results.json]`` runs
the solvers in turn (A B A B ...), each in a fresh process with one thread, and prints
the median CPU seconds to each gap ratio. README.md in this folder says what is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import psutil
from measuring import Clock, load_rows, peak_memory, save_rows

from workbench.core.problem import Problem, as_problem
from workbench.core.stream import below, processor_seconds, rounds
from workbench.data import load
from workbench.runs.run import machine, run, versions
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.path import ww_path

SOLVERS = ("ww_walrus_fast", "ww_walrus", "ww_shark")
MARKS = (1e-1, 1e-2, 1e-3, 1e-4)
PATH = tuple(2.0**e for e in range(-6, 4))
PATH_RATIO = 1e-3
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)


class Case(NamedTuple):
    """Training rows as :func:`workbench.data.load` reads them, and C, or None for a
    path."""

    data: str
    C: float | None


CASES = {
    "letter": Case("letter @ given", 1.0),
    "letter, C = 8": Case("letter @ given", 8.0),
    "satimage": Case("satimage @ range", 1.0),
    "dna": Case("dna @ given", 1.0),
    "usps": Case("usps @ given", 2.0**-6),
    "sector": Case("sector @ given", 0.5),
    "omniglot": Case("omniglot @ maximum | 64 pca", 2.0**-6),
    "300 classes": Case("synthetic 9000x128x300 @ unit", 8.0),
    "letter path": Case("letter @ given", None),
    "satimage path": Case("satimage @ range", None),
    "dna path": Case("dna @ given", None),
    "usps path": Case("usps @ given", None),
}


@dataclass
class Record:
    """The result of one process, with the CPU seconds to each mark that it reached."""

    case: str
    arm: str
    marks: dict[str, float | None]
    cpu: float
    visits: float
    peak_mb: float
    load: float


def main() -> None:
    """Measure the cases named on the command line, or all if none is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(CASES))
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of every solver (default 3)"
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, help="CPU seconds a run (default 60)"
    )
    parser.add_argument("--out", type=Path, help="where all runs are written as JSON")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(*given.child, given.limit)
    unknown = set(given.cases) - set(CASES)
    if unknown:
        parser.error(
            f"unknown case {', '.join(sorted(unknown))}; known cases: "
            f"{'; '.join(CASES)}"
        )
    records = []
    for name in given.cases or CASES:
        records += measure_case(name, CASES[name], given.runs, given.limit)
        if given.out:
            results = {"machine": machine(), "versions": versions()}
            results["runs"] = [vars(record) for record in records]
            given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure_case(name: str, case: Case, runs: int, limit: float) -> list[Record]:
    """Run the arms of a case in turn, `runs` times, print a table and return the
    runs."""
    try:
        problem = load(case.data)
    except FileNotFoundError as missing:
        print(f"\n{name}: skipped, {missing}")
        return []
    print(
        f"\n{name}: n = {problem.n}, d = {problem.d}, k = {problem.k}, C = {case.C}",
        flush=True,
    )
    arms = ("path", "cold") if case.C is None else SOLVERS
    records = []
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.npz")
        save_rows(rows, problem.X, problem.y)
        for _ in range(runs):
            records += [measure(name, arm, case.C, rows, limit) for arm in arms]
    print_case(arms, records)
    return records


def measure(name: str, arm: str, C: float | None, rows: Path, limit: float) -> Record:
    """Run one arm in a fresh process with one thread."""
    others = psutil.cpu_percent(interval=1.0) / 100 * os.cpu_count()
    command = [
        sys.executable,
        __file__,
        "--limit",
        str(limit),
        "--child",
        str(rows),
        arm,
        str(C),
    ]
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=True
    )
    return Record(name, arm, **json.loads(done.stdout), load=round(others, 2))


def child(rows: str, arm: str, C: str, limit: float) -> None:
    """Run one arm in this process, which :func:`measure` started, and print its
    costs."""
    problem = as_problem(*load_rows(Path(rows)))
    if arm in ("path", "cold"):
        found = whole_path(problem, arm)
    else:
        settings = {"parameters": {"C": float(C)}, "warm_up": False}
        run(arm, problem.tiny(), rounds(20), **settings)
        rules = (below("gap_ratio", MARKS[-1]), processor_seconds(limit))
        trace, _ = run(arm, problem, *rules, **settings)
        ratios = trace.column("gap_ratio")[1:]
        cpu = trace.column("cpu")[1:]
        found = {
            "marks": {
                f"{m:g}": float(cpu[np.argmax(ratios <= m)])
                for m in MARKS
                if any(ratios <= m)
            },
            "cpu": trace.last["cpu"],
            "visits": trace.last["visits"],
        }
    print(json.dumps(found | {"peak_mb": peak_memory()}))


def whole_path(problem: Problem, arm: str) -> dict:
    """Return the cost of ten values of C to a gap ratio of 1e-3, as a path or cold
    runs."""
    list(ww_path(problem.tiny(), PATH[-2:]))
    visits = 0.0
    with Clock() as clock:
        if arm == "path":
            for s in ww_path(problem, PATH, gap_ratio=PATH_RATIO):
                visits = s.visits
        else:
            for C in PATH:
                steps = ww_walrus_fast(problem, C=C)
                for s in steps:
                    if s.round and s.primal - s.dual <= PATH_RATIO * s.first:
                        break
                visits += s.visits
    return {"marks": {f"{PATH_RATIO:g}": clock.cpu}, "cpu": clock.cpu, "visits": visits}


def print_case(arms: tuple[str, ...], records: list[Record]) -> None:
    """Print median CPU seconds to each mark, and their ratios to the first arm's."""
    marks = sorted(
        {mark for record in records for mark in record.marks}, key=float, reverse=True
    )
    print(f"{'CPU s to a gap ratio of':24}" + "".join(f"{mark:>18}" for mark in marks))
    ours = medians(records, arms[0])
    for arm in arms:
        theirs = medians(records, arm)
        cells = []
        for mark in marks:
            if mark not in theirs:
                cells.append("-")
                continue
            ratio = (
                f" ({theirs[mark] / ours[mark]:.1f}x)"
                if arm != arms[0] and mark in ours
                else ""
            )
            cells.append(f"{theirs[mark]:.3f}{ratio}")
        print(f"{arm:24}" + "".join(f"{cell:>18}" for cell in cells))
    busiest = max(record.load for record in records)
    if busiest > 0.2:
        print(f"warning: others kept up to {busiest:.1f} cores busy")


def medians(records: list[Record], arm: str) -> dict[str, float]:
    """Return the median CPU seconds to every mark that all runs of an arm reached."""
    runs = [record.marks for record in records if record.arm == arm]
    return {
        m: median(run[m] for run in runs)
        for m in runs[0]
        if all(m in run for run in runs)
    }


if __name__ == "__main__":
    main()
