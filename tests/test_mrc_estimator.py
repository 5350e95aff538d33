"""MinimaxRiskClassifier: scikit-learn's contract, its certificate and its two rules."""

import os
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from workbench.core.problem import as_problem
from workbench.core.trace import Trace
from workbench.estimators import MinimaxRiskClassifier
from workbench.estimators.minimax_risk import SOLVER_OF, WIDE
from workbench.mrc.risk import minimax_risk
from workbench.mrc.splitting import WIDEST
from workbench.registry import SOLVERS

IRIS, SPECIES = load_iris(return_X_y=True)


# What it compares to all digits is the same to the gap: test_citizens.py holds it to that.
TO_THE_GAP = {
    f"check_sample_weight_equivalence_on_{kind}_data": "solutions are equal to their gap only"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [MinimaxRiskClassifier(solver=s) for s in ("auto", "pdhg")],
    expected_failed_checks=lambda one: {} if one.solver == "ccg" else TO_THE_GAP,
)
def test_scikit_learn_s_own_checks(estimator, check):
    # Some checks fit a few rows of noise, where no gap is promised.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.fixture(scope="module")
def iris():
    return MinimaxRiskClassifier(gap=1e-5).fit(IRIS, SPECIES)


def test_the_fit_is_certified(iris):
    assert 0 < iris.lower_ <= iris.upper_ <= iris.lower_ + 1e-5
    risk = minimax_risk(as_problem(IRIS, SPECIES))
    M = np.column_stack([iris.coef_, iris.intercept_])
    assert risk.upper(M) == pytest.approx(iris.upper_, abs=1e-9)


@pytest.mark.parametrize("solver", ["interior_point", "pdhg", "ccg", "lp"])
def test_all_solvers_find_the_same_bound(solver, iris):
    gap = 1e-3 if solver == "pdhg" else 1e-5
    other = MinimaxRiskClassifier(solver=solver, gap=gap, eps1=0, eps2=0).fit(IRIS, SPECIES)
    assert other.lower_ - 1e-8 <= iris.upper_ and iris.lower_ <= other.upper_ + 1e-8
    assert other.upper_ - other.lower_ <= gap
    assert other.trace_.header["solver"] == SOLVER_OF[solver]


def test_attributes(iris):
    assert iris.coef_.shape == (3, 4) and iris.intercept_.shape == (3,)
    assert iris.classes_.tolist() == [0, 1, 2] and iris.n_features_in_ == 4
    assert isinstance(iris.trace_, Trace) and iris.trace_.stopped_by == "gap <= 1e-05"
    assert iris.n_iter_ == iris.trace_.last["round"] >= 1
    assert not hasattr(iris, "feature_names_in_")
    assert iris.trace_.header["parameters"]["lambda0"] == 0.01


def test_scores_are_linear_and_phi_is_their_largest_psi(iris):
    scores = IRIS @ iris.coef_.T + iris.intercept_
    np.testing.assert_allclose(iris.decision_function(IRIS), scores, atol=1e-12)
    subsets = (np.arange(1, 8)[:, None] >> np.arange(3)) & 1
    psi = ((scores @ subsets.T - 1) / subsets.sum(axis=1)).max(axis=1)
    assert iris.phi_ == pytest.approx(psi.max(), abs=1e-12)
    assert np.array_equal(iris.predict(IRIS), scores.argmax(axis=1))


def test_probabilities_are_those_of_the_minimax_rule(iris):
    p = iris.predict_proba(IRIS)
    excess = np.maximum(iris.decision_function(IRIS) - iris.phi_, 0)
    assert np.all(excess.sum(axis=1) <= 1 + 1e-9)  # which makes upper_ a bound
    some = excess.sum(axis=1) > 0
    np.testing.assert_allclose(p[some] * excess[some].sum(axis=1, keepdims=True), excess[some])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_probabilities_are_uniform_where_no_score_exceeds_phi(iris):
    unlucky = clone(iris).fit(IRIS, SPECIES)
    unlucky.phi_ = 1e6
    assert np.all(unlucky.predict_proba(IRIS) == 1 / 3)


def test_the_bounds_of_both_rules_hold_on_the_training_rows(blobs):
    for seed in range(8):
        problem = blobs(n=50, d=3, k=2 + seed % 3, seed=seed)
        mrc = MinimaxRiskClassifier(lambda0=0.1).fit(problem.X, problem.y)
        errors = mrc.errors(problem.X, problem.y)
        assert errors["randomised"] <= mrc.upper_ + 1e-9
        assert errors["deterministic"] <= 2 * errors["randomised"] + 1e-9
        assert errors["deterministic"] == pytest.approx(1 - mrc.score(problem.X, problem.y))
        p = mrc.predict_proba(problem.X)
        assert errors["randomised"] == pytest.approx(1 - p[np.arange(50), problem.y].mean())


def test_two_classes_have_one_decision_and_two_rows_of_coefficients():
    X, y = IRIS[50:], np.where(SPECIES[50:] == 1, "versicolor", "virginica")
    mrc = MinimaxRiskClassifier().fit(X, y)
    decision = mrc.decision_function(X)
    assert decision.shape == (100,) and mrc.coef_.shape == (2, 4) and mrc.intercept_.shape == (2,)
    assert np.array_equal(mrc.predict(X), mrc.classes_[(decision > 0).astype(int)])
    assert mrc.predict_proba(X).shape == (100, 2)


def test_dense_and_sparse_rows_give_the_same_bounds(blobs):
    problem = blobs(n=80, d=6, sparse=True)
    fits = [
        MinimaxRiskClassifier(solver="ccg", eps1=0, eps2=0, gap=1e-7).fit(X, problem.y)
        for X in (problem.X, sp.csc_array(problem.X), problem.X.toarray())
    ]
    for other in fits[1:]:
        assert other.upper_ == pytest.approx(fits[0].upper_, abs=2e-7)
    p = fits[0].predict_proba(problem.X)
    np.testing.assert_allclose(fits[0].predict_proba(problem.X.toarray()), p, atol=1e-12)


def test_sparse_rows_whose_first_columns_are_empty(blobs):
    problem = blobs(n=80, d=6, sparse=True)
    X = sp.hstack([sp.csr_matrix((80, 20)), problem.X], format="csr")
    mrc = MinimaxRiskClassifier(gap=0.05).fit(X, problem.y)
    assert mrc.upper_ - mrc.lower_ <= 0.05 and not mrc.coef_[:, :20].any()


def test_a_feature_absent_from_a_class_has_no_coefficient_there(blobs):
    problem = blobs(n=60, d=3)
    X = problem.X.copy()
    X[problem.y == 1, 0] = 0
    mrc = MinimaxRiskClassifier().fit(X, problem.y)
    assert mrc.coef_[1, 0] == 0 and mrc.coef_[0, 0] != 0
    assert mrc.errors(X, problem.y)["randomised"] <= mrc.upper_ + 1e-9


def test_auto_chooses_by_sparsity_and_size(blobs):
    choose = MinimaxRiskClassifier()._solver_for
    assert choose(blobs()) == "mrc_interior_point"
    assert choose(blobs(sparse=True)) == "mrc_pdhg"
    assert choose(blobs(n=4, k=2, d=WIDEST + 1)) == "mrc_pdhg"
    assert choose(blobs(n=8, k=4, d=WIDE // 4)) == "mrc_splitting"


def test_no_convergence_is_warned_of_and_says_what_to_do():
    noisy = {"gap": 1e-9, "solver": "ccg"}
    with pytest.warns(ConvergenceWarning, match=r"finished.*above 1e-09: lower eps1 and eps2"):
        MinimaxRiskClassifier(**noisy).fit(IRIS, SPECIES)
    with pytest.warns(ConvergenceWarning, match=r"1 rounds.*raise max_iter"):
        mrc = MinimaxRiskClassifier(max_iter=1).fit(IRIS, SPECIES)
    assert mrc.n_iter_ == 1 and mrc.lower_ < mrc.upper_ <= 2 / 3
    with pytest.warns(ConvergenceWarning, match="1e-06 seconds"):
        MinimaxRiskClassifier(max_seconds=1e-6).fit(IRIS, SPECIES)


def test_convergence_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MinimaxRiskClassifier().fit(IRIS, SPECIES)


def test_time_limits_reach_inside_the_linear_program(blobs):
    problem = blobs(n=2000, d=30, k=10)
    with pytest.warns(ConvergenceWarning):
        mrc = MinimaxRiskClassifier(solver="lp", max_seconds=0.05).fit(problem.X, problem.y)
    assert mrc.n_iter_ == 0 and mrc.upper_ == pytest.approx(0.9) and not mrc.coef_.any()


def test_ctrl_c_keeps_the_last_iterate(monkeypatch):
    steps = SOLVERS["mrc_ccg"].steps

    def interrupted(problem, *, lambda0=0.01, eps1=0, eps2=0, n_max=400, m_max=400, state=None):
        for s in steps(problem, lambda0=lambda0, eps1=0, eps2=0, n_max=5):
            if s.round == at and not problem.name.endswith("(tiny)"):
                signal.raise_signal(signal.SIGINT)
            yield s

    monkeypatch.setitem(SOLVERS, "mrc_ccg", SOLVERS["mrc_ccg"]._replace(steps=interrupted))
    at = 3
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        mrc = MinimaxRiskClassifier(solver="ccg", gap=0).fit(IRIS, SPECIES)
    assert mrc.n_iter_ == 2 and mrc.trace_.stopped_by == "interrupted"
    assert mrc.lower_ <= mrc.upper_ and mrc.predict(IRIS).shape == (150,)
    at = 0  # nothing is there to keep
    with pytest.raises(KeyboardInterrupt):
        MinimaxRiskClassifier(solver="ccg").fit(IRIS, SPECIES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lambda0", 0),
        ("lambda0", -0.1),
        ("lambda0", np.inf),
        ("lambda0", "0.1"),
        ("gap", -1e-3),
        ("gap", np.nan),
        ("eps1", -1),
        ("eps2", None),
        ("n_max", 0),
        ("m_max", 2.5),
        ("max_iter", 0),
        ("max_seconds", 0),
        ("solver", "simplex"),
    ],
)
def test_parameters_outside_their_range_are_refused_at_fit(name, value):
    mrc = MinimaxRiskClassifier(**{name: value})
    with pytest.raises(ValueError, match=f"^{name}: .*{value!r}"):
        mrc.fit(IRIS, SPECIES)


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="lambda_0"):
        MinimaxRiskClassifier(lambda_0=0.1)
    with pytest.raises(TypeError):
        MinimaxRiskClassifier(random_state=0)  # every solver is deterministic
    with pytest.raises(ValueError, match="Invalid parameter"):
        MinimaxRiskClassifier().set_params(lambda_0=0.1)


def spoilt(value):
    X = IRIS.copy()
    X[3, 2] = value
    return X


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
def test_bad_rows_and_labels_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        MinimaxRiskClassifier().fit(X, y)


def test_empty_classes_are_refused():
    # A problem with fewer rows than classes always has one.
    with pytest.raises(ValueError, match=r"classes: \[3\] have no training row"):
        as_problem(IRIS, SPECIES, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="have no training row"):
        as_problem(IRIS[:3], [0, 1, 2], classes=range(5))


def test_unfitted_and_mismatched_use_is_refused(iris):
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(MinimaxRiskClassifier(), method)(IRIS)
        with pytest.raises(ValueError, match="expecting 4 features"):
            getattr(iris, method)(IRIS[:, :3])


def test_two_hundred_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(200), 2)
    X = rng.normal(size=(200, 5))[y] + 0.1 * rng.normal(size=(400, 5))
    mrc = MinimaxRiskClassifier(gap=0.95).fit(X, y)
    assert mrc.predict_proba(X).shape == (400, 200)
    assert mrc.errors(X, y)["randomised"] <= mrc.upper_ <= 1 - 1 / 200


def test_names_of_features_are_kept_and_checked():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    mrc = MinimaxRiskClassifier().fit(frame, SPECIES)
    assert mrc.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        mrc.predict(frame[list("dcba")])


def test_it_works_in_pipelines_and_searches_and_pickles(iris):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MinimaxRiskClassifier(gap=0.01)),
        {"minimaxriskclassifier__lambda0": [0.01, 0.1, 0.3]},
        cv=3,
    ).fit(IRIS, SPECIES)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() > 2 / 3
    again = pickle.loads(pickle.dumps(iris))
    assert np.array_equal(again.predict_proba(IRIS), iris.predict_proba(IRIS))


def test_a_fit_is_repeatable_and_leaves_no_file(iris, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    again = clone(iris).fit(IRIS, SPECIES)
    assert np.array_equal(again.coef_, iris.coef_) and again.phi_ == iris.phi_
    assert os.listdir(tmp_path) == []
