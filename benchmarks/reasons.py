"""The runs that explain differences from printed numbers, or decide a claim.

    python benchmarks/reasons.py minimax dry_bean
    python benchmarks/reasons.py svm house16
    python benchmarks/reasons.py rounds house16
    python benchmarks/reasons.py waves 4000
    python benchmarks/reasons.py compact letter 3 4

`minimax` prints R* and test errors for several columns, features and lambdas, and `svm`
prints test errors of the L1-norm SVM. `rounds` prints average errors of MRC-CCG,
`waves` reproduces Table 1 of least squares on mnist, and `compact` solves MRC-LP as a
small program and by HiPO. data/reference/tried.csv has the outcomes. A case takes some
minutes. Only `compact` is timed; HiGHS's interior point method HiPO takes part if the
package highspy-extras is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from time import process_time
from unittest.mock import patch

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from workbench.core.measures import errors
from workbench.core.problem import Problem
from workbench.core.stream import stopping
from workbench.data import load
from workbench.data.features import median_distance
from workbench.mrc import interior_point
from workbench.mrc.highs import minimise
from workbench.mrc.lp import all_subsets, constraints
from workbench.mrc.risk import MinimaxRisk, minimax_risk
from workbench.runs.run import run

SCALES = "standard", "given"
FEATURES = "+ 400 fourier", "| 400 fourier", "| 400 mrcpy"


def prepared(name: str, scale: str, features: str, seed: int = 0) -> Problem:
    """Return 80 % of the rows, with random Fourier features appended or these alone."""
    return load(f"{name} @ {scale} {features}", test=0.2, seed=seed)


def confidence(problem: Problem, lambda0: float, equal: bool) -> MinimaxRisk:
    """Return the problem; with `equal`, lambda is `lambda0` and not times the
    deviation."""
    risk = minimax_risk(problem, lambda0)
    return replace(risk, lam=np.where(risk.active, lambda0, 0.0)) if equal else risk


def ended(
    solver: str, problem: Problem, cpu: float, parameters=None, **stop
) -> tuple[dict, float]:
    """Return the last row of a run, and the test error in %."""
    rules = stopping({"cpu": cpu} | stop)
    trace, state = run(solver, problem, *rules, parameters=parameters)
    return trace.last, 100 * errors(problem)(state)["test_error"]


def minimax(name: str) -> Iterator[str]:
    """Yield minimax risks and test errors by columns, features and lambda."""
    for scale, features, equal in product(SCALES, FEATURES, (False, True)):
        problem = prepared(name, scale, features)
        with patch.object(
            interior_point, "minimax_risk", partial(confidence, equal=equal)
        ):
            last, error = ended("mrc_interior_point", problem, 30.0, gap=5e-3)
        choice = "the same for all" if equal else "by deviation"
        about = f"@ {scale} {features}, lambda {choice}"
        interval = f"[{last['lower']:.3f}, {last['upper']:.3f}]"
        yield f"{about}: R* in {interval}, error {error:.1f} %"


def svm(name: str) -> Iterator[str]:
    """Yield test errors of the L1-norm SVM, with lambda for the mean or the sum."""
    for scale, features in product(SCALES, FEATURES):
        problem = prepared(name, scale, features)
        for against, lam in (("mean", 0.01), ("sum", 0.01 / problem.n)):
            last, error = ended("svm_ccg", problem, 60.0, {"lam": lam})
            about = f"@ {scale} {features}, {against}"
            yield f"{about}: error {error:.1f} % ({last['stopped_by']})"


def rounds(name: str) -> Iterator[str]:
    """Yield the errors |R^k - R*| at which MRC-CCG ends, by settings, columns and
    split."""
    settings = {
        "as printed": {},
        "eps1 = 1e-3": {"eps1": 1e-3},
        "n_max = 100": {"n_max": 100},
    }
    arms = [(about, "mrc_ccg", own) for about, own in settings.items()]
    for scale, features, seed in product(SCALES, FEATURES[::2], range(3)):
        problem = prepared(name, scale, features, seed)
        best = ended("mrc_interior_point", problem, 120.0, gap=2e-6)[0]
        for about, solver, own in [*arms, ("our start", "mrc_ccg_fast", {})]:
            trace, _ = run(solver, problem, *stopping({"cpu": 120.0}), parameters=own)
            low, high = (abs(trace.last["R"] - best[end]) for end in ("upper", "lower"))
            yield (
                f"@ {scale} {features}, split {seed}, {about}: between "
                f"{min(low, high):.1e} and {max(low, high):.1e} after "
                f"{trace.last['round']} rounds ({trace.stopped_by})"
            )


def waves(m: str) -> Iterator[str]:
    """Yield the test errors of both methods of Table 1 on `m` random Fourier
    features."""
    m = int(m)
    problem = load("mnist @ maximum | 50 pca")
    X, X_test = (x.astype(np.float32) for x in (problem.X, problem.X_test))
    y, y_test = problem.y, problem.y_test
    median = median_distance(problem)
    kinds = product(("pairs", "phases"), (1.0, 1 / median, 0.3, 3.0))
    Y = np.eye(10, dtype=np.float32)[y]
    normal = np.random.default_rng(0)
    for kind, width in kinds:
        W = normal.standard_normal((50, m)) * np.sqrt(2 / (width * median**2))
        b = normal.uniform(0, 2 * np.pi, m)
        if kind == "pairs":  # a cosine and a sine of each frequency
            W[:, m // 2 :] = W[:, : m // 2]
            b = np.repeat((0, -np.pi / 2), m // 2)

        W, b = W.astype(np.float32), b.astype(np.float32)
        Z, Z_test = (
            np.cos(rows @ W + b) * np.float32(np.sqrt(2 / m)) for rows in (X, X_test)
        )
        G, R = (Z.T @ Z).astype(float) / len(y), (Z.T @ Y).astype(float) / len(y)
        about = f"{kind}, s = {width:.2g} squared medians"
        for alpha in (1e-5, 1e-6, 1e-7, 1e-8):
            found = sl.solve(G + alpha * np.eye(m), R, assume_a="pos").astype(
                np.float32
            )
            wrong = 100 * np.mean((Z_test @ found).argmax(axis=1) != y_test)
            yield f"{about}: linear, alpha = {alpha:g}: {wrong:.2f} %"
        for alpha in (1e-6, 1e-7):
            path = logistic(Z, Y, sl.cho_factor(G + 2 * alpha * np.eye(m)), alpha)
            for t, V in enumerate(path, 1):
                if t in (50, 100, 300):
                    wrong = 100 * np.mean((Z_test @ V).argmax(axis=1) != y_test)
                    how = f"logistic, alpha = {alpha:g}, {t} rounds"
                    yield f"{about}: {how}: {wrong:.2f} %"
                if t == 300:
                    break


def logistic(
    Z: np.ndarray, Y: np.ndarray, factor, alpha: float
) -> Iterator[np.ndarray]:
    """Yield the weights after each round of Algorithm 1 with Nesterov's momentum."""
    V = last = np.zeros((Z.shape[1], Y.shape[1]), np.float32)
    theta = 1.0
    while True:
        P = np.exp((S := Z @ V) - S.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        slope = (Z.T @ (P - Y)).astype(float) / len(Z) + alpha * V
        new = (V - 2 * sl.cho_solve(factor, slope)).astype(np.float32)
        yield new
        later = (1 + np.sqrt(1 + 4 * theta**2)) / 2
        V, last, theta = (
            new + np.float32((theta - 1) / later) * (new - last),
            new,
            later,
        )


def compact(name: str, *classes: str) -> Iterator[str]:
    """Yield the CPU seconds of MRC-LP, its compact program and MRC-CCG (gap 0.01).

    The constraint max_S (sum_S v_y - 1) / |S| <= nu - 1 is equivalent to sum_y (v_y -
    nu + 1)_+ <= 1, which takes k + 1 rows for each x instead of 2^k - 1. Each program
    is solved as it is and as its dual, for at most 60 s.
    """
    methods = "simplex", *["hipo"] * (find_spec("highspy_extras") is not None)
    for k in classes:
        problem = load(f"{name} | {k} classes")
        risk = minimax_risk(problem, 0.01)
        J = np.flatnonzero(risk.active)
        n = risk.n
        tau, lam = risk.tau.ravel()[J], risk.lam.ravel()[J]
        cost = np.r_[lam - tau, lam + tau, 1.0]
        free = 2 * len(J)
        rules = stopping({"cpu": 60.0, "gap": 0.01})
        last = run("mrc_ccg", problem, *rules, parameters={"eps1": 1e-3})[0].last
        yield f"{k} classes: MRC-CCG {last['cpu']:.2f} s to a gap of {last['gap']:.2g}"
        subsets = all_subsets(risk.k)
        rows = np.repeat(np.arange(n), len(subsets))
        masks = np.tile(subsets, (n, 1))
        scores = sp.kron(sp.eye(risk.k), risk.X, format="csc")[:, J]
        above = sp.hstack(
            [scores, -scores, -np.ones((n * risk.k, 1)), -sp.eye(n * risk.k)]
        )
        once = sp.hstack([sp.csr_matrix((n, free + 1)), *[sp.eye(n)] * risk.k])
        small = (
            sp.vstack([above, once], format="csr"),
            np.repeat([-1.0, 1.0], [n * risk.k, n]),
        )
        longer = np.r_[cost, np.zeros(n * risk.k)]
        programs = {
            "2^k - 1 rows": (cost, *constraints(risk.X[rows], masks, J)),
            "k + 1 rows": (longer, *small),
        }
        for (program, (c, A, b)), method in product(programs.items(), methods):
            lower = np.full(len(c), -np.inf)
            lower[free] = c[free]
            for dual in (False, True):
                begun = process_time()
                how = {"method": method, "seconds": 60.0}
                if dual:
                    found = minimise(b, -A.T.tocsr(), c, lower=lower, **how)
                else:
                    found = minimise(c, A, b, free=[free], **how)
                value = (
                    f"{abs(found.objective):.6f}" if found.optimal else "not optimal"
                )
                form = "dual" if dual else "primal"
                took = process_time() - begun
                yield f"{k} classes, {program}, {form}, {method}: {took:.2f} s, {value}"


CASES = {case.__name__: case for case in (minimax, svm, rounds, waves, compact)}

if __name__ == "__main__":
    for line in CASES[sys.argv[1]](*sys.argv[2:]):
        print(line, flush=True)
