"""Spaces of cuts: the kernel's space, as sums over rows, or the span of a few
landmarks.

A space stores what it needs of a state's cuts, in their order, and can be rebuilt from
the state. `add` appends a cut, `combine` computes the scores of a combination of cuts,
and `keep` drops cuts.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.certificates import EPS
from workbench.core.checks import check_matrix
from workbench.core.matrices import inverse_root
from workbench.core.problem import Array, Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.gram import Gram, add_rows
from workbench.kernels.mercer import Kernel, Points
from workbench.kernels.rows import FAST
from workbench.sampled_cuts.state import CutState, append, keep, merged
from workbench.sampled_cuts.tasks import Cut

CUTS = 256  # number of cuts for whose scores memory is allocated at a time
# Kernel values are cached only if the number of features times the number of labels is
# at least this; below it they are faster to compute than to read.
MIN_LENGTH = 16
# Kernel values are cached if at least one in four fits into memory.
MAX_OVERFLOW = 4


class Known(NamedTuple):
    """The scores ``values`` (T, m, K) of some sorted rows by every cut, for `add`."""

    rows: Array
    values: Array


class KernelSpace:
    """The space of the kernel, which stores the scores A_k of all parts by cut k.

    So a new cut takes n r kernel values, and its inner products with other cuts take
    none. Scores that do not fit into `megabytes` are computed when they are needed.
    With `gram`, at least half of this memory is for the most recently used rows of the
    kernel matrix, unless too few of them fit or they are faster to compute than to
    read.
    """

    def __init__(
        self,
        s: CutState,
        kernel: Kernel,
        points: Points,
        K: int,
        megabytes: float,
        gram: bool = False,
    ):
        self.s = s
        self.kernel = kernel
        self.points = points
        self.K = K
        n, d = points.X.shape
        self.size = n * K
        self.gram = None
        value_bytes = kernel.dtype.itemsize
        room = max(megabytes / 2, megabytes - value_bytes * CUTS * self.size / 2**20)
        fits = value_bytes * n**2 / 2**20 <= MAX_OVERFLOW * room
        if gram and d * K >= MIN_LENGTH and fits:
            self.gram = Gram(kernel, points, room)
            megabytes -= self.gram.held.nbytes / 2**20
        self.capacity = int(megabytes * 2**20) // (value_bytes * max(self.size, 1))
        self.A = np.empty((min(self.capacity, CUTS), self.size), kernel.dtype)
        self.scored = 0  # number of cuts whose scores are in A
        self.known: Known | None = None
        self._fill()

    def add(self, cut: Cut, offset: float) -> None:
        """Append a cut to the state."""
        rows, B = merged(cut.parts, cut.B)
        scores = None
        if self.scored < self.capacity:
            scores = self._scores(rows, B)
        products = self._with_cuts(rows, B)
        at_rows = self._scores(rows, B, rows) if scores is None else scores[rows]
        e = cut.explicit
        square = np.vdot(at_rows, B) + e @ e
        products = np.append(products + self.s.explicit @ e, square)
        if not np.isfinite(products).all():
            raise ValueError(
                f"kernel: its values must be finite in {self.kernel.dtype}; scale the "
                "rows of X, or lower gamma"
            )
        append(self.s, rows, B, e, offset, products)
        if scores is not None:
            self._put(scores)

    def combine_at(self, parts: Array, coefficients: Array) -> Array:
        """Return the scores of some parts; keep their scores by each cut for `add`."""
        s = self.s
        rows, inverse = np.unique(parts, return_inverse=True)
        values = np.empty((len(s.h), len(rows), self.K), self.kernel.dtype)
        for t in range(len(values)):
            values[t] = self._scores_of(t, rows)
        self.known = Known(rows, values)
        return np.tensordot(coefficients, values, 1)[inverse]

    def _with_cuts(self, rows: Array, B: Array) -> Array:
        """Return the inner products of sum_u phi(x_u) B[u] with every cut, (T,)."""
        if self.known is not None:
            places = np.searchsorted(self.known.rows, rows)
            return np.array(
                [np.vdot(scores[places], B) for scores in self.known.values]
            )
        s = self.s
        u, k = np.nonzero(B)  # two entries per row if there are many classes
        products = np.empty(len(s.h))
        index = (rows[u] * self.K + k).astype(np.uint64)
        gathered_products(self.A[: self.scored], index, B[u, k], products)
        for t in range(self.scored, len(s.h)):
            products[t] = np.vdot(self._scores_of(t, rows), B)
        return products

    def combine(self, coefficients: Array) -> Array:
        """Return the (N, K) scores of all parts by sum_t coefficients[t] v_t."""
        s = self.s
        F = np.zeros((1, self.size), self.kernel.dtype)
        used = np.flatnonzero(coefficients[: self.scored]).astype(np.uint64)
        ends = np.array([0, len(used)], np.uint64)
        add_rows(F, ends, used, coefficients[used].astype(F.dtype), self.A)
        F = F.reshape(-1, self.K)
        if self.scored < len(s.h):
            later = coefficients.copy()
            later[: self.scored] = 0.0
            F += self._scores(*s.expansion(later))
        return F

    def keep(self, cuts: Array) -> None:
        """Keep only the cuts in this mask."""
        scored = np.flatnonzero(cuts[: self.scored])
        for place, old in enumerate(scored):
            self.A[place] = self.A[old]
        self.scored = len(scored)
        keep(self.s, cuts)
        self._fill()

    def precision(self) -> tuple[float, float]:
        """Return a score's relative error, and the length of the longest part."""
        terms = self.size + self.s.explicit.shape[1] + 1
        units = self.kernel.precision(self.points) + EPS * terms
        return units, math.sqrt(self.kernel.diagonal(self.points).max())

    def _fill(self) -> None:
        """Compute the missing scores of cuts, as far as memory allows."""
        for t in range(self.scored, min(len(self.s.h), self.capacity)):
            self._put(self._scores_of(t))

    def _put(self, scores: Array) -> None:
        if self.scored == len(self.A):
            more = min(self.capacity - self.scored, CUTS)
            self.A = np.concatenate([self.A, np.empty((more, self.size), self.A.dtype)])
        self.A[self.scored] = scores.ravel()
        self.scored += 1

    def _scores_of(self, t: int, rows=None) -> Array:
        """Return the scores of these rows, by default of all, by cut t."""
        s = self.s
        basis = slice(s.ends[t], s.ends[t + 1])
        return self._scores(s.rows[basis], s.B[basis], rows)

    def _scores(self, basis: Array, B: Array, rows=None) -> Array:
        if rows is not None:
            return self.kernel.times(self.points[rows], self.points[basis], B)
        if self.gram is None:
            return self.kernel.times(self.points, self.points[basis], B)
        return self._from_gram(self.gram, basis, B)

    def _from_gram(self, gram: Gram, basis: Array, B: Array) -> Array:
        F = np.zeros((self.K, len(self.points.half)), self.kernel.dtype)
        for some in pieces(len(basis), gram.most):  # as many as the cache can contain
            label, u = np.nonzero(B[some].T)
            value = B[some][u, label].astype(F.dtype)
            ends = np.searchsorted(label, np.arange(self.K + 1)).astype(np.uint64)
            index = gram.at(basis[some])[u].astype(np.uint64)
            add_rows(F, ends, index, value, gram.held)
        return np.ascontiguousarray(F.T)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def gathered_products(A, index, value, products):
    """Write sum_p A[t, index[p]] value[p] for every row t of A, in double precision."""
    for t in range(np.uint64(A.shape[0])):
        total = 0.0
        for p in range(np.uint64(len(index))):
            total += A[t, index[p]] * value[p]
        products[t] = total


# The largest accepted relative error of a kernel value, which K^-1 amplifies.
MAX_ERROR = 1e-8


class NystroemSpace:
    """The span of a few landmarks, whose coordinates are the features Z = k(X,
    landmarks) K^-1/2.

    Features are of double precision because of the inverse of K and the bounds. Cuts
    are exact here and need no kernel values. A function of this space also belongs to
    the kernel's space, with the same scores and norm, so its objective is an upper
    bound there.
    """

    def __init__(self, s: CutState, kernel: Kernel, X: Matrix, landmarks: int):
        self.s = s
        if not len(s.landmarks):
            n = X.shape[0]
            s.landmarks = np.sort(s.rng.choice(n, min(landmarks, n), replace=False))
        chosen = kernel.points(X[s.landmarks])
        error = kernel.precision(chosen)
        if error > MAX_ERROR:
            raise ValueError(
                "problem: rows lie so far from zero that values of the kernel may be "
                f"off by {error:.0e}, and at most {MAX_ERROR:g} is accepted; centre "
                "the rows, or lower gamma"
            )
        if not len(s.root):
            s.root = inverse_root(check_matrix(kernel.matrix(chosen, chosen), "kernel"))
        self.Z = kernel.times(kernel.points(X), chosen, s.root)

    def add(self, cut: Cut, offset: float) -> None:
        """Append a cut to the state, projected onto the space."""
        s = self.s
        e = cut.explicit
        u, k = np.nonzero(cut.B)  # one or two entries in a row
        shape = len(self.Z), cut.B.shape[1]
        B = sp.csr_matrix((cut.B[u, k], (cut.parts[u], k)), shape)
        g = np.asarray(B.T @ self.Z).T
        products = s.B.reshape(len(s.h), g.size) @ g.ravel() + s.explicit @ e
        products = np.append(products, np.vdot(g, g) + e @ e)
        append(s, s.landmarks, g, e, offset, products)

    def combine(self, coefficients: Array) -> Array:
        """Return the (N, K) scores of all parts by sum_t coefficients[t] v_t."""
        s = self.s
        g = s.B.reshape(len(coefficients), len(s.landmarks), s.B.shape[1])
        return self.Z @ np.tensordot(coefficients, g, 1)

    def keep(self, cuts: Array) -> None:
        """Keep only the cuts in this mask."""
        keep(self.s, cuts)

    def precision(self) -> tuple[float, float]:
        """Return a score's relative error, and the length of the longest part."""
        terms = len(self.Z) + len(self.s.root) + self.s.explicit.shape[1] + 1
        return EPS * terms, math.sqrt(np.einsum("ij,ij->i", self.Z, self.Z).max())
