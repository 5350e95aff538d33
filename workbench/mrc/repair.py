"""Repairs of nearly feasible iterates: cheap projections that make both certificates sharper.

U(M) hangs on its worst row and BR(p) / rho on its worst component, and in a first-order method
a few of them always lag. Projecting in turn on each violated constraint mends these few and
moves the rest little. Every result is judged by the same bounds as the iterate itself.
"""

from __future__ import annotations

import numpy as np

from workbench.kernels.compiled import njit
from workbench.mrc.risk import MinimaxRisk, psi


def sharpest_upper(
    risk: MinimaxRisk, M: np.ndarray, phi: float, sweeps: int
) -> tuple[float, np.ndarray]:
    """Return the lowest U(M) and its M while M is projected on psi_i <= phi, row by row.

    Sweeps look at the rows near `phi`, then all rows judge the best of them.

    Parameters
    ----------
    risk : MinimaxRisk with dense rows
    M : (k, d') classifier
    phi : the height to project on, an estimate of max psi at the optimum
    sweeps : >= 0, passes over the rows above phi
    """
    values = risk.heights(M)
    best, best_M = risk.upper(M, float(values.max())), M
    near = rows_above(values, phi)
    X, values, lowest = risk.X[near], values[near], np.inf
    for _ in range(sweeps):
        above = np.flatnonzero(values > phi)
        if not len(above):
            break
        M = M.copy()
        lower_rows(X[above], M, phi)
        values = psi(X @ M.T)
        upper = risk.upper(M, float(values.max()))
        if upper < lowest:
            lowest, lowest_M = upper, M
    if lowest < best and (upper := risk.upper(lowest_M)) < best:
        return upper, lowest_M
    return best, best_M


def rows_above(values: np.ndarray, phi: float) -> np.ndarray:
    """Return the rows whose value is above `phi`, and half as many again of the next, in order."""
    support = np.count_nonzero(values > phi)
    count = support + support // 2
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(-values, count)[:count])


def sharpest_lower(
    risk: MinimaxRisk, p: np.ndarray, sweeps: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the highest BR(p) / rho while p is projected on |E_p Phi - tau| <= lam, and that p.

    Parameters
    ----------
    risk : MinimaxRisk with dense rows
    p : (n, k) joint distribution; the fewer labels carry mass, the cheaper
    sweeps : >= 0, passes there and back over the components

    Returns
    -------
    the bound, p (r, k) on the rows with mass, and these rows (r,)
    """
    rows = np.flatnonzero(p.any(axis=1))
    X, p = risk.X[rows], p[rows]
    best, best_p = risk.lower(p, (X.T @ p).T), p.copy() if sweeps else p
    support = [np.flatnonzero(p[:, y]) for y in range(risk.k)]
    columns = [np.ascontiguousarray(X[at].T) for at in support] if sweeps else []
    for _ in range(sweeps):
        for y, at in enumerate(support):
            w = p[at, y]
            fit_means(columns[y], w, risk.tau[y], risk.lam[y], risk.active[y])
            p[at, y] = w
        p /= p.sum()
        lower = risk.lower(p, (X.T @ p).T)
        if lower > best:
            best, best_p = lower, p.copy()
    return best, best_p, rows


@njit(cache=True)
def lower_rows(X, M, phi):
    """Project M in turn on psi_i <= phi, row by row; coefficients move as their size."""
    k, d = M.shape
    v = np.empty((1, k))
    for i in range(len(X)):
        v[0] = 0.0
        for y in range(k):
            for j in range(d):
                v[0, y] += X[i, j] * M[y, j]
        t = psi(v)[0]
        square, count = 0.0, 0
        for y in range(k):
            if v[0, y] > t:
                count += 1
                for j in range(d):
                    square += X[i, j] ** 2 * abs(M[y, j])
        if t <= phi or square == 0.0:
            continue
        a = (t - phi) * count / square
        for y in range(k):
            if v[0, y] > t:
                for j in range(d):
                    M[y, j] -= a * X[i, j] * abs(M[y, j])


@njit(cache=True)
def fit_means(columns, w, tau, lam, active):
    """Project the weights w in turn, there and back, on ``|columns_j w - tau_j| <= lam_j``.

    A weight moves by a share of itself: it keeps its sign, and light rows stay light.
    """
    d, n = columns.shape
    for step in range(2 * d):
        j = min(step, 2 * d - 1 - step)
        if not active[j]:
            continue
        mean, square = 0.0, 0.0
        for i in range(n):
            mean += columns[j, i] * w[i]
            square += columns[j, i] ** 2 * w[i]
        excess = abs(mean - tau[j]) - lam[j]
        if excess <= 0.0 or square == 0.0:
            continue
        a = np.sign(mean - tau[j]) * excess / square
        for i in range(n):
            w[i] *= max(1.0 - a * columns[j, i], 0.0)
