"""LIBLINEAR's classifiers, one class against the rest, through scikit-learn.

They have no certificates: their streams are those of :mod:`workbench.peers.refits`. LIBLINEAR's
copy of dense rows in double precision and of each value in a node of 16 bytes is on the clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.problem import Problem
from workbench.peers.refits import (
    Fit,
    LinearState,
    Objective,
    fits,
    logistic_losses,
    squared_hinges,
    total,
)


def liblinear_lr(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i log(1 + exp(-+ x_i.w_c)).

    One binary logistic regression for each class against the rest, by LIBLINEAR's trust region
    Newton method; the sign is - for rows of class c. scikit-learn has LIBLINEAR copy the rows
    once for each class, which takes about as long as one iteration. Two classes mirror each other:
    LIBLINEAR fits one, and the objective counts both.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the gradient relative to that of no weights

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression. JMLR 2008.
    """
    from sklearn.linear_model import LogisticRegression

    def fit(X, y, iterations, seed):
        model = LogisticRegression(
            C=C, tol=tol, fit_intercept=False, solver="liblinear", max_iter=iterations
        )
        X = X.astype(np.float64, copy=False)  # or scikit-learn does it for each class
        weights, taken = [], 0
        for c in range(problem.k) if problem.k > 2 else [1]:
            model.fit(X, y == c)
            weights.append(model.coef_[0])
            taken = max(taken, int(model.n_iter_[0]))
        return mirrored(np.stack(weights, axis=1)), taken

    def objective(X, y, W):
        return 0.5 * float(np.vdot(W, W)) + C * total(logistic_losses, X, y, W)

    return fits(fit, objective, {"C": C, "tol": tol}, problem, 0, state)


def liblinear_l2_dual(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    One binary SVM with the squared hinge loss for each class against the rest, by LIBLINEAR's
    dual coordinate descent; the sign is - for rows of class c. Two classes mirror each other:
    LIBLINEAR fits one, and the objective counts both. An early fit may be worse than no weights.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the dual's violation of optimality
    seed : of LIBLINEAR's random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale
    linear SVM. ICML 2008.
    """
    settings = {"C": C, "tol": tol, "dual": True}
    return fits(linear_svc(settings), squared_svm(C), {"C": C, "tol": tol}, problem, seed, state)


def liblinear_l2_primal(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    The problem of :func:`liblinear_l2_dual`, by LIBLINEAR's trust region Newton method.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the gradient relative to that of no weights

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression. JMLR 2008.
    """
    settings = {"C": C, "tol": tol, "dual": False}
    return fits(linear_svc(settings), squared_svm(C), {"C": C, "tol": tol}, problem, 0, state)


def liblinear_l1(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of |w_c|_1 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    One sparse binary SVM with the squared hinge loss for each class against the rest, by
    LIBLINEAR's coordinate descent; the sign is - for rows of class c. Two classes mirror each
    other: LIBLINEAR fits one, and the objective counts both.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the violation of optimality relative to the first
    seed : of LIBLINEAR's random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Yuan, Chang, Hsieh, Lin: A comparison of optimization methods and software for large-scale
    L1-regularized linear classification. JMLR 2010.
    """

    def objective(X, y, W):
        return float(np.abs(W).sum()) + C * total(squared_hinges, X, y, W)

    settings = {"C": C, "tol": tol, "dual": False, "penalty": "l1"}
    return fits(linear_svc(settings), objective, {"C": C, "tol": tol}, problem, seed, state)


def linear_svc(settings: dict) -> Fit:
    """Return the fit of scikit-learn's LinearSVC with the squared hinge loss."""
    from sklearn.svm import LinearSVC

    def fit(X, y, iterations, seed):
        model = LinearSVC(
            loss="squared_hinge",
            fit_intercept=False,
            max_iter=iterations,
            random_state=seed,
            **settings,
        )
        model.fit(X, y)
        return mirrored(model.coef_.T), int(model.n_iter_)

    return fit


def squared_svm(C: float) -> Objective:
    """Return the objective of the SVMs with the squared hinge loss, one against the rest."""
    return lambda X, y, W: 0.5 * float(np.vdot(W, W)) + C * total(squared_hinges, X, y, W)


def mirrored(W: np.ndarray) -> np.ndarray:
    """Return the weights of both classes, where LIBLINEAR keeps those of the second alone."""
    return np.hstack([-W, W]) if W.shape[1] == 1 else W
