"""Scikit-learn's classifiers, judged by the objectives they state: converged ones are optimal."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.svm import SVC, LinearSVC

from peer_proofs import solved, statement, weights
from workbench.data import load
from workbench.proofs import judge

EXACT = {"tol": 1e-10, "max_iter": 1_000_000, "random_state": 0}
CONVERGED = {
    "squared hinge": LinearSVC(C=0.3, intercept_scaling=2.0, dual=False, **EXACT),
    "squared hinge, dual": LinearSVC(dual=True, **EXACT),
    "hinge": LinearSVC(C=0.3, loss="hinge", **EXACT),
    "hinge without intercept": LinearSVC(loss="hinge", fit_intercept=False, **EXACT),
    "Crammer-Singer": LinearSVC(C=0.3, multi_class="crammer_singer", **EXACT),
    "logistic": LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-10),
    "ridge": RidgeClassifier(alpha=3.0),
    "SVC, rbf": SVC(C=0.7, tol=1e-10),
    "SVC, linear": SVC(C=0.1, kernel="linear", tol=1e-10),
}
OTHERS = {  # statements of other problems, whose optimum is elsewhere
    "squared hinge": {"intercept": "free"},
    "squared hinge, dual": {"intercept": 2.0},
    "hinge": {"C": 0.5},
    "hinge without intercept": {"alpha": 2.0},
    "Crammer-Singer": {"intercept": 3.0},
    "logistic": {"intercept": 1.0},
    "ridge": {"alpha": 1.5},
    "SVC, rbf": {"C": 1.0},
    "SVC, linear": {"C": 0.2},
}


def rows(data, name):
    """Return rows and labels: standardised and moved, so that it matters how the intercept counts.

    Of three classes, SVC has the first against the rest.
    """
    problem = load(data, scale="standard")
    two = name.startswith("SVC") and problem.k > 2
    return problem.X + 0.5, (problem.y == 0).astype(int) if two else problem.y


@pytest.mark.parametrize("data", ["iris", "breast_cancer"])
@pytest.mark.parametrize("name", CONVERGED)
def test_a_converged_peer_is_at_the_optimum_of_what_it_states_and_of_nothing_else(name, data):
    model, (X, y) = CONVERGED[name], rows(data, name)
    model.fit(X, y)
    stated = statement(model, X, y)
    assert judge(weights(model), X, y, solved(stated, X, y)).at_most < 3e-7
    assert judge(weights(model), X, y, solved(stated | OTHERS[name], X, y)).at_least > 1e-4


@pytest.mark.parametrize("data", ["iris", "breast_cancer"])
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_hinge"])
def test_stochastic_descent_comes_closer_to_what_it_states_than_to_other_weights(loss, data):
    X, y = rows(data, "SGD")
    steps = {"learning_rate": "adaptive", "eta0": 0.01, "tol": 1e-7, "max_iter": 20_000}
    model = SGDClassifier(loss=loss, alpha=0.1, random_state=0, **steps).fit(X, y)
    stated = statement(model, X, y)
    assert judge(model, X, y, solved(stated, X, y)).at_most < 2e-3
    for other in ({"alpha": 0.05}, {"alpha": 0.2}, {"over": "sum"}):
        assert judge(model, X, y, solved(stated | other, X, y)).at_least > 1e-2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearSVC(class_weight="balanced"), "class_weight: must be None"),
        (RidgeClassifier(fit_intercept=False), "must have an intercept"),
        (LogisticRegression(solver="liblinear"), "not LIBLINEAR's solver"),
        (SGDClassifier(loss="huber"), "a loss of hinge"),
        (SVC(), "must have two classes"),
        (np.random.default_rng(0), "model: must be one of LinearSVC"),
    ],
)
def test_what_cannot_be_stated_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        statement(model, np.eye(3), np.arange(3))
