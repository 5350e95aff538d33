"""WorkingSetClassifier: its bounds and its size; and models of one byte per weight."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from workbench.core.stream import rounds
from workbench.data.features import tfidf
from workbench.data.text import zipf_text
from workbench.estimators import MemoirClassifier, WorkingSetClassifier
from workbench.memoir.compress import Quantized, quantized
from workbench.memoir.mips import scores
from workbench.runs.run import run

TEXT = tfidf(zipf_text(600, 40, 0, n_test=200, words=30, own=0.3))
LARGE = tfidf(zipf_text(3000, 60, 1, n_test=2000, words=30, own=0.2))


@pytest.fixture(scope="module")
def fitted():
    return WorkingSetClassifier(random_state=0).fit(TEXT.X, TEXT.y)


def test_a_fit_is_the_stream_of_sparse_and_dense_rows(fitted):
    _, state = run("cs_working_set", fitted._problem(TEXT.X, TEXT.y), rounds(3))
    assert (fitted.coef_ != state.model(0.25).T.tocsr()).nnz == 0
    assert (fitted.lower_, fitted.upper_) == (state.lower, state.primal)
    assert fitted.nbytes_ == 8 * fitted.coef_.nnz + 4 * (TEXT.d + 1)
    assert fitted.n_iter_ == 3 and fitted.score(TEXT.X_test, TEXT.y_test) > 0.5
    dense = clone(fitted).fit(TEXT.X.toarray(), TEXT.y)
    assert isinstance(dense.coef_, np.ndarray) and dense.nbytes_ == 4 * 40 * TEXT.d
    np.testing.assert_allclose(dense.coef_, fitted.coef_.toarray(), atol=1e-3)
    tight = WorkingSetClassifier(tol=0.3, max_rounds=50).fit(TEXT.X, TEXT.y)
    assert tight.n_iter_ < 50 and tight.trace_.stopped_by == "gap <= 0.3 of primal"
    # A list may be longer than there are classes.
    long = WorkingSetClassifier(working_set=255).fit(TEXT.X, TEXT.y < 20)
    assert long.score(TEXT.X, TEXT.y < 20) > 0.9


def test_what_leaves_the_model_small():
    def size(**given):
        model = WorkingSetClassifier(**{"l1": 0.0, "truncate": 0.0, "random_state": 0} | given)
        return model.fit(TEXT.X, TEXT.y)

    whole, thresholded, cut = size(), size(l1=0.05), size(truncate=0.5)
    assert thresholded.coef_.nnz < 0.7 * whole.coef_.nnz
    assert cut.coef_.nnz < 0.7 * whole.coef_.nnz and cut.upper_ == whole.upper_
    small = np.abs(cut.coef_.data).min() / np.sqrt((whole.coef_.data**2).mean())
    assert small >= 0.5
    byte = size(truncate=0.5, quantize=True)
    assert byte.nbytes_ <= 3 * cut.coef_.nnz + 8 * TEXT.d + 4
    expected = quantized(cut.coef_.T).weights().T
    np.testing.assert_array_equal(byte.coef_.toarray(), expected.toarray())
    assert (byte.predict(TEXT.X_test) == byte.decision_function(TEXT.X_test).argmax(axis=1)).all()


@pytest.mark.parametrize("k", [7, 70_000])
def test_weights_are_rounded_to_steps_of_their_feature(k):
    rng = np.random.default_rng(0)
    W = sp.random(30, k, density=0.2, format="csr", dtype=np.float32, rng=rng)
    W.data = (W.data - 0.5) * 10.0 ** rng.integers(-3, 4)
    W = sp.csr_array(W.multiply(rng.random((30, 1)) < 0.8))  # some features have no weights
    W.eliminate_zeros()
    model = quantized(W.astype(np.float32))
    close = model.weights()
    steps = np.abs(W).max(axis=1).toarray().ravel() / 127
    error = np.abs(close - W).max(axis=1).toarray().ravel()
    assert (error <= steps * (0.5 + 1e-5)).all() and error.max() > 0.4 * steps.max()
    assert np.abs(model.values).max() == 127 and (model.values != 0).all()
    assert model.classes.dtype == (np.uint16 if k < 2**16 else np.uint32)
    assert model.nbytes == close.nnz * (1 + model.classes.itemsize) + 4 * 30 + 4 * 31
    X = sp.random(50, 30, density=0.3, format="csr", rng=rng)
    for rows in (X, X.astype(np.float32), X.toarray()):
        expected = X @ close.toarray().astype(float)
        np.testing.assert_allclose(model.scores(rows), expected, atol=1e-4 * np.abs(W.data).max())
        assert (model.best(rows) == model.scores(rows).argmax(axis=1)).all()


def test_a_byte_a_weight_predicts_as_four_do():
    for estimator in (WorkingSetClassifier(random_state=0), MemoirClassifier(random_state=0)):
        model = estimator.fit(LARGE.X, LARGE.y)
        small = quantized(model.coef_.T)
        right = np.mean(small.best(LARGE.X_test) == LARGE.y_test)
        assert abs(right - model.score(LARGE.X_test, LARGE.y_test)) < 0.005
        assert right > 0.5 and small.nbytes < 0.65 * model.nbytes_


def test_a_model_is_saved_as_plain_arrays(tmp_path):
    W = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    W[2] = 0.0
    model = quantized(W)
    np.savez(tmp_path / "m.npz", **vars(model))
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        loaded = Quantized(**arrays)
    np.testing.assert_array_equal(loaded.scores(np.eye(5)), model.scores(np.eye(5)))
    np.testing.assert_allclose(scores(np.eye(5), loaded.weights()), W, atol=0.02)
    assert loaded.nbytes == model.nbytes
    nothing = quantized(np.zeros((5, 4), np.float32))
    assert not nothing.scores(np.ones((2, 5))).any() and nothing.best(np.ones((0, 5))).shape == (0,)
    assert model.scores(np.ones((0, 5))).shape == (0, 4)
    with pytest.raises(ValueError, match=r"^X: must have 5 features, got 4"):
        model.scores(np.eye(4))
    with pytest.raises(ValueError, match=r"^W: contains NaN"):
        quantized(W * np.nan)
