"""The Weston-Watkins SVM, its dual in label-indexed variables, and the gap between them.

With W (d, k), one column w_j a class, and no offset, the primal problem (P) is

    P(W) = 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, z_ij),    z_ij = 1 - (w_{y_i} - w_j).x_i.

The paper's dual variables beta_i in [0, C]^{k-1} lack the label's entry and need a permutation a
row to say which class is which. Here B (n, k) is indexed by the label itself, B[i, y_i] = 0:

    W = sum_i x_i (S_i e_{y_i} - B_i)',    S_i = sum_j B_ij,
    D(B) = sum_i S_i - 1/2 |W|^2,

and P(W) - D(B) is a sum over rows of sum_j (C max(0, z_ij) - B_ij z_ij), no term of which is
negative. The rows of W sum to zero. For two classes this is the binary SVM without offset, with
w = w_1 - w_0 and 2C in the place of C. Where the problem has ``weights``, row i has weights[i] C in
the place of C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from workbench.core.checks import check_sparse, check_whole
from workbench.core.measures import bounds
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row
from workbench.kernels.rows import FAST, lanes

ROUNDING = 1e-12  # of the objective: a gap of less means nothing
SCORES = 2**18  # held at a time while the rows are judged: 2 MiB, which fits the cache


@dataclass
class WWState:
    """The iterate ``W`` (d, lanes) and ``B`` (n, lanes) of block coordinate descent.

    Both are padded with zeros from ``classes`` columns to whole vector registers. ``primal`` and
    ``dual`` are of this iterate, ``upper`` and ``lower`` the best so far. ``first`` is the gap
    after round 1, against which the paper measures. ``visits`` counts blocks looked at, in
    multiples of n; ``updates`` is the share of the last round's that changed. ``C`` is that of the
    problem asked for, ``level`` that of the one in hand, since round ``since``, smaller while a
    continuation lasts; ``share`` of the mean part of the gap leaves a row alone.
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

    def scores(self, X) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W[:, : self.classes])

    def info(self) -> Row:
        row = bounds(self.lower, self.upper) | {"primal": self.primal, "dual": self.dual}
        if self.round:
            row["gap_ratio"] = self.gap_ratio
        return row | {"C": self.level, "updates": self.updates, "visits": self.visits}

    @property
    def gap_ratio(self) -> float:
        """The gap over that after round 1; 0 where it is nothing but rounding."""
        return share_of(self.first, self.primal, self.dual)

    def finished(self, C: float) -> bool:
        """Say whether nothing is left to do: no gap, or a round in which no block changed."""
        done = self.gap_ratio == 0.0 or self.updates == 0.0
        return self.round > 0 and self.level == C and done

    def judged(self, primal: float, dual: float) -> None:
        """Note the objectives of a new round's iterate."""
        self.primal, self.dual = primal, dual
        self.lower, self.upper = max(self.lower, dual), min(self.upper, primal)
        if self.round == 1:
            self.first = primal - dual

    def move_to(self, C: float, y: np.ndarray, norms: np.ndarray, weights=None) -> bool:
        """Scale the iterate to one of the problem with another `C`; return whether it differs.

        B <= level stays feasible up to the factor C / level, and D(s B) is largest at the factor
        sum B / |W|^2, which is at least 1 at the solution for the old C.
        """
        if self.level == C:
            return False
        ratio, square = C / self.level, float(np.vdot(self.W, self.W))
        if square > 0.0:
            ratio = min(ratio, float(self.B[norms > 0.0].sum()) / square)
        self.W *= ratio
        self.B *= ratio
        self.level, self.since = C, self.round
        fill(self.B, y, norms, C, self.classes, weights)
        return True


def go_on(s: WWState, problem: Problem, C: float, level: float, norms, first: float) -> None:
    """Ask a state for another `C`, from its iterate scaled to `level`, at most `C`; judge it anew.

    Parameters
    ----------
    first : the gap after round 1 of a run with this `C` from the start
    """
    s.move_to(level, problem.y, norms, getattr(problem, "weights", None))
    s.C, s.updates, s.lower, s.upper = C, 1.0, 0.0, math.inf
    s.judged(*objectives(problem, s.W, s.B, C))
    s.first = first


def share_of(first: float, primal: float, dual: float) -> float:
    """Return the gap over the `first` one; 0 where it is nothing but rounding."""
    gap = primal - dual
    if gap <= ROUNDING * primal:
        return 0.0
    return gap / first if first else math.inf


def start(problem: Problem, C: float, seed: int, norms: np.ndarray) -> WWState:
    """Return round 0: W = 0, and B = 0 but in rows of zeros."""
    n, k, weights = problem.n, problem.k, getattr(problem, "weights", None)
    W, B = np.zeros((problem.d, lanes(k))), np.zeros((n, lanes(k)))
    fill(B, problem.y, norms, C, k, weights)
    total = n if weights is None else float(weights.sum())
    lower, upper = float(B.sum()), C * total * (k - 1.0)
    return WWState(
        0,
        np.random.default_rng(check_whole(seed, "seed", least=0)),
        k,
        W,
        B,
        upper,
        lower,
        lower,
        upper,
        C,
        C,
    )


def fill(B: np.ndarray, y: np.ndarray, norms, C: float, k: int, weights=None) -> None:
    """Put the best dual variables into rows of zeros, whatever W is: C for each wrong class."""
    zero = np.flatnonzero(norms == 0.0)
    B[zero, :k] = C if weights is None else C * weights[zero, None]
    B[zero, y[zero]] = 0.0


def squared_norms(X: Matrix) -> np.ndarray:
    """Return |x_i|^2 of every row, in double precision; 0 where a number holds no more of it.

    Raises
    ------
    ValueError
        If one overflows.
    """
    if isinstance(X, np.ndarray):
        norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        norms = np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    if not np.isfinite(norms).all():
        raise ValueError("X: the squared norm of a row overflows; scale the features first")
    return np.where(norms < np.finfo(np.float64).tiny, 0.0, norms)


def objectives(problem: Problem, W: np.ndarray, B: np.ndarray, C: float) -> tuple[float, float]:
    """Return (P(W), D(B)) for W made of B, both with or without padding."""
    half, weights = 0.5 * float(np.vdot(W, W)), getattr(problem, "weights", None)
    total, rows = 0.0, max(1, SCORES // W.shape[1])
    for first in range(0, problem.n, rows):
        piece = slice(first, first + rows)
        V = np.ascontiguousarray(problem.X[piece] @ W)
        own = None if weights is None else weights[piece]
        total += hinges(V, problem.y[piece], problem.k, own)
    return half + C * total, float(B.sum()) - half


@njit(cache=True, fastmath=FAST)
def hinges(V, y, k, weights=None):
    """Return sum_i sum_{j != y_i} max(0, 1 - V[i, y_i] + V[i, j]) over the first k columns.

    With (n,) `weights` row i counts so often.
    """
    total = 0.0
    for i in range(np.uint64(len(y))):
        own, before = 1.0 - V[i, np.uint64(y[i])], total
        for j in range(np.uint64(k)):
            total += max(0.0, own + V[i, j])
        total -= 1.0  # of j = y_i
        if weights is not None:
            total = before + weights[i] * (total - before)
    return total
