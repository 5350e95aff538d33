"""The Weston-Watkins SVM with cross-validation over its C, by whole regularisation paths."""

from __future__ import annotations

import math
import warnings
from numbers import Integral

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from workbench.core.checks import shown
from workbench.core.stream import rounds
from workbench.estimators.weston_watkins import Bounded, WestonWatkinsClassifier
from workbench.runs.run import warm
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.path import ww_path

MOST_POWERS = 1000  # of two, from 2^-6 up: more are not finite
EQUAL = 1e-12  # mean scores that differ by less are the same


class WestonWatkinsClassifierCV(Bounded):
    """The Weston-Watkins SVM with the C of the best cross-validated score.

    Each fold is solved for every C, from the smallest up, each solution started from the last
    one, scaled: see :func:`workbench.weston_watkins.path.ww_path`. All rows are then fitted with
    the best C, the smallest one among equals. There is no `sample_weight`: repeated rows would fall
    into different folds, for which no weight can stand.

    Parameters
    ----------
    Cs : int >= 1, so many powers of two from 2^-6 up (10 are the paper's), or positive numbers
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

    def __init__(
        self,
        Cs=10,
        *,
        cv=5,
        gap_ratio=1e-3,
        fit_intercept=False,
        max_iter=1000,
        scoring=None,
        n_jobs=None,
        random_state=None,
    ):
        self.Cs = Cs
        self.cv = cv
        self.gap_ratio = gap_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X, y):
        """Choose C and learn from rows `X` (n, d), dense or sparse, and labels `y` (n,).

        Ctrl-C during the refit ends it early and keeps the last iterate with its bounds.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, a single class, in all
            rows or in the training rows of a fold, or fewer rows of every class than folds.

        Warns
        -----
        ConvergenceWarning
            When ``gap_ratio_``, or that of a C in a fold, is above `gap_ratio`.
        """
        self._check_parameters()
        Cs = self._grid()
        seed = self._seed()
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
            warnings.warn(
                f"{late.sum()} of {late.size} solutions of the folds are above a gap ratio of "
                f"{self.gap_ratio:.2g} after {self.max_iter} rounds, from C = "
                f"{Cs[late.any(axis=0)][0]:.4g} on: scale the features, raise max_iter or "
                "gap_ratio, or leave out large Cs",
                ConvergenceWarning,
                stacklevel=2,
            )
        parameters = {"C": self.C_, "seed": seed}
        self._solve("ww_walrus_fast", problem, parameters, rounds(self.max_iter))
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._grid()
        self._check_positive("gap_ratio")
        self._check_count("max_iter")
        self._check_jobs()

    def _grid(self) -> np.ndarray:
        if isinstance(self.Cs, Integral):
            self._check_count("Cs")
            if self.Cs > MOST_POWERS:
                raise ValueError(f"Cs: must be at most {MOST_POWERS} powers, got {shown(self.Cs)}")
            return 2.0 ** np.arange(-6, self.Cs - 6)
        try:
            Cs = np.asarray(self.Cs, dtype=np.float64)
        except (OverflowError, TypeError, ValueError):
            Cs = np.empty(0)
        if Cs.ndim != 1 or not len(Cs) or not np.all((Cs > 0) & (Cs < math.inf)):
            raise ValueError(
                "Cs: must be a whole number of at least 1 or positive numbers, got "
                f"{shown(self.Cs)}"
            )
        return np.unique(Cs)

    def _scores_of_fold(self, scorer, Cs, seed, X, y, X_test, y_test) -> tuple[list, list]:
        """Return the score of each C, and whether its gap is still too large."""
        problem = self._problem(X, y)
        fitted = WestonWatkinsClassifier(fit_intercept=self.fit_intercept)
        fitted.n_features_in_ = X.shape[1]
        scores, late = [], []
        limits = {"gap_ratio": self.gap_ratio, "max_rounds": self.max_iter}
        for state in ww_path(problem, Cs, seed=seed, **limits):
            fitted._take(state, problem)
            scores.append(scorer(fitted, X_test, y_test))
            late.append(state.gap_ratio > self.gap_ratio)
        return scores, late
