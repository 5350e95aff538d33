"""Scikit-learn's classifiers, judged by the objectives they state: converged ones are
optimal."""

from helpers import each
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.svm import SVC, LinearSVC

from peer_proofs import solved, statement, weights
from workbench import load
from workbench.proofs import bound_excess

STEPS = {"learning_rate": "adaptive", "eta0": 0.01, "tol": 1e-7, "max_iter": 20_000}
EXACT = {"tol": 1e-10, "max_iter": 1_000_000, "random_state": 0}
CONVERGED = [
    LinearSVC(C=0.3, intercept_scaling=2.0, dual=False, **EXACT),
    LinearSVC(dual=True, **EXACT),
    LinearSVC(C=0.3, loss="hinge", **EXACT),
    LinearSVC(loss="hinge", fit_intercept=False, **EXACT),
    LinearSVC(C=0.3, multi_class="crammer_singer", **EXACT),
    LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-10),
    RidgeClassifier(alpha=3.0),
    SVC(C=0.7, tol=1e-10),
    SVC(C=0.1, kernel="linear", tol=1e-10),
    *(
        SGDClassifier(loss, alpha=0.1, random_state=0, **STEPS)
        for loss in ("hinge", "log_loss", "squared_hinge")
    ),
]


@each("data", ["iris", "breast_cancer"])
@each("model", CONVERGED)
def test_a_converged_peer_is_at_its_own_optimum(model, data):
    problem = load(data, scale="standard")
    X = problem.X + 0.5  # moved, so that it matters how the intercept counts
    y = (problem.y == 0) * 1 if isinstance(model, SVC) else problem.y
    model.fit(X, y)
    proof = solved(statement(model, y), X, y)
    most = 2e-3 if isinstance(model, SGDClassifier) else 3e-7
    assert bound_excess(weights(model), X, y, proof).at_most < most
