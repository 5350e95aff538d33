"""The compiled core of MEMOIR's solvers: the updates of W by the rows of a batch.

W is held as scale * U, so that shrinking and projecting it cost O(1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.kernels.compiled import njit
from workbench.kernels.rows import Rows
from workbench.memoir.blocks import Blocks, length_of, soft
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores

# The numbers that a run carries along: the scale, and |U|^2, which the projection
# needs.
SCALE, SQUARE = range(2)
NUMBERS = 1.0, 0.0  # the numbers of W = 0
NO_ANSWERS = np.zeros(0, np.int32)


class Batch(NamedTuple):
    """A batch b_t: some rows in the order of their visits, with what their steps depend
    on."""

    x: Rows  # all rows of the problem
    y: np.ndarray  # (n,) their labels
    j: np.ndarray  # (m,) the rows of this batch
    r: (
        np.ndarray
    )  # (m,) int32, wrong classes that a search found; (0,) for the best under W
    eta: np.ndarray  # (m,) step sizes
    before: int = 0  # rows visited before these, for the average of iterates


class Taken(NamedTuple):
    """The steps that the rows of a batch took."""

    classes: np.ndarray  # (m,) int32, the wrong class r of each row
    steps: (
        np.ndarray
    )  # (m,) float64, how far it moved two columns of U, 0 if it did not


class Scratch(NamedTuple):
    """Memory of one step, allocated once for a batch."""

    out: np.ndarray  # (k + 1,) the scores of all classes
    pair: np.ndarray  # (2,) the classes of a step
    moves: np.ndarray  # (2,) how far they move, or their scores


def none_taken(m: int) -> Taken:
    """Return room for the steps of `m` rows."""
    return Taken(np.empty(m, np.int32), np.zeros(m))


def scratch_of(blocks: Blocks) -> Scratch:
    """Return the memory of a step, with scores in the precision of the blocks."""
    out = np.empty(blocks.k + 1, blocks.values.dtype)
    return Scratch(out, np.empty(2, np.int64), np.empty(2))


@njit(cache=True, inline="always")
def visit(blocks, at, end, batch, numbers, taken, scratch):
    """Take the rows of a batch in turn, from place `at` to `end`: the inner loop of
    both boxes.

    The comments have the line numbers of both boxes. The blocks of U, its `numbers` and
    `taken` are changed in place.

    Returns
    -------
    at : the place of the next row
    need : free slots that the blocks lack for it, 0 at the end
    """
    x, labels, rows, answers, etas, before = batch
    out, pair, moves = scratch
    classes, steps = taken
    while at < end:  # line 5
        j = np.uint64(rows[at])
        need = lacks_room(blocks, x, j, 2)
        if need:
            return at, need
        y = np.int64(labels[j])
        if len(answers):  # line 6, of a search
            pair[0], pair[1] = y, answers[at]
            set_scores(blocks, x, j, pair, None, moves)
            r, margin = pair[1], moves[0] - moves[1]
        else:  # line 6, exactly
            out[:] = 0.0
            add_scores(blocks, x, j, None, out)
            r, margin = best_wrong(out, y)
        if numbers[SCALE] * margin < 1.0:  # line 7
            eta = etas[at] / numbers[SCALE]  # W = scale U moves by the printed step
            pair[0], moves[0] = r, -eta  # line 8
            pair[1], moves[1] = y, eta  # line 9
            add_outer(blocks, x, j, moves, pair, np.float64(before + at))
            numbers[SQUARE] += (
                2 * eta * (margin + eta * squared(x, j))
            )  # |U|^2, for line 12
            steps[at] = eta
        classes[at] = r
        at += 1
    return at, 0


@njit(cache=True, inline="always")
def best_wrong(out, y):
    """Return the class r != y of the largest score, the lowest of equals, and y's
    margin over it.

    `out` has the scores of all classes, and one more; that of y is overwritten.
    """
    score = np.float64(out[y])
    out[y] = -np.inf
    r = 0
    for c in range(1, len(out) - 1):
        if out[c] > out[r]:
            r = c
    return r, score - np.float64(out[r])


@njit(cache=True, inline="always")
def project(numbers, lam):
    """Shorten W to the ball |W| <= 1 / sqrt(lam): lines 12 and 13 of Algorithm 1."""
    length = numbers[SCALE] * np.sqrt(lam * max(numbers[SQUARE], 0.0))
    numbers[SCALE] /= max(1.0, length)


@njit(cache=True)
def fold(blocks, numbers):
    """Multiply the scale into U, before its digits are lost."""
    scale = numbers[SCALE]
    for p in range(blocks.end[0]):
        blocks.values[p] *= blocks.values.dtype.type(scale)
    numbers[SQUARE] *= scale * scale
    numbers[SCALE] = 1.0


@njit(cache=True)
def truncate(blocks, thresholds):
    """Take the values of each class towards zero by its (k,) float32 threshold, as in
    (13)."""
    k = blocks.k
    for f in range(len(blocks.starts)):
        start = blocks.starts[f]
        for p in range(start, start + length_of(blocks.sizes[f], k)):
            if blocks.values[p] != 0.0:
                c = (
                    p - start
                    if len(blocks.classes) == 0
                    else np.int64(blocks.classes[p])
                )
                blocks.values[p] = soft(blocks.values[p], thresholds[c])


@njit(cache=True)
def square_of(blocks):
    """Return |U|^2."""
    total = 0.0
    for p in range(blocks.end[0]):
        total += np.float64(blocks.values[p]) ** 2
    return total


@njit(cache=True)
def squared(rows, i):
    """Return |x_i|^2."""
    total = 0.0
    for p in range(rows.starts[i], rows.starts[i + np.uint64(1)]):
        total += np.float64(rows.data[p]) ** 2
    return total
