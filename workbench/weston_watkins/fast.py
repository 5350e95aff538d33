"""Walrus with less to do: block coordinate descent on the rows that the duality gap is
made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.kernels.compiled import njit
from workbench.kernels.rows import FAST, subtract
from workbench.weston_watkins.bcd import arguments, difference, margins, samples
from workbench.weston_watkins.dual import WWState, restated, slack_of, start
from workbench.weston_watkins.walrus import clip, sweep

GAP_PART = (
    0.05  # rows with less than this fraction of the mean part of the gap are left alone
)
MIN_PART = 1e-6  # lower bound of that fraction, which falls when rounds run out of rows
VISITS = 2.0  # visits per round, in multiples of n
SWEEPS = 100  # sweeps over the rows that still change, before all rows are judged again
STEP = 8.0  # ratio of neighbouring C of the continuation
EASY = 0.5  # C mean|x|^2 from which the continuation pays
STAGE = 1e-2  # gap ratio at which an easier problem has been solved well enough
STAGE_ROUNDS = 20  # rounds after which the next C follows in any case
PASSES = 20  # Newton steps at most; more than five are rare


@resumable("C")
def ww_walrus_fast(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise the objective of `ww_walrus`, without wasted visits.

    The duality gap is a sum of one part per row, none of them negative. A round

    1. judges all rows at the same W, which gives the certificate and every row's part;
    2. sweeps over the rows whose part exceeds a twentieth of the mean, in random order,
       and drops each one that no longer does when it is met. What was left alone holds
       no more than a twentieth of the gap, and is looked at again in the next round.
       This fraction is divided by four after a round that ran out of rows, and grows
       again after one that did not.

    A visit solves the block exactly, by Newton's method (:func:`threshold`) from the
    sum that the last visit found. Round 1 is one plain sweep, so that gap ratios are
    those of the paper. For a large C the method then goes back to a C/8, C/64, ... at
    which the problem is easy, and comes up again by steps of 8: B scaled by the ratio
    of the two C is feasible, and close to the solution. All bounds are of the problem
    asked for. The stream ends when no gap is left. The clock counts everything,
    certificates too.

    Parameters
    ----------
    C : positive, the weight of each pair of a row and a wrong class; divided by nothing
    seed : int, seeds the order of the rows

    Raises
    ------
    ValueError
        If `C` is not a positive number.
    """
    return descent(problem, C, seed, state)


def descent(
    problem: Problem, C: float, seed: int, state: WWState | None
) -> Iterator[WWState]:
    """Yield the rounds of :func:`ww_walrus_fast`, which change the given state
    itself."""
    data = samples(problem, C)
    C, norms, weights = data.C, data.norms, data.weights
    if state is None:
        s = replace(start(problem, C, seed, norms), share=GAP_PART)
    else:
        fresh = descent(problem, C, seed, None)
        s = restated(problem, state, fresh, C=C, level=min(C, state.level))
    gaps = np.where(norms > 0.0, C * weights * (problem.k - 1.0), 0.0)  # of W = 0

    def screened():
        """Fill `gaps`; return the sum of all hinges, and what rounding may have taken
        from it."""
        return screen(data._replace(C=s.level), s.W, s.B, slack_of(norms, s.W), gaps)

    if s.round:
        screened()
    yield s
    while not s.finished(C):
        if s.round == 1:
            moved = s.move_to(easiest(C, weights * norms), problem, norms)
        else:
            done = (
                gaps.sum() <= STAGE * s.first * s.level / C
                or s.round - s.since >= STAGE_ROUNDS
            )
            moved = done and s.move_to(min(C, STEP * s.level), problem, norms)
        if moved:
            screened()
        share = s.share * gaps.mean() if s.round else 0.0
        active = np.flatnonzero((gaps > share) & (norms > 0.0)).astype(np.uint64)
        looked = changed = 0
        for _ in range(SWEEPS if s.round else 1):
            if not len(active) or (
                looked and looked + len(active) > VISITS * problem.n
            ):
                break
            s.rng.shuffle(active)
            idle, moves = visit(data._replace(C=s.level), s.W, s.B, active, share)
            looked += len(active)
            changed += moves
            active = active[~idle]
        s.share = (
            min(4.0 * s.share, GAP_PART)
            if len(active)
            else max(s.share / 4.0, MIN_PART)
        )
        s.round += 1
        s.visits += looked / problem.n
        s.updates = changed / max(looked, 1)
        hinge, room = screened()
        half = 0.5 * float(np.vdot(s.W, s.W))
        s.judged(norms, half + C * hinge, float(s.B.sum()) - half, C * room)
        yield s


def easiest(C: float, norms: np.ndarray) -> float:
    """Return the first C of the continuation, `C` itself if it is small."""
    size = norms.mean()
    while C / STEP * size >= EASY:
        C /= STEP
    return C


@njit(cache=True, fastmath=FAST)
def screen(data, W, B, slack, gaps):
    """Fill ``gaps[i] = sum_j (C_i max(0, z_ij) - B_ij z_ij)``; return the sum of all
    hinges.

    Return, too, by how much the sum may grow if every z_ij does by up to slack_i.
    Row i has ``C_i = weights[i] C``, and its hinges count `weights[i]` times.
    """
    z = np.empty(W.shape[1])
    total = room = 0.0
    for i in range(np.uint64(len(gaps))):
        margins(data, i, W, z)
        hinge, linear = part(data, i, z, B)
        near = 0.0
        for j in range(data.k):
            near += z[j] > -slack[i]
        weight = data.weights[i]
        gaps[i] = data.C * weight * hinge - linear
        total += weight * hinge
        room += weight * near * slack[i]
    return total, room


@njit(cache=True, fastmath=FAST, inline="always")
def part(data, i, z, B):
    """Return row i's sums of max(0, z_ij) and of B_ij z_ij over the wrong classes j."""
    hinge, linear = 0.0, 0.0
    for j in range(data.k):
        hinge += max(0.0, z[j])
        linear += B[i, j] * z[j]
    return hinge, linear


@njit(cache=True, fastmath=FAST)
def visit(data, W, B, order, share):
    """Solve the blocks of these rows whose part of the gap exceeds `share`.

    Return which did not, and how many blocks changed.
    """
    v, b, delta = np.empty(W.shape[1]), np.empty(W.shape[1]), np.empty(W.shape[1])
    idle = np.zeros(len(order), np.bool_)
    changed = 0
    for at in range(np.uint64(len(order))):
        i = order[at]
        margins(data, i, W, v)
        hinge, linear = part(data, i, v, B)
        C = data.C * data.weights[i]
        if C * hinge - linear <= share:
            idle[at] = True
            continue
        S = arguments(data, i, B, v)
        clip(v, threshold(v, C, S), C, b)
        if difference(data, i, b, B, delta):
            subtract(data.rows, i, delta, W, data.width)
            B[i] = b
            changed += 1
    return idle, changed


@njit(cache=True)
def threshold(v, C, guess):
    """Return the root of F by Newton's method from `guess`, with the sweep in reserve.

    F is neither convex nor concave, so plain Newton steps can cycle: a step must fall
    strictly inside the bracket that the signs of F have left, else the sweep decides.
    """
    low, high = -1.0, np.inf
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


@njit(cache=True, fastmath=FAST, inline="always")
def evaluate(v, C, g):
    """Return F(g) and the number of free indices."""
    total = 0.0
    free = 0.0
    for j in range(len(v)):
        t = v[j] - g
        total += min(max(t, 0.0), C)
        free += 1.0 if (t > 0.0) & (t < C) else 0.0
    return total - g, free
