"""The sums over rows in the algorithms, in float64; products are in the rows' type
unless a function says otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.problem import Array, Matrix
from workbench.kernels.rows import write_product

# Rows in one product of a Gram matrix, enough for BLAS to reach its full speed.
GRAM_ROWS = 4096
TOGETHER = 128  # rows whose products with residuals are summed in single precision
# Bytes of rows in a block; the block is read twice, the second time from the CPU's
# cache.
CACHED = 2**19
# The largest number of features; Gram matrix, summands and factor take 10 GB together.
LARGEST = 20_000


def gram(X: Matrix, weights: Array, total: float | None = None) -> Array:
    """Return X' diag(weights) X / sum(weights) of (n, d) rows in float64, or divided by
    `total`.

    Products are of double precision, too. In directions in which the rows do not vary,
    errors of single precision are larger than a small penalty, and steps with such a
    matrix diverge.
    """
    total = total or weights.sum()
    if sp.issparse(X):
        X = X.astype(np.float64, copy=False)
        data = X.data * np.repeat(weights, np.diff(X.indptr))
        heavy = sp.csr_matrix((data, X.indices, X.indptr), X.shape)
        return (X.T @ heavy).toarray() / total
    d = X.shape[1]
    S = np.zeros((d, d))
    part = np.empty((d, d))
    for rows in pieces(len(X), GRAM_ROWS):
        heavy = by_root(X[rows].astype(np.float64, copy=False), weights[rows])
        # NumPy computes half of a product with the same matrix.
        S += np.dot(heavy.T, heavy, out=part)
    S /= total
    return S


def by_root(Z: Array, weights: Array) -> Array:
    """Return (m, p) rows, in their own type, times the square roots of their weights.

    The result is Z itself if all weights are 1.
    """
    if (weights == 1.0).all():
        return Z
    return (Z * np.sqrt(weights)[:, None]).astype(Z.dtype, copy=False)


def residuals(
    X: Matrix,
    y: Array,
    W: Array,
    of: Callable,
    weights: Array,
    offset: Array | None = None,
) -> tuple[float, float, Array]:
    """Return the summed loss at the scores F = XW + offset, <R, F> and X'R for their
    residuals R.

    `of` is the compiled function of a link. Sums are of double precision, except those
    in :func:`product`.
    """
    W = W.astype(X.dtype, copy=False)
    loss = 0.0
    inner = 0.0
    G = np.zeros(W.shape)
    for rows in pieces(X.shape[0], cached_rows(X)):
        part = X[rows]
        F = np.empty((rows.stop - rows.start, W.shape[1]), X.dtype)
        write_product(part, W, F)
        if offset is not None:
            F += offset[rows]
        R = np.empty_like(F)
        loss += of(F, y[rows], R, weights[rows])
        inner += float(np.einsum("ij,ij->", F, R, dtype=np.float64))
        G += product(part, R)
    return loss, inner, G


def product(X: Matrix, R: Array) -> Array:
    """Return X'R.

    For dense rows of single precision, the products of 128 rows at a time are summed in
    double precision.
    """
    n = len(R)
    if sp.issparse(X) or X.dtype != np.float32 or n <= TOGETHER:
        return X.T @ R
    whole = n // TOGETHER * TOGETHER
    Z = X[:whole].reshape(-1, TOGETHER, X.shape[1])
    S = R[:whole].reshape(-1, TOGETHER, R.shape[1])
    transposed = np.matmul(S.transpose(0, 2, 1), Z)  # faster than the product itself
    summed = transposed.sum(axis=0, dtype=np.float64).T
    return summed if whole == n else summed + X[whole:].T @ R[whole:]


def terms(X: Matrix) -> Array:
    """Return, per feature, how many products :func:`residuals` sums in X's type."""
    if sp.issparse(X):
        return np.minimum(np.bincount(X.indices, minlength=X.shape[1]), GRAM_ROWS)
    rows = TOGETHER if X.dtype == np.float32 else cached_rows(X)
    return np.full(X.shape[1], min(len(X), rows))


def cached_rows(X: Matrix) -> int:
    """Return how many rows stay in the CPU's cache between two products."""
    if sp.issparse(X):
        return GRAM_ROWS
    return max(1, CACHED // (X.shape[1] * X.dtype.itemsize) // TOGETHER) * TOGETHER


class Factor:
    """The Cholesky factor of a (p, p) `H` that is positive definite up to rounding."""

    def __init__(self, H: Array):
        if not np.isfinite(H).all():
            raise ValueError(
                "problem: products of its features are not finite; scale the rows"
            )
        mean = np.trace(H) / len(H)
        # Rounding may make eigenvalues negative.
        for jitter in (0.0, *np.logspace(-9, 0, 10)):
            raised = H + jitter * mean * np.eye(len(H)) if jitter else H
            try:
                self.factor = sla.cho_factor(raised, lower=True, check_finite=False)
                return
            except sla.LinAlgError as error:
                failed = error
        raise failed

    def solve(self, G: Array) -> Array:
        """Return the solution D of H D = G."""
        return sla.cho_solve(self.factor, G, check_finite=False)

    def raised(self, fraction: float) -> Factor:
        """Return the factor of H plus this fraction of its trace times I."""
        R = np.tril(self.factor[0])
        H = R @ R.T
        H.flat[:: len(H) + 1] += fraction * float(np.vdot(R, R))
        return Factor(H)


def check_size(features: int, of: str = "problem: its") -> None:
    """Refuse more features than :data:`LARGEST`; `of` begins the message."""
    if features > LARGEST:
        advice = ""
        if of.startswith("problem"):
            advice = " (ls_columns and ls_stagewise take them in smaller blocks)"
        raise ValueError(
            f"{of} {features} features are too many for one Gram matrix; at most "
            f"{LARGEST} are accepted{advice}"
        )
