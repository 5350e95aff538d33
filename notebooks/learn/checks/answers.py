"""The checks of the lesson on the five papers' answers; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

from itertools import pairwise, product

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
    same,
    several,
)


@exercise
def check_many(many):
    """``many(n, k)``: subsets of labels, margins, and log10 of the outputs of all rows
    at once."""
    for n, k in ((7, 3), (4, 5), (1438, 10)):
        try:
            found = ask(many, n, k)
        except (TypeError, OverflowError):  # of log10(k**n)
            raise Hint(
                f"k^n is too large for numpy (n = {n}, k = {k}): what is its log10?"
            ) from None
        several(found, 3, "return three numbers")
        subsets, margins, digits = map(number, found)
        case = f"for n = {n} and k = {k}: "
        need(not same(subsets, n * 2**k), case + "the empty subset makes no constraint")
        need(
            same(subsets, n * (2**k - 1)),
            case + f"{subsets:g} is not the number of subsets",
        )
        need(not same(margins, n * k), case + "a row has no margin over its own class")
        need(
            same(margins, n * (k - 1)),
            case + f"{margins:g} is not the number of margins",
        )
        need(
            not same(digits, k * np.log10(n)),
            case + "that is n^k; each of n rows has k choices",
        )
        truth = n * np.log10(k)
        need(
            same(digits, truth),
            case + f"log10 of the last is {truth:.3f}, not {digits:.3f}",
        )
    return (
        "the last number has more than a thousand digits, and yet needs the smallest "
        "work"
    )


@exercise
def check_certified(answer, three):
    """`answer`: names with a lower bound; ``three(c, g, alpha, w, seen)``: two bounds
    and none."""
    rng = cases()
    for m in (2, 3, 8, 30):
        c, g, alpha, w = (
            rng.normal(size=m),
            rng.normal(size=m),
            rng.dirichlet(np.ones(m)),
            0.7,
        )
        heights, case = c + g * w, f"for {m} constraints: "
        seen, worst = int(np.argmin(heights)), int(np.argmax(heights))
        found = ask(three, c.copy(), g.copy(), alpha.copy(), w, seen)
        several(found, 3, "return three numbers")
        dual, curved, hasty = map(number, found)
        point = alpha @ c
        need(
            not same(dual, point + (alpha @ g) ** 2 / 2),
            case + "the minimum of w^2/2 + w s is -s^2/2",
        )
        need(
            not same(dual, point - alpha @ g**2 / 2),
            case + "square the mean of g, not each g",
        )
        hint = "minimise w^2 / 2 + sum_j alpha_j (c_j + g_j w) over w"
        need(same(dual, point - (alpha @ g) ** 2 / 2), case + hint)
        P, slope = w**2 / 2 + heights[worst], w + g[worst]
        need(
            not same(curved, P),
            case + "P(w) is an upper bound; how far below can the minimum be?",
        )
        need(
            not same(curved, P - g[worst] ** 2 / 2),
            case + "the slope of P is w + g, not g alone",
        )
        need(
            not same(curved, P - slope**2),
            case + "P(w) + s t + t^2 / 2 has its minimum at t = -s",
        )
        need(
            same(curved, P - slope**2 / 2),
            case + "subtract half the square of a slope of P at w",
        )
        need(
            same(hasty, w**2 / 2 + heights[seen]),
            case + "the third takes `seen` for the largest",
        )
    names = (
        "MRC-CCG",
        "Walrus",
        "MEMOIR",
        "working sets",
        "least squares",
        "exact cuts",
    )
    truth, every = {*names} - {"MEMOIR"}, {*names, "sampled cuts"}
    need(
        isinstance(answer, list | set | tuple),
        "give a list of names, [] if there is none",
    )
    strange = [name for name in answer if name not in every]
    need(not strange, f"{strange} are not among {sorted(every)}")
    hint = (
        "one of these has none: whose constraints are estimates, or whose worst one "
        "is missed?"
    )
    need(set(answer) <= truth, hint)
    hint = (
        "not all: which methods have a dual point, a curvature, or valid constraints?"
    )
    need(set(answer) == truth, hint)
    return f"{len(truth)} of 7 can bound the distance to their optimum in every round"


@exercise
def check_most_violated(most_violated):
    """``most_violated(S, y)``: the outputs (n,) that violate most, and their mean
    violation."""
    rng = cases()
    for n, k in ((4, 3), (3, 5), (1, 4)):
        S, y = rng.normal(size=(n, k)), rng.integers(k, size=n)
        found = ask(most_violated, S.copy(), y.copy())
        several(found, 2, "return two things: outputs and value")
        outputs, value = array(found[0], (n,), "the outputs"), number(found[1])
        every = list(product(range(k), repeat=n))
        values = [_violation(S, y, np.array(one)) for one in every]
        truth, best = max(values), np.array(every[int(np.argmax(values))])
        case = f"of {len(every)} constraints, "
        plain = np.array_equal(outputs, S.argmax(axis=1)) and not np.array_equal(
            outputs, best
        )
        need(
            not plain,
            "those have the largest scores; a wrong class also has the loss 1, which "
            "counts",
        )
        need(
            np.array_equal(outputs, best),
            case + f"that of {best.tolist()} is violated most, "
            f"not that of {outputs.tolist()}",
        )
        need(
            n == 1 or not same(value, n * truth),
            "that is the sum over the rows; take the mean",
        )
        need(
            same(value, truth),
            case + f"the largest violation is {truth:.3f}, not {value:.3f}",
        )
    return "n looks at k scores each, instead of k^n"


@exercise
def check_repaired(repaired):
    """``repaired(P, C, n, eps)``: an upper bound again, after searches that miss by up
    to eps."""
    for P, C, n, eps in ((90.0, 0.1, 1000, 0.05), (3.0, 2.0, 7, 0.5)):
        found, truth = number(ask(repaired, P, C, n, eps)), P + C * n * eps
        case = f"for P = {P:g}, C = {C:g}, n = {n} and eps = {eps:g}: "
        need(not same(found, P), "P was computed from losses that are too small")
        need(
            not same(found, P - C * n * eps),
            "losses were too small, and so is P: what must be added?",
        )
        need(not same(found, P + C * eps), "any row may be too small, not only one")
        need(not same(found, P + n * eps), "a row's loss counts C times")
        need(
            found > truth - CLOSE, case + f"{found:g} is not safe: P* may be {truth:g}"
        )
        need(
            same(found, truth),
            case + f"{truth:g} is enough, {found:g} is more than that",
        )
    return (
        "the certificate is valid again, but wider by what the searches may have missed"
    )


@exercise
def check_too_right(x, y):
    """Rows on a line with separate classes, of which least squares gets some wrong."""
    x, y = np.asarray(x, dtype=float), np.asarray(y)
    need(x.ndim == 1 and len(x) > 1, "x should be a list of at least two numbers")
    need(np.isfinite(x).all(), "x should hold finite numbers")
    y = array(y, x.shape, "y").astype(int)
    classes = np.unique(y)
    need(len(classes) > 1, "there should be two classes or more")
    need(
        np.array_equal(classes, np.arange(len(classes))),
        "the classes should be 0, 1, 2, ...",
    )
    ends = sorted((x[y == c].min(), x[y == c].max()) for c in classes)
    apart = all(high < low for (_, high), (low, _) in pairwise(ends))
    need(
        apart,
        "no classifier with linear scores gets all of these right: separate the "
        "classes",
    )
    A = np.stack([x, np.ones(len(x))], axis=1)
    F = A @ np.linalg.lstsq(A, np.eye(len(classes))[y], rcond=None)[0]
    own = F[np.arange(len(x)), y]
    wrong = int((F.max(axis=1) > own + CLOSE).sum())
    hint = (
        "least squares gets all of them right: try a row far out, or a class between "
        "two others"
    )
    need(wrong, hint)
    return (
        f"all margins could be kept, but least squares gets {wrong} of {len(x)} rows "
        "wrong"
    )


def _violation(S: np.ndarray, y: np.ndarray, outputs: np.ndarray) -> float:
    rows = np.arange(len(y))
    return float(((outputs != y) + S[rows, outputs] - S[rows, y]).mean())
