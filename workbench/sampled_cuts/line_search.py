"""The least objective between two points, by tangents."""

from __future__ import annotations

import numpy as np

from workbench.sampled_cuts.tasks import Task

SWEEPS = 8  # at most, each over all outputs
PRECISE = 0.05  # fraction of eps: how far above the least a step may end
EDGE = 0.02  # fraction of the interval that a new point keeps away from its ends


def line_search(
    task: Task,
    start: tuple[np.ndarray, np.ndarray],
    along: tuple[np.ndarray, np.ndarray],
    norms: tuple[float, float, float],
    C: float,
    eps: float,
) -> float:
    """Return the step in [0, 1] of least 1/2 |w + step d|^2 + C R(w + step d), nearly.

    Every sweep over the outputs gives a tangent of R along the line. The next one is taken where
    the last tangents from the left and from the right put the least value.

    Parameters
    ----------
    start, along : scores and explicit weights of w, and of d
    norms : w.w, w.d and d.d
    C : weight of R
    eps : precision of the whole method, in units of R
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
    (*at_left, losses), (*at_right, others) = (tangent(end, task, F, D) for end in (left, right))
    if at_right[1] <= 0.0 or dd <= 0.0:
        return right
    if at_left[1] >= 0.0:
        return left
    best = min((at_left[0], left), (at_right[0], right))
    # A unit's violation is convex along the line: none between, if there is none at either end.
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
    """Return where wd s + dd s^2 / 2 + C (the larger tangent of R) is least, and that value."""
    (*_, risk, slope), (*_, other, falls) = at_left, at_right
    risk, other = risk - left * slope, other - right * falls  # at zero
    cross = (risk - other) / (falls - slope) if falls > slope else right
    s = min(max(cross, left), right)
    s = max(-(wd + C * falls) / dd, s)
    s = min(-(wd + C * slope) / dd, s)
    s = min(max(s, left), right)
    return s, wd * s + 0.5 * dd * s**2 + C * max(risk + slope * s, other + falls * s)
