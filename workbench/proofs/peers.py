"""The problems that scikit-learn's classifiers say they minimise, as headers of proofs.

Each statement is the one of the class's documentation: nothing is said of how it is minimised. Two
settings of one class with one statement can be judged by one proof. ::

    LinearSVC           C sum_i loss + 1/2 |(w, b/s)|^2, one class against the rest, or
                        Crammer-Singer's; LIBLINEAR penalises the weight of a constant column s
    SVC                 C sum_i hinge + 1/2 |w|^2 in feature space, b free; two classes only
    LogisticRegression  C sum_i log-loss + 1/2 |W|^2, b free; softmax from three classes on
    SGDClassifier       1/n sum_i loss + alpha (share of 1/2 |w|^2, rest |w|_1), b free
    RidgeClassifier     |Y - X w - b|^2 + alpha |w|^2, b free, labels Y of -1 and 1

Labels e in {0, 1} are Y = 2 e - 1: half the weights and (b + 1) / 2 have an eighth of the ridge
objective (of two classes, whose one output counts as two, a quarter) as 1/2 |e - F|^2 and
alpha/2 |W|^2, so that shares of the optimum are the same. That takes the intercept: RidgeClassifier
without one has no statement. Class weights have none either, as LIBLINEAR's depend on the output.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from workbench.proofs.writers import Statement

SGD_LOSSES = {"hinge": "hinge", "squared_hinge": "squared_hinge", "log_loss": "logistic"}


def statement(model: Any, X, y: np.ndarray) -> Statement:
    """Return the header of a proof of the problem that a classifier of scikit-learn minimises.

    Parameters
    ----------
    model : LinearSVC, SVC, LogisticRegression, SGDClassifier or RidgeClassifier, fitted or not
    X : (n, d) array or SciPy sparse matrix
    y : (n,) labels 0..k-1

    Raises
    ------
    ValueError
        If the class or a setting of it has no statement here.
    """
    kind, k = type(model).__name__, int(y.max()) + 1
    if kind not in STATEMENTS:
        raise ValueError(f"model: must be one of {', '.join(STATEMENTS)}, got {kind}")
    settings = model.get_params()
    if settings["class_weight"] is not None:
        raise ValueError(f"class_weight: must be None for {kind}, as a proof cannot state others")
    stated = {"family": "linear", "over": "sum", "C": 1.0, "alpha": 1.0, "l1": 0.0}
    stated |= {"intercept": "free" if settings.get("fit_intercept", True) else None}
    return stated | {"outputs": 1 if k == 2 else k} | STATEMENTS[kind](settings, X, k)


def linear_svc(p: dict, X, k: int) -> Statement:
    """State LinearSVC: the intercept is a penalised constant column."""
    stated = {"loss": p["loss"], "C": float(p["C"])}
    if p["multi_class"] == "crammer_singer":
        stated |= {"loss": "crammer_singer", "outputs": k}
    elif p["penalty"] == "l1":
        stated |= {"alpha": 0.0, "l1": 1.0}
    return stated | {"intercept": float(p["intercept_scaling"]) if p["fit_intercept"] else None}


def svc(p: dict, X, k: int) -> Statement:
    """State SVC: the hinge in the feature space of a kernel, with a free intercept."""
    if k != 2 or p["kernel"] not in ("rbf", "linear"):
        raise ValueError("SVC: must have two classes and the kernel 'rbf' or 'linear'")
    gamma = p["gamma"]
    if gamma in ("scale", "auto"):
        square = X.multiply(X).mean() - X.mean() ** 2 if sp.issparse(X) else X.var()
        gamma = 1.0 / (X.shape[1] * (square if gamma == "scale" else 1.0))
    kernel = {"name": p["kernel"]} | ({"gamma": float(gamma)} if p["kernel"] == "rbf" else {})
    return {"family": "kernel", "loss": "hinge", "C": float(p["C"]), "kernel": kernel}


def logistic_regression(p: dict, X, k: int) -> Statement:
    """State LogisticRegression: softmax from three classes on."""
    if p["solver"] == "liblinear" or p.get("l1_ratio") or p["penalty"] not in ("deprecated", "l2"):
        raise ValueError("LogisticRegression: must have the penalty l2 and not LIBLINEAR's solver")
    return {"loss": "logistic" if k == 2 else "softmax", "C": float(p["C"])}


def sgd(p: dict, X, k: int) -> Statement:
    """State SGDClassifier: a mean loss, and a mixture of penalties."""
    share = {"l2": 0.0, "l1": 1.0, "elasticnet": p["l1_ratio"], None: None}[p["penalty"]]
    if p["loss"] not in SGD_LOSSES or share is None:
        raise ValueError(
            f"SGDClassifier: must have a penalty and a loss of {', '.join(SGD_LOSSES)}"
        )
    weights = {"alpha": p["alpha"] * (1 - share), "l1": p["alpha"] * share}
    return {"loss": SGD_LOSSES[p["loss"]], "over": "mean"} | weights


def ridge(p: dict, X, k: int) -> Statement:
    """State RidgeClassifier, for labels 0 and 1."""
    if not p["fit_intercept"] or p["positive"]:
        raise ValueError("RidgeClassifier: must have an intercept and weights of any sign")
    return {"loss": "squared", "alpha": float(p["alpha"]), "outputs": k}


STATEMENTS = {
    "LinearSVC": linear_svc,
    "SVC": svc,
    "LogisticRegression": logistic_regression,
    "SGDClassifier": sgd,
    "RidgeClassifier": ridge,
}


def weights(model: Any) -> Any:
    """Return what :func:`workbench.proofs.judge` takes of a fitted classifier.

    That is the classifier itself; of RidgeClassifier its weights for labels 0 and 1.
    """
    if type(model).__name__ != "RidgeClassifier":
        return model
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if len(W) == 1:
        W, b = np.vstack([-W, W]), np.append(-b, b)
    return SimpleNamespace(coef_=W / 2, intercept_=(b + 1) / 2)
