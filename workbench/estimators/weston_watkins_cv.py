"""The Weston-Watkins SVM with cross-validation over its C, by whole regularisation paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from workbench.core.checks import check_whole, shown
from workbench.estimators import parameters as check
from workbench.estimators.common import warn
from workbench.estimators.parameters import parameter, positive, whole
from workbench.estimators.weston_watkins import Bounded, WestonWatkinsClassifier
from workbench.runs.run import warm
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.path import ww_path

MAX_POWERS = 1000  # powers of two from 2^-6 up; more are not finite
EQUAL = 1e-12  # mean scores that differ by less are the same


@dataclass(eq=False, repr=False)
class WestonWatkinsClassifierCV(
    Bounded,
    saved="n_iter_ trace_ lower_ upper_ gap_ratio_ coef_:kd intercept_:k C_ Cs_:c scores_:fc",
):
    """The Weston-Watkins SVM with the C of the best cross-validated score.

    Each fold is solved for every C, from the smallest up, each solution started from the last
    one, scaled: see :func:`workbench.weston_watkins.path.ww_path`. All rows are then fitted with
    the best C, the smallest one among equals. There is no `sample_weight`: repeated rows would fall
    into different folds, for which no weight can stand.

    Parameters
    ----------
    Cs : int >= 1, number of powers of two from 2^-6 up (the paper has 10), or positive numbers
    cv : int, or scikit-learn splitter, or iterable of (train, test) indices
        An integer stands for that many stratified folds. A fold whose training rows lack a
        class is scored with the classes it has; one with a single class is refused.
    gap_ratio, fit_intercept, random_state : as of :class:`WestonWatkinsClassifier`
    max_iter : int >= 1, rounds of the solver for each C of each fold, and for the refit
    scoring : name or callable as scikit-learn takes it, greater is better; None is accuracy
    n_jobs : int or None, folds solved at once, as in joblib

    Attributes
    ----------
    C_ : float, the best of ``Cs_`` : (m,) ascending
    scores_ : (folds, m), of the held-out rows
    classes_, coef_, intercept_, upper_, lower_, gap_ratio_, n_iter_, trace_, n_features_in_,
    feature_names_in_ : of the refit, as of :class:`WestonWatkinsClassifier`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> svm = WestonWatkinsClassifierCV(Cs=3, random_state=0).fit(X, y)
    >>> svm.Cs_.tolist(), svm.scores_.shape
    ([0.015625, 0.03125, 0.0625], (5, 3))
    """

    Cs: Any = parameter(10, lambda Cs, _: grid(Cs))
    _: KW_ONLY
    cv: Any = parameter(5)
    gap_ratio: float = parameter(1e-3, positive)
    fit_intercept: bool = parameter(False, check.flag)
    max_iter: int = parameter(1000, whole)
    scoring: str | Callable | None = parameter(None)
    n_jobs: int | None = parameter(None, check.jobs)
    random_state: Any = parameter(None, check.seed)

    def _learn(self, X, y):
        self._check_parameters()
        Cs, seed = grid(self.Cs), self._seed()
        try:
            scorer = get_scorer("accuracy" if self.scoring is None else self.scoring)
        except ValueError as error:
            raise ValueError(f"scoring: {error}") from None
        X, y = self._validated(X, y)
        problem = self._problem(X, y)
        try:
            split = check_cv(self.cv, y, classifier=True).split(X, y)
            folds = [(np.asarray(train), np.asarray(test)) for train, test in split]
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"cv: {error}") from None
        for i, (train, _) in enumerate(folds):
            if len(np.unique(y[train])) < 2:
                raise ValueError(
                    f"cv: the training rows of fold {i} (of 0 to {len(folds) - 1}) are all of "
                    f"class {y[train[0]]!r}; they need at least two classes"
                )
        warm(ww_walrus_fast, problem, {})  # once, and not in each worker
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(self._scores_of_fold)(scorer, Cs, seed, X[train], y[train], X[test], y[test])
            for train, test in folds
        )
        self.Cs_ = Cs
        self.scores_, late = (np.array(part) for part in zip(*found))
        means = self.scores_.mean(axis=0)
        if np.isnan(means).any():
            raise ValueError(f"scoring: {self.scoring!r} gives NaN; scores must be numbers")
        self.C_ = float(Cs[np.flatnonzero(means >= means.max() - EQUAL)[0]])
        if late.any():
            warn(
                f"{late.sum()} of {late.size} solutions of the folds are above a gap ratio of "
                f"{self.gap_ratio:.2g} after {self.max_iter} rounds, from C = "
                f"{Cs[late.any(axis=0)][0]:.4g} on: scale the features, raise max_iter or "
                "gap_ratio, or leave out large Cs"
            )
        return self._solve(problem, "ww_walrus_fast", {"C": self.C_, "seed": seed})

    def _scores_of_fold(self, scorer, Cs, seed, X, y, X_test, y_test) -> tuple[list, list]:
        """Return the score of each C, and whether its gap is still too large."""
        problem = self._problem(X, y)
        fitted = WestonWatkinsClassifier(fit_intercept=self.fit_intercept)
        fitted.n_features_in_ = X.shape[1]
        scores, late = [], []
        limits = {"gap_ratio": self.gap_ratio, "max_rounds": self.max_iter}
        for state in ww_path(problem, Cs, seed=seed, **limits):
            fitted._keep_linear(state, problem)
            scores.append(scorer(fitted, X_test, y_test))
            late.append(state.gap_ratio > self.gap_ratio)
        return scores, late


def grid(Cs) -> np.ndarray:
    """Return the values of C in ascending order; a ValueError unless they are positive numbers."""
    if isinstance(Cs, Integral):
        if check_whole(Cs, "Cs") > MAX_POWERS:
            raise ValueError(f"Cs: must be at most {MAX_POWERS} powers, got {shown(Cs)}")
        return 2.0 ** np.arange(-6, Cs - 6)
    try:
        values = np.asarray(Cs, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or not len(values) or not np.all((values > 0) & (values < math.inf)):
        raise ValueError(
            f"Cs: must be a whole number of at least 1 or positive numbers, got {shown(Cs)}"
        )
    return np.unique(values)
