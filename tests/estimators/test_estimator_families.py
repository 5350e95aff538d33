"""Single families of estimators: closed forms, bounds, rules, kernels, sizes."""

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import each, module_fixture, oracles, single_or_double, sparse_or_not
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from workbench import (
    GeneralizedLeastSquares,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    WestonWatkinsClassifier,
    WorkingSetClassifier,
    as_problem,
)
from workbench.data.features import tfidf
from workbench.data.text import zipf_text
from workbench.estimators import classifiers as module
from workbench.estimators.classifiers import WIDE
from workbench.least_squares.links import LINKS
from workbench.memoir.mips import oracle
from workbench.mrc.risk import minimax_risk
from workbench.mrc.splitting import WIDEST

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
TEXT = tfidf(zipf_text(600, 40, 0, n_test=200))
BASES = "linear_time constant_time exact nystroem".split()
SMALL = {"r": 60, "random_state": 0}


@module_fixture
def risky():
    return MinimaxRiskClassifier(tol=1e-5).fit(IRIS, SPECIES)


@each("solver", "interior_point pdhg ccg ccg_fast lp splitting".split())
@each("lambda0", [0.01, 0.3])
def test_every_solver_reaches_the_tolerance_and_one_bound(solver, lambda0, risky):
    other = MinimaxRiskClassifier(lambda0, solver=solver).fit(IRIS, SPECIES)
    assert other.trace_.header["solver"] == f"mrc_{solver}" and 0 <= other.gap_ <= 1e-3
    if lambda0 == 0.01:
        assert other.lower_ - 1e-8 <= risky.upper_
        assert risky.lower_ <= other.upper_ + 1e-8
    wrong = 1 - other.predict_proba(IRIS)[np.arange(150), SPECIES].mean()
    assert wrong <= other.upper_ + 1e-9  # the training rows' distribution is in the set
    assert 1 - other.score(IRIS, SPECIES) <= 2 * wrong + 1e-9


def test_probabilities_are_those_of_the_minimax_rule(risky):
    scores = IRIS @ risky.coef_.T + risky.intercept_
    subsets = (np.arange(1, 8)[:, None] >> np.arange(3)) & 1
    psi = ((scores @ subsets.T - 1) / subsets.sum(axis=1)).max(axis=1)
    risk = minimax_risk(as_problem(IRIS, SPECIES))
    M = np.column_stack([risky.coef_, risky.intercept_])
    assert risk.upper(M) == approx(risky.upper_, abs=1e-9)
    assert risky.phi_ == approx(psi.max(), abs=1e-12)
    p = risky.predict_proba(IRIS)
    excess = np.maximum(risky.decision_function(IRIS) - risky.phi_, 0)
    assert np.all(excess.sum(axis=1) <= 1 + 1e-9)  # which makes upper_ a bound
    some = excess.sum(axis=1) > 0
    assert_allclose(p[some] * excess[some].sum(axis=1, keepdims=True), excess[some])
    assert_allclose(p.sum(axis=1), 1.0)
    unlucky = clone(risky).fit(IRIS, SPECIES)
    unlucky.phi_ = 1e6  # which no score exceeds
    assert np.all(unlucky.predict_proba(IRIS) == 1 / 3)


def test_auto_chooses_by_sparsity_and_size(blobs):
    choose = MinimaxRiskClassifier().solver_for
    assert choose(blobs()) == "mrc_interior_point"
    assert choose(blobs(sparse=True)) == "mrc_pdhg"
    assert choose(blobs(n=4, k=2, d=WIDEST + 1)) == "mrc_pdhg"
    assert choose(blobs(n=8, k=4, d=WIDE // 4)) == "mrc_splitting"


@sparse_or_not
@single_or_double
@each("kind", [WestonWatkinsClassifier, WorkingSetClassifier])
def test_the_intercept_is_the_coefficient_of_a_column_of_ones(
    blobs, sparse, dtype, kind
):
    X = (problem := blobs(sparse=sparse, dtype=dtype)).X
    y = problem.y
    stack = sp.hstack if sparse else np.hstack
    appended = stack([X, np.ones((60, 1), dtype=dtype)])
    svm = kind(random_state=0).fit(X, y)
    other = kind(fit_intercept=False, random_state=0).fit(appended, y)
    coef, expected = (sp.csr_matrix(one.coef_).toarray() for one in (svm, other))
    assert_array_equal(np.column_stack([coef, svm.intercept_]), expected)
    assert svm.intercept_.any() and not other.intercept_.any()
    assert svm.upper_ == other.upper_
    assert svm.n_features_in_ == 4
    svm.set_params(fit_intercept=False)  # for the next fit
    expected = other.decision_function(appended)
    assert_allclose(svm.decision_function(X), expected, rtol=1e-5, atol=1e-6)
    assert_array_equal(svm.predict(X), other.predict(appended))


@each("solver", ["walrus_fast", "walrus"])
@each("X", [np.eye(3), np.pi * np.eye(3)])
def test_an_optimal_first_round_is_the_last(X, solver):
    svm = WestonWatkinsClassifier(solver=solver, fit_intercept=False, random_state=0)
    svm.fit(X, [0, 1, 2])
    assert 0 <= svm.gap_ <= 1e-12 * svm.upper_ and svm.n_iter_ == 1
    assert svm.trace_.stopped_by.startswith(("relative gap <= 0.001", "finished"))


def test_working_sets_take_sparse_and_dense_rows():
    fitted = WorkingSetClassifier(random_state=0).fit(TEXT.X, TEXT.y)
    assert fitted.score(TEXT.X_test, TEXT.y_test) > 0.5
    dense = clone(fitted).fit(TEXT.X.toarray(), TEXT.y)
    assert isinstance(dense.coef_, np.ndarray)
    assert_allclose(dense.coef_, fitted.coef_.toarray(), atol=1e-3)
    whole, thresholded, cut = (
        WorkingSetClassifier(l1=l1, truncate=truncate, random_state=0).fit(
            TEXT.X, TEXT.y
        )
        for l1, truncate in ((0.0, 0.0), (0.05, 0.0), (0.0, 0.5))
    )
    assert max(thresholded.coef_.nnz, cut.coef_.nnz) < 0.7 * whole.coef_.nnz
    assert cut.upper_ == whole.upper_
    # A list may be longer than there are classes.
    long = WorkingSetClassifier(working_set=255).fit(TEXT.X, TEXT.y < 20)
    assert long.score(TEXT.X, TEXT.y < 20) > 0.9


@pytest.fixture(scope="module", params=BASES)
def cuts(request):
    return SampledCutClassifier(basis=request.param, **SMALL).fit(IRIS, SPECIES)


def cuts_objective(svm, X, y):
    """Return the objective of the function that predicts, in double precision."""
    K = rbf_kernel(svm.support_vectors_, gamma=svm.gamma_)
    norm = np.vdot(svm.dual_coef_, svm.dual_coef_ @ K)
    F = svm.decision_function(X)
    Y = np.equal.outer(y, svm.classes_)
    loss = oracles.crammer_singer
    if len(svm.classes_) == 2:
        loss = oracles.hinge
        F = np.outer(F, [0, 1])
    return 0.5 * norm + svm.C * loss(F, 1.0 * Y).value.sum()


def test_a_kernel_model_is_its_expansion(cuts):
    K = rbf_kernel(IRIS, cuts.support_vectors_, gamma=cuts.gamma_)
    decision = cuts.decision_function(IRIS)
    assert_allclose(decision, K @ cuts.dual_coef_.T, atol=1e-9)
    assert cuts.gamma_ == approx(1 / (4 * IRIS.var()))
    later = copy(cuts).set_params(kernel="linear")  # for the next fit
    assert_array_equal(later.decision_function(IRIS), decision)
    m = len(cuts.support_)
    assert 0 < m <= 150 and np.all(np.diff(cuts.support_) > 0)
    assert_array_equal(cuts.support_vectors_, IRIS[cuts.support_])
    assert cuts.dual_coef_.shape == (3, m) and (cuts.basis != "nystroem" or m == 60)
    assert_allclose(cuts.dual_coef_.sum(axis=0), 0, atol=1e-6)


def test_bounds_of_a_kernel_model_are_those_of_its_objective(cuts):
    value = cuts_objective(cuts, IRIS, SPECIES)
    tight = SampledCutClassifier(basis="exact", tol=1e-6, max_iter=10_000)
    optimum = tight.fit(IRIS, SPECIES).upper_
    assert optimum * (1 - 1e-5) <= value < 1.3 * optimum
    assert np.isnan(cuts.upper_) == (cuts.basis == "constant_time")
    if cuts.basis != "constant_time":
        assert cuts.upper_ == approx(value, rel=1e-5)
    if cuts.basis == "exact":
        assert cuts.gap_ == cuts.upper_ - cuts.lower_ <= 150 * 5e-3
        assert cuts.lower_ <= optimum
    else:
        assert np.isnan(cuts.lower_) and np.isnan(cuts.gap_)


def test_a_kernel_model_of_two_classes_has_one_coefficient_row(cuts):
    X = IRIS[50:]
    y = SPECIES[50:]
    svm = clone(cuts).fit(X, y)
    assert svm.dual_coef_.shape == (1, len(svm.support_)) and svm.score(X, y) > 0.9
    if cuts.basis != "constant_time":
        assert svm.upper_ == approx(cuts_objective(svm, X, y), rel=1e-5)


@each("link", LINKS)
def test_probabilities_are_those_of_the_link(link):
    model = GeneralizedLeastSquares(link, alpha=1e-2, tol=1e-12, max_iter=10_000)
    model.fit(IRIS, SPECIES)
    assert model.gap_ <= 1e-12
    if link in ("identity", "squared_hinge"):
        with pytest.raises(AttributeError) as caught:
            model.predict_proba(IRIS)
        assert f"link='{link}' has no probabilities" in str(caught.value.__cause__)
        return
    P = model.predict_proba(IRIS)
    expected = np.exp(model.decision_function(IRIS))
    assert_allclose(P, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
    # The same model as scikit-learn's, with the intercept penalised.
    peer = LogisticRegression(C=1 / 1.5, fit_intercept=False, tol=1e-10, max_iter=10**4)
    peer.fit(np.column_stack([IRIS, np.ones(150)]), SPECIES)
    found = np.column_stack([model.coef_, model.intercept_])
    assert_allclose(found - found.mean(axis=0), peer.coef_, atol=1e-4)


def test_prediction_holds_few_scores(monkeypatch):
    model = WorkingSetClassifier(random_state=0).fit(TEXT.X, TEXT.y)
    scores = model.decision_function(TEXT.X_test)
    assert_array_equal(model.predict(TEXT.X_test), scores.argmax(axis=1))
    assert model.score(TEXT.X_test, TEXT.y_test) > 0.5
    dense = TEXT.X_test.toarray()
    monkeypatch.setattr(oracle, "BLOCK_BYTES", 4 * TEXT.d * 7)
    monkeypatch.setattr(module, "scores", None)  # all scores are never asked for
    assert_array_equal(model.predict(dense), scores.argmax(axis=1))
