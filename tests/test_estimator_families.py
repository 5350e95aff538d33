"""Single families of estimators: closed forms, bounds, rules, kernels, sizes."""

import pickle
import warnings
from functools import wraps
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.data.features import tfidf
from workbench.data.text import zipf_text
from workbench.estimators import (
    CalibratedLeastSquares,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    StagewiseLeastSquares,
    WestonWatkinsClassifier,
    WorkingSetClassifier,
)
from workbench.estimators import classifiers as module
from workbench.estimators.classifiers import WIDE
from workbench.memoir.mips import oracle
from workbench.mrc.risk import minimax_risk
from workbench.mrc.splitting import WIDEST
from workbench.registry import SOLVERS
from workbench.runs.run import run

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
TEXT = tfidf(zipf_text(600, 40, 0, n_test=200, words=30, own=0.3))
BASES = ["linear_time", "constant_time", "exact", "nystroem"]
SMALL = {"r": 60, "random_state": 0}
STAGES = {"n_features": 60, "block": 25, "alpha": 1e-3, "random_state": 0}


@pytest.fixture(scope="module")
def risky():
    return MinimaxRiskClassifier(tol=1e-5).fit(IRIS, SPECIES)


@pytest.mark.parametrize("solver", ["interior_point", "pdhg", "ccg", "lp", "splitting"])
@pytest.mark.parametrize("lambda0", [0.01, 0.3])
def test_every_solver_reaches_the_default_tolerance_and_the_same_bound(solver, lambda0, risky):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = MinimaxRiskClassifier(lambda0, solver=solver).fit(IRIS, SPECIES)
    assert other.trace_.header["solver"] == f"mrc_{solver}" and 0 <= other.gap_ <= 1e-3
    if lambda0 == 0.01:
        assert other.lower_ - 1e-8 <= risky.upper_ and risky.lower_ <= other.upper_ + 1e-8
    wrong = 1 - other.predict_proba(IRIS)[np.arange(150), SPECIES].mean()
    assert wrong <= other.upper_ + 1e-9  # the training rows' distribution is in the set
    assert 1 - other.score(IRIS, SPECIES) <= 2 * wrong + 1e-9


def test_the_risk_is_certified_and_phi_is_the_largest_psi_of_scores(risky):
    scores = IRIS @ risky.coef_.T + risky.intercept_
    subsets = (np.arange(1, 8)[:, None] >> np.arange(3)) & 1
    psi = ((scores @ subsets.T - 1) / subsets.sum(axis=1)).max(axis=1)
    risk = minimax_risk(as_problem(IRIS, SPECIES))
    M = np.column_stack([risky.coef_, risky.intercept_])
    assert risk.upper(M) == pytest.approx(risky.upper_, abs=1e-9)
    assert risky.phi_ == pytest.approx(psi.max(), abs=1e-12)


def test_probabilities_are_those_of_the_minimax_rule(risky):
    p = risky.predict_proba(IRIS)
    excess = np.maximum(risky.decision_function(IRIS) - risky.phi_, 0)
    assert np.all(excess.sum(axis=1) <= 1 + 1e-9)  # which makes upper_ a bound
    some = excess.sum(axis=1) > 0
    np.testing.assert_allclose(p[some] * excess[some].sum(axis=1, keepdims=True), excess[some])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    unlucky = clone(risky).fit(IRIS, SPECIES)
    unlucky.phi_ = 1e6  # which no score exceeds
    assert np.all(unlucky.predict_proba(IRIS) == 1 / 3)


def test_a_feature_absent_from_a_class_has_no_coefficient_there(blobs):
    problem = blobs(n=60, d=3)
    X = problem.X.copy()
    X[problem.y == 1, 0] = 0
    mrc = MinimaxRiskClassifier().fit(X, problem.y)
    assert mrc.coef_[1, 0] == 0 and mrc.coef_[0, 0] != 0


def test_auto_chooses_by_sparsity_and_size(blobs):
    choose = MinimaxRiskClassifier()._solver_for
    assert choose(blobs()) == "mrc_interior_point"
    assert choose(blobs(sparse=True)) == "mrc_pdhg"
    assert choose(blobs(n=4, k=2, d=WIDEST + 1)) == "mrc_pdhg"
    assert choose(blobs(n=8, k=4, d=WIDE // 4)) == "mrc_splitting"


def test_time_limits_reach_inside_the_linear_program(blobs):
    problem = blobs(n=100, d=10, k=8)
    with pytest.warns(ConvergenceWarning):
        mrc = MinimaxRiskClassifier(solver="lp", max_seconds=0.05).fit(problem.X, problem.y)
    assert mrc.n_iter_ == 0 and mrc.upper_ == pytest.approx(0.875) and not mrc.coef_.any()


def ww_objective(svm, X, y, C):
    """Return the objective at fitted coefficients, with the intercepts as coefficients."""
    own = np.searchsorted(svm.classes_, y)
    scores = X @ svm.coef_.T + svm.intercept_
    z = 1 - scores[np.arange(len(own)), own][:, None] + scores
    hinges = np.maximum(z, 0).sum() - len(own)
    return 0.5 * ((svm.coef_**2).sum() + (svm.intercept_**2).sum()) + C * hinges


def test_bounds_and_gap_ratio_are_those_of_the_coefficients():
    iris = WestonWatkinsClassifier(tol=1e-8, max_iter=100_000, random_state=0)
    iris.fit(IRIS, SPECIES)
    assert iris.intercept_.tolist() == [0, 0, 0]
    np.testing.assert_allclose(iris.coef_.sum(axis=0), 0, atol=1e-12)
    assert iris.trace_.stopped_by == "gap_ratio <= 1e-08"
    assert iris.trace_.header["parameters"] == {"C": 1.0, "seed": 0}
    assert iris.upper_ == pytest.approx(ww_objective(iris, IRIS, SPECIES, 1.0), rel=1e-12)
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
    assert svm.upper_ == pytest.approx(ww_objective(svm, X, y, 1.0))


@pytest.mark.parametrize("solver", ["walrus_fast", "walrus"])
@pytest.mark.parametrize("X", [np.zeros((3, 2)), np.eye(3), np.pi * np.eye(3)])
def test_an_optimal_first_round_is_the_last(X, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm = WestonWatkinsClassifier(solver=solver, random_state=0).fit(X, [0, 1, 2])
    # The rest of the gap is rounding: no ratio of it may count.
    assert svm.gap_ratio_ == 0 and svm.n_iter_ == 1
    assert svm.trace_.stopped_by.startswith(("gap_ratio <= 0.001", "finished"))


def test_working_sets_take_sparse_and_dense_rows():
    fitted = WorkingSetClassifier(random_state=0).fit(TEXT.X, TEXT.y)
    _, state = run("cs_working_set", as_problem(TEXT.X, TEXT.y), rounds(3))
    assert (fitted.coef_ != state.model(0.25).T.tocsr()).nnz == 0
    assert (fitted.lower_, fitted.upper_) == (state.lower, state.primal)
    assert fitted.n_iter_ == 3 and fitted.score(TEXT.X_test, TEXT.y_test) > 0.5
    dense = clone(fitted).fit(TEXT.X.toarray(), TEXT.y)
    assert isinstance(dense.coef_, np.ndarray)
    np.testing.assert_allclose(dense.coef_, fitted.coef_.toarray(), atol=1e-3)
    tight = WorkingSetClassifier(tol=0.3, max_iter=50).fit(TEXT.X, TEXT.y)
    assert tight.n_iter_ < 50 and tight.trace_.stopped_by == "gap <= 0.3 of primal"
    whole, thresholded, cut = (
        WorkingSetClassifier(l1=l1, truncate=truncate, random_state=0).fit(TEXT.X, TEXT.y)
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
    V = svm.support_vectors_
    norm = np.vdot(svm.dual_coef_, svm.dual_coef_ @ rbf_kernel(V, gamma=svm.gamma_))
    F = rbf_kernel(X, V, gamma=svm.gamma_) @ svm.dual_coef_.T
    y = np.searchsorted(svm.classes_, y)
    if len(svm.classes_) == 2:
        return 0.5 * norm + svm.C * np.maximum(0, 1 - np.where(y, 1, -1) * F[:, 0]).sum()
    rows = np.arange(len(y))
    z = 1 - F[rows, y][:, None] + F
    z[rows, y] = 0
    return 0.5 * norm + svm.C * z.max(axis=1).sum()


def test_the_model_is_its_expansion_and_its_bounds_are_those_of_its_objective(cuts):
    m = len(cuts.support_)
    assert 0 < m <= 150 and np.all(np.diff(cuts.support_) > 0)
    assert np.array_equal(cuts.support_vectors_, IRIS[cuts.support_])
    assert cuts.dual_coef_.shape == (3, m) and (cuts.basis != "nystroem" or m == 60)
    np.testing.assert_allclose(cuts.dual_coef_.sum(axis=0), 0, atol=1e-6)
    K = rbf_kernel(IRIS, cuts.support_vectors_, gamma=cuts.gamma_)
    decision = cuts.decision_function(IRIS)
    np.testing.assert_allclose(decision, K @ cuts.dual_coef_.T, atol=1e-9)
    assert cuts.score(IRIS, SPECIES) > 0.93
    assert cuts.gamma_ == pytest.approx(1 / (4 * IRIS.var()))
    loaded = pickle.loads(pickle.dumps(cuts))
    loaded.set_params(kernel="linear", gamma=3.0)  # for the next fit
    assert np.array_equal(loaded.decision_function(IRIS), decision)
    value = cuts_objective(cuts, IRIS, SPECIES)
    tight = {"basis": "exact", "tol": 1e-6, "max_iter": 10_000}
    optimum = SampledCutClassifier(**tight).fit(IRIS, SPECIES).upper_
    assert optimum * (1 - 1e-5) <= value < 1.3 * optimum
    assert np.isnan(cuts.upper_) == (cuts.basis == "constant_time")
    if cuts.basis != "constant_time":
        assert cuts.upper_ == pytest.approx(value, rel=1e-5)
    if cuts.basis == "exact":
        assert cuts.gap_ == cuts.upper_ - cuts.lower_ <= 150 * 5e-3
        assert cuts.lower_ <= optimum
    else:
        assert np.isnan(cuts.lower_) and np.isnan(cuts.gap_)
    X, y = IRIS[50:], SPECIES[50:]  # two classes have one row of coefficients
    svm = clone(cuts).fit(X, y)
    assert svm.dual_coef_.shape == (1, len(svm.support_)) and svm.score(X, y) > 0.9
    if cuts.basis != "constant_time":
        assert svm.upper_ == pytest.approx(cuts_objective(svm, X, y), rel=1e-5)


@pytest.mark.parametrize("basis", BASES)
def test_a_stream_that_ends_with_a_gap_is_warned_of_where_it_is_certified(monkeypatch, basis):
    entry = SOLVERS[f"cuts_{basis}"]

    @wraps(entry.steps)
    def stalled(problem, **parameters):
        return islice(entry.steps(problem, **parameters), 3)

    monkeypatch.setitem(SOLVERS, f"cuts_{basis}", entry._replace(steps=stalled))
    with warnings.catch_warnings(record=True) as caught:
        svm = SampledCutClassifier(basis=basis, **SMALL).fit(IRIS, SPECIES)
    assert svm.n_iter_ == 2 and len(caught) == (basis in ("exact", "nystroem"))
    assert all("stopped (finished) after 2 rounds" in str(w.message) for w in caught)


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def indicators(y):
    return (y[:, None] == np.unique(y)).astype(float)


def ls_objective(model, X, Y, loss):
    """Return the objective of Algorithm 1 at fitted coefficients, with their intercepts."""
    penalty = (model.coef_**2).sum() + (model.intercept_**2).sum()
    return loss(X @ model.coef_.T + model.intercept_, Y).mean() + model.alpha / 2 * penalty


LOSSES = {
    "identity": lambda u, y: 0.5 * ((u - y) ** 2).sum(axis=1),
    "softmax": lambda u, y: np.log(np.exp(u).sum(axis=1)) - (y * u).sum(axis=1),
    "sigmoid": lambda u, y: (np.log1p(np.exp(u)) - y * u).sum(axis=1),
    "squared_hinge": lambda u, y: (np.maximum(0, 1 - (2 * y - 1) * u) ** 2).sum(axis=1),
}


ALPHA = 1e-2
TIGHT = {"alpha": ALPHA, "tol": 1e-12, "max_iter": 10_000}


@pytest.mark.parametrize("link", LOSSES)
def test_links_are_the_models_of_scikit_learn(link):
    X, y, Y = IRIS, SPECIES, indicators(SPECIES)
    model = GeneralizedLeastSquares(link, **TIGHT).fit(X, y)
    C, weight = 1 / (len(X) * ALPHA), len(X) * ALPHA
    peer = {
        "identity": Ridge(weight, fit_intercept=False),
        "softmax": LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10**4),
        "sigmoid": LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10**4),
        "squared_hinge": LinearSVC(C=C, fit_intercept=False, tol=1e-10, dual=False),
    }[link]
    ones = np.column_stack([X, np.ones(len(X))])
    targets = [y] if link == "softmax" else Y.T
    W = np.vstack([clone(peer).fit(ones, target).coef_ for target in targets])
    found = np.column_stack([model.coef_, model.intercept_])
    if link == "softmax":  # which does not change with the mean of the weights
        found, W = found - found.mean(axis=0), W - W.mean(axis=0)
    np.testing.assert_allclose(found, W, atol=1e-4)
    assert model.gap_ == model.upper_ - model.lower_ <= 1e-12
    assert ls_objective(model, X, Y, LOSSES[link]) == pytest.approx(model.upper_, rel=1e-12)
    if link in ("identity", "squared_hinge"):
        with pytest.raises(AttributeError) as caught:
            model.predict_proba(X)
        assert f"link='{link}' has no probabilities" in str(caught.value.__cause__)
    if link == "sigmoid":
        P = expit(model.decision_function(X))
        expected = P / P.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)


def test_calibrated_predictions_are_those_of_training():
    model = CalibratedLeastSquares(max_iter=5).fit(IRIS, SPECIES)
    assert model.coef_.shape == (5, 5, 3) and model.calibration_.shape == (5, 9, 3)
    error = ((model.predict_proba(IRIS) - indicators(SPECIES)) ** 2).sum(axis=1).mean()
    assert error == pytest.approx(model.squared_error_) == model.trace_.last["squared_error"]
    assert np.all(np.diff([row["squared_error"] for row in model.trace_.rows]) <= 1e-9)


@pytest.mark.parametrize("X", [np.full((20, 3), 7.1), sp.csr_matrix((20, 3)), np.ones((20, 1))])
def test_rows_that_are_all_equal_get_the_most_frequent_label(X):
    model = StagewiseLeastSquares(**STAGES)
    model.fit(X, ["a"] * 12 + ["b"] * 8)
    assert model.generator_.s == 1 and set(model.predict(X)) == {"a"}
    np.testing.assert_allclose(model.predict_proba(X)[:, 0], 0.6, atol=0.05)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_features": 400, "block": 1000},  # more of them than rows
        {"features": "nystroem", "n_features": 30, "block": 12},
        {"features": "poly2", "link": "sigmoid"},
        {"bandwidth": np.float32(0.5), "n_features": np.int64(40), "max_iter": 1},
    ],
)
def test_parameters_of_stages(parameters):
    model = StagewiseLeastSquares(**STAGES | parameters).fit(IRIS, SPECIES)
    assert model.score(IRIS, SPECIES) > 0.95
    assert model.n_iter_ == model.generator_.blocks * model.max_iter
    assert all(np.shape(value)[:1] != (150,) for value in vars(model).values())  # no rows are kept


def test_features_that_are_not_finite_are_refused():
    X = IRIS.copy()
    X[0] = 1e15
    model = StagewiseLeastSquares("poly4", **STAGES)
    with pytest.raises(ValueError, match=r"^features: block 0 of 'poly4' is not finite"):
        model.fit(X, SPECIES)
    model.fit(IRIS, SPECIES)
    for rows in (X, X[:1]):
        with pytest.raises(ValueError, match=r"^X: the scores of some rows are not finite"):
            model.predict(rows)


def test_prediction_holds_few_scores(monkeypatch):
    averaged = MemoirClassifier(random_state=0).fit(TEXT.X, TEXT.y)
    scores = averaged.decision_function(TEXT.X_test)
    assert (averaged.predict(TEXT.X_test) == scores.argmax(axis=1)).all()
    assert averaged.trace_.stopped_by == "5 rounds"
    assert averaged.score(TEXT.X_test, TEXT.y_test) > 0.5
    dense = TEXT.X_test.toarray()
    monkeypatch.setattr(oracle, "BLOCK_BYTES", 4 * TEXT.d * 7)
    monkeypatch.setattr(module, "scores", None)  # all scores are never asked for
    assert (averaged.predict(dense) == scores.argmax(axis=1)).all()


@pytest.mark.parametrize("model", [MemoirClassifier(random_state=0), WorkingSetClassifier()])
def test_empty_documents_and_constant_features(model):
    X = sp.csr_matrix(sp.hstack([TEXT.X, np.ones((600, 1)), sp.csr_matrix((600, 1))]))
    X = sp.csr_matrix(sp.vstack([X, sp.csr_matrix((40, X.shape[1]))]))
    model = clone(model).fit(X, np.concatenate([TEXT.y, np.arange(40)]))
    assert np.isfinite(model.coef_.data).all() and model.coef_[:, [-1]].nnz == 0
    assert set(model.predict(sp.csr_matrix((3, X.shape[1])))) == {0}
