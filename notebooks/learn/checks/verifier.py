"""The checks of the lesson verify_the_solver; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from checks.exercise import array, ask, cases, exercise, need, number, pick, same


@exercise
def check_gain(gain):
    """``gain(a, C)``: the largest number with C max(0, z)^2 >= a z - a + gain for all
    z."""
    for C in (0.5, 1.0, 3.0):
        for a in (0.0, 0.7, 2.0):
            found = number(ask(gain, a, C))
            need(
                not same(found, -(a**2) / (4 * C)) or a == 0,
                "that is the minimum of C z^2 - a z; where is the other a?",
            )
            z = np.linspace(-5, 5, 4001)
            least = (C * np.maximum(0, z) ** 2 - a * z).min() + a
            hint = (
                f"for a = {a:g}, C = {C:g} not {found:.4g}: where is the minimum of C "
                "z^2 - a z?"
            )
            need(abs(found - least) < 1e-4, hint)
    return "a - a^2 / 4C, at z = a / 2C"


@exercise
def check_bounds(bounds):
    """``bounds(w, a, X, s, C) -> D(a), P(w)`` in ordinary arithmetic, a made
    feasible."""
    rng = cases()
    for C in (0.5, 2.0):
        X, s, w = (
            rng.normal(size=(9, 3)),
            np.where(np.arange(9) % 2, 1.0, -1.0),
            rng.normal(size=3),
        )
        for a in (rng.uniform(0, 0.3, 9), rng.normal(0, 0.3, 9)):
            D, P = map(float, exact(w, np.maximum(a, 0), X, s, C))
            found = ask(bounds, w.copy(), a.copy(), X.copy(), s.copy(), C)
            lower, upper = array(found, (2,), "the answer").astype(float)
            need(not same([upper, lower], [D, P]), "the lower bound comes first")
            need(
                same(upper, P),
                f"P(w) = {P:.5f}, not {upper:.5f}: C sum of squared hinges + penalty",
            )
            need(
                a.min() >= 0 or same(lower, D),
                "some a are negative: set them to 0 first",
            )
            need(
                same(lower, D),
                f"D(a) = {D:.5f}, not {lower:.5f}: sum of gains - |X'(a s)|^2 / 2",
            )
    return "any w gives an upper bound, any a a lower one"


@exercise
def check_rounded(answer, fall):
    """`answer`: how far a rounded a lowers the bound; ``fall(e)``: if all are off by 1
    + e."""
    for e in cases().uniform(-0.2, 0.2, 5):
        found, case = number(ask(fall, e)), f"for e = {e:.3f}: "
        need(found >= 0, case + "D is highest at a*: the fall cannot be negative")
        need(
            not same(found, abs(e)),
            case + "that is the error of a; D is flat at its maximum",
        )
        need(
            not same(found, e**2 / 2),
            case + "the parabola is 2 t - t^2 times its maximum",
        )
        need(
            same(found, e**2),
            case + f"it is {e**2:.3g}, not {found:.3g}: insert t = 1 + e",
        )
    hint = "the proof of the bound holds for every a, also for the rounded one"
    need(answer != "above", hint)
    hint = "a is close to the maximum of D: what is the slope of D there?"
    pick(answer, ("above", "1e-3", "1e-6"), "1e-6", hint)
    return "errors of a enter squared"


@exercise
def check_lie(M, rows_of, bounds):
    """`M` makes the computed lower bound of the two rows exceed the optimum by a
    hundredth."""
    M = number(M)
    need(1 <= M <= 2.0**52, "take an M from 1 to 2^52, so that M + 1 is a double")
    w, a, X, s, C = rows_of(M)
    need(
        X[0, 1] - X[0, 0] == 1,
        f"for M = {M:g} the second number is not M + 1 in the machine",
    )
    lower, upper = bounds(w, a, X, s, C)[0], float(exact(w, a, X, s, C)[1])
    told = f"computed {lower:.6f}, and P(w) is {upper:.6f}: "
    hint = "off by enough, but to the other side. Try another M"
    need(lower > 0.99 * upper, told + hint)
    need(lower > 1.01 * upper, told + "how large are the errors of the products a M?")
    return (
        f"the computed lower bound is {lower:.3f}, and the optimum is at most "
        f"{upper:.3f}"
    )


@exercise
def check_outward(certified):
    """``certified(w, a, X, s, C) -> lower, upper`` hold in exact arithmetic, and are
    tight."""
    for w, a, X, s, C in _cases():
        D, P = exact(w, a, X, s, C)
        given = [part.copy() for part in (w, a, X, s)]
        found = ask(certified, *given, C)
        lower, upper = map(float, array(found, (2,), "the answer"))
        case = f"{len(s)} rows of entries up to {np.abs(X).max():.1e}"
        need(
            np.isfinite([lower, upper]).all(),
            f"{case}: the bounds are {lower}, {upper}",
        )
        over, under = float(Fraction(lower) - D), float(P - Fraction(upper))
        hint = "which sum, product or square is not yet rounded in the safe direction?"
        need(over <= 0, f"{case}: lower is {over:.1e} above the exact D(a); {hint}")
        need(under <= 0, f"{case}: upper is {under:.1e} below the exact P(w); {hint}")
        slack = 1e-12 * _scale(w, a, X, C)
        wide = "more than rounding can cause: is an error bound too large?"
        need(
            -over <= slack, f"{case}: lower is {-over:.1e} below the exact D(a), {wide}"
        )
        need(
            -under <= slack,
            f"{case}: upper is {-under:.1e} above the exact P(w), {wide}",
        )
    return "every bound holds in exact arithmetic, and is as tight as rounding allows"


@exercise
def check_silent(excess, measured: float):
    """``excess(g, h, u)``: P - P* of one weight at which P has the slope g, and in
    another unit."""
    for g, h, u in cases().uniform([0.1, 0.5, 3], [1, 5, 9], (5, 3)):
        found = array(ask(excess, g, h, u), (2,), "the result").astype(float)
        first, case = g**2 / (2 * h), f"for g = {g:.2f}, h = {h:.2f}, u = {u:.2f}: "
        need(
            not same(found[0], g / h),
            case + "that is how far w is off; insert it into P",
        )
        need(not same(found[0], g**2 / h), case + "the factor 1/2 of h / 2 is missing")
        need(not same(found[0], g**2 * h / 2), case + "w is off by g / h, not by g")
        need(
            same(found[0], first),
            case + f"the first is {first:.3g}, not {found[0]:.3g}",
        )
        need(
            not same(found[1], first / u**2),
            case + "a smaller curvature makes it larger, not smaller",
        )
        hint = f"the second is {u**2:.3g} times the first: h is divided by u^2"
        need(same(found[1], first * u**2), case + hint)
    return (
        f"the columns differ by factors of thousands: {measured:.1%} above, without a "
        "warning"
    )


def exact(w, a, X, s, C) -> tuple[Fraction, Fraction]:
    """Return D(a) and P(w) of these floating-point numbers without any rounding."""
    rows = [[Fraction(float(x)) for x in row] for row in X]
    w, a, s = ([Fraction(float(x)) for x in part] for part in (w, a, s))
    C = Fraction(float(C))
    v = [
        sum(ai * si * row[j] for ai, si, row in zip(a, s, rows)) for j in range(len(w))
    ]
    D = sum(ai - ai * ai / (4 * C) for ai in a) - sum(vj * vj for vj in v) / 2
    margins = [si * sum(x * wj for x, wj in zip(row, w)) for si, row in zip(s, rows)]
    P = sum(wj * wj for wj in w) / 2 + C * sum(
        max(Fraction(0), 1 - m) ** 2 for m in margins
    )
    return D, P


def _cases():
    rng = cases()
    for size in (0.0, 1e4, 1e8, 1e12):  # of what cancels in w'x and in v
        for n, d in ((4, 2), (12, 3), (30, 5)):
            for _ in range(4):
                X, s = (
                    size + rng.normal(size=(n, d)),
                    np.where(np.arange(n) % 2, 1.0, -1.0),
                )
                w, a = rng.normal(size=d), rng.uniform(0.1, 0.5, n // 2).repeat(2)
                yield w - w.mean(), a, X, s, rng.choice([0.3, 1.0])


def _scale(w, a, X, C) -> float:
    """Return a number that all rounding errors are tiny multiples of."""
    scores = np.linalg.norm(X, axis=1) * np.linalg.norm(w)
    pull = a @ np.linalg.norm(X, axis=1)
    return len(a) * (
        C * ((1 + scores) ** 2).sum() + w @ w + a.sum() + (a @ a) / C + pull**2
    )
