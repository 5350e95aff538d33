"""The dual of the cuts: a small quadratic program over a simplex, by pairwise SMO."""

from __future__ import annotations

import numpy as np
from numba import njit

LIMIT = 10**6  # steps; each is O(number of cuts)
FLAT = 1e-14  # curvature below which a direction counts as this much curved


def solve_qp(
    G: np.ndarray, h: np.ndarray, C: float, alpha: np.ndarray, tolerance: float = 1e-9
) -> float:
    """Maximise h.alpha - 1/2 alpha'G alpha over alpha >= 0, sum(alpha) <= C, from `alpha` on.

    Two variables change at a time, with the partner that promises most (second-order choice);
    what is missing to C is a variable of its own, with zeros for G and h.

    Parameters
    ----------
    G : (T, T), symmetric and positive semidefinite
    h : (T,)
    C : positive
    alpha : (T,), feasible; changed in place
    tolerance : on the violation of optimality; the objective found is short of the best by C times
        as much, at most

    Returns
    -------
    objective : of the alpha found, which is feasible: a lower bound on the primal of these cuts

    References
    ----------
    OP2 of the paper; Fan, Chen, Lin: Working set selection using second order information for
    training support vector machines. JMLR 2005.
    """
    pairwise(G, h, C, alpha, tolerance, LIMIT)
    return float(h @ alpha - 0.5 * alpha @ G @ alpha)


@njit(cache=True)
def pairwise(G, h, C, alpha, tolerance, limit):
    """Do the steps; return how many."""
    T = len(h)
    slack = max(0.0, C - alpha.sum())
    q = h - G @ alpha  # the gradient; that of the slack is zero
    for step in range(limit):
        top, i = 0.0, -1
        for k in range(T):
            if q[k] > top:
                top, i = q[k], k
        own = G[i, i] if i >= 0 else 0.0
        best, j, least = 0.0, -2, top
        if slack > 0.0 and i >= 0:
            least = 0.0
            best, j = top * top / max(own, FLAT), -1
        for k in range(T):
            if alpha[k] > 0.0 and q[k] < top:
                least = min(least, q[k])
                curved = own + G[k, k] - 2.0 * G[i, k] if i >= 0 else G[k, k]
                gain = (top - q[k]) ** 2 / max(curved, FLAT)
                if gain > best:
                    best, j = gain, k
        if j == -2 or top - least <= tolerance:
            return step
        if j >= 0:
            curved = own + G[j, j] - 2.0 * G[i, j] if i >= 0 else G[j, j]
            move = min((top - q[j]) / max(curved, FLAT), alpha[j])
            alpha[j] -= move
            for k in range(T):
                q[k] += move * G[k, j]
        else:
            move = min(top / max(own, FLAT), slack)
            slack -= move
        if i >= 0:
            alpha[i] += move
            for k in range(T):
                q[k] -= move * G[k, i]
        else:
            slack += move
    return limit
