"""A (d, C) matrix that changes while it is read, sparse or dense: one block of slots
for each row.

Row f lists the classes that feature f has met, in a small hash table whose number of
slots is a power of two: a class is found by open addressing, and the whole block is
read by one short sweep, in which empty slots add zero to a class that does not exist. A
row with many classes has a slot for every class instead, as all rows of a dense matrix
have. So the matrix is its own inverted index, exact at all times. `products.py`
multiplies it by rows of data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.kernels.compiled import njit

WHOLE = 255  # in `sizes`: the block has a slot for every class
MIN_SIZE = 2  # log2 of the slots of the smallest block
SLACK = 1.5  # ratio of the slots of a new pool to those in use
PATCH = 2**16  # slots left free in a new pool, beyond those that were asked for
FULL = 0.8  # fraction of a block's slots above which it grows
DENSE = 0.5  # fraction of C slots above which a block gets a slot for every class


class Blocks(NamedTuple):
    """The blocks of all d rows, and the pool that they lie in."""

    starts: np.ndarray  # (d,) int64, first slot of each block
    sizes: (
        np.ndarray
    )  # (d,) uint8, log2 of its number of slots, 0 if it has none, WHOLE for C
    used: np.ndarray  # (d,) int32, slots that hold a class
    classes: (
        np.ndarray
    )  # (p,) uint16 or uint32, C if a slot is empty; (0,) if all are whole
    values: np.ndarray  # (p,) float32, or float64 of a dense matrix
    sums: np.ndarray  # (p,) a second value of each slot, or (0,) if there is none
    end: np.ndarray  # (1,) int64, first slot of the pool that is in no block
    k: int


@dataclass
class InBlocks:
    """The part of a state that is a matrix in blocks."""

    starts: np.ndarray
    sizes: np.ndarray
    used: np.ndarray
    classes: np.ndarray
    values: np.ndarray
    sums: np.ndarray
    end: np.ndarray
    k: int

    def blocks(self) -> Blocks:
        """Return the matrix, which compiled code changes in place."""
        return Blocks(*(getattr(self, name) for name in Blocks._fields))

    def hold(self, blocks: Blocks) -> None:
        """Take these blocks as the matrix."""
        vars(self).update(blocks._asdict())

    def run(self, kernel: Callable, *given) -> None:
        """Run a compiled pass to its end, in a larger pool whenever it lacks slots.

        The kernel takes the blocks, the place to begin at, and `given`; it returns the
        place it has reached and how many free slots it needs there, 0 at the end.
        """
        at, need = kernel(self.blocks(), 0, *given)
        while need:
            self.hold(roomier(self.blocks(), PATCH + need))
            at, need = kernel(self.blocks(), at, *given)


def empty(d: int, k: int, *, sums: bool = False, slots: int = 1) -> Blocks:
    """Return the blocks of a sparse (d, k) matrix of zeros, in a pool of `slots`, at
    least 1."""
    return Blocks(
        np.zeros(d, np.int64),
        np.zeros(d, np.uint8),
        np.zeros(d, np.int32),
        np.full(slots, k, _kind(k)),
        np.zeros(slots, np.float32),
        np.zeros(slots if sums else 0, np.float32),
        np.zeros(1, np.int64),
        k,
    )


def dense(W: np.ndarray, *, sums: bool = False) -> Blocks:
    """Return the blocks of a dense (d, k) matrix, whose values they share."""
    d, k = W.shape
    return Blocks(
        np.arange(d) * k,
        np.full(d, WHOLE, np.uint8),
        np.zeros(d, np.int32),
        np.zeros(0, _kind(k)),
        W.ravel(),
        np.zeros(W.size if sums else 0, W.dtype),
        np.array([W.size]),
        k,
    )


def _kind(k: int) -> type:
    """Return the smallest type that holds k, the number of the class that does not
    exist."""
    return np.uint16 if k < 2**16 else np.uint32


def slots_of(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots of all blocks, one block after the other, and their ends among
    them."""
    lengths = (blocks.sizes > 0) << blocks.sizes.astype(int)
    lengths[blocks.sizes == WHOLE] = blocks.k
    ends = np.append(0, np.cumsum(lengths))
    return np.repeat(blocks.starts - ends[:-1], lengths) + np.arange(ends[-1]), ends


def roomier(blocks: Blocks, need: int) -> Blocks:
    """Return the same blocks side by side in a new pool, with at least `need` slots
    left free."""
    slots, ends = slots_of(blocks)
    live, free, sums = (
        len(slots),
        int((SLACK - 1.0) * len(slots)) + need,
        len(blocks.sums) > 0,
    )
    made = empty(len(blocks.starts), blocks.k, sums=sums, slots=live + free)
    made.classes[:live], made.values[:live] = (
        blocks.classes[slots],
        blocks.values[slots],
    )
    if sums:
        made.sums[:live] = blocks.sums[slots]
    made.end[0] = live
    return made._replace(starts=ends[:-1].copy(), sizes=blocks.sizes, used=blocks.used)


def compacted(blocks: Blocks, need: int) -> Blocks:
    """Return a matrix without sums in a new pool without zeros, with `need` slots or
    more free."""
    W, k = matrix_of(blocks), blocks.k
    counts = np.diff(W.indptr)
    lengths = 2.0 ** np.ceil(np.log2(np.maximum(counts / FULL, 2**MIN_SIZE)))
    slots = np.where(lengths > DENSE * k, max(k, 2**MIN_SIZE), lengths)[
        counts > 0
    ].sum()
    made = empty(len(counts), k, slots=int(SLACK * slots) + need)
    _insert_all(made, W.indptr, W.indices, W.data)
    return made


def matrix_of(blocks: Blocks, l1: float = 0.0) -> sp.csr_array | np.ndarray:
    """Return the (d, k) matrix: the dense array, or CSR with values taken `l1` towards
    zero."""
    d, k, l1 = len(blocks.starts), blocks.k, np.float32(l1)
    if not len(blocks.classes):
        return blocks.values.reshape(d, k)
    slots, ends = slots_of(blocks)
    values = blocks.values[slots]
    values -= values.clip(-l1, l1)
    kept = values != 0.0
    ends = np.append(0, np.cumsum(kept))[ends]
    wide = np.int32 if max(ends[-1], k) < 2**31 else np.int64
    indices = blocks.classes[slots[kept]].astype(wide)
    made = sp.csr_array((values[kept], indices, ends.astype(wide)), shape=(d, k))
    made.sort_indices()
    return made


@njit(cache=True)
def soft(value, l1):
    """Return `value`, taken l1 towards zero; an l1 of None, known at compile time, is
    0."""
    if l1 is None:
        return value
    return max(value - l1, np.float32(0.0)) + min(value + l1, np.float32(0.0))


@njit(cache=True, inline="always")
def hashed(c, size):
    """Return the slot, of 2^size, at which the search for class c begins (Fibonacci
    hashing)."""
    product = np.uint64(c) * np.uint64(2654435769) & np.uint64(2**32 - 1)
    return product >> (np.uint64(32) - np.uint64(size))


@njit(cache=True, inline="always")
def position(starts, sizes, classes, f, c, k):
    """Return the slot of class c in the block that feature f has, or -1 - (where it
    would go).

    It takes arrays: compiled code may count references whenever it takes one out of a
    tuple, which would cost more than everything else here.
    """
    size = sizes[f]
    start = starts[f]
    if size == WHOLE:
        return start + np.int64(c)
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
def slots_for(size, needed, k):
    """Return the size that a block of this size must have to hold `needed` classes."""
    if size == WHOLE:
        return size
    size = max(size, np.uint8(MIN_SIZE))
    while needed > FULL * (1 << int(size)):
        size += np.uint8(1)
        if (1 << int(size)) > DENSE * k:
            return np.uint8(WHOLE)
    return size


@njit(cache=True)
def length_of(size, k):
    """Return the number of slots of a block of this size."""
    if size == WHOLE:
        return k
    return 1 << int(size) if size else 0


@njit(cache=True)
def reserve(blocks, f, more):
    """Give feature f a block with room for `more` further classes, moving what it
    holds."""
    old, start, k = blocks.sizes[f], blocks.starts[f], blocks.k
    size = slots_for(old, blocks.used[f] + more, k)
    if size == old:
        return
    end = blocks.end[0]
    length = length_of(size, k)
    blocks.starts[f], blocks.sizes[f] = end, size
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
            blocks.values[q], blocks.values[p] = blocks.values[p], 0.0
            if len(blocks.sums):
                blocks.sums[q] = blocks.sums[p]


@njit(cache=True)
def insert(used, classes, f, c, p):
    """Put class c where `position` would have it, which must have room, and return the
    slot.

    It is not inlined: the loops around it would become ten times as slow.
    """
    p = -1 - p
    classes[p] = c
    used[f] += 1
    return p


@njit(cache=True)
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
