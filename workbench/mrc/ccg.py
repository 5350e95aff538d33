"""MRC-CCG: minimax risk classifiers by constraint and column generation (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.measures import bounds
from workbench.core.problem import Problem
from workbench.core.stream import Row
from workbench.mrc.lp import all_subsets, averages
from workbench.mrc.master import Restricted, carry, check, largest, solve
from workbench.mrc.risk import (
    MinimaxRisk,
    greedy_subset,
    linear_scores,
    minimax_risk,
    psi,
    renew_bounds,
)

TIGHT = 1e-9  # a constraint violated by less is tight; "at least 0" would add it for ever
EMPIRICAL = -1  # the sample index of the constraint tau'mu <= nu, see `initial_constraints`


@dataclass
class CutState:
    """One iterate of Algorithm 1.

    ``samples`` (c,) and ``masks`` (c, k) are the constraints I: a sample, or n + y for the
    centroid of class y, or EMPIRICAL, and its label subset. ``features`` (f,) are the
    components J, as positions y d' + j. ``M`` (k, d') and ``nu`` solve P_IJ with value ``R``,
    ``alpha`` (c,) solves D_IJ; ``slack`` (c,) is how far the constraints are from tight.
    ``psi`` (n,) and ``mean`` (k, d') price all constraints and all features at this solution;
    ``eps1`` and ``eps2`` are their largest violations. All is for this ``lambda0``.
    """

    round: int
    samples: np.ndarray
    masks: np.ndarray
    features: np.ndarray
    M: np.ndarray
    nu: float
    alpha: np.ndarray
    slack: np.ndarray
    R: float
    psi: np.ndarray
    mean: np.ndarray
    eps1: float
    eps2: float
    column_basis: np.ndarray
    row_basis: np.ndarray
    M_best: np.ndarray
    lower: float
    upper: float
    lambda0: float

    def scores(self, X) -> np.ndarray:
        return linear_scores(self.M_best, X)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {
            "R": self.R,
            "eps1_hat": self.eps1,
            "eps2_hat": self.eps2,
            "constraints": len(self.samples),
            "features": len(self.features),
        }


def mrc_ccg(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    eps1: float = 1e-2,
    eps2: float = 1e-5,
    n_max: int = 400,
    m_max: int = 400,
    k_max: int = 10_000,
    columns: bool | None = None,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Learn a minimax risk classifier by constraint and column generation (Algorithm 1).

    Ends by itself when no constraint is violated by more than `eps1` and no feature by more
    than `eps2`; Theorems 1 and 2 then bound the error of R^k.

    Parameters
    ----------
    problem : Problem
    lambda0 : > 0, confidence of the uncertainty set in standard deviations
    eps1, eps2 : >= 0, smallest violation of a primal, of a dual constraint that counts
    n_max, m_max : >= 1, constraints and features added a round, the most violated first
    k_max : >= 1, rounds at most
    columns : generate features too (section III-C: nothing is ever removed); False uses all
        features and removes slack constraints (section III-B). By default, when Phi has more
        components than there are samples.

    Raises
    ------
    ValueError
        For a parameter outside its range.
    """
    check(eps1=eps1, eps2=eps2, n_max=n_max, m_max=m_max, k_max=k_max)
    risk = minimax_risk(problem, lambda0)
    if columns is None:
        columns = risk.tau.size > risk.n
    centroids = class_means(risk)
    s = state or start(risk, centroids, n_max, m_max, eps2, columns)
    if s.lambda0 != lambda0:
        solve_anew(risk, s, centroids, n_max)
    yield s
    while s.round < k_max:
        J = feat(risk, s, eps2, m_max) if columns else s.features[:0]
        samples, masks, kept = constr(risk, s, eps1, n_max, remove=not columns)
        if not len(J) and not len(samples):
            return
        update_sets(s, J, samples, masks, kept)
        lpsolve(risk, s, centroids)
        price(risk, s, centroids)
        s.round += 1
        yield s


def feat(risk: MinimaxRisk, s: CutState, eps2: float, m_max: int) -> np.ndarray:
    """FEAT: return the m_max features outside J whose dual constraints are most violated."""
    violation = (np.abs(s.mean - risk.tau) - risk.lam).ravel()
    violation[~risk.active.ravel()] = -np.inf
    violation[s.features] = -np.inf
    return largest(violation, max(eps2, TIGHT), m_max)


def constr(
    risk: MinimaxRisk, s: CutState, eps1: float, n_max: int, remove: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CONSTR: return the n_max most violated constraints, and which of I are kept.

    Algorithm 2 gives the most violated subset of each sample; constraints of I that are
    over-satisfied go when `remove`.
    """
    samples = largest(s.psi + 1.0 - s.nu, max(eps1, TIGHT), n_max)
    V = np.asarray(risk.X[samples] @ s.M.T)
    masks = np.array([greedy_subset(v)[1] for v in V], dtype=bool).reshape(-1, risk.k)
    # What has a multiplier is tight, though its slack may exceed the simplex's tolerance.
    kept = (s.alpha > 0) | (s.slack <= TIGHT) | (not remove)
    return samples, masks, kept


def update_sets(s: CutState, J, samples, masks, kept) -> None:
    """Change I and J, and with them the basis."""
    s.column_basis, s.row_basis = carry(
        s.column_basis, s.row_basis, len(s.features), len(J), kept, len(samples)
    )
    s.features = np.concatenate([s.features, J])
    s.samples = np.concatenate([s.samples[kept], samples])
    s.masks = np.concatenate([s.masks[kept], masks])


def lpsolve(risk: MinimaxRisk, s: CutState, centroids) -> None:
    """LPSOLVE: solve P_IJ (14) and D_IJ (15) by the dual simplex from the last basis."""
    found = solve(restricted(risk, s, centroids), s.column_basis, s.row_basis)
    s.column_basis, s.row_basis = found.column_basis, found.row_basis
    s.M = np.zeros_like(risk.tau)
    s.M.ravel()[s.features] = found.w
    s.nu, s.R = found.t, found.value
    s.alpha, s.slack = found.alpha / found.alpha.sum(), found.slack


def restricted(risk: MinimaxRisk, s: CutState, centroids) -> Restricted:
    """Return P_IJ for the constraints and features of `s`."""
    empirical = s.samples == EMPIRICAL
    X = gather(risk.X, centroids, np.where(empirical, 0, s.samples))
    F, b = averages(X, s.masks, s.features)
    tau, lam = risk.tau.ravel()[s.features], risk.lam.ravel()[s.features]
    if empirical.any():
        F = F.tolil()
        F[np.flatnonzero(empirical)[0]] = tau
        F, b = F.tocsr(), np.where(empirical, 0.0, b)
    return Restricted(F, np.full(len(b), -1.0), b, linear=-tau, lam=lam, cost=1.0)


def price(risk: MinimaxRisk, s: CutState, centroids) -> None:
    """Price every constraint and every feature at the solution; renew the certificate."""
    s.psi = psi(np.asarray(risk.X @ s.M.T))
    s.eps1 = max(0.0, float(s.psi.max()) + 1.0 - s.nu)
    p = distribution(risk, s)
    s.mean = (risk.X.T @ p).T
    violation = np.where(risk.active, np.abs(s.mean - risk.tau) - risk.lam, 0.0)
    s.eps2 = max(0.0, float(violation.max()))
    s.lower = max(s.lower, risk.lower(p, s.mean))
    upper = risk.upper(s.M, float(s.psi.max()))
    if upper < s.upper:
        s.upper, s.M_best = upper, s.M


def distribution(risk: MinimaxRisk, s: CutState) -> np.ndarray:
    """Return the (n, k) joint distribution on the samples that alpha stands for.

    A centroid's mass is spread over the samples of its class, the empirical constraint's over
    all samples with their own labels, by their weights: neither changes the mean of Phi.
    """
    weights = s.alpha[:, None] * s.masks / s.masks.sum(axis=1, keepdims=True)
    p = np.zeros((risk.n, risk.k))
    real = (s.samples >= 0) & (s.samples < risk.n)
    np.add.at(p, s.samples[real], weights[real])
    mass = np.zeros((risk.k, risk.k))
    central = s.samples >= risk.n
    np.add.at(mass, s.samples[central] - risk.n, weights[central])
    p += (mass / np.bincount(risk.y, risk.weights)[:, None])[risk.y] * risk.weights[:, None]
    empirical = s.alpha[s.samples == EMPIRICAL].sum()
    p[np.arange(risk.n), risk.y] += empirical * risk.weights / risk.weights.sum()
    return p


def start(
    risk: MinimaxRisk, centroids, n_max: int, m_max: int, eps2: float, columns: bool
) -> CutState:
    """Return round 0: the solution on the centroids (section III-E).

    With `columns` the first features come from five rounds of column generation on these
    constraints (Bondugula, Mazuelas, Pérez 2023).
    """
    samples, masks = initial_constraints(risk, n_max)
    everything = np.flatnonzero(risk.active)
    s = CutState(
        round=0,
        samples=samples,
        masks=masks,
        features=everything[:0] if columns else everything,
        M=np.zeros_like(risk.tau),
        nu=0.0,
        alpha=np.zeros(len(samples)),
        slack=np.zeros(len(samples)),
        R=0.0,
        psi=np.zeros(risk.n),
        mean=np.zeros_like(risk.tau),
        eps1=np.inf,
        eps2=np.inf,
        column_basis=np.zeros(0, dtype=np.int8),
        row_basis=np.zeros(0, dtype=np.int8),
        M_best=np.zeros_like(risk.tau),
        lower=0.0,
        upper=np.inf,
        lambda0=risk.lambda0,
    )
    lpsolve(risk, s, centroids)
    price(risk, s, centroids)
    for _ in range(5 if columns else 0):
        J = feat(risk, s, eps2, m_max)
        if not len(J):
            break
        update_sets(s, J, samples[:0], masks[:0], np.ones(len(samples), dtype=bool))
        lpsolve(risk, s, centroids)
        price(risk, s, centroids)
    return s


def solve_anew(risk: MinimaxRisk, s: CutState, centroids, n_max: int) -> None:
    """Solve P_IJ for another lambda0, from the last basis; I and J stay.

    The first constraints, which bound the LP for any, are taken in the place of those that are left
    of them.
    """
    renew_bounds(s, risk)
    of_samples = (s.samples >= 0) & (s.samples < risk.n)
    update_sets(s, s.features[:0], *initial_constraints(risk, n_max), of_samples)
    lpsolve(risk, s, centroids)
    price(risk, s, centroids)


def initial_constraints(risk: MinimaxRisk, n_max: int) -> tuple[np.ndarray, np.ndarray]:
    """Return constraints that bound the first LP: the centroids (20) with every label subset.

    For many classes, where these exceed `n_max`, each centroid with its own label and with all
    labels, and the one constraint tau'mu <= nu. Any mu obeys it, since nu >= v_y for all x and
    y, and it implies the paper's "objective positive"; its multiplier puts mass on the
    empirical distribution, so that the certificate stays valid.
    """
    k, n = risk.k, risk.n
    if k < 16 and k * (2**k - 1) <= n_max:
        subsets = all_subsets(k)
        return np.repeat(n + np.arange(k), len(subsets)), np.tile(subsets, (k, 1))
    samples = np.r_[n + np.arange(k), n + np.arange(k), EMPIRICAL]
    masks = np.vstack([np.eye(k, dtype=bool), np.ones((k + 1, k), dtype=bool)])
    return samples, masks


def class_means(risk: MinimaxRisk):
    """Return the (k, d') centroids tau^y / p_y of equation (20), sparse when X is."""
    n, k = risk.n, risk.k
    shares = risk.weights / np.bincount(risk.y, risk.weights)[risk.y]
    share = sp.csr_matrix((shares, (risk.y, np.arange(n))), (k, n))
    return share @ risk.X


def gather(X, centroids, samples: np.ndarray):
    """Return the rows of `X` and, from index n on, of `centroids`."""
    n = X.shape[0]
    central = samples >= n
    if not central.any():
        return X[samples]
    if sp.issparse(X):
        order = np.argsort(np.r_[np.flatnonzero(~central), np.flatnonzero(central)])
        both = sp.vstack([X[samples[~central]], centroids[samples[central] - n]], format="csr")
        return both[order]
    rows = np.empty((len(samples), X.shape[1]))
    rows[~central] = X[samples[~central]]
    rows[central] = centroids[samples[central] - n]
    return rows
