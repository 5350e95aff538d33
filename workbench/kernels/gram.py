"""The rows of a kernel matrix, and a cache of them.

A row comes out the same, bit for bit, whichever rows are computed together with it: the cache of a
run that is resumed starts empty. (Matrix products of BLAS promise no such thing, and on some
processors a row depends on its place among the others.)
"""

from __future__ import annotations

from numbers import Real

import numpy as np
import scipy.sparse as sp

from workbench.kernels.compiled import njit
from workbench.kernels.functions import Kernel, Points, transposed
from workbench.kernels.rows import FAST

TOGETHER = 16  # rows of K that are computed together, at most
TILE = 512  # columns at a time, so that the rows that are summed stay in the cache


class Gram:
    """The kernel matrix of training rows: as many of its rows as fit into `megabytes`.

    The rows that were used last stay.

    Raises
    ------
    ValueError
        If not one row fits.
    """

    def __init__(self, kernel: Kernel, points: Points, megabytes: float):
        n = len(points.half)
        row = kernel.dtype.itemsize * n
        if not (isinstance(megabytes, Real) and row <= megabytes * 2**20 < np.inf):
            raise ValueError(
                f"cache_mb: must be a number from {row / 2**20:.2g}, the megabytes of one row of "
                f"the kernel matrix, got {megabytes!r}"
            )
        self.kernel, self.points = kernel, points
        self.across = None  # X' of dense rows, made when rows are first asked for
        self.most = min(n, int(megabytes * 2**20) // row)
        self.held = np.empty((self.most, n), kernel.dtype)
        self.place = np.full(n, -1)  # of each row of K in `held`
        self.owner = np.full(self.most, -1)
        self.used = np.zeros(self.most, dtype=np.int64)
        self.now = 0

    def at(self, wanted: np.ndarray) -> np.ndarray:
        """Return the places in `held` of these rows, at most `most` of them and all different."""
        self.now += 1
        here = self.place[wanted]
        self.used[here[here >= 0]] = self.now
        missing = wanted[here < 0]
        if len(missing):
            free = np.sort(np.argsort(self.used, kind="stable")[: len(missing)])
            self.place[self.owner[free][self.owner[free] >= 0]] = -1
            self.place[missing], self.owner[free], self.used[free] = free, missing, self.now
            for first in range(0, len(missing), TOGETHER):
                some = slice(first, first + TOGETHER)
                self.held[free[some]] = self.rows(missing[some])
        return self.place[wanted]

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """Return these rows of the kernel matrix, (len(wanted), n), not through the cache."""
        X, half = self.points.X, self.points.half
        self.kernel.values += len(wanted) * X.shape[0]
        if callable(self.kernel.kind):
            return self.kernel.called(X[wanted], X)
        if sp.issparse(X):
            products = np.ascontiguousarray((X @ X[wanted].toarray().T).T)
        else:
            if self.across is None:
                self.across = transposed(X)
            (r, d), products = (len(wanted), X.shape[1]), np.zeros((len(wanted), len(X)), X.dtype)
            ends = np.arange(r + 1, dtype=np.uint64) * np.uint64(d)
            features = np.tile(np.arange(d, dtype=np.uint64), r)
            add_rows(products, ends, features, X[wanted].ravel(), self.across)
        return self.kernel.of_products(products, half[wanted], half)


@njit(cache=True, fastmath=FAST)
def add_rows(out, ends, index, value, M):
    """Add ``sum_p value[p] M[index[p]]`` to each row r of out, p in ``ends[r]:ends[r + 1]``."""
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
