"""Any solver of the registry for scikit-learn, stopped after a number of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.core.checks import is_whole
from workbench.core.problem import Problem
from workbench.data.features import waves
from workbench.estimators.common import Classifier
from workbench.estimators.parameters import (
    accept,
    dictionary,
    flag,
    one_of,
    parameter,
    whole,
)
from workbench.registry import SOLVERS


@dataclass(eq=False, repr=False)
class SolverClassifier(Classifier):
    """Run any solver of the registry for a number of rounds.

    Features are used as they are given; standardise dense ones first. There is no `sample_weight`,
    as most solvers take none, and no file of a fit: the classes of each family have both.

    Parameters
    ----------
    solver : a name of ``workbench list``
    max_iter : int >= 1, rounds
    parameters : dict or None, those of the solver that are not at its defaults
    fit_intercept : append a column of ones to the rows
    fourier : int >= 0, even, random Fourier features appended to the rows,
        :func:`workbench.data.features.fourier`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SolverClassifier("random_forest", 8, {"seed": 1}).fit(X, y)
    >>> round(model.score(X, y), 2)
    1.0
    """

    solver: str = parameter("ww_walrus_fast", one_of(SOLVERS))
    max_iter: int = parameter(10, whole)
    parameters: dict | None = parameter(None, dictionary)
    fit_intercept: bool = parameter(True, flag)
    fourier: int = parameter(0, accept(lambda v: is_whole(v, 0) and v % 2 == 0, "an even number"))

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return self.solver, dict(self.parameters or {})

    def _problem(self, X, y, weights=None) -> Problem:
        problem = super()._problem(X, y, weights)
        self._waves = waves(problem, self.fourier) if self.fourier else None
        return problem if self._waves is None else self._waves.of(problem)

    def _keep(self, problem, state, trace) -> None:
        self._state = state

    def _seen(self, X):
        X = self._widened(X)
        return X if self._waves is None else self._waves(X)

    def _scored(self, X):
        return self._state.scores(self._seen(X))
