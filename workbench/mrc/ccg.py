"""MRC-CCG, minimax risk classifiers by constraint and column generation: Algorithm 1.

The comments in :func:`mrc_ccg` give the line numbers of the printed box, which repeats
FEAT, CONSTR and LPSOLVE until neither constraints nor features are added:

    1: k := 1
    2: repeat
    3:     J^ := J, I^ := I
    4:     J := FEAT(I^, J^, alpha^k, eps2, m_max)
    5:     I := CONSTR(I^, J^, mu^k, nu^k, eps1, n_max)
    6:     LPSOLVE(I, J):
    7:         mu^(k+1), nu^(k+1) := solution of the primal P_IJ                    (14)
    8:         alpha^(k+1) := solution of the dual D_IJ                             (15)
    9:         R^(k+1) := optimal value
    10:    k := k + 1
    11: until I and J have nothing new, or k is k_max
    12: mu* := 0
    13: mu*_J := mu^k, R* := R^k
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_flags, check_not_negative
from workbench.core.problem import Array, Problem
from workbench.core.state import Row, resumable
from workbench.mrc.lp import all_subsets, averages, spread
from workbench.mrc.master import add_features, change_rows, largest, solve
from workbench.mrc.risk import (
    MinimaxRisk,
    RiskState,
    greedy_subset,
    minimax_risk,
    restated,
    risk_fields,
)

# A constraint whose violation is smaller counts as tight: with a threshold of 0, the
# rounding of the LP would otherwise add the same constraints forever.
TIGHT = 1e-9


@dataclass
class CutState(RiskState):
    """One iterate of Algorithm 1.

    The constraints I are ``extra`` (e,), positions in :func:`class_subsets` with or
    without ``every`` subset, followed by those of ``samples`` (c,), each with a label
    subset in ``masks`` (c, k). The features J are ``features`` (f,), given by their
    positions y d' + j. ``M`` (k, d') and ``nu`` solve P_IJ with the value ``R``, and
    ``alpha`` (e + c,) solves D_IJ; ``slack`` (e + c,) is the distance of each
    constraint from being tight. ``psi`` (n,) is the value (16) of each sample, and
    ``eps1`` and ``eps2`` are the largest violations of a primal and a dual constraint.
    """

    every: bool
    extra: Array
    samples: Array
    masks: Array
    features: Array
    M: Array
    nu: float
    alpha: Array
    slack: Array
    R: float
    psi: Array
    eps1: float
    eps2: float
    column_basis: Array
    row_basis: Array

    def info(self) -> Row:
        return super().info() | {
            "R": self.R,
            "eps1_hat": self.eps1,
            "eps2_hat": self.eps2,
            "constraints": len(self.alpha),
            "features": len(self.features),
        }

    def move(self, risk: MinimaxRisk) -> None:
        """Solve P_IJ from the last basis, with all extra constraints.

        They bound the program for every tau.
        """
        sample_rows = self.row_basis[len(self.extra) :]
        self.extra = np.arange(len(class_subsets(risk.k, self.every)[0]))
        basic = np.ones(len(self.extra), dtype=np.int8)
        self.row_basis = np.concatenate([basic, sample_rows])
        lpsolve(risk, self)


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
    """Learn a minimax risk classifier by constraint and column generation.

    This is Algorithm 1. The stream ends when no constraint is violated by more than
    `eps1` and no feature by more than `eps2`; Theorems 1 and 2 then bound the error of
    R^k. It always begins at the class means (section III-E). Our faster start is
    :func:`workbench.mrc.fast.mrc_ccg_fast`.

    Parameters
    ----------
    problem : Problem
    lambda0 : float > 0, the half-width of the uncertainty set in standard deviations.
        The paper takes 0.01 (section IV)
    eps1 : float >= 0, the largest violation of a primal constraint that is tolerated.
        The paper takes 1e-2 (section IV)
    eps2 : float >= 0, the largest violation of a dual constraint that is tolerated. The
        paper takes 1e-5 (section IV)
    n_max : int >= 1, the largest number of constraints that a round adds, the most
        violated first. The paper takes 400 (section IV), and leaves open which are
        added
    m_max : int >= 1, the largest number of features that a round adds, the most
        violated first. The paper takes 400 (section IV)
    k_max : int >= 1, the largest number of rounds. The paper prints no value; no run
        comes near the default
    columns : bool or None, whether features are generated as well. True generates them
        and removes no constraint (section III-C). False uses all features and removes
        slack constraints (section III-B). The paper says which data sets it solves in
        which way (IV-B), but gives no rule. By default :func:`many_features` decides,
        in agreement with all of these data sets. Some runs end in one of the two ways
        only: on optdigits with 400 Fourier features, False ends after some 40 rounds,
        while with True, which keeps all constraints, each round is slower than the last
        (the figure ``mrc_starts``)

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    check_not_negative(eps1=eps1, eps2=eps2)
    check_counts(n_max=n_max, m_max=m_max, k_max=k_max)
    risk = minimax_risk(problem, lambda0)
    if columns is None:
        columns = many_features(risk)
    check_flags(columns=columns)
    if state is None:
        s = start(risk, n_max, m_max, eps2, columns)
    else:
        s = restated(risk, state)
    while True:  # line 2
        J = feat(risk, s, eps2, m_max)  # line 4: what is added to the J of line 3
        I = constr(risk, s, eps1, n_max)  # line 5: the samples whose constraints join I
        yield s  # lines 12 and 13 are the state's M and R
        # Line 11 is tested before the LP: if nothing is new, the solution is the same.
        if s.round >= k_max or (len(J) == 0 and len(I) == 0):
            return
        add_features(s, J)
        if len(I):
            change_constraints(risk, s, I, remove=not columns)
        lpsolve(risk, s)  # lines 6 to 9
        s.round += 1  # line 10


def many_features(risk: MinimaxRisk) -> bool:
    """Return whether features are generated by default (section III-C).

    Among the paper's data sets for III-C, real_sim has the fewest features per sample
    (.36); among those for III-B, cats vs dogs has the most (.03).
    """
    return 3 * risk.X.shape[1] > risk.n


def feat(risk: MinimaxRisk, s: CutState, eps2: float, m_max: int) -> Array:
    """FEAT: return the m_max features with the most violated dual constraints.

    Feature j is violated if ``|F_j'alpha - tau_j| - lam_j`` exceeds eps2. If J already
    has all features (section III-B), there is none to return. F'alpha also gives a
    lower bound of R*.
    """
    p = distribution(risk, s)
    F_alpha = (risk.X.T @ p).T
    violation = (np.abs(F_alpha - risk.tau) - risk.lam).ravel()
    violation[~risk.active.ravel()] = -np.inf
    s.eps2 = max(0.0, float(violation.max()))
    s.raise_lower(risk.lower(p, F_alpha), p)
    violation[s.features] = -np.inf
    return largest(violation, max(eps2, TIGHT), m_max)


def constr(risk: MinimaxRisk, s: CutState, eps1: float, n_max: int) -> Array:
    """CONSTR: return the n_max samples with the most violated constraints.

    The most violated constraint of a sample belongs to the subset that Algorithm 2
    finds. Its violation is ``F_i mu - nu - b_i = psi + 1 - nu``. The psi of all samples
    also give an upper bound of R*.
    """
    s.psi = risk.heights(s.M)
    violation = s.psi + 1.0 - s.nu
    s.eps1 = max(0.0, float(violation.max()))
    s.offer(s.M, risk.upper(s.M, float(s.psi.max())))
    return largest(violation, max(eps1, TIGHT), n_max)


def change_constraints(
    risk: MinimaxRisk, s: CutState, samples: Array, remove: bool
) -> None:
    """Add the most violated constraint of each of these samples to I.

    With `remove`, the over-satisfied constraints leave I. A constraint with a
    multiplier is tight, even if its slack exceeds the tolerance of the simplex method.
    """
    V = np.asarray(risk.X[samples] @ s.M.T)
    masks = np.array([greedy_subset(v)[1] for v in V])
    stays = (s.alpha > 0) | (s.slack <= TIGHT) | (not remove)
    change_rows(s, stays, len(samples))
    extra_stays, sample_stays = np.split(stays, [len(s.extra)])
    s.extra = s.extra[extra_stays]
    s.samples = np.concatenate([s.samples[sample_stays], samples])
    s.masks = np.concatenate([s.masks[sample_stays], masks])


def lpsolve(risk: MinimaxRisk, s: CutState) -> None:
    """LPSOLVE: solve P_IJ (14) and D_IJ (15), lines 7 and 8; set R, line 9.

    HiGHS's dual simplex starts from the last basis (section III-D); the paper uses
    Gurobi, which chooses a method by itself. The dual simplex solves the programs of
    optdigits with 400 Fourier features (1,700 x 8,021) in 25 s, and HiGHS's interior
    point method with crossover in 24 s.
    """
    J = s.features
    classes, masks = class_subsets(risk.k, s.every)
    F_extra, b_extra = averages(risk.means[classes[s.extra]], masks[s.extra], J)
    F_samples, b_samples = averages(risk.X[s.samples], s.masks, J)
    b = np.concatenate([b_extra, b_samples])
    optimum = solve(
        s,
        F=sp.vstack([F_extra, F_samples], format="csr"),
        g=np.full(len(b), -1.0),
        b=b,
        linear=-risk.tau.ravel()[J],
        lam=risk.lam.ravel()[J],
        cost=1.0,
    )
    s.M = np.zeros_like(risk.tau)
    s.M.ravel()[J] = optimum.w
    s.nu = optimum.t
    s.R = optimum.value
    s.alpha = optimum.alpha / optimum.alpha.sum()
    s.slack = optimum.slack


def distribution(risk: MinimaxRisk, s: CutState) -> Array:
    """Return the (n, k) joint distribution on the samples that alpha stands for.

    Mass on a class's mean is spread over the rows of the class by their weights, which
    does not change the mean of Phi: F'alpha is X'p.
    """
    classes, masks = class_subsets(risk.k, s.every)
    extra_alpha, sample_alpha = np.split(s.alpha, [len(s.extra)])
    p = np.zeros((risk.n, risk.k))
    np.add.at(p, s.samples, spread(sample_alpha, s.masks))
    of_means = np.zeros((risk.k, risk.k))
    np.add.at(of_means, classes[s.extra], spread(extra_alpha, masks[s.extra]))
    of_means /= np.bincount(risk.y, risk.weights)[:, None]
    return p + of_means[risk.y] * risk.weights[:, None]


def class_subsets(k: int, every: bool) -> tuple[Array, Array]:
    """Return the constraints on class means that bound the first LP (section III-E).

    With `every`, each class's mean is combined with every label subset (20). Otherwise,
    for many classes, each mean is combined only with its own label and with all labels.
    The paper does not say which few subsets it takes; it adds the constraint "objective
    positive". Here the constraints of the classes' own labels imply that one: weighted
    by the class proportions, they sum to ``tau'mu <= nu``.

    Returns
    -------
    (e,) classes and (e, k) masks
    """
    if every:
        subsets = all_subsets(k)
        return np.repeat(np.arange(k), len(subsets)), np.tile(subsets, (k, 1))
    own_label = np.eye(k, dtype=bool)
    all_labels = np.ones((k, k), dtype=bool)
    return np.tile(np.arange(k), 2), np.vstack([own_label, all_labels])


def start(
    risk: MinimaxRisk, n_max: int, m_max: int, eps2: float, columns: bool
) -> CutState:
    """Return the input of Algorithm 1: the solution on the class means (section III-E).

    With `columns`, the first features come from "a few" rounds, here five, of column
    generation on these constraints (Bondugula, Mazuelas, Pérez 2023).
    """
    s = class_means(risk, n_max, columns)
    lpsolve(risk, s)
    for _ in range(5):
        J = feat(risk, s, eps2, m_max)
        if not len(J):
            break
        s.offer(s.M, risk.upper(s.M))
        add_features(s, J)
        lpsolve(risk, s)
    return s


def class_means(risk: MinimaxRisk, n_max: int, columns: bool) -> CutState:
    """Return a state before its first LP, whose constraints I are on the class means.

    With `columns`, J is empty; otherwise it has all features. The paper takes all label
    subsets "upto a few labels"; here they are taken if there are at most `n_max`
    constraints.
    """
    k = risk.k
    every = k < 16 and k * (2**k - 1) <= n_max
    features = np.zeros(0, dtype=int) if columns else np.flatnonzero(risk.active)
    return CutState(
        **risk_fields(risk) | {"upper": np.inf},
        every=every,
        extra=np.arange(len(class_subsets(k, every)[0])),
        samples=np.zeros(0, dtype=int),
        masks=np.zeros((0, k), dtype=bool),
        features=features,
        M=np.zeros_like(risk.tau),
        nu=0.0,
        alpha=np.zeros(0),
        slack=np.zeros(0),
        R=0.0,
        psi=np.zeros(0),
        eps1=0.0,
        eps2=0.0,
        column_basis=np.zeros(0, dtype=np.int8),
        row_basis=np.zeros(0, dtype=np.int8),
    )
