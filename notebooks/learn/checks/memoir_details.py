"""The checks of the lesson memoir_3; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

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
def check_hinge(answer, largest_margins):
    """`answer`: the effect of updating on every row; ``largest_margins(R, C)``: for |W|
    up to R."""
    for R, C in ((1.0, 150), (2.0, 10), (0.3, 4000)):
        found = ask(largest_margins, R, C)
        several(found, 2, "return two margins")
        most, shared = map(number, found)
        case = f"for R = {R:g}, C = {C}: "
        need(not same(most, 2 * R), case + "w_y and w_r cannot both have the length R")
        need(
            not same(most, R),
            case + "two columns contribute: w_y along x, w_r against it",
        )
        hint = "|w_y - w_r| is largest when w_r = -w_y, with |w_y|^2 + |w_r|^2 = R^2"
        need(same(most, 2**0.5 * R), case + hint)
        need(not same(shared, 2 * R / C), case + "the squares of C lengths sum to R^2")
        need(
            not same(shared, R / C**0.5), case + "that is one column; a margin has two"
        )
        told = f"the second is {2 * R / C**0.5:.3g}, not {shared:.3g}"
        need(same(shared, 2 * R / C**0.5), case + told + ": how long is a column?")
    hint = "W is short here. How many rows violate their margin?"
    pick(answer, ("better", "worse", "the same"), "the same", hint)
    return "a margin of 1 is out of reach for 150 classes, so every row violates"


@exercise
def check_index(touched, break_even):
    """``touched(b, C)``: expected share of C classes among b labels, drawn uniformly.

    ``break_even(build, query, exact)``: queries after which an index has paid for
    itself.
    """
    for b, C in ((5, 10), (1, 10), (1000, 300)):
        found, truth = number(ask(touched, b, C)), 1 - (1 - 1 / C) ** b
        case = f"touched: b = {b}, C = {C}: "
        need(
            not same(found, C * truth),
            case + "that many classes; which fraction is it?",
        )
        need(found <= 1, case + "a fraction is at most 1: labels repeat")
        need(b == 1 or not same(found, b / C), case + "labels repeat")
        need(
            not same(found, 1 - truth),
            case + "that is the fraction that is not touched",
        )
        told = (
            f"it is {truth:.4f}, not {found:.4f}: with what probability is a class "
            "never drawn?"
        )
        need(abs(found - truth) < 2e-3, case + told)
    for build, query, exact in (
        (3.0, 1e-3, 4e-3),
        (3.0, 4e-3, 1e-3),
        (3.0, 1e-3, 1e-3),
    ):
        found = number(ask(break_even, build, query, exact))
        case = (
            f"build {build:g} s, query {query * 1e3:g} ms, exact {exact * 1e3:g} ms: "
        )
        if exact <= query:
            need(found == np.inf, case + "never; return np.inf")
            continue
        need(not same(found, build / exact), case + "the index is also queried")
        truth = build / (exact - query)
        need(same(found, truth), case + f"after {truth:.0f} queries, not {found:.0f}")
    return (
        "100 sqrt(C) labels touch 63 % of 10,000 classes; in training an index serves "
        "one batch"
    )


@exercise
def check_kept(kept):
    """``kept(L, s)``: what is left of a batch after `s` more, each of length L, and
    projections."""
    for L, s in ((2.0, 1), (2.0, 3), (0.5, 2), (30.0, 0)):
        found, truth = number(ask(kept, L, s)), (1 + L**2) ** (-s / 2)
        case = f"L = {L:g}, s = {s}: "
        need(
            s == 0 or not same(found, (1 + L) ** -s),
            case + "at a right angle: Pythagoras",
        )
        need(
            s < 2 or not same(found, (1 + L**2) ** -0.5),
            case + "once for every later batch",
        )
        hint = (
            f"it is {truth:.4g}, not {found:.4g}: how long is W + B, and what divides "
            "it?"
        )
        need(same(found, truth), case + hint)
    return "with L = 30, a batch is at 1/30 after the next one, at 1/900 after two"


@exercise
def check_shares(shares):
    """``shares(eta, lam)``: the weights with which the batches 1 .. T enter W^T."""
    eta, lam = 0.1 / (1 + 0.02 * np.arange(1, 9)), 3.0
    truth = eta * np.append(np.cumprod((1 - lam * eta)[:0:-1])[::-1], 1.0)
    found = array(ask(shares, eta.copy(), lam), (8,), "the result")
    need(
        not same(found, eta), "what was added early has been shrunk by every later step"
    )
    own = truth * (1 - lam * eta)
    need(
        not same(found, own),
        "a step first shrinks W and then adds: its own batch is not shrunk",
    )
    need(not same(found, truth[::-1]), "the other way round: the first batch first")
    need(same(found[-1], eta[-1]), f"the last batch enters with eta_T = {eta[-1]:.4f}")
    need(
        same(found, truth),
        "batch t enters with eta_t times all later factors 1 - lam eta_s",
    )
    return (
        "shrinking forgets, and the steps get shorter: the two work against each other"
    )


@exercise
def check_rescaled(rescaled):
    """``rescaled(eta0, eta_step, m)``: the same total step with `m` times as many
    batches."""
    for given, slower, m in ((0.1, 0.02, 10.0), (0.6, 0.3, 4.0)):
        found = ask(rescaled, given, slower, m)
        several(found, 2, "return two things: eta0, eta_step")
        eta0, eta_step = number(found[0]), number(found[1])
        need(
            not same(eta0, given),
            "each step divides by its batch: smaller ones weigh rows more",
        )
        need(
            not same(eta0, given * m),
            "the other way: every row would get m times more weight again",
        )
        told = f"eta0 = {given / m:g} gives a row the weight it had, not {eta0:g}"
        need(same(eta0, given / m), told)
        hint = "step m t should equal the old step t: t runs m times as far"
        need(not same(eta_step, slower), hint)
        told = (
            f"eta_step = {slower / m:g} makes step m t equal to the old step t, not "
            f"{eta_step:g}"
        )
        need(same(eta_step, slower / m), told)
    return "as much step and as much shrinking, in smaller portions"


@exercise
def check_bias(offsets_after):
    """``offsets_after(o, y, eta)``: the weights of a constant 1 after a frozen
    batch."""
    rng = cases()
    for C, rows, eta in ((4, 30, 0.1), (6, 200, 0.5), (9, 50, 0.05)):
        o, y = rng.normal(size=C), rng.integers(C, size=rows)
        found = array(ask(offsets_after, o.copy(), y.copy(), eta), (C,), "the result")
        second, first = np.argsort(o)[-2:]
        gained, blind = np.bincount(y, minlength=C), rows * np.eye(C)[first]
        lost = np.bincount(np.where(y == first, second, first), minlength=C)
        case, step = f"for {C} classes and {rows} rows: ", eta / rows
        need(
            not same(found, o + eta * (gained - lost)),
            case + "divide the step by the batch",
        )
        need(
            not same(found, o - step * lost),
            case + "each row raises its own class, too",
        )
        hint = "a row whose own class has the largest offset gets the second one"
        need(not same(found, o + step * (gained - blind)), case + hint)
        need(
            not same(found, o + step * (lost - gained)),
            case + "answers are pushed down, not up",
        )
        hint = "each row adds eta / b to its own class and takes it from its answer"
        need(same(found, o + step * (gained - lost)), case + hint)
    return "the class that answered falls far below all others, and never answers again"


@exercise
def check_averaged(averaged):
    """``averaged(X, y, K, etas)``: the mean of the weights after each row, taken in
    order."""
    rng = cases()
    for scale in (1, 0.3, 3):
        X, y, etas = (
            rng.normal(size=(40, 3)),
            rng.integers(4, size=40),
            1 / np.arange(1, 41) ** 0.5,
        )
        X *= scale
        Ws, moved = _rows_in_turn(X, y, etas, lambda f, y, r: f[y] - f[r] < 1)
        found = array(
            ask(averaged, X.copy(), y.copy(), 4, etas.copy()), (3, 4), "the result"
        )
        need(
            not same(found, Ws[-1]),
            "those are the last weights; average them over the rows",
        )
        need(
            not same(found, Ws.sum(axis=0)),
            "that is their sum: divide by the number of rows",
        )
        hint = "count the weights after each row's step, not before it"
        need(not same(found, Ws[:-1].sum(axis=0) / 40), hint)
        hint = "a row that changes nothing counts as well: add W after every row"
        need(moved.all() or not same(found, Ws[moved].sum(axis=0) / 40), hint)
        for hint, rule in (
            ("a margin compares with r, too: x'(w_y - w_r)", lambda f, y, r: f[y] < 1),
            ("a margin from 0 to 1 is violated, too", lambda f, y, r: f[y] - f[r] < 0),
            ("a row that keeps its margin of 1 changes nothing", lambda f, y, r: True),
        ):
            slip = _rows_in_turn(X, y, etas, rule)[0].mean(axis=0)
            need(not same(found, slip) or same(slip, Ws.mean(axis=0)), hint)
        hint = (
            "r is the best class except y: what does a row whose margin is below 1 "
            "add to y and r?"
        )
        need(same(found, Ws.mean(axis=0)), hint)
    return "no shrinking, no projection, no batch"


@exercise
def check_two_means(predicted, y):
    """Predictions of which the paper's MaF1 is 0.2 or more above the usual macro-F1."""
    y = np.asarray(y)
    predicted = array(predicted, y.shape, "the prediction")
    classes = set(np.unique(y).tolist())
    need(
        set(np.unique(predicted).tolist()) <= classes,
        f"the classes are {sorted(classes)}",
    )
    paper, usual = two_means(predicted, y)
    told = f"MaF1 is {paper:.3f}, macro-F1 is {usual:.3f}"
    hint = (
        ". What makes a class's own F1 small, although one of its two numbers is large?"
    )
    need(paper >= usual + 0.2, told + hint)
    return told


def two_means(predicted: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the paper's MaF1 and the usual macro-F1, over the classes of labels or
    predictions."""
    classes = np.union1d(predicted, y)
    hits = np.array([np.sum((predicted == c) & (y == c)) for c in classes])
    said = np.array([np.sum(predicted == c) for c in classes])
    true = np.array([np.sum(y == c) for c in classes])
    P, R = np.mean(hits / np.maximum(said, 1)), np.mean(hits / np.maximum(true, 1))
    return _ratio(2 * P * R, P + R), float(np.mean(2 * hits / (said + true)))


def _rows_in_turn(X, y, etas, violates) -> tuple[np.ndarray, np.ndarray]:
    W, Ws, moved = np.zeros((X.shape[1], 4)), [], []
    for x, own, eta in zip(X, y, etas):
        f = x @ W
        r = np.argmax(np.where(np.arange(4) == own, -np.inf, f))
        moved.append(violates(f, own, r))
        W = W + moved[-1] * eta * np.outer(x, np.eye(4)[own] - np.eye(4)[r])
        Ws.append(W)
    return np.array(Ws), np.array(moved)


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b else 0.0
