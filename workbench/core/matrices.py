"""Dense copies of rows, further columns, and the root of a Gram matrix's inverse."""

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Array, Matrix


def as_dense(X: Matrix) -> Array:
    """Return rows as an array."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def with_columns(X: Matrix, columns: Array) -> Matrix:
    """Return rows with dense columns appended; they are a CSR matrix if `X` is."""
    if sp.issparse(X):
        return sp.hstack([X, columns], format="csr")
    return np.hstack([X, columns])


def transposed(X: Matrix) -> Array:
    """Return the (d, r) transpose of r rows, dense and in C order."""
    return np.ascontiguousarray(as_dense(X).T)


def inverse_root(K: Array) -> Array:
    """Return K^-1/2 of a positive semidefinite matrix.

    It is zero on the eigenvectors whose eigenvalues are zero up to rounding.
    """
    values, vectors = np.linalg.eigh(K)
    positive = values > 1e-10 * max(values[-1], 0.0)
    vectors = vectors[:, positive]
    return (vectors / np.sqrt(values[positive])) @ vectors.T
