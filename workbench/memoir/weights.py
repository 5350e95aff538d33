"""The weights of a sampled method: few entries in a list and recent changes beside it, or dense.

The sparse form is feature-major, so that it is its own inverted index: a list of its entries (CSR
of the (d, C) matrix, 8 bytes an entry), which is made anew only when the changes, held in
:class:`Blocks`, are wanted in it. Both forms may hold a second number with each weight, from which
the average of all iterates follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.kernels.compiled import njit
from workbench.memoir.blocks import (
    WHOLE,
    Blocks,
    add_scores,
    empty,
    insert,
    need_of,
    position,
    reserve,
    soft,
)

NOTHING = np.float32(0.0)  # taken off values that are read


class Weights(NamedTuple):
    """A (d, C) matrix U and, where an average is wanted, a matrix S of its shape.

    Attributes
    ----------
    dense, dense_sums : (d, C) float32, or (0, C) where the sparse form is used
    starts : (d + 1,) int64; ``classes``, int32; ``values``, float32 : the list, sorted in its rows
    sums : float32, S at the entries of the list, or (0,)
    changes : what is to be added to the list
    """

    dense: np.ndarray
    dense_sums: np.ndarray
    starts: np.ndarray
    classes: np.ndarray
    values: np.ndarray
    sums: np.ndarray
    changes: Blocks

    def matrix(self, values: np.ndarray | None = None) -> sp.csr_array | np.ndarray:
        """Return U, or these values in its place, without the changes."""
        if len(self.dense):
            return self.dense if values is None else values
        values = self.values if values is None else values
        shape = len(self.starts) - 1, self.dense.shape[1]
        return sp.csr_array((values, self.classes, self.starts), shape=shape)


def zeros(d: int, k: int, *, dense: bool, average: bool) -> Weights:
    """Return weights of zeros."""
    shape = (d if dense else 0), k
    kept = shape if average else (0, k)
    nothing = np.zeros(0, np.float32)
    return Weights(
        np.zeros(shape, np.float32),
        np.zeros(kept, np.float32),
        np.zeros(1 if dense else d + 1, np.int64),
        np.zeros(0, np.int32),
        nothing,
        nothing,
        empty(0 if dense else d, k, sums=average and not dense),
    )


def merged(w: Weights, thresholds: np.ndarray, mass: float) -> tuple[Weights, float]:
    """Return the weights with all changes in the list, and the square of their norm.

    Parameters
    ----------
    thresholds : (C,) float32, by how much the weights of each class are taken towards zero, or (0,)
    mass : what S takes of each unit by which a weight is changed (see `steps.py`)
    """
    if len(w.dense):
        return w, _truncate_dense(w.dense, w.dense_sums, thresholds, mass)
    d, k = len(w.starts) - 1, w.dense.shape[1]
    average = len(w.changes.sums) > 0
    room = len(w.values) + int(w.changes.used.sum()) + _whole_entries(w.changes, k)
    classes, values = np.empty(room, np.int32), np.empty(room, np.float32)
    sums = np.empty(room if average else 0, np.float32)
    starts = np.empty(d + 1, np.int64)
    square = _merge(w, thresholds, mass, k, average, starts, classes, values, sums)
    m = starts[-1]
    listed = starts, classes[:m].copy(), values[:m].copy(), sums[:m].copy()
    return w._replace(
        **dict(zip(("starts", "classes", "values", "sums"), listed, strict=True)),
        changes=empty(d, k, sums=average),
    ), square


@njit(cache=True)
def row_scores(w, rows, i, out, k):
    """Put row i times U into (k,) of (k + 1,) `out`."""
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    out[:] = 0.0
    if len(w.dense):
        for p in range(start, end):
            x = np.float32(rows.data[p])
            values = w.dense[np.uint64(rows.indices[p - rows.shift * start])]
            for c in range(np.uint64(k)):
                out[c] += x * values[c]
        return
    for p in range(start, end):
        x = np.float32(rows.data[p])
        f = np.uint64(rows.indices[p - rows.shift * start])
        first, last = w.starts[f], w.starts[f + np.uint64(1)]
        values, classes = w.values[first:last], w.classes[first:last]
        for q in range(np.uint64(len(values))):
            out[np.uint64(classes[q])] += x * values[q]
    if w.changes.end[0]:
        add_scores(w.changes, rows, i, NOTHING, out, k)


@njit(cache=True)
def class_score(w, rows, i, c, k):
    """Return row i times column c of U."""
    dense, _, starts, classes, values, _, changes = w
    firsts, sizes, _, changed, amounts, _, _ = changes
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    score = np.float32(0.0)
    for p in range(start, end):
        f, x = indices[p - shift], np.float32(data[p])
        if len(dense):
            score += x * dense[f, c]
            continue
        first, last = starts[f], starts[f + 1]
        q = first + np.searchsorted(classes[first:last], c)
        if q < last and classes[q] == c:
            score += x * values[q]
        q = position(firsts, sizes, changed, f, c, k)
        if q >= 0:
            score += x * amounts[q]
    return score


@njit(cache=True)
def lacks_room(w, rows, i, k):
    """Return how many slots the changes lack for two further classes in each feature of row i."""
    if len(w.dense):
        return 0
    free = len(w.changes.values) - w.changes.end[0]
    entries = np.int64(rows.starts[i + np.uint64(1)] - rows.starts[i])
    if free >= entries * max(k, 16):
        return 0
    return max(0, need_of(w.changes, rows, i, 2, k) - free)


@njit(cache=True)
def add_row(w, rows, i, c, step, mass, k):
    """Add `step` times row i to column c of U, and `mass` times that to S."""
    dense, dense_sums, _, _, _, _, changes = w
    starts, sizes, used, classes, values, sums, _ = changes
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    for p in range(start, end):
        f, change = indices[p - shift], np.float32(step * data[p])
        if len(dense):
            dense[f, c] += change
            if len(dense_sums):
                dense_sums[f, c] += np.float32(mass * change)
            continue
        if sizes[f] != WHOLE:
            reserve(changes, f, 1, k)
        q = position(starts, sizes, classes, f, c, k)
        if q < 0:
            q = insert(used, classes, f, c, q)
        values[q] += change
        if len(sums):
            sums[q] += np.float32(mass * change)


@njit(cache=True)
def _truncate_dense(W, S, thresholds, mass):
    square = 0.0
    for f in range(len(W)):
        for c in range(W.shape[1]):
            value = W[f, c]
            if len(thresholds) and thresholds[c] > 0.0:
                kept = soft(value, thresholds[c])
                if len(S):
                    S[f, c] += np.float32(mass * (kept - value))
                W[f, c] = value = kept
            square += np.float64(value) ** 2
    return square


@njit(cache=True)
def _whole_entries(changes, k):
    total = 0
    for size in changes.sizes:
        if size == WHOLE:
            total += k
    return total


@njit(cache=True)
def _merge(w, thresholds, mass, k, average, starts, classes, values, sums):
    """Write the list with its changes into the last four arrays, and return |U|^2."""
    square, at = 0.0, 0
    b = w.changes
    for f in range(len(starts) - 1):
        starts[f] = at
        p, last = w.starts[f], w.starts[f + 1]
        size, first = b.sizes[f], b.starts[f]
        length = 0 if size == 0 else (k if size == WHOLE else 1 << int(size))
        order = np.argsort(b.classes[first : first + length]) if size else np.empty(0, np.int64)
        j = 0
        while True:
            changed = np.int64(b.classes[first + order[j]]) if j < length else np.int64(k)
            held = np.int64(w.classes[p]) if p < last else np.int64(k)
            c = min(changed, held)
            if c == k:  # which is the class of empty slots, too
                break
            value, total = np.float32(0.0), np.float32(0.0)
            if held == c:
                value = w.values[p]
                if average:
                    total = w.sums[p]
                p += 1
            if changed == c:
                q = first + order[j]
                value += b.values[q]
                if average:
                    total += b.sums[q]
                j += 1
            if len(thresholds) and thresholds[c] > 0.0:
                kept = soft(value, thresholds[c])
                total += np.float32(mass * (kept - value))
                value = kept
            if value != 0.0 or (average and total != 0.0):
                classes[at], values[at] = c, value
                if average:
                    sums[at] = total
                at += 1
                square += np.float64(value) ** 2
    starts[len(starts) - 1] = at
    return square
