"""Dual ascent over rows with small sets of classes: the compiled inside of
`cs_working_set`.

Row i has a set of classes, the first of which is its own class, with dual variables
alpha. A visit of a row maximises the dual over a block of its set or, with an l1 norm,
a lower bound of the dual that is exact at the present alpha. So no visit lowers the
dual.
"""

from typing import NamedTuple

import numpy as np

from workbench.core.kinds import Array
from workbench.kernels.compiled import njit
from workbench.kernels.rows import Rows
from workbench.memoir.blocks import soft
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores

# The largest number of unused classes in the block of a visit; a small number keeps V
# sparse.
ENTERING = 3
# The smallest value of |x|^2 times the cost; below it, steps would follow the rounding
# of g.
MIN_CURVATURE = 1e-6


class Data(NamedTuple):
    """All rows, with the label, the C and the squared length of each."""

    rows: Rows
    y: Array
    costs: Array
    squares: Array


class Rule(NamedTuple):
    """How rows are visited: the weight of the l1 norm (None for 0), the largest
    violation that is tolerated, and the number of classes that may enter a set.

    With `added` above 0 the scores of all classes are computed, and the `added` largest
    violators enter the row's set; with 0 only the classes in the set are scored.
    """

    l1: np.float32 | None
    eps: float
    added: int


class Sets(NamedTuple):
    """The working sets of all rows, of at most M classes each."""

    classes: Array  # (n, M) uint16 or uint32; the first is the row's own class
    alpha: Array  # (n, M) float32
    sizes: Array  # (n,) uint8, number of classes in each set
    # (n,) uint8, number of consecutive visits without a violation above eps, up to 255
    calm: Array


class Scratch(NamedTuple):
    """Memory for one visit, allocated once: allocation takes as long as a short row."""

    # (k + 1,) float32, the scores of all classes, then of those outside the set
    out: Array
    best: Array  # (added,) the classes of the largest scores outside the set
    # (M,) the scores of the set plus the margin: minus the gradient of the dual
    g: Array
    delta: Array  # (M,) the step over a block
    room: Array  # (M,) the distance of each alpha of the block from its bound
    block: Array  # (M,) the positions of the block in the set
    stepping: Array  # (M,) the classes whose alpha changes


@njit
def visit_rows(blocks, at, data, order, sets, rule, seen):
    """Visit rows, beginning at position `at` of `order`.

    `seen` counts the visits that changed alpha, and the violating classes for which a
    set had no room.

    Returns
    -------
    at : the position reached
    need : the number of free slots that V needs there; 0 at the end
    """
    M = sets.classes.shape[1]
    reals = np.empty((3, M))
    places = np.empty((2, M), np.int64)
    out = np.empty(blocks.k + 1, np.float32)
    best = np.empty(rule.added, np.int64)
    scratch = Scratch(out, best, reals[0], reals[1], reals[2], places[0], places[1])
    g = scratch.g
    while at < len(order):
        i = np.uint64(order[at])
        size = np.int64(sets.sizes[i])
        need = lacks_room(blocks, data.rows, i, M)
        if need:
            return at, need
        if rule.added:
            for m in range(violators(blocks, i, data, sets, rule, scratch)):
                size, placed = enter(sets, i, g, size, best[m], 1.0 + out[best[m]])
                if not placed:
                    seen[1] += 1
            sets.sizes[i] = size
        else:
            set_scores(blocks, data.rows, i, sets.classes[i, :size], rule.l1, g)
            for c in range(1, size):  # a slice would take longer to compile
                g[c] += 1.0
        if solve(blocks, i, data, sets, rule, scratch, size):
            seen[0] += 1
        at += 1
    return at, 0


@njit
def violators(blocks, i, data, sets, rule, scratch):
    """Write the worst violators outside row i's set to `best`; return their number."""
    out = scratch.out
    own = data.y[i]
    size = np.int64(sets.sizes[i])
    out[:] = 0.0
    add_scores(blocks, data.rows, i, rule.l1, out)
    for j in range(size):
        c = np.int64(sets.classes[i, j])
        scratch.g[j] = out[c] + (c != own)
        out[c] = -np.inf
    level = violation_level(sets, i, scratch.g, size, data.costs[i])
    return largest(out[:-1], np.float32(level + rule.eps - 1.0), scratch.best)


@njit
def enter(sets, i, g, size, c, score):
    """Put class c into the set of row i; return its size and whether c is now in it.

    A full set drops its unused class with the lowest score, if c has a higher one.
    """
    place = size
    if size == sets.classes.shape[1]:
        place = -1
        for j in range(1, size):
            if sets.alpha[i, j] == 0.0 and (place < 0 or g[j] < g[place]):
                place = j
        if place < 0 or g[place] >= score:
            return size, False
    sets.classes[i, place] = c
    sets.alpha[i, place] = 0.0
    g[place] = score
    return max(size, place + 1), True


@njit
def largest(out, threshold, best):
    """Write the best classes above `threshold` to `best`; return their number."""
    count = 0
    for c in range(np.uint64(len(out))):
        if out[c] > threshold:
            j = min(count, len(best) - 1)
            if count == len(best) and out[best[j]] >= out[c]:
                continue
            count = min(count + 1, len(best))
            while j > 0 and out[best[j - 1]] < out[c]:
                best[j] = best[j - 1]
                j -= 1
            best[j] = c
            if count == len(best):
                threshold = out[best[-1]]
    return count


@njit
def violation_level(sets, i, g, size, cost):
    """Return the lowest score of a class whose alpha may grow; violators exceed it by
    more than eps."""
    level = g[0] if sets.alpha[i, 0] < cost else np.inf
    for j in range(1, size):
        if sets.alpha[i, j] < 0.0:
            level = min(level, g[j])
    return level


@njit
def choose_block(alpha, g, level, size, block):
    """Write the places of a block of a set to `block`; return their number.

    The block has the row's own class, the classes in use, and the worst violators.
    """
    block[0] = 0
    used = 1
    for j in range(1, size):
        if alpha[j] != 0.0:
            block[used] = j
            used += 1
    m = used
    while m < used + ENTERING:
        chosen = -1
        for j in range(1, size):
            if alpha[j] == 0.0 and g[j] > level and (chosen < 0 or g[j] > g[chosen]):
                new = True
                for b in range(used, m):
                    new = new and block[b] != j
                if new:
                    chosen = j
        if chosen < 0:
            break
        block[m] = chosen
        m += 1
    return m


@njit
def solve(blocks, i, data, sets, rule, scratch, size):
    """Take the exact step over a block of row i's set; return whether alpha changed."""
    _, _, g, delta, _, block, stepping = scratch
    cost = data.costs[i]
    square = data.squares[i]
    alpha = sets.alpha[i]
    level = violation_level(sets, i, g, size, cost)
    top = g[0]
    for j in range(1, size):
        top = max(top, g[j])
    if not top - level > rule.eps:
        sets.calm[i] = min(np.int64(sets.calm[i]) + 1, 255)
        return False
    sets.calm[i] = 0
    m = choose_block(alpha, g, level, size, block)
    curvature = max(np.float64(square), MIN_CURVATURE / cost)
    block_step(alpha, scratch, m, cost, curvature)
    steps = 0
    for b in range(m):
        j = block[b]
        before = alpha[j]
        bound = 0.0 if j else cost
        # Values are rounded to the type of alpha, so that V and alpha agree.
        alpha[j] = min(np.float32(before + delta[b]), np.float32(bound))
        change = np.float64(alpha[j]) - np.float64(before)
        if change != 0.0:
            delta[steps] = change
            stepping[steps] = sets.classes[i, j]
            steps += 1
    if steps and square > 0.0:
        add_outer(blocks, data.rows, i, delta[:steps], stepping[:steps], 0.0)
    return steps > 0


@njit
def block_step(alpha, scratch, m, cost, curvature):
    """Write the exact step over a block of `m` classes to `delta`.

    It maximises -curvature/2 |delta|^2 - g.delta over alpha + delta <= cost [own class]
    with sum delta = 0: delta_c = min(room_c, (beta - g_c) / curvature). To find beta,
    classes are fixed at their bounds in the order in which they reach them (Keerthi et
    al., 2008).
    """
    _, _, g, delta, room, block, _ = scratch
    total = 0.0
    free = m
    for b in range(m):
        j = block[b]
        bound = 0.0 if j else cost
        room[b] = bound - alpha[j]
        delta[b] = g[j] + curvature * room[b]  # the beta at which j reaches its bound
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


@njit
def losses(blocks, rows, y, costs, l1):
    """Return the weighted sum of losses under W = soft(V, l1), in double precision."""
    out = np.empty(blocks.k + 1)
    total = 0.0
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


@njit
def norms(values, l1):
    """Return |W|_1 and |W|^2 of W = soft(V, l1), given V; empty slots are zero."""
    one = 0.0
    two = 0.0
    for value in values:
        w = np.float64(soft(value, l1))
        one += abs(w)
        two += w * w
    return one, two
