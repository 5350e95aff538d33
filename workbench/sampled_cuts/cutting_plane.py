"""Algorithms 1, 2 and 3: one slack and one cut per round, for every task and space.

The problem is OP1 with the weight C for each unit, as in LIBSVM (the paper's C is n
times ours):

    min_w  1/2 |w|^2 + C n R(w),  R(w) = mean_i max_y [Delta(y_i, y) - w.dPsi_i(y)].

A cut (c, g) is an affine function c + w.g below R, made of the most violating outputs
at some w. The code stores v = -g. If the units of a cut are sampled, the cut need not
lie below R.
"""

from collections.abc import Iterator

import numpy as np

from workbench.core.kinds import Array
from workbench.sampled_cuts.model import (
    advance,
    drop_idle,
    estimate,
    objective,
    slack,
    solve,
)
from workbench.sampled_cuts.spaces import KernelSpace, NystroemSpace
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Task

# The number of calm rounds after which exact cuts end, since rounding may keep the
# violation above eps.
STALLED = 100
DRAWS = 1000  # after this number of draws even a satisfied sampled cut is taken

Space = KernelSpace | NystroemSpace


def exact(task: Task, space: Space, s: CutState, eps: float) -> Iterator[CutState]:
    """Run Algorithm 1, whose cut is made of all units that violate.

    The stream ends when the exact cut is violated by at most `eps`, or by no more than
    rounding in :data:`STALLED` rounds.
    """
    n = task.n
    precision = precision_of(task, space)
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


def linear_time(
    task: Task, space: Space, s: CutState, eps: float, r: int
) -> Iterator[CutState]:
    """Run Algorithm 3, whose cut is made of `r` units among those that violate.

    The exact cut (c', g') is the stopping criterion: the stream ends when it is
    violated by at most `eps`. Units are drawn again, up to :data:`DRAWS` times, until
    the sampled cut is violated by more than `eps`.
    """
    n = task.n
    precision = precision_of(task, space)
    answers = find(task, space, s, s.w)
    yield s
    while s.violation > eps:  # c' + w.g' > xi + eps
        c = answers.losses.mean()
        bound = slack(s) + eps
        for _ in range(DRAWS):
            units, weight = some_violators(answers, s.rng, r)
            all_taken = weight * n <= 1.0
            if all_taken or c - weight * answers.gains[units].sum() > bound:
                break  # c + w.g > xi + eps
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
    """Run Algorithm 2, whose rounds evaluate only `r` random units.

    Their cut is added to the model and is the stopping criterion: the stream ends when
    `p` such cuts in a row were violated by at most `eps`.
    """
    if not len(s.sample):
        s.sample = s.rng.integers(task.n, size=r)  # sample r examples uniformly for s
    units, answers = find_sampled(task, space, s)
    yield s
    while s.calm < p:  # c + w.g > xi + eps, or not p times in a row
        cut = units.cut(answers, np.arange(units.n), 1.0 / units.n)
        space.add(cut, answers.losses.mean())
        model = solve(s, task.n)  # (w, xi) := solve_QP(J)
        s.w = s.alpha.copy()
        drop_idle(s, space)
        s.sample = s.rng.integers(task.n, size=r)  # sample r examples uniformly for s
        units, answers = find_sampled(task, space, s)  # (c, g) := find_cutting_plane(w)
        estimate(s, task.n, model, answers)
        s.calm += 1
        if s.violation > eps:
            s.calm = 0
        yield s


def find(task: Task, space: Space, s: CutState, w: Array) -> Answers:
    """Return the most violating outputs of all units at w = sum_t w_t v_t."""
    return task.answers(space.combine(w), w @ s.explicit)


def find_sampled(task: Task, space: KernelSpace, s: CutState) -> tuple[Task, Answers]:
    """Return the task of the sampled units, and their answers at the iterate."""
    units = task.of(s.sample)
    return units, units.answers(space.combine_at(units.parts, s.w), s.w @ s.explicit)


def violators(answers: Answers) -> tuple[Array, float]:
    """Return all units that violate, and the weight of each in a cut."""
    return np.flatnonzero(answers.losses > 0.0), 1.0 / len(answers.losses)


def some_violators(
    answers: Answers, rng: np.random.Generator, r: int
) -> tuple[Array, float]:
    """Return `r` random violating units, or all if fewer, and the weight of each."""
    I, weight = violators(answers)
    if len(I) <= r:
        return I, weight
    return I[rng.integers(len(I), size=r)], len(I) / (len(answers.losses) * r)


def precision_of(task: Task, space: Space) -> tuple[float, float]:
    """Return bounds on the relative error of a score and on the mean norm of dPsi."""
    units, longest = space.precision()
    return units, 2.0 * longest * len(task.parts) / task.n
