"""The Weston-Watkins SVM, its dual in label-indexed variables, and the gap between
them.

With W (d, k), one column w_j per class, and no offset, the primal problem (P) is

    P(W) = 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, z_ij),    z_ij = 1 - (w_{y_i} - w_j).x_i.

The paper's dual variables beta_i in [0, C]^{k-1} lack the label's entry and need a
permutation per row to say which class is which. Here B (n, k) is indexed by the label
itself, B[i, y_i] = 0:

    W = sum_i x_i (S_i e_{y_i} - B_i)',    S_i = sum_j B_ij,
    D(B) = sum_i S_i - 1/2 |W|^2,

and P(W) - D(B) is a sum over rows of sum_j (C max(0, z_ij) - B_ij z_ij), no term of
which is negative. The rows of W sum to zero. For two classes this is the binary SVM
without offset, with w = w_1 - w_0 and 2C instead of C. With the weights of the problem,
row i has weights[i] C instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from workbench.core.blocks import pieces, products
from workbench.core.certificates import EPS, bounds, svm_bounds
from workbench.core.checks import check_sparse, check_whole
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State
from workbench.core.stream import Row
from workbench.kernels.rows import lanes, squared_norms

ROUNDING = 1e-12  # a gap below this fraction of the objective means nothing
SCORES = 2**18  # scores computed together, 2 MiB, which fit the cache


@dataclass
class WWState(State):
    """The iterate ``W`` (d, lanes) and ``B`` (n, lanes), padded with zeros to whole
    registers.

    ``primal`` and ``dual`` are of this iterate, ``upper`` and ``lower`` the best so
    far. ``first`` is the gap after round 1, against which the paper measures.
    ``visits`` counts blocks looked at, in multiples of n; ``updates`` is the fraction
    of the last round's that changed. ``C`` is for the requested problem, ``level`` for
    the current one since round ``since``, and smaller while a continuation lasts; rows
    with less than ``share`` of the mean part of the gap are left alone.
    """

    round: int
    rng: np.random.Generator
    classes: int
    W: np.ndarray
    B: np.ndarray
    primal: float
    dual: float
    lower: float
    upper: float
    C: float
    level: float
    since: int = 0
    share: float = 0.0
    first: float = math.inf
    visits: float = 0.0
    updates: float = 0.0

    def scores(self, X: Matrix) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W[:, : self.classes])

    def info(self) -> Row:
        row = bounds(self.lower, self.upper) | {
            "primal": self.primal,
            "dual": self.dual,
        }
        if self.round:
            row["gap_ratio"] = self.gap_ratio
        return row | {"C": self.level, "updates": self.updates, "visits": self.visits}

    @property
    def gap_ratio(self) -> float:
        """The gap divided by the gap after round 1; 0 if it is only rounding."""
        return share_of(self.first, self.primal, self.dual)

    def finished(self, C: float) -> bool:
        """Return whether nothing is left to do: no gap, or a round in which no block
        changed."""
        done = self.gap_ratio == 0.0 or self.updates == 0.0
        return self.round > 0 and self.level == C and done

    def judged(
        self, norms: np.ndarray, primal: float, dual: float, room: float
    ) -> None:
        """Note the objectives of a new round's iterate, and bounds with room for their
        rounding.

        Rounding of the scores may have taken `room` from `primal`; `norms` (n,) are
        |x_i|^2.
        """
        self.primal, self.dual = primal, dual
        square = float(np.vdot(self.W, self.W))
        lower, upper = svm_bounds(
            primal + room,
            dual + 0.5 * square,
            square,
            terms=len(norms) + sum(self.W.shape),
            pull=2.0 * float(np.sqrt(norms) @ self.B.sum(axis=1)),
            updates=self.visits * len(norms),
        )
        self.lower, self.upper = max(self.lower, lower), min(self.upper, upper)
        if self.round == 1:
            self.first = primal - dual

    def move_to(self, C: float, problem: Problem, norms: np.ndarray) -> bool:
        """Scale the iterate to one of the problem with another `C`; return whether it
        differs.

        B <= level stays feasible up to the factor C / level; less of it may have a
        larger dual, s linear - s^2 square / 2.
        """
        if self.level == C:
            return False
        ratio, square = C / self.level, float(np.vdot(self.W, self.W))
        if square > 0.0:  # at the solution for the old C, linear / square is at least 1
            ratio = min(ratio, float(self.B[norms > 0.0].sum()) / square)
        self.W *= ratio
        self.B *= ratio
        self.level, self.since = C, self.round
        fill(self.B, problem.y, norms, C, self.classes, problem.weights)
        return True


def restated(
    problem: Problem, state, fresh: Iterator, *, C: float, level: float | None = None
):
    """Return a state as its solver has it under another `C`, from the same iterate,
    scaled.

    Gaps are then measured against the gap after round 1 of `fresh`, the solver's stream
    from the start under this C, and the visits of that round count. `level` is the C of
    the easier problem that a continuation is at, by default `C`.
    """
    if state.C != C:
        *_, cold = islice(fresh, 2)
        norms = squared_norms(problem.X)
        state.move_to(C if level is None else level, problem, norms)
        state.C, state.updates, state.lower, state.upper = C, 1.0, 0.0, math.inf
        state.judged(norms, *objectives(problem, state.W, state.B, C))
        state.first, state.visits = cold.first, state.visits + cold.visits
    return state


def share_of(first: float, primal: float, dual: float) -> float:
    """Return the gap over the `first` one; 0 if it is nothing but rounding."""
    gap = primal - dual
    if gap <= ROUNDING * primal:
        return 0.0
    return float(gap / first) if first else math.inf


def start(problem: Problem, C: float, seed: int, norms: np.ndarray) -> WWState:
    """Return round 0: W = 0, and B = 0 except in rows of zeros."""
    n, k, weights = problem.n, problem.k, problem.weights
    W, B = np.zeros((problem.d, lanes(k))), np.zeros((n, lanes(k)))
    fill(B, problem.y, norms, C, k, weights)
    total = float(weights.sum())
    rng = np.random.default_rng(check_whole(seed, "seed", least=0))
    s = WWState(0, rng, k, W, B, math.inf, 0.0, lower=0.0, upper=math.inf, C=C, level=C)
    s.judged(norms, C * total * (k - 1.0), float(B.sum()), 0.0)
    return s


def slack_of(norms: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return by how much, at most, rounding lowers a z_ij in rows of these squared
    lengths."""
    return EPS * (len(W) + 4.0) * (1.0 + 2.0 * np.sqrt(norms) * np.linalg.norm(W))


def fill(B: np.ndarray, y: np.ndarray, norms, C: float, k: int, weights) -> None:
    """Put the best dual variables into rows of zeros, whatever W is: C for each wrong
    class."""
    zero = np.flatnonzero(norms == 0.0)
    B[zero, :k] = C * weights[zero, None]
    B[zero, y[zero]] = 0.0


def objectives(problem: Problem, W: np.ndarray, B: np.ndarray, C: float):
    """Return P(W), D(B) and the most that rounding of scores, up to slack_i, may take
    from P(W)."""
    half, weights, k = 0.5 * float(np.vdot(W, W)), problem.weights, problem.k
    total = room = 0.0
    for piece in pieces(problem.n, SCORES // W.shape[1]):
        X, y = problem.X[piece], problem.y[piece]
        z, own = np.asarray(products(X, W))[:, :k], (np.arange(len(y)), y)
        z = z + (1.0 - z[own])[:, None]
        z[own] = -np.inf
        slack = slack_of(squared_norms(X), W)
        total += float(weights[piece] @ np.maximum(z, 0.0).sum(axis=1))
        room += float(
            (weights[piece] * slack) @ np.count_nonzero(z > -slack[:, None], axis=1)
        )
    return half + C * total, float(B.sum()) - half, C * room
