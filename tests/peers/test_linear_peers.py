"""Linear peers: the fits are scikit-learn's own, one fit is timed."""

import time
from functools import partial
from itertools import islice

import cvxpy as cp
import numpy as np
from helpers import each, oracles
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from workbench import SOLVERS, as_problem
from workbench.core.stream import watch
from workbench.peers import linear

logistic = partial(LogisticRegression, fit_intercept=False)
svc = partial(LinearSVC, fit_intercept=False)
# How scikit-learn makes the same fit; C, tol, seed and iterations are added.
BY_TOLERANCE = {
    "liblinear_cs": partial(svc, multi_class="crammer_singer"),
    "liblinear_ovr": partial(svc, loss="hinge"),
}
PEERS = {
    "liblinear_lr": lambda **given: OneVsRestClassifier(
        logistic(solver="liblinear", **given)
    ),
    "liblinear_l2_dual": partial(svc, dual=True),
    "liblinear_l2_primal": partial(svc, dual=False),
    "liblinear_l1": partial(svc, penalty="l1", dual=False),
    "logistic_lbfgs": logistic,
    "logistic_saga": partial(logistic, solver="saga"),
}
SEEDED = {*BY_TOLERANCE, "liblinear_l2_dual", "liblinear_l1", "logistic_saga"}
each_k = each("k", [2, 4])
STREAMS = {name: SOLVERS[name].steps for name in [*BY_TOLERANCE, *PEERS, "ridge"]}


LOSSES = {
    "liblinear_cs": oracles.crammer_singer,
    "liblinear_ovr": lambda V, Y: cp.sum(cp.pos(1 - cp.multiply(2 * Y - 1, V)), axis=1),
    "liblinear_lr": oracles.logistic,
    **dict.fromkeys(("logistic_lbfgs", "logistic_saga"), oracles.LINKS["softmax"]),
    "ridge": oracles.LINKS["identity"],
}


def definition(name, problem, W, weight):
    """The objective as the docstring prints it."""
    loss = LOSSES.get(name, oracles.LINKS["squared_hinge"])
    squares = (W.astype(float) ** 2).sum()
    losses = loss(problem.X.astype(float) @ W, np.eye(problem.k)[problem.y]).value
    if name == "ridge":
        return losses.mean() + weight / 2 * squares
    return (
        abs(W).sum() if name == "liblinear_l1" else squares / 2
    ) + weight * losses.sum()


def fitted(name, problem, **settings):
    """scikit-learn's own model, and its weights (k, d), or (1, d) of two classes."""
    with linear.quiet():
        model = (BY_TOLERANCE | PEERS)[name](**settings).fit(problem.X, problem.y)
    parts = getattr(model, "estimators_", [model])
    return model, np.concatenate([binary.coef_ for binary in parts])


@each_k
@each("name", [*BY_TOLERANCE, *PEERS])
def test_a_round_is_one_fit_of_scikit_learn_to_the_last_bit(name, k, blobs):
    least = 2e-3 if name in BY_TOLERANCE else 1e-5
    seed = {"seed": 7} if name in SEEDED else {}
    for problem in (
        blobs(80, 5, k),
        blobs(80, 5, k, sparse=True),
        blobs(80, 5, k, dtype="f4"),
    ):
        for s in islice(STREAMS[name](problem, C=0.3, tol=least, **seed), 1, 9):
            limits = {"tol": least, "max_iter": linear.budget(s.round)}
            if name in BY_TOLERANCE:
                tol = max(10.0 * 10.0 ** (0.5 - s.round / 2), least)
                limits = {"tol": tol, "max_iter": 10**5}
            model, W = fitted(
                name, problem, C=0.3, random_state=7 if seed else 0, **limits
            )
            own = (
                np.diff(s.W) if k == 2 and name == "liblinear_cs" else s.W[:, k == 2 :]
            )
            assert_array_equal(own.T, W)
            assert s.W.dtype == W.dtype
            predicted = np.argmax(s.scores(problem.X), axis=1)
            assert_array_equal(predicted, model.predict(problem.X))
        assert s.round == 8 or name not in BY_TOLERANCE
    assert s.W.dtype == (np.float64 if name.startswith("liblinear") else np.float32)


@each_k
def test_ridge_is_the_normal_equations(k, blobs):
    problem = blobs(50, 6, k)
    alpha = 0.02
    X = problem.X
    Y = np.eye(k)[problem.y]
    for made in (X, csr_matrix(X), X.astype("f4")):
        *_, last = STREAMS["ridge"](as_problem(made, problem.y), alpha=alpha)
        exact = np.linalg.solve(X.T @ X / 50 + alpha * np.eye(6), X.T @ Y / 50)
        assert_allclose(last.W, exact, atol=1e-6)
        assert last.W.dtype == made.dtype
        assert last.round == last.info()["iterations"] == 1


@each_k
@each("name", STREAMS)
def test_the_objective_is_that_of_the_definition(name, k, blobs, monkeypatch):
    monkeypatch.setattr(linear, "BLOCK_SCORES", 70)  # several blocks of rows
    problem = blobs(50, 3, k)
    weight = "alpha" if name == "ridge" else "C"
    for s in islice(STREAMS[name](problem, **{weight: 0.7}), 5):
        expected = definition(name, problem, s.W, 0.7)
        assert s.info()["primal"] == approx(expected, rel=1e-12)


ROUTES = {  # another fit with the same optimum
    "liblinear_l2_dual": "liblinear_l2_primal",
    "liblinear_l2_primal": "liblinear_l2_dual",
    "logistic_lbfgs": "logistic_saga",
    "logistic_saga": "logistic_lbfgs",
}


@each("name", PEERS)
def test_budgets_grow_and_the_last_suffices(name, blobs):
    problem = blobs(k=4)
    rows = [row for row, _ in watch(STREAMS[name](problem, C=0.3))]
    assert all(row["iterations"] == linear.budget(row["round"]) for row in rows[1:-1])
    assert rows[-1]["iterations"] < linear.budget(rows[-1]["round"])
    # scikit-learn's best, by another route if there is one.
    _, W = fitted(ROUTES.get(name, name), problem, C=0.3, tol=1e-9, max_iter=10**5)
    best = definition(name, problem, W.T, 0.3)
    assert rows[-1]["primal"] == approx(best, rel=1e-7)
    assert best < 0.8 * rows[0]["primal"]
    assert [linear.budget(r) for r in range(10)] == [0, 1, 2, 3, 4, 6, 8, 11, 16, 23]


@each("name", [*PEERS, *BY_TOLERANCE])
def test_the_stream_ends_with_its_budget_or_at_its_tolerance(name, blobs, monkeypatch):
    if name in BY_TOLERANCE:
        *_, s = STREAMS[name](blobs(k=4), tol=3.0)
        assert s.round == 3  # 10, 3.16, 3
        assert [
            again.round for again in STREAMS[name](blobs(k=4), tol=3.0, state=s)
        ] == [3]
    if name == "liblinear_cs":
        return
    monkeypatch.setattr(linear, "ITERATIONS", 3)
    monkeypatch.setattr(linear, "LIBLINEAR_LIMIT", 20)
    *_, s = STREAMS[name](blobs(), tol=1e-12)
    assert s.iterations == (20 if name == "liblinear_ovr" else 3)
    assert len(list(STREAMS[name](blobs(), tol=1e-12, state=s))) == 1


KINDS = {
    "liblinear_lr": LogisticRegression,
    "liblinear_l1": LinearSVC,
    "liblinear_cs": LinearSVC,
}


@each("name", KINDS)
def test_the_clock_shows_the_longest_fit_alone(name, blobs, clock, monkeypatch):
    fit, pauses = KINDS[name].fit, iter([0.125, 0.25, 0.1875, 0.375])  # exact in binary

    def slow(self, X, y):
        time.sleep(next(pauses))
        return fit(self, X, y)

    problem = blobs(k=2)  # one fit for LIBLINEAR's logistic regression, too
    list(islice(STREAMS[name](problem), 3))
    monkeypatch.setattr(KINDS[name], "fit", slow)
    rows = list(islice(watch(STREAMS[name](problem)), 4))
    s = rows[-1][1]
    more = islice(
        watch(STREAMS[name](problem, state=s), seconds=rows[-1][0]["seconds"]), 2
    )
    seconds = [row["seconds"] for row, _ in (*rows, *more)]
    assert_allclose(seconds, [0.0, 0.125, 0.25, 0.25, 0.25, 0.375], atol=1e-12)
