"""The model of the risk that cuts form: its objective and the bounds that it gives."""

import math

from workbench.core.kinds import Array
from workbench.sampled_cuts.qp import solve_qp
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers

IDLE = 20  # a cut is idle after this number of rounds without a multiplier
CLEAN_UP = 10  # number of rounds between two removals of idle cuts
SOLVED = 0.01  # precision of the model's solution, as a fraction of eps
# A round is calm if the gap, divided by C n, is below the `mark` by no more than this
# fraction of eps.
LITTLE = 0.2
# A round with bounds is calm only if its violation is within this multiple of rounding.
BLUR = 10.0


def solve(s: CutState, n: int) -> float:
    """Solve the model of `n` units in place, from the last alpha; return its value."""
    return solve_qp(s.G, s.h, s.C * n, s.alpha, SOLVED * s.eps)


def mean_violation(answers: Answers) -> float:
    """Return c + w.g of the exact cut at the point of these answers, which is R(w)."""
    return float((answers.losses - answers.gains).mean())


def objective(s: CutState, w: Array, n: int, answers: Answers) -> float:
    """Return 1/2 |w|^2 + C n R(w), given the answers to w."""
    return 0.5 * float(w @ s.G @ w) + s.C * n * mean_violation(answers)


def slack(s: CutState) -> float:
    """Return xi of the model's solution, the largest violation of its cuts."""
    return float((s.h - s.G @ s.alpha).max(initial=0.0))


def rounding(
    s: CutState, w: Array, primal: float, C: float, precision: tuple[float, float]
) -> tuple[float, float]:
    """Return bounds on the rounding errors of the model's value and the objective.

    Inner products of cuts are sums of kernel values, whose rounding errors do not
    become smaller for cuts with a small norm.

    Parameters
    ----------
    precision : bounds on the relative error of a score and on the mean norm of dPsi
    """
    units, spread = precision
    spread = max(spread, math.sqrt(s.G.diagonal().max(initial=0.0)))
    of_model = float(s.h @ s.alpha) + (spread * s.alpha.sum()) ** 2
    length = spread * w.sum()
    of_objective = primal + length**2 + C * (1.0 + spread * length)
    return 2.0 * units * of_model, 2.0 * units * of_objective


def advance(
    s: CutState,
    w: Array,
    n: int,
    model: float,
    primal: float,
    precision: tuple[float, float],
) -> None:
    """Set the state to the iterate w with these values, and update the bounds."""
    C = s.C * n
    down, up = rounding(s, w, primal, C, precision)
    s.round += 1
    s.w = w
    s.primal = primal
    s.model = model
    s.violation = (primal - model) / C
    s.lower = max(s.lower, model - down)
    s.upper = min(s.upper, primal + up)
    gap = s.upper - s.lower
    s.calm += 1
    below = s.mark - LITTLE * s.eps * C
    if gap < below or (s.certified and primal - model > BLUR * (down + up)):
        s.mark = gap
        s.calm = 0


def estimate(s: CutState, n: int, model: float, answers: Answers) -> None:
    """Set the state to its next round, with an objective estimated from a sample."""
    s.round += 1
    s.model = model
    s.primal = objective(s, s.w, n, answers)
    s.violation = mean_violation(answers) - slack(s)


def drop_idle(s: CutState, space) -> None:
    """Count each cut's rounds without a multiplier; sometimes drop idle cuts."""
    s.idle += 1
    s.idle[s.alpha > 0.0] = 0
    if s.round % CLEAN_UP == 0:
        used = (s.idle < IDLE) | (s.w > 0.0)
        if not used.all():
            space.keep(used)
