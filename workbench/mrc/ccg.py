"""MRC-CCG: minimax risk classifiers by constraint and column generation (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_not_negative
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import Row
from workbench.mrc import splitting
from workbench.mrc.interior_point import rounds_worth_while
from workbench.mrc.lp import all_subsets, averages, spread
from workbench.mrc.master import Restricted, extend, largest, solve
from workbench.mrc.risk import MinimaxRisk, RiskState, first, greedy_subset, minimax_risk, restated

LARGE = 5e6  # entries of Phi beyond which a first-order method pays: 2 of 70 s on optdigits
NEAR = 0.9  # a mean this far off the middle of its interval, in half-widths, is near its end
TIGHT = 1e-9  # a constraint violated by less is tight; "at least 0" would add it forever


@dataclass
class CutState(RiskState):
    """One iterate of Algorithm 1.

    The constraints I are ``extra`` (e,), numbers of :func:`class_subsets`, with or without
    ``every`` subset, and behind them those of ``samples`` (c,), each with a label subset in
    ``masks`` (c, k). ``features`` (f,) are the components J, as positions y d' + j. ``M`` (k, d')
    and ``nu`` solve P_IJ with value ``R``, ``alpha`` (e + c,) solves D_IJ; ``slack`` (e + c,) is
    how far the constraints are from tight. ``psi`` (n,) and ``mean`` (k, d') price all constraints
    and all features at this solution; ``eps1`` and ``eps2`` are their largest violations.
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
    mean: np.ndarray
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
        """Solve P_IJ from the last basis, with all extra constraints: they bound it for any tau."""
        rows = self.row_basis[len(self.extra) :]
        self.extra = np.arange(len(class_subsets(risk.k, self.every)[0]) + (not self.every))
        self.row_basis = np.concatenate([np.ones(len(self.extra), dtype=np.int8), rows])
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
    """Learn a minimax risk classifier by constraint and column generation (Algorithm 1).

    Ends by itself when no constraint is violated by more than `eps1` and no feature by more
    than `eps2`; Theorems 1 and 2 then bound the error of R^k.

    Parameters
    ----------
    problem : Problem
    lambda0 : > 0, confidence of the uncertainty set in standard deviations
    eps1, eps2 : >= 0, smallest violation of a primal and a dual constraint that counts
    n_max, m_max : >= 1, constraints and features added per round, the most violated first
    k_max : >= 1, the largest number of rounds
    columns : generate features too (section III-C: nothing is ever removed); False uses all
        features and removes slack constraints (section III-B). By default, when Phi has more
        components than there are samples.

    Raises
    ------
    ValueError
        For a parameter outside its range.
    """
    check_not_negative(eps1=eps1, eps2=eps2)
    check_counts(n_max=n_max, m_max=m_max, k_max=k_max)
    risk = minimax_risk(problem, lambda0)
    if columns is None:
        columns = risk.tau.size > risk.n
    s = start(risk, n_max, m_max, eps2, columns) if state is None else restated(risk, state)
    yield s
    while s.round < k_max:  # lines 2 and 3: s holds the last I and J, and their solution
        added = feat(risk, s, eps2, m_max) if columns else 0  # line 4, changes J
        added += constr(risk, s, eps1, n_max, remove=not columns)  # line 5, changes I
        if not added:  # line 11, before another LP that would have the same solution
            return
        lpsolve(risk, s)  # lines 6 to 9
        s.round += 1  # line 10
        yield s  # lines 12 and 13 are the state's M and R


def feat(risk: MinimaxRisk, s: CutState, eps2: float, m_max: int) -> int:
    """FEAT: add to J the m_max most violated dual constraints; return how many there are.

    Component j is violated if ``|F_j'alpha - tau_j| - lam_j`` exceeds eps2.
    """
    violation = (np.abs(s.mean - risk.tau) - risk.lam).ravel()
    violation[~risk.active.ravel()] = -np.inf
    violation[s.features] = -np.inf
    J = largest(violation, max(eps2, TIGHT), m_max)
    extend(s, J, np.ones(len(s.row_basis), dtype=bool), 0)
    return len(J)


def constr(risk: MinimaxRisk, s: CutState, eps1: float, n_max: int, remove: bool) -> int:
    """CONSTR: add to I the n_max most violated constraints; return how many there are.

    Each is the most violated subset of a sample, by Algorithm 2. With `remove`, those of I that
    are over-satisfied leave it if others join.
    """
    samples = largest(s.psi + 1.0 - s.nu, max(eps1, TIGHT), n_max)
    if not len(samples):
        return 0
    V = np.asarray(risk.X[samples] @ s.M.T)
    masks = np.array([greedy_subset(v)[1] for v in V])
    # A constraint with a multiplier is tight, even if its slack exceeds the simplex's tolerance.
    kept = (s.alpha > 0) | (s.slack <= TIGHT) | (not remove)
    extend(s, s.features[:0], kept, len(samples))
    of_extra, of_samples = np.split(kept, [len(s.extra)])
    s.extra = s.extra[of_extra]
    s.samples = np.concatenate([s.samples[of_samples], samples])
    s.masks = np.concatenate([s.masks[of_samples], masks])
    return len(samples)


def lpsolve(risk: MinimaxRisk, s: CutState) -> None:
    """LPSOLVE: solve P_IJ (14), line 7, and D_IJ (15), line 8, by the dual simplex; R is line 9.

    It starts from the last basis. Then every constraint and every feature is priced at the
    solution, and the certificate is renewed.
    """
    found = solve(restricted(risk, s), s)
    s.M = np.zeros_like(risk.tau)
    s.M.ravel()[s.features] = found.w
    s.nu, s.R = found.t, found.value
    s.alpha, s.slack = found.alpha / found.alpha.sum(), found.slack
    s.psi = risk.heights(s.M)
    s.eps1 = max(0.0, float(s.psi.max()) + 1.0 - s.nu)
    p = distribution(risk, s)
    s.mean = (risk.X.T @ p).T
    violation = np.where(risk.active, np.abs(s.mean - risk.tau) - risk.lam, 0.0)
    s.eps2 = max(0.0, float(violation.max()))
    s.raise_lower(risk.lower(p, s.mean), p)
    s.offer(s.M, risk.upper(s.M, float(s.psi.max())))


def restricted(risk: MinimaxRisk, s: CutState) -> Restricted:
    """Return P_IJ for the constraints and features of `s`."""
    J, (classes, masks) = s.features, class_subsets(risk.k, s.every)
    tau, lam = risk.tau.ravel()[J], risk.lam.ravel()[J]
    of_means = s.extra[s.extra < len(masks)]
    means = risk.means[classes[of_means]]
    parts = [averages(sp.csr_matrix(means) if risk.is_sparse else means, masks[of_means], J)]
    if len(of_means) < len(s.extra):
        parts.append((tau[None], np.zeros(1)))
    parts.append(averages(risk.X[s.samples], s.masks, J))
    F, b = sp.vstack([F for F, _ in parts], format="csr"), np.concatenate([b for _, b in parts])
    return Restricted(F, np.full(len(b), -1.0), b, linear=-tau, lam=lam, cost=1.0)


def distribution(risk: MinimaxRisk, s: CutState) -> np.ndarray:
    """Return the (n, k) joint distribution on the samples that alpha stands for.

    Mass on a class's mean is spread over the rows of the class by their weights, mass on the
    empirical distribution over all rows: neither changes the mean of Phi.
    """
    classes, masks = class_subsets(risk.k, s.every)
    of_means = s.extra[s.extra < len(masks)]
    of_class = np.bincount(risk.y, risk.weights)
    p, joint = np.zeros((risk.n, risk.k)), np.zeros((risk.k, risk.k))
    means, empirical, samples = np.split(s.alpha, [len(of_means), len(s.extra)])
    np.add.at(p, s.samples, spread(samples, s.masks))
    np.add.at(joint, classes[of_means], spread(means, masks[of_means]))
    joint.flat[:: risk.k + 1] += empirical.sum() * of_class / of_class.sum()
    return p + (joint / of_class[:, None])[risk.y] * risk.weights[:, None]


def class_subsets(k: int, every: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the constraints on class means that bound the first LP (section III-E).

    With `every`, these are each class's mean with every label subset (20). Else, for many classes,
    each mean with its own label and with all labels; then one more constraint, which has the last
    number in ``extra``, is that of the empirical distribution, tau'mu <= nu. Any mu obeys it,
    since nu >= v_y for all x and y, and it implies the paper's "objective positive".

    Returns
    -------
    (e,) classes and (e, k) masks
    """
    if every:
        subsets = all_subsets(k)
        return np.repeat(np.arange(k), len(subsets)), np.tile(subsets, (k, 1))
    return np.tile(np.arange(k), 2), np.vstack([np.eye(k, dtype=bool), np.ones((k, k), dtype=bool)])


def start(risk: MinimaxRisk, n_max: int, m_max: int, eps2: float, columns: bool) -> CutState:
    """Return round 0: the solution on the class means (section III-E).

    With `columns` the first features come from five rounds of column generation on these
    constraints (Bondugula, Mazuelas, Pérez 2023). In large dense problems :func:`first_order`
    finds features and constraints: class means alone lead to wild coefficients. On optdigits with
    400 Fourier features they left U at 0.9 after 750 CPU seconds; now 4 to 6 rounds end it in 100.
    """
    k, nothing = risk.k, np.zeros(0)
    every = k < 16 and k * (2**k - 1) <= n_max
    active = np.flatnonzero(risk.active)
    s = CutState(
        **first(risk) | {"upper": np.inf},
        every=every,
        extra=np.arange(k * (2**k - 1) if every else 2 * k + 1),
        samples=np.zeros(0, dtype=int),
        masks=np.zeros((0, k), dtype=bool),
        features=active[:0] if columns else active,
        **dict.fromkeys(("alpha", "slack", "psi"), nothing),
        **dict.fromkeys(("M", "mean"), np.zeros_like(risk.tau)),
        **dict.fromkeys(("nu", "R", "eps1", "eps2"), 0.0),
        **dict.fromkeys(("column_basis", "row_basis"), np.zeros(0, dtype=np.int8)),
    )
    dense = not risk.is_sparse and risk.X.shape[1] <= splitting.WIDEST
    if dense and risk.n * risk.tau.size > LARGE:
        first_order(risk, s)
    lpsolve(risk, s)
    for _ in range(5 if columns and not len(s.samples) else 0):
        if not feat(risk, s, eps2, m_max):
            break
        lpsolve(risk, s)
    return s


def first_order(risk: MinimaxRisk, s: CutState) -> None:
    """Give `s` the constraints and features that a first-order method suggests (section III-D).

    Each p_i of the splitting is a mixture of label subsets, of which the heaviest become I. J are
    the components with a coefficient, or whose mean is near the end of its interval.
    """
    for found in splitting.split(risk, splitting.start(risk, weight=5.0), steps=25, repairs=0):
        if found.round >= rounds_worth_while(risk, found):
            break
    order = np.argsort(-found.p, axis=1, kind="stable")
    p = np.take_along_axis(found.p, order, axis=1)
    alpha = (p - np.pad(p, ((0, 0), (0, 1)))[:, 1:]) * np.arange(1, risk.k + 1)
    heavy = largest(alpha.ravel(), 0.0, 2 * int(np.count_nonzero(found.M)))
    s.samples, last = np.divmod(heavy, risk.k)
    s.masks = np.argsort(order, axis=1)[s.samples] <= last[:, None]
    if not len(s.features):
        near = (found.M != 0) | (risk.ratios((risk.X.T @ found.p).T) > NEAR)
        s.features = np.flatnonzero(near & risk.active)
    s.offer(found.M_best, found.upper)
    s.raise_lower(found.lower, found.p_best, found.p_rows)
