"""Products of data rows with a matrix in blocks, and the changes that a row makes to
it.

Indices are unsigned and blocks are sliced before they are swept: for a signed index,
compiled code checks at each access whether it counts from the end, and cannot use
vector instructions.
"""

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


@njit(inline="always")
def span(rows, i):
    """Return where row i's entries begin and end, and the shift from places to
    indices."""
    start = rows.starts[i]
    return start, rows.starts[i + np.uint64(1)], rows.shift * start


@njit(fastmath={"reassoc", "contract", "nsz", "arcp"})
def add_scores(blocks, rows, i, l1, out):
    """Add row i times the matrix, moved by `l1` towards 0, to (k + 1,) `out`."""
    starts, sizes, _, classes, values, _, _, k = blocks
    data = rows.data
    indices = rows.indices
    start, end, shift = span(rows, i)
    if not len(classes):
        W = values.reshape(len(starts), k)
        add_dense_scores(data, indices, start, end, shift, W, l1, out)
        return
    for p in range(start, end):
        f = np.uint64(indices[p - shift])
        x = out.dtype.type(data[p])
        size = sizes[f]
        if size == 0:
            continue
        first = np.uint64(starts[f])
        if size == WHOLE:
            block = values[first : first + np.uint64(k)]
            for c in range(np.uint64(k)):
                out[c] += x * soft(block[c], l1)
            continue
        last = first + (np.uint64(1) << np.uint64(size))
        block = values[first:last]
        labels = classes[first:last]
        for q in range(last - first):
            out[np.uint64(labels[q])] += x * soft(block[q], l1)


@njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, inline="always")
def add_dense_scores(data, indices, start, end, shift, W, l1, out):
    """Do the same for a dense W, four features at a time, to access `out` less."""
    kind = out.dtype.type
    four = np.uint64(4)
    while start + four <= end:
        p = start
        q = start - shift
        a = W[np.uint64(indices[q])]
        b = W[np.uint64(indices[q + np.uint64(1)])]
        e = W[np.uint64(indices[q + np.uint64(2)])]
        f = W[np.uint64(indices[q + np.uint64(3)])]
        x = kind(data[p])
        y = kind(data[p + np.uint64(1)])
        z = kind(data[p + np.uint64(2)])
        v = kind(data[p + np.uint64(3)])
        for c in range(np.uint64(W.shape[1])):
            front = x * soft(a[c], l1) + y * soft(b[c], l1)
            out[c] += front + z * soft(e[c], l1) + v * soft(f[c], l1)
        start += four
    for p in range(start, end):
        x = kind(data[p])
        a = W[np.uint64(indices[p - shift])]
        for c in range(np.uint64(W.shape[1])):
            out[c] += x * soft(a[c], l1)


@njit
def set_scores(blocks, rows, i, members, l1, g):
    """Write row i times these classes' columns, moved by `l1` towards zero, to `g`."""
    starts, sizes, _, classes, values, _, _, k = blocks
    data = rows.data
    indices = rows.indices
    start, end, shift = span(rows, i)
    g[:] = 0.0
    for p in range(start, end):
        f = indices[p - shift]
        x = np.float64(data[p])
        if sizes[f] == 0:
            continue
        for j in range(len(members)):
            q = position(starts, sizes, classes, f, np.int64(members[j]), k)
            if q >= 0:
                g[j] += x * soft(values[q], l1)


@njit
def add_outer(blocks, rows, i, steps, members, mass):
    """Add row i times `steps` to the classes' columns, and `mass` times it to sums."""
    starts, sizes, used, classes, values, sums, _, k = blocks
    data = rows.data
    indices = rows.indices
    start, end, shift = span(rows, i)
    if not len(classes) and not len(sums):
        for p in range(start, end):
            first = np.uint64(indices[p - shift]) * np.uint64(k)
            x = np.float64(data[p])
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


@njit
def lacks_room(blocks, rows, i, more):
    """Return how many slots row i's features need for `more` further classes.

    The number is 0 if the pool has enough free slots, or the matrix is dense.
    """
    if not len(blocks.classes):
        return 0
    k = blocks.k
    start, end, shift = span(rows, i)
    free = len(blocks.values) - blocks.end[0]
    bound = np.int64(end - start) * max(k, 4 * more)  # avoids most of the loops below
    if free >= bound:
        return 0
    need = 0
    for p in range(start, end):
        f = rows.indices[p - shift]
        size = slots_for(blocks.sizes[f], blocks.used[f] + more, k)
        if size != blocks.sizes[f]:
            need += length_of(size, k)
    return need if need > free else 0
