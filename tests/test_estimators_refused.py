"""Every estimator: rows, labels, weights and parameters that are refused."""

import re
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import has_fit_parameter
from test_estimators import CASES, IRIS, NAMES, SCALED, SPECIES, each, made

from workbench.core.checks import shown
from workbench.estimators import (
    CentroidClassifier,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    SampledCutChain,
    SampledCutClassifier,
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
    WorkingSetClassifier,
)


@pytest.fixture(scope="module")
def fitted():
    """Return every estimator fitted on standardised rows."""
    return {name: made(name).fit(SCALED, SPECIES) for name in CASES}


def damaged(X, kind=sp.csr_matrix):
    X = kind(X)
    X.indices[0] = 10**8
    return X


@each
def test_a_damaged_sparse_matrix_is_refused_before_anything_reads_it(name, fitted):
    model, X = fitted[name], SCALED
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


def spoilt(value):
    X = IRIS.copy()
    X[3, 2] = value
    return X


@each
def test_bad_rows_and_labels_are_refused(name, fitted):
    model = made(name)
    for X, y, message in (
        (spoilt(np.nan), SPECIES, "NaN"),
        (spoilt(np.inf), SPECIES, "infinity"),
        (sp.csr_matrix(spoilt(np.nan)), SPECIES, "NaN"),
        (IRIS, np.ones(75), "two classes|one class"),
        (IRIS[:1], SPECIES[:1], "1 sample"),
        (IRIS, SPECIES[:-1], "inconsistent numbers of samples"),
        (IRIS, IRIS[:, 0] + 0.123, "continuous"),
        (IRIS[:, :0], SPECIES, r"0 feature\(s\)"),
        (IRIS[:, 0], SPECIES, "2D array"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
    for method in ("predict", "decision_function", "predict_proba"):
        if hasattr(fitted[name], method):
            with pytest.raises(NotFittedError):
                getattr(model, method)(IRIS)
            with pytest.raises(ValueError, match="expecting 4 features"):
                getattr(fitted[name], method)(IRIS[:, :3])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@each
def test_scores_that_are_not_numbers_are_refused(name, kind, fitted):
    model = fitted[name]
    if kind is sp.csr_matrix and name == "stagewise":
        model = clone(model).fit(kind(SCALED), SPECIES)
    for scale in (1e38, 1e200, 1e300):
        for method in (model.predict, model.decision_function):
            try:
                said = method(kind(SCALED * scale))
            except ValueError as error:
                assert str(error).startswith("X: "), error
            else:
                assert method == model.predict or np.isfinite(said).all()


# Beyond floats. Python does not even print integers of more than 4,300 digits.
HUGE = 10**400
NUMBER = 0, -1.0, np.nan, np.inf, "1", HUGE, Fraction(1, 2)  # none of them a positive number
NEGATIVE = -1, np.nan, "1", HUGE
WHOLE = 0, 2.5, "1", HUGE
NAME = "none such", 3, ["fourier"], b"softmax"
FLAG = "no", 2
REFUSED = {  # values of a parameter of any estimator, unless a key names the estimator too
    **dict.fromkeys(["C", "alpha", "bandwidth", "eps", "eta0", "gap_ratio", "gamma"], NUMBER),
    **dict.fromkeys(["lambda0", "max_seconds", "power", "tol"], (*NUMBER, 1e-31)),
    **dict.fromkeys(["gap", "eps1", "eps2", "coef0", "l1", "balance", "lam"], NEGATIVE),
    **dict.fromkeys(["eta_step", "kept", "memoir, gamma"], NEGATIVE),
    **dict.fromkeys(["r", "landmarks", "max_iter", "compress", "degree", "n_models"], WHOLE),
    **dict.fromkeys(["n_features", "block", "passes", "batch_size", "n_batches"], WHOLE),
    **dict.fromkeys(["n_max", "m_max", "max_rounds", "calibrated, basis"], WHOLE),
    **dict.fromkeys(["solver", "kernel", "basis", "link", "loss", "features"], NAME),
    **dict.fromkeys(["penalty", "mips", "preset"], NAME),
    **dict.fromkeys(["fit_intercept", "accelerated", "standardise", "calibrate"], FLAG),
    **dict.fromkeys(["quantize", "dense"], FLAG),
    "parameters": (["C"], 3),
    "fourier": (-2, 3, 2.5, "4"),
    "working_set": (1, 256, 2.5),
    "truncate": (-0.1, 1.5, "1"),
    "inner": (-1, 0.5),
    "random_state": (-1, 0.5, "0", HUGE),
    "n_jobs": (0, 1.5, "all", HUGE),
    "Cs": (0, -3, [], [1, 0], [1, np.nan], [1, np.inf], [HUGE], "ten", 2.5),
    "certify": (-0.1, 1, np.nan, "1", HUGE),
    **dict.fromkeys(["C_range", "alpha_range"], (3, (1, 1), (0, 1), (1, HUGE), "ab", (1, 2, 3))),
    "max_solves": WHOLE,
    "cv": (1, "ten"),
    "scoring": ("excellence", 3),
}


@each
def test_parameters_outside_their_range_are_refused_at_fit(name):
    for field in fields(CASES[name][0]):
        values = REFUSED.get(f"{name}, {field.name}", REFUSED.get(field.name))
        none = [None] * (field.default is not None and field.name != "cv")
        for value in (*values, *none):
            with pytest.raises(ValueError) as caught:
                made(name).set_params(**{field.name: value}).fit(IRIS, SPECIES)
            assert str(caught.value).startswith(f"{field.name}: "), (field.name, value)
            assert shown(value) in str(caught.value) or field.name in ("cv", "scoring")
    with pytest.raises(TypeError, match="unknown"):
        type(CASES[name][0])(unknown=1)
    with pytest.raises(ValueError, match="Invalid parameter"):
        made(name).set_params(unknown=1)


ODD = [
    (
        SampledCutClassifier(C=10**5000),
        "C: .*positive number, got an integer of thousands of digits",
    ),
    (WestonWatkinsClassifierCV(2**40), "Cs: must be None or at most 1000 powers"),
    (GeneralizedLeastSquares(alpha=0), "alpha: .* got 0; numbers from 1e-30 to 1e.30 are accepted"),
    (SampledCutClassifier(basis="nystrom"), "basis: .*'nystrom'; did you mean nystroem"),
    (WestonWatkinsClassifierCV(cv=[1]), "cv: "),
    (WestonWatkinsClassifierCV(10, certify=0.01), "Cs: must be None with certify, got 10"),
    (WestonWatkinsClassifierCV(certify=0.01, scoring="f1_macro"), "scoring: .* None with certify"),
    (WestonWatkinsClassifierCV(certify=1), "certify: must be None or a number .* below 1, got 1"),
    (WestonWatkinsClassifierCV(certify=0.1, C_range=(2, 1)), "C_range: .*ascending.*\\(2, 1\\)"),
    (
        WestonWatkinsClassifierCV(certify=0.1, C_range=3),
        "C_range: must be two positive numbers .*got 3",
    ),
    (WestonWatkinsClassifierCV(cv=51), "cv: n_splits=51.*members in each class"),
    (MemoirClassifier(dense="no"), "dense: must be None or True or False, got 'no'"),
    (
        SampledCutClassifier(gamma="auto"),
        "gamma: must be \"scale\" or a positive number, got 'auto'",
    ),
    (SampledCutClassifier(kernel="cubic"), "kernel: .*'rbf'.*got 'cubic'"),
    (GeneralizedLeastSquares("logit"), "link: unknown name 'logit'; known names: identity"),
    (MinimaxRiskClassifier(certify=0.01), "certify: only None .* gap says nothing"),
    (MinimaxRiskClassifier(max_seconds=0), "max_seconds: must be None or a positive number, got 0"),
    (CentroidClassifier(power=1e15), "power: makes weights that are zero or not finite"),
    (WestonWatkinsClassifierCV(scoring=lambda svm, X, y: np.nan), "scoring: .*NaN"),
]
ODD_ROWS = [
    ({"X": [[HUGE, 1]] * 75}, "X: must be numeric"),
    ({"y": [b"a", b"b", b"c"] * 25}, "y: Support for labels represented as bytes"),
    ({"y": [1, "a", 2] * 25}, "y: mixes labels of types int, str"),
    ({"y": 3}, "y: must be an array or a list of labels"),
    ({"y": sp.eye(75)}, "y: must be one-dimensional, got a sparse matrix"),
    ({"sample_weight": [HUGE] * 75}, "sample_weight: must be an array of numbers"),
]
ODD += [(CentroidClassifier(), message, given) for given, message in ODD_ROWS]
ODD += [
    (
        kind(C=C),
        "C: its products with the sample weights must be",
        {"sample_weight": np.full(75, weight)},
    )
    for kind in (WestonWatkinsClassifier, WorkingSetClassifier)
    for C, weight in ((1e30, 1e290), (1e-30, 1e-300))
]


@pytest.mark.parametrize(("estimator", "message", "given"), [(*odd, {})[:3] for odd in ODD])
def test_odd_arguments_raise_errors_that_name_them(estimator, message, given):
    with pytest.raises(ValueError, match=f"^{message}"):
        clone(estimator).fit(**{"X": IRIS, "y": SPECIES} | given)


@each
def test_sample_weights_are_checked_or_the_docstring_says_why_there_are_none(name):
    estimator = made(name)
    if not has_fit_parameter(estimator, "sample_weight"):
        assert "no `sample_weight`" in re.sub(r"\s+", " ", type(estimator).__doc__)
        return
    for weights, message in (
        (np.zeros(75), "^sample_weight: .*not all zero"),
        (np.full(75, -1.0), "^sample_weight: .*at least 0"),
        (np.full(75, np.nan), "sample_weight contains NaN"),
        (np.ones(74), "^sample_weight: must have the shape"),
        (SPECIES == 1, "two classes|one class|single"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.fit(IRIS, SPECIES, sample_weight=weights)
    same = clone(estimator).fit(IRIS, SPECIES, sample_weight=np.ones(75))
    expected = clone(estimator).fit(IRIS, SPECIES).decision_function(IRIS)
    np.testing.assert_allclose(same.decision_function(IRIS), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [CentroidClassifier, MemoirClassifier])
def test_calls_of_partial_fit_are_checked(kind):
    model = kind()
    for given, message in (
        ({}, "classes: must be given to the first call"),
        ({"classes": [3]}, "classes: needs at least two"),
        ({"classes": range(2)}, r"y: labels \[2\] are not among the classes"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(SCALED, SPECIES, **given)
        with pytest.raises(NotFittedError):  # a refused first call begins nothing
            model.predict(SCALED)
    before = model.partial_fit(SCALED, SPECIES, classes=range(3)).decision_function(SCALED)
    for X, y, classes, message in (
        (SCALED, SPECIES, range(4), "classes: must be those of the first call"),
        (SCALED, SPECIES + 5, None, "y: labels"),
        (SCALED[:, :3], SPECIES, None, "features"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, y, classes)
    assert np.array_equal(model.decision_function(SCALED), before)
