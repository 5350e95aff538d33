"""The minimax risk problem (3) of the paper: objective, subsets, certificates.

Notation: ``Psi(x) = (x, 1)`` has d' = d + 1 features, ``Phi(x, y)`` puts it into block
y of k, so a coefficient vector mu is a (k, d') matrix M and the scores of row x are ``v
= M Psi(x)``.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from workbench.core.blocks import pieces
from workbench.core.certificates import EPS, bounds
from workbench.core.checks import check_positive, check_sparse
from workbench.core.matrices import as_dense, with_columns
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST

S = TypeVar("S", bound="RiskState")
COLUMNS = 64  # number of columns of sparse rows that are made dense together


@dataclass(frozen=True, eq=False)
class MinimaxRisk:
    """min over M of ``U(M) = 1 - <tau, M> + <lam, |M|> + max_i psi(M Psi(x_i))``.

    Attributes
    ----------
    X : (n, d') float64 array or CSR matrix, the rows Psi(x_i) with a last column of
        ones
    y : (n,) int32, the labels
    means : (k, d'), the mean row of each class, which is the centroid tau^y / p_y of
        equation (20)
    tau : (k, d'), the empirical mean of Phi
    lam : (k, d'), lambda0 times the population standard deviation of Phi
    lambda0 : float > 0
    active : (k, d') bool, the components that are used. A component that is zero in
        every row of its class has lam = 0, which only means that it was never observed;
        taken literally, it would exclude its class wherever the feature occurs. Such a
        component is left out of Phi: its coefficient stays 0, and no bound depends on
        it
    weights : (n,) > 0, the weight of each row in tau and lam. The maximum in U has no
        weights, since repeated rows do not change it
    top : (d',), the largest magnitude of each feature
    """

    X: Matrix
    y: Array
    means: Array
    tau: Array
    lam: Array
    lambda0: float
    active: Array
    weights: Array
    top: Array

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def k(self) -> int:
        return self.tau.shape[0]

    @property
    def rounding(self) -> float:
        """A bound on the relative error of a sum over rows, features or classes."""
        return EPS * (self.n + len(self.top) + self.k)

    def upper(self, M: Array, height: float | None = None) -> float:
        """Return U(M), an upper bound of R* for every (k, d') M, rounding included.

        Parameters
        ----------
        M : (k, d') coefficients
        height : float, ``max_i psi(M Psi(x_i))`` if it is known
        """
        if height is None:
            height = float(self.heights(M).max())
        size = 1.0 + float((np.abs(M) @ self.top).sum())
        return self.linear(M) + height + 4.0 * self.rounding * size

    def heights(self, M: Array) -> Array:
        """Return psi(M Psi(x_i)) of every row."""
        return psi(self.X @ M.T)

    def linear(self, M: Array) -> float:
        """Return ``1 - <tau, M> + <lam, |M|>``, which is U(M) without the maximum."""
        gain = float(np.vdot(self.tau, M))
        return 1.0 - gain + float(np.vdot(self.lam, np.abs(M)))

    def lower(self, p: Array, mean: Array | None = None) -> float:
        """Return BR(p) / rho, a lower bound of R* for every p, rounded down.

        BR(p) = 1 - sum_i max_y p_iy is the error of the best rule under p, and rho >= 1
        is the factor by which p leaves the uncertainty set U, over *all* components.
        The empirical distribution p_0 is in U and has BR >= 0. So the mixture p / rho +
        (1 - 1/rho) p_0 lies in U, and since BR is concave, its BR is at least BR(p) /
        rho.

        Parameters
        ----------
        p : (n, k) non-negative weights that sum to 1; rows without mass may be left out
            if `mean` is given
        mean : (k, d'), the mean of Phi under p
        """
        if mean is None:
            mean = (self.X.T @ p).T
        return self.lower_of(1.0 - float(p.max(axis=1).sum()), mean)

    def lower_of(self, bayes: float, mean: Array) -> float:
        """Return :meth:`lower` for a Bayes error and a (k, d') mean of Phi."""
        return max(0.0, bayes - 4.0 * self.rounding) / self.rho(mean)

    def rho(self, mean: Array) -> float:
        """Return ``max(1, max_j |mean_j - tau_j| / lam_j)``, rounded up."""
        return max(1.0, float(self.ratios(mean, 4.0 * self.rounding * self.top).max()))

    def ratios(self, mean: Array, rounding: Array | float = 0.0) -> Array:
        """Return (|mean_j - tau_j| + rounding) / lam_j, 0 where inactive."""
        distance = np.abs(mean - self.tau) + rounding
        zeros = np.zeros_like(distance)
        return np.divide(distance, self.lam, out=zeros, where=self.active)


@dataclass
class RiskState(State):
    """The best classifier ``M_best`` (k, d') and the best bounds for ``lambda0``.

    ``p_best`` (r, k) is the distribution of the best lower bound, on the rows
    ``p_rows`` (r,) that have mass; both are empty until a lower bound is positive. A
    solver's state adds the fields that its method updates.
    """

    round: int
    M_best: Array
    p_best: Array
    p_rows: Array
    lower: float
    upper: float
    lambda0: float

    def scores(self, X: Matrix) -> Array:
        return linear_scores(self.M_best, X)

    def info(self) -> Row:
        return bounds(self.lower, self.upper)

    def offer(self, M: Array, upper: float) -> None:
        """Keep the classifier M, whose U(M) is `upper`, if it is the best so far."""
        if upper < self.upper:
            self.upper = upper
            self.M_best = M

    def raise_lower(self, lower: float, p: Array, rows: Array | None = None) -> None:
        """Keep the distribution p, whose bound is `lower`, if it is the best so far.

        Parameters
        ----------
        p : (r, k) non-negative weights with a positive sum, which are copied
        rows : (r,) int, the training rows of these weights; all rows by default
        """
        if lower > self.lower:
            with_mass = np.flatnonzero(p @ np.ones(p.shape[1]))  # quicker than any()
            self.lower = lower
            self.p_best = p[with_mass]
            self.p_rows = with_mass if rows is None else rows[with_mass]

    def move(self, risk: MinimaxRisk) -> None:
        """Adapt the solver's own fields to a new lambda0; most methods need nothing."""


def risk_fields(risk: MinimaxRisk) -> dict:
    """Return the fields of a :class:`RiskState` at M = 0, whose bound is 1 - 1/k."""
    zero = np.zeros_like(risk.tau)
    return {
        "round": 0,
        "M_best": zero,
        "p_best": zero[:0, :0],
        "p_rows": np.zeros(0, int),
        "lower": 0.0,
        "upper": risk.upper(zero),
        "lambda0": risk.lambda0,
    }


def restated(risk: MinimaxRisk, s: S) -> S:
    """Return `s`, adapted to `risk`, which may have another lambda0.

    The upper bound is computed again for the best classifier so far. If lambda0 becomes
    smaller, the best lower bound BR(p) / rho falls by at most the same factor, for any
    p.
    """
    if s.lambda0 != risk.lambda0:
        s.lower *= min(1.0, risk.lambda0 / s.lambda0)
        s.upper = risk.upper(s.M_best)
        s.lambda0 = risk.lambda0
        s.move(risk)
    return s


def minimax_risk(problem: Problem, lambda0: float = 0.01) -> MinimaxRisk:
    """Return the minimax risk problem of the training rows.

    The half-width of each component's interval is ``lambda0`` times its standard
    deviation.

    Raises
    ------
    ValueError
        If `lambda0` is not a positive number.
    """
    check_positive(lambda0, "lambda0")
    X = with_intercept(problem.X)
    weights = problem.weights
    class_weights = np.bincount(problem.y, weights, problem.k)
    total = class_weights.sum()
    mean, variance = moments(X, problem.y, problem.k, weights)
    # A component is x in a fraction of the rows and 0 elsewhere. The formula takes no
    # difference of squares, which would cancel.
    fraction = (class_weights / total)[:, None]
    others = ((1.0 - np.eye(problem.k)) @ class_weights / total)[:, None]
    lam = lambda0 * np.sqrt(fraction * (variance + others * mean**2))
    active = lam > 0
    return MinimaxRisk(
        X=X,
        y=problem.y,
        means=mean,
        tau=np.where(active, fraction * mean, 0.0),
        lam=np.where(active, lam, 0.0),
        lambda0=lambda0,
        active=active,
        weights=weights,
        top=as_dense(abs(X).max(axis=0)).ravel(),
    )


def with_intercept(X: Matrix) -> Matrix:
    """Return the float64 rows Psi(x) = (x, 1)."""
    X = X.astype(np.float64, copy=False)
    return with_columns(X, np.ones((X.shape[0], 1)))


def squared_norm(X: Matrix) -> float:
    """Return the squared spectral norm of a matrix with at least two columns."""
    start = np.random.default_rng(0).random(min(X.shape))
    return float(svds(X, k=1, v0=start, return_singular_vectors=False)[0]) ** 2


def linear_scores(M: Array, X: Matrix) -> Array:
    """Return the (n, k) scores M Psi(x) of raw rows `X` without building Psi."""
    return np.asarray(check_sparse(X) @ M[:, :-1].T) + M[:, -1]


# The loops over labels are vectorised because the compiler may assume that there is no
# NaN. If any score is not finite, neither is the rounding in MinimaxRisk.upper.
@njit(fastmath=FAST | {"nnan"}, error_model="numpy")
def psi(V):
    """Return max over non-empty C of (sum_C v_y - 1) / |C| for every row v of V.

    psi is the unique root t of ``sum_y (v_y - t)_+ = 1``. Newton's method from
    ``max v - 1`` climbs to it monotonically while ``{y: v_y > t}`` shrinks, and is
    exact when this set no longer shrinks.
    """
    n, k = V.shape
    zero = V.dtype.type(0)
    one = V.dtype.type(1)
    out = np.empty(n, dtype=V.dtype)
    for i in range(np.uint64(n)):
        v = V[i]
        top = v[0]
        for y in range(np.uint64(1), np.uint64(k)):
            top = max(top, v[y])
        t = top - one
        count = np.int32(k + 1)
        while True:
            total = zero
            above = np.int32(0)
            for y in range(np.uint64(k)):
                over = v[y] > t
                total += v[y] - top if over else zero
                above += np.int32(over)
            if above == 0 or above >= count:
                break
            count = above
            t = top + (total - one) / V.dtype.type(count)
        out[i] = t
    return out


@njit
def greedy_subset(v):
    """Algorithm 2: return psi(v) and the (k,) bool mask of a maximising subset.

    The sort is descending, because the printed ascending ARGSORT finds wrong subsets.
    """
    k = len(v)  # line 1: v are the scores of a row
    order = np.argsort(-v)  # line 2
    c = np.zeros(k, dtype=np.bool_)  # line 3
    value = v[order[0]] - 1.0  # line 4
    c[order[0]] = True
    for j in range(1, k):  # line 5, with j for the printed k - 1
        candidate = (j * value + v[order[j]]) / (j + 1)  # line 6
        if candidate < value:  # line 7, and no later label can raise it
            break
        value = candidate  # line 8
        c[order[j]] = True
    return value, c  # line 11 returns the subset's number, here a mask


def moments(X: Matrix, y: Array, k: int, weights: Array) -> tuple[Array, Array]:
    """Return the weighted mean and variance (k, d') of each class's rows.

    Both are as exact as a sum. The variance sums squared differences from the mean. If
    weights differ, values are first reduced by the heaviest row of their class. Then a
    feature that is constant in the heavy rows is exactly zero there, and its variance
    comes from the light rows alone.
    """
    n = len(y)
    class_fractions = weights / np.bincount(y, weights)[y]
    fractions = sp.csr_matrix((class_fractions, (y, np.arange(n))), (k, n))
    absent = absent_fractions(fractions, X) if sp.issparse(X) else None

    def around(start: Array, step: Array) -> tuple[Array, Array]:
        """Return the weighted means of x - start - step and of its square."""
        if absent is None:
            first = np.zeros_like(start)
            second = np.zeros_like(start)
            for c in range(k):
                I = np.flatnonzero(y == c)
                difference = X[I] - start[c] - step[c]
                first[c] = fractions[c, I] @ difference
                second[c] = fractions[c, I] @ difference**2
            return first, second
        labels = np.repeat(y, np.diff(X.indptr))
        differences = X.copy()
        differences.data = X.data - start[labels, X.indices] - step[labels, X.indices]
        first = as_dense(fractions @ differences) - absent * (start + step)
        second = as_dense(fractions @ differences.power(2))
        return first, second + absent * (start + step) ** 2

    mean = as_dense(fractions @ X)
    zero = np.zeros_like(mean)
    if not np.ptp(weights) > 0.0:
        return mean, around(mean, zero)[1]
    order = np.lexsort((weights, y))
    heaviest = order[np.searchsorted(y[order], np.arange(k), side="right") - 1]
    start = as_dense(X[heaviest])
    step = around(start, zero)[0]
    rest, square = around(start, step)
    return start + (step + rest), square - rest**2


def absent_fractions(fractions: sp.csr_matrix, X: sp.csr_matrix) -> Array:
    """Return the fraction (k, d') of a class's weight on rows without the feature.

    An absent entry of a feature is zero. A small fraction is summed over these rows,
    because a difference from 1 would cancel.
    """
    filled = X.copy()
    filled.data[:] = 1.0
    stored = as_dense(fractions @ filled)
    absent = np.maximum(1.0 - stored, 0.0)
    columns = np.flatnonzero((stored > 0.5).any(axis=0))
    for piece in pieces(len(columns), COLUMNS):
        J = columns[piece]
        absent[:, J] = fractions @ (1.0 - as_dense(filled[:, J]))
    return absent
