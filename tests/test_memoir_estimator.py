"""MemoirClassifier: scikit-learn's contract, its presets, and rows that come in parts."""

import inspect
import signal

import joblib
import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from workbench.core.stream import rounds
from workbench.data.features import tfidf
from workbench.data.text import zipf_text
from workbench.estimators import MemoirClassifier
from workbench.estimators import memoir as module
from workbench.memoir.mips import oracle
from workbench.memoir.solvers import PRESETS
from workbench.registry import SOLVERS
from workbench.runs.run import run

TEXT = tfidf(zipf_text(600, 40, 0, n_test=200, words=30, own=0.3))


@pytest.fixture(scope="module")
def averaged():
    return MemoirClassifier(random_state=0).fit(TEXT.X, TEXT.y)


@parametrize_with_checks(
    [
        MemoirClassifier(),
        MemoirClassifier("l1", preset="paper"),
    ]
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("penalty", "preset"), PRESETS)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_fit_is_the_stream_of_its_preset(penalty, preset, sparse):
    problem = TEXT if sparse else tfidf(zipf_text(60, 4, 0, d=12))
    X = problem.X if sparse else problem.X.toarray()
    model = MemoirClassifier(penalty, preset=preset, random_state=3).fit(X, problem.y)
    passes = preset == "averaged"
    count = 5 if passes else 25
    problem = model._problem(X, problem.y)
    parameters = PRESETS[penalty, preset] | {"seed": 3}
    _, state = run(f"memoir_{penalty}", problem, rounds(count), parameters=parameters)
    W = state.predictor()
    W = W.toarray() if sp.issparse(W) else W
    assert sp.issparse(model.coef_) == sparse and model.coef_.dtype == np.float32
    np.testing.assert_array_equal(model.coef_.toarray() if sparse else model.coef_, W.T)
    assert model.n_iter_ == state.step == (5 * problem.n if passes else 25)
    scores = state.scores(X)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-4)
    assert (model.predict(X) == model.classes_[model.decision_function(X).argmax(axis=1)]).all()


def test_attributes(averaged):
    assert averaged.coef_.shape == (40, TEXT.d) and averaged.coef_.format == "csr"
    assert averaged.intercept_.tolist() == [0] * 40 and averaged.n_features_in_ == TEXT.d
    assert averaged.nbytes_ == 8 * averaged.coef_.nnz + 4 * (TEXT.d + 1)
    assert averaged.trace_.stopped_by == "3000 batches"
    assert averaged.trace_.header["solver"] == "memoir_l2"
    assert averaged.score(TEXT.X_test, TEXT.y_test) > 0.5
    assert clone(averaged).fit(TEXT.X, TEXT.y).coef_.nnz == averaged.coef_.nnz
    assert not hasattr(MemoirClassifier(), "coef_")
    again = averaged.predict(sp.csc_array(TEXT.X_test.astype(float)))
    assert (again == averaged.predict(TEXT.X_test)).all()


def test_what_is_given_replaces_the_preset():
    def header(**given):
        model = MemoirClassifier(**given, n_batches=2, random_state=0).fit(TEXT.X, TEXT.y)
        return model.trace_.header["parameters"], model.n_iter_

    parameters, steps = header(preset="paper", batch_size=50, lam=0.5, eta0=0.2, eta_step=0.0)
    chosen = {"batch_size": 50, "lam": 0.5, "eta0": 0.2, "eta_step": 0.0, "average": False}
    assert chosen.items() <= parameters.items() and steps == 2
    parameters, _ = header(penalty="l1", preset="reference", gamma=1e-3, mips="random")
    chosen = {"gamma": 1e-3, "mips": "random", "sampling": "balanced"}
    assert chosen.items() <= parameters.items()
    switches = {"average": True, "sampling": "uniform"}
    parameters, steps = header(preset="reference", switches=switches, batch_size=700)
    assert parameters["average"] and parameters["sampling"] == "uniform" and steps == 2
    # Batches of less than a fiftieth of the rows come by whole passes; larger ones do not.
    assert header(batch_size=7)[1] == -(-600 // 7) and header(batch_size=1000)[1] == 2


def test_a_heavier_l1_norm_leaves_less():
    sizes = [
        MemoirClassifier("l1", preset="paper", gamma=gamma, random_state=0)
        .fit(TEXT.X, TEXT.y)
        .coef_.nnz
        for gamma in (0.0, 0.03)
    ]
    assert sizes[1] < 0.8 * sizes[0]


@pytest.mark.parametrize("mips", ["sw_graph", "hnsw", "simple_lsh", "random"])
def test_any_search(mips):
    if mips in ("sw_graph", "hnsw"):
        pytest.importorskip("nmslib")
    model = MemoirClassifier(mips=mips, preset="paper", n_batches=3, random_state=0)
    assert model.fit(TEXT.X, TEXT.y).score(TEXT.X, TEXT.y) > 0.05
    assert model.trace_.last["recall"] <= 1 and model.trace_.header["parameters"]["mips"] == mips


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
    assert model.trace_.header["solver"] == "memoir_l2"
    assert sp.issparse(model.coef_) == (kind is sp.csr_matrix)
    # One pass over all rows is the first round of a fit, bit for bit.
    once = MemoirClassifier(random_state=0).partial_fit(TEXT.X, TEXT.y, classes=range(40))
    fitted = MemoirClassifier(n_batches=600, random_state=0).fit(TEXT.X, TEXT.y)
    assert (once.coef_ != fitted.coef_).nnz == 0
    # A fit forgets; rows may be added to it, however few.
    model.fit(TEXT.X, TEXT.y).partial_fit(TEXT.X[:1], TEXT.y[:1])
    assert model.n_iter_ == 3001


def test_a_pass_that_was_not_at_its_end_is_left():
    given = {"batch_size": 100, "n_batches": 2, "switches": {"average": False}}
    model = MemoirClassifier(**given, random_state=0).fit(TEXT.X, TEXT.y)
    before = model.coef_
    model.partial_fit(TEXT.X[:10], TEXT.y[:10])
    changed = (model.coef_ != before).nonzero()[1]
    assert model.n_iter_ == 3 and len(changed) and set(changed) <= set(TEXT.X[:10].indices)


def test_classes_without_rows_wait():
    X, y = TEXT.X[TEXT.y < 20], TEXT.y[TEXT.y < 20]
    model = MemoirClassifier(random_state=0).partial_fit(X, y, classes=range(40))
    assert model.coef_.shape == (40, TEXT.d) and model.score(X, y) > 0.8
    model.partial_fit(TEXT.X, TEXT.y).partial_fit(TEXT.X, TEXT.y)
    assert model.score(TEXT.X, TEXT.y) > 0.8
    # A class of no rows at all has no weights where it was nobody's rival.
    few = MemoirClassifier(preset="paper", batch_size=5)
    few.partial_fit(TEXT.X[:5], np.zeros(5, int), classes=range(9))
    assert few.coef_[[8]].nnz == 0 and few.predict(TEXT.X[:5]).tolist() == [0] * 5
    model = MemoirClassifier(preset="reference")  # its batches are balanced over those that have
    assert model.partial_fit(X, y, classes=range(40)).score(X, y) > 0.5


def test_prediction_holds_few_scores(averaged, monkeypatch):
    scores = averaged.decision_function(TEXT.X_test)
    assert (averaged.predict(TEXT.X_test) == scores.argmax(axis=1)).all()
    dense = TEXT.X_test.toarray()
    monkeypatch.setattr(oracle, "BLOCK_BYTES", 4 * TEXT.d * 7)
    monkeypatch.setattr(module, "scores", None)  # all scores are never asked for
    assert (averaged.predict(dense) == scores.argmax(axis=1)).all()


def test_empty_documents_and_constant_features():
    X = sp.csr_matrix(sp.hstack([TEXT.X, np.ones((600, 1)), sp.csr_matrix((600, 1))]))
    X = sp.csr_matrix(sp.vstack([X, sp.csr_matrix((40, X.shape[1]))]))
    y = np.concatenate([TEXT.y, np.arange(40)])
    for preset in ("averaged", "reference", "paper"):
        model = MemoirClassifier(preset=preset, random_state=0).fit(X, y)
        assert np.isfinite(model.coef_.data).all()
        assert set(model.predict(sp.csr_matrix((3, X.shape[1])))) == {0}
        assert model.coef_[:, [-1]].nnz == 0


def test_two_classes_labels_and_dtypes():
    X, y = load_iris(return_X_y=True)
    X, y = (X / 8)[50:], np.array(["versicolor", "virginica"])[y[50:] - 1]
    model = MemoirClassifier(n_batches=20_000, random_state=0).fit(X.astype(np.float32), y)
    decision = model.decision_function(X)
    assert decision.shape == (100,) and model.coef_.shape == (2, 4)
    assert (model.predict(X) == model.classes_[(decision > 0).astype(int)]).all()
    assert model.score(X, y) > 0.9
    counts = zipf_text(600, 40, 0).X.astype(np.int64)
    whole = MemoirClassifier(random_state=0).fit(counts, TEXT.y)
    real = MemoirClassifier(random_state=0).fit(counts.astype(float), TEXT.y)
    assert (whole.coef_ != real.coef_).nnz == 0


def test_it_works_where_classifiers_do(tmp_path, averaged):
    counts = zipf_text(600, 40, 0)
    search = GridSearchCV(
        make_pipeline(TfidfTransformer(), MemoirClassifier(n_batches=1, random_state=0)),
        {"memoirclassifier__eta0": [0.1, 1.0]},
        cv=2,
    )
    assert search.fit(counts.X, counts.y).best_score_ > 0.2
    joblib.dump(averaged, tmp_path / "m")
    loaded = joblib.load(tmp_path / "m")
    assert (loaded.predict(TEXT.X) == averaged.predict(TEXT.X)).all()
    more, other = (m.partial_fit(TEXT.X, TEXT.y) for m in (loaded, joblib.load(tmp_path / "m")))
    assert (more.coef_ != other.coef_).nnz == 0 and more.n_iter_ == 3600


def test_ctrl_c_keeps_what_was_learnt(monkeypatch):
    steps = SOLVERS["memoir_l2"].steps

    def interrupted(problem, *, state=None, seed=0, **parameters):
        for s in steps(problem, state=state, seed=seed, **parameters):
            if s.round == at and not problem.name.endswith("(tiny)"):
                signal.raise_signal(signal.SIGINT)
            yield s

    interrupted.__signature__ = inspect.signature(steps)
    entry = SOLVERS["memoir_l2"]._replace(steps=interrupted)
    monkeypatch.setitem(SOLVERS, "memoir_l2", entry)
    model, at = MemoirClassifier(random_state=0), 3
    with pytest.warns(ConvergenceWarning, match="interrupted after 1800 of 3000 batches") as caught:
        model.fit(TEXT.X, TEXT.y)
    assert caught[0].filename == __file__ and model.trace_.stopped_by == "interrupted"
    assert model.score(TEXT.X_test, TEXT.y_test) > 0.5
    at = 4
    with pytest.warns(ConvergenceWarning, match="after 600 of 600 batches"):
        model.partial_fit(TEXT.X, TEXT.y)
    at = 0  # nothing is there to keep
    with pytest.raises(KeyboardInterrupt):
        MemoirClassifier().fit(TEXT.X, TEXT.y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"penalty": "l3"}, "^penalty: unknown name 'l3'; known are l2, l1"),
        ({"mips": "faiss"}, "^mips: unknown name 'faiss'; known are exact"),
        ({"preset": "code"}, "^preset: .*'l2' .*paper, reference, averaged, got 'code'"),
        ({"penalty": "l1"}, "^preset: .*'l1' it must be one of paper, reference, got 'averaged'"),
        ({"gamma": 0.1}, "^gamma: must be None with penalty='l2', which has lam; got 0.1"),
        ({"penalty": "l1", "preset": "paper", "lam": 0.1}, "^lam: must be None with pen.* gamma"),
        ({"penalty": "l1", "preset": "paper", "gamma": -1}, "^gamma: .*not negative, got -1"),
        ({"penalty": "l1", "preset": "paper", "gamma": np.inf}, "^gamma: .*got inf"),
        ({"lam": -0.1}, "^lam: .*got -0.1"),
        ({"lam": np.nan}, "^lam: .*got nan"),
        ({"preset": "paper", "lam": 20.0}, r"^lam: lam \* eta_1 must be below 1"),
        ({"eta0": 0}, "^eta0: must be a positive number, got 0"),
        ({"eta0": "1"}, "^eta0: .*got '1'"),
        ({"eta_step": -1}, "^eta_step: .*got -1"),
        ({"batch_size": 0}, "^batch_size: .*got 0"),
        ({"batch_size": 2.5}, "^batch_size: .*got 2.5"),
        ({"n_batches": -1}, "^n_batches: .*got -1"),
        ({"dense": "no"}, "^dense: must be None, True or False, got 'no'"),
        ({"switches": ["average"]}, r"^switches: must be None or a dict, got \['average'\]"),
        ({"switches": {"bias": True}}, "^switches: unknown name 'bias'; known are eta_power"),
        ({"switches": {"sampling": "never"}}, "^sampling: must be one of"),
        ({"random_state": -1}, "^random_state: .*got -1"),
    ],
)
def test_bad_parameters_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        MemoirClassifier(**given).fit(TEXT.X, TEXT.y)


def test_bad_input_is_refused():
    model = MemoirClassifier()
    with pytest.raises(NotFittedError):
        model.predict(TEXT.X)
    for strange in (np.nan, np.inf):
        X = TEXT.X.copy()
        X.data[3] = strange
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(X, TEXT.y)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(TEXT.X, np.zeros(600))
    with pytest.raises(ValueError, match="classes: must be given to the first call"):
        model.partial_fit(TEXT.X, TEXT.y)
    with pytest.raises(ValueError, match="classes: needs at least two"):
        model.partial_fit(TEXT.X, TEXT.y, classes=[3])
    with pytest.raises(ValueError, match=r"y: labels \[39\] are not among the classes"):
        model.partial_fit(TEXT.X, TEXT.y, classes=range(39))
    with pytest.raises(NotFittedError):  # a refused first call begins nothing
        model.predict(TEXT.X)
    model.partial_fit(TEXT.X, TEXT.y, classes=range(40))
    with pytest.raises(ValueError, match="classes: must be those of the first call"):
        model.partial_fit(TEXT.X, TEXT.y, classes=range(41))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(TEXT.X[:, :5], TEXT.y)
    assert model.n_iter_ == 600


def test_weights_that_are_too_large_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="weights are of single precision, which values beyond"):
        MemoirClassifier().fit(np.eye(3) * 1e39, [0, 1, 2])
    free = psutil.virtual_memory()._replace(available=8 * TEXT.d * 40 - 1)
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: free)
    with pytest.raises(ValueError, match=rf"^dense: True takes 0.0 GB for {TEXT.d} .* 40 classes"):
        MemoirClassifier(dense=True).fit(TEXT.X, TEXT.y)
    MemoirClassifier(dense=True, preset="paper").fit(TEXT.X, TEXT.y)  # no average, half as much
    MemoirClassifier(dense=False).fit(TEXT.X, TEXT.y)
