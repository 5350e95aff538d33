"""Least squares revisited for scikit-learn: the generalized, calibrated and stagewise models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from scipy.special import log_expit, softmax
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if

from workbench.core.checks import is_whole
from workbench.core.problem import Problem
from workbench.data.generators import RANDOM, Generator
from workbench.estimators import parameters as check
from workbench.estimators.base import Classifier, WeightedClassifier, certified, floats_of
from workbench.estimators.parameters import flag, one_of, parameter, positive, whole
from workbench.least_squares.calibrated import CalibratedState
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import GRAM_ROWS, LARGEST
from workbench.least_squares.stagewise import scores

STAGES = "features", "n_features", "block", "link", "passes", "inner", "kept"  # of ls_stagewise
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
    scaling of the features does not matter to the first order. For up to 20,000 features;
    :class:`StagewiseLeastSquares` takes more.

    Parameters
    ----------
    link : {"softmax", "sigmoid", "identity", "squared_hinge"}
        Multinomial logistic regression; logistic regression of every class against the others;
        1/2 |u - y|^2, which is ridge regression; the L2-loss SVM of every class against the others
    alpha : float > 0, for the mean loss of a row: scikit-learn's ``LogisticRegression`` has
        ``C = 1 / (n alpha)`` and its ``Ridge`` ``n alpha``
    accelerated : bool, with Nesterov's momentum (ours, after the paper's discussion) or without
    fit_intercept : bool, append a constant feature of 1; its coefficients are regularised as all
        others are
    gap : float > 0, stop when P is certified to be at most this far above its minimum, as a
        difference: P is a mean over rows, in nats for the softmax, and log k at first
    max_iter : int >= 1, rounds
    max_seconds : float > 0 or None, wall seconds of the solver; checked between rounds

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes
    upper_ : float, P at the fitted coefficients
    lower_ : float, no coefficients have a smaller P
    gap_ : float, ``upper_ - lower_``

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
    accelerated: bool = parameter(True, flag)
    fit_intercept: bool = parameter(True, flag)
    gap: float = parameter(1e-3, positive)
    max_iter: int = parameter(1000, whole)
    max_seconds: float | None = parameter(None, positive)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        check_width(self.n_features_in_)
        name = "ls_accelerated" if self.accelerated else "ls_generalized"
        return name, {"alpha": float(self.alpha), "link": self.link}

    def _goal(self):
        return [certified(self.gap)]

    def _keep(self, problem: Problem, state, trace) -> None:
        self._keep_linear(state, problem)
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]
        self.gap_ = self.upper_ - self.lower_

    def _early(self) -> str | None:
        if self.gap_ <= self.gap:
            return None
        return (
            f"after {self.n_iter_} rounds with a gap of {self.gap_:.2g}, above {self.gap:.2g}: "
            "raise the limit, alpha or gap"
        )


@dataclass(eq=False, repr=False)
class CalibratedLeastSquares(WeightedClassifier):
    """Calibrated least squares (Algorithm 2): the link is learnt with the weights.

    Every round fits the residuals of the predictions, recalibrates these by powers of themselves,
    and projects them onto the simplex. Predictions are probabilities already. The problem is not
    convex, and there is no certificate; the training error never rises.

    Parameters
    ----------
    alpha : float > 0, ridge of the fits, for the mean squared error of a row
    basis : int >= 1, the highest power of a prediction (3 is the paper's), or a function from
        (n, k) predictions to an (n, q) array whose first k columns are its argument
    max_iter : int >= 1, rounds; each adds (d, k) weights to the model
    fit_intercept : bool, append a constant feature of 1; regularised as all others are

    Attributes
    ----------
    coef_ : (t, d, k), ``intercept_`` : (t, k), the terms that the t rounds add
    calibration_ : (t, q, k), weights of the basis functions
    squared_error_ : float, mean over the training rows of |y - prediction|^2
    n_iter_ : int, rounds t

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
    basis: int | Callable = parameter(3, check.whole_or_function)
    max_iter: int = parameter(20, whole)
    fit_intercept: bool = parameter(True, flag)

    def predict_proba(self, X):
        """Return the (n, k) predictions, which are on the simplex."""
        return self._scores(X)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        check_width(self.n_features_in_)
        return "ls_calibrated", {"alpha": float(self.alpha), "basis": self.basis}

    def _is_empty(self, state: CalibratedState, trace) -> bool:
        return not len(state.W)

    def _keep(self, problem: Problem, state: CalibratedState, trace) -> None:
        coef, self.calibration_ = state.W, state.V
        self.coef_, self.intercept_ = coef, np.zeros((len(coef), problem.k))
        if self.fit_intercept:
            self.coef_, self.intercept_ = coef[:, :-1].copy(), coef[:, -1].copy()
        self.n_iter_ = len(coef)
        self.squared_error_ = trace.last["squared_error"]

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        t, q = np.shape(vars(self).get("calibration_"))[:2]
        if is_whole(self.basis):
            q = self.basis * k
        return {"coef_": (t, d, k), "intercept_": (t, k), "calibration_": (t, q, k)}

    def _scored(self, X) -> np.ndarray:
        W = self.coef_
        if self.fit_intercept:
            W = np.concatenate([W, self.intercept_[:, None]], axis=1)
        none, nan = np.zeros((0, W.shape[2])), np.nan
        fields = W, self.calibration_, none, nan, nan, nan, self.basis, False
        return CalibratedState(len(W), *fields).scores(self._widened(X))


@dataclass(eq=False, repr=False)
class StagewiseLeastSquares(LinkedClassifier):
    """A generalized linear model on random features, which are made block by block and not stored.

    It minimises mean_i loss(W'z_i, y_i) + alpha/2 |W|^2 over the features z_i of a row, one block
    after the other, `passes` times. The model stores the seed of the features, and makes them
    again to predict. There is no certificate. There is no `sample_weight`: landmarks and the median
    distance are of rows drawn by chance, and a weight could not stand for repeated rows.

    Parameters
    ----------
    features : name of random features, see :func:`workbench.data.generators.fitted`; "nystroem"
        takes training rows as landmarks, and has at most as many features
    n_features, block : int >= 1, in all and at a time
    link : see :class:`GeneralizedLeastSquares`
    passes : int >= 1, visits of every block; 1 is the paper's algorithm, more are ours and go on
        to the solution for all features at once
    inner : int >= 1, steps per visit
    alpha : float > 0, for the mean loss of a row
    bandwidth : float > 0, of the kernel exp(-|x - x'|^2 / (bandwidth m^2)) that the features
        approximate, with the median distance m of training rows that differ, 1 if none do
    standardise : bool, put columns on mean 0 and variance 1 first; sparse ones are only divided
        by their standard deviation, and constant ones become 0. Take False where columns share a
        scale that means something: pixels, principal components, rows of text
    calibrate : bool, the paper's linear calibration; with one pass only
    kept : bytes, at least 0, that a block's features may take between two steps; what does not
        fit is made again
    n_jobs : int or None, threads, each with its share of the rows; None is 1, -1 all cores. The
        digits depend on their number
    random_state : int, RandomState or None, of the features. An integer is the solver's seed
        itself, and makes fits repeatable

    Attributes
    ----------
    generator_ : :class:`workbench.data.generators.Generator` of the features
    coef_ : (n_features, k) weights
    scaler_ : StandardScaler, or None without `standardise`
    n_iter_ : int, visits of blocks

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least Squares Revisited.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> parameters = {"n_features": 512, "block": 128, "alpha": 1e-4}
    >>> model = StagewiseLeastSquares(**parameters, standardise=False, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.99
    True
    """

    features: str = parameter("orthogonal_fourier", one_of(RANDOM))
    n_features: int = parameter(8192, whole)
    block: int = parameter(1024, whole)
    link: str = parameter("softmax", one_of(LINKS))
    _: KW_ONLY
    passes: int = parameter(3, whole)
    inner: int = parameter(4, whole)
    alpha: float = parameter(1e-5, positive)
    bandwidth: float = parameter(1.0, positive)
    standardise: bool = parameter(True, flag)
    calibrate: bool = parameter(False, flag)
    kept: int = parameter(2**28, check.not_negative)
    n_jobs: int | None = parameter(None, check.jobs)
    random_state: Any = parameter(None, check.seed)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        if self.features == "nystroem" and self.n_features > problem.n:
            raise ValueError(
                f"n_features: nystroem takes at most one landmark per row, {problem.n}, got "
                f"{self.n_features}"
            )
        return "ls_stagewise", {name: getattr(self, name) for name in STAGES} | {
            "alpha": float(self.alpha),
            "bandwidth": float(self.bandwidth),
            "calibrate": bool(self.calibrate),
            "workers": 1 if self.n_jobs is None else effective_n_jobs(self.n_jobs),
            "seed": self._seed(),
        }

    def _rules(self):
        return []  # the stream ends by itself

    def _learn(self, X, y):
        self._check_parameters()
        X, y = self._validated(X, y)
        self.scaler_ = scaler_of(X) if self.standardise else None
        problem = self._problem(self._scaled(X), y)
        return self._solve(problem, *self._solver(problem))

    def _keep(self, problem: Problem, state, trace) -> None:
        self.generator_, self.coef_ = state.generator, state.W

    def _early(self) -> str | None:
        visits = self.generator_.blocks * self.passes
        return f"after {self.n_iter_} of {visits} visits" if self.n_iter_ < visits else None

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
        if (scaler := vars(self).get("scaler_")) is not None:
            floats_of(scaler.mean_, "scaler_.mean_", (g.d,))
            scale = scaler.scale_
            if type(scaler) is not StandardScaler or scale.shape != (g.d,) or not all(scale > 0):
                raise ValueError("scaler_: is not what a fit leaves")
        super()._check_fitted()

    def _scaled(self, X):
        # The features are of single precision, for which values of about 1 lose nothing.
        return X if self.scaler_ is None else self.scaler_.transform(X).astype(np.float32)

    def _scored(self, X) -> np.ndarray:
        X = self._scaled(X)
        rows = 1 if X.shape[0] <= SINGLE_ROWS else GRAM_ROWS
        found = scores(self.generator_, X, self.coef_, rows).astype(np.float64)
        if not np.isfinite(found).all():
            raise ValueError(f"X: features of kind {self.features!r} are not finite for some rows")
        return found


def scaler_of(X) -> StandardScaler:
    """Return a fitted scaler that puts constant columns on 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X)
    if not np.isfinite(scaler.var_).all():
        raise ValueError("X: the variance of a column is not finite; scale the columns first")
    # Scikit-learn leaves constant columns as they are.
    scaler.scale_[scaler.scale_ != np.sqrt(scaler.var_)] = np.inf
    return scaler


def check_width(d: int) -> None:
    """Raise a ValueError if there are too many features for one Gram matrix."""
    if d >= LARGEST:
        raise ValueError(
            f"X: its {d} features are too many for one Gram matrix, fewer than {LARGEST}; "
            "StagewiseLeastSquares takes them block by block"
        )
