"""Multinomial logistic regression and ridge regression, through scikit-learn.

They have no certificates: their streams are those of :mod:`workbench.peers.refits`.
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
    softmax_losses,
    squared_errors,
    total,
)


def logistic_lbfgs(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    Multinomial logistic regression by SciPy's L-BFGS, on rows in the precision they have. Of two
    classes the first has the weights 0.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, tolerance on the largest entry of the gradient over n C

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Zhu, Byrd, Lu, Nocedal: Algorithm 778: L-BFGS-B. ACM Transactions on Mathematical Software
    1997.
    """
    fit = multinomial({"C": C, "tol": tol, "solver": "lbfgs"})
    return fits(fit, softmax_regression(C), {"C": C, "tol": tol}, problem, 0, state)


def logistic_saga(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    Multinomial logistic regression by SAGA, stochastic gradients with a memory, on rows in the
    precision they have; an iteration is n of its steps. Of two classes the first has the
    weights 0.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, tolerance on the largest change of a weight relative to the largest weight
    seed : of the random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Defazio, Bach, Lacoste-Julien: SAGA: a fast incremental gradient method with support for
    non-strongly convex composite objectives. NIPS 2014.
    """
    fit = multinomial({"C": C, "tol": tol, "solver": "saga"})
    return fits(fit, softmax_regression(C), {"C": C, "tol": tol}, problem, seed, state)


def ridge(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    tol: float = 1e-8,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/(2n) |Y - X W|^2 + alpha/2 |W|^2 for the one-hot targets Y, in one round.

    By Cholesky's factors of X'X + n alpha, or of XX' + n alpha where that is smaller, in the
    precision of the rows; of sparse rows by conjugate gradients, one class after the other.
    `alpha` is weighed against one row's loss: scikit-learn's own is n times as large.

    Parameters
    ----------
    alpha : positive, weight of the squared weights
    tol : positive, of conjugate gradients on the residual, relative to the right-hand side

    Raises
    ------
    ValueError
        If `alpha` or `tol` is not a positive number.

    References
    ----------
    Hoerl, Kennard: Ridge regression: biased estimation for nonorthogonal problems. Technometrics
    1970.
    """
    from sklearn.linear_model import Ridge

    def fit(X, y, iterations, seed):
        Y = np.zeros((X.shape[0], problem.k), X.dtype)
        Y[np.arange(len(y)), y] = 1.0
        model = Ridge(alpha=alpha * X.shape[0], tol=tol, fit_intercept=False)
        return model.fit(X, Y).coef_.T, 1

    def objective(X, y, W):
        penalty = alpha / 2 * float(np.vdot(W, W))
        return total(squared_errors, X, y, W) / (2 * len(y)) + penalty

    return fits(fit, objective, {"alpha": alpha, "tol": tol}, problem, 0, state, limit=1)


def multinomial(settings: dict) -> Fit:
    """Return the fit of scikit-learn's LogisticRegression without LIBLINEAR."""
    from sklearn.linear_model import LogisticRegression

    def fit(X, y, iterations, seed):
        model = LogisticRegression(
            fit_intercept=False, max_iter=iterations, random_state=seed, **settings
        )
        W = model.fit(X, y).coef_.T
        W = np.hstack([np.zeros_like(W), W]) if W.shape[1] == 1 else W
        return W, int(np.max(model.n_iter_))

    return fit


def softmax_regression(C: float) -> Objective:
    """Return the objective of multinomial logistic regression."""
    return lambda X, y, W: 0.5 * float(np.vdot(W, W)) + C * total(softmax_losses, X, y, W)
