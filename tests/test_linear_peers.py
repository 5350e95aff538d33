"""Linear peers without certificates: their fits, their objectives, and whose time is counted."""

import sys
import time
import warnings
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from workbench.core.problem import as_problem
from workbench.core.stream import watch
from workbench.core.trace import load_state, save_state
from workbench.peers import refits
from workbench.peers.vowpal_wabbit import vw
from workbench.registry import SOLVERS

L2 = {"loss": "squared_hinge", "fit_intercept": False}
# What scikit-learn is told, once, for the same fit; C, tol, seed and iterations come with it.
PEERS = {
    "liblinear_lr": lambda **settings: OneVsRestClassifier(
        LogisticRegression(solver="liblinear", fit_intercept=False, **settings)
    ),
    "liblinear_l2_dual": lambda **settings: LinearSVC(dual=True, **L2, **settings),
    "liblinear_l2_primal": lambda **settings: LinearSVC(dual=False, **L2, **settings),
    "liblinear_l1": lambda **settings: LinearSVC(penalty="l1", dual=False, **L2, **settings),
    "logistic_lbfgs": lambda **settings: LogisticRegression(fit_intercept=False, **settings),
    "logistic_saga": lambda **settings: LogisticRegression(
        solver="saga", fit_intercept=False, **settings
    ),
}
SEEDED = {"liblinear_l2_dual", "liblinear_l1", "logistic_saga"}
MONOTONE = {"liblinear_lr", "liblinear_l2_primal", "liblinear_l1", "logistic_lbfgs"}
each = pytest.mark.parametrize("name", PEERS)
each_and_ridge = pytest.mark.parametrize("name", [*PEERS, "ridge"])
with_vw = [*PEERS, "ridge"] + ["vw"] * bool(find_spec("vowpalwabbit"))
STREAMS = {name: SOLVERS[name].steps for name in [*PEERS, "ridge", "vw"]}


def definition(name, X, y, k, W, weight):
    """The objective as the docstring prints it, row by row."""
    losses, squares = 0.0, (W.astype(float) ** 2).sum() / 2
    for x, own in zip(X.astype(float), y):
        v, one_hot = x @ W, np.arange(k) == own
        z = np.where(one_hot, v, -v)
        if name in ("liblinear_lr", "vw"):
            losses += np.log1p(np.exp(-z)).sum()
        elif name.startswith("liblinear"):
            losses += (np.maximum(0.0, 1.0 - z) ** 2).sum()
        elif name.startswith("logistic"):
            losses += np.log(np.exp(v).sum()) - v[own]
        else:
            losses += ((v - one_hot) ** 2).sum() / 2
    if name in ("ridge", "vw"):
        return losses / len(y) + weight * squares
    return (np.abs(W).sum() if name == "liblinear_l1" else squares) + weight * losses


def theirs(name, problem, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PEERS[name](**settings).fit(problem.X, problem.y)


def weights_of(model):
    if hasattr(model, "estimators_"):
        return np.concatenate([binary.coef_ for binary in model.estimators_])
    return model.coef_


def rows_of(steps):
    """Return the rows of a stream without its clock, and its weights as bytes."""
    return [
        ({key: row[key] for key in row.keys() - {"seconds", "cpu"}}, s.W.tobytes())
        for row, s in watch(steps)
    ]


def test_budgets_grow_by_about_the_root_of_two():
    assert [refits.budget(r) for r in range(12)] == [0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45]
    assert refits.budget(100) == refits.ITERATIONS


@pytest.mark.parametrize("k", [2, 4])
@each
def test_a_round_is_one_fit_of_scikit_learn_to_the_last_bit(name, k, blobs):
    for problem in (blobs(80, 5, k), blobs(80, 5, k, sparse=True), blobs(80, 5, k, dtype="f4")):
        seed = {"seed": 7} if name in SEEDED else {}
        for s in islice(STREAMS[name](problem, C=0.3, tol=1e-5, **seed), 1, 7):
            settings = {"C": 0.3, "tol": 1e-5, "random_state": 7 if seed else 0}
            model = theirs(name, problem, max_iter=refits.budget(s.round), **settings)
            W = weights_of(model)
            np.testing.assert_array_equal(s.W.T[1:] if k == 2 else s.W.T, W)
            assert s.W.dtype == W.dtype
            predicted = np.argmax(s.scores(problem.X), axis=1)
            np.testing.assert_array_equal(predicted, model.predict(problem.X))
    assert s.W.dtype == (np.float64 if name.startswith("liblinear") else np.float32)


@pytest.mark.parametrize("k", [2, 4])
def test_ridge_is_the_normal_equations_and_scikit_learns(k, blobs):
    problem, alpha = blobs(50, 6, k), 0.02
    X, Y = problem.X, np.eye(k)[problem.y]
    for made in (X, sp.csr_matrix(X), X.astype(np.float32)):
        *_, last = STREAMS["ridge"](as_problem(made, problem.y), alpha=alpha)
        assert last.round == 1
        exact = np.linalg.solve(X.T @ X / 50 + alpha * np.eye(6), X.T @ Y / 50)
        np.testing.assert_allclose(last.W, exact, atol=1e-6)
        assert last.W.dtype == made.dtype and last.info()["iterations"] == 1
    model = Ridge(alpha=50 * alpha, fit_intercept=False).fit(X.astype(np.float32), Y)
    np.testing.assert_allclose(last.W.T, model.coef_, atol=1e-6)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", with_vw)
def test_the_objective_is_that_of_the_definition(name, k, blobs, monkeypatch):
    monkeypatch.setattr(refits, "ENTRIES", 70)  # several blocks of rows
    problem = blobs(50, 3, k)
    weight = {"ridge": "alpha", "vw": "l2"}.get(name, "C")
    for s in islice(STREAMS[name](problem, **{weight: 0.7}), 5):
        expected = definition(name, problem.X, problem.y, k, s.W, 0.7)
        assert s.info()["primal"] == pytest.approx(expected, rel=1e-12)


@each
def test_larger_budgets_come_closer_and_the_last_suffices(name, blobs):
    problem = blobs(k=4)
    rows = [row for row, _ in watch(STREAMS[name](problem, C=0.3))]
    objectives = np.array([row["primal"] for row in rows])
    for row in rows[1:-1]:
        assert row["iterations"] == refits.budget(row["round"])
    assert rows[-1]["iterations"] < refits.budget(rows[-1]["round"])
    if name in MONOTONE:
        assert np.all(np.diff(objectives) <= 1e-12 * objectives[:-1])
    # scikit-learn's best, by another route where there is one.
    other = {
        "liblinear_l2_dual": "liblinear_l2_primal",
        "liblinear_l2_primal": "liblinear_l2_dual",
        "logistic_lbfgs": "logistic_saga",
        "logistic_saga": "logistic_lbfgs",
    }.get(name, name)
    W = weights_of(theirs(other, problem, C=0.3, tol=1e-9, max_iter=10**5)).T
    best = definition(name, problem.X, problem.y, 4, W, 0.3)
    assert objectives[-1] == pytest.approx(best, rel=1e-7)
    assert objectives[-1] < 0.8 * objectives[0]


@each
def test_the_stream_ends_with_the_last_budget(name, blobs, monkeypatch):
    monkeypatch.setattr(refits, "ITERATIONS", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        *_, s = STREAMS[name](blobs(), tol=1e-12)
    assert s.round == 3 == s.iterations
    assert len(list(STREAMS[name](blobs(), tol=1e-12, state=s))) == 1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("cut", [0, 2, 5])
@pytest.mark.parametrize("name", with_vw)
def test_eight_rounds_are_five_saved_loaded_and_three(name, cut, sparse, blobs, tmp_path):
    problem, seed = blobs(sparse=sparse), {"seed": 3} if name in SEEDED | {"vw"} else {}
    whole = rows_of(islice(STREAMS[name](problem, **seed), 9))
    cut = min(cut, len(whole) - 1)
    *_, s = islice(STREAMS[name](problem, **seed), cut + 1)
    save_state(tmp_path / "s.npz", s)
    loaded = load_state(tmp_path / "s.npz", type(s))
    # The seed is the state's: another one has no say any more.
    seed = {"seed": 4} if seed else {}
    again = rows_of(islice(STREAMS[name](problem, **seed, state=loaded), 9 - cut))
    assert again == whole[cut:]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("liblinear_lr", LogisticRegression),
        ("liblinear_l1", LinearSVC),
        ("logistic_lbfgs", LogisticRegression),
    ],
)
def test_the_clock_is_that_of_the_dearest_fit_alone(name, kind, blobs, clock, monkeypatch):
    fit, pauses = kind.fit, iter([0.125, 0.25, 0.1875, 0.375])  # exact in binary

    def slow(self, X, y):
        time.sleep(next(pauses))
        return fit(self, X, y)

    problem = blobs(k=2)  # LIBLINEAR's logistic regression is one fit for them, too
    list(islice(STREAMS[name](problem), 3))
    monkeypatch.setattr(kind, "fit", slow)
    rows = list(islice(watch(STREAMS[name](problem)), 4))
    s = rows[-1][1]
    more = islice(watch(STREAMS[name](problem, state=s), seconds=rows[-1][0]["seconds"]), 2)
    seconds = [row["seconds"] for row, _ in (*rows, *more)]
    assert np.all(np.diff(seconds) >= 0)
    np.testing.assert_allclose(seconds, [0.0, 0.125, 0.25, 0.25, 0.25, 0.375], atol=1e-12)


@pytest.mark.parametrize("name", with_vw)
def test_sparse_and_dense_rows_and_both_precisions_agree(name, blobs):
    problem = blobs(40, 6, 3, sparse=True)
    ends = []
    for dtype in (np.float64, np.float32):
        for X in (problem.X.astype(dtype), problem.X.toarray().astype(dtype)):
            *_, s = islice(STREAMS[name](as_problem(X, problem.y)), 9)
            ends.append(s.scores(problem.X))
    for V in ends[1:]:
        np.testing.assert_allclose(V, ends[0], atol=1e-3 * np.abs(ends[0]).max())


def two_classes(kind):
    """Two classes of rows that break careless code."""
    rng = np.random.default_rng(0)
    X, y = np.round(rng.normal(size=(20, 3)), 3), np.arange(20) % 2
    X[:, 0] += 2 * y
    if kind == "zero rows":
        X[::3] = 0
    elif kind == "one row a class":
        X, y = X[:2], y[:2]
    elif kind == "constant columns":
        X = np.column_stack([X, np.zeros(20), np.full(20, 3.0)])
    elif kind == "one column":
        X = X[:, :1]
    return as_problem(X, y, name=kind)


@pytest.mark.parametrize("kind", ["zero rows", "one row a class", "constant columns", "one column"])
@pytest.mark.parametrize("name", with_vw)
def test_awkward_rows_of_two_classes(name, kind):
    problem = two_classes(kind)
    *_, s = islice(STREAMS[name](problem), 9)
    V = s.scores(problem.X)
    assert V.shape == (problem.n, 2) and np.isfinite(V).all() and np.isfinite(s.primal)
    kept = np.any(problem.X != 0, axis=1)
    assert (V.argmax(axis=1) == problem.y)[kept].mean() > 0.6


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
@each_and_ridge
def test_weight_and_tolerance_are_positive(name, value, blobs):
    for parameter in ("alpha" if name == "ridge" else "C", "tol"):
        with pytest.raises(ValueError, match=f"{parameter}: must be a positive number, got"):
            next(STREAMS[name](blobs(), **{parameter: value}))


def test_vowpal_wabbit_refuses_what_is_no_number(blobs):
    for value in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="learning_rate: must be a positive number, got"):
            next(vw(blobs(), learning_rate=value))
    for value in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="l2: must be a number that is not negative, got"):
            next(vw(blobs(), l2=value))


def test_vowpal_wabbit_says_what_it_lacks(blobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    with pytest.raises(ValueError, match=r"pip install 'workbench-mc\[vw\]'"):
        next(vw(blobs()))


@pytest.mark.skipif(not find_spec("vowpalwabbit"), reason="needs the package vowpalwabbit")
@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_vowpal_wabbits_weights_are_those_that_it_predicts_with(k, l2, blobs, tmp_path):
    from vowpalwabbit import Workspace

    problem = blobs(100, 6, k)
    *_, s = islice(vw(problem, l2=l2, learning_rate=0.2), 3)
    # The same from a text file, features by name.
    arguments = f"--oaa {k} --loss_function logistic -l 0.2 --l2 {l2} --noconstant --scores"
    workspace = Workspace(f"{arguments} --quiet --no_stdin")
    order = np.random.default_rng(0).permutation(problem.n)
    text = [" ".join(f"f{j}:{v}" for j, v in enumerate(x)) for x in problem.X]
    for i in 2 * order.tolist():
        workspace.learn(f"{problem.y[i] + 1} | {text[i]}")
    theirs = np.array([workspace.predict(f"| {line}") for line in text])
    np.testing.assert_allclose(s.scores(problem.X), theirs, rtol=1e-4, atol=1e-4)
    workspace.finish()
