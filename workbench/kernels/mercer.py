"""Kernels by name: their parameters, their values, and products with them.

Everything is computed in the precision of the rows. Single precision has errors of
about 1e-6 in a kernel's value, far below those of sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import blocks, pieces, rows_per_block
from workbench.core.certificates import EPS
from workbench.core.checks import as_number, check_sparse, shown
from workbench.core.matrices import as_dense, transposed
from workbench.core.problem import Matrix, Problem
from workbench.kernels.gaussian import LN2, gaussian_of_products
from workbench.kernels.rows import squared_norms

KERNELS = ("linear", "rbf")
POLYNOMIAL = (*KERNELS, "cubic")
CACHE_BYTES = (
    2**18
)  # bytes of the kernel matrix computed at a time, to stay in the CPU's cache
MIN_ROWS = 32  # least number of its rows computed at a time: smaller products are slow
DENSE = (
    2**26
)  # bytes of sparse rows that are made dense at a time, on one side of a product


def check_kernel(kernel, gamma, known=KERNELS) -> None:
    """Raise a ValueError that names the argument unless these make a kernel."""
    if not (isinstance(kernel, str) and kernel in known):
        names = ", ".join(map(repr, known))
        raise ValueError(f"kernel: must be one of {names}, got {shown(kernel)}")
    if gamma is not None and not 0 < as_number(gamma) < np.inf:
        raise ValueError(
            f"gamma: must be a positive number or None, got {shown(gamma)}"
        )


def check_gamma(gamma) -> float | None:
    """Return an estimator's gamma as a float, None for "scale"; ValueError for anything
    else."""
    scaled = isinstance(gamma, str) and gamma == "scale"
    if not (scaled or 0 < as_number(gamma) < np.inf):
        raise ValueError(
            f'gamma: must be "scale" or a positive number, got {shown(gamma)}'
        )
    return None if scaled else as_number(gamma)


def scale(problem: Problem) -> float:
    """Return 1 / (d times the weighted variance of all entries), scikit-learn's
    "scale"."""
    X, total = problem.X, float(problem.weights.sum()) * problem.d
    parts = [slice(None)] if problem.is_sparse else pieces(problem.n, rows_per_block(X))
    by_column = sum(X[rows].T @ problem.weights[rows] for rows in parts)
    mean = float(by_column.sum()) / total
    if problem.is_sparse:
        zeros = problem.d - np.diff(X.indptr)
        X = sp.csr_matrix(
            (X.data.astype(np.float64) - mean, X.indices, X.indptr), X.shape
        )
        squares = squared_norms(X) + zeros * mean**2
    else:
        centred = (np.subtract(part, mean, dtype=np.float64) for part in blocks(X))
        squares = np.concatenate([squared_norms(part) for part in centred])
    variance = float(problem.weights @ squares) / total
    spread = 1e-12 * abs(mean)  # smaller differences are rounding
    return 1.0 / (problem.d * variance) if variance > spread**2 else 1.0


@dataclass(frozen=True, eq=False)
class Points:
    """Rows prepared for a kernel, and half their squared norms."""

    X: Matrix
    half: np.ndarray

    def __getitem__(self, rows) -> Points:
        return Points(self.X[rows], self.half[rows])


class Kernel:
    """A kernel in one precision.

    Attributes
    ----------
    kind : "linear", x.z, "rbf", exp(-gamma |x - z|^2), or "cubic", (1 + gamma x.z)^3
    dtype : float32 or float64
    centre : (d,), subtracted from dense rows, or empty
    values : number of kernel values computed so far
    """

    def __init__(self, kind: str, gamma: float, dtype, centre):
        self.kind, self.gamma, self.dtype, self.centre = (
            kind,
            gamma,
            np.dtype(dtype),
            centre,
        )
        self.values = 0

    def points(self, X: Matrix) -> Points:
        """Return dense or sparse rows, prepared for :meth:`times`."""
        if len(self.centre):
            X = as_dense(X) - self.centre
        X = X.astype(self.dtype, copy=False)
        # The Gaussian kernel becomes 2^(x.z - |x|^2 / 2 - |z|^2 / 2).
        if factor := {"rbf": 2.0 * self.gamma / LN2, "cubic": self.gamma}.get(
            self.kind
        ):
            X = X * self.dtype.type(np.sqrt(factor))
        return Points(X, (0.5 * squared_norms(X)).astype(self.dtype))

    def times(self, left: Points, right: Points, B: np.ndarray) -> np.ndarray:
        """Return k(left, right) @ B for (len(right), K) `B`: (len(left), K)."""
        (m, d), r = left.X.shape, right.X.shape[0]
        self.values += m * r
        B = B.astype(self.dtype, copy=False)
        if not m or not r:
            return np.zeros((m, B.shape[1]), self.dtype)
        most = DENSE // (self.dtype.itemsize * d)
        if sp.issparse(right.X) and r > max(1, most):
            halves = slice(None, r // 2), slice(r // 2, None)
            self.values -= m * r
            return np.add(*(self.times(left, right[half], B[half]) for half in halves))
        across = transposed(right.X)
        out = np.empty((m, B.shape[1]), self.dtype)
        step = max(MIN_ROWS, CACHE_BYTES // (self.dtype.itemsize * r))
        held = np.empty((min(step, m), r), self.dtype)
        for rows in pieces(m, step):
            part = left[rows]
            with np.errstate(over="ignore", invalid="ignore"):  # callers check the sums
                K = self._fill(held[: part.X.shape[0]], part, across, right.half)
                np.matmul(K, B, out=out[rows])
        return out

    def matrix(self, left: Points, right: Points) -> np.ndarray:
        """Return k(left, right) itself."""
        K = np.empty((left.X.shape[0], right.X.shape[0]), self.dtype)
        self.values += K.size
        return self._fill(K, left, transposed(right.X), right.half)

    def _fill(self, K, part, across, half) -> np.ndarray:
        if sp.issparse(part.X):
            K[...] = part.X @ across
        else:
            np.matmul(part.X, across, out=K)
        return self.of_products(K, part.half, half)

    def of_products(
        self, K: np.ndarray, half: np.ndarray, others: np.ndarray
    ) -> np.ndarray:
        """Return the kernel, in place, of inner products of points with these half
        norms."""
        if self.kind == "rbf":
            gaussian_of_products(K, half, others)
        elif self.kind == "cubic":
            K += 1
            K *= K * K
        return K

    def diagonal(self, points: Points) -> np.ndarray:
        """Return k(x, x) of every point."""
        if self.kind == "rbf":
            return np.ones(len(points.half))
        return self.of_products(2.0 * points.half, points.half, points.half)

    def precision(self, points: Points) -> float:
        """Return a value's error in double precision, relative to |phi(x)| |phi(z)|."""
        d = points.X.shape[1]
        if (
            self.kind == "rbf"
        ):  # the absolute error of an exponent is relative in the value
            return EPS * (d + 4) * (1.0 + 4.0 * float(points.half.max(initial=0.0)))
        return EPS * (d if self.kind == "linear" else 3 * d + 6)


def kernel_of(problem: Problem, kernel, gamma, dtype) -> Kernel:
    """Return the kernel for the rows of a problem; a gamma of None is :func:`scale`.

    For "rbf", dense rows are centred on their mean, which changes no distance.
    """
    X, centre = problem.X, np.zeros(0)
    if kernel == "rbf" and not problem.is_sparse:
        centre = sum(part.sum(axis=0, dtype=np.float64) for part in blocks(X)) / len(X)
    return Kernel(kernel, float(gamma or scale(problem)), dtype, centre)


@dataclass(kw_only=True)
class KernelRows:
    """Rows ``X`` of a state, and the kernel for the scores of new rows."""

    X: Matrix
    kernel: str
    gamma: float
    centre: np.ndarray

    def made_kernel(self, dtype: type | np.dtype) -> Kernel:
        """Return the kernel, in this precision."""
        return Kernel(self.kernel, self.gamma, dtype, self.centre)


def fields_of(X: Matrix, kernel: Kernel) -> dict:
    """Return the fields of a :class:`KernelRows`."""
    return {
        "X": X,
        "kernel": kernel.kind,
        "gamma": float(kernel.gamma),
        "centre": kernel.centre,
    }


def stored_as(held: Matrix, X) -> Matrix:
    """Return new rows dense or sparse, like the rows of a state."""
    X = check_sparse(X)
    return sp.csr_matrix(X) if sp.issparse(held) else as_dense(X)
