"""Algorithms 1, 2 and 3: one slack, one cut a round, whatever the task and wherever cuts live.

The problem is OP1 with C for each unit, as LIBSVM has it (the paper's C is n times ours):

    min_w  1/2 |w|^2 + C n R(w),  R(w) = mean_i max_y [Delta(y_i, y) - w.dPsi_i(y)].

A cut (c, g) is an affine function c + w.g below R, made of the most violating outputs at some w.
Here v = -g is what is kept. Where the units of a cut are sampled, it need not lie below R.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from workbench.sampled_cuts.line_search import line_search
from workbench.sampled_cuts.qp import solve_qp
from workbench.sampled_cuts.spaces import KernelSpace, Known
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Cut, Task

IDLE = 20  # rounds without a multiplier after which a cut is dropped
CLEAN_UP = 10  # rounds between looks for such cuts
MU = 0.1  # the next cut is taken this far on the way from the best point to the model's solution
SMALL = 1e-9  # share of all multipliers below which a cut no longer supports the best point
SOLVED = 0.01  # share of eps: the precision of the model's solution
LITTLE = 0.2  # share of eps: by how much the distance must fall for a round not to be calm
STALLED = 100  # calm rounds after which a method ends that should not have any
DRAWS = 1000  # after which a sampled cut is taken although it is not violated

Choice = Callable[[Answers, CutState], tuple[np.ndarray, float]]


class Space(Protocol):
    """What the methods may ask of where cuts live."""

    def add(self, cut: Cut, offset: float) -> None: ...

    def combine(self, coefficients: np.ndarray) -> np.ndarray: ...

    def keep(self, kept: np.ndarray) -> None: ...

    def precision(self) -> tuple[float, float]: ...


def all_units(answers: Answers, s: CutState) -> tuple[np.ndarray, float]:
    """Algorithm 1: the cut is made of all units that violate."""
    return np.flatnonzero(answers.losses > 0.0), 1.0 / len(answers.losses)


def some_violators(r: int, eps: float, insist: bool) -> Choice:
    """Algorithm 3: the cut is made of r units that violate, drawn uniformly.

    Parameters
    ----------
    insist : draw again until the sampled cut, too, is violated by more than `eps`, as the paper
        does. (A cut that is not taken at the model's solution need not be violated there.)
    """

    def choose(answers: Answers, s: CutState) -> tuple[np.ndarray, float]:
        n = len(answers.losses)
        I = np.flatnonzero(answers.losses > 0.0)
        if len(I) <= r:
            return I, 1.0 / n
        c, weight = answers.losses.mean(), len(I) / (n * r)
        bound = slack(s) + eps
        for _ in range(DRAWS):
            units = I[s.rng.integers(len(I), size=r)]
            if not insist or c - weight * answers.gains[units].sum() > bound:
                break
        return units, weight

    return choose


def cutting_plane(
    task: Task,
    space: Space,
    s: CutState,
    C: float,
    eps: float,
    choose: Choice,
    stabilised: bool,
    p: int | None = STALLED,
) -> Iterator[CutState]:
    """Algorithms 1 and 3: all outputs are looked at in every round.

    Their exact cut is the stopping criterion, and what `choose` makes of it joins the model. The
    stream ends when the exact cut is violated by `eps` at most.

    Parameters
    ----------
    stabilised : step from the best point so far towards the model's solution, to where the
        objective is least, and take the next cut a little further on (Franc, Sonnenburg: Optimized
        cutting plane algorithm for support vector machines. ICML 2008)
    p : end, too, after this many rounds that lowered the least violation by less than eps / 5 in
        all: where cuts are sampled or numbers are rounded, it need not become small; None for no
        such end
    """
    units, longest = space.precision()
    precision = units, 2.0 * longest * len(task.parts) / task.n
    if s.C != C:
        solve_anew(s, C, task.n, eps)
        if not stabilised:
            s.w = s.alpha.copy()
        judge(s, task.n, task.answers(space.combine(s.w), s.w @ s.explicit), precision)
    if s.eps != eps:
        s.eps, s.calm = eps, 0
    C = C * task.n
    F = space.combine(s.w)
    best = F, s.w @ s.explicit
    model = (space.combine(s.alpha), s.alpha @ s.explicit) if stabilised else best
    answers = task.answers(*point(best, model, stabilised))
    yield s
    while s.violation > eps and (p is None or s.calm < p):
        units, weight = choose(answers, s)  # find_cutting_plane(w)
        space.add(task.cut(answers, units, weight), answers.losses.mean())
        value = solve_qp(s.G, s.h, C, s.alpha, SOLVED * eps)
        model = space.combine(s.alpha), s.alpha @ s.explicit
        if stabilised:
            along = model[0] - best[0], model[1] - best[1]
            step = line_search(task, best, along, norms(s), C, eps)
            w = s.w + step * (s.alpha - s.w)
            w[w < SMALL * w.sum()] = 0.0
            there = space.combine(w), w @ s.explicit
            primal = half_square(s, w) + C * mean_violation(task.answers(*there))
            if primal > s.primal:  # by rounding, in a direction of very long vectors
                w, primal = s.w, s.primal
            else:
                best = there
            answers = task.answers(*point(best, model, stabilised))
        else:
            w, best = s.alpha.copy(), model
            answers = task.answers(*best)
            primal = half_square(s, w) + C * mean_violation(answers)
        off = lost(s, w, primal, C, precision)
        advance(s, w, value, primal, C, LITTLE * eps * C, off)
        drop_idle(s, space)
        yield s


def constant_time(
    task: Task, space: KernelSpace, s: CutState, C: float, eps: float, r: int, p: int
) -> Iterator[CutState]:
    """Algorithm 2: only r random units are looked at in a round.

    Their cut joins the model and is the stopping criterion: the stream ends when p of them in a
    row were violated by `eps` at most. Nothing here depends on the number of units.
    """
    if s.C != C:
        solve_anew(s, C, task.n, eps)
        s.w = s.alpha.copy()
        judge(s, task.n, sample(task, space, s, r)[1])
    if s.eps != eps:
        s.eps, s.calm = eps, 0
    C = C * task.n
    yield s
    while s.calm < p:
        some, answers, known = sample(task, space, s, r)  # find_cutting_plane(w)
        risk = mean_violation(answers)
        violation, primal = risk - slack(s), half_square(s, s.alpha) + C * risk
        cut = some.cut(answers, np.arange(r), 1.0 / r)
        space.add(cut, answers.losses.mean(), known)
        model = solve_qp(s.G, s.h, C, s.alpha, SOLVED * eps)
        vars(s).update(
            round=s.round + 1,
            w=s.alpha.copy(),
            primal=primal,
            model=model,
            violation=violation,
            calm=s.calm + 1 if violation <= eps else 0,
        )
        drop_idle(s, space)
        yield s


def sample(task: Task, space: KernelSpace, s: CutState, r: int) -> tuple[Task, Answers, Known]:
    """Draw r units; return them, their answers to the model's solution, and scores by all cuts."""
    some = task.of(s.rng.integers(task.n, size=r))
    rows, inverse = np.unique(some.parts, return_inverse=True)
    values = space.values(rows)
    F = np.tensordot(s.alpha, values, 1)[inverse]
    return some, some.answers(F, s.alpha @ s.explicit), Known(rows, values)


def solve_anew(s: CutState, C: float, n: int, eps: float) -> None:
    """Solve the model for another C; cuts are the same for all."""
    s.alpha *= min(1.0, C / s.C)
    s.model = solve_qp(s.G, s.h, C * n, s.alpha, SOLVED * eps)
    s.C = C


def judge(s: CutState, n: int, answers: Answers, precision=(0.0, 0.0)) -> None:
    """Judge iterate and model by these answers to the iterate, whatever was known before."""
    risk = mean_violation(answers)
    s.primal = half_square(s, s.w) + s.C * n * risk
    s.violation = (s.primal - s.model) / (s.C * n)
    down, up = lost(s, s.w, s.primal, s.C * n, precision)
    s.lower, s.upper = max(0.0, s.model - down), s.primal + up
    s.mark, s.calm = s.primal - s.model, 0


def point(best: tuple, model: tuple, stabilised: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and explicit weights of where the next cut is taken."""
    if not stabilised:
        return model
    return best[0] + MU * (model[0] - best[0]), best[1] + MU * (model[1] - best[1])


def mean_violation(answers: Answers) -> float:
    """Return c + w.g of the exact cut at the point of these answers."""
    return float((answers.losses - answers.gains).mean())


def slack(s: CutState) -> float:
    """Return xi of the model's solution: what the most violated of its cuts asks for."""
    return max(0.0, float((s.h - s.G @ s.alpha).max())) if len(s.h) else 0.0


def half_square(s: CutState, w: np.ndarray) -> float:
    """Return 1/2 |sum_t w_t v_t|^2."""
    return 0.5 * float(w @ s.G @ w)


def lost(s: CutState, w: np.ndarray, primal: float, C: float, precision) -> tuple[float, float]:
    """Return what rounding may have cost the model, and the objective at w.

    Inner products of cuts are sums of values of the kernel, however short the cuts are.

    Parameters
    ----------
    precision : relative error of a score, and the mean length of dPsi, at most
    """
    units, spread = precision
    spread = max(spread, math.sqrt(s.G.diagonal().max(initial=0.0)))
    of_model = float(s.h @ s.alpha) + (spread * s.alpha.sum()) ** 2
    length = spread * w.sum()
    return 2.0 * units * of_model, 2.0 * units * (primal + length**2 + C * (1.0 + spread * length))


def advance(
    s: CutState,
    w: np.ndarray,
    model: float,
    primal: float,
    C: float,
    little: float,
    off: tuple[float, float],
) -> None:
    """Take the state to a new iterate, at once: an interrupted round leaves the one before it."""
    lower, upper = max(s.lower, model - off[0]), min(s.upper, primal + off[1])
    fell = upper - lower < s.mark - little
    vars(s).update(
        round=s.round + 1,
        w=w,
        primal=primal,
        model=model,
        violation=(primal - model) / C,
        lower=lower,
        upper=upper,
        mark=upper - lower if fell else s.mark,
        calm=0 if fell else s.calm + 1,
    )


def norms(s: CutState) -> tuple[float, float, float]:
    """Return w.w, w.d and d.d for d = the model's solution - w."""
    d = s.alpha - s.w
    Gw, Gd = s.G @ s.w, s.G @ d
    return float(s.w @ Gw), float(d @ Gw), float(d @ Gd)


def drop_idle(s: CutState, space: Space) -> None:
    """Count the rounds that cuts have had no multiplier; drop them now and then."""
    s.idle[:] = np.where(s.alpha > 0.0, 0, s.idle + 1)
    if s.round % CLEAN_UP == 0:
        kept = (s.idle < IDLE) | (s.w > 0.0)
        if not kept.all():
            space.keep(kept)
