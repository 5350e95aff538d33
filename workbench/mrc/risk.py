"""The minimax risk problem, formula (3) of the paper: objective, subsets and
certificates.

Notation: ``Psi(x) = (x, 1)`` has d' = d + 1 features, ``Phi(x, y)`` puts it into block
y of k, so a coefficient vector mu is a (k, d') matrix M and the scores of row x are ``v
= M Psi(x)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from workbench.core.blocks import pieces
from workbench.core.certificates import EPS, bounds
from workbench.core.checks import check_positive, check_sparse
from workbench.core.matrices import as_dense
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State
from workbench.core.stream import Row
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST

S = TypeVar("S", bound="RiskState")
COLUMNS = 64  # columns of sparse rows that are made dense at a time


@dataclass(frozen=True, eq=False)
class MinimaxRisk:
    """min over M of ``U(M) = 1 - <tau, M> + <lam, |M|> + max_i psi(M Psi(x_i))``.

    Attributes
    ----------
    X : (n, d') float64 array or CSR matrix, the rows Psi(x_i) with a last column of
        ones
    y : (n,) int32 labels
    means : (k, d') mean row of each class, the centroids tau^y / p_y of equation (20)
    tau : (k, d') empirical mean of Phi
    lam : (k, d') lambda0 times the population standard deviation of Phi
    lambda0 : > 0
    active : (k, d') bool. A component that is zero in every row of its class has lam =
        0, which only means "never seen"; taken literally it would forbid its class
        wherever it occurs. It is left out of Phi: its coefficient stays 0 and no bound
        counts it.
    weights : (n,) > 0, how often each row counts in tau and lam; the maximum of U has
        no weights, since repeated rows do not change it
    top : (d',) the largest magnitude of each feature
    """

    X: Matrix
    y: np.ndarray
    means: np.ndarray
    tau: np.ndarray
    lam: np.ndarray
    lambda0: float
    active: np.ndarray
    weights: np.ndarray
    top: np.ndarray

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def k(self) -> int:
        return self.tau.shape[0]

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.X)

    @property
    def rounding(self) -> float:
        """Bound the relative error of a sum over rows, features or classes in double
        precision."""
        return EPS * (self.n + len(self.top) + self.k)

    def upper(self, M: np.ndarray, height: float | None = None) -> float:
        """Return U(M), an upper bound of R* for every (k, d') M (equation 3), rounding
        included.

        Parameters
        ----------
        height : ``max_i psi(M Psi(x_i))`` if it is known
        """
        if height is None:
            height = float(self.heights(M).max())
        size = 1.0 + float((np.abs(M) @ self.top).sum())
        return self.linear(M) + height + 4.0 * self.rounding * size

    def heights(self, M: np.ndarray) -> np.ndarray:
        """Return psi(M Psi(x_i)) of every row."""
        return psi(self.X @ M.T)

    def linear(self, M: np.ndarray) -> float:
        """Return ``1 - <tau, M> + <lam, |M|>``, the part of U(M) without the
        maximum."""
        return 1.0 - float(np.vdot(self.tau, M)) + float(np.vdot(self.lam, np.abs(M)))

    def lower(self, p: np.ndarray, mean: np.ndarray | None = None) -> float:
        """Return BR(p) / rho, a lower bound of R* for every joint distribution p, less
        rounding.

        BR(p) = 1 - sum_i max_y p_iy is the error of the best rule under p, and rho >= 1
        the factor by which p leaves the uncertainty set U, over *all* components. Mixed
        with the empirical distribution p_0 (which is in U and has BR >= 0), p / rho +
        (1 - 1/rho) p_0 lies in U, and BR is concave. `p` (n, k) are non-negative
        weights that sum to 1; with their `mean` of Phi (k, d'), rows without mass may
        be left out.
        """
        if mean is None:
            mean = (self.X.T @ p).T
        return self.lower_of(1.0 - float(p.max(axis=1).sum()), mean)

    def lower_of(self, bayes: float, mean: np.ndarray) -> float:
        """Return :meth:`lower` of a distribution with this Bayes error and (k, d') mean
        of Phi."""
        return max(0.0, bayes - 4.0 * self.rounding) / self.rho(mean)

    def rho(self, mean: np.ndarray) -> float:
        """Return ``max(1, max_j |mean_j - tau_j| / lam_j)`` for a mean of Phi, rounded
        up."""
        return max(1.0, float(self.ratios(mean, 4.0 * self.rounding * self.top).max()))

    def ratios(
        self, mean: np.ndarray, rounding: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Return the (k, d') array ``(|mean_j - tau_j| + rounding) / lam_j``, 0 where
        inactive."""
        off = np.abs(mean - self.tau) + rounding
        return np.divide(off, self.lam, out=np.zeros_like(off), where=self.active)


@dataclass
class RiskState(State):
    """The best classifier so far, ``M_best`` (k, d'), and the best bounds, for this
    ``lambda0``.

    ``p_best`` (r, k) is the distribution of the best lower bound, on the rows
    ``p_rows`` (r,) that have mass; both are empty as long as no distribution is better
    than none. A solver's state adds what its method updates.
    """

    round: int
    M_best: np.ndarray
    p_best: np.ndarray
    p_rows: np.ndarray
    lower: float
    upper: float
    lambda0: float

    def scores(self, X: Matrix) -> np.ndarray:
        return linear_scores(self.M_best, X)

    def info(self) -> Row:
        return bounds(self.lower, self.upper)

    def offer(self, M: np.ndarray, upper: float) -> None:
        """Keep the classifier M, whose U(M) is `upper`, if it is the best so far."""
        if upper < self.upper:
            self.upper, self.M_best = upper, M

    def raise_lower(
        self, lower: float, p: np.ndarray, rows: np.ndarray | None = None
    ) -> None:
        """Keep the distribution p, whose lower bound is `lower`, if it is the best so
        far.

        Parameters
        ----------
        p : (r, k) non-negative weights of a positive sum, which may change afterwards
        rows : (r,) the training rows that they belong to, by default all
        """
        if lower > self.lower:
            used = np.flatnonzero(p @ np.ones(p.shape[1]))  # quicker than any()
            self.lower, self.p_best = (
                lower,
                p.copy() if len(used) == len(p) else p[used],
            )
            self.p_rows = used if rows is None else rows[used]

    def move(self, risk: MinimaxRisk) -> None:
        """Change all else that depends on lambda0; in most methods nothing does."""


def first(risk: MinimaxRisk) -> dict:
    """Return the fields of a :class:`RiskState` at M = 0, whose bound is 1 - 1/k."""
    zero = np.zeros_like(risk.tau)
    best: dict = {"M_best": zero, "p_best": zero[:0, :0], "p_rows": np.zeros(0, int)}
    best |= {"lower": 0.0, "upper": risk.upper(zero)}
    return {"round": 0} | best | {"lambda0": risk.lambda0}


def restated(risk: MinimaxRisk, s: S) -> S:
    """Return `s` as its solver would have it for `risk`, which may have another
    lambda0.

    The best classifier so far has an upper bound there too. Of the best lower bound
    BR(p) / rho, whatever p was, the fraction by which lambda0 falls remains: rho rises
    by no more.
    """
    if s.lambda0 != risk.lambda0:
        s.lower *= min(1.0, risk.lambda0 / s.lambda0)
        s.upper = risk.upper(s.M_best)
        s.lambda0 = risk.lambda0
        s.move(risk)
    return s


def minimax_risk(problem: Problem, lambda0: float = 0.01) -> MinimaxRisk:
    """Return the minimax risk problem of the training rows with confidence ``lambda0 *
    std``.

    Raises
    ------
    ValueError
        If `lambda0` is not a positive number.
    """
    check_positive(lambda0, "lambda0")
    X, y = with_intercept(problem.X), problem.y
    weights = problem.weights
    of_class = np.bincount(y, weights, problem.k)
    mean, variance = moments(X, y, problem.k, weights)
    # A component is x in a fraction of the rows and 0 elsewhere; no differences of
    # squares.
    share = (of_class / of_class.sum())[:, None]
    others = ((1.0 - np.eye(problem.k)) @ of_class / of_class.sum())[:, None]
    tau = share * mean
    lam = lambda0 * np.sqrt(share * (variance + others * mean**2))
    active = lam > 0
    tau, lam = np.where(active, tau, 0.0), np.where(active, lam, 0.0)
    top = as_dense(abs(X).max(axis=0)).ravel()
    return MinimaxRisk(X, y, mean, tau, lam, lambda0, active, weights, top)


def with_intercept(X: Matrix) -> Matrix:
    """Return the float64 rows Psi(x) = (x, 1)."""
    ones = np.ones((X.shape[0], 1))
    if sp.issparse(X):
        return sp.hstack([X.astype(np.float64), ones], format="csr")
    return np.hstack([X, ones])


def squared_norm(X: Matrix) -> float:
    """Return the squared spectral norm of rows, of at least two columns."""
    start = np.random.default_rng(0).random(min(X.shape))
    return float(svds(X, k=1, v0=start, return_singular_vectors=False)[0]) ** 2


def linear_scores(M: np.ndarray, X: Matrix) -> np.ndarray:
    """Return the (n, k) scores M Psi(x) of raw rows `X` without building Psi."""
    return np.asarray(check_sparse(X) @ M[:, :-1].T) + M[:, -1]


# Without NaN, loops over labels vectorise; `size` makes upper() not finite if any score
# is not.
@njit(cache=True, fastmath=FAST | {"nnan"}, error_model="numpy")
def psi(V):
    """Return psi(v) = max over non-empty C of (sum_C v_y - 1) / |C| for every row v of
    (n, k) V.

    psi is the unique root t of ``sum_y (v_y - t)_+ = 1``; Newton from ``max v - 1``
    climbs to it monotonically while ``{y: v_y > t}`` shrinks, and ends exactly, when it
    no longer does.
    """
    n, k = V.shape
    zero, one = V.dtype.type(0), V.dtype.type(1)
    out = np.empty(n, dtype=V.dtype)
    for i in range(np.uint64(n)):
        v = V[i]
        top = v[0]
        for y in range(np.uint64(1), np.uint64(k)):
            top = max(top, v[y])
        t = top - one
        count = np.int32(k + 1)
        while True:
            total, above = zero, np.int32(0)
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


@njit(cache=True)
def greedy_subset(v):
    """Algorithm 2: return psi(v) and the (k,) bool mask of a maximising subset.

    The sort is descending; the printed ascending ARGSORT finds wrong subsets.
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
    return value, c  # line 11 numbers the subset; the mask says the same


def moments(
    X: Matrix, y: np.ndarray, k: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (k, d') weighted mean and variance of every class's rows, each as
    exact as a sum.

    The variance sums squared differences from the mean. If weights differ, all
    differences start at the heaviest row of a class: a feature that is constant in the
    heavy rows has differences of zero there, without rounding, and the variance that
    the light rows give.
    """
    n = len(y)
    shares = sp.csr_matrix(
        (weights / np.bincount(y, weights)[y], (y, np.arange(n))), (k, n)
    )
    zeros = _absent(shares, X) if sp.issparse(X) else None

    def around(start: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted means of x - start - step and of its square."""
        if zeros is None:
            found = np.zeros((2, *start.shape))
            for c in range(k):
                I = np.flatnonzero(y == c)
                off, own = X[I] - start[c] - step[c], shares[c, I]
                found[0, c], found[1, c] = own @ off, own @ off**2
            return found[0], found[1]
        entries, at = (
            X.copy(),
            (y[np.repeat(np.arange(n), np.diff(X.indptr))], X.indices),
        )
        entries.data = X.data - start[at] - step[at]
        away = as_dense(shares @ entries) - zeros * (start + step)
        return away, as_dense(shares @ entries.power(2)) + zeros * (start + step) ** 2

    mean = as_dense(shares @ X)
    none = np.zeros_like(mean)
    if not np.ptp(weights) > 0.0:
        return mean, around(mean, none)[1]
    order = np.lexsort((weights, y))
    heaviest = order[np.searchsorted(y[order], np.arange(k), side="right") - 1]
    start = as_dense(X[heaviest])
    step = around(start, none)[0]
    away, square = around(start, step)
    return start + (step + away), square - away**2


def _absent(shares: sp.csr_matrix, X: sp.csr_matrix) -> np.ndarray:
    """Return the (k, d') share of each class's weight on the rows in which a feature is
    not stored.

    Where that is a small difference, it is summed over these rows instead.
    """
    filled = X.copy()
    filled.data[:] = 1.0
    stored = as_dense(shares @ filled)
    absent = np.maximum(1.0 - stored, 0.0)
    columns = np.flatnonzero((stored > 0.5).any(axis=0))
    for some in pieces(len(columns), COLUMNS):
        J = columns[some]
        absent[:, J] = shares @ (1.0 - as_dense(filled[:, J]))
    return absent
