"""The dual of the cuts: a small quadratic program over a simplex, by pairwise SMO."""

from __future__ import annotations

import numpy as np

from workbench.kernels.compiled import njit

STEPS = 20  # steps per variable between two moves to the best point of a face
TURNS = 100  # moves to the best point of a face, at most
RIDGE = 1e-12  # added to the diagonal of a face, as a fraction of the largest curvature
FLAT = 1e-15  # least curvature, as a fraction of the largest one


def solve_qp(
    G: np.ndarray, h: np.ndarray, C: float, alpha: np.ndarray, tolerance: float = 1e-9
) -> float:
    """Maximise h.alpha - 1/2 alpha'G alpha over alpha >= 0, sum(alpha) <= C, from
    `alpha` on.

    Two variables change at a time, with the partner that promises most (second-order
    choice); the slack up to C is a variable of its own, with zeros for G and h. Where
    long vectors nearly cancel that takes very many steps. So now and then all variables
    above zero go together to where they are best; those that meet zero on the way stay
    there.

    Parameters
    ----------
    G : (T, T), symmetric and positive semidefinite
    h : (T,)
    C : positive
    alpha : (T,), feasible; changed in place
    tolerance : on the violation of optimality; the objective found is short of the best
        by at most C times the tolerance

    Returns
    -------
    objective : of the alpha found, which is feasible: a lower bound on the primal of
        these cuts

    References
    ----------
    OP2 of the paper; Fan, Chen, Lin: Working set selection using second order information for
    training support vector machines. JMLR 2005.
    """
    limit = STEPS * (len(h) + 1)
    for _ in range(TURNS):
        if pairwise(G, h, C, alpha, tolerance, limit) < limit:
            break
        best_of_face(G, h, C, alpha)
    return objective(G, h, alpha)


def objective(G: np.ndarray, h: np.ndarray, alpha: np.ndarray) -> float:
    """Return h.alpha - 1/2 alpha'G alpha."""
    return float(h @ alpha - 0.5 * alpha @ G @ alpha)


def best_of_face(G: np.ndarray, h: np.ndarray, C: float, alpha: np.ndarray) -> None:
    """Take `alpha` to the best point that keeps its zeros, or adds some; never to a
    worse one."""
    while True:
        free = np.flatnonzero(alpha > 0.0)
        slack = C - alpha.sum()
        tight = slack <= 1e-12 * C
        m = len(free)
        system = np.zeros(
            (m + 1, m + 1)
        )  # the last unknown is the multiplier of the sum
        system[:m, :m] = G[np.ix_(free, free)]
        # Where nothing is curved, a long step uphill, which ends at a zero.
        system.flat[: m * (m + 1) : m + 2] += max(RIDGE * G.diagonal().max(), 1e-300)
        system[:m, m] = system[m, :m] = 1.0
        right = np.append(h[free] - G[free] @ alpha, 0.0)
        if not tight:
            system, right = system[:m, :m], right[:m]
        move = np.linalg.solve(system, right)[:m]
        to_zero = np.divide(
            alpha[free], -move, out=np.full(m, np.inf), where=move < 0.0
        )
        step = min(1.0, to_zero.min(initial=np.inf))
        if not tight and step * move.sum() > slack:
            step = slack / move.sum()
        there = alpha.copy()
        there[free] = np.maximum(alpha[free] + step * move, 0.0)
        if step < 1.0 and len(to_zero) and step == to_zero.min():
            there[free[to_zero.argmin()]] = 0.0
        if there.sum() > C:
            there *= C / there.sum()
        if objective(G, h, there) <= objective(G, h, alpha):
            return
        alpha[:] = there
        if step == 1.0:
            return


@njit(cache=True)
def pairwise(G, h, C, alpha, tolerance, limit):
    """Take the steps; return their number."""
    T = len(h)
    flat = 1e-300
    for k in range(T):
        flat = max(flat, FLAT * G[k, k])
    slack = max(0.0, C - alpha.sum())
    q = h - G @ alpha  # the gradient; the slack's is zero
    for step in range(limit):
        top, i = 0.0, -1
        for k in range(T):
            if q[k] > top:
                top, i = q[k], k
        own = G[i, i] if i >= 0 else 0.0
        best, j, least = 0.0, -2, top
        if slack > 0.0 and i >= 0:
            least = 0.0
            best, j = top * top / max(own, flat), -1
        for k in range(T):
            if alpha[k] > 0.0 and q[k] < top:
                least = min(least, q[k])
                curved = own + G[k, k] - 2.0 * G[i, k] if i >= 0 else G[k, k]
                gain = (top - q[k]) ** 2 / max(curved, flat)
                if gain > best:
                    best, j = gain, k
        if j == -2 or top - least <= tolerance:
            return step
        if j >= 0:
            curved = own + G[j, j] - 2.0 * G[i, j] if i >= 0 else G[j, j]
            move = min((top - q[j]) / max(curved, flat), alpha[j])
            alpha[j] -= move
            for k in range(T):
                q[k] += move * G[k, j]
        else:
            move = min(top / max(own, flat), slack)
            slack -= move
        if i >= 0:
            alpha[i] += move
            for k in range(T):
                q[k] -= move * G[k, i]
        else:
            slack += move
    return limit
