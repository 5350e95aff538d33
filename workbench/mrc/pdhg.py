"""MRC-PDHG: minimax risk classifiers by a primal-dual splitting, for sparse and very
wide data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_whole
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.kernels.compiled import njit
from workbench.mrc.repair import imbalance, sharpest_upper
from workbench.mrc.risk import (
    MinimaxRisk,
    RiskState,
    first,
    minimax_risk,
    psi,
    restated,
    squared_norm,
)

REPAIRS = 7  # sweeps of projections per certificate, at most
CLOSE, STEADY = (
    1e-4,
    1.2,
)  # a gap below which long steps circle the solution, and RELAXATION there
SAFETY = 0.95  # fraction of the largest stable step
BALANCE = 0.4  # length of the first dual step in units of 1/n
RELAXATION = 1.9  # in (0, 2), 1 is the plain method; near 2 is fast to a gap of CLOSE


@dataclass
class PrimalDualState(RiskState):
    """The relaxed iterate.

    ``M`` (d', k) are the coefficients, feature by feature, with ``V = X M`` (n, k), and
    ``p`` (n, k) the dual weights; extrapolated, both may leave their sets. ``phi`` is
    the multiplier of sum p = 1, an estimate of max psi. ``balance`` is the dual step in
    units of 1/n.
    """

    M: np.ndarray
    V: np.ndarray
    p: np.ndarray
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
    """Learn a minimax risk classifier by a preconditioned primal-dual hybrid gradient
    method.

    The method solves min_M max_p 1 - <tau, M> + <lam, |M|> + <X M, p> - sum_i max_y
    p_iy over the distributions p, whose inner maximum is max_i psi, by over-relaxed
    steps (Chambolle & Pock 2016) of lengths that suit each feature (Pock & Chambolle
    2011). A round is `steps` of them, of two passes over the non-zeros each, and one
    certificate over all rows and components. Both bounds depend on their worst row or
    component, and a few always lag; so they are taken at repaired copies, M projected
    in turn on every row's psi <= phi, p on every |G - tau| <= lam.

    Parameters
    ----------
    lambda0 : > 0, confidence of the uncertainty set in standard deviations
    steps : >= 1, iterations per round

    Raises
    ------
    ValueError
        For a parameter outside its range.
    """
    check_whole(steps, "steps")
    risk = minimax_risk(problem, lambda0)
    X, columns = (
        sp.csr_matrix(risk.X),
        sp.csr_matrix(risk.X.T),
    )  # X' is kept by its rows, too
    tau, lam, active = (
        np.ascontiguousarray(a.T) for a in (risk.tau, risk.lam, risk.active)
    )
    total = np.asarray(abs(X).sum(axis=0)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    size = squared_norm(X @ sp.diags(np.sqrt(scale)))
    s = start(risk) if state is None else restated(risk, state)
    M, p = np.zeros_like(s.M), np.empty_like(s.p)
    yield s
    while True:
        sigma = s.balance / risk.n
        length = SAFETY / (sigma * size) * scale
        rho = RELAXATION if s.upper - s.lower > CLOSE else STEADY
        for _ in range(steps):
            primal_step(s.M, columns @ s.p, tau, lam, active, length, rho, M)
            V = X @ M
            s.phi = dual_step(s.p, s.V, V, sigma, s.phi, rho, p)
        upper, best = sharpest_upper(
            risk, M.T.copy(), s.phi, REPAIRS, scale[:, None] * active
        )
        s.offer(best, upper)
        lower = renew_lower(s, risk, columns, tau, lam, active, p)
        s.round += 1
        # A longer dual step where the upper bound is the farther one.
        s.balance *= imbalance(p, upper, lower) ** (1.0 / s.round)
        yield s


def start(risk: MinimaxRisk) -> PrimalDualState:
    """Return round 0: M = 0 and the empirical distribution, whose mean is tau."""
    p = np.eye(risk.k)[risk.y] * risk.weights[:, None] / risk.weights.sum()
    M = np.zeros_like(risk.tau.T, order="C")
    return PrimalDualState(**first(risk), M=M, V=0.0 * p, p=p, phi=0.0, balance=BALANCE)


def renew_lower(
    s: PrimalDualState, risk: MinimaxRisk, columns, tau, lam, active, p
) -> float:
    """Return the best bound of p, whose mean is G, while p is projected on |G - tau| <=
    lam."""
    p, best = p / p.sum(), 0.0  # the sum is near 1: of less, BR(p) would be too high
    for _ in range(REPAIRS + 1):
        G = columns @ p
        found = risk.lower(p, G.T)
        s.raise_lower(found, p)
        best = max(best, found)
        entries = columns.indptr, columns.indices, columns.data
        if not project_columns(*entries, p, G, tau, lam, active):
            break
        p /= p.sum()
    return best


@njit(cache=True)
def primal_step(M, G, tau, lam, active, length, relaxation, out):
    """Descend along tau - G, soft-threshold into `out` and relax M towards it."""
    for j in range(M.shape[0]):
        for y in range(M.shape[1]):
            if active[j, y]:
                m = M[j, y] - length[j] * (G[j, y] - tau[j, y])
                threshold = length[j] * lam[j, y]
                out[j, y] = max(m - threshold, 0.0) + min(m + threshold, 0.0)
                M[j, y] += relaxation * (out[j, y] - M[j, y])


@njit(cache=True)
def dual_step(p, V, V_new, sigma, phi, relaxation, out):
    """Ascend along 2 V_new - V, take the prox into `out`, relax p and V; return phi.

    With u = p / sigma + 2 V_new - V the prox is ``sigma (min(u_iy, psi(u_i)) -
    phi)_+``, where phi makes it sum to 1. Newton from any phi passes below the root at
    most once and climbs from there while the set of positive terms shrinks; when it no
    longer does, phi is exact.
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
    phi = phi if phi < out.max() else out.max() - 1.0 / sigma
    count = -1
    for _ in range(100):
        total, above = 0.0, 0
        for i in range(n):
            for y in range(k):
                if out[i, y] > phi:
                    total += out[i, y] - phi
                    above += 1
        phi += (total - 1.0 / sigma) / above
        if above == count:
            break
        count = above
    for i in range(n):
        for y in range(k):
            out[i, y] = sigma * max(out[i, y] - phi, 0.0)
            p[i, y] += relaxation * (out[i, y] - p[i, y])
    return phi


@njit(cache=True)
def project_columns(indptr, indices, data, p, G, tau, lam, active):
    """Project p in turn, there and back, on |G_j - tau_j| <= lam_j where G violates it;
    count.

    The metric weighs with 1 / p: every weight moves by a share of itself and keeps its
    sign.
    """
    d, k = G.shape
    moved = 0
    for step in range(2 * d):
        j = min(step, 2 * d - 1 - step)
        for y in range(k):
            if not active[j, y] or abs(G[j, y] - tau[j, y]) <= lam[j, y]:
                continue
            mean, square = 0.0, 0.0
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
