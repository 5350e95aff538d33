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
    *(
        (SGDClassifier(loss, alpha=0.1, random_state=0, **STEPS), other)
        for loss, other in (
            ("hinge", {"alpha": 0.05}),
            ("log_loss", {"alpha": 0.2}),
            ("squared_hinge", {"over": "sum"}),
        )
    ),
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
    near, far = (2e-3, 1e-2) if isinstance(model, SGDClassifier) else (3e-7, 1e-4)
    for header, least, most in ((stated, -1, near), (stated | other, far, 1e9)):
        found = bound_excess(weights(model), X, y, solved(header, X, y))
        assert found.at_most < most and found.at_least > least
