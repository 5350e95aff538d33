"""Compare sampled cuts with LIBSVM on the same problems, tuned alike.

``python benchmarks/sampled_cuts.py [CASE ...] [--runs 3] [--out results.json]`` tunes C
and gamma of every arm on rows held out of the training rows, then runs the arms in
turn, each in a fresh process with one thread, and prints medians. README.md in this
folder says what is timed.

Two more cases run only by name. ``sets`` runs LIBSVM and the line search in turn, in
one process, on all data sets with at most ``--rows`` training rows each. ``flat`` runs
the constant time algorithm with the same parameters on 10,000, 100,000 and 1,000,000
rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
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
from workbench.data import load
from workbench.data.specs import listed
from workbench.data.synthetic import checkers
from workbench.kernels.mercer import scale
from workbench.runs.run import machine, run, versions
from workbench.sampled_cuts import model

ARMS = {
    "LIBSVM": ("libsvm", {}),
    "linear time": ("cuts_linear_time", {"eps": 5e-3}),
    "linear time, line search": ("cuts_linear_time_fast", {}),
    "constant time": ("cuts_constant_time", {"r": 400, "eps": 5e-3}),
    "exact, Nyström": ("cuts_nystroem", {"landmarks": 500, "eps": 5e-3}),
    "LIBLINEAR, Nyström": ("nystroem_svm", {"landmarks": 500}),
}
RIVAL = "LIBSVM"
PLAIN = "linear time"
OURS = "linear time, line search"
ALIKE = "LIBSVM, same C and gamma"  # those of the arm that it is compared with
ARMS[ALIKE] = ARMS[RIVAL]
GRID = {"C": (1.0, 10.0), "gamma": None}
# Rows, at most.
TUNED_ON = 8_000
VALIDATED_ON = 8_000
TEST_ROWS = 50_000  # rows of generated data
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)


class Case(NamedTuple):
    """Training and test rows, the widths to try, and the arms that take too long."""

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
    return load("a9a @ given | 70 % rows")


# Constants, if tuned, were tuned on the first sets, and are judged on the others.
TUNING = (
    "digits, breast_cancer, dna, letter, ijcnn1, mnist, optdigits, pulsar, news20 @ "
    "tfidf, onet_titles @ tfidf | 100 classes, a9a @ given, satimage, covtype_10k"
)
JUDGING = (
    "wine, iris, adult, cifar10_4k @ unit, dry_bean, fashion_mnist, house16, usps, "
    "sector @ tfidf, rcv1_ce_g @ given, icd10 @ tfidf | 100 classes, omniglot | 100 "
    "classes, checkers 10000"
)
SET_ROWS = 20_000  # training rows of a set, at most; with more, LIBSVM takes minutes
SLOW = 10.0  # CPU seconds of both arms above which a set is run only once
SET_TUNED_ON = 1_500
SET_VALIDATED_ON = 1_500
WIDTHS = (0.3, 1.0, 3.0)  # multiples of scikit-learn's "scale"
BOARD_WIDTHS = (10.0, 30.0, 100.0)
SIZES = (10_000, 100_000, 1_000_000)

CASES = {
    "checkers 10k": Case(lambda: board(10_000), (10.0, 30.0, 100.0)),
    "checkers 30k": Case(lambda: board(30_000), (10.0, 30.0, 100.0)),
    "checkers 100k": Case(lambda: board(100_000), (10.0, 30.0, 100.0)),
    "checkers 1M": Case(
        lambda: board(1_000_000),
        (10.0, 30.0, 100.0),
        (RIVAL, PLAIN, "LIBLINEAR, Nyström"),
    ),
    "adult": Case(adult, (0.01, 0.03, 0.1)),
}


def main() -> None:
    """Measure the cases named on the command line, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    known = [*CASES, "sets", "flat"]
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(known))
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of every arm (default 3)"
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=SET_ROWS,
        help="sets: training rows at most (default 20,000)",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME,NAME",
        help="sets: those that begin so (default all)",
    )
    parser.add_argument("--out", type=Path, help="where all runs are written as JSON")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        rows, arm, parameters = given.child
        print(json.dumps(fit(load_split(Path(rows)), arm, json.loads(parameters))))
        return
    unknown = set(given.cases) - set(known)
    if unknown:
        parser.error(
            f"unknown case {', '.join(sorted(unknown))}; known cases: "
            f"{'; '.join(known)}"
        )
    sets = partial(measure_sets, most=given.rows, only=tuple(given.only.split(",")))
    others = {"sets": sets, "flat": measure_flat}
    runs = []
    for name in given.cases or CASES:
        if name in others:
            runs += others[name](given.runs)
        else:
            runs += measure_case(name, CASES[name], given.runs)
        if given.out:
            results = {"machine": machine(), "versions": versions(), "runs": runs}
            given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure_case(name: str, case: Case, runs: int) -> list[dict]:
    """Tune the arms of a case, run them in turn, print a table and return the runs."""
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
                records.append(
                    {"case": name, "arm": arm} | measure(rows, arm, parameters)
                )
    print_case(records, problem.n)
    return records


def measure_sets(
    runs: int, most: int = SET_ROWS, only: tuple[str, ...] = ("",)
) -> list[dict]:
    """Tune and time both arms on every set; print a row for each, and medians."""
    records = []
    warned = 0.0
    print(
        f"\n{'':34}{'rows':>6}{'k':>5}  {RIVAL + ': s, error':>18}  "
        f"{'ours: s, error':>18}{'rounds':>8}  ratio"
    )
    for half, specs in (("tuned on", TUNING), ("judged on", JUDGING)):
        ratios = []
        for spec in listed(specs):
            if not spec.startswith(only):
                continue
            try:
                problem = capped(load(spec), most)
            except FileNotFoundError:
                print(f"{spec:34}  not available")
                continue
            widths = BOARD_WIDTHS if spec.startswith("checkers") else widths_of(problem)
            few = SET_TUNED_ON, SET_VALIDATED_ON
            tuned = {arm: tune(problem, arm, widths, *few) for arm in (RIVAL, OURS)}
            found = {RIVAL: [], OURS: []}
            while len(found[OURS]) < runs:
                for arm, parameters in tuned.items():
                    warned = max(warned, os.getloadavg()[0])
                    found[arm].append(parameters | fit(problem, arm, parameters))
                if sum(found[arm][0]["cpu"] for arm in found) > SLOW:
                    break
            middle = {arm: median(one["cpu"] for one in found[arm]) for arm in found}
            errors = {arm: found[arm][0]["error"] for arm in found}
            spread = np.sqrt(
                2 * errors[RIVAL] * (1 - errors[RIVAL]) / len(problem.y_test)
            )
            worse = " (worse)" if errors[OURS] > errors[RIVAL] + 2 * spread else ""
            ratios.append(middle[RIVAL] / middle[OURS])
            cells = "  ".join(
                f"{middle[arm]:10.2f} {100 * errors[arm]:6.2f}%" for arm in found
            )
            ratio = f"{found[OURS][0]['rounds']:8}  {ratios[-1]:5.2f}x{worse}"
            print(f"{spec:34}{problem.n:6}{problem.k:5}  {cells}{ratio}", flush=True)
            records += [
                {"case": spec, "half": half, "arm": arm} | one
                for arm in found
                for one in found[arm]
            ]
        if ratios:
            reached = sum(ratio >= 1.5 for ratio in ratios)
            print(
                f"{half}: median {median(ratios):.2f}x, 1.5x or more on {reached} of "
                f"{len(ratios)}"
            )
    print(f"load at most {warned:.1f}")
    return records


def capped(problem: Problem, most: int) -> Problem:
    """Return the problem, or a stratified part of it with `most` training rows."""
    return problem.subset(most / problem.n, 0) if problem.n > most else problem


def widths_of(problem: Problem) -> tuple[float, ...]:
    """Return the gammas to try, multiples of scikit-learn's "scale"."""
    return tuple(factor * scale(problem) for factor in WIDTHS)


def measure_flat(runs: int) -> list[dict]:
    """Time the constant time algorithm by number of rows, with C constant, then C n.

    Each run has its own seed, since the samples decide how many rounds it takes.
    """
    records = []
    for kept in ("C", "C n"):
        first = None
        for seed in range(runs):
            for n in SIZES:
                C = 1.0 if kept == "C" else SIZES[0] / n
                parameters = {"C": C, "gamma": 30.0, "seed": seed}
                one = fit(board(n), "constant time", parameters)
                records.append({"case": f"flat, {kept}", "n": n} | one)
        for n in SIZES:
            of = [r for r in records if r["n"] == n and r["case"] == f"flat, {kept}"]
            seconds, rounds, wrong = (
                median(r[key] for r in of) for key in ("cpu", "rounds", "error")
            )
            first = first or seconds
            print(
                f"{kept:4} the same, n = {n:8}: {rounds:5.0f} rounds, {seconds:6.2f} "
                f"s, {seconds / first:5.2f} times, error {100 * wrong:.2f}%",
                flush=True,
            )
    return records


def tune(
    problem: Problem,
    arm: str,
    gammas: tuple[float, ...],
    most: int = TUNED_ON,
    held_out: int = VALIDATED_ON,
) -> dict[str, float]:
    """Return the C and gamma of smallest error on held-out training rows."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(problem.n)
    fitted = rows[: min(most, problem.n // 2)]
    held = rows[len(fitted) : len(fitted) + held_out]
    X, y = problem.X, problem.y
    held = held[np.isin(y[held], y[fitted])]  # the fit knows no other class
    part = as_problem(X[fitted], y[fitted], X_test=X[held], y_test=y[held])
    grid = [{"C": C, "gamma": gamma} for C, gamma in product(GRID["C"], gammas)]
    return min(grid, key=lambda parameters: fit(part, arm, parameters)["error"])


def measure(rows: Path, arm: str, parameters: dict[str, float]) -> dict:
    """Run one arm in a fresh process with one thread."""
    others = psutil.cpu_percent(interval=1.0) / 100 * os.cpu_count()
    command = [
        sys.executable,
        __file__,
        "--child",
        str(rows),
        arm,
        json.dumps(parameters),
    ]
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
    """Run one arm to its end in this process, and time its small quadratic programs."""
    name, own = ARMS[arm]
    spent = [0.0]
    solve = model.solve_qp

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
    peak = peak_memory()
    last = trace.last
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
    """Print medians, and their ratios to LIBSVM and to the paper's algorithm."""
    arms = list(dict.fromkeys(record["arm"] for record in records))
    middle = {
        arm: {
            key: median(r[key] for r in records if r["arm"] == arm)
            for key in (
                "cpu",
                "error",
                "primal",
                "rounds",
                "qp_share",
                "peak_mb",
                "C",
                "gamma",
            )
            if all(r[key] is not None for r in records if r["arm"] == arm)
        }
        for arm in arms
    }
    print(
        f"{'':26}{'C':>5}{'gamma':>7}{'CPU s':>9}{'error':>9}{'P/(Cn)':>9}{'rounds':>8}"
        f"{'QP':>7}{'MB':>7}  LIBSVM / it"
    )
    for arm, m in middle.items():
        cells = (
            f"{m['rounds']:8.0f}{100 * m['qp_share']:6.1f}%"
            if "rounds" in m
            else " " * 15
        )
        ratio = f"{middle[RIVAL]['cpu'] / m['cpu']:9.1f}x" if RIVAL in middle else ""
        print(
            f"{arm:26}{m['C']:5g}{m['gamma']:7g}{m['cpu']:9.2f}{100 * m['error']:8.2f}%"
            f"{m['primal']:9.4f}{cells}{m['peak_mb']:7.0f}{ratio}"
        )
    if PLAIN in middle and OURS in middle:
        plain = middle[PLAIN]
        ours = middle[OURS]
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
