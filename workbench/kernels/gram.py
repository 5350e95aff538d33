"""Rows of a Mercer kernel's matrix, and a cache of them.

The bits of a row do not depend on the other rows that are computed with it. So a
resumed run, whose cache is empty, continues as before. BLAS does not promise this.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.matrices import transposed
from workbench.kernels.compiled import njit
from workbench.kernels.mercer import Kernel, Points
from workbench.kernels.rows import FAST

TOGETHER = 64  # rows of K that are computed together
FOUR = 4  # rows and features that one pass over a tile multiplies
TILE = 512  # columns processed together, which stay in the CPU's cache


class Gram:
    """A cache of the rows of a kernel matrix that were used last.

    It has at least one row, and at most `megabytes` of rows.
    """

    def __init__(self, kernel: Kernel, points: Points, megabytes: float):
        n = len(points.half)
        row_bytes = kernel.dtype.itemsize * n
        self.kernel = kernel
        self.points = points
        # The transpose of dense rows, made when it is first used.
        self.across: np.ndarray | None = None
        self.most = max(1, min(n, int(megabytes * 2**20) // row_bytes))
        self.held = np.empty((self.most, n), kernel.dtype)
        self.place = np.full(n, -1)  # where each row of K is in `held`, or -1
        self.owner = np.full(self.most, -1)  # which row of K is there, or -1
        self.used = np.zeros(self.most, dtype=np.int64)  # the last call that used it
        self.now = 0  # the number of calls

    def at(self, wanted: np.ndarray) -> np.ndarray:
        """Return the places in `held` of at most `most` different rows."""
        self.now += 1
        places = self.place[wanted]
        self.used[places[places >= 0]] = self.now
        missing = wanted[places < 0]
        if len(missing):
            free = np.sort(np.argsort(self.used, kind="stable")[: len(missing)])
            dropped = self.owner[free]
            self.place[dropped[dropped >= 0]] = -1
            self.place[missing] = free
            self.owner[free] = missing
            self.used[free] = self.now
            for some in pieces(len(missing), TOGETHER):
                self.held[free[some]] = self.rows(missing[some])
        return self.place[wanted]

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """Compute rows of the kernel matrix, (len(wanted), n), without the cache."""
        X = self.points.X
        half = self.points.half
        self.kernel.values += len(wanted) * X.shape[0]
        if sp.issparse(X):
            products = np.ascontiguousarray((X @ X[wanted].toarray().T).T)
        else:
            if self.across is None:
                self.across = transposed(X)
            some = np.zeros((-(-len(wanted) // FOUR) * FOUR, X.shape[1]), X.dtype)
            some[: len(wanted)] = X[wanted]
            products = np.empty((len(some), len(X)), X.dtype)
            multiply_rows(some, self.across, products)
            products = products[: len(wanted)]
        return self.kernel.of_products(products, half[wanted], half)


@njit(cache=True, fastmath=FAST)
def add_rows(out, ends, index, value, M):
    """Add ``sum_p value[p] M[index[p]]``, p in ``ends[r]:ends[r + 1]``, to each row r
    of out."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    columns = np.uint64(M.shape[1])
    for first in range(np.uint64(0), columns, np.uint64(TILE)):
        last = min(first + np.uint64(TILE), columns)
        for r in range(np.uint64(out.shape[0])):
            p, end = ends[r], ends[r + one]
            while p + four <= end:
                a, b, c, d = value[p], value[p + one], value[p + two], value[p + three]
                f, g, h, i = index[p], index[p + one], index[p + two], index[p + three]
                for t in range(first, last):
                    out[r, t] += a * M[f, t] + b * M[g, t] + c * M[h, t] + d * M[i, t]
                p += four
            while p < end:
                a, f = value[p], index[p]
                for t in range(first, last):
                    out[r, t] += a * M[f, t]
                p += one


@njit(
    cache=True, fastmath={"contract", "nsz"}, error_model="numpy"
)  # no reassociation of sums
def multiply_rows(X, M, out):
    """Write X M of (m, d) and (d, n) arrays to `out`, for m a multiple of four.

    The bits of a row of the product do not depend on its place or on the other rows.
    """
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    d, columns, tile = np.uint64(M.shape[0]), np.uint64(M.shape[1]), np.uint64(TILE)
    sums = np.empty(
        FOUR * TILE, out.dtype
    )  # one array: loops over several are not vectorised
    for first in range(np.uint64(0), columns, tile):
        last = min(first + tile, columns)
        width = last - first
        for r in range(np.uint64(0), np.uint64(X.shape[0]), four):
            x, y, z, w = X[r], X[r + one], X[r + two], X[r + three]
            sums[:] = 0.0
            f = np.uint64(0)
            while f + four <= d:
                g, h, i = f + one, f + two, f + three
                A, B, C, D = (
                    M[f, first:last],
                    M[g, first:last],
                    M[h, first:last],
                    M[i, first:last],
                )
                x_f, x_g, x_h, x_i = x[f], x[g], x[h], x[i]
                y_f, y_g, y_h, y_i = y[f], y[g], y[h], y[i]
                z_f, z_g, z_h, z_i = z[f], z[g], z[h], z[i]
                w_f, w_g, w_h, w_i = w[f], w[g], w[h], w[i]
                for t in range(width):
                    a, b, c, e = A[t], B[t], C[t], D[t]
                    sums[t] += x_f * a + x_g * b + x_h * c + x_i * e
                    sums[tile + t] += y_f * a + y_g * b + y_h * c + y_i * e
                    sums[two * tile + t] += z_f * a + z_g * b + z_h * c + z_i * e
                    sums[three * tile + t] += w_f * a + w_g * b + w_h * c + w_i * e
                f += four
            while f < d:
                A, x_f, y_f, z_f, w_f = M[f, first:last], x[f], y[f], z[f], w[f]
                for t in range(width):
                    a = A[t]
                    sums[t] += x_f * a
                    sums[tile + t] += y_f * a
                    sums[two * tile + t] += z_f * a
                    sums[three * tile + t] += w_f * a
                f += one
            for t in range(width):
                out[r, first + t] = sums[t]
                out[r + one, first + t] = sums[tile + t]
                out[r + two, first + t] = sums[two * tile + t]
                out[r + three, first + t] = sums[three * tile + t]
