"""Scikit-learn's classifiers, judged by the objectives they state: converged ones are
optimal."""

from helpers import each
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.svm import SVC, LinearSVC

from peer_proofs import solved, statement, weights
from workbench import load
from workbench.proofs import bound_excess

EXACT = {"tol": 1e-10, "max_iter": 1_000_000, "random_state": 0}
CONVERGED = [  # and statements of other problems, whose optimum is elsewhere
    (
        LinearSVC(C=0.3, intercept_scaling=2.0, dual=False, **EXACT),
        {"intercept": "free"},
    ),
    (LinearSVC(dual=True, **EXACT), {"intercept": 2.0}),
    (LinearSVC(C=0.3, loss="hinge", **EXACT), {"C": 0.5}),
    (LinearSVC(loss="hinge", fit_intercept=False, **EXACT), {"alpha": 2.0}),
    (LinearSVC(C=0.3, multi_class="crammer_singer", **EXACT), {"intercept": 3.0}),
    (
        LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-10),
        {"intercept": 1.0},
    ),
    (RidgeClassifier(alpha=3.0), {"alpha": 1.5}),
    (SVC(C=0.7, tol=1e-10), {"C": 1.0}),
    (SVC(C=0.1, kernel="linear", tol=1e-10), {"C": 0.2}),
]


def rows(data, two=False):
    """Return rows and labels: standardised and moved, so that it matters how the
    intercept counts.

    With `two`, the first of three classes is against the rest.
    """
    problem = load(data, scale="standard")
    return problem.X + 0.5, (problem.y == 0).astype(
        int
    ) if two and problem.k > 2 else problem.y


@each("data", ["iris", "breast_cancer"])
@each("model, other", CONVERGED)
def test_a_converged_peer_is_at_its_own_optimum(model, other, data):
    X, y = rows(data, two=isinstance(model, SVC))
    model.fit(X, y)
    stated = statement(model, y)
    assert bound_excess(weights(model), X, y, solved(stated, X, y)).at_most < 3e-7
    assert (
        bound_excess(weights(model), X, y, solved(stated | other, X, y)).at_least > 1e-4
    )


@each("data", ["iris", "breast_cancer"])
@each("loss", ["hinge", "log_loss", "squared_hinge"])
def test_stochastic_descent_comes_close_to_what_it_states(loss, data):
    X, y = rows(data)
    steps = {"learning_rate": "adaptive", "eta0": 0.01, "tol": 1e-7, "max_iter": 20_000}
    model = SGDClassifier(loss=loss, alpha=0.1, random_state=0, **steps).fit(X, y)
    stated = statement(model, y)
    assert bound_excess(model, X, y, solved(stated, X, y)).at_most < 2e-3
    for other in ({"alpha": 0.05}, {"alpha": 0.2}, {"over": "sum"}):
        assert bound_excess(model, X, y, solved(stated | other, X, y)).at_least > 1e-2
