"""Weston-Watkins SVMs for scikit-learn: any of the solvers, run to a certified gap."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from workbench.core.problem import Problem
from workbench.core.stream import State, below
from workbench.core.trace import Trace
from workbench.estimators import parameters as check
from workbench.estimators.base import WeightedClassifier
from workbench.estimators.parameters import parameter, positive, whole
from workbench.weston_watkins.dual import share_of

SOLVER_OF = {"walrus_fast": "ww_walrus_fast", "walrus": "ww_walrus", "shark": "ww_shark"}


@dataclass(eq=False, repr=False)
class WestonWatkinsClassifier(WeightedClassifier):
    """The linear Weston-Watkins SVM, a multiclass one, solved to a certified duality gap.

    It minimises ``1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i)``; `C` is
    the weight of each pair of a row and a wrong class, divided by nothing. For two classes this
    is the SVM of ``LinearSVC(loss="hinge", fit_intercept=False)`` with 2C. Scale the features
    first: on raw ones of the size of 1000 every solver here takes very long.

    Parameters
    ----------
    C : float > 0; ``GridSearchCV`` searches for it, and
        :func:`workbench.tuning.weston_watkins.certify_path` proves that none is much better
    solver : {"walrus_fast", "walrus", "shark"}
        All solve the same problem. "walrus" is the paper's block coordinate descent, "walrus_fast"
        ours with fewer visits, "shark" has Shark's solver of the subproblem, which leaves
        violations of 1e-6, and gaps of their size
    gap_ratio : float > 0, stop when the duality gap is at most this fraction of the gap after the
        first round, as the paper does, or is only rounding
    fit_intercept : bool, append a constant feature of 1. Its coefficients, the intercepts, are
        regularised as all others are; the problem itself has no offset (the paper's appendix A.1),
        and neither has the fit by default
    max_iter : int >= 1, rounds of the solver
    max_seconds : float > 0 or None, wall seconds of the solver; checked between rounds
    random_state : int, RandomState or None, of the order in which rows are visited. An integer is
        the solver's seed itself, and makes fits repeatable

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes. The intercepts are zeros without
        `fit_intercept`
    upper_ : float, the objective at the fitted coefficients
    lower_ : float, no coefficients have a smaller one
    gap_ratio_ : float, the gap over that after the first round, neither of them with the bounds'
        room for rounding; 0 if it is only rounding, nan without a round

    References
    ----------
    Wang, Scott: An Exact Solver for the Weston-Watkins SVM Subproblem.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> svm = WestonWatkinsClassifier(fit_intercept=True, random_state=0).fit(X, y)
    >>> svm.coef_.shape, svm.gap_ratio_ <= 1e-3
    ((3, 4), True)
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    solver: str = parameter("walrus_fast", check.one_of(SOLVER_OF))
    gap_ratio: float = parameter(1e-3, positive)
    fit_intercept: bool = parameter(False, check.flag)
    max_iter: int = parameter(1000, whole)
    max_seconds: float | None = parameter(None, positive)
    random_state: Any = parameter(None, check.seed)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return SOLVER_OF[self.solver], {"C": float(self.C), "seed": self._seed()}

    def _goal(self):
        return [below("gap_ratio", self.gap_ratio)]

    def _keep(self, problem: Problem, state: State, trace: Trace) -> None:
        self._keep_linear(state, problem)
        primal = trace.last["primal"]
        # The best upper bound has room for rounding, and these coefficients are no better.
        self.lower_, self.upper_ = trace.last["lower"], max(primal, trace.last["upper"])
        first = trace.rows[1]["primal"] - trace.rows[1]["dual"] if self.n_iter_ else math.nan
        self.gap_ratio_ = share_of(first, primal, trace.column("dual").max())

    def _early(self) -> str | None:
        if self.gap_ratio_ <= self.gap_ratio:
            return None
        return (
            f"after {self.n_iter_} rounds with a gap ratio of {self.gap_ratio_:.2g}, above "
            f"{self.gap_ratio:.2g}: scale the features, raise the limit, or raise gap_ratio"
        )
