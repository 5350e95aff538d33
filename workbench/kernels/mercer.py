"""Mercer kernels (inner products in a feature space): parameters, values, products.

"Kernel" in this file, in gaussian.py and in gram.py means such a function; the other
files of this folder have compiled loops. Everything is computed in the precision of the
rows. In single precision a kernel's value has an error of about 1e-6, much smaller than
the errors of sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import blocks, pieces, rows_per_block
from workbench.core.certificates import EPS
from workbench.core.checks import as_number, check_sparse, shown
from workbench.core.matrices import as_dense, transposed
from workbench.core.problem import Array, Matrix, Problem
from workbench.kernels.gaussian import LN2, gaussian_of_products
from workbench.kernels.rows import squared_norms

KERNELS = ("linear", "rbf")
POLYNOMIAL = (*KERNELS, "cubic")
CACHE_BYTES = 2**18  # bytes of the kernel matrix computed together, for the CPU's cache
MIN_ROWS = 32  # rows of the kernel matrix computed together: smaller products are slow
DENSE_BYTES = 2**26  # bytes of sparse rows on the right that are made dense together


def check_kernel(kernel, gamma, known=KERNELS) -> None:
    """Raise a ValueError unless there is a kernel of this name with this gamma."""
    if not (isinstance(kernel, str) and kernel in known):
        names = ", ".join(map(repr, known))
        raise ValueError(f"kernel: must be one of {names}, got {shown(kernel)}")
    if gamma is not None and not 0 < as_number(gamma) < np.inf:
        raise ValueError(
            f"gamma: must be a positive number or None, got {shown(gamma)}"
        )


def check_gamma(gamma) -> float | None:
    """Return an estimator's gamma: a positive number, or None for "scale"."""
    if isinstance(gamma, str) and gamma == "scale":
        return None
    number = as_number(gamma)
    if not 0 < number < np.inf:
        raise ValueError(
            f'gamma: must be "scale" or a positive number, got {shown(gamma)}'
        )
    return number


def scale(problem: Problem) -> float:
    """Return scikit-learn's "scale": 1 / (d times the weighted variance of entries).

    It is 1 if the entries differ by no more than rounding errors.
    """
    X = problem.X
    weights = problem.weights
    total = float(weights.sum()) * problem.d
    if problem.is_sparse:
        mean = float((X.T @ weights).sum()) / total
        entries = X.data.astype(np.float64) - mean
        centred = sp.csr_matrix((entries, X.indices, X.indptr), X.shape)
        zeros = problem.d - np.diff(X.indptr)
        squares = squared_norms(centred) + zeros * mean**2
    else:
        parts = pieces(problem.n, rows_per_block(X))
        sums = sum(X[rows].T @ weights[rows] for rows in parts)
        mean = float(sums.sum()) / total
        deviations = (np.subtract(part, mean, dtype=np.float64) for part in blocks(X))
        squares = np.concatenate([squared_norms(part) for part in deviations])
    variance = float(weights @ squares) / total
    rounding = 1e-12 * abs(mean)
    return 1.0 / (problem.d * variance) if variance > rounding**2 else 1.0


@dataclass(frozen=True, eq=False)
class Points:
    """Rows prepared for a kernel, and half their squared norms."""

    X: Matrix
    half: Array

    def __getitem__(self, rows) -> Points:
        return Points(self.X[rows], self.half[rows])


class Kernel:
    """A kernel in one precision.

    Attributes
    ----------
    kind : str
        "linear", x.z; "rbf", exp(-gamma |x - z|^2); or "cubic", (1 + gamma x.z)^3.
    gamma : float
        The positive parameter of "rbf" and "cubic"; the linear kernel does not use it.
    dtype : float32 or float64
    centre : (d,) array
        The vector that is subtracted from dense rows; empty if there is none.
    values : int
        The number of kernel values computed so far.
    """

    def __init__(self, kind: str, gamma: float, dtype, centre):
        self.kind = kind
        self.gamma = gamma
        self.dtype = np.dtype(dtype)
        self.centre = centre
        self.values = 0

    def points(self, X: Matrix) -> Points:
        """Return dense or sparse rows, prepared for :meth:`times`.

        The rows are scaled so that the Gaussian kernel becomes 2^(x.z - |x|^2 / 2 -
        |z|^2 / 2), and the cubic one (1 + x.z)^3.
        """
        if len(self.centre):
            X = as_dense(X) - self.centre
        X = X.astype(self.dtype, copy=False)
        if self.kind != "linear":
            square = 2.0 * self.gamma / LN2 if self.kind == "rbf" else self.gamma
            X = X * self.dtype.type(np.sqrt(square))
        return Points(X, (0.5 * squared_norms(X)).astype(self.dtype))

    def times(self, left: Points, right: Points, B: Array) -> Array:
        """Return k(left, right) @ B, (len(left), K), for a (len(right), K) `B`."""
        m, d = left.X.shape
        r = right.X.shape[0]
        B = B.astype(self.dtype, copy=False)
        if not m or not r:
            return np.zeros((m, B.shape[1]), self.dtype)
        if sp.issparse(right.X) and r > max(1, DENSE_BYTES // (B.itemsize * d)):
            first = slice(r // 2)
            rest = slice(r // 2, None)
            product = self.times(left, right[first], B[first])
            return product + self.times(left, right[rest], B[rest])
        self.values += m * r
        across = transposed(right.X)
        product = np.empty((m, B.shape[1]), self.dtype)
        size = max(MIN_ROWS, CACHE_BYTES // (B.itemsize * r))
        buffer = np.empty((min(size, m), r), self.dtype)
        for rows in pieces(m, size):
            part = left[rows]
            K = buffer[: len(part.half)]
            with np.errstate(over="ignore", invalid="ignore"):  # callers check the sums
                self._fill(K, part, across, right.half)
                np.matmul(K, B, out=product[rows])
        return product

    def matrix(self, left: Points, right: Points) -> Array:
        """Return the matrix k(left, right)."""
        K = np.empty((left.X.shape[0], right.X.shape[0]), self.dtype)
        self.values += K.size
        return self._fill(K, left, transposed(right.X), right.half)

    def _fill(self, K, part, across, half) -> Array:
        if sp.issparse(part.X):
            K[...] = part.X @ across
        else:
            np.matmul(part.X, across, out=K)
        return self.of_products(K, part.half, half)

    def of_products(self, K: Array, half: Array, others: Array) -> Array:
        """Replace the inner products `K` of points by kernel values, and return them.

        `half` and `others` are half the squared norms of the points.
        """
        if self.kind == "rbf":
            gaussian_of_products(K, half, others)
        elif self.kind == "cubic":
            K += 1
            K *= K * K
        return K

    def diagonal(self, points: Points) -> Array:
        """Return k(x, x) for every point."""
        if self.kind == "rbf":
            return np.ones(len(points.half))
        return self.of_products(2.0 * points.half, points.half, points.half)

    def precision(self, points: Points) -> float:
        """Return the rounding error of a kernel value in double precision.

        It is relative to the product of both points' norms in the feature space.
        """
        d = points.X.shape[1]
        if self.kind == "linear":
            return EPS * d
        if self.kind == "cubic":
            return EPS * (3 * d + 6)
        # The absolute error of an exponent is the relative error of the power.
        return EPS * (d + 4) * (1.0 + 4.0 * float(points.half.max(initial=0.0)))


def kernel_of(problem: Problem, kernel, gamma, dtype) -> Kernel:
    """Return the kernel for the rows of a problem; a gamma of None means :func:`scale`.

    For "rbf" the mean is subtracted from dense rows, which changes no distance.
    """
    X = problem.X
    centre = np.zeros(0)
    if kernel == "rbf" and not problem.is_sparse:
        centre = sum(part.sum(axis=0, dtype=np.float64) for part in blocks(X)) / len(X)
    return Kernel(kernel, float(gamma or scale(problem)), dtype, centre)


@dataclass(kw_only=True)
class KernelRows:
    """The rows ``X`` of a state, and the kernel that gives the scores of new rows."""

    X: Matrix
    kernel: str
    gamma: float
    centre: Array

    def made_kernel(self, dtype: type | np.dtype) -> Kernel:
        """Return the kernel in this precision."""
        return Kernel(self.kernel, self.gamma, dtype, self.centre)


def fields_of(X: Matrix, kernel: Kernel) -> dict:
    """Return the fields of a :class:`KernelRows`, by name."""
    return {
        "X": X,
        "kernel": kernel.kind,
        "gamma": float(kernel.gamma),
        "centre": kernel.centre,
    }


def stored_as(held: Matrix, X) -> Matrix:
    """Check new rows, and return them as a CSR matrix exactly if `held` is one."""
    X = check_sparse(X)
    return sp.csr_matrix(X) if sp.issparse(held) else as_dense(X)
