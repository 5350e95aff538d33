"""A sparse matrix that changes while it is read: one small hash table for each of its rows.

Row f of the (d, C) matrix lists the classes that feature f has met, in a block of slots whose
number is a power of two: a class is found by open addressing, and the whole block is read by one
short sweep, in which empty slots add zero to a class that does not exist. A row with many classes
has a slot for every class instead. So the matrix is its own inverted index, exact at all times.

Indices are unsigned and blocks are sliced before they are swept: for a signed index compiled code
asks at each access whether it counts from the end, and no longer uses vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.kernels.compiled import njit

WHOLE = 255  # in `sizes`: the block has a slot for every class
LEAST = 2  # log2 of the slots of the smallest block
SLACK = 1.5  # slots of a new pool over those that are in use
FULL = 0.8  # share of a block's slots from which on it grows
DENSE = 0.5  # of a row for every class: blocks that would be larger become one


class Blocks(NamedTuple):
    """The blocks of all d rows, and the pool that they lie in.

    Attributes
    ----------
    starts : (d,) int64, first slot of each block
    sizes : (d,) uint8, log2 of its number of slots, 0 where there is none, `WHOLE` for C of them
    used : (d,) int32, slots that hold a class
    classes : (p,) uint16 or uint32, C where a slot is empty
    values : (p,) float32
    sums : (p,) float32, a second value of each slot, or (0,) where there is none
    end : (1,) int64, first slot of the pool that is in no block
    """

    starts: np.ndarray
    sizes: np.ndarray
    used: np.ndarray
    classes: np.ndarray
    values: np.ndarray
    sums: np.ndarray
    end: np.ndarray

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in self)


def empty(d: int, k: int, *, sums: bool = False, slots: int = 1) -> Blocks:
    """Return the blocks of a (d, k) matrix of zeros, in a pool of so many slots, at least 1.

    By default the first row asks for a larger pool, which the first row of a warm-up does, too.
    """
    kind = np.uint16 if k < 2**16 else np.uint32
    return Blocks(
        np.zeros(d, np.int64),
        np.zeros(d, np.uint8),
        np.zeros(d, np.int32),
        np.full(slots, k, kind),
        np.zeros(slots, np.float32),
        np.zeros(slots if sums else 0, np.float32),
        np.zeros(1, np.int64),
    )


def roomier(blocks: Blocks, k: int, need: int) -> Blocks:
    """Return the same blocks side by side in a new pool, with at least `need` slots left free."""
    live = int(live_slots(blocks, k))
    made = empty(len(blocks.starts), k, sums=len(blocks.sums) > 0, slots=int(SLACK * live) + need)
    _copy(blocks, made, k)
    return made


def csr_of(blocks: Blocks, k: int, l1: float = 0.0) -> sp.csr_array:
    """Return the (d, k) matrix in CSR, each value taken `l1` towards zero, and no zeros."""
    d = len(blocks.starts)
    counts = np.zeros(d + 1, np.int64)
    _count(blocks, k, np.float32(l1), counts[1:])
    indptr = np.cumsum(counts)
    wide = np.int32 if max(indptr[-1], k) < 2**31 else np.int64
    indices, data = np.empty(indptr[-1], wide), np.empty(indptr[-1], np.float32)
    _fill(blocks, k, np.float32(l1), indptr, indices, data)
    made = sp.csr_array((data, indices, indptr.astype(wide)), shape=(d, k))
    made.sort_indices()
    return made


@njit(cache=True, inline="always")
def soft(value, l1):
    """Return `value`, taken l1 towards zero."""
    return max(value - l1, np.float32(0.0)) + min(value + l1, np.float32(0.0))


@njit(cache=True, inline="always")
def hashed(c, size):
    """Return the slot, of 2^size, at which the search for class c begins (Fibonacci hashing)."""
    product = np.uint64(c) * np.uint64(2654435769) & np.uint64(2**32 - 1)
    return product >> (np.uint64(32) - np.uint64(size))


@njit(cache=True, inline="always")
def position(starts, sizes, classes, f, c, k):
    """Return the slot of class c in the block of feature f, or -1 - (where it would go).

    It takes arrays, as compiled code may count references whenever it takes one out of a tuple,
    which costs more than all else here.
    """
    size = sizes[f]
    start = starts[f]
    if size == WHOLE:
        return start + np.int64(c)
    if size == 0:
        return np.int64(-1)
    mask = np.uint64((1 << int(size)) - 1)
    slot = hashed(c, size)
    while True:
        found = classes[np.uint64(start) + slot]
        if found == c:
            return start + np.int64(slot)
        if found == k:
            return -1 - (start + np.int64(slot))
        slot = (slot + np.uint64(1)) & mask


@njit(cache=True)
def slots_for(blocks, f, more, k):
    """Return the size that the block of feature f needs for `more` further classes."""
    size = blocks.sizes[f]
    if size == WHOLE:
        return size
    needed = blocks.used[f] + more
    size = max(size, np.uint8(LEAST))
    while needed > FULL * (1 << int(size)):
        size += np.uint8(1)
        if (1 << int(size)) > DENSE * k:
            return np.uint8(WHOLE)
    return size


@njit(cache=True)
def need_of(blocks, rows, i, more, k):
    """Return how many free slots the features of row i may need for `more` further classes each."""
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    need = 0
    for p in range(start, end):
        f = rows.indices[p - rows.shift * start]
        size = slots_for(blocks, f, more, k)
        if size != blocks.sizes[f]:
            need += k if size == WHOLE else 1 << int(size)
    return need


@njit(cache=True)
def reserve(blocks, f, more, k):
    """Give feature f a block with room for `more` further classes, moving what it holds."""
    size, old, start = slots_for(blocks, f, more, k), blocks.sizes[f], blocks.starts[f]
    if size == old:
        return
    end = blocks.end[0]
    length = k if size == WHOLE else 1 << int(size)
    blocks.starts[f], blocks.sizes[f] = end, size
    blocks.end[0] = end + length
    for p in range(end, end + length):
        blocks.classes[p] = p - end if size == WHOLE else k
        blocks.values[p] = 0.0
    if len(blocks.sums):
        blocks.sums[end : end + length] = 0.0
    if old == 0:
        return
    for p in range(start, start + (1 << int(old))):
        c = blocks.classes[p]
        if c != k:
            q = position(blocks.starts, blocks.sizes, blocks.classes, f, c, k)
            if q < 0:
                q = -1 - q
            blocks.classes[q] = c
            blocks.values[q], blocks.values[p] = blocks.values[p], 0.0
            if len(blocks.sums):
                blocks.sums[q] = blocks.sums[p]


@njit(cache=True)
def insert(used, classes, f, c, p):
    """Put class c where `position` says it would go, which must have room, and return the slot.

    Not inlined: with it, the loops around it become ten times as slow.
    """
    p = -1 - p
    classes[p] = c
    used[f] += 1
    return p


@njit(cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def add_scores(blocks, rows, i, l1, out, k):
    """Add row i times the matrix, its values taken l1 towards zero, to (k + 1,) `out`.

    In the precision of `out`.
    """
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    for p in range(start, end):
        f = np.uint64(rows.indices[p - rows.shift * start])
        size = blocks.sizes[f]
        if size == 0:
            continue
        x = out.dtype.type(rows.data[p])
        first = np.uint64(blocks.starts[f])
        if size == WHOLE:
            values = blocks.values[first : first + np.uint64(k)]
            if l1 == 0.0:
                for c in range(np.uint64(k)):
                    out[c] += x * values[c]
            else:
                for c in range(np.uint64(k)):
                    out[c] += x * soft(values[c], l1)
            continue
        length = np.uint64(1) << np.uint64(size)
        values = blocks.values[first : first + length]
        classes = blocks.classes[first : first + length]
        if l1 == 0.0:
            for q in range(length):
                out[np.uint64(classes[q])] += x * values[q]
        else:
            for q in range(length):
                out[np.uint64(classes[q])] += x * soft(values[q], l1)


@njit(cache=True)
def live_slots(blocks, k):
    """Return the number of slots of all blocks."""
    total = 0
    for size in blocks.sizes:
        if size:
            total += k if size == WHOLE else 1 << int(size)
    return total


@njit(cache=True)
def _copy(old, new, k):
    end = 0
    for f in range(len(old.starts)):
        size = old.sizes[f]
        new.sizes[f], new.used[f], new.starts[f] = size, old.used[f], end
        if size:
            length = k if size == WHOLE else 1 << int(size)
            start = old.starts[f]
            new.classes[end : end + length] = old.classes[start : start + length]
            new.values[end : end + length] = old.values[start : start + length]
            if len(old.sums):
                new.sums[end : end + length] = old.sums[start : start + length]
            end += length
    new.end[0] = end


@njit(cache=True)
def _count(blocks, k, l1, counts):
    for f in range(len(counts)):
        size = blocks.sizes[f]
        if size:
            start = blocks.starts[f]
            for p in range(start, start + (k if size == WHOLE else 1 << int(size))):
                counts[f] += soft(blocks.values[p], l1) != 0.0


@njit(cache=True)
def _fill(blocks, k, l1, indptr, indices, data):
    for f in range(len(blocks.starts)):
        size = blocks.sizes[f]
        if size:
            at, start = indptr[f], blocks.starts[f]
            for p in range(start, start + (k if size == WHOLE else 1 << int(size))):
                value = soft(blocks.values[p], l1)
                if value != 0.0:
                    indices[at], data[at] = blocks.classes[p], value
                    at += 1
