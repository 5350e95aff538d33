"""Generalized and calibrated least squares for scikit-learn (Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from workbench.core.problem import Problem, check_matrix
from workbench.estimators.common import Classifier, WeightedClassifier, certified
from workbench.estimators.parameters import (
    flag,
    one_of,
    parameter,
    positive,
    whole,
    whole_or_function,
)
from workbench.least_squares.calibrated import CalibratedState
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import LARGEST

# Scores at which the derivative of the loss is the same with the label and without it.
THRESHOLD = {"identity": 0.5, "softmax": 0.0, "squared_hinge": 0.0, "sigmoid": 0.0}


class MultilabelClassifier(Classifier):
    """A classifier that also takes an (n, k) matrix of zeros and ones instead of labels."""

    def decision_function(self, X):
        """Return the (n, k) scores; for two classes (n,), positive for ``classes_[1]``."""
        return self._scores(X) if self._is_multilabel() else super().decision_function(X)

    def predict(self, X):
        """Return the (n,) labels of highest score, or which of k labels each row has, (n, k)."""
        if not self._is_multilabel():
            return super().predict(X)
        return (self._scores(X) > self._threshold()).astype(int)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = getattr(self, "link", None) != "softmax"
        return tags

    def _threshold(self) -> float:
        """Return the score above which a row has a label."""
        return 0.5

    def _is_multilabel(self) -> bool:
        check_is_fitted(self)
        return self.multilabel_

    def _validated(self, X, y):
        X, y = super()._validated(X, y, multi_output=True)
        if not sp.issparse(y) and (y.ndim == 1 or y.shape[1] == 1):
            return X, column_or_1d(y, warn=True)
        if getattr(self, "link", None) == "softmax":
            others = ", ".join(repr(link) for link in LINKS if link != "softmax")
            raise ValueError(
                f"y: with link='softmax' a row has one label; take {others} for several; got an "
                f"array of shape {y.shape}"
            )
        Y = y.toarray() if sp.issparse(y) else y
        if type_of_target(y) != "multilabel-indicator" or not np.isin(Y, (0, 1)).all():
            raise ValueError(
                "y: must be (n,) labels or an (n, k) matrix of zeros and ones, got one of shape "
                f"{y.shape} with other values"
            )
        return X, Y.astype(np.int8)

    def _problem(self, X, y, weights: np.ndarray | None = None) -> Problem:
        self.multilabel_ = y.ndim == 2
        if not self.multilabel_:
            return super()._problem(X, y, weights)
        X = check_matrix(self._widened(X), "X")
        problem = LabelsProblem(X, y, np.arange(y.shape[1]), type(self).__name__)
        return replace(problem, weights=weights)


@dataclass(frozen=True, eq=False)
class LabelsProblem(Problem):
    """A problem whose rows have several labels: `y` is an (n, k) matrix of zeros and ones."""

    def tiny(self, rows: int = 8, d: int = 8) -> LabelsProblem:
        """The first rows and features: compiles the same kernels as the whole."""
        X = self.X[:rows, :d]
        X = X if self.is_sparse else np.ascontiguousarray(X)
        return replace(self, X=X, y=self.y[:rows], weights=None, name=f"{self.name} (tiny)")


class LinkedClassifier(MultilabelClassifier):
    """A classifier with a `link`, which gives it thresholds and probabilities."""

    def _has_probabilities(self) -> bool:
        if self.link in ("softmax", "sigmoid"):
            return True
        raise AttributeError(
            f"predict_proba: link={self.link!r} has no probabilities; 'softmax' and 'sigmoid' do"
        )

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return (n, k) probabilities; for the links "softmax" and "sigmoid".

        Those of the sigmoid are divided by their sum, unless rows have several labels.
        """
        scores = self._scores(X).astype(np.float64, copy=False)
        if self.multilabel_:
            return expit(scores)
        return softmax(scores if self.link == "softmax" else log_expit(scores), axis=1)

    def _threshold(self) -> float:
        return THRESHOLD[self.link]


class GapClassifier(LinkedClassifier):
    """A generalized linear model that is fitted until its gap is small."""

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
class GeneralizedLeastSquares(
    WeightedClassifier,
    GapClassifier,
    saved="n_iter_ trace_ lower_ upper_ coef_:kd intercept_:k gap_ multilabel_",
):
    """A generalized linear model, fitted by least squares steps to a certified gap.

    It minimises P = mean_i loss(W'x_i, y_i) + alpha/2 |W|^2. Every round costs one pass over the
    rows and two triangular solves with one Cholesky factor of their second moment, so that the
    scaling of the features does not matter to the first order. For up to 20,000 features;
    :class:`StagewiseLeastSquares` takes more.

    Rows may have several labels: `fit` takes an (n, k) matrix of zeros and ones instead of
    labels, unless `link` is "softmax", and `predict` returns such a matrix.

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
    classes_ : (k,) labels; if rows have several labels, the numbers of the columns
    multilabel_ : bool, whether rows have several labels
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
        _check_width(self.n_features_in_)
        name = "ls_accelerated" if self.accelerated else "ls_generalized"
        return name, {"alpha": float(self.alpha), "link": self.link}


@dataclass(eq=False, repr=False)
class CalibratedLeastSquares(
    WeightedClassifier,
    MultilabelClassifier,
    saved="n_iter_ trace_ coef_:tdk intercept_:tk calibration_:tqk squared_error_ multilabel_",
):
    """Calibrated least squares (Algorithm 2): the link is learnt with the weights.

    Every round fits the residuals of the predictions, recalibrates these by powers of themselves,
    and projects them onto the simplex. Predictions are probabilities already. The problem is not
    convex, and there is no certificate; the training error never rises.

    Rows may have several labels: `fit` takes an (n, k) matrix of zeros and ones instead of
    labels, and `predict` returns such a matrix; predictions are then clipped to [0, 1].

    Parameters
    ----------
    alpha : float > 0, ridge of the fits, for the mean squared error of a row
    basis : int >= 1, the highest power of a prediction (3 is the paper's), or a function from
        (n, k) predictions to an (n, q) array whose first k columns are its argument
    max_iter : int >= 1, rounds; each adds (d, k) weights to the model
    fit_intercept : bool, append a constant feature of 1; regularised as all others are

    Attributes
    ----------
    classes_ : (k,) labels; if rows have several labels, the numbers of the columns
    multilabel_ : bool, whether rows have several labels
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
    basis: int | Callable = parameter(3, whole_or_function)
    max_iter: int = parameter(20, whole)
    fit_intercept: bool = parameter(True, flag)

    def predict_proba(self, X):
        """Return the (n, k) predictions: on the simplex, or in (0, 1) for several labels."""
        P = self._scores(X)
        tiny = np.finfo(P.dtype).eps  # scikit-learn has probabilities of labels inside (0, 1)
        return P.clip(tiny, 1 - tiny) if self.multilabel_ else P

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        _check_width(self.n_features_in_)
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

    def _check_saved(self, found: dict[str, Any], d: int, k: int) -> None:
        super()._check_saved(found, d, k)
        if found["calibration_"].shape[1] != self.basis * k:
            raise ValueError("calibration_: does not fit basis")

    def _scored(self, X) -> np.ndarray:
        W = self.coef_
        if self.fit_intercept:
            W = np.concatenate([W, self.intercept_[:, None]], axis=1)
        none, nan = np.zeros((0, W.shape[2])), np.nan
        fields = W, self.calibration_, none, nan, nan, nan, self.basis, self.multilabel_
        return CalibratedState(len(W), *fields).scores(self._widened(X))


def _check_width(d: int) -> None:
    if d >= LARGEST:
        raise ValueError(
            f"X: its {d} features are too many for one Gram matrix, fewer than {LARGEST}; "
            "StagewiseLeastSquares takes them block by block"
        )
