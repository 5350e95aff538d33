"""Block coordinate descent for the Weston-Watkins SVM (Wang, Scott; Algorithm 1).

The copy of the paper that we have lacks the printed box. These are its lines after sections 2.2
and 3.2, in the label-indexed variables B of :mod:`~workbench.weston_watkins.dual`; comments in the
code bear their numbers.

    1: W := 0, b_i := 0 for every row i
    2: until the gap is small enough:                                    an outer iteration
    3:     for every row i, in random order:                             an inner iteration
    4:         v := (1 - (w_y - w_j).x_i) / |x_i|^2 + b_ij + sum b_i     Proposition 3.5, y = y_i
    5:         b := Walrus(v, C)                                         Algorithm 2
    6:         W := W - x_i delta', where delta_j = b_j - b_ij           (1), (2), (3)
    7:         b_i := b
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.checks import check_positive
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import off_the_clock
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST, multiply, rows_of, squared_norms, subtract, width
from workbench.weston_watkins.dual import WWState, objectives, restated, start
from workbench.weston_watkins.shark import greedy
from workbench.weston_watkins.walrus import sweep

LOWEST = -1e300  # the v of every other entry, which is never free; infinity would spoil sums


@resumable("C")
def ww_walrus(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i).

    The paper's method: a round visits every row once, in a new random order, and solves its
    block of the dual exactly by :func:`~workbench.weston_watkins.walrus.sweep`. Rows of zeros
    are skipped: no W changes their loss. As in the paper's experiments, the evaluation of
    primal and dual after a round is not timed. The stream ends when no gap is left, or no
    block changes any more.

    Parameters
    ----------
    C : positive, the weight of each pair of a row and a wrong class; divided by nothing
    seed : int, seeds the order of the rows

    Raises
    ------
    ValueError
        If `C` is not a positive number.
    """
    return _descent(problem, C, seed, state, shark=False)


@resumable("C")
def ww_shark(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise as `ww_walrus`, with Shark's subproblem solver as Walrus's authors reimplemented it.

    Parameters and errors are those of :func:`ww_walrus`; the solver of one block is
    :func:`~workbench.weston_watkins.shark.greedy`.
    """
    return _descent(problem, C, seed, state, shark=True)


def _descent(
    problem: Problem, C: float, seed: int, state: WWState | None, shark: bool
) -> Iterator[WWState]:
    C, norms = check_positive(C, "C"), squared_norms(problem.X)
    fresh = _descent(problem, C, seed, None, shark)
    s = restated(problem, state, fresh, C=C) if state else start(problem, C, seed, norms)  # line 1
    rows, lanes = rows_of(problem.X), width(s.W.shape[1])
    yield s
    while not s.finished(C):  # line 2
        order = s.rng.permutation(problem.n)
        given = C, order, s.W, s.B, problem.k, lanes, problem.weights
        changed = epoch(rows, problem.y, norms, *given, shark)
        s.round += 1
        s.visits += 1.0
        s.updates = changed / problem.n
        with off_the_clock():
            s.judged(norms, *objectives(problem, s.W, s.B, C))
        yield s


@njit(cache=True, fastmath=FAST)
def epoch(rows, y, norms, C, order, W, B, k, width, weights, shark):
    """Visit the rows in this order, in place; return how many blocks changed.

    Row i has ``weights[i] * C`` instead of C. With `shark`, its solver replaces Walrus in line 5.
    """
    z, v, b = np.empty(W.shape[1]), np.empty(W.shape[1]), np.empty(k)
    delta = np.zeros(W.shape[1])
    changed = 0
    for i in order.astype(np.uint64):  # line 3
        if norms[i] == 0.0:
            continue
        own, bound = np.uint64(y[i]), C * weights[i]
        margins(rows, i, own, W, z, width)  # line 4
        if shark:
            moved = greedy_block(i, own, norms[i], bound, z, b, B, delta)
        else:
            arguments(i, own, norms[i], z, B, v, k, width)
            g = sweep(v, bound)  # line 5
            moved = write_block(i, own, g, bound, v, B, delta, width)
        if moved:
            subtract(rows, i, delta, W, width)  # line 6
            changed += 1
    return changed


@njit(cache=True, fastmath=FAST, inline="always")
def greedy_block(i, own, norm, C, z, b, B, delta):
    """Solve block i by Shark's solver, else as :func:`write_block`; `z` and (k,) `b` are lost."""
    z[own] = LOWEST
    for j in range(np.uint64(len(b))):
        b[j] = B[i, j]
    steps = greedy(z, C, norm, b)
    total = 0.0
    for j in range(np.uint64(len(b))):
        delta[j] = b[j] - B[i, j]
        B[i, j] = b[j]
        total += delta[j]
    delta[own] = -total
    return steps > 0


@njit(cache=True, fastmath=FAST, inline="always")
def margins(rows, i, own, W, z, width):
    """Put z_ij = 1 - (w_own - w_j).x_i into (lanes,) `z`, and -1 for the row's own class."""
    multiply(rows, i, W, z, width)
    margin = 1.0 - z[own]
    for j in range(np.uint64(len(width)) if len(width) else np.uint64(len(z))):
        z[j] += margin
    z[own] = -1.0


@njit(cache=True, fastmath=FAST, inline="always")
def arguments(i, own, norm, z, B, v, k, width):
    """Put the v of block i (Proposition 3.5) into (lanes,) `v`, LOWEST for no wrong class.

    Return the sum of the block.
    """
    columns = np.uint64(len(width)) if len(width) else np.uint64(len(v))
    S, inverse = 0.0, 1.0 / norm
    for j in range(columns):
        S += B[i, j]
    for j in range(columns):
        v[j] = z[j] * inverse + B[i, j] + S
    v[own] = LOWEST
    for j in range(np.uint64(k), columns):
        v[j] = LOWEST
    return S


@njit(cache=True, fastmath=FAST, inline="always")
def write_block(i, own, g, C, v, B, delta, width):
    """Put b = clip(v - g, 0, C) into block i (line 7), and the change into `delta`.

    Column own of W loses what the others add: ``delta[own]`` is minus their sum. Return whether
    the block has changed.
    """
    total = moved = 0.0
    for j in range(np.uint64(len(width)) if len(width) else np.uint64(len(v))):
        b = min(max(v[j] - g, 0.0), C)
        delta[j] = b - B[i, j]
        B[i, j] = b
        total += delta[j]
        moved += abs(delta[j])
    delta[own] = -total
    return moved > 0.0
