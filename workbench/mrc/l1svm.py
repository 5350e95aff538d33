"""L1-norm support vector machines for two or more classes, as linear programs.

HiGHS receives the dual programs, which have a bounded variable per loss and a row with
two bounds per coefficient. Its simplex method solves them 2.5 (pulsar) to 14 times
(satellite) as fast as the primal programs.

The objective is the *mean* hinge loss plus ``lam |w|_1``. Dedieu, Mazumder and Wang use
the *sum* of the losses, so that their lambda is n times ours, and set it to ``0.01
max_j sum_i |x_ij|``, about ``lam = 0.008`` here for standardised features. The minimax
risk paper reports "0.01 for all methods" without saying which of the two it means.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.certificates import EPS, bounds
from workbench.core.checks import check_positive
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State, resumable
from workbench.mrc.highs import minimise
from workbench.mrc.lp import refuse_large
from workbench.mrc.risk import linear_scores, with_intercept


@dataclass(frozen=True, eq=False)
class L1SVM:
    """min over f of ``mean_i sum_{c != y_i} (f_c(x_i) + 1)_+ + lam sum_cj |w_cj|``.

    The scores ``f_c(x) = x'w_c + b_c`` of the k classes sum to zero. With two classes
    the second score equals the score of the machine with the hinge loss and twice the
    `lam`.

    The dual problem maximises the sum of alpha / n over the (n, k) matrices alpha with
    entries in [0, 1] that are zero at the labels, have the same sum in every column,
    and satisfy

        max_c g_jc - min_c g_jc <= 2 n lam,       g = X'alpha.

    Then some multiplier of ``sum_c w_cj = 0`` brings every g_jc to within n lam. alpha
    has the scale of the sum of the losses, in which the absolute tolerances of a
    simplex method mean the same for every n.

    Attributes
    ----------
    X : (n, d) float64 array or CSR matrix
    y : (n,) int, the labels
    k : int, the number of classes
    lam : float > 0, the weight of the norm relative to the mean loss
    size : (d,), the mean magnitude of each feature, which bounds the rounding
    """

    X: Matrix
    y: Array
    k: int
    lam: float
    size: Array

    def shortfall(self, W: Array) -> Array:
        """Return ``f_c(x_i) + 1`` (n, k), zero at the labels, for W (k, d + 1)."""
        short = linear_scores(W, self.X) + 1.0
        short[np.arange(len(self.y)), self.y] = 0.0
        return short

    def upper(self, W: Array, short: Array) -> float:
        """Return the objective at W, given its shortfall, rounded up.

        It is an upper bound of the optimum if the columns of W sum to zero.
        """
        loss = float(np.maximum(short, 0.0).sum() / len(short))
        value = loss + self.lam * float(np.abs(W[:, :-1]).sum())
        terms = float((1.0 + np.abs(W) @ np.append(self.size, 1.0)).sum())
        return value + EPS * sum(self.X.shape) * (value + terms)

    def lower(self, alpha: Array) -> tuple[Array, float]:
        """Return ``g`` (d, k) and a lower bound of the optimum, from any (n, k) alpha.

        alpha is first clipped to [0, 1], and its columns are scaled down to the
        smallest sum. It may still violate the constraint of some feature. Scaled down
        by the worst violation, alpha is feasible, since the constraints of the dual are
        convex and hold at 0. Rounding errors are added to the violation.
        """
        n = len(self.y)
        alpha = np.clip(alpha, 0.0, 1.0)
        alpha[np.arange(n), self.y] = 0.0
        mass = alpha.sum(axis=0)
        zeros = np.zeros(len(mass))
        alpha *= np.divide(mass.min(), mass, out=zeros, where=mass > 0)
        g = np.asarray(self.X.T @ alpha)
        limit = 2.0 * n * self.lam
        rounding = 8.0 * EPS * n
        worst = float((np.ptp(g, axis=1) + rounding * n * self.size).max())
        value = (1.0 - rounding) * float(alpha.sum() / n)
        return g, value * limit / max(limit, worst)


@dataclass
class SVMState(State):
    """The best rule ``W_best`` (k, d + 1), its bounds, and the last objective.

    ``alpha_best`` is the dual point of the lower bound, with entries in [0, 1]. Its
    shape is (n,), or (n, k) in `svm_multi`. Round 1 of `svm_lp` and `svm_multi` is the
    solution. ``lam`` is the weight of the norm.
    """

    round: int
    W_best: Array
    alpha_best: Array
    lam: float
    lower: float
    upper: float
    objective: float

    def scores(self, X: Matrix) -> Array:
        return linear_scores(self.W_best, X)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {"objective": self.objective}

    def offer(self, W: Array, upper: float, alpha: Array, lower: float) -> None:
        """Keep the rule `W` and the dual point `alpha` if their bounds are the best."""
        if upper < self.upper:
            self.upper = upper
            self.W_best = W
        if lower > self.lower:
            self.lower = lower
            self.alpha_best = alpha


@resumable()
def svm_lp(
    problem: Problem,
    *,
    lam: float = 0.01,
    max_seconds: float = np.inf,
    state: SVMState | None = None,
) -> Iterator[SVMState]:
    """Solve the L1-norm support vector machine of two classes as one linear program.

    The only round is the solution; if it takes longer than `max_seconds`, the stream
    ends without it.

    Parameters
    ----------
    problem : Problem of two classes
    lam : float > 0, the weight of the norm relative to the mean loss; intercepts are
        free
    max_seconds : float > 0, the time limit of the LP solver in wall seconds

    Raises
    ------
    ValueError
        If `lam` is outside its range, there are more than two classes, or the LP has
        more than :data:`workbench.mrc.lp.NONZEROS` non-zeros.
    """
    svm = two_classes("svm_lp", problem, lam)
    n, d = svm.X.shape
    refuse_large("svm_lp", d + 1.0, 1.0 * (svm.X.size + n), "svm_ccg")
    s = state or start(svm, lam, np.ones(n))
    yield s
    if s.round:
        return
    signed = sp.diags(2.0 * problem.y - 1.0) @ with_intercept(svm.X)
    limit = np.append(np.full(d, n * lam), 0.0)
    solution = minimise(
        np.full(n, -1.0),
        sp.csr_matrix(signed.T),
        limit,
        lower=-limit,
        column_upper=np.ones(n),
        seconds=max_seconds,
    )
    if not solution.optimal:
        return
    W = rule(-solution.dual)
    alpha = at_wrong_labels(solution.x, problem.y)
    _, lower = svm.lower(alpha)
    s.offer(W, svm.upper(W, svm.shortfall(W)), solution.x, lower)
    s.objective = -solution.objective / n
    s.round = 1
    yield s


def machine(problem: Problem, lam: float) -> L1SVM:
    """Return the support vector machine of a problem."""
    problem.refuse_weights()
    X = problem.X.astype(np.float64, copy=False)
    size = np.asarray(abs(X).mean(axis=0)).ravel()
    return L1SVM(X, problem.y, problem.k, lam, size)


def two_classes(solver: str, problem: Problem, lam: float) -> L1SVM:
    """Return the machine of two classes with the hinge loss and weight `lam`.

    The ValueError for more classes names the `solver`.
    """
    if problem.k != 2:
        raise ValueError(
            f"problem: {solver} separates two classes, got {problem.k}; use svm_multi"
        )
    return machine(problem, check_positive(lam, "lam") / 2)


def start(svm: L1SVM, lam: float, alpha: Array) -> SVMState:
    """Return round 0: W = 0, and the lower bound that alpha = 1 gives."""
    return SVMState(
        round=0,
        W_best=np.zeros((svm.k, svm.X.shape[1] + 1)),
        alpha_best=alpha,
        lam=lam,
        lower=svm.lower(np.ones((len(svm.y), svm.k)))[1],
        upper=svm.k - 1.0,
        objective=np.inf,
    )


def rule(w: Array) -> Array:
    """Return the (2, d + 1) matrix whose scores are minus and plus those of `w`."""
    return np.outer([-1.0, 1.0], w)


def at_wrong_labels(alpha: Array, y: Array) -> Array:
    """Return (n,) multipliers of two classes as (n, 2), placed at wrong labels."""
    return alpha[:, None] * (y[:, None] != np.arange(2))


@resumable()
def svm_multi(
    problem: Problem,
    *,
    lam: float = 0.01,
    max_seconds: float = np.inf,
    state: SVMState | None = None,
) -> Iterator[SVMState]:
    """Solve the multiclass L1-norm SVM of Wang and Shen as one linear program.

    :class:`L1SVM` states the program, and :func:`svm_lp` explains the parameters. With
    two classes, the solution is that of `svm_lp` with twice the `lam`. Wang and Shen
    bound the norm by a number s instead; every s corresponds to some `lam`.

    References
    ----------
    Wang, Shen: On L1-norm multiclass support vector machines: methodology and theory.
    JASA 102 (2007).
    """
    svm = machine(problem, check_positive(lam, "lam"))
    y = problem.y
    k = problem.k
    n, d = svm.X.shape
    nonzeros = (k - 1.0) * (svm.X.size + n) + k * (d + 1.0)
    refuse_large(
        "svm_multi", k * (d + 1.0), nonzeros, "Problem.subset to take fewer rows"
    )
    s = state or start(svm, lam, np.ones((n, k)))
    yield s
    if s.round:
        return
    # Class c has a row for each w_cj and one for b_c, and a variable for each sample of
    # another class. After these variables come the multipliers of sum_c w_c = 0 and
    # sum_c b_c = 0.
    psi = with_intercept(svm.X)
    losses = sp.block_diag([psi[y != c].T for c in range(k)])
    multipliers = sp.kron(np.ones((k, 1)), sp.identity(d + 1))
    r = n * (k - 1)
    limit = np.tile(np.append(np.full(d, n * lam), 0.0), k)
    solution = minimise(
        np.append(np.full(r, -1.0), np.zeros(d + 1)),
        sp.hstack([losses, multipliers], format="csr"),
        limit,
        lower=-limit,
        column_upper=np.append(np.ones(r), np.full(d + 1, np.inf)),
        free=slice(r, r + d + 1),
        seconds=max_seconds,
    )
    if not solution.optimal:
        return
    W = solution.dual.reshape(k, d + 1)
    W = W - W.mean(axis=0)  # the solver makes the sums zero only up to its tolerance
    by_class = np.zeros((k, n))
    by_class[np.arange(k)[:, None] != y] = solution.x[:r]
    alpha = by_class.T
    _, lower = svm.lower(alpha)
    s.offer(W, svm.upper(W, svm.shortfall(W)), alpha, lower)
    s.objective = -solution.objective / n
    s.round = 1
    yield s
