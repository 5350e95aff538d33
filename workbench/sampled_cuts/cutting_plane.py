"""Algorithms 1, 2 and 3: one slack, one cut per round, whatever the task and the space of cuts.

The problem is OP1 with C for each unit, as LIBSVM has it (the paper's C is n times ours):

    min_w  1/2 |w|^2 + C n R(w),  R(w) = mean_i max_y [Delta(y_i, y) - w.dPsi_i(y)].

A cut (c, g) is an affine function c + w.g below R, made of the most violating outputs at some w.
Here v = -g is what is kept. If the units of a cut are sampled, it need not lie below R.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.sampled_cuts.model import (
    advance,
    drop_idle,
    half_square,
    mean_violation,
    objective,
    slack,
    solve,
)
from workbench.sampled_cuts.spaces import KernelSpace, Known, NystroemSpace
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Task

STALLED = 100  # calm rounds after which exact cuts end, if rounding keeps the violation above eps
DRAWS = 1000  # draws after which a sampled cut is taken even if it is not violated

Space = KernelSpace | NystroemSpace


def exact(task: Task, space: Space, s: CutState, eps: float) -> Iterator[CutState]:
    """Algorithm 1: the cut is made of all units that violate.

    The stream ends when the exact cut is violated by `eps` at most.
    """
    n, precision = task.n, precision_of(task, space)
    answers = find(task, space, s, s.w)
    yield s
    while s.violation > eps and s.calm < STALLED:  # c + w.g > xi + eps
        units, weight = violators(answers)
        space.add(task.cut(answers, units, weight), answers.losses.mean())
        model = solve(s, n)  # (w, xi) := solve_QP(J)
        w = s.alpha.copy()
        answers = find(task, space, s, w)  # (c, g) := find_cutting_plane(w)
        advance(s, w, n, model, objective(s, w, n, answers), precision)
        drop_idle(s, space)
        yield s


def linear_time(task: Task, space: Space, s: CutState, eps: float, r: int) -> Iterator[CutState]:
    """Algorithm 3: the cut is made of `r` units among those that violate.

    The exact cut (c', g') is the stopping criterion: the stream ends when it is violated by `eps`
    at most. Units are drawn again until the sampled cut is violated by more.
    """
    n, precision = task.n, precision_of(task, space)
    answers = find(task, space, s, s.w)
    yield s
    while s.violation > eps:  # c' + w.g' > xi + eps
        c, bound = answers.losses.mean(), slack(s) + eps
        for _ in range(DRAWS):
            units, weight = some_violators(answers, s.rng, r)
            if weight * n <= 1.0 or c - weight * answers.gains[units].sum() > bound:
                break  # all are taken, or c + w.g > xi + eps
        space.add(task.cut(answers, units, weight), c)
        model = solve(s, n)  # (w, xi) := solve_QP(J)
        w = s.alpha.copy()
        answers = find(task, space, s, w)  # ((c, g), (c', g')) := find_cutting_plane(w)
        advance(s, w, n, model, objective(s, w, n, answers), precision)
        drop_idle(s, space)
        yield s


def constant_time(
    task: Task, space: KernelSpace, s: CutState, eps: float, r: int, p: int
) -> Iterator[CutState]:
    """Algorithm 2: only `r` random units are looked at in a round, whatever their number.

    Their cut joins the model and is the stopping criterion: the stream ends when p of them in a
    row were violated by `eps` at most.
    """
    n = task.n
    yield s
    while s.calm < p:
        some = task.of(s.rng.integers(n, size=r))
        rows, inverse = np.unique(some.parts, return_inverse=True)
        known = Known(rows, space.values(rows))
        F = np.tensordot(s.alpha, known.values, 1)[inverse]
        answers = some.answers(F, s.alpha @ s.explicit)  # (c, g) := find_cutting_plane(w)
        risk = mean_violation(answers)
        violation, primal = risk - slack(s), half_square(s, s.alpha) + s.C * n * risk
        space.add(some.cut(answers, np.arange(r), 1.0 / r), answers.losses.mean(), known)
        model = solve(s, n)  # (w, xi) := solve_QP(J)
        calm = s.calm + 1 if violation <= eps else 0  # c + w.g <= xi + eps
        new = {"primal": primal, "model": model, "violation": violation, "calm": calm}
        vars(s).update(round=s.round + 1, w=s.alpha.copy(), **new)
        drop_idle(s, space)
        yield s


def find(task: Task, space: Space, s: CutState, w: np.ndarray) -> Answers:
    """Return the most violating outputs of all units at w = sum_t w_t v_t."""
    return task.answers(space.combine(w), w @ s.explicit)


def violators(answers: Answers) -> tuple[np.ndarray, float]:
    """Return all units that violate, and the weight of each in a cut."""
    return np.flatnonzero(answers.losses > 0.0), 1.0 / len(answers.losses)


def some_violators(
    answers: Answers, rng: np.random.Generator, r: int, spare: int = 0
) -> tuple[np.ndarray, float]:
    """Return `r` random units that violate, all if at most `spare` more do, and their weight."""
    I, weight = violators(answers)
    if len(I) <= r + spare:
        return I, weight
    return I[rng.integers(len(I), size=r)], len(I) / (len(answers.losses) * r)


def precision_of(task: Task, space: Space) -> tuple[float, float]:
    """Return the relative error of a score, and the mean length of dPsi, at most."""
    units, longest = space.precision()
    return units, 2.0 * longest * len(task.parts) / task.n
