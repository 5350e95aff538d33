"""Shark's subproblem solver as reimplemented by the authors of Walrus.

It is greedy coordinate ascent. Shark itself also adapts the number of visits of each
row, can shrink its problem, and has its own stopping rule.
"""

from collections.abc import Iterator

import numpy as np

from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST, subtract
from workbench.weston_watkins.bcd import descent, difference, margins
from workbench.weston_watkins.dual import WWState

TOLERANCE = 1e-6  # the largest violation of an optimality condition at the end
STEPS_PER_CLASS = 10  # the largest number of steps per block, in multiples of m


@resumable("C")
def ww_shark(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise the objective of `ww_walrus` with Shark's subproblem solver.

    Walrus's authors reimplemented this solver, which is :func:`greedy` here. Errors
    are the same as in :func:`~workbench.weston_watkins.bcd.ww_walrus`.

    Parameters
    ----------
    C : float > 0, the weight of a row's loss; a given `state` may have another C
    seed : int >= 0, seeds the orders of the rows
    """
    return descent(problem, C, seed, state, epoch)


@njit(fastmath=FAST)
def epoch(data, W, B, order):
    """Run lines 3 to 7 of Algorithm 1, with :func:`greedy` instead of lines 4 and 5."""
    z = np.empty(W.shape[1])
    b = np.zeros(W.shape[1])
    delta = np.empty(W.shape[1])
    changed = 0
    for i in order:
        if data.norms[i] == 0.0:
            continue
        margins(data, i, W, z)
        z[data.y[i]] = -np.inf
        b[:] = B[i]
        greedy(z, data.C * data.weights[i], data.norms[i], b[: data.k])
        if difference(data, i, b, B, delta):
            subtract(data.rows, i, delta, W, data.width)
            B[i] = b
            changed += 1
    return changed


@njit
def greedy(gradient, C, norm, b):
    """Maximise the dual over one row's block `b`; return the number of steps.

    Each step sets the coordinate whose optimality condition is violated most to its
    best value, in O(m). There are at most 10 m steps, and they end when every violation
    is below 1e-6. The paper says that the threshold is hard-coded; both numbers are
    from the authors' code. Shark states the problem with margin 1/2: its C is 4 C here,
    its W is 2 W, its dual variables are 4 b, and its gradient is the same (the paper,
    A.6.1).

    Parameters
    ----------
    gradient : (m,) array, z_j = 1 - (w_y - w_j).x at the block's values on entry; it is
        overwritten
    C : float > 0, the bound of the block's variables
    norm : float > 0, |x|^2
    b : (m,) array, one entry per class; the entry of the row's own class, whose
        gradient is minus infinity, never changes
    """
    m = len(b)
    for step in range(STEPS_PER_CLASS * m):
        worst = 0.0
        moving = -1
        for j in range(m):
            g = gradient[j]
            if (g > worst and b[j] < C) or (-g > worst and b[j] > 0.0):
                worst = abs(g)
                moving = j
        if worst < TOLERANCE:
            return step
        best = min(max(b[moving] + gradient[moving] / (2.0 * norm), 0.0), C)
        change = norm * (best - b[moving])
        b[moving] = best
        for j in range(m):
            gradient[j] -= change
        gradient[moving] -= change
    return STEPS_PER_CLASS * m
