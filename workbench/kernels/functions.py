"""Products with kernel matrices that are never held: a piece of them at a time, in the cache.

All is computed in one precision, that of the rows as they are taken in. Single precision has
errors of about 1e-6 in a kernel's value, far below those of sampling. Distances do not change when
dense rows are centred, and lose fewer digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_sparse, rebuilt
from workbench.core.measures import EPS
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.gram import gaussian as gaussian_double
from workbench.kernels.gram import values_of
from workbench.kernels.rows import squared_norms
from workbench.kernels.vectors import power_of_two

HELD = 2**18  # bytes of the kernel matrix at a time: they stay in the processor's cache
CALLED = 2**24  # the same where a user's function is called for them
LEAST_ROWS = 32  # at a time, however long: fewer are no matrix product
DENSE = 2**26  # bytes of sparse rows that are made dense at a time, on one side of a product
FEW = 8  # features up to which inner products are cheaper beside the exponential than by BLAS
LN2 = 0.6931471805599453
LEAST = np.float32(-126.0)  # two to this power is the smallest number of single precision
HALF = np.float32(0.5)
POWER = tuple(  # the interpolant of 2^r at Chebyshev's points, |r| <= 1/2
    np.float32(c)
    for c in (
        0.0013390863364698205,
        0.009676031918298474,
        0.055503571142190296,
        0.24022107485309188,
        0.6931471880262294,
        1.0000000754548972,
    )
)
FAST = {"contract", "reassoc", "nsz"}


@dataclass(frozen=True, eq=False)
class Points:
    """Rows as a kernel takes them, and half their squared norms."""

    X: Matrix
    half: np.ndarray

    def __getitem__(self, rows) -> Points:
        return Points(self.X[rows], self.half[rows])


class Kernel:
    """A kernel by name or function, in one precision.

    Attributes
    ----------
    kind : "linear", "poly", "rbf" or a function k(X, Z) that returns a (len(X), len(Z)) array
    gamma, degree, coef0 : as for :func:`~workbench.weston_watkins.kernel.ww_kernel`
    dtype : float32 or float64
    centre : (d,), what rows are measured from; of no entries where they are left as they are
    values : how many values of the kernel have been computed
    """

    def __init__(
        self, kind: str | Callable, gamma: float, degree: int, coef0: float, dtype, centre
    ):
        self.kind, self.gamma, self.degree, self.coef0 = kind, gamma, degree, coef0
        self.dtype, self.centre = np.dtype(dtype), centre
        self.values = 0

    def points(self, X: Matrix) -> Points:
        """Return rows, dense or sparse, as :meth:`times` takes them."""
        if callable(self.kind):
            return Points(X, np.zeros(X.shape[0]))
        if len(self.centre):
            X = X.toarray() if sp.issparse(X) else X
            X = X - self.centre
        X = X.astype(self.dtype, copy=False)
        if self.kind == "rbf":  # then 2^(x.z - |x|^2 / 2 - |z|^2 / 2) is the kernel
            X = X * self.dtype.type(np.sqrt(2.0 * self.gamma / LN2))
        return Points(X, (0.5 * squared_norms(X)).astype(self.dtype))

    def times(self, left: Points, right: Points, B: np.ndarray) -> np.ndarray:
        """Return k(left, right) @ B for (len(right), K) `B`: (len(left), K)."""
        (m, d), r = left.X.shape, right.X.shape[0]
        self.values += m * r
        B = B.astype(self.dtype, copy=False)
        if not m or not r:
            return np.zeros((m, B.shape[1]), self.dtype)
        most = DENSE // (self.dtype.itemsize * d)
        if sp.issparse(right.X) and not callable(self.kind) and r > max(1, most):
            halves = slice(None, r // 2), slice(r // 2, None)
            self.values -= m * r
            return sum(self.times(left, right[half], B[half]) for half in halves)
        across = None if callable(self.kind) else transposed(right.X)
        out = np.empty((m, B.shape[1]), self.dtype)
        held = CALLED if callable(self.kind) else HELD
        step = max(LEAST_ROWS, held // (self.dtype.itemsize * r))
        held = np.empty((min(step, m), r), self.dtype)
        for at in range(0, m, step):
            part = left[at : at + step]
            K = held[: part.X.shape[0]]
            with np.errstate(over="ignore", invalid="ignore"):  # those who sum them up say it
                if callable(self.kind):
                    K = self.called(part.X, right.X)
                else:
                    self._fill(K, part, across, right.half)
                np.matmul(K, B, out=out[at : at + step])
        return out

    def matrix(self, left: Points, right: Points) -> np.ndarray:
        """Return k(left, right) itself."""
        if callable(self.kind):
            return self.called(left.X, right.X)
        K = np.empty((left.X.shape[0], right.X.shape[0]), self.dtype)
        self.values += K.size
        self._fill(K, left, transposed(right.X), right.half)
        return K

    def _fill(self, K, part, across, half) -> None:
        dense = not sp.issparse(part.X)
        if self.kind == "rbf" and self.dtype == np.float32 and dense and len(across) <= FEW:
            gaussian_of_few(part.X, across, part.half, half, K)
            return
        if dense:
            np.matmul(part.X, across, out=K)
        else:
            K[...] = part.X @ across
        if self.kind == "poly":
            K *= self.gamma
            K += self.coef0
            np.power(K, self.degree, out=K)
        elif self.kind == "rbf" and self.dtype == np.float32:
            gaussian_of_products(K, part.half, half)
        elif self.kind == "rbf":
            gaussian_double(K, 2 * part.half, 2 * half, LN2 / 2)

    def precision(self, points: Points) -> tuple[float, float]:
        """Return the relative error of a value of the kernel, and the largest sqrt(k(x, x))."""
        (n, d), half = points.X.shape, float(points.half.max(initial=0.0))
        if self.kind == "rbf":  # an exponent's absolute error is the value's relative one
            return EPS * (d + 4) * (1.0 + 4.0 * half), 1.0
        if self.kind == "linear":
            return EPS * d, math.sqrt(2.0 * half)
        if self.kind == "poly":
            largest = 2.0 * self.gamma * half + self.coef0
            return EPS * (d + self.degree), largest ** (self.degree / 2)
        few = (points.X[at : at + LEAST_ROWS] for at in range(0, n, LEAST_ROWS))
        largest = max((float(self.called(X, X).diagonal().max()) for X in few), default=0.0)
        return EPS * d, math.sqrt(max(largest, 0.0))

    def called(self, X: Matrix, Z: Matrix) -> np.ndarray:
        """Return what the user's function says of two sets of rows, checked."""
        return values_of(self.kind, X, Z).astype(self.dtype, copy=False)


@dataclass(kw_only=True)
class KernelRows:
    """Rows that a state holds, and the kernel by which they score new ones.

    ``data``, ``indices``, ``indptr`` are the rows (CSR, or an array and two None), ``features``
    how many columns they have; the other fields are those of :class:`Kernel`. A state whose kernel
    is a function cannot be saved.
    """

    data: np.ndarray
    indices: np.ndarray | None
    indptr: np.ndarray | None
    features: int
    kernel: str | Callable
    gamma: float
    degree: int
    coef0: float
    centre: np.ndarray

    def held_rows(self) -> Matrix:
        """Return the rows as they were given."""
        if self.indices is None:
            return self.data
        shape = (len(self.indptr) - 1, self.features)
        return rebuilt(sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape))

    def made_kernel(self, dtype: type) -> Kernel:
        """Return the kernel, in this precision."""
        return Kernel(self.kernel, self.gamma, self.degree, self.coef0, dtype, self.centre)

    def as_held(self, X) -> Matrix:
        """Return new rows dense or sparse, as those are that are held."""
        return as_given(X, self.indices)


def fields_of(X: Matrix, kernel: Kernel) -> dict:
    """Return the fields of a :class:`KernelRows`."""
    return parts_of(X) | {
        "features": X.shape[1],
        "kernel": kernel.kind,
        "gamma": float(kernel.gamma),
        "degree": int(kernel.degree),
        "coef0": float(kernel.coef0),
        "centre": kernel.centre,
    }


def parts_of(X: Matrix) -> dict:
    """Return those of the fields that are the rows."""
    if sp.issparse(X):
        return {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    return {"data": X, "indices": None, "indptr": None}


def as_given(X, indices) -> Matrix:
    """Return new rows as the rows held are: dense where `indices` are None, else sparse."""
    X = check_sparse(X)
    if indices is None:
        return X.toarray() if sp.issparse(X) else np.asarray(X)
    return sp.csr_matrix(X)


def transposed(X: Matrix) -> np.ndarray:
    """Return the (d, r) transpose of rows, dense and in C order."""
    return np.ascontiguousarray((X.toarray() if sp.issparse(X) else X).T)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def gaussian_of_products(K, half, others):
    """Put 2^(x.z - |x|^2 / 2 - |z|^2 / 2) in the place of the products x.z, float32."""
    for i in range(np.uint64(K.shape[0])):
        row, own = K[i], half[i]
        for j in range(np.uint64(row.shape[0])):
            row[j] = power(row[j] - own - others[j])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def gaussian_of_few(X, across, half, others, K):
    """Fill `K` with the same for float32 (m, d) rows and (d, r) `across`, for a small d."""
    last = np.uint64(across.shape[0] - 1)
    for i in range(np.uint64(K.shape[0])):
        row, own = K[i], half[i]
        for j in range(np.uint64(row.shape[0])):
            row[j] = -own - others[j]
        for f in range(last):
            x, z = X[i, f], across[f]
            for j in range(np.uint64(row.shape[0])):
                row[j] += x * z[j]
        x, z = X[i, last], across[last]
        for j in range(np.uint64(row.shape[0])):
            row[j] = power(row[j] + x * z[j])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def power(t):
    """Return 2^t of a float32 t <= 0 to about 3e-7: that of its whole part times a polynomial."""
    t = min(max(t, LEAST), np.float32(0.0))
    m = np.int32(t - HALF)  # towards zero: the nearest integer
    r = t - np.float32(m)
    p = POWER[0]
    p = p * r + POWER[1]
    p = p * r + POWER[2]
    p = p * r + POWER[3]
    p = p * r + POWER[4]
    p = p * r + POWER[5]
    return p * power_of_two(m)
