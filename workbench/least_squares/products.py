"""Sums over rows that the algorithms are made of: products in the rows' type, sums in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from workbench.problem import Matrix

GRAM_ROWS = 4096  # rows of one product of a Gram matrix: long enough for BLAS to be at its best
CACHED = 2**19  # bytes of rows that are read twice, and the second time from the processor's cache
LARGEST = 20_000  # features: their Gram matrix and its factor take 6.4 GB


def gram(X: Matrix) -> np.ndarray:
    """Return X'X / n of (n, d) rows, in float64."""
    n, d = X.shape
    if sp.issparse(X):
        return np.asarray((X.T @ X).todense(), dtype=np.float64) / n
    S = np.zeros((d, d))
    product = np.empty((d, d), X.dtype)
    for rows in pieces(n, GRAM_ROWS):
        S += np.dot(
            X[rows].T, X[rows], out=product
        )  # NumPy sees a symmetric product, and halves it
    return S / n


def residuals(
    X: Matrix, y: np.ndarray, W: np.ndarray, of: Callable, offset: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the summed loss at the scores XW + offset, and X'R for their residuals R, in float64.

    Parameters
    ----------
    X : (n, d) rows
    y : targets, see :mod:`~workbench.least_squares.links`
    W : (d, k)
    of : the compiled residuals of a link
    offset : (n, k) scores that are there already
    """
    W = W.astype(X.dtype, copy=False)
    loss, G = 0.0, np.zeros(W.shape)
    for rows in pieces(X.shape[0], cached_rows(X)):
        F = np.asarray(X[rows] @ W)
        if offset is not None:
            F += offset[rows]
        loss += of(F, y[rows], F)
        G += X[rows].T @ F
    return loss, G


def cached_rows(X: Matrix) -> int:
    """Return how many rows stay in the processor's cache between two products."""
    if sp.issparse(X):
        return GRAM_ROWS
    return max(64, CACHED // (X.shape[1] * X.itemsize))


def pieces(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


class Factor:
    """The Cholesky factor of a positive definite (p, p) `H`, which may be so but for rounding."""

    def __init__(self, H: np.ndarray):
        if not np.isfinite(H).all():
            raise ValueError("problem: products of its features are not finite; scale the rows")
        # Products in single precision leave eigenvalues of zero at about -1e-7 of the trace.
        jitter = 0.0
        while True:
            try:
                self.factor = sla.cho_factor(H, lower=True, check_finite=False)
                return
            except sla.LinAlgError:
                more = max(10 * jitter, 1e-9 * float(np.trace(H)) / len(H))
                if more > np.trace(H):
                    raise
                H = H + (more - jitter) * np.eye(len(H))
                jitter = more

    def solve(self, G: np.ndarray) -> np.ndarray:
        """Return the solution D of H D = G."""
        return sla.cho_solve(self.factor, G, check_finite=False)


def check_size(d: int) -> None:
    """Refuse more features than the Gram matrix of a common machine can hold."""
    if d > LARGEST:
        raise ValueError(
            f"problem: its {d} features are too many for one Gram matrix, at most {LARGEST}; "
            "use ls_columns or ls_stagewise, which take them block by block"
        )
