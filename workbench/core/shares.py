"""Rows in blocks, and in shares that each answer for their own rows; the answers are summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock

import numpy as np
from threadpoolctl import ThreadpoolController

BLOCK_BYTES = 2**24  # bytes of rows that are read together, so that not all rows are copied


def pieces(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` of n rows, in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def rows_per_block(X: np.ndarray) -> int:
    """Return how many rows of a dense `X` are read together."""
    return max(1, BLOCK_BYTES // (X.dtype.itemsize * X.shape[1]))


def blocks(X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows of a dense `X` in order, about :data:`BLOCK_BYTES` at a time."""
    for rows in pieces(len(X), rows_per_block(X)):
        yield X[rows]


def products(X, W: np.ndarray) -> np.ndarray:
    """Return XW, in blocks of dense rows of another type than W: such a product copies them."""
    if not isinstance(X, np.ndarray) or X.dtype == W.dtype or len(X) <= rows_per_block(X):
        return np.asarray(X @ W)
    return np.concatenate([part @ W for part in blocks(X)])


def cut(n: int, size: int, shares: int) -> list[slice]:
    """Return at most `shares` slices of n rows, cut where :func:`pieces` of that size begin.

    The products of a piece are those of the rows as a whole, to the last bit, however many shares
    there are; only the sums over pieces have another order.
    """
    whole = -(-n // size)
    shares = min(shares, whole)
    ends = [min(i * whole // shares * size, n) for i in range(shares + 1)]
    return [slice(*ends[i : i + 2]) for i in range(shares)]


class Shares:
    """Objects that each hold some rows and what belongs to them: scores, residuals, multipliers.

    A function is called for several of them at the same time, each in its own thread with a BLAS
    of one thread. A context manager, which ends the threads.
    """

    def __init__(self, shares: Sequence):
        self.shares = list(shares)

    def __enter__(self) -> Shares:
        self._pool = ThreadPoolExecutor(len(self.shares))  # starts no thread before it has work
        return self

    def __exit__(self, *error) -> None:
        self._pool.shutdown()

    def ask(self, function: Callable, *arguments):
        """Return the sum of ``function(share, *arguments)`` over the shares, in their order.

        Tuples are summed entry by entry. None if the function returns None.
        """
        if len(self.shares) == 1:
            return function(self.shares[0], *arguments)
        # The limit is the process's: of two streams at a time, one would undo the other's.
        with _limiting, _libraries().limit(limits=1):
            return total(list(self._pool.map(lambda s: function(s, *arguments), self.shares)))

    def change(self, function: Callable, *arguments):
        """Return :meth:`ask` of a function that changes the shares."""
        return self.ask(function, *arguments)


def total(answers: Sequence):
    """Return the sum of the answers in their order; tuples are summed entry by entry."""
    first, *rest = answers
    if isinstance(first, tuple):
        return tuple(map(total, zip(*answers)))
    for answer in rest:
        if answer is not None:
            first = first + answer
    return first


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for loaded libraries, which takes milliseconds


_limiting = Lock()
