"""The certificate of the working set solver: D(alpha) and P(W) of a WorkingSetState `s`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from workbench.core.measures import svm_bounds
from workbench.core.problem import Problem
from workbench.core.shares import pieces
from workbench.kernels.rows import Rows
from workbench.memoir.ascent import losses, norms

ENTRIES = 2**21  # entries of X's columns or of V at a time
TOGETHER = 2**16  # rows whose alpha is made double at a time


def certificate(
    problem: Problem, s, rows: Rows, squares, costs, every: bool
) -> tuple[float, float]:
    """Return D(alpha) and P(W), with room for rounding."""
    l1, b, X = np.float32(s.l1), s.blocks(), problem.X
    loss = losses(b, rows, 0, problem.n, problem.y, costs, l1, every, s.k, 0.0)
    one, two = norms(b.values[: b.end[0]], l1) if b.end[0] else (0.0, 0.0)
    primal = two / 2 + s.l1 * one + loss
    own, A = duals(s, costs, every)
    lengths, terms = np.sqrt(squares), s.k - 1 if every else 1
    linear, pull, square = float(own.sum()), 2.0 * float(own @ lengths), 0.0
    X = X.tocsc() if problem.is_sparse else X
    filled = X.indptr if problem.is_sparse else np.arange(problem.d + 1) * s.k
    for part in columns(filled, ENTRIES):
        V = A.T @ X[:, part]
        excess = np.maximum(np.abs(V.data if problem.is_sparse else np.asarray(V)) - s.l1, 0.0)
        square += float(np.vdot(excess, excess))
    return svm_bounds(
        float(primal),
        linear,
        square,
        terms=problem.n + problem.d + s.k,
        losses=terms * float(costs.sum()),
        reach=terms * float(costs @ lengths),
        pull=pull,
        norm=float(np.sqrt(two)),
    )


def duals(s, costs, every: bool) -> tuple[np.ndarray, sp.csr_matrix]:
    """Return alpha of the rows' own classes (n,) and of all (n, k), feasible in spite of rounding.

    Some rows at a time: their sets in double precision are several times as large.
    """
    own, A = np.empty(len(costs)), []
    for at in pieces(len(costs), TOGETHER):
        alpha = s.alpha[at].astype(float)
        alpha[:, 0] = -alpha[:, 1:].sum(axis=1)  # what rounding has left undone
        if not every:
            alpha *= np.minimum(1.0, costs[at] / np.maximum(alpha[:, 0], costs[at]))[:, None]
        own[at] = alpha[:, 0]
        ends = np.arange(0, alpha.size + 1, alpha.shape[1])
        shape = len(alpha), s.k
        A.append(sp.csr_matrix((alpha.ravel(), s.sets[at].ravel().astype(int), ends), shape=shape))
        A[-1].eliminate_zeros()
    return own, sp.vstack(A, format="csr")


def columns(filled: np.ndarray, size: int) -> Iterator[slice]:
    """Yield slices of columns, each with about `size` entries, of which `filled` is the sum."""
    first, d = 0, len(filled) - 1
    while first < d:
        last = int(np.searchsorted(filled, filled[first] + size))
        last = min(max(last, first + 1), d)
        yield slice(first, last)
        first = last
