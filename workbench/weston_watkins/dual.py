"""The Weston-Watkins SVM, its dual in label-indexed variables, and the gap.

With W (d, k), one column w_j per class, and no offset, the primal problem (P) is

    P(W) = 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, z_ij),
    z_ij = 1 - (w_{y_i} - w_j).x_i.

The paper's dual variables beta_i in [0, C]^{k-1} have no entry for the label, and a
permutation per row assigns them to classes. Here B (n, k) is indexed by the label
itself, with B[i, y_i] = 0:

    W = sum_i x_i (S_i e_{y_i} - B_i)',    S_i = sum_j B_ij,
    D(B) = sum_i S_i - 1/2 |W|^2,

and P(W) - D(B) is a sum over rows of sum_j (C max(0, z_ij) - B_ij z_ij), no term of
which is negative. The rows of W sum to zero. For two classes this is the binary SVM
without offset, with w = w_1 - w_0 and 2C instead of C. If the problem has weights, row
i has weights[i] C instead of C.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from workbench.core.blocks import pieces, products
from workbench.core.certificates import EPS, bounds, svm_bounds
from workbench.core.checks import check_sparse, seeded
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State
from workbench.kernels.rows import lanes, squared_norms

ROUNDING = 1e-12  # a gap below this fraction of the objective is only rounding
SCORES = 2**18  # number of scores computed together; their 2 MiB fit the cache


@dataclass
class WWState(State):
    """``W`` (d, lanes) and ``B`` (n, lanes), padded with zeros to whole registers.

    ``primal`` and ``dual`` are the objectives of this iterate, ``upper`` and ``lower``
    the best bounds so far. ``first`` is the gap after round 1, to which the paper
    relates all later gaps. ``visits`` is the number of visited blocks, in multiples of
    n; ``updates`` is the fraction of the last round's visits that changed a block.
    ``C`` belongs to the requested problem. ``level`` is the C of the problem that has
    been solved since round ``since``; it is smaller during a continuation. Rows whose
    part of the gap is less than ``share`` times the mean part are not visited.
    """

    round: int
    rng: np.random.Generator
    classes: int
    W: Array
    B: Array
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

    def scores(self, X: Matrix) -> Array:
        return np.asarray(check_sparse(X) @ self.W[:, : self.classes])

    def info(self) -> Row:
        row = bounds(self.lower, self.upper)
        row["primal"] = self.primal
        row["dual"] = self.dual
        if self.round:
            row["gap_ratio"] = self.gap_ratio
        return row | {"C": self.level, "updates": self.updates, "visits": self.visits}

    @property
    def gap_ratio(self) -> float:
        """The gap divided by the gap after round 1; 0 if it is only rounding."""
        return share_of(self.first, self.primal, self.dual)

    def finished(self, C: float) -> bool:
        """Return whether no gap is left, or no block has changed in the last round."""
        done = self.gap_ratio == 0.0 or self.updates == 0.0
        return self.round > 0 and self.level == C and done

    def judged(self, norms: Array, loss: float, room: float) -> None:
        """Set the objectives of a new iterate, and update the rounded bounds.

        `loss` is C times the sum of all hinges, which rounding of the scores may have
        lowered by `room`; `norms` (n,) are |x_i|^2.
        """
        square = float(np.vdot(self.W, self.W))
        linear = float(self.B.sum())
        self.primal = 0.5 * square + loss
        self.dual = linear - 0.5 * square
        lower, upper = svm_bounds(
            self.primal + room,
            linear,
            square,
            terms=len(norms) + sum(self.W.shape),
            pull=2.0 * float(np.sqrt(norms) @ self.B.sum(axis=1)),
            updates=self.visits * len(norms),
        )
        self.lower = max(self.lower, lower)
        self.upper = min(self.upper, upper)
        if self.round == 1:
            self.first = self.primal - self.dual

    def move_to(self, C: float, problem: Problem, norms: Array) -> bool:
        """Scale the iterate to the problem with another `C`; return whether C differs.

        B <= level stays feasible for all factors s up to C / level; a smaller factor
        may have a larger dual, s linear - s^2 square / 2.
        """
        if self.level == C:
            return False
        ratio = C / self.level
        square = float(np.vdot(self.W, self.W))
        if square > 0.0:  # at the solution for the old C, linear / square is at least 1
            ratio = min(ratio, float(self.B[norms > 0.0].sum()) / square)
        self.W *= ratio
        self.B *= ratio
        self.level = C
        self.since = self.round
        fill(self.B, problem.y, norms, C, self.classes, problem.weights)
        return True


def restated(
    problem: Problem, state, fresh: Iterator, *, C: float, level: float | None = None
):
    """Return a state whose iterate is scaled to another `C`.

    Gap ratios are then relative to the gap after round 1 of `fresh`, the solver's
    stream from the start with this C. The visits of that round are counted, too.
    `level` is the C of the easier problem of a continuation, by default `C`.
    """
    if state.C != C:
        *_, cold = islice(fresh, 2)
        norms = squared_norms(problem.X)
        state.move_to(level or C, problem, norms)
        state.C = C
        state.updates = 1.0
        state.lower = 0.0
        state.upper = math.inf
        state.judged(norms, *losses(problem, state.W, C))
        state.first = cold.first
        state.visits += cold.visits
    return state


def share_of(first: float, primal: float, dual: float) -> float:
    """Return the gap divided by the `first` gap; 0 if it is only rounding."""
    gap = primal - dual
    if gap <= ROUNDING * primal:
        return 0.0
    return float(gap / first) if first else math.inf


def start(problem: Problem, C: float, seed: int, norms: Array) -> WWState:
    """Return round 0: W = 0, and B = 0 except in rows of zeros."""
    k = problem.k
    B = np.zeros((problem.n, lanes(k)))
    fill(B, problem.y, norms, C, k, problem.weights)
    s = WWState(
        round=0,
        rng=seeded(seed),
        classes=k,
        W=np.zeros((problem.d, lanes(k))),
        B=B,
        primal=math.inf,
        dual=0.0,
        lower=0.0,
        upper=math.inf,
        C=C,
        level=C,
    )
    s.judged(norms, C * float(problem.weights.sum()) * (k - 1.0), 0.0)
    return s


def slack_of(norms: Array, W: Array) -> Array:
    """Return a bound on how much rounding lowers a z_ij in each row."""
    size = 2.0 * np.sqrt(norms) * np.linalg.norm(W)
    return EPS * (len(W) + 4.0) * (1.0 + size)


def fill(B: Array, y: Array, norms, C: float, k: int, weights) -> None:
    """Set the dual variables of rows of zeros to the best value, C per wrong class."""
    zero = np.flatnonzero(norms == 0.0)
    B[zero, :k] = C * weights[zero, None]
    B[zero, y[zero]] = 0.0


def objectives(problem: Problem, W: Array, B: Array, C: float):
    """Return P(W), D(B), and how far rounding may have lowered P(W).

    The lessons compare the two at any W and B.
    """
    loss, room = losses(problem, W, C)
    half = 0.5 * np.vdot(W, W)
    return half + loss, B.sum() - half, room


def losses(problem: Problem, W: Array, C: float) -> tuple[float, float]:
    """Return C times the sum of all hinges, and how far rounding may have lowered it.

    Rounding lowers each z_ij by at most :func:`slack_of` row i.
    """
    total = room = 0.0
    for piece in pieces(problem.n, SCORES // W.shape[1]):
        X = problem.X[piece]
        y = problem.y[piece]
        weights = problem.weights[piece]
        labels = np.arange(len(y)), y
        scores = products(X, W)[:, : problem.k]
        z = scores + (1.0 - scores[labels])[:, None]
        z[labels] = -np.inf
        slack = slack_of(squared_norms(X), W)
        near = np.count_nonzero(z > -slack[:, None], axis=1)
        total += float(weights @ np.maximum(z, 0.0).sum(axis=1))
        room += float((weights * slack) @ near)
    return C * total, C * room
