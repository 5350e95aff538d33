"""The checks of the lesson on sums over rows; see :mod:`checks.exercise`."""

from __future__ import annotations

import weakref

import numpy as np

from checks.exercise import (
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


@exercise
def check_sums(sums):
    """``sums(block, n, m)``: X'X and X'Y of n rows, at most m of which are read at a
    time."""
    rng = cases()
    for n, m in ((20, 5), (23, 5), (4, 9)):
        X, Y = rng.standard_normal((n, 3)), np.eye(2)[rng.integers(0, 2, n)]
        file = _File(X, Y, m)
        found = ask(sums, file.read, n, m)
        several(found, 2, "return two arrays, G and B")
        case = f"for {n} rows, {m} at a time, "
        G, B = array(found[0], (3, 3), "G"), array(found[1], (3, 2), "B")
        unread = np.flatnonzero(file.times == 0).tolist()
        need(not unread, f"{case}the rows {unread} are not read")
        need((file.times < 2).all(), f"{case}some rows are read more than once")
        need(not same(G, X.T @ X / n), case + "G is divided by n: give the sum")
        need(same(G, X.T @ X), case + "G is not the sum of all x x'")
        need(same(B, X.T @ Y), case + "B is not the sum of all x y'")
    return "the last block may be shorter"


class _File:
    """Rows that are read a few at a time, and that detect when they are kept."""

    def __init__(self, X, Y, most):
        self.X, self.Y, self.most = X, Y, most
        self.times, self.given = np.zeros(len(X), int), []

    def read(self, rows):
        count = len(self.X[rows])
        hint = f"{count} rows are requested at a time, but only {self.most} may be"
        need(count <= self.most, hint)
        held = sum(part() is not None for part in self.given)
        need(
            held < 3,
            "three blocks are in memory at the same time: add each up, and go on",
        )
        self.times[rows] += 1
        part = self.X[rows].copy()
        self.given.append(weakref.ref(part))
        return part, self.Y[rows].copy()


@exercise
def check_bound(bound):
    """``bound(g, alpha)``: of the distance from the minimum of a strongly convex
    function."""
    rng = cases()
    for alpha in (0.1, 1.0, 3.0):
        g = rng.standard_normal((3, 2))
        found, square = number(ask(bound, g.copy(), alpha)), (g**2).sum()
        case = f"for alpha = {alpha:g} and |g|^2 = {square:.3f} "
        hint = "that bounds the distance of W, not of f(W)"
        far = (square / alpha**2, np.sqrt(square) / alpha)
        need(alpha == 1 or not any(same(found, other) for other in far), case + hint)
        told = (
            f"it is {square / (2 * alpha):.4f}, not {found:.4f}: for which V is the "
            "right side "
        )
        need(
            same(found, square / (2 * alpha)),
            case + told + "of the inequality smallest?",
        )
    return "it contains no rows: the gradient is enough for the proof"


@exercise
def check_halves(four):
    """Four numbers whose sum in single precision depends on the order."""
    need(np.shape(four) == (4,), "a list of four numbers is asked for")
    with np.errstate(over="ignore", invalid="ignore"):
        a, b, c, d = np.array(four, dtype=np.float32)
        left, halves = ((a + b) + c) + d, (a + b) + (c + d)
    need(np.isfinite([left, halves]).all(), "the sums should be finite")
    hint = (
        f"both sums are {left:g}: let one of the numbers be so large that it absorbs "
        "another"
    )
    need(left != halves, hint)
    return f"{left:g} from left to right, {halves:g} from two workers"


@exercise
def check_pages(pages):
    """``pages(q, m)``: the fraction of pages of m rows of which at least one is
    drawn."""
    for q, m in ((0.5, 1), (0.1, 3), (0.01, 64), (0.3, 20)):
        found, truth = number(ask(pages, q, m)), 1 - (1 - q) ** m
        case = f"for q = {q} and m = {m} "
        hint = "two of the rows that are drawn may share a page"
        need(
            m == 1 or not (same(found, q * m) or same(found, min(1, q * m))),
            case + hint,
        )
        need(
            m == 1 or not same(found, 1 - q**m),
            case + "that omits pages all of whose rows are",
        )
        need(
            not same(found, 1 - truth) or same(truth, 0.5),
            case + "that is the fraction not read",
        )
        told = f"it is {truth:.4f}, not {found:.4f}: when is a page not read?"
        need(same(found, truth), case + told)
    return "of large pages, a small sample reads nearly all"


@exercise
def check_workers(best_workers, hundred):
    """``best_workers(n, d, k, p, b)``, and whether 100 are faster than ten for 100,000
    rows."""
    cases = (
        (1e5, 512, 10, 2e11, 1.25e9),
        (1e8, 64, 3, 1e11, 1e9),
        (1e6, 10, 1000, 1e10, 1e10),
    )
    for n, d, k, p, b in cases:
        found = number(ask(best_workers, n, d, k, p, b))
        truth = np.sqrt(n * b / (2 * p))
        case = f"for n = {n:g}, p = {p:g}, b = {b:g} "
        need(found > 0, case + "the number should be positive")
        hint = "that is the square of it: the derivative has 1 / w^2"
        need(not np.isclose(found, truth**2), case + hint)
        hint = f"it is {truth:.4g}, not {found:.4g}: where is the derivative of T zero?"
        need(np.isclose(found, truth, rtol=1e-3), case + hint)
    n, _, _, p, b = cases[0]
    ten, many = (4 * n / (p * w) + 8 * w / b for w in (10, 100))
    hint = f"with d k = 1, T(10) is {ten:.2g} s and T(100) {many:.2g} s"
    pick(hundred, ("faster", "slower"), "slower", hint)
    return (
        f"{many / ten:.1f} times as long: the traffic on the link grows with the "
        "workers"
    )
