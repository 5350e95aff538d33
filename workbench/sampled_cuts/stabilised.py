"""The cutting-plane method with a line search: fewer cuts, and an objective that never
rises.

The method follows Franc, Sonnenburg: Optimized cutting plane algorithm for support
vector machines. ICML 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from workbench.core.kinds import Array
from workbench.sampled_cuts.cutting_plane import STALLED, Space, precision_of
from workbench.sampled_cuts.model import advance, drop_idle, objective, solve
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Task

# The next cut is taken at this fraction of the way from the best point to the model's
# solution.
MU = 0.1
# A cut with less than this fraction of the sum of all weights is removed from the best
# point.
SMALL = 1e-9
SWEEPS = 8  # largest number of sweeps of a line search over the outputs
PRECISE = 0.05  # a line search may end at this fraction of eps above the minimum
EDGE = 0.02  # least distance of a new point from the interval's ends, as a fraction

Choice = Callable[[Answers], tuple[Array, float]]


class Point(NamedTuple):
    """A vector w, or a direction, as the scores ``F`` (N, K) of all parts and the
    explicit weights ``v``."""

    F: Array
    v: Array

    def towards(self, step: float, d: Point) -> Point:
        """Return the point a step along the direction `d`, in the precision of F."""
        return Point(self.F + self.F.dtype.type(step) * d.F, self.v + step * d.v)


class Norms(NamedTuple):
    """The inner products of w and a direction d that 1/2 |w + step d|^2 needs."""

    ww: float
    wd: float
    dd: float


class Tangent(NamedTuple):
    """The tangent of R at a step along a line, and the objective at this step."""

    value: float  # of the objective
    step: float
    derivative: float  # of the objective
    risk: float
    slope: float  # of R

    @property
    def at_zero(self) -> float:
        """The value of the tangent at step 0."""
        return self.risk - self.step * self.slope


def stabilised_cuts(
    task: Task, space: Space, s: CutState, eps: float, choose: Choice, p: int
) -> Iterator[CutState]:
    """Run Algorithm 1 or 3 from the best point so far instead of the model's solution.

    A round steps from that point towards the model's solution, to the point with the
    smallest objective, and takes the next cut a little further in this direction. The
    stream ends when the objective exceeds the model's value by at most C n `eps`.

    Parameters
    ----------
    choose : a function of answers that returns the units of the next cut and their
        weight
    p : int >= 1, the number of rounds after which the stream also ends if they together
        lowered the smallest violation by less than eps / 5. The violation need not
        become small if cuts are sampled or numbers are rounded. At w = 0 the first
        decrease may need a cut for each class, so there p is at least :data:`STALLED`
    """
    n = task.n
    precision = precision_of(task, space)
    best = scored(space, s, s.w)
    answers = beyond(task, best, scored(space, s, s.alpha))
    yield s
    while s.violation > eps:
        if s.calm >= p and (s.calm >= STALLED or s.w.any()):
            return
        units, weight = choose(answers)
        space.add(task.cut(answers, units, weight), answers.losses.mean())
        value = solve(s, n)
        model = scored(space, s, s.alpha)
        along = Point(model.F - best.F, model.v - best.v)
        d = s.alpha - s.w
        Gw = s.G @ s.w
        Gd = s.G @ d
        norms = Norms(float(s.w @ Gw), float(d @ Gw), float(d @ Gd))
        step = line_search(task, best, along, norms, s.C * n, eps)
        w = s.w + step * d
        w[w < SMALL * w.sum()] = 0.0
        end = scored(space, s, w)
        primal = objective(s, w, n, task.answers(*end))
        if primal > s.primal:  # rounding, along a direction of very long vectors
            w = s.w
            primal = s.primal
        else:
            best = end
        answers = beyond(task, best, model)
        advance(s, w, n, value, primal, precision)
        drop_idle(s, space)
        yield s


def scored(space: Space, s: CutState, w: Array) -> Point:
    """Return the point w = sum_t w_t v_t."""
    return Point(space.combine(w), w @ s.explicit)


def beyond(task: Task, best: Point, model: Point) -> Answers:
    """Return the answers at the point where the next cut is taken."""
    F = best.F + MU * (model.F - best.F)
    return task.answers(F, best.v + MU * (model.v - best.v))


def line_search(
    task: Task, start: Point, along: Point, norms: Norms, C: float, eps: float
) -> float:
    """Return a step in [0, 1] that nearly minimises the objective at w + step d.

    Every sweep over the outputs gives a tangent of R along the line. The next tangent
    is taken at the minimum of the last tangents on the left and on the right.

    Parameters
    ----------
    start, along : w and d
    C, eps : float > 0, the weight of R, and the precision of the whole method in units
        of R
    """
    n = task.n
    ww, wd, dd = norms

    def tangent(
        step: float, task: Task, start: Point, d: Point
    ) -> tuple[Tangent, Array]:
        """Return the tangent at a step, and the losses of the units there."""
        answers = task.answers(*start.towards(step, d))
        slope = -float(task.gains(*d, answers).sum()) / n
        risk = float((answers.losses - answers.gains).sum()) / n
        value = 0.5 * (ww + 2 * step * wd + step**2 * dd) + C * risk
        derivative = wd + step * dd + C * slope
        return Tangent(value, step, derivative, risk, slope), answers.losses

    left, losses_left = tangent(0.0, task, start, along)
    right, losses_right = tangent(1.0, task, start, along)
    if right.derivative <= 0.0 or dd <= 0.0:
        return 1.0
    if left.derivative >= 0.0:
        return 0.0
    best = min(left, right)
    # The violation of a unit is convex along the line: if it is zero at both ends, it
    # is zero between them.
    some = task.of(np.flatnonzero((losses_left > 0.0) | (losses_right > 0.0)))
    start = start._replace(F=start.F[some.parts])
    along = along._replace(F=along.F[some.parts])
    for _ in range(SWEEPS - 2):
        step, change = lowest(left, right, norms, C)
        if best.value - (0.5 * ww + change) <= PRECISE * eps * C:
            break
        edge = EDGE * (right.step - left.step)
        step = min(max(step, left.step + edge), right.step - edge)
        new, _ = tangent(step, some, start, along)
        best = min(best, new)
        if new.derivative < 0.0:
            left = new
        else:
            right = new
    return best.step


def lowest(
    left: Tangent, right: Tangent, norms: Norms, C: float
) -> tuple[float, float]:
    """Return the step at which the model along the line is smallest, and its value.

    The model is wd step + dd step^2 / 2 + C times the larger of the two tangents.
    """
    _, wd, dd = norms
    step = right.step
    if right.slope > left.slope:
        cross = (left.at_zero - right.at_zero) / (right.slope - left.slope)
        step = min(max(cross, left.step), right.step)
    step = max(-(wd + C * right.slope) / dd, step)
    step = min(-(wd + C * left.slope) / dd, step)
    step = min(max(step, left.step), right.step)
    risk = max(left.at_zero + left.slope * step, right.at_zero + right.slope * step)
    return step, wd * step + 0.5 * dd * step**2 + C * risk
