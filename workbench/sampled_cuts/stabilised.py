"""The cutting-plane method with a line search: fewer cuts, and an objective that never rises.

After Franc, Sonnenburg: Optimized cutting plane algorithm for support vector machines. ICML 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from workbench.sampled_cuts.cutting_plane import STALLED, Space, precision_of
from workbench.sampled_cuts.line_search import line_search
from workbench.sampled_cuts.model import advance, drop_idle, objective, restated, solve
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Task

MU = 0.1  # the next cut is taken this far on the way from the best point to the model's solution
SMALL = 1e-9  # fraction of all multipliers below which a cut no longer supports the best point

Choice = Callable[[Answers], tuple[np.ndarray, float]]


def stabilised_cuts(
    task: Task, space: Space, s: CutState, C: float, eps: float, choose: Choice, p: int
) -> Iterator[CutState]:
    """Algorithm 1 or 3, from the best point so far instead of the model's solution.

    A round steps from that point towards the model's solution, to where the objective is least,
    and takes the next cut a little further on. The stream ends when the exact cut is violated by
    `eps` at most.

    Parameters
    ----------
    choose : answers to the units of the next cut and their weight
    p : end, too, after this many rounds that lowered the least violation by less than eps / 5 in
        all: if cuts are sampled or numbers are rounded, it need not become small. From w = 0 the
        first way down may take a cut for each class, so that there :data:`STALLED` is the least
    """
    n, precision = task.n, precision_of(task, space)
    s = restated(s, n, precision, C=C, eps=eps)
    best = scored(space, s, s.w)
    answers = task.answers(*beyond(best, scored(space, s, s.alpha)))
    yield s
    while s.violation > eps and s.calm < (p if s.w.any() else max(p, STALLED)):
        units, weight = choose(answers)
        space.add(task.cut(answers, units, weight), answers.losses.mean())
        value = solve(s, n)
        model = scored(space, s, s.alpha)
        along = model[0] - best[0], model[1] - best[1]
        step = line_search(task, best, along, norms(s), C * n, eps)
        w = s.w + step * (s.alpha - s.w)
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


def norms(s: CutState) -> tuple[float, float, float]:
    """Return w.w, w.d and d.d for d = the model's solution - w."""
    d = s.alpha - s.w
    Gw, Gd = s.G @ s.w, s.G @ d
    return float(s.w @ Gw), float(d @ Gw), float(d @ Gd)
