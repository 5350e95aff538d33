"""Compiled loops over a dense or CSR matrix: a row's product, and rank-one updates.

The matrices W (d, lanes) have one row per feature. Columns of zeros pad them to whole
vector registers. `width` is a tuple with one entry per lane: functions
are compiled for each such tuple, so that their inner loops are unrolled. For wide
matrices the tuple is empty, and one compiled function serves all of them.

Indices are unsigned. For a signed index, compiled code checks whether it counts from
the end, and then it uses no vector instructions.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Array, Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.vectors import add_rows

FAST = {"reassoc", "contract", "nsz", "arcp"}  # NaN and infinity keep their meaning
WIDEST = 64  # loops over more lanes are not unrolled
COLUMN_COST = 4  # cost of updating a single column, relative to a column of a whole row
SMALL = 10**6  # multiplications above which OpenBLAS first copies both factors
# A matrix with a larger fraction of nonzero entries is read as dense.
DENSE_FRACTION = 0.5
ONE = np.uint64(1)
TWO = np.uint64(2)
THREE = np.uint64(3)
FOUR = np.uint64(4)


class Rows(NamedTuple):
    """The entries of all rows of a matrix, for compiled code.

    Row i has the values ``data[p]`` for p in ``starts[i]:starts[i + 1]``. The value at
    p belongs to the feature ``indices[p - shift * starts[i]]``: ``shift`` is 1 for
    dense rows, which share one list of features, and 0 for CSR matrices. `data` is
    read-only, so that kernels are compiled once for arrays in memory and for memory
    maps.
    """

    data: Array
    indices: Array
    starts: Array
    shift: np.uint64


def rows_of(X: Matrix) -> Rows:
    """Return the entries of `X`.

    If at least half of a dense `X` is zero, the zeros are left out.
    """
    if not sp.issparse(X):
        n, d = X.shape
        if np.count_nonzero(X) > DENSE_FRACTION * X.size:
            features = np.arange(d, dtype=np.uint32)
            starts = np.arange(0, (n + 1) * d, d, dtype=np.uint64)
            return Rows(_read_only(X.ravel()), features, starts, np.uint64(1))
        X = sp.csr_matrix(X)
    indices = X.indices.astype(np.uint32)
    starts = X.indptr.astype(np.uint64)
    return Rows(_read_only(X.data), indices, starts, np.uint64(0))


def _read_only(data: Array) -> Array:
    data = data.view()
    data.flags.writeable = False
    return data


def squared_norms(X: Matrix) -> Array:
    """Return |x_i|^2 for every row, in float64; denormal numbers become 0."""
    if isinstance(X, np.ndarray):
        norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        norms = np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.where(norms < np.finfo(np.float64).tiny, 0.0, norms)


def write_product(X: Matrix, W: Array, Z: Array) -> None:
    """Write XW to `Z`, computed in the type of W.

    Dense rows are multiplied in small groups if W is small, because BLAS is slow on all
    rows together.
    """
    if sp.issparse(X):
        Z[...] = X.astype(W.dtype, copy=False) @ W
        return
    X = np.asarray(X, W.dtype)
    group = SMALL // max(1, W.size)
    grouped = 0
    if group >= 4 and Z.flags.c_contiguous:
        grouped = len(X) // group * group
    if grouped:
        groups = X[:grouped].reshape(-1, group, X.shape[1])
        np.matmul(groups, W, out=Z[:grouped].reshape(-1, group, Z.shape[1]))
    np.matmul(X[grouped:], W, out=Z[grouped:])


def lanes(k: int) -> int:
    """Return the number of lanes: k columns, padded with columns of zeros."""
    return 4 if k <= 4 else -(-k // 8) * 8


def width(columns: int) -> tuple:
    """Return a tuple of this length, or an empty one for more than `WIDEST` columns."""
    return (0,) * columns if columns <= WIDEST else ()


@njit(fastmath=FAST, inline="always")
def multiply(rows, i, W, out, width):
    """Write row i times W to (lanes,) `out`, four entries of the row at a time."""
    data = rows.data
    indices = rows.indices
    p = rows.starts[i]
    end = rows.starts[i + ONE]
    shift = rows.shift * p
    out[:] = 0.0
    while p + FOUR <= end:
        q = p - shift
        x = (
            np.float64(data[p]),
            np.float64(data[p + ONE]),
            np.float64(data[p + TWO]),
            np.float64(data[p + THREE]),
        )
        w = (
            np.uint64(indices[q]),
            np.uint64(indices[q + ONE]),
            np.uint64(indices[q + TWO]),
            np.uint64(indices[q + THREE]),
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
        p += FOUR
    while p < end:
        value = np.float64(data[p])
        feature = np.uint64(indices[p - shift])
        for j in range(np.uint64(len(out))):
            out[j] += value * W[feature, j]
        p += ONE


@njit(fastmath=FAST, inline="always")
def subtract(rows, i, delta, W, width):
    """Subtract the outer product of row i and (lanes,) `delta` from W."""
    start = rows.starts[i]
    end = rows.starts[i + ONE]
    shift = rows.shift * start
    if len(width):
        for p in range(start, end):
            value = np.float64(rows.data[p])
            feature = np.uint64(rows.indices[p - shift])
            add_rows(W, feature, delta, (np.uint64(0),), (-value,), width)
        return
    columns = np.flatnonzero(delta).astype(np.uint64)
    few = len(columns) * COLUMN_COST < len(delta)
    for p in range(start, end):
        value = np.float64(rows.data[p])
        feature = np.uint64(rows.indices[p - shift])
        if few:
            for j in columns:
                W[feature, j] -= value * delta[j]
        else:
            for j in range(np.uint64(len(delta))):
                W[feature, j] -= value * delta[j]
