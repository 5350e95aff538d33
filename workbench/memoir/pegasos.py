"""Multiclass Pegasos with a certificate (ours): Algorithm 1 with Theorem 2's steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.certificates import EPS, bounds
from workbench.core.checks import check_positive, check_sparse, check_whole, seeded
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State, resumable
from workbench.kernels.compiled import njit
from workbench.kernels.rows import rows_of, squared_norms
from workbench.memoir.blocks import dense
from workbench.memoir.mips.oracle import score_blocks
from workbench.memoir.steps import (
    NO_ANSWERS,
    NUMBERS,
    SCALE,
    SQUARE,
    Batch,
    fold,
    none_taken,
    project,
    scratch_of,
    visit,
)

MIN_SCALE = 1e-9  # a scale of W below this is multiplied into the weights
DUAL_BYTES = 2**30  # the dual point is stored up to this size
MIN_UNIT = 1e-20  # a unit below this is multiplied into the dual point


@dataclass
class PegasosState(State):
    """The last iterate ``W`` (d, k), the step counter, the generator and both bounds.

    The dual point of ``W`` is ``unit`` times ``dual`` (n, k); ``mass`` in [0, 1] is the
    sum of its entries. A dual point of more than a gigabyte is not stored, and ``dual``
    is then (0, 0). ``primal`` is P(W), rounded up, and ``upper`` is its smallest value.
    ``updates`` is the fraction of rows that violated their margin in the last round.
    All numbers are for this ``lam``.
    """

    round: int
    step: int
    rng: np.random.Generator
    W: Array
    dual: Array
    unit: float
    mass: float
    updates: float
    primal: float
    lower: float
    upper: float
    lam: float

    def scores(self, X: Matrix) -> Array:
        return np.asarray(check_sparse(X) @ self.W)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {
            "primal": self.primal,
            "updates": self.updates,
            "steps": self.step,
        }


@resumable("lam", "batch_size")
def memoir_pegasos(
    problem: Problem,
    *,
    lam: float = 1e-3,
    batch_size: int = 1,
    seed: int = 0,
    state: PegasosState | None = None,
) -> Iterator[PegasosState]:
    """Minimise P(W) = lam/2 |W|^2 + mean_i max(0, 1 + max_{r != y_i} x_i.(w_r -
    w_{y_i})).

    Algorithm 1 of Belyy and Sholokhov with an exact argmax, changed so that it has a
    certificate (:func:`workbench.memoir.algorithms.memoir_l2` is the printed one). A
    round visits every training row once, in a new random order that is cut into ceil(n
    / batch_size) batches whose sizes differ by at most one. The choices that the box
    leaves open are made as follows. eta_t is 1 / (lam t), as in Theorem 2. The
    "uniformly random" batch is the next one in the order of the round. The step of a
    row is eta_t divided by the mean batch size b, because eta_t alone would minimise
    lam/2 |W|^2 + b mean_i max(0, ...). The next step shrinks the projected W, although
    the printed indices ignore the projection.

    The sum over steps is a dual point, so each round has a certificate. Crammer and
    Singer's dual has weights a_ic >= 0, c != y_i, with sum_c a_ic <= 1/n for every row,
    and

        D(a) = sum_ic a_ic - lam/2 |W_a|^2 <= min P,
        W_a = (1/lam) sum_ic a_ic (phi(x_i, y_i) - phi(x_i, c)),

    where phi(x, c) puts x into column c. A violated margin adds m / (t n), for m
    batches per round, to one a_ic. Shrinking scales all weights by 1 - 1/t, and a
    projection scales them by at most 1. So W = W_a after every step, for any class c
    that the search returned. After E rounds, T = m E steps, the addition of step t has
    become at most m / (T n), and every row was visited E times: sum_c a_ic <= E m / (T
    n) = 1/n. (Batches drawn with replacement would break this.) D needs only |W|^2 and
    the sum of the weights, `mass`. The point s a is also feasible for s in [0, 1], and
    ``lower`` is the largest value of D at these points. Both bounds allow for rounding;
    the lower bound also allows for the n roundings of W in each round.

    Parameters
    ----------
    lam : float > 0, the weight of the regularisation lam/2 |W|^2. With the printed
        value, 1, rows of unit length usually all violate their margins, so the default
        is our own
    batch_size : int >= 1, the number of rows per step; 1 as in Theorem 2. With n or
        more, a round has one batch
    seed : int >= 0, seeds the order of the rows

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    lam = check_positive(lam, "lam")
    batches = -(-problem.n // check_whole(batch_size, "batch_size"))
    problem.refuse_weights()
    s = state or start(problem, lam, seed)
    rows = rows_of(problem.X)
    n = problem.n
    ends = np.arange(1, batches + 1) * n // batches
    length = float(np.sqrt(squared_norms(problem.X)).mean())
    if s.lam != lam:  # the dual point is feasible for any lam
        s.W *= s.lam / lam
        s.lam = lam
        s.lower = 0.0
        s.upper = 1.0
        evaluate(problem, s, length)
    yield s
    while True:
        t = np.arange(s.step + 1, s.step + batches + 1)
        eta = 1.0 / (lam * t)
        shrinks = 1.0 - lam * eta
        shrinks[t == 1] = 1.0  # W^0 = 0 needs no shrinking, which would be by 0
        order = s.rng.permutation(n)
        taken = none_taken(n)
        numbers = np.array(NUMBERS)
        numbers[SQUARE] = float(np.vdot(s.W, s.W))
        steps = np.repeat(eta * batches / n, np.diff(ends, prepend=0))
        batch = Batch(rows, problem.y, order, NO_ANSWERS, steps)
        blocks = dense(s.W)
        scratch = scratch_of(blocks)
        shrunk = epoch(blocks, batch, ends, shrinks, lam, numbers, taken, scratch)
        s.W *= numbers[SCALE]
        s.unit *= shrunk
        if s.unit < MIN_UNIT:
            s.dual *= np.float32(s.unit)
            s.unit = 1.0
        moved = np.flatnonzero(taken.steps)
        added = lam * numbers[SCALE] * taken.steps[moved]
        if len(s.dual):
            s.dual[order[moved], taken.classes[moved]] += added / s.unit
        s.mass = float(shrunk * s.mass + added.sum())
        s.step += batches
        s.updates = len(moved) / n
        s.round += 1
        evaluate(problem, s, length)
        yield s


@njit
def epoch(blocks, batch, ends, shrinks, lam, numbers, taken, scratch):
    """Visit all batches of a pass, lines 2 to 14; return the factor by which the pass
    shrinks the W before it.

    Step b ends before position ``ends[b]`` of the pass; it first multiplies W by
    ``shrinks[b]``.
    """
    folded = 1.0
    at = 0
    for b in range(len(ends)):
        numbers[SCALE] *= shrinks[b]  # line 4
        # Lines 5 to 11
        at, _ = visit(blocks, at, ends[b], batch, numbers, taken, scratch)
        project(numbers, lam)  # lines 12 and 13
        scale = numbers[SCALE]
        if scale < MIN_SCALE:
            fold(blocks, numbers)
            folded *= scale
            for before in range(at):
                taken.steps[before] *= scale
    return folded * numbers[SCALE]


def start(problem: Problem, lam: float, seed: int) -> PegasosState:
    """Return round 0: weights of zero, whose objective is 1."""
    n = problem.n
    k = problem.k
    shape = (n, k) if 4 * n * k <= DUAL_BYTES else (0, 0)
    return PegasosState(
        round=0,
        step=0,
        rng=seeded(seed),
        W=np.zeros((problem.d, k)),
        dual=np.zeros(shape, np.float32),
        unit=1.0,
        mass=0.0,
        updates=0.0,
        primal=1.0,
        lower=0.0,
        upper=1.0,
        lam=lam,
    )


def evaluate(problem: Problem, s: PegasosState, length: float) -> None:
    """Write P(W) and the bounds into the state; bounds never become worse.

    `length` is the mean length of a row.
    """
    square = float(np.vdot(s.W, s.W))
    s.primal = s.lam / 2 * square + mean_hinge(problem.X, problem.y, s.W)
    units = EPS * (problem.n + problem.d + problem.k)
    s.primal += units * (s.primal + 1.0 + 2.0 * length * square**0.5)
    s.upper = min(s.upper, s.primal)
    if s.mass > 0.0:  # true after round 0, as the first row always violates its margin
        shrink = s.mass / max(s.mass, s.lam * square)
        linear = shrink * s.mass
        square = shrink**2 * s.lam * square
        size = linear + square + shrink * square**0.5
        rounding = 2.0 * (units + EPS * problem.n * s.round) * size
        s.lower = max(s.lower, linear - square / 2 - rounding)


def mean_hinge(X: Matrix, y: Array, W: Matrix, rows: Array | None = None) -> float:
    """Return the mean over rows of max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i}))."""
    if rows is None:
        rows = np.arange(len(y))
    total = 0.0
    for part, V in score_blocks(X, W, rows):
        own = np.arange(len(V)), y[rows[part]]
        scores = V[own].astype(float)
        V[own] = -np.inf
        total += float(np.maximum(0.0, 1.0 + V.max(axis=1) - scores).sum())
    return total / len(rows)
