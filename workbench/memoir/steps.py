"""The inside of Algorithms 1 and 2 of MEMOIR, compiled, with every switch of the authors' code.

W is held as scale * U, so that shrinking and projecting cost O(1). Where the average of the
iterates W^1 .. W^t is wanted, S says what changes of U were worth at their time: with the mass
M_t = scale_1 + .. + scale_t, a change after step t counts in all iterates but the first t, so

    W^1 + .. + W^t = M_t U - S,   S = sum over changes of (M at that time) * change.

When the scale is multiplied into U, all that is summed so far goes into S, and M begins at 0.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from workbench.kernels.compiled import njit
from workbench.kernels.rows import Rows
from workbench.memoir.blocks import roomier
from workbench.memoir.weights import Weights, add_row, class_score, lacks_room, row_scores

LEAST = 1e-3  # scale below which it is multiplied into U; the average cancels by as many digits
PATCH = 2**16  # slots that are free in a new pool of the changes, at least
SCALE, SQUARE, MASS, UPDATES, STEP = range(5)  # of the numbers that a run carries along
NOBODY = np.zeros(0, np.int32)
NO_MARGINS = np.zeros(0, np.float32)


class Plan(NamedTuple):
    """What is done at each step; the names are those of :func:`memoir_l2`."""

    eta0: float
    eta_step: float
    eta_power: float
    lam: float
    hinge: bool
    div_by_batch: bool
    project: bool


def take_batches(
    w: Weights, rows: Rows, y, drawn, size: int, plan: Plan, numbers, touched, met, spare
) -> Weights:
    """Take a step for every `size` of the rows `drawn`, each row's answer exact and of now."""
    given = NOBODY, NO_MARGINS, plan, numbers, touched, met, spare
    return _take(w, rows, y, drawn, size, True, *given)


def take_batch(
    w: Weights, rows: Rows, y, batch, found, margins, plan: Plan, numbers, touched, met, spare
) -> Weights:
    """Take the changes of one batch, with these answers or exact ones where there are none."""
    given = found, margins, plan, numbers, touched, met, spare
    return _take(w, rows, y, batch, len(batch), False, *given)


def _take(w, rows, y, drawn, size, whole, *rest):
    k, at = w.dense.shape[1], 0
    while True:
        at, lack = take(w, rows, y, drawn, size, at, whole, *rest, k)
        if at == len(drawn):
            return w
        w = w._replace(changes=roomier(w.changes, k, PATCH + lack))


def answers(w: Weights, rows: Rows, y, batch, found, met, spare, threads: int):
    """Return each row's class r and its margin under the weights as they are.

    Parameters
    ----------
    found : the answers of a search, or none for exact ones
    threads : over which the rows are spread
    """
    k = w.dense.shape[1]
    r = np.empty(len(batch), np.int32)
    margins = np.empty(len(batch), np.float32)
    ends = np.linspace(0, len(batch), threads + 1).astype(np.int64)

    def part(j: int) -> None:
        answer(w, rows, y, batch, ends[j], ends[j + 1], found, met, spare, r, margins, k)

    if threads == 1:
        part(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, range(threads)))
    return r, margins


@njit(cache=True, nogil=True)
def answer(w, rows, y, batch, first, last, found, met, spare, r, margins, k):
    """Fill `r` and `margins`, those of U, from place `first` to `last` of the batch."""
    out = np.empty(k + 1, np.float32)
    for at in range(first, last):
        i = np.uint64(batch[at])
        r[at], margins[at] = search(w, rows, i, y[i], at, found, met, spare, out, k)


@njit(cache=True)
def search(w, rows, i, own, at, found, met, spare, out, k):
    """Return the class r != y_i and x_i.(u_y - u_r): exact, or the answer `found` by a search."""
    if len(found):
        r = np.int64(found[at])
        score = class_score(w, rows, i, own, k)
        best = class_score(w, rows, i, r, k)
    else:
        row_scores(w, rows, i, out, k)
        score = out[own]
        out[own] = -np.inf
        r = 0
        best = out[0]
        for c in range(1, k):
            if out[c] > best:
                r, best = c, out[c]
    if len(spare) and best <= 0.0:
        c = empty_class(met, own, spare[at])
        if c >= 0:
            r, best = c, np.float32(0.0)
    return r, score - best


@njit(cache=True)
def empty_class(met, own, share):
    """Return the class at this share, in [0, 1), of those not met yet, `own` apart; -1 if none."""
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
def begin(plan, numbers):
    """Begin the next step: count it and shrink W."""
    numbers[STEP] += 1
    if plan.lam:
        numbers[SCALE] *= 1 - plan.lam * eta_of(plan, numbers[STEP])


@njit(cache=True)
def finish(w, plan, numbers):
    """End a step: project W where that is wanted, and count it in the average."""
    if plan.project and plan.lam:
        length = numbers[SCALE] * np.sqrt(plan.lam * max(numbers[SQUARE], 0.0))
        if length > 1.0:
            numbers[SCALE] /= length
    numbers[MASS] += numbers[SCALE]
    if numbers[SCALE] < LEAST:
        scale, mass = numbers[SCALE], numbers[MASS]
        rescale(w.dense.ravel(), w.dense_sums.ravel(), scale, mass)
        rescale(w.values, w.sums, scale, mass)
        rescale(w.changes.values, w.changes.sums, scale, mass)
        numbers[SQUARE] *= scale * scale
        numbers[SCALE], numbers[MASS] = 1.0, 0.0


@njit(cache=True)
def rescale(U, S, scale, mass):
    """Put into S what the iterates so far have summed to, and scale U."""
    for p in range(len(S)):
        S[p] -= np.float32(mass * U[p])
    for p in range(len(U)):
        U[p] *= np.float32(scale)


@njit(cache=True)
def eta_of(plan, t):
    """Return the size of step t, counted from 1."""
    return plan.eta0 / (1 + plan.eta_step * t) ** plan.eta_power


@njit(cache=True)
def take(w, rows, y, drawn, size, at, whole, found, margins, plan, numbers, touched, met, spare, k):
    """Take rows from place `at` on, until all are taken or the changes want room.

    Parameters
    ----------
    drawn : row numbers, `size` a step
    whole : begin and end each step here, too
    found, margins : the answers of a search, and its margins where these are not to be of now
    numbers : scale, |U|^2, mass, violated margins and steps so far, in place
    touched, met : (k,) bool, the classes y and r of these rows, and those that were changed
    spare : a number in [0, 1) for each row, to draw a class that is still empty; or none

    Returns
    -------
    at : the place of the next row
    lack : slots that the changes are short of
    """
    out = np.empty(k + 1, np.float32)
    while at < len(drawn):
        i = np.uint64(drawn[at])
        lack = lacks_room(w, rows, i, k)
        if lack:
            return at, lack
        if whole and at % size == 0:
            begin(plan, numbers)
        own = np.int64(y[i])
        if len(margins):
            r, margin = np.int64(found[at]), margins[at]
        else:
            r, margin = search(w, rows, i, own, at, found, met, spare, out, k)
        touched[own] = touched[r] = True
        violated = numbers[SCALE] * margin < 1.0
        numbers[UPDATES] += violated
        if violated or not plan.hinge:
            step = eta_of(plan, numbers[STEP]) / numbers[SCALE]
            if plan.div_by_batch:
                step /= min(size, len(drawn) - at // size * size)  # the last batch may be smaller
            add_row(w, rows, i, own, step, numbers[MASS], k)
            add_row(w, rows, i, r, -step, numbers[MASS], k)
            numbers[SQUARE] += 2 * step * margin + 2 * step * step * squared(rows, i)
            met[own] = met[r] = True
        at += 1
        if whole and (at % size == 0 or at == len(drawn)):
            finish(w, plan, numbers)
    return at, 0


@njit(cache=True)
def squared(rows, i):
    """Return |x_i|^2."""
    total = 0.0
    for p in range(rows.starts[i], rows.starts[i + np.uint64(1)]):
        total += np.float64(rows.data[p]) ** 2
    return total
