"""WestonWatkinsClassifier and the one with a path of C: the optimum, kernels, folds."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import scale

from workbench.estimators import (
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
)

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
TIGHT = {"gap_ratio": 1e-8, "max_iter": 100_000, "random_state": 0}


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


def test_bounds_and_gap_ratio_are_those_of_the_coefficients(iris):
    assert iris.intercept_.tolist() == [0, 0, 0]
    np.testing.assert_allclose(iris.coef_.sum(axis=0), 0, atol=1e-12)
    assert iris.trace_.stopped_by == "gap_ratio <= 1e-08"
    assert iris.trace_.header["parameters"] == {"C": 1.0, "seed": 0}
    assert iris.upper_ == pytest.approx(objective(iris, IRIS, SPECIES, 1.0), rel=1e-12)
    first = iris.trace_.rows[1]["primal"] - iris.trace_.rows[1]["dual"]
    assert iris.gap_ratio_ == pytest.approx((iris.upper_ - iris.lower_) / first, abs=1e-10)
    with pytest.warns(ConvergenceWarning, match="1e-09 seconds"):
        svm = WestonWatkinsClassifier(max_seconds=1e-9).fit(IRIS, SPECIES)
    assert np.isnan(svm.gap_ratio_) and not svm.coef_.any() and 300 <= svm.upper_ < 300 + 1e-9


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


def test_folds_of_dense_and_sparse_rows_have_the_same_scores(blobs):
    problem = blobs(n=80, d=6, sparse=True)
    search = WestonWatkinsClassifierCV(Cs=3, **TIGHT)
    found = [search.fit(X, problem.y).scores_ for X in (problem.X, problem.X.toarray())]
    assert np.array_equal(*found)


@pytest.mark.parametrize("solver", ["walrus_fast", "walrus"])
@pytest.mark.parametrize("X", [np.zeros((3, 2)), np.eye(3), np.pi * np.eye(3)])
def test_an_optimal_first_round_is_the_last(X, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm = WestonWatkinsClassifier(solver=solver, random_state=0).fit(X, [0, 1, 2])
        search = WestonWatkinsClassifierCV(cv=2).fit(np.vstack([X, X]), [0, 1, 2, 0, 1, 2])
    # The rest of the gap is rounding: no ratio of it may count.
    assert svm.gap_ratio_ == 0 and svm.n_iter_ == 1 and search.gap_ratio_ <= 1e-3
    assert svm.trace_.stopped_by.startswith(("gap_ratio <= 0.001", "finished"))


def test_the_search_scores_each_fold_and_refits(searched):
    assert searched.Cs_.tolist() == [2**-6, 2**-5, 2**-4, 2**-3]
    assert searched.scores_.shape == (5, 4)
    means = searched.scores_.mean(axis=0)
    assert searched.C_ == searched.Cs_[means >= means.max() - 1e-12].min()
    refit = WestonWatkinsClassifier(searched.C_, random_state=0).fit(IRIS, SPECIES)
    assert np.array_equal(searched.coef_, refit.coef_) and searched.upper_ == refit.upper_
    assert searched.n_iter_ == refit.n_iter_ and searched.gap_ratio_ == refit.gap_ratio_
    equal = WestonWatkinsClassifierCV([8, 2, 2, 0.5]).fit(
        np.vstack([3 * np.eye(3)] * 6), [0, 1, 2] * 6
    )
    assert equal.Cs_.tolist() == [0.5, 2, 8] and np.all(equal.scores_ == 1) and equal.C_ == 0.5


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_scores_along_the_path_are_those_of_cold_fits(blobs, fit_intercept):
    problem = blobs(n=150, d=6, k=4)
    common = {"gap_ratio": 1e-5, "max_iter": 10_000, "fit_intercept": fit_intercept}
    search = WestonWatkinsClassifierCV([4, 0.1, 0.5], cv=3, **common).fit(problem.X, problem.y)
    assert search.Cs_.tolist() == [0.1, 0.5, 4.0]
    for i, (train, test) in enumerate(StratifiedKFold(3).split(problem.X, problem.y)):
        for C, score in zip(search.Cs_, search.scores_[i], strict=True):
            cold = WestonWatkinsClassifier(C, **common).fit(problem.X[train], problem.y[train])
            expected = cold.score(problem.X[test], problem.y[test])
            assert score == pytest.approx(expected, abs=1.001 / len(test))


def test_scoring_and_splitters_are_scikit_learn_s(searched):
    splits = list(StratifiedKFold(5).split(IRIS, SPECIES))
    for given in (
        {"cv": StratifiedKFold(5)},
        {"cv": splits},
        {"scoring": "accuracy"},
        {"scoring": make_scorer(accuracy_score)},
        {"n_jobs": 2},
    ):
        with parallel_config("threading"):  # processes take seconds to start
            other = clone(searched).set_params(**given).fit(IRIS, SPECIES)
        assert np.array_equal(other.scores_, searched.scores_)
    losses = clone(searched).set_params(scoring="neg_mean_absolute_error").fit(IRIS, SPECIES)
    assert np.all(losses.scores_ <= 0)
    X, y = IRIS[50:], SPECIES[50:]
    areas = WestonWatkinsClassifierCV(Cs=2, scoring="roc_auc").fit(X, y)
    assert np.all(areas.scores_ > 0.7)


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
    X, y = np.vstack([IRIS, [[9.0, -9, 9, -9]]]), [*SPECIES, 7]
    with pytest.warns(UserWarning, match="least populated class"):
        search = WestonWatkinsClassifierCV(Cs=3).fit(X, y)
    assert search.classes_.tolist() == [0, 1, 2, 7] and search.coef_.shape == (4, 4)
