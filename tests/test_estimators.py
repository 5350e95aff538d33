"""Every estimator: scikit-learn's checks and tools, labels, rows, limits, interrupts, weights."""

import os
import pickle
import re
import warnings

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
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_solvers import objective

from workbench import estimators
from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.core.trace import Trace
from workbench.estimators import (
    CalibratedLeastSquares,
    CentroidClassifier,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    SolverClassifier,
    StagewiseLeastSquares,
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
    WorkingSetClassifier,
)
from workbench.registry import SOLVERS
from workbench.runs.run import run

IRIS, SPECIES = (part[::2] for part in load_iris(return_X_y=True))
SCALED = StandardScaler().fit_transform(IRIS)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
COLUMNS = ["sepal length", "sepal width", "petal length", "petal width"]
CASES = {  # with parameters that one would search over
    "calibrated": (CalibratedLeastSquares(max_iter=4), {"alpha": [1e-5, 1e-1]}),
    "centroid": (CentroidClassifier(), {"power": [0.5, 1.0]}),
    "generalized": (GeneralizedLeastSquares(alpha=1e-3), {"alpha": [1e-3, 1.0]}),
    "memoir": (MemoirClassifier(n_batches=300, random_state=0), {"eta0": [0.3, 1.0]}),
    "minimax risk": (MinimaxRiskClassifier(gap=1e-2), {"lambda0": [0.01, 0.3]}),
    "cuts": (SampledCutClassifier(r=30, random_state=0), {"C": [0.1, 1.0]}),
    "any solver": (SolverClassifier(max_iter=8), {"max_iter": [2, 8]}),
    "stagewise": (
        StagewiseLeastSquares(n_features=32, block=16, alpha=1e-3, random_state=0),
        {"bandwidth": [0.5, 2.0]},
    ),
    "Weston-Watkins": (
        WestonWatkinsClassifier(0.1, fit_intercept=True, random_state=0),
        {"C": [0.01, 0.1]},
    ),
    "Weston-Watkins, searched": (
        WestonWatkinsClassifierCV([0.01, 0.1], cv=2, random_state=0),
        {"fit_intercept": [False, True]},
    ),
    "Weston-Watkins, certified": (
        WestonWatkinsClassifierCV(certify=0.05, C_range=(1e-3, 1e-2), cv=2, random_state=0),
        {"certify": [0.1, 0.05]},
    ),
    "working set": (WorkingSetClassifier(random_state=0), {"C": [0.1, 1.0]}),
}
each = pytest.mark.parametrize("name", list(CASES))
streams = pytest.mark.parametrize("name", [name for name in CASES if name != "centroid"])
# Scikit-learn compares these to all digits: test_weights_are_repeated_rows compares them instead.
TO_THE_GAP = {
    f"check_sample_weight_equivalence_on_{kind}_data": "solutions are equal to their gap only"
    for kind in ("dense", "sparse")
}
EQUAL_TO_THE_GAP = MinimaxRiskClassifier, WestonWatkinsClassifier, WorkingSetClassifier


def made(name):
    return clone(CASES[name][0])


def test_everyone_is_here():
    kinds = {type(estimator).__name__ for estimator, _ in CASES.values()}
    others = {"SampledCutChain", "GapMonitor", "load"}  # sequences, and no classifiers
    assert kinds == {*estimators.__all__} - others


@parametrize_with_checks(
    [estimator for estimator, _ in CASES.values()],
    expected_failed_checks=lambda one: TO_THE_GAP if isinstance(one, EQUAL_TO_THE_GAP) else {},
)
def test_scikit_learn_s_own_checks(estimator, check):
    with warnings.catch_warnings():  # some checks fit a few rows of noise, or set few rounds
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class")
        check(estimator)


@pytest.fixture(scope="module")
def fitted():
    """Return every estimator fitted on standardised rows, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {name: made(name).fit(SCALED, SPECIES) for name in CASES}


@each
def test_attributes_that_all_have(name, fitted):
    model = fitted[name]
    assert model.classes_.tolist() == [0, 1, 2] and model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    if name != "centroid":
        assert isinstance(model.trace_, Trace) and model.n_iter_ >= 1
        given = model.trace_.header["parameters"]
        assert given.get("seed", 0) == 0 and model.trace_.header["solver"] in SOLVERS
    decision, proba = model.decision_function(SCALED), getattr(model, "predict_proba", None)
    assert decision.shape == (75, 3) and model.score(SCALED, SPECIES) > 0.7
    assert np.array_equal(model.predict(SCALED), decision.argmax(axis=1))
    if proba:
        shares = proba(SCALED)
        assert shares.min() >= 0 and np.allclose(shares.sum(axis=1), 1)
    if hasattr(model, "coef_") and model.coef_.shape == (3, 4):
        linear = SCALED @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(decision, linear, atol=1e-5)
    if hasattr(model, "lower_") and np.isfinite(model.lower_):
        assert model.lower_ <= model.upper_
        assert getattr(model, "gap_", model.upper_ - model.lower_) == model.upper_ - model.lower_


@streams
def test_a_fit_is_the_stream_of_its_solver(name, fitted):
    """Solvers' own tests hold for estimators: a fit is the stream, row by row."""
    model, trace = fitted[name], fitted[name].trace_
    problem = model._problem(getattr(model, "_scaled", np.asarray)(SCALED), SPECIES)
    solver, given = trace.header["solver"], trace.header["parameters"]
    again, state = run(solver, problem, rounds(trace.last["round"]), parameters=given)
    clocks = dict.fromkeys(("seconds", "cpu", "stopped_by"))
    assert [row | clocks for row in again.rows] == [row | clocks for row in trace.rows]
    scores = state.scores(problem.X)
    if name == "working set":  # which drops small weights
        scores = SCALED @ state.model(0.25)
    np.testing.assert_allclose(model.decision_function(SCALED), scores, atol=1e-4)
    if hasattr(model, "lower_") and np.isfinite(model.lower_):
        assert model.lower_ == trace.last["lower"]
        assert model.upper_ in (trace.last["upper"], trace.last.get("primal"))


@each
@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_a_pipeline_of_frames_is_that_of_arrays(name, frames, fitted):
    library = {"pandas": pd, "polars": pl}[frames]
    frame = library.DataFrame(dict(zip(COLUMNS, IRIS.T)))
    labels = library.Series(NAMES.tolist())
    pipeline = make_pipeline(StandardScaler(), made(name)).set_output(transform=frames)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.fit(frame, labels)
        found = pipeline.decision_function(frame)
        predicted = pipeline.predict(frame)
    expected = fitted[name].decision_function(SCALED)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert np.array_equal(predicted, np.unique(NAMES)[fitted[name].predict(SCALED)])
    assert pipeline[-1].feature_names_in_.tolist() == COLUMNS
    rows = pipeline[0].transform(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline[-1].predict(rows[COLUMNS[::-1]])


@each
def test_searches_folds_and_calibration(name):
    estimator, grid = CASES[name]
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    steps = {f"{pipeline.steps[-1][0]}__{key}": values for key, values in grid.items()}
    search = GridSearchCV(pipeline, steps, cv=2).fit(IRIS, NAMES)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.7
    found = search.best_estimator_[-1].get_params()
    assert all(found[key] in values for key, values in grid.items())
    scoring = "neg_log_loss" if hasattr(pipeline, "predict_proba") else None
    scores = cross_val_score(pipeline, IRIS, NAMES, cv=2, scoring=scoring)
    assert np.isfinite(scores).all() and len(scores) == 2
    calibrated = CalibratedClassifierCV(pipeline, cv=2).fit(IRIS, NAMES)
    np.testing.assert_allclose(calibrated.predict_proba(IRIS).sum(axis=1), 1)
    assert np.mean(calibrated.predict(IRIS) == NAMES) > 0.7


@each
def test_labels_of_any_kind_and_container(name, fitted):
    codes = fitted[name].predict(SCALED)
    kinds = {
        "categories": pd.Series(NAMES, dtype="category"),
        "texts of pandas": pd.Series(NAMES, dtype="string"),
        "texts of Polars": pl.Series(NAMES.tolist()),
        "categories of Polars": pl.Series(NAMES.tolist(), dtype=pl.Categorical),
        "a list": NAMES.tolist(),
        "objects": NAMES.astype(object),
        "floats": 2.0 * SPECIES - 1,
        "small integers of Polars": pl.Series(SPECIES - 1, dtype=pl.Int8),
        "nullable integers": pd.Series(SPECIES, dtype="Int64"),
        "unsigned": SPECIES.astype(np.uint64) + np.uint64(2**63),
    }
    for kind, y in kinds.items():
        model = made(name).fit(SCALED, y)
        assert len(model.classes_) == 3, kind
        assert np.array_equal(model.predict(SCALED), model.classes_[codes]), kind
        assert model.score(SCALED, y) == np.mean(codes == SPECIES), kind
    two = made(name).fit(SCALED, SPECIES > 0)
    assert two.classes_.dtype == bool and two.predict(SCALED).dtype == bool
    decision = two.decision_function(SCALED)
    assert decision.shape == (75,) and two.score(SCALED, SPECIES > 0) > 0.9
    assert np.array_equal(two.predict(SCALED), decision > 0)
    if hasattr(two, "predict_proba"):
        shares, sure = two.predict_proba(SCALED), np.abs(decision) > 1e-9
        assert shares.shape == (75, 2)
        if name != "minimax risk":  # whose probabilities may be equal
            assert np.array_equal((shares[:, 1] > 0.5)[sure], (decision > 0)[sure])


@each
def test_any_sparse_matrix_and_precision_is_the_same(name, fitted):
    """Sparse rows are not centred by stagewise regression, and have another solver here."""
    forms = sp.csr_matrix, sp.csc_array
    models = [clone(fitted[name]).fit(form(SCALED), SPECIES) for form in forms]
    decision = models[0].decision_function(SCALED)
    assert models[0].score(SCALED, SPECIES) > 0.6
    for model in models:
        for form in (sp.csr_array, sp.csc_matrix, sp.coo_array):
            found = model.decision_function(form(SCALED))
            np.testing.assert_allclose(found, decision, rtol=1e-5, atol=1e-5)
    if name not in ("minimax risk", "stagewise"):
        np.testing.assert_allclose(decision, fitted[name].decision_function(SCALED), atol=0.05)
    single = clone(fitted[name]).fit(SCALED.astype(np.float32), SPECIES)
    assert np.mean(single.predict(SCALED) == fitted[name].predict(SCALED)) > 0.9


@each
def test_fits_are_repeatable_pickle_and_leave_no_file(name, fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, decision = fitted[name], fitted[name].decision_function(SCALED)
    again = clone(model).fit(SCALED, SPECIES)
    assert np.array_equal(again.decision_function(SCALED), decision)
    assert getattr(again, "upper_", 0) == getattr(model, "upper_", 0)
    loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.decision_function(SCALED), decision)
    assert os.listdir(tmp_path) == []
    if not hasattr(model, "random_state"):
        return
    seeded = [clone(model).set_params(random_state=s) for s in (3, np.int64(3), 4, None)]
    seeded += [clone(model).set_params(random_state=np.random.RandomState(5)) for _ in range(2)]
    said = [one.fit(SCALED, SPECIES).decision_function(SCALED) for one in seeded]
    assert np.array_equal(said[0], said[1]) and not np.array_equal(said[1], said[2])
    assert np.array_equal(said[4], said[5])
    drawn = seeded[3].trace_.header["parameters"]["seed"]
    again = clone(model).set_params(random_state=drawn).fit(SCALED, SPECIES)
    assert np.array_equal(again.decision_function(SCALED), said[3])


LIMITED = {  # limits that end a fit early, and what the warning says
    "generalized": ({"max_iter": 1}, r"ls_acc.*\(1 rounds\) .*above 0.001: raise the limit"),
    "minimax risk": ({"max_iter": 1}, r"mrc_int.*\(1 rounds\).*raise max_iter"),
    "cuts": ({"max_iter": 1}, r"cuts_linear_time stopped \(1 rounds\).*raise eps"),
    "Weston-Watkins": ({"max_iter": 1}, r"gap ratio of 1, above 0.001: scale"),
    "Weston-Watkins, searched": ({"max_iter": 1}, r"4 of 4 solutions of the folds.*from C = 0.01"),
    "working set": ({"tol": 1e-6, "max_rounds": 1}, r"\(1 rounds\).*above 1e-06 of it: raise"),
}


@pytest.mark.parametrize("name", list(LIMITED))
def test_a_limit_is_warned_of_where_fit_is_called(name):
    given, message = LIMITED[name]
    with pytest.warns(ConvergenceWarning) as caught:
        model = made(name).set_params(**given).fit(SCALED, SPECIES)
    assert re.search(message, str(caught[0].message))
    assert {w.filename for w in caught} == {__file__} and model.n_iter_ == 1
    assert len(caught) == 1 + (name == "Weston-Watkins, searched")  # the folds, and the refit
    assert np.isnan(getattr(model, "lower_", np.nan)) or model.lower_ < model.upper_
    if hasattr(model, "max_seconds") and name != "Weston-Watkins, searched":  # it is the search's
        with pytest.warns(ConvergenceWarning, match=r"stopped \(1e-09 seconds\)"):
            model = made(name).set_params(max_seconds=1e-9).fit(SCALED, SPECIES)
        assert model.n_iter_ == 0 and not model.decision_function(SCALED).any()


STOPPED = {name: {} for name in CASES if name != "centroid"}
STOPPED |= {"minimax risk": {"gap": 1e-9}, "working set": {"truncate": 0.0}}
STOPPED = [(name, None, given) for name, given in STOPPED.items()]
STOPPED += [("generalized", "ls_generalized", {"accelerated": False})]
STOPPED += [("Weston-Watkins", "ww_walrus", {"solver": "walrus"})]


@pytest.mark.parametrize(("name", "solver", "given"), STOPPED)
def test_ctrl_c_keeps_the_last_iterate_if_there_is_one(name, solver, given, fitted, interrupt):
    solver = solver or fitted[name].trace_.header["solver"]
    interrupt(solver, at=2)
    with pytest.warns(ConvergenceWarning, match=rf"{solver} stopped \(interrupted\)") as caught:
        model = made(name).set_params(**given)
        model.fit(SCALED, SPECIES)
    assert caught[-1].filename == __file__ and model.trace_.stopped_by == "interrupted"
    assert 1 <= model.n_iter_ < max(fitted[name].n_iter_, 3)
    assert np.isfinite(model.decision_function(SCALED)).all()
    assert model.score(SCALED, SPECIES) > 0.5
    if np.isfinite(getattr(model, "lower_", np.nan)):  # intervals that hold the same optimum
        assert model.lower_ <= model.upper_ and model.lower_ <= fitted[name].upper_
        assert fitted[name].lower_ <= model.upper_
        if hasattr(model, "coef_"):  # the bound is that of the coefficients
            M = np.column_stack([model.coef_, model.intercept_])
            chosen, rows = model.trace_.header["parameters"], as_problem(SCALED, SPECIES)
            value = objective(solver, rows, M, chosen)
            assert value <= model.upper_ * (1 + 1e-5)
            assert value == pytest.approx(model.upper_, rel=1e-5) or name == "minimax risk"
    interrupt(solver, at=0)
    with pytest.raises(KeyboardInterrupt):
        made(name).set_params(**given).fit(SCALED, SPECIES)


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


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in TIGHT
        for form in (np.asarray, sp.csr_matrix)
        if form is np.asarray or "interior_point" not in name  # which takes dense rows only
    ],
)
def test_weights_are_repeated_rows(name, form):
    estimator, tolerance = TIGHT[name]
    X = SCALED.copy()
    X[7] = 0.0
    X = form(X)
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


def test_several_labels_and_parts_have_weights():
    Y, rows = np.eye(3, dtype=int)[SPECIES], np.repeat(np.arange(75), HOW_OFTEN)
    for model in (
        GeneralizedLeastSquares("sigmoid", alpha=1e-2, gap=1e-10),
        CalibratedLeastSquares(max_iter=3),
    ):
        weighted = clone(model).fit(SCALED, Y, sample_weight=HOW_OFTEN)
        repeated = clone(model).fit(SCALED[rows], Y[rows])
        expected = repeated.decision_function(SCALED)
        np.testing.assert_allclose(weighted.decision_function(SCALED), expected, atol=1e-6)
    parts = CentroidClassifier()
    for half in (slice(0, 40), slice(40, 75)):
        given = {"classes": [0, 1, 2], "sample_weight": HOW_OFTEN[half]}
        parts.partial_fit(SCALED[half], SPECIES[half], **given)
    whole = CentroidClassifier().fit(SCALED[rows], SPECIES[rows])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-12)
    assert np.array_equal(parts.class_count_, whole.class_count_)
