"""The folds of a certified search for C, and the state of what it has proven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from workbench.core.checks import check_matrix, check_sparse, check_whole, encode
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row
from workbench.kernels.rows import squared_norms

PIECES = 4  # pieces of an interval, each with its own number of certain errors
EDGES = np.linspace(0.0, 1.0, PIECES + 1)


@dataclass
class Tuning:
    """All that is proven so far, of p knots and t intervals between them.

    The chosen classifier is ``chosen_W`` (folds, d, k), solved for C = ``chosen``; it has
    ``fewest`` errors among the ``rows`` validation rows of all folds together. ``at`` (p,) are the
    values of C at the knots, ``W`` (p, folds, d, k) their solutions and ``errors`` (p,) the numbers
    of their errors. Interval i lies between the knots ``left[i]`` and ``right[i]``; ``lower`` and
    ``upper`` (t, 4) bound the errors for all C in each quarter of it (quarters of C, not of its
    logarithm). ``ends`` (2,) is the range.

    ``gap``, ``loss``, ``blur`` and ``drift`` (p, folds) are the duality gap and the sum of hinges
    of each knot, and how far rounding may move that sum and W. ``B`` (q, training rows, k) are the
    dual points of the knots ``owner`` (q,), those at the ends of open intervals.
    """

    round: int
    rng: np.random.Generator
    eps: float
    rows: int
    fewest: int
    chosen: float
    chosen_W: np.ndarray
    ends: np.ndarray
    at: np.ndarray
    W: np.ndarray
    errors: np.ndarray
    gap: np.ndarray
    loss: np.ndarray
    blur: np.ndarray
    drift: np.ndarray
    B: np.ndarray
    owner: np.ndarray
    left: np.ndarray
    right: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    open: np.ndarray

    def scores(self, X) -> np.ndarray:
        """Return the scores of the chosen classifier, of the first fold."""
        return np.asarray(check_sparse(X) @ self.chosen_W[0])

    def info(self) -> Row:
        """Return the counted error, the eps achieved, the solves, and the fraction certified."""
        fractions = {"error": self.fewest / self.rows, "eps": self.achieved}
        return fractions | {"solves": self.round, "certified": self.certified}

    @property
    def target(self) -> int:
        """The number of certain errors that suffices."""
        return self.fewest - math.floor(self.eps * self.rows)

    @property
    def achieved(self) -> float:
        """No C of the range has an error that is lower than the chosen one's by more than this.

        This holds for exact solutions: a loosely solved one can be luckier.
        """
        return max(0, self.fewest - int(self.band()[1].min())) / self.rows

    @property
    def certified(self) -> float:
        """The fraction of the range, on a logarithmic axis, for which `eps` is proven."""
        edges, lower, _ = self.band()
        widths = np.diff(np.log(edges))
        return float(widths[lower >= self.target].sum() / widths.sum())

    def band(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return edges (e + 1,) and the fewest and most errors possible between them (e,)."""
        order = np.argsort(self.at[self.left])
        first, last = self.at[self.left[order]][:, None], self.at[self.right[order]][:, None]
        edges = np.append(first + EDGES[:-1] * (last - first), last[-1:])
        lower, upper = self.lower[order].ravel(), self.upper[order].ravel()
        if not len(lower):
            return self.ends, np.array([0]), np.array([self.rows])
        before, after = int(edges[0] > self.ends[0]), int(edges[-1] < self.ends[1])
        edges = np.concatenate([self.ends[:before], edges, self.ends[2 - after :]])
        lower = np.pad(lower, (before, after))  # nothing is known of what is not scanned yet
        return edges, lower, np.pad(upper, (before, after), constant_values=self.rows)


def start(parts: list[Part], eps: float, ends: np.ndarray, seed: int) -> Tuning:
    """Return the state of round 0: no knot, nothing proven."""
    d, k = parts[0].problem.d, parts[0].problem.k
    rows, each = parts[-1].judged.stop, (0, len(parts))
    shapes = {"at": 0, "W": (*each, d, k), "gap": each, "loss": each, "blur": each, "drift": each}
    shapes |= {"B": (0, parts[-1].rows.stop, k), "chosen_W": (len(parts), d, k)}
    counts = {"errors": 0, "owner": 0, "left": 0, "right": 0}
    counts |= {"lower": (0, PIECES), "upper": (0, PIECES)}
    return Tuning(
        round=0,
        rng=np.random.default_rng(check_whole(seed, "seed", least=0)),
        eps=eps,
        rows=rows,
        fewest=rows,
        chosen=math.nan,
        ends=ends,
        open=np.zeros(0, np.bool_),
        **{name: np.zeros(shape) for name, shape in shapes.items()},
        **{name: np.zeros(shape, np.int64) for name, shape in counts.items()},
    )


class Part:
    """One fold: its problem, its validation rows, and which of all folds' rows are its own."""

    def __init__(self, problem: Problem, X: Matrix, y: np.ndarray, start: int, first: int):
        self.problem, self.y = problem, y
        self.rows = slice(start, start + problem.n)
        self.judged = slice(first, first + len(y))
        self.norms = squared_norms(problem.X)
        # W is 0 at features that no training row has: without them, bounds are the tighter.
        used = np.asarray(abs(problem.X).sum(axis=0)).ravel() > 0.0
        self.X = X if used.all() else X.multiply(used).tocsr() if issparse(X) else X * used
        self.lengths = np.sqrt(squared_norms(self.X))


def parted(folds: Sequence[tuple[Problem, Matrix, np.ndarray]]) -> list[Part]:
    """Check all folds, and place them one after another."""
    if not len(folds):
        raise ValueError("folds: must contain at least one (problem, X, y)")
    parts, start, first = [], 0, 0
    for problem, X, y in folds:
        if (problem.d, problem.k) != (folds[0][0].d, folds[0][0].k):
            raise ValueError("folds: must have the same features and classes")
        X = check_matrix(X, "X_val")
        if X.shape[1] != problem.d:
            raise ValueError(f"X_val: has {X.shape[1]} features, the problem has {problem.d}")
        y = encode(np.asarray(y), problem.classes, "y_val")
        if len(y) != X.shape[0]:
            raise ValueError(f"y_val: has {len(y)} labels for {X.shape[0]} rows")
        parts.append(Part(problem, X, y, start, first))
        start, first = start + problem.n, first + len(y)
    return parts
