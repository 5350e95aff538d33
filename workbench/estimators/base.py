"""The base class of the classifiers, which checks arguments and runs a solver."""

import math
import warnings
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from workbench.core.checks import (
    as_number,
    check_flags,
    check_kinds,
    check_known,
    check_numbers,
    check_positive,
    check_sparse,
    check_whole,
    is_whole,
    shown,
)
from workbench.core.kinds import Array, Given, Matrix, Record
from workbench.core.matrices import with_columns
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import Rule, State, rounds, seconds
from workbench.core.trace import Trace
from workbench.runs.run import run

FLOATS: tuple[type, ...] = np.float64, np.float32
# A check takes a value and its name; its ValueError names what is accepted.
Check = Callable[[Given, str], object]
positive: Check = check_positive
whole: Check = check_whole


def parameter(default: object, check: Check) -> Any:  # as dataclasses.field
    """Return a dataclass field whose value `fit` checks.

    If the default is None, None is accepted.
    """
    return field(default=default, metadata={"check": check})


def accept(test: Callable[[object], bool], accepted: str) -> Check:
    """Return a check that accepts values for which `test` is true.

    `accepted` describes these values in words.
    """

    def check(value, name: str) -> None:
        if not test(value):
            raise ValueError(f"{name}: must be {accepted}, got {shown(value)}")

    return check


def one_of(known: Iterable[str]) -> Check:
    """Return a check that accepts these names."""

    return lambda value, name: check_known(value, known, name)


def flag(value, name: str) -> None:
    """Accept True and False."""
    check_flags(**{name: value})


not_negative = accept(
    lambda v: 0 <= as_number(v) < math.inf, "a number that is not negative"
)
fraction = accept(lambda v: 0 <= as_number(v) <= 1, "a number from 0 to 1")
seed = accept(lambda v: is_whole(v, 0, 2**32 - 1), "an integer from 0 to 2^32 - 1")


@dataclass(eq=False, repr=False)
class Classifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Run a solver on checked rows and labels, and predict the class of highest score.

    Features are not scaled: scale them first, for example with StandardScaler.

    Scikit-learn's callbacks, which it calls experimental, receive a fitted classifier
    after each round: ``set_callbacks(ProgressBar())``. Their time is not counted. A
    callback that returns True from ``on_fit_task_end`` ends the fit.

    Parameters
    ----------
    tol : float > 0. The fit stops when the objective is proved to be above its minimum
        by at most this fraction of itself
    max_iter : int >= 1, the largest number of rounds of the solver
    max_seconds : float > 0 or None, the limit on the solver's wall seconds, checked
        between rounds; None sets no limit
    random_state : int or None, the solver's seed; with None it is drawn at random.
        Solvers without a seed ignore it

    Attributes
    ----------
    classes_ : (k,) the sorted labels
    n_features_in_ : int d; if the columns of X have names, ``feature_names_in_`` (d,)
        has them
    n_iter_ : int, the number of the solver's rounds
    trace_ : :class:`workbench.core.trace.Trace` of the fit; ``stopped_by`` in its last
        row is the rule that ended the fit
    upper_ : float, the objective at the fitted coefficients, rounding included
    lower_ : float, a lower bound of the objective for all coefficients; ``gap_`` is
        ``upper_ - lower_``

    A subclass is a dataclass of its parameters. Its method ``_solver`` returns the
    solver's name and parameters, and ``_keep`` sets the fitted attributes. If its `tol`
    is not relative, it also has its own ``_goal`` and ``_distance``, the distance from
    the optimum in the units of `tol`.
    """

    _measured = "relative gap"
    _precisions = FLOATS

    _: KW_ONLY
    tol: float = parameter(1e-3, positive)
    max_iter: int = parameter(10_000, whole)
    max_seconds: float | None = parameter(None, positive)
    random_state: int | None = parameter(None, seed)

    def fit(self, X: Given, y: Given):
        """Fit the classifier to rows `X` (n, d), dense or sparse, and labels `y` (n,).

        Each fit starts from the beginning. Ctrl-C ends the fit early and keeps the last
        iterate, with its bounds if it has any.

        Raises
        ------
        ValueError
            If a parameter is outside its range, features are not finite numbers, there
            is a single class, or the solver cannot take the rows.
        KeyboardInterrupt
            If Ctrl-C is pressed before the end of the first round.

        Warns
        -----
        ConvergenceWarning
            If the fit ended before `tol` was reached, or if all coefficients are zero.
        """
        return self._learn(X, y)

    def decision_function(self, X: Given):
        """Return the (n, k) class scores.

        For two classes they are (n,), positive for ``classes_[1]``.
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: Given):
        """Return the (n,) labels of highest score."""
        scores = self._scores(X)  # checks that the classifier is fitted
        return self.classes_[scores.argmax(axis=1)]

    @property
    def gap_(self) -> float:
        return self.upper_ - self.lower_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")  # a refused fit may have set n_features_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solver(self, problem: Problem) -> tuple[str, Record]:
        """Return the name of the solver and its parameters."""
        raise NotImplementedError

    def _keep(self, problem: Problem, state: Any, trace: Trace) -> None:
        """Set the fitted attributes except ``classes_``, ``trace_`` and ``n_iter_``.

        This method sets the coefficients and intercepts of linear scores. The scores of
        the origin are the intercepts, and the scores of unit vectors give the
        coefficients. With `fit_intercept` the constant feature's coefficients are the
        intercepts.
        """
        intercept = state.scores(np.zeros((1, problem.d)))[0]
        coef = (state.scores(sp.identity(problem.d, format="csr")) - intercept).T
        if getattr(self, "fit_intercept", False):
            intercept = coef[:, -1].copy()
            coef = coef[:, :-1]
        self.coef_ = np.ascontiguousarray(coef)
        self.intercept_ = intercept
        self._keep_bounds(trace.last)

    def _goal(self) -> Rule | None:
        """Return the rule that stops at `tol`, or None if the solver stops there."""
        return certified(self.tol)

    def _distance(self) -> float:
        """Return the distance from the optimum that `tol` bounds."""
        return relative(self.lower_, self.upper_)

    def _fault(self) -> str | None:
        """Return a warning's text if the fit ended early or all coefficients are 0."""
        distance = self._distance()
        if not distance <= self.tol:  # nan is a fault, too
            return (
                f"a {self._measured} of {distance:.2g}, above tol={self.tol:.2g}: "
                "scale the features, or raise max_iter, max_seconds or tol"
            )
        coef = self.coef_ if hasattr(self, "coef_") else self.dual_coef_
        if not (coef != 0).sum():
            return "all coefficients zero: scale the features, or regularise less"
        return None

    def _rules(self) -> list[Rule]:
        """Return the rules that end a fit."""
        rules = [self._goal(), rounds(self.max_iter)]
        if self.max_seconds is not None:
            rules.append(seconds(self.max_seconds))
        return [rule for rule in rules if rule]

    def _check_parameters(self) -> None:
        """Raise a ValueError that names the first parameter with a refused value."""
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None or f.default is not None:
                f.metadata["check"](value, f.name)

    @with_callbacks
    def _learn(self, X: Given, y: Given, sample_weight: Given = None):
        """Run a solver, keep its last state, and warn if it ended too early."""
        self._check_parameters()
        check_numbers(X, "X")
        if sp.issparse(y):
            raise ValueError("y: must be one-dimensional, got a sparse matrix")
        if y is not None:  # scikit-learn refuses None
            check_kinds(y, "y")
        X, y = self._rows(X, y, ensure_min_samples=2)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = self._weighed(X, sample_weight)
            used = weights > 0
            X = X[used]
            y = y[used]
            weights = weights[used]
        problem = as_problem(self._widened(X), y, name=type(self).__name__)
        problem = replace(problem, weights=weights)
        solver, parameters = self._solver(problem)
        reports = Reports(self, problem, X, y)
        trace, state = run(
            solver,
            problem,
            *reports.rules,
            *self._rules(),
            parameters=parameters,
            measure=reports.measure,
        )
        interrupted = trace.stopped_by == "interrupted"
        if state is None or (interrupted and not trace.last["round"]):
            raise KeyboardInterrupt  # nothing is learnt
        self.n_iter_ = trace.last["round"]
        self._keep(problem, state, trace)
        self.classes_ = problem.classes
        self.trace_ = trace
        fault = self._fault()
        if fault:
            stop = f"{solver} stopped ({trace.stopped_by}) after {self.n_iter_} rounds"
            # The warning names the line that calls `fit`.
            warnings.warn(f"{stop} with {fault}", ConvergenceWarning, stacklevel=4)
        reports.context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _rows(self, X: Given, y="no_validation", **options):
        """Return `X`, or `X` and `y`, as scikit-learn checks them."""
        if hasattr(X, "to_pandas"):  # Polars would turn dates into numbers
            X = X.to_pandas()
        check_numbers(X, "X")
        X = check_sparse(X)
        dtype = self._precisions
        return validate_data(self, X, y, accept_sparse="csr", dtype=dtype, **options)

    def _weighed(self, X: Given, sample_weight: Given) -> Array:
        """Return the checked weights of the rows.

        A ValueError is raised if their products with C underflow or overflow.
        """
        check_numbers(sample_weight, "sample_weight")
        weights = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        C = float(getattr(self, "C", 1.0))
        smallest = C * float(weights[weights > 0].min())
        total = C * float(weights.sum())
        if not (smallest > 0 and total < math.inf):
            raise ValueError(
                "sample_weight: products with C must be positive and have a finite "
                f"sum, got {smallest:.3g} to {total:.3g}"
            )
        return weights

    def _scores(self, X: Given) -> Array:
        """Return the (n, k) scores of rows; raise a ValueError if any is not finite."""
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._scored(self._rows(X, reset=False))
        if not np.isfinite(scores).all():
            raise ValueError(
                "X: the scores of some rows are not finite; scale the rows"
            )
        return scores

    def _scored(self, X: Given) -> Array:
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _widened(self, X: Given):
        """Return rows, with a constant feature if `fit_intercept` is set."""
        return with_constant(X) if getattr(self, "fit_intercept", False) else X

    def _keep_bounds(self, row: Record) -> None:
        """Set the bounds of the last iterate, which need not be the best ones."""
        self.upper_ = max(row.get("primal", row["upper"]), row["upper"])
        self.lower_ = min(row["lower"], self.upper_)

    def _seed(self) -> int:
        """Return `random_state`, or a random seed."""
        if self.random_state is None:
            return int(np.random.default_rng().integers(2**32))
        return int(self.random_state)


class Reports:
    """The reports of a fit to scikit-learn's callbacks, with a task for each round."""

    def __init__(self, classifier: Classifier, problem: Problem, X: Given, y: Given):
        self.classifier = classifier
        self.problem = problem
        self.rows = {"estimator": classifier, "X": X, "y": y}
        if problem.weights.min() != problem.weights.max():
            self.rows["metadata"] = {"sample_weight": problem.weights}
        self.context = classifier._init_callback_context(
            max_subtasks=classifier.max_iter + 1
        )
        self.context.call_on_fit_task_begin(**self.rows)
        self.rules = [self.report] if hasattr(classifier, "_skl_callbacks") else []

    def measure(self, state: State) -> Record:
        """Keep the state for `report`, and measure nothing."""
        self.state = state
        return {}

    def report(self, row: Record) -> str | None:
        """Report a round, and stop the fit if a callback returns True."""

        def fitted() -> Record:
            classifier = copy(self.classifier)
            classifier.classes_ = self.problem.classes
            classifier.n_iter_ = row["round"]
            classifier.trace_ = Trace(rows=[row])
            classifier._keep(self.problem, self.state, classifier.trace_)
            return dict(vars(classifier))

        task = self.context.subcontext(task_name="round")
        task.call_on_fit_task_begin(**self.rows)
        ended = task.call_on_fit_task_end(**self.rows, reconstruction_attributes=fitted)
        return "a callback" if ended else None


class WeightedClassifier(Classifier):
    """A classifier whose `fit` takes sample weights."""

    def fit(self, X: Given, y: Given, sample_weight: Given = None):
        """Fit the classifier to rows and labels, as :meth:`Classifier.fit` does.

        `sample_weight` is a number of at least 0 for each row, or one for all; a row
        counts as that many equal rows. Rows of weight 0 are left out, and so is a class
        that has no other rows.
        """
        return self._learn(X, y, sample_weight)


def with_constant(X: Matrix, constant: float = 1.0) -> Matrix:
    """Return rows, an array or a sparse matrix, with a constant feature."""
    return with_columns(X, np.full((X.shape[0], 1), constant, X.dtype))


def relative(lower: float, upper: float) -> float:
    """Return the gap between two bounds as a fraction of the upper one."""
    return (upper - lower) / upper if upper else 0.0


def certified(tol: float) -> Rule:
    """Stop when this iterate, not the best one, has a relative gap of at most `tol`."""

    def rule(row) -> str | None:
        upper = max(row["primal"], row["upper"])  # `upper` allows for rounding
        return rule.__name__ if relative(row["lower"], upper) <= tol else None

    rule.__name__ = f"relative gap <= {tol:g}"
    return rule
