"""The checks of the lesson cuts_1b; they print, see :mod:`checks.exercise`."""

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
    pick,
    same,
    several,
)


@exercise
def check_cut_many(cut_many):
    """``cut_many(w, X, y, K) -> c, g`` of Crammer and Singer's risk."""
    rng = cases()
    X, y, w = rng.normal(size=(30, 3)), np.arange(30) % 4, rng.normal(0, 0.6, 12)
    found, (c, g) = ask(cut_many, w.copy(), X, y, 4), _cut_many(w, X, y, np.ones(4))
    several(found, 2, "return two things: c and g")
    offset, slope = number(found[0]), array(found[1], w.shape, "g")
    unaware = _cut_many(w, X, y, np.zeros(4))[0]
    need(
        not same(offset, unaware),
        "that is the error: add the loss before you take the maximum",
    )
    need(not same(offset, c * len(y)), "c is a sum over the rows here; take the mean")
    need(
        same(offset, c),
        f"c is the mean loss of the answers, {c:.3f} here, not {offset:.3f}",
    )
    need(
        not same(slope, -g),
        "g has the wrong sign: raising the own score lowers the loss",
    )
    need(not same(slope, g * len(y)), "g is a sum over the rows here; take the mean")
    hint = (
        "g is off: a row adds x / n to the column of its answer and takes it from its "
        "own"
    )
    need(same(slope, g), hint)
    return "the same algorithm, another problem"


@exercise
def check_two_labels(two_labels):
    """``two_labels(w, C) -> W, C2``: the SVM of lesson 1 as Crammer and Singer's of two
    labels."""
    rng = cases()
    for C in (1.0, 3.0, 0.2):
        w = rng.normal(size=4)
        found = ask(two_labels, w.copy(), C)
        several(found, 2, "return two things: W and the C that it belongs to")
        W, own = array(found[0], (4, 2), "W"), number(found[1])
        difference = W[:, 1] - W[:, 0]
        need(
            not same(difference, -w),
            "label 1 has the column 1: its score is to be the larger one",
        )
        need(
            not same(difference, 2 * w),
            "a row's hinge depends on the difference of the columns: twice w",
        )
        need(same(difference, w), "the difference of the two columns is not w")
        told = f"|W|^2 is {(W**2).sum():.3f}, and {(w**2).sum() / 2:.3f} is enough"
        need(
            same(W.sum(axis=1), 0), told + ": which W with this difference is shortest?"
        )
        case = f"for C = {C:g} your C is {own:g}: "
        hint = "|W|^2 is |w|^2 / 2, so the whole objective has to be halved"
        need(not same(own, C), case + hint)
        need(
            not same(own, 2 * C),
            case + "the other way round: W is shorter than w, so C is smaller",
        )
        need(same(own, C / 2), case + hint)
    return (
        "the same classifier at half the C: compare two implementations at the same "
        "objective"
    )


@exercise
def check_far_label(f, D: np.ndarray):
    """Scores `f` of three labels, the first one right, on whose worst answer the two
    losses differ.

    Label 1 is predicted and has the largest slack-rescaled loss. Margin rescaling makes
    its cut against label 2, whose loss is larger by at least 5.
    """
    f = array(f, (3,), "the result").astype(float)
    need(
        np.isfinite(f).all() and np.abs(f).max() < 100,
        "three numbers below 100 are enough",
    )
    ahead = f[0] - f
    margin, slack = D[0] - ahead, D[0] * (1 - ahead)
    told = f"the losses are {np.round(margin, 2)} with the margin rescaled, "
    told += f"{np.round(slack, 2)} with the slack rescaled"
    top = np.flatnonzero(f > f.max() - CLOSE)
    need(len(top) == 1, "two labels have the largest score: which one is predicted?")
    need(
        top[0] == 1, f"label {top[0]} is predicted here; it should be 1, which is wrong"
    )
    hint = (
        ". With the margin rescaled, the loss of label 2 should be 5 larger than that "
        "of label 1"
    )
    need(margin[2] >= margin[1] + 5 - CLOSE, told + hint)
    hint = (
        ". With the slack rescaled, label 1 should lose most: how far behind is label "
        "2?"
    )
    need(slack[1] > slack[2] + CLOSE, told + hint)
    return told


@exercise
def check_scores(scores):
    """``scores(K, y, violated, alpha)``: w'phi(x_i) of all rows, from the rows that
    violated."""
    rng = cases()
    for T in (3, 1):
        X, y, violated = (
            rng.normal(size=(20, 3)),
            rng.choice([-1, 1], 20),
            rng.random((T, 20)) < 0.6,
        )
        alpha = rng.uniform(0.5, 2, T)
        w = X.T @ (y * (alpha @ violated)) / 20
        K, truth = X @ X.T, X @ w
        found = array(ask(scores, K, y, violated, alpha.copy()), (20,), "the result")
        need(not same(found, -truth), "the sign: w is minus the sum of alpha_t g_t")
        need(not same(found, 20 * truth), "a cut is a mean: divide by n")
        means = (alpha / violated.sum(axis=1)) @ violated
        hint = "divide by all n rows, not by those that violated"
        need(not same(found, K @ (y * means)), hint)
        need(
            not same(found, K @ (alpha @ violated) / 20),
            "each row enters with its label y_j",
        )
        need(
            T == 1 or not same(found, K @ (y * violated.sum(axis=0)) / 20),
            "weigh cut t by alpha_t",
        )
        hint = (
            "a row enters with the sum of the alpha_t of all cuts for which it violated"
        )
        need(
            not same(found, K @ (y * alpha.sum() * violated.any(axis=0)) / 20)
            or T == 1,
            hint,
        )
        hint = (
            "it is off: with K = X X' your scores should be X w, w = -sum of alpha_t "
            "g_t"
        )
        need(same(found, truth), hint)
    return "the same as X w if there is an X, but computed without it"


@exercise
def check_exact_values(answer, exact_values):
    """`answer`: with twice the rows; ``exact_values(violating, n)``: of all rounds
    together."""
    for violating, n in (([50, 20, 30], 50), ([400, 100], 1000)):
        found = number(ask(exact_values, np.array(violating), n))
        case = f"for n = {n} and {violating} violators "
        truth = n * sum(violating)
        need(
            not same(found, len(violating) * n**2),
            case + "rows that do not violate enter no cut",
        )
        hint = (
            "that is for the products of a cut with itself; the scores of all n rows "
            "are needed"
        )
        need(not same(found, sum(v**2 for v in violating)), case + hint)
        need(
            same(found, truth),
            case + f"it is {truth:,}, not {found:,g}: n for each of them",
        )
    hint = (
        "the number of rounds is the same: what becomes of n, and of the number of "
        "violators?"
    )
    pick(answer, ("twice", "four times", "eight times"), "four times", hint)
    return "n^2 for the first cut, on which all rows violate"


def _cut_many(w, X, y, losses: np.ndarray) -> tuple[float, np.ndarray]:
    own = np.eye(len(losses))[y]
    answers = np.argmax((1 - own) * losses + X @ w.reshape(X.shape[1], -1), axis=1)
    g = X.T @ (np.eye(len(losses))[answers] - own) / len(y)
    return float(np.mean(answers != y)), g.ravel()
