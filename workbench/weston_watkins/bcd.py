"""Block coordinate descent for the Weston-Watkins SVM (Wang, Scott; Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numba import njit

from workbench.problem import Problem
from workbench.rows import multiply, rows_of, subtract, width
from workbench.stream import off_the_clock
from workbench.weston_watkins.dual import WWState, check_C, objectives, squared_norms, start
from workbench.weston_watkins.shark import greedy
from workbench.weston_watkins.walrus import sweep


def ww_walrus(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i).

    The paper's method: a round visits every row once, in a new random order, and solves its
    block of the dual exactly by :func:`~workbench.weston_watkins.walrus.sweep`. Rows of zeros
    are skipped: no W changes their loss. As in the paper's experiments, the clock stands
    still while primal and dual are evaluated after a round.

    Parameters
    ----------
    C : positive, the weight of each pair of a row and a wrong class; divided by nothing
    seed : of the random order

    Raises
    ------
    ValueError
        If `C` is not a positive number.
    """
    return _descent(problem, C, seed, state, walrus_epoch)


def ww_shark(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Do the same with Shark's subproblem solver as reimplemented by the authors of Walrus.

    Parameters and errors are those of :func:`ww_walrus`; the solver of one block is
    :func:`~workbench.weston_watkins.shark.greedy`.
    """
    return _descent(problem, C, seed, state, shark_epoch)


def _descent(
    problem: Problem, C: float, seed: int, state: WWState | None, epoch: Callable
) -> Iterator[WWState]:
    C = check_C(C)
    norms = squared_norms(problem.X)
    s = state or start(problem, C, seed, norms)
    rows, lanes = rows_of(problem.X), width(s.W.shape[1])
    yield s
    while True:
        order = s.rng.permutation(problem.n)
        changed = epoch(rows, problem.y, norms, C, order, s.W, s.B, problem.k, lanes)
        s.round += 1
        s.visits += 1.0
        s.updates = changed / problem.n
        with off_the_clock():
            s.judged(*objectives(problem, s.W, s.B, C))
        yield s


@njit(cache=True)
def walrus_epoch(rows, y, norms, C, order, W, B, k, width):
    """Visit the rows in this order, in place; return how many blocks changed."""
    u, delta, v = np.zeros(W.shape[1]), np.zeros(W.shape[1]), np.empty(k - 1)
    changed = 0
    for i in order.astype(np.uint64):
        if norms[i] == 0.0:
            continue
        own = y[i]
        multiply(rows, i, W, u, width)
        S = B[i].sum()
        m = 0
        for j in range(k):  # Proposition 3.5
            if j != own:
                v[m] = (1.0 - u[own] + u[j]) / norms[i] + B[i, j] + S
                m += 1
        g = sweep(v, C)
        m = 0
        for j in range(k):
            delta[j] = 0.0
            if j != own:
                delta[j] = min(max(v[m] - g, 0.0), C) - B[i, j]
                m += 1
        changed += _move(rows, i, own, delta, W, B, k, width)
    return changed


@njit(cache=True)
def shark_epoch(rows, y, norms, C, order, W, B, k, width):
    """Visit the rows in this order, in place; return how many blocks changed."""
    u, delta = np.zeros(W.shape[1]), np.zeros(W.shape[1])
    z, b = np.empty(k - 1), np.empty(k - 1)
    changed = 0
    for i in order.astype(np.uint64):
        if norms[i] == 0.0:
            continue
        own = y[i]
        multiply(rows, i, W, u, width)
        m = 0
        for j in range(k):
            if j != own:
                z[m], b[m] = 1.0 - u[own] + u[j], B[i, j]
                m += 1
        if greedy(z, C, norms[i], b) == 0:
            continue
        m = 0
        for j in range(k):
            delta[j] = 0.0
            if j != own:
                delta[j] = b[m] - B[i, j]
                m += 1
        changed += _move(rows, i, own, delta, W, B, k, width)
    return changed


@njit(cache=True, inline="always")
def _move(rows, i, own, delta, W, B, k, width):
    """Add `delta` to block i, and what follows from it to W; return whether anything changed."""
    total = 0.0
    moved = False
    for j in range(k):
        B[i, j] += delta[j]
        total += delta[j]
        moved |= delta[j] != 0.0
    if moved:
        delta[own] = -total
        subtract(rows, i, delta, W, width)
    return moved
