"""MemoirClassifier: its presets, its memory, and rows that come in parts."""

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from workbench.core.stream import rounds
from workbench.data.features import tfidf
from workbench.data.text import zipf_text
from workbench.estimators import MemoirClassifier, WorkingSetClassifier
from workbench.estimators import memoir as module
from workbench.memoir.mips import oracle
from workbench.runs.run import run

TEXT = tfidf(zipf_text(600, 40, 0, n_test=200, words=30, own=0.3))


@pytest.fixture(scope="module")
def averaged():
    return MemoirClassifier(random_state=0).fit(TEXT.X, TEXT.y)


@pytest.mark.parametrize(
    ("penalty", "preset"), [("l2", "averaged"), ("l2", "paper"), ("l1", "paper")]
)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_fit_is_the_stream_of_its_preset(penalty, preset, sparse):
    problem = TEXT if sparse else tfidf(zipf_text(60, 4, 0, d=12))
    X = problem.X if sparse else problem.X.toarray()
    model = MemoirClassifier(penalty, preset=preset, random_state=3).fit(X, problem.y)
    passes = preset == "averaged"
    count = 5 if passes else 25
    problem = model._problem(X, problem.y)
    solver = "memoir_averaged" if passes else f"memoir_{penalty}"
    _, state = run(solver, problem, rounds(count), parameters={"seed": 3})
    W = state.model()
    W = W.toarray() if sp.issparse(W) else W
    assert sp.issparse(model.coef_) == sparse and model.coef_.dtype == np.float32
    np.testing.assert_array_equal(model.coef_.toarray() if sparse else model.coef_, W.T)
    assert model.n_iter_ == state.step == (5 * problem.n if passes else 25)
    scores = state.scores(X)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-4)


def test_what_is_given_replaces_the_preset():
    def header(**given):
        model = MemoirClassifier(**given, n_batches=2, random_state=0).fit(TEXT.X, TEXT.y)
        return model.trace_.header["parameters"], model.n_iter_

    parameters, steps = header(preset="paper", batch_size=50, lam=0.5, eta0=0.2, eta_step=0.0)
    chosen = {"batch_size": 50, "lam": 0.5, "eta0": 0.2, "eta_step": 0.0}
    assert chosen.items() <= parameters.items() and steps == 2
    parameters, _ = header(penalty="l1", preset="paper", gamma=1e-3, mips="random")
    assert {"gamma": 1e-3, "mips": "random"}.items() <= parameters.items()
    # Batches of less than a fiftieth of the rows come by whole passes; larger ones do not.
    paper = {"preset": "paper", "lam": 0.1}
    assert header(batch_size=7, **paper)[1] == 86 and header(batch_size=1000, **paper)[1] == 2


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_matrix.toarray])
def test_parts_are_learnt_from_one_after_the_other(kind):
    model = MemoirClassifier(random_state=0)
    parts = np.array_split(np.arange(TEXT.n), 4)
    for passes in range(2):
        for part in parts:
            model.partial_fit(kind(TEXT.X[part]), TEXT.y[part], classes=range(40))
        if passes == 0:
            first = model.score(TEXT.X_test, TEXT.y_test)
            assert model.n_iter_ == 600 and model.trace_.last["steps"] == 600
    assert model.n_iter_ == 1200 and model.score(TEXT.X_test, TEXT.y_test) > first > 0.4
    assert model.trace_.header["solver"] == "memoir_averaged"
    assert sp.issparse(model.coef_) == (kind is sp.csr_matrix)
    # One pass over all rows is the first round of a fit, bit for bit.
    once = MemoirClassifier(random_state=0).partial_fit(TEXT.X, TEXT.y, classes=range(40))
    fitted = MemoirClassifier(n_batches=600, random_state=0).fit(TEXT.X, TEXT.y)
    assert (once.coef_ != fitted.coef_).nnz == 0
    # A fit forgets; rows may be added to it, however few.
    model.fit(TEXT.X, TEXT.y).partial_fit(TEXT.X[:1], TEXT.y[:1])
    assert model.n_iter_ == 3001


def test_classes_without_rows_wait():
    X, y = TEXT.X[TEXT.y < 20], TEXT.y[TEXT.y < 20]
    model = MemoirClassifier(random_state=0).partial_fit(X, y, classes=range(40))
    assert model.coef_.shape == (40, TEXT.d) and model.score(X, y) > 0.8
    model.partial_fit(TEXT.X, TEXT.y).partial_fit(TEXT.X, TEXT.y)
    assert model.score(TEXT.X, TEXT.y) > 0.8
    # A class without rows has no weights unless it scored highest for some row.
    few = MemoirClassifier(preset="paper", batch_size=5)
    few.partial_fit(TEXT.X[:5], np.zeros(5, int), classes=range(9))
    assert few.coef_[[8]].nnz == 0 and few.predict(TEXT.X[:5]).tolist() == [0] * 5


def test_prediction_holds_few_scores(averaged, monkeypatch):
    scores = averaged.decision_function(TEXT.X_test)
    assert (averaged.predict(TEXT.X_test) == scores.argmax(axis=1)).all()
    assert averaged.nbytes_ == 8 * averaged.coef_.nnz + 4 * (TEXT.d + 1)
    assert averaged.trace_.stopped_by == "3000 batches"
    assert averaged.score(TEXT.X_test, TEXT.y_test) > 0.5
    dense = TEXT.X_test.toarray()
    monkeypatch.setattr(oracle, "BLOCK_BYTES", 4 * TEXT.d * 7)
    monkeypatch.setattr(module, "scores", None)  # all scores are never asked for
    assert (averaged.predict(dense) == scores.argmax(axis=1)).all()


@pytest.mark.parametrize(
    "model",
    [
        *(MemoirClassifier(preset=p, random_state=0) for p in ("averaged", "paper")),
        *(WorkingSetClassifier(quantize=q, random_state=0) for q in (False, True)),
    ],
)
def test_empty_documents_and_constant_features(model):
    X = sp.csr_matrix(sp.hstack([TEXT.X, np.ones((600, 1)), sp.csr_matrix((600, 1))]))
    X = sp.csr_matrix(sp.vstack([X, sp.csr_matrix((40, X.shape[1]))]))
    model = clone(model).fit(X, np.concatenate([TEXT.y, np.arange(40)]))
    assert np.isfinite(model.coef_.data).all() and model.coef_[:, [-1]].nnz == 0
    assert set(model.predict(sp.csr_matrix((3, X.shape[1])))) == {0}


def test_ctrl_c_keeps_what_was_learnt(interrupt):
    model = MemoirClassifier(random_state=0)
    interrupt("memoir_averaged", at=3)
    with pytest.warns(ConvergenceWarning, match="after 1800 of 3000 batches") as caught:
        model.fit(TEXT.X, TEXT.y)
    assert caught[0].filename == __file__
    assert model.score(TEXT.X_test, TEXT.y_test) > 0.5


PAPER = {"penalty": "l1", "preset": "paper"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "code"}, "^preset: .*'l2' .*averaged, paper, got 'code'"),
        ({"penalty": "l1"}, "^preset: .*'l1' it must be one of paper, got 'averaged'"),
        ({"gamma": 0.1}, "^gamma: must be None with penalty='l2', which has lam; got 0.1"),
        (PAPER | {"lam": 0.1}, "^lam: must be None with pen.* gamma"),
        (PAPER | {"gamma": np.inf}, "^gamma: .*not negative, got inf"),
        ({"preset": "paper", "lam": 20.0}, r"^lam: lam \* eta_1 must be below 1"),
        ({"mips": "random"}, "^mips: must be exact with preset='averaged'"),
        ({"batch_size": 7}, "^batch_size: must be None with preset='averaged', got 7"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        MemoirClassifier(**given).fit(TEXT.X, TEXT.y)


def test_weights_that_are_too_large_are_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"values beyond 1e.15, too large for weights of single"):
        MemoirClassifier().fit(np.eye(3) * 1e39, [0, 1, 2])
    given = {"n_batches": 1, "random_state": 0}
    free = psutil.virtual_memory()._replace(available=8 * TEXT.d * 40 - 1)
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: free)
    with pytest.raises(ValueError, match=rf"^dense: True takes 0.0 GB for {TEXT.d} .* 40 classes"):
        MemoirClassifier(dense=True, **given).fit(TEXT.X, TEXT.y)
    MemoirClassifier(dense=True, preset="paper", **given).fit(TEXT.X, TEXT.y)  # half as much
    MemoirClassifier(dense=False, **given).fit(TEXT.X, TEXT.y)
