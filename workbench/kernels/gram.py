"""Kernels by name, the rows of a kernel matrix, and a cache of them.

A row comes out the same, bit for bit, whichever rows are computed together with it: the cache of a
run that is resumed starts empty. (Matrix products of BLAS promise no such thing.)
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import as_number, check_sparse, is_whole, shown
from workbench.core.measures import EPS
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST, squared_norms

KERNELS = ("linear", "poly", "rbf")
TOGETHER = 16  # rows of K that are computed together
HELD = 2**22  # entries of K held at a time while new rows are scored: 32 MiB
TILE = 512  # columns at a time, so that the rows that are summed stay in the cache
LOG2E = 1.4426950408889634
LN2 = 0.6931471803691238, 1.9082149292705877e-10  # its high bits, and the rest
SHIFT = (
    6755399441055744.0  # 1.5 2^52: added to a number, leaves its nearest integer in the low bits
)


def check_kernel(kernel, gamma, degree, coef0) -> None:
    """ValueError, naming the argument, unless these make a kernel."""
    if not (callable(kernel) or kernel in KERNELS):
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(f"kernel: must be one of {names} or a function k(X, Z), got {kernel!r}")
    if gamma is not None and not 0 < as_number(gamma) < np.inf:
        raise ValueError(f"gamma: must be a positive number or None, got {shown(gamma)}")
    if not is_whole(degree):
        raise ValueError(f"degree: must be a whole number, at least 1, got {shown(degree)}")
    if not 0 <= as_number(coef0) < np.inf:
        raise ValueError(f"coef0: must be a number, not negative, got {shown(coef0)}")


def check_gamma(gamma) -> float | None:
    """Return an estimator's gamma as a float, None for "scale"; ValueError for anything else."""
    if isinstance(gamma, str) and gamma == "scale":
        return None
    if not 0 < as_number(gamma) < np.inf:
        raise ValueError(f'gamma: must be "scale" or a positive number, got {shown(gamma)}')
    return as_number(gamma)


def values_of(kernel: Callable, X: Matrix, Z: Matrix) -> np.ndarray:
    """Return what a user's function says of two sets of rows; ValueError, if no finite numbers."""
    K = np.asarray(kernel(X, Z))
    shape = (X.shape[0], Z.shape[0])
    if K.shape != shape:
        raise ValueError(f"kernel: must return an array of shape {shape}, got {K.shape}")
    if K.dtype.kind not in "biuf" or not np.isfinite(K).all():
        raise ValueError("kernel: must return finite numbers")
    return K


def scale(X: Matrix, weights: np.ndarray | None = None) -> float:
    """Return 1 / (d times the variance of all entries), the gamma of scikit-learn's "scale".

    With (n,) `weights` the variance is that of rows which are there so often.
    """
    if weights is not None:
        first, total = weights @ X, weights.sum() * X.shape[1]
        mean = first.sum() / total
        variance = weights @ squared_norms(X) / total - mean**2
    elif sp.issparse(X):
        total, size = X.sum(dtype=np.float64), X.shape[0] * X.shape[1]
        variance = squared_norms(X).sum() / size - (total / size) ** 2
    else:
        variance = X.var(dtype=np.float64)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


class Gram:
    """The kernel matrix of the rows `X`: its diagonal, its rows, and products with it.

    All is computed in double precision. Distances do not change when dense rows are centred, and
    lose fewer digits.
    """

    def __init__(self, X: Matrix, kernel: str | Callable, gamma: float, degree: int, coef0: float):
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.X = X.astype(np.float64)
        self.sparse = sp.issparse(X)
        self.centre = self.X.mean(axis=0) if kernel == "rbf" and not self.sparse else None
        if self.centre is not None:
            self.X -= self.centre
        self.norms = squared_norms(self.X)
        self.across = None  # X', made when rows are first asked for

    def diagonal(self) -> np.ndarray:
        """Return K_ii of every row; ValueError where no kernel can be that."""
        n = self.X.shape[0]
        if self.kernel == "rbf":
            return np.ones(n)
        if callable(self.kernel):
            parts = [slice(i, i + TOGETHER) for i in range(0, n, TOGETHER)]
            found = np.concatenate([self._called(self.X[p], self.X[p]).diagonal() for p in parts])
        else:
            found = self._of_products(self.norms.copy(), None, None)
        if not (np.isfinite(found) & (found >= 0.0)).all():
            raise ValueError(
                "kernel: k(x, x) must be finite and not negative for every row x; "
                f"it lies between {found.min():.3g} and {found.max():.3g}"
            )
        return found

    def precision(self) -> float:
        """Return the relative error of a value of the kernel."""
        d = self.X.shape[1]
        if self.kernel == "rbf":  # an exponent's absolute error is the value's relative one
            return EPS * (d + 4) * (1.0 + 4.0 * self.gamma * float(self.norms.max()))
        return EPS * (d + self.degree)

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """Return these rows of the kernel matrix, (len(wanted), n)."""
        X = self.X[wanted]
        if callable(self.kernel):
            return self._called(X, self.X)
        if self.sparse:
            products = np.ascontiguousarray((self.X @ X.toarray().T).T)
        else:
            if self.across is None:
                self.across = np.ascontiguousarray(self.X.T)
            r, d = X.shape
            products = np.zeros((r, self.X.shape[0]))
            ends = np.arange(r + 1, dtype=np.uint64) * np.uint64(d)
            features = np.tile(np.arange(d, dtype=np.uint64), r)
            add_rows(products, ends, features, X.ravel(), self.across)
        return self._of_products(products, self.norms[wanted], self.norms)

    def times(self, X, used: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Return k(X, self.X[used]) @ A' for new rows `X` and (k, len(used)) `A`."""
        X, Z, norms = check_sparse(X), self.X[used], self.norms[used]
        kind = sp.csr_matrix if self.sparse else np.asarray
        found = np.zeros((X.shape[0], len(A)))
        step = max(1, HELD // max(1, len(used)))
        for at in range(0, len(found) if len(used) else 0, step):
            part = X[at : at + step]
            part = kind(part.toarray() if sp.issparse(part) and not self.sparse else part)
            part = part.astype(np.float64)
            if callable(self.kernel):
                K = self._called(part, Z)
            else:
                part = part if self.centre is None else part - self.centre
                K = part @ Z.T
                K = K.toarray() if sp.issparse(K) else K
                K = self._of_products(np.ascontiguousarray(K), squared_norms(part), norms)
            found[at : at + step] = K @ A.T
        return found

    def _of_products(self, products, norms, others):
        """Return the kernel, in place, of inner products of rows with these squared norms."""
        if self.kernel == "poly":
            products *= self.gamma
            products += self.coef0
            return np.power(products, self.degree, out=products)
        if self.kernel == "rbf":
            gaussian(products, norms, others, self.gamma)
        return products

    def _called(self, X, Z):
        return values_of(self.kernel, X, Z).astype(np.float64, copy=False)


class Cache:
    """As many rows of a kernel matrix as fit into `megabytes`; those used last stay.

    Raises
    ------
    ValueError
        If not one row fits.
    """

    def __init__(self, gram: Gram, megabytes: float):
        n = gram.X.shape[0]
        enough = isinstance(megabytes, Real) and 8 * n <= megabytes * 2**20 < np.inf
        if not enough:
            raise ValueError(
                f"cache_mb: must be a number from {8 * n / 2**20:.2g}, the megabytes of one row of "
                f"the kernel matrix, got {megabytes!r}"
            )
        self.gram = gram
        self.most = min(n, int(megabytes * 2**20) // (8 * n))
        self.rows = np.empty((self.most, n))
        self.place = np.full(n, -1)  # of each row of K in `rows`
        self.owner = np.full(self.most, -1)
        self.used = np.zeros(self.most, dtype=np.int64)
        self.now = 0

    def at(self, wanted: np.ndarray) -> np.ndarray:
        """Return where in `rows` these rows are now, at most `most` of them, no two the same."""
        self.now += 1
        here = self.place[wanted]
        self.used[here[here >= 0]] = self.now
        missing = wanted[here < 0]
        if len(missing):
            free = np.sort(np.argsort(self.used, kind="stable")[: len(missing)])
            self.place[self.owner[free][self.owner[free] >= 0]] = -1
            self.place[missing], self.owner[free], self.used[free] = free, missing, self.now
            for first in range(0, len(missing), TOGETHER):
                some = slice(first, first + TOGETHER)
                self.rows[free[some]] = self.gram.rows(missing[some])
        return self.place[wanted]


@njit(cache=True, fastmath=FAST)
def add_rows(out, ends, index, value, M):
    """Add ``sum_p value[p] M[index[p]]`` to each row r of out, p in ``ends[r]:ends[r + 1]``."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    columns = np.uint64(M.shape[1])
    for first in range(np.uint64(0), columns, np.uint64(TILE)):
        last = min(first + np.uint64(TILE), columns)
        for r in range(np.uint64(out.shape[0])):
            p, end = ends[r], ends[r + one]
            while p + four <= end:
                a, b, c, d = value[p], value[p + one], value[p + two], value[p + three]
                f, g, h, i = index[p], index[p + one], index[p + two], index[p + three]
                for t in range(first, last):
                    out[r, t] += a * M[f, t] + b * M[g, t] + c * M[h, t] + d * M[i, t]
                p += four
            while p < end:
                a, f = value[p], index[p]
                for t in range(first, last):
                    out[r, t] += a * M[f, t]
                p += one


@njit(cache=True, fastmath={"contract"})
def gaussian(products, norms, others, gamma):
    """Put exp(-gamma |x - z|^2) in the place of the products x'z, to a few units of the last digit.

    exp(t) = 2^m exp(t - m log 2), and a Taylor polynomial; written so that it becomes vector
    instructions, which the library's exp does not.
    """
    whole = np.empty(products.shape[1])
    bits = whole.view(np.int64)
    for i in range(np.uint64(products.shape[0])):
        for j in range(np.uint64(products.shape[1])):
            t = gamma * (2.0 * products[i, j] - norms[i] - others[j])
            t = min(max(t, -700.0), 0.0)
            products[i, j] = t
            whole[j] = t * LOG2E + SHIFT
        for j in range(np.uint64(products.shape[1])):
            m = whole[j] - SHIFT
            r = products[i, j] - m * LN2[0] - m * LN2[1]
            p = 1.0 / 6227020800.0
            p = p * r + 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            products[i, j] = p * r + 1.0
        for j in range(np.uint64(products.shape[1])):
            bits[j] = (bits[j] + 1023) << 52
        for j in range(np.uint64(products.shape[1])):
            products[i, j] *= whole[j]
