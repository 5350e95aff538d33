"""The centroids of the classes as a baseline: the fastest linear classifier."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import norm

from workbench.core.checks import check_positive, check_sparse
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, off_the_clock


@dataclass
class CentroidState(State):
    """The weights ``W`` (k, d) in CSR format, and the mean cosine distance of rows."""

    round: int
    W: sp.csr_matrix
    primal: float

    def scores(self, X: Matrix) -> Array:
        V = check_sparse(X) @ self.W.T
        return V.toarray() if sp.issparse(V) else np.asarray(V)

    def info(self) -> Row:
        return {"primal": self.primal, "nonzeros": self.W.nnz}


@resumable()
def centroid(
    problem: Problem, *, power: float = 1.0, state: CentroidState | None = None
) -> Iterator[CentroidState]:
    """Divide the mean m of each class's unit rows by |m|^power, in one round (Han,
    Karypis 2000).

    With a power of 1, the highest score x.w_c belongs to the centroid with the largest
    cosine. With a smaller power, classes whose rows point in similar directions get
    larger weights. Classes without rows or direction have zero weights. The column
    ``primal`` is the mean over the training rows of 1 - cos(x_i, m_{y_i}), which the
    means minimise.

    Parameters
    ----------
    power : float > 0, the power of |m| by which each mean is divided

    Raises
    ------
    ValueError
        If `power` is not a positive number, or makes weights that are zero or not
        finite.
    """
    from sklearn.preprocessing import normalize

    check_positive(power, "power")
    problem.refuse_weights()
    X = problem.X
    y = problem.y
    n = problem.n
    k = problem.k
    zero = sp.csr_matrix((k, problem.d), dtype=X.dtype)
    s = state or CentroidState(0, zero, 1.0)
    yield s
    if s.round:
        return
    entries = np.ones(n, X.dtype), (y, np.arange(n))
    members = sp.csr_matrix(entries, shape=(k, n))
    W = sp.csr_matrix(members @ normalize(X))
    W.eliminate_zeros()
    W.sort_indices()
    lengths = norm(W.astype(np.float64), axis=1)
    counts = np.bincount(y, minlength=k)
    # m / |m|^p for the mean m = s / count is s |s|^-p count^(p - 1).
    nonzero = lengths > 0
    factors = np.zeros(k)
    with np.errstate(all="ignore"):
        factors[nonzero] = lengths[nonzero] ** -power * counts[nonzero] ** (power - 1.0)
        W.data *= np.repeat(factors, np.diff(W.indptr)).astype(W.dtype)
    if not (np.isfinite(W.data).all() and factors[nonzero].all()):
        raise ValueError(
            f"power: {power:g} makes weights that are zero or not finite; use 1"
        )
    s.W = W
    with off_the_clock():
        s.primal = 1.0 - float(lengths.sum()) / n  # |sum_i u_i| = sum_i u_i.m / |m|
        s.round = 1
    yield s
