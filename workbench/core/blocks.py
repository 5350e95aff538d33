"""Passes over rows in blocks, so that not all rows are copied at once."""

from collections.abc import Iterator

import numpy as np

from workbench.core.kinds import Array, Matrix

BLOCK_BYTES = 2**24  # bytes of rows that are read together


def pieces(n: int, size: int) -> Iterator[slice]:
    """Yield slices of n rows in order, each of up to `size` rows (at least one)."""
    size = max(1, size)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def rows_per_block(X: Array) -> int:
    """Return how many rows of a dense `X` are read together."""
    return BLOCK_BYTES // (X.dtype.itemsize * X.shape[1])


def blocks(X: Array) -> Iterator[Array]:
    """Yield the rows of a dense `X` in order, about :data:`BLOCK_BYTES` at a time."""
    for rows in pieces(len(X), rows_per_block(X)):
        yield X[rows]


def products(X: Matrix, W: Array) -> Array:
    """Return XW.

    NumPy copies dense rows whose type differs from that of W. They are multiplied in
    blocks, so that only one block is copied at a time.
    """
    if isinstance(X, np.ndarray) and X.dtype != W.dtype:
        return np.concatenate([part @ W for part in blocks(X)])
    return np.asarray(X @ W)
