"""Every estimator where scikit-learn's own are used: pipelines, searches, frames, any labels."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from workbench import estimators
from workbench.estimators import (
    CalibratedLeastSquares,
    CentroidClassifier,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    SampledCutChain,
    SampledCutClassifier,
    StagewiseLeastSquares,
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
    WorkingSetClassifier,
)

IRIS, SPECIES = (part[::2] for part in load_iris(return_X_y=True))
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
COLUMNS = ["sepal length", "sepal width", "petal length", "petal width"]
CITIZENS = {  # with what one would search over
    "calibrated": (CalibratedLeastSquares(max_iter=4), {"alpha": [1e-5, 1e-1]}),
    "centroid": (CentroidClassifier(), {"power": [0.5, 1.0]}),
    "generalized": (GeneralizedLeastSquares(alpha=1e-3), {"alpha": [1e-3, 1.0]}),
    "memoir": (MemoirClassifier(n_batches=300, random_state=0), {"lam": [0.0, 1e-2]}),
    "minimax risk": (MinimaxRiskClassifier(gap=1e-2), {"lambda0": [0.01, 0.3]}),
    "cuts": (SampledCutClassifier(r=30, random_state=0), {"C": [0.1, 1.0]}),
    "stagewise": (
        StagewiseLeastSquares(n_features=32, block=16, alpha=1e-3, random_state=0),
        {"bandwidth": [0.5, 2.0]},
    ),
    "Weston-Watkins": (
        WestonWatkinsClassifier(0.1, fit_intercept=True, random_state=0),
        {"C": [0.01, 0.1]},
    ),
    "Weston-Watkins, kernel": (
        WestonWatkinsClassifier(kernel="rbf", random_state=0),
        {"gamma": [0.1, 1.0]},
    ),
    "Weston-Watkins, searched": (
        WestonWatkinsClassifierCV([0.01, 0.1], cv=2, random_state=0),
        {"fit_intercept": [False, True]},
    ),
    "working set": (WorkingSetClassifier(random_state=0), {"C": [0.1, 1.0]}),
}
each = pytest.mark.parametrize("name", list(CITIZENS))


def test_everyone_is_here():
    kinds = {type(estimator).__name__ for estimator, _ in CITIZENS.values()}
    assert kinds == {*estimators.__all__} - {"SampledCutChain", "load"}  # whose X is no matrix


@pytest.fixture(scope="module")
def fitted():
    """Return every estimator fitted on standardised arrays, and these rows."""
    X = StandardScaler().fit_transform(IRIS)
    return {name: clone(one).fit(X, SPECIES) for name, (one, _) in CITIZENS.items()}, X


@each
@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_a_pipeline_of_frames_is_that_of_arrays(name, frames, fitted):
    library = {"pandas": pd, "polars": pl}[frames]
    frame = library.DataFrame(dict(zip(COLUMNS, IRIS.T)))
    labels = library.Series(NAMES.tolist())
    pipeline = make_pipeline(StandardScaler(), clone(CITIZENS[name][0]))
    pipeline.set_output(transform=frames)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.fit(frame, labels)
        found = pipeline.decision_function(frame)
        predicted = pipeline.predict(frame)
    known, X = fitted
    np.testing.assert_allclose(found, known[name].decision_function(X), rtol=1e-6, atol=1e-6)
    assert np.array_equal(predicted, np.unique(NAMES)[known[name].predict(X)])
    assert pipeline[-1].feature_names_in_.tolist() == COLUMNS
    rows = pipeline[0].transform(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline[-1].predict(rows[COLUMNS[::-1]])


@each
def test_searches_folds_and_calibration(name):
    estimator, grid = CITIZENS[name]
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    steps = {f"{pipeline.steps[-1][0]}__{key}": values for key, values in grid.items()}
    search = GridSearchCV(pipeline, steps, cv=2).fit(IRIS, NAMES)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.7
    found = search.best_estimator_[-1].get_params()
    assert all(found[key] in values for key, values in grid.items())
    scores = cross_val_score(
        pipeline,
        IRIS,
        NAMES,
        cv=2,
        scoring="neg_log_loss" if hasattr(pipeline, "predict_proba") else None,
    )
    assert np.isfinite(scores).all() and len(scores) == 2
    calibrated = CalibratedClassifierCV(pipeline, cv=2).fit(IRIS, NAMES)
    shares = calibrated.predict_proba(IRIS)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert np.mean(calibrated.predict(IRIS) == NAMES) > 0.7


@each
def test_labels_of_any_kind_and_container(name, fitted):
    known, X = fitted
    codes = known[name].predict(X)
    kinds = {
        "categories": pd.Series(NAMES, dtype="category"),
        "texts of pandas": pd.Series(NAMES, dtype="string"),
        "texts of Polars": pl.Series(NAMES.tolist()),
        "categories of Polars": pl.Series(NAMES.tolist(), dtype=pl.Categorical),
        "a list": NAMES.tolist(),
        "objects": NAMES.astype(object),
        "small integers of Polars": pl.Series(SPECIES - 1, dtype=pl.Int8),
        "nullable integers": pd.Series(SPECIES, dtype="Int64"),
        "unsigned": SPECIES.astype(np.uint64) + np.uint64(2**63),
    }
    for kind, y in kinds.items():
        model = clone(CITIZENS[name][0]).fit(X, y)
        assert len(model.classes_) == 3, kind
        assert np.array_equal(model.predict(X), model.classes_[codes]), kind
        assert model.score(X, y) == np.mean(codes == SPECIES), kind
    two = clone(CITIZENS[name][0]).fit(X, SPECIES > 0)
    assert two.classes_.dtype == bool and two.predict(X).dtype == bool
    assert two.decision_function(X).shape == (75,) and two.score(X, SPECIES > 0) > 0.9


@each
def test_any_sparse_matrix_is_the_same(name, fitted):
    known, X = fitted
    models = [clone(known[name]).fit(form(X), SPECIES) for form in (sp.csr_matrix, sp.csc_array)]
    decision = models[0].decision_function(X)
    assert models[0].score(X, SPECIES) > 0.6
    for model in models:
        for form in (sp.csr_array, sp.csc_matrix, sp.coo_array):
            found = model.decision_function(form(X))
            np.testing.assert_allclose(found, decision, rtol=1e-5, atol=1e-5)


def damaged(X, kind=sp.csr_matrix):
    X = kind(X)
    X.indices[0] = 10**8
    return X


@each
def test_a_damaged_sparse_matrix_is_refused_before_anything_reads_it(name, fitted):
    known, X = fitted
    model = known[name]
    asked = ("predict", "decision_function", "predict_proba")
    calls = [getattr(model, method) for method in asked if hasattr(model, method)]
    learnt = ("fit", "score", "partial_fit", "errors")
    calls += [
        lambda rows, method=method: getattr(model, method)(rows, SPECIES)
        for method in learnt
        if hasattr(model, method)
    ]
    if has_fit_parameter(model, "sample_weight"):
        calls.append(lambda rows: model.fit(rows, SPECIES, sample_weight=np.ones(75)))
    for call in calls:
        for kind in (sp.csr_matrix, sp.csc_array):
            with pytest.raises(ValueError, match=r"^X: is damaged; "):
                call(damaged(X, kind))
    twice = sp.csr_matrix(np.hstack([X, X]) / 2)  # each row from right to left, and in two parts
    twice = sp.csr_matrix((twice.data[::-1], twice.indices[::-1] % 4, twice.indptr), X.shape)
    twice.has_sorted_indices = twice.has_canonical_format = True
    model = clone(model).fit(sp.csr_matrix(X), SPECIES)
    expected = model.decision_function(sp.csr_matrix(X[::-1]))
    np.testing.assert_allclose(model.decision_function(twice), expected, rtol=1e-5, atol=1e-5)


def test_damaged_labels_weights_and_sequences_are_refused_too():
    Y, several = np.eye(3, dtype=int)[SPECIES], GeneralizedLeastSquares("sigmoid", alpha=1e-2)
    with pytest.raises(ValueError, match=r"^y: is damaged; "):
        several.fit(IRIS, damaged(Y))
    with pytest.raises(ValueError, match=r"^y: is damaged; "):
        several.fit(IRIS, Y).score(IRIS, damaged(Y))
    with pytest.raises(ValueError, match=r"^sample_weight: must be an array of numbers; Sparse"):
        several.fit(IRIS, Y, sample_weight=damaged(np.ones((1, 75))))
    chain = SampledCutChain(random_state=0)
    with pytest.raises(ValueError, match=r"^X\[0\]: is damaged; "):
        chain.fit([damaged(IRIS)], [NAMES])
    chain.fit([sp.csr_matrix(IRIS)], [NAMES])
    for method in (chain.predict, chain.decision_function, lambda X: chain.score(X, [NAMES])):
        with pytest.raises(ValueError, match=r"^X\[0\]: is damaged; "):
            method([damaged(IRIS)])


HUGE = 10**400  # beyond floats; of more digits than 4,300, Python does not even print integers
ODD = {
    "C: must be a positive number, got 1000": (WestonWatkinsClassifier(C=HUGE), {}),
    "C: must be a positive number, got an integer of thousands of digits": (
        SampledCutClassifier(C=10**5000),
        {},
    ),
    "C: must make positive numbers of a finite sum": (
        WestonWatkinsClassifier(C=1e30),
        {"sample_weight": np.full(75, 1e290)},
    ),
    "C: must make positive numbers of": (
        WorkingSetClassifier(C=1e-30),
        {"sample_weight": np.full(75, 1e-300)},
    ),
    "Cs: must be at most 1000 powers": (WestonWatkinsClassifierCV(2**40), {}),
    "Cs: must be a whole number .* or positive numbers": (WestonWatkinsClassifierCV([HUGE]), {}),
    "alpha: must be a positive number, got Fraction": (
        GeneralizedLeastSquares(alpha=Fraction(1, 2)),
        {},
    ),
    "bandwidth: must be a positive number": (
        StagewiseLeastSquares(bandwidth=1e-300),
        {},
    ),
    "coef0: must be a number of at least 0": (SampledCutClassifier(coef0=HUGE), {}),
    "cv: ": (WestonWatkinsClassifierCV(cv=[1]), {}),
    "degree: must be a whole number": (WestonWatkinsClassifier(kernel="poly", degree=HUGE), {}),
    "eta0: must be a positive number": (MemoirClassifier(eta0=HUGE), {}),
    "fit_intercept: must be True or False, got 'no'": (
        WestonWatkinsClassifier(fit_intercept="no"),
        {},
    ),
    "gamma: must be .* a positive number": (WestonWatkinsClassifier(kernel="rbf", gamma=HUGE), {}),
    "kept: must be a number that is not negative": (StagewiseLeastSquares(kept=HUGE), {}),
    "link: unknown name b'softmax'": (GeneralizedLeastSquares(b"softmax"), {}),
    "max_iter: must be a whole number": (CalibratedLeastSquares(max_iter=HUGE), {}),
    "max_seconds: must be a positive number": (MinimaxRiskClassifier(max_seconds=HUGE), {}),
    "n_jobs: must be None or an integer but 0": (WestonWatkinsClassifierCV(n_jobs=HUGE), {}),
    "power: makes weights that are zero or not finite": (CentroidClassifier(power=1e15), {}),
    "sample_weight: must be an array of numbers": (
        CentroidClassifier(),
        {"sample_weight": [HUGE] * 75},
    ),
    "X: must be numeric": (CentroidClassifier(), {"X": [[HUGE, 1]] * 75}),
    "y: Support for labels represented as bytes": (
        MemoirClassifier(),
        {"y": [b"a", b"b", b"c"] * 25},
    ),
    "y: mixes labels of types int, str": (MemoirClassifier(), {"y": [1, "a", 2] * 25}),
    "y: must be an array or a list of labels": (GeneralizedLeastSquares(), {"y": 3}),
    "y: must be one-dimensional, got a sparse matrix": (CentroidClassifier(), {"y": sp.eye(75)}),
}


@pytest.mark.parametrize("message", list(ODD))
def test_odd_arguments_raise_errors_that_name_them(message):
    estimator, given = ODD[message]
    with pytest.raises(ValueError, match=f"^{message}"):
        estimator.fit(**{"X": IRIS, "y": SPECIES} | given)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@each
def test_scores_that_are_no_numbers_are_refused(name, kind, fitted):
    known, X = fitted
    model = known[name]
    if kind is sp.csr_matrix and name == "stagewise":
        model = clone(model).fit(kind(X), SPECIES)
    for scale in (1e38, 1e200, 1e300):
        for method in (model.predict, model.decision_function):
            try:
                said = method(kind(X * scale))
            except ValueError as error:
                assert str(error).startswith("X: "), error
            else:
                assert method == model.predict or np.isfinite(said).all()


TIGHT = {  # with the tolerance of their scores: their solvers end at a gap
    "centroid": (CentroidClassifier(power=0.5), 1e-12),
    **{
        f"generalized, {link}": (GeneralizedLeastSquares(link, alpha=1e-2, gap=1e-10), 1e-6)
        for link in ("softmax", "sigmoid", "identity", "squared_hinge")
    },
    "calibrated": (CalibratedLeastSquares(max_iter=3), 1e-6),
    **{
        f"minimax risk, {solver}": (MinimaxRiskClassifier(0.3, solver=solver, gap=gap), np.inf)
        for solver, gap in (("lp", 1e-6), ("interior_point", 1e-6), ("ccg", 1e-3), ("pdhg", 2e-4))
    },
    **{
        f"Weston-Watkins, {solver}": (
            WestonWatkinsClassifier(solver=solver, gap_ratio=1e-8, max_iter=10**4, random_state=0),
            1e-2,
        )
        for solver in ("walrus_fast", "walrus", "shark")
    },
    "Weston-Watkins, kernel": (
        WestonWatkinsClassifier(kernel="rbf", gap_ratio=1e-8, random_state=0),
        1e-3,
    ),
    **{
        f"working set, {loss}": (
            WorkingSetClassifier(
                loss=loss, balance=0.5, l1=0.1, truncate=0, tol=1e-4, max_rounds=500, random_state=0
            ),
            0.1,
        )
        for loss in ("crammer_singer", "weston_watkins")
    },
}
HOW_OFTEN = np.arange(75) % 4


@pytest.mark.parametrize("name", list(TIGHT))
@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_repeated_rows(name, sparse):
    estimator, tolerance = TIGHT[name]
    if sparse and name == "minimax risk, interior_point":
        pytest.skip("it takes dense rows only")
    X = StandardScaler().fit_transform(IRIS)
    X[7] = 0.0
    X = sp.csr_matrix(X) if sparse else X
    y, weights = np.where(HOW_OFTEN > 0, SPECIES, 9), HOW_OFTEN.astype(np.float32)  # no 9 weighs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Shark's solver leaves 1e-6
        weighted = clone(estimator).fit(X, y, sample_weight=weights)
        rows = np.repeat(np.arange(75), HOW_OFTEN)
        repeated = clone(estimator).fit(X[rows], y[rows])
        without = clone(estimator).fit(X[HOW_OFTEN > 0], y[HOW_OFTEN > 0])
    assert weighted.classes_.tolist() == [0, 1, 2]
    found, expected = weighted.decision_function(X), repeated.decision_function(X)
    if np.isfinite(tolerance):
        np.testing.assert_allclose(found, expected, atol=tolerance)
        assert np.abs(without.decision_function(X) - expected).max() > 2 * tolerance
    if hasattr(weighted, "lower_"):
        slack = 2e-6 * abs(repeated.upper_)
        assert repeated.lower_ <= weighted.upper_ + slack  # intervals that hold the same optimum
        assert weighted.lower_ <= repeated.upper_ + slack
        gaps = [model.upper_ - model.lower_ for model in (weighted, repeated)]
        assert min(gaps) > -slack
        assert max(without.lower_ - weighted.upper_, weighted.lower_ - without.upper_) > slack


@each
def test_who_takes_weights_and_who_says_why_not(name):
    estimator = clone(CITIZENS[name][0])
    if not has_fit_parameter(estimator, "sample_weight"):
        assert "no `sample_weight`" in type(estimator).__doc__
        return
    for weights, message in (
        (np.zeros(75), "^sample_weight: .*not all zero"),
        (np.full(75, -1.0), "^sample_weight: .*at least 0"),
        (np.full(75, np.nan), "sample_weight contains NaN"),
        (np.ones(74), "^sample_weight: must have the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.fit(IRIS, SPECIES, sample_weight=weights)
    with pytest.raises(ValueError, match=r"two classes|one class|single"):
        estimator.fit(IRIS, SPECIES, sample_weight=SPECIES == 1)
    same = clone(estimator).fit(IRIS, SPECIES, sample_weight=np.ones(75))
    expected = clone(estimator).fit(IRIS, SPECIES).decision_function(IRIS)
    np.testing.assert_allclose(same.decision_function(IRIS), expected, rtol=1e-6, atol=1e-6)


def test_several_labels_and_parts_have_weights():
    X, Y = StandardScaler().fit_transform(IRIS), np.eye(3, dtype=int)[SPECIES]
    rows = np.repeat(np.arange(75), HOW_OFTEN)
    for model in (
        GeneralizedLeastSquares("sigmoid", alpha=1e-2, gap=1e-10),
        CalibratedLeastSquares(max_iter=3),
    ):
        weighted = clone(model).fit(X, Y, sample_weight=HOW_OFTEN)
        repeated = clone(model).fit(X[rows], Y[rows])
        np.testing.assert_allclose(
            weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
        )
    parts = CentroidClassifier()
    for half in (slice(0, 40), slice(40, 75)):
        given = {"classes": [0, 1, 2], "sample_weight": HOW_OFTEN[half]}
        parts.partial_fit(X[half], SPECIES[half], **given)
    whole = CentroidClassifier().fit(X[rows], SPECIES[rows])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-12)
    assert np.array_equal(parts.class_count_, whole.class_count_)
