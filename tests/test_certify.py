"""Certificates of other people's models: the optimum that cvxpy finds is in every interval."""

import re

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from workbench import certify, cli, load
from workbench import estimators as ours
from workbench.estimators import certify as room
from workbench.peers.linear import quiet
from workbench.proofs import checker

X, THREE = (part[::2] for part in load_iris(return_X_y=True))
X = StandardScaler().fit_transform(X) + 0.5  # moved, so that it matters how the intercept counts
TWO = (THREE == 1).astype(int)
OFTEN = np.random.default_rng(0).integers(0, 4, 75)
HEAVY = {0: 2.0, 1: 0.5, 2: 3.0}
FEW = {"max_iter": 3, "random_state": 0}
SGD = {"alpha": 0.05, "max_iter": 5, "tol": None, "random_state": 0}


def losses(name, F, y):
    """Return the losses (n, K) or (n, 1) of scores (n, K) as cvxpy states them."""
    own = (y[:, None] == np.arange(F.shape[1]) if F.shape[1] > 1 else y[:, None]) * 1.0
    S, mine = 2 * own - 1, cp.sum(cp.multiply(own, F), axis=1)
    each = {
        "hinge": lambda: cp.pos(1 - cp.multiply(S, F)),
        "squared_hinge": lambda: cp.square(cp.pos(1 - cp.multiply(S, F))),
        "logistic": lambda: cp.logistic(-cp.multiply(S, F)),
        "ridge": lambda: cp.square(S - F),
        "softmax": lambda: cp.log_sum_exp(F, axis=1) - mine,
        "crammer_singer": lambda: cp.max(F + (1 - own), axis=1) - mine,
    }[name]()
    return cp.reshape(each, (len(y), each.size // len(y)), order="C")


def stated(name, rows, y, K, cost=1.0, alpha=1.0, l1=0.0, intercept=None, matrix=None):
    """Return the problem of a documentation in cvxpy, and its variables; `intercept` is b's."""
    W, b = cp.Variable((rows.shape[1], K)), cp.Variable((1, K))
    F = rows @ W + np.ones((len(y), 1)) @ b
    square = cp.sum_squares(W) if matrix is None else cp.quad_form(W[:, 0], cp.psd_wrap(matrix))
    value = cp.sum(cp.multiply(cost, losses(name, F, y))) + alpha / 2 * square + l1 * cp.norm1(W)
    if intercept is not None and intercept != "free":
        value += alpha / 2 * cp.sum_squares(b / intercept) + l1 * cp.norm1(b / intercept)
    return cp.Problem(cp.Minimize(value), [b == 0] if intercept is None else []), W, b


def weighted(y, heavy, K):
    """Return LIBLINEAR's weights of classes against the rest, (n, K)."""
    own = np.array([heavy[c] for c in y])[:, None]
    return own if K == 1 else np.where(y[:, None] == np.arange(K), own, 1.0)


BY_CLASS = np.array([HEAVY[c] for c in THREE])[:, None]
BALANCED = (75 / (3 * np.bincount(THREE)))[THREE][:, None]
BALANCED_TWO = (75 / (2 * np.bincount(TWO)))[TWO][:, None]
PAIR, FREE = {0: 2.0, 1: 0.5}, {"intercept": "free"}
SAGA = {"solver": "saga", "tol": 1e-7, "max_iter": 10_000, "random_state": 0}
MODELS = {
    "svc": LinearSVC(C=0.3, **FEW),
    "svc hinge": LinearSVC(loss="hinge", intercept_scaling=2.0, class_weight=PAIR, **FEW),
    "svc against the rest": LinearSVC(loss="hinge", class_weight=HEAVY, **FEW),
    "svc joint": LinearSVC(multi_class="crammer_singer", C=0.2, class_weight=HEAVY, **FEW),
    "svc without b": LinearSVC(fit_intercept=False, **FEW),
    "svc l1": LinearSVC(penalty="l1", dual=False, tol=1e-8, random_state=0),
    "linear kernel": SVC(C=0.1, kernel="linear", tol=0.5, class_weight="balanced"),
    "kernel": SVC(C=0.7, tol=0.5),
    "softmax": LogisticRegression(C=0.4, max_iter=3, class_weight="balanced"),
    "logistic": LogisticRegression(max_iter=3, fit_intercept=False),
    "liblinear": LogisticRegression(solver="liblinear", max_iter=2, intercept_scaling=3.0, tol=1.0),
    "elastic net": LogisticRegression(l1_ratio=0.3, **SAGA),
    "ridge": RidgeClassifier(3.0, class_weight=HEAVY),
    "ridge of two": RidgeClassifier(solver="sag", max_iter=1, random_state=0),
    "sgd": SGDClassifier(class_weight=HEAVY, **SGD),
    "sgd squared": SGDClassifier("squared_hinge", learning_rate="constant", eta0=1e-3, **SGD),
    "sgd logistic": SGDClassifier("log_loss", class_weight=PAIR, **SGD),
}
DOCUMENTED = {  # the labels, and the loss and the arguments of `stated`
    "svc": (THREE, "squared_hinge", {"cost": 0.3, "intercept": 1}),
    "svc hinge": (TWO, "hinge", {"cost": weighted(TWO, HEAVY, 1), "intercept": 2}),
    "svc against the rest": (THREE, "hinge", {"cost": weighted(THREE, HEAVY, 3), "intercept": 1}),
    "svc joint": (THREE, "crammer_singer", {"cost": 0.2 * BY_CLASS, "intercept": 1}),
    "svc without b": (TWO, "squared_hinge", {}),
    "svc l1": (TWO, "squared_hinge", {"alpha": 0, "l1": 1, "intercept": 1}),
    "linear kernel": (TWO, "hinge", {"cost": 0.1 * BALANCED_TWO} | FREE),
    "kernel": (TWO, "hinge", {"cost": 0.7} | FREE),
    "softmax": (THREE, "softmax", {"cost": 0.4 * BALANCED} | FREE),
    "logistic": (TWO, "logistic", {}),
    "liblinear": (TWO, "logistic", {"intercept": 3}),
    "elastic net": (TWO, "logistic", {"alpha": 0.7, "l1": 0.3} | FREE),
    "ridge": (THREE, "ridge", {"alpha": 6, "cost": BY_CLASS} | FREE),
    "ridge of two": (TWO, "ridge", {"alpha": 2} | FREE),
    "sgd": (THREE, "hinge", {"alpha": 0.05, "cost": weighted(THREE, HEAVY, 3) / 75} | FREE),
    "sgd squared": (TWO, "squared_hinge", {"alpha": 0.05, "cost": 1 / 75} | FREE),
    "sgd logistic": (TWO, "logistic", {"alpha": 0.05, "cost": weighted(TWO, HEAVY, 1) / 75} | FREE),
}


def checked(found, problem, W, b, given, ridge=1.0):
    """Compare a certificate with the problem that cvxpy solves, and with its value at `given`."""
    best = problem.solve(solver="CLARABEL") / ridge
    W.value, b.value = given
    value = problem.objective.value / ridge
    assert found.objective == pytest.approx(value, rel=1e-7)
    assert found.lower <= best * (1 + 1e-6) and best * (1 - 1e-6) <= found.upper
    excess = value / best - 1
    assert found.at_least - 1e-6 <= excess <= found.at_most + 1e-6
    assert found.at_most - found.at_least < max(1e-4, 0.05 * excess)
    assert found.advice.startswith("none needed") == (found.at_most <= 1e-3)


@pytest.mark.parametrize("weights", [None, OFTEN])
@pytest.mark.parametrize("case", MODELS)
def test_the_optimum_of_the_documented_problem_is_in_the_interval(case, weights):
    model, (y, loss, how) = MODELS[case], DOCUMENTED[case]
    rows, matrix, K, how = X, None, 1 if y is TWO else 3, dict(how)
    if case == "kernel" and weights is not None:
        with pytest.raises(ValueError, match="must be positive, or SVC misnumbers its rows"):
            certify(clone(model).fit(X, y), X, y, sample_weight=weights)
        weights = weights + 1
    if weights is not None:
        if getattr(model, "class_weight", None) == "balanced":
            with pytest.raises(ValueError, match="cannot be combined"), quiet():
                certify(clone(model).fit(X, y), X, y, sample_weight=weights)
            return
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
    assert found.errors["training error"][0] == pytest.approx(error, abs=1e-12)


OURS = [
    (ours.WestonWatkinsClassifier(0.1, fit_intercept=True, tol=1e-6, random_state=0), THREE),
    (ours.WorkingSetClassifier(l1=0.1, truncate=0, tol=1e-4, max_iter=500, random_state=0), THREE),
    (ours.GeneralizedLeastSquares(alpha=0.1, tol=1e-8), THREE),
    (ours.GeneralizedLeastSquares("squared_hinge", alpha=0.1, fit_intercept=False), TWO),
    (ours.MinimaxRiskClassifier(0.1, tol=1e-6), THREE),
    (ours.SampledCutClassifier(basis="exact", tol=1e-5, gamma=0.5), TWO),
    (ours.SampledCutClassifier(basis="exact", tol=1e-5, kernel="linear"), THREE),
]


@pytest.mark.parametrize(("model", "y"), OURS)
def test_our_own_estimators_are_as_close_as_they_say(model, y):
    model = clone(model).fit(X, y)
    found = certify(model, X, y)
    assert found.lower <= model.upper_ * (1 + 1e-6) and model.lower_ <= found.upper * (1 + 1e-6)
    assert found.objective == pytest.approx(model.upper_, rel=1e-4)
    assert found.at_most <= model.gap_ / model.lower_ + 1e-4
    assert found.errors["training error"][0] == pytest.approx(1 - model.score(X, y))


@pytest.mark.parametrize("loss", ["hinge", "logistic", "softmax", "crammer_singer"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_anyones_weights_are_certified_with_and_without_intercepts(loss, kind):
    rng = np.random.default_rng(1)
    W, b = rng.standard_normal((2, 4, 3))[0] / 4, rng.standard_normal(3) / 4
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
    rows, labels, held = raw[::2].copy(), np.array(["a", "b", "c"])[y[::2]], raw[1::2].copy()
    with quiet():
        pipeline.fit(rows.copy(), labels)
    before = pipeline[-1].coef_.copy(), pipeline.get_params()["linearsvc"].get_params()
    found = certify(pipeline, rows, labels, held_out=(held, np.array(["a", "b", "c"])[y[1::2]]))
    assert np.array_equal(rows, raw[::2]) and np.array_equal(held, raw[1::2])
    assert np.array_equal(pipeline[-1].coef_, before[0])
    assert pipeline[-1].get_params() == before[1]
    said = capsys.readouterr()
    assert said.out == "" and "certify: 89 rows of 13 features, 3 classes, about 1 s" in said.err
    error = 1 - pipeline.score(held.copy(), np.array(["a", "b", "c"])[y[1::2]])
    assert found.errors["held-out error"][0] == pytest.approx(error)
    assert "held-out error" in str(found) and "proved to be in [" in str(found)


HARD, SCALE = LinearSVC(loss="hinge", C=1e6, **FEW), "scale the features (StandardScaler)"
ADVISED = {  # models, and wall seconds of all trials, by the advice
    "dual=False, max_iter=10000, tol=1e-07": (LinearSVC(dual=True, random_state=0), 60),
    f"{SCALE}, another problem": (LinearSVC(loss="hinge", random_state=0), 60),
    "none found in 3 trials": (HARD, 60),
    "none found in 2 trials": (make_pipeline(StandardScaler(), HARD), 60),
    "none found in 0 trials; no time was left for 5 more": (HARD, 0),
}


@pytest.mark.parametrize("advice", ADVISED)
def test_all_of_an_advice_has_been_tried(advice, monkeypatch):
    (rows, y), (model, most) = load_wine(return_X_y=True), ADVISED[advice]
    tried, fit = [], LinearSVC.fit
    with quiet():
        model = clone(model).fit(rows, y)
    given = getattr(model, "steps", [("", model)])[-1][1].get_params().items()

    def noted(m, Z, y):
        fit(m, Z, y)
        changed = ", ".join(f"{n}={v!r}" for n, v in m.get_params().items() if (n, v) not in given)
        tried.append(changed or np.allclose(Z.std(axis=0), 1) * f"{SCALE}, another problem")
        return m

    monkeypatch.setattr(LinearSVC, "fit", noted)
    monkeypatch.setattr(room, "SECONDS", most)
    found = certify(model, rows, y)
    said = re.sub(r": tried, an excess of at most \S+ % in \S+ s$", "", found.advice)
    assert found.at_least > 0.1 and said == advice
    assert said in tried or said.startswith(f"none found in {len(tried)} trials")


@pytest.mark.parametrize("case", ["softmax", "ridge", "svc", "svc l1"])
def test_the_estimate_is_of_all_that_will_be_solved(case, monkeypatch, capsys):
    monkeypatch.setattr(room, "RATE", 1.0)  # operations per second: all takes long
    monkeypatch.setattr(room, "by_clarabel", lambda *_: pytest.fail("too long"))
    y, about = DOCUMENTED[case][0], "1" if "svc" in case else "10,800"
    with quiet():
        certify(clone(MODELS[case]).fit(X, y), X, y)
    assert f"about {about} s, plus up to about 60 s of trials\n" in capsys.readouterr().err


W = np.zeros((4, 3))
REFUSED = [  # a model or weights, labels, options, and the message
    (
        RandomForestClassifier(2),
        TWO,
        {},
        "model: must be a workbench classifier or one of LinearSVC, SVC",
    ),
    (SVC(), THREE, {}, "SVC: must have two classes"),
    (SVC(kernel="poly"), TWO, {}, "the kernel 'rbf' or 'linear'"),
    (LinearSVC(), TWO, {"C": 2.0}, "a model has its own"),
    (LinearSVC(), TWO, {"sample_weight": np.full(75, 0.5)}, "sample_weight: must be a whole"),
    (LogisticRegression(C=np.inf), TWO, {}, "finite C"),
    (RidgeClassifier(fit_intercept=False), TWO, {}, "must have an intercept"),
    (SGDClassifier("modified_huber"), TWO, {}, "a loss of .*hinge.*log_loss"),
    (SGDClassifier(penalty="l1", **SGD), TWO, {}, "is l1"),
    (W, THREE, {}, "loss: None is unknown"),
    (W, THREE, {"loss": "hing"}, "did you mean hinge"),
    (W[:3], THREE, {"loss": "hinge"}, "must have 4 features, got 3"),
    (W[:, :2], THREE, {"loss": "softmax"}, "must have 3 outputs, got 2"),
    (W, THREE, {"loss": "hinge", "C": 0.0}, "C: must be a positive number"),
    (W * np.nan, THREE, {"loss": "hinge"}, "W: is not finite"),
    (LinearSVC(), TWO, {"y": THREE}, "y: "),
    (LinearSVC(), THREE, {"y": TWO}, "classes: .* no training row"),
    (LinearSVC(), TWO, {"X": X[:, :2]}, "must have 2 features, got 4"),
]


@pytest.mark.parametrize(("model", "y", "how", "message"), REFUSED)
def test_what_cannot_be_stated_is_refused(model, y, how, message):
    with quiet(), pytest.raises(ValueError, match=message):
        fitted = clone(model).fit(X, y) if hasattr(model, "fit") else model
        certify(fitted, **{"X": X, "y": y} | how)
    with pytest.raises(ValueError, match="not fitted"):
        certify(LinearSVC(), X, THREE)


def test_the_command_line_certifies_weights(tmp_path, capsys):
    with quiet():
        model = LinearSVC(C=0.5, **FEW).fit(X, THREE)
    np.savez(tmp_path / "w.npz", W=model.coef_.T, b=model.intercept_)
    table = np.column_stack([X, THREE])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,c,d,label", comments="")
    call = ["judge", *map(str, (tmp_path / "w.npz", tmp_path / "rows.csv"))]
    how = ["--loss", "squared_hinge", "-C", "0.5", "--intercept", "1"]
    assert cli.main([*call, *how, "--held-out", str(tmp_path / "rows.csv")]) == 0
    said = capsys.readouterr().out
    whole = certify(model, X, THREE)
    assert f"objective       {whole.objective:.6g}" in said and "held-out error" in said
    assert cli.main([*call[:2], "iris | 30 % test", *how]) == 0
    rows = load("iris | 30 % test")
    error = np.mean(model.decision_function(rows.X_test).argmax(axis=1) != rows.y_test)
    assert f"held-out error  {100 * error:.2f} %" in capsys.readouterr().out
    assert cli.main(["judge", "--help"]) == 0
    assert {*checker.LOSSES} <= {*re.findall(r"\w+", capsys.readouterr().out)}
    np.savez(tmp_path / "w.npz", V=model.coef_)
    assert cli.main([*call, *how]) == 2 and "an array W" in capsys.readouterr().err
