"""The compiled core of MEMOIR's solvers: the updates of W by the rows of a batch.

W is held as scale * U, so that shrinking and projecting it cost O(1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.kernels.compiled import njit
from workbench.memoir.blocks import length_of, soft
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores

# The numbers that a run carries along: the scale; |U|^2; the sum of all scales so far, for the
# average of iterates; the sum of all steps in units of U; and the number of violated margins.
SCALE, SQUARE, MASS, TOTAL, VIOLATED = range(5)
NUMBERS = 1.0, 0.0, 0.0, 0.0, 0.0  # the numbers of W = 0
NO_ANSWERS = np.zeros(0, np.int32)


class Taken(NamedTuple):
    """The steps that rows took, from which a dual point follows; empty arrays note nothing."""

    classes: np.ndarray  # (m,) int32, the wrong class r of each row
    steps: np.ndarray  # (m,) float64, how far it moved two columns of U, 0 if it did not


NOT_NOTED = Taken(NO_ANSWERS, np.zeros(0))


@njit(cache=True)
def scratch_of(k, like):
    """Return arrays for the scores of k classes, in the precision of `like`, and for a pair."""
    return np.empty(k + 1, like.dtype), np.empty(2, np.int64), np.empty(2)


@njit(cache=True)
def visit(blocks, at, rows, batch, y, answers, etas, numbers, R, taken, k):
    """Take the rows of a batch in turn, from place `at` on; the inner loop of both boxes.

    The comments have the line numbers of both boxes; line 11 of Algorithm 2 adds y and r to R.

    Parameters
    ----------
    answers : (m,) int32, the class r that a search found for each row; or (0,) to find the best
        one under the current weights
    etas : (m,) step size of each row
    numbers : (5,) float64, see `SCALE`; changed in place, as are the blocks
    R : (k,) bool, the classes y and r of these rows; changed in place
    taken : :class:`Taken`, changed in place

    Returns
    -------
    at : the place of the next row
    need : free slots that the blocks lack for it, 0 at the end
    """
    scratch = scratch_of(k, blocks.values)
    while at < len(batch):
        need = lacks_room(blocks, rows, np.uint64(batch[at]), 2, k)
        if need:
            return at, need
        take(blocks, at, rows, batch, y, answers, etas[at], numbers, R, taken, scratch, k)
        at += 1
    return at, 0


@njit(cache=True, inline="always")
def take(blocks, at, rows, batch, y, answers, eta, numbers, R, taken, scratch, k):
    """Take the row at this place of the batch; else as :func:`visit`."""
    out, pair, moves = scratch
    i = np.uint64(batch[at])  # line 5
    own = np.int64(y[i])
    r, margin = search(blocks, rows, i, own, at, answers, out, pair, moves, k)  # line 6
    if numbers[SCALE] * margin < 1.0:  # line 7
        step = eta / numbers[SCALE]
        pair[0], pair[1], moves[0], moves[1] = own, r, step, -step
        add_outer(blocks, rows, i, moves, pair, numbers[MASS], k)  # lines 8 and 9
        numbers[SQUARE] += 2 * step * margin + 2 * step * step * squared(rows, i)
        numbers[TOTAL] += step
        numbers[VIOLATED] += 1.0
        if len(taken.classes):
            taken.classes[at], taken.steps[at] = r, step
    R[own] = R[r] = True  # line 11 of Algorithm 2
    if len(blocks.sums):
        numbers[MASS] += numbers[SCALE]


@njit(cache=True, inline="always")
def search(blocks, rows, i, own, at, answers, out, pair, both, k):
    """Return the class r != y_i and x_i.(u_y - u_r): the best class, or the answer of a search.

    `out` (k + 1,), `pair` (2,) and `both` (2,) are overwritten.
    """
    if len(answers):
        r = np.int64(answers[at])
        pair[0], pair[1] = own, r
        set_scores(blocks, rows, i, pair, None, both, k)
        return r, both[0] - both[1]
    out[:] = 0.0
    add_scores(blocks, rows, i, None, out, k)
    score = np.float64(out[own])
    out[own] = -np.inf
    r = 0
    for c in range(1, k):
        if out[c] > out[r]:
            r = c
    return r, score - np.float64(out[r])


@njit(cache=True, inline="always")
def project(numbers, lam):
    """Shorten W to the ball |W| <= 1 / sqrt(lam)."""
    length = numbers[SCALE] * np.sqrt(lam * max(numbers[SQUARE], 0.0))
    numbers[SCALE] /= max(1.0, length)


@njit(cache=True)
def fold(blocks, numbers):
    """Multiply the scale into U, before its digits are lost."""
    scale = numbers[SCALE]
    for p in range(blocks.end[0]):
        blocks.values[p] *= blocks.values.dtype.type(scale)
    numbers[SQUARE] *= scale * scale
    numbers[TOTAL] *= scale
    numbers[SCALE] = 1.0


@njit(cache=True)
def truncate(blocks, thresholds, k):
    """Take the values of each class towards zero by its (k,) float32 threshold, as in (13)."""
    for f in range(len(blocks.starts)):
        start = blocks.starts[f]
        for p in range(start, start + length_of(blocks.sizes[f], k)):
            if blocks.values[p] != 0.0:
                c = p - start if len(blocks.classes) == 0 else np.int64(blocks.classes[p])
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
