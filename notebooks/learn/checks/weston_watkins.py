"""The checks of the lessons ww_1 and ww_2; they print, see :mod:`checks.exercise`."""

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
from workbench.weston_watkins.fast import evaluate
from workbench.weston_watkins.walrus import sweep

# Lesson 1: the loss


@exercise
def check_loss(ww_loss):
    """``ww_loss(V, y)``: the Weston-Watkins loss of each row of (n, k) scores."""
    rng = cases()
    for n, k in ((40, 4), (30, 7)):
        V, y = rng.normal(0, 1.5, (n, k)), rng.integers(0, k, n)
        found = array(ask(ww_loss, V.copy(), y), (n,), "the loss")
        hinges = _hinges(V, y)
        truth = hinges.sum(axis=1)
        hint = "1 too large: the own class has the margin 0 and is left out"
        need(not same(found, truth + 1), hint)
        need(
            not same(found, hinges.max(axis=1)),
            "that is the largest hinge; every one counts",
        )
        hint = "that is the mean over the wrong classes; it is their sum"
        need(not same(found, truth / (k - 1)), hint)
        i = int(np.argmax(np.abs(found - truth)))
        margins = np.round(np.delete(V[i, y[i]] - V[i], y[i]), 2).tolist()
        hint = (
            f"a row with the margins {margins} has the loss {truth[i]:.3f}, not "
            f"{found[i]:.3f}"
        )
        need(same(found, truth), hint)
    return "a sum over all wrong classes, none of them negative"


@exercise
def check_at_zero(all_equal):
    """``all_equal(k, s)``: the three losses of a row whose `k` scores are all `s`."""
    rng = cases()
    for k, s in (
        (10, 0.0),
        (2, 0.0),
        *zip(rng.integers(3, 30, 6).tolist(), rng.normal(0, 2, 6)),
    ):
        found = array(ask(all_equal, k, s), (3,), "the result").astype(float)
        one_vs_rest = max(0, 1 - s) + (k - 1) * max(0, 1 + s)
        case = f"for {k} classes and scores of {s:.3g}: "
        need(
            same(found[0], k - 1),
            case + "Weston-Watkins: h(0) = 1; how many hinges count?",
        )
        need(
            same(found[1], 1),
            case + "Crammer-Singer: every margin is 0; how large is the worst?",
        )
        hint = "one-vs-rest has no margins: it compares s and -s with 1"
        need(s == 0 or not same(found[2], k), case + hint)
        turned = same(found[2], max(0, 1 + s) + (k - 1) * max(0, 1 - s))
        need(
            k == 2 or s == 0 or not turned,
            case + "one-vs-rest: the own score should be high",
        )
        alike = same(found[2], k * max(0, 1 - s))
        hint = "one-vs-rest: which score should the other classes have, 1 or -1?"
        need(s == 0 or not alike, case + hint)
        hint = (
            f"one-vs-rest is {one_vs_rest:.3f}, not {found[2]:.3f}: a hinge is never "
            "negative"
        )
        need(same(found[2], one_vs_rest), case + hint)
    return "k - 1, 1 and k at s = 0; only one-vs-rest depends on more than margins"


@exercise
def check_right_but_costly(scores):
    """`scores` of one row with label 0, which wins and still has a loss above 1."""
    v = np.asarray(scores, dtype=float)
    need(v.ndim == 1 and len(v) >= 2, "give the scores of one row, a list of numbers")
    margins = v[0] - v[1:]
    need(
        margins.min() > 0,
        f"class 0 must win; its margins are {np.round(margins, 3).tolist()}",
    )
    need(
        len(v) > 2,
        "one rival with a positive margin costs less than 1; take more classes",
    )
    hinges = np.maximum(0, 1 - margins)
    need(hinges.sum() > 1, f"the loss is {hinges.sum():.3f}; bring the rivals closer")
    return (
        f"class 0 wins, and the loss is {hinges.sum():.3f}; Crammer-Singer's is "
        f"{hinges.max():.3f}"
    )


@exercise
def check_centred(centred):
    """``centred(W)`` has the margins of (d, k) `W` and the smallest norm."""
    W = cases().normal(1, 1, (5, 3))
    found, best = array(ask(centred, W.copy()), W.shape, "the result"), _centred(W)
    moved = found - W
    need(
        same(moved, moved[:, :1]),
        "the margins change: every column must move by the same vector",
    )
    norms = f"|W|^2 is {(found**2).sum():.3f}, the minimum is {(best**2).sum():.3f}"
    need(same(found, best), norms + ": set the derivative of sum_j |w_j + c|^2 to 0")
    return "c is minus the mean of the columns, and the new columns sum to 0"


@exercise
def check_binary(as_binary):
    """``as_binary(C, w)``: the C of the binary SVM that equals (P) for k = 2, and W (d,
    2)."""
    w = cases().normal(size=4)
    for C in (0.3, 1.0, 5.0):
        found = ask(as_binary, C, w.copy())
        several(found, 2, "return two things, C_bin and W")
        W = array(found[1], (4, 2), "W").astype(float)
        apart, total = W[:, 1] - W[:, 0], W.sum(axis=1)
        need(not same(apart, -w), "the columns are swapped: w = w_1 - w_0")
        need(same(apart, w), "w_1 - w_0 is not w")
        need(same(total, 0), "w_1 - w_0 is w, and w_0 + w_1 should be 0")
        C_bin = number(found[0])
        hint = f"for C = {C} not {C_bin:g}: W is right; how much of |w|^2 is |W|^2 / 2?"
        need(same(C_bin, 2 * C), hint)
    return "|W|^2 / 2 = |w|^2 / 4; twice the whole objective is the binary one with 2 C"


@exercise
def check_dual(dual):
    """``dual(B, X, y) -> W(B), D(B)``."""
    X, y, B = toy()
    found = ask(dual, B.copy(), X, y)
    several(found, 2, "return two things: W and D")
    truth = weights(B, X, y)
    W, D = array(found[0], truth.shape, "W"), number(found[1])
    need(
        not same(W, -truth), "W has the wrong sign: the own class is pulled towards x_i"
    )
    need(
        not same(W, -X.T @ B),
        "the own classes are missing: x_i enters column y_i with S_i",
    )
    need(
        same(W, truth),
        "W is off: add x_i to column y_i S_i times, subtract beta_ij of it elsewhere",
    )
    value = B.sum() - (truth**2).sum() / 2
    need(same(D, value), f"W is right; D should be {value:.4f} here, not {D:.4f}")
    return "W(B) and D(B), and the columns of W(B) sum to 0"


@exercise
def check_outside(B, problem: Problem, C: float, optimum: float):
    """`B` leaves the box in one entry, and D(B) exceeds the optimum."""
    B = array(B, (problem.n, problem.k), "B").astype(float)
    need(np.isfinite(B).all(), "B should be finite")
    own = B[np.arange(problem.n), problem.y]
    need(np.abs(own).max() < CLOSE, "B must be 0 at the own classes")
    out = np.sum((B < -CLOSE) | (B > C + CLOSE))
    need(
        out <= 1,
        f"{out} multipliers leave the box; raising which one increases D most?",
    )
    D = B.sum() - (weights(B, problem.X, problem.y) ** 2).sum() / 2
    need(D > optimum + 1e-4, f"D(B) = {D:.4f} is not above the optimum, {optimum:.4f}")
    ends = f"beta goes from {B.min():.2g} to {B.max():.2g}"
    return f"D(B) = {D:.3f} is not a bound of {optimum:.3f}: {ends}"


# Lesson 2: the subproblem


@exercise
def check_block(block):
    """``block(x, y, W, beta)``: the v of problem (4), without the own class."""
    X, y, B = toy()
    for x, label, beta in zip(X, y, B):
        W = weights(B, X, y)
        v, norm, S = block_of(x, label, W, beta), x @ x, beta.sum()
        found = np.asarray(
            ask(block, x.copy(), label, W.copy(), beta.copy()), dtype=float
        )
        need(found.shape != beta.shape, "leave the own class out: v has k - 1 entries")
        found, own = array(found, v.shape, "v"), np.delete(beta, label) + S
        agrees = same(found, v)
        if agrees:
            continue
        need(
            not same(found, v - own),
            "add beta_j + S: this row's own part must not count",
        )
        need(not same(found, (v - own) * norm + own), "divide 1 - m_j by |x|^2")
        need(not same(found, v - S), "S is missing: w_y holds this row S times")
        hint = "the sign: v has 1 - m_j, and the margin is m_j = s_y - s_j"
        need(not same(found, 2 / norm - v + 2 * own), hint)
        need(
            not same(found, (v - own) * np.sqrt(norm) + own),
            "divide by |x|^2, not by |x|",
        )
        given = f"|x|^2 = {norm:.3f} and beta = {np.round(beta, 2).tolist()}"
        wanted, found = np.round(v, 3).tolist(), np.round(found, 3).tolist()
        need(agrees, f"for a row with {given}, v is {wanted}, not {found}")
    return "v_j > 0 exactly if this row, left out of W, would violate margin j"


@exercise
def check_second(answer, turns):
    """`answer`: how b_2 moves with C; ``turns(v)``: the C of its turn, and that of its
    end."""
    for first, share in cases().uniform([0.5, 0.6], [5, 0.95], (10, 2)):
        v = np.array([first, share * first])
        turn, still = array(ask(turns, v.copy()), (2,), "the result").astype(float)
        need(
            0 < min(turn, still) < np.inf,
            "both values of C should be finite and above 0",
        )
        case, b = (
            f"for v = {np.round(v, 2).tolist()} and C = {turn:.3g} ",
            minimiser(v, turn),
        )
        need(
            b[1] > turn - CLOSE,
            case + "b_2 is not at C any more: it has turned earlier",
        )
        later = minimiser(v, turn + 1e-3)
        need(
            later[1] < b[1],
            case + "b_2 still rises: how far do both go up the diagonal?",
        )
        b, cross = minimiser(v, still), np.linalg.solve([[2, 1], [1, 2]], v)
        case = case.split(" and")[0] + f" and C = {still:.3g} "
        need(same(b, cross), case + "the square does not reach the cross yet")
        need(
            same(b[0], still),
            case + "the cross is already inside: which side touches it first?",
        )
    hint = (
        "once it has left the diagonal, what does a larger b_1 do to b_2 = v_2 - (b_1 "
        "+ b_2)?"
    )
    pick(answer, ("rises", "falls", "both"), "both", hint)
    return "b_2 = C rises to v_2 / 3, then falls as b_1 grows, until b_1 is also free"


@exercise
def check_by_hand(g, b, v, C: float):
    """`g` is the root of F and `b` the minimiser of problem (4)."""
    v = np.asarray(v, dtype=float)
    g, b = number(g), array(b, v.shape, "b").astype(float)
    total = np.clip(v - g, 0, C).sum()
    move = "raise" if total > g else "lower"
    hint = (
        f"with your g the clipped entries sum to {total:.4g}, not to {g:.4g}: {move} g"
    )
    need(abs(total - g) < 1e-3, hint)
    need(
        np.abs(b - np.clip(v - g, 0, C)).max() < 1e-3,
        "g is right; now clip every v_j - g",
    )
    return "one entry in each state: at C, free, at 0"


@exercise
def check_sweep(pass_over, is_root):
    """``pass_over(what, v_j, n_u, n_m, S)``: the new counts and sum; ``is_root(g,
    after)``."""
    for what, expected in (("entry", (3, 6, 4.5)), ("exit", (4, 4, 1.5))):
        found = ask(pass_over, what, 1.5, 3, 5, 3.0)
        several(found, 3, "return three numbers: n_u, n_m and S")
        names = ("n_u", "n_m", "S")
        for name, value, truth in zip(names, map(number, found), expected):
            case = f"v_j = 1.5, n_u = 3, n_m = 5, S = 3: after the {what} "
            hint = (
                f"{name} is not {value:g}: n_u entries are at C, n_m free, S sums the "
                "free v_j"
            )
            need(same(value, truth), case + hint)
    breakpoints = (0.4, 0.6), (0.6, 0.4), (-0.5, -np.inf), (0.3, 1.2), (1.4, 1.2)
    for g, after in breakpoints:
        found = bool(ask(is_root, g, after))
        where = "left of" if g < after else "right of"
        hint = (
            f"g = {g} is {where} the next breakpoint, {after}: is it on the current "
            "segment?"
        )
        need(found == (g > after), hint)
    return "each breakpoint costs a few additions"


@exercise
def check_solve(solve):
    """``solve(v, C)`` is the root of F."""
    for v, C in _blocks():
        g, truth = number(ask(solve, v.copy(), C)), sweep(v, C)
        hint = (
            f"for v = {np.round(v, 2).tolist()}, C = {C} you find {g:.4f}, the root "
            f"is {truth:.4f}"
        )
        if v.max() <= 0:
            hint += ": no v_j is positive, so b = 0"
        elif len(set(v)) < len(v):
            hint += ": some v_j are equal"
        elif same(g, sweep(v, 1e9)):
            hint += ": no b_j may exceed C"
        need(same(g, truth), hint)
    return "the package's root every time, including ties and negative entries"


@exercise
def check_careless(v, careless, C: float):
    """`v` makes ``careless(v, C)`` return a number that is not a root of F."""
    v = np.asarray(v, dtype=float)
    need(v.ndim == 1 and len(v) >= 1 and np.isfinite(v).all(), "give a list of numbers")
    g, truth = careless(v, C), sweep(v, C)
    need(
        abs(g - truth) > CLOSE,
        f"it finds {g:.4g}, the root. What does a set do with equal elements?",
    )
    if v.max() <= 0:
        return (
            f"it finds {g:.4g}: no v_j is positive, b = 0, and so g must be 0 (line 3)"
        )
    return (
        f"it finds {g:.4g}, the root is {truth:.4g}: equal entries count as one in a "
        "set"
    )


@exercise
def check_cycle(v, C: float):
    """Newton's method on F from 0 comes back to 0 for these three numbers."""
    v = np.asarray(v, dtype=float)
    need(v.shape == (3,) and np.isfinite(v).all(), "give three numbers")
    visited = newton(v, C, 0.0, 60)
    excess = evaluate(v, C, visited[-1])[0]
    steps = len(visited) - 1
    need(
        abs(excess) > CLOSE,
        f"Newton stops at step {steps}, at {visited[-1]:.4g}: the root",
    )
    back = " -> ".join(f"{g:.3g}" for g in visited[:4])
    return f"{back} -> ..., forever; the root is {sweep(v, C):.4g}"


# What several checks and the lessons use


def weights(B: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return W(B) = sum_i x_i (S_i e_{y_i} - B_i)', (d, k)."""
    A = -B
    A[np.arange(len(y)), y] += B.sum(axis=1)
    return X.T @ A


def minimiser(v, C: float) -> np.ndarray:
    """Return the solution of problem (4)."""
    v = np.asarray(v, dtype=float)
    return np.clip(v - sweep(v, float(C)), 0, C)


def newton(v: np.ndarray, C: float, g: float, steps: int) -> list[float]:
    """Return the points of Newton's method on F, without a bracket, until F is 0."""
    visited = [g]
    for _ in range(steps):
        excess, free = evaluate(v, C, g)
        if abs(excess) < 1e-12:
            break
        g += excess / (free + 1)
        visited.append(g)
    return visited


def margins(V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the margins of (n, k) scores, 0 at the own classes."""
    return V[np.arange(len(y)), y][:, None] - V


def toy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows (12, 3), labels of four classes, and multipliers (12, 4)."""
    rng = cases()
    y = np.arange(12) % 4
    X = rng.normal(size=(12, 3)) + y[:, None]
    B = rng.uniform(0, 1, (12, 4)) * (rng.random((12, 4)) < 0.7)
    B[np.arange(12), y] = 0
    return X, y, B


def block_of(x: np.ndarray, y: int, W: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Return the v of problem (4) for one row, without the own class."""
    scores = x @ W
    return np.delete((1 - scores[y] + scores) / (x @ x) + beta + beta.sum(), y)


def _hinges(V: np.ndarray, y: np.ndarray) -> np.ndarray:
    hinges = np.maximum(0, 1 - margins(V, y))
    hinges[np.arange(len(y)), y] = 0
    return hinges


def _centred(W: np.ndarray) -> np.ndarray:
    return W - W.mean(axis=1, keepdims=True)


def _blocks():
    rng = cases()
    for m in (1, 2, 3, 6):
        for C in (0.1, 0.5, 2.0, 100.0):
            for v in rng.normal(0.5, 1, (6, m)):
                yield v, C
            yield np.full(m, 1.0), C
            yield rng.integers(-1, 4, m) * C, C  # breakpoints that coincide
            yield -rng.uniform(0.1, 1, m), C
