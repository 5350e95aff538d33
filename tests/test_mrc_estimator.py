"""MinimaxRiskClassifier: its certificate and its two rules."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from workbench.core.problem import as_problem
from workbench.estimators import MinimaxRiskClassifier
from workbench.estimators.minimax_risk import SOLVER_OF, WIDE
from workbench.mrc.risk import minimax_risk
from workbench.mrc.splitting import WIDEST

IRIS, SPECIES = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def iris():
    return MinimaxRiskClassifier(gap=1e-5).fit(IRIS, SPECIES)


@pytest.mark.parametrize("solver", ["interior_point", "pdhg", "ccg", "lp"])
def test_all_solvers_find_the_same_bound(solver, iris):
    gap = 1e-3 if solver == "pdhg" else 1e-5
    other = MinimaxRiskClassifier(solver=solver, gap=gap, eps1=0, eps2=0).fit(IRIS, SPECIES)
    assert other.lower_ - 1e-8 <= iris.upper_ and iris.lower_ <= other.upper_ + 1e-8
    assert other.upper_ - other.lower_ <= gap
    assert other.trace_.header["solver"] == SOLVER_OF[solver]


def test_the_risk_is_certified_and_phi_is_the_largest_psi_of_scores(iris):
    scores = IRIS @ iris.coef_.T + iris.intercept_
    subsets = (np.arange(1, 8)[:, None] >> np.arange(3)) & 1
    psi = ((scores @ subsets.T - 1) / subsets.sum(axis=1)).max(axis=1)
    risk = minimax_risk(as_problem(IRIS, SPECIES))
    M = np.column_stack([iris.coef_, iris.intercept_])
    assert risk.upper(M) == pytest.approx(iris.upper_, abs=1e-9)
    assert iris.phi_ == pytest.approx(psi.max(), abs=1e-12)


def test_probabilities_are_those_of_the_minimax_rule(iris):
    p = iris.predict_proba(IRIS)
    excess = np.maximum(iris.decision_function(IRIS) - iris.phi_, 0)
    assert np.all(excess.sum(axis=1) <= 1 + 1e-9)  # which makes upper_ a bound
    some = excess.sum(axis=1) > 0
    np.testing.assert_allclose(p[some] * excess[some].sum(axis=1, keepdims=True), excess[some])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    unlucky = clone(iris).fit(IRIS, SPECIES)
    unlucky.phi_ = 1e6  # which no score exceeds
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


def test_time_limits_reach_inside_the_linear_program(blobs):
    problem = blobs(n=100, d=10, k=8)
    with pytest.warns(ConvergenceWarning):
        mrc = MinimaxRiskClassifier(solver="lp", max_seconds=0.05).fit(problem.X, problem.y)
    assert mrc.n_iter_ == 0 and mrc.upper_ == pytest.approx(0.875) and not mrc.coef_.any()


def test_a_gap_that_stays_is_warned_of():
    noisy = MinimaxRiskClassifier(solver="ccg", gap=1e-9)
    with pytest.warns(ConvergenceWarning, match=r"finished.*above 1e-09: lower eps1 and eps2"):
        noisy.fit(IRIS, SPECIES)
