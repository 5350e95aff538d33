"""The checks of the lessons memoir_1 and memoir_3; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.certified import check_certified as check_certified
from checks.exercise import CLOSE, array, ask, exercise, need, number, pick, same, several

# Lesson 1: margins that are nearly right


@exercise
def check_margin(margin):
    """``margin(W, X, y) -> m, r``: the exact margins, and the strongest wrong classes."""
    rng = np.random.default_rng(0)
    W, X, y = rng.normal(size=(4, 5)), rng.normal(size=(30, 4)), np.arange(30) % 5
    found, F, at = ask(margin, W.copy(), X, y), X @ W, np.arange(30)
    several(found, 2, "return two things: m and r")
    m, r = array(found[0], (30,), "m"), array(found[1], (30,), "r")
    own = F[at, y]
    need(not np.any(r == y), "a row's own class is among the answers: look at the others only")
    F[at, y] = -np.inf
    need(np.array_equal(r, F.argmax(axis=1)), "r is not the wrong class with the largest score")
    need(not same(m, F.max(axis=1) - own), "the sign is off: a margin is large where all is well")
    need(same(m, own - F.max(axis=1)), "m is the score of the own class minus that of r")
    return "C scores a row, of which two are used"


@exercise
def check_loss_range(loss_range):
    """``loss_range(h, eps, rho)``: smallest and largest exact hinge for an inexact hinge `h`."""
    for h, eps, rho in ((0.7, 0.2, 1.0), (0.3, 0.1, 0.5), (0.0, 0.2, 1.0)):
        found = ask(loss_range, h, eps, rho)
        several(found, 2, "return two things: least, largest")
        least, largest = number(found[0]), number(found[1])
        case = f"for a hinge of {h}, eps = {eps}, rho = {rho}: "
        hint = "an answer that is not the best makes the margin larger, and the hinge smaller"
        need(not least < h - CLOSE, case + hint)
        need(same(least, h), case + "the answer may be the best one; what is the hinge then?")
        need(rho == 1 or not same(largest, h + eps), case + "the hinge falls by 1/rho, not by 1")
        told = f"the largest is {h + eps / rho:.2f}, not {largest:.2f}"
        need(same(largest, h + eps / rho), case + told)
    return "never less than it seems, and at most eps / rho more"


@exercise
def check_epsilon_at(epsilon_at):
    """``epsilon_at(off, delta)``: the least eps that at most a share `delta` of `off` exceeds."""
    off = np.array([0.5, 0.0, 0.1, 0.0, 0.3, 0.0, 0.2, 0.0, 0.4, 0.0])
    for delta, truth in ((0.0, 0.5), (0.1, 0.4), (0.25, 0.3), (0.5, 0.0), (0.95, 0.0)):
        found = number(ask(epsilon_at, off.copy(), delta))
        above = np.mean(off > found + CLOSE)
        case = f"delta = {delta}: "
        told = f"{above:.0%} of the rows are above {found:.3g}"
        need(above <= delta + CLOSE, case + told)
        hint = f"{truth} would do; {found:.3g} is more than one needs"
        need(found <= truth + CLOSE, case + hint)
        need(same(found, truth), case + f"an inexactness is never below 0, got {found:.3g}")
    return "one search has many pairs: a curve"


@exercise
def check_step_of_theorem_1(exact, inexact, eps):
    """Two margins, at most `eps` apart, of which the proof of Theorem 1 says what is not so."""
    exact, inexact, eps = number(exact), number(inexact), number(eps)
    need(eps > 0, "eps must be positive")
    need(exact <= inexact, "an exact margin is never larger than the inexact one")
    need(inexact - exact <= eps + CLOSE, f"they are more than eps = {eps} apart")
    left, right = max(0.0, 1 - exact), max(0.0, 1 - inexact / (1 + eps))
    told = f"the loss with rho = 1 is {left:.3f}, the one with rho = 1 + eps is {right:.3f}"
    need(left > right + CLOSE, told + ". For which m is 1 - m above 1 - m / (1 + eps)?")
    return told + "; with the factor 1 + eps before it, " + f"{(1 + eps) * right:.3f}"


@exercise
def check_random(expected):
    """``expected(X, y, C)``: what a batch adds to W on average, if its answers are random."""
    rng = np.random.default_rng(0)
    for C in (3, 5, 8):
        X, y = rng.normal(size=(30, 4)), rng.integers(C, size=30)
        own, case = np.eye(C)[y], f"for C = {C}: "
        found = array(ask(expected, X.copy(), y.copy(), C), (4, C), "the result")
        truth = X.T @ (own - (1 - own) / (C - 1))
        need(not same(found, -truth), case + "the sign: a step raises w_y and lowers the answer")
        need(not same(found, X.T @ own), case + "that is what w_y gains; what do the answers lose?")
        hint = "a row is never given its own class: there are C - 1 others"
        need(not same(found, X.T @ (own - 1 / C)), case + hint)
        hint = "each wrong class is the answer with probability 1 / (C - 1) only"
        need(not same(found, X.T @ (2 * own - 1)), case + hint)
        need(not same(found, truth / 30), case + "the batch is not divided by its size here")
        need(same(found, truth), case + "column c: its own rows, less a share of all others")
    return "w_y is raised by the right rows, and a little of all others is taken off it"


@exercise
def check_step(step):
    """``step(W, x, y, r, lam, t)``: the weights after step t of Pegasos with the answer `r`."""
    rng, lam = np.random.default_rng(0), 0.1
    cases = [(1, 0.0, 1), (9, 0.1, 1), (9, 9.0, 0.1), (9, -9.0, 1), (9, 0.1, 9)]
    for t, scale, length in [*cases, (9, 1.5, 1), (9, 1.05, 1)]:
        W, x = 0.3 * length * rng.normal(size=(3, 4)), rng.normal(size=3)
        x /= np.linalg.norm(x)
        W[:, 0], W[:, 2] = -0.9 * x, (scale - 0.9) * x
        given, push = W.copy(), np.outer(x, np.eye(4)[2] - np.eye(4)[0]) / (lam * t)
        found = array(ask(step, given, x, 2, 0, lam, t), W.shape, "the result")
        need(same(given, W), "leave the array that you are given as it is")
        shrunk, violated = (1 - 1 / t) * W, scale < 1
        free = shrunk + violated * push
        truth = _in_ball(free, lam)
        late, alone = scale * (1 - 1 / t) < 1, x @ W[:, 2] < 1
        slips = {
            "the margin is that of W before it shrinks": _in_ball(shrunk + late * push, lam),
            "a margin compares with r, too": _in_ball(shrunk + alone * push, lam),
            "then project onto the ball": free,
            "nothing is violated": _in_ball(shrunk + push, lam),
            "W shrinks, too: by lam times 1 / (lam t)": _in_ball(W + violated * push, lam),
            "raise the own class, lower r": _in_ball(shrunk - violated * push, lam),
            "a margin from 0 to 1 is violated, too": _in_ball(shrunk + (scale < 0) * push, lam),
            "x goes in with the step, 1 / (lam t)": _in_ball(shrunk + violated * lam * push, lam),
            "shorten W only if it is too long": free / (np.sqrt(lam) * np.linalg.norm(free) or 1),
        }
        case = f"t = {t}, margin {scale:g}: "
        for hint, slip in slips.items():
            need(same(found, truth) or not same(found, slip), case + hint)
        off = np.flatnonzero(np.abs(found - truth).max(axis=0) > CLOSE).tolist()
        hint = f"columns {off} are off (y = 2, r = 0). Is each of the three parts of a step there?"
        need(same(found, truth), case + hint)
    return "two columns, whatever the number of classes"


@exercise
def check_bound(bound):
    """``bound(lam, T, off)``: how far above the optimum, given the inexactness of each step."""
    for lam, T, off in ((0.1, 100, np.linspace(0, 0.3, 100)), (0.01, 50, np.linspace(0, 1, 50))):
        exact = (np.sqrt(lam) + np.sqrt(2)) ** 2 * (1 + np.log(T)) / (2 * lam * T)
        found, truth = number(ask(bound, lam, T, off.copy())), exact + off.mean()
        case = f"for lam = {lam}, T = {T}: "
        need(not same(found, exact), case + "that is the bound of an exact search")
        hint = "the eps of all steps are added up; divide by T as the rest was"
        need(not same(found, exact + off.sum()), case + hint)
        need(not same(found, exact + off.max()), case + "true, but the mean of off will do")
        told = f"it is {truth:.4g}, not {found:.4g}; with exact answers it is {exact:.4g}"
        need(same(found, truth), case + told)
    return "what a search costs is the mean of its inexactness, no more"


# Lesson 3: details matter


@exercise
def check_hinge(answer, largest_margins):
    """`answer`: what updating on every row does; ``largest_margins(R, C)``: for |W| up to R."""
    for R, C in ((1.0, 150), (2.0, 10), (0.3, 4000)):
        found = ask(largest_margins, R, C)
        several(found, 2, "return two margins")
        most, shared = map(number, found)
        case = f"for R = {R:g}, C = {C}: "
        need(not same(most, 2 * R), case + "w_y and w_r cannot both have the length R")
        need(not same(most, R), case + "two columns are at work: w_y along x, w_r against it")
        hint = "|w_y - w_r| is largest when w_r = -w_y, with |w_y|^2 + |w_r|^2 = R^2"
        need(same(most, 2**0.5 * R), case + hint)
        need(not same(shared, 2 * R / C), case + "the squares of C lengths sum to R^2")
        need(not same(shared, R / C**0.5), case + "that is one column; a margin has two")
        told = f"the second is {2 * R / C**0.5:.3g}, not {shared:.3g}"
        need(same(shared, 2 * R / C**0.5), case + told + ": how long is a column?")
    hint = "W is short here. How many rows violate their margin?"
    pick(answer, ("better", "worse", "the same"), "the same", hint)
    return "a margin of 1 is out of reach for 150 classes, so that every row violates"


@exercise
def check_kept(kept):
    """``kept(L, s)``: what is left of a batch after `s` more, each of length L, and projections."""
    for L, s in ((2.0, 1), (2.0, 3), (0.5, 2), (30.0, 0)):
        found, truth = number(ask(kept, L, s)), (1 + L**2) ** (-s / 2)
        case = f"L = {L:g}, s = {s}: "
        need(s == 0 or not same(found, (1 + L) ** -s), case + "at a right angle: Pythagoras")
        need(s < 2 or not same(found, (1 + L**2) ** -0.5), case + "once for every later batch")
        hint = f"it is {truth:.4g}, not {found:.4g}: how long is W + B, and what divides it?"
        need(same(found, truth), case + hint)
    return "with L = 30, a batch is at 1/30 after the next one, at 1/900 after two"


@exercise
def check_shares(shares):
    """``shares(eta, lam)``: the weights with which the batches 1 .. T enter W^T."""
    eta, lam = 0.1 / (1 + 0.02 * np.arange(1, 9)), 3.0
    truth = eta * np.append(np.cumprod((1 - lam * eta)[:0:-1])[::-1], 1.0)
    found = array(ask(shares, eta.copy(), lam), (8,), "the result")
    need(not same(found, eta), "what was added early has been shrunk by every later step")
    own = truth * (1 - lam * eta)
    need(not same(found, own), "a step shrinks W first and adds then: its own batch is not shrunk")
    need(not same(found, truth[::-1]), "the other way round: the first batch first")
    need(same(found[-1], eta[-1]), f"the last batch enters with eta_T = {eta[-1]:.4f}")
    need(same(found, truth), "batch t enters with eta_t times all later factors 1 - lam eta_s")
    return "shrinking forgets, and the steps get shorter: the two work against each other"


@exercise
def check_rescaled(rescaled):
    """``rescaled(eta0, eta_step, m)``: the same total step with `m` times as many batches."""
    for given, slower, m in ((0.1, 0.02, 10.0), (0.6, 0.3, 4.0)):
        found = ask(rescaled, given, slower, m)
        several(found, 2, "return two things: eta0, eta_step")
        eta0, eta_step = number(found[0]), number(found[1])
        need(not same(eta0, given), "each step divides by its batch: smaller ones weigh rows more")
        need(not same(eta0, given * m), "the other way: every row would weigh m times more still")
        told = f"eta0 = {given / m:g} gives a row the weight it had, not {eta0:g}"
        need(same(eta0, given / m), told)
        hint = "step m t should be what step t was: t runs m times as far"
        need(not same(eta_step, slower), hint)
        told = f"eta_step = {slower / m:g} makes step m t what step t was, not {eta_step:g}"
        need(same(eta_step, slower / m), told)
    return "as much step and as much shrinking, in smaller portions"


@exercise
def check_bias(offsets_after):
    """``offsets_after(o, y, eta)``: the weights of a constant 1 after a frozen batch."""
    rng = np.random.default_rng(0)
    for C, rows, eta in ((4, 30, 0.1), (6, 200, 0.5), (9, 50, 0.05)):
        o, y = rng.normal(size=C), rng.integers(C, size=rows)
        found = array(ask(offsets_after, o.copy(), y.copy(), eta), (C,), "the result")
        second, first = np.argsort(o)[-2:]
        gained, blind = np.bincount(y, minlength=C), rows * np.eye(C)[first]
        lost = np.bincount(np.where(y == first, second, first), minlength=C)
        case, step = f"for {C} classes and {rows} rows: ", eta / rows
        need(not same(found, o + eta * (gained - lost)), case + "divide the step by the batch")
        need(not same(found, o - step * lost), case + "each row raises its own class, too")
        hint = "whose own class has the largest offset is answered with the second"
        need(not same(found, o + step * (gained - blind)), case + hint)
        need(not same(found, o + step * (lost - gained)), case + "answers are pushed down, not up")
        hint = "each row adds eta / b to its own class and takes it from its answer"
        need(same(found, o + step * (gained - lost)), case + hint)
    return "the class that answered falls far below all others, and is out of the race"


@exercise
def check_averaged(averaged):
    """``averaged(X, y, K, etas)``: the mean of the weights after each row, taken in order."""
    rng = np.random.default_rng(0)
    for scale in (1, 0.3, 3):
        X, y, etas = rng.normal(size=(40, 3)), rng.integers(4, size=40), 1 / np.arange(1, 41) ** 0.5
        X *= scale
        Ws, moved = _rows_in_turn(X, y, etas, lambda f, y, r: f[y] - f[r] < 1)
        found = array(ask(averaged, X.copy(), y.copy(), 4, etas.copy()), (3, 4), "the result")
        need(not same(found, Ws[-1]), "those are the last weights; average them over the rows")
        need(not same(found, Ws.sum(axis=0)), "that is their sum: divide by the number of rows")
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
            "r is the best class except y: what does a row whose margin is below 1 add to y and r?"
        )
        need(same(found, Ws.mean(axis=0)), hint)
    return "no shrinking, no projection, no batch"


@exercise
def check_two_means(predicted, y):
    """Predictions of which the paper's MaF1 is 0.2 or more above the usual macro-F1."""
    y = np.asarray(y)
    predicted = array(predicted, y.shape, "the prediction")
    classes = set(np.unique(y).tolist())
    need(set(np.unique(predicted).tolist()) <= classes, f"the classes are {sorted(classes)}")
    paper, usual = two_means(predicted, y)
    told = f"MaF1 is {paper:.3f}, macro-F1 is {usual:.3f}"
    hint = ". What makes a class's own F1 small, although one of its two numbers is large?"
    need(paper >= usual + 0.2, told + hint)
    return told


def two_means(predicted: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the paper's MaF1 and the usual macro-F1, over the classes of labels or predictions."""
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


def _in_ball(W: np.ndarray, lam: float) -> np.ndarray:
    return W / max(1.0, np.sqrt(lam) * np.linalg.norm(W))


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b else 0.0
