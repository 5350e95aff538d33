"""Certificates of other people's models: the optimum that cvxpy finds is in every
interval."""

import re
import signal

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import dense_or_sparse, each, refuses
from helpers.oracles import LINKS, crammer_singer
from pytest import approx
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from workbench import certify, cli, load
from workbench import estimators as ours
from workbench.certification import references
from workbench.core.interrupts import Held
from workbench.peers.linear import quiet
from workbench.proofs import checker

X, THREE = (part[::2] for part in load_iris(return_X_y=True))
# moved, so that it matters how the intercept counts
X = StandardScaler().fit_transform(X) + 0.5
TWO = (THREE == 1).astype(int)
OFTEN = np.random.default_rng(0).integers(0, 4, 75)
HEAVY = {0: 2.0, 1: 0.5, 2: 3.0}
FEW = {"max_iter": 3, "random_state": 0}
SGD = {"alpha": 0.05, "max_iter": 5, "tol": None, "random_state": 0}


@pytest.fixture(autouse=True)
def one_process(monkeypatch, request):
    """Fit all models in this process, except where the time limit is tested."""
    if "slow" not in request.node.name:
        monkeypatch.setattr(references, "SOON_S", np.inf)


def losses(name, F, y):
    """Return the losses (n, K) or (n, 1) of scores (n, K) as cvxpy states them."""
    own = (y[:, None] == np.arange(F.shape[1]) if F.shape[1] > 1 else y[:, None]) * 1.0
    margins = cp.multiply(2 * own - 1, F)
    table = {
        "hinge": cp.pos(1 - margins),
        "squared_hinge": cp.square(cp.pos(1 - margins)),
        "logistic": cp.logistic(-margins),
        "ridge": cp.square(1 - margins),
        "softmax": LINKS["softmax"](F, own),
        "crammer_singer": crammer_singer(F, own),
    }[name]
    return cp.reshape(table, (len(y), table.size // len(y)), order="C")


def stated(name, rows, y, K, cost=1.0, alpha=1.0, l1=0.0, intercept=None, matrix=None):
    """Return the problem of a documentation in cvxpy, and its variables; `intercept` is
    b's."""
    W = cp.Variable((rows.shape[1], K))
    b = cp.Variable((1, K))
    F = rows @ W + np.ones((len(y), 1)) @ b
    square = cp.sum_squares(W)
    if matrix is not None:
        square = cp.quad_form(W[:, 0], cp.psd_wrap(matrix))
    value = cp.sum(cp.multiply(cost, losses(name, F, y)))
    value += alpha / 2 * square + l1 * cp.norm1(W)
    if intercept not in (None, "free"):
        b_ = b / intercept
        value += alpha / 2 * cp.sum_squares(b_) + l1 * cp.norm1(b_)
    return cp.Problem(cp.Minimize(value), [b == 0] if intercept is None else []), W, b


BY_CLASS, BY_SIDE = (np.array([HEAVY[c] for c in y])[:, None] for y in (THREE, TWO))
# LIBLINEAR's weights of each class against the rest
AGAINST = np.where(THREE[:, None] == np.arange(3), BY_CLASS, 1.0)
BALANCED_TWO = (75 / (2 * np.bincount(TWO)))[TWO][:, None]
PAIR = {0: 2.0, 1: 0.5}
FREE = {"intercept": "free"}
SAGA = {"solver": "saga", "tol": 1e-7, "max_iter": 10_000, "random_state": 0}
STEADY = SGD | {"learning_rate": "constant", "eta0": 1e-3}
# Models, their labels, and the loss and the arguments of `stated`.
MODELS = {
    "svc": (
        LinearSVC(C=0.3, **FEW),
        THREE,
        "squared_hinge",
        {"cost": 0.3, "intercept": 1},
    ),
    "svc hinge": (
        LinearSVC(loss="hinge", intercept_scaling=2.0, class_weight=PAIR, **FEW),
        TWO,
        "hinge",
        {"cost": BY_SIDE, "intercept": 2},
    ),
    "svc against the rest": (
        LinearSVC(loss="hinge", class_weight=HEAVY, **FEW),
        THREE,
        "hinge",
        {"cost": AGAINST, "intercept": 1},
    ),
    "svc joint": (
        LinearSVC(multi_class="crammer_singer", C=0.2, class_weight=HEAVY, **FEW),
        THREE,
        "crammer_singer",
        {"cost": 0.2 * BY_CLASS, "intercept": 1},
    ),
    "svc without b": (LinearSVC(fit_intercept=False, **FEW), TWO, "squared_hinge", {}),
    "svc l1": (
        LinearSVC(penalty="l1", dual=False, tol=1e-8, random_state=0),
        TWO,
        "squared_hinge",
        {"alpha": 0, "l1": 1, "intercept": 1},
    ),
    "linear kernel": (
        SVC(C=0.1, kernel="linear", tol=0.5, class_weight="balanced"),
        TWO,
        "hinge",
        {"cost": 0.1 * BALANCED_TWO} | FREE,
    ),
    "kernel": (SVC(C=0.7, tol=0.5), TWO, "hinge", {"cost": 0.7} | FREE),
    "softmax": (
        LogisticRegression(C=0.4, max_iter=3, class_weight=HEAVY),
        THREE,
        "softmax",
        {"cost": 0.4 * BY_CLASS} | FREE,
    ),
    "logistic": (
        LogisticRegression(max_iter=3, fit_intercept=False),
        TWO,
        "logistic",
        {},
    ),
    "liblinear": (
        LogisticRegression(
            solver="liblinear", max_iter=2, intercept_scaling=3.0, tol=1.0
        ),
        TWO,
        "logistic",
        {"intercept": 3},
    ),
    "elastic net": (
        LogisticRegression(l1_ratio=0.3, **SAGA),
        TWO,
        "logistic",
        {"alpha": 0.7, "l1": 0.3} | FREE,
    ),
    "ridge": (
        RidgeClassifier(3.0, class_weight=HEAVY),
        THREE,
        "ridge",
        {"alpha": 6, "cost": BY_CLASS} | FREE,
    ),
    "ridge of two": (
        RidgeClassifier(solver="sag", max_iter=1, random_state=0),
        TWO,
        "ridge",
        {"alpha": 2} | FREE,
    ),
    "sgd": (
        SGDClassifier(class_weight=HEAVY, **SGD),
        THREE,
        "hinge",
        {"alpha": 0.05, "cost": AGAINST / 75} | FREE,
    ),
    "sgd squared": (
        SGDClassifier("squared_hinge", **STEADY),
        TWO,
        "squared_hinge",
        {"alpha": 0.05, "cost": 1 / 75} | FREE,
    ),
    "sgd logistic": (
        SGDClassifier("log_loss", class_weight=PAIR, **SGD),
        TWO,
        "logistic",
        {"alpha": 0.05, "cost": BY_SIDE / 75} | FREE,
    ),
    "sgd l1": (
        SGDClassifier(penalty="l1", **SGD),
        THREE,
        "hinge",
        {"alpha": 0, "l1": 0.05, "cost": 1 / 75} | FREE,
    ),
    "sgd elastic net": (
        SGDClassifier(penalty="elasticnet", **SGD),
        TWO,
        "hinge",
        {"alpha": 0.0425, "l1": 0.0075, "cost": 1 / 75} | FREE,
    ),
    "sgd squared l1": (
        SGDClassifier("squared_hinge", penalty="l1", **STEADY),
        TWO,
        "squared_hinge",
        {"alpha": 0, "l1": 0.05, "cost": 1 / 75} | FREE,
    ),
}


def checked(found, problem, W, b, given, ridge=1.0):
    """Compare a certificate with the problem that cvxpy solves, and with its value at
    `given`."""
    best = problem.solve(solver="CLARABEL") / ridge
    W.value, b.value = given
    value = problem.objective.value / ridge
    assert found.objective == approx(value, rel=1e-7)
    assert found.lower <= best * (1 + 1e-6) and best * (1 - 1e-6) <= found.upper
    excess = value / best - 1
    assert found.at_least - 1e-6 <= excess <= found.at_most + 1e-6
    assert found.at_most - found.at_least < max(1e-4, 0.05 * excess)
    assert found.advice.startswith("none needed") == (found.at_most <= 1e-3)


@each("weights", [None, OFTEN])
@each("case", MODELS)
def test_the_optimum_of_the_stated_problem_is_in_the_interval(case, weights):
    model, y, loss, how = MODELS[case]
    rows = X
    matrix = None
    K = 1 if y is TWO else 3
    how = dict(how)
    if weights is not None:
        if case == "linear kernel":
            return  # weights of rows are refused next to balanced ones of classes
        if case == "kernel":
            weights = weights + 1  # SVC takes none of zero
        how["cost"] = how.get("cost", 1.0) * weights[:, None]
    with quiet():
        model = clone(model).fit(X, y, sample_weight=weights)
    found = certify(model, X, y, sample_weight=weights)
    if case == "kernel":  # in its feature space
        rows = matrix = rbf_kernel(X, X, 1 / (4 * X.var()))
        W = np.zeros((75, 1))
        W[model.support_, 0] = model.dual_coef_[0]
    else:
        W = np.atleast_2d(model.coef_).T
    given = W, np.atleast_2d(model.intercept_) * np.ones((1, K))
    problem = stated(loss, rows, y, K, matrix=matrix, **how)
    checked(found, *problem, given, 8.0 if loss == "ridge" else 1.0)
    error = 1 - model.score(X, y, sample_weight=weights)
    assert found.errors["training error"][0] == approx(error, abs=1e-12)


@each("weights", [None, OFTEN + 1])
@each("kernel", ["rbf", "linear"])
def test_an_svc_of_three_classes_is_the_sum_of_its_pairs(kernel, weights):
    model = SVC(kernel=kernel, gamma=0.3, C=0.4, tol=0.5, class_weight=HEAVY)
    whole = certify(model.fit(X, THREE, weights), X, THREE, sample_weight=weights)
    parts = []
    for pair in ((0, 1), (0, 2), (1, 2)):
        rows = np.isin(THREE, pair)
        own = None if weights is None else weights[rows]
        model.set_params(class_weight={c: HEAVY[c] for c in pair})
        binary = clone(model).fit(X[rows], THREE[rows], own)
        parts.append(certify(binary, X[rows], THREE[rows], sample_weight=own))
    for name in ("objective", "lower", "upper"):
        total = sum(getattr(part, name) for part in parts)
        assert getattr(whole, name) == approx(total, rel=1e-6)
    assert whole.at_most - whole.at_least < 1e-4
    assert "the sum of 3 such problems" in str(whole)
    error = 1 - model.score(X, THREE, weights)
    assert whole.errors["training error"][0] == approx(error, abs=1e-12)


OURS = [
    (
        ours.WestonWatkinsClassifier(0.1, fit_intercept=True, tol=1e-6, random_state=0),
        THREE,
    ),
    (
        ours.WorkingSetClassifier(
            l1=0.1, truncate=0, tol=1e-4, max_iter=500, random_state=0
        ),
        THREE,
    ),
    (ours.GeneralizedLeastSquares(alpha=0.1, tol=1e-8), THREE),
    (
        ours.GeneralizedLeastSquares("squared_hinge", alpha=0.1, fit_intercept=False),
        TWO,
    ),
    (ours.MinimaxRiskClassifier(0.1, tol=1e-6), THREE),
    (ours.SampledCutClassifier(basis="exact", tol=1e-5, gamma=0.5), TWO),
    (ours.SampledCutClassifier(basis="exact", tol=1e-5, kernel="linear"), THREE),
]
FRAME = pd.DataFrame(X, columns=list("abcd"))
FRAMES = {
    "order": FRAME[list("dcba")],
    "another name": FRAME.rename(columns={"a": "z"}),
    "fewer": FRAME[list("abc")],
    "more": FRAME.assign(e=1.0),
    "polars": pl.from_pandas(FRAME)[list("dcba")],
}
NAMED = [
    *(
        MODELS[case][0]
        for case in "svc, linear kernel, kernel, softmax, ridge, sgd".split(", ")
    ),
    *(model for model, _ in OURS[:6]),
    make_pipeline(StandardScaler(), LinearSVC(**FEW)),
    None,
]


@each("other", FRAMES)
@each("model", NAMED)
def test_columns_are_those_of_the_fit_in_their_order(model, other):
    how = {"loss": "hinge"}
    if model is None:
        fitted = np.zeros((4, 1))
    else:
        how = {}
        fitted = clone(model)
        with quiet():
            fitted.fit(FRAME, TWO)
        with refuses("feature"):
            certify(fitted, FRAMES[other], TWO)
    with refuses("feature|X_test: must have the same columns in the same order"):
        certify(fitted, FRAME, TWO, held_out=(FRAMES[other], TWO), **how)


HARD = LinearSVC(loss="hinge", C=1e6, **FEW)
SVM = LinearSVC(dual=False)
NESTED = [
    make_pipeline(SVM),
    make_pipeline(StandardScaler(), SVM),
    make_pipeline(make_pipeline("passthrough", StandardScaler()), make_pipeline(SVM)),
    make_pipeline(StandardScaler(), GridSearchCV(SVM, {"C": [1.0]})),
    GridSearchCV(make_pipeline(StandardScaler(), SVM), {"linearsvc__C": [1.0]}),
]


@each("rows", [FRAME, pl.from_pandas(FRAME)], ids=["pandas", "polars"])
@each("output", ["default", "pandas", "polars"])
@each("model", NESTED)
def test_models_in_pipelines_and_searches_are_certified(model, output, rows):
    with config_context(transform_output=output), quiet():
        found = certify(
            clone(model).fit(rows, THREE), rows, THREE, held_out=(rows, THREE)
        )
        Z = X if model is NESTED[0] else StandardScaler().fit_transform(X)
    same = certify(clone(SVM).fit(np.asarray(Z), THREE), np.asarray(Z), THREE)
    assert found.objective == approx(same.objective, rel=1e-9)
    assert found.errors["held-out error"] == same.errors["training error"]


@each("model, y", OURS)
def test_our_own_estimators_are_as_close_as_they_say(model, y):
    model = clone(model).fit(X, y)
    found = certify(model, X, y)
    assert found.lower <= model.upper_ * (1 + 1e-6)
    assert model.lower_ <= found.upper * (1 + 1e-6)
    assert found.objective == approx(model.upper_, rel=1e-4)
    assert found.at_most <= model.gap_ / model.lower_ + 1e-4
    assert found.errors["training error"][0] == approx(1 - model.score(X, y))


@each("loss", "hinge logistic softmax crammer_singer".split())
@dense_or_sparse
def test_weights_are_certified_with_and_without_intercepts(loss, kind, rng):
    W = rng.standard_normal((4, 3)) / 4
    b = rng.standard_normal(3) / 4
    for intercepts, how in ((None, {}), (b, {}), (b, {"intercept": 2.0})):
        if intercepts is not None and loss == "crammer_singer" and not how:
            continue  # a free b of several classes has a wide interval
        found = certify(W, kind(X), THREE, loss=loss, C=0.2, b=intercepts, **how)
        meant = None if intercepts is None else how.get("intercept", "free")
        problem, *variables = stated(loss, X, THREE, 3, cost=0.2, intercept=meant)
        b_ = np.zeros((1, 3)) if intercepts is None else intercepts[None]
        checked(found, problem, *variables, (W, b_))
        assert "nothing was tried" in found.advice


def test_nothing_is_changed_and_held_out_rows_are_compared(capsys):
    pipeline = make_pipeline(StandardScaler(copy=False), LinearSVC(dual=True, **FEW))
    raw, y = load_wine(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    rows = raw[::2].copy()
    labels = y[::2]
    held = (raw[1::2].copy(), y[1::2])
    with quiet():
        pipeline.fit(rows.copy(), labels)
    before = pipeline[-1].coef_.copy(), pipeline.get_params()["linearsvc"].get_params()
    found = certify(pipeline, rows, labels, held_out=held)
    assert np.array_equal(rows, raw[::2]) and np.array_equal(held[0], raw[1::2])
    assert np.array_equal(pipeline[-1].coef_, before[0])
    assert pipeline[-1].get_params() == before[1]
    said = capsys.readouterr()
    assert said.out == "" and "certify: 89 rows of 13 features, 3 classes," in said.err
    error = 1 - pipeline.score(held[0].copy(), held[1])
    assert found.errors["held-out error"][0] == approx(error)
    assert "held-out error" in str(found) and "proved to be in [" in str(found)


SCALE = "scale the features (StandardScaler)"
ADVISED = {
    "dual=False, max_iter=10000, tol=1e-07": LinearSVC(dual=True, random_state=0),
    f"{SCALE}, another problem": LinearSVC(loss="hinge", random_state=0),
    "none found in 3 trials": HARD,
    "none found in 2 trials": make_pipeline(StandardScaler(), HARD),
}


@each("advice", ADVISED)
def test_all_of_an_advice_has_been_tried(advice, monkeypatch):
    (rows, y), model = load_wine(return_X_y=True), ADVISED[advice]
    tried = []
    fit = LinearSVC.fit
    with quiet():
        model = clone(model).fit(rows, y)
    given = getattr(model, "steps", [("", model)])[-1][1].get_params().items()

    def noted(m, Z, y):
        fit(m, Z, y)
        changed = ", ".join(
            f"{n}={v!r}" for n, v in m.get_params().items() if (n, v) not in given
        )
        tried.append(
            changed or np.allclose(Z.std(axis=0), 1) * f"{SCALE}, another problem"
        )
        return m

    monkeypatch.setattr(LinearSVC, "fit", noted)
    found = certify(model, rows, y)
    said = re.sub(r": tried, an excess of at most \S+ % in \S+ s$", "", found.advice)
    assert found.at_least > 0.1 and said == advice
    assert said in tried or said.startswith(f"none found in {len(tried)} trial")


def test_slow_fits_end_at_the_time_limit(rng):
    rows = rng.normal(size=(1000, 5))
    y = rows[:, 0] + 2 * rng.normal(size=1000) > 0
    with quiet():
        model = SVC(C=1e4, gamma=0.1, max_iter=30_000).fit(rows, y)
    found = certify(model, rows, y, max_seconds=6)  # LIBSVM takes minutes
    assert 0 < found.lower < found.upper and found.at_most > 0.01
    assert "; the limit of 6 s ended the search for the optimum" in found.advice
    with refuses("too large to evaluate the objective in max_seconds=1e-06"):
        certify(model, rows, y, max_seconds=1e-6)


class Pressed(Held):
    """Ctrl-C is pressed as the block begins."""

    def __enter__(self):
        super().__enter__()
        signal.raise_signal(signal.SIGINT)
        return self


def ctrl_c(*_, **how):
    raise KeyboardInterrupt


@each("case", ["svc", "kernel", "softmax", "svc against the rest", "ours"])
def test_ctrl_c_keeps_what_is_proved(case, monkeypatch, interrupt):
    if case == "ours":
        model, y = OURS[0]
        model = clone(model).set_params(tol=0.5)
    else:
        model, y, *_ = MODELS[case]
    with quiet():
        model = clone(model).fit(X, y)
    whole = certify(model, X, y)
    interrupt("ww_walrus_fast", at=1)
    monkeypatch.setattr(references, "Held", Pressed)
    monkeypatch.setattr(references, "timed_fit", ctrl_c)
    found = certify(model, X, y)
    assert found.objective == whole.objective and found.upper <= found.objective
    assert found.lower <= whole.upper and whole.lower <= found.upper
    assert found.upper - found.lower > whole.upper - whole.lower
    assert "Ctrl-C ended the search for the optimum" in found.advice


W = np.zeros((4, 3))
Foreign = type("LinearSVC", (LinearSVC,), {})
SCIKIT = "model: must be a workbench classifier or one of scikit-learn's LinearSVC, SVC"
REFUSED = [  # a model or weights, the message, and options if any
    *(
        (model, SCIKIT)
        for model in (RandomForestClassifier(2), LinearRegression(), SVR(), LinearSVC)
    ),
    (Foreign(), rf"got {__name__}.LinearSVC"),
    (None, "describe weights; a model", {"loss": "hinge"}),
    (None, "got builtins.NoneType"),
    (make_pipeline(SVC()), "got sklearn.pipeline.Pipeline", {"set": {"steps": []}}),
    (
        make_pipeline(SVC()),
        "got builtins.str",
        {"set": {"steps": [("one", "passthrough")]}},
    ),
    (SVC(kernel="poly"), "the kernel 'rbf' or 'linear', got 'poly'"),
    (SVC(gamma=1e300), "gamma: must be a positive number, got 1e"),
    (SVC(), "C times class_weight: must be a positive number", {"set": {"C": np.inf}}),
    (
        SVC(),
        "dual_coef_: must have the shape",
        {"set": {"dual_coef_": np.zeros((1, 2))}},
    ),
    (SVC(), "positive, or SVC misnumbers its rows", {"sample_weight": OFTEN}),
    (SVC(class_weight="balanced"), "be combined", {"sample_weight": OFTEN + 1}),
    (LogisticRegression(C=np.inf), "finite C"),
    (RidgeClassifier(fit_intercept=False), "must have an intercept"),
    (SGDClassifier("modified_huber"), "a loss of .*hinge.*log_loss"),
    *(
        (LinearSVC(), message, how)
        for how, message in (
            ({"C": 2.0}, "a model has its own"),
            ({"sample_weight": np.full(75, 0.5)}, "sample_weight: must be a whole"),
            (
                {"sample_weight": np.full(75, 1e12)},
                "sample_weight: must have a sum of at",
            ),
            (
                {"sample_weight": TWO},
                "sample_weight: must be positive for a row of each",
            ),
            ({"sample_weight": ["a"] * 75}, "sample_weight: "),
            ({"held_out": (X,)}, r"held_out: must be rows and labels, \(X, y\), got"),
            ({"max_seconds": 0}, "max_seconds: must be a positive number"),
            ({"set": {"coef_": np.full((1, 4), np.nan)}}, "coef_: contains NaN"),
            ({"set": {"coef_": np.zeros((3, 4))}}, r"coef_: .* shape \(1, 4\), got"),
            ({"set": {"intercept_": np.zeros(3)}}, r"intercept_: .* shape \(1, 1\)"),
            ({"set": {"C": "1"}}, "The 'C' parameter of LinearSVC must be a float"),
            ({"y": THREE}, "y: "),
            ({"of": THREE}, "classes: .* no training row"),
            ({"y": None}, "y: "),
            ({"X": X[:, :2]}, "X has 2 features, but LinearSVC is expecting 4"),
        )
    ),
    *(
        (W, message, how)
        for how, message in (
            ({"loss": None}, "loss: None is unknown"),
            ({"loss": "hing"}, "did you mean hinge"),
            ({"loss": ["hinge"]}, "loss: .* is unknown"),
            ({"C": 0.0}, "C: must be a positive number"),
            ({"b": [1j] * 3}, "b: must contain real numbers"),
            ({"b": [1, 2]}, r"b: must have the shape \(1, 3\), got \(1, 2\)"),
            ({"b": 0, "intercept": "none"}, "intercept: must be 'free' or a po"),
        )
    ),
    (W[:3], "must have 4 features, got 3"),
    (W[:, :2], "must have 3 outputs, got 2", {"loss": "softmax"}),
    (W + 1j, "W: must contain real numbers"),
    (W[None], "W: must have two dimensions"),
]


@each("model, message, how", [(*row, {})[:3] for row in REFUSED])
def test_what_cannot_be_stated_is_refused(model, message, how):
    weights = isinstance(model, np.ndarray)
    usual = {"y": THREE, "loss": "hinge"} if weights else {"y": TWO}
    how = {"X": X} | usual | how
    fitted = model
    with quiet(), refuses(message):
        if isinstance(model, BaseEstimator):
            fitted = clone(model).fit(X, how.pop("of", TWO))
        for name, value in how.pop("set", {}).items():
            setattr(fitted, name, value)
        certify(fitted, **how)
    with refuses("not fitted"):
        certify(LinearSVC(), X, THREE)


def test_the_command_line_certifies_weights(tmp_path, capsys):
    with quiet():
        model = LinearSVC(C=0.5, **FEW).fit(X, THREE)
    weights, rows = str(tmp_path / "w.npz"), str(tmp_path / "rows.csv")
    np.savez(weights, W=model.coef_.T, b=model.intercept_)
    FRAME.assign(label=THREE).to_csv(rows, index=False)
    how = "--loss squared_hinge -C 0.5 --intercept 1".split()
    assert cli.main(["judge", weights, rows, *how, "--held-out", rows]) == 0
    said = capsys.readouterr().out
    whole = certify(model, X, THREE)
    assert f"objective       {whole.objective:.6g}" in said and "held-out error" in said
    assert cli.main(["judge", weights, "iris | 30 % test", *how]) == 0
    split = load("iris | 30 % test")
    error = 1 - model.score(split.X_test, split.y_test)
    assert f"held-out error  {100 * error:.2f} %" in capsys.readouterr().out
    assert cli.main(["judge", "--help"]) == 0
    assert {*checker.LOSSES} <= {*re.findall(r"\w+", capsys.readouterr().out)}
    np.savez(weights, V=model.coef_)
    assert cli.main(["judge", weights, rows, *how]) == 2
    assert "an array W" in capsys.readouterr().err
