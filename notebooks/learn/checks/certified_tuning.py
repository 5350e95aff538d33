"""The checks of the lesson ww_4, on all values of C at once; see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.exercise import (
    CLOSE,
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
from workbench.core.problem import Problem
from workbench.weston_watkins.path import ww_path
from workbench.weston_watkins.tuning import certify_path

RANGE, NEAR = (0.01, 10.0), 0.05  # of check_luck


@exercise
def check_ball(ball):
    """``ball(W, V, G)``: centre and radius of a ball that contains the exact
    solution."""
    rng = cases()
    for apart in (0.0, 0.3, 1.0):
        W = rng.normal(size=(4, 3))
        V, G = W + apart * rng.normal(size=(4, 3)), 9.0
        far = ((W - V) ** 2).sum()
        found = ask(ball, W.copy(), V.copy(), G)
        several(found, 2, "return two things, the centre and the radius")
        centre, r = array(found[0], W.shape, "the centre"), number(found[1])
        need(same(centre, (W + V) / 2), "the centre is the midpoint of W and V")
        case = f"for G = {G:g} and |W - V|^2 = {far:.2f}: "
        hint = "no radius is below 0, and G is at least |W - V|^2 / 4"
        need(np.isfinite(r) and r >= 0, case + hint)
        hint = "that is the square of the radius"
        need(not same(r, G - far / 4), case + hint)
        hint = (
            "true, but the law gives half of that square: a + b is twice the midpoint"
        )
        need(not same(r, np.sqrt(2 * G)), case + hint)
        hint = "true, but one term of the law was dropped: a - b is known"
        need(apart == 0 or not same(r, np.sqrt(G)), case + hint)
        told = (
            f"the radius is {np.sqrt(G - far / 4):.4f}, not {r:.4f}. What are a + b "
            "and a - b?"
        )
        need(same(r, np.sqrt(G - far / 4)), case + told)
    return "the square of the radius is G minus a quarter of |W - V|^2"


@exercise
def check_certain(certain):
    """``certain(V, y, lengths, r)``: which rows are wrong, and right, in the whole
    ball."""
    rng = cases()
    for k, r in ((2, 0.2), (4, 0.2), (4, 0.0)):
        V, y, lengths = (
            rng.normal(size=(60, k)),
            rng.integers(0, k, 60),
            rng.uniform(0.3, 2, 60),
        )
        lead = _leads(V, y).max(axis=1)
        reach = np.sqrt(2) * r * lengths
        found = ask(certain, V.copy(), y.copy(), lengths.copy(), r)
        several(found, 2, "return two arrays, wrong and right")
        wrong, right = (
            array(a, y.shape, name).astype(bool)
            for a, name in zip(found, ("wrong", "right"))
        )
        for told, word, truth in (
            (wrong, "wrong", lead > reach),
            (right, "right", lead < -reach),
        ):
            i = int(np.argmax(told != truth))
            best = f"{lead[i]:.3f}" if lead[i] < 0 else f"+{lead[i]:.3f}"
            case = (
                f"row {i}, whose best rival leads by {best} with r |x| = "
                f"{r * lengths[i]:.3f}: "
            )
            hint = "two weight vectors move, together by up to sqrt(2) r |x|"
            signed = lead[i] if word == "wrong" else -lead[i]
            close = told[i] and r * lengths[i] < signed <= reach[i]
            need(not close, case + hint)
            if word == "right":
                beaten = (V < V[np.arange(60), y][:, None] - reach[:, None]).any(axis=1)
                hint = "it is certainly right only if every rival is certainly behind"
                need(
                    not (told != truth).any() or not np.array_equal(told, beaten), hint
                )
            said = "certain" if truth[i] else "not certain"
            need(told[i] == truth[i], case + f"it is {said} that it is {word}")
    return "with r = 0 every row is decided, except ties"


@exercise
def check_elsewhere(elsewhere):
    """``elsewhere(t, size, G)``: the ball for t C of a knot for C; see the lesson."""
    for t, size, G in (
        (1.0, 3.0, 0.2),
        (1.6, 2.0, 0.3),
        (0.6, 4.0, 0.0),
        (2.0, 1.0, 0.5),
    ):
        found = ask(elsewhere, t, size, G)
        several(found, 2, "return two numbers, the multiple of W and the radius")
        factor, r = map(number, found)
        case = f"for t = {t:g}, |W| = {size:g}, G = {G:g}: "
        hint = "that ball needs the sum of hinges at tW; keep W as the primal point"
        need(t == 1 or not same(factor, t), case + hint)
        hint = (
            "the centre is the midpoint of the primal point W and the dual point's tW"
        )
        need(same(factor, (1 + t) / 2), case + hint)
        far = (t - 1) ** 2 * size**2
        hint = "that is the gap at tC, and Exercise 1 subtracts a quarter of |W - tW|^2"
        need(t == 1 or not same(r, np.sqrt(t * G + far / 2)), case + hint)
        hint = "that is the square of the radius"
        need(not same(r, t * G + far / 4), case + hint)
        hint = (
            "at tC both C L and the sum of tB are t times as large, and so is their "
            "part of G"
        )
        need(t == 1 or G == 0 or not same(r, np.sqrt(G + far / 4)), case + hint)
        told = (
            f"the radius is {np.sqrt(t * G + far / 4):.4f}, not {r:.4f}: write P - D "
            "at tC"
        )
        need(same(r, np.sqrt(t * G + far / 4)), case + told)
    return "for G = 0 the radius is |t - 1| |W| / 2"


@exercise
def check_between(R2):
    """``R2(W1, W2, C1, C2, L1, L2)``: how far the square of the radius bulges."""
    rng = cases()
    for _ in range(5):
        W1, W2 = rng.normal(size=(2, 3, 2))
        C1, C2 = np.sort(rng.uniform(0.1, 3, 2))
        L2, L1 = np.sort(rng.uniform(1, 20, 2))
        found = number(ask(R2, W1.copy(), W2.copy(), C1, C2, L1, L2))
        bulge, square = (C2 - C1) * (L1 - L2), ((W1 - W2) ** 2).sum()
        hint = (
            "C rises while L falls: their product lies above its chord, so its part "
            "is positive"
        )
        need(not same(found, -bulge - square), hint)
        hint = "a square lies below its chord, so its part of R^2 is negative"
        need(not same(found, bulge + square), hint)
        need(
            not same(found, bulge),
            "true, but |W(theta)|^2 lies below its chord: use that as well",
        )
        need(not same(found, square - bulge), "all signs are reversed")
        theta = 0.3
        C, L = (1 - theta) * C1 + theta * C2, (1 - theta) * L1 + theta * L2
        over = C * L - (1 - theta) * C1 * L1 - theta * C2 * L2
        under = theta * (1 - theta) * square
        told = (
            f"at theta = 0.3 the product is {over:.4f} above its chord, |W(theta)|^2 "
            f"{under:.4f} "
        )
        told += "below; divide both by 0.3 * 0.7"
        need(
            same(found, bulge - square),
            f"{found:.4f} should be {bulge - square:.4f}: {told}",
        )
    return "it needs no multipliers, only W, C and L of both knots"


@exercise
def check_kinks(falls, R2_of_pieces):
    """The fall of the largest radius; ``R2_of_pieces(lengths, velocities)`` of exact
    knots."""
    rng = cases()
    for p, q in ((1, 3), (2, 3), (5, 4)):
        h, U = rng.uniform(0.1, 1, p), rng.normal(size=(p, q))
        fall, step = h @ (U**2).sum(axis=1), ((h @ U) ** 2).sum()
        found = number(ask(R2_of_pieces, h.copy(), U.copy()))
        case = f"for {p} piece{'s' * (p > 1)}: "
        hint = (
            "a single straight piece has R = 0; L falls by h |U|^2, and W moves by h U"
        )
        need(p > 1 or same(found, 0), case + hint)
        moved = (h**2 * (U**2).sum(axis=1)).sum()
        hint = (
            "the moves of the pieces add up before they are squared: |W_1 - W_2|^2 is "
            "of the sum"
        )
        need(p == 1 or not same(found, h.sum() * fall - moved), case + hint)
        need(
            not same(found, fall - step), case + "the fall of L counts C_2 - C_1 times"
        )
        told = (
            f"{found:.4f} should be {h.sum() * fall - step:.4f}: what are L_1 - L_2 "
            "and W_2 - W_1, "
        )
        told += "summed over the pieces?"
        need(same(found, h.sum() * fall - step), case + told)
    hint = (
        "let one interval of length h have a kink in its middle. What is R there, and "
        "elsewhere?"
    )
    words = ("not at all", "like the spacing", "like its square")
    pick(falls, words, "like the spacing", hint)
    return "an interval with a kink has R like its length, one without has R = 0"


@exercise
def check_rivals(first, last):
    """Scores of a row with label 0 that is wrong at both knots and right in between."""
    first, last = (
        array(V, (3,), name).astype(float)
        for V, name in ((first, "V_first"), (last, "V_last"))
    )
    need(np.isfinite([first, last]).all(), "the scores should be finite")
    for V, name in ((first, "first"), (last, "last")):
        lead = V[1:].max() - V[0]
        need(
            lead > CLOSE,
            f"at the {name} knot no rival is ahead, so the row is not wrong",
        )
    both = (first[1:] > first[0]) & (last[1:] > last[0])
    c = 1 + int(np.argmax(both))
    hint = f"class {c} is ahead at both knots, and so in between, as its lead is linear"
    need(not both.any(), hint)
    theta = np.linspace(0, 1, 1001)[:, None]
    V = (1 - theta) * first + theta * last
    lead = V[:, 1:].max(axis=1) - V[:, 0]
    i = int(np.argmin(lead))
    hint = f"class 0 does best at theta = {theta[i, 0]:.2f}, and is still behind there"
    need(lead[i] < -CLOSE, hint)
    return f"right at theta = {theta[i, 0]:.2f}, where the leading rival changes"


@exercise
def check_floor(floor):
    """``floor(V1, V2, y, lengths, r)``: rows that are wrong at every C of the
    interval."""
    rng = cases()
    for spread, r in ((0.4, 0.1), (1.5, 0.0), (1.5, 0.15)):
        V, step = rng.normal(size=(600, 3)), spread * rng.normal(size=(600, 3)) / 2
        V1, V2, y = V - step, V + step, rng.integers(0, 3, 600)
        lengths = rng.uniform(1.5, 4, 600)
        # rows that are wrong at both knots, by different rivals or by the same
        if spread > 1:
            own = V1[np.arange(600), y], V2[np.arange(600), y]
            kept = (V1.max(axis=1) > own[0]) & (V2.max(axis=1) > own[1])
            V1, V2, y, lengths = V1[kept], V2[kept], y[kept], lengths[kept]
        found = ask(floor, V1.copy(), V2.copy(), y.copy(), lengths.copy(), r)
        need(np.ndim(found) == 0, "count the rows: a single number is asked for")
        found = number(found)
        one, two, reach = _leads(V1, y), _leads(V2, y), np.sqrt(2) * r * lengths
        same_rival = (np.minimum(one, two).max(axis=1) > reach).sum()
        thetas = np.linspace(0, 1, 201)
        certain = [((1 - t) * one + t * two).max(axis=1) > reach for t in thetas]
        most = min(rows.sum() for rows in certain)  # of a finer bound, which is as true
        case = f"for {len(y)} rows and r = {r:g}: "
        near = (np.minimum(one, two).max(axis=1) > r * lengths).sum()
        hint = "two weight vectors move, together by up to sqrt(2) r |x|"
        need(r == 0 or found != near, case + hint)
        shorter = (np.minimum(one, two).max(axis=1) > np.sqrt(2) * r).sum()
        hint = "the reach sqrt(2) r |x| is longer for a longer row"
        need(r == 0 or found != shorter, case + hint)
        either = np.minimum(one.max(axis=1), two.max(axis=1)) > reach
        hint = "a row may be wrong at both knots by different rivals, see Exercise 6"
        need(found <= most or found != either.sum(), case + hint)
        hint = (
            f"{found:g} is too many: at some theta only {most} rows are certainly wrong"
        )
        need(found <= most, case + hint)
        hint = (
            f"{found:g} is true but too few: {same_rival} have the same rival far "
            "enough ahead"
        )
        need(found >= same_rival, case + hint)
    return "whatever C is in the interval, at least that many rows are wrong"


@exercise
def check_luck(W, C, problem: Problem, X: np.ndarray, y: np.ndarray):
    """`W` has fewer errors than any exact solution, and nearly the least objective for
    `C`."""
    W, C = array(W, (problem.d, problem.k), "W_luck").astype(float), number(C)
    need(np.isfinite(W).all(), "W_luck should be finite")
    need(RANGE[0] <= C <= RANGE[1], f"C_luck should be in {RANGE}")
    *_, searched = certify_path(problem, X, problem.classes[y], RANGE, 0.0)
    least = searched.band()[1].min()
    wrong = int((np.argmax(X @ W, axis=1) != y).sum())
    need(wrong < least, f"it has {wrong} errors, and the floor is {least}")
    (exact,) = ww_path(problem, [C], gap_ratio=1e-9)
    lead = 1 + _leads(problem.X @ W, problem.y)
    value = (W**2).sum() / 2 + C * np.maximum(0, lead).sum()
    above = value / exact.dual - 1
    told = f"its objective is {above:.1%} above the minimum: too much to seem trained"
    need(above <= NEAR, told)
    return (
        f"{wrong} errors, {above:.1%} above the minimum, and not the solution for any C"
    )


def _leads(V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return by how much each class is ahead of the row's own; -1e300 at the own."""
    leads, rows = V - V[np.arange(len(y)), y][:, None], np.arange(len(y))
    leads[rows, y] = -1e300
    return leads
