"""Class centroids: the stream, the estimator, and what both promise."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import cosine_similarity

from workbench.core.problem import as_problem
from workbench.data.features import tfidf
from workbench.data.text import zipf_text
from workbench.estimators import CentroidClassifier
from workbench.estimators import centroid as module
from workbench.peers.centroid import centroid
from workbench.runs.run import run

DIGITS, NUMBERS = load_digits(return_X_y=True)
TEXT = tfidf(zipf_text(600, 40, 0, n_test=200, words=30))


def means(X, y):
    """The mean of the rows of norm one of each class, a row at a time."""
    X = X.toarray() if sp.issparse(X) else X
    unit = [row / np.linalg.norm(row) if row.any() else row for row in X.astype(float)]
    return np.array([np.mean([u for u, c in zip(unit, y) if c == k], axis=0) for k in np.unique(y)])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("power", [1.0, 0.5, 2.0])
def test_weights_are_the_means_over_their_norms_power(kind, power):
    *_, state = centroid(as_problem(kind(DIGITS), NUMBERS), power=power)
    m = means(DIGITS, NUMBERS)
    expected = m / np.linalg.norm(m, axis=1)[:, None] ** power
    np.testing.assert_allclose(state.W.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(state.scores(DIGITS[:9]), DIGITS[:9] @ expected.T, atol=1e-10)


def test_the_column_is_the_mean_distance_of_rows_and_their_centroids(blobs):
    problem = blobs()
    first, last = (row for row in islice(map(vars, map(_copy, centroid(problem))), 3))
    assert (first["round"], first["primal"], last["round"]) == (0, 1.0, 1)
    m = means(problem.X, problem.y)
    cosines = cosine_similarity(problem.X, m)[np.arange(problem.n), problem.y]
    assert last["primal"] == pytest.approx(1 - cosines.mean(), abs=1e-12)
    # No other directions do better.
    other = m + 0.05 * np.random.default_rng(0).standard_normal(m.shape)
    worse = cosine_similarity(problem.X, other)[np.arange(problem.n), problem.y]
    assert worse.mean() < cosines.mean()


def _copy(state):
    return type(state)(**vars(state))


def test_the_model_of_sparse_rows_is_sparse_and_predicts_in_blocks(monkeypatch):
    trace, state = run("centroid", TEXT)
    assert trace.last["nonzeros"] == state.W.nnz <= TEXT.X.nnz
    assert state.W.dtype == np.float32 and state.W.has_canonical_format
    assert state.scores(TEXT.X_test).shape == (200, 40)
    expected = cosine_similarity(TEXT.X_test, means(TEXT.X, TEXT.y))
    np.testing.assert_allclose(state.scores(TEXT.X_test), expected, atol=1e-6)
    model = CentroidClassifier().fit(TEXT.X, TEXT.y)
    assert (model.coef_ != state.W).nnz == 0 and model.coef_.dtype == np.float32
    predicted = model.predict(TEXT.X_test)
    assert (predicted == state.scores(TEXT.X_test).argmax(axis=1)).all()
    monkeypatch.setattr(module, "BLOCK_SCORES", 40 * 7)
    assert (model.predict(TEXT.X_test) == predicted).all()


def test_rows_of_zeros_have_no_direction():
    X = np.array([[0.0, 0], [0, 0], [1, 0], [0, 2], [3, 0], [-1, 0]])
    y = [0, 0, 1, 1, 2, 2]  # the last class's rows cancel
    *_, state = centroid(as_problem(sp.csr_matrix(X), y))
    half = np.sqrt(0.5)
    np.testing.assert_allclose(state.W.toarray(), [[0, 0], [half, half], [0, 0]], atol=1e-12)
    assert state.primal == pytest.approx(1 - 2 * half / 6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_parts_add_up_to_the_whole(kind):
    whole = CentroidClassifier(power=0.7).fit(kind(DIGITS), NUMBERS)
    parts = CentroidClassifier(power=0.7)
    for part in np.array_split(np.arange(len(NUMBERS)), 7):
        parts.partial_fit(kind(DIGITS[part]), NUMBERS[part], classes=range(10))
    dense = [m.coef_.toarray() if sp.issparse(m.coef_) else m.coef_ for m in (whole, parts)]
    np.testing.assert_allclose(*dense, atol=1e-12)
    assert (parts.class_count_ == np.bincount(NUMBERS)).all()
    again = parts.fit(kind(DIGITS[:500]), NUMBERS[:500])
    assert again.class_count_.sum() == 500


def test_classes_without_rows_are_never_predicted():
    X = -np.ones((4, 2))
    model = CentroidClassifier().partial_fit(X, [0, 0, 1, 1], classes=[0, 1, 2])
    # Every known class has a negative score here, the unknown one none.
    assert set(model.predict(-X)) <= {0, 1} and model.intercept_[2] == -np.inf
    assert (model.coef_[2] == 0).all() and model.class_count_.tolist() == [2, 2, 0]
    model.partial_fit([[1.0, 1.0]], [2])
    assert model.predict(-X).tolist() == [2] * 4 and model.intercept_[2] == 0
