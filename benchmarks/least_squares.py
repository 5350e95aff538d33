"""Compare the speed of stagewise least squares with that of the machine's products.

``python benchmarks/least_squares.py [--runs 3] [--data SPEC] [--out results.json]``
runs the arms in turn, each in a fresh process, and prints medians. The figure
`ls_vs_solvers` compares with peers at equal error. Instead, ``--recipe`` fits the two
models of the recipe for deskewed MNIST with another seed in each run, and evaluates
them first on the last 10,000 training rows, then on the test rows.
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
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from measuring import Clock, forget_peak, load_rows, peak_memory, save_rows

from workbench.core.measures import error
from workbench.core.problem import Problem, as_problem
from workbench.data import SCALES, load
from workbench.data.features import pca
from workbench.least_squares.block_visits import TrainingRows
from workbench.least_squares.generators import fitted
from workbench.least_squares.passes import ls_stagewise_passes
from workbench.least_squares.products import GRAM_ROWS
from workbench.least_squares.stagewise import scores
from workbench.runs.run import machine, versions

DATA = "mnist @ given | 50 pca or synthetic 60000x50x10"
BLOCK = 1024
FEATURES = 8192
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)
LINEAR = {"features": "fourier", "link": "identity", "passes": 1, "inner": 1}
LOGISTIC = {"features": "fourier", "link": "softmax", "passes": 3, "inner": 4}
RECIPE = {  # by scale
    "unit": {"features": "poly4", "n_features": 16_384, "alpha": 1e-3},
    "root": {"features": "poly3", "n_features": 12_288, "alpha": 1e-4},
}
RECIPE_ALL = {"link": "squared_hinge", "block": 2048, "bandwidth": 4.0, "passes": 2}
ARMS: dict[str, dict | None] = {
    "sgemm": None,
    "gram": None,
    "linear": LINEAR,
    "logistic": LOGISTIC,
    "predict": LINEAR,
}


def main() -> None:
    """Measure all arms and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of every arm (default 3)"
    )
    parser.add_argument("--data", default=DATA, help=f"the rows (default {DATA!r})")
    parser.add_argument(
        "--features", type=int, default=FEATURES, help="features of every model"
    )
    parser.add_argument("--out", type=Path, help="where all runs are written as JSON")
    parser.add_argument(
        "--recipe", action="store_true", help="MNIST, deskewed, instead"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        rows, arm = given.child
        print(
            json.dumps(
                measured(arm, as_problem(*load_rows(Path(rows))), given.features)
            )
        )
        return
    if given.recipe:
        for seed in range(given.runs):
            print(recipe(seed, "validation"), recipe(seed, "test"), flush=True)
        return
    problem = load(given.data)
    print(
        f"{problem.name}: n = {problem.n}, d = {problem.d}, k = {problem.k}", flush=True
    )
    runs: dict[str, list[dict]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.npz")
        save_rows(rows, problem.X, problem.y)
        for _ in range(given.runs):
            for arm, done in runs.items():
                done.append(measure(arm, rows, given.features))
    print_table(runs, problem, given.features)
    if given.out:
        results = {"machine": machine(), "versions": versions(), "runs": runs}
        given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure(arm: str, rows: Path, features: int) -> dict:
    """Run one arm in a fresh process of one thread."""
    others = psutil.cpu_percent(interval=1.0) / 100 * os.cpu_count()
    command = [
        sys.executable,
        __file__,
        "--features",
        str(features),
        "--child",
        str(rows),
        arm,
    ]
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout) | {"load": round(others, 2)}


def measured(arm: str, problem: Problem, features: int) -> dict:
    """Run one arm here, and return its seconds, operations and additional memory."""
    work, operations = WORK.get(arm, fit)(problem, ARMS[arm], features)
    forget_peak()
    before = psutil.Process().memory_info().rss / 1e6
    with Clock() as clock:
        work()
    return {
        "seconds": clock.seconds,
        "cpu": clock.cpu,
        "operations": operations,
        "memory_mb": max(0.0, peak_memory() - before),  # Linux counts in batches
    }


def products(
    problem: Problem, parameters: None, features: int
) -> tuple[Callable, float]:
    """Return float32 products as large as those of a block, and their operations."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((GRAM_ROWS, BLOCK), np.float32)
    B = rng.standard_normal((BLOCK, BLOCK), np.float32)
    out = A @ B
    times = 60

    def work() -> None:
        for _ in range(times):
            np.matmul(A, B, out=out)

    return work, times * 2.0 * A.size * BLOCK


def grams(problem: Problem, parameters: None, features: int) -> tuple[Callable, float]:
    """Return the Gram matrix of a block of given features, and its n p^2 operations."""
    g = fitted(problem, "fourier", BLOCK, BLOCK)
    F = np.zeros((problem.n, problem.k), np.float32)
    rows = TrainingRows(problem, F, g, "identity")
    rows.generate(0)
    rows.sums(False)
    return lambda: rows.sums(True), float(problem.n) * BLOCK**2


def fit(problem: Problem, parameters: dict, features: int) -> tuple[Callable, float]:
    """Return a fit, and the operations of its products.

    The Gram matrix of a block is computed in the first pass only. Every visit computes
    the features again, and every step of a visit has two thin products.
    """
    settings = parameters | {"n_features": features, "block": BLOCK}
    for _ in islice(
        ls_stagewise_passes(problem.tiny(), **settings | {"n_features": 64}), 4
    ):
        pass
    n, d, k = problem.n, problem.d, problem.k
    visit = 2 * d + parameters["inner"] * 4 * k
    operations = float(n) * features * (BLOCK + parameters["passes"] * visit)
    return lambda: last(ls_stagewise_passes(problem, **settings)), operations


def predict(
    problem: Problem, parameters: dict, features: int
) -> tuple[Callable, float]:
    """Return the prediction of all rows, with features from seeds, and its
    operations."""
    settings = parameters | {"n_features": features, "block": BLOCK}
    tiny = last(
        islice(ls_stagewise_passes(problem, **settings | {"n_features": BLOCK}), 2)
    )
    g = tiny.generator
    whole = type(g)(g.kind, g.d, features, BLOCK, g.seed, g.s)
    W = np.ones((features, problem.k))
    operations = 2.0 * problem.n * features * (problem.d + problem.k)
    return lambda: scores(whole, problem.X, W), operations


def recipe(seed: int, judged: str) -> dict:
    """Return errors (%) on the validation or test rows, and CPU seconds after
    loading."""
    sys.path.append(str(Path(__file__).parents[1] / "notebooks" / "figures"))
    from upright import deskewed

    given = load("mnist @ given")
    total = 0.0
    found = {"seed": seed, "rows": judged}
    if judged == "validation":
        X = given.X
        y = given.y
        m = given.n - 10_000
        given = replace(as_problem(X[:m], y[:m]), X_test=X[m:], y_test=y[m:])
    with Clock() as clock:
        upright = deskewed(given)
        for scale, settings in RECIPE.items():
            rows = pca(SCALES[scale](upright), 60)
            state = last(ls_stagewise_passes(rows, **RECIPE_ALL | settings, seed=seed))
            own = state.scores(rows.X_test)
            total = total + own
            found[settings["features"]] = round(100 * error(own, given.y_test), 2)
    return found | {
        "average": round(100 * error(total, given.y_test), 2),
        "cpu": clock.cpu,
    }


WORK = {"sgemm": products, "gram": grams, "predict": predict}


def last(steps):
    """Run a stream to its end, and return its last state."""
    *_, state = steps
    return state


def print_table(runs: dict[str, list[dict]], problem: Problem, features: int) -> None:
    """Print medians, and the rates as fractions of that of sgemm in the same runs."""
    middle = {
        arm: {key: median(run[key] for run in done) for key in done[0]}
        for arm, done in runs.items()
    }
    peak = middle["sgemm"]["operations"] / middle["sgemm"]["cpu"]
    print(f"{'':22}{'wall s':>9}{'CPU s':>9}{'Gflop/s':>9}{'of sgemm':>9}{'MB':>7}")
    for arm, m in middle.items():
        rate = m["operations"] / m["cpu"]
        cells = f"{rate / 1e9:9.1f}{100 * rate / peak:8.0f}%"
        print(f"{arm:22}{m['seconds']:9.2f}{m['cpu']:9.2f}{cells}{m['memory_mb']:7.0f}")
    busiest = max(run["load"] for done in runs.values() for run in done)
    if busiest > 0.2:
        print(f"warning: others kept up to {busiest:.1f} cores busy")


if __name__ == "__main__":
    main()
