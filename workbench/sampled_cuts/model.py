"""The model that cuts make of the risk: its objective, and what it certifies."""

from __future__ import annotations

import math

import numpy as np

from workbench.sampled_cuts.qp import solve_qp
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers

IDLE = 20  # rounds without a multiplier after which a cut is dropped
CLEAN_UP = 10  # rounds between looks for such cuts
SOLVED = 0.01  # fraction of eps: the precision of the model's solution
# fraction of eps: by how much the distance must fall for a round not to be calm
LITTLE = 0.2


def solve(s: CutState, n: int) -> float:
    """Solve the model of `n` units, from the multipliers it has, in place; return its
    value."""
    return solve_qp(s.G, s.h, s.C * n, s.alpha, SOLVED * s.eps)


def half_square(s: CutState, w: np.ndarray) -> float:
    """Return 1/2 |sum_t w_t v_t|^2."""
    return 0.5 * float(w @ s.G @ w)


def mean_violation(answers: Answers) -> float:
    """Return c + w.g of the exact cut at the point of these answers, which is R(w)."""
    return float((answers.losses - answers.gains).mean())


def objective(s: CutState, w: np.ndarray, n: int, answers: Answers) -> float:
    """Return 1/2 |w|^2 + C n R(w), given the answers to w."""
    return half_square(s, w) + s.C * n * mean_violation(answers)


def slack(s: CutState) -> float:
    """Return xi of the model's solution: the largest violation of its cuts."""
    return max(0.0, float((s.h - s.G @ s.alpha).max())) if len(s.h) else 0.0


def rounding(s: CutState, w: np.ndarray, primal: float, C: float, precision) -> tuple:
    """Return the most that rounding may have cost the model, and the objective at w.

    Inner products of cuts are sums of values of the kernel, however short the cuts are.

    Parameters
    ----------
    precision : relative error of a score, and the mean length of dPsi, at most
    """
    units, spread = precision
    spread = max(spread, math.sqrt(s.G.diagonal().max(initial=0.0)))
    of_model = float(s.h @ s.alpha) + (spread * s.alpha.sum()) ** 2
    length = spread * w.sum()
    return 2.0 * units * of_model, 2.0 * units * (
        primal + length**2 + C * (1.0 + spread * length)
    )


def advance(
    s: CutState, w: np.ndarray, n: int, model: float, primal: float, precision
) -> None:
    """Take the state to the iterate w, of this `primal` and `model` value, and renew
    its bounds."""
    C = s.C * n
    down, up = rounding(s, w, primal, C, precision)
    lower, upper = max(s.lower, model - down), min(s.upper, primal + up)
    fell = upper - lower < s.mark - LITTLE * s.eps * C
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


def estimate(s: CutState, n: int, model: float, answers: Answers) -> None:
    """Take the state to its next round, whose objective a sample's answers estimate."""
    s.round += 1
    s.model, s.primal = model, objective(s, s.w, n, answers)
    s.violation = mean_violation(answers) - slack(s)


def drop_idle(s: CutState, space) -> None:
    """Count the rounds that cuts have had no multiplier; drop idle cuts now and
    then."""
    s.idle[:] = np.where(s.alpha > 0.0, 0, s.idle + 1)
    if s.round % CLEAN_UP == 0:
        kept = (s.idle < IDLE) | (s.w > 0.0)
        if not kept.all():
            space.keep(kept)
