"""Generalized and calibrated least squares for scikit-learn (Algorithms 1 and 2)."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit, log_expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from workbench.core.stream import Rule, rounds, seconds
from workbench.estimators.common import MultilabelClassifier
from workbench.least_squares.calibrated import CalibratedState
from workbench.least_squares.generalized import ls_accelerated, ls_generalized
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import LARGEST
from workbench.runs.run import run

# Where the derivative of the loss is the same for a label and for none.
THRESHOLD = {"identity": 0.5, "softmax": 0.0, "squared_hinge": 0.0, "sigmoid": 0.0}


class Linked(MultilabelClassifier):
    """What the classifiers with a `link` do alike: its thresholds and its probabilities."""

    def _has_probabilities(self) -> bool:
        if self.link in ("softmax", "sigmoid"):
            return True
        raise AttributeError(
            f"predict_proba: link={self.link!r} has no probabilities; 'softmax' and 'sigmoid' do"
        )

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return (n, k) probabilities; for the links "softmax" and "sigmoid".

        Those of the sigmoid are divided by their sum, but not where rows have several labels.
        """
        scores = self._scores(X).astype(np.float64, copy=False)
        if self.multilabel_:
            return expit(scores)
        return softmax(scores if self.link == "softmax" else log_expit(scores), axis=1)

    def _one_label_only(self) -> str | None:
        if self.link != "softmax":
            return None
        others = ", ".join(repr(link) for link in LINKS if link != "softmax")
        return f"with link='softmax' a row has one label; take {others} for several"

    def _threshold(self) -> float:
        return THRESHOLD[self.link]


class GeneralizedLeastSquares(Linked):
    """A generalized linear model, fitted by least squares steps to a certified gap.

    It minimises P = mean_i loss(W'x_i, y_i) + alpha/2 |W|^2. Every round costs one pass over the
    rows and two triangular solves with one Cholesky factor of their second moment, so that the
    scaling of the features does not matter to the first order. For up to 20,000 features;
    :class:`StagewiseLeastSquares` takes more.

    Rows may have several labels: `fit` takes an (n, k) matrix of zeros and ones in place of
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
    classes_ : (k,) labels; with several labels a row, the numbers of the columns
    multilabel_ : bool, whether rows have several labels
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes
    upper_ : float, P at the fitted coefficients
    lower_ : float, no coefficients have a smaller P
    gap_ : float, ``upper_ - lower_``
    n_iter_ : int, rounds of the solver
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose last row says ``stopped_by``
    n_features_in_ : int, ``feature_names_in_`` : (d,) where X has names

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

    def __init__(
        self,
        link="softmax",
        *,
        alpha=1e-5,
        accelerated=True,
        fit_intercept=True,
        gap=1e-3,
        max_iter=1000,
        max_seconds=None,
    ):
        self.link = link
        self.alpha = alpha
        self.accelerated = accelerated
        self.fit_intercept = fit_intercept
        self.gap = gap
        self.max_iter = max_iter
        self.max_seconds = max_seconds

    def fit(self, X, y, sample_weight=None):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,) or (n, k).

        A row with a `sample_weight`, (n,) of numbers >= 0, counts as that many equal rows; one of 0
        is left out, and so is a class of which nothing else is there.

        Ctrl-C ends the fit early and keeps the last iterate with its bounds.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, a single class, more
            features than one Gram matrix can hold, or several labels a row with the softmax.

        Warns
        -----
        ConvergenceWarning
            When ``gap_`` is above `gap`.
        """
        self._check_name("link", LINKS)
        self._check_positive("alpha", "gap")
        self._check_count("max_iter")
        rules = [_certified(self.gap), rounds(self.max_iter)]
        if self.max_seconds is not None:
            self._check_positive("max_seconds")
            rules.append(seconds(self.max_seconds))
        X, y = self._validated(X, y)
        _check_width(X)
        problem = self._problem(*self._weighed(X, y, sample_weight))
        name = "ls_accelerated" if self.accelerated else "ls_generalized"
        parameters = {"alpha": float(self.alpha), "link": self.link}
        trace, state = run(name, problem, *rules, parameters=parameters)
        if state is None:
            raise KeyboardInterrupt
        self._take(state, problem)
        self.trace_, self.n_iter_ = trace, trace.last["round"]
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]
        if trace.stopped_by == "interrupted":  # maybe on the way to the next iterate
            steps = ls_accelerated if self.accelerated else ls_generalized
            state = next(steps(problem, **parameters, state=state))
            self.lower_, self.upper_ = state.lower, state.primal
        self.gap_ = self.upper_ - self.lower_
        if not self.gap_ <= self.gap:
            warnings.warn(
                f"{name} stopped ({trace.stopped_by}) after {self.n_iter_} rounds with a gap of "
                f"{self.gap_:.2g}, above {self.gap:.2g}: raise the limit, alpha or gap",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self


class CalibratedLeastSquares(MultilabelClassifier):
    """Calibrated least squares (Algorithm 2): the link is learnt with the weights.

    Every round fits what the predictions leave over, recalibrates them by powers of themselves,
    and projects them onto the simplex. Predictions are probabilities already. The problem is not
    convex, and there is no certificate; the training error never rises.

    Rows may have several labels: `fit` takes an (n, k) matrix of zeros and ones in place of
    labels, and `predict` returns such a matrix; predictions are then clipped to [0, 1].

    Parameters
    ----------
    alpha : float > 0, ridge of the fits, for the mean squared error of a row
    basis : int >= 1, the highest power of a prediction (3 is the paper's), or a function from
        (n, k) predictions to an (n, q) array whose first k columns are its argument
    max_iter : int >= 1, rounds; the model grows with them, by (d, k) weights each
    fit_intercept : bool, append a constant feature of 1; regularised as all others are

    Attributes
    ----------
    classes_ : (k,) labels; with several labels a row, the numbers of the columns
    multilabel_ : bool, whether rows have several labels
    coef_ : (t, d, k), ``intercept_`` : (t, k), what each of the t rounds adds to the predictions
    calibration_ : (t, q, k), weights of the basis functions
    squared_error_ : float, mean over the training rows of |y - prediction|^2
    n_iter_ : int, rounds t
    trace_ : :class:`workbench.core.trace.Trace` of the fit
    n_features_in_ : int, ``feature_names_in_`` : (d,) where X has names

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

    def __init__(self, *, alpha=1e-5, basis=3, max_iter=20, fit_intercept=True):
        self.alpha = alpha
        self.basis = basis
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,) or (n, k).

        A row with a `sample_weight`, (n,) of numbers >= 0, counts as that many equal rows; one of 0
        is left out, and so is a class of which nothing else is there.

        Ctrl-C ends the fit early and keeps the rounds that were done.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, a single class, or more
            features than one Gram matrix can hold.

        Warns
        -----
        ConvergenceWarning
            When it was interrupted.
        """
        self._check_positive("alpha")
        self._check_count("max_iter")
        X, y = self._validated(X, y)
        _check_width(X)
        problem = self._problem(*self._weighed(X, y, sample_weight))
        parameters = {"alpha": float(self.alpha), "basis": self.basis}
        trace, state = run("ls_calibrated", problem, rounds(self.max_iter), parameters=parameters)
        if state is None or not len(state.W):
            raise KeyboardInterrupt
        coef, self.calibration_ = state.W, state.V
        self.coef_, self.intercept_ = coef, np.zeros((len(coef), problem.k))
        if self.fit_intercept:
            self.coef_, self.intercept_ = coef[:, :-1].copy(), coef[:, -1].copy()
        self.classes_, self.n_iter_, self.trace_ = problem.classes, len(coef), trace
        self.squared_error_ = trace.last["squared_error"]
        if trace.stopped_by == "interrupted":
            warnings.warn(
                f"ls_calibrated was interrupted after {self.n_iter_} of {self.max_iter} rounds",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict_proba(self, X):
        """Return the (n, k) predictions: on the simplex, or in (0, 1) for several labels a row."""
        P = self._scores(X)
        tiny = np.finfo(P.dtype).eps  # scikit-learn has probabilities of labels inside (0, 1)
        return P.clip(tiny, 1 - tiny) if self.multilabel_ else P

    def _scored(self, X) -> np.ndarray:
        W = self.coef_
        if self.fit_intercept:
            W = np.concatenate([W, self.intercept_[:, None]], axis=1)
        none, nan = np.zeros((0, W.shape[2])), np.nan
        chain = W, self.calibration_, none, nan, nan, nan, self.basis, self.multilabel_
        return CalibratedState(len(W), *chain).scores(self._widened(X))


def _certified(gap: float) -> Rule:
    """Stop when the objective of this iterate, not of the best one, is within `gap`."""

    def rule(row) -> str | None:
        return rule.__name__ if row["primal"] - row["lower"] <= gap else None

    rule.__name__ = f"gap <= {gap:g}"
    return rule


def _check_width(X) -> None:
    if X.shape[1] >= LARGEST:
        raise ValueError(
            f"X: its {X.shape[1]} features are too many for one Gram matrix, fewer than {LARGEST}; "
            "StagewiseLeastSquares takes them block by block"
        )
