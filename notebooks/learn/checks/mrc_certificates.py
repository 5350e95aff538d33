"""The checks of the lesson mrc_3, on certificates; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.certified import check_certified as check_certified
from checks.exercise import CLOSE, array, ask, cases, exercise, need, number, pick, same
from checks.mrc import joint, toy
from workbench.core.problem import Problem, as_problem
from workbench.core.trace import Trace
from workbench.mrc.ccg import mrc_ccg
from workbench.mrc.risk import MinimaxRisk, minimax_risk
from workbench.runs.run import run


@exercise
def check_upper(upper, problem: Problem):
    """``upper(R, eps1) -> U(mu^k)`` if all features are in the LP."""
    risk = minimax_risk(problem, 0.01)
    for s in mrc_ccg(problem, columns=False):
        found, truth = number(ask(upper, s.R, s.eps1)), risk.upper(s.M)
        hint = (
            f"R^k = {s.R:.4f}, eps1_hat = {s.eps1:.4f}: expected {truth:.4f}, got "
            f"{found:.4f}. "
        )
        need(
            same(found, truth),
            hint + "How far must nu rise until mu^k violates no row?",
        )
    return "one scan gives the violation and the upper bound together"


@exercise
def check_lower(lower, risk: MinimaxRisk):
    """``lower(p, X, tau, lam)`` is BR(p) / rho, a lower bound of R*."""
    # a pixel that is never on
    dark = as_problem(np.c_[risk.X[:, :-1], np.zeros(risk.n)], risk.y)
    dark = minimax_risk(dark, risk.lambda0)
    for at, p in [(r, p) for r in (risk, dark) for p in _inside_and_outside(r)]:
        with np.errstate(invalid="ignore"):
            found = number(ask(lower, p.copy(), at.X, at.tau, at.lam))
        bayes, truth = 1 - p.max(axis=1).sum(), at.lower(p)
        ratio = at.ratios((at.X.T @ p).T).max()
        hint = f"expected {truth:.5f}, got {found:.5f}: "
        if at is dark:
            hint += "some lam are 0 here; 0 / 0 is nan, and max(1, nan) is 1"
        elif same(found, bayes):
            hint = f"that is BR(p), but p is {ratio:.2f} tolerances off: divide by rho"
        elif ratio <= 1 and bayes > CLOSE and same(found * ratio, bayes):
            hint = "rho is at least 1: a p deep inside U gives its BR(p), not more"
        elif ratio <= 1:
            hint += "this p is in U, where rho is 1, and the result is BR(p)"
        else:
            hint += (
                "is your rho large enough for averages that are too low, and too high?"
            )
        need(same(found, truth), hint)
    return "a lower bound of R* from any p, good or bad"


@exercise
def check_not_a_bound(p, risk: MinimaxRisk, R: float):
    """BR(p) exceeds R*, so BR(p) alone is not a lower bound."""
    p = joint(p, risk)
    bayes = 1 - p.max(axis=1).sum()
    need(
        bayes > R + CLOSE,
        f"BR(p) = {bayes:.4f}, R* = {R:.4f}: spread the labels more evenly",
    )
    return (
        f"BR(p) = {bayes:.4f} exceeds R* = {R:.4f}; divided by rho it is "
        f"{risk.lower(p):.4f}"
    )


@exercise
def check_ending(ending):
    """``ending(violations, eps1, gap)``: which of two rules ends a run, "finished" or
    "gap"."""
    rng = cases()
    for _ in range(50):
        violations, (eps1, gap) = (
            0.5 ** np.arange(20) * rng.uniform(0.3, 3, 20),
            rng.random(2) / 9,
        )
        case = (
            f"eps1 = {eps1:.3g}, gap = {gap:.3g}, violations "
            f"{np.round(violations[:7], 4)}...: "
        )
        found = ask(ending, violations.copy(), eps1, gap)
        last = violations[np.argmax(violations <= max(eps1, gap))]
        hint = (
            f"{case}not {found!r}. Which round is the last, and is the gap small "
            "enough in it?"
        )
        pick(found, ("finished", "gap"), "gap" if last <= gap else "finished", hint)
    return "a solver that stops adding cuts may never reach the gap that you asked for"


@exercise
def check_false_certificate(false_rounds, rows: list[dict]):
    """``false_rounds(rows)``: no row is violated and R^k is above R*, which is not
    known."""
    for problem in (toy(seed, 4) for seed in range(1, 5)):
        chosen = {"columns": True, "m_max": 1, "eps1": 1e-9, "lambda0": 0.1}
        trace, _ = run("mrc_ccg", problem, parameters=chosen, warm_up=False)
        found = ask(false_rounds, [dict(row) for row in trace.rows])
        hint = "return the numbers of the rounds, row['round'], in a list"
        need(all(isinstance(one, int | float | np.number) for one in found), hint)
        found = set(found)
        quiet = [row for row in trace.rows if row["eps1_hat"] < CLOSE]
        hint = "in one of your rounds rows are still violated, which can be seen"
        need(found <= {row["round"] for row in quiet}, hint)
        proved = {row["round"] for row in quiet if row["eps2_hat"] < 1e-9}
        hint = (
            "in one of your rounds R^k is a lower bound; what does the LP lack in the "
            "others?"
        )
        need(not found & proved, hint)
        above = {row["round"] for row in quiet if row["R"] > trace.last["R"] + 1e-5}
        hint = (
            "another round violates no row by more than 1e-6, and its R^k is above R*"
        )
        need(above <= found, hint)
    return f"in the run above these are the rounds {[*map(int, false_rounds(rows))]}"


@exercise
def check_converged(steep, trace: Trace):
    """``steep(t) -> a, b``: a row that hardly changes R^k and is above 1 at t."""
    draws = cases().uniform([-5, 0, 0.1], [5, 0.5, 1], (20, 3))
    rows = np.array([array(ask(steep, t), (2,), "the result") for t in draws[:, 0]])
    heights = rows[:, 0] + rows[:, 1] * draws[:, 0]
    for t, height in zip(draws[:, 0], heights):
        need(
            height > 1,
            f"for t = {t:.3f} your row is at {height:.3g} there, not above 1",
        )
    for (_, v, slope), b, height in zip(draws, rows[:, 1], heights):
        lift = slope * (height - v) / (abs(b) + slope)  # where the row meets the model
        need(
            lift < 0.01,
            f"your row raises the minimum by {lift:.3g}; where do they meet?",
        )
    R = trace.column("R")
    worst = (R + trace.column("eps1_hat"))[R > R[-1] - 0.01].max()
    return f"U(mu^k) was up to {worst:.3g} while R^k was within 0.01 of its end"


def _inside_and_outside(risk: MinimaxRisk):
    """Yield distributions in U and out of it, by an average too low, too high, or of
    the ones."""
    observed = np.eye(risk.k)[risk.y] / risk.n
    noise = cases().dirichlet(np.ones(observed.size)).reshape(observed.shape)
    blurred = 0.9 * observed + 0.1 * observed.mean(axis=1, keepdims=True)
    yield from (
        (1 - share) * observed + share * noise for share in (0.0, 0.001, 0.5, 1.0)
    )
    for c in range(risk.k):  # more, then less of class c than in the data
        for factor in (3.0, 0.1):
            p = np.where((risk.y == c)[:, None], factor, 1.0) * blurred
            yield p / p.sum()
