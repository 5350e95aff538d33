"""The checks of the lessons on minimax risk classifiers tell right from wrong."""

import cvxpy as cp
import numpy as np
import pytest

from checks import mrc as teach
from checks import mrc_certificates as teach_certificates
from workbench.core.stream import below, seconds
from workbench.core.trace import Trace
from workbench.mrc.lp import all_subsets, mrc_lp
from workbench.mrc.risk import greedy_subset, minimax_risk, psi
from workbench.runs.run import run

# Right answers, and those that a student is likely to give.


def moments(X, y, k, lambda0):
    Y = np.eye(k)[y]
    tau = Y.T @ X / len(X)
    return tau, lambda0 * np.sqrt(Y.T @ X**2 / len(X) - tau**2)


def class_means(X, y, k, lambda0):
    tau, lam = moments(X, y, k, lambda0)
    return tau / tau[:, -1:], lam


def spread_inside(X, y, k, lambda0):
    tau, _ = moments(X, y, k, lambda0)
    return tau, lambda0 * np.array([X[y == c].std(axis=0) for c in range(k)])


def level(a, b):
    return max(a - 1, b - 1, (a + b - 1) / 2)


def subsets_of(sizes):
    def subset_constraints(V, phi):
        subsets = [C for C in all_subsets(V.shape[1]).astype(float) if C.sum() in sizes]
        return [(V @ C - 1) / C.sum() <= phi for C in subsets]

    return subset_constraints


def ascending(v):
    """Algorithm 2 as it is printed."""
    order, c = np.argsort(v), np.zeros(len(v), dtype=bool)
    value, c[order[0]] = v[order[0]] - 1, True
    for j, label in enumerate(order[1:], start=2):
        candidate = ((j - 1) * value + v[label]) / j
        if candidate >= value:
            value, c[label] = candidate, True
    return value, c


def most_violated(V, nu, eps1, n_max):
    violation = psi(V) + 1 - nu
    order = np.argsort(-violation)
    return order[violation[order] > eps1][:n_max]


def lower(p, X, tau, lam):
    return bayes(p) / max(1, ratio(p, X, tau, lam))


def bayes(p, *_):
    return 1 - p.max(axis=1).sum()


def ratio(p, X, tau, lam):
    return (np.abs(p.T @ X - tau) / lam).max()


def without(labels):
    """All constraints but those of one subset."""

    def subset_constraints(V, phi):
        subsets = [C for C in all_subsets(V.shape[1]) if C.tolist() != labels]
        return [(V @ C.astype(float) - 1) / C.sum() <= phi for C in subsets]

    return subset_constraints


SIMPLE = [
    ("check_moments", (moments,), "right"),
    ("check_moments", (class_means,), "class means"),
    ("check_moments", (spread_inside,), "inside each class"),
    ("check_moments", (lambda X, y, k, l: moments(X, y, k, 1.0),), "lam is off"),
    ("check_moments", (lambda X, y, k, l: moments(X, y, k, 0.3),), "lam is off"),
    ("check_moments", (lambda X, y, k, l: X,), "two arrays"),
    ("check_two_labels", (level,), "right"),
    ("check_two_labels", (lambda a, b: max(a, b) - 1,), "> 1"),
    ("check_two_labels", (lambda a, b: max(a, b),), "can be lower"),
    ("check_two_labels", (lambda a, b: (a + b - 1) / 2,), "more than 1 apart"),
    ("check_subset_constraints", (subsets_of({1, 2, 3}),), "right"),
    ("check_subset_constraints", (subsets_of({1, 2}),), "missing or too weak"),
    ("check_subset_constraints", (without([True, False, False]),), "is that subset there?"),
    ("check_subset_constraints", (without([True, False, True]),), "is that subset there?"),
    ("check_subset_constraints", (subsets_of({}),), "unbounded"),
    ("check_subset_constraints", (lambda V, phi: [V <= phi],), "too much is asked"),
    ("check_subset_constraints", (lambda V, phi: None,), "not yet"),
    ("check_greedy", (greedy_subset,), "right"),
    ("check_greedy", (ascending,), "the subset"),
    ("check_greedy", (lambda v: (greedy_subset(v)[0], v == v),), "does not attain it"),
    ("check_greedy", (lambda v: greedy_subset(v)[0],), "two things"),
    ("check_counterexample", ([0.0, 2.0], ascending), "right"),
    ("check_counterexample", ([1.0, 1.0], ascending), "the best there is"),
    ("check_counterexample", ([1.0], ascending), "2 to 12"),
    ("check_counterexample", ([0.0, 2.0], greedy_subset), "the best there is"),
    ("check_root", (0.4, [0, 2], [1.0, 0.2, 0.8, -0.5]), "right"),
    ("check_root", (0.0, [0, 2], [1.0, 0.2, 0.8, -0.5]), "raise t"),
    ("check_root", (0.9, [0], [1.0, 0.2, 0.8, -0.5]), "lower t"),
    ("check_root", (0.4, [0], [1.0, 0.2, 0.8, -0.5]), "exactly the labels"),
    ("check_root", (..., ..., [1.0, 0.2, 0.8, -0.5]), "not yet"),
    ("check_cut", (lambda t: (-(t**2), 2 * t), lambda t: t**2), "right"),
    ("check_cut", (lambda t: (0.0, 2 * t), lambda t: t**2), "misses u"),
    ("check_cut", (lambda t: (t**2 / 2, t / 2), lambda t: t**2), "crosses u"),
    ("check_most_violated", (most_violated,), "right"),
    ("check_most_violated", (lambda *a: most_violated(*a)[::-1],), "most violated first"),
    ("check_most_violated", (lambda *a: most_violated(*a)[:-1],), "these are not the"),
    ("check_most_violated", (lambda V, *a: np.arange(3),), "must exceed eps1"),
    ("check_most_violated", (lambda V, nu, e, m: most_violated(V, nu, e, 99),), "but n_max"),
    ("check_most_violated", (lambda V, nu, e, m: most_violated(V, 0, e, m),), "must exceed eps1"),
]


@pytest.mark.parametrize(("check", "answers", "told"), SIMPLE)
def test_check(check, answers, told, capsys):
    getattr(teach, check)(*answers)
    assert told in capsys.readouterr().out


@pytest.fixture(scope="module")
def problem(blobs):
    return blobs(n=60, d=2, k=3, seed=1)


@pytest.fixture(scope="module")
def risk(problem):
    return minimax_risk(problem, 0.1)


@pytest.fixture(scope="module")
def solved(problem):
    *_, state = mrc_lp(problem, lambda0=0.1)
    return state


@pytest.fixture
def told(capsys):
    """Return what a check printed."""

    def say(check, *answers):
        check(*answers)
        return capsys.readouterr().out

    return say


def test_checks_of_lesson_1(problem, risk, solved, told):
    observed = np.eye(3)[risk.y] / risk.n
    coin = np.full((risk.n, 3), 1 / (3 * risk.n))
    pair = {"observed": observed, "coin": coin}
    check = teach.check_members
    assert "right" in told(check, {"observed": True, "coin": False}, pair, risk)
    assert "coin: its worst" in told(check, {"observed": True, "coin": True}, pair, risk)
    assert "observed: its worst" in told(check, {"observed": False, "coin": False}, pair, risk)
    assert "observed: answer True" in told(check, {"observed": "yes", "coin": False}, pair, risk)
    assert "not yet" in told(check, {"observed": True, "coin": ...}, pair, risk)

    assert "right" in told(teach.check_large_lambda, 2 / 3, problem)
    assert "try again" in told(teach.check_large_lambda, 1.0, problem)
    assert "try again" in told(teach.check_large_lambda, 1 / 3, problem)
    assert "try again" in told(teach.check_large_lambda, float("nan"), problem)

    wrong = 1 - np.eye(3)[np.argmax(risk.X @ solved.M.T, axis=1)]
    p = cp.Variable((risk.n, 3), nonneg=True)
    in_U = [cp.sum(p) == 1, cp.abs(p.T @ risk.X - risk.tau) <= risk.lam]
    cp.Problem(cp.Maximize(cp.sum(cp.multiply(wrong, p))), in_U).solve()
    check = teach.check_argmax_broken
    assert "right" in told(check, p.value, solved.M, risk)
    assert "not more than R*" in told(check, observed, solved.M, risk)
    assert "outside U" in told(check, coin, solved.M, risk)
    assert "sums to 2" in told(check, 2 * observed, solved.M, risk)
    assert "shape" in told(check, observed[:5], solved.M, risk)
    assert "not yet" in told(check, ..., solved.M, risk)


def test_checks_of_lesson_2(problem, risk, told):
    check = teach.check_unbounded
    assert "right: HiGHS ends without" in told(check, [0], [[True, False, False]], risk)
    everything = np.repeat(np.arange(risk.n), 7), np.tile(all_subsets(3), (risk.n, 1))
    assert "is bounded, R = " in told(check, *everything, risk)
    assert "no empty subset" in told(check, [0], [[False, False, False]], risk)

    rows, _ = run("mrc_ccg", problem, parameters={"columns": False, "n_max": 3, "eps1": 1e-6})
    both, _ = run("mrc_ccg", problem, parameters={"columns": True, "m_max": 1, "eps1": 1e-6})
    assert "right" in told(teach.check_path, "rises", rows)
    assert "right" in told(teach.check_path, "both", both)
    assert "a new row shrinks" in told(teach.check_path, "rises", both)
    assert 'answer "rises"' in told(teach.check_path, "up", rows)


def test_checks_of_lesson_3(problem, risk, solved, told):
    teach = teach_certificates
    assert "right" in told(teach.check_upper, lambda R, eps1: R + eps1, problem)
    for wrong in (lambda R, eps1: R, lambda R, eps1: R - eps1, lambda R, eps1: R + eps1 / 2):
        assert "How far must nu" in told(teach.check_upper, wrong, problem)

    assert "right" in told(teach.check_lower, lower, risk)
    assert "that is BR(p)" in told(teach.check_lower, bayes, risk)
    never_below_1 = told(teach.check_lower, lambda p, *a: bayes(p) / ratio(p, *a), risk)
    assert "rho is at least 1" in never_below_1
    slips = {
        "too high only": lambda p, X, tau, lam: ((p.T @ X - tau) / lam).max(),
        "too low only": lambda p, X, tau, lam: ((tau - p.T @ X) / lam).max(),
        "no ones": lambda p, X, tau, lam: ratio(p, X[:, :-1], tau[:, :-1], lam[:, :-1]),
        "the mean": lambda p, X, tau, lam: (np.abs(p.T @ X - tau) / lam).mean(),
        "in no unit": lambda p, X, tau, lam: np.abs(p.T @ X - tau).max(),
    }
    for slip in slips.values():
        answer = told(teach.check_lower, lambda p, *a, s=slip: bayes(p) / max(1, s(p, *a)), risk)
        assert answer.startswith("try again") and "raised" not in answer

    coin = np.full((risk.n, 3), 1 / (3 * risk.n))
    observed = np.eye(3)[risk.y] / risk.n
    assert "right" in told(teach.check_not_a_bound, coin, risk, solved.R)
    assert "more evenly" in told(teach.check_not_a_bound, observed, risk, solved.R)
    assert "sums to 3" in told(teach.check_not_a_bound, 3 * coin, risk, solved.R)

    parameters = {"columns": False, "eps1": 0.5}
    paper, _ = run("mrc_ccg", problem, below("gap", 1e-3), seconds(60), parameters=parameters)
    assert "right" in told(teach.check_ending, "finished", paper)
    assert "compare eps1 with the gap" in told(teach.check_ending, "gap <= 0.001", paper)
    assert "answer one of" in told(teach.check_ending, "done", paper)

    rows = [(0, 0.1, 0.5, 0.0), (1, 0.4, 0.0, 0.3), (2, 0.3, 0.0, 0.0)]
    names = ("round", "R", "eps1_hat", "eps2_hat")
    partial = Trace({}, [dict(zip(names, row)) for row in rows])
    check = teach.check_false_certificate
    assert "right" in told(check, 1, partial, 0.3)
    assert "rows are still violated" in told(check, 0, partial, 0.3)
    assert "tells the truth" in told(check, 2, partial, 0.3)
    assert "give a round from 0 to 2" in told(check, 3, partial, 0.3)

    for eps1, answer, other in ((0.9, "c", "a"), (0.1, "b", "c"), (0.0, "a", "b")):
        settled = Trace({}, [{"R": 0.1, "eps1_hat": 9.0}, {"R": 0.3, "eps1_hat": eps1}])
        assert "right" in told(teach.check_converged, answer, settled)
        assert "who watches" in told(teach.check_converged, other, settled)
    assert 'answer "a"' in told(teach.check_converged, "d", settled)
