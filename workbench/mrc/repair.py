"""Repairs of nearly feasible iterates: cheap projections that make both certificates
sharper.

U(M) depends on its worst row and BR(p) / rho on its worst component; in a first-order
method a few of them always lag. Projecting in turn on each violated constraint mends
these few.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.kernels.compiled import njit
from workbench.mrc.risk import MinimaxRisk, psi


def sharpest_upper(
    risk: MinimaxRisk,
    M: np.ndarray,
    phi: float,
    sweeps: int,
    metric: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """Return the lowest U(M) and its M while M is projected on psi_i <= phi, row by
    row.

    Parameters
    ----------
    M : (k, d') classifier
    phi : the height to project on, an estimate of max psi at the optimum
    sweeps : >= 0, over the rows above phi and half as many again; all rows judge the
        best result
    metric : (d', k), how easily each coefficient moves; by default its own size
    """
    values, tried = risk.heights(M), []
    best, best_M = risk.upper(M, float(values.max())), M
    near = np.sort(np.argsort(-values)[: 3 * np.count_nonzero(values > phi) // 2])
    X, values = risk.X[near], values[near]
    for _ in range(sweeps):
        columns, rows = M.T.copy(), sp.csr_matrix(X[values > phi])
        moves = np.abs(columns) if metric is None else metric
        if not project_rows(rows.indptr, rows.indices, rows.data, columns, moves, phi):
            break
        M = np.ascontiguousarray(columns.T)
        values = psi(X @ M.T)
        tried.append((risk.upper(M, float(values.max())), M))
    for _, M in sorted(tried, key=lambda one: one[0])[:1]:  # all rows judge the best
        if (upper := risk.upper(M)) < best:
            best, best_M = upper, M
    return best, best_M


def sharpest_lower(
    risk: MinimaxRisk, p: np.ndarray, sweeps: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the highest BR(p) / rho while p is projected on |E_p Phi - tau| <= lam,
    and that p.

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


def imbalance(p: np.ndarray, upper: float, lower: float) -> float:
    """Return how much farther the upper bound is from p's Bayes error than the lower,
    1/4 to 4."""
    bayes = 1.0 - float(p.max(axis=1).sum())
    above, below = max(upper - bayes, 1e-12), max(bayes - lower, 1e-12)
    return min(max(above / below, 0.25), 4.0)


@njit(cache=True)
def project_rows(indptr, indices, data, M, metric, phi):
    """Project (d', k) M in turn on psi_i <= phi, row by row; return how many rows moved
    it."""
    k, moved = M.shape[1], 0
    v = np.empty((1, k))
    for i in range(len(indptr) - 1):
        v[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            for y in range(k):
                v[0, y] += data[e] * M[indices[e], y]
        t = psi(v)[0]
        inside, square = v[0] > t, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            for y in range(k):
                if inside[y]:
                    square += data[e] * data[e] * metric[indices[e], y]
        if t <= phi or square == 0.0:
            continue
        moved += 1
        a = (t - phi) * inside.sum() / square
        for e in range(indptr[i], indptr[i + 1]):
            for y in range(k):
                if inside[y]:
                    M[indices[e], y] -= a * data[e] * metric[indices[e], y]
    return moved


@njit(cache=True)
def fit_means(columns, w, tau, lam, active):
    """Project the weights w in turn, there and back, on ``|columns_j w - tau_j| <=
    lam_j``.

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
