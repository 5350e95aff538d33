"""Sums over rows that the algorithms are made of: products in the rows' type, sums in
float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.problem import Matrix
from workbench.kernels.rows import write_product

GRAM_ROWS = (
    4096  # rows of one product of a Gram matrix: long enough for BLAS to be at its best
)
TOGETHER = 128  # rows whose products with residuals are summed in single precision
CACHED = (
    2**19
)  # bytes of rows that are read twice, and the second time from the processor's cache
LARGEST = 20_000  # features: their Gram matrix, its summands and its factor take 10 GB


def gram(X: Matrix, weights: np.ndarray, total: float | None = None) -> np.ndarray:
    """Return X' diag(weights) X / sum(weights) of (n, d) rows, in float64; or over
    `total`.

    Products are of double precision too: errors of single precision in directions that
    the rows leave out are larger than a small penalty, and steps with such a matrix
    diverge.
    """
    total = total or weights.sum()
    if sp.issparse(X):
        X = X.astype(np.float64, copy=False)
        each = X.data * np.repeat(weights, np.diff(X.indptr))
        heavy = sp.csr_matrix((each, X.indices, X.indptr), X.shape)
        return (X.T @ heavy).toarray() / total
    S, product = np.zeros(X.shape[1:] * 2), np.empty(X.shape[1:] * 2)
    for rows in pieces(len(X), GRAM_ROWS):
        exact = by_root(X[rows].astype(np.float64, copy=False), weights[rows])
        S += np.dot(exact.T, exact, out=product)  # a symmetric one: NumPy does half
    S /= total
    return S


def by_root(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (m, p) rows times the roots of their weights, in their own type; Z itself
    for ones."""
    if (weights == 1.0).all():
        return Z
    return (Z * np.sqrt(weights)[:, None]).astype(Z.dtype, copy=False)


def residuals(
    X: Matrix,
    y: np.ndarray,
    W: np.ndarray,
    of: Callable,
    weights: np.ndarray,
    offset: np.ndarray | None = None,
) -> tuple[float, float, np.ndarray]:
    """Return the summed loss at the scores F = XW + offset, <R, F> and X'R for their
    residuals R.

    `of` is the compiled function of a link. Sums are of double precision, except those
    of :func:`product`.
    """
    W = W.astype(X.dtype, copy=False)
    loss, inner, G = 0.0, 0.0, np.zeros(W.shape)
    for rows in pieces(X.shape[0], cached_rows(X)):
        x = X[rows]
        F = np.empty((rows.stop - rows.start, W.shape[1]), X.dtype)
        write_product(x, W, F)
        if offset is not None:
            F += offset[rows]
        R = np.empty_like(F)
        loss += of(F, y[rows], R, weights[rows])
        inner += float(np.einsum("ij,ij->", F, R, dtype=np.float64))
        G += product(x, R)
    return loss, inner, G


def product(X: Matrix, R: np.ndarray) -> np.ndarray:
    """Return X'R; that of dense rows of single precision is summed in double, every 128
    rows."""
    whole = len(R) // TOGETHER * TOGETHER
    if sp.issparse(X) or X.dtype != np.float32 or len(R) <= TOGETHER:
        return X.T @ R
    Z, S = (M[:whole].reshape(-1, TOGETHER, M.shape[1]) for M in (X, R))
    summed = (
        np.matmul(S.transpose(0, 2, 1), Z).sum(axis=0, dtype=np.float64).T
    )  # faster so
    return summed if whole == len(R) else summed + X[whole:].T @ R[whole:]


def terms(X: Matrix) -> np.ndarray:
    """Return how many products :func:`residuals` sums at most in the rows' type, by
    feature."""
    if sp.issparse(X):
        return np.minimum(np.bincount(X.indices, minlength=X.shape[1]), GRAM_ROWS)
    most = TOGETHER if X.dtype == np.float32 else cached_rows(X)
    return np.full(X.shape[1], min(len(X), most))


def cached_rows(X: Matrix) -> int:
    """Return how many rows stay in the processor's cache between two products."""
    if sp.issparse(X):
        return GRAM_ROWS
    return max(1, CACHED // (X.shape[1] * X.dtype.itemsize) // TOGETHER) * TOGETHER


class Factor:
    """The Cholesky factor of a (p, p) `H` that is positive definite except for
    rounding."""

    def __init__(self, H: np.ndarray):
        if not np.isfinite(H).all():
            raise ValueError(
                "problem: products of its features are not finite; scale the rows"
            )
        mean = np.trace(H) / len(H)
        for jitter in (
            0.0,
            *np.logspace(-9, 0, 10),
        ):  # rounding puts eigenvalues below zero
            raised = H + jitter * mean * np.eye(len(H)) if jitter else H
            try:
                self.factor = sla.cho_factor(raised, lower=True, check_finite=False)
                return
            except sla.LinAlgError as error:
                failed = error
        raise failed

    def solve(self, G: np.ndarray) -> np.ndarray:
        """Return the solution D of H D = G."""
        return sla.cho_solve(self.factor, G, check_finite=False)

    def raised(self, share: float) -> Factor:
        """Return the factor of H plus that fraction of its trace times I."""
        R = np.tril(self.factor[0])
        H = R @ R.T
        H.flat[:: len(H) + 1] += share * float(np.vdot(R, R))
        return Factor(H)


def check_size(features: int, of: str = "problem: its") -> None:
    """Refuse more features than the Gram matrix of a common machine can hold."""
    if features > LARGEST:
        advice = "; ls_columns and ls_stagewise take them in smaller blocks" * (
            of[:7] == "problem"
        )
        raise ValueError(
            f"{of} {features} features are too many for one Gram matrix, at most "
            f"{LARGEST}{advice}"
        )
