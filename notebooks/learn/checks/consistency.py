"""The checks of the lesson on consistency and calibration; see
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
    same,
    several,
)

LOSSES = ("Weston-Watkins", "Crammer-Singer", "one-vs-rest", "softmax", "square")


@exercise
def check_wanted(wanted):
    """``wanted(eta)``: the minimisers of the softmax loss, up to a constant, and of the
    square."""
    rng = cases()
    for k in (2, 3, 5):
        eta = rng.dirichlet(np.ones(k))
        found = ask(wanted, eta.copy())
        several(found, 2, "return two arrays, for the softmax loss and for the square")
        v, u = (
            array(a, eta.shape, name) for a, name in zip(found, ("softmax", "square"))
        )
        case = f"for eta = {eta.round(2).tolist()}: "
        p = np.exp(v - np.max(v)) / np.exp(v - np.max(v)).sum()
        hint = "the scores are not the probabilities: the gradient is softmax(v) - eta"
        need(not same(v, eta), case + hint)
        hint = (
            f"the softmax of these scores is {p.round(2).tolist()}, and should be eta"
        )
        need(same(p, eta), case + hint)
        need(
            not same(u, v),
            case + "the square has no softmax: its gradient is linear in v",
        )
        slope = 2 * (u - eta)
        need(
            same(slope, 0),
            case + f"the gradient of the square is {slope.round(2).tolist()}",
        )
    return "both determine eta: one by its logarithm, the other directly"


@exercise
def check_on_top(on_top):
    """``on_top(eta, V, charged)``: the classes with the largest score at the smallest
    risk."""
    rng = cases()
    for m, k in ((5, 3), *[(8, 4)] * 6):
        V, charged = rng.integers(0, 3, (m, k)).astype(float), rng.uniform(0, 3, (m, k))
        V[0] = 1.0
        if m == 5:
            charged[0] = 0.0
        eta = rng.dirichlet(np.full(k, 0.3))
        found = array(
            ask(on_top, eta.copy(), V.copy(), charged.copy()), (k,), "the result"
        )
        i, plain = int(np.argmin(charged @ eta)), int(np.argmin(charged.sum(axis=1)))
        truth = V[i] > V[i].max() - CLOSE
        case = f"the smallest risk is that of the scores {V[i].tolist()}: "
        hint = "return a truth value for each class, not the number of a class"
        need(found.dtype == bool or set(np.ravel(found)) <= {0, 1}, case + hint)
        found = found.astype(bool)
        other = V[plain] > V[plain].max() - CLOSE
        hint = (
            "that is the candidate with the smallest sum of losses: weigh them by eta"
        )
        need(
            np.array_equal(found, truth) or not np.array_equal(found, other),
            case + hint,
        )
        most = V[np.argmax(charged @ eta)]
        hint = "that is the candidate with the largest risk"
        swapped = np.array_equal(found, most > most.max() - CLOSE)
        need(np.array_equal(found, truth) or not swapped, case + hint)
        hint = "several classes share the largest score"
        need(not (found <= truth).all() or not (found < truth).any(), case + hint)
        need(
            np.array_equal(found, truth),
            case + f"{np.flatnonzero(truth).tolist()} are on top",
        )
    return "in a tie several classes are on top"


@exercise
def check_alone(alone, ww_risks):
    """Losses with class 0 alone on top at (0.4, 0.35, 0.25); the risks of two score
    vectors."""
    rng = cases()
    for _ in range(5):
        eta = rng.dirichlet(np.ones(3))
        found = ask(ww_risks, eta.copy())
        several(found, 2, "return two risks, at (1, 0, 0) and at (1, 1, 0)")
        for value, v, truth in zip(
            map(number, found),
            ("(1, 0, 0)", "(1, 1, 0)"),
            (3 * (eta[1] + eta[2]), eta[0] + eta[1] + 4 * eta[2]),
        ):
            told = f"at {v} the risk is {truth:.3f}, not {value:.3f}"
            case = f"for eta = {eta.round(2).tolist()} "
            need(
                same(value, truth),
                f"{case}{told}: sum the hinges of each label, weighted by eta",
            )
    need(isinstance(alone, list | tuple | set), "alone should be a list of names")
    need(set(alone) <= set(LOSSES), f"the names are {LOSSES}")
    hint = "compare your two risks at this eta: which scores are better?"
    need("Weston-Watkins" not in alone, hint)
    hint = "no class has a majority here: compare (1, 0, 0) with (0, 0, 0)"
    need("Crammer-Singer" not in alone, hint)
    hint = "one-vs-rest asks of each class alone whether it is more probable than not"
    need("one-vs-rest" not in alone, hint)
    need(set(alone) == {"softmax", "square"}, "one is missing: see Exercise 1")
    return "at (1, 0, 0) Weston-Watkins has 1.8, at (1, 1, 0) only 1.75"


@exercise
def check_ties(ties):
    """``ties(eta)``: whether Weston-Watkins ties the top two of three classes."""
    rng = cases()
    etas = rng.dirichlet(np.ones(3) * 3, 300)
    _, second, first = np.sort(etas, axis=1).T
    clear = (np.abs(second - 1 / 3) > 0.01) & (np.abs(first - 0.5) > 0.01)
    etas, second, first = etas[clear], second[clear], first[clear]
    truth = (second > 1 / 3) & (first < 0.5)
    found = np.array([bool(ask(ties, eta.copy())) for eta in etas])
    risks = {
        "(1, 0, 0)": 3 * (1 - first),
        "(1, 1, 0)": 1 + 3 * (1 - first - second),
        "(2, 1, 0)": 2 * second + 5 * (1 - first - second),
    }
    hint = "with a majority (2, 1, 0) is better, for any second probability"
    need(not np.array_equal(found, second > 1 / 3), hint)
    hint = "without a majority (1, 0, 0) may still be better"
    need(not np.array_equal(found, first < 0.5), hint)
    i = int(np.argmax(found != truth))
    told = ", ".join(f"{v}: {risk[i]:.3f}" for v, risk in risks.items())
    case = (
        f"for eta = {etas[i].round(3).tolist()} the risks, top class first, are {told}"
    )
    need(found[i] == truth[i], case)
    return "the second above a third, the first below a half"


@exercise
def check_silent(eta):
    """Probabilities with one class ten times as probable as any other, and all classes
    tied."""
    eta = np.asarray(eta, dtype=float)
    need(
        eta.ndim == 1 and len(eta) > 2,
        "a list of three probabilities or more is asked for",
    )
    need(
        (eta >= 0).all() and same(eta.sum(), 1),
        "probabilities are not negative, and sum to 1",
    )
    second, first = np.sort(eta)[-2:]
    hint = (
        f"the first has {first:.3g} and the second {second:.3g}: not ten times as much"
    )
    need(first >= 10 * second - CLOSE, hint)
    hint = (
        "one class has exactly a half: (1, 0, ..., 0) costs Crammer-Singer as much as "
        "0 does"
    )
    need(not same(first, 0.5), hint)
    told = "so that (1, 0, ..., 0) costs Crammer-Singer less than 0 does"
    need(first < 0.5, f"one class has the majority, {first:.3g}, {told}")
    return (
        f"{first / second:.3g} times as probable as any other of {len(eta)}, and not "
        "on top"
    )


@exercise
def check_calibration(calibration_error):
    """``calibration_error(P, y, bins)``: mean distance of confidence and fraction
    right."""
    rng = cases()
    for k, bins in ((3, 10), (4, 5), (2, 10)):
        P = rng.dirichlet(np.ones(k) * 0.5, 400)
        y = rng.integers(0, k, 400)
        y[:200] = P[:200].argmax(axis=1)
        P[0] = np.eye(k)[0]
        found = number(ask(calibration_error, P.copy(), y.copy(), bins))
        confidence, right = P.max(axis=1), P.argmax(axis=1) == y
        at = np.minimum((confidence * bins).astype(int), bins - 1)
        off = np.array([(confidence - right)[at == b].sum() for b in range(bins)])
        sizes = np.bincount(at, minlength=bins)
        truth, full = np.abs(off).sum() / 400, sizes > 0
        case = f"for {k} classes and {bins} bins "
        hint = "the distance is taken in each row: average in the bin first"
        need(not same(found, np.abs(confidence - right).mean()), case + hint)
        hint = "differences of opposite sign cancel: take the distance in each bin"
        need(not same(found, abs(off.sum()) / 400), case + hint)
        hint = "bins count by their numbers of rows, not all alike"
        need(not same(found, np.abs(off[full] / sizes[full]).mean()), case + hint)
        short = sum(
            abs((confidence - right)[confidence * bins // 1 == b].sum())
            for b in range(bins)
        )
        hint = "a confidence of 1 belongs to the last bin, and is in none of yours"
        need(same(truth, short / 400) or not same(found, short / 400), case + hint)
        need(np.isfinite(found), case + "it is not finite: an empty bin has no mean")
        told = (
            f"it is {truth:.4f}, not {found:.4f}: of a bin's rows, how many are "
            "right, and how "
        )
        need(
            same(found, truth),
            case + told + "many are right according to their largest p?",
        )
    return "0 would be a perfectly calibrated forecast"
