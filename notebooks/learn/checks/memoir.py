"""The checks of the lesson memoir_1; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.certified import check_certified as check_certified
from checks.exercise import (
    CLOSE,
    array,
    ask,
    cases,
    exercise,
    need,
    number,
    same,
    several,
)


@exercise
def check_margin(margin):
    """``margin(W, X, y) -> m, r``: the exact margins, and the strongest wrong
    classes."""
    rng = cases()
    W, X, y = rng.normal(size=(4, 5)), rng.normal(size=(30, 4)), np.arange(30) % 5
    found, F, at = ask(margin, W.copy(), X, y), X @ W, np.arange(30)
    several(found, 2, "return two things: m and r")
    m, r = array(found[0], (30,), "m"), array(found[1], (30,), "r")
    own = F[at, y]
    need(
        not np.any(r == y),
        "a row's own class is among the answers: look at the others only",
    )
    F[at, y] = -np.inf
    need(
        np.array_equal(r, F.argmax(axis=1)),
        "r is not the wrong class with the largest score",
    )
    need(not same(m, F.max(axis=1) - own), "the sign is wrong: a large margin is good")
    need(
        same(m, own - F.max(axis=1)), "m is the score of the own class minus that of r"
    )
    return "C scores per row, of which two are used"


@exercise
def check_loss_range(loss_range):
    """``loss_range(h, eps, rho)``: smallest and largest exact hinge for an inexact
    hinge `h`."""
    for h, eps, rho in ((0.7, 0.2, 1.0), (0.3, 0.1, 0.5), (0.0, 0.2, 1.0)):
        found = ask(loss_range, h, eps, rho)
        several(found, 2, "return two things: least, largest")
        least, largest = number(found[0]), number(found[1])
        case = f"for a hinge of {h}, eps = {eps}, rho = {rho}: "
        hint = (
            "an answer that is not the best makes the margin larger, and the hinge "
            "smaller"
        )
        need(not least < h - CLOSE, case + hint)
        need(
            same(least, h),
            case + "the answer may be the best one; what is the hinge then?",
        )
        need(
            rho == 1 or not same(largest, h + eps),
            case + "the hinge falls by 1/rho, not by 1",
        )
        told = f"the largest is {h + eps / rho:.2f}, not {largest:.2f}"
        need(same(largest, h + eps / rho), case + told)
    return "never smaller than the inexact one, and at most eps / rho larger"


@exercise
def check_epsilon_at(epsilon_at):
    """``epsilon_at(off, delta)``: the smallest eps exceeded by at most a fraction
    `delta`."""
    off = np.array([0.5, 0.0, 0.1, 0.0, 0.3, 0.0, 0.2, 0.0, 0.4, 0.0])
    for delta, truth in ((0.0, 0.5), (0.1, 0.4), (0.25, 0.3), (0.5, 0.0), (0.95, 0.0)):
        found = number(ask(epsilon_at, off.copy(), delta))
        above = np.mean(off > found + CLOSE)
        case = f"delta = {delta}: "
        told = f"{above:.0%} of the rows are above {found:.3g}"
        need(above <= delta + CLOSE, case + told)
        hint = f"{truth} would do; {found:.3g} is larger than necessary"
        need(found <= truth + CLOSE, case + hint)
        need(
            same(found, truth),
            case + f"an inexactness is never below 0, got {found:.3g}",
        )
    return "one search has many pairs: a curve"


@exercise
def check_step_of_theorem_1(exact, inexact, eps):
    """Two margins, at most `eps` apart, for which the proof of Theorem 1 is wrong."""
    exact, inexact, eps = number(exact), number(inexact), number(eps)
    need(eps > 0, "eps must be positive")
    need(exact <= inexact, "an exact margin is never larger than the inexact one")
    need(inexact - exact <= eps + CLOSE, f"they are more than eps = {eps} apart")
    left, right = max(0.0, 1 - exact), max(0.0, 1 - inexact / (1 + eps))
    told = (
        f"the loss with rho = 1 is {left:.3f}, the one with rho = 1 + eps is "
        f"{right:.3f}"
    )
    need(left > right + CLOSE, told + ". For which m is 1 - m above 1 - m / (1 + eps)?")
    return told + "; with the factor 1 + eps before it, " + f"{(1 + eps) * right:.3f}"


@exercise
def check_random(expected):
    """``expected(X, y, C)``: what a batch adds to W on average, if its answers are
    random."""
    rng = cases()
    for C in (3, 5, 8):
        X, y = rng.normal(size=(30, 4)), rng.integers(C, size=30)
        own, case = np.eye(C)[y], f"for C = {C}: "
        found = array(ask(expected, X.copy(), y.copy(), C), (4, C), "the result")
        truth = X.T @ (own - (1 - own) / (C - 1))
        need(
            not same(found, -truth),
            case + "the sign: a step raises w_y and lowers the answer",
        )
        need(
            not same(found, X.T @ own),
            case + "that is what w_y gains; what do the answers lose?",
        )
        hint = "a row is never given its own class: there are C - 1 others"
        need(not same(found, X.T @ (own - 1 / C)), case + hint)
        hint = "each wrong class is the answer with probability 1 / (C - 1) only"
        need(not same(found, X.T @ (2 * own - 1)), case + hint)
        need(
            not same(found, truth / 30),
            case + "the batch is not divided by its size here",
        )
        need(
            same(found, truth),
            case + "column c: its own rows, minus a fraction of all others",
        )
    return "w_y is raised by the right rows, and lowered by a little of all others"


@exercise
def check_step(step):
    """``step(W, x, y, r, lam, t)``: the weights after step t of Pegasos with the answer
    `r`."""
    rng = cases()
    lam = 0.1
    steps = [(1, 0.0, 1), (9, 0.1, 1), (9, 9.0, 0.1), (9, -9.0, 1), (9, 0.1, 9)]
    for t, scale, length in [*steps, (9, 1.5, 1), (9, 1.05, 1)]:
        W, x = 0.3 * length * rng.normal(size=(3, 4)), rng.normal(size=3)
        x /= np.linalg.norm(x)
        W[:, 0], W[:, 2] = -0.9 * x, (scale - 0.9) * x
        given, push = W.copy(), np.outer(x, np.eye(4)[2] - np.eye(4)[0]) / (lam * t)
        found = array(ask(step, given, x, 2, 0, lam, t), W.shape, "the result")
        need(same(given, W), "do not change the array that you are given")
        shrunk, violated = (1 - 1 / t) * W, scale < 1
        free = shrunk + violated * push
        truth = _in_ball(free, lam)
        late, alone = scale * (1 - 1 / t) < 1, x @ W[:, 2] < 1
        slips = {
            "the margin is that of W before it shrinks": _in_ball(
                shrunk + late * push, lam
            ),
            "a margin also depends on r": _in_ball(shrunk + alone * push, lam),
            "then project onto the ball": free,
            "nothing is violated": _in_ball(shrunk + push, lam),
            "W also shrinks: by lam times 1 / (lam t)": _in_ball(
                W + violated * push, lam
            ),
            "raise the own class, lower r": _in_ball(shrunk - violated * push, lam),
            "a margin from 0 to 1 is violated, too": _in_ball(
                shrunk + (scale < 0) * push, lam
            ),
            "x is multiplied by the step size, 1 / (lam t)": _in_ball(
                shrunk + violated * lam * push, lam
            ),
            "shorten W only if it is too long": free
            / (np.sqrt(lam) * np.linalg.norm(free) or 1),
        }
        case = f"t = {t}, margin {scale:g}: "
        for hint, slip in slips.items():
            need(same(found, truth) or not same(found, slip), case + hint)
        off = np.flatnonzero(np.abs(found - truth).max(axis=0) > CLOSE).tolist()
        hint = (
            f"columns {off} are off (y = 2, r = 0). Is each of the three parts of a "
            "step there?"
        )
        need(same(found, truth), case + hint)
    return "two columns, whatever the number of classes"


@exercise
def check_bound(bound):
    """``bound(lam, T, off)``: how far above the optimum, given the inexactness of each
    step."""
    for lam, T, off in (
        (0.1, 100, np.linspace(0, 0.3, 100)),
        (0.01, 50, np.linspace(0, 1, 50)),
    ):
        exact = (np.sqrt(lam) + np.sqrt(2)) ** 2 * (1 + np.log(T)) / (2 * lam * T)
        found, truth = number(ask(bound, lam, T, off.copy())), exact + off.mean()
        case = f"for lam = {lam}, T = {T}: "
        need(not same(found, exact), case + "that is the bound of an exact search")
        hint = "the eps of all steps are added up; divide by T like the rest"
        need(not same(found, exact + off.sum()), case + hint)
        need(
            not same(found, exact + off.max()),
            case + "true, but the mean of off is enough",
        )
        told = (
            f"it is {truth:.4g}, not {found:.4g}; with exact answers it is {exact:.4g}"
        )
        need(same(found, truth), case + told)
    return "a search costs at most the mean of its inexactness"


def _in_ball(W: np.ndarray, lam: float) -> np.ndarray:
    return W / max(1.0, np.sqrt(lam) * np.linalg.norm(W))
