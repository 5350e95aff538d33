"""The rows of a problem as shares: each answers for its own rows, and the answers are summed.

Rows are an array or a CSR matrix, or stay in a file, :class:`RowsInFile`, which is read in blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import NoReturn

import numpy as np
from threadpoolctl import ThreadpoolController

BLOCK = 2**24  # bytes of rows that are looked at together
AT_ONCE = 2**30  # bytes of rows that one index may read from a file


def pieces(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` of n rows, in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def cut(n: int, size: int, shares: int) -> list[slice]:
    """Return at most `shares` slices of n rows, cut where :func:`pieces` of that size begin.

    The products of a piece are those of the rows as a whole, to the last bit, however many shares
    there are; only the sums over pieces have another order.
    """
    whole = -(-n // size)
    shares = min(shares, whole)
    ends = [min(i * whole // shares * size, n) for i in range(shares + 1)]
    return [slice(*ends[i : i + 2]) for i in range(shares)]


class RowsInFile:
    """The (n, d) rows of an .npy file, float32 or float64, which stay in it.

    ``X[rows]``, with a slice, row numbers or a mask, reads rows into a new array of at most
    :data:`AT_ONCE` bytes; ``X @ W`` and ``X.T @ R`` read all of them, a block at a time. All else
    that can be asked of an array is a ValueError, so that no method fills the memory unnoticed.
    The file is read, not mapped into memory: one that is mapped and then cut kills the process.

    Raises
    ------
    ValueError
        Naming the file: not such an array, cut short, or, when rows are read, changed since.
    """

    ndim = 2

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        try:
            mapped = np.lib.format.open_memmap(path, mode="r")  # compares the sizes, too
            self._file = open(path, "rb", buffering=0)  # closed with the last reference to it
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path}: cannot be read as an .npy file; {error}") from None
        ordered = mapped.ndim == 2 and mapped.size and mapped.flags.c_contiguous
        if not ordered or mapped.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"{path}: must contain rows of float32 or float64 in C order, got "
                f"{mapped.dtype.name} of shape {mapped.shape}"
            )
        self.shape, self.dtype, self._offset = mapped.shape, mapped.dtype, mapped.offset
        self.itemsize, self._row_bytes = mapped.itemsize, mapped.itemsize * self.shape[1]
        self._stamp = self._current()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, stop, _ = rows.indices(len(self))
            runs = [(first, max(0, stop - first))]
        elif isinstance(rows, tuple) or np.ndim(rows := np.arange(len(self))[rows]) == 0:
            self._refuse()
        else:
            starts = np.flatnonzero(np.diff(rows, prepend=np.nan) != 1)
            runs = list(zip(rows[starts].tolist(), np.diff(starts, append=len(rows)).tolist()))
        total, done = sum(count for _, count in runs), 0
        if total * self._row_bytes > AT_ONCE:
            self._refuse()
        out = np.empty((total, self.shape[1]), self.dtype)
        for first, count in runs:
            self._read(first, out[done : done + count])
            done += count
        return out

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        out = np.empty((len(self), *W.shape[1:]), np.result_type(self.dtype, W.dtype))
        for rows in pieces(len(self), rows_per_block(self)):
            out[rows] = self[rows] @ W
        return out

    @property
    def T(self) -> _Transposed:
        return _Transposed(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # what Python and NumPy ask of any object
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_, **named) -> NoReturn:
        raise NotInMemory(
            f"problem: its rows stay in {self.path}, and this method needs them in memory; "
            "help(workbench.load) lists the solvers that read them in blocks"
        )

    __array__ = __abs__ = __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __iter__ = _refuse

    def _read(self, first: int, out: np.ndarray) -> None:
        at, view = self._offset + first * self._row_bytes, out.reshape(-1).view(np.uint8)
        while len(view) and (count := os.preadv(self._file.fileno(), [view], at)):
            at, view = at + count, view[count:]
        if len(view) or self._current() != self._stamp:
            raise ValueError(f"{self.path}: was cut or has changed while in use; load it again")

    def _current(self) -> tuple[int, int]:
        about = os.fstat(self._file.fileno())
        return about.st_size, about.st_mtime_ns


class _Transposed:
    def __init__(self, X: RowsInFile):
        self.X = X

    def __matmul__(self, R: np.ndarray) -> np.ndarray:
        return sum(self.X[rows].T @ R[rows] for rows in pieces(len(R), rows_per_block(self.X)))


class NotInMemory(ValueError, AttributeError):
    """A method that needs all rows in memory; an AttributeError too, for hasattr()."""


def rows_per_block(X: np.ndarray | RowsInFile) -> int:
    """Return how many rows of `X` are looked at together."""
    return max(1, BLOCK // (X.itemsize * X.shape[1]))


def blocks(X: np.ndarray | RowsInFile) -> Iterator[np.ndarray]:
    """Yield the rows of `X` in order, some :data:`BLOCK` bytes at a time."""
    for rows in pieces(len(X), rows_per_block(X)):
        yield X[rows]


class Shares:
    """Objects that each hold some rows and what belongs to them: scores, residuals, multipliers.

    Several are asked at the same time, each by its own thread with a BLAS of one thread. A context
    manager, which ends the threads.
    """

    def __init__(self, shares: Sequence):
        self.shares = list(shares)

    def __enter__(self) -> Shares:
        self._pool = ThreadPoolExecutor(len(self.shares))  # starts no thread before it has work
        return self

    def __exit__(self, *error) -> None:
        self._pool.shutdown()

    def ask(self, method: str, *arguments):
        """Return the sum of what this method of the shares returns, in their order.

        Tuples are summed entry by entry. None if the method returns nothing.
        """
        answers = self._each(method, *arguments)
        if isinstance(answers[0], tuple):
            return tuple(map(_total, zip(*answers)))
        return _total(answers)

    def _each(self, method: str, *arguments) -> list:
        if len(self.shares) == 1:
            return [getattr(self.shares[0], method)(*arguments)]
        # The limit is the process's: of two streams at a time, one would undo the other's.
        with _limiting, _libraries().limit(limits=1):
            return list(self._pool.map(lambda s: getattr(s, method)(*arguments), self.shares))


def _total(answers: Sequence):
    total, *rest = answers
    for answer in rest:
        if answer is not None:
            total = total + answer
    return total


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for loaded libraries, which takes milliseconds


_limiting = Lock()
