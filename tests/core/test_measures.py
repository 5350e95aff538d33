"""The judge where classes are many, against scikit-learn and by hand."""

import numpy as np
from helpers import each, refuses
from numpy.testing import assert_array_equal
from pytest import approx
from sklearn.metrics import f1_score, precision_score, recall_score

from workbench import as_problem
from workbench.core import measures
from workbench.core.measures import errors, macro, predictions


class Linear:
    """A state whose scores are a product, and who remembers for how many rows they were
    asked."""

    def __init__(self, W):
        self.W = W
        self.asked = []

    def scores(self, X):
        self.asked.append(X.shape[0])
        return X @ self.W


def with_test_rows(k=40, n_test=90, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(k, size=300 - k)])
    y_test = rng.integers(k, size=n_test)
    X = rng.normal(size=(300, 5))
    X_test = rng.normal(size=(n_test, 5))
    state = Linear(rng.normal(size=(5, k)))
    return as_problem(X, y, X_test=X_test, y_test=y_test), state


@each("seed", range(4))
@each("k", [2, 7, 40])
def test_macro_is_scikit_learns_and_maf1_is_of_means(k, seed):
    problem, state = with_test_rows(k=k, n_test=50, seed=seed)
    row = macro(problem)(state)
    both = problem.y_test, np.argmax(problem.X_test @ state.W, axis=1)
    assert row["test_error"] == approx(np.mean(both[0] != both[1]))
    assert row["macro_f1"] == approx(f1_score(*both, average="macro"))
    P = precision_score(*both, average="macro", zero_division=0)
    R = recall_score(*both, average="macro", zero_division=0)
    assert row["maf1"] == approx(2 * P * R / (P + R))


@each("held, most", [(40 * 90, 90), (40 * 90 - 1, 89), (40 * 7, 7), (5, 1)])
def test_many_scores_are_made_block_by_block(held, most, monkeypatch):
    monkeypatch.setattr(measures, "MAX_SCORES", held)
    problem, state = with_test_rows()
    whole = np.argmax(problem.X_test @ state.W, axis=1)
    assert_array_equal(predictions(state, problem.X_test, 40), whole)
    assert max(state.asked) == most and sum(state.asked) == 90


def test_errors_are_of_both_kinds_of_rows():
    problem, state = with_test_rows()
    row = errors(problem)(state)
    assert sum(state.asked) == 300 + 90  # each row once
    wrong = np.argmax(problem.X @ state.W, axis=1) != problem.y
    assert row["train_error"] == np.mean(wrong)
    assert row["test_error"] == macro(problem)(state)["test_error"]
    without = as_problem(problem.X, problem.y)
    assert set(errors(without)(state)) == {"train_error"}
    with refuses(r"^problem: has no test rows"):
        macro(without)
