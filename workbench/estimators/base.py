"""The base of the classifiers: checked rows, one run of a solver, and linear scores."""

from __future__ import annotations

import math
import os
import sys
import warnings
from dataclasses import replace
from numbers import Integral, Number
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from workbench.core.checks import check_kinds, check_numbers, check_sparse, rebuilt
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import Rule, State, rounds, seconds
from workbench.core.trace import Trace
from workbench.estimators.parameters import check_parameters
from workbench.estimators.saved import save
from workbench.runs.run import run

FLOATS = np.float64, np.float32
# Columns that differ in scale by more than this are warned of; pixels from 0 to 255 differ by less.
MAX_SCALE_RATIO = 500.0
# Columns that are farther from zero than this many times their range are warned of.
MAX_OFFSET_RATIO = 100.0
SPARSE = "csr: "  # begins the names of sparse matrices in files and pickles
ROUNDING = 1e-12  # columns that vary by less than this fraction of the largest value are constant


class Classifier(ClassifierMixin, BaseEstimator):
    """Fit a solver's stream to checked rows and labels, and predict by the highest score.

    Attributes
    ----------
    classes_ : (k,) labels
    n_features_in_ : int, ``feature_names_in_`` : (d,) if the columns of X have names
    n_iter_ : int, rounds of the solver
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose last row says ``stopped_by``

    Notes
    -----
    A subclass is a dataclass of its parameters (:func:`workbench.estimators.parameters.parameter`)
    with three methods: ``_solver(problem)`` returns the solver's name and parameters,
    ``_keep(problem, state, trace)`` sets the fitted attributes, and ``_early()`` says why a fit
    ended too early, if it did. ``_scales_matter`` is False if columns may differ in scale.
    ``_shapes(d, k)`` and ``_check_fitted()`` say what a file of a
    fitted model must contain.
    """

    _scales_matter = True

    def fit(self, X, y):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,), and from no others.

        Ctrl-C ends the fit early and keeps the last iterate, with its bounds if it has any.

        Raises
        ------
        ValueError
            For a parameter outside its range, features that are no finite numbers, a single class,
            or rows that the solver cannot take.

        Warns
        -----
        ConvergenceWarning
            If a limit or Ctrl-C stopped the fit before its tolerance was reached, or if the columns
            of `X` differ so much in scale that the model may be poor.
        """
        return self._learn(X, y)

    def decision_function(self, X):
        """Return the (n, k) class scores; for two classes (n,), positive for ``classes_[1]``."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Return the (n,) labels of highest score."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """Return the fraction of rows, by their weights, whose labels are predicted."""
        return super().score(X, labels_of(y), sample_weight)

    def save(self, path) -> None:
        """Write the fitted model to `path`; :func:`workbench.estimators.load` reads it.

        See :func:`workbench.estimators.save`, which also takes pipelines, for what is refused.
        """
        save(self, path)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")  # a refused fit may have set n_features_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self):
        """Return the attributes, with the arrays of sparse matrices instead of these."""
        state = dict(super().__getstate__())
        for name in [name for name, value in state.items() if sp.issparse(value)]:
            X = state.pop(name)
            state[SPARSE + name] = X.data, X.indices, X.indptr, tuple(map(int, X.shape))
        return state

    def __setstate__(self, state):
        state = dict(state)
        for name in [name for name in state if name.startswith(SPARSE)]:
            *parts, shape = state.pop(name)
            state[name.removeprefix(SPARSE)] = sp.csr_matrix(tuple(parts), shape=shape)
        super().__setstate__(state)
        if hasattr(self, "classes_"):  # from a file, which anyone may have written
            self._check_fitted()

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        """Return the name of the solver and its parameters."""
        raise NotImplementedError

    def _goal(self) -> list[Rule]:
        """Return the rules that stop a fit which is good enough."""
        return []

    def _rules(self) -> list[Rule]:
        """Return the goal and the limits."""
        rules = [*self._goal(), rounds(self.max_iter)]
        if getattr(self, "max_seconds", None) is not None:
            rules.append(seconds(self.max_seconds))
        return rules

    def _keep(self, problem: Problem, state: State, trace: Trace) -> None:
        """Set the fitted attributes except ``classes_``, ``trace_`` and ``n_iter_``."""
        raise NotImplementedError

    def _early(self) -> str | None:
        """Return the end of the warning "... stopped (limit) ..." of a fit that ended too early.

        Without a tolerance that is a fit that Ctrl-C ended.
        """
        if self.trace_.stopped_by != "interrupted":
            return None
        return f"after {self.n_iter_} of {self.max_iter} rounds"

    def _is_empty(self, state: State, trace: Trace) -> bool:
        """Return whether an interrupted run has left nothing that could predict."""
        return False

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the fitted arrays; an empty one is that of a finite float."""
        return {"coef_": (k, d), "intercept_": (k,)}

    def _check_fitted(self) -> None:
        """Raise a ValueError unless the attributes are as a fit leaves them.

        Compiled code does not check its arrays again, and files may have been changed.
        """
        self._check_parameters()
        for name in vars(self):
            if hasattr(type(self), name) and name not in self._get_param_names():
                raise ValueError(f"{name}: is not an attribute that a fit leaves")
        classes, d = self.classes_, getattr(self, "n_features_in_", None)
        if type(d) is not int or d < 1:
            raise ValueError("n_features_in_: must be a whole number of at least 1")
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or not len(classes) > 1:
            raise ValueError("classes_: must be an array of at least two labels")
        finite = classes.dtype.kind != "f" or np.isfinite(classes).all()
        if classes.dtype.kind not in "biufUO" or not (finite and all(classes[1:] > classes[:-1])):
            raise ValueError("classes_: must be labels in ascending order")
        for name, shape in self._shapes(d, len(classes)).items():
            vars(self)[name] = floats_of(vars(self).get(name), name, shape)

    def _check_parameters(self) -> None:
        """Raise a ValueError that names a parameter which is not as its class says."""
        check_parameters(self)

    def _learn(self, X, y, sample_weight=None):
        self._check_parameters()
        X, y, weights = self._weighed(*self._validated(X, y), sample_weight)
        problem = self._problem(X, y, weights)
        return self._solve(problem, *self._solver(problem))

    def _solve(self, problem: Problem, solver: str, parameters: dict[str, Any]):
        """Run a solver, keep where it ended, and warn if that is too early or the rows are odd."""
        trace, state = self._run(problem, solver, parameters)
        self.n_iter_ = trace.last["round"]
        self._keep(problem, state, trace)
        self.classes_, self.trace_ = problem.classes, trace
        if early := self._early():
            warn(f"{solver} stopped ({trace.stopped_by}) {early}")
        elif unscaled := self._unscaled(problem.X):
            warn(unscaled)
        return self

    def _run(self, problem: Problem, solver: str, parameters: dict, **options):
        """Return a run's trace and last state; KeyboardInterrupt if there is nothing to keep."""
        trace, state = run(solver, problem, *self._rules(), parameters=parameters, **options)
        if state is None or not trace.rows or self._is_empty(state, trace):
            raise KeyboardInterrupt
        return trace, state

    def _unscaled(self, X) -> str | None:
        """Return the warning that columns differ too much in scale, or lie far from zero."""
        scale, offset = ratios(X)
        if offset > MAX_OFFSET_RATIO:
            found = f"lies {offset:.3g} times its range away from zero"
        elif scale > MAX_SCALE_RATIO and self._scales_matter:
            found = f"has values of {scale:.3g} times the range of another column"
        else:
            return None
        return (
            f"X: a column {found}, so that the model may be poor: scale the columns, for example "
            "with StandardScaler"
        )

    def _rows(self, X, y="no_validation", **options):
        """Return `X`, or `X` and `y`, as scikit-learn checks them; nothing reads them before."""
        check_numbers(X, "X")
        given = check_sparse(X), check_sparse(y, "y")
        try:
            return validate_data(self, *given, accept_sparse="csr", dtype=FLOATS, **options)
        except OverflowError as error:
            raise ValueError(f"X: must be numeric; {error}") from None

    def _validated(self, X, y):
        """Return rows and labels, checked."""
        check_numbers(X, "X")
        if y is not None:  # scikit-learn refuses None
            labels_of(y)
        X, y = self._rows(X, y, ensure_min_samples=2)
        try:
            check_classification_targets(y)
        except TypeError as error:  # of bytes
            raise ValueError(f"y: {error}") from None
        return X, y

    def _weighed(self, X, y, sample_weight) -> tuple:
        """Return the rows and labels of positive weight, and their weights, or None."""
        if sample_weight is None:
            return X, y, None
        check_numbers(sample_weight, "sample_weight")
        given = {"dtype": np.float64, "ensure_2d": False, "input_name": "sample_weight"}
        n = X.shape[0]
        if isinstance(sample_weight, Number) or getattr(sample_weight, "shape", None) == ():
            sample_weight = np.full(n, sample_weight)
        try:
            weights = np.asarray(check_array(sample_weight, **given))
        except (TypeError, OverflowError) as error:
            raise ValueError(f"sample_weight: must be an array of numbers; {error}") from None
        if weights.shape == (n, 1):
            weights = weights[:, 0]
        if weights.shape != (n,):
            raise ValueError(f"sample_weight: must have the shape {(n,)}, got {weights.shape}")
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
                "C: its products with the sample weights must be positive and have a finite sum, "
                f"got {C:g} for weights of {weights[kept].min():.3g} to {weights.max():.3g}"
            )
        return (X, y, weights) if kept.all() else (X[kept], y[kept], weights[kept])

    def _scores(self, X) -> np.ndarray:
        """Return the (n, k) scores of rows; a ValueError unless they are numbers."""
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._scored(self._rows(X, reset=False))
        if not np.isfinite(scores).all():
            raise ValueError("X: the scores of some rows are not finite; scale the rows")
        return scores

    def _scored(self, X) -> np.ndarray:
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _problem(self, X, y, weights: np.ndarray | None = None) -> Problem:
        """Wrap rows and labels, with the constant feature if `fit_intercept` asks for it."""
        problem = as_problem(self._widened(X), y, name=type(self).__name__)
        return replace(problem, weights=weights)

    def _widened(self, X):
        """Return the rows, with the constant feature if `fit_intercept` asks for it."""
        if not getattr(self, "fit_intercept", False):
            return X
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])

    def _keep_linear(self, state: State, problem: Problem) -> None:
        """Keep the coefficients and intercepts, which are zeros without `fit_intercept`."""
        coef, _ = affine(state, problem)
        self.intercept_ = np.zeros(problem.k)
        if self.fit_intercept:
            coef, self.intercept_ = np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy()
        self.coef_ = coef

    def _seed(self) -> int:
        """Return the seed that `random_state` stands for: itself, or one drawn from it."""
        seed = self.random_state
        if isinstance(seed, Integral):
            return int(seed)
        return int(check_random_state(seed).randint(2**31 - 1))


class WeightedClassifier(Classifier):
    """A classifier whose `fit` takes sample weights."""

    def fit(self, X, y, sample_weight=None):
        """Learn from rows `X` (n, d) and labels `y` (n,), as :meth:`Classifier.fit` does.

        A row with a `sample_weight`, a number of at least 0 for each row or one for all, counts as
        that many equal rows. A row of weight 0 is left out, and so is a class that has no other
        rows.
        """
        return self._learn(X, y, sample_weight)


def affine(state: State, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the (k, d) coefficients and (k,) intercepts behind a state's linear scores.

    Scores are all that may be asked of a state. Those of the origin are the intercepts, and those
    of the unit vectors give the coefficients.
    """
    intercept = state.scores(np.zeros((1, problem.d)))[0]
    units = sp.identity(problem.d, format="csr")
    return np.ascontiguousarray((state.scores(units) - intercept).T), intercept


def certified(gap: float, relative: bool = False) -> Rule:
    """Stop when the objective of this iterate, not of the best one, is certified to be optimal.

    Parameters
    ----------
    gap : largest distance above the minimum
    relative : whether `gap` is a fraction of the objective
    """

    def rule(row) -> str | None:
        most = gap * row["primal"] if relative else gap
        return rule.__name__ if row["primal"] - row["lower"] <= most else None

    rule.__name__ = f"gap <= {gap:g}" + " of primal" * relative
    return rule


def labels_of(y) -> np.ndarray:
    """Return labels as a one-dimensional array; a ValueError if they are of several types."""
    if sp.issparse(y):
        raise ValueError("y: must be one-dimensional, got a sparse matrix")
    check_kinds(y, "y")
    y = np.asarray(y)
    return column_or_1d(y) if y.ndim == 2 else y


def ratios(X) -> tuple[float, float]:
    """Return how far the columns of `X` differ in scale, and how far any lies from zero.

    Returns
    -------
    scale : the largest magnitude or range of a column over the smallest range of one
    offset : the largest distance of a column from zero over its range

    Constant columns have no range.
    """
    if sp.issparse(X):
        high, low = (side.toarray().ravel() for side in (X.max(axis=0), X.min(axis=0)))
    else:
        high, low = X.max(axis=0), X.min(axis=0)
    high, low = high.astype(np.float64), low.astype(np.float64)
    width = high - low
    most = float(np.max([width, np.abs(high), np.abs(low)]))
    varied = width > ROUNDING * most
    if not varied.any():
        return 1.0, 0.0
    distance = np.maximum(0.0, np.maximum(low, -high))
    return most / float(width[varied].min()), float((distance[varied] / width[varied]).max())


def floats_of(value, name: str, shape: tuple[int, ...]):
    """Return a finite float, array or CSR matrix of floats; a ValueError unless it has a shape."""
    if not shape:
        if type(value) is not float or not math.isfinite(value):
            raise ValueError(f"{name}: must be a finite float")
        return value
    if sp.issparse(value) and value.format == "csr":
        value = rebuilt(value)
        if not value.has_canonical_format:
            raise ValueError(f"{name}: indices must be in ascending order in each row")
    elif not isinstance(value, np.ndarray):
        raise ValueError(f"{name}: must be an array")
    if value.dtype not in FLOATS or value.shape != shape:
        raise ValueError(f"{name}: must be floats of the shape {shape}, got {value.shape}")
    if not np.isfinite(value.data if sp.issparse(value) else value).all():
        raise ValueError(f"{name}: must be finite")
    return value


def warn(message: str) -> None:
    """Warn of a fit that ended early, in the name of the line outside of this folder."""
    level, frame, inside = 1, sys._getframe(), os.path.dirname(__file__)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConvergenceWarning, stacklevel=level)
