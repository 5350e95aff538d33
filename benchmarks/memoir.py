"""MEMOIR's exact search against graphs, and our working sets against LIBLINEAR.

``python benchmarks/memoir.py [CASE ...] [--runs 3] [--out results.json]`` chooses the
parameters of every arm that has a grid on rows held out of the training rows. Then it
runs the arms in turn, each in a fresh process with one thread, and prints medians.
README.md in this folder says what is timed. Without names it runs the cases that
together take less than five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import psutil
import scipy.sparse as sp
from measuring import Clock, forget_peak, load_rows, peak_memory, save_rows

from workbench.core.measures import macro
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import rounds
from workbench.data import load
from workbench.memoir.mips import inexactness, make_oracle, scores
from workbench.memoir.working_set import truncated
from workbench.peers.centroid import centroid
from workbench.runs.run import machine, run, versions, warm

QUERIES = 2_000  # rows whose best wrong class is searched
JUDGED = 10_000  # at most this many test rows
TRUNCATE = (
    0.25  # weights below this times their root mean square are not part of a model
)
SLACK = 0.5  # standard errors by which a faster setting may be worse
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)


class Linear(NamedTuple):
    """Weights (d, k) as a state, for the measures."""

    W: sp.csr_array | np.ndarray

    def scores(self, X):
        return scores(X, self.W)


def centroids(problem: Problem) -> sp.csr_array:
    """Return the weights of the cosine centroids, (d, k)."""
    *_, state = centroid(problem)
    return sp.csr_array(state.W.T, dtype=np.float32)


def search(problem: Problem, *, mips: str, **options: Any) -> dict:
    """Search the best wrong class of some rows, with the centroids as weights."""
    W, rows, y = searched(problem)
    small = make_oracle(mips, k=5, d=problem.d, **options)  # compiles
    small.update(W[:, :5])
    small.query(problem.X, rows[:5], y[:5] % 5)
    oracle = make_oracle(mips, k=problem.k, d=problem.d, **options)
    oracle.update(W)
    oracle.query(problem.X, rows, y)
    return costs_of_search(problem, oracle.build_seconds, oracle.query_seconds) | {
        "recall": inexactness(oracle, W, problem.X, rows, y)["recall"]
    }


def multiply(problem: Problem) -> dict:
    """Search the same classes with SciPy's product of sparse matrices."""
    W, rows, y = searched(problem)
    with Clock() as clock:
        S = (problem.X[rows] @ W).toarray()
        S[np.arange(len(rows)), y] = -np.inf
        np.argmax(S, axis=1)
    return costs_of_search(problem, 0.0, clock.cpu) | {"recall": 1.0}


def searched(problem: Problem) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Return the weights, and the rows and labels of the search."""
    rows = np.random.default_rng(0).permutation(problem.n)[:QUERIES]
    return centroids(problem), rows, problem.y[rows]


def costs_of_search(problem: Problem, build: float, query: float) -> dict:
    """Return milliseconds per query, alone and with its share of building the index."""
    once = 1e3 * query / min(QUERIES, problem.n)
    return {
        "cpu": once,
        "with_build": once + 10 * build / problem.k**0.5,
        "build_s": build,
    }


def memoir(problem: Problem, *, solver: str, count: int, **parameters: Any) -> dict:
    """Train MEMOIR for a number of rounds."""
    return trained(problem, solver, parameters, count, lambda state: state.model())


def working_sets(
    problem: Problem, *, count: int, balance: float = 0.0, **parameters: Any
) -> dict:
    """Train our solver, with rows weighted by (rows of their class)^-balance."""
    weights = np.bincount(problem.y)[problem.y] ** -balance
    problem = replace(problem, weights=weights / weights.mean())
    return trained(
        problem, "cs_working_set", parameters, count, lambda state: state.model()
    )


def trained(
    problem: Problem,
    solver: str,
    parameters: dict,
    count: int,
    model: Callable[[Any], Any],
) -> dict:
    """Run one of our solvers and evaluate its model; certificates are not timed."""
    run(solver, problem.tiny(), rounds(2), parameters=parameters)
    before = begin()
    trace, state = run(
        solver, problem, rounds(count), parameters=parameters, warm_up=False
    )
    found = {"cpu": trace.last["cpu"], "peak_mb": grown(before)}
    arrays = [a for a in vars(state).values() if isinstance(a, np.ndarray)]
    found["state_mb"] = sum(a.nbytes for a in arrays) / 1e6
    return found | judged(problem, model(state))


def liblinear(problem: Problem, *, C: float, tol: float) -> dict:
    """Train scikit-learn's Crammer-Singer SVM (LIBLINEAR), without an intercept."""
    from sklearn.svm import LinearSVC

    settings = {
        "multi_class": "crammer_singer",
        "fit_intercept": False,
        "random_state": 0,
    }
    svm = LinearSVC(C=C, tol=tol, **settings)
    X = problem.X.astype(float)  # the type that LIBLINEAR needs
    before = begin()
    with Clock() as clock:
        svm.fit(X, problem.y)
    found = {"cpu": clock.cpu, "peak_mb": grown(before)}
    return found | judged(problem, np.ascontiguousarray(svm.coef_.T, np.float32))


def nothing_learnt(problem: Problem) -> dict:
    """Use the centroids as the model."""
    warm(centroid, problem, {})
    before = begin()
    with Clock() as clock:
        W = centroids(problem)
    found = {"cpu": clock.cpu, "peak_mb": grown(before)}
    return found | judged(problem, W)


def begin() -> float:
    """Reset the peak memory, and return the present size in MB."""
    forget_peak()
    return psutil.Process().memory_info().rss / 1e6


def grown(before: float) -> float:
    """Return by how many MB the process has grown beyond `before`, at its peak."""
    return max(0.0, peak_memory() - before)


def judged(problem: Problem, W: sp.csr_array | np.ndarray) -> dict:
    """Return accuracies in percent, and the model's megabytes at 8 bytes per weight.

    The weights of every arm are truncated at :data:`TRUNCATE`.
    """
    W = truncated(sp.csr_array(W, dtype=np.float32, copy=True), TRUNCATE)
    found = macro(problem)(Linear(W))
    return {
        "accuracy": 100 * (1 - found["test_error"]),
        "macro_f1": 100 * found["macro_f1"],
        "model_mb": 8e-6 * W.nnz,
    }


class Case(NamedTuple):
    """Data as `load` reads them, the arms, their grids, and the arm whose time is 1."""

    data: str
    arms: dict[str, Callable[..., dict]]
    rival: str
    grids: dict[str, list[dict]] | None = None
    test: float | None = 0.2  # share of test rows; None for the published split


GRAPH = {"mips": "sw_graph", "ef": 50}
SEARCH = {
    "exact": partial(search, mips="exact"),
    "product (SciPy)": multiply,
    "graph (nmslib, ef = 50)": partial(search, **GRAPH),
}
BATCHES = {
    "exact": partial(memoir, solver="memoir_l2", count=3),
    "graph, rebuilt each batch": partial(
        memoir, solver="memoir_l2", count=3, mips="sw_graph", ef=50
    ),
}
AVERAGED = {
    f"averaged, W {'dense' if dense else 'listed'}": partial(
        memoir, solver="memoir_averaged", count=5, dense=dense
    )
    for dense in (True, False)
}
OURS = "working sets (ours)"
LIBLINEAR = "Crammer-Singer (LIBLINEAR)"
RIVALS = {"centroids": nothing_learnt, OURS: working_sets, LIBLINEAR: liblinear}
CHOICES = {
    OURS: [
        {"C": C, "l1": l1, "count": count}
        for C, l1, count in product((1.0, 3.0), (0.0, 0.02, 0.05), (2, 3, 4))
    ],
    LIBLINEAR: [
        {"C": C, "tol": tol} for C, tol in product((0.3, 1.0, 3.0), (2.0, 0.5, 0.1))
    ],
}
MANY = {
    "centroids": nothing_learnt,
    OURS: partial(working_sets, C=1.0, l1=0.03, balance=0.25, count=2),
}
CASES = {
    "query 1k": Case("text 10000x1000", SEARCH, "exact"),
    "query 5k": Case("text 50000x5000", SEARCH, "exact"),
    "query 12k": Case("text 120000x12000", SEARCH, "exact"),
    "training 1k": Case("text 10000x1000", BATCHES, "exact"),
    "sector": Case("sector @ unit", RIVALS, OURS, CHOICES, None),
    "news20": Case("news20 @ tfidf", RIVALS, OURS, CHOICES, None),
    "onet_titles": Case("onet_titles @ tfidf", RIVALS, OURS, CHOICES),
    "icd10": Case("icd10 @ tfidf", RIVALS, OURS, CHOICES, None),
    "text 300": Case("text 6000x300", RIVALS, OURS, CHOICES),
    "text 1k": Case("text 20000x1000", RIVALS, OURS, CHOICES),
    "averaged sector": Case("sector @ unit", AVERAGED, "averaged, W dense", None, None),
    "averaged text": Case("text 10000x1000", AVERAGED, "averaged, W dense"),
    "100k classes": Case("text 500000x100000", MANY, OURS),
}
USUAL = ("query 1k", "training 1k", "sector", "averaged sector")


def main() -> None:
    """Measure the cases named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(CASES))
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of every arm (default 3)"
    )
    parser.add_argument(
        "--data", help="other data for the cases named, 'text 1000x50' say"
    )
    parser.add_argument("--out", type=Path, help="where all runs are written as JSON")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        rows, case, arm, parameters = given.child
        problem = load_split(Path(rows))
        print(json.dumps(CASES[case].arms[arm](problem, **json.loads(parameters))))
        return
    unknown = set(given.cases) - set(CASES)
    if unknown:
        parser.error(
            f"unknown case {', '.join(sorted(unknown))}; known cases: "
            f"{'; '.join(CASES)}"
        )
    runs = []
    for name in given.cases or USUAL:
        case = CASES[name]._replace(**({"data": given.data} if given.data else {}))
        runs += measure_case(name, case, given.runs)
        if given.out:
            results = {"machine": machine(), "versions": versions(), "runs": runs}
            given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure_case(name: str, case: Case, runs: int) -> list[dict]:
    """Tune the arms of a case, run them in turn, print a table and return the runs."""
    try:
        problem = load(case.data, test=case.test)
        held = (
            load(f"{case.data} | 15 % validation", test=case.test)
            if case.grids
            else None
        )
    except FileNotFoundError as missing:
        print(f"\n{name}: skipped, {missing}")
        return []
    print(f"\n{name}: n = {problem.n}, d = {problem.d}, k = {problem.k}", flush=True)
    grids = case.grids or {}
    tuned = {
        arm: choose(held, fit, grids[arm]) if arm in grids else {}
        for arm, fit in case.arms.items()
    }
    records = []
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder)
        save_rows(rows / "train.npz", problem.X, problem.y)
        save_rows(rows / "test.npz", problem.X_test[:JUDGED], problem.y_test[:JUDGED])
        del problem, held
        for _ in range(runs):
            for arm, parameters in tuned.items():
                found = measure(rows, name, arm, parameters)
                records.append({"case": name, "arm": arm, "chosen": parameters} | found)
    print_case(records, case.rival)
    return records


def choose(held: Problem, fit: Callable[..., dict], grid: list[dict]) -> dict:
    """Return the fastest point of a grid with a validation error near the best."""
    found = [fit(held, **point) for point in grid]
    best = max(one["accuracy"] for one in found) / 100
    level = 100 * (best - SLACK * np.sqrt(best * (1 - best) / len(held.y_test)))
    good = [i for i, one in enumerate(found) if one["accuracy"] >= level]
    return grid[min(good, key=lambda i: found[i]["cpu"])]


def measure(rows: Path, case: str, arm: str, parameters: dict) -> dict:
    """Run one arm in a fresh process with one thread."""
    others = psutil.cpu_percent(interval=1.0) / 100 * os.cpu_count()
    child = ["--child", str(rows), case, arm, json.dumps(parameters)]
    command = [sys.executable, __file__, *child]
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{case}, {arm}: failed, see above")
    return json.loads(done.stdout.splitlines()[-1]) | {"load": round(others, 2)}


def load_split(folder: Path) -> Problem:
    """Return the rows that :func:`measure_case` saved."""
    X, y = load_rows(folder / "train.npz")
    X_test, y_test = load_rows(folder / "test.npz")
    return as_problem(X, y, X_test=X_test, y_test=y_test)


def print_case(records: list[dict], rival: str) -> None:
    """Print medians over the runs, and the ratios of CPU times to that of the rival."""
    skipped = ("case", "arm", "chosen", "load")
    columns = [
        key
        for key in dict.fromkeys(k for r in records for k in r)
        if key not in skipped
    ]
    middle = {}
    for record in records:
        same = [r for r in records if r["arm"] == record["arm"]]
        there = [key for key in columns if key in record]
        middle[record["arm"]] = {key: median(r[key] for r in same) for key in there}
    print(f"{'':30}" + "".join(f"{key:>11}" for key in columns) + f"   cpu / {rival}")
    for arm, m in middle.items():
        cells = "".join(f"{m[key]:11.4g}" if key in m else " " * 11 for key in columns)
        chosen = next(r["chosen"] for r in records if r["arm"] == arm)
        words = ", ".join(f"{key} = {value:g}" for key, value in chosen.items())
        print(f"{arm:30}{cells}{m['cpu'] / middle[rival]['cpu']:9.2f}x  {words}")
    busiest = max(record["load"] for record in records)
    if busiest > 0.2:
        print(f"warning: others kept up to {busiest:.1f} cores busy")


if __name__ == "__main__":
    main()
