"""What the classifiers share: checked input, linear scores, several labels a row."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Integral

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from workbench.core.checks import (
    check_counts,
    check_flags,
    check_kinds,
    check_not_negative,
    check_positive,
    check_sparse,
    is_whole,
    shown,
)
from workbench.core.problem import Problem, as_problem, check_matrix
from workbench.core.stream import State

FLOATS = [np.float64, np.float32]


class Classifier(ClassifierMixin, BaseEstimator):
    """Check parameters, rows and labels, and predict by the highest score."""

    def decision_function(self, X):
        """Return the (n, k) class scores; for two classes (n,), positive for ``classes_[1]``."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Return the (n,) labels of highest score."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """Return the share of rows, by their weights, whose labels are all predicted as in `y`."""
        return super().score(X, check_sparse(y, "y"), sample_weight)

    def save(self, path) -> None:
        """Write the fitted estimator to `path`, an npz file without pickle.

        :func:`workbench.estimators.load` reads it; what is kept and what is refused, see
        :func:`workbench.estimators.saved.save`.
        """
        from workbench.estimators.saved import save

        save(self, path)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _scores(self, X) -> np.ndarray:
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):  # said below
            return self._finite(self._scored(self._rows(X, reset=False)))

    def _finite(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores; a ValueError unless they are numbers."""
        if not (np.isfinite(scores) | self._unseen()).all():
            raise ValueError("X: the scores of some rows are not finite; scale the rows")
        return scores

    def _unseen(self) -> np.ndarray | bool:
        """Return which classes have had no rows yet, whose scores are minus infinity."""
        return False

    def _scored(self, X) -> np.ndarray:
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _rows(self, X, y="no_validation", **options):
        """Return `X`, or `X` and `y`, as scikit-learn checks them; nothing reads them before."""
        given = check_sparse(X), check_sparse(y, "y")
        try:
            return validate_data(self, *given, accept_sparse="csr", dtype=FLOATS, **options)
        except OverflowError as error:
            raise ValueError(f"X: must be numeric; {error}") from None

    def _validated(self, X, y, ensure_min_samples=2, **options):
        """Return rows and labels, checked."""
        if sp.issparse(y):
            if not options.get("multi_output"):
                raise ValueError("y: must be one-dimensional, got a sparse matrix")
        elif y is not None:  # of which scikit-learn speaks
            check_kinds(y, "y")
        X, y = self._rows(X, y, ensure_min_samples=ensure_min_samples, **options)
        try:
            check_classification_targets(y)
        except TypeError as error:  # of bytes
            raise ValueError(f"y: {error}") from None
        return X, y

    def _weighed(self, X, y, sample_weight) -> tuple:
        """Return the rows and labels that weigh more than nothing, and their weights, or None."""
        if sample_weight is None:
            return X, y, None
        given = {"dtype": np.float64, "ensure_2d": False, "input_name": "sample_weight"}
        try:
            weights = check_array(sample_weight, **given)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"sample_weight: must be an array of numbers; {error}") from None
        if weights.shape != (n := (X.shape[0],)):
            raise ValueError(f"sample_weight: must have the shape {n}, got {weights.shape}")
        if weights.min() < 0 or not 0 < weights.sum() < math.inf:
            raise ValueError(
                "sample_weight: must be numbers of at least 0, not all zero, of a finite sum; got "
                f"{weights.min():.3g} to {weights.max():.3g}"
            )
        kept = weights > 0
        C = float(getattr(self, "C", 1.0))
        least, most = C * float(weights[kept].min()), C * float(weights.sum())
        if not (least > 0 and most < math.inf):
            raise ValueError(
                "C: must make positive numbers of a finite sum times the sample weights, got "
                f"{C:g} for weights of {weights[kept].min():.3g} to {weights.max():.3g}"
            )
        return (X, y, weights) if kept.all() else (X[kept], y[kept], weights[kept])

    def _problem(self, X, y, weights: np.ndarray | None = None) -> Problem:
        """Wrap rows and labels, with the constant feature where one is asked for."""
        problem = as_problem(self._widened(X), y, name=type(self).__name__)
        return replace(problem, weights=weights)

    def _widened(self, X):
        """Return the rows with the constant feature where one is asked for."""
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])

    def _take(self, state: State, problem: Problem) -> None:
        """Keep what predicts."""
        coef, _ = affine(state, problem)
        self.classes_, self.intercept_ = problem.classes, np.zeros(problem.k)
        if self.fit_intercept:
            coef, self.intercept_ = np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy()
        self.coef_ = coef

    def _seed(self) -> int:
        """Return the seed that `random_state` stands for: itself, or one drawn from it."""
        seed = self.random_state
        if isinstance(seed, Integral) and 0 <= seed < 2**32:
            return int(seed)
        if not (seed is None or isinstance(seed, np.random.RandomState)):
            raise ValueError(
                "random_state: must be None, an integer from 0 to 2^32 - 1 or a "
                f"numpy.random.RandomState, got {shown(seed)}"
            )
        return int(check_random_state(seed).randint(2**31 - 1))

    def _check_parameters(self) -> None:
        """Raise a ValueError that names a parameter which is not as its class says."""
        for name, parameter in signature(type(self)).parameters.items():
            if isinstance(parameter.default, bool):
                check_flags(**{name: getattr(self, name)})

    def _check_jobs(self) -> None:
        jobs = self.n_jobs
        if not (jobs is None or (is_whole(jobs, -(2**31), 2**31 - 1) and jobs)):
            raise ValueError(f"n_jobs: must be None or an integer but 0, got {shown(jobs)}")

    def _check_name(self, name: str, known: Iterable[str]) -> None:
        value = getattr(self, name)
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name}: unknown name {shown(value)}; known are {', '.join(known)}")

    def _check_positive(self, *names: str) -> None:
        for name in names:
            check_positive(getattr(self, name), name)

    def _check_not_negative(self, *names: str) -> None:
        check_not_negative(**{name: getattr(self, name) for name in names})

    def _check_count(self, *names: str) -> None:
        check_counts(**{name: getattr(self, name) for name in names})


class MultilabelClassifier(Classifier):
    """A classifier that takes an (n, k) matrix of zeros and ones in the labels' place as well."""

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
        tags.classifier_tags.multi_label = self._one_label_only() is None
        return tags

    def _one_label_only(self) -> str | None:
        """Say why a row can have one label only; None where it can have several."""
        return None

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
        if (reason := self._one_label_only()) is not None:
            raise ValueError(f"y: {reason}; got an array of shape {y.shape}")
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


def affine(state: State, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the (k, d) coefficients and (k,) intercepts behind a state's linear scores.

    Scores are all that may be asked of a state, and those of the origin and of the unit vectors
    say everything.
    """
    intercept = state.scores(np.zeros((1, problem.d)))[0]
    units = sp.identity(problem.d, format="csr")
    return np.ascontiguousarray((state.scores(units) - intercept).T), intercept
