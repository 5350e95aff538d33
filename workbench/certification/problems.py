"""State the problems that classifiers and weights minimise, in independent parts.

There is one part for each class against the rest, one for each pair of classes, or a
single one. scikit-learn's classes state ::

    LinearSVC           C sum_i loss + 1/2 |(w, b/s)|^2, or |(w, b/s)|_1, where s is a
                        constant column
    LogisticRegression  C sum_i log-loss + (1 - r)/2 |W|^2 + r |W|_1 with r = l1_ratio,
                        b free; the solver "liblinear" penalises b as in LinearSVC
    SGDClassifier       1/n sum_i loss + alpha ((1 - r)/2 |w|^2 + r |w|_1), b free
    RidgeClassifier     |Y - X w - b|^2 + alpha |w|^2 for labels Y of -1 and 1, b free
    SVC                 C sum_i hinge + 1/2 |w|^2 in feature space, b free; for each
                        pair of classes

Ridge's labels are stated as 0 and 1, with half the weights: its objective is then an
eighth as large, and fractions of the optimum are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from workbench.core.checks import (
    as_array,
    as_number,
    check_matrix,
    check_positive,
    shown,
)
from workbench.core.kinds import Given, Matrix, Record
from workbench.core.names import hint
from workbench.core.problem import Problem
from workbench.estimators.base import Classifier
from workbench.proofs import checker
from workbench.proofs.checker import Arrays, checksum
from workbench.proofs.verification import of_outputs
from workbench.proofs.writers import Statement, balanced, linear, sparse

# Problems with these losses have one part for all classes.
JOINT = "crammer_singer", "weston_watkins", "softmax", "squared"
SGD_LOSSES = {
    "hinge": "hinge",
    "squared_hinge": "squared_hinge",
    "log_loss": "logistic",
}


class Part(NamedTuple):
    """A stated problem: the header of a proof, the arrays of weights, rows and codes.

    If the parts are pairs of classes, ``pair`` has the two classes of this part.
    """

    header: Statement
    arrays: Arrays
    X: Matrix
    y: np.ndarray
    pair: tuple[int, int] | None = None


class Settings(NamedTuple):
    """The problem of weights without a model, as :func:`workbench.certify` takes it."""

    loss: Given
    C: Given
    b: Given
    intercept: Given


def linear_svc(m: LinearSVC) -> Record:
    """Return the header that states the problem of a fitted LinearSVC."""
    intercept = {"intercept": m.intercept_scaling}
    if m.multi_class == "crammer_singer":
        return intercept | {"loss": m.multi_class}
    l1 = float(m.penalty == "l1")
    return intercept | {"loss": m.loss, "alpha": 1.0 - l1, "l1": l1}


def logistic_regression(m: LogisticRegression) -> Record:
    """Return the header that states the problem of a fitted LogisticRegression."""
    if m.penalty is None or not math.isfinite(m.C):
        raise ValueError("LogisticRegression: must have a penalty and a finite C")
    share = {"l1": 1.0, "l2": 0.0}.get(m.penalty, float(m.l1_ratio or 0.0))
    loss = "logistic" if len(m.classes_) == 2 else "softmax"
    header = {"loss": loss, "alpha": 1.0 - share, "l1": share}
    if m.solver == "liblinear":
        header["intercept"] = m.intercept_scaling
    return header


def sgd_classifier(m: SGDClassifier) -> Record:
    """Return the header that states the problem of a fitted SGDClassifier."""
    share = {"l2": 0.0, "l1": 1.0, "elasticnet": m.l1_ratio}.get(m.penalty)
    if m.loss not in SGD_LOSSES or share is None or not m.alpha:
        raise ValueError(
            f"SGDClassifier: must have a penalty, alpha > 0, a loss of {[*SGD_LOSSES]}"
        )
    alpha = check_positive(m.alpha, "alpha")
    header = {"loss": SGD_LOSSES[m.loss], "over": "mean"}
    return header | {"alpha": alpha * (1.0 - share), "l1": alpha * share}


def ridge_classifier(m: RidgeClassifier) -> Record:
    """Return the header that states the problem of a fitted RidgeClassifier."""
    if not m.fit_intercept or m.positive or not as_number(m.alpha) > 0:
        raise ValueError(
            "RidgeClassifier: must have an intercept, one positive alpha and "
            "positive=False"
        )
    return {"loss": "squared", "alpha": check_positive(m.alpha, "alpha")}


def svc(m: SVC) -> Record:
    """Return the header that states the problem of a fitted SVC."""
    if m.kernel == "linear":
        return {"loss": "hinge"}
    if m.kernel != "rbf":
        raise ValueError(
            f"SVC: must have the kernel 'rbf' or 'linear', got {shown(m.kernel)}"
        )
    # scikit-learn keeps the number that it used for "scale".
    kernel = {"name": "rbf", "gamma": check_positive(m._gamma, "gamma")}
    return {"loss": "hinge", "family": "kernel", "kernel": kernel}


STATED = {
    LinearSVC: linear_svc,
    SVC: svc,
    LogisticRegression: logistic_regression,
    RidgeClassifier: ridge_classifier,
    SGDClassifier: sgd_classifier,
}


def check_model(model: Given) -> None:
    """Raise a ValueError unless `model` is a classifier whose problem can be stated.

    A subclass may have another problem, and so may a class of the same name elsewhere.
    """
    kind = type(model)
    if kind not in STATED and not isinstance(model, Classifier):
        names = ", ".join(known.__name__ for known in STATED)
        raise ValueError(
            f"model: must be a workbench classifier or one of scikit-learn's {names}, "
            "alone, in pipelines or as best_estimator_, got "
            f"{kind.__module__}.{kind.__name__}"
        )


def by_scikit(m: Given, problem: Problem, rows: np.ndarray, n: int) -> Iterator[Part]:
    """Yield the parts of a fitted classifier of scikit-learn.

    Parameters
    ----------
    m : a fitted classifier of a class in :data:`STATED`
    problem : the classifier's training rows, each as often as its weight
    rows, n : the indices of the problem's rows among the n training rows
    """
    m._validate_params()  # parameters may be set after the fit
    header = {"intercept": "free"} | STATED[type(m)](m)
    if not getattr(m, "fit_intercept", True):
        header["intercept"] = None
    C = float(getattr(m, "C", 1.0))
    if isinstance(m, SGDClassifier):
        C = problem.n / n  # it divides by n, and the proof by problem.n
    k = problem.k
    labels = problem.classes[problem.y]
    costs = C * compute_class_weight(m.class_weight, classes=problem.classes, y=labels)
    if isinstance(m, SVC):
        yield from by_pair(m, problem, header, costs, rows, n)
        return
    outputs = 1 if k == 2 else k
    W = matrix(getattr(m, "coef_", None), "coef_", (outputs, problem.d)).T
    b = intercepts(m.intercept_, outputs, "intercept_")
    if isinstance(m, RidgeClassifier):
        W = W / 2
        b = (b + 1) / 2
    if header["loss"] == "crammer_singer":
        # For two classes LinearSVC stores the difference of the weights only.
        W = of_outputs(W, k)
        b = of_outputs(b[None], k)[0]
    yield from by_class(problem, header, C, costs, W, b)


def by_hand(weights: Given, problem: Problem, settings: Settings) -> Iterator[Part]:
    """Yield the parts of weights without a model."""
    loss = settings.loss
    if not isinstance(loss, str) or loss not in checker.LOSSES:
        raise ValueError(
            f"loss: {shown(loss)} is unknown; {hint(str(loss), checker.LOSSES)}"
        )
    W = matrix(weights, "W")
    if len(W) == 1 and np.ndim(weights) == 1:
        W = W.T
    if len(W) != problem.d:
        raise ValueError(f"W: must have {problem.d} features, got {len(W)}")
    b = settings.b
    header = {"loss": loss, "intercept": None if b is None else settings.intercept}
    if b is None:
        b = 0.0
    K = problem.k
    if K == 2 and loss not in JOINT:
        K = 1
    elif K == 2 and loss == "squared":  # one score, or two
        K = W.shape[1]
    b = of_outputs(intercepts(b, W.shape[1], "b")[None], K)[0]
    C = check_positive(settings.C, "C")
    costs = np.full(problem.k, C)
    yield from by_class(problem, header, C, costs, of_outputs(W, K), b)


def matrix(
    values: Given, argument: str, shape: tuple[int, int] | None = None
) -> np.ndarray:
    """Return finite numbers as a float64 matrix of this shape.

    One dimension becomes one row.
    """
    values = values.toarray() if sp.issparse(values) else as_array(values, argument)
    if values.ndim == 1:
        values = values[None]
    values = check_matrix(values, argument)
    if shape and values.shape != shape:
        raise ValueError(f"{argument}: must have the shape {shape}, got {values.shape}")
    return values.astype(float)


def intercepts(values: Given, K: int, argument: str) -> np.ndarray:
    """Return K intercepts; a single one is repeated."""
    values = np.atleast_1d(as_array(values, argument))
    if values.shape == (1,):
        values = np.repeat(values, K)
    return matrix(values, argument, (1, K))[0]


def by_class(
    problem: Problem,
    header: Record,
    C: float,
    costs: np.ndarray,
    W: np.ndarray,
    b: np.ndarray,
) -> Iterator[Part]:
    """Yield one part for all classes, or one for each class against the rest.

    For a class against the rest, LIBLINEAR and SGDClassifier apply the class weight
    only to the rows of that class.
    """
    if header["loss"] in JOINT or problem.k == 2:
        yield part(problem.X, problem.y, header, costs, {"W": W, "b": b})
        return
    for c, cost in enumerate(costs):
        y = (problem.y == c).astype(int)
        arrays = {"W": W[:, [c]], "b": b[[c]]}
        yield part(problem.X, y, header, np.array([C, cost]), arrays)


def by_pair(
    m: SVC,
    problem: Problem,
    header: Record,
    costs: np.ndarray,
    rows: np.ndarray,
    n: int,
) -> Iterator[Part]:
    """Yield the parts of an SVC, one for each pair of classes, with its dual point."""
    k = problem.k
    counts = np.bincount(rows, minlength=n)
    is_numbered = counts.all()
    has_kernel = "kernel" in header
    if has_kernel and not is_numbered:
        raise ValueError("sample_weight: must be positive, or SVC misnumbers its rows")
    sign = 1.0 if k == 2 else -1.0  # scikit-learn flips it for two classes
    pairs = list(combinations(range(k), 2))
    codes = np.repeat(np.arange(k), m.n_support_)
    dual = sign * matrix(m.dual_coef_, "dual_coef_", (k - 1, len(codes)))
    b = sign * intercepts(m.intercept_, len(pairs), "intercept_")
    W = np.zeros(0)
    if not has_kernel:
        W = sign * matrix(getattr(m, "coef_", None), "coef_", (len(pairs), problem.d))
    for p, (i, j) in enumerate(pairs):
        chosen = np.flatnonzero((problem.y == i) | (problem.y == j))
        y = (problem.y[chosen] == j).astype(int)
        weights = np.zeros(n)
        weights[m.support_] = np.select([codes == i, codes == j], dual[[j - 1, i]])
        # Repeated rows share their weight.
        A = (weights / np.maximum(counts, 1))[rows[chosen]]
        arrays: Arrays = {"b": b[[p]]}
        if A.any() and is_numbered:
            arrays |= sparse(balanced(np.abs(A), y)[:, None], exact=True)
        if has_kernel:
            basis = np.flatnonzero(A) if A.any() else np.zeros(1, int)
            arrays |= {"basis": basis, "W": A[basis, None]}
        else:
            arrays["W"] = W[[p]].T
        yield part(problem.X[chosen], y, header, costs[[i, j]], arrays, (i, j))


def part(
    X: Matrix,
    y: np.ndarray,
    header: Record,
    costs: np.ndarray,
    arrays: Arrays,
    pair: tuple[int, int] | None = None,
) -> Part:
    """Return a part, given the costs of its classes, weights W and intercepts b."""
    C = [check_positive(cost, "C times class_weight") for cost in costs.tolist()]
    header = linear(header["loss"], over="sum") | header
    header |= {"format": 1, "outputs": arrays["W"].shape[1]}
    header["C"] = C if len({*C}) > 1 else C[0]
    s = header["intercept"]
    if s is None:
        if arrays.pop("b").any():
            raise ValueError("b: must be zero without an intercept")
    elif s != "free":
        if not as_number(s) > 0:
            raise ValueError(
                f"intercept: must be 'free' or a positive number, got {shown(s)}"
            )
        header["intercept"] = check_positive(s, "intercept")
        arrays["b"] = arrays["b"] / header["intercept"]
    return Part(header | {"checksum": checksum(X, y)}, arrays, X, y, pair)
