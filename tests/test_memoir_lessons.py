"""The checks of the lessons on MEMOIR tell right from wrong."""

import numpy as np
import pytest

from checks import memoir as teach
from checks import memoir_search as teach_search
from workbench.core.measures import macro
from workbench.core.stream import rounds, until, watch
from workbench.data.panels import panel
from workbench.memoir.solvers import PRESETS, memoir_l2

# Right answers, and those that a student is likely to give.


def margin(W, X, y, sign=1, mask=True, best=np.argmax):
    F, rows = X @ W, np.arange(len(y))
    own = F[rows, y]
    if mask:
        F[rows, y] = -np.inf
    return sign * (own - F.max(axis=1)), best(F, axis=1)


def epsilon_at(off, delta):
    return np.sort(off)[::-1][int(delta * len(off) + 1e-9)]


def lead(W, x, y, r, t):
    return x @ (W[:, y] - W[:, r])


def step(W, x, y, r, lam, t, shrink=True, sign=1, margin=lead, project=True):
    new = (1 - 1 / t if shrink else 1) * W
    if margin(W, x, y, r, t) < 1:
        new[:, y] += sign * x / (lam * t)
        new[:, r] -= sign * x / (lam * t)
    return new / max(1, np.sqrt(lam) * np.linalg.norm(new)) if project else new


def step_with(**changes):
    return lambda *given: step(*given, **changes)


def in_place(W, *given):
    W[:] = step(W, *given)
    return W


def bound(lam, T, off, of=np.mean):
    return (np.sqrt(lam) + np.sqrt(2)) ** 2 * (1 + np.log(T)) / (2 * lam * T) + of(off)


def bound_with(of):
    return lambda *given: bound(*given, of=of)


def kept(L, s):
    return (1 + L**2) ** (-s / 2)


def shares(eta, lam):
    return eta * np.append(np.cumprod((1 - lam * eta)[:0:-1])[::-1], 1)


def rescaled(eta0, eta_step, m):
    return eta0 / m, eta_step / m


def averaged(X, y, K, etas, before=False, rho=1):
    W, total = np.zeros((X.shape[1], K)), np.zeros((X.shape[1], K))
    for x, own, eta in zip(X, y, etas):
        total += W * before
        f = x @ W
        others = f.copy()
        others[own] = -np.inf
        r = others.argmax()
        if f[own] - f[r] < rho:
            W[:, own] += eta * x
            W[:, r] -= eta * x
        total += W * (not before)
    return total / len(X)


def scan(lists, x, C, add=True, weighted=True):
    scores = np.zeros(C)
    for f, value in x.items():
        for c, weight in zip(*lists.get(f, ((), ()))):
            scores[c] = add * scores[c] + (value if weighted else 1) * weight
    return scores


def walk(links, scores, start):
    path = [start]
    while links[path[-1]]:
        best = max(links[path[-1]], key=lambda j: scores[j])
        if scores[best] <= scores[path[-1]]:
            break
        path.append(best)
    return path


def longest(links, scores, start):
    path = [start]
    for _ in range(9):
        path.append(max(links[path[-1]], key=lambda j: scores[j]))
    return path


def first_better(links, scores, start):
    path = [start]
    while better := [j for j in links[path[-1]] if scores[j] > scores[path[-1]]]:
        path.append(better[0])
    return path


def over_ties(links, scores, start):
    path = [start]
    while max(better := [scores[j] for j in links[path[-1]]]) >= scores[path[-1]]:
        path.append(links[path[-1]][np.argmax(better)])
    return path


def cosine(x, w, M):
    return x @ w / (M * np.linalg.norm(x))


def collision(x, w, M):
    return 1 - np.arccos(cosine(x, w, M)) / np.pi


def bits(p1, p2, z):
    return z**2 * (p1 * (1 - p1) + p2 * (1 - p2)) / (p1 - p2) ** 2


def touched(b, C):
    return 1 - (1 - 1 / C) ** b


def break_even(build, query, exact):
    return build / (exact - query) if query < exact else np.inf


ACCURACIES = {"exact": 0.5, "random": 0.1}
LABELS = np.repeat([0, 1, 2, 3], 25)
LOPSIDED = np.zeros(100, int)
LOPSIDED[[25, 50, 75]] = 1, 2, 3

CHECKS = [
    # Lesson 1
    ("check_margin", (margin,), "right"),
    ("check_margin", (lambda *a: margin(*a, mask=False),), "own class is among"),
    ("check_margin", (lambda *a: margin(*a, sign=-1),), "the sign is off"),
    ("check_margin", (lambda *a: margin(*a)[0],), "two things"),
    ("check_margin", (lambda W, X, y: (margin(W, X, y)[0] * np.nan, margin(W, X, y)[1]),), "m is"),
    ("check_margin", (lambda W, X, y: (margin(W, X, y)[0], (y + 1) % 5),), "r is not"),
    ("check_margin", (lambda W, X, y: (margin(W, X, y)[0] + 1, margin(W, X, y)[1]),), "m is the"),
    ("check_loss_range", (lambda h, eps, rho: (h, h + eps / rho),), "right"),
    ("check_loss_range", (lambda h, eps, rho: (h, h + eps),), "falls by 1/rho"),
    ("check_loss_range", (lambda h, eps, rho: (h - eps, h),), "and the hinge smaller"),
    ("check_loss_range", (lambda h, eps, rho: (h + eps, h + eps),), "may be the best one"),
    ("check_loss_range", (lambda h, eps, rho: (h, 1),), "the largest is"),
    ("check_epsilon_at", (epsilon_at,), "right"),
    ("check_epsilon_at", (lambda off, delta: off.mean(),), "of the rows are above"),
    ("check_epsilon_at", (lambda off, delta: off.max(),), "is more than one needs"),
    ("check_epsilon_at", (lambda off, delta: ...,), "not yet"),
    ("check_step_of_theorem_1", (-0.5, 0.0, 0.5), "right"),
    ("check_step_of_theorem_1", (0.5, 1.0, 0.5), "right"),
    ("check_step_of_theorem_1", (1.2, 1.3, 0.5), "Where is the wider hinge"),
    ("check_step_of_theorem_1", (-0.5, 0.5, 0.5), "more than eps"),
    ("check_step_of_theorem_1", (0.5, 0.0, 0.5), "never larger"),
    ("check_step_of_theorem_1", (0.5, 0.5, 0.0), "positive"),
    ("check_step_of_theorem_1", (..., ..., 0.5), "not yet"),
    ("check_random", ("in between", ACCURACIES, 150), "right: 10.0% beside 50.0%, and 0.7%"),
    ("check_random", ("chance", ACCURACIES, 150), "still raises the own class"),
    ("check_random", ("as good", {"exact": 0.5, "random": 0.5}, 150), "right"),
    ("check_random", ("chance", {"exact": 0.5, "random": 0.01}, 150), "right"),
    ("check_random", ("better", ACCURACIES, 150), 'answer "as good"'),
    ("check_step", (step,), "right"),
    ("check_step", (step_with(shrink=False),), "W shrinks"),
    ("check_step", (step_with(sign=-1),), "raise the own class"),
    ("check_step", (step_with(margin=lambda *a: 0),), "nothing is violated"),
    ("check_step", (step_with(margin=lambda *a: lead(*a) + 1),), "take from r"),
    ("check_step", (step_with(margin=lambda W, x, y, *a: x @ W[:, y]),), "compares with r"),
    ("check_step", (step_with(margin=lambda *a: (1 - 1 / a[-1]) * lead(*a)),), "before it shrinks"),
    ("check_step", (lambda W, x, y, r, *a: step(W, x, r, y, *a),), "try again"),
    ("check_step", (step_with(project=False),), "project"),
    ("check_step", (in_place,), "leave the array"),
    ("check_step", (lambda W, *a: W[0],), "shape"),
    ("check_bound", (bound,), "right"),
    ("check_bound", (bound_with(lambda off: 0),), "exact search"),
    ("check_bound", (bound_with(np.sum),), "divide by T"),
    ("check_bound", (bound_with(np.max),), "the mean of off will do"),
    ("check_bound", (bound_with(lambda off: 3 * off.mean()),), "it is"),
    # Lesson 2
    ("check_three_winners", ([1, 0], [[1, 0.4], [0.3, 0], [3, 3]]), "right"),
    ("check_three_winners", ([1, 0], [[1, 0], [0.3, 0.3], [2, 3]]), "Make one of them long"),
    ("check_three_winners", ([1, 0], [[1, 0], [0, 0], [2, 3]]), "no angle"),
    ("check_three_winners", ([1, 0], [[0.5, 0], [1, 0], [3, 3]]), "two are equal"),
    ("check_three_winners", ([1, 0], [[1, 0]]), "shape"),
    ("check_scan", (scan,), "right"),
    ("check_scan", (lambda *a: scan(*a, add=False),), "do not replace"),
    ("check_scan", (lambda *a: scan(*a, weighted=False),), "by the row's value"),
    ("check_scan", (lambda lists, x, C: np.zeros(C),), "the scores are"),
    ("check_scan", (lambda lists, x, C: scan(lists, x, 4),), "shape"),
    ("check_walk", (walk,), "right"),
    ("check_walk", (lambda *a: walk(*a)[1:],), "first place is the start"),
    ("check_walk", (longest,), "stop where"),
    ("check_walk", (first_better,), "best neighbour while it is better"),
    ("check_walk", (over_ties,), "stop where"),
    ("check_recall", ("few", 0.01), "right: 1.0%"),
    ("check_recall", ("most", 0.01), "By how many bits"),
    ("check_recall", ("half", 0.5), "right"),
    ("check_recall", ("none", 0.5), 'answer "most"'),
    ("check_collision", (collision,), "right"),
    ("check_collision", (lambda *a: 1 - np.cos(cosine(*a)) / np.pi,), "(9) as printed"),
    ("check_collision", (lambda x, w, M: collision(x, w, np.linalg.norm(w)),), "divides w by M"),
    ("check_collision", (lambda *a: 1 - collision(*a),), "how often they differ"),
    ("check_collision", (lambda *a: cosine(*a),), "1 - angle / pi"),
    ("check_bits", (bits,), "right"),
    ("check_bits", (lambda *a: np.sqrt(bits(*a)),), "square both sides"),
    ("check_bits", (lambda p1, p2, z: z * bits(p1, p2, 1),), "z is squared"),
    ("check_bits", (lambda p1, p2, z: 1 / (p1 - p2) ** 2,), "solve"),
    ("check_touched", (touched,), "right"),
    ("check_touched", (lambda b, C: min(1, b / C),), "labels repeat"),
    ("check_touched", (lambda b, C: b / C,), "labels repeat"),
    ("check_touched", (lambda b, C: 1 - touched(b, C),), "none of them is"),
    ("check_touched", (lambda b, C: 0.3,), "never drawn"),
    ("check_break_even", (break_even,), "right"),
    ("check_break_even", (lambda build, query, exact: build / exact,), "queried as well"),
    ("check_break_even", (lambda build, query, exact: build / query,), "after 1000 queries"),
    ("check_break_even", (lambda b, q, e: b / (e - q) if e != q else 0,), "never"),
    # Lesson 3
    ("check_hinge", ("the same", 0.41, 0.412), "right"),
    ("check_hinge", ("better", 0.41, 0.412), "violate their margin"),
    ("check_hinge", ("better", 0.41, 0.52), "right"),
    ("check_hinge", ("good", 0.41, 0.52), 'answer "better"'),
    ("check_kept", (kept,), "right"),
    ("check_kept", (lambda L, s: (1 + L) ** -s,), "Pythagoras"),
    ("check_kept", (lambda L, s: kept(L, min(s, 1)),), "every later batch"),
    ("check_kept", (lambda L, s: 0.9**s,), "how long is W + B"),
    ("check_shares", (shares,), "right"),
    ("check_shares", (lambda eta, lam: eta,), "shrunk by every later step"),
    ("check_shares", (lambda eta, lam: shares(eta, lam) * (1 - lam * eta),), "is not shrunk"),
    ("check_shares", (lambda eta, lam: shares(eta, lam)[::-1],), "the first batch first"),
    ("check_shares", (lambda eta, lam: shares(eta, lam) / 2,), "the last batch enters"),
    ("check_shares", (lambda eta, lam: shares(eta, lam / 2),), "all later factors"),
    ("check_shares", (lambda eta, lam: shares(eta, lam)[1:],), "shape"),
    ("check_rescaled", (rescaled,), "right"),
    ("check_rescaled", (lambda e, s, m: (e, s),), "smaller ones weigh rows more"),
    ("check_rescaled", (lambda e, s, m: (e * m, s / m),), "the other way"),
    ("check_rescaled", (lambda e, s, m: (e / np.sqrt(m), s),), "gives a row the weight"),
    ("check_rescaled", (lambda e, s, m: (e / m, s),), "t runs m times as far"),
    ("check_rescaled", (lambda e, s, m: (e / m, s * m),), "makes step m t"),
    ("check_rescaled", (lambda e, s, m: (0.1 / m, 0.02 / m),), "gives a row the weight"),
    ("check_bias", ("falls", 0.5, 0.4), "right"),
    ("check_bias", ("rises", 0.5, 0.4), "Who answers a frozen batch"),
    ("check_bias", ("stays", 0.5, 0.505), "right"),
    ("check_bias", ("sinks", 0.5, 0.4), 'answer "rises"'),
    ("check_averaged", (averaged,), "right"),
    ("check_averaged", (lambda *a: averaged(*a, before=True),), "after each row's step"),
    ("check_averaged", (lambda *a: averaged(*a) * 40,), "divide by the number"),
    ("check_averaged", (lambda X, y, K, e: averaged(X, y, K, 2 * e),), "best wrong class"),
    ("check_averaged", (lambda *a: averaged(*a, rho=0),), "margin below 1"),
    ("check_averaged", (lambda *a: averaged(*a, rho=np.inf),), "margin below 1"),
    ("check_two_means", (LOPSIDED, LABELS), "right: MaF1 is 0.417, macro-F1 is 0.160"),
    ("check_two_means", (LABELS, LABELS), "all precision and little recall"),
    ("check_two_means", (LABELS + 1, LABELS), "the classes are"),
    ("check_two_means", ([0, 1], LABELS), "shape"),
]


@pytest.mark.parametrize(("check", "answers", "told"), CHECKS)
def test_check(check, answers, told, capsys):
    room = teach if hasattr(teach, check) else teach_search
    getattr(room, check)(*answers)
    printed = capsys.readouterr().out
    assert told in printed
    assert printed.startswith(("right: ", "try again: ", "not yet: "))
    assert "raised" not in printed


def test_the_last_weights_are_not_their_average(capsys):
    def last(X, y, K, etas):
        n = len(X)
        return n * averaged(X, y, K, etas) - (n - 1) * averaged(X[:-1], y[:-1], K, etas[:-1])

    teach.check_averaged(last)
    assert "those are the last weights" in capsys.readouterr().out


# What the lessons say of the package.


@pytest.fixture(scope="module")
def texts():
    return panel("text 400x20", test=0.5)


def states(texts, count, **parameters):
    for state in memoir_l2(texts, **parameters):
        yield state
        if state.round == count:
            return


def test_the_twelve_lines_of_lesson_3_are_the_preset(texts):
    # The package draws its own order: give it one by running a single pass of rows as they are.
    *_, state = states(texts, 1, **PRESETS["l2", "averaged"] | {"dense": True})
    order = state.order
    X, y = texts.X[order].toarray(), texts.y[order]
    etas = 1 / (1 + 1e-4 * np.arange(1, texts.n + 1)) ** 0.5
    np.testing.assert_allclose(state.model(), averaged(X, y, texts.k, etas), atol=2e-5)


def test_batches_count_as_lesson_3_derives(texts):
    # Random answers, to all rows: what a batch adds does not depend on W.
    blind = PRESETS["l2", "reference"] | {"hinge": False, "mips": "random", "project": False}
    blind |= {"batch_size": 100, "empty": False, "predict_metric": "dot"}
    Ws = [state.model().copy() for state in states(texts, 8, **blind | {"lam": 0.0})]
    eta = 0.1 / (1 + 0.02 * np.arange(1, 9))
    batches = np.diff(Ws, axis=0) / eta[:, None, None]
    *_, state = states(texts, 8, **blind | {"lam": 3.0})
    expected = np.tensordot(shares(eta, 3.0), batches, axes=1)
    np.testing.assert_allclose(state.model(), expected, atol=1e-6)
    assert np.abs(expected).max() > 1e-4


def test_a_frozen_batch_that_is_not_divided_fills_the_ball(texts):
    frozen = PRESETS["l2", "paper"] | {"in_batch": "frozen", "batch_size": 400}
    *_, state = states(texts, 4, **frozen)
    assert state.info()["norm"] == pytest.approx(1.0)
    *_, state = states(texts, 4, **frozen | {"div_by_batch": True})
    assert state.info()["norm"] < 0.5


def test_the_papers_mean_of_lesson_3_is_the_judges(texts):
    for row, state in until(watch(memoir_l2(texts), macro(texts)), rounds(3)):
        predicted = state.scores(texts.X_test).argmax(axis=1)
        paper, usual = teach.two_means(predicted, texts.y_test)
        assert (row["maf1"], row["macro_f1"]) == pytest.approx((paper, usual))
