"""The dual of the cuts, a small quadratic program over a simplex, by pairwise SMO."""

import numpy as np

from workbench.core.kinds import Array
from workbench.kernels.compiled import njit

STEPS = 20  # number of steps per variable between two moves to the best point of a face
TURNS = 100  # largest number of moves to the best point of a face
RIDGE = 1e-12  # added to the diagonal of a face, as a fraction of the largest curvature
FLAT = 1e-15  # smallest curvature, as a fraction of the largest one
TINY = 1e-300  # smallest curvature if all are zero


def solve_qp(
    G: Array, h: Array, C: float, alpha: Array, tolerance: float = 1e-9
) -> float:
    """Maximise h.alpha - 1/2 alpha'G alpha over alpha >= 0, sum(alpha) <= C, starting
    from `alpha`.

    Two variables change at a time: the one with the largest gradient, and the partner
    that promises the largest gain (second-order choice). If long vectors nearly cancel,
    this takes very many steps. So from time to time all variables above zero move
    together to their best point; variables that become zero on the way stay zero.

    Parameters
    ----------
    G : (T, T) symmetric and positive semidefinite matrix
    h : (T,) linear term
    C : float > 0, the bound on the sum
    alpha : (T,) feasible point, which is changed in place
    tolerance : float >= 0, the largest accepted violation of optimality; the objective
        of the result is at most C times the tolerance below the optimum, unless
        :data:`TURNS` moves were not enough

    Returns
    -------
    objective : the value at the result, a lower bound on the primal of these cuts,
        since the result is feasible

    References
    ----------
    OP2 of the paper; Fan, Chen, Lin: Working set selection using second order
    information for training support vector machines. JMLR 2005.
    """
    limit = STEPS * (len(h) + 1)
    for _ in range(TURNS):
        if pairwise(G, h, C, alpha, tolerance, limit) < limit:
            break
        best_of_face(G, h, C, alpha)
    return objective(G, h, alpha)


def objective(G: Array, h: Array, alpha: Array) -> float:
    """Return h.alpha - 1/2 alpha'G alpha."""
    return float(h @ alpha - 0.5 * alpha @ G @ alpha)


def best_of_face(G: Array, h: Array, C: float, alpha: Array) -> None:
    """Move `alpha` to the best point with the same zeros, if that point is better."""
    while True:
        free = np.flatnonzero(alpha > 0.0)
        slack = C - alpha.sum()
        tight = slack <= 1e-12 * C
        m = len(free)
        # The last unknown is the multiplier of the sum.
        system = np.zeros((m + 1, m + 1))
        system[:m, :m] = G[np.ix_(free, free)]
        # If G is flat, the ridge makes the step long and uphill, until a variable
        # becomes zero.
        system.flat[: m * (m + 1) : m + 2] += max(RIDGE * G.diagonal().max(), TINY)
        system[:m, m] = system[m, :m] = 1.0
        right = np.append(h[free] - G[free] @ alpha, 0.0)
        if not tight:
            system = system[:m, :m]
            right = right[:m]
        move = np.linalg.solve(system, right)[:m]
        to_zero = np.full(m, np.inf)
        np.divide(alpha[free], -move, out=to_zero, where=move < 0.0)
        nearest = to_zero.min(initial=np.inf)
        step = min(1.0, nearest)
        if not tight and step * move.sum() > slack:
            step = slack / move.sum()
        end = alpha.copy()
        end[free] = np.maximum(alpha[free] + step * move, 0.0)
        if step < 1.0 and step == nearest:
            end[free[to_zero.argmin()]] = 0.0
        if end.sum() > C:
            end *= C / end.sum()
        if objective(G, h, end) <= objective(G, h, alpha):
            return
        alpha[:] = end
        if step == 1.0:
            return


@njit
def pairwise(G, h, C, alpha, tolerance, limit):
    """Take at most `limit` steps in place; return their number.

    The slack, C minus the sum, is variable 0; its entries of G and h are zero.
    """
    T = len(h) + 1
    H = np.zeros((T, T))
    H[1:, 1:] = G
    x = np.empty(T)
    x[0] = max(0.0, C - alpha.sum())
    x[1:] = alpha
    gradient = np.zeros(T)
    gradient[1:] = h - G @ alpha
    flat = TINY
    for k in range(T):
        flat = max(flat, FLAT * H[k, k])
    steps = limit
    for step in range(limit):
        i = np.argmax(gradient)
        lowest = gradient[i]
        best = 0.0
        j = i
        for k in range(T):
            if x[k] > 0.0 and gradient[k] < gradient[i]:
                lowest = min(lowest, gradient[k])
                rise = gradient[i] - gradient[k]
                gain = rise**2 / max(H[i, i] + H[k, k] - 2.0 * H[i, k], flat)
                if gain > best:
                    best = gain
                    j = k
        if j == i or gradient[i] - lowest <= tolerance:
            steps = step
            break
        curvature = max(H[i, i] + H[j, j] - 2.0 * H[i, j], flat)
        move = min((gradient[i] - gradient[j]) / curvature, x[j])
        x[i] += move
        x[j] -= move
        for k in range(T):
            gradient[k] += move * H[k, j]
            gradient[k] -= move * H[k, i]
    alpha[:] = x[1:]
    return steps
