"""Products of a matrix of CSR's arrays, in one order of summation."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix
from workbench.core.shares import blocks
from workbench.kernels.compiled import njit

POWER = 50  # iterations that estimate the norm of X

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]


def entries(X: Matrix, dtype) -> Entries:
    """Return CSR's indptr, indices and data of any `X`, the data in the problem's own precision."""
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
        multiply_sparse(*rows, v, u)
        multiply_sparse(*columns, u, v)
        v *= root
    return float(np.linalg.norm(v, axis=0).max())


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
