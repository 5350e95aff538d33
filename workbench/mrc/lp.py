"""MRC-LP: the whole linear program, with all rows and label subsets."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, resumable
from workbench.mrc.highs import check_seconds, minimise
from workbench.mrc.risk import RiskState, minimax_risk, restated, risk_fields

NONZEROS = 200_000_000  # the largest number of non-zeros; they take 20 GB in HiGHS


@dataclass
class LinearProgramState(RiskState):
    """The classifier and its bounds; round 1 is the solution, with the value ``R``."""

    R: float

    @property
    def M(self) -> Array:
        """The solution (k, d')."""
        return self.M_best

    def info(self) -> Row:
        return super().info() | {"R": self.R}


@resumable()
def mrc_lp(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    max_seconds: float = math.inf,
    state: LinearProgramState | None = None,
) -> Iterator[LinearProgramState]:
    """Solve the LP (6) with all n (2^k - 1) constraints (MRC-LP of the paper).

    This solver is for small k: for lessons, tests and reference values. The only round
    is the solution; if it takes longer than `max_seconds`, the stream ends without it.

    Parameters
    ----------
    lambda0 : float > 0, the half-width of the uncertainty set in standard deviations
    max_seconds : float > 0, the time limit in wall seconds

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the LP has more than :data:`NONZEROS`
        non-zeros.
    """
    check_seconds(max_seconds)
    risk = minimax_risk(problem, lambda0)
    count = 2.0 ** min(risk.k, 900) - 1  # a larger power is not a float
    nonzeros = count * risk.n * (risk.X.shape[1] * risk.k)
    others = "mrc_ccg, mrc_interior_point or mrc_pdhg"
    refuse_large("mrc_lp", count * risk.n, nonzeros, others)
    subsets = all_subsets(risk.k)
    if state is None:
        s = LinearProgramState(**risk_fields(risk), R=math.inf)
    else:
        s = restated(risk, state)
    yield s
    if s.round:
        return
    started = perf_counter()
    J = np.flatnonzero(risk.active)
    rows = np.repeat(np.arange(risk.n), len(subsets))
    masks = np.tile(subsets, (risk.n, 1))
    A, b = constraints(risk.X[rows], masks, J)
    tau = risk.tau.ravel()[J]
    lam = risk.lam.ravel()[J]
    cost = np.r_[lam - tau, lam + tau, 1.0]
    seconds_left = max_seconds - (perf_counter() - started)
    if seconds_left <= 0:
        return
    solution = minimise(cost, A, b, free=[-1], seconds=seconds_left)
    if not solution.optimal:
        return
    alpha = np.maximum(-solution.dual, 0.0)
    p = np.zeros((risk.n, risk.k))
    np.add.at(p, rows, spread(alpha, masks))
    plus, minus, _ = np.split(solution.x, [len(J), 2 * len(J)])
    M = np.zeros_like(risk.tau)
    M.ravel()[J] = plus - minus
    s.offer(M, risk.upper(M))
    s.raise_lower(risk.lower(p / p.sum()), p)
    s.R = solution.objective
    s.round = 1
    yield s


def spread(alpha: Array, masks: Array) -> Array:
    """Return (c, k) masses: each multiplier (c,) is split equally among its labels."""
    return alpha[:, None] * masks / masks.sum(axis=1, keepdims=True)


def all_subsets(k: int) -> Array:
    """Return the (2^k - 1, k) bool array of all non-empty label subsets."""
    numbers = np.arange(1, 2**k)[:, None]
    return (numbers >> np.arange(k) & 1).astype(bool)


def constraints(X: Matrix, masks: Array, J: Array) -> tuple[sp.csr_matrix, Array]:
    """Return the rows (F_J, -F_J, -1) and the right-hand sides b of the LP (14).

    Parameters
    ----------
    X : (r, d') rows, the sample of each constraint
    masks : (r, k) bool, the label subset of each constraint
    J : (f,) int, components of Phi, as positions y d' + j
    """
    F, b = averages(X, masks, J)
    nu = sp.csr_matrix(np.full((len(masks), 1), -1.0))
    return sp.hstack([F, -F, nu], format="csr"), b


def averages(X: Matrix, masks: Array, J: Array) -> tuple[sp.csr_matrix, Array]:
    """Return F_J, the mean of Phi over each label subset, and b (equation 7)."""
    labels, features = np.divmod(J, X.shape[1])
    size = masks.sum(axis=1)
    weights = (masks / size[:, None])[:, labels]
    if sp.issparse(X):
        F = X[:, features].multiply(weights).tocsr()
    else:
        F = sp.csr_matrix(X[:, features] * weights)
    return F, 1.0 / size - 1.0


def refuse_large(solver: str, rows: float, nonzeros: float, instead: str) -> None:
    """Raise a ValueError that names an alternative if an LP is too large."""
    if nonzeros > NONZEROS:
        raise ValueError(
            f"problem: too large for {solver}; its LP would have {rows:.2g} rows and "
            f"up to {nonzeros:.2g} non-zeros (at most {NONZEROS:.0e}); use {instead}"
        )
