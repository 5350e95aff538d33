"""Repairs of nearly feasible iterates, which make both certificates sharper.

U(M) depends on its worst row, and BR(p) / rho on its worst component; in a first-order
method a few rows and components always lag behind. Projections on each violated
constraint in turn repair these few.
"""

from operator import itemgetter

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Array
from workbench.kernels.compiled import njit
from workbench.mrc.risk import MinimaxRisk, psi


def sharpest_upper(
    risk: MinimaxRisk,
    M: Array,
    phi: float,
    sweeps: int,
    metric: Array | None = None,
) -> tuple[float, Array]:
    """Return the lowest U(M) and its M while M is projected on psi_i <= phi.

    Parameters
    ----------
    M : (k, d') array, the classifier
    phi : float, the height to project on, an estimate of max psi at the optimum
    sweeps : int >= 0, the number of sweeps over the rows with the largest psi, 1.5
        times as many as are above phi. The best of the results is then evaluated on all
        rows
    metric : (d', k) array, how easily each coefficient moves; by default the
        coefficient's magnitude
    """
    heights = risk.heights(M)
    best = risk.upper(M, float(heights.max()))
    best_M = M
    count = 3 * np.count_nonzero(heights > phi) // 2
    near = np.sort(np.argsort(-heights)[:count])
    X = risk.X[near]
    heights = heights[near]
    candidates = []
    for _ in range(sweeps):
        columns = M.T.copy()
        rows = sp.csr_matrix(X[heights > phi])
        moves = np.abs(columns) if metric is None else metric
        if not project_rows(rows.indptr, rows.indices, rows.data, columns, moves, phi):
            break
        M = np.ascontiguousarray(columns.T)
        heights = psi(X @ M.T)
        candidates.append((risk.upper(M, float(heights.max())), M))
    if candidates:
        _, M = min(candidates, key=itemgetter(0))
        upper = risk.upper(M)
        if upper < best:
            return upper, M
    return best, best_M


def sharpest_lower(
    risk: MinimaxRisk, p: Array, sweeps: int
) -> tuple[float, Array, Array]:
    """Return the highest BR(p) / rho, and its p, while p is projected on the intervals.

    The intervals are |E_p Phi - tau| <= lam.

    Parameters
    ----------
    risk : MinimaxRisk with dense rows
    p : (n, k) joint distribution; the fewer of its entries are positive, the faster
    sweeps : int >= 0, the number of passes over the components, in order and back

    Returns
    -------
    the bound, p (r, k) on the rows with mass, and the numbers of these rows (r,)
    """
    rows = np.flatnonzero(p.any(axis=1))
    X = risk.X[rows]
    p = p[rows]
    best = risk.lower(p, (X.T @ p).T)
    if not sweeps:
        return best, p, rows
    best_p = p.copy()
    supports = [np.flatnonzero(p[:, y]) for y in range(risk.k)]
    columns = [np.ascontiguousarray(X[support].T) for support in supports]
    for _ in range(sweeps):
        for y, support in enumerate(supports):
            w = p[support, y]
            fit_means(columns[y], w, risk.tau[y], risk.lam[y], risk.active[y])
            p[support, y] = w
        p /= p.sum()
        lower = risk.lower(p, (X.T @ p).T)
        if lower > best:
            best = lower
            best_p = p.copy()
    return best, best_p, rows


def imbalance(p: Array, upper: float, lower: float) -> float:
    """Return (upper - BR(p)) / (BR(p) - lower), clipped to [1/4, 4].

    BR(p) is the Bayes error of p.
    """
    bayes = 1.0 - float(p.max(axis=1).sum())
    above = max(upper - bayes, 1e-12)
    below = max(bayes - lower, 1e-12)
    return min(max(above / below, 0.25), 4.0)


@njit
def project_rows(indptr, indices, data, M, metric, phi):
    """Project (d', k) M on psi_i <= phi, row by row; return how often M moved."""
    k = M.shape[1]
    moved = 0
    v = np.empty((1, k))
    for i in range(len(indptr) - 1):
        v[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            for y in range(k):
                v[0, y] += data[e] * M[indices[e], y]
        t = psi(v)[0]
        inside = v[0] > t
        square = 0.0
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


@njit
def fit_means(columns, w, tau, lam, active):
    """Project the weights w on each ``|columns_j w - tau_j| <= lam_j``.

    The constraints are visited in order and then in reverse. A weight changes by a
    fraction of itself, so it keeps its sign, and light rows stay light.
    """
    d, n = columns.shape
    for step in range(2 * d):
        j = min(step, 2 * d - 1 - step)
        if not active[j]:
            continue
        mean = 0.0
        square = 0.0
        for i in range(n):
            mean += columns[j, i] * w[i]
            square += columns[j, i] ** 2 * w[i]
        excess = abs(mean - tau[j]) - lam[j]
        if excess <= 0.0 or square == 0.0:
            continue
        a = np.sign(mean - tau[j]) * excess / square
        for i in range(n):
            w[i] *= max(1.0 - a * columns[j, i], 0.0)
