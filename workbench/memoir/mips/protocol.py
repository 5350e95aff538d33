"""What every oracle of maximum inner product search offers, and the checks that they share."""

from __future__ import annotations

from functools import wraps
from time import process_time
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import is_whole
from workbench.core.problem import Matrix

BLOCK_BYTES = 2**24  # of scores or of dense rows that are held at once


class Oracle(Protocol):
    """Finds, for a row x, the class r other than y whose weights have the largest x.w_r.

    Attributes
    ----------
    k, d : int, numbers of classes and of features
    build_seconds, query_seconds : float, CPU seconds of the last update and of the last query
    """

    k: int
    d: int
    build_seconds: float
    query_seconds: float

    def update(self, W: Matrix, touched: np.ndarray | None) -> None:
        """Take the (d, k) weights `W`, a column a class, as what later queries search.

        W is a CSR matrix of float32 with at most one entry a place, or a C-ordered dense array of
        float32 or float64; it is a loan and must not change before the next update. `touched`
        are the classes whose weights have changed since the last update, or None for all.
        """

    def query(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the int32 classes found for these rows of (n, d) `X` with labels `y`.

        An answer is never the row's label. Classes without weights are candidates, of score 0.
        """


def timed(attribute: str):
    """Return a decorator that leaves a method's CPU seconds in this attribute."""

    def decorate(method):
        @wraps(method)
        def run(self, *arguments):
            tic = process_time()
            answer = method(self, *arguments)
            setattr(self, attribute, process_time() - tic)
            return answer

        return run

    return decorate


def check_sizes(k: int, d: int) -> tuple[int, int]:
    """Return `k` and `d`; a ValueError names what is no count of classes or features."""
    if not k >= 2:
        raise ValueError(f"k: must be at least 2 classes, got {k!r}")
    if not d >= 1:
        raise ValueError(f"d: must be at least 1 feature, got {d!r}")
    return int(k), int(d)


def check_count(value: int, argument: str) -> int:
    """Return `value` as an int; a ValueError names `argument` unless it is a whole one > 0."""
    if not is_whole(value):
        raise ValueError(f"{argument}: must be a positive whole number, got {value!r}")
    return int(value)


def check_weights(W: Matrix, k: int, d: int) -> Matrix:
    """Return `W`; a ValueError says in what it is not what :meth:`Oracle.update` takes."""
    if W.shape != (d, k):
        raise ValueError(f"W: must have shape {(d, k)}, features by classes, got {W.shape}")
    if sp.issparse(W):
        if W.format != "csr" or W.dtype != np.float32:
            raise ValueError(f"W: must be CSR of float32 where sparse, got {W.format} {W.dtype}")
    elif W.dtype not in (np.float32, np.float64) or not W.flags.c_contiguous:
        raise ValueError("W: must be a C-ordered array of float32 or float64 where dense")
    return W


def check_query(built: bool, X: Matrix, rows, y, k: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `rows` and `y` as int arrays that compiled code may index with.

    Raises
    ------
    ValueError
        If the index has not been built, or `X`, `rows` or `y` do not fit it or each other.
    """
    if not built:
        raise ValueError("query: the index has not been built; call update(W, None) first")
    if sp.issparse(X) and X.format != "csr":
        raise ValueError(f"X: must be CSR where sparse, got {X.format}")
    if X.shape[1] != d:
        raise ValueError(f"X: must have {d} features, got {X.shape[1]}")
    rows, y = np.asarray(rows, dtype=np.int64), np.asarray(y, dtype=np.int32)
    if rows.ndim != 1 or rows.shape != y.shape:
        raise ValueError(f"y: must be a label for each row, got {y.shape} for {rows.shape}")
    if len(rows) and not (rows.min() >= 0 and rows.max() < X.shape[0]):
        raise ValueError(f"rows: must be from 0 to {X.shape[0] - 1}")
    if len(rows) and not (y.min() >= 0 and y.max() < k):
        raise ValueError(f"y: must be from 0 to {k - 1}")
    return rows, y


def blocks(count: int, floats: int) -> list[slice]:
    """Return slices of range(count), each of as many items of `floats` float32 as fit a block."""
    size = max(1, BLOCK_BYTES // (4 * max(1, floats)))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def draw_others(rng: np.random.Generator, y: np.ndarray, k: int) -> np.ndarray:
    """Return a uniformly random class other than its label for each row, int32."""
    r = rng.integers(k - 1, size=len(y), dtype=np.int32)
    return r + (r >= y)
