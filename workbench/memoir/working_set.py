"""Dual ascent on working sets, for Crammer and Singer's loss with an l1 norm (ours).

One idea of MEMOIR remains: an inexact argmax is good enough for most steps. Here it
comes from a short list of classes for each row. So no step needs an index for
approximate search, and no step can do harm, because it ascends a dual for any list.
"""

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
    seeded,
)
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, off_the_clock
from workbench.kernels.rows import rows_of, squared_norms
from workbench.memoir.ascent import Data, Rule, Sets, losses, norms, visit_rows
from workbench.memoir.blocks import PATCH, InBlocks, dense, empty, matrix_of
from workbench.memoir.mips import scores

EPS = 0.01  # the first eps, in units of the margin; smaller violations are ignored
EPS_FALL = 4.0  # eps falls by this factor after a full pass that took few steps
MIN_EPS = 1e-6  # single precision has no more digits
FEW_STEPS = 0.5  # eps falls if a full pass took fewer steps than this fraction of rows
CALM = 2  # consecutive visits without a violation after which inner passes omit a row
# V is dense up to this number of entries; then a pass takes a third to half of the
# time.
DENSE_ENTRIES = 2**23
ENTRIES = 2**21  # approximate number of entries that the certificate reads together


@dataclass
class WorkingSetState(InBlocks, State):
    """The dual point: V = sum_i x_i alpha_i^T in blocks, and the sets of the rows.

    ``sets`` to ``calm`` are the fields of :class:`workbench.memoir.ascent.Sets`. W =
    soft(V, ``l1``). ``primal`` is P(W) for this ``C``, rounded up. ``updates`` is the
    number of steps in the last full pass, divided by n. ``full`` is the number of
    violating classes for which a set had no room in this pass, divided by n.
    """

    round: int
    rng: np.random.Generator
    C: float
    l1: float
    eps: float
    sets: Array
    alpha: Array
    set_sizes: Array
    calm: Array
    primal: float
    upper: float
    lower: float = 0.0
    updates: float = 0.0
    full: float = 0.0

    def model(self, truncate: float = 0.0) -> sp.csr_array:
        """Return W (d, k) without entries below `truncate` root mean squares."""
        W = sp.csr_array(matrix_of(self.blocks(), self.l1))
        return truncated(W, truncate)

    def scores(self, X: Matrix) -> Array:
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

        D(alpha) = - 1/2 |soft(V, l1)|^2 - sum_{i, c != y_i} alpha_ic,
        V = sum_i x_i alpha_i^T,

    and W = soft(V, l1). A visit of a row with a block of classes maximises D over their
    alpha, with |x_i|^2 as curvature. For l1 = 0 this is exact up to rounding; otherwise
    it maximises a lower bound of D.

    A round is `inner` passes over the rows' working sets (none in the first round),
    then one pass over all rows, in random order, with the scores of all classes. The
    `added` largest violators enter the row's set, and at most three of them enter the
    block of a visit. A full set drops a class that is not in use. Violations below eps
    are ignored. eps begins at 0.01, and is divided by four, down to 1e-6, whenever a
    full pass took steps for fewer than half of the rows.

    The certificate of a round is for its W and alpha. It is computed in double
    precision, and for the lower bound V is computed again from alpha; this is not
    timed. If
    ``full`` remains above 0, the sets are too small for the optimum. The C of a row is
    multiplied by its weight.

    Parameters
    ----------
    C : float > 0, the weight of the loss of a row, as in LIBLINEAR
    l1 : float >= 0, the weight of the l1 norm; 0.02 to 0.05 is suitable for rows of
        unit length
    working_set : int from 2 to 255, the number of classes in the set of a row,
        including its own; each takes 6 bytes, or 8 if there are 65,536 or more classes
    inner : int >= 0, the number of passes over the sets before a full pass
    added : int >= 1, the largest number of classes that enter a set in a full pass
    seed : int >= 0, seeds the order of the rows

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
    n = problem.n
    costs = C * problem.weights
    squares = squared_norms(problem.X)
    data = Data(rows_of(problem.X), problem.y, rounded_down(costs), squares)
    if state is None:
        s = start(problem, min(working_set, problem.k), C, l1, seed)
    else:
        s = change_weights(problem, state, C=C, l1=l1)
    yield s
    while True:
        sets = Sets(s.sets, s.alpha, s.set_sizes, s.calm)
        rule = Rule(threshold_of(s), s.eps, added=0)
        passes = inner if s.round else 0
        for _ in range(passes):
            order = s.rng.permutation(n)
            active = (s.set_sizes > 1) & (s.calm < CALM)
            s.run(visit_rows, data, order[active[order]], sets, rule, np.zeros(2))
        counts = np.zeros(2)  # steps, and classes for which there was no place
        full = rule._replace(added=min(added, problem.k - 1))
        s.run(visit_rows, data, s.rng.permutation(n), sets, full, counts)
        s.updates = float(counts[0]) / n
        s.full = float(counts[1]) / n
        if s.updates < FEW_STEPS:
            s.eps = max(s.eps / EPS_FALL, MIN_EPS)
        with off_the_clock():
            dual, s.primal = certificate(problem, s, costs)
            s.lower = max(s.lower, dual)
            s.upper = min(s.upper, s.primal)
        s.round += 1
        yield s


def start(problem: Problem, M: int, C: float, l1: float, seed: int) -> WorkingSetState:
    """Return round 0: alpha = 0, and the loss of W = 0 as upper bound."""
    n = problem.n
    d = problem.d
    k = problem.k
    loss = float((C * problem.weights).sum())
    if d * k <= DENSE_ENTRIES:
        V = dense(np.zeros((d, k), np.float32))
    else:
        V = empty(d, k, slots=PATCH)
    sets = np.zeros((n, M), V.classes.dtype)
    sets[:, 0] = problem.y
    return WorkingSetState(
        **V._asdict(),
        round=0,
        rng=seeded(seed),
        C=float(C),
        l1=float(l1),
        eps=EPS,
        sets=sets,
        alpha=np.zeros((n, M), np.float32),
        set_sizes=np.ones(n, np.uint8),
        calm=np.zeros(n, np.uint8),
        primal=loss,
        upper=loss,
    )


def change_weights(
    problem: Problem, s: WorkingSetState, *, C: float, l1: float
) -> WorkingSetState:
    """Return the dual point for this `C` and `l1`, with its W and its bounds."""
    if (s.C, s.l1) != (C, l1):
        scale = min(1.0, C / s.C)  # alpha stays feasible for a larger C
        costs = C * problem.weights
        s.values *= np.float32(scale)
        alpha = np.maximum(scale * s.alpha, -rounded_down(costs)[:, None])
        s.alpha = alpha.astype(np.float32)
        s.calm[:] = 0
        s.C = float(C)
        s.l1 = float(l1)
        with off_the_clock():
            dual, s.primal = certificate(problem, s, costs)
        s.lower = max(0.0, dual)
        s.upper = min(float(costs.sum()), s.primal)
    return s


def threshold_of(s: WorkingSetState) -> np.float32 | None:
    """Return l1 for compiled code, or None for 0, which saves a third of the time."""
    return np.float32(s.l1) if s.l1 else None


def rounded_down(costs: Array) -> Array:
    """Return the costs, rounded down to single precision, the type of alpha."""
    single = costs.astype(np.float32)
    below = np.nextafter(single, np.float32(0.0))
    return np.where(single > costs, below, single).astype(float)


def certificate(
    problem: Problem, s: WorkingSetState, costs: Array
) -> tuple[float, float]:
    """Return D(alpha) and P(W), rounded down and up by all possible rounding errors."""
    X = problem.X
    d = problem.d
    V = s.blocks()
    l1 = threshold_of(s)
    one, two = norms(V.values[: V.end[0]], l1)
    loss = losses(V, rows_of(X), problem.y, costs, l1)
    alpha = s.alpha.astype(float)
    # A row's alpha sums to zero except for rounding.
    alpha[:, 0] = -alpha[:, 1:].sum(axis=1)
    alpha *= np.minimum(1.0, costs / np.maximum(alpha[:, 0], costs))[:, None]
    own = alpha[:, 0].copy()
    ends = np.arange(0, alpha.size + 1, alpha.shape[1])
    classes = s.sets.ravel().astype(int)
    A = sp.csr_matrix((alpha.ravel(), classes, ends), (problem.n, s.k))
    A.eliminate_zeros()
    lengths = np.sqrt(squared_norms(X))
    square = 0.0
    columns = ENTRIES // s.k
    if problem.is_sparse:
        columns = ENTRIES * d // max(1, X.nnz)
        X = X.tocsc()
    for some in pieces(d, columns):
        part = A.T @ X[:, some]
        values = part.data if problem.is_sparse else part
        excess = np.maximum(np.abs(values) - s.l1, 0.0)
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


def truncated(W: sp.csr_array, fraction: float) -> sp.csr_array:
    """Return W without the entries below this fraction of their root mean square."""
    if fraction and W.nnz:
        threshold = fraction * np.sqrt(np.mean(W.data.astype(float) ** 2))
        W.data[np.abs(W.data) < threshold] = 0.0
        W.eliminate_zeros()
    return W
