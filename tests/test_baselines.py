"""LIBLINEAR's multiclass SVMs as streams: the fits are its own, the certificates hold."""

import time
import warnings
from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from workbench.core.problem import as_problem
from workbench.core.stream import watch
from workbench.core.trace import load_state, save_state
from workbench.peers import certified
from workbench.peers.certified import (
    crammer_singer,
    liblinear_cs,
    liblinear_ovr,
    one_against_the_rest,
)

STREAMS = {"liblinear_cs": liblinear_cs, "liblinear_ovr": liblinear_ovr}
OWN = {"liblinear_cs": {"multi_class": "crammer_singer"}, "liblinear_ovr": {"loss": "hinge"}}
CERTIFICATES = {"liblinear_cs": crammer_singer, "liblinear_ovr": one_against_the_rest}
each = pytest.mark.parametrize("name", STREAMS)


def dense(problem):
    return problem.X.toarray() if problem.is_sparse else problem.X


def rows_of(steps):
    """Return the rows of a stream without its clock, and its scores as bytes."""
    return [
        ({key: row[key] for key in row.keys() - {"seconds", "cpu"}}, s.W.tobytes())
        for row, s in watch(steps)
    ]


def textbook(name, problem, C):
    """Solve the whole problem as it is printed, by a solver that knows nothing of LIBLINEAR."""
    X, n, k = dense(problem), problem.n, problem.k
    W, wrong = cp.Variable((problem.d, k)), np.ones((n, k))
    wrong[np.arange(n), problem.y] = 0.0
    V = X @ W
    if name == "liblinear_ovr":
        losses = cp.sum(cp.pos(1.0 - cp.multiply(1.0 - 2.0 * wrong, V)))
    else:
        own = cp.sum(cp.multiply(1.0 - wrong, V), axis=1, keepdims=True)
        losses = cp.sum(cp.max(wrong + V - own @ np.ones((1, k)), axis=1))
    program = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + C * losses))
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    return program.solve(solver="CLARABEL", **tight)


def tiny(seed, k):
    """At most 14 rows and 5 features; every third with ties, duplicates and a row of zeros."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(k + 2, 15)), int(rng.integers(1, 6))
    y = rng.permutation(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    X = rng.normal(size=(n, d)) + rng.normal(size=(k, d))[y]
    if seed % 3 == 0:
        X = np.round(X)
        X[rng.integers(n, size=n // 3)] = X[0]
        X[-1] = 0.0
    X = sp.csr_matrix(X) if seed % 2 else X
    return as_problem(X, y, name=f"tiny {seed}"), float(rng.choice([0.01, 0.3, 5.0]))


@pytest.mark.parametrize("k", [2, 3, 5])
@each
def test_every_round_encloses_the_optimum_and_the_last_one_finds_it(name, k):
    for seed in range(12):
        problem, C = tiny(seed, k)
        exact = textbook(name, problem, C)
        rows = [row for row, _ in watch(STREAMS[name](problem, C=C))]
        for row in rows:
            assert row["lower"] <= exact + 1e-7 * (1 + exact), problem.name
            assert row["upper"] >= exact - 1e-7 * (1 + exact), problem.name
        assert rows[-1]["gap"] <= 1e-6 * (1 + exact), problem.name


@pytest.mark.parametrize("k", [2, 4])
@each
def test_the_fits_are_those_of_scikit_learn_to_the_last_bit(name, k, blobs):
    for problem in (blobs(80, 5, k), blobs(80, 5, k, sparse=True), blobs(80, 5, k, dtype="f4")):
        for s in islice(STREAMS[name](problem, C=0.3, tol=2e-3, seed=7), 1, 9):
            tol = max(10.0 * 10.0 ** (0.5 - s.round / 2), 2e-3)
            theirs = LinearSVC(
                C=0.3, tol=tol, fit_intercept=False, random_state=7, max_iter=10**5, **OWN[name]
            )
            theirs.fit(problem.X, problem.y)
            if k == 2:
                difference = np.diff(s.W, axis=1).T / (2.0 if name == "liblinear_ovr" else 1.0)
                np.testing.assert_array_equal(difference, theirs.coef_)
            else:
                np.testing.assert_array_equal(s.W.T, theirs.coef_)
            predicted = np.argmax(s.scores(problem.X), axis=1)
            np.testing.assert_array_equal(predicted, theirs.predict(problem.X))
        assert s.round == 8


@each
def test_any_dual_point_gives_a_lower_bound(name):
    rng = np.random.default_rng(0)
    for seed in range(6):
        problem, C = tiny(seed, 3)
        exact = textbook(name, problem, C)
        for scale in (0.1 * C, C, 10 * C):
            A = scale * rng.normal(size=(problem.n, 3))
            W = rng.normal(size=(problem.d, 3))
            dual, primal = CERTIFICATES[name](problem.X, problem.y, C, W, A)
            assert dual <= exact + 1e-9 and primal >= exact - 1e-9


@each
def test_the_objective_at_hand_is_that_of_the_definition(name, blobs):
    problem, C = blobs(50, 3, 4), 0.7
    for s in islice(STREAMS[name](problem, C=C), 5):
        losses = 0.0
        for x, own in zip(problem.X, problem.y, strict=True):
            v = x @ s.W
            if name == "liblinear_cs":
                losses += max(0.0, 1.0 + np.delete(v, own).max() - v[own])
            else:
                losses += np.maximum(0.0, 1.0 - np.where(np.arange(4) == own, v, -v)).sum()
        assert s.primal == pytest.approx(np.sum(s.W**2) / 2 + C * losses, rel=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("cut", [0, 2, 5])
@each
def test_ten_rounds_are_five_saved_loaded_and_five(name, cut, sparse, blobs, tmp_path):
    problem = blobs(sparse=sparse)
    whole = rows_of(islice(STREAMS[name](problem, seed=3), 11))
    assert len(whole) == 11
    *_, s = islice(STREAMS[name](problem, seed=3), cut + 1)
    save_state(tmp_path / "s.npz", s)
    loaded = load_state(tmp_path / "s.npz", type(s))
    # The seed is the state's: another one has no say any more.
    assert rows_of(islice(STREAMS[name](problem, seed=4, state=loaded), 11 - cut)) == whole[cut:]


@each
def test_bounds_only_improve_and_the_stream_ends_at_its_tolerance(name, blobs):
    problem = blobs(k=4)
    rows = [row for row, _ in watch(STREAMS[name](problem))]
    assert rows[-1]["gap"] < 1e-6 * rows[-1]["upper"]
    assert all(row["gap"] == row["upper"] - row["lower"] for row in rows)
    assert np.all(np.diff([row["lower"] for row in rows]) >= 0) and rows[0]["lower"] == 0
    assert np.all(np.diff([row["upper"] for row in rows]) <= 0)
    *_, s = STREAMS[name](problem, tol=3.0)
    assert s.round == 3  # 10, 3.16, 3
    assert [again.round for again in STREAMS[name](problem, tol=3.0, state=s)] == [3]


def test_the_stream_ends_where_liblinear_gives_up(blobs, monkeypatch):
    monkeypatch.setattr(certified, "ITERATIONS", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        *_, s = liblinear_ovr(blobs())
    assert s.iterations == 20 and s.info()["gap"] > 0
    assert len(list(liblinear_ovr(blobs(), state=s))) == 1


@each
def test_the_clock_is_that_of_the_dearest_fit_alone(name, blobs, clock, monkeypatch):
    fit, pauses = LinearSVC.fit, iter([0.125, 0.25, 0.1875, 0.375])  # exact in binary

    def slow(self, X, y):
        time.sleep(next(pauses))
        return fit(self, X, y)

    monkeypatch.setattr(LinearSVC, "fit", slow)
    problem = blobs()
    rows = list(islice(watch(STREAMS[name](problem)), 4))
    s = rows[-1][1]
    more = islice(watch(STREAMS[name](problem, state=s), seconds=rows[-1][0]["seconds"]), 2)
    seconds = [row["seconds"] for row, _ in (*rows, *more)]
    assert np.all(np.diff(seconds) >= 0)
    np.testing.assert_allclose(seconds, [0.0, 0.125, 0.25, 0.25, 0.25, 0.375], atol=1e-12)


@each
def test_a_row_of_zeros_and_equal_rows_of_two_classes(name):
    X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [-1.0, 2.0]])
    problem = as_problem(X, [0, 0, 1, 2])
    *_, (row, s) = watch(STREAMS[name](problem))
    assert np.isfinite(s.W).all() and row["gap"] < 1e-6
    assert row["upper"] == pytest.approx(textbook(name, problem, 1.0), abs=1e-6)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("parameter", ["C", "tol"])
@each
def test_weight_and_tolerance_are_positive(name, parameter, value, blobs):
    with pytest.raises(ValueError, match=f"{parameter}: must be a positive number, got"):
        next(STREAMS[name](blobs(), **{parameter: value}))
