"""The three least squares classifiers: closed forms, bounds, several labels, features."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.estimators import (
    CalibratedLeastSquares,
    GeneralizedLeastSquares,
    StagewiseLeastSquares,
)
from workbench.runs.run import run

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = scale(IRIS)
ALPHA = 1e-2
TIGHT = {"alpha": ALPHA, "gap": 1e-12, "max_iter": 10_000}
SMALL = {"n_features": 60, "block": 25, "alpha": 1e-3, "random_state": 0}
LABELLED, LABELS = make_multilabel_classification(
    200, n_features=8, n_classes=4, n_labels=2, random_state=0
)
LABELLED = scale(LABELLED)
THREE = [
    GeneralizedLeastSquares(alpha=1e-3),
    CalibratedLeastSquares(max_iter=5),
    StagewiseLeastSquares(**SMALL),
]
LINKS_OF_LABELS = ["sigmoid", "identity", "squared_hinge"]


@pytest.fixture(scope="module")
def fitted():
    """Return one fit of each."""
    return [clone(model).fit(IRIS, SPECIES) for model in THREE]


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def indicators(y):
    return (y[:, None] == np.unique(y)).astype(float)


def objective(model, X, Y, loss):
    """Return the objective of Algorithm 1 at fitted coefficients, with their intercepts."""
    penalty = (model.coef_**2).sum() + (model.intercept_**2).sum()
    return loss(X @ model.coef_.T + model.intercept_, Y).mean() + model.alpha / 2 * penalty


LOSSES = {
    "identity": lambda u, y: 0.5 * ((u - y) ** 2).sum(axis=1),
    "softmax": lambda u, y: np.log(np.exp(u).sum(axis=1)) - (y * u).sum(axis=1),
    "sigmoid": lambda u, y: (np.log1p(np.exp(u)) - y * u).sum(axis=1),
    "squared_hinge": lambda u, y: (np.maximum(0, 1 - (2 * y - 1) * u) ** 2).sum(axis=1),
}


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize(
    ("link", "several"),
    [*((link, False) for link in LOSSES), *((link, True) for link in LINKS_OF_LABELS)],
)
def test_links_are_the_models_of_scikit_learn(link, accelerated, several):
    X, y, Y = (LABELLED, LABELS, LABELS) if several else (IRIS, SPECIES, indicators(SPECIES))
    model = GeneralizedLeastSquares(link, accelerated=accelerated, **TIGHT).fit(X, y)
    C, weight = 1 / (len(X) * ALPHA), len(X) * ALPHA
    peer = {
        "identity": Ridge(weight, fit_intercept=False),
        "softmax": LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10**4),
        "sigmoid": LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10**4),
        "squared_hinge": LinearSVC(C=C, fit_intercept=False, tol=1e-10, dual=False),
    }[link]
    ones = np.column_stack([X, np.ones(len(X))])
    targets = [y] if link == "softmax" else Y.T
    W = np.vstack([clone(peer).fit(ones, target).coef_ for target in targets])
    found = np.column_stack([model.coef_, model.intercept_])
    if link == "softmax":  # which does not change with the mean of the weights
        found, W = found - found.mean(axis=0), W - W.mean(axis=0)
    np.testing.assert_allclose(found, W, atol=1e-4)
    assert model.gap_ == model.upper_ - model.lower_ <= 1e-12
    assert objective(model, X, Y, LOSSES[link]) == pytest.approx(model.upper_, rel=1e-12)
    if link in ("identity", "squared_hinge"):
        with pytest.raises(AttributeError) as caught:
            model.predict_proba(X)
        assert f"link='{link}' has no probabilities" in str(caught.value.__cause__)
    if link == "sigmoid":
        P = expit(model.decision_function(X))
        expected = P if several else P / P.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    if several:
        threshold = 0.5 if link == "identity" else 0
        assert np.array_equal(model.predict(X), model.decision_function(X) > threshold)


def test_calibrated_predictions_are_those_of_training(fitted):
    assert fitted[1].coef_.shape == (5, 4, 3) and fitted[1].intercept_.shape == (5, 3)
    assert fitted[1].calibration_.shape == (5, 9, 3) and fitted[1].n_iter_ == 5
    problem = as_problem(with_ones(IRIS), SPECIES)
    parameters = {"alpha": 1e-5, "basis": 3}
    trace, state = run("ls_calibrated", problem, rounds(5), parameters=parameters)
    model = fitted[1]
    np.testing.assert_allclose(model.predict_proba(IRIS), state.predictions, atol=1e-9)
    error = ((model.predict_proba(IRIS) - indicators(SPECIES)) ** 2).sum(axis=1).mean()
    assert error == pytest.approx(model.squared_error_) == trace.last["squared_error"]
    errors = [row["squared_error"] for row in model.trace_.rows]
    assert np.all(np.diff(errors) <= 1e-9)
    assert np.array_equal(model.decision_function(IRIS), model.predict_proba(IRIS))


def cubes(Y):
    return np.hstack([Y, Y**3])


def test_a_basis_may_be_a_function_and_the_intercept_be_left_out():
    model = CalibratedLeastSquares(basis=cubes, max_iter=3, fit_intercept=False)
    model.fit(IRIS, SPECIES)
    assert model.calibration_.shape == (3, 6, 3) and not model.intercept_.any()
    assert model.coef_.shape == (3, 4, 3) and model.score(IRIS, SPECIES) > 0.8
    plain = GeneralizedLeastSquares(alpha=1e-3, fit_intercept=False).fit(IRIS, SPECIES)
    assert not plain.intercept_.any()
    np.testing.assert_allclose(plain.decision_function(IRIS), IRIS @ plain.coef_.T, atol=1e-12)


def test_scores_of_models_are_averaged(fitted):
    model = StagewiseLeastSquares(**SMALL, n_models=3).fit(IRIS, SPECIES)
    seeds = [g.seed for g in model.generators_]
    assert seeds[0] == 0 and len(set(seeds)) == 3 and model.n_iter_ == 27
    assert [trace.header["parameters"]["seed"] for trace in model.traces_] == seeds
    ones = [clone(fitted[2]).set_params(random_state=s).fit(IRIS, SPECIES) for s in seeds]
    expected = np.mean([one.decision_function(IRIS) for one in ones], axis=0)
    np.testing.assert_allclose(model.decision_function(IRIS), expected, atol=1e-12)
    assert np.array_equal(model.coef_, fitted[2].coef_)


def test_few_rows_have_the_digits_that_they_have_alone(fitted):
    model = fitted[2]
    some = model.decision_function(IRIS[:40])
    alone = np.vstack([model.decision_function(IRIS[i : i + 1]) for i in range(40)])
    assert np.array_equal(some, alone)
    np.testing.assert_allclose(model.decision_function(IRIS)[:40], some, atol=1e-4)


MULTILABEL = [
    GeneralizedLeastSquares("sigmoid", alpha=1e-3),
    CalibratedLeastSquares(),
    *(StagewiseLeastSquares(**SMALL, link=link) for link in LINKS_OF_LABELS),
]


@pytest.mark.parametrize("model", MULTILABEL)
def test_several_labels_a_row(model):
    model = clone(model).fit(LABELLED, LABELS)
    found = model.predict(LABELLED)
    assert found.shape == (200, 4) and set(np.unique(found)) == {0, 1}
    assert f1_score(LABELS, found, average="micro") > 0.7
    assert roc_auc_score(LABELS, model.decision_function(LABELLED)) > 0.85
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(LABELLED)
        assert P.min() > 0 and P.max() < 1 and not np.allclose(P.sum(axis=1), 1)
        assert np.array_equal(found, P > 0.5)
    sparse = clone(model).fit(sp.csr_matrix(LABELLED), sp.csr_matrix(LABELS))
    assert f1_score(LABELS, sparse.predict(LABELLED), average="micro") > 0.7
    two = clone(model).fit(LABELLED, LABELS[:, :2].astype(bool))
    assert two.decision_function(LABELLED).shape == two.predict(LABELLED).shape == (200, 2)
    assert model.__sklearn_tags__().classifier_tags.multi_label
    Y = LABELS.copy()
    Y[:, 0], Y[:, 1] = 0, 1
    found = clone(model).fit(LABELLED, Y).predict(LABELLED)
    assert not found[:, 0].any() and found[:, 1].all()


def test_bad_labels_are_refused():
    for model in (GeneralizedLeastSquares(), StagewiseLeastSquares(**SMALL)):
        assert not model.__sklearn_tags__().classifier_tags.multi_label
        for Y in (LABELS, indicators(SPECIES)):
            with pytest.raises(ValueError, match=r"^y: with link='softmax'.*'sigmoid'.*several"):
                clone(model).fit(np.zeros((len(Y), 2)), Y)
    for model in MULTILABEL:
        for Y in (LABELS + 1, 2 * LABELS - 1, sp.csr_matrix(3 * LABELS), LABELS + LABELS[:, :1]):
            with pytest.raises(ValueError, match=r"^y: must be .*zeros and ones"):
                clone(model).fit(LABELLED, Y)
        with pytest.raises(ValueError, match="Unknown label type"):
            clone(model).fit(LABELLED, LABELS + 0.5)
        with pytest.warns(DataConversionWarning):
            assert not clone(model).fit(LABELLED, LABELS[:, :1]).multilabel_


STOPPED = [  # whose solver is interrupted, where, in runs of which seeds, what is said and kept
    *((CalibratedLeastSquares(), at, 0, f"{at} of 20 rounds", 0) for at in (1, 4)),
    *((StagewiseLeastSquares(**SMALL), at, 0, f"{at} of 9 visits", 1) for at in (1, 4)),
    *(
        (StagewiseLeastSquares(**SMALL, n_models=3), at, 1, f"{visits} of 27 visits", kept)
        for at, visits, kept in ((0, 9, 1), (1, 10, 2), (5, 14, 2))
    ),
]


@pytest.mark.parametrize(("model", "at", "seed", "said", "kept"), STOPPED)
def test_ctrl_c_keeps_the_rounds_blocks_and_models_that_were_done(
    interrupt, fitted, model, at, seed, said, kept
):
    for solver in ("ls_calibrated", "ls_stagewise"):
        interrupt(solver, at, seeds=lambda drawn: (drawn or 0) >= seed)
    with pytest.warns(ConvergenceWarning, match=f"after {said}"):
        model = clone(model).fit(IRIS, SPECIES)
    assert model.n_iter_ == (at if not seed else int(said.split()[0]))
    if not kept:
        assert len(model.coef_) == at
    else:
        assert len(model.coefs_) == len(model.traces_) == kept and model.coef_.any()
        assert not seed or np.array_equal(model.coef_, fitted[2].coef_)


@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("X", [np.full((20, 3), 7.1), sp.csr_matrix((20, 3)), np.ones((20, 1))])
def test_rows_that_are_all_equal_get_the_most_frequent_label(X, standardise):
    model = StagewiseLeastSquares(**SMALL, standardise=standardise)
    model.fit(X, ["a"] * 12 + ["b"] * 8)
    assert model.generator_.s == 1 and set(model.predict(X)) == {"a"}
    np.testing.assert_allclose(model.predict_proba(X)[:, 0], 0.6, atol=0.05)


def test_columns_of_any_scale_are_standardised(fitted):
    wild = IRIS * [1e-6, 1, 1e9, 1e3] + [0, 1e3, 0, -1e6]
    wild = np.column_stack([wild, np.full(150, 0.1), np.full(150, 1e6)])
    model = StagewiseLeastSquares(**SMALL).fit(wild, SPECIES)
    assert model.score(wild, SPECIES) > 0.95
    assert not model.scaler_.transform(wild)[:, 4:].any()
    others = wild + np.array([0, 0, 0, 0, 1e9, 1e9])  # columns that said nothing still say nothing
    np.testing.assert_allclose(model.decision_function(others), model.decision_function(wild))
    rows = sp.csr_matrix(np.abs(wild))
    scaled = StagewiseLeastSquares(**SMALL).fit(rows, SPECIES)
    Z = scaled.scaler_.transform(rows)
    assert sp.issparse(Z) and not Z[:, 4:].toarray().any()
    np.testing.assert_allclose(Z[:, :4].toarray().std(axis=0), 1)
    assert scaled.score(rows, SPECIES) > 0.5
    raw = StagewiseLeastSquares(**SMALL, standardise=False).fit(IRIS, SPECIES)
    assert raw.scaler_ is None and raw.score(IRIS, SPECIES) > 0.95


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_features": 400, "block": 1000},  # more of them than rows
        {"features": "nystroem", "n_features": 30, "block": 12},
        {"features": "poly2", "link": "sigmoid"},
        {"passes": 1, "calibrate": True},
        {"kept": 0},
        {"n_jobs": 2},
        {"n_jobs": -1},
        {"bandwidth": np.float32(0.5), "n_features": np.int64(40), "inner": 1},
    ],
)
def test_parameters_of_stages(parameters):
    model = StagewiseLeastSquares(**SMALL | parameters).fit(IRIS, SPECIES)
    assert model.score(IRIS, SPECIES) > 0.95
    if set(parameters) <= {"kept", "n_jobs"}:  # say how, not what
        other = StagewiseLeastSquares(**SMALL).fit(IRIS, SPECIES)
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-3)


def test_features_that_are_not_finite_are_refused():
    X = IRIS.copy()
    X[0] = 1e15
    model = StagewiseLeastSquares("poly4", **SMALL, standardise=False)
    with pytest.raises(ValueError, match=r"^features: block 0 of 'poly4' is not finite"):
        model.fit(X, SPECIES)
    model.fit(IRIS, SPECIES)
    for rows in (X, X[:1]):
        with pytest.raises(ValueError, match=r"^X: features of kind 'poly4' are not finite"):
            model.predict(rows)
    with pytest.raises(ValueError, match=r"^X: the variance of a column is not finite"):
        StagewiseLeastSquares(**SMALL).fit(1e200 * IRIS, SPECIES)
    with pytest.raises(ValueError, match=r"^n_features: nystroem .*150.* got 8192"):
        StagewiseLeastSquares("nystroem").fit(IRIS, SPECIES)


def test_a_model_keeps_its_seed_not_its_rows():
    model = StagewiseLeastSquares(**SMALL).fit(np.tile(IRIS, (20, 1)), np.tile(SPECIES, 20))
    assert max(np.size(value) for value in vars(model).values()) < 20 * 150
