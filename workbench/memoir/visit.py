"""The visit of one row by :func:`cs_working_set`: the dual over a block of its classes, exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.kernels.compiled import njit
from workbench.memoir.products import add_outer

# With a smaller |x|^2 times the cost, steps would follow the rounding of g alone.
LEAST = 1e-6
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


class Scratch(NamedTuple):
    """Room for one block: allocating it again would cost as much as a short row's arithmetic."""

    g: np.ndarray
    delta: np.ndarray
    room: np.ndarray
    block: np.ndarray
    stepping: np.ndarray


class Rules(NamedTuple):
    """The settings of a visit: see :func:`cs_working_set`; `every` is Weston and Watkins' loss."""

    l1: np.float32
    eps: float
    added: int
    entering: int
    every: bool


@njit(cache=True)
def scratch_of(M):
    """Return room for sets of M classes."""
    reals, places = np.empty((3, M)), np.empty((2, M), np.int64)
    return Scratch(reals[0], reals[1], reals[2], places[0], places[1])


@njit(cache=True)
def floor_of(sets, i, g, held, cost, every):
    """Return the score that a class must exceed to violate: the least of those that may grow."""
    if every or sets.alpha[i, 0] < cost:
        least = g[0]
    else:
        least = np.inf
    if not every:
        for j in range(1, held):
            if sets.alpha[i, j] < 0.0:
                least = min(least, g[j])
    return least


@njit(cache=True)
def solve(blocks, rows, i, sets, scratch, held, cost, square, rules, k):
    """Take the exact step over a block of row i's set; return whether there was one."""
    g, delta, room, block, stepping = scratch
    least = floor_of(sets, i, g, held, cost, rules.every)
    # The block: the row's class, those in use, and the few that violate most.
    entering, size, top = 0, 1, g[0]
    block[0] = 0
    for j in range(1, held):
        if not rules.every or sets.alpha[i, j] > -cost:
            top = max(top, g[j])
        if sets.alpha[i, j] != 0.0:
            block[size] = j
            size += 1
    violation = top - least
    if rules.every:  # a class in use may want to leave, too
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
    curvature = max(np.float64(square), LEAST / cost)
    alpha = sets.alpha[i]
    if rules.every:
        step_of_sum(alpha, g, block, size, cost, curvature, delta)
    else:
        step_of_max(alpha, g, block, size, cost, curvature, delta, room)
    sets.calm[i] = 0
    moved = False
    for b in range(size):
        j = block[b]
        before = sets.alpha[i, j]
        # Rounded as they are stored, so that V and alpha agree.
        after = np.float32(before + delta[b])
        if j > 0:
            after = min(after, np.float32(0.0))
            if rules.every:
                after = max(after, np.float32(-cost))
        elif not rules.every:
            after = min(after, np.float32(cost))
        sets.alpha[i, j] = after
        delta[b] = np.float64(after) - np.float64(before)
        moved = moved or delta[b] != 0.0
    if moved and square > 0.0:
        m = 0
        for b in range(size):
            if delta[b] != 0.0:
                delta[m], stepping[m] = delta[b], sets.classes[i, block[b]]
                m += 1
        add_outer(blocks, rows, i, delta[:m], stepping[:m], 0.0, k)
    return moved


@njit(cache=True)
def step_of_max(alpha, g, block, m, cost, curvature, delta, room):
    """Fill m places of `delta` for Crammer and Singer's loss.

    It maximises -curvature/2 |delta|^2 - g.delta over alpha + delta <= cost [own class] with
    sum delta = 0: delta_c = min(room_c, (beta - g_c) / curvature), where beta is found by taking
    classes to their bound in the order in which they get there (Keerthi et al., 2008).
    """
    total, free = 0.0, m
    for b in range(m):
        j = block[b]
        room[b] = (cost if j == 0 else 0.0) - alpha[j]
        delta[b] = g[j] + curvature * room[b]  # of beta, where it gets to its bound
        total += g[j]
    beta = total / free
    while free > 1:
        first = 0
        for b in range(1, m):
            if delta[b] < delta[first]:
                first = b
        if beta <= delta[first]:
            break
        total -= delta[first]
        delta[first] = np.inf
        free -= 1
        beta = total / free
    for b in range(m):
        delta[b] = min(room[b], (beta - g[block[b]]) / curvature)


@njit(cache=True)
def step_of_sum(alpha, g, block, m, cost, curvature, delta):
    """Fill m places of `delta` for Weston and Watkins' loss, with the own class's minus the rest's.

    It maximises -curvature/2 (|delta|^2 + t^2) - sum (g_c - g_own) delta_c over -cost <= alpha +
    delta <= 0, c other than the own class, where t = sum delta: delta_c follows from t, and
    the sum of these less t falls as t grows.
    """
    low, high = -cost * m, cost * m
    t = 0.0
    for _ in range(NEWTON):
        total, free = 0.0, 0
        for b in range(1, m):
            held = np.float64(alpha[block[b]])
            wanted = (g[0] - g[block[b]]) / curvature - t
            delta[b] = min(max(wanted, -cost - held), -held)
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
        if not low < t < high:
            t = (low + high) / 2
    delta[0] = -total
