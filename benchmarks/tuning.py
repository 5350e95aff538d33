"""Certified tuning next to grids: what a proof costs, how far grids miss, and whether it holds.

``table`` measures, for each data set and split, a warm grid of 30 values of C with our solver (gap
1e-3 of the objective), scikit-learn's GridSearchCV over LinearSVC with the same values, searches to
each eps, and grids of other sizes; ``ablation`` the search by balls of one knot, of two (T2), and
with tilts (T2+T3); ``dense`` compares each row's certificate with solutions at many C;
``random`` does so on the tiny problems of ``tests/test_tuning.py``. All run in one process of one
thread, and what ``benchmarks/tuning.csv`` already holds is not measured again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import LinearSVC
from sklearn.utils._testing import ignore_warnings

from workbench.core.problem import Problem
from workbench.data.panels import panel
from workbench.kernels.rows import lanes, squared_norms
from workbench.tuning.search import Search, scanned
from workbench.tuning.state import EDGES, PIECES, parted
from workbench.tuning.weston_watkins import Balls, certify_path, start
from workbench.weston_watkins.dual import WWState, evaluated
from workbench.weston_watkins.dual import start as cold
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.pivoting import solved

TABLE = Path(__file__).with_suffix(".csv")
SETS = {  # scale, and the largest C; the smallest one is 1e-3
    "digits": ("maximum", 1e2),
    "dna": ("given", 1e2),
    "satimage": ("range", 1.0),
    "usps": ("unit", 1.0),
    "letter": ("range", 1.0),
}
EPS = (1.0, 0.5, 0.1, 0.0)  # % of the validation rows
SIZES = (5, 10, 30, 100)  # values of C in each grid
GRID_GAP, DENSE_GAP = 1e-3, 1e-8  # relative to the objective; to that of W = 0
KINDS = ("plain", "duplicates", "separable", "zero rows", "weights")


@cache
def fold(name: str, seed: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return three quarters of the training rows, and the others with their labels."""
    problem = panel(f"{name} @ {SETS[name][0]} | 25 % validation", seed, None)
    return problem, problem.X_test, problem.classes[problem.y_test]


def values(name: str, size: int) -> np.ndarray:
    """Return the C of a grid."""
    return np.geomspace(1e-3, SETS[name][1], size)


def errors(scores: np.ndarray, problem: Problem) -> int:
    return int((scores.argmax(axis=1) != problem.y_test).sum())


def grid(name: str, seed: int, size: int) -> dict:
    """Measure a grid, each solution from the last one, scaled."""
    problem, found, s = fold(name, seed)[0], [], None
    norms, begun = squared_norms(problem.X), process_time()
    for C in values(name, size):
        s = cold(problem, C, seed, norms) if s is None else s
        if s.round:
            s.move_to(C, problem, norms)
        steps = ww_walrus_fast(problem, C=C, seed=seed, state=s if s.round else None)
        for s in steps:
            if s.level == C and s.round and s.primal - s.dual <= GRID_GAP * s.primal:
                break
        found.append(errors(s.scores(problem.X_test), problem))
    return {"cpu": process_time() - begun, "errors": min(found)}


def sklearn_grid(name: str, seed: int) -> dict:
    """Measure GridSearchCV over LinearSVC, with its defaults, on the same split."""
    problem = fold(name, seed)[0]
    X = np.vstack([problem.X, problem.X_test])
    y = np.append(problem.y, problem.y_test)
    held = PredefinedSplit(np.repeat([-1, 0], [problem.n, len(problem.y_test)]))
    search = GridSearchCV(LinearSVC(), {"C": values(name, 30)}, cv=held, refit=False)
    begun = process_time()
    with ignore_warnings(category=ConvergenceWarning):
        search.fit(X, y)
    m = len(problem.y_test)
    return {"cpu": process_time() - begun, "errors": m - round(search.best_score_ * m)}


def search(name: str, seed: int, eps: float, seconds: float, kind: type[Balls] = Balls) -> dict:
    """Measure a search to eps (%), or for that many CPU seconds."""
    parts = parted([fold(name, seed)])
    ends = values(name, 2)
    begun, state = process_time(), start(parts, ends, eps / 100.0, seed)
    for _ in kind(state, parts).steps(scanned(ends)):
        if process_time() - begun > seconds:
            break
    out = {"cpu": process_time() - begun, "errors": state.fewest, "solves": state.n_solves}
    _, lower, upper = state.band()  # an exact solution has at most `possible` errors
    out |= {"certain": int(lower.min()), "possible": int(upper.min())}
    return out | {"rows": state.rows, "certified": state.certified}


class Untilted(Balls):
    """A search whose only bound is the ball between two knots (T2)."""

    sharper = Search.sharper


class OneKnot(Untilted):
    """A search with the ball of one knot, whose dual point is scaled: from either end of an
    interval until no more is certain, as Shibagaki et al. (2015)."""

    def uncertain(self, part, f, a, b, first, last):
        s, square = self.s, part.lengths[:, None] ** 2
        ends = []
        for knot, other, margin in ((a, b, first), (b, a, last)):
            ratio, size = s.at[other] / s.at[knot], float(np.vdot(s.W[knot, f], s.W[knot, f]))
            # (1 + r)^2 margin^2 / 4 > 2 |x|^2 (r G + (r - 1)^2 |W|^2 / 4) at C = r C_knot
            outer = margin**2 / 4.0 - square * size / 2.0
            inner = margin**2 / 2.0 - 2.0 * square * s.gap[knot, f] + square * size
            with np.errstate(divide="ignore", invalid="ignore"):
                spread = np.sqrt(np.maximum(inner**2 - 4.0 * outer**2, 0.0))
                roots = (-inner + np.array([[[1.0]], [[-1.0]]]) * spread) / (2.0 * outer)
            roots = np.nan_to_num(roots, nan=np.inf)
            if ratio > 1.0:
                reach = np.where(roots > 1.0, roots, np.inf).min(axis=0)
            else:
                reach = np.where((roots < 1.0) & (roots > 0.0), roots, 0.0).max(axis=0)
            held = (margin > 0.0) & (2.0 * outer + inner > 0.0)  # at the knot itself
            ends.append(np.where(held, (reach - 1.0) / (ratio - 1.0), -np.inf))
        low, high = ends[0], 1.0 - ends[1]
        # From low > high on all of the interval is certain.
        return np.where(low > high, np.inf, low), np.where(low > high, -np.inf, high)


class Remembered(Balls):
    """A search that keeps which rows tilts have proven, and for which C."""

    def __init__(self, state, parts):
        super().__init__(state, parts)
        self.tilted: list[tuple[float, float, np.ndarray]] = []

    def sharper(self, part, f, a, b, wrong):
        proven = super().sharper(part, f, a, b, wrong)
        at = self.s.at[a] + EDGES * (self.s.at[b] - self.s.at[a])
        self.tilted += [(at[q], at[q + 1], proven[q]) for q in range(PIECES) if proven[q].any()]
        return proven


def dense(name: str, seed: int, size: int = 300) -> dict:
    """Count row certificates, of the band's balls and of tilts, that a tight solution refutes."""
    one = fold(name, seed)
    problem, parts, ends = one[0], parted([one]), values(name, 2)
    state, m = start(parts, ends, 0.0, seed), len(one[2])
    run, begun = Remembered(state, parts), process_time()
    for _ in run.steps(scanned(ends)):
        if process_time() - begun > 120.0:
            break
    edges, lower, upper = state.band()
    balls = {}
    norms = squared_norms(problem.X)
    s = cold(problem, ends[0], seed, norms)
    counts = dict.fromkeys(("ball", "tilt", "right", "violated", "outside"), 0)
    fewest = m
    for C in np.geomspace(*ends * [1.0 + 1e-9, 1.0 - 1e-9], size):
        s = tight(problem, s, C, norms)
        gap = max(s.primal - s.dual, 0.0)
        V = s.scores(problem.X_test)
        own = np.take_along_axis(V, parts[0].y[:, None], axis=1)
        other = np.where(np.arange(V.shape[1]) == parts[0].y[:, None], -np.inf, V).max(axis=1)
        near = np.abs(other - own[:, 0]) <= np.sqrt(2.0 * gap) * parts[0].lengths
        wrong = V.argmax(axis=1) != parts[0].y
        i = int(np.flatnonzero((state.at[state.left] <= C) & (C <= state.at[state.right]))[0])
        a, b = int(state.left[i]), int(state.right[i])
        if i not in balls:
            balls[i] = run.undecided(parts[0], 0, a, b)
        t = (C - state.at[a]) / (state.at[b] - state.at[a])
        sure, right = ((t < spans[:, 0]) | (t > spans[:, 1]) for spans in balls[i])
        told = np.zeros(m, bool)
        for low, high, proven in run.tilted:
            told |= proven & (low <= C <= high)
        counts["ball"] += int(sure.sum())
        counts["tilt"] += int((told & ~sure).sum())
        counts["right"] += int(right.sum())
        refuted = ((sure | told) & ~wrong) | (right & wrong)
        counts["violated"] += int((refuted & ~near).sum())
        at = np.searchsorted(edges, C) - 1
        few, most = (wrong & ~near).sum(), (wrong | near).sum()
        counts["outside"] += int(lower[at] > most or upper[at] < few)
        fewest = min(fewest, int(wrong.sum()))
    out = {"errors": state.fewest, "certain": int(lower.min()), "fewest": fewest, "rows": m}
    return out | counts | {"values": size, "cpu": process_time() - begun}


def tight(problem: Problem, s: WWState, C: float, norms: np.ndarray) -> WWState:
    """Return a solution at C, from one at a smaller C."""
    A, W = s.B * (C / s.level), np.zeros((problem.d, lanes(problem.k)))
    most = np.zeros_like(A)
    most[:, : problem.k] = C * problem.weights[:, None]
    A = np.where(A > (1.0 - 1e-12) * most, most, A)
    A[np.arange(problem.n), problem.y] = 0.0
    weights = -A
    weights[np.arange(problem.n), problem.y] = A.sum(axis=1)
    W = np.asarray(problem.X.T @ weights, dtype=float)
    primal, dual, _ = evaluated(problem, W, A, C)
    own = {"C": C, "level": C, "since": 2, "lower": 0.0, "upper": np.inf}
    s = WWState(2, s.rng, problem.k, W, A, primal, dual, **own)
    return solved(problem, s, DENSE_GAP * C * float(problem.weights.sum()) * (problem.k - 1.0))


def tiny_problems(first: int, last: int) -> dict:
    """Count values of C, on random problems, at which a tight solution is outside of the band."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from test_tuning import counted, most_solves, tiny

    from workbench.weston_watkins.path import ww_path

    outside = checked = 0
    begun = process_time()
    for seed in range(first, last):
        problem, X, y = tiny(seed, KINDS[seed % len(KINDS)])
        state = most_solves(certify_path([(problem, X, y)], (1e-2, 1e2), 0.0), 100)
        edges, lower, upper = state.band()
        Cs = np.geomspace(1.01e-2, 0.99e2, 15)
        for C, wrong, near in counted(ww_path(problem, Cs, gap_ratio=1e-9), X, y):
            at, checked = np.searchsorted(edges, C) - 1, checked + 1
            inside = lower[at] <= (wrong | near).sum() and (wrong & ~near).sum() <= upper[at]
            outside += not inside
    out = {"values": checked, "outside": outside, "rows": last - first}
    return out | {"cpu": process_time() - begun}


def main() -> None:
    """Measure what is missing, and print what there is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("table", "ablation", "dense", "random"))
    parser.add_argument("names", nargs="*", metavar="DATA", help=f"of {', '.join(SETS)}")
    parser.add_argument("--eps", type=float, nargs="+", default=EPS, help="in %% (default: all)")
    parser.add_argument("--seeds", type=int, default=1, help="splits (default: 1; at most 5)")
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU, for one search")
    parser.add_argument("--count", type=int, default=2000, help="random problems (default: 2000)")
    options = parser.parse_args()
    names = options.names or ["digits", "dna", "satimage", "usps"]
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.exists() else []

    def measure(name: str, seed: int, what: str, work: Callable[..., dict], *given) -> None:
        key = {"data": name, "seed": seed, "what": what}
        if any(key.items() <= row.items() for row in rows):
            return
        rows.append(key | work(*given))
        print(rows[-1], flush=True)
        pd.DataFrame(rows).convert_dtypes().round(4).to_csv(TABLE, index=False)

    search("digits", 0, 50.0, 5.0), grid("digits", 0, 3)  # compile
    if options.what == "random":
        for first in range(0, options.count, 100):
            last = min(first + 100, options.count)
            measure("random", first, "random", tiny_problems, first, last)
        return
    for name in names:
        for seed in range(options.seeds):
            own, kinds = (name, seed), {"one knot": OneKnot, "T2": Untilted, "T2+T3": Balls}
            if options.what == "dense":
                measure(*own, "dense", dense, *own)
            elif options.what == "ablation":
                for eps in options.eps:
                    for words, kind in kinds.items():
                        given = *own, eps, options.seconds, kind
                        measure(*own, f"{words} {eps:g} %", search, *given)
            else:
                for size in SIZES:
                    measure(*own, f"grid {size}", grid, *own, size)
                measure(*own, "LinearSVC", sklearn_grid, *own)
                for eps in options.eps:
                    measure(*own, f"eps {eps:g} %", search, *own, eps, options.seconds)


if __name__ == "__main__":
    main()
