"""Any solver of the registry for scikit-learn, stopped after a number of rounds."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from workbench.core.problem import Problem
from workbench.estimators.base import Classifier, accept, flag, one_of, parameter, whole
from workbench.registry import SOLVERS
from workbench.runs.run import resolve


@dataclass(eq=False, repr=False)
class SolverClassifier(Classifier):
    """Run any solver for a number of rounds, such as the boxes of the papers.

    There is no `sample_weight`, as many solvers take none, and no file of a fit: the classes of
    each family have both.

    Parameters
    ----------
    solver : a name of ``workbench list``
    max_iter : int >= 1, rounds
    parameters : dict or None, parameters of the solver that are not at their defaults
    fit_intercept : bool, append a column of ones to the rows

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SolverClassifier("random_forest", max_iter=8, random_state=1).fit(X, y)
    >>> round(model.score(X, y), 2)
    1.0
    """

    solver: str = parameter("ww_walrus_fast", one_of(SOLVERS))
    _: KW_ONLY
    parameters: dict | None = parameter(None, accept(lambda v: isinstance(v, dict), "a dict"))
    fit_intercept: bool = parameter(True, flag)
    max_iter: int = parameter(10, whole)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        seeded = "seed" in resolve(self.solver, {})[1]
        seed = {"seed": self._seed()} if seeded else {}
        return self.solver, seed | (self.parameters or {})

    def _keep(self, problem, state, trace) -> None:
        self._state = state

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        return {}

    def _scored(self, X):
        return self._state.scores(self._widened(X))
