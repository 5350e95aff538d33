"""Ensembles of trees as streams: the trees are scikit-learn's, and so are the
predictions."""

from dataclasses import replace

import numpy as np
from helpers import each
from helpers.solvers import after
from numpy.testing import assert_allclose
from pytest import approx
from sklearn import ensemble
from sklearn.metrics import log_loss

from workbench import SOLVERS
from workbench.peers.linear import budget

KINDS = {
    "random_forest": (
        ensemble.RandomForestClassifier,
        {"mtry": 2.0},
        {"max_features": 4},
    ),
    "boosting": (
        ensemble.HistGradientBoostingClassifier,
        {"learning_rate": 0.3, "l2": 2.0},
        {"learning_rate": 0.3, "l2_regularization": 2.0, "early_stopping": False},
    ),
}
each_kind = each("name", KINDS)


@each("k", [2, 4])
@each_kind
def test_the_trees_are_scikit_learns(name, k, blobs, rng):
    problem = blobs(n=150, d=5, k=k)
    kind, ours, theirs = KINDS[name]
    size = "max_iter" if name == "boosting" else "n_estimators"
    model = kind(random_state=3, **theirs, **{size: budget(7)}).fit(
        problem.X, problem.y
    )
    s = after(7, name, problem, seed=3, **ours)
    new = rng.normal(size=(80, 5))
    if name == "boosting":
        expected = model.decision_function(new)
        expected = expected if k > 2 else np.stack([0 * expected, expected], axis=1)
        assert s.primal == approx(log_loss(problem.y, model.predict_proba(problem.X)))
    else:
        expected = model.predict_proba(new)
        one_hot = np.eye(k)[problem.y]
        squared = ((model.predict_proba(problem.X) - one_hot) ** 2).sum(axis=1).mean()
        assert s.primal == approx(squared, abs=1e-12)
        few = after(1, name, problem, mtry=0.1).model.estimators_[0]
        assert few.max_features == 1
    assert_allclose(s.scores(new), expected, atol=1e-12)


@each_kind
def test_a_class_without_training_rows_is_never_predicted(name, blobs):
    problem = blobs(n=90)
    left = problem.y != 1
    kept = {name: getattr(problem, name)[left] for name in ("X", "y", "weights")}
    problem = replace(problem, **kept)
    assert not (after(4, name, problem).scores(problem.X).argmax(axis=1) == 1).any()


def test_forests_end_at_the_last_budget(monkeypatch, blobs):
    monkeypatch.setattr("workbench.peers.trees.MAX_TREES", 5)
    stream = SOLVERS["random_forest"].steps(blobs())
    assert [s.info()["trees"] for s in stream] == [0, 1, 2, 3, 4, 6]
