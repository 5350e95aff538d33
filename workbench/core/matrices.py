"""Dense copies of rows, and the root of a Gram matrix's inverse."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Matrix


def as_dense(X: Matrix) -> np.ndarray:
    """Return rows as an array."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def transposed(X: Matrix) -> np.ndarray:
    """Return the (d, r) transpose of r rows, dense and in C order."""
    return np.ascontiguousarray(as_dense(X).T)


def inverse_root(K: np.ndarray) -> np.ndarray:
    """Return K^-1/2 of a positive semidefinite matrix.

    It is zero on the eigenvectors whose eigenvalues are zero up to rounding.
    """
    values, vectors = np.linalg.eigh(K)
    positive = values > 1e-10 * max(values[-1], 0.0)
    vectors = vectors[:, positive]
    return (vectors / np.sqrt(values[positive])) @ vectors.T
