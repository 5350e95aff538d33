"""Exact search and scores: feature-major weights are an inverted index, and its scan is compiled.

Row f of W lists the classes that use feature f. The scores of a sparse x are the sum of x_f times
the rows of its features, in one dense accumulator of a float for each class.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_sparse
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.rows import rows_of
from workbench.memoir.blocks import dense
from workbench.memoir.mips.oracle import Oracle, parts
from workbench.memoir.products import add_scores


class Exact(Oracle):
    """Exact search by a compiled scan, or by matrix products if both X and W are dense.

    Of classes with equal scores it returns the lowest. Scores have the precision of W.
    """

    def _build(self, W: Matrix) -> None:
        self.W = W

    def _find(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        return best_classes(X, self.W, rows, y)


def scores(X: Matrix, W: Matrix, rows: np.ndarray | None = None) -> np.ndarray:
    """Return the dense scores X[rows] W in the precision of W: (n, C) for (n, d) X, (d, C) W.

    Either may be dense or CSR; `rows` None means all. For sparse X and W this takes a fraction of
    the time of scipy's product, which builds a sparse result.
    """
    X = check_sparse(X)
    rows = np.arange(X.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64)
    out = np.empty((len(rows), W.shape[1]), W.dtype)
    for part, F in score_blocks(X, W, rows):
        out[part] = F
    return out


def score_blocks(X: Matrix, W: Matrix, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of `rows` with their dense scores, an array of the reader's own."""
    k, one_is_sparse = W.shape[1], sp.issparse(X) or sp.issparse(W)
    blocks = None if sp.issparse(W) else dense(W)
    for part in parts(len(rows), k if sp.issparse(X) else max(W.shape)):
        Z = X[rows[part]]
        F = np.empty((Z.shape[0], k + 1), W.dtype)  # one for the empty slots of blocks
        if not one_is_sparse:
            np.matmul(Z.astype(W.dtype, copy=False), W, out=F[:, :k])
        elif blocks is None:
            _scan(rows_of(Z), W.indptr, W.indices, W.data, F)
        else:
            _add(blocks, rows_of(Z), F, k)
        yield part, F[:, :k]


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
        epsilon_mean, epsilon_p95, epsilon_max : over the rows, in units of scores
        (all are nan if there are no rows)
    """
    rows, y = np.asarray(rows, dtype=np.int64), np.asarray(y)
    seconds, before = oracle.query_seconds, oracle.rng.bit_generator.state
    answers = oracle.query(X, rows, y)
    oracle.query_seconds, oracle.rng.bit_generator.state = seconds, before
    if not len(rows):
        return dict.fromkeys(("recall", "epsilon_mean", "epsilon_p95", "epsilon_max"), np.nan)
    epsilon = np.empty(len(rows))
    for part, F in score_blocks(X, W, rows):
        places = np.arange(len(F))
        given = F[places, answers[part]].astype(np.float64)
        F[places, y[part]] = -np.inf
        epsilon[part] = F.max(axis=1) - given
    return {
        "recall": float(np.mean(epsilon <= 0)),
        "epsilon_mean": float(epsilon.mean()),
        "epsilon_p95": float(np.quantile(epsilon, 0.95)),
        "epsilon_max": float(epsilon.max()),
    }


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


@njit(cache=True)
def _add(blocks, rows, F, k):
    for i in range(np.uint64(len(F))):
        F[i] = 0
        add_scores(blocks, rows, i, np.float32(0.0), F[i], k)
