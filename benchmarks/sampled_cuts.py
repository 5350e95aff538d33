"""Sampled cuts against LIBSVM: the same problems, tuned alike, to the end that each comes to.

``python benchmarks/sampled_cuts.py [CASE ...] [--runs 3] [--out results.json]`` tunes C and gamma
of every arm on rows held out of the training rows, then runs the arms in turn, each in a fresh
process with one thread, and prints medians. README.md in this folder says what is on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple

import numpy as np
import psutil
from measuring import load_rows, peak_memory, save_rows

from workbench.core.measures import error
from workbench.core.problem import Problem, as_problem
from workbench.data.panels import panel
from workbench.data.synthetic import checkers
from workbench.runs.run import machine, run, versions
from workbench.sampled_cuts import model

ARMS = {
    "LIBSVM": ("libsvm", {}),
    "linear time": ("cuts_linear_time", {"stabilised": False}),
    "linear time, line search": ("cuts_linear_time", {}),
    "constant time": ("cuts_constant_time", {}),
    "exact, Nyström": ("cuts_nystroem", {"landmarks": 500, "eps": 5e-3}),
    "LIBLINEAR, Nyström": ("nystroem_svm", {"landmarks": 500}),
}
RIVAL, PLAIN, OURS = "LIBSVM", "linear time", "linear time, line search"
ALIKE = "LIBSVM, same C and gamma"  # as the arm that it is compared with
ARMS[ALIKE] = ARMS[RIVAL]
GRID = {"C": (1.0, 10.0), "gamma": None}
TUNED_ON, VALIDATED_ON = 8_000, 8_000  # rows, at most
TEST_ROWS = 50_000  # rows of generated data
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Case(NamedTuple):
    """Training and test rows, the widths to try, and the arms that would take too long."""

    load: Callable[[], Problem]
    gammas: tuple[float, ...]
    without: tuple[str, ...] = ()


def board(n: int) -> Problem:
    """Return a checkerboard with test rows of another seed."""
    train, test = checkers(n, seed=1), checkers(TEST_ROWS, seed=0)
    return as_problem(
        train.X, train.y, X_test=test.X, y_test=test.y, name=train.name, synthetic=True
    )


def adult() -> Problem:
    """Return 70 % of the training rows of a9a and its test rows."""
    return panel("a9a @ given | 70 % rows", test=None)


CASES = {
    "checkers 10k": Case(lambda: board(10_000), (10.0, 30.0, 100.0)),
    "checkers 30k": Case(lambda: board(30_000), (10.0, 30.0, 100.0)),
    "checkers 100k": Case(lambda: board(100_000), (10.0, 30.0, 100.0)),
    "checkers 1M": Case(
        lambda: board(1_000_000), (10.0, 30.0, 100.0), (RIVAL, PLAIN, "LIBLINEAR, Nyström")
    ),
    "adult": Case(adult, (0.01, 0.03, 0.1)),
}


def main() -> None:
    """Measure the cases named on the command line, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(CASES))
    parser.add_argument("--runs", type=int, default=3, help="runs of every arm (default 3)")
    parser.add_argument("--out", type=Path, help="where all runs are written as JSON")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        rows, arm, parameters = given.child
        print(json.dumps(fit(load_split(Path(rows)), arm, json.loads(parameters))))
        return
    unknown = set(given.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; known are {'; '.join(CASES)}")
    runs = []
    for name in given.cases or CASES:
        runs += measure_case(name, CASES[name], given.runs)
        if given.out:
            results = {"machine": machine(), "versions": versions(), "runs": runs}
            given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure_case(name: str, case: Case, runs: int) -> list[dict]:
    """Tune all arms of a case, run them in turn, print its table and return the runs."""
    try:
        problem = case.load()
    except FileNotFoundError as missing:
        print(f"\n{name}: skipped, {missing}")
        return []
    print(f"\n{name}: n = {problem.n}, d = {problem.d}", flush=True)
    arms = [arm for arm in ARMS if arm not in (*case.without, ALIKE)]
    tuned = {arm: tune(problem, arm, case.gammas) for arm in arms}
    if RIVAL in tuned and tuned[RIVAL] != tuned[OURS]:  # its time depends on them
        tuned[ALIKE] = tuned[OURS]
    records = []
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder)
        save_rows(rows / "train.npz", problem.X, problem.y)
        save_rows(rows / "test.npz", problem.X_test, problem.y_test)
        for _ in range(runs):
            for arm, parameters in tuned.items():
                records.append({"case": name, "arm": arm} | measure(rows, arm, parameters))
    print_case(records, problem.n)
    return records


def tune(problem: Problem, arm: str, gammas: tuple[float, ...]) -> dict[str, float]:
    """Return the C and gamma of least error on rows held out of (some of) the training rows."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(problem.n)
    fitted = rows[: min(TUNED_ON, problem.n // 2)]
    held = rows[len(fitted) : len(fitted) + VALIDATED_ON]
    X, y = problem.X, problem.y
    part = as_problem(X[fitted], y[fitted], X_test=X[held], y_test=y[held])
    grid = [{"C": C, "gamma": gamma} for C, gamma in product(GRID["C"], gammas)]
    return min(grid, key=lambda parameters: fit(part, arm, parameters)["error"])


def measure(rows: Path, arm: str, parameters: dict[str, float]) -> dict:
    """Run one arm in a fresh process with one thread."""
    others = psutil.cpu_percent(interval=1.0) / 100 * os.cpu_count()
    command = [sys.executable, __file__, "--child", str(rows), arm, json.dumps(parameters)]
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=True
    )
    return parameters | json.loads(done.stdout) | {"load": round(others, 2)}


def load_split(folder: Path) -> Problem:
    """Return the rows that :func:`measure_case` saved."""
    X, y = load_rows(folder / "train.npz")
    X_test, y_test = load_rows(folder / "test.npz")
    return as_problem(X, y, X_test=X_test, y_test=y_test)


def fit(problem: Problem, arm: str, parameters: dict[str, float]) -> dict:
    """Run one arm to its end in this process; the share of its small quadratic programs, too."""
    name, own = ARMS[arm]
    spent, solve = [0.0], model.solve_qp

    def timed(*arguments):
        before = process_time()
        value = solve(*arguments)
        spent[0] += process_time() - before
        return value

    trace, state = run(name, problem.tiny(), parameters=parameters | own)  # compiles
    model.solve_qp = timed
    try:
        trace, state = run(name, problem, parameters=parameters | own, warm_up=False)
    finally:
        model.solve_qp = solve
    peak, last = peak_memory(), trace.last
    return {
        "seconds": last["seconds"],
        "cpu": last["cpu"],
        "error": error(state.scores(problem.X_test), problem.y_test),
        "primal": last["primal"] / (parameters["C"] * problem.n),
        "rounds": last["round"] if "cuts" in last else None,
        "qp_share": spent[0] / last["cpu"],
        "peak_mb": peak,
    }


def print_case(records: list[dict], n: int) -> None:
    """Print medians over the runs, and their ratios to LIBSVM and to the paper's algorithm."""
    arms = list(dict.fromkeys(record["arm"] for record in records))
    middle = {
        arm: {
            key: median(r[key] for r in records if r["arm"] == arm)
            for key in ("cpu", "error", "primal", "rounds", "qp_share", "peak_mb", "C", "gamma")
            if all(r[key] is not None for r in records if r["arm"] == arm)
        }
        for arm in arms
    }
    print(
        f"{'':26}{'C':>5}{'gamma':>7}{'CPU s':>9}{'error':>9}{'P/(Cn)':>9}{'rounds':>8}"
        f"{'QP':>7}{'MB':>7}  LIBSVM / it"
    )
    for arm, m in middle.items():
        cells = f"{m['rounds']:8.0f}{100 * m['qp_share']:6.1f}%" if "rounds" in m else " " * 15
        ratio = f"{middle[RIVAL]['cpu'] / m['cpu']:9.1f}x" if RIVAL in middle else ""
        print(
            f"{arm:26}{m['C']:5g}{m['gamma']:7g}{m['cpu']:9.2f}{100 * m['error']:8.2f}%"
            f"{m['primal']:9.4f}{cells}{m['peak_mb']:7.0f}{ratio}"
        )
    if PLAIN in middle and OURS in middle:
        plain, ours = middle[PLAIN], middle[OURS]
        print(
            f"line search: {plain['rounds'] / ours['rounds']:.1f} times fewer cuts, "
            f"{plain['cpu'] / ours['cpu']:.1f} times faster, "
            f"objective {ours['primal']:.4f} for {plain['primal']:.4f}"
        )
    busiest = max(record["load"] for record in records)
    if busiest > 0.2:
        print(f"warning: others kept up to {busiest:.1f} cores busy")


if __name__ == "__main__":
    main()
