"""Exact search: feature-major weights are an inverted index already, and its scan is compiled.

Row f of W lists the classes that use feature f. The scores of a sparse x are the sum of x_f times
the rows of its features, in one dense accumulator of a float for each class. Most of the time
goes into the few features that many classes use, as words are distributed: these rows are copied
into dense ones, which vector instructions add several classes at a time.

Indices are unsigned and rows are sliced first, without which compiled code asks at each access
whether an index counts from the end, and uses no vector instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_sparse
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.memoir.mips.oracle import Oracle, parts

HEADS = 0.25  # share of the classes from which on a feature's row is copied into a dense one
FEW = 16  # rows up to which copying does not pay


class Lists(NamedTuple):
    """Sparse weights as an inverted index of d features and C classes.

    ``classes[p], weights[p]`` for p in ``starts[f]:starts[f + 1]`` is the list of feature f; where
    ``place[f]`` is not negative, ``heads[place[f]]`` is the same as a dense row of C.
    """

    weights: np.ndarray
    classes: np.ndarray
    starts: np.ndarray
    place: np.ndarray
    heads: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.place), self.heads.shape[1]

    @property
    def dtype(self) -> np.dtype:
        return self.weights.dtype


def index(W: Matrix, heads: float = HEADS) -> Lists | np.ndarray:
    """Return (d, C) `W` as the searches below take it: lists of a CSR matrix, or the dense array.

    Features that more than a share `heads` of the classes use become dense rows, of 4 C bytes
    each and so at most 4 / `heads` bytes per list entry; from 1 on, none does.
    """
    if not sp.issparse(W):
        return W
    d, C = W.shape
    long = np.flatnonzero(np.diff(W.indptr) > heads * C)
    place = np.full(d, -1, np.int32)
    place[long] = np.arange(len(long))
    return Lists(W.data, W.indices, W.indptr, place, W[long].toarray())


class Exact(Oracle):
    """Exact search by a compiled scan, or by blocked GEMM where both X and W are dense.

    Of classes with equal scores it answers the lowest. Scores are computed in the precision of W.
    """

    def _build(self, W: Matrix) -> None:
        self.index = index(W)

    def _find(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        return best_others(X, self.index, rows, y)[0]


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
    if not (sp.issparse(X) or sp.issparse(W)):
        for part in parts(len(rows), max(W.shape)):
            yield part, np.asarray(X[rows[part]], dtype=W.dtype) @ W
        return
    searched = index(W, HEADS if len(rows) > FEW else 1.0)
    add_all = _scan_scores if sp.issparse(W) else _add_scores
    for part in parts(len(rows), W.shape[1] if sp.issparse(X) else max(W.shape)):
        Z, chosen = _sparse_rows(X, rows[part])
        F = np.empty((len(chosen), W.shape[1]), W.dtype)
        add_all(Z.data, Z.indices, Z.indptr, chosen, searched, F)
        yield part, F


def best_others(
    X: Matrix, searched: Lists | np.ndarray, rows: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each row, the lowest best class other than y, int32, and its score.

    `searched` are weights as :func:`index` returns them. A label of -1 excludes no class. Rows
    without any other class, or with scores that are not numbers, get the lowest class other than y
    and the score -inf.
    """
    answers = np.empty(len(rows), np.int32)
    values = np.empty(len(rows), searched.dtype)
    sparse = isinstance(searched, Lists)
    if not (sp.issparse(X) or sparse):
        for part, F in score_blocks(X, searched, rows):
            best_of_scores(F, y[part], answers[part], values[part])
        return answers, values
    find_all = _scan_best if sparse else _add_best
    for part in [slice(None)] if sp.issparse(X) else parts(len(rows), max(searched.shape)):
        Z, chosen = _sparse_rows(X, rows[part])
        given = (Z.data, Z.indices, Z.indptr, chosen, y[part])
        find_all(*given, searched, answers[part], values[part])
    return answers, values


def best_of_scores(F: np.ndarray, y: np.ndarray, answers: np.ndarray, values: np.ndarray) -> None:
    """Fill `answers` and `values` from rows of scores, of which each loses its label's."""
    places, labelled = np.arange(len(F)), y >= 0
    F[places[labelled], y[labelled]] = -np.inf
    answers[:] = F.argmax(axis=1)
    values[:] = F[places, answers]
    odd = np.flatnonzero(~(values > -np.inf))  # nothing but the label, or not a number
    for j in odd:
        _best(F[j], y[j], answers, values, j)


def _sparse_rows(X: Matrix, rows: np.ndarray) -> tuple[Matrix, np.ndarray]:
    """Return a CSR matrix and the numbers in it of these rows of X."""
    if sp.issparse(X):
        return X, rows
    return sp.csr_array(X[rows]), np.arange(len(rows))


@njit(cache=True, inline="always")
def _scan(data, indices, indptr, i, W, out):
    """Put row i of a CSR matrix times the weights of Lists into (C,) `out`."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    classes, weights = W.classes, W.weights
    out[:] = 0
    for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + one])):
        x, f = np.float32(data[p]), np.uint64(indices[p])
        if W.place[f] >= 0:
            head = W.heads[np.uint64(W.place[f])]
            for c in range(np.uint64(len(out))):
                out[c] += x * head[c]
            continue
        q, end = np.uint64(W.starts[f]), np.uint64(W.starts[f + one])
        while q + four <= end:
            # The classes of a list differ, which the compiler cannot know: load all, then store.
            c0, c1 = np.uint64(classes[q]), np.uint64(classes[q + one])
            c2, c3 = np.uint64(classes[q + two]), np.uint64(classes[q + three])
            s0, s1 = out[c0] + x * weights[q], out[c1] + x * weights[q + one]
            s2, s3 = out[c2] + x * weights[q + two], out[c3] + x * weights[q + three]
            out[c0], out[c1], out[c2], out[c3] = s0, s1, s2, s3
            q += four
        while q < end:
            out[np.uint64(classes[q])] += x * weights[q]
            q += one


@njit(cache=True, inline="always", fastmath={"contract", "nsz"})
def _add(data, indices, indptr, i, W, out):
    """Put row i of a CSR matrix times the dense weights into (C,) `out`."""
    one, four = np.uint64(1), np.uint64(4)
    columns = np.uint64(len(out))
    p, end = np.uint64(indptr[i]), np.uint64(indptr[i + one])
    out[:] = 0
    while p + four <= end:
        # Four rows at a time: one load and store of the accumulator for four multiplications.
        x0, w0 = W.dtype.type(data[p]), W[np.uint64(indices[p])]
        p += one
        x1, w1 = W.dtype.type(data[p]), W[np.uint64(indices[p])]
        p += one
        x2, w2 = W.dtype.type(data[p]), W[np.uint64(indices[p])]
        p += one
        x3, w3 = W.dtype.type(data[p]), W[np.uint64(indices[p])]
        p += one
        for c in range(columns):
            out[c] += x0 * w0[c] + x1 * w1[c] + x2 * w2[c] + x3 * w3[c]
    while p < end:
        x0, w0 = W.dtype.type(data[p]), W[np.uint64(indices[p])]
        for c in range(columns):
            out[c] += x0 * w0[c]
        p += one


@njit(cache=True, inline="always")
def _best(out, label, answers, values, j):
    """Put the first largest of (C,) `out`, which loses its label's, and its place there."""
    if label >= 0:
        out[np.uint64(label)] = -np.inf
    best, place = out.dtype.type(-np.inf), np.uint64(label == 0)
    for c in range(np.uint64(len(out))):
        if out[c] > best:
            best, place = out[c], c
    answers[j], values[j] = place, best


@njit(cache=True, nogil=True)
def _scan_best(data, indices, indptr, rows, y, W, answers, values):
    out = np.empty(W.heads.shape[1], np.float32)
    for j in range(np.uint64(len(rows))):
        _scan(data, indices, indptr, np.uint64(rows[j]), W, out)
        _best(out, y[j], answers, values, j)


@njit(cache=True, nogil=True)
def _add_best(data, indices, indptr, rows, y, W, answers, values):
    out = np.empty(W.shape[1], W.dtype)
    for j in range(np.uint64(len(rows))):
        _add(data, indices, indptr, np.uint64(rows[j]), W, out)
        _best(out, y[j], answers, values, j)


@njit(cache=True, nogil=True)
def _scan_scores(data, indices, indptr, rows, W, F):
    for j in range(np.uint64(len(rows))):
        _scan(data, indices, indptr, np.uint64(rows[j]), W, F[j])


@njit(cache=True, nogil=True)
def _add_scores(data, indices, indptr, rows, W, F):
    for j in range(np.uint64(len(rows))):
        _add(data, indices, indptr, np.uint64(rows[j]), W, F[j])
