"""Generalized least squares with its alpha chosen by cross-validation, and the choice proven."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from workbench.core.problem import Problem
from workbench.estimators import parameters as check
from workbench.estimators.least_squares import GapClassifier
from workbench.estimators.parameters import parameter, positive, whole
from workbench.estimators.tuned import Tuned, certify
from workbench.tuning.least_squares import SMOOTH, certify_alpha
from workbench.tuning.search import check_range


@dataclass(eq=False, repr=False)
class GeneralizedLeastSquaresCV(
    Tuned,
    GapClassifier,
    saved="n_iter_ trace_ lower_ upper_ coef_:kd intercept_:k gap_ multilabel_ alpha_ "
    "certified_eps_ certified_ band_:eb n_solves_",
):
    """A generalized linear model with the alpha of the lowest cross-validated error, proven.

    The error of all folds together is bounded for every alpha of `alpha_range`, until none can be
    lower than that of ``alpha_`` by more than `certify`. See
    :func:`workbench.tuning.least_squares.certify_alpha`. What is proven is of the held-out rows and
    of exact solutions. All rows are then fitted with ``alpha_``. There is no `sample_weight`:
    repeated rows would fall into different folds, for which no weight can stand.

    Parameters
    ----------
    link : {"softmax", "identity"}
    certify : float in [0, 1), by which no alpha of the range may have a lower error
    alpha_range : (float, float), ascending and positive
    cv : int, or scikit-learn splitter, or iterable of (train, test) indices
    fit_intercept, gap, max_iter : as of :class:`GeneralizedLeastSquares`, for the refit
    max_solves, max_seconds : int >= 1 and float > 0, or None: where the search ends, with what it
        has proven; all folds together are one solution

    Attributes
    ----------
    alpha_ : float
    certified_eps_ : float, no alpha of the range has an error on the held-out rows that is lower
        by more than this; ``certified_`` : bool, whether that is at most `certify`
    band_ : (e, 4), from which alpha to which, and the lowest and highest error possible there
    n_solves_ : int, solutions of the search
    classes_, coef_, intercept_, upper_, lower_, gap_, n_iter_, trace_, n_features_in_,
    feature_names_in_ : of the refit, as of :class:`GeneralizedLeastSquares`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GeneralizedLeastSquaresCV(alpha_range=(1e-3, 1)).fit(X, y)
    >>> model.certified_, model.band_.shape[1]
    (True, 4)
    """

    link: str = parameter("softmax", check.one_of(SMOOTH))
    _: KW_ONLY
    certify: float = parameter(0.005, certify)
    alpha_range: tuple[float, float] = parameter(
        (1e-5, 1.0), lambda alpha, name: check_range(alpha, 0.0, name)
    )
    cv: Any = parameter(5)
    fit_intercept: bool = parameter(True, check.flag)
    gap: float = parameter(1e-3, positive)
    max_iter: int = parameter(1000, whole)
    max_solves: int | None = parameter(None, whole)
    max_seconds: float | None = parameter(None, positive)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def _learn(self, X, y):
        self._check_parameters()
        X, y = self._validated(X, y)
        problem = self._problem(X, y)
        if self.multilabel_:
            raise ValueError("y: must be labels, one for each row, got an array of two dimensions")
        search = partial(
            certify_alpha, alpha_range=self.alpha_range, eps=self.certify, link=self.link
        )
        self.alpha_ = self._certified(search, problem, self._folds(X, y), "alpha")
        return self._solve(problem, *self._solver(problem))

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return "ls_accelerated", {"alpha": self.alpha_, "link": self.link}
