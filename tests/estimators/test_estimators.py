"""Every estimator: scikit-learn's checks, labels, rows, limits, interrupts, weights,
refusals."""

import re
import warnings
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from helpers import dense_or_sparse, each, module_fixture, refuses
from helpers.solvers import objective
from numpy.testing import assert_allclose, assert_equal
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from workbench import (
    GeneralizedLeastSquares,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    WestonWatkinsClassifier,
    WorkingSetClassifier,
    as_problem,
    estimators,
    load,
    rounds,
    run,
)
from workbench.core.checks import shown
from workbench.peers.linear import quiet

IRIS, SPECIES = (part[::2] for part in load_iris(return_X_y=True))
SCALED = StandardScaler().fit_transform(IRIS)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
COLUMNS = ["sepal length", "sepal width", "petal length", "petal width"]
CASES = {
    "generalized": GeneralizedLeastSquares(alpha=1e-3),
    "minimax risk": MinimaxRiskClassifier(tol=1e-2),
    "cuts": SampledCutClassifier(r=30, random_state=0),
    "Weston-Watkins": WestonWatkinsClassifier(0.1, random_state=0),
    "working set": WorkingSetClassifier(random_state=0),
}
each_name = each("name", CASES)
# Scikit-learn compares these to all digits: test_weights_are_repeated_rows compares
# them instead.
TO_THE_GAP = "check_sample_weight_equivalence_on_{}_data"
TO_THE_GAP = dict.fromkeys(
    map(TO_THE_GAP.format, ("dense", "sparse")), "equal to their gap only"
)
EQUAL_TO_THE_GAP = MinimaxRiskClassifier, WestonWatkinsClassifier, WorkingSetClassifier


def made(name):
    return clone(CASES[name])


@parametrize_with_checks(
    list(CASES.values()),
    expected_failed_checks=lambda one: (
        TO_THE_GAP if isinstance(one, EQUAL_TO_THE_GAP) else {}
    ),
)
def test_scikit_learn_s_own_checks(estimator, check):
    # some checks fit a few rows of noise, or set few rounds
    with quiet():
        check(estimator)


@module_fixture
def fitted():
    """Return every estimator fitted on standardised rows, without a warning."""
    kinds = {type(estimator).__name__ for estimator in CASES.values()}
    assert kinds == {*estimators.__all__}
    return {name: made(name).fit(SCALED, SPECIES) for name in CASES}


@each_name
def test_a_fit_is_its_solver_s_stream_row_by_row(name, fitted):
    """So solvers' own tests hold for estimators.

    Shapes, signs and shares, scikit-learn's own checks have.
    """
    model = fitted[name]
    trace = model.trace_
    problem = as_problem(model._widened(SCALED), SPECIES)
    solver = trace.header["solver"]
    given = trace.header["parameters"]
    again, state = run(solver, problem, rounds(trace.last["round"]), parameters=given)
    clocks = dict.fromkeys(("seconds", "cpu", "stopped_by"))
    assert [row | clocks for row in again.rows] == [row | clocks for row in trace.rows]
    found = model.decision_function(SCALED)
    assert_allclose(found, state.scores(problem.X), atol=1e-4)
    if hasattr(model, "coef_"):
        assert_allclose(found, SCALED @ model.coef_.T + model.intercept_, atol=1e-5)
    last = trace.last
    if np.isfinite(getattr(model, "lower_", np.nan)):
        gap = model.upper_ - model.lower_
        assert model.lower_ == last["lower"] <= model.upper_
        assert getattr(model, "gap_", gap) == gap
        assert model.upper_ in (last["upper"], last.get("primal"))


@each_name
def test_a_pipeline_of_frames_is_that_of_arrays(name, fitted):
    frame = pl.DataFrame(dict(zip(COLUMNS, IRIS.T)))
    labels = pl.Series(NAMES.tolist())
    pipeline = make_pipeline(StandardScaler(), made(name)).set_output(
        transform="polars"
    )
    pipeline.fit(frame, labels)
    found = pipeline.decision_function(frame)
    predicted = pipeline.predict(frame)
    expected = fitted[name].decision_function(SCALED)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert_equal(predicted, np.unique(NAMES)[fitted[name].predict(SCALED)])
    assert pipeline[-1].feature_names_in_.tolist() == COLUMNS
    rows = pipeline[0].transform(frame)
    with refuses("feature names should match"):
        pipeline[-1].predict(rows[COLUMNS[::-1]])


@each_name
def test_labels_of_any_kind_and_container(name, fitted):
    codes = fitted[name].predict(SCALED)
    for y in (
        NAMES[:, None],  # a column, which is warned of
        pl.Series(NAMES.tolist(), dtype=pl.Categorical),
        2.0 * SPECIES - 1,
        pd.Series(SPECIES, dtype="Int64"),
        SPECIES.astype(np.uint64) + np.uint64(2**63),
    ):
        with quiet():
            model = made(name).fit(SCALED, y)
        assert len(model.classes_) == 3
        assert_equal(model.predict(SCALED), model.classes_[codes])
        assert model.score(SCALED, y) == np.mean(codes == SPECIES)


@each("name", ["cuts", "Weston-Watkins", "working set"])
def test_fits_are_repeatable_by_their_seed(name):
    """That equal fits are equal to the bit, the test of callbacks has."""

    def said(seed):
        model = made(name).set_params(random_state=seed).fit(SCALED, SPECIES)
        return model.decision_function(SCALED), model.trace_.header["parameters"]

    first, given = said(3)
    assert given["seed"] == 3 and np.array_equal(first, said(np.int64(3))[0])
    assert not np.array_equal(first, said(4)[0])
    scores, drawn = said(None)
    assert_equal(scores, said(drawn["seed"])[0])


LIMITED = {  # by how much one round is too few
    "generalized": r"relative gap of .*, above tol=0.001: scale the features, or",
    "minimax risk": r"a gap of .*, above tol=0.01",
    "cuts": r"violation of .*, above tol=0.005",
    "Weston-Watkins": r"relative gap of .*, above tol=0.001",
    "working set": r"relative gap of .*, above tol=0.01",
}


@each_name
def test_a_limit_ends_any_fit_with_a_warning_at_its_call(name):
    with pytest.warns(
        ConvergenceWarning, match=r"stopped \(1e-09 seconds\) after 0 "
    ) as caught:
        model = made(name).set_params(max_seconds=1e-9).fit(SCALED, SPECIES)
    assert len(caught) == 1 and model.n_iter_ == 0
    assert np.ptp(model.decision_function(SCALED)) == 0
    given = {"basis": "exact"} if name == "cuts" else {}
    with pytest.warns(ConvergenceWarning) as caught:
        model = made(name).set_params(max_iter=1, **given).fit(SCALED, SPECIES)
    (warning,) = caught
    assert re.search(
        rf"stopped \(1 rounds\) after 1 rounds .*{LIMITED[name]}", str(warning.message)
    )
    assert warning.filename == __file__
    assert model.n_iter_ == 1
    assert model.lower_ < model.upper_


DIGITS, DIGIT = (part[::4] for part in load_digits(return_X_y=True))
SEEDED = {"random_state": 0}
CONVERGE = [
    *map(GeneralizedLeastSquares, ("softmax", "identity", "squared_hinge")),
    *(
        WestonWatkinsClassifier(solver=one, **SEEDED)
        for one in ("walrus_fast", "walrus", "shark")
    ),
    WorkingSetClassifier(**SEEDED),
    *(MinimaxRiskClassifier(solver=one) for one in ("interior_point", "splitting")),
    *(
        SampledCutClassifier(basis=one, **SEEDED)
        for one in ("exact", "linear_time", "nystroem")
    ),
]
SILENT = [  # with the reason of their end
    (MinimaxRiskClassifier(10.0), "gap <= 0.001"),  # all coefficients are zero
    (WorkingSetClassifier(1e-9, **SEEDED), "relative gap <= 0.01"),
    (SampledCutClassifier(r=5, **SEEDED), "finished"),
    (SampledCutClassifier(basis="constant_time", max_iter=20, **SEEDED), "20 rounds"),
    (WorkingSetClassifier(max_iter=3, **SEEDED), "3 rounds"),
    (WestonWatkinsClassifier(max_iter=20, **SEEDED), "20 rounds"),
]


@each("estimator, reason", [(one, "") for one in CONVERGE] + SILENT)
def test_a_fit_reaches_its_tolerance_or_warns(estimator, reason):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = clone(estimator).fit(DIGITS, DIGIT)
    assert len(caught) == bool(reason) and model.trace_.stopped_by.startswith(reason)
    if isinstance(model, SampledCutClassifier):
        distance = model.trace_.last["violation"]
    elif isinstance(model, MinimaxRiskClassifier):
        distance = model.upper_ - model.lower_
    else:
        distance = (model.upper_ - model.lower_) / model.upper_
    assert reason or distance <= model.tol


def test_least_squares_takes_single_precision_for_double():
    model = GeneralizedLeastSquares()
    assert len({model.fit(DIGITS.astype(t), DIGIT).n_iter_ for t in "fd"}) == 1


def check_interrupted(model, whole):
    """Check that two intervals can hold one optimum, and that the bound is the
    model's."""
    assert model.lower_ <= min(model.upper_, whole.upper_)
    assert whole.lower_ <= model.upper_
    if hasattr(model, "coef_"):
        M = np.column_stack([model.coef_, model.intercept_])
        rows = as_problem(model._widened(SCALED), SPECIES)
        if rows.d == 5:  # the intercept is of a constant feature
            M = np.column_stack([M, np.zeros(3)])
        header = model.trace_.header
        value = objective(header["solver"], rows, M, header["parameters"])
        assert value <= model.upper_ * (1 + 1e-5)
        risk = isinstance(model, MinimaxRiskClassifier)
        assert risk or value == pytest.approx(model.upper_, rel=1e-5)


@each_name
def test_ctrl_c_keeps_the_last_iterate_if_there_is_one(name, fitted, interrupt):
    given = {"minimax risk": {"tol": 1e-9}}.get(name, {})
    solver = fitted[name].trace_.header["solver"]
    interrupt(solver, at=2)
    said = rf"{solver} stopped \(interrupted\)"
    with pytest.warns(ConvergenceWarning, match=said) as caught:
        model = made(name).set_params(**given).fit(SCALED, SPECIES)
    assert caught[-1].filename == __file__ and model.trace_.stopped_by == "interrupted"
    assert 1 <= model.n_iter_ < max(fitted[name].n_iter_, 3)
    assert np.isfinite(model.decision_function(SCALED)).all()
    assert model.score(SCALED, SPECIES) > 0.5
    if np.isfinite(getattr(model, "lower_", np.nan)):
        check_interrupted(model, fitted[name])
    interrupt(solver, at=0)
    with pytest.raises(KeyboardInterrupt):
        made(name).set_params(**given).fit(SCALED, SPECIES)


@each_name
def test_callbacks_see_each_round_and_change_nothing(name, fitted):
    def upper(model, X, y):
        return model.upper_

    monitor = ScoringMonitor(scoring={"upper": upper, "score": "accuracy"})
    model = made(name).set_callbacks(monitor).fit(SCALED, SPECIES)
    log = monitor.get_logs().data_as_pandas
    assert log.task_id.tolist() == list(range(model.n_iter_ + 1))
    last = log.iloc[-1]
    assert last.upper == pytest.approx(model.upper_, nan_ok=True)
    assert last.score == model.score(SCALED, SPECIES)
    assert_equal(
        model.decision_function(SCALED), fitted[name].decision_function(SCALED)
    )


class StopAtOnce(ScoringMonitor):
    def on_fit_task_end(self, estimator, context):
        return True


@each_name
def test_a_callback_ends_a_fit(name):
    with pytest.warns(ConvergenceWarning, match=r"\(a callback\) after 0 rounds"):
        made(name).set_callbacks(StopAtOnce(scoring=None)).fit(SCALED, SPECIES)


SETS = {"l1": 0.1, "tol": 1e-4, "random_state": 0}
TIGHT = [  # with the tolerance of their scores: their solvers end at a gap
    (GeneralizedLeastSquares("squared_hinge", alpha=1e-2, tol=1e-12), 1e-6),
    (WorkingSetClassifier(**SETS), 0.1),
]
TIGHT += [
    (MinimaxRiskClassifier(0.3, solver=solver, tol=tol), np.inf)
    for solver, tol in (
        ("lp", 1e-6),
        ("interior_point", 1e-6),
        ("ccg", 1e-3),
        ("pdhg", 2e-4),
    )
]
EXACT = {"tol": 1e-8, "max_iter": 10**4, "random_state": 0}
TIGHT += [
    (WestonWatkinsClassifier(solver=solver, **EXACT), 1e-2)
    for solver in ("walrus_fast", "walrus", "shark")
]
HOW_OFTEN = np.arange(75) % 4


@dense_or_sparse
@each("estimator, tolerance", TIGHT)
def test_weights_are_repeated_rows(estimator, tolerance, kind):
    if kind is sp.csr_matrix and getattr(estimator, "solver", "") == "interior_point":
        return  # it takes dense rows only
    X = SCALED.copy()
    X[7] = 0.0
    X = kind(X)
    # no 9 weighs
    y, weights = np.where(HOW_OFTEN > 0, SPECIES, 9), HOW_OFTEN.astype(np.float32)
    with quiet():  # Shark's solver leaves 1e-6
        weighted = clone(estimator).fit(X, y, sample_weight=weights)
        rows = np.repeat(np.arange(75), HOW_OFTEN)
        repeated = clone(estimator).fit(X[rows], y[rows])
    assert weighted.classes_.tolist() == [0, 1, 2]
    found = weighted.decision_function(X)
    expected = repeated.decision_function(X)
    if np.isfinite(tolerance):
        assert_allclose(found, expected, atol=tolerance)
    if hasattr(weighted, "lower_"):
        slack = 2e-6 * abs(repeated.upper_)
        # intervals that hold the same optimum
        assert repeated.lower_ <= weighted.upper_ + slack
        assert weighted.lower_ <= repeated.upper_ + slack
        gaps = [model.upper_ - model.lower_ for model in (weighted, repeated)]
        assert min(gaps) > -slack


@each_name
def test_a_damaged_sparse_matrix_is_refused_before_it_is_read(name, fitted):
    model = fitted[name]
    asked = ("predict", "decision_function", "predict_proba")
    calls = [getattr(model, method) for method in asked if hasattr(model, method)]
    calls += [
        lambda rows: model.fit(rows, SPECIES),
        lambda rows: model.score(rows, SPECIES),
    ]
    damaged = sp.csr_matrix(SCALED)
    damaged.indices[0] = 10**8
    for call in calls:
        with refuses(r"^X: is damaged; "):
            call(damaged)


@dense_or_sparse
@each_name
def test_scores_that_are_not_numbers_are_refused(name, kind, fitted):
    model = fitted[name]
    for scale in (1e38, 1e200, 1e300):
        for method in (model.predict, model.decision_function):
            try:
                said = method(kind(SCALED * scale))
            except ValueError as error:
                assert str(error).startswith("X: "), error
            else:
                assert method == model.predict or np.isfinite(said).all()


HUGE = 10**400  # beyond floats
# none of them a positive number
NUMBER = 0, -1.0, np.nan, np.inf, "1", HUGE, Fraction(1, 2)
NEGATIVE = -1, np.nan, "1", HUGE
WHOLE = 0, 2.5, "1", HUGE
NAME = "none such", 3, ["fourier"], b"softmax"
REFUSED = {  # values of a parameter of any estimator
    **dict.fromkeys("C alpha gamma tol".split(), NUMBER),
    **dict.fromkeys(["lambda0", "max_seconds"], (*NUMBER, 1e-31)),
    **dict.fromkeys(["l1"], NEGATIVE),
    **dict.fromkeys(["r", "max_iter"], WHOLE),
    **dict.fromkeys(["solver", "kernel", "link"], NAME),
    "fit_intercept": ("no", 2),
    "working_set": (1, 256, 2.5),
    "truncate": (-0.1, 1.5, "1"),
    "random_state": (-1, 0.5, "0", HUGE),
}


@each_name
def test_parameters_outside_their_range_are_refused_at_fit(name):
    for field in fields(CASES[name]):
        values = REFUSED.get(field.name) or NAME  # of `basis`
        if field.name == "tol" and name == "minimax risk":
            values = NEGATIVE
        none = [None] * (field.default is not None)
        for value in (*values, *none):
            with pytest.raises(ValueError) as caught:
                made(name).set_params(**{field.name: value}).fit(IRIS, SPECIES)
            assert str(caught.value).startswith(f"{field.name}: "), (field.name, value)
            assert shown(value) in str(caught.value)


ODD = [
    (
        SampledCutClassifier(basis="nystrom"),
        "basis: .*'nystrom'; did you mean nystroem",
        {},
    ),
    (
        SampledCutClassifier(gamma="auto"),
        'gamma: must be "scale" or a positive number',
        {},
    ),
    (
        WorkingSetClassifier(),
        "y: mixes labels of types int, str",
        {"y": [1, "a", 2] * 25},
    ),
]
ODD += [
    (WestonWatkinsClassifier(C=1e30), said, {"sample_weight": given})
    for given, said in (
        (np.full(75, 1e290), "sample_weight: products with C"),
        (np.full(75, -1.0), "Negative values in data passed to `sample_weight`"),
        (
            [np.datetime64("2026-01-01")] * 75,
            "sample_weight: must contain real numbers",
        ),
        (SPECIES == 1, ".*(two classes|one class)"),
    )
]


@each("estimator, message, given", ODD)
def test_odd_arguments_raise_errors_that_name_them(estimator, message, given):
    with refuses(f"^{message}", (ValueError, TypeError, OverflowError)):
        clone(estimator).fit(**{"X": IRIS, "y": SPECIES} | given)


DAYS = pd.date_range("2026-01-01", periods=75)
PART = {"a": IRIS[:, 0], "b": IRIS[:, 1]}
# rows that NumPy or a frame would turn into floats, and the words of the error
NOT_NUMBERS = {
    "dates": (np.c_[DAYS, DAYS], "real numbers, got dtype datetime64"),
    "complex, sparse": (sp.csr_matrix(IRIS * 1j), "real numbers, got dtype complex128"),
    "Polars' dates": (
        pl.DataFrame(PART | {"c": [day.date() for day in DAYS]}),
        "Timestamp|DateTime64",
    ),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@each("kind", NOT_NUMBERS)
def test_columns_that_are_not_numbers_are_refused_by_name(kind):
    X, message = NOT_NUMBERS[kind]
    fine = GeneralizedLeastSquares(alpha=0.1).fit(IRIS[:, :2], SPECIES)
    calls = [made(name).fit for name in CASES] + [fine.score, as_problem]
    calls += [lambda X, y: load((X, y)), lambda X, _: fine.predict(X)]
    for call in calls:
        with refuses(message, (TypeError, ValueError)):
            call(X, SPECIES)
