"""The inside of Algorithms 1 and 2 of MEMOIR, compiled, with every switch of the authors' code.

W is held as scale * U, so that shrinking and projecting cost O(1). For the average of the
iterates W^1 .. W^t, S sums the changes of U at the weight of their time: with the mass
M_t = scale_1 + .. + scale_t, a change after step t counts in all iterates but the first t, so

    W^1 + .. + W^t = M_t U - S,   S = sum over changes of (M at that time) * change.

When the scale is multiplied into U, all that is summed so far goes into S, and M begins at 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.kernels.compiled import njit
from workbench.memoir.blocks import length_of, soft
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores

# The numbers that a run carries along: the scale, |U|^2, the mass, the sum of all steps in units
# of U, how many margins were violated, and how many steps were taken.
SCALE, SQUARE, MASS, TOTAL, UPDATES, STEP = range(6)
NUMBERS = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0  # the numbers of W = 0
AS_IT_IS = np.float32(0.0)  # taken off values that are read
NOBODY = np.zeros(0, np.int32)


class Taken(NamedTuple):
    """The steps that rows took, from which a dual point follows.

    Attributes
    ----------
    classes : (m,) int32, the wrong class r of each row drawn; or (0,) to note nothing
    steps : (m,) float64, how far it moved the columns of two classes of U, 0 if it did not
    folded : (1,) the product of all scales that were multiplied into U
    """

    classes: np.ndarray
    steps: np.ndarray
    folded: np.ndarray


NOT_NOTED = Taken(NOBODY, np.zeros(0), np.ones(1))


class Rules(NamedTuple):
    """The settings of every step.

    Attributes
    ----------
    lam : after a step, W is projected onto the ball |W| <= 1 / sqrt(lam); 0 for no projection
    hinge : change W only for rows that violate their margin
    least : scale below which it is multiplied into U; an average cancels by as many digits
    """

    lam: float
    hinge: bool
    least: float


class Batches(NamedTuple):
    """Rows that are taken one after the other, and the steps that end with some of them.

    Attributes
    ----------
    rows : (m,) int64
    ends : (b,) int64, the place in `rows` after the last of each batch
    shrinks : (b,) the factor by which each batch multiplies W before its first row
    steps : (b,) how far a row of the batch moves the columns of two classes
    """

    rows: np.ndarray
    ends: np.ndarray
    shrinks: np.ndarray
    steps: np.ndarray


class Answers(NamedTuple):
    """Answers of a search for the best wrong class of each row, where they are not exact ones.

    Attributes
    ----------
    classes : (m,) int32, or (0,) for an exact search under the weights of that moment
    margins : (m,) float64, x.(u_y - u_r) of an earlier moment, or (0,) for those of the moment
    spare : (m,) in [0, 1): a row whose best score is not positive gets a class without weights,
        at this share of them; or (0,)
    """

    classes: np.ndarray
    margins: np.ndarray
    spare: np.ndarray


@njit(cache=True)
def take(blocks, at, rows, y, batches, answers, rules, whole, numbers, touched, met, taken, k):
    """Take the steps of some batches, from row `at` on, until all are done or room is lacking.

    Parameters
    ----------
    whole : end every step here, by projecting W; otherwise :func:`finish` has to
    numbers : (6,) float64, see `SCALE`; changed in place, as are the blocks
    touched, met : (k,) bool, the classes y and r of these rows, and those ever changed; in place
    taken : :class:`Taken`, of all steps since U = W; in place

    Returns
    -------
    at : the place of the next row
    need : free slots that it needs, 0 at the end
    """
    out, pair, moves = np.empty(k + 1, blocks.values.dtype), np.empty(2, np.int64), np.empty(2)
    drawn = batches.rows
    b = np.searchsorted(batches.ends, at, side="right")
    while at < len(drawn):
        i = np.uint64(drawn[at])
        need = lacks_room(blocks, rows, i, 2, k)
        if need:
            return at, need
        if at == (batches.ends[b - 1] if b else 0):
            numbers[STEP] += 1
            numbers[SCALE] *= batches.shrinks[b]
        own = np.int64(y[i])
        if len(answers.margins):
            r, margin = np.int64(answers.classes[at]), answers.margins[at]
        else:
            r, margin = search(blocks, rows, i, own, at, answers, met, out, pair, moves, k)
        touched[own] = touched[r] = True
        violated = numbers[SCALE] * margin < 1.0
        numbers[UPDATES] += violated
        if violated or not rules.hinge:
            step = batches.steps[b] / numbers[SCALE]
            pair[0], pair[1], moves[0], moves[1] = own, r, step, -step
            add_outer(blocks, rows, i, moves, pair, numbers[MASS], k)
            numbers[SQUARE] += 2 * step * margin + 2 * step * step * squared(rows, i)
            numbers[TOTAL] += step
            if len(taken.classes):
                taken.classes[at], taken.steps[at] = r, step
            met[own] = met[r] = True
        at += 1
        if at == batches.ends[b]:
            if whole:
                total = numbers[TOTAL]
                finish(blocks, rules, numbers)
                if len(taken.classes) and numbers[TOTAL] != total:
                    taken.folded[0] *= numbers[TOTAL] / total
                    for before in range(at):
                        taken.steps[before] *= numbers[TOTAL] / total
            b += 1
    return at, 0


@njit(cache=True)
def add_taken(weights, rows, taken, gain):
    """Add `gain` times each step to (n, k) `weights`, at its row and wrong class."""
    for at in range(len(rows)):
        if taken.steps[at]:
            weights[np.uint64(rows[at]), np.uint64(taken.classes[at])] += gain * taken.steps[at]


@njit(cache=True, inline="always")
def finish(blocks, rules, numbers):
    """End a step: project W if asked to, and count it in the average."""
    if rules.lam:
        length = numbers[SCALE] * np.sqrt(rules.lam * max(numbers[SQUARE], 0.0))
        if length > 1.0:
            numbers[SCALE] /= length
    numbers[MASS] += numbers[SCALE]
    if numbers[SCALE] < rules.least:
        fold(blocks, numbers)


@njit(cache=True)
def fold(blocks, numbers):
    """Multiply the scale into U, and put into S what the iterates so far have summed to."""
    U, S, scale = blocks.values, blocks.sums, numbers[SCALE]
    for p in range(min(len(S), blocks.end[0])):
        S[p] -= S.dtype.type(numbers[MASS] * U[p])
    for p in range(blocks.end[0]):
        U[p] *= U.dtype.type(scale)
    numbers[SQUARE] *= scale * scale
    numbers[TOTAL] *= scale
    numbers[SCALE], numbers[MASS] = 1.0, 0.0


@njit(cache=True, inline="always")
def search(blocks, rows, i, own, at, answers, met, out, pair, both, k):
    """Return the class r != y_i and x_i.(u_y - u_r): the best, or the answer of a search.

    `out` (k + 1,), `pair` (2,) and `both` (2,) are overwritten.
    """
    if len(answers.classes):
        r = np.int64(answers.classes[at])
        pair[0], pair[1] = own, r
        set_scores(blocks, rows, i, pair, AS_IT_IS, both, k)
        score, best = both[0], both[1]
    else:
        out[:] = 0.0
        add_scores(blocks, rows, i, AS_IT_IS, out, k)
        score = np.float64(out[own])
        out[own] = -np.inf
        r = 0
        for c in range(1, k):
            if out[c] > out[r]:
                r = c
        best = np.float64(out[r])
    if len(answers.spare) and best <= 0.0:
        c = empty_class(met, own, answers.spare[at])
        if c >= 0:
            r, best = c, 0.0
    return r, score - best


@njit(cache=True, nogil=True)
def answer(blocks, rows, y, drawn, first, last, answers, met, r, margins, k):
    """Fill `r` and `margins`, those of U, from place `first` to `last` of the rows drawn."""
    out, pair, both = np.empty(k + 1, blocks.values.dtype), np.empty(2, np.int64), np.empty(2)
    for at in range(first, last):
        i = np.uint64(drawn[at])
        found = search(blocks, rows, i, np.int64(y[i]), at, answers, met, out, pair, both, k)
        r[at], margins[at] = found


@njit(cache=True)
def empty_class(met, own, share):
    """Return the class at this share, in [0, 1), of those not met yet except `own`; -1 if none."""
    count = 0
    for c in range(len(met)):
        count += not met[c] and c != own
    left = np.int64(share * count)
    for c in range(len(met)):
        if not met[c] and c != own:
            if left == 0:
                return c
            left -= 1
    return -1


@njit(cache=True)
def truncate(blocks, thresholds, mass, k):
    """Take the values of each class towards zero by its threshold; return |U|^2.

    Parameters
    ----------
    thresholds : (k,) float32, not negative; or (0,) to change nothing
    mass : the factor by which S takes each change (see the top of this file)
    """
    square = 0.0
    if not len(thresholds):
        for p in range(blocks.end[0]):
            square += np.float64(blocks.values[p]) ** 2
        return square
    for f in range(len(blocks.starts)):
        start = blocks.starts[f]
        for p in range(start, start + length_of(blocks.sizes[f], k)):
            value = blocks.values[p]
            if value != 0.0:
                c = p - start if len(blocks.classes) == 0 else np.int64(blocks.classes[p])
                kept = soft(value, thresholds[c])
                if len(blocks.sums):
                    blocks.sums[p] += np.float32(mass * (kept - value))
                blocks.values[p] = value = kept
            square += np.float64(value) ** 2
    return square


@njit(cache=True)
def squared(rows, i):
    """Return |x_i|^2."""
    total = 0.0
    for p in range(rows.starts[i], rows.starts[i + np.uint64(1)]):
        total += np.float64(rows.data[p]) ** 2
    return total
