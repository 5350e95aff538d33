"""Douglas-Rachford splitting on the graph S = X M' of the scores.

Its iterates are a good start for the interior point method. Problem (3) is ``min f(M) +
g(S)`` on the graph, with ``f(M) = -<tau, M> + <lam, |M|>`` and ``g(S) = max_i
psi(s_i)``. Both have cheap proximal operators. The projection on the graph needs one d'
x d' factor for the whole run, which all classes share because Phi is one-hot.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from workbench.core.blocks import blocks
from workbench.core.checks import check_whole
from workbench.core.problem import Array, Problem
from workbench.core.state import resumable
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST
from workbench.mrc.repair import imbalance, sharpest_lower, sharpest_upper
from workbench.mrc.risk import (
    MinimaxRisk,
    RiskState,
    minimax_risk,
    psi,
    restated,
    risk_fields,
)

WIDEST = 8000  # the largest number of features, as the factor has d' x d' entries
RATIO = 500.0  # the penalty of the coefficients divided by the penalty of the scores
RELAXATION = 1.8  # the relaxation of a step, in (0, 2); 1 is the plain method


@dataclass
class SplittingState(RiskState):
    """The governing sequence of the method.

    ``Z_M`` (k, d') and ``Z_S`` (n, k), float32, are in the scaled features of the run.
    ``phi`` is the last threshold, and ``weight`` is the penalty of the scores times n.
    ``M`` (k, d') and ``p`` (n, k), float64, are this iterate's classifier and joint
    distribution in the problem's own features.
    """

    Z_M: Array
    Z_S: Array
    phi: float
    weight: float
    M: Array
    p: Array


@resumable("lambda0", "steps")
def mrc_splitting(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    steps: int = 50,
    state: SplittingState | None = None,
) -> Iterator[SplittingState]:
    """Minimise U by over-relaxed Douglas-Rachford splitting.

    A round is `steps` iterations.

    Parameters
    ----------
    problem : Problem with dense rows and at most :data:`WIDEST` features
    lambda0 : float > 0, the half-width of the uncertainty set in standard deviations
    steps : int >= 1, the number of iterations per round

    Raises
    ------
    ValueError
        If rows are sparse (use :func:`mrc_pdhg`), there are too many features, or a
        parameter is outside its range.
    """
    if problem.is_sparse:
        raise ValueError(
            "problem: mrc_splitting takes dense rows; use mrc_pdhg for sparse ones"
        )
    check_whole(steps, "steps")
    risk = minimax_risk(problem, lambda0)
    s = start(risk, weight=1.0) if state is None else restated(risk, state)
    yield from split(risk, s, steps, repairs=8)


def split(
    risk: MinimaxRisk, s: SplittingState, steps: int, repairs: int
) -> Iterator[SplittingState]:
    """Run the splitting on `risk` from `s`, with `steps` >= 1 iterations per round.

    `repairs` >= 0 is the number of sweeps of :mod:`workbench.mrc.repair` at every
    certificate. If it is positive, the weight is adapted to the two halves of the gap
    (:func:`rebalance`).
    """
    d = risk.X.shape[1] - 1
    if d > WIDEST:
        raise ValueError(
            f"problem: splitting takes at most {WIDEST:,} features, got {d:,}"
        )
    yield s
    scale = column_scale(risk.X)
    X = (risk.X / scale).astype("f4")
    gram = sum(part.T @ part for part in blocks(X))
    factor = la.cho_factor(gram.astype("f8") + RATIO * np.eye(len(gram)))
    project = la.cho_solve(factor, np.eye(len(gram))).astype("f4")
    tau = (risk.tau / scale).astype("f4")
    lam = (risk.lam / scale).astype("f4")
    active = risk.active.astype("f4")
    while True:
        rows = working_rows(s)
        X_rows = X if len(rows) == risk.n else X[rows]
        Z = s.Z_S[rows]  # a copy: Z_S of the last round is read again after the steps
        XZ = X.T @ s.Z_S
        Z_M = s.Z_M
        C = 0 * Z_M
        r_S = s.weight / risk.n
        r_M = RATIO * s.weight / risk.n
        for _ in range(steps):
            half = soft_threshold(Z_M + tau / r_M, lam / r_M) * active
            P, s.phi = prox_of_max(Z, 1.0 / r_S, s.phi)
            XP = times_support(X_rows, P)
            M = (RATIO * (2 * half - Z_M).T + XZ - 2 * XP).T @ project
            Z_M = Z_M + RELAXATION * (M - half)
            Z = relax(Z, X_rows @ M.T, P, RELAXATION)
            XZ = XZ + RELAXATION * (gram @ M.T - XZ + XP)
            C = C + RELAXATION * (M - C)
        s.Z_M = Z_M
        s.Z_S = (1.0 - RELAXATION) ** steps * s.Z_S + X @ C.T
        s.Z_S[rows] = Z
        s.M = half / scale
        s.p = np.zeros((risk.n, risk.k))
        s.p[rows] = P / P.sum(dtype="f8")
        upper, lower = certify(risk, s, repairs)
        s.round += 1
        if repairs:
            rebalance(s, upper, lower, half, P, rows)
        yield s


def working_rows(s: SplittingState) -> Array:
    """Return the rows with the largest psi, which may have mass in the next round.

    There are 1.5 times as many as have mass now. The other rows have P = 0, so their
    Z_S and X'Z_S follow one linear recursion. If no row is above phi, phi falls, at
    most until one row alone has all the mass, n / weight.
    """
    values = psi(s.Z_S)
    highest = values.max()
    phi = s.phi if highest > s.phi else highest - len(values) / s.weight
    support = np.count_nonzero(values > phi)
    count = support + support // 2
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(-values, count)[:count])


def start(risk: MinimaxRisk, weight: float) -> SplittingState:
    """Return round 0: M = 0 and the uniform distribution."""
    n = risk.n
    k = risk.k
    return SplittingState(
        **risk_fields(risk),
        Z_M=np.zeros_like(risk.tau, dtype="f4"),
        Z_S=np.zeros((n, k), dtype="f4"),
        phi=-1.0,
        weight=weight,
        M=np.zeros_like(risk.tau),
        p=np.full((n, k), 1.0 / (n * k)),
    )


def certify(risk: MinimaxRisk, s: SplittingState, repairs: int) -> tuple[float, float]:
    """Update the best bounds; return the bounds of this iterate after repairs."""
    upper, M = sharpest_upper(risk, s.M, s.phi, repairs)
    lower, p, rows = sharpest_lower(risk, s.p, repairs)
    s.offer(M, upper)
    s.raise_lower(lower, p, rows)
    return upper, lower


def rebalance(s: SplittingState, upper: float, lower: float, half, P, rows) -> None:
    """Adapt the weight to the two halves of the gap.

    The weight rises if the upper bound is farther from p's Bayes error than the lower
    bound. The iterate and its multipliers do not change: in Z = prox + multiplier /
    weight, only the last term is scaled.
    """
    factor = imbalance(s.p, upper, lower) ** (1.0 / s.round)
    s.weight *= factor
    s.Z_M = half + (s.Z_M - half) / np.float32(factor)
    s.Z_S[rows] += P * np.float32(1.0 / factor - 1.0)


def column_scale(X) -> Array:
    """Return the root mean square of each column, 1 for a column of zeros."""
    total = sum((part * part).sum(axis=0) for part in blocks(X))
    scale = np.sqrt(total / len(X))
    return np.where(scale > 0, scale, 1.0)


def soft_threshold(M, t):
    """Return the proximal operator of ``t |M|``."""
    excess = abs(M) - t
    return np.sign(M) * (excess + abs(excess)) / 2


@njit
def prox_of_max(Z, mass, phi):
    """Return P = Z - prox(Z) for ``g / r`` with r = 1 / mass, and its threshold.

    g(S) is the maximum over distributions p of ``<p, S> - sum_i max_y p_iy``, so by
    Moreau's identity ``P = (min(z_iy, psi(z_i)) - phi)_+`` where phi makes the sum of P
    equal to `mass`: each row is clipped at its psi, then all rows together are
    projected on one simplex. Newton's method on phi needs a few passes over the rows
    with psi > phi. ``p = P / mass`` is a joint distribution on rows and labels.
    """
    n, k = Z.shape
    t = psi(Z)
    for _ in range(200):
        total = 0.0
        count = 0
        for i in range(n):
            if t[i] > phi:
                for y in range(k):
                    z = min(Z[i, y], t[i])
                    if z > phi:
                        total += z - phi
                        count += 1
        if count == 0:
            phi = t.max() - mass
            continue
        step = (total - mass) / count
        phi += step
        if abs(total - mass) <= 1e-6 * mass:
            break
    P = np.zeros_like(Z)
    for i in range(n):
        if t[i] > phi:
            for y in range(k):
                P[i, y] = max(min(Z[i, y], t[i]) - phi, 0.0)
    return P, phi


@njit
def relax(Z, S, P, relaxation):
    """Add relaxation (S - prox(Z)), with prox(Z) = Z - P, to Z in place; return Z."""
    n, k = Z.shape
    for i in range(n):
        for y in range(k):
            Z[i, y] += relaxation * (S[i, y] - Z[i, y] + P[i, y])
    return Z


@njit(fastmath=FAST, error_model="numpy")
def times_support(X, P):
    """Return X'P from the few entries of P that are not zero."""
    n, k = P.shape
    d = X.shape[1]
    total = np.zeros((k, d), np.float32)
    for i in range(np.uint64(n)):
        for y in range(np.uint64(k)):
            if P[i, y] != 0.0:
                for j in range(np.uint64(d)):
                    total[y, j] += P[i, y] * X[i, j]
    return total.T
