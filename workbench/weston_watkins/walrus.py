"""Walrus: the exact solution of the Weston-Watkins subproblem (Algorithm 2).

The subproblem of one training row is problem (4) of the paper,

    min_{b in [0, C]^m}  1/2 b'(I + 11')b - v'b,        m = k - 1.

Its solution is b = clip(v - g, 0, C), and g is its own sum: the one root of the
piecewise linear

    F(g) = sum_j clip(v_j - g, 0, C) - g,

whose slope is -1 - #{free j} <= -1. The paper sweeps over the breakpoints of F from
above; the root is 0 if no v_j is positive. Comments give the line numbers of the box,
following section 4.2.
"""

import numpy as np

from workbench.core.checks import check_positive
from workbench.core.kinds import Array
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST

MAX_INSERTION = 200  # the largest number of entries for which insertion sort is faster


def subproblem(v: Array, C: float) -> Array:
    """Return the (m,) minimiser of problem (4), computed by the sweep.

    A ValueError names an argument that is not valid: `v` (m,) must have a finite sum of
    magnitudes, and C must be positive.
    """
    v = np.asarray(v, dtype=np.float64)
    if v.ndim != 1 or not len(v) or not np.isfinite(np.abs(v).sum()):
        raise ValueError(
            "v: must be a one-dimensional array of at least one number, with a finite "
            "sum of magnitudes"
        )
    b = np.empty(len(v))
    walrus(np.ascontiguousarray(v), check_positive(C, "C"), b)
    return b


@njit(fastmath=FAST)
def walrus(v, C, b):
    """Write the minimiser of problem (4) to (m,) `b`."""
    clip(v, sweep(v, C), C, b)  # line 9


@njit(fastmath=FAST, inline="always")
def clip(v, g, C, b):
    """Write clip(v - g, 0, C) to (m,) `b`."""
    for j in range(np.uint64(len(v))):
        b[j] = min(max(v[j] - g, 0.0), C)


@njit
def sweep(v, C):
    """Return the root of F by Algorithm 2: O(m log m) for sorting, O(1) per breakpoint.

    As g falls from infinity, j enters the free set at g = v_j and leaves it at g = v_j
    - C; then it stays at its bound C. Between two breakpoints F is linear. With n_u
    indices at C and n_m free indices whose v sum to S, its root there is (C n_u + S) /
    (n_m + 1).
    """
    v = descending(v)  # line 2
    if len(v) == 0:  # line 3
        return 0.0
    n_u = n_m = 0  # line 4
    S = 0.0
    _, enters = breakpoint(v, C, n_u, n_m)  # line 5
    while True:  # line 6
        if enters:  # line 7, Subroutine 4 (Entry): (11)
            S += v[n_u + n_m]
            n_m += 1
        else:  # line 7, Subroutine 4 (Exit): (13)
            S -= v[n_u]
            n_m -= 1
            n_u += 1
        if n_m == 0:
            S = 0.0
        g = (C * n_u + S) / (n_m + 1)
        # Line 8, Subroutine 5. F < 0 at each breakpoint so far; the root lies in this
        # segment if it is not below the next breakpoint.
        following, enters = breakpoint(v, C, n_u, n_m)
        if g >= max(following, 0.0):
            return g


@njit
def descending(v):
    """Return the positive entries of `v`, the largest first.

    No breakpoint below 0 is needed.
    """
    positive = np.empty(len(v))
    m = 0
    for entry in v:
        if entry > 0.0:
            positive[m] = entry
            m += 1
    positive = positive[:m]
    if m > MAX_INSERTION:
        return np.sort(positive)[::-1].copy()
    for j in range(1, m):
        entry = positive[j]
        place = j
        while place > 0 and positive[place - 1] < entry:
            positive[place] = positive[place - 1]
            place -= 1
        positive[place] = entry
    return positive


@njit(inline="always")
def breakpoint(v, C, n_u, n_m):
    """Return the next lower breakpoint, and whether an index enters there.

    Subroutine 3 lists all breakpoints in descending order. The entries are `v`, which
    is sorted, and the exits are v - C; here they are merged one by one. So far, n_u +
    n_m indices have entered, and n_u have left.
    """
    entered = n_u + n_m
    entry = v[entered] if entered < len(v) else -np.inf
    leave = v[n_u] - C if n_u < len(v) else -np.inf
    return max(entry, leave), entry >= leave
