"""Rows that stay in a file and are read in blocks."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import accumulate
from typing import NoReturn

import numpy as np

from workbench.core.shares import pieces

BLOCK = 2**24  # bytes of rows that are looked at together
READ = 2**20  # bytes that are read at a time: what is done with them finds them in the cache
AT_ONCE = 2**28  # bytes of rows that one index may read from a file
GAP = 16  # rows that are read with those on both sides of them, and not used


class RowsInFile:
    """The (n, d) rows of a file, float32 or float64, which stay in it, or of several files.

    ``X[rows]``, with a slice, row numbers or a mask, reads rows into a new array of at most
    :data:`AT_ONCE` bytes; ``X @ W`` and ``X.T @ R`` read all of them, a block at a time. All else
    that can be asked of an array is a ValueError, so that no method fills the memory unnoticed.
    The file is read, not mapped into memory: one that is mapped and then cut kills the process.

    Parameters
    ----------
    path : the file, or the folder of several
    files : at least one, the path of an .npy file or an object with its `path`, `shape`, `dtype`
        and ``read(first, out)``; the rows of one come after those of the other

    Raises
    ------
    ValueError
        Naming the file: not such an array, not of the same type and number of features as the
        first, cut short, or, when rows are read, changed since.
    """

    ndim = 2

    def __init__(self, path: str | os.PathLike, files: Sequence = ()):
        self.path = os.fspath(path)
        self._files = [f if hasattr(f, "read") else _File(f) for f in files or (path,)]
        self._change, self._start, first = None, 0, self._files[0]
        self.cluster = None  # whose workers read the rows, see :mod:`workbench.core.cluster`
        self._stored = first.shape[1], first.dtype
        for file in self._files:
            if (file.shape[1], file.dtype) != self._stored:
                raise ValueError(
                    f"{file.path}: has {file.shape[1]} features of {file.dtype}, the first has "
                    f"{first.shape[1]} of {first.dtype}"
                )
        self._ends = list(accumulate(file.shape[0] for file in self._files))
        self.shape, self.dtype = (self._ends[-1], first.shape[1]), first.dtype

    def map(self, change: Callable[[np.ndarray], np.ndarray], d: int, dtype) -> RowsInFile:
        """Return the rows as `change` makes them, whenever they are read: (m, d) of `dtype`."""
        X, before = copy(self), self._change
        X._change = change if before is None else lambda part: change(before(part))
        X.shape, X.dtype = (len(self), d), np.dtype(dtype)
        return X

    def part(self, at: slice) -> RowsInFile:
        """Return some of the rows, which stay in the file and are read where they are used."""
        X = copy(self)
        X._start, X.cluster = self._start + at.start, None
        X.shape = at.stop - at.start, self.shape[1]
        return X

    def fits(self, rows: int) -> bool:
        """Return whether that many rows may be read at once."""
        return rows * self.shape[1] * self.dtype.itemsize <= AT_ONCE

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, tuple) or (not isinstance(rows, slice) and np.ndim(rows) != 1):
            self._refuse()
        if isinstance(rows, slice):
            rows = range(*rows.indices(len(self)))
        elif np.asarray(rows).dtype == bool:
            rows = np.flatnonzero(rows)
        if not self.fits(len(rows)):
            self._refuse()
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        for part in pieces(len(rows), max(1, READ // (self._stored[0] * self._stored[1].itemsize))):
            self._fill(rows[part], out[part])
        return out

    def _fill(self, rows: range | np.ndarray, out: np.ndarray) -> None:
        changed = self._change is not None
        stored = np.empty((len(rows), self._stored[0]), self._stored[1]) if changed else out
        if isinstance(rows, range) and rows.step == 1:
            self._read(rows.start, stored)
        else:
            self._gather(np.asarray(rows, int), stored)
        if changed:
            out[...] = self._change(stored)

    def _gather(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Read rows one by one, or with those between them if these are few."""
        near = (np.diff(rows) > 0) & (np.diff(rows) <= GAP)
        ends = [*(np.flatnonzero(~near) + 1), len(rows)]
        for start, end in zip([0, *ends[:-1]], ends):
            first, last = int(rows[start]), int(rows[end - 1])
            part = np.empty((last - first + 1, out.shape[1]), out.dtype)
            self._read(first, part)
            out[start:end] = part[rows[start:end] - first]

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        return products(self, W)

    @property
    def T(self) -> TransposedInFile:
        return TransposedInFile(self)

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
        if not 0 <= first <= len(self) - len(out):
            raise IndexError(f"{self.path}: has {len(self)} rows, asked for row {first}")
        first += self._start
        while len(out):
            at = bisect_right(self._ends, first)
            file, end = self._files[at], self._ends[at]
            here = out[: end - first]
            file.read(first - end + file.shape[0], here)
            first, out = first + len(here), out[len(here) :]


class _File:
    """An .npy file of them."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        try:
            mapped = np.lib.format.open_memmap(path, mode="r")  # compares the sizes, too
            self.file = open(path, "rb", buffering=0)  # closed with the last reference to it
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path}: cannot be read as an .npy file; {error}") from None
        ordered = mapped.ndim == 2 and mapped.size and mapped.flags.c_contiguous
        if not ordered or mapped.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"{path}: must contain rows of float32 or float64 in C order, got "
                f"{mapped.dtype.name} of shape {mapped.shape}"
            )
        self.shape, self.dtype, self.offset = mapped.shape, mapped.dtype, mapped.offset
        self.stamp = self.current()

    def __getstate__(self) -> dict:
        kept = {name: value for name, value in self.__dict__.items() if name != "file"}
        return kept | {"path": os.path.abspath(self.path)}  # other processes have other folders

    def read(self, first: int, out: np.ndarray) -> None:
        if "file" not in self.__dict__:  # in another process, the first of whose threads opens it
            self.__dict__.setdefault("file", open(self.path, "rb", buffering=0))
        view = out.reshape(-1).view(np.uint8)
        at = self.offset + first * out.shape[1] * out.itemsize
        while len(view) and (count := os.preadv(self.file.fileno(), [view], at)):
            at, view = at + count, view[count:]
        if len(view) or self.current() != self.stamp:
            raise ValueError(f"{self.path}: was cut or has changed while in use; load it again")

    def current(self) -> tuple[int, int]:
        about = os.fstat(self.file.fileno())
        return about.st_size, about.st_mtime_ns


class TransposedInFile:
    """The transpose of rows that stay in a file, for products with it."""

    def __init__(self, X: RowsInFile):
        self.X = X

    def __matmul__(self, R: np.ndarray) -> np.ndarray:
        return sums(self.X, R)


class NotInMemory(ValueError, AttributeError):
    """A method that needs all rows in memory; an AttributeError too, for hasattr()."""


def in_memory(X):
    """Return `X`; NotInMemory if it is rows that stay in a file."""
    return X._refuse() if isinstance(X, RowsInFile) else X


def rows_per_block(X: np.ndarray | RowsInFile) -> int:
    """Return how many rows of `X` are looked at together."""
    return max(1, BLOCK // (X.dtype.itemsize * X.shape[1]))


def blocks(X: np.ndarray | RowsInFile) -> Iterator[np.ndarray]:
    """Yield the rows of `X` in order, some :data:`BLOCK` bytes at a time."""
    for rows in pieces(len(X), rows_per_block(X)):
        yield X[rows]


def in_blocks(function: Callable, X: np.ndarray | RowsInFile, *by_row) -> Iterator:
    """Yield function(rows, *entries) of each block of `X` and `by_row`, called where rows are."""
    if getattr(X, "cluster", None):
        return (yield from X.cluster.in_blocks(function, X, by_row))
    for rows in pieces(len(X), rows_per_block(X)):
        yield function(X[rows], *(entries[rows] for entries in by_row))


def products(X: np.ndarray | RowsInFile, W: np.ndarray) -> np.ndarray:
    """Return XW, block by block: the same digits for rows in memory, in a file, on a cluster."""
    out = np.empty((len(X), *W.shape[1:]), np.result_type(X.dtype, W.dtype))
    for rows, part in zip(pieces(len(X), rows_per_block(X)), in_blocks(lambda x: x @ W, X)):
        out[rows] = part
    return out


def sums(X: np.ndarray | RowsInFile, R) -> np.ndarray:
    """Return X'R, block by block: the same digits for rows in memory, in a file, on a cluster."""
    return sum(in_blocks(lambda part, R: part.T @ R, X, R))
