"""A (d, C) matrix, sparse or dense, that can change while it is read: each row has one
block of slots.

Row f lists the classes that have a weight at feature f, in a small hash table whose
number of slots is a power of two. A class is found by open addressing. One short loop
reads the whole block; empty slots add zero to a class that does not exist. A row with
many classes has a slot for every class instead, like all rows of a dense matrix. So the
matrix is its own inverted index, and is always exact. `products.py` multiplies it by
rows of data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Array
from workbench.kernels.compiled import njit

WHOLE = 255  # this size means that the block has a slot for every class
MIN_SIZE = 2  # log2 of the number of slots of the smallest block
SLACK = 1.5  # ratio of the slots of a new pool to the slots in use
PATCH = 2**16  # number of free slots in a new pool, in addition to the requested ones
FULL = 0.8  # a block grows if a larger fraction of its slots is in use
# A block that would need more than this fraction of C slots gets a slot for every
# class.
DENSE = 0.5


class Blocks(NamedTuple):
    """The blocks of all d rows, and the pool of p slots that contains them."""

    starts: Array  # (d,) int64, first slot of each block
    # (d,) uint8, log2 of the number of slots of each block; 0 means none, WHOLE means C
    sizes: Array
    # (d,) int32, number of slots of each block that have a class; not kept up to date
    # for whole blocks
    used: Array
    # (p,) uint16 or uint32, C if a slot is empty; (0,) if the matrix is dense
    classes: Array
    values: Array  # (p,) float32, or float64 of a dense matrix
    sums: Array  # (p,) a second value of each slot, or (0,) if there is none
    end: Array  # (1,) int64, first slot of the pool that is in no block
    k: int


@dataclass
class InBlocks:
    """The fields of a state that store a matrix in blocks."""

    starts: Array
    sizes: Array
    used: Array
    classes: Array
    values: Array
    sums: Array
    end: Array
    k: int

    def blocks(self) -> Blocks:
        """Return the matrix, which compiled code changes in place."""
        return Blocks(*(getattr(self, name) for name in Blocks._fields))

    def hold(self, blocks: Blocks) -> None:
        """Replace the matrix by these blocks."""
        vars(self).update(blocks._asdict())

    def run(self, kernel: Callable, *arguments) -> None:
        """Run a compiled pass to its end; whenever it lacks slots, enlarge the pool.

        The kernel takes the blocks, the position at which to begin, and `arguments`. It
        returns the position that it has reached and the number of free slots that it
        needs there, which is 0 at the end.
        """
        place, need = kernel(self.blocks(), 0, *arguments)
        while need:
            self.hold(roomier(self.blocks(), PATCH + need))
            place, need = kernel(self.blocks(), place, *arguments)


def empty(d: int, k: int, *, sums: bool = False, slots: int = 1) -> Blocks:
    """Return the blocks of a sparse (d, k) matrix of zeros in a pool of `slots`."""
    seconds = slots if sums else 0
    return Blocks(
        np.zeros(d, np.int64),
        np.zeros(d, np.uint8),
        np.zeros(d, np.int32),
        np.full(slots, k, _kind(k)),
        np.zeros(slots, np.float32),
        np.zeros(seconds, np.float32),
        np.zeros(1, np.int64),
        k,
    )


def dense(W: Array, *, sums: bool = False) -> Blocks:
    """Return the blocks of a dense (d, k) matrix, with which they share memory."""
    d, k = W.shape
    seconds = W.size if sums else 0
    return Blocks(
        np.arange(d) * k,
        np.full(d, WHOLE, np.uint8),
        np.zeros(d, np.int32),
        np.zeros(0, _kind(k)),
        W.ravel(),
        np.zeros(seconds, W.dtype),
        np.array([W.size]),
        k,
    )


def _kind(k: int) -> type:
    """Return the smallest type that can store k, which marks empty slots."""
    return np.uint16 if k < 2**16 else np.uint32


def slots_of(blocks: Blocks) -> tuple[Array, Array]:
    """Return the slots of all blocks, one block after another, and their ends."""
    lengths = (blocks.sizes > 0) << blocks.sizes.astype(int)
    lengths[blocks.sizes == WHOLE] = blocks.k
    ends = np.append(0, np.cumsum(lengths))
    return np.repeat(blocks.starts - ends[:-1], lengths) + np.arange(ends[-1]), ends


def roomier(blocks: Blocks, need: int) -> Blocks:
    """Return the same blocks side by side in a pool with `need` or more free slots."""
    slots, ends = slots_of(blocks)
    n = len(slots)
    size = n + int((SLACK - 1.0) * n) + need
    sums = len(blocks.sums) > 0
    new = empty(len(blocks.starts), blocks.k, sums=sums, slots=size)
    new.classes[:n] = blocks.classes[slots]
    new.values[:n] = blocks.values[slots]
    if sums:
        new.sums[:n] = blocks.sums[slots]
    new.end[0] = n
    return new._replace(starts=ends[:-1].copy(), sizes=blocks.sizes, used=blocks.used)


def compacted(blocks: Blocks, need: int) -> Blocks:
    """Return the blocks without zeros and sums, with `need` or more free slots."""
    W = matrix_of(blocks)
    k = blocks.k
    counts = np.diff(W.indptr)
    lengths = 2.0 ** np.ceil(np.log2(np.maximum(counts / FULL, 2**MIN_SIZE)))
    lengths[lengths > DENSE * k] = max(k, 2**MIN_SIZE)
    slots = lengths[counts > 0].sum()
    new = empty(len(counts), k, slots=int(SLACK * slots) + need)
    _insert_all(new, W.indptr, W.indices, W.data)
    return new


def matrix_of(blocks: Blocks, l1: float = 0.0) -> sp.csr_array | Array:
    """Return the (d, k) matrix, dense or CSR, with values moved by `l1` towards 0."""
    k = blocks.k
    shape = len(blocks.starts), k
    l1 = np.float32(l1)
    if not len(blocks.classes):
        W = blocks.values.reshape(shape)
        return W - W.clip(-l1, l1) if l1 else W
    slots, ends = slots_of(blocks)
    values = blocks.values[slots]
    values -= values.clip(-l1, l1)
    nonzero = values != 0.0
    ends = np.append(0, np.cumsum(nonzero))[ends]
    integer = np.int32 if max(ends[-1], k) < 2**31 else np.int64
    indices = blocks.classes[slots[nonzero]].astype(integer)
    matrix = sp.csr_array((values[nonzero], indices, ends.astype(integer)), shape)
    matrix.sort_indices()
    return matrix


@njit
def soft(value, l1):
    """Return `value`, moved by `l1` towards zero; None means 0 at compile time."""
    if l1 is None:
        return value
    return max(value - l1, np.float32(0.0)) + min(value + l1, np.float32(0.0))


@njit(inline="always")
def hashed(c, size):
    """Return the slot, of 2^size, at which the search for c begins (Fibonacci hash)."""
    product = np.uint64(c) * np.uint64(2654435769) & np.uint64(2**32 - 1)
    return product >> (np.uint64(32) - np.uint64(size))


@njit(inline="always")
def position(starts, sizes, classes, f, c, k):
    """Return the slot of class c in the block of feature f, or -1 - p if it has none
    and p is free for it.

    The arguments are arrays: compiled code may count references whenever it takes an
    array out of a tuple, which would take longer than everything else here.
    """
    size = sizes[f]
    start = starts[f]
    if size == WHOLE:
        return start + np.int64(c)
    mask = np.uint64((1 << int(size)) - 1)
    slot = hashed(c, size)
    while True:
        entry = classes[np.uint64(start) + slot]
        if entry == c:
            return start + np.int64(slot)
        if entry == k:
            return -1 - (start + np.int64(slot))
        slot = (slot + np.uint64(1)) & mask


@njit
def slots_for(size, needed, k):
    """Return the size to which a block must grow for `needed` classes."""
    if size == WHOLE:
        return size
    size = max(size, np.uint8(MIN_SIZE))
    while needed > FULL * (1 << int(size)):
        size += np.uint8(1)
        if (1 << int(size)) > DENSE * k:
            return np.uint8(WHOLE)
    return size


@njit
def length_of(size, k):
    """Return the number of slots of a block of this size."""
    if size == WHOLE:
        return k
    return 1 << int(size) if size else 0


@njit
def reserve(blocks, f, more):
    """Move the entries of feature f to a larger block if `more` further classes need
    it."""
    old = blocks.sizes[f]
    start = blocks.starts[f]
    k = blocks.k
    size = slots_for(old, blocks.used[f] + more, k)
    if size == old:
        return
    end = blocks.end[0]
    length = length_of(size, k)
    blocks.starts[f] = end
    blocks.sizes[f] = size
    blocks.end[0] = end + length
    for p in range(end, end + length):
        blocks.classes[p] = p - end if size == WHOLE else k
        blocks.values[p] = 0.0
    blocks.sums[end : end + length] = 0.0
    for p in range(start, start + length_of(old, k)):
        c = blocks.classes[p]
        if c != k:
            q = position(blocks.starts, blocks.sizes, blocks.classes, f, c, k)
            q = max(q, -1 - q)
            blocks.classes[q] = c
            blocks.values[q] = blocks.values[p]
            blocks.values[p] = 0.0
            if len(blocks.sums):
                blocks.sums[q] = blocks.sums[p]


@njit
def insert(used, classes, f, c, p):
    """Put class c into the free slot that `position` returned as `p`; return the slot.

    The function is not inlined, which would make the loops around it ten times as slow.
    """
    slot = -1 - p
    classes[slot] = c
    used[f] += 1
    return slot


@njit
def _insert_all(new, ends, classes, values):
    for f in range(len(ends) - 1):
        if ends[f + 1] > ends[f]:
            reserve(new, f, ends[f + 1] - ends[f])
        for p in range(ends[f], ends[f + 1]):
            c = np.int64(classes[p])
            q = position(new.starts, new.sizes, new.classes, f, c, new.k)
            if q < 0:
                q = insert(new.used, new.classes, f, c, q)
            new.values[q] = values[p]
