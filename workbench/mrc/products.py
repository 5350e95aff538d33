"""Products of a matrix of CSR's arrays, or of rows in a file, in one order of summation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix
from workbench.core.rows_in_file import RowsInFile, TransposedInFile, blocks, rows_per_block
from workbench.core.shares import pieces
from workbench.kernels.compiled import njit

POWER = 50  # iterations that estimate the norm of X

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]


def entries(X: Matrix | TransposedInFile, dtype) -> Entries | RowsInFile | TransposedInFile:
    """Return CSR's indptr, indices and data of any `X`, the data in the problem's own precision.

    Rows that stay in a file, and their transpose, still do.
    """
    if isinstance(X, TransposedInFile):
        return entries(X.X, dtype).T
    if isinstance(X, RowsInFile):
        return X.map(lambda part: part.astype(dtype), X.shape[1], dtype)
    X = sp.csr_matrix(X if sp.issparse(X) else np.asarray(X))
    return X.indptr, X.indices, X.data.astype(dtype)


def column_scale(X: Matrix) -> np.ndarray:
    """Return 1 / sum_i |x_ij| for every feature j, 0 for a feature without a non-zero."""
    parts = [X] if sp.issparse(X) else blocks(X)
    total = sum(np.asarray(abs(part).sum(axis=0)).ravel() for part in parts)
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)


def norm(rows, columns, n: int, scale: np.ndarray) -> float:
    """Return the squared spectral norm of X diag(scale)^(1/2): the power method from two starts."""
    root = np.sqrt(scale)[:, None]
    v = np.random.default_rng(0).random((len(scale), 2)) * root
    u = np.zeros((n, 2))
    for _ in range(POWER):
        v *= root / np.linalg.norm(v, axis=0)
        multiply(rows, v, u)
        multiply(columns, u, v)
        v *= root
    return float(np.linalg.norm(v, axis=0).max())


def multiply(entries, A: np.ndarray, out: np.ndarray) -> None:
    """Write the product of a matrix of :func:`entries` and `A` to `out`, to the last bit.

    Rounding decides which constraints an iterate meets, and so what is projected.
    """
    if isinstance(entries, tuple):
        return multiply_sparse(*entries, A, out)
    across = isinstance(entries, TransposedInFile)
    X, out[:] = entries.X if across else entries, 0.0
    for rows in pieces(len(X), rows_per_block(X)):
        add_product(X[rows], A[rows] if across else A, out if across else out[rows], across)


def above(rows, values: np.ndarray, phi: float) -> Iterator[tuple[np.ndarray, Entries]]:
    """Yield some `values` and the entries of their rows, among them all beyond `phi`, in order."""
    if isinstance(rows, tuple):
        yield values, rows
        return
    high = np.flatnonzero(values > phi)
    for part in pieces(len(high), rows_per_block(rows)):
        yield values[high[part]], entries(rows[high[part]], rows.dtype)


@njit(cache=True)
def multiply_sparse(indptr, indices, data, A, out):
    """Write the product of a sparse matrix and `A` to `out`; two classes stay in registers."""
    n, k = out.shape
    for i in range(n):
        if k == 2:
            a, b = 0.0, 0.0
            for e in range(indptr[i], indptr[i + 1]):
                a += data[e] * A[indices[e], 0]
                b += data[e] * A[indices[e], 1]
            out[i, 0], out[i, 1] = a, b
        else:
            out[i] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                for y in range(k):
                    out[i, y] += data[e] * A[indices[e], y]


@njit(cache=True)
def add_product(X, A, out, across):
    """Add the product of dense rows, or of their transpose, and `A` to `out`, in their order."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            to, of = (j, i) if across else (i, j)
            for y in range(A.shape[1]):
                out[to, y] += X[i, j] * A[of, y]
