"""Passes of dual ascent over rows with small sets of classes: the inside of `cs_working_set`.

Row i keeps a set of classes, its own first, with their dual variables alpha. A visit of a row
solves the dual over a block of that set exactly, which is an ascent step whatever is in the block.
"""

from __future__ import annotations

import numpy as np

from workbench.kernels.compiled import njit
from workbench.memoir.blocks import soft
from workbench.memoir.products import add_scores, lacks_room, set_scores
from workbench.memoir.visit import floor_of, scratch_of, solve

TOGETHER = 64  # classes that are compared with a threshold before each of them is


@njit(cache=True)
def full_pass(blocks, at, rows, order, y, sets, costs, squares, rules, seen, k):
    """Visit rows with the scores of all classes, from place `at` of `order` on.

    Returns the place reached and the free slots that V needs there, 0 at the end. `seen` counts
    steps, and violating classes that found no place in a set.
    """
    M = sets.classes.shape[1]
    out, best, scratch = np.empty(k + 1, np.float32), np.empty(rules.added, np.int64), scratch_of(M)
    while at < len(order):
        i = np.uint64(order[at])
        need = lacks_room(blocks, rows, i, M, k)
        if need:
            return at, need
        found = violators(blocks, rows, i, y[i], sets, costs[i], rules, scratch.g, out, best, k)
        held = np.int64(sets.held[i])
        for m in range(found):
            score = 1.0 + out[best[m]]
            held, placed = enter(sets, i, scratch.g, held, best[m], score)
            seen[1] += not placed
        sets.held[i] = held
        seen[0] += solve(blocks, rows, i, sets, scratch, held, costs[i], squares[i], rules, k)
        at += 1
    return at, 0


@njit(cache=True)
def set_pass(blocks, at, rows, order, sets, costs, squares, rules, chosen, counts, seen, k):
    """Visit rows with the scores of their own sets only; else as :func:`full_pass`.

    `chosen` (len(order), added) and `counts` are classes that enter their row's set before, or
    without entries.
    """
    M = sets.classes.shape[1]
    scratch, one = scratch_of(M), np.empty(1)
    g = scratch.g
    while at < len(order):
        i = np.uint64(order[at])
        held = np.int64(sets.held[i])
        need = lacks_room(blocks, rows, i, M, k)
        if need:
            return at, need
        set_scores(blocks, rows, i, sets.classes[i, :held], rules.l1, g, k)
        for c in range(1, held):  # assigning to a slice would take longer to compile
            g[c] += 1.0
        if len(counts):
            for m in range(counts[at]):
                set_scores(blocks, rows, i, chosen[at, m : m + 1], rules.l1, one, k)
                held, placed = enter(sets, i, g, held, chosen[at, m], 1.0 + one[0])
                seen[1] += not placed
            sets.held[i] = held
        seen[0] += solve(blocks, rows, i, sets, scratch, held, costs[i], squares[i], rules, k)
        at += 1
    return at, 0


@njit(cache=True, nogil=True)
def candidates(blocks, rows, y, order, first, last, sets, costs, rules, chosen, counts, k):
    """Put the largest violators of some places of `order` into `chosen`, changing nothing else."""
    out, best = np.empty(k + 1, np.float32), np.empty(rules.added, np.int64)
    g = np.empty(sets.classes.shape[1])
    for at in range(first, last):
        i = np.uint64(order[at])
        counts[at] = violators(blocks, rows, i, y[i], sets, costs[i], rules, g, out, best, k)
        for m in range(counts[at]):
            chosen[at, m] = best[m]


@njit(cache=True)
def violators(blocks, rows, i, own, sets, cost, rules, g, out, best, k):
    """Put the classes outside row i's set that violate most into `best`; return how many.

    `g` gets the scores of the set, with the margin, and `out` those of all others.
    """
    out[:] = 0.0
    add_scores(blocks, rows, i, rules.l1, out, k)
    held = np.int64(sets.held[i])
    for j in range(held):
        c = np.int64(sets.classes[i, j])
        g[j] = out[c] + (c != own)
        out[c] = -np.inf
    least = floor_of(sets, i, g, held, cost, rules.every)
    return largest(out, np.float32(least + rules.eps - 1.0), best, k)


@njit(cache=True)
def enter(sets, i, g, held, c, score):
    """Put class c of this score into row i's set; return its size and whether there was a place.

    A full set gives up its class with the least score of those that are not in use.
    """
    j = held
    if held == sets.classes.shape[1]:
        j = weakest(sets, i, g, held)
        if j < 0 or g[j] >= score:
            return held, False
    sets.classes[i, j], sets.alpha[i, j], g[j] = c, 0.0, score
    return max(held, j + 1), True


@njit(cache=True)
def largest(out, threshold, best, k):
    """Put the classes with the largest scores above `threshold` into `best`; return how many."""
    found = 0
    for first in range(0, k, TOGETHER):
        part = out[first : min(first + TOGETHER, k)]
        above = np.int32(0)  # counted by vector instructions, unlike a maximum
        for c in range(np.uint64(len(part))):
            above += np.int32(part[c] > threshold)
        if not above:
            continue
        for c in range(len(part)):
            if part[c] > threshold:
                j = min(found, len(best) - 1)
                if found == len(best) and out[best[j]] >= part[c]:
                    continue
                found = min(found + 1, len(best))
                while j > 0 and out[best[j - 1]] < part[c]:
                    best[j] = best[j - 1]
                    j -= 1
                best[j] = first + c
                if found == len(best):
                    threshold = out[best[-1]]
    return found


@njit(cache=True)
def weakest(sets, i, g, held):
    """Return the place of the unused class with the least score, -1 if all are in use."""
    found = -1
    for j in range(1, held):
        if sets.alpha[i, j] == 0.0 and (found < 0 or g[j] < g[found]):
            found = j
    return found


@njit(cache=True)
def losses(blocks, rows, first, last, y, costs, l1, every, k, total):
    """Add the weighted losses of rows first to last under W = soft(V, l1) to `total`.

    In double precision.
    """
    out = np.empty(k + 1)
    for i in range(np.uint64(first), np.uint64(last)):
        out[:] = 0.0
        add_scores(blocks, rows, i, l1, out, k)
        own = y[i]
        score, loss = out[own], 0.0
        out[own] = -np.inf
        if every:
            for c in range(k):
                loss += max(0.0, 1.0 + out[c] - score)
        else:
            top = out[0]
            for c in range(1, k):
                top = max(top, out[c])
            loss = max(0.0, 1.0 + top - score)
        total += costs[i] * loss
    return total


@njit(cache=True)
def norms(values, l1):
    """Return |W|_1 and |W|^2 of W = soft(V, l1), of these values of V; empty slots are zero."""
    one, two = 0.0, 0.0
    for value in values:
        w = np.float64(soft(value, l1))
        one += abs(w)
        two += w * w
    return one, two
