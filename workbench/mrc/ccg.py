"""MRC-CCG: minimax risk classifiers by constraint and column generation (Algorithm
1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_not_negative
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import Row
from workbench.mrc.lp import all_subsets, averages, spread
from workbench.mrc.master import Restricted, add_features, change_rows, largest, solve
from workbench.mrc.risk import (
    MinimaxRisk,
    RiskState,
    first,
    greedy_subset,
    minimax_risk,
    restated,
)

TIGHT = (
    1e-9  # a constraint violated by less is tight; "at least 0" would add it forever
)


@dataclass
class CutState(RiskState):
    """One iterate of Algorithm 1.

    The constraints I are ``extra`` (e,), numbers of :func:`class_subsets`, with or
    without ``every`` subset, and behind them those of ``samples`` (c,), each with a
    label subset in ``masks`` (c, k). ``features`` (f,) are the components J, as
    positions y d' + j. ``M`` (k, d') and ``nu`` solve P_IJ with value ``R``, ``alpha``
    (e + c,) solves D_IJ; ``slack`` (e + c,) is how far the constraints are from tight.
    ``psi`` (n,), the value (16) of each sample, and ``F_alpha`` (k, d'), which is
    F'alpha, price all constraints and all features at this solution; ``eps1`` and
    ``eps2`` are their largest violations.
    """

    every: bool
    extra: np.ndarray
    samples: np.ndarray
    masks: np.ndarray
    features: np.ndarray
    M: np.ndarray
    nu: float
    alpha: np.ndarray
    slack: np.ndarray
    R: float
    psi: np.ndarray
    F_alpha: np.ndarray
    eps1: float
    eps2: float
    column_basis: np.ndarray
    row_basis: np.ndarray

    def info(self) -> Row:
        return super().info() | {
            "R": self.R,
            "eps1_hat": self.eps1,
            "eps2_hat": self.eps2,
            "constraints": len(self.alpha),
            "features": len(self.features),
        }

    def move(self, risk: MinimaxRisk) -> None:
        """Solve P_IJ from the last basis, with all extra constraints: they bound it for
        any tau."""
        rows = self.row_basis[len(self.extra) :]
        self.extra = np.arange(len(class_subsets(risk.k, self.every)[0]))
        self.row_basis = np.concatenate([np.ones(len(self.extra), dtype=np.int8), rows])
        lpsolve(risk, self)
        price(risk, self)


@resumable("lambda0", "eps1", "eps2", "n_max", "m_max", "k_max")
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
    """Learn a minimax risk classifier by constraint and column generation (Algorithm
    1).

    Ends by itself when no constraint is violated by more than `eps1` and no feature by
    more than `eps2`; Theorems 1 and 2 then bound the error of R^k. It begins at the
    class means (section III-E), whatever the size;
    :func:`workbench.mrc.fast.mrc_ccg_fast` is ours.

    Parameters
    ----------
    problem : Problem
    lambda0 : > 0, confidence of the uncertainty set in standard deviations (0.01,
        section IV)
    eps1, eps2 : >= 0, smallest violation of a primal and a dual constraint that counts
        (1e-2 and 1e-5, section IV)
    n_max, m_max : >= 1, constraints and features added per round (400, section IV), the
        most violated first. The paper says so of features; of constraints, it leaves
        open which
    k_max : >= 1, the largest number of rounds. The paper prints none; no run comes near
        this one
    columns : generate features too (section III-C: nothing is ever removed); False uses
        all features and removes slack constraints (section III-B). The paper names the
        sections' data sets (IV-B), but no rule; ours, :func:`many_features`, agrees
        with all that it names. It decides whether a run ends: with 400 Fourier
        features, III-B ends on optdigits after some 40 rounds, while III-C, which no
        constraint leaves, slows down by the round (the figure ``mrc_starts``)

    Raises
    ------
    ValueError
        For a parameter outside its range.
    """
    check_not_negative(eps1=eps1, eps2=eps2)
    check_counts(n_max=n_max, m_max=m_max, k_max=k_max)
    risk = minimax_risk(problem, lambda0)
    if columns is None:
        columns = many_features(risk)
    s = (
        start(risk, n_max, m_max, eps2, columns)
        if state is None
        else restated(risk, state)
    )
    yield s
    while s.round < k_max:  # line 2
        J = feat(risk, s, eps2, m_max)  # line 4; s holds the sets of line 3
        I = constr(risk, s, eps1, n_max, remove=not columns)  # line 5
        if not len(J) + len(
            I
        ):  # line 11, before another LP that would have the same solution
            return
        lpsolve(risk, s)  # lines 6 to 9
        price(
            risk, s
        )  # what FEAT and CONSTR test next, once, as the certificate needs it, too
        s.round += 1  # line 10
        yield s  # lines 12 and 13 are the state's M and R


def many_features(risk: MinimaxRisk) -> bool:
    """Return whether features are generated by default (section III-C).

    Of the sets that the paper names, real_sim has the fewest features per sample of
    those for III-C (.36), cats vs dogs the most of those for III-B (.03).
    """
    return 3 * risk.X.shape[1] > risk.n


def feat(risk: MinimaxRisk, s: CutState, eps2: float, m_max: int) -> np.ndarray:
    """FEAT: add to J the m_max features whose dual constraints are most violated;
    return them.

    Feature j is violated if ``|F_j'alpha - tau_j| - lam_j`` is at least eps2. If J has
    all features (section III-B), there is none to add.
    """
    violation = (np.abs(s.F_alpha - risk.tau) - risk.lam).ravel()
    violation[~risk.active.ravel()] = -np.inf
    violation[s.features] = -np.inf
    J = largest(violation, max(eps2, TIGHT), m_max)
    add_features(s, J)
    return J


def constr(
    risk: MinimaxRisk, s: CutState, eps1: float, n_max: int, remove: bool
) -> np.ndarray:
    """CONSTR: add to I the constraints of the n_max most violated samples; return
    these.

    A sample's most violated constraint is the subset of Algorithm 2, whose violation is
    ``F_i mu - nu - b_i = psi + 1 - nu``. With `remove`, those of I that are
    over-satisfied leave it if others join.
    """
    samples = largest(s.psi + 1.0 - s.nu, max(eps1, TIGHT), n_max)
    if not len(samples):
        return samples
    V = np.asarray(risk.X[samples] @ s.M.T)
    masks = np.array([greedy_subset(v)[1] for v in V])
    # A constraint with a multiplier is tight, even if its slack exceeds the simplex's
    # tolerance.
    kept = (s.alpha > 0) | (s.slack <= TIGHT) | (not remove)
    change_rows(s, kept, len(samples))
    of_extra, of_samples = np.split(kept, [len(s.extra)])
    s.extra = s.extra[of_extra]
    s.samples = np.concatenate([s.samples[of_samples], samples])
    s.masks = np.concatenate([s.masks[of_samples], masks])
    return samples


def lpsolve(risk: MinimaxRisk, s: CutState) -> None:
    """LPSOLVE: solve P_IJ (14), line 7, and D_IJ (15), line 8; R is line 9.

    HiGHS's dual simplex starts from the last basis (section III-D); the paper has
    Gurobi, which chooses a method by itself. The programs of optdigits with 400 Fourier
    features (1,700 x 8,021) take it 25 s, and HiGHS's interior point method with
    crossover 24 s.
    """
    found = solve(restricted(risk, s), s)
    s.M = np.zeros_like(risk.tau)
    s.M.ravel()[s.features] = found.w
    s.nu, s.R = found.t, found.value
    s.alpha, s.slack = found.alpha / found.alpha.sum(), found.slack


def price(risk: MinimaxRisk, s: CutState) -> None:
    """Evaluate all constraints at M and all features at alpha, and renew the
    certificate."""
    s.psi = risk.heights(s.M)
    s.eps1 = max(0.0, float(s.psi.max()) + 1.0 - s.nu)
    p = distribution(risk, s)
    s.F_alpha = (risk.X.T @ p).T
    violation = np.where(risk.active, np.abs(s.F_alpha - risk.tau) - risk.lam, 0.0)
    s.eps2 = max(0.0, float(violation.max()))
    s.raise_lower(risk.lower(p, s.F_alpha), p)
    s.offer(s.M, risk.upper(s.M, float(s.psi.max())))


def restricted(risk: MinimaxRisk, s: CutState) -> Restricted:
    """Return P_IJ for the constraints and features of `s`."""
    J, (classes, masks) = s.features, class_subsets(risk.k, s.every)
    tau, lam = risk.tau.ravel()[J], risk.lam.ravel()[J]
    of_means = averages(risk.means[classes[s.extra]], masks[s.extra], J)
    of_samples = averages(risk.X[s.samples], s.masks, J)
    F = sp.vstack([of_means[0], of_samples[0]], format="csr")
    b = np.concatenate([of_means[1], of_samples[1]])
    return Restricted(F, np.full(len(b), -1.0), b, linear=-tau, lam=lam, cost=1.0)


def distribution(risk: MinimaxRisk, s: CutState) -> np.ndarray:
    """Return the (n, k) joint distribution on the samples that alpha stands for.

    Mass on a class's mean is spread over the rows of the class by their weights, which
    does not change the mean of Phi: F'alpha is X'p.
    """
    classes, masks = class_subsets(risk.k, s.every)
    of_class = np.bincount(risk.y, risk.weights)
    p, joint = np.zeros((risk.n, risk.k)), np.zeros((risk.k, risk.k))
    means, samples = np.split(s.alpha, [len(s.extra)])
    np.add.at(p, s.samples, spread(samples, s.masks))
    np.add.at(joint, classes[s.extra], spread(means, masks[s.extra]))
    return p + (joint / of_class[:, None])[risk.y] * risk.weights[:, None]


def class_subsets(k: int, every: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the constraints on class means that bound the first LP (section III-E).

    With `every`, these are each class's mean with every label subset (20). Else, for
    many classes, each mean with its own label and with all labels. The paper leaves
    open which few it takes, and adds "objective positive". Here the own labels imply
    it: weighted by the class proportions, their constraints sum to ``tau'mu <= nu``.

    Returns
    -------
    (e,) classes and (e, k) masks
    """
    if every:
        subsets = all_subsets(k)
        return np.repeat(np.arange(k), len(subsets)), np.tile(subsets, (k, 1))
    return np.tile(np.arange(k), 2), np.vstack(
        [np.eye(k, dtype=bool), np.ones((k, k), dtype=bool)]
    )


def start(
    risk: MinimaxRisk, n_max: int, m_max: int, eps2: float, columns: bool
) -> CutState:
    """Return round 0: the solution on the class means (section III-E).

    With `columns` the first features come from "a few", here five, rounds of column
    generation on these constraints (Bondugula, Mazuelas, Pérez 2023).
    """
    s = class_means(risk, n_max, columns)
    lpsolve(risk, s)
    price(risk, s)
    for _ in range(5):
        if not len(feat(risk, s, eps2, m_max)):
            break
        lpsolve(risk, s)
        price(risk, s)
    return s


def class_means(risk: MinimaxRisk, n_max: int, columns: bool) -> CutState:
    """Return a state before its first LP: I on the class means, J empty with `columns`,
    or all.

    All subsets are viable "upto a few labels": here if there are no more of them than
    `n_max`.
    """
    k, nothing, zero = risk.k, np.zeros(0), np.zeros_like(risk.tau)
    every = k < 16 and k * (2**k - 1) <= n_max
    active = np.flatnonzero(risk.active)
    no_basis = np.zeros(0, dtype=np.int8)
    return CutState(
        **first(risk) | {"upper": np.inf},
        every=every,
        extra=np.arange(len(class_subsets(k, every)[0])),
        samples=np.zeros(0, dtype=int),
        masks=np.zeros((0, k), dtype=bool),
        features=active[:0] if columns else active,
        M=zero,
        nu=0.0,
        alpha=nothing,
        slack=nothing,
        R=0.0,
        psi=nothing,
        F_alpha=zero,
        eps1=0.0,
        eps2=0.0,
        column_basis=no_basis,
        row_basis=no_basis,
    )
