"""Dual ascent on small sets of classes, compiled: the inside of :func:`cs_working_set`.

Row i keeps a set of classes, its own first, with their dual variables alpha. A visit of a row
solves the dual over a block of that set exactly, which is an ascent step whatever is in the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from workbench.memoir.blocks import (
    WHOLE,
    add_scores,
    insert,
    need_of,
    position,
    reserve,
    soft,
)

SINGLETONS = 64  # classes whose largest score is compared before each of theirs is
CALM = 2  # visits without a step after which a row is left out of passes over the sets
TINY = 1e-12  # in the place of |x|^2 where a row is zero
NEWTON = 60  # steps on a piecewise linear equation, which end it long before


class Sets(NamedTuple):
    """The working sets of all rows.

    Attributes
    ----------
    classes : (n, M) uint16 or uint32; the first is the row's own
    alpha : (n, M) float32
    held : (n,) uint8, how many there are
    calm : (n,) uint8, visits in a row that took no step
    """

    classes: np.ndarray
    alpha: np.ndarray
    held: np.ndarray
    calm: np.ndarray


class Rules(NamedTuple):
    """What a visit keeps to: see :func:`cs_working_set`."""

    l1: np.float32
    eps: float
    added: int
    entering: int
    pairwise: bool


@njit(cache=True)
def full_pass(blocks, rows, y, order, at, sets, costs, squares, rules, seen, k):
    """Visit rows with the scores of all classes, from place `at` of `order` on.

    Returns the place at which V wants room, or the end. `seen` sums violations and counts steps.
    """
    out = np.empty(k + 1, np.float32)
    M = sets.classes.shape[1]
    best = np.empty(rules.added, np.int64)
    g = np.empty(M)
    while at < len(order):
        i = np.uint64(order[at])
        if lacks_room(blocks, rows, i, M, k):
            return at
        out[:] = 0.0
        add_scores(blocks, rows, i, rules.l1, out, k)
        own = np.int64(y[i])
        held = np.int64(sets.held[i])
        for j in range(held):
            c = np.int64(sets.classes[i, j])
            g[j] = out[c] + (c != own)
            out[c] = -np.inf
        least = floor_of(sets, i, g, held, costs[i], rules.pairwise)
        found = largest(out, np.float32(least + rules.eps - 1.0), best, k)
        top = -np.inf
        for j in range(held):
            top = max(top, g[j])
        if found:
            top = max(top, 1.0 + out[best[0]])
        seen[0] += max(0.0, top - least)
        for m in range(found):
            c = best[m]
            j = held
            if held < M:
                held += 1
            else:
                j = weakest(sets, i, g, held)
                if j < 0 or g[j] >= 1.0 + out[c]:
                    seen[2] += 1  # the set is full of classes that are in use
                    continue
            sets.classes[i, j], sets.alpha[i, j] = c, 0.0
            g[j] = 1.0 + out[c]
        sets.held[i] = held
        seen[1] += solve(blocks, rows, i, sets, g, held, costs[i], squares[i], rules, k)
        at += 1
    return at


@njit(cache=True)
def set_pass(blocks, rows, order, at, sets, costs, squares, rules, seen, k):
    """Visit rows with the scores of their own sets only; else as :func:`full_pass`."""
    M = sets.classes.shape[1]
    g = np.empty(M)
    while at < len(order):
        i = np.uint64(order[at])
        held = np.int64(sets.held[i])
        if held < 2 or sets.calm[i] >= CALM:
            at += 1
            continue
        if lacks_room(blocks, rows, i, M, k):
            return at
        set_scores(blocks, rows, i, sets.classes[i, :held], rules.l1, g, k)
        g[1:held] += 1.0
        seen[1] += solve(blocks, rows, i, sets, g, held, costs[i], squares[i], rules, k)
        at += 1
    return at


@njit(cache=True)
def set_scores(blocks, rows, i, members, l1, g, k):
    """Put row i's scores of these classes into `g`."""
    starts, sizes, _, classes, values, _, _ = blocks
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    g[:] = 0.0
    for p in range(start, end):
        f, x = indices[p - shift], np.float64(data[p])
        for j in range(len(members)):
            q = position(starts, sizes, classes, f, np.int64(members[j]), k)
            if q >= 0:
                g[j] += x * soft(values[q], l1)


@njit(cache=True)
def floor_of(sets, i, g, held, cost, pairwise):
    """Return the score that a class must exceed to violate: the least of those that may grow."""
    if pairwise or sets.alpha[i, 0] < cost:
        least = g[0]
    else:
        least = np.inf
    if not pairwise:
        for j in range(1, held):
            if sets.alpha[i, j] < 0.0:
                least = min(least, g[j])
    return least


@njit(cache=True)
def largest(out, threshold, best, k):
    """Put the classes with the largest scores above `threshold` into `best`; return how many."""
    found = 0
    for first in range(0, k, SINGLETONS):
        part = out[first : min(first + SINGLETONS, k)]
        top = part[0]
        for c in range(np.uint64(1), np.uint64(len(part))):
            top = max(top, part[c])
        if not top > threshold:
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
def solve(blocks, rows, i, sets, g, held, cost, square, rules, k):
    """Take the exact step over a block of row i's set; return whether there was one."""
    least = floor_of(sets, i, g, held, cost, rules.pairwise)
    # The block: the row's class, those in use, and the few that violate most.
    block, entering = np.empty(held, np.int64), 0
    size, top = 1, g[0]
    block[0] = 0
    for j in range(1, held):
        top = max(top, g[j])
        if sets.alpha[i, j] != 0.0:
            block[size] = j
            size += 1
    violation = top - least
    if rules.pairwise:  # a class in use may want to leave, too
        for b in range(1, size):
            j = block[b]
            if g[j] < g[0] or sets.alpha[i, j] > -cost:
                violation = max(violation, abs(g[j] - g[0]))
    if not violation > rules.eps:
        sets.calm[i] = min(np.int64(sets.calm[i]) + 1, 255)
        return False
    used = size
    while entering < rules.entering:
        chosen = -1
        for j in range(1, held):
            if sets.alpha[i, j] == 0.0 and g[j] > least and (chosen < 0 or g[j] > g[chosen]):
                new = True
                for b in range(used, size):
                    new = new and block[b] != j
                if new:
                    chosen = j
        if chosen < 0:
            break
        block[size] = chosen
        size += 1
        entering += 1
    curvature = max(np.float64(square), TINY)
    delta = np.empty(size)
    if rules.pairwise:
        step_of_sum(sets, i, g, block[:size], cost, curvature, delta)
    else:
        step_of_max(sets, i, g, block[:size], cost, curvature, delta)
    sets.calm[i] = 0
    moved = False
    for b in range(size):
        j = block[b]
        before = sets.alpha[i, j]
        # Rounded as they are stored, so that V and alpha agree.
        after = np.float32(before + delta[b])
        bound = np.float32(cost) if j == 0 else np.float32(0.0)
        if after > bound:
            after = bound
        sets.alpha[i, j] = after
        delta[b] = np.float64(after) - np.float64(before)
        moved = moved or delta[b] != 0.0
    if moved and square > 0.0:
        steps, stepping = np.empty(size), np.empty(size, np.int64)
        m = 0
        for b in range(size):
            if delta[b] != 0.0:
                steps[m], stepping[m] = delta[b], sets.classes[i, block[b]]
                m += 1
        add_outer(blocks, rows, i, steps[:m], stepping[:m], k)
    return moved


@njit(cache=True)
def add_outer(blocks, rows, i, steps, stepping, k):
    """Add row i times these steps to the columns of V of these classes."""
    starts, sizes, used, classes, values, _, _ = blocks
    data, indices = rows.data, rows.indices
    start, end = rows.starts[i], rows.starts[i + np.uint64(1)]
    shift = rows.shift * start
    for p in range(start, end):
        f = indices[p - shift]
        if sizes[f] != WHOLE:
            reserve(blocks, f, len(steps), k)
        for m in range(len(steps)):
            q = position(starts, sizes, classes, f, stepping[m], k)
            if q < 0:
                q = insert(used, classes, f, stepping[m], q)
            values[q] += np.float32(steps[m] * data[p])


@njit(cache=True)
def step_of_max(sets, i, g, block, cost, curvature, delta):
    """Fill `delta` for Crammer and Singer's loss.

    It maximises -curvature/2 |delta|^2 - g.delta over alpha + delta <= cost [own class] with
    sum delta = 0: delta_c = min(room_c, (beta - g_c) / curvature), where beta is found by taking
    classes to their bound in the order in which they get there (Keerthi et al., 2008).
    """
    m = len(block)
    room, reached = np.empty(m), np.empty(m)
    total = 0.0
    for b in range(m):
        j = block[b]
        room[b] = (cost if j == 0 else 0.0) - sets.alpha[i, j]
        reached[b] = g[j] + curvature * room[b]
        total += g[j]
    order = np.argsort(reached)
    beta = total / m
    for t in range(m - 1):
        b = order[t]
        if beta <= reached[b]:
            break
        total -= g[block[b]] + curvature * room[b]
        beta = total / (m - 1 - t)
    for b in range(m):
        delta[b] = min(room[b], (beta - g[block[b]]) / curvature)


@njit(cache=True)
def step_of_sum(sets, i, g, block, cost, curvature, delta):
    """Fill `delta` for Weston and Watkins' loss, whose own variable is minus the sum of the others.

    It maximises -curvature/2 (|delta|^2 + t^2) - sum (g_c - g_own) delta_c over -cost <= alpha +
    delta <= 0, c other than the own class, where t = sum delta: delta_c follows from t, and
    the sum of these less t falls as t grows.
    """
    m = len(block)
    low, high = -cost * m, cost * m
    t = 0.0
    for _ in range(NEWTON):
        total, free = 0.0, 0
        for b in range(1, m):
            alpha = np.float64(sets.alpha[i, block[b]])
            wanted = (g[0] - g[block[b]]) / curvature - t
            delta[b] = min(max(wanted, -cost - alpha), -alpha)
            total += delta[b]
            free += delta[b] == wanted
        excess = total - t
        if excess > 0.0:
            low = max(low, t)
        else:
            high = min(high, t)
        if abs(excess) <= 1e-14 * cost:
            break
        t += excess / (free + 1)
        if not low <= t <= high:
            t = (low + high) / 2
    total = 0.0
    for b in range(1, m):
        total += delta[b]
    delta[0] = -total


@njit(cache=True)
def lacks_room(blocks, rows, i, more, k):
    """Say whether V may want more slots than are free for `more` classes in row i's features."""
    free = len(blocks.values) - blocks.end[0]
    entries = np.int64(rows.starts[i + np.uint64(1)] - rows.starts[i])
    return free < entries * max(k, 4 * more) and free < need_of(blocks, rows, i, more, k)


@njit(cache=True)
def losses(blocks, rows, y, costs, l1, pairwise, k):
    """Return the weighted sum of the rows' losses under W = soft(V, l1), in double precision."""
    out = np.empty(k + 1)
    total = 0.0
    for i in range(np.uint64(len(y))):
        out[:] = 0.0
        add_scores(blocks, rows, i, l1, out, k)
        own = y[i]
        score, loss = out[own], 0.0
        out[own] = -np.inf
        if pairwise:
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
