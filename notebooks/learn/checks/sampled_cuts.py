"""The checks of the lessons cuts_1 and cuts_2; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checks.exercise import (
    CLOSE,
    Hint,
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

# Lesson 1: one slack


@exercise
def check_touching(answer, X: np.ndarray, y: np.ndarray):
    """`answer`: how many of the 2^n lines the risk of (n, 1) `X` runs along."""
    found, pieces = number(answer), len(np.unique(y / X[:, 0])) + 1
    need(
        found != 2 ** len(y),
        "most of them are nowhere the highest: where does R have kinks?",
    )
    need(found != pieces - 1, "that is the number of kinks; count the straight pieces")
    need(
        found == pieces,
        "R changes from one line to the next at the kink of a row's hinge",
    )
    return (
        f"{pieces - 1} kinks, {pieces} pieces, and {2 ** len(y) - pieces} lines that "
        "never matter"
    )


@exercise
def check_cut(cut):
    """``cut(w, X, y) -> c, g``: the affine function below the risk that touches it at
    `w`."""
    X, y, w = _toy()
    found, (c, g) = ask(cut, w.copy(), X, y), _cut(w, X, y)
    several(found, 2, "return two things: c and g")
    offset, slope = number(found[0]), array(found[1], w.shape, "g")
    need(not same(offset, c * len(y)), "c is a sum over the rows here; take the mean")
    need(not same(offset, 1), "only rows whose hinge is positive take part in the cut")
    need(not same(offset, c + w @ g), "that is R(w), c + w'g; c is the part without w")
    need(
        same(offset, c),
        f"c is the fraction of rows that violate, {c:.3f} here, not {offset:.3f}",
    )
    need(not same(slope, -g), "g has the wrong sign: along y x the loss falls")
    need(not same(slope, g * len(y)), "g is a sum over the rows here; take the mean")
    need(not same(slope, g / c), "divide by all n rows, not by those that violate")
    need(same(slope, g), "g is off: each row that violates adds -y x / n")
    return "c + w'g is R(w) here, and nowhere above R"


@exercise
def check_gap(gap):
    """``gap(c, g, w, xi, Cn)``: P(w) minus the model's value."""
    X, y, w = _toy()
    (c, g), xi, Cn = _cut(w, X, y), 0.1, 7.0
    found, risk = number(ask(gap, c, g.copy(), w.copy(), xi, Cn)), c + w @ g
    need(not same(found, risk - xi), "P and the model have the slack times Cn")
    need(
        not same(found, Cn * risk), "that is Cn R(w); subtract the model's value for it"
    )
    need(
        not same(found, Cn * (c - xi)),
        "R(w) is c + w'g, the height of the new cut at w",
    )
    told = (
        f"with R(w) = {risk:.3f}, xi = {xi}, Cn = {Cn:g} it is {Cn * (risk - xi):.3f}"
    )
    need(
        same(found, Cn * (risk - xi)), told + f", not {found:.3f}: |w|^2 / 2 is in both"
    )
    return "Cn times the violation of the new cut"


@exercise
def check_step(step):
    """``step(G, h, alpha, i, j)``: `alpha` after the best move from `j` to `i`."""
    rng = cases()
    g, h, alpha = rng.normal(size=(4, 3)), rng.random(4), np.array([0.5, 0.2, 0.3, 0.4])
    for scale in (10.0, 0.01):  # with little curvature the best move is more than j has
        G = scale * g @ g.T
        q = h - G @ alpha
        i, j = int(np.argmax(q)), int(np.argmin(q))
        best = (q[i] - q[j]) / (G[i, i] + G[j, j] - 2 * G[i, j])
        given = alpha.copy()
        found = array(ask(step, G, h, given, i, j), alpha.shape, "the result")
        need(
            same(given, alpha),
            "do not change the array that you are given: copy it first",
        )
        need(
            same(found.sum(), alpha.sum()),
            "the sum must not change: what j loses, i gains",
        )
        need(
            found.min() > -CLOSE,
            "a variable is negative: alpha_j is the most that can move",
        )
        moved, truth = found[i] - alpha[i], min(best, alpha[j])
        hint = (
            f"{moved:.3f} moved, {truth:.3f} is best: where is the derivative of "
            "D(delta) 0?"
        )
        need(same(found, alpha + truth * (np.eye(4)[i] - np.eye(4)[j])), hint)
    return "the highest point of a line, or its end"


@exercise
def check_rise(rise):
    """``rise(Cn, eps, rho)``: the most of s Cn eps - 2 (s Cn rho)^2 for s in [0, 1]."""
    for Cn, eps, rho in ((50.0, 0.1, 2.0), (0.01, 0.5, 1.0)):
        found, s = number(ask(rise, Cn, eps, rho)), min(1.0, eps / (4 * Cn * rho**2))
        truth = s * Cn * eps - 2 * (s * Cn * rho) ** 2
        told = (
            f"for Cn = {Cn}, eps = {eps}, rho = {rho} it is {truth:.3g}, not "
            f"{found:.3g}"
        )
        t = min(1.0, eps / (Cn * rho**2))
        hint = (
            "that has the curvature (Cn rho)^2 of the new cut alone: w may be just as "
            "long"
        )
        need(abs(found - t * Cn * eps + (t * Cn * rho) ** 2 / 2) > CLOSE * truth, hint)
        hint = ": where is the derivative 0?" if s < 1 else ": the best s is 1 there"
        need(same(found / truth, 1), told + hint)
    return "eps^2 / (8 rho^2) as long as that s is below 1"


@exercise
def check_faster(cuts_until):
    """``cuts_until(Cn, eps, rho)``: cuts after which the lower bound is within Cn
    eps."""
    for Cn, eps, rho in ((50.0, 0.1, 2.0), (7.0, 0.01, 0.5)):
        found, truth = number(ask(cuts_until, Cn, eps, rho)), 8 * Cn * rho**2 / eps
        need(
            not same(found, truth / eps),
            "that treats every violation as if it were eps; most are larger",
        )
        need(
            not same(found, truth * Cn), "delta ends at Cn eps: take it in units of Cn"
        )
        told = (
            f"for Cn = {Cn:g}, eps = {eps}, rho = {rho} it is {truth:g}, not {found:g}"
        )
        exact = same(found, truth * (1 - eps))  # from delta = Cn on
        need(
            exact or same(found, truth),
            told + ": by how much does 1/delta grow with a cut?",
        )
    return "1/eps instead of 1/eps^2"


@exercise
def check_zigzag(answer, rising, upper: np.ndarray):
    """`answer`: what P(w) does; ``rising(Cn)``: two values y x for which P rises in
    round 1."""
    for Cn in 10 ** cases().uniform(-2, 2, 6):
        yx = array(ask(rising, Cn), (2,), "the result").astype(float)
        need(np.isfinite(yx).all(), f"for Cn = {Cn:.3g} your numbers are {yx.tolist()}")
        mean = yx.mean()
        need(abs(mean) > CLOSE, "with the mean 0 the first cut is flat, and w_1 = 0")
        need(
            yx.min() * yx.max() < 0,
            "both rows prefer w on the same side: neither loss grows there",
        )
        # lowest point of w^2 / 2 + Cn max(0, 1 - mean w)
        w = mean * min(Cn, 1 / mean**2)
        P = w**2 / 2 + Cn * np.maximum(0, 1 - yx * w).mean()
        told = f"for Cn = {Cn:.3g}, w_1 = {w:.3g} and P goes from {Cn:.3g} to {P:.3g}"
        need(
            P > Cn,
            told + ": let the row on the wrong side lose more, with the same mean",
        )
    rises = int((np.diff(upper) > CLOSE).sum())
    hint = "how accurate is the model at its own lowest point?"
    pick(answer, ("falls", "both"), "both" if rises else "falls", hint)
    return f"it rises in {rises} of {len(upper) - 1} rounds"


@exercise
def check_stall(mu, last, bounds_with: Callable):
    """``bounds_with(mu)`` are 100 bounds or more; `last` is the last cut that raises
    the lower."""
    mu = number(mu)
    need(0 <= mu <= 1, "mu goes from 0 to 1")
    bounds = ask(bounds_with, mu)
    rounds = len(bounds) - 1
    hint = (
        f"it ends after {rounds} rounds. When would a new cut add nothing to the model?"
    )
    need(rounds >= 100, hint)
    rises = 1 + np.flatnonzero(np.diff(np.asarray(bounds)[:, 0]) > CLOSE)
    hint = (
        "this mu works; after which cut is the lower bound, the first column, constant?"
    )
    need(number(last) == rises[-1], hint)
    return f"after {rounds} rounds the gap is still {bounds[-1][1] - bounds[-1][0]:.3f}"


# Lesson 2: sampling


@exercise
def check_sampled(sampled_cut):
    """``sampled_cut(w, X, y, r, rng) -> c, g`` of r draws from all rows, with
    replacement."""
    (X, y, w), r = _toy(), 15
    # with y x = 1 first, so that c~ = -g~_1, draw for draw
    X, w = np.c_[y, X], np.append(0.0, w)
    found = [
        ask(sampled_cut, w.copy(), X, y, r, np.random.default_rng(s))
        for s in range(1000)
    ]
    for one in found:
        several(one, 2, "return two things: c and g")
    offsets = np.array([number(c) for c, _ in found])
    slopes = np.array([array(g, w.shape, "g") for _, g in found])
    c, g = _cut(w, X, y)
    need(
        np.ptp(offsets) > 0, "c is always the same; compute it from the sample, like g"
    )
    told = (
        f"the mean of c over 1000 cuts is {offsets.mean():.3f}, c of all rows is "
        f"{c:.3f}"
    )
    need(_near(offsets, c), told + ": draw from all rows, and divide by r")
    need(not _near(slopes, -g), "g has the wrong sign")
    need(
        _near(slopes, g),
        "the mean of g over 1000 cuts is not g: add up violators, divide by r",
    )
    need(
        _near((offsets - c) ** 2, c * (1 - c) / r),
        "draw with replacement, r rows of all",
    )
    parts = -X * (y * (y * (X @ w) < 1))[:, None]  # of each row, in g
    hint = "c is right; g is also a mean over the r drawn rows, and varies like one"
    need(_near((slopes - g) ** 2, parts.var(axis=0) / r), hint)
    need(
        same(offsets, -slopes[:, 0]),
        "compute c and g from the same sample: draw once per cut",
    )
    need(
        same(offsets * r, np.round(offsets * r)),
        f"c is a fraction of r = {r} rows: draw that many",
    )
    return "unbiased: right on average"


@exercise
def check_spread(spread):
    """``spread(q, m2, r)``: E |g~ - g|^2 of r draws from all rows, and from the
    violators."""
    for q, m2, r in ((0.3, 0.2, 40), (0.9, 0.5, 7)):
        found = ask(spread, q, m2, r)
        several(found, 2, "return two things")
        everyone, violators = (number(one) for one in found)
        truth = (q - q**2 * m2) / r, q**2 * (1 - m2) / r
        case = f"for q = {q}, |m|^2 = {m2}, r = {r} "
        need(
            not same(everyone, (1 - m2) / r),
            "from all rows: a draw is 0 with probability 1 - q",
        )
        hint = (
            f"from all rows it is {truth[0]:.4f}, not {everyone:.4f}: E |z|^2 is q, E "
            "z is q m"
        )
        need(same(everyone, truth[0]), case + hint)
        need(
            not same(violators, (1 - m2) / r),
            "from the violators: a draw is multiplied by q",
        )
        hint = (
            f"from the violators it is {truth[1]:.4f}, not {violators:.4f}: z is q y "
            "phi"
        )
        need(same(violators, truth[1]), case + hint)
    return "both fall like 1/r; neither depends on n"


@exercise
def check_values(linear_values, constant_values):
    """``linear_values(T, n, r)`` and ``constant_values(T, r)``: kernel values of T
    rounds."""
    for T, n, r in ((5, 1000, 20), (12, 300, 7)):
        linear, constant = (
            number(ask(linear_values, T, n, r)),
            number(ask(constant_values, T, r)),
        )
        case = f"with n = {n} and r = {r}, {T} rounds take "
        need(same(linear, T * n * r), f"Algorithm 3: {case}{T * n * r}, not {linear:g}")
        need(
            not same(constant, T**2 * r**2),
            "that is the order; sum what round t takes over t",
        )
        truth = r**2 * T * (T + 1) // 2
        hint = "the product of a cut with itself takes r^2 more"
        need(not same(constant, truth - T * r**2), hint)
        told = (
            f"Algorithm 2: {case}{truth}, not {constant:g}. With how many cuts of r "
            "rows"
        )
        need(same(constant, truth), told + " does round t compare r rows?")
    return "T n r, and r^2 T (T + 1) / 2"


@exercise
def check_above(answer, mean_height):
    """`answer`: where the model comes to be; ``mean_height(R, h, T)``: of the largest
    of T cuts."""
    rng = cases()
    for T in (5, 1, 2, 40):
        R, h = rng.uniform(0.2, 0.9), rng.uniform(0.05, 0.3)
        found, truth = number(ask(mean_height, R, h, T)), R + h * (T - 1) / (T + 1)
        case = f"for R = {R:.3f}, h = {h:.3f}, T = {T}: "
        need(
            T == 1 or not same(found, R),
            case + "that is the mean of each of them; how high is the largest?",
        )
        need(not same(found, R + h), case + "that is its maximum, not its average")
        hint = "that is for uniform numbers from 0 to h; here they begin at -h"
        need(not same(found, R + h * T / (T + 1)), case + hint)
        need(
            T == 1 or not same(found, R - h * (T - 1) / (T + 1)),
            case + "that is the smallest",
        )
        need(
            same(found, truth),
            case + f"it is {truth:.4f}, not {found:.4f}: integrate x d(x^T)",
        )
    hint = "the model is the largest of many cuts. Is the largest right on average?"
    pick(answer, ("below", "above"), "above", hint)
    return "with many cuts the model rises to the top of the noise"


@exercise
def check_repeat(repeat):
    """``repeat(R, draw, xi, eps)``: the value of the cut that Algorithm 3 takes."""
    xi, eps = 0.2, 0.1
    for R, values, taken in ((0.5, (0.1, 0.3, 0.31, 0.6), 3), (0.3, (0.1, 0.6), 1)):
        case = f"with R = {R}, xi = {xi}, eps = {eps} and the draws {values}, "
        seen = []
        found = number(ask(repeat, R, _draws(values, seen, case).__next__, xi, eps))
        drawn = len(seen)
        need(drawn > 0, case + "draw at least once")
        need(drawn == taken, case + f"take number {taken}; {drawn} were drawn")
        need(
            same(found, values[taken - 1]),
            case + f"return {values[taken - 1]}, the last one",
        )
    return "until the sampled cut is violated, or the exact one no longer is"


@exercise
def check_wait(wait):
    """``wait(u, p)``: rounds until p in a row are satisfied, each with probability
    u."""
    for u, p in ((0.4, 1), (0.4, 2), (0.3, 4)):
        found, truth = number(ask(wait, u, p)), (u**-p - 1) / (1 - u)
        hint = (
            "u^-p is too few: if p - 1 are satisfied and the next is not, everything "
            "starts again"
        )
        need(p == 1 or not same(found, u**-p), hint)
        told = f"for u = {u}, p = {p} it takes {truth:.4g} rounds, not {found:.4g}"
        need(same(found, truth), told)
    return "with u = 1/2, p = 1 is lucky after 2 rounds, p = 10 after 2046"


@exercise
def check_stopped(p, r, seed, ended: Callable):
    """Algorithm 2, with p >= 3 and r >= 10, stops where the exact cut is violated by 10
    eps."""
    need(
        number(p) >= 3,
        "one or two lucky samples are too easy: take at least three in a row",
    )
    need(number(r) >= 10, "a sample of few rows says nothing: take at least ten")
    violation, eps = ended(p, r, seed)
    need(violation is not None, "it did not stop by itself; be less patient")
    told = f"the exact cut is violated by {violation / eps:.1f} eps"
    hint = ", not by more than 10: what makes luck more probable? Try another seed"
    need(violation > 10 * eps, told + hint)
    return told + ", and all samples in a row were satisfied"


# What several checks use


def _draws(values, seen: list, case: str):
    for value in (*values, *[9.0] * 99):
        seen.append(value)
        yield value
    raise Hint(case + "the loop does not end")


def _toy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = cases()
    X, y = rng.normal(size=(30, 3)), rng.choice([-1, 1], 30)
    return X + 0.3 * y[:, None], y, np.array([0.8, -0.2, 0.5])


def _cut(w, X, y) -> tuple[float, np.ndarray]:
    violates = y * (X @ w) < 1
    return float(violates.mean()), -X.T @ (y * violates) / len(y)


def _near(draws: np.ndarray, mean) -> bool:
    """Return whether `mean` is within five standard errors of that of independent
    draws."""
    error = draws.std(axis=0) / np.sqrt(len(draws))
    return bool(np.all(np.abs(draws.mean(axis=0) - mean) < 5 * error + CLOSE))
