"""Walrus: the exact solution of the Weston-Watkins subproblem (Wang, Scott; Algorithm 2).

The subproblem of one training row is problem (4) of the paper,

    min_{b in [0, C]^m}  1/2 b'(I + 11')b - v'b,        m = k - 1.

Its solution is b = clip(v - g, 0, C), and g is its own sum: the one root of the piecewise linear

    F(g) = sum_j clip(v_j - g, 0, C) - g,

whose slope is -1 - #{free j} <= -1. The paper sweeps over the breakpoints of F from above
(:func:`sweep`); Newton's method on F from the g of the last visit needs one or two passes over v
and no sorting (:func:`threshold`). Both return the same root, and 0 where no v_j is positive.
"""

from __future__ import annotations

import numpy as np

from workbench.core.checks import check_positive
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST

MAX_INSERTION = 200  # entries up to which insertion sort is quicker
PASSES = 20  # Newton steps at most; more than five are rare


def subproblem(v: np.ndarray, C: float) -> np.ndarray:
    """Return the (m,) minimiser of problem (4) for (m,) finite `v` and ``C > 0`` by the sweep.

    A ValueError names the argument that is not as above.
    """
    v = np.asarray(v, dtype=np.float64)
    if v.ndim != 1 or not len(v) or not np.isfinite(v).all():
        raise ValueError("v: must be a one-dimensional array of finite numbers, at least one")
    C = check_positive(C, "C")
    return np.clip(v - sweep(np.ascontiguousarray(v), C), 0.0, C)  # line 9


@njit(cache=True)
def sweep(v, C):
    """Return the root of F by Algorithm 2: O(m log m) for sorting, O(1) per breakpoint.

    Sweeping g down from infinity, j enters the free set at g = v_j and leaves it, to stay at
    its bound C, at g = v_j - C. Between two breakpoints F is linear, and its root there is
    (C n_u + S) / (n_m + 1), with n_u indices at C and n_m free ones whose v sum up to S.
    """
    v = descending(v)  # line 2; line 5, the order of all v_j and v_j - C, is a merge on the way
    m = len(v)
    if m == 0:  # line 3
        return 0.0
    n_u, n_m, S = 0, 0, 0.0  # line 4
    while True:  # line 6; n_u + n_m indices have entered, n_u of them have left
        entered = n_u + n_m
        entry = v[entered] if entered < m else -np.inf
        leave = v[n_u] - C if n_u < m else -np.inf
        if entered < m and entry >= leave:  # line 7, Subroutine 4 (Entry): (11)
            n_m += 1
            S += entry
        else:  # line 7, Subroutine 4 (Exit): (13)
            S -= v[n_u]
            n_m -= 1
            n_u += 1
        if n_m == 0:
            S = 0.0
        g = (C * n_u + S) / (n_m + 1)
        # Line 8, Subroutine 5. So far F < 0 at each breakpoint passed; the root lies in this
        # segment when it is not below the next one.
        entered = n_u + n_m
        following = v[n_u] - C if n_u < m else 0.0
        if entered < m:
            following = max(following, v[entered])
        if g >= max(following, 0.0):
            return g


@njit(cache=True)
def descending(v):
    """Return the positive entries of `v`, the largest first: no breakpoint below 0 is needed."""
    found, m = np.empty(len(v)), 0
    for entry in v:
        if entry > 0.0:
            found[m] = entry
            m += 1
    found = found[:m]
    if m > MAX_INSERTION:
        return np.sort(found)[::-1].copy()
    for j in range(1, m):
        entry, at = found[j], j
        while at > 0 and found[at - 1] < entry:
            found[at] = found[at - 1]
            at -= 1
        found[at] = entry
    return found


@njit(cache=True)
def threshold(v, C, start):
    """Return the root of F by Newton's method from `start`, with the sweep in reserve.

    F is neither convex nor concave, so plain Newton steps can cycle: a step must fall
    strictly inside the bracket that the signs of F have left, else the sweep decides.
    """
    low, high = -1.0, np.inf
    g = max(start, 0.0)
    for _ in range(PASSES):
        excess, free = evaluate(v, C, g)
        step = excess / (free + 1.0)
        if abs(step) <= 1e-15 * g or excess == 0.0:
            return g
        if excess > 0.0:
            low = g
        else:
            high = g
        g = max(g + step, 0.0)
        if not low < g < high:
            break
    return sweep(v, C)


@njit(cache=True, fastmath=FAST, inline="always")
def evaluate(v, C, g):
    """Return F(g) and the number of free indices."""
    total = 0.0
    free = 0.0
    for j in range(len(v)):
        t = v[j] - g
        total += min(max(t, 0.0), C)
        free += 1.0 if (t > 0.0) & (t < C) else 0.0
    return total - g, free
