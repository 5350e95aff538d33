"""Products of data rows with a matrix in blocks, and the changes that a row makes to
it.

Indices are unsigned and blocks are sliced before they are swept: for a signed index,
compiled code checks at each access whether it counts from the end, and no longer uses
vector instructions.
"""

from __future__ import annotations

import numpy as np

from workbench.kernels.compiled import njit
from workbench.memoir.blocks import (
    WHOLE,
    insert,
    length_of,
    position,
    reserve,
    slots_for,
    soft,
)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def add_scores(blocks, rows, i, l1, out):
    """Add row i times the matrix to (k + 1,) `out`, its values taken l1 (or None)
    towards zero."""
    starts, sizes, _, classes, values, _, _, k = blocks
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    if not len(classes):
        add_dense_scores(
            data, indices, start, end, shift, values.reshape(len(starts), k), l1, out
        )
        return
    for p in range(start, end):
        f, x = np.uint64(indices[p - shift]), out.dtype.type(data[p])
        size = sizes[f]
        if size == 0:
            continue
        first = np.uint64(starts[f])
        if size == WHOLE:
            some = values[first : first + np.uint64(k)]
            for c in range(np.uint64(k)):
                out[c] += x * soft(some[c], l1)
            continue
        length = np.uint64(1) << np.uint64(size)
        some, places = values[first : first + length], classes[first : first + length]
        for q in range(length):
            out[np.uint64(places[q])] += x * soft(some[q], l1)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, inline="always")
def add_dense_scores(data, indices, start, end, shift, W, l1, out):
    """Do the same for a dense W, four features at a time, to read and write `out` less
    often."""
    kind, four = out.dtype.type, np.uint64(4)
    while start + four <= end:
        p, q = start, start - shift
        a, b = np.uint64(indices[q]), np.uint64(indices[q + np.uint64(1)])
        e, f = (
            np.uint64(indices[q + np.uint64(2)]),
            np.uint64(indices[q + np.uint64(3)]),
        )
        one, two, three, last = W[a], W[b], W[e], W[f]
        x, y = kind(data[p]), kind(data[p + np.uint64(1)])
        z, v = kind(data[p + np.uint64(2)]), kind(data[p + np.uint64(3)])
        for c in range(np.uint64(W.shape[1])):
            front = x * soft(one[c], l1) + y * soft(two[c], l1)
            out[c] += front + z * soft(three[c], l1) + v * soft(last[c], l1)
        start += four
    for p in range(start, end):
        x, one = kind(data[p]), W[np.uint64(indices[p - shift])]
        for c in range(np.uint64(W.shape[1])):
            out[c] += x * soft(one[c], l1)


@njit(cache=True)
def set_scores(blocks, rows, i, members, l1, g):
    """Put row i times the columns of these classes, taken l1 towards zero, into `g`."""
    starts, sizes, _, classes, values, _, _, k = blocks
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    g[:] = 0.0
    if not len(classes):
        for p in range(start, end):
            first, x = np.uint64(indices[p - shift]) * np.uint64(k), np.float64(data[p])
            for j in range(np.uint64(len(members))):
                g[j] += x * soft(values[first + np.uint64(members[j])], l1)
        return
    for p in range(start, end):
        f, x = indices[p - shift], np.float64(data[p])
        if sizes[f] == 0:
            continue
        for j in range(len(members)):
            q = position(starts, sizes, classes, f, np.int64(members[j]), k)
            if q >= 0:
                g[j] += x * soft(values[q], l1)


@njit(cache=True)
def add_outer(blocks, rows, i, steps, members, mass):
    """Add row i times these steps to the columns of these classes, and `mass` times it
    to sums."""
    starts, sizes, used, classes, values, sums, _, k = blocks
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    if not len(classes) and not len(sums):
        for p in range(start, end):
            first, x = np.uint64(indices[p - shift]) * np.uint64(k), np.float64(data[p])
            for m in range(np.uint64(len(steps))):
                values[first + np.uint64(members[m])] += values.dtype.type(steps[m] * x)
        return
    for p in range(start, end):
        f = indices[p - shift]
        if sizes[f] != WHOLE:
            reserve(blocks, f, len(steps))
        for m in range(len(steps)):
            q = position(starts, sizes, classes, f, members[m], k)
            if q < 0:
                q = insert(used, classes, f, members[m], q)
            change = values.dtype.type(steps[m] * data[p])
            values[q] += change
            if len(sums):
                sums[q] += values.dtype.type(mass * change)


@njit(cache=True)
def lacks_room(blocks, rows, i, more):
    """Return how many slots `more` further classes take in the blocks of row i's
    features.

    The number is 0 if the pool has as many free, or the matrix is dense.
    """
    if not len(blocks.classes):
        return 0
    k = blocks.k
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    free = len(blocks.values) - blocks.end[0]
    if free >= np.int64(end - start) * max(
        k, 4 * more
    ):  # a bound, which saves the count
        return 0
    need = 0
    for p in range(start, end):
        f = rows.indices[p - rows.shift * start]
        size = slots_for(blocks.sizes[f], blocks.used[f] + more, k)
        if size != blocks.sizes[f]:
            need += length_of(size, k)
    return need if need > free else 0
