"""Products of rows with a thin matrix, where BLAS is slow: random features, scores."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix

UNPACKED = 10**6  # multiplications: OpenBLAS copies the factors of a larger product first


def multiply(X: Matrix, W: np.ndarray, Z: np.ndarray) -> None:
    """Put XW into `Z`, in the type of W; dense rows that are short, a few at a time."""
    if sp.issparse(X):
        Z[...] = X.astype(W.dtype, copy=False) @ W
        return
    X = np.asarray(X, W.dtype)
    group = UNPACKED // max(1, W.size)
    whole = len(X) // group * group if group >= 4 and Z.flags.c_contiguous else 0
    if whole:
        few, out = (M[:whole].reshape(-1, group, M.shape[1]) for M in (X, Z))
        np.matmul(few, W, out=out)
    np.matmul(X[whole:], W, out=Z[whole:])
