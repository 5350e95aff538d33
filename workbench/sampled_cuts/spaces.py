"""Spaces of cuts: the kernel's space, as sums over rows, or the span of a few
landmarks.

A space keeps what it needs of the cuts of a state, in their order, and can be made
again from the state: `add` takes a cut in, `combine` gives the scores of a combination
of cuts, `keep` follows the state when cuts have been dropped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.certificates import EPS
from workbench.core.matrices import inverse_root
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.gram import Gram, add_rows
from workbench.kernels.mercer import Kernel, Points
from workbench.kernels.rows import FAST
from workbench.sampled_cuts.state import CutState, append, keep, merged
from workbench.sampled_cuts.tasks import Cut

CUTS = 256  # cuts for whose scores memory is allocated at a time
MIN_LENGTH = (
    16  # features times labels below which values of the kernel are too cheap to keep
)
MAX_OVERFLOW = (
    4  # values of the kernel are kept if at least one in four fits into memory
)


class Known(NamedTuple):
    """The scores ``values`` (T, m, K) of some sorted rows by every cut, which `add`
    reuses."""

    rows: np.ndarray
    values: np.ndarray


class KernelSpace:
    """The space of the kernel, where A_k, the scores of all parts by cut k, are kept
    (A_ki).

    Then a new cut takes n r values of the kernel, and its inner products with others
    take none. Scores of cuts that do not fit into `megabytes` are computed when they
    are needed. With `gram`, at least half of that room is for the rows of the kernel
    matrix that were used last.
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
        self.s, self.kernel, self.points, self.K = s, kernel, points, K
        n, d = points.X.shape
        self.size = n * K
        self.gram = None
        of_values, of_scores = (
            kernel.dtype.itemsize * m / 2**20 for m in (n**2, CUTS * n * K)
        )
        room = max(megabytes / 2, megabytes - of_scores)
        if gram and d * K >= MIN_LENGTH and of_values <= MAX_OVERFLOW * room:
            self.gram = Gram(kernel, points, room)
            megabytes -= self.gram.held.nbytes / 2**20
        self.most = int(megabytes * 2**20) // (
            kernel.dtype.itemsize * max(self.size, 1)
        )
        self.A = np.empty((min(self.most, CUTS), self.size), kernel.dtype)
        self.held = 0
        self.known: Known | None = None
        self._fill()

    def add(self, cut: Cut, offset: float) -> None:
        """Append a cut to the state."""
        rows, B = merged(cut.parts, cut.B)
        own = self._scores(rows, B) if self.held < self.most else None
        products = self._with_cuts(rows, B)
        itself = own[rows] if own is not None else self._scores(rows, B, rows)
        e = cut.explicit
        products = np.append(products + self.s.explicit @ e, np.vdot(itself, B) + e @ e)
        if not np.isfinite(products).all():
            raise ValueError(
                f"kernel: its values must be finite in {self.kernel.dtype}; scale the "
                "rows of X"
            )
        append(self.s, rows, B, e, offset, products)
        if own is not None:
            self._put(own)

    def combine_at(self, parts: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of some parts, by each cut at a time: `add` needs those
        next."""
        rows, inverse = np.unique(parts, return_inverse=True)
        s, values = (
            self.s,
            np.empty((len(self.s.h), len(rows), self.K), self.kernel.dtype),
        )
        left, basis = self.points[rows], self.points[s.rows]
        for t in range(len(values)):
            lines = slice(s.ends[t], s.ends[t + 1])
            values[t] = self.kernel.times(left, basis[lines], s.B[lines])
        self.known = Known(rows, values)
        return np.tensordot(coefficients, values, 1)[inverse]

    def _with_cuts(self, rows: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return the inner products of sum_u phi(x_u) B[u] with every cut, (T,)."""
        if self.known is not None:
            places = np.searchsorted(self.known.rows, rows)
            return np.array(
                [np.vdot(scores[places], B) for scores in self.known.values]
            )
        s, (u, k) = self.s, np.nonzero(B)  # of many classes, a row's loss is about two
        products = np.empty(len(s.h))
        index = (rows[u] * self.K + k).astype(np.uint64)
        gathered_products(self.A[: self.held], index, B[u, k], products)
        for t in range(self.held, len(s.h)):
            lines = slice(s.ends[t], s.ends[t + 1])
            products[t] = np.vdot(self._scores(s.rows[lines], s.B[lines], rows), B)
        return products

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of all parts by the sum of coefficients times cuts, (N,
        K)."""
        s = self.s
        F = np.zeros((1, self.size), self.kernel.dtype)
        used = np.flatnonzero(coefficients[: self.held]).astype(np.uint64)
        ends = np.array([0, len(used)], np.uint64)
        add_rows(F, ends, used, coefficients[used].astype(F.dtype), self.A)
        F = F.reshape(-1, self.K)
        if self.held < len(s.h):
            first = s.ends[self.held]
            taken = np.repeat(coefficients[self.held :], np.diff(s.ends[self.held :]))
            used = taken != 0.0
            rows, B = merged(
                s.rows[first:][used], taken[used, None] * s.B[first:][used]
            )
            F += self._scores(rows, B)
        return F

    def keep(self, kept: np.ndarray) -> None:
        """Keep only the cuts in this mask."""
        for place, old in enumerate(np.flatnonzero(kept[: self.held])):
            self.A[place] = self.A[old]
        self.held = int(kept[: self.held].sum())
        keep(self.s, kept)
        self._fill()

    def precision(self) -> tuple[float, float]:
        """Return the relative error of a score, and the length of the longest part's
        vector."""
        units = self.kernel.precision(self.points) + EPS * (
            self.size + self.s.explicit.shape[1] + 1
        )
        return units, math.sqrt(self.kernel.diagonal(self.points).max())

    def _fill(self) -> None:
        """Compute the scores of those cuts that have room and lack them."""
        s = self.s
        for t in range(self.held, min(len(s.h), self.most)):
            lines = slice(s.ends[t], s.ends[t + 1])
            self._put(self._scores(s.rows[lines], s.B[lines]))

    def _put(self, scores: np.ndarray) -> None:
        if self.held == len(self.A):
            more = min(self.most, self.held + CUTS) - self.held
            self.A = np.concatenate([self.A, np.empty((more, self.size), self.A.dtype)])
        self.A[self.held] = scores.ravel()
        self.held += 1

    def _scores(self, basis: np.ndarray, B: np.ndarray, rows=None) -> np.ndarray:
        if self.gram is not None and rows is None:
            return self._from_gram(basis, B)
        left = self.points if rows is None else self.points[rows]
        return self.kernel.times(left, self.points[basis], B)

    def _from_gram(self, basis: np.ndarray, B: np.ndarray) -> np.ndarray:
        gram, F = (
            self.gram,
            np.zeros((self.K, len(self.points.half)), self.kernel.dtype),
        )
        for some in pieces(len(basis), gram.most):  # what the cache holds at a time
            label, u = np.nonzero(B[some].T)
            value = B[some][u, label].astype(F.dtype)
            ends = np.searchsorted(label, np.arange(self.K + 1)).astype(np.uint64)
            add_rows(
                F, ends, gram.at(basis[some])[u].astype(np.uint64), value, gram.held
            )
        return np.ascontiguousarray(F.T)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def gathered_products(A, index, value, products):
    """Write sum_p A[t, index[p]] value[p] for every row t of A, in double precision."""
    for t in range(np.uint64(A.shape[0])):
        total = 0.0
        for p in range(np.uint64(len(index))):
            total += A[t, index[p]] * value[p]
        products[t] = total


MAX_ERROR = 1e-8  # relative error of a kernel's value, which the inverse of K amplifies


class NystroemSpace:
    """The span of a few landmarks, whose coordinates are the features Z = k(X,
    landmarks) K^-1/2.

    Features are of double precision, as the inverse of K and bounds need it. Cuts are
    exact here and cost no values of the kernel. A function of this space is one of the
    kernel's space, with the same scores and norm, so that its objective is an upper
    bound there.
    """

    def __init__(self, s: CutState, kernel: Kernel, X: Matrix, landmarks: int):
        self.s, N = s, X.shape[0]
        if not len(s.landmarks):
            s.landmarks = np.sort(s.rng.choice(N, min(landmarks, N), replace=False))
        chosen = kernel.points(X[s.landmarks])
        if (off := kernel.precision(chosen)) > MAX_ERROR:
            raise ValueError(
                "problem: rows lie so far from zero that values of the kernel may be "
                f"off by {off:.0e}, at most {MAX_ERROR:g} is accepted; centre them, "
                "as dense rows are, or lower gamma"
            )
        if not len(s.root):
            s.root = inverse_root(kernel.matrix(chosen, chosen))
        self.Z = kernel.times(kernel.points(X), chosen, s.root)

    def add(self, cut: Cut, offset: float) -> None:
        """Append a cut to the state, projected onto the space."""
        s, (u, k) = self.s, np.nonzero(cut.B)  # one or two in a row
        B = sp.csr_matrix(
            (cut.B[u, k], (cut.parts[u], k)), (len(self.Z), cut.B.shape[1])
        )
        g = np.asarray(B.T @ self.Z).T
        others = s.B.reshape(len(s.h), g.size)
        products = others @ g.ravel() + s.explicit @ cut.explicit
        products = np.append(products, np.vdot(g, g) + cut.explicit @ cut.explicit)
        append(s, s.landmarks, g, cut.explicit, offset, products)

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of all parts by the sum of coefficients times cuts, (N,
        K)."""
        s = self.s
        g = s.B.reshape(len(coefficients), len(s.landmarks), s.B.shape[1])
        return self.Z @ np.tensordot(coefficients, g, 1)

    def keep(self, kept: np.ndarray) -> None:
        """Keep only the cuts in this mask."""
        keep(self.s, kept)

    def precision(self) -> tuple[float, float]:
        """Return the relative error of a score, and the length of the longest part's
        vector."""
        terms = len(self.Z) + len(self.s.root) + self.s.explicit.shape[1] + 1
        return EPS * terms, math.sqrt(np.einsum("ij,ij->i", self.Z, self.Z).max())
