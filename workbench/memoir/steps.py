"""The compiled core of MEMOIR's solvers: the updates of W by the rows of a batch.

W is stored as scale * U, so that shrinking and projecting it cost O(1).
"""

from typing import NamedTuple

import numpy as np

from workbench.core.kinds import Array
from workbench.kernels.compiled import njit
from workbench.kernels.rows import Rows
from workbench.memoir.blocks import Blocks, length_of, soft
from workbench.memoir.products import (
    add_outer,
    add_scores,
    lacks_room,
    set_scores,
    span,
)

# The numbers of a run: the scale, and |U|^2, which the projection needs.
SCALE, SQUARE = range(2)
NUMBERS = 1.0, 0.0  # the numbers of W = 0
NO_ANSWERS = np.zeros(0, np.int32)


class Batch(NamedTuple):
    """A batch b_t: some rows in the order of their visits, and their step sizes."""

    x: Rows  # all rows of the problem
    y: Array  # (n,) labels of all rows
    j: Array  # (m,) the rows of this batch
    # (m,) int32, wrong classes that a search found; (0,) if the best under W are used
    r: Array
    eta: Array  # (m,) step sizes
    before: int = 0  # number of earlier rows, for the average of iterates


class Taken(NamedTuple):
    """The steps of the rows of a batch."""

    classes: Array  # (m,) int32, the wrong class r of each row
    # (m,) float64, the step of each row in two columns of U; 0 if it took none
    steps: Array


class Scratch(NamedTuple):
    """Memory for one step, allocated once per batch."""

    out: Array  # (k + 1,) the scores of all classes
    pair: Array  # (2,) the classes of a step
    moves: Array  # (2,) the steps of these classes, or their scores


def none_taken(m: int) -> Taken:
    """Return arrays for the steps of `m` rows."""
    return Taken(np.empty(m, np.int32), np.zeros(m))


def scratch_of(blocks: Blocks) -> Scratch:
    """Return the memory of a step, for scores in the precision of the blocks."""
    out = np.empty(blocks.k + 1, blocks.values.dtype)
    return Scratch(out, np.empty(2, np.int64), np.empty(2))


@njit(inline="always")
def visit(blocks, at, end, batch, numbers, taken, scratch):
    """Visit the rows of a batch from position `at` to `end`: both boxes' inner loop.

    The comments have the line numbers of both boxes. The blocks of U, its `numbers` and
    `taken` change in place.

    Returns
    -------
    at : the position of the next row
    need : the number of free slots that the blocks lack for this row; 0 at the end
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
        if len(answers):  # line 6, by a search
            r = np.int64(answers[at])
            pair[0] = y
            pair[1] = r
            set_scores(blocks, x, j, pair, None, moves)
            margin = moves[0] - moves[1]
        else:  # line 6, exactly
            out[:] = 0.0
            add_scores(blocks, x, j, None, out)
            r, margin = best_wrong(out, y)
        if numbers[SCALE] * margin < 1.0:  # line 7
            eta = etas[at] / numbers[SCALE]  # W = scale U moves by the printed step
            pair[0] = r  # line 8
            moves[0] = -eta
            pair[1] = y  # line 9
            moves[1] = eta
            add_outer(blocks, x, j, moves, pair, np.float64(before + at))
            # |U|^2, for line 12
            numbers[SQUARE] += 2 * eta * (margin + eta * squared(x, j))
            steps[at] = eta
        classes[at] = r
        at += 1
    return at, 0


@njit(inline="always")
def best_wrong(out, y):
    """Return the first class r != y with the largest score, and the margin of y over
    it.

    `out` contains the scores of all classes and one further entry; the score of y is
    overwritten.
    """
    score = np.float64(out[y])
    out[y] = -np.inf
    r = 0
    for c in range(1, len(out) - 1):
        if out[c] > out[r]:
            r = c
    return r, score - np.float64(out[r])


@njit(inline="always")
def project(numbers, lam):
    """Shorten W to the ball |W| <= 1 / sqrt(lam): lines 12 and 13 of Algorithm 1."""
    length = numbers[SCALE] * np.sqrt(lam * max(numbers[SQUARE], 0.0))
    numbers[SCALE] /= max(1.0, length)


@njit
def fold(blocks, numbers):
    """Multiply the scale into U, before it becomes too small."""
    scale = numbers[SCALE]
    for p in range(blocks.end[0]):
        blocks.values[p] *= blocks.values.dtype.type(scale)
    numbers[SQUARE] *= scale * scale
    numbers[SCALE] = 1.0


@njit
def truncate(blocks, thresholds):
    """Move the weights of each class towards zero by its threshold, as in (13)."""
    k = blocks.k
    for f in range(len(blocks.starts)):
        start = blocks.starts[f]
        for p in range(start, start + length_of(blocks.sizes[f], k)):
            if blocks.values[p] != 0.0:
                c = p - start
                if len(blocks.classes):
                    c = np.int64(blocks.classes[p])
                blocks.values[p] = soft(blocks.values[p], thresholds[c])


@njit
def square_of(blocks):
    """Return |U|^2."""
    total = 0.0
    for p in range(blocks.end[0]):
        total += np.float64(blocks.values[p]) ** 2
    return total


@njit
def squared(rows, i):
    """Return |x_i|^2."""
    start, end, _ = span(rows, i)
    total = 0.0
    for p in range(start, end):
        total += np.float64(rows.data[p]) ** 2
    return total
