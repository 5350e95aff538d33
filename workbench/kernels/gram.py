"""Rows of a Mercer kernel's matrix, and a cache of them.

The bits of a row do not depend on the other rows that are computed with it. So a
resumed run, whose cache is empty, continues as before. BLAS does not promise this.
"""

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.kinds import Array
from workbench.core.matrices import transposed
from workbench.kernels.compiled import njit
from workbench.kernels.mercer import Kernel, Points
from workbench.kernels.rows import FAST, FOUR, ONE, THREE, TWO

TOGETHER = 64  # rows of K that are computed together
TILE = np.uint64(512)  # columns processed together, which stay in the CPU's cache


class Gram:
    """A cache for rows of a kernel matrix: at least one, otherwise up to `megabytes`.

    If it is full, new rows replace those that were used least recently. One megabyte
    has 2^20 bytes.
    """

    def __init__(self, kernel: Kernel, points: Points, megabytes: float):
        n = len(points.half)
        row_bytes = kernel.dtype.itemsize * n
        self.kernel = kernel
        self.points = points
        # The transpose of dense rows, made when it is first used.
        self.across: Array | None = None
        self.most = max(1, min(n, int(megabytes * 2**20) // row_bytes))
        self.held = np.empty((self.most, n), kernel.dtype)
        self.place = np.full(n, -1)  # where each row of K is in `held`, or -1
        self.owner = np.full(self.most, -1)  # the row of K at each place, or -1
        self.used = np.zeros(self.most, dtype=np.int64)  # the last call that used it
        self.now = 0  # the number of calls

    def at(self, wanted: Array) -> Array:
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

    def rows(self, wanted: Array) -> Array:
        """Compute rows of the kernel matrix, (len(wanted), n), without the cache."""
        X = self.points.X
        half = self.points.half
        self.kernel.values += len(wanted) * X.shape[0]
        if sp.issparse(X):
            products = np.ascontiguousarray((X @ X[wanted].toarray().T).T)
        else:
            if self.across is None:
                self.across = transposed(X)
            padded = -(-len(wanted) // 4) * 4
            some = np.zeros((padded, X.shape[1]), X.dtype)
            some[: len(wanted)] = X[wanted]
            products = np.empty((len(some), len(X)), X.dtype)
            multiply_rows(some, self.across, products)
            products = products[: len(wanted)]
        return self.kernel.of_products(products, half[wanted], half)


@njit(fastmath=FAST)
def add_rows(out, ends, index, value, M):
    """Add the sum of ``value[p] * M[index[p]]`` to each row r of `out`.

    The sum is over p in ``ends[r]:ends[r + 1]``. Four rows of M are added at a time, so
    that `out` is read and written less often: one at a time takes 1.3 to 1.8 times as
    long.
    """
    columns = np.uint64(M.shape[1])
    for first in range(np.uint64(0), columns, TILE):
        last = min(first + TILE, columns)
        for r in range(np.uint64(out.shape[0])):
            p = ends[r]
            end = ends[r + ONE]
            while p + FOUR <= end:
                a, i = value[p], index[p]
                b, j = value[p + ONE], index[p + ONE]
                c, k = value[p + TWO], index[p + TWO]
                d, m = value[p + THREE], index[p + THREE]
                for t in range(first, last):
                    out[r, t] += a * M[i, t] + b * M[j, t] + c * M[k, t] + d * M[m, t]
                p += FOUR
            while p < end:
                a, i = value[p], index[p]
                for t in range(first, last):
                    out[r, t] += a * M[i, t]
                p += ONE


# Sums are not reassociated, so that their bits do not depend on the other rows.
@njit(fastmath={"contract", "nsz"}, error_model="numpy")
def multiply_rows(X, M, out):
    """Write X M of (m, d) and (d, n) arrays to `out`, for m a multiple of four.

    The bits of a row of the product do not depend on its place or on the other rows.
    Four rows of X are multiplied by four rows of M at a time. Multiplying one row of X
    by four rows of M takes 1.5 to 1.9 times as long and gives the same bits;
    multiplying row by row takes 1.1 to 2.8 times as long.
    """
    d = np.uint64(M.shape[0])
    columns = np.uint64(M.shape[1])
    # One array, because loops over several arrays are not vectorised.
    sums = np.empty(FOUR * TILE, out.dtype)
    for first in range(np.uint64(0), columns, TILE):
        last = min(first + TILE, columns)
        width = last - first
        for r in range(np.uint64(0), np.uint64(X.shape[0]), FOUR):
            x = X[r]
            y = X[r + ONE]
            z = X[r + TWO]
            w = X[r + THREE]
            sums[:] = 0.0
            f = np.uint64(0)
            while f + FOUR <= d:
                g = f + ONE
                h = f + TWO
                i = f + THREE
                A = M[f, first:last]
                B = M[g, first:last]
                C = M[h, first:last]
                D = M[i, first:last]
                x_f, x_g, x_h, x_i = x[f], x[g], x[h], x[i]
                y_f, y_g, y_h, y_i = y[f], y[g], y[h], y[i]
                z_f, z_g, z_h, z_i = z[f], z[g], z[h], z[i]
                w_f, w_g, w_h, w_i = w[f], w[g], w[h], w[i]
                for t in range(width):
                    a, b, c, e = A[t], B[t], C[t], D[t]
                    sums[t] += x_f * a + x_g * b + x_h * c + x_i * e
                    sums[TILE + t] += y_f * a + y_g * b + y_h * c + y_i * e
                    sums[TWO * TILE + t] += z_f * a + z_g * b + z_h * c + z_i * e
                    sums[THREE * TILE + t] += w_f * a + w_g * b + w_h * c + w_i * e
                f += FOUR
            while f < d:
                A = M[f, first:last]
                x_f, y_f, z_f, w_f = x[f], y[f], z[f], w[f]
                for t in range(width):
                    a = A[t]
                    sums[t] += x_f * a
                    sums[TILE + t] += y_f * a
                    sums[TWO * TILE + t] += z_f * a
                    sums[THREE * TILE + t] += w_f * a
                f += ONE
            for t in range(width):
                out[r, first + t] = sums[t]
                out[r + ONE, first + t] = sums[TILE + t]
                out[r + TWO, first + t] = sums[TWO * TILE + t]
                out[r + THREE, first + t] = sums[THREE * TILE + t]
