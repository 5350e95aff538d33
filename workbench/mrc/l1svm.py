"""L1-norm support vector machines, of two classes and of more, each as one linear program.

HiGHS receives the duals, a bounded variable per loss and a row with two bounds per coefficient: its
simplex method solves them 2.5 (pulsar) to 14 times (satellite) as fast as the primals.

The objective is the *mean* hinge loss plus ``lam |w|_1``. Dedieu, Mazumder and Wang write the *sum*
of the losses, whose lambda is n times ours, and set it to ``0.01 max_j sum_i |x_ij|``, about
``lam = 0.008`` here for standardised features. The minimax risk paper reports "0.01 for all
methods" without saying of which of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_positive
from workbench.core.measures import EPS, bounds
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row
from workbench.mrc.highs import minimise
from workbench.mrc.lp import refuse_large
from workbench.mrc.risk import linear_scores, with_intercept


@dataclass(frozen=True, eq=False)
class L1SVM:
    """min over w (d,) and b of ``mean_i (1 - z_i (x_i'w + b))_+ + lam |w|_1``.

    Its dual is to maximise ``mean(alpha)`` over ``0 <= alpha <= 1`` (n,) with ``z'alpha = 0`` and
    ``|X'(z alpha)| <= n lam``: alpha is in the scale of the sum, where the absolute tolerances
    of a simplex method mean the same for every n.

    Attributes
    ----------
    X : (n, d) float64 array or CSR matrix
    z : (n,) float64, 1.0 for rows of the second class and -1.0 for those of the first
    lam : > 0
    size : (d,) mean magnitude of each feature, of which the bounds' rounding is a multiple
    """

    X: Matrix
    z: np.ndarray
    lam: float
    size: np.ndarray

    def shortfall(self, w: np.ndarray, b: float) -> np.ndarray:
        """Return ``1 - z_i (x_i'w + b)``, by how much each margin falls short of 1."""
        return 1.0 - self.z * (self.X @ w + b)

    def objective(self, w: np.ndarray, b: float, short: np.ndarray) -> float:
        """Return the objective from its (n,) shortfall, rounded up: a bound of the optimum."""
        value = float(np.maximum(short, 0.0).mean() + self.lam * np.abs(w).sum())
        terms = 1.0 + abs(b) + float(self.size @ np.abs(w))
        return value + EPS * sum(self.X.shape) * (value + terms)

    def dual(self, alpha: np.ndarray) -> tuple[np.ndarray, float]:
        """Return ``X'(z alpha)`` and a lower bound of the optimum, from any alpha.

        Clipped to [0, 1] and with the heavier class scaled down until ``z'alpha = 0``, alpha may
        still violate columns; all of it scaled down by the worst is feasible for every one, since
        the constraints of the dual hold at 0 and are convex. Rounding counts as a violation.
        """
        alpha = np.clip(alpha, 0.0, 1.0)
        second = self.z > 0
        mass = np.array([alpha[~second].sum(), alpha[second].sum()])
        share = np.divide(mass.min(), mass, out=np.zeros(2), where=mass > 0)
        alpha *= share[second.astype(int)]
        slope = self.X.T @ (self.z * alpha)
        n = len(self.z)
        most, rounding = n * self.lam, 4.0 * EPS * n
        worst = float((np.abs(slope) + rounding * n * self.size).max())
        return slope, (1.0 - rounding) * float(alpha.mean()) * most / max(most, worst)


@dataclass
class SVMState:
    """The rule W (k, d + 1) of one linear program and its certificate; round 1 is the solution.

    ``alpha`` is the dual point of the lower bound, (n,) in [0, 1] for two classes, (n, k) for
    more. ``objective`` is the value of the program, over ``constraints`` losses and ``features``.
    All is for this ``lam``.
    """

    round: int
    W: np.ndarray
    alpha: np.ndarray
    lam: float
    lower: float
    upper: float
    objective: float
    constraints: int
    features: int

    def scores(self, X) -> np.ndarray:
        return linear_scores(self.W, X)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {
            "objective": self.objective,
            "constraints": self.constraints,
            "features": self.features,
        }

    def solved(self, W, upper: float, alpha, lower: float, objective: float) -> SVMState:
        """Return the state of round 1, with the better of its bounds and of these."""
        if upper < self.upper:
            self.W, self.upper = W, upper
        if lower > self.lower:
            self.alpha, self.lower = alpha, lower
        self.objective, self.round = objective, 1
        return self


def svm_lp(
    problem: Problem,
    *,
    lam: float = 0.01,
    max_seconds: float = np.inf,
    state: SVMState | None = None,
) -> Iterator[SVMState]:
    """Solve the L1-norm support vector machine of two classes as one linear program.

    One round; at `max_seconds` it ends without a solution.

    Parameters
    ----------
    problem : Problem of two classes
    lam : > 0, weight of ``|w|_1`` relative to the mean hinge loss; the intercept is free
    max_seconds : wall seconds that the LP solver may take

    Raises
    ------
    ValueError
        For a `lam` outside its range, more than two classes, or an LP of more than
        :data:`workbench.mrc.lp.NONZEROS` non-zeros.
    """
    svm = l1_svm("svm_lp", problem, lam)
    n, d = svm.X.shape
    filled = svm.X.nnz if sp.issparse(svm.X) else svm.X.size
    refuse_large("svm_lp", d + 1.0, 1.0 * (filled + n), "svm_ccg")
    zero, ones = np.zeros(d), np.ones(n)
    s = state or SVMState(
        round=0,
        W=rule(zero, 0.0),
        alpha=ones,
        lam=lam,
        lower=svm.dual(ones)[1],
        upper=1.0,
        objective=float("inf"),
        constraints=n,
        features=d,
    )
    yield s
    if s.round:
        return
    most = np.append(np.full(d, n * lam), 0.0)
    found = minimise(
        np.full(n, -1.0),
        sp.csr_matrix((sp.diags(svm.z) @ with_intercept(svm.X)).T),
        most,
        lower=-most,
        column_upper=np.ones(n),
        seconds=max_seconds,
    )
    if not found.optimal:
        return
    w, b = -found.dual[:-1], -float(found.dual[-1])
    upper, lower = svm.objective(w, b, svm.shortfall(w, b)), svm.dual(found.x)[1]
    yield s.solved(rule(w, b), upper, found.x, lower, -found.objective / n)


def l1_svm(solver: str, problem: Problem, lam: float) -> L1SVM:
    """Return the support vector machine of a problem of two classes, for `solver`."""
    if problem.k != 2:
        raise ValueError(f"problem: {solver} separates two classes, got {problem.k}; use svm_multi")
    check_positive(lam, "lam")
    problem.refuse_weights()
    X = problem.X.astype(np.float64, copy=False)
    return L1SVM(X, np.where(problem.y == 1, 1.0, -1.0), lam, mean_size(X))


def mean_size(X: Matrix) -> np.ndarray:
    """Return the (d,) mean magnitude of each feature."""
    return np.asarray(abs(X).mean(axis=0)).ravel()


def rule(w: np.ndarray, b: float) -> np.ndarray:
    """Return the (2, d + 1) matrix whose scores are minus and plus ``x'w + b``."""
    return np.outer([-1.0, 1.0], np.append(w, b))


def svm_multi(
    problem: Problem,
    *,
    lam: float = 0.01,
    max_seconds: float = np.inf,
    state: SVMState | None = None,
) -> Iterator[SVMState]:
    """Solve the L1-norm multiclass support vector machine of Wang and Shen as one linear program.

    Its scores ``f_c(x) = x'w_c + b_c`` minimise ``mean_i sum_{c != y_i} (f_c(x_i) + 1)_+ +
    lam sum_cj |w_cj|`` subject to ``sum_c w_c = 0`` and ``sum_c b_c = 0``. With two classes it is
    `svm_lp` of twice the `lam`. One round; at `max_seconds` it ends without a solution.

    Wang and Shen bound the norm by s instead: every s is that of some `lam`.

    Parameters
    ----------
    problem : Problem
    lam : > 0, weight of the norm relative to the mean loss; the intercepts are free
    max_seconds : wall seconds that the LP solver may take

    Raises
    ------
    ValueError
        For a `lam` outside its range, or an LP of more than
        :data:`workbench.mrc.lp.NONZEROS` non-zeros.

    References
    ----------
    Wang, Shen: On L1-norm multiclass support vector machines: methodology and theory. JASA 102
    (2007).
    """
    check_positive(lam, "lam")
    problem.refuse_weights()
    X = problem.X.astype(np.float64, copy=False)
    y, n, d, k = problem.y, problem.n, problem.d, problem.k
    filled = X.nnz if sp.issparse(X) else X.size
    nonzeros = (k - 1.0) * (filled + n) + k * (d + 1.0)
    refuse_large("svm_multi", k * (d + 1.0), nonzeros, "Problem.subset to take fewer rows")
    ones = np.ones((n, k))
    s = state or SVMState(
        round=0,
        W=np.zeros((k, d + 1)),
        alpha=ones,
        lam=lam,
        lower=multiclass_lower(X, y, lam, ones),
        upper=k - 1.0,
        objective=float("inf"),
        constraints=n * (k - 1),
        features=d * k,
    )
    yield s
    if s.round:
        return
    # Class c has a row for each w_cj and one for b_c, and a variable for each sample of another
    # class. The variables behind those are the multipliers of sum_c w_c = 0 and sum_c b_c = 0.
    psi = with_intercept(X)
    losses = sp.block_diag([psi[y != c].T for c in range(k)])
    multipliers = sp.kron(np.ones((k, 1)), sp.identity(d + 1))
    r = n * (k - 1)
    most = np.tile(np.append(np.full(d, n * lam), 0.0), k)
    found = minimise(
        np.append(np.full(r, -1.0), np.zeros(d + 1)),
        sp.hstack([losses, multipliers], format="csr"),
        most,
        lower=-most,
        column_upper=np.append(np.ones(r), np.full(d + 1, np.inf)),
        free=slice(r, r + d + 1),
        seconds=max_seconds,
    )
    if not found.optimal:
        return
    W = found.dual.reshape(k, d + 1)
    W = W - W.mean(axis=0)  # the sums are zero to the solver's tolerance only
    alpha = np.zeros((k, n))
    alpha[np.arange(k)[:, None] != y] = found.x[:r]
    upper, lower = multiclass_objective(X, y, lam, W), multiclass_lower(X, y, lam, alpha.T)
    yield s.solved(W, upper, alpha.T, lower, -found.objective / n)


def multiclass_objective(X: Matrix, y: np.ndarray, lam: float, W: np.ndarray) -> float:
    """Return the objective of `svm_multi` at (k, d + 1) coefficients whose columns sum to 0.

    It is rounded up by what double precision may have lost.
    """
    loss = np.maximum(linear_scores(W, X) + 1.0, 0.0)
    loss[np.arange(len(y)), y] = 0.0
    value = float(loss.sum() / len(y) + lam * np.abs(W[:, :-1]).sum())
    terms = float((1.0 + np.abs(W) @ np.append(mean_size(X), 1.0)).sum())
    return value + EPS * sum(X.shape) * (value + terms)


def multiclass_lower(X: Matrix, y: np.ndarray, lam: float, alpha: np.ndarray) -> float:
    """Return a lower bound of the optimum of `svm_multi` from any (n, k) alpha.

    The dual is to maximise the sum of alpha / n over ``0 <= alpha <= 1``, zero at the labels, the
    same sum in every column, and ``max_c g_jc - min_c g_jc <= 2 n lam`` for ``g = X'alpha``: then
    some multiplier of ``sum_c w_cj = 0`` brings every g_jc to within n lam. As in
    :meth:`L1SVM.dual`, the columns are scaled down to the least of them, and all by the worst j;
    rounding counts as a violation.
    """
    n = len(y)
    alpha = np.clip(alpha, 0.0, 1.0)
    alpha[np.arange(n), y] = 0.0
    mass = alpha.sum(axis=0)
    alpha *= np.divide(mass.min(), mass, out=np.zeros(len(mass)), where=mass > 0)
    g = np.asarray(X.T @ alpha)
    most, rounding = 2.0 * n * lam, 8.0 * EPS * n
    worst = float((np.ptp(g, axis=1) + rounding * n * mean_size(X)).max())
    return (1.0 - rounding) * float(alpha.sum() / n) * most / max(most, worst)
