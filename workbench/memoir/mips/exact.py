"""Exact search and scores: sparse weights are an inverted index, and its scan is compiled.

Row f of W lists the classes that use feature f. The scores of a sparse x are the sum of x_f times
the rows of its features, in one dense accumulator of a float for each class. This takes a fraction
of the time of scipy's product, which builds a sparse result; dense weights take the product.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_sparse
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.rows import rows_of
from workbench.memoir.mips.oracle import Oracle, parts


class Exact(Oracle):
    """Exact search. Of classes with equal scores it returns the lowest."""

    def _build(self, W: Matrix) -> None:
        self.W = W

    def _find(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        return best_classes(X, self.W, rows, y)


def scores(X: Matrix, W: Matrix) -> np.ndarray:
    """Return the dense scores X W in the precision of W: (n, C) for (n, d) X, (d, C) W.

    Either may be dense or CSR.
    """
    X = check_sparse(X)
    out = np.empty((X.shape[0], W.shape[1]), W.dtype)
    for part, F in score_blocks(X, W, np.arange(len(out))):
        out[part] = F
    return out


def score_blocks(X: Matrix, W: Matrix, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of `rows` with their dense scores, an array of the reader's own."""
    for part in parts(len(rows), W.shape[1] if sp.issparse(X) else max(W.shape)):
        Z = X[rows[part]]
        if sp.issparse(W):
            F = np.empty((Z.shape[0], W.shape[1]), W.dtype)
            _scan(rows_of(Z), W.indptr, W.indices, W.data, F)
        else:
            F = Z.astype(W.dtype, copy=False) @ W
        yield part, F


def best_classes(X: Matrix, W: Matrix, rows: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
    """Return, for each of these rows, the lowest best class other than its label in `y`, int32."""
    found = np.empty(len(rows), np.int32)
    for part, F in score_blocks(X, W, rows):
        if y is not None:
            F[np.arange(len(F)), y[part]] = -np.inf
        found[part] = F.argmax(axis=1)
    if y is not None:
        found[found == y] = 1  # all others are -inf too, and the label is class 0
    return found


def inexactness(
    oracle: Oracle, W: Matrix, X: Matrix, rows: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Compare the oracle's answers for some rows with all scores under the (d, k) weights `W`.

    The margin of a row is x.w_y - max x.w_c over the other classes. With the score of an answer
    instead of the largest it can only grow, by the epsilon >= 0 measured here. MEMOIR's paper
    calls a margin (epsilon, delta) inexact if it is at most epsilon with probability 1 - delta.

    The oracle's clock and its generator stay as they were: looking must not change a run.

    Returns
    -------
    dict
        recall : fraction of rows, in [0, 1], whose answer has the largest score, a tie included;
        epsilon_mean : mean of epsilon, in units of scores
    """
    rows, y = np.asarray(rows, dtype=np.int64), np.asarray(y)
    seconds, before = oracle.query_seconds, oracle.rng.bit_generator.state
    answers = oracle.query(X, rows, y)
    oracle.query_seconds, oracle.rng.bit_generator.state = seconds, before
    epsilon = np.empty(len(rows))
    for part, F in score_blocks(X, W, rows):
        places = np.arange(len(F))
        given = F[places, answers[part]].astype(np.float64)
        F[places, y[part]] = -np.inf
        epsilon[part] = F.max(axis=1) - given
    return {"recall": float(np.mean(epsilon <= 0)), "epsilon_mean": float(epsilon.mean())}


@njit(cache=True)
def _scan(rows, starts, classes, weights, F):
    """Put the scores of all rows into `F`: for each entry, a pass over its feature's classes."""
    one = np.uint64(1)
    for i in range(np.uint64(len(F))):
        out, shift = F[i], rows.shift * rows.starts[i]
        out[:] = 0
        for p in range(rows.starts[i], rows.starts[i + one]):
            x, f = out.dtype.type(rows.data[p]), np.uint64(rows.indices[p - shift])
            for q in range(np.uint64(starts[f]), np.uint64(starts[f + one])):
                out[np.uint64(classes[q])] += x * weights[q]
