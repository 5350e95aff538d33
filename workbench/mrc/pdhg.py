"""MRC-PDHG: minimax risk classifiers for sparse and very wide data.

The method is a primal-dual splitting.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_whole
from workbench.core.problem import Array, Problem
from workbench.core.state import resumable
from workbench.kernels.compiled import njit
from workbench.mrc.repair import imbalance, sharpest_upper
from workbench.mrc.risk import (
    MinimaxRisk,
    RiskState,
    minimax_risk,
    psi,
    restated,
    risk_fields,
    squared_norm,
)

REPAIRS = 7  # the largest number of sweeps of projections per certificate
SAFETY = 0.95  # the step as a fraction of the largest stable step
BALANCE = 0.4  # the length of the first dual step in units of 1/n
# The relaxation of a step is in (0, 2), and 1 is the plain method. A value near 2 is
# fast until the gap is below SMALL_GAP; then long steps circle the solution.
RELAXATION = 1.9
SMALL_GAP = 1e-4
SMALL_GAP_RELAXATION = 1.2


@dataclass
class PrimalDualState(RiskState):
    """The relaxed iterate.

    ``M`` (d', k) are the coefficients, feature by feature, with ``V = X M`` (n, k), and
    ``p`` (n, k) are the dual weights; extrapolation may take both out of their sets.
    ``phi`` is the multiplier of sum p = 1, an estimate of max psi. ``balance`` is the
    dual step in units of 1/n.
    """

    M: Array
    V: Array
    p: Array
    phi: float
    balance: float


@resumable("lambda0", "steps")
def mrc_pdhg(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    steps: int = 100,
    state: PrimalDualState | None = None,
) -> Iterator[PrimalDualState]:
    """Learn a minimax risk classifier by primal-dual hybrid gradients.

    The method solves min_M max_p 1 - <tau, M> + <lam, |M|> + <X M, p> - sum_i max_y
    p_iy over the distributions p. The maximum of the last two terms is max_i psi. The
    steps are over-relaxed (Chambolle & Pock 2016), with a length for each feature (Pock
    & Chambolle 2011). A round has `steps` steps, each with two passes over the
    non-zeros, and one certificate over all rows and components. The upper bound depends
    on its worst row and the lower bound on its worst component, and a few of them
    always lag behind. So the bounds are computed from repaired copies: M is projected
    on psi <= phi for one row after another, and p on every |G - tau| <= lam.

    Parameters
    ----------
    lambda0 : float > 0, the half-width of the uncertainty set in standard deviations
    steps : int >= 1, the number of iterations per round

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    check_whole(steps, "steps")
    risk = minimax_risk(problem, lambda0)
    X = sp.csr_matrix(risk.X)
    columns = sp.csr_matrix(risk.X.T)  # X', stored by its own rows
    tau = np.ascontiguousarray(risk.tau.T)
    lam = np.ascontiguousarray(risk.lam.T)
    active = np.ascontiguousarray(risk.active.T)
    total = np.asarray(abs(X).sum(axis=0)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    size = squared_norm(X @ sp.diags(np.sqrt(scale)))
    s = start(risk) if state is None else restated(risk, state)
    M = np.zeros_like(s.M)
    p = np.empty_like(s.p)
    yield s
    while True:
        sigma = s.balance / risk.n
        length = SAFETY / (sigma * size) * scale
        small = s.upper - s.lower <= SMALL_GAP
        rho = SMALL_GAP_RELAXATION if small else RELAXATION
        for _ in range(steps):
            primal_step(s.M, columns @ s.p, tau, lam, active, length, rho, M)
            V = X @ M
            s.phi = dual_step(s.p, s.V, V, sigma, s.phi, rho, p)
        metric = scale[:, None] * active
        upper, best = sharpest_upper(risk, M.T.copy(), s.phi, REPAIRS, metric)
        s.offer(best, upper)
        lower = renew_lower(s, risk, columns, tau, lam, active, p)
        s.round += 1
        # The dual step becomes longer if the upper bound is farther from the Bayes
        # error than the lower bound.
        s.balance *= imbalance(p, upper, lower) ** (1.0 / s.round)
        yield s


def start(risk: MinimaxRisk) -> PrimalDualState:
    """Return round 0: M = 0 and the empirical distribution, whose mean is tau."""
    one_hot = np.eye(risk.k)[risk.y]
    p = one_hot * risk.weights[:, None] / risk.weights.sum()
    M = np.zeros_like(risk.tau.T, order="C")
    return PrimalDualState(
        **risk_fields(risk), M=M, V=0.0 * p, p=p, phi=0.0, balance=BALANCE
    )


def renew_lower(
    s: PrimalDualState, risk: MinimaxRisk, columns, tau, lam, active, p
) -> float:
    """Return p's best lower bound while p is projected on |G - tau| <= lam.

    G is the mean of Phi under p.
    """
    # The sum of p is near 1; if it were smaller, BR(p) would be too high.
    p = p / p.sum()
    best = 0.0
    for _ in range(REPAIRS + 1):
        G = columns @ p
        lower = risk.lower(p, G.T)
        s.raise_lower(lower, p)
        best = max(best, lower)
        if not project_columns(
            columns.indptr, columns.indices, columns.data, p, G, tau, lam, active
        ):
            break
        p /= p.sum()
    return best


@njit
def primal_step(M, G, tau, lam, active, length, relaxation, out):
    """Descend along tau - G, soft-threshold into `out`, and relax M towards it."""
    for j in range(M.shape[0]):
        for y in range(M.shape[1]):
            if active[j, y]:
                m = M[j, y] - length[j] * (G[j, y] - tau[j, y])
                threshold = length[j] * lam[j, y]
                out[j, y] = max(m - threshold, 0.0) + min(m + threshold, 0.0)
                M[j, y] += relaxation * (out[j, y] - M[j, y])


@njit
def level(V, phi, mass):
    """Return the phi for which the sum of (V - phi)_+ over all entries is `mass`.

    Newton's method from any phi passes below the root at most once and climbs from
    there while the set of positive terms shrinks; when it no longer shrinks, phi is
    exact.
    """
    if not phi < V.max():
        phi = V.max() - mass
    n, k = V.shape
    count = -1
    for _ in range(100):
        total = 0.0
        above = 0
        for i in range(n):
            for y in range(k):
                if V[i, y] > phi:
                    total += V[i, y] - phi
                    above += 1
        phi += (total - mass) / above
        if above == count:
            break
        count = above
    return phi


@njit
def dual_step(p, V, V_new, sigma, phi, relaxation, out):
    """Ascend along 2 V_new - V, write the prox to `out`, relax p and V; return phi.

    With u = p / sigma + 2 V_new - V the prox is ``sigma (min(u_iy, psi(u_i)) -
    phi)_+``, where phi makes its sum 1.
    """
    n, k = p.shape
    for i in range(n):
        for y in range(k):
            out[i, y] = p[i, y] / sigma + 2.0 * V_new[i, y] - V[i, y]
            V[i, y] += relaxation * (V_new[i, y] - V[i, y])
    cap = psi(out)
    for i in range(n):
        for y in range(k):
            out[i, y] = min(out[i, y], cap[i])
    phi = level(out, phi, 1.0 / sigma)
    for i in range(n):
        for y in range(k):
            out[i, y] = sigma * max(out[i, y] - phi, 0.0)
            p[i, y] += relaxation * (out[i, y] - p[i, y])
    return phi


@njit
def project_columns(indptr, indices, data, p, G, tau, lam, active):
    """Project p on each violated |G_j - tau_j| <= lam_j; return their number.

    The constraints are visited in order and then in reverse. The metric is weighted by
    1 / p, so that every weight changes by a fraction of itself and keeps its sign.
    """
    d, k = G.shape
    moved = 0
    for step in range(2 * d):
        j = min(step, 2 * d - 1 - step)
        for y in range(k):
            if not active[j, y] or abs(G[j, y] - tau[j, y]) <= lam[j, y]:
                continue
            mean = 0.0
            square = 0.0
            for e in range(indptr[j], indptr[j + 1]):
                mean += data[e] * p[indices[e], y]
                square += data[e] * data[e] * p[indices[e], y]
            excess = abs(mean - tau[j, y]) - lam[j, y]
            if excess <= 0.0 or square == 0.0:
                continue
            moved += 1
            a = np.sign(mean - tau[j, y]) * excess / square
            for e in range(indptr[j], indptr[j + 1]):
                p[indices[e], y] *= max(1.0 - a * data[e], 0.0)
    return moved
