"""Dual ascent on working sets, for Crammer and Singer's loss with an l1 norm: ours.

One idea of MEMOIR is kept: an inexact argmax is good enough for most steps. Here it
comes from each row's own short list of classes, so that no step needs an index of
approximate answers, and no step can do harm: it ascends a dual whatever the list holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.certificates import bounds, svm_bounds
from workbench.core.checks import (
    check_counts,
    check_not_negative,
    check_positive,
    check_whole,
)
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, off_the_clock
from workbench.kernels.rows import rows_of, squared_norms
from workbench.memoir.ascent import Data, Rule, Sets, losses, norms, visit_rows
from workbench.memoir.blocks import PATCH, InBlocks, dense, empty, matrix_of
from workbench.memoir.mips import scores

EPS = 0.01  # rows that violate by less are left alone at first, in units of the margin
EPS_FALL = 4.0  # factor by which eps falls after a full pass that took few steps
MIN_EPS = 1e-6  # single precision has no more digits
FEW_STEPS = (
    0.5  # steps of a full pass, as a fraction of the rows, below which eps falls
)
CALM = 2  # visits without a step after which a row is left out of passes over the sets
DENSE_ENTRIES = (
    2**23
)  # size of V up to which it is dense: a pass takes a third to half of the time
ENTRIES = 2**21  # about how many entries of X's columns the certificate reads together


@dataclass
class WorkingSetState(InBlocks, State):
    """The dual point: V = sum_i alpha_i x_i in blocks, and each row's set with its
    alpha.

    ``sets`` to ``calm`` are the fields of :class:`workbench.memoir.ascent.Sets`. W =
    soft(V, ``l1``). ``primal`` is P(W) for this ``C``; ``updates`` the steps of the
    last full pass over n, ``full`` how often in it a violating class found no place in
    a set.
    """

    round: int
    rng: np.random.Generator
    C: float
    l1: float
    eps: float
    sets: np.ndarray
    alpha: np.ndarray
    held: np.ndarray
    calm: np.ndarray
    primal: float
    upper: float
    lower: float = 0.0
    updates: float = 0.0
    full: float = 0.0

    def model(self, truncate: float = 0.0) -> sp.csr_array:
        """Return W (d, k) without the entries that are below `truncate` times their
        rms."""
        W = matrix_of(self.blocks(), self.l1)
        if not sp.issparse(W):
            W = sp.csr_array(W - W.clip(-np.float32(self.l1), np.float32(self.l1)))
        return truncated(W, truncate)

    def scores(self, X: Matrix) -> np.ndarray:
        return scores(X, self.model())

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {
            "primal": self.primal,
            "updates": self.updates,
            "full": self.full,
            "active": int(np.count_nonzero(self.alpha)),
        }


@resumable("C", "l1", "inner", "added")
def cs_working_set(
    problem: Problem,
    *,
    C: float = 1.0,
    l1: float = 0.02,
    working_set: int = 16,
    inner: int = 2,
    added: int = 3,
    seed: int = 0,
    state: WorkingSetState | None = None,
) -> Iterator[WorkingSetState]:
    """Minimise P(W) = 1/2 |W|^2 + l1 |W|_1 + sum_i C max_c ([c != y_i] + x_i.(w_c -
    w_{y_i})).

    With alpha_ic <= C [c = y_i] and sum_c alpha_ic = 0, the dual of this elastic net
    for many classes is

        D(alpha) = - 1/2 |soft(V, l1)|^2 - sum_{i, c != y_i} alpha_ic,    V = sum_i x_i alpha_i^T,

    and W = soft(V, l1). Visiting a row with a block of classes maximises D over their
    alpha, with
    |x_i|^2 as curvature, which is exact for l1 = 0, up to rounding, and a bound of D otherwise.

    A round is `inner` passes over the rows' working sets (none in the first), then one
    over all rows, in random order, with the scores of all classes: its `added` largest
    violators enter the row's set, and at most three of them the block of a visit. A
    full set gives up a class that is not in use. Rows that violate by less than eps are
    left alone; eps begins at 0.01, and is divided by four whenever a full pass took
    steps for fewer than half of the rows.

    Each round's certificate is for its W and alpha, evaluated off the clock, in double
    precision and with V computed again from alpha. If ``full`` stays above 0, the sets
    are too small for the optimum. A row's C is multiplied by its weight.

    Parameters
    ----------
    C : weight of a row's loss, as in LIBLINEAR, positive
    l1 : weight of the l1 norm, not negative; rows of unit length suit 0.02 to 0.05
    working_set : classes of a row, its own among them, from 2 to 255; memory is 6 bytes
        for each
    inner : passes over the sets before a full one
    added : classes that may enter a set in a full pass, at least 1
    seed : int, seeds the row order

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    check_positive(C, "C")
    check_not_negative(l1=l1)
    check_counts(working_set=working_set, added=added)
    if not 2 <= working_set <= 255:
        raise ValueError(f"working_set: must be from 2 to 255, got {working_set!r}")
    check_whole(inner, "inner", least=0)
    n, costs = problem.n, C * problem.weights
    squares = squared_norms(problem.X)
    data = Data(rows_of(problem.X), problem.y, rounded_down(costs), squares)
    if state is None:
        s = start(problem, min(working_set, problem.k), C, l1, seed)
    else:
        s = change_weights(problem, state, C=C, l1=l1)
    yield s
    while True:
        sets = Sets(s.sets, s.alpha, s.held, s.calm)
        rule = Rule(threshold_of(s), s.eps, 0)
        for _ in range(inner if s.round else 0):
            order = s.rng.permutation(n)
            order = order[((s.held > 1) & (s.calm < CALM))[order]]
            s.run(visit_rows, data, order, sets, rule, np.zeros(2))
        counts = np.zeros(2)  # steps, and classes that found no place
        full = rule._replace(added=min(added, problem.k - 1))
        s.run(visit_rows, data, s.rng.permutation(n), sets, full, counts)
        s.updates, s.full = (float(count) / n for count in counts)
        if s.updates < FEW_STEPS:
            s.eps = max(s.eps / EPS_FALL, MIN_EPS)
        with off_the_clock():
            dual, s.primal = certificate(problem, s, costs)
            s.lower, s.upper = max(s.lower, dual), min(s.upper, s.primal)
        s.round += 1
        yield s


def start(problem: Problem, M: int, C: float, l1: float, seed: int) -> WorkingSetState:
    """Return round 0: alpha = 0, and the loss of W = 0 as upper bound."""
    n, k, loss = problem.n, problem.k, float((C * problem.weights).sum())
    if problem.d * k <= DENSE_ENTRIES:
        b = dense(np.zeros((problem.d, k), np.float32))
    else:
        b = empty(problem.d, k, slots=PATCH)
    sets = np.zeros((n, M), b.classes.dtype)
    sets[:, 0] = problem.y
    return WorkingSetState(
        **b._asdict(),
        round=0,
        rng=np.random.default_rng(check_whole(seed, "seed", least=0)),
        C=float(C),
        l1=float(l1),
        eps=EPS,
        sets=sets,
        alpha=np.zeros((n, M), np.float32),
        held=np.ones(n, np.uint8),
        calm=np.zeros(n, np.uint8),
        primal=loss,
        upper=loss,
    )


def change_weights(
    problem: Problem, s: WorkingSetState, *, C: float, l1: float
) -> WorkingSetState:
    """Return the same dual point, scaled down to a smaller `C`, with its W and its
    bounds."""
    if (s.C, s.l1) != (C, l1):
        share = min(1.0, C / s.C)  # a larger C leaves alpha feasible
        costs = C * problem.weights
        s.values *= np.float32(share)
        s.alpha = np.maximum(share * s.alpha, -rounded_down(costs)[:, None]).astype(
            np.float32
        )
        s.calm[:] = 0
        s.C, s.l1 = float(C), float(l1)
        with off_the_clock():
            dual, s.primal = certificate(problem, s, costs)
        s.lower, s.upper = max(0.0, dual), min(float(costs.sum()), s.primal)
    return s


def threshold_of(s: WorkingSetState) -> np.float32 | None:
    """Return l1 as compiled code takes it: None is 0, and saves a third of the time."""
    return np.float32(s.l1) if s.l1 else None


def rounded_down(costs: np.ndarray) -> np.ndarray:
    """Return the largest numbers of single precision up to these: alpha is held in
    it."""
    single = costs.astype(np.float32)
    below = np.nextafter(single, np.float32(0.0))
    return np.where(single > costs, below, single).astype(float)


def certificate(
    problem: Problem, s: WorkingSetState, costs: np.ndarray
) -> tuple[float, float]:
    """Return D(alpha) and P(W), moved apart by the possible rounding errors."""
    X, b, l1, d = problem.X, s.blocks(), threshold_of(s), problem.d
    one, two = norms(b.values[: b.end[0]], l1)
    loss = losses(b, rows_of(X), problem.y, costs, l1)
    alpha = s.alpha.astype(float)
    alpha[:, 0] = -alpha[:, 1:].sum(
        axis=1
    )  # a row's alpha sums to zero except for rounding
    alpha *= np.minimum(1.0, costs / np.maximum(alpha[:, 0], costs))[:, None]
    ends, own = np.arange(0, alpha.size + 1, alpha.shape[1]), alpha[:, 0].copy()
    A = sp.csr_matrix(
        (alpha.ravel(), s.sets.ravel().astype(int), ends), shape=(len(own), s.k)
    )
    A.eliminate_zeros()
    lengths, square = np.sqrt(squared_norms(X)), 0.0
    columns = ENTRIES * d // (X.nnz if problem.is_sparse else d * s.k)
    X = X.tocsc() if problem.is_sparse else X
    for some in pieces(d, columns):
        V = A.T @ X[:, some]
        excess = np.maximum(np.abs(V.data if problem.is_sparse else V) - s.l1, 0.0)
        square += float(np.vdot(excess, excess))
    return svm_bounds(
        float(two / 2 + s.l1 * one + loss),
        float(own.sum()),
        square,
        terms=problem.n + d + s.k,
        losses=float(costs.sum()),
        reach=float(costs @ lengths),
        pull=2.0 * float(own @ lengths),
        norm=float(np.sqrt(two)),
    )


def truncated(W: sp.csr_array, share: float) -> sp.csr_array:
    """Return W without the entries that are below `share` times their root mean
    square."""
    if share and W.nnz:
        W.data[np.abs(W.data) < share * np.sqrt(np.mean(W.data.astype(float) ** 2))] = (
            0.0
        )
        W.eliminate_zeros()
    return W
