"""The checks of the lesson mrc_3, on certificates; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.certified import check_certified as check_certified
from checks.exercise import CLOSE, ask, exercise, need, number, same
from checks.mrc import joint
from workbench.core.problem import Problem, as_problem
from workbench.core.trace import Trace
from workbench.mrc.ccg import mrc_ccg
from workbench.mrc.risk import MinimaxRisk, minimax_risk


@exercise
def check_upper(upper, problem: Problem):
    """``upper(R, eps1) -> U(mu^k)`` where all features are in the LP."""
    risk = minimax_risk(problem, 0.01)
    for s in mrc_ccg(problem, columns=False):
        found, truth = number(ask(upper, s.R, s.eps1)), risk.upper(s.M)
        hint = f"R^k = {s.R:.4f}, eps1_hat = {s.eps1:.4f}: expected {truth:.4f}, got {found:.4f}. "
        need(same(found, truth), hint + "How far must nu rise until mu^k violates no row?")
    return "one scan gives the violation and the upper bound together"


@exercise
def check_lower(lower, risk: MinimaxRisk):
    """``lower(p, X, tau, lam)`` is BR(p) / rho, a lower bound of R*."""
    dark = as_problem(np.c_[risk.X[:, :-1], np.zeros(risk.n)], risk.y)  # a pixel that is never on
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
        elif same(found * ratio, bayes):
            hint = "rho is at least 1: a p deep inside U is worth its BR(p), not more"
        else:
            hint += "rho is max |E_p Phi - tau| / lam, over all"
        need(same(found, truth), hint)
    return "a lower bound of R* from any p, good or bad"


@exercise
def check_not_a_bound(p, risk: MinimaxRisk, R: float):
    """BR(p) exceeds R*, so that BR(p) alone is no lower bound."""
    p = joint(p, risk)
    bayes = 1 - p.max(axis=1).sum()
    need(bayes > R + CLOSE, f"BR(p) = {bayes:.4f}, R* = {R:.4f}: spread the labels more evenly")
    return f"BR(p) = {bayes:.4f} exceeds R* = {R:.4f}; divided by rho it is {risk.lower(p):.4f}"


@exercise
def check_ending(answer, trace: Trace):
    """`answer` is what the last row's ``stopped_by`` says."""
    last, ends = trace.last, ("finished", "gap <= 0.001", "60 seconds")
    need(answer in ends, f"answer one of {ends}")
    need(answer == last["stopped_by"], f"no, '{last['stopped_by']}': compare eps1 with the gap")
    return f"no row is violated by more than eps1, and the gap is still {last['gap']:.4f}"


@exercise
def check_false_certificate(answer, trace: Trace, R: float):
    """Round `answer` violates no row and still has R^k above R*."""
    rows = {row["round"]: row for row in trace.rows}
    need(answer in rows, f"give a round from 0 to {max(rows)}")
    row = rows[answer]
    case = f"round {answer} has R^k = {row['R']:.4f}, eps1_hat = {row['eps1_hat']:.0e}"
    need(row["eps1_hat"] < CLOSE, case + ": rows are still violated, and we can see it")
    need(row["R"] > R + 1e-4, case + f", and R* = {R:.4f}: this round tells the truth")
    return f"{case}, but R* = {R:.4f}; the features know, eps2_hat = {row['eps2_hat']:.3f}"


@exercise
def check_converged(answer, trace: Trace):
    """`answer`: the largest U(mu^k) where R^k is within 0.01 of its end: "a", "b" or "c"."""
    R = trace.column("R")
    worst = (R + trace.column("eps1_hat"))[R > R[-1] - 0.01].max()
    need(answer in ("a", "b", "c"), 'answer "a", "b" or "c"')
    hint = "R^k knows the rows inside the LP; who watches the others?"
    need(answer == ("a" if worst < R[-1] + 0.01 else "b" if worst < 1 else "c"), hint)
    return f"U(mu^k) was up to {worst:.3g} while R^k stood within 0.01 of its end"


def _inside_and_outside(risk: MinimaxRisk):
    """Yield distributions in U and out of it, by an average too low, too high, or of the ones."""
    observed = np.eye(risk.k)[risk.y] / risk.n
    noise = np.random.default_rng(0).dirichlet(np.ones(observed.size)).reshape(observed.shape)
    blurred = 0.9 * observed + 0.1 * observed.mean(axis=1, keepdims=True)
    yield from ((1 - share) * observed + share * noise for share in (0.0, 0.001, 0.5, 1.0))
    for c in range(risk.k):  # more, then less of class c than in the data
        for factor in (3.0, 0.1):
            p = np.where((risk.y == c)[:, None], factor, 1.0) * blurred
            yield p / p.sum()
