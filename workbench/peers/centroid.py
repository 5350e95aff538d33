"""Centroids of the classes: the cheapest linear classifier, a baseline for every table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_positive, check_sparse, rebuilt
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row, off_the_clock


@dataclass
class CentroidState:
    """Weights (k, d) as the three arrays of a CSR matrix, and the mean distance of the rows."""

    round: int
    d: int
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    primal: float

    @property
    def W(self) -> sp.csr_matrix:
        """The weights (k, d), which share the state's arrays."""
        parts = self.data, self.indices, self.indptr
        return rebuilt(sp.csr_matrix(parts, shape=(len(self.indptr) - 1, self.d)))

    def scores(self, X) -> np.ndarray:
        return dense_scores(check_sparse(X), self.W)

    def info(self) -> Row:
        return {"primal": self.primal, "nonzeros": len(self.data)}


def centroid(
    problem: Problem, *, power: float = 1.0, state: CentroidState | None = None
) -> Iterator[CentroidState]:
    """Take the mean m of each class's rows, of norm one, over |m|^power, in one round.

    With a power of 1 the highest score x.w_c is the largest cosine of a row and a centroid; with
    less, classes whose rows agree with each other weigh more. Weights of rows in single precision
    take 8 bytes per non-zero. The column ``primal`` is the mean over the training rows of
    1 - cos(x_i, m_{y_i}), which the means minimise.

    Parameters
    ----------
    power : positive

    Raises
    ------
    ValueError
        If `power` is not a positive number.

    References
    ----------
    Han, Karypis: Centroid-based document classification. PKDD 2000.
    """
    check_positive(power, "power")
    s = state
    if s is None:
        none = np.zeros(0, problem.X.dtype), np.zeros(0, np.int32)
        s = CentroidState(0, problem.d, *none, np.zeros(problem.k + 1, np.int32), 1.0)
    yield s
    if s.round:
        return
    sums, counts = class_sums(problem.X, problem.y, problem.k)
    W = centroids(sums, counts, power)
    s.data, s.indices, s.indptr = W.data, W.indices, W.indptr
    with off_the_clock():
        s.primal = 1.0 - float(norms(sums).sum()) / problem.n  # |sum_i u_i| = sum_i u_i.m / |m|
        s.round = 1
    yield s


def class_sums(X: Matrix, y: np.ndarray, k: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the sums (k, d) of the rows of each class, made of norm one, and their counts."""
    from sklearn.preprocessing import normalize

    n = X.shape[0]
    members = sp.csr_matrix((np.ones(n, X.dtype), (y, np.arange(n))), shape=(k, n))
    sums = sp.csr_matrix(members @ normalize(X))
    sums.eliminate_zeros()
    sums.sort_indices()
    return sums, np.bincount(y, minlength=k)


def centroids(sums: sp.csr_matrix, counts: np.ndarray, power: float) -> sp.csr_matrix:
    """Return the means over their norms' `power`; classes without rows or direction are zero."""
    lengths = norms(sums)
    there = lengths > 0
    # m / |m|^p for the mean m = s / n is s |s|^-p n^(p - 1).
    factors = np.zeros(len(counts))
    W = sums.copy()
    with np.errstate(all="ignore"):
        factors[there] = lengths[there] ** -power * counts[there] ** (power - 1.0)
        W.data *= np.repeat(factors, np.diff(W.indptr)).astype(W.dtype)
    if not (np.isfinite(W.data).all() and factors[there].all()):
        raise ValueError(f"power: makes weights that are zero or not finite, got {power:g}; take 1")
    return W


def norms(W: sp.csr_matrix) -> np.ndarray:
    """Return the Euclidean norms of the rows, in double precision."""
    squares = np.zeros(W.shape[0])
    full = np.flatnonzero(np.diff(W.indptr))
    if len(full):
        squares[full] = np.add.reduceat(W.data.astype(np.float64) ** 2, W.indptr[full])
    return np.sqrt(squares)


def dense_scores(X: Matrix, W: sp.csr_matrix) -> np.ndarray:
    """Return X W' as an (n, k) array, for sparse and for dense rows."""
    V = X @ W.T
    return V.toarray() if sp.issparse(V) else np.asarray(V)
