"""The interface of all searches, exact search, and random answers.

Row f of sparse weights lists the classes that use feature f, so the weights are an
inverted index. The scores of a sparse x are the sum of x_f times the rows of its
features. They are summed in one dense array with a float for each class, which takes a
fraction of the time of SciPy's product, whose result is sparse. Dense weights are
multiplied by NumPy.
"""

from collections.abc import Iterator
from time import process_time

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.checks import check_sparse
from workbench.core.problem import Array, Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.rows import rows_of

BLOCK_BYTES = 2**24  # bytes of scores or of dense rows that are in memory at once


class Oracle:
    """A search for the class r other than y whose weights have the largest x.w_r.

    A subclass defines ``_find(X, rows, y)``, and ``_build(W)`` if it has an index. The
    arguments of both have been checked.

    Attributes
    ----------
    k, d : int, the numbers of classes and of features
    rng : np.random.Generator, made from `seed`, or `seed` itself if it is a generator
    build_seconds, query_seconds : float, CPU seconds of the last update and of the last
        query
    """

    def __init__(self, k: int, d: int, seed=0):
        self.k = int(k)
        self.d = int(d)
        self.rng = np.random.default_rng(seed)
        self.build_seconds = 0.0
        self.query_seconds = 0.0

    def update(self, W: Matrix) -> None:
        """Let later queries search the (d, k) weights `W`, one column per class.

        W must be CSR or dense, of floats; otherwise a ValueError is raised. W must not
        change before the next update.
        """
        tic = process_time()
        form = getattr(W, "format", "dense")
        floats = form in ("csr", "dense") and W.dtype.kind == "f"
        if not floats or W.shape != (self.d, self.k):
            expected = f"CSR or dense floats, {self.d} features by {self.k} classes"
            raise ValueError(f"W: must be {expected}, got {form} {W.dtype} {W.shape}")
        self._build(W)
        self.build_seconds = process_time() - tic

    def query(self, X: Matrix, rows: Array, y: Array) -> Array:
        """Return the int32 classes found for these rows of (n, d) `X` with labels `y`.

        An answer is never the row's label. Classes without weights are candidates with
        score 0. A ValueError is raised if the arguments do not match.
        """
        tic = process_time()
        if X.shape[1] != self.d or (sp.issparse(X) and X.format != "csr"):
            raise ValueError(
                f"X: must be dense or CSR with {self.d} features, got {X.shape}"
            )
        rows = np.asarray(rows, dtype=np.int64)
        y = np.asarray(y, dtype=np.int32)
        if rows.shape != y.shape or ((y < 0) | (y >= self.k)).any():
            raise ValueError(f"y: must contain one label in 0..{self.k - 1} per row")
        answers = self._find(X, rows, y)  # type: ignore[attr-defined]
        self.query_seconds = process_time() - tic
        return answers

    def _build(self, W: Matrix) -> None:
        self.W = W

    def others(self, y: Array) -> Array:
        """Return, for each row, a uniformly random int32 class other than its label."""
        r = self.rng.integers(self.k - 1, size=len(y), dtype=np.int32)
        return r + (r >= y)


class Random(Oracle):
    """Answers with a class other than y, uniformly at random."""

    def _find(self, X: Matrix, rows: Array, y: Array) -> Array:
        return self.others(y)


def parts(count: int, floats: int) -> Iterator[slice]:
    """Yield slices of range(count) whose items of `floats` floats fit into a block."""
    return pieces(count, BLOCK_BYTES // (4 * max(1, floats)))


class Exact(Oracle):
    """Exact search; of several classes with the largest score, it returns the first."""

    def _find(self, X: Matrix, rows: Array, y: Array) -> Array:
        return best_classes(X, self.W, rows, y)


def scores(X: Matrix, W: Matrix) -> Array:
    """Return the dense scores X W in the precision of W: (n, C) for (n, d) X, (d, C) W.

    Either may be dense or CSR.
    """
    X = check_sparse(X)
    out = np.empty((X.shape[0], W.shape[1]), W.dtype)
    for part, F in score_blocks(X, W, np.arange(len(out))):
        out[part] = F
    return out


def score_blocks(X: Matrix, W: Matrix, rows: Array) -> Iterator[tuple[slice, Array]]:
    """Yield slices of `rows` with their dense scores, which the caller may change."""
    width = W.shape[1] if sp.issparse(X) else max(W.shape)
    for part in parts(len(rows), width):
        Z = X[rows[part]]
        if sp.issparse(W):
            F = np.empty((Z.shape[0], W.shape[1]), W.dtype)
            _scan(rows_of(Z), W.indptr, W.indices, W.data, F)
        else:
            F = Z.astype(W.dtype, copy=False) @ W
        yield part, F


def best_classes(X: Matrix, W: Matrix, rows: Array, y: Array | None = None) -> Array:
    """Return, for each row, the first best class (int32) that is not its label."""
    best = np.empty(len(rows), np.int32)
    for part, F in score_blocks(X, W, rows):
        if y is not None:
            F[np.arange(len(F)), y[part]] = -np.inf
        best[part] = F.argmax(axis=1)
    if y is not None:
        best[best == y] = 1  # all scores are -inf, and the label is class 0
    return best


def inexactness(
    oracle: Oracle, W: Matrix, X: Matrix, rows: Array, y: Array
) -> dict[str, float]:
    """Compare the oracle's answers for some rows with all scores under the weights `W`.

    The margin of a row is x.w_y - max x.w_c over the other classes. With the score of
    an answer instead of the largest score, the margin can only grow. Its growth,
    epsilon >= 0, is measured here. MEMOIR's paper calls a margin (epsilon, delta)
    inexact if the growth is at most epsilon with probability 1 - delta.

    The oracle's clock and its random number generator are restored, because this
    measurement must not change a run.

    Returns
    -------
    dict
        recall : the fraction of rows, in [0, 1], whose answer has the largest score,
            possibly tied;
        epsilon_mean : the mean of epsilon, in units of scores
    """
    rows = np.asarray(rows, dtype=np.int64)
    y = np.asarray(y)
    seconds = oracle.query_seconds
    generator = oracle.rng.bit_generator.state
    answers = oracle.query(X, rows, y)
    oracle.query_seconds = seconds
    oracle.rng.bit_generator.state = generator
    epsilon = np.empty(len(rows))
    for part, F in score_blocks(X, W, rows):
        places = np.arange(len(F))
        answered = F[places, answers[part]].astype(np.float64)
        F[places, y[part]] = -np.inf
        epsilon[part] = F.max(axis=1) - answered
    return {
        "recall": float(np.mean(epsilon <= 0)),
        "epsilon_mean": float(epsilon.mean()),
    }


@njit
def _scan(rows, starts, classes, weights, F):
    """Write the scores of all rows to `F`, from the classes of each row's features."""
    one = np.uint64(1)
    for i in range(np.uint64(len(F))):
        out = F[i]
        out[:] = 0
        shift = rows.shift * rows.starts[i]
        for p in range(rows.starts[i], rows.starts[i + one]):
            x = out.dtype.type(rows.data[p])
            f = np.uint64(rows.indices[p - shift])
            for q in range(np.uint64(starts[f]), np.uint64(starts[f + one])):
                out[np.uint64(classes[q])] += x * weights[q]
