"""Block coordinate descent for the Weston-Watkins SVM (Wang, Scott; Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from workbench.core.checks import check_positive
from workbench.core.problem import Problem
from workbench.core.stream import off_the_clock
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST, multiply, rows_of, squared_norms, subtract, width
from workbench.weston_watkins.dual import WWState, evaluated, restated, start
from workbench.weston_watkins.shark import greedy
from workbench.weston_watkins.walrus import sweep

LOWEST = -1e300  # the v of what is not a wrong class: never free, and infinity spoils sums


def ww_walrus(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i).

    The paper's method: a round visits every row once, in a new random order, and solves its
    block of the dual exactly by :func:`~workbench.weston_watkins.walrus.sweep`. Rows of zeros
    are skipped: no W changes their loss. As in the paper's experiments, the clock stands
    still while primal and dual are evaluated after a round. The stream ends when no gap is
    left, or nothing changes any more.

    Parameters
    ----------
    C : positive, the weight of each pair of a row and a wrong class; divided by nothing
    seed : int, seeds the order of the rows

    Raises
    ------
    ValueError
        If `C` is not a positive number.
    """
    return _descent(problem, C, seed, state, walrus_epoch)


def ww_shark(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise the same with Shark's subproblem solver as the authors of Walrus reimplemented it.

    Parameters and errors are those of :func:`ww_walrus`; the solver of one block is
    :func:`~workbench.weston_watkins.shark.greedy`.
    """
    return _descent(problem, C, seed, state, shark_epoch)


def _descent(
    problem: Problem, C: float, seed: int, state: WWState | None, epoch: Callable
) -> Iterator[WWState]:
    C, norms = check_positive(C, "C"), squared_norms(problem.X)
    fresh = _descent(problem, C, seed, None, epoch)
    s = restated(problem, state, fresh, C=C) if state else start(problem, C, seed, norms)
    rows, lanes = rows_of(problem.X), width(s.W.shape[1])
    yield s
    while not s.finished(C):
        order = s.rng.permutation(problem.n)
        given = C, order, s.W, s.B, problem.k, lanes, problem.weights
        changed = epoch(rows, problem.y, norms, *given)
        s.round += 1
        s.visits += 1.0
        s.updates = changed / problem.n
        with off_the_clock():
            s.judged(*evaluated(problem, s.W, s.B, C), norms)
        yield s


@njit(cache=True, fastmath=FAST)
def walrus_epoch(rows, y, norms, C, order, W, B, k, width, weights):
    """Visit the rows in this order, in place; return how many blocks changed.

    Row i has ``weights[i] * C`` instead of C.
    """
    z, v, delta = np.empty(W.shape[1]), np.empty(W.shape[1]), np.empty(W.shape[1])
    changed = 0
    for i in order.astype(np.uint64):
        if norms[i] == 0.0:
            continue
        own = np.uint64(y[i])
        margins(rows, i, own, W, z, width)
        arguments(i, own, norms[i], z, B, v, k, width)
        bound = C * weights[i]
        g = sweep(v, bound)
        if write_block(i, own, g, bound, v, B, delta, width):
            subtract(rows, i, delta, W, width)
            changed += 1
    return changed


@njit(cache=True, fastmath=FAST)
def shark_epoch(rows, y, norms, C, order, W, B, k, width, weights):
    """Visit the rows in this order, in place; return how many blocks changed.

    Row i has ``weights[i] * C`` instead of C.
    """
    z, b, delta = np.empty(W.shape[1]), np.empty(k), np.zeros(W.shape[1])
    changed = 0
    for i in order.astype(np.uint64):
        if norms[i] == 0.0:
            continue
        own = np.uint64(y[i])
        margins(rows, i, own, W, z, width)
        z[own] = LOWEST
        for j in range(np.uint64(k)):
            b[j] = B[i, j]
        if greedy(z, C * weights[i], norms[i], b):
            total = 0.0
            for j in range(np.uint64(k)):
                delta[j] = b[j] - B[i, j]
                B[i, j] = b[j]
                total += delta[j]
            delta[own] = -total
            subtract(rows, i, delta, W, width)
            changed += 1
    return changed


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
    """Put clip(v - g, 0, C) into block i and the change into `delta`; return whether there is any.

    Column own of W loses what the others add: ``delta[own]`` is minus their sum.
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
