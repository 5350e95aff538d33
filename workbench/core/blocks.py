"""Passes over rows in blocks, so that not all rows are copied at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.kinds import Matrix

BLOCK_BYTES = (
    2**24
)  # bytes of rows that are read together, so that not all rows are copied


def pieces(n: int, size: int) -> Iterator[slice]:
    """Yield slices of n rows in order, `size` rows each, but at least one."""
    size = max(1, size)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def rows_per_block(X: np.ndarray) -> int:
    """Return how many rows of a dense `X` are read together."""
    return BLOCK_BYTES // (X.dtype.itemsize * X.shape[1])


def blocks(X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows of a dense `X` in order, about :data:`BLOCK_BYTES` at a time."""
    for rows in pieces(len(X), rows_per_block(X)):
        yield X[rows]


def products(X: Matrix, W: np.ndarray) -> np.ndarray:
    """Return XW; dense rows of another type than W are copied, so they come in
    blocks."""
    if (
        not isinstance(X, np.ndarray)
        or X.dtype == W.dtype
        or len(X) <= rows_per_block(X)
    ):
        return np.asarray(X @ W)
    return np.concatenate([part @ W for part in blocks(X)])
