"""Least squares revisited for scikit-learn: the generalized, calibrated and stagewise models."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit, softmax
from sklearn.utils.metaestimators import available_if

from workbench.core.checks import is_whole
from workbench.core.problem import Problem
from workbench.data.generators import RANDOM, Generator
from workbench.estimators.base import (
    Classifier,
    WeightedClassifier,
    certified,
    flag,
    floats_of,
    one_of,
    parameter,
    positive,
    whole,
)
from workbench.least_squares.calibrated import CalibratedState
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import GRAM_ROWS
from workbench.least_squares.stagewise import scores

# Up to this number, rows are scored one by one, so that none depends on the others: it takes less
# time than drawing a block's weights.
SINGLE_ROWS = 64


class LinkedClassifier(Classifier):
    """A classifier with a `link`, two of which have probabilities."""

    def _has_probabilities(self) -> bool:
        if self.link in ("softmax", "sigmoid"):
            return True
        raise AttributeError(
            f"predict_proba: link={self.link!r} has no probabilities; 'softmax' and 'sigmoid' do"
        )

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return (n, k) probabilities, for the links "softmax" and "sigmoid".

        The probabilities of the sigmoid are divided by their sum.
        """
        scores = self._scores(X).astype(np.float64, copy=False)
        return softmax(scores if self.link == "softmax" else log_expit(scores), axis=1)


@dataclass(eq=False, repr=False)
class GeneralizedLeastSquares(WeightedClassifier, LinkedClassifier):
    """A generalized linear model, fitted by least squares steps to a certified gap.

    It minimises P = mean_i loss(W'x_i, y_i) + alpha/2 |W|^2. Every round costs one pass over the
    rows and two triangular solves with one Cholesky factor of their second moment, so that the
    scaling of the features does not matter to the first order. Nesterov's momentum is ours, after
    the paper's discussion. For up to 20,000 features; :class:`StagewiseLeastSquares` takes more.

    Parameters
    ----------
    link : {"softmax", "sigmoid", "identity", "squared_hinge"}
        Multinomial logistic regression; logistic regression of every class against the others;
        1/2 |u - y|^2, which is ridge regression; the L2-loss SVM of every class against the others
    alpha : float > 0, for the mean loss of a row: scikit-learn's ``LogisticRegression`` has
        ``C = 1 / (n alpha)`` and its ``Ridge`` ``n alpha``
    fit_intercept : bool, append a constant feature of 1; its coefficients are regularised as all
        others are
    tol : float > 0, stop when P is certified to be at most this far above its minimum, as a
        difference: P is a mean over rows, in nats for the softmax, and log k at first

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes
    upper_ : float, P at the fitted coefficients
    lower_ : float, no coefficients have a smaller P

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least Squares Revisited.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GeneralizedLeastSquares(alpha=1e-3).fit(X, y)
    >>> model.gap_ <= 1e-3, model.predict_proba(X[:2]).argmax(axis=1).tolist()
    (True, [0, 0])
    """

    link: str = parameter("softmax", one_of(LINKS))
    _: KW_ONLY
    alpha: float = parameter(1e-5, positive)
    fit_intercept: bool = parameter(True, flag)
    tol: float = parameter(1e-3, positive)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return "ls_accelerated", {"alpha": float(self.alpha), "link": self.link}

    def _rules(self):
        return [certified(self.tol), *super()._rules()]

    def _distance(self) -> float:
        return self.gap_

    def _keep(self, problem: Problem, state, trace) -> None:
        self._keep_linear(state, problem)
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]


@dataclass(eq=False, repr=False)
class CalibratedLeastSquares(WeightedClassifier):
    """Calibrated least squares (Algorithm 2): the link is learnt with the weights.

    Every round fits the residuals of the predictions, recalibrates these by powers of themselves,
    and projects them onto the simplex. Predictions are probabilities already. The problem is not
    convex, and there is no certificate; the training error never rises. A constant feature of 1 is
    appended, whose coefficients are regularised as all others are.

    Parameters
    ----------
    alpha : float > 0, ridge of the fits, for the mean squared error of a row
    basis : int >= 1, the highest power of a prediction (3 is the paper's)
    max_iter : int >= 1, rounds; each adds (d, k) weights to the model

    Attributes
    ----------
    coef_ : (t, d, k), ``intercept_`` : (t, k), the terms that the t rounds add
    calibration_ : (t, q, k), weights of the basis functions
    squared_error_ : float, mean over the training rows of |y - prediction|^2

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least Squares Revisited.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedLeastSquares().fit(X, y)
    >>> model.coef_.shape, model.predict_proba(X[:1]).round(2).tolist()
    ((20, 4, 3), [[1.0, 0.0, 0.0]])
    """

    _: KW_ONLY
    alpha: float = parameter(1e-5, positive)
    basis: int = parameter(3, whole)
    max_iter: int = parameter(20, whole)

    fit_intercept = True

    def predict_proba(self, X):
        """Return the (n, k) predictions, which are on the simplex."""
        return self._scores(X)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return "ls_calibrated", {"alpha": float(self.alpha), "basis": self.basis}

    def _keep(self, problem: Problem, state: CalibratedState, trace) -> None:
        self.coef_, self.intercept_ = state.W[:, :-1].copy(), state.W[:, -1].copy()
        self.calibration_, self.squared_error_ = state.V, trace.last["squared_error"]

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        t = len(vars(self).get("calibration_", ()))
        return {
            "coef_": (t, d, k),
            "intercept_": (t, k),
            "calibration_": (t, self.basis * k, k),
        }

    def _scored(self, X) -> np.ndarray:
        W = np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)
        none, nan = np.zeros((0, W.shape[2])), np.nan
        state = CalibratedState(len(W), W, self.calibration_, none, nan, nan, nan, self.basis)
        return state.scores(self._widened(X))


@dataclass(eq=False, repr=False)
class StagewiseLeastSquares(LinkedClassifier):
    """A generalized linear model on random features, which are made block by block and not stored.

    It minimises mean_i loss(W'z_i, y_i) + alpha/2 |W|^2 over the features z_i of a row, one block
    after the other, `max_iter` times. The model stores the seed of the features, and makes them
    again to predict. There is no certificate. There is no `sample_weight`: landmarks and the median
    distance are of rows drawn by chance, and a weight could not stand for repeated rows.

    Parameters
    ----------
    features : name of random features, see :func:`workbench.data.generators.fitted`; "nystroem"
        takes training rows as landmarks, and has at most as many features
    n_features, block : int >= 1, in all and at a time
    link : see :class:`GeneralizedLeastSquares`
    alpha : float > 0, for the mean loss of a row
    bandwidth : float > 0, of the kernel exp(-|x - x'|^2 / (bandwidth m^2)) that the features
        approximate, with the median distance m of training rows that differ, 1 if none do
    max_iter : int >= 1, passes over the blocks; 1 is the paper's algorithm, more are ours and go
        on to the solution for all features at once

    Attributes
    ----------
    generator_ : :class:`workbench.data.generators.Generator` of the features
    coef_ : (n_features, k) weights
    n_iter_ : int, visits of blocks

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least Squares Revisited.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> sizes = {"n_features": 512, "block": 128}
    >>> model = StagewiseLeastSquares(**sizes, alpha=1e-4, random_state=0).fit(X / 16, y)
    >>> model.score(X / 16, y) > 0.99
    True
    """

    features: str = parameter("orthogonal_fourier", one_of(RANDOM))
    n_features: int = parameter(8192, whole)
    block: int = parameter(1024, whole)
    link: str = parameter("softmax", one_of(LINKS))
    _: KW_ONLY
    alpha: float = parameter(1e-5, positive)
    bandwidth: float = parameter(1.0, positive)
    max_iter: int = parameter(3, whole)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        if self.features == "nystroem" and self.n_features > problem.n:
            raise ValueError(
                f"n_features: nystroem takes at most one landmark per row, {problem.n}, got "
                f"{self.n_features}"
            )
        names = "features", "n_features", "block", "link"
        return "ls_stagewise", {name: getattr(self, name) for name in names} | {
            "passes": self.max_iter,
            "alpha": float(self.alpha),
            "bandwidth": float(self.bandwidth),
            "seed": self._seed(),
        }

    def _most_rounds(self) -> int:
        return self.max_iter * -(-self.n_features // self.block)

    def _keep(self, problem: Problem, state, trace) -> None:
        self.generator_, self.coef_ = state.generator, state.W

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        return {"coef_": (self.generator_.n_features, k)}

    def _check_fitted(self) -> None:
        g = vars(self).get("generator_")
        if type(g) is not Generator or g.kind not in RANDOM or g.d != self.n_features_in_:
            raise ValueError("generator_: does not fit the features")
        sizes = all(map(is_whole, (g.d, g.n_features, g.block))) and g.block <= g.n_features
        if not sizes or not is_whole(g.seed, 0):
            raise ValueError("generator_: its sizes must be whole numbers")
        positive(g.s, "generator_.s")
        floats_of(g.anchors, "generator_.anchors", g.anchors_shape())
        if g.anchors.dtype != np.float32:
            raise ValueError("generator_.anchors: must be of single precision")
        super()._check_fitted()

    def _scored(self, X) -> np.ndarray:
        rows = 1 if X.shape[0] <= SINGLE_ROWS else GRAM_ROWS
        return scores(self.generator_, X, self.coef_, rows).astype(np.float64)
