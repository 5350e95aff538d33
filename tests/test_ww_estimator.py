"""WestonWatkinsClassifier and the one with a path of C: scikit-learn's contract, the optimum."""

import os
import pickle
import signal
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from workbench.core.trace import Trace
from workbench.estimators import (
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
)
from workbench.estimators.weston_watkins import SOLVER_OF
from workbench.registry import SOLVERS
from workbench.weston_watkins.kernel import ww_kernel

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
TIGHT = {"gap_ratio": 1e-8, "max_iter": 100_000, "random_state": 0}


def nan_between_rows(X, Z):
    return np.where((X[:, None] == Z).all(axis=2), 1.0, np.nan)


# What it compares to all digits is the same to the gap: test_citizens.py holds it to that.
TO_THE_GAP = {
    f"check_sample_weight_equivalence_on_{kind}_data": "solutions are equal to their gap only"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [
        WestonWatkinsClassifier(),
        WestonWatkinsClassifier(fit_intercept=True),
        WestonWatkinsClassifier(kernel="rbf"),
        WestonWatkinsClassifierCV(Cs=2, cv=3),
    ],
    expected_failed_checks=lambda one: TO_THE_GAP,
)
def test_scikit_learn_s_own_checks(estimator, check):
    # Some checks fit raw features of a few rows: no gap is promised, and classes get too few.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class")
        check(estimator)


@pytest.fixture(scope="module")
def iris():
    return WestonWatkinsClassifier(**TIGHT).fit(IRIS, SPECIES)


@pytest.fixture(scope="module")
def searched():
    return WestonWatkinsClassifierCV(Cs=4, random_state=0).fit(IRIS, SPECIES)


def objective(svm, X, y, C):
    """Return the objective at fitted coefficients, with the intercepts as coefficients."""
    own = np.searchsorted(svm.classes_, y)
    scores = X @ svm.coef_.T + svm.intercept_
    z = 1 - scores[np.arange(len(own)), own][:, None] + scores
    hinges = np.maximum(z, 0).sum() - len(own)
    return 0.5 * ((svm.coef_**2).sum() + (svm.intercept_**2).sum()) + C * hinges


def optimum(X, y, C):
    """Return W (d, k) and the objective by Clarabel."""
    k = y.max() + 1
    W = cp.Variable((X.shape[1], k))
    scores = X @ W
    own = cp.sum(cp.multiply(scores, np.eye(k)[y]), axis=1, keepdims=True)
    hinges = cp.sum(cp.pos(1 - own @ np.ones((1, k)) + scores)) - len(y)
    program = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + C * hinges))
    value = program.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return W.value, value


@pytest.mark.parametrize("solver", SOLVER_OF)
@pytest.mark.parametrize(("k", "C"), [(3, 0.7), (5, 0.05), (2, 1.0)])
def test_every_solver_finds_the_optimum(blobs, solver, k, C):
    problem = blobs(n=40, d=4, k=k)
    W, value = optimum(problem.X, problem.y, C)
    # Shark's solver leaves violations of 1e-6 in each block.
    tight = TIGHT | {"gap_ratio": 1e-6 if solver == "shark" else 1e-8}
    svm = WestonWatkinsClassifier(C, solver=solver, **tight).fit(problem.X, problem.y)
    assert svm.lower_ * (1 - 1e-7) <= value <= svm.upper_ * (1 + 1e-7)
    assert svm.upper_ == pytest.approx(value, rel=3e-6 if solver == "shark" else 1e-6)
    np.testing.assert_allclose(svm.coef_, W.T, atol=1e-3)
    assert svm.trace_.header["solver"] == SOLVER_OF[solver]


def test_two_classes_are_the_binary_svm_with_twice_the_c(blobs):
    problem = blobs(n=80, d=5, k=2)
    svm = WestonWatkinsClassifier(0.3, **TIGHT).fit(problem.X, problem.y)
    binary = LinearSVC(
        loss="hinge", C=0.6, fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0
    ).fit(problem.X, problem.y)
    np.testing.assert_allclose(svm.coef_[1] - svm.coef_[0], binary.coef_[0], atol=1e-3)
    np.testing.assert_allclose(
        svm.decision_function(problem.X), binary.decision_function(problem.X), atol=5e-3
    )
    assert np.array_equal(svm.predict(problem.X), binary.predict(problem.X))


def test_attributes(iris):
    assert iris.coef_.shape == (3, 4) and iris.intercept_.tolist() == [0, 0, 0]
    assert iris.classes_.tolist() == [0, 1, 2] and iris.n_features_in_ == 4
    np.testing.assert_allclose(iris.coef_.sum(axis=0), 0, atol=1e-12)
    assert isinstance(iris.trace_, Trace) and iris.trace_.stopped_by == "gap_ratio <= 1e-08"
    assert iris.n_iter_ == iris.trace_.last["round"] >= 1
    assert iris.trace_.header["parameters"] == {"C": 1.0, "seed": 0}
    assert not hasattr(iris, "feature_names_in_")
    assert iris.upper_ == pytest.approx(objective(iris, IRIS, SPECIES, 1.0), rel=1e-12)
    first = iris.trace_.rows[1]["primal"] - iris.trace_.rows[1]["dual"]
    assert iris.gap_ratio_ == pytest.approx((iris.upper_ - iris.lower_) / first, abs=1e-10)
    assert iris.gap_ratio_ <= 1e-8
    np.testing.assert_allclose(iris.decision_function(IRIS), IRIS @ iris.coef_.T, atol=1e-12)


def test_two_classes_have_one_decision_and_two_rows_of_coefficients():
    X, y = IRIS[50:], np.where(SPECIES[50:] == 1, "versicolor", "virginica")
    svm = WestonWatkinsClassifier(random_state=0).fit(X, y)
    decision = svm.decision_function(X)
    assert decision.shape == (100,) and svm.coef_.shape == (2, 4) and svm.intercept_.shape == (2,)
    assert np.array_equal(svm.predict(X), svm.classes_[(decision > 0).astype(int)])
    assert svm.score(X, y) > 0.7


@pytest.mark.parametrize("labels", [[3, 7, 100], [-1, 5, 4], ["b", "a", "c"], [0.0, 2.0, 1.0]])
def test_labels_may_be_anything(iris, labels):
    labels = np.array(labels)
    svm = clone(iris).fit(IRIS, labels[SPECIES])
    assert svm.classes_.tolist() == sorted(labels)
    assert np.mean(svm.predict(IRIS) == labels[iris.predict(IRIS)]) > 0.99
    search = WestonWatkinsClassifierCV(Cs=2, cv=3, random_state=0).fit(IRIS, labels[SPECIES])
    assert search.score(IRIS, labels[SPECIES]) > 0.8


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_intercept_is_the_coefficient_of_a_column_of_ones(blobs, sparse, dtype):
    problem = blobs(n=60, d=4, sparse=sparse, dtype=dtype)
    X, y = problem.X + 0 * problem.X, problem.y
    ones = np.ones((60, 1), dtype=dtype)
    appended = sp.hstack([X, ones], format="csr") if sparse else np.hstack([X, ones])
    svm = WestonWatkinsClassifier(fit_intercept=True, random_state=0).fit(X, y)
    other = WestonWatkinsClassifier(random_state=0).fit(appended, y)
    assert np.array_equal(np.column_stack([svm.coef_, svm.intercept_]), other.coef_)
    assert svm.intercept_.any() and svm.upper_ == other.upper_ and svm.n_features_in_ == 4
    assert svm.coef_.flags.c_contiguous
    np.testing.assert_allclose(
        svm.decision_function(X), other.decision_function(appended), rtol=1e-5, atol=1e-6
    )
    assert svm.upper_ == pytest.approx(objective(svm, X, y, 1.0))


def test_dense_and_sparse_rows_give_the_same_fit(blobs):
    problem = blobs(n=80, d=6, sparse=True)
    forms = problem.X, sp.csc_array(problem.X), sp.coo_matrix(problem.X), problem.X.toarray()
    fits = [WestonWatkinsClassifier(**TIGHT).fit(X, problem.y) for X in forms]
    for other in fits[1:]:
        np.testing.assert_allclose(other.coef_, fits[0].coef_, atol=1e-4)
        assert other.upper_ == pytest.approx(fits[0].upper_, rel=1e-7)
    scores = [WestonWatkinsClassifierCV(Cs=3, **TIGHT).fit(X, problem.y).scores_ for X in forms]
    for other in scores[1:]:
        assert np.array_equal(other, scores[0])
    decision = fits[0].decision_function(problem.X)
    np.testing.assert_allclose(fits[0].decision_function(forms[-1]), decision, atol=1e-12)


@pytest.mark.parametrize("solver", ["walrus_fast", "walrus"])
@pytest.mark.parametrize("X", [np.zeros((3, 2)), np.eye(3), np.pi * np.eye(3)])
def test_an_optimal_first_round_is_the_last(X, solver):
    # What is left of the gap is rounding: no ratio of it may count.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm = WestonWatkinsClassifier(solver=solver, random_state=0).fit(X, [0, 1, 2])
    assert svm.gap_ratio_ == 0 and svm.n_iter_ == 1
    assert svm.trace_.stopped_by in ("gap_ratio <= 0.001", "finished")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y = np.vstack([X, X]), [0, 1, 2, 0, 1, 2]
        assert WestonWatkinsClassifierCV(cv=2).fit(X, y).gap_ratio_ <= 1e-3


def test_no_convergence_is_warned_of_and_says_what_to_do():
    with pytest.warns(ConvergenceWarning, match=r"1 rounds.*gap ratio of 1, above 0.001: scale"):
        svm = WestonWatkinsClassifier(max_iter=1).fit(IRIS, SPECIES)
    assert svm.n_iter_ == 1 and svm.gap_ratio_ == 1 and svm.lower_ < svm.upper_
    with pytest.warns(ConvergenceWarning, match="1e-09 seconds"):
        svm = WestonWatkinsClassifier(max_seconds=1e-9).fit(IRIS, SPECIES)
    assert svm.n_iter_ == 0 and np.isnan(svm.gap_ratio_) and not svm.coef_.any()
    assert 300 <= svm.upper_ < 300 + 1e-9
    with pytest.warns(ConvergenceWarning) as caught:
        WestonWatkinsClassifierCV(Cs=[2, 1], max_iter=1, random_state=0).fit(IRIS, SPECIES)
    assert len(caught) == 2 and {w.filename for w in caught} == {__file__}
    assert "10 of 10 solutions of the folds" in str(caught[0].message)
    assert "from C = 1 on: scale the features" in str(caught[0].message)
    assert "gap ratio of 1, above 0.001" in str(caught[1].message)


def test_convergence_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WestonWatkinsClassifier().fit(IRIS, SPECIES)
        WestonWatkinsClassifierCV().fit(IRIS, SPECIES)


def polynomial(X, Z):
    """Return the kernel "poly" with gamma 0.5, degree 2 and coef0 1."""
    return (0.5 * np.asarray((X @ Z.T).todense() if sp.issparse(X) else X @ Z.T) + 1) ** 2


@pytest.mark.parametrize(
    "parameters",
    [{"kernel": "rbf", "gamma": 0.2}, {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1}],
)
def test_a_kernel_is_a_linear_svm_on_its_features(blobs, parameters):
    problem = blobs(n=50, d=4, k=3)
    svm = WestonWatkinsClassifier(0.5, **parameters, **TIGHT).fit(problem.X, problem.y)
    others = {name: value for name, value in parameters.items() if name != "kernel"}
    K = pairwise_kernels(problem.X, metric=parameters["kernel"], **others)
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0))
    linear = WestonWatkinsClassifier(0.5, **TIGHT).fit(features, problem.y)
    assert svm.upper_ == pytest.approx(linear.upper_, rel=1e-6)
    assert svm.lower_ == pytest.approx(linear.lower_, rel=1e-6)
    decision = linear.decision_function(features)
    np.testing.assert_allclose(svm.decision_function(problem.X), decision, atol=1e-3)


def test_a_function_is_a_kernel_as_any_other(blobs):
    problem = blobs(n=60, d=12, k=3, sparse=True)
    named = WestonWatkinsClassifier(
        kernel="poly", gamma=0.5, degree=2, coef0=1, random_state=0
    ).fit(problem.X, problem.y)
    called = WestonWatkinsClassifier(kernel=polynomial, random_state=0).fit(problem.X, problem.y)
    decision = named.decision_function(problem.X)
    np.testing.assert_allclose(called.decision_function(problem.X), decision, atol=1e-6)
    dense = clone(named).fit(problem.X.toarray(), problem.y)
    np.testing.assert_allclose(dense.decision_function(problem.X), decision, atol=1e-6)
    again = pickle.loads(pickle.dumps(called))
    np.testing.assert_array_equal(
        again.decision_function(problem.X), called.decision_function(problem.X)
    )
    M = np.eye(12)  # a kernel may want rows of its own length
    wide = WestonWatkinsClassifier(kernel=lambda X, Z: X @ M @ Z.T, random_state=0)
    linear = WestonWatkinsClassifier(kernel="linear", random_state=0)
    X = problem.X.toarray()
    np.testing.assert_allclose(
        wide.fit(X, problem.y).decision_function(X),
        linear.fit(X, problem.y).decision_function(X),
        atol=1e-6,
    )


def test_attributes_with_a_kernel(blobs):
    svm = WestonWatkinsClassifier(kernel="rbf", random_state=0).fit(IRIS, SPECIES)
    assert svm.score(IRIS, SPECIES) > 0.95
    assert svm.gamma_ == pytest.approx(1 / (4 * IRIS.var()))
    m = len(svm.support_)
    assert 0 < m < 150 and svm.dual_coef_.shape == (3, m)
    assert np.array_equal(svm.support_vectors_, IRIS[svm.support_])
    np.testing.assert_allclose(svm.dual_coef_.sum(axis=0), 0, atol=1e-12)
    for name in ("coef_", "intercept_"):
        assert not hasattr(svm, name)
        with pytest.raises(AttributeError, match=f"^{name}: with a kernel .* dual_coef_"):
            getattr(svm, name)
    with pytest.raises(AttributeError, match=r"'WestonWatkinsClassifier' .* 'coef_'"):
        _ = WestonWatkinsClassifier(kernel="rbf").coef_
    assert svm.trace_.header["solver"] == "ww_kernel"
    two = WestonWatkinsClassifier(kernel="rbf", random_state=0).fit(IRIS[50:], SPECIES[50:])
    decision = two.decision_function(IRIS[50:])
    assert decision.shape == (100,)
    assert np.array_equal(two.predict(IRIS[50:]), np.where(decision > 0, 2, 1))


def test_another_kernel_leaves_nothing_of_the_first():
    svm = WestonWatkinsClassifier(random_state=0).fit(IRIS, SPECIES)
    linear = svm.decision_function(IRIS)
    svm.set_params(kernel="rbf").fit(IRIS, SPECIES)
    assert not hasattr(svm, "coef_")
    svm.set_params(kernel=None).fit(IRIS, SPECIES)
    assert not hasattr(svm, "dual_coef_")
    assert np.array_equal(svm.decision_function(IRIS), linear)


def test_a_kernel_without_a_round_predicts_nothing():
    with pytest.warns(ConvergenceWarning, match="ww_kernel stopped"):
        svm = WestonWatkinsClassifier(kernel="rbf", max_seconds=1e-9).fit(IRIS, SPECIES)
    assert len(svm.support_) == 0 and not svm.decision_function(IRIS).any()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kernel", "cubic", "^kernel: .*'rbf'.*got 'cubic'"),
        ("kernel", 3, "^kernel: .*got 3"),
        ("gamma", "auto", "^gamma: must be \"scale\" or a positive number, got 'auto'"),
        ("gamma", 0, "^gamma: .*got 0"),
        ("gamma", None, "^gamma: .*got None"),
        ("degree", 0, "^degree: .*got 0"),
        ("degree", 2.5, "^degree: .*got 2.5"),
        ("coef0", -1, "^coef0: .*got -1"),
        ("coef0", np.inf, "^coef0: .*got inf"),
        ("fit_intercept", True, "^fit_intercept: must be False with a kernel"),
        ("kernel", lambda X, Z: np.ones(3), "^kernel: must return an array of shape"),
        ("kernel", nan_between_rows, "^kernel: must return finite numbers"),
    ],
)
def test_parameters_of_kernels_outside_their_range_are_refused_at_fit(name, value, message):
    svm = WestonWatkinsClassifier(**{"kernel": "poly", name: value})
    with pytest.raises(ValueError, match=message):
        svm.fit(IRIS, SPECIES)


@pytest.mark.parametrize("solver", ["ww_walrus", "ww_walrus_fast"])
def test_ctrl_c_keeps_the_last_iterate(monkeypatch, solver):
    steps = SOLVERS[solver].steps

    def interrupted(problem, *, C=1.0, seed=0, state=None):
        for s in steps(problem, C=C, seed=seed):
            if s.round == at and not problem.name.endswith("(tiny)"):
                signal.raise_signal(signal.SIGINT)
            yield s

    monkeypatch.setitem(SOLVERS, solver, SOLVERS[solver]._replace(steps=interrupted))
    svm = WestonWatkinsClassifier(solver=solver.removeprefix("ww_"))
    at = 5
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        svm.fit(IRIS, SPECIES)
    assert svm.n_iter_ == 4 and svm.trace_.stopped_by == "interrupted"
    assert svm.upper_ == pytest.approx(objective(svm, IRIS, SPECIES, 1.0), rel=1e-12)
    assert svm.lower_ <= svm.upper_ and svm.score(IRIS, SPECIES) > 0.6
    at = 0  # nothing is there to keep
    with pytest.raises(KeyboardInterrupt):
        svm.fit(IRIS, SPECIES)


def test_ctrl_c_keeps_the_last_iterate_of_a_kernel(monkeypatch):
    def interrupted(problem, *, C=1.0, kernel="rbf", gamma=None, degree=3, coef0=0.0, seed=0):
        parameters = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
        for s in ww_kernel(problem, C=C, **parameters, seed=seed):
            if s.round == 2 and not problem.name.endswith("(tiny)"):
                signal.raise_signal(signal.SIGINT)
            yield s

    monkeypatch.setitem(SOLVERS, "ww_kernel", SOLVERS["ww_kernel"]._replace(steps=interrupted))
    svm = WestonWatkinsClassifier(kernel="rbf", random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        svm.fit(IRIS, SPECIES)
    assert svm.n_iter_ == 1
    scores = svm.decision_function(IRIS)
    z = 1 - scores[np.arange(150), SPECIES][:, None] + scores
    half = 0.5 * np.vdot(svm.dual_coef_.T, scores[svm.support_])
    assert svm.upper_ == pytest.approx(half + np.maximum(z, 0).sum() - 150, rel=1e-9)


def test_c_weighs_pairs_and_is_divided_by_nothing():
    once = WestonWatkinsClassifier(2.0, **TIGHT).fit(IRIS, SPECIES)
    twice = WestonWatkinsClassifier(1.0, **TIGHT).fit(np.vstack([IRIS] * 2), [*SPECIES] * 2)
    assert once.upper_ == pytest.approx(twice.upper_, rel=1e-6)


def test_a_fit_is_repeatable_and_leaves_no_file(iris, searched, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for svm in (iris, searched):
        again = clone(svm).fit(IRIS, SPECIES)
        assert np.array_equal(again.coef_, svm.coef_) and again.upper_ == svm.upper_
    assert np.array_equal(again.scores_, searched.scores_) and again.C_ == searched.C_
    assert os.listdir(tmp_path) == []


def test_random_states_are_seeds_generators_or_none():
    def fit(random_state):
        return WestonWatkinsClassifier(random_state=random_state).fit(IRIS, SPECIES)

    assert fit(3).trace_.header["parameters"]["seed"] == 3
    assert np.array_equal(fit(np.int64(3)).coef_, fit(3).coef_)
    assert not np.array_equal(fit(3).coef_, fit(4).coef_)
    one, two = (fit(np.random.RandomState(5)) for _ in range(2))
    assert np.array_equal(one.coef_, two.coef_)
    drawn = fit(None)
    assert np.array_equal(fit(drawn.trace_.header["parameters"]["seed"]).coef_, drawn.coef_)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0),
        ("C", -1.0),
        ("C", np.inf),
        ("C", np.nan),
        ("C", "1"),
        ("C", None),
        ("gap_ratio", 0),
        ("gap_ratio", -1e-3),
        ("gap_ratio", np.nan),
        ("gap_ratio", np.inf),
        ("max_iter", 0),
        ("max_iter", 2.5),
        ("max_seconds", 0),
        ("solver", "simplex"),
        ("solver", None),
        ("random_state", -1),
        ("random_state", 0.5),
        ("random_state", "0"),
    ],
)
def test_parameters_outside_their_range_are_refused_at_fit(name, value):
    svm = WestonWatkinsClassifier(**{name: value})
    with pytest.raises(ValueError, match=f"^{name}: .*{value!r}"):
        svm.fit(IRIS, SPECIES)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Cs", 0, "Cs: must be a whole number of at least 1, got 0"),
        ("Cs", -3, "Cs: must be a whole number of at least 1"),
        ("Cs", [], r"Cs: .*positive numbers, got \[\]"),
        ("Cs", [1, 0], r"Cs: .*positive numbers, got \[1, 0\]"),
        ("Cs", [1, np.nan], "Cs: .*positive numbers"),
        ("Cs", [1, np.inf], "Cs: .*positive numbers"),
        ("Cs", "ten", "Cs: .*positive numbers, got 'ten'"),
        ("Cs", 2.5, "Cs: .*positive numbers, got 2.5"),
        ("Cs", None, "Cs: .*positive numbers, got None"),
        ("gap_ratio", 0, "^gap_ratio: must be a positive number, got 0"),
        ("max_iter", 0, "^max_iter: must be a whole number of at least 1, got 0"),
        ("random_state", -1, "^random_state: .*got -1"),
        ("scoring", "excellence", "^scoring: 'excellence' is not a valid scoring"),
        ("scoring", lambda svm, X, y: np.nan, "^scoring: .*NaN"),
        ("scoring", 3, "^scoring: "),
        ("cv", 1, "^cv: .*n_splits=1"),
        ("cv", "ten", "^cv: Expected `cv` as an integer"),
        ("cv", 51, "^cv: n_splits=51.*members in each class"),
    ],
)
def test_parameters_of_the_search_outside_their_range_are_refused_at_fit(name, value, message):
    with pytest.raises(ValueError, match=message):
        WestonWatkinsClassifierCV(**{name: value}).fit(IRIS, SPECIES)


def test_unknown_parameters_are_refused():
    for kind in (WestonWatkinsClassifier, WestonWatkinsClassifierCV):
        with pytest.raises(TypeError, match="lambda0"):
            kind(lambda0=0.1)
        with pytest.raises(ValueError, match="Invalid parameter"):
            kind().set_params(lambda0=0.1)


def spoilt(value):
    X = IRIS.copy()
    X[3, 2] = value
    return X


@pytest.mark.parametrize("kind", [WestonWatkinsClassifier, WestonWatkinsClassifierCV])
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (spoilt(np.nan), SPECIES, "NaN"),
        (spoilt(np.inf), SPECIES, "infinity"),
        (sp.csr_matrix(spoilt(np.nan)), SPECIES, "NaN"),
        (IRIS, np.ones(150), "two classes"),
        (IRIS[:1], SPECIES[:1], "1 sample"),
        (IRIS, SPECIES[:-1], "inconsistent numbers of samples"),
        (IRIS, IRIS[:, 0] + 0.123, "continuous"),
        (IRIS[:, :0], SPECIES, r"0 feature\(s\)"),
        (IRIS[:, 0], SPECIES, "2D array"),
    ],
)
def test_bad_rows_and_labels_are_refused(kind, X, y, message):
    with pytest.raises(ValueError, match=message):
        kind().fit(X, y)


def test_unfitted_and_mismatched_use_is_refused(iris, searched):
    for svm in (iris, searched):
        for method in ("predict", "decision_function"):
            with pytest.raises(NotFittedError):
                getattr(clone(svm), method)(IRIS)
            with pytest.raises(ValueError, match="expecting 4 features"):
                getattr(svm, method)(IRIS[:, :3])


def test_names_of_features_are_kept_and_checked():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    for svm in (WestonWatkinsClassifier(fit_intercept=True), WestonWatkinsClassifierCV(Cs=2)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            svm.fit(frame, SPECIES)
            assert svm.score(frame, SPECIES) > 0.7
        assert svm.feature_names_in_.tolist() == list("abcd")
        with pytest.raises(ValueError, match="feature names"):
            svm.predict(frame[list("dcba")])


def test_it_works_in_pipelines_and_searches_and_pickles(iris, searched):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), WestonWatkinsClassifier(random_state=0)),
        {"westonwatkinsclassifier__C": [0.01, 0.1, 1.0]},
        cv=3,
    ).fit(IRIS, SPECIES)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() > 0.7
    piped = make_pipeline(StandardScaler(), clone(searched)).fit(IRIS, SPECIES)
    assert np.array_equal(piped.predict(IRIS), searched.predict(IRIS))
    for svm in (iris, searched):
        again = pickle.loads(pickle.dumps(svm))
        assert np.array_equal(again.decision_function(IRIS), svm.decision_function(IRIS))


def test_the_search_scores_each_fold_and_refits(searched):
    assert searched.Cs_.tolist() == [2**-6, 2**-5, 2**-4, 2**-3]
    assert searched.scores_.shape == (5, 4)
    means = searched.scores_.mean(axis=0)
    assert searched.C_ == searched.Cs_[means >= means.max() - 1e-12].min()
    refit = WestonWatkinsClassifier(searched.C_, random_state=0).fit(IRIS, SPECIES)
    assert np.array_equal(searched.coef_, refit.coef_) and searched.upper_ == refit.upper_
    assert searched.n_iter_ == refit.n_iter_ and searched.gap_ratio_ == refit.gap_ratio_


def test_the_whole_grid_of_the_paper_is_the_default():
    search = WestonWatkinsClassifierCV().fit(IRIS, SPECIES)
    np.testing.assert_array_equal(search.Cs_, 2.0 ** np.arange(-6, 4))


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_scores_along_the_path_are_those_of_cold_fits(blobs, fit_intercept):
    problem = blobs(n=150, d=6, k=4)
    common = {"gap_ratio": 1e-5, "max_iter": 10_000, "fit_intercept": fit_intercept}
    search = WestonWatkinsClassifierCV([4, 0.1, 0.5], **common).fit(problem.X, problem.y)
    assert search.Cs_.tolist() == [0.1, 0.5, 4.0]
    for scores, (train, test) in zip(
        search.scores_, StratifiedKFold(5).split(problem.X, problem.y), strict=True
    ):
        for C, score in zip(search.Cs_, scores, strict=True):
            cold = WestonWatkinsClassifier(C, **common).fit(problem.X[train], problem.y[train])
            assert score == pytest.approx(
                cold.score(problem.X[test], problem.y[test]), abs=1.001 / len(test)
            )


def test_the_smallest_c_wins_among_equals():
    X = np.vstack([3 * np.eye(3)] * 6)
    search = WestonWatkinsClassifierCV([8, 2, 2, 0.5]).fit(X, [0, 1, 2] * 6)
    assert search.Cs_.tolist() == [0.5, 2, 8] and np.all(search.scores_ == 1)
    assert search.C_ == 0.5


def test_scoring_and_splitters_are_scikit_learn_s(searched):
    splits = list(StratifiedKFold(5).split(IRIS, SPECIES))
    for given in (
        {"cv": StratifiedKFold(5)},
        {"cv": splits},
        {"scoring": "accuracy"},
        {"scoring": make_scorer(accuracy_score)},
    ):
        other = clone(searched).set_params(**given).fit(IRIS, SPECIES)
        assert np.array_equal(other.scores_, searched.scores_)
    losses = clone(searched).set_params(scoring="neg_mean_absolute_error").fit(IRIS, SPECIES)
    assert np.all(losses.scores_ <= 0)
    X, y = IRIS[50:], SPECIES[50:]
    areas = WestonWatkinsClassifierCV(Cs=2, scoring="roc_auc").fit(X, y)
    assert np.all(areas.scores_ > 0.7)


@pytest.mark.slow
def test_folds_can_be_solved_in_parallel(searched):
    other = clone(searched).set_params(n_jobs=2).fit(IRIS, SPECIES)
    assert np.array_equal(other.scores_, searched.scores_)


def test_a_fold_that_trains_on_one_class_is_named():
    X, y = IRIS[:100], np.where(SPECIES[:100] == 0, "setosa", "versicolor")
    first, second = np.arange(50), np.arange(50, 100)
    both = np.arange(0, 100, 2), np.arange(1, 100, 2)
    with pytest.raises(ValueError, match=r"^cv: .*fold 1 \(of 0 to 1\).*'versicolor'.*two classes"):
        WestonWatkinsClassifierCV(cv=[both, (second, first)]).fit(X, y)
    with pytest.raises(ValueError, match=r"^cv: .*fold 0"):
        WestonWatkinsClassifierCV(cv=KFold(2)).fit(X, y)


def test_a_fold_that_lacks_a_class_is_scored_with_those_it_has():
    labels = np.array([10, 20, 30])[SPECIES]
    search = WestonWatkinsClassifierCV(Cs=3, cv=KFold(3), random_state=0).fit(IRIS, labels)
    assert np.all(search.scores_ == 0)  # each fold holds out the whole of a class
    assert search.classes_.tolist() == [10, 20, 30] and search.coef_.shape == (3, 4)
    train, test = np.arange(0, 100), np.arange(50, 150)
    half = WestonWatkinsClassifierCV(Cs=1, cv=[(train, test)], random_state=0).fit(IRIS, labels)
    cold = WestonWatkinsClassifier(2**-6, random_state=0).fit(IRIS[train], labels[train])
    assert half.scores_[0, 0] == cold.score(IRIS[test], labels[test]) > 0.4


def test_a_class_of_one_row_is_no_obstacle():
    X, y = np.vstack([IRIS, [[9.0, -9, 9, -9]]]), [*SPECIES, 7]
    with pytest.warns(UserWarning, match="least populated class"):
        search = WestonWatkinsClassifierCV(Cs=3).fit(X, y)
    assert search.classes_.tolist() == [0, 1, 2, 7] and search.coef_.shape == (4, 4)


def test_two_hundred_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(200), 3)
    X = rng.normal(size=(200, 20))[y] + 0.1 * rng.normal(size=(600, 20))
    svm = WestonWatkinsClassifier(random_state=0).fit(X, y)
    assert svm.decision_function(X).shape == (600, 200) and svm.score(X, y) > 0.95
