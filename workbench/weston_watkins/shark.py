"""Shark's subproblem solver as reimplemented by the authors of Walrus: greedy coordinate ascent.

It is not Shark: that adapts how often each row is visited, may shrink, and stops on its own rule.
"""

from __future__ import annotations

from workbench.kernels.compiled import njit

TOLERANCE = 1e-6  # largest violation of an optimality condition that is left
STEPS_PER_CLASS = 10


@njit(cache=True)
def greedy(gradient, C, norm, b):
    """Maximise the dual over one row's block (m,) `b` in place; return the number of steps.

    Each step moves the coordinate whose optimality condition is violated most to its best value,
    in O(m), until none is violated by more than 1e-6, at most 10 m times. Shark states the problem
    with margin 1/2: its C is 4 C here, its W is 2 W, its dual variables are 4 b and its gradient is
    the same (the paper, A.6.1).

    Parameters
    ----------
    b : (m,) array, one entry per class; the row's own, with the gradient LOWEST, never moves
    gradient : (m,) array, z_j = 1 - (w_y - w_j).x at the block's values on entry; overwritten
    norm : |x|^2 > 0
    """
    m = len(b)
    for step in range(STEPS_PER_CLASS * m):
        worst, at = 0.0, -1
        for j in range(m):
            g = gradient[j]
            if (g > worst and b[j] < C) or (-g > worst and b[j] > 0.0):
                worst, at = abs(g), j
        if worst < TOLERANCE:
            return step
        new = min(max(b[at] + gradient[at] / (2.0 * norm), 0.0), C)
        move = norm * (new - b[at])
        b[at] = new
        for j in range(m):
            gradient[j] -= move
        gradient[at] -= move
    return STEPS_PER_CLASS * m
