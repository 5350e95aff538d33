"""Dual ascent over rows with small sets of classes: the compiled inside of
`cs_working_set`.

Row i keeps a set of classes, its own first, with their dual variables alpha. A visit of
a row solves the dual over a block of that set exactly, so it never lowers the dual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.kernels.compiled import njit
from workbench.kernels.rows import Rows
from workbench.memoir.blocks import soft
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores

ENTERING = 3  # unused classes that enter the block of one visit, which keeps V sparse
MIN_CURVATURE = (
    1e-6  # least |x|^2 times the cost; below, steps would follow the rounding of g
)


class Data(NamedTuple):
    """All rows, and for each its label, its C and its squared length."""

    rows: Rows
    y: np.ndarray
    costs: np.ndarray
    squares: np.ndarray


class Rule(NamedTuple):
    """How rows are visited: the l1 norm's weight, None for 0, and the rules for
    entering a set.

    With `added` above 0 the scores of all classes are computed, and the `added` largest
    violators enter the row's set; with 0 only the classes in the set are scored.
    """

    l1: np.float32 | None
    eps: float
    added: int


class Sets(NamedTuple):
    """The working sets of all rows, of at most M classes each."""

    classes: np.ndarray  # (n, M) uint16 or uint32; the first is the row's own
    alpha: np.ndarray  # (n, M) float32
    held: np.ndarray  # (n,) uint8, number of classes in each set
    calm: np.ndarray  # (n,) uint8, consecutive visits without a step


class Scratch(NamedTuple):
    """Memory of one visit, allocated once: for each row it would cost as much as a
    short row."""

    out: (
        np.ndarray
    )  # (k + 1,) float32, the scores of all classes, then of those outside the set
    best: np.ndarray  # (added,) the classes of the largest scores outside the set
    g: (
        np.ndarray
    )  # (M,) the scores of the set, with the margin, which is the dual's gradient
    delta: np.ndarray  # (M,) the step over a block
    room: np.ndarray  # (M,) how far each alpha of the block is from its bound
    block: np.ndarray  # (M,) the places of the block in the set
    stepping: np.ndarray  # (M,) the classes that step


@njit(cache=True)
def visit_rows(blocks, at, data, order, sets, rule, seen):
    """Visit rows, from place `at` of `order` on.

    Returns
    -------
    at : the place reached
    need : free slots that V needs there, 0 at the end; `seen` counts steps, and
        violating classes that found no place in a set
    """
    M = sets.classes.shape[1]
    reals, places = np.empty((3, M)), np.empty((2, M), np.int64)
    out, best = np.empty(blocks.k + 1, np.float32), np.empty(rule.added, np.int64)
    scratch = Scratch(out, best, reals[0], reals[1], reals[2], places[0], places[1])
    g = scratch.g
    while at < len(order):
        i = np.uint64(order[at])
        held = np.int64(sets.held[i])
        need = lacks_room(blocks, data.rows, i, M)
        if need:
            return at, need
        if rule.added:
            found = violators(blocks, i, data, sets, rule, scratch)
            for m in range(found):
                held, placed = enter(sets, i, g, held, best[m], 1.0 + out[best[m]])
                seen[1] += not placed
            sets.held[i] = held
        else:
            set_scores(blocks, data.rows, i, sets.classes[i, :held], rule.l1, g)
            for c in range(
                1, held
            ):  # assigning to a slice would take longer to compile
                g[c] += 1.0
        seen[0] += solve(blocks, i, data, sets, rule, scratch, held)
        at += 1
    return at, 0


@njit(cache=True)
def violators(blocks, i, data, sets, rule, scratch):
    """Put the classes outside row i's set that violate most into `best`; return how
    many."""
    out, own, held = scratch.out, data.y[i], np.int64(sets.held[i])
    out[:] = 0.0
    add_scores(blocks, data.rows, i, rule.l1, out)
    for j in range(held):
        c = np.int64(sets.classes[i, j])
        scratch.g[j] = out[c] + (c != own)
        out[c] = -np.inf
    least = violation_level(sets, i, scratch.g, held, data.costs[i])
    return largest(out[:-1], np.float32(least + rule.eps - 1.0), scratch.best)


@njit(cache=True)
def enter(sets, i, g, held, c, score):
    """Put class c of this score into row i's set; return its size and whether there was
    a place.

    A full set gives up the lowest-scoring class that is not in use.
    """
    place = held
    if held == sets.classes.shape[1]:
        place = -1
        for j in range(1, held):
            if sets.alpha[i, j] == 0.0 and (place < 0 or g[j] < g[place]):
                place = j
        if place < 0 or g[place] >= score:
            return held, False
    sets.classes[i, place], sets.alpha[i, place], g[place] = c, 0.0, score
    return max(held, place + 1), True


@njit(cache=True)
def largest(out, threshold, best):
    """Put the classes with the largest scores above `threshold` into `best`; return how
    many."""
    found = 0
    for c in range(np.uint64(len(out))):
        if out[c] > threshold:
            j = min(found, len(best) - 1)
            if found == len(best) and out[best[j]] >= out[c]:
                continue
            found = min(found + 1, len(best))
            while j > 0 and out[best[j - 1]] < out[c]:
                best[j] = best[j - 1]
                j -= 1
            best[j] = c
            if found == len(best):
                threshold = out[best[-1]]
    return found


@njit(cache=True)
def violation_level(sets, i, g, held, cost):
    """Return the score that a violating class exceeds: the least of those that may
    grow."""
    level = g[0] if sets.alpha[i, 0] < cost else np.inf
    for j in range(1, held):
        if sets.alpha[i, j] < 0.0:
            level = min(level, g[j])
    return level


@njit(cache=True)
def solve(blocks, i, data, sets, rule, scratch, held):
    """Take the exact step over a block of row i's set; return whether there was one.

    The block is the row's class, those in use, and the few that violate most.
    """
    _, _, g, delta, _, block, stepping = scratch
    cost, square = data.costs[i], data.squares[i]
    level = violation_level(sets, i, g, held, cost)
    alpha = sets.alpha[i]
    size, top = 1, g[0]
    block[0] = 0
    for j in range(1, held):
        top = max(top, g[j])
        if alpha[j] != 0.0:
            block[size] = j
            size += 1
    if not top - level > rule.eps:
        sets.calm[i] = min(np.int64(sets.calm[i]) + 1, 255)
        return False
    used = size
    while size < used + ENTERING:
        chosen = -1
        for j in range(1, held):
            if alpha[j] == 0.0 and g[j] > level and (chosen < 0 or g[j] > g[chosen]):
                new = True
                for b in range(used, size):
                    new = new and block[b] != j
                if new:
                    chosen = j
        if chosen < 0:
            break
        block[size] = chosen
        size += 1
    curvature = max(np.float64(square), MIN_CURVATURE / cost)
    block_step(alpha, scratch, size, cost, curvature)
    sets.calm[i] = 0
    steps = 0
    for b in range(size):
        j = block[b]
        before = alpha[j]
        # Rounded as they are stored, so that V and alpha agree.
        alpha[j] = min(np.float32(before + delta[b]), np.float32(0.0 if j else cost))
        change = np.float64(alpha[j]) - np.float64(before)
        if change != 0.0:
            delta[steps], stepping[steps] = change, sets.classes[i, j]
            steps += 1
    if steps and square > 0.0:
        add_outer(blocks, data.rows, i, delta[:steps], stepping[:steps], 0.0)
    return steps > 0


@njit(cache=True)
def block_step(alpha, scratch, m, cost, curvature):
    """Put the exact step over a block of `m` classes into `delta`.

    It maximises -curvature/2 |delta|^2 - g.delta over alpha + delta <= cost [own class]
    with sum delta = 0: delta_c = min(room_c, (beta - g_c) / curvature), where beta is
    found by taking classes to their bound in the order in which they reach it (Keerthi
    et al., 2008).
    """
    _, _, g, delta, room, block, _ = scratch
    total, free = 0.0, m
    for b in range(m):
        j = block[b]
        room[b] = (cost if j == 0 else 0.0) - alpha[j]
        delta[b] = g[j] + curvature * room[b]  # the beta at which it reaches its bound
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
def losses(blocks, rows, y, costs, l1):
    """Return the weighted losses of all rows under W = soft(V, l1), in double
    precision."""
    out, total = np.empty(blocks.k + 1), 0.0
    for i in range(np.uint64(len(y))):
        out[:] = 0.0
        add_scores(blocks, rows, i, l1, out)
        own = y[i]
        score = out[own]
        out[own] = -np.inf
        top = out[0]
        for c in range(1, blocks.k):
            top = max(top, out[c])
        total += costs[i] * max(0.0, 1.0 + top - score)
    return total


@njit(cache=True)
def norms(values, l1):
    """Return |W|_1 and |W|^2 of W = soft(V, l1), of these values of V; empty slots are
    zero."""
    one, two = 0.0, 0.0
    for value in values:
        w = np.float64(soft(value, l1))
        one += abs(w)
        two += w * w
    return one, two
