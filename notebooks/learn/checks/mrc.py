"""The checks of the lessons mrc_1 and mrc_2; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

from functools import partial

import cvxpy as cp
import numpy as np

from checks.exercise import (
    CLOSE,
    Hint,
    Unfinished,
    array,
    ask,
    cases,
    exercise,
    need,
    number,
    pick,
    same,
    several,
)
from workbench.core.problem import Problem, as_problem
from workbench.mrc.highs import minimise
from workbench.mrc.lp import all_subsets, constraints, mrc_lp
from workbench.mrc.risk import MinimaxRisk, minimax_risk

# Lesson 1: the minimax risk


@exercise
def check_moments(moments):
    """``moments(X, y, k, lambda0) -> tau, lam``, both (k, d')."""
    for lambda0 in (0.3, 0.05):
        risk = minimax_risk(toy(), lambda0)
        found = ask(moments, risk.X, risk.y, 3, lambda0)
        several(found, 2, "return two arrays, tau and lam")
        tau, lam = (
            array(a, risk.tau.shape, name) for a, name in zip(found, ("tau", "lam"))
        )
        share = np.bincount(risk.y)[:, None] / risk.n
        hint = "these are class means; tau divides by n, by all rows"
        need(not same(tau, risk.tau / share), hint)
        need(
            same(tau, risk.tau),
            "tau is off: row y is the sum of X over class y, divided by n",
        )
        inside = np.array([risk.X[risk.y == c].std(axis=0) for c in range(3)])
        hint = (
            "this is the spread within each class; block y of Phi is 0 on other rows, "
            "which count"
        )
        need(not same(lam, lambda0 * inside), hint)
        need(
            same(lam, risk.lam), "lam is off: lambda0 times sqrt(mean of Phi^2 - tau^2)"
        )
    return "the same tau and lambda as workbench.mrc.risk"


@exercise
def check_members(answers, largest_share, candidates: dict, risk: MinimaxRisk):
    """``answers[name]``: is ``candidates[name]`` in U? And how many labels may be wrong
    in U?"""
    rng = cases()
    for _ in range(20):
        tau, lam = rng.normal(size=(3, 4)), rng.uniform(0.01, 0.5, (3, 4))
        found = number(ask(largest_share, tau.copy(), lam.copy()))
        truth = (lam[:2] / np.abs(tau[0])).min()
        need(
            found >= 0,
            f"{found:.3g}: an average may move up or down, but the fraction is "
            "positive",
        )
        need(found > truth - CLOSE, "a larger fraction is in U for these tau and lam")
        need(
            found < truth + CLOSE, "outside U: which averages does a wrong label move?"
        )
    need(isinstance(answers, dict), "the answers should be a dictionary, as given")
    for name, p in candidates.items():
        if answers.get(name, ...) is ...:
            raise Unfinished
        need(
            isinstance(answers[name], (bool, np.bool_)), f"{name}: answer True or False"
        )
        ratio = risk.ratios((risk.X.T @ p).T).max()
        hint = f"{name}: its worst average is {ratio:.2g} tolerances away from tau"
        need(bool(answers[name]) == (ratio <= 1 + CLOSE), hint)
    return "U depends on averages only, not on what a distribution looks like"


@exercise
def check_two_labels(level):
    """``level(a, b)`` is the smallest t with (a - t)_+ + (b - t)_+ <= 1."""
    for a, b in cases().normal(0, 2, (200, 2)):
        t, apart = number(ask(level, a, b)), "more" if abs(a - b) > 1 else "less"
        used = max(a - t, 0) + max(b - t, 0)
        case = f"for a = {a:.3f}, b = {b:.3f}, {apart} than 1 apart, "
        need(
            used <= 1 + CLOSE or same(used, 1),
            f"{case}the two probabilities would sum to {used:.3f} > 1",
        )
        need(used >= 1 - CLOSE, f"{case}t can be lower: only {used:.3f} of 1 is used")
    return "each case is one subset of the labels: the larger alone, or both"


@exercise
def check_subset_constraints(subset_constraints):
    """``subset_constraints(V, phi)`` is a list of cvxpy constraints for (n, k) scores
    V."""
    problem = toy()
    risk, R = minimax_risk(problem, 0.3), _solve(problem, 0.3).R
    M, phi = cp.Variable(risk.tau.shape), cp.Variable()
    rows = ask(subset_constraints, risk.X @ M.T, phi)
    cost = (
        1
        - cp.sum(cp.multiply(risk.tau, M))
        + cp.sum(cp.multiply(risk.lam, cp.abs(M)))
        + phi
    )
    need(isinstance(rows, list | tuple), "return a list of constraints, [...]")
    value = cp.Problem(cp.Minimize(cost), list(rows)).solve()
    need(np.isfinite(value), "the LP is unbounded: what holds phi up?")
    formula = "is it (sum - 1) / |C|?"
    case = f"on a small problem your LP has the value {value:.4f}, not {R:.4f}: "
    need(
        value >= R - 1e-5, case + "some constraints are missing or too weak; " + formula
    )
    need(value <= R + 1e-5, case + "some constraints are too strong; " + formula)
    for labels in all_subsets(3):
        rows = ask(
            subset_constraints, cp.Constant(np.where(labels, 1.0, -5.0)[None]), phi
        )
        value, level = (
            cp.Problem(cp.Minimize(phi), list(rows)).solve(),
            1 - 1 / labels.sum(),
        )
        case = (
            f"where {labels.tolist()} have the score 1 and the others -5, phi can be "
        )
        hint = f"{value:.2f}, not {level:.2f}: is that subset there?"
        need(abs(value - level) < 1e-5, case + hint)
    return f"your LP has the value of the package's, {R:.4f} on a small problem"


@exercise
def check_large_lambda(ignorant):
    """``ignorant(k)``: R* and phi where lambda0 is so large that U holds every
    distribution."""
    for k in (2, 3, 10):
        found = ask(ignorant, k)
        several(found, 2, "return two numbers, R* and phi")
        R, phi = map(number, found)
        case = f"for {k} classes: "
        hint = "all scores are 0: for which subset is (0 - 1) / |C| largest?"
        need(same(phi, -1 / k), case + hint)
        hint = (
            "phi is right; insert mu = 0 into the objective, or consider the worst "
            "case of a rule"
        )
        need(same(R, 1 - 1 / k), case + hint)
    return "R* = 1 - 1/k: nothing is known, and the rule guesses"


@exercise
def check_argmax_broken(p, M: np.ndarray, risk: MinimaxRisk):
    """`p` in U gives the argmax rule of M an error above U(M)."""
    p = joint(p, risk)
    ratio = risk.ratios((risk.X.T @ p).T).max()
    need(ratio <= 1 + 1e-4, f"p is outside U: an average is {ratio:.3f} tolerances off")
    wrong = 1 - p[np.arange(risk.n), np.argmax(risk.X @ M.T, axis=1)].sum()
    bound = risk.upper(M)
    need(
        wrong > bound + 1e-4,
        f"argmax: an error of {wrong:.4f}, not more than R* = {bound:.4f}",
    )
    return f"the error of argmax is {wrong:.4f} although R* = {bound:.4f}"


# Lesson 2: cutting planes


@exercise
def check_greedy(greedy):
    """``greedy(v) -> psi(v), mask`` for a vector v of k scores."""
    for v in _score_vectors():
        best, labels = _brute(v)
        found = ask(greedy, v.copy())
        several(found, 2, "return two things: value and mask")
        value, mask = (
            number(found[0]),
            array(found[1], v.shape, "the mask").astype(bool),
        )
        case = f"for v = {np.round(v, 2).tolist()} "
        need(
            same(value, best),
            f"{case}you find {value:.4f}, the subset {labels} has {best:.4f}",
        )
        attained = (v[mask].sum() - 1) / max(mask.sum(), 1)
        need(
            same(attained, best),
            case + "the value is right, but the mask does not attain it",
        )
    return "the best of all subsets every time, including ties"


@exercise
def check_counterexample(v, algorithm):
    """`v` makes ``algorithm(v) -> value, mask`` miss the best subset."""
    v = np.asarray(v, dtype=float)
    need(v.ndim == 1 and 2 <= len(v) <= 12, "give a vector of 2 to 12 scores")
    need(np.isfinite(v).all(), "the scores should be finite")
    value, best = algorithm(v)[0], _brute(v)[0]
    hint = f"it finds {value:.4g}, which is the best. Which label does it take first?"
    need(value < best - CLOSE, hint)
    return f"the printed order gives {value:.4g}, the best subset has {best:.4g}"


@exercise
def check_root(value, labels, v):
    """`value` is psi(v) and `labels` the maximising subset."""
    v = np.asarray(v, dtype=float)
    best, value = _brute(v)[0], number(value)
    total = np.maximum(v - value, 0).sum()
    move = "raise" if total > 1 else "lower"
    hint = f"at your t the positive parts sum to {total:.3f}: {move} t"
    need(abs(value - best) < 1e-3, hint)
    need(
        set(labels) == set(np.flatnonzero(v > best)),
        "C contains exactly the labels with v_y > t",
    )
    return "psi, and the subset with it, without a search over subsets"


@exercise
def check_cut(cut, u):
    """``cut(t) -> a, b``: the line a + b t touches the convex u at t and lies below
    it."""
    ts = np.linspace(0, 2.5, 41)
    heights = np.array([u(t) for t in ts])
    for t, height in zip(ts[1:], heights[1:]):
        found = ask(cut, t)
        several(found, 2, "return two numbers, a and b")
        a, b = map(number, found)
        touches = a + b * t
        hint = (
            f"at t = {t:.2f} the line misses u by {touches - height:.4f}; compare the "
            "terms: row and subset at this t, lambda'|D| - tau'D, the 1/|C|"
        )
        need(same(touches, height), hint)
        crosses = (a + b * ts > heights + CLOSE).any()
        need(not crosses, f"the line for t = {t:.2f} crosses u: look at its slope")
    return "every line touches u and none crosses it"


@exercise
def check_most_violated(most_violated):
    """``most_violated(V, nu, eps1, n_max)``: rows by violation, largest first, above
    eps1."""
    V, nu, eps1 = cases().normal(0, 1, (30, 3)), 1.4, 0.2
    violation = np.array([_brute(v)[0] for v in V]) + 1 - nu
    order = np.argsort(-violation)
    for n_max in (3, 50):
        best = order[violation[order] > eps1][:n_max]
        rows = np.asarray(ask(most_violated, V.copy(), nu, eps1, n_max), dtype=int)
        need(len(rows) <= n_max, f"{len(rows)} rows, but n_max = {n_max}")
        need(
            (violation[rows] > eps1).all(),
            "the violation psi + 1 - nu must exceed eps1",
        )
        need(
            set(rows) == set(best), f"these are not the {len(best)} most violated rows"
        )
        need(list(rows) == list(best), "the right rows; give the most violated first")
    return "this is CONSTR; Algorithm 2 fills in the subset of each row"


@exercise
def check_unbounded(samples, masks, risk: MinimaxRisk):
    """The LP with only the constraints (samples, masks) has no lower bound."""
    samples, masks = (
        np.atleast_1d(samples).astype(int),
        np.atleast_2d(masks).astype(bool),
    )
    need(
        masks.shape == (len(samples), risk.k),
        f"masks: {risk.k} truth values for each sample",
    )
    need(
        len(samples) > 0 and masks.any(axis=1).all(),
        "at least one row, and no empty subset",
    )
    try:
        R = _value(risk, risk.X[samples], masks, np.flatnonzero(risk.active))
    except ValueError:
        return "HiGHS ends without a solution: in some direction no row bounds mu"
    raise Hint(f"this LP is bounded, R = {R:.4f}; try fewer rows, or fewer labels")


@exercise
def check_path(answer, bracket):
    """`answer`: what R^k does; ``bracket(R, rows, features, n, m)`` are bounds from two
    LPs."""
    rng = cases()
    for problem in map(toy, range(2, 7)):
        risk, truth = minimax_risk(problem, 0.1), _solve(problem, 0.1).R
        n, m, R = risk.n, risk.tau.size, partial(_small_lp, risk)
        rows, features = rng.permutation(n)[:3], np.sort(rng.permutation(m)[:5])
        low, high = array(ask(bracket, R, rows, features, n, m), (2,), "the result")
        need(
            low < truth + CLOSE,
            "your lower bound is above R* here: what is missing from that LP?",
        )
        need(
            high > truth - CLOSE,
            "your upper bound is below R* here: what is missing from that LP?",
        )
        best = R(rows, range(m)), R(range(n), features)
        hint = (
            "some of the other rows or features: use the given ones, or all of a kind"
        )
        need(low < best[0] + CLOSE and high > best[1] - CLOSE, hint)
        hint = "R* is between them now; is it always, and could they be closer?"
        need(same((low, high), best), hint)
    hint = "a new row shrinks the feasible set; what does a new feature do to it?"
    pick(answer, ("rises", "falls", "both"), "both", hint)
    return "new rows raise R^k, new features lower it"


def joint(p, risk: MinimaxRisk) -> np.ndarray:
    """Return `p` as a distribution over rows and labels, or raise a Hint."""
    p = array(p, (risk.n, risk.k), "p").astype(float)
    need(p.min() >= -CLOSE, f"p has a negative entry, {p.min():.2g}")
    total = p.sum()
    need(abs(total - 1) < 1e-5 or same(total, 1), f"p sums to {total:.4f}, not to 1")
    return np.maximum(p, 0) / np.maximum(p, 0).sum()


def _small_lp(risk: MinimaxRisk, rows, features) -> float:
    """Return the value of the LP of the class means and these rows, with these features
    only."""
    rows, J = (np.unique(np.asarray(one, dtype=int)) for one in (rows, features))
    hint = "that LP has every row and every feature, which is too expensive"
    need(len(rows) < risk.n or len(J) < risk.tau.size, hint)
    points, subsets = np.r_[risk.means, risk.X[rows]], all_subsets(risk.k)
    return _value(
        risk, np.repeat(points, len(subsets), 0), np.tile(subsets, (len(points), 1)), J
    )


def _value(risk: MinimaxRisk, points, masks, J) -> float:
    A, b = constraints(points, masks, J)
    tau, lam = risk.tau.ravel()[J], risk.lam.ravel()[J]
    return minimise(np.r_[lam - tau, lam + tau, 1.0], A, b, free=[-1]).objective


def _solve(problem: Problem, lambda0: float):
    *_, state = mrc_lp(problem, lambda0=lambda0)
    return state


def toy(seed: int = 0, d: int = 2) -> Problem:
    """Return a problem of 25 rows."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [12, 8, 5])
    return as_problem(rng.normal(size=(25, d)) + y[:, None], y)


def _score_vectors():
    rng = cases()
    for k in (1, 2, 3, 5, 8):
        yield from rng.normal(0, 1, (40, k))
        yield from rng.integers(-2, 3, (10, k)) / 2  # with ties


def _brute(v: np.ndarray) -> tuple[float, list[int]]:
    """Return psi(v) and the labels of a maximising subset, by trying every one."""
    subsets = all_subsets(len(v))
    values = (subsets @ v - 1) / subsets.sum(axis=1)
    best = int(np.argmax(values))
    return float(values[best]), np.flatnonzero(subsets[best]).tolist()
