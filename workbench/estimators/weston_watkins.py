"""Weston-Watkins SVMs for scikit-learn: any of the solvers, run to a certified gap."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from workbench.core.problem import Problem
from workbench.core.stream import State, below
from workbench.core.trace import Trace
from workbench.estimators.base import WeightedClassifier, flag, one_of, parameter, positive
from workbench.weston_watkins.dual import share_of

SOLVER_OF = {"walrus_fast": "ww_walrus_fast", "walrus": "ww_walrus", "shark": "ww_shark"}


@dataclass(eq=False, repr=False)
class WestonWatkinsClassifier(WeightedClassifier):
    """The linear Weston-Watkins SVM, a multiclass one, solved to a certified duality gap.

    It minimises ``1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i)``; `C` is
    the weight of each pair of a row and a wrong class, divided by nothing. For two classes this
    is the SVM of ``LinearSVC(loss="hinge", fit_intercept=False)`` with 2C.

    Parameters
    ----------
    C : float > 0; ``GridSearchCV`` searches for it, and
        :func:`workbench.tuning.weston_watkins.certify_path` proves that none is much better
    solver : {"walrus_fast", "walrus", "shark"}
        All solve the same problem. "walrus" is the paper's block coordinate descent, "walrus_fast"
        ours with fewer visits, "shark" has Shark's solver of the subproblem, which leaves
        violations of 1e-6, and gaps of their size
    tol : float > 0, stop when the duality gap is at most this fraction of the gap after the first
        round, as the paper does, or is only rounding
    fit_intercept : bool, append a constant feature of 1. Its coefficients, the intercepts, are
        regularised as all others are; the problem itself has no offset (the paper's appendix A.1)

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
    solver: str = parameter("walrus_fast", one_of(SOLVER_OF))
    tol: float = parameter(1e-3, positive)
    fit_intercept: bool = parameter(False, flag)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return SOLVER_OF[self.solver], {"C": float(self.C), "seed": self._seed()}

    def _rules(self):
        return [below("gap_ratio", self.tol), *super()._rules()]

    def _distance(self) -> float:
        return self.gap_ratio_

    def _keep(self, problem: Problem, state: State, trace: Trace) -> None:
        self._keep_linear(state, problem)
        primal = trace.last["primal"]
        # The best upper bound has room for rounding, and these coefficients are no better.
        self.lower_, self.upper_ = trace.last["lower"], max(primal, trace.last["upper"])
        first = trace.rows[1]["primal"] - trace.rows[1]["dual"] if self.n_iter_ else math.nan
        self.gap_ratio_ = share_of(first, primal, trace.column("dual").max())
