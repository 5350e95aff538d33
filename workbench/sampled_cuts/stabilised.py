"""The cutting-plane method with a line search: fewer cuts, and an objective that never
rises.

After Franc, Sonnenburg: Optimized cutting plane algorithm for support vector machines.
ICML 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from workbench.sampled_cuts.cutting_plane import STALLED, Space, precision_of
from workbench.sampled_cuts.model import advance, drop_idle, objective, solve
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Task

# the next cut is taken this far on the way from the best point to the model's solution
MU = 0.1
# fraction of all multipliers below which a cut no longer supports the best point
SMALL = 1e-9
SWEEPS = 8  # sweeps of a line search over the outputs, at most
PRECISE = 0.05  # fraction of eps: how far above the minimum a line search may end
EDGE = 0.02  # fraction of the interval that a new point keeps away from its ends

Choice = Callable[[Answers], tuple[np.ndarray, float]]


def stabilised_cuts(
    task: Task, space: Space, s: CutState, eps: float, choose: Choice, p: int
) -> Iterator[CutState]:
    """Algorithm 1 or 3, from the best point so far instead of the model's solution.

    A round steps from that point towards the model's solution, to where the objective
    is least, and takes the next cut a little further on. The stream ends when the exact
    cut is violated by `eps` at most.

    Parameters
    ----------
    choose : answers to the units of the next cut and their weight
    p : end, too, after this many rounds that lowered the least violation by less than
        eps / 5 in all: if cuts are sampled or numbers are rounded, it need not become
        small. From w = 0 the first way down may take a cut for each class, so p is at
        least :data:`STALLED` there
    """
    n, precision = task.n, precision_of(task, space)
    best = scored(space, s, s.w)
    answers = task.answers(*beyond(best, scored(space, s, s.alpha)))
    yield s
    while s.violation > eps and s.calm < (p if s.w.any() else max(p, STALLED)):
        units, weight = choose(answers)
        space.add(task.cut(answers, units, weight), answers.losses.mean())
        value = solve(s, n)
        model = scored(space, s, s.alpha)
        along = model[0] - best[0], model[1] - best[1]
        d = s.alpha - s.w
        Gw, Gd = s.G @ s.w, s.G @ d
        norms = float(s.w @ Gw), float(d @ Gw), float(d @ Gd)
        step = line_search(task, best, along, norms, s.C * n, eps)
        w = s.w + step * d
        w[w < SMALL * w.sum()] = 0.0
        there = scored(space, s, w)
        primal = objective(s, w, n, task.answers(*there))
        if primal > s.primal:  # by rounding, in a direction of very long vectors
            w, primal = s.w, s.primal
        else:
            best = there
        answers = task.answers(*beyond(best, model))
        advance(s, w, n, value, primal, precision)
        drop_idle(s, space)
        yield s


def scored(space: Space, s: CutState, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and explicit weights of w = sum_t w_t v_t."""
    return space.combine(w), w @ s.explicit


def beyond(best: tuple, model: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and explicit weights of the point where the next cut is taken."""
    return best[0] + MU * (model[0] - best[0]), best[1] + MU * (model[1] - best[1])


def line_search(
    task: Task,
    start: tuple[np.ndarray, np.ndarray],
    along: tuple[np.ndarray, np.ndarray],
    norms: tuple[float, float, float],
    C: float,
    eps: float,
) -> float:
    """Return the step in [0, 1] of least 1/2 |w + step d|^2 + C R(w + step d), nearly.

    Every sweep over the outputs gives a tangent of R along the line. The next one is
    taken where the last tangents from the left and from the right put the least value.

    Parameters
    ----------
    start, along, norms : scores and explicit weights of w, and of d; w.w, w.d and d.d
    C, eps : weight of R, and precision of the whole method in units of R
    """
    (F, v), (D, e), (ww, wd, dd), n = start, along, norms, task.n

    def tangent(step: float, task: Task, F: np.ndarray, D: np.ndarray) -> tuple:
        """Return the objective, its derivative, R, its slope, and the losses."""
        answers = task.answers(F + F.dtype.type(step) * D, v + step * e)
        slope = -float(task.gains(D, e, answers).sum()) / n
        risk = float((answers.losses - answers.gains).sum()) / n
        value = 0.5 * (ww + 2 * step * wd + step**2 * dd) + C * risk
        return value, wd + step * dd + C * slope, risk, slope, answers.losses

    left, right = 0.0, 1.0
    (*at_left, losses), (*at_right, others) = (
        tangent(end, task, F, D) for end in (left, right)
    )
    if at_right[1] <= 0.0 or dd <= 0.0:
        return right
    if at_left[1] >= 0.0:
        return left
    best = min((at_left[0], left), (at_right[0], right))
    # A unit's violation is convex along the line: none between, if there is none at
    # either end.
    some = task.of(np.flatnonzero((losses > 0.0) | (others > 0.0)))
    F, D = F[some.parts], D[some.parts]
    for _ in range(SWEEPS - 2):
        step, least = lowest(left, at_left, right, at_right, wd, dd, C)
        if best[0] - (0.5 * ww + least) <= PRECISE * eps * C:
            break
        edge = EDGE * (right - left)
        step = min(max(step, left + edge), right - edge)
        *here, _ = tangent(step, some, F, D)
        best = min(best, (here[0], step))
        if here[1] < 0.0:
            left, at_left = step, here
        else:
            right, at_right = step, here
    return best[1]


def lowest(left, at_left, right, at_right, wd, dd, C) -> tuple[float, float]:
    """Return where wd s + dd s^2 / 2 + C (the larger tangent of R) is least, and that
    value."""
    (*_, risk, slope), (*_, other, falls) = at_left, at_right
    risk, other = risk - left * slope, other - right * falls  # at zero
    cross = (risk - other) / (falls - slope) if falls > slope else right
    s = min(max(cross, left), right)
    s = max(-(wd + C * falls) / dd, s)
    s = min(-(wd + C * slope) / dd, s)
    s = min(max(s, left), right)
    return s, wd * s + 0.5 * dd * s**2 + C * max(risk + slope * s, other + falls * s)
