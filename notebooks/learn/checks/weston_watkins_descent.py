"""The checks of the lesson ww_3; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checks.certified import check_certified as check_certified
from checks.exercise import CLOSE, array, ask, cases, exercise, need, number, pick, same
from checks.weston_watkins import block_of, margins, minimiser, toy, weights
from workbench.core.trace import Trace

ROUNDING = 1e-9  # a smaller gap is no gap: with a tiny C all objectives are that small


@exercise
def check_visit(visit):
    """``visit(x, y, W, beta, C)`` solves one block in place and returns whether it
    changed."""
    X, y, B = toy()
    B = np.minimum(B, 0.2)
    W = weights(B, X, y)
    for i, C in [
        *((i, 0.5) for i in range(6)),
        (5, 0.5),
        *((i, 0.2) for i in range(6, 12)),
    ]:
        before, expected = B[i].copy(), _visited(X[i], y[i], W, B[i], C)
        changed = ask(visit, X[i], y[i], W, B[i], C)
        need(B[i, y[i]] == 0, "beta of the own class must stay 0")
        case = f"after a visit beta should be {np.round(expected, 3).tolist()}"
        case += f", is {np.round(B[i], 3).tolist()}"
        moved = same(B[i], expected) or not same(B[i], before)
        need(moved, case + " as before: change it in place")
        need(
            same(B[i], expected),
            case + ". What is v? It counts the row's own part of W as well",
        )
        hint = "beta is right, but W is no longer W(B): subtract x (x) delta, in place"
        need(same(W, weights(B, X, y)), hint)
        truth = not same(expected, before)
        need(
            bool(changed) == truth,
            f"beta has{'' if truth else ' not'} changed: return this",
        )
    return (
        "the block is optimal and W = W(B); an immediate second visit changes nothing"
    )


@exercise
def check_row_gaps(row_gaps):
    """``row_gaps(X, y, W, B, C)``: each row's part of P(W) - D(B), where W = W(B)."""
    X, y, B = toy()
    C = B.max()
    W = weights(B, X, y)
    z = 1 - margins(X @ W, y)
    z[np.arange(len(y)), y] = 0
    truth = (C * np.maximum(0, z) - B * z).sum(axis=1)
    found = array(ask(row_gaps, X, y, W.copy(), B.copy(), C), truth.shape, "the result")
    if found.min() < -CLOSE:
        need(False, f"a part is {found.min():.3f}; every one is at least 0")
    hint = f"your parts sum to {found.sum():.4f}, the gap is {truth.sum():.4f}. "
    need(same(found.sum(), truth.sum()), hint + "Use |W|^2 = sum_ij beta_ij m_ij")
    need(same(found, truth), "the sum is right, but not every row's part")
    return f"they sum to the gap, {truth.sum():.4f} here, and none is negative"


@exercise
def check_epochs(epochs):
    """``epochs(rate, factor)``: how many epochs divide a distance by `factor`."""
    for rate, factor in ((0.5, 8), (0.9, 10), (0.99, 1000)):
        found, truth = number(ask(epochs, rate, factor)), np.log(factor) / -np.log(rate)
        whole = np.ceil(truth - CLOSE)  # a student may well count whole epochs
        hint = (
            f"rate {rate}, factor {factor}: {found:.3g} epochs multiply the distance "
            "by "
        )
        hint += f"{rate ** min(found, 1e6):.3g}"
        need(same(found, truth) or same(found, whole), hint)
    return "a rate of 0.9 needs 22 epochs for every digit, 0.99 needs 229"


@exercise
def check_primal(answer, changes, primal: np.ndarray):
    """`answer`: what P does; ``changes(x, b, y, z, t)``: what row x's b does to row z's
    margins."""
    rng = cases()
    for t in (0, 1, 2, 3):
        (x, z), b = rng.normal(size=(2, 5)), np.r_[rng.random(3), 0.0]
        found = array(
            ask(changes, x.copy(), b.copy(), 3, z.copy(), t), (4,), "the result"
        )
        W = weights(b[None], x[None], np.array([3]))
        truth = margins((z @ W)[None], np.array([t]))[0]
        case = f"a row of class {t}, after a visit to one of class 3: "
        need(
            not same(found, -truth),
            case + "all signs are wrong; which class does a visit pull closer?",
        )
        need(same(found[t], 0), case + "the margin against its own class is always 0")
        need(
            same(found, truth),
            case + "take the difference of two columns of the change of W",
        )
    rises = int((np.diff(primal) > 0).sum())
    hint = (
        "which objective does a visit improve, and how does it affect the other rows?"
    )
    pick(answer, ("falls", "both"), "both" if rises else "falls", hint)
    return f"it rises in {rises} of {len(primal) - 1} epochs; only the dual is monotone"


@exercise
def check_stall(patience, C, descend: Callable):
    """``descend(C, patience)`` stops far above full sweeps after as many epochs."""
    need(number(patience) % 1 == 0, f"patience must be a whole number, got {patience}")
    hint = (
        f"patience must be at least 2, got {patience}; for which C do two visits say "
        "little?"
    )
    need(number(patience) > 1, hint)
    need(number(C) > 0, "C must be positive")
    dropped, full = descend(C, int(patience))[-1], descend(C, np.inf)[-1]
    case = f"the gap ends at {dropped:.2g}, that of full sweeps at {full:.2g}"
    hint = ": not 100 times as large. Drop rows sooner, or take another C"
    need(dropped > 100 * max(full, ROUNDING), case + hint)
    return case + ": rows that were dropped too soon make up the rest"


@exercise
def check_rounds(short, shark: Trace, walrus: Trace):
    """``short(tau, m)``: how far above its minimum (4) is, if no derivative is larger
    than tau."""
    for m, tau in zip((2, 6, 20), cases().uniform(0.1, 2, 3)):
        g, found = tau * (-1.0) ** np.arange(m), number(ask(short, tau, m))
        # the worst signs, m being even
        truth = g @ np.linalg.solve(np.eye(m) + 1, g) / 2
        case = f"for tau = {tau:.3g}, m = {m}: "
        need(
            found > truth - CLOSE,
            case + f"{found:.3g} is not safe, some b is further off",
        )
        need(
            found < truth + CLOSE,
            case + f"{found:.3g} is safe, but no b is as far off as that",
        )
    a, b = shark.last["round"], walrus.last["round"]
    return f"{a} and {b} rounds: a violation of 1e-6 makes no difference"


@exercise
def check_scale(scale):
    """``scale(old, new)``: the largest factor that surely keeps beta in the new box."""
    for old, new in ((0.5, 1.0), (1.0, 8.0), (2.0, 0.5)):
        found = number(ask(scale, old, new))
        hint = f"C from {old} to {new}: a beta at {old} becomes {found * old:g}"
        need(found * old <= new + CLOSE, hint + ", outside the new box")
        need(same(found * old, new), hint + "; it may go up to the new C")
    return "bounds stay bounds: multipliers at the old C move to the new one"


def _visited(
    x: np.ndarray, y: int, W: np.ndarray, beta: np.ndarray, C: float
) -> np.ndarray:
    return np.insert(minimiser(block_of(x, y, W, beta), C), y, 0.0)
