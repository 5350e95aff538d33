"""SampledCutClassifier and SampledCutChain: the optimum, kernels, compression, sequences."""

import pickle
import signal
import warnings
from functools import wraps
from itertools import islice, product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from workbench.data.synthetic import chain
from workbench.estimators import SampledCutChain, SampledCutClassifier
from workbench.registry import SOLVERS
from workbench.sampled_cuts import stabilised

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
BASES = ["linear_time", "constant_time", "exact", "nystroem"]
SMALL = {"r": 60, "landmarks": 60, "random_state": 0}


@pytest.fixture(scope="module", params=BASES)
def fitted(request):
    return SampledCutClassifier(basis=request.param, **SMALL).fit(IRIS, SPECIES)


def objective(svm, X, y):
    """Return the objective of the function that predicts, in double precision."""
    V = svm.support_vectors_
    norm = np.vdot(svm.dual_coef_, svm.dual_coef_ @ rbf_kernel(V, gamma=svm.gamma_))
    F = rbf_kernel(X, V, gamma=svm.gamma_) @ svm.dual_coef_.T
    y = np.searchsorted(svm.classes_, y)
    if len(svm.classes_) == 2:
        return 0.5 * norm + svm.C * np.maximum(0, 1 - np.where(y, 1, -1) * F[:, 0]).sum()
    rows = np.arange(len(y))
    z = 1 - F[rows, y][:, None] + F
    z[rows, y] = 0
    return 0.5 * norm + svm.C * z.max(axis=1).sum()


def test_the_model_is_its_expansion_and_its_bounds_are_those_of_its_objective(fitted):
    m = len(fitted.support_)
    assert 0 < m <= 150 and np.all(np.diff(fitted.support_) > 0)
    assert np.array_equal(fitted.support_vectors_, IRIS[fitted.support_])
    assert fitted.dual_coef_.shape == (3, m) and (fitted.basis != "nystroem" or m == 60)
    np.testing.assert_allclose(fitted.dual_coef_.sum(axis=0), 0, atol=1e-6)
    K = rbf_kernel(IRIS, fitted.support_vectors_, gamma=fitted.gamma_)
    decision = fitted.decision_function(IRIS)
    np.testing.assert_allclose(decision, K @ fitted.dual_coef_.T, atol=1e-9)
    assert fitted.score(IRIS, SPECIES) > 0.93 and fitted.compression_error_ == 0
    assert fitted.gamma_ == pytest.approx(1 / (4 * IRIS.var()))
    loaded = pickle.loads(pickle.dumps(fitted))
    loaded.set_params(kernel="linear", gamma=3.0)  # for the next fit
    assert np.array_equal(loaded.decision_function(IRIS), decision)
    assert fitted.upper_ == pytest.approx(objective(fitted, IRIS, SPECIES), rel=1e-5)
    tight = {"basis": "exact", "eps": 1e-6, "max_iter": 10_000}
    optimum = SampledCutClassifier(**tight).fit(IRIS, SPECIES).upper_
    assert optimum * (1 - 1e-5) <= fitted.upper_ < 1.3 * optimum
    if fitted.basis == "exact":
        assert fitted.gap_ == fitted.upper_ - fitted.lower_ <= 150 * 5e-3
        assert fitted.lower_ <= optimum
    else:
        assert np.isnan(fitted.lower_) and np.isnan(fitted.gap_)
    X, y = IRIS[50:], SPECIES[50:]  # two classes have one row of coefficients
    svm = clone(fitted).fit(X, y)
    assert svm.dual_coef_.shape == (1, len(svm.support_)) and svm.score(X, y) > 0.9
    assert svm.upper_ == pytest.approx(objective(svm, X, y), rel=1e-5)


def test_compression_is_a_projection(fitted):
    small = clone(fitted).set_params(compress=25).fit(IRIS, SPECIES)
    assert len(small.support_) == 25 and set(small.support_) <= set(fitted.support_)
    assert small.upper_ == fitted.upper_  # before it is compressed
    V = fitted.support_vectors_
    K = rbf_kernel(np.vstack([small.support_vectors_, V]), gamma=fitted.gamma_)
    best = np.linalg.lstsq(K[:25, :25], K[:25, 25:] @ fitted.dual_coef_.T, rcond=1e-10)[0]
    expected = rbf_kernel(IRIS, small.support_vectors_, gamma=fitted.gamma_) @ best
    np.testing.assert_allclose(small.decision_function(IRIS), expected, atol=1e-5)
    rest = np.hstack([-small.dual_coef_, fitted.dual_coef_])  # w - Pw
    whole = np.vdot(fitted.dual_coef_, fitted.dual_coef_ @ K[25:, 25:])
    error = np.sqrt(np.vdot(rest, rest @ K) / whole)
    assert small.compression_error_ == pytest.approx(error, abs=1e-4) and 1e-3 < error < 1
    assert np.array_equal(clone(small).fit(IRIS, SPECIES).support_, small.support_)
    for rows in (len(fitted.support_), 10_000):  # all of them
        same = clone(fitted).set_params(compress=rows).fit(IRIS, SPECIES)
        assert same.compression_error_ == 0
        assert np.array_equal(same.dual_coef_, fitted.dual_coef_)


def polynomial(X, Z):
    """Return the kernel "poly" with gamma 0.5, degree 2 and coef0 1."""
    return (0.5 * np.asarray((X @ Z.T).todense() if sp.issparse(X) else X @ Z.T) + 1) ** 2


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_decisions_are_the_kernel_times_the_coefficients(blobs, basis):
    problem = blobs(n=60, d=12, k=3, sparse=True)
    svm = SampledCutClassifier(basis=basis, kernel="poly", gamma=0.5, degree=2, coef0=1, max_iter=8)
    decision = svm.fit(problem.X, problem.y).decision_function(problem.X)
    K = polynomial(problem.X, svm.support_vectors_)
    np.testing.assert_allclose(decision, K @ svm.dual_coef_.T, atol=1e-9)


def test_fits_without_a_round_predict_nothing():
    given = {"basis": "exact", "max_seconds": 1e-9, "compress": 3}
    with pytest.warns(ConvergenceWarning, match=r"cuts_exact stopped \(1e-09 seconds\)"):
        svm = SampledCutClassifier(**given).fit(IRIS, SPECIES)
    assert svm.n_iter_ == 0 and svm.upper_ == 150 and svm.lower_ == 0 and len(svm.support_) == 0
    for X, given in ((IRIS, {"basis": "constant_time"}), (sp.csr_matrix(IRIS), {})):
        with pytest.warns(ConvergenceWarning):
            svm = SampledCutClassifier(**given, max_seconds=1e-9).fit(X, SPECIES)
        assert svm.upper_ == 150 and not svm.decision_function(X).any()


@pytest.mark.parametrize("basis", BASES)
def test_a_stream_that_ends_with_a_gap_is_warned_of_where_it_is_certified(monkeypatch, basis):
    entry = SOLVERS[f"cuts_{basis}"]

    @wraps(entry.steps)
    def stalled(problem, **parameters):
        return islice(entry.steps(problem, **parameters), 3)

    monkeypatch.setitem(SOLVERS, f"cuts_{basis}", entry._replace(steps=stalled))
    with warnings.catch_warnings(record=True) as caught:
        svm = SampledCutClassifier(basis=basis, **SMALL).fit(IRIS, SPECIES)
    assert svm.n_iter_ == 2 and len(caught) == (basis in ("exact", "nystroem"))
    assert all("stopped (finished) after 2 rounds" in str(w.message) for w in caught)


@pytest.mark.parametrize("basis", BASES)
def test_ctrl_c_keeps_the_last_iterate(interrupt, basis):
    limited = SampledCutClassifier(basis=basis, max_iter=5, **SMALL)
    with pytest.warns(ConvergenceWarning, match="5 rounds"):
        limited.fit(IRIS, SPECIES)
    interrupt(f"cuts_{basis}", at=5)
    svm = clone(limited).set_params(max_iter=1000)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        svm.fit(IRIS, SPECIES)
    assert svm.n_iter_ == 5 and np.array_equal(svm.dual_coef_, limited.dual_coef_)
    assert svm.upper_ == pytest.approx(objective(svm, IRIS, SPECIES), rel=1e-5)


@pytest.mark.parametrize("step", ["line_search", "drop_idle"])
def test_ctrl_c_amid_a_round_leaves_a_whole_iterate(monkeypatch, step):
    calls, taken = 0, getattr(stabilised, step)

    def interrupted(*given):
        nonlocal calls
        calls += 1
        if calls == 12:  # the warm-up had some
            signal.raise_signal(signal.SIGINT)
        return taken(*given)

    monkeypatch.setattr(stabilised, step, interrupted)
    svm = SampledCutClassifier(basis="exact", eps=1e-6)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        svm.fit(IRIS, SPECIES)
    assert 0 < svm.n_iter_ < 12 and svm.lower_ < svm.upper_
    assert svm.upper_ == pytest.approx(objective(svm, IRIS, SPECIES), rel=1e-9)


def sequences(rows, starts):
    return np.split(rows, starts[1:-1])


@pytest.fixture(scope="module")
def short():
    """Return sequences of four positions in three states, and as many for a test."""
    p = chain(40, 4, 3, test=40)
    train = sequences(p.X, p.starts), sequences(p.y, p.starts)
    return *train, sequences(p.X_test, p.starts_test), sequences(p.y_test, p.starts_test)


PATHS = np.array(list(product(range(3), repeat=4)))


def path_scores(model, X):
    """Return the scores of all 81 paths for every sequence of four, (n, 81)."""
    V, T = model.support_vectors_, model.transitions_
    F = np.array([rbf_kernel(x, V, gamma=model.gamma_) @ model.dual_coef_.T for x in X])
    moves = T[PATHS[:, :-1], PATHS[:, 1:]].sum(axis=1)
    return F[:, np.arange(4), PATHS].sum(axis=2) + moves


@pytest.mark.parametrize("basis", BASES)
def test_a_chain_finds_the_best_paths_and_says_its_objective(short, basis):
    X, y, X_test, y_test = short
    limit = 40 if basis == "constant_time" else 1000
    model = SampledCutChain(0.5, gamma=0.3, basis=basis, r=30, max_iter=limit, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if basis == "constant_time" else "error")
        model.fit(X, y)
    best = PATHS[path_scores(model, X_test).argmax(axis=1)]
    found = model.predict(X_test)
    assert np.array_equal(found, best)
    assert model.score(X_test, y_test) == np.mean(best == np.array(y_test)) > 0.6
    V, A = model.support_vectors_, model.dual_coef_
    norm = np.vdot(A, A @ rbf_kernel(V, gamma=model.gamma_)) + (model.transitions_**2).sum()
    scores, losses = path_scores(model, X), (PATHS != np.array(y)[:, None]).sum(axis=2) / 4
    own = scores[losses == 0][:, None]
    value = 0.5 * norm + 0.5 * (losses + scores - own).max(axis=1).sum()
    assert model.upper_ == pytest.approx(value, rel=1e-4)
    if basis == "exact":
        assert 0 < model.lower_ <= model.upper_ and model.gap_ <= 0.5 * 40 * 5e-3


@pytest.fixture(scope="module")
def labelled(short):
    """Return a fit to sequences whose labels are words, some of the sequences longer."""
    X, y, *_ = short
    X = [np.vstack(X[:2]), *X[2:]]
    y = [np.array(["a", "b", "c"])[codes] for codes in (np.concatenate(y[:2]), *y[2:])]
    return X, y, SampledCutChain(gamma=0.3, random_state=0).fit(X, y)


def test_a_chain_of_lists_sparse_rows_and_arrays_is_fitted_pickled_and_searched(labelled, short):
    X, y, model = labelled
    assert model.classes_.tolist() == ["a", "b", "c"] and model.n_features_in_ == 2
    assert np.array_equal(model.support_vectors_, np.vstack(X)[model.support_])
    assert model.n_iter_ == model.trace_.last["round"] and model.trace_.stopped_by == "finished"
    found, F = model.predict(X), model.decision_function(X)
    assert [len(labels) for labels in found] == [len(f) for f in F] == [8] + [4] * 38
    right = np.concatenate(found) == np.concatenate(y)
    assert model.score(X, y) == right.mean() > 0.8
    strange = [np.array(["never"] * 8), *y[1:]]  # labels that the chain has not seen are wrong
    assert model.score(X, strange) == right[8:].sum() / len(right)
    sparse = [sp.csr_matrix(x) for x in X]
    for one, rows in ((model, sparse), (model, [x.tolist() for x in X])):
        assert np.array_equal(one.predict(rows)[0], found[0])
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X)[0], found[0])
    assert np.array_equal(clone(model).fit(X, y).dual_coef_, model.dual_coef_)
    again = clone(model).fit(sparse, [labels.tolist() for labels in y])
    assert sp.issparse(again.support_vectors_)
    assert again.score(X, y) == pytest.approx(model.score(X, y), abs=0.03)
    whole = clone(model).fit(np.array(short[0]), np.array(short[1]))
    assert whole.score(np.array(short[2]), np.array(short[3])) > 0.6
    assert not is_classifier(model)
    search = GridSearchCV(clone(model), {"C": [1e-6, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"C": 1.0} and search.best_score_ > 0.6


def test_transitions_are_worth_having():
    p = chain(60, 20, test=40)
    X, y = sequences(p.X, p.starts), sequences(p.y, p.starts)
    X_test, y_test = sequences(p.X_test, p.starts_test), sequences(p.y_test, p.starts_test)
    alone = SVC(gamma=1.0).fit(p.X, p.y).score(p.X_test, p.y_test)
    model = SampledCutChain(gamma=1.0, basis="nystroem", random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > alone + 0.1
    small = clone(model).set_params(compress=120).fit(X, y)
    assert len(small.support_) == 120 and 0 < small.compression_error_ < 0.7
    assert np.array_equal(small.transitions_, model.transitions_)
    assert small.score(X_test, y_test) > alone + 0.1


def test_bad_sequences_are_refused(labelled):
    X, y, model = labelled
    for bad, labels, message in (
        (X, y[:-1], "^y: has 38 sequences, X has 39"),
        ([X[0], X[1][:, :1]], y[:2], "^X: sequence 1 has 1 features, the first has 2"),
        ([X[0], np.nan * X[1]], y[:2], r"^X\[1\]: contains NaN"),
    ):
        for method in (clone(model).fit, model.score):
            with pytest.raises(ValueError, match=message):
                method(bad, labels)
    with pytest.raises(ValueError, match="two classes"):
        clone(model).fit(X, [np.zeros(len(labels)) for labels in y])
    for method in ("predict", "decision_function"):
        with pytest.raises(ValueError, match=r"^X: has 1 features, SampledCutChain is .*2"):
            getattr(model, method)([x[:, :1] for x in X])
        with pytest.raises(NotFittedError):
            getattr(clone(model), method)(X)
    with pytest.raises(NotFittedError):
        clone(model).score(X, y)


def test_a_chain_that_is_stopped_warns_and_its_parameters_are_checked():
    X, y = [IRIS[:75], IRIS[75:]], [SPECIES[:75], SPECIES[75:]]
    with pytest.warns(ConvergenceWarning, match="cuts_linear_time stopped") as caught:
        model = SampledCutChain(max_seconds=1e-9).fit(X, y)
    assert caught[0].filename == __file__ and not len(model.support_)
    assert not model.transitions_.any() and set(model.predict(X)[0]) == {0}
    for name, value in (("r", 0), ("C", np.nan), ("basis", "nystrom"), ("random_state", 0.5)):
        with pytest.raises(ValueError, match=f"^{name}: .*{value!r}"):
            SampledCutChain(**{name: value}).fit(X, y)
    with pytest.raises(TypeError, match="transition"):
        SampledCutChain(transition=2.0)
