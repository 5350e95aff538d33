"""The folds of a certified search, and the state of what it has proven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from workbench.core.checks import check_matrix, check_sparse, encode
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row
from workbench.kernels.rows import squared_norms

PIECES = 4  # of an interval, for each of which a number of certain errors is kept
EDGES = np.linspace(0.0, 1.0, PIECES + 1)


@dataclass
class Tuning:
    """All that is proven so far, of p knots and t intervals between them.

    The classifier in hand is ``chosen_W`` (folds, d, k), solved for the value ``chosen``; it has
    ``fewest`` errors among ``rows`` validation rows of all folds together. ``at`` (p,) are the
    knots, ``W`` (p, folds, d, k) their solutions and ``errors`` (p,) what is wrong of these.
    Interval i lies between the knots ``left[i]`` and ``right[i]``; ``lower`` and ``upper`` (t, 4)
    bound the errors of all values in each quarter of it (quarters of the value, not of its
    logarithm). ``ends`` (2,) is the range.
    """

    round: int
    eps: float
    rows: int
    fewest: int
    chosen: float
    chosen_W: np.ndarray
    ends: np.ndarray
    at: np.ndarray
    W: np.ndarray
    errors: np.ndarray
    left: np.ndarray
    right: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    open: np.ndarray

    def scores(self, X) -> np.ndarray:
        """Return the scores of the classifier in hand, of the first fold."""
        return np.asarray(check_sparse(X) @ self.chosen_W[0])

    def info(self) -> Row:
        """``error``, counted; ``eps``, achieved; ``solves``; ``certified``, share of the axis."""
        fractions = {"error": self.fewest / self.rows, "eps": self.achieved}
        return fractions | {"solves": self.round, "certified": self.certified}

    @property
    def n_solves(self) -> int:
        """The number of times that all folds have been solved, or solved further."""
        return self.round

    @property
    def target(self) -> int:
        """The number of certain errors that is enough."""
        return self.fewest - math.floor(self.eps * self.rows)

    @property
    def achieved(self) -> float:
        """No value of the range has an error more than this below that of the classifier in hand.

        This is of exact solutions: one that is solved loosely can be luckier.
        """
        return max(0, self.fewest - int(self.band()[1].min())) / self.rows

    @property
    def certified(self) -> float:
        """The share of the range, on a logarithmic axis, for which `eps` is proven, in [0, 1]."""
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
        lower = np.pad(lower, (before, after))  # of what has not been scanned nothing is known
        return edges, lower, np.pad(upper, (before, after), constant_values=self.rows)


def begun(kind: type[Tuning], parts: list[Part], eps: float, ends: np.ndarray, **own):
    """Return the state of round 0: no knot, nothing proven."""
    d, k = parts[0].problem.d, parts[0].problem.k
    none, pieces = np.zeros(0, np.int64), np.zeros((0, PIECES), np.int64)
    arrays = {"at": np.zeros(0), "W": np.zeros((0, len(parts), d, k)), "errors": none}
    arrays |= {"left": none, "right": none, "lower": pieces, "upper": pieces}
    rows, open_ = parts[-1].judged.stop, np.zeros(0, np.bool_)
    arrays |= {"ends": ends, "open": open_, "chosen_W": np.zeros((len(parts), d, k))}
    return kind(round=0, eps=eps, rows=rows, fewest=rows, chosen=math.nan, **arrays, **own)


class Part:
    """One fold: its problem, its validation rows, and which of all folds' rows are its own."""

    def __init__(self, problem: Problem, X: Matrix, y: np.ndarray, start: int, first: int):
        self.problem, self.given, self.y = problem, X, y
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
