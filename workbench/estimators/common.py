"""The base of the classifiers: one fit, limits, sample weights, linear scores."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from workbench.core.checks import check_sparse
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import Rule, State, rounds, seconds
from workbench.core.trace import Trace
from workbench.estimators.callbacks import ASKED, Heard, heard, with_callbacks
from workbench.estimators.inputs import Inputs
from workbench.estimators.parameters import check_parameters
from workbench.estimators.saved import CLASSES, save
from workbench.proofs import writers
from workbench.runs.run import run


class Classifier(Heard, Inputs, ClassifierMixin, BaseEstimator):
    """Fit a solver's stream to checked rows and labels, and predict by the highest score.

    Attributes
    ----------
    classes_ : (k,) labels
    n_features_in_ : int, ``feature_names_in_`` : (d,) if the columns of X have names
    n_iter_ : int, rounds of the solver, if it has one
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose last row says ``stopped_by``

    Notes
    -----
    A subclass is a dataclass of its parameters (:func:`workbench.estimators.parameters.parameter`)
    with three methods: ``_solver(problem)`` returns the solver's name and parameters,
    ``_keep(problem, state, trace)`` sets the fitted attributes, and ``_early()`` says why a fit
    ended too early, if it did. Attributes that a saved file holds are the class argument `saved`,
    as :mod:`workbench.estimators.saved` describes them.
    """

    def __init_subclass__(cls, saved: str | None = None, **options):
        super().__init_subclass__(**options)
        if saved is not None:
            CLASSES[cls.__name__] = cls, saved

    @heard
    def fit(self, X, y):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,), and from no others.

        Ctrl-C ends the fit early and keeps the last iterate, with its bounds if it has any.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, a single class, or rows
            that the solver cannot take.

        Warns
        -----
        ConvergenceWarning
            When a limit or Ctrl-C stopped it before the tolerance was reached.
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
        """Return the fraction of rows, by their weights, all of whose labels are predicted."""
        return super().score(X, check_sparse(y, "y"), sample_weight)

    def save(self, path, *, proof: bool = False) -> None:
        """Write the fitted estimator to `path`, an npz file without pickle.

        :func:`workbench.estimators.load` reads it. See :func:`workbench.estimators.saved.save` for
        the attributes that are kept and the values that are refused.

        Parameters
        ----------
        path : of the file
        proof : also write the proof of the fit, for ``workbench verify``, next to `path` and named
            like it, but with the suffix .proof.npz

        Raises
        ------
        ValueError
            If this fit has no proof, before anything is written.
        """
        made = getattr(self, "_proof", "proof: a loaded estimator has none; save it after fit")
        if proof and isinstance(made, str):
            raise ValueError(made)
        save(self, path)
        if proof:
            writers.save(Path(path).with_suffix(".proof.npz"), *made)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")  # a refused fit may have set n_features_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        """Return the name of the solver and its parameters."""
        raise NotImplementedError

    def _goal(self) -> list[Rule]:
        """Return the rules that stop a fit which is good enough."""
        return []

    def _keep(self, problem: Problem, state: State, trace: Trace) -> None:
        """Set the fitted attributes but ``classes_``, ``trace_`` and ``n_iter_``."""
        raise NotImplementedError

    def _early(self) -> str | None:
        """Return the rest of the warning "... stopped (limit)" of a fit that ended too early.

        Here, of a fit that Ctrl-C ended: it has no tolerance to reach.
        """
        if self.trace_.stopped_by != "interrupted":
            return None
        return f"after {self.n_iter_} of {self.max_iter} rounds"

    def _is_empty(self, state: State, trace: Trace) -> bool:
        """Return whether an interrupted run has left nothing that could predict."""
        return False

    def _check_parameters(self) -> None:
        """Raise a ValueError that names a parameter which is not as its class says."""
        check_parameters(self)

    def _check_saved(self, found: dict[str, Any], d: int, k: int) -> None:
        """Raise a ValueError unless the attributes of a saved file fit each other."""
        if not np.isfinite(found.get("intercept_", 0.0)).all():
            raise ValueError("intercept_: is not finite")

    def _learn(self, X, y, sample_weight=None):
        self._check_parameters()
        X, y = self._validated(X, y)
        problem = self._problem(*self._weighed(X, y, sample_weight))
        return self._solve(problem, *self._solver(problem))

    def _solve(self, problem: Problem, solver: str, parameters: dict[str, Any]):
        """Run a solver on the problem, keep where it ended, and warn if that is too early."""
        trace, state = self._run(problem, solver, parameters, *self._rules())
        self.n_iter_ = trace.last["round"]
        self._keep(problem, state, trace)
        self.classes_, self.trace_ = problem.classes, trace
        try:  # now, as neither rows nor state are kept
            constant = getattr(self, "fit_intercept", False)
            made = writers.proof_of(problem, state, trace.header["parameters"], constant)
        except ValueError as error:
            made = str(error)
        self._proof: tuple | str = made
        if (early := self._early()) and trace.stopped_by != ASKED:
            warn(f"{solver} stopped ({trace.stopped_by}) {early}")
        return self

    def _rules(self) -> list[Rule]:
        """Return the goal and the limits."""
        rules = [*self._goal(), rounds(self.max_iter)]
        if getattr(self, "max_seconds", None) is not None:
            rules.append(seconds(self.max_seconds))
        return rules

    def _run(self, problem: Problem, solver: str, parameters: dict, *rules: Rule, **options):
        """Return a run's trace and last state; KeyboardInterrupt if there is nothing to keep."""
        told, heard_of = self._listening(problem)  # first, so that the last round is told, too
        options |= heard_of
        trace, state = run(solver, problem, *told, *rules, parameters=parameters, **options)
        if state is None or not trace.rows or self._is_empty(state, trace):
            raise KeyboardInterrupt
        return trace, state

    def _scores(self, X) -> np.ndarray:
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            return self._finite(self._scored(self._rows(X, reset=False)))

    def _finite(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores; a ValueError unless they are numbers."""
        if not np.isfinite(scores).all():
            raise ValueError("X: the scores of some rows are not finite; scale the rows")
        return scores

    def _scored(self, X) -> np.ndarray:
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _problem(self, X, y, weights: np.ndarray | None = None) -> Problem:
        """Wrap rows and labels, with the constant feature if `fit_intercept` asks for it."""
        problem = as_problem(self._widened(X), y, name=type(self).__name__)
        return replace(problem, weights=weights)

    def _seen(self, X):
        """Return rows as the solver has them."""
        return self._widened(X)

    def _widened(self, X):
        """Return the rows, with the constant feature if `fit_intercept` asks for it."""
        if not getattr(self, "fit_intercept", False):
            return X
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])

    def _keep_linear(self, state: State, problem: Problem) -> None:
        """Keep the coefficients and intercepts, which are zeros without `fit_intercept`."""
        coef, _ = affine(state, problem)
        self.classes_, self.intercept_ = problem.classes, np.zeros(problem.k)
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

    @heard
    def fit(self, X, y, sample_weight=None):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,), and from no others.

        A row with a `sample_weight`, (n,) numbers of at least 0, counts as that many equal rows. A
        row of weight 0 is left out, and so is a class that has no other rows.

        Ctrl-C ends the fit early and keeps the last iterate, with its bounds if it has any.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, weights that are negative
            or all zero, a single class, or rows that the solver cannot take.

        Warns
        -----
        ConvergenceWarning
            When a limit or Ctrl-C stopped it before the tolerance was reached.
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


def warn(message: str) -> None:
    """Warn of a fit that ended early, in the name of the line outside of this folder."""
    files = __file__, with_callbacks.__code__.co_filename  # ours, and the wrapper of callbacks
    level, frame, inside = 1, sys._getframe(), set(map(os.path.dirname, files))
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConvergenceWarning, stacklevel=level)
