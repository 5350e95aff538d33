"""Products of a row of a dense or CSR matrix with a matrix, and rank-one updates,
compiled.

The matrices W (d, lanes) hold one row per feature, padded with columns of zeros to a
multiple of vector registers; `width` is a tuple of that length. A compiled function is
specialised for each tuple, so that its inner loops are unrolled; wide matrices pass the
empty tuple.

Indices are unsigned, because compiled code checks each signed index for a count from
the end and then uses no vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.vectors import add_rows

FAST = {"reassoc", "contract", "nsz", "arcp"}  # NaN and infinity keep their meaning
WIDEST = 64  # loops over more lanes are not unrolled
COLUMN_COST = 4  # cost of updating a single column, relative to a column of a whole row
SMALL = (
    10**6
)  # number of multiplications above which OpenBLAS first copies both factors
DENSE_FRACTION = (
    0.5  # matrices with a larger fraction of nonzero entries are read as dense
)


class Rows(NamedTuple):
    """The entries of all rows: ``data[p], indices[p]`` for p in ``starts[i]:starts[i +
    1]``.

    Rows without zeros share one list of features: ``shift`` is 1 for them, else 0, and
    entry p of row i is feature ``indices[p - shift * starts[i]]``. `data` is read-only,
    so that kernels are compiled once for arrays in memory and memory maps.
    """

    data: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    shift: np.uint64


def rows_of(X: Matrix) -> Rows:
    """Return the entries of `X`, only the nonzero ones if a dense matrix has many
    zeros."""
    if not sp.issparse(X):
        n, d = X.shape
        if np.count_nonzero(X) > DENSE_FRACTION * X.size:
            features = np.arange(d, dtype=np.uint32)
            starts = np.arange(0, (n + 1) * d, d, dtype=np.uint64)
            return Rows(_read_only(X.ravel()), features, starts, np.uint64(1))
        X = sp.csr_matrix(X)
    indices, starts = X.indices.astype(np.uint32), X.indptr.astype(np.uint64)
    return Rows(_read_only(X.data), indices, starts, np.uint64(0))


def _read_only(data: np.ndarray) -> np.ndarray:
    data = data.view()
    data.flags.writeable = False
    return data


def squared_norms(X: Matrix) -> np.ndarray:
    """Return |x_i|^2 of every row, float64; 0 below the smallest normal number."""
    if isinstance(X, np.ndarray):
        norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        norms = np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.where(norms < np.finfo(np.float64).tiny, 0.0, norms)


def write_product(X: Matrix, W: np.ndarray, Z: np.ndarray) -> None:
    """Write XW to `Z`, in the type of W.

    Dense rows are multiplied in groups: for few columns BLAS is slow on all rows at
    once.
    """
    if sp.issparse(X):
        Z[...] = X.astype(W.dtype, copy=False) @ W
        return
    X = np.asarray(X, W.dtype)
    group = SMALL // max(1, W.size)
    whole = len(X) // group * group if group >= 4 and Z.flags.c_contiguous else 0
    if whole:
        few, out = (M[:whole].reshape(-1, group, M.shape[1]) for M in (X, Z))
        np.matmul(few, W, out=out)
    np.matmul(X[whole:], W, out=Z[whole:])


def lanes(k: int) -> int:
    """Return the number of columns that k columns are padded to."""
    return 4 if k <= 4 else -(-k // 8) * 8


def width(columns: int) -> tuple:
    """Return a tuple of that length, to unroll loops, or an empty one above
    `WIDEST`."""
    return (0,) * columns if columns <= WIDEST else ()


@njit(cache=True, fastmath=FAST, inline="always")
def multiply(rows, i, W, out, width):
    """Write row i times W to (lanes,) `out`."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    start, end = rows.starts[i], rows.starts[i + one]
    shift = rows.shift * start
    out[:] = 0.0
    p = start
    while p + four <= end:
        q = p - shift
        x = (
            np.float64(rows.data[p]),
            np.float64(rows.data[p + one]),
            np.float64(rows.data[p + two]),
            np.float64(rows.data[p + three]),
        )
        w = (
            np.uint64(rows.indices[q]),
            np.uint64(rows.indices[q + one]),
            np.uint64(rows.indices[q + two]),
            np.uint64(rows.indices[q + three]),
        )
        if len(width):
            add_rows(out, np.uint64(0), W, w, x, width)
        else:
            for j in range(np.uint64(len(out))):
                out[j] += (
                    x[0] * W[w[0], j]
                    + x[1] * W[w[1], j]
                    + x[2] * W[w[2], j]
                    + x[3] * W[w[3], j]
                )
        p += four
    while p < end:
        x0, w0 = np.float64(rows.data[p]), np.uint64(rows.indices[p - shift])
        for j in range(np.uint64(len(out))):
            out[j] += x0 * W[w0, j]
        p += one


@njit(cache=True, fastmath=FAST, inline="always")
def subtract(rows, i, delta, W, width):
    """Subtract the outer product of row i and (lanes,) `delta` from W."""
    one = np.uint64(1)
    start, end = rows.starts[i], rows.starts[i + one]
    shift = rows.shift * start
    if len(width):
        for p in range(start, end):
            x, w = np.float64(rows.data[p]), np.uint64(rows.indices[p - shift])
            add_rows(W, w, delta, (np.uint64(0),), (-x,), width)
        return
    columns = np.flatnonzero(delta).astype(np.uint64)
    few = len(columns) * COLUMN_COST < len(delta)
    for p in range(start, end):
        x, w = np.float64(rows.data[p]), np.uint64(rows.indices[p - shift])
        if few:
            for j in columns:
                W[w, j] -= x * delta[j]
        else:
            for j in range(np.uint64(len(delta))):
                W[w, j] -= x * delta[j]
