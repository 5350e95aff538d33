"""The checks of the lesson on the equation of three papers; see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.exercise import CLOSE, array, ask, cases, exercise, need, number, pick, same


@exercise
def check_by_hand(theta, gamma, boxed):
    """The roots for ``v = (1.2, 0.9, -0.4)``: right side 1, right side t, and t with C
    = 0.4."""
    v = np.array([1.2, 0.9, -0.4])
    cases = ((theta, np.inf, 1, 0), (gamma, np.inf, 0, 1), (boxed, 0.4, 0, 1))
    for name, (found, C, a, c) in zip(("theta", "gamma", "gamma_boxed"), cases):
        found = number(found)
        left, right = np.clip(v - found, 0, C).sum(), a + c * found
        box = "" if C == np.inf else " (no entry may exceed C)"
        need(
            same(left, right),
            f"{name}: the left side is {left:.3f}, the right {right:.3f}{box}",
        )
    return "the box lowers the root, because one entry is limited"


@exercise
def check_soft(moves, sum_at_the_end):
    """The motion of the root as c grows, for a = 1; ``sum_at_the_end(v, C)`` of b in
    the limit."""
    rng = cases()
    for C in (np.inf, 0.4, 0.1):
        for _ in range(5):
            v = rng.normal(size=6)
            found, truth = (
                number(ask(sum_at_the_end, v.copy(), C)),
                np.clip(v, 0, C).sum(),
            )
            case = f"for C = {C:g}, v = {v.round(2).tolist()}: "
            need(not same(found, 1), case + "the sum is fixed at 1 only for c = 0")
            boxed = same(found, truth) or not same(found, np.maximum(v, 0).sum())
            need(boxed, case + "an entry may not exceed C")
            need(
                same(found, truth),
                case + f"without a penalty the sum is {truth:.3f}: what is b?",
            )
    hint = "t = (s - 1) / c: what happens to it if the sum s stays bounded?"
    pick(moves, ("rises", "falls", "towards 0"), "towards 0", hint)
    return "a penalty that vanishes has no price"


@exercise
def check_root(root):
    """``root(v, C, a, c)`` of ``sum clip(v - t, 0, C) = a + c t``."""
    rng = cases()
    for C, a, c in (
        (np.inf, 1, 0),
        (np.inf, 0, 1),
        (0.5, 0, 1),
        (0.3, 1, 0),
        (0.4, 1, 0.5),
    ):
        for k in (4, 5, 9):
            for _ in range(20):
                v = rng.normal(0, 2, size=k)
                found, truth = number(ask(root, v.copy(), C, a, c)), _root(v, C, a, c)
                case = (
                    f"for C = {C:g}, a = {a:g}, c = {c:g}, v = {v.round(2).tolist()}: "
                )
                need(np.isfinite(found), case + "the root is not finite")
                free = np.maximum(v - found, 0).sum()
                unboxed = C < np.inf and abs(free - a - c * found) < CLOSE
                need(
                    same(found, truth) or not unboxed,
                    case + "an entry may not exceed C, whatever is above it",
                )
                left, right = np.clip(v - found, 0, C).sum(), a + c * found
                need(
                    same(found, truth),
                    case + f"at t = {found:.4f} the left side is {left:.4f}, "
                    f"the right {right:.4f}",
                )
    return "one function for three papers"


@exercise
def check_slope(slope):
    """``slope(n_free, c)``: how fast the root moves with a free entry."""
    for free, c in ((1, 0), (3, 0), (2, 1), (4, 0.5)):
        found, truth = number(ask(slope, free, c)), 1 / (free + c)
        case = f"for n_free = {free} and c = {c:g} "
        need(
            not (c and same(found, 1 / free)), case + "the right side also moves with t"
        )
        need(
            same(found, truth),
            case + f"the root moves {truth:.3f}, not {found:.3f} times as fast: "
            "see the formula",
        )
    return "the more entries are free, the less each of them moves the root"


@exercise
def check_say(v, C):
    """Entries and a box for which the largest entry does not move the root, and another
    does."""
    v = np.asarray(v, dtype=float)
    need(v.ndim == 1 and len(v) >= 3, "v should be a list of three numbers or more")
    v, C = array(v, v.shape, "v"), number(C)
    need(np.isfinite(v).all() and 0 < C, "v should be finite, and C positive")
    need(
        len(v) * C > 1 + CLOSE,
        "without a root there is nothing to move: C must exceed 1 / k",
    )
    t, top = _root(v, C, 1, 0), int(np.argmax(v))
    free = (v > t + CLOSE) & (v - t < C - CLOSE)
    after = _root(v + 0.5 * (np.arange(len(v)) == top), C, 1, 0)
    need(
        same(t, after),
        f"the root moves from {t:.3f} to {after:.3f}: is the largest entry at C?",
    )
    need(free.any(), "no entry moves this root: let one be strictly between 0 and C")
    return f"the root stays at {t:.3f}: an entry at C has no influence"


def _root(v: np.ndarray, C: float, a: float, c: float) -> float:
    """Return the root by bisection, the largest where a flat piece has many."""
    low, high = v.min() - 2, max(v.max(), 0.0)
    # the left side reaches k C or grows without bound, the right side falls
    for _ in range(60):
        if np.clip(v - low, 0, C).sum() >= a + c * low:
            break
        low = 2 * low - high
    for _ in range(100):
        middle = (low + high) / 2
        if np.clip(v - middle, 0, C).sum() >= a + c * middle:
            low = middle
        else:
            high = middle
    return float((low + high) / 2)
