"""The Weston-Watkins SVM with cross-validation over its C, by whole regularisation paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils.parallel import Parallel, delayed

from workbench.core.checks import check_whole, shown
from workbench.core.problem import Problem
from workbench.estimators import parameters as check
from workbench.estimators.common import warn
from workbench.estimators.parameters import parameter, positive, whole
from workbench.estimators.tuned import Tuned, certify
from workbench.estimators.weston_watkins import Bounded, WestonWatkinsClassifier
from workbench.runs.run import warm
from workbench.tuning.search import check_range
from workbench.tuning.weston_watkins import certify_path
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.path import ww_path

MAX_POWERS = 1000  # powers of two from 2^-6 up; more are not finite
EQUAL = 1e-12  # mean scores that differ by less are the same


@dataclass(eq=False, repr=False)
class WestonWatkinsClassifierCV(
    Tuned,
    Bounded,
    saved="n_iter_ trace_ lower_ upper_ gap_ratio_ coef_:kd intercept_:k C_ Cs_:c? scores_:fc? "
    "certified_eps_? certified_? band_:eb? n_solves_?",
):
    """The Weston-Watkins SVM with the C of the best cross-validated score.

    Each fold is solved for every C, from the smallest up, each solution started from the last
    one, scaled: see :func:`workbench.weston_watkins.path.ww_path`. All rows are then fitted with
    the best C, the smallest one among equals. There is no `sample_weight`: repeated rows would fall
    into different folds, for which no weight can stand.

    With `certify`, there is no grid: the error of all folds together is bounded for every C of
    `C_range`, until none can be lower than that of ``C_`` by more than `certify`. See
    :func:`workbench.tuning.weston_watkins.certify_path`. What is proven is of the held-out rows
    and of exact solutions; scale the features, and cap `C_range` where solutions are slow.

    Parameters
    ----------
    Cs : None, which is 10, int >= 1, number of powers of two from 2^-6 up (the paper has 10), or
        positive numbers; None with `certify`
    cv : int, or scikit-learn splitter, or iterable of (train, test) indices
        An integer stands for that many stratified folds. A fold whose training rows lack a
        class is scored with the classes it has; one with a single class is refused.
    gap_ratio, fit_intercept, random_state : as of :class:`WestonWatkinsClassifier`
    max_iter : int >= 1, rounds of the solver for each C of each fold, and for the refit
    scoring : name or callable as scikit-learn takes it, greater is better; None is accuracy, which
        it has to be with `certify`
    n_jobs : int or None, folds solved at once, as in joblib; one after another with `certify`
    certify : None, or a number in [0, 1), by which no C of the range may have a lower error
    C_range : (float, float), ascending and positive, with `certify`
    max_solves, max_seconds : int >= 1 and float > 0, or None: where the search of `certify` ends,
        with what it has proven; all folds together are one solution

    Attributes
    ----------
    C_ : float, the best of ``Cs_`` : (m,) ascending, or of those that `certify` solved for
    scores_ : (folds, m), of the held-out rows, without `certify`
    certified_eps_ : float, no C of the range has an error on the held-out rows that is lower by
        more than this; ``certified_`` : bool, whether that is at most `certify`
    band_ : (e, 4), from which C to which C, and the lowest and highest error possible between them
    n_solves_ : int, solutions of the search
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

    Cs: Any = parameter(None, lambda Cs, _: grid(Cs))
    _: KW_ONLY
    cv: Any = parameter(5)
    gap_ratio: float = parameter(1e-3, positive)
    fit_intercept: bool = parameter(False, check.flag)
    max_iter: int = parameter(1000, whole)
    scoring: str | Callable | None = parameter(None)
    n_jobs: int | None = parameter(None, check.jobs)
    random_state: Any = parameter(None, check.seed)
    certify: float | None = parameter(None, certify)
    C_range: tuple[float, float] = parameter((1e-3, 1e2), lambda C, name: check_range(C, 0.0, name))
    max_solves: int | None = parameter(None, whole)
    max_seconds: float | None = parameter(None, positive)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.certify is not None and self.Cs is not None:
            raise ValueError(f"Cs: must be None with certify, got {shown(self.Cs)}")
        if self.certify is not None and self.scoring not in (None, "accuracy"):
            raise ValueError(f"scoring: must be None with certify, got {shown(self.scoring)}")

    def _learn(self, X, y):
        self._check_parameters()
        seed = self._seed()
        try:
            scorer = get_scorer("accuracy" if self.scoring is None else self.scoring)
        except ValueError as error:
            raise ValueError(f"scoring: {error}") from None
        X, y = self._validated(X, y)
        problem = self._problem(X, y)
        folds = self._folds(X, y)
        if self.certify is None:
            self._score_grid(scorer, seed, folds, problem, X, y)
        else:
            search = partial(certify_path, C_range=self.C_range, eps=self.certify, seed=seed)
            self.C_ = self._certified(search, problem, folds, "C")
        return self._solve(problem, "ww_walrus_fast", {"C": self.C_, "seed": seed})

    def _score_grid(self, scorer, seed: int, folds, problem: Problem, X, y) -> None:
        """Set ``C_``, ``Cs_`` and ``scores_`` by the values of a grid."""
        Cs = grid(10 if self.Cs is None else self.Cs)
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
