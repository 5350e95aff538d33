"""Walrus with fewer visits: only blocks with a large part of the duality gap."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from workbench.core.problem import Array, Problem
from workbench.core.state import resumable
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST, subtract
from workbench.weston_watkins.bcd import (
    Samples,
    arguments,
    difference,
    margins,
    part,
    samples,
    screened,
)
from workbench.weston_watkins.dual import WWState, restated, start
from workbench.weston_watkins.walrus import clip, sweep

# Rows whose part of the gap is below this fraction of the mean part are not visited.
GAP_PART = 0.05
MIN_PART = 1e-6  # the smallest value of this fraction, which is adapted to each round
VISITS = 2.0  # the largest number of visits per round, in multiples of n
SWEEPS = 100  # the largest number of sweeps per round over rows that still change
STEP = 8.0  # the ratio of neighbouring C in the continuation
EASY = 0.5  # the smallest C mean|x|^2 at which a continuation may start
STAGE = 1e-2  # the gap ratio to which an easier problem is solved
STAGE_ROUNDS = 20  # the largest number of rounds for an easier problem
PASSES = 20  # the largest number of Newton steps; more than five are rarely needed


@resumable("C")
def ww_walrus_fast(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise the objective of `ww_walrus`, without wasted visits.

    The duality gap is a sum over rows of parts that are not negative. A round

    1. sweeps repeatedly, in random order, over the rows whose part exceeds a twentieth
    of the mean part, and drops each row whose part no longer does at its visit. The
    other rows hold at most a twentieth of the gap; the next round checks them again.
    This fraction is divided by four after a round in which all rows were dropped, and
    grows again after other rounds;
    2. evaluates all rows at the same W, which gives the bounds and the part of every
    row.

    A visit solves the block exactly, by Newton's method (:func:`threshold`) from the
    sum of the block's current variables. Round 1 is one plain sweep, so that gap ratios
    are those of the paper. For a large C the method then goes back to a value C/8,
    C/64, ... for which the problem is easy, and returns in steps of 8: B scaled by the
    ratio of two such values is feasible, and close to the solution. All bounds belong
    to the requested problem. The stream ends when no gap is left, or when no block has
    changed in a round. All work is timed, including the bounds.

    Parameters
    ----------
    C : float > 0, the weight of each pair of a row and a wrong class, not divided by
        the number of rows
    seed : int >= 0, seeds the order of the rows

    Raises
    ------
    ValueError
        If `C` is not a positive number.
    """
    return descent(problem, C, seed, state)


def descent(
    problem: Problem, C: float, seed: int, state: WWState | None
) -> Iterator[WWState]:
    """Yield the rounds of :func:`ww_walrus_fast`, which change the given state."""
    data = samples(problem, C)
    C = data.C
    norms = data.norms
    if state is None:
        s = replace(start(problem, C, seed, norms), share=GAP_PART)
    else:
        fresh = descent(problem, C, seed, None)
        s = restated(problem, state, fresh, C=C, level=min(C, state.level))
    # W = 0 needs no pass: the first round visits all rows of positive weight.
    gaps = screened(data, s)[0] if s.round else data.weights
    yield s
    while not s.finished(C):
        if s.move_to(next_level(s, data, gaps), problem, norms):
            gaps, *_ = screened(data, s)
        share = s.share * gaps.mean() if s.round else 0.0
        rows = np.flatnonzero((gaps > share) & (norms > 0.0)).astype(np.uint64)
        rows, visited, changed = sweeps(data, s, rows, share)
        if len(rows):
            s.share = min(4.0 * s.share, GAP_PART)
        else:
            s.share = max(s.share / 4.0, MIN_PART)
        s.round += 1
        s.visits += visited / problem.n
        s.updates = changed / max(visited, 1)
        gaps, *loss = screened(data, s)
        s.judged(norms, *loss)
        yield s


def next_level(s: WWState, data: Samples, gaps: Array) -> float:
    """Return the C of the next round's problem, on the way up to ``data.C``."""
    C = data.C
    if s.round == 1:
        return easiest(C, data.weights * data.norms)
    solved = gaps.sum() <= STAGE * s.first * s.level / C
    if solved or s.round - s.since >= STAGE_ROUNDS:
        return min(C, STEP * s.level)
    return s.level


def sweeps(
    data: Samples, s: WWState, rows: Array, share: float
) -> tuple[Array, int, int]:
    """Visit rows repeatedly, as long as their part of the gap exceeds `share`.

    Returns
    -------
    the rows that are left, and the numbers of visits and of changed blocks
    """
    data = data._replace(C=s.level)
    visited = changed = 0
    for _ in range(SWEEPS if s.round else 1):
        too_many = visited + len(rows) > VISITS * len(data.y)
        if not len(rows) or (visited and too_many):
            break
        s.rng.shuffle(rows)
        idle, changes = visit(data, s.W, s.B, rows, share)
        visited += len(rows)
        changed += changes
        rows = rows[~idle]
    return rows, visited, changed


def easiest(C: float, norms: Array) -> float:
    """Return the first C of the continuation, which is `C` itself if it is small."""
    size = norms.mean()
    while C / STEP * size >= EASY:
        C /= STEP
    return C


@njit(fastmath=FAST)
def visit(data, W, B, order, share):
    """Solve the blocks of these rows whose part of the gap exceeds `share`.

    Return a mask of the other rows, and the number of blocks that changed.
    """
    v = np.empty(W.shape[1])
    b = np.empty(W.shape[1])
    delta = np.empty(W.shape[1])
    idle = np.zeros(len(order), np.bool_)
    changed = 0
    for place in range(np.uint64(len(order))):
        i = order[place]
        margins(data, i, W, v)
        hinge, linear = part(data, i, v, B)
        C = data.C * data.weights[i]
        if C * hinge - linear <= share:
            idle[place] = True
            continue
        S = arguments(data, i, B, v)
        clip(v, threshold(v, C, S), C, b)
        if difference(data, i, b, B, delta):
            subtract(data.rows, i, delta, W, data.width)
            B[i] = b
            changed += 1
    return idle, changed


@njit
def threshold(v, C, guess):
    """Return the root of F by Newton's method from `guess`, or else by the sweep.

    F is neither convex nor concave, so plain Newton steps can cycle. If a step does not
    end strictly inside the bracket that the signs of F leave, the sweep finds the root.
    """
    low = -1.0
    high = np.inf
    g = max(guess, 0.0)
    for _ in range(PASSES):
        excess, free = evaluate(v, C, g)
        step = excess / (free + 1.0)
        if abs(step) <= 1e-15 * g or excess == 0.0:
            return g
        if excess > 0.0:
            low = g
        else:
            high = g
        g = max(g + step, 0.0)
        if not low < g < high:
            break
    return sweep(v, C)


@njit(fastmath=FAST, inline="always")
def evaluate(v, C, g):
    """Return F(g) and the number of free indices."""
    total = 0.0
    free = 0.0
    for j in range(len(v)):
        t = v[j] - g
        total += min(max(t, 0.0), C)
        free += 1.0 if (t > 0.0) & (t < C) else 0.0
    return total - g, free
