"""Kernel peers: their fits are scikit-learn's, their objectives those of the
definition."""

from itertools import combinations

import numpy as np
from helpers import each
from helpers.solvers import after
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, LinearSVC

from workbench import SOLVERS, as_problem, run
from workbench.core.matrices import inverse_root

GAUSSIAN = {"gamma": 0.2}


@each("k", [2, 3, 6])
@each("settings", [{"gamma": 0.3}, {}, {"kernel": "linear"}])
def test_libsvm_is_scikit_learns(settings, k, blobs, rng):
    problem = blobs(90, 4, k)
    new = blobs(200, 4, k, seed=1).X
    model = SVC(**{"kernel": "rbf", "gamma": "scale", "C": 0.7} | settings)
    for kind in (np.asarray, csr_matrix, np.float32):
        made = as_problem(kind(problem.X), problem.y)
        state = after(1, "libsvm", made, C=0.7, **settings)
        model.set_params(decision_function_shape="ovo").fit(made.X, made.y)
        assert len(state.A) == len(model.support_) < 90
        assert_array_equal(np.argmax(state.scores(new), axis=1), model.predict(new))
        decisions = np.concatenate([D for _, D in state.decisions(new)], axis=1).T
        theirs = model.decision_function(new)
        ours = state.scores(new) @ [-1, 1] if k == 2 else decisions
        assert_allclose(ours, theirs, atol=1e-10)
    # of labels that mean nothing many votes are equal, and the first class wins
    if k == 6:
        noise = as_problem(rng.normal(size=(60, 2)), np.arange(60) % 6)
        new = 2 * new[:, :2]
        model = SVC(C=0.1).fit(noise.X, noise.y)
        scores = after(1, "libsvm", noise, C=0.1).scores(new)
        best = np.sum(scores == scores.max(axis=1, keepdims=True), axis=1)
        assert np.sum(best > 1) > 5
        assert_array_equal(np.argmax(scores, axis=1), model.predict(new))


@each("k", [2, 4])
def test_libsvms_objectives_are_those_of_its_pairs(k, blobs):
    problem = blobs(80, 4, k)
    C = 2.0
    steps = SOLVERS["libsvm"].steps(problem, C=C, tol=1e-6, **GAUSSIAN)
    before = next(steps).primal
    last = next(steps)
    X = problem.X
    y = problem.y
    K = rbf_kernel(X, gamma=0.2)
    primal = pairs = 0.0
    for i, j in combinations(range(k), 2):
        rows = np.flatnonzero((y == i) | (y == j))
        z = np.where(y[rows] == i, 1.0, -1.0)
        pair = K[np.ix_(rows, rows)]
        model = SVC(C=C, tol=1e-6, kernel="precomputed").fit(pair, z)
        (a,) = model.dual_coef_
        f = pair[:, model.support_] @ a
        hinges = np.maximum(0.0, 1.0 - z * (f + model.intercept_[0])).sum()
        primal += a @ f[model.support_] / 2 + C * hinges
        pairs += C * len(rows)
    assert last.info()["primal"] == approx(primal, rel=1e-6)
    assert before == pairs  # at w = 0
    loose = after(1, "libsvm", problem, C=C, tol=0.5, **GAUSSIAN)
    assert loose.primal > last.primal and loose.iterations < last.iterations


@each("k", [2, 4])
def test_the_control_is_a_linear_svm_of_features(k, blobs):
    problem = blobs(120, 4, k)
    new = blobs(50, 4, k, seed=1).X
    own = {"C": 0.5, "gamma": 0.3, "landmarks": 15, "seed": 3}
    state = after(1, "nystroem_svm", problem, tol=1e-6, **own)
    L = state.X
    assert L.shape == (15, 4) and set(map(tuple, L)) <= set(map(tuple, problem.X))
    root = inverse_root(rbf_kernel(L, gamma=0.3))
    Z = rbf_kernel(problem.X, L, gamma=0.3) @ root
    how = {"loss": "hinge"} if k == 2 else {"multi_class": "crammer_singer"}
    how |= {"C": 0.5, "tol": 1e-6, "random_state": 3, "max_iter": 10_000}
    model = LinearSVC(fit_intercept=False, **how)
    F = rbf_kernel(new, L, gamma=0.3) @ root @ model.fit(Z, problem.y).coef_.T
    theirs = np.hstack([-F / 2, F / 2]) if k == 2 else F
    assert_allclose(state.scores(new), theirs, atol=1e-3)
    # The same landmarks, and the same objective as that of exact cuts.
    trace, _ = run("cuts_nystroem", problem, parameters=own | {"eps": 1e-6})
    assert trace.last["span_lower"] - 1e-6 <= state.primal
    assert state.primal == approx(trace.last["span_upper"], rel=1e-4)
