"""Working sets for scikit-learn: a certified, sparse SVM for very many classes."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from workbench.core.problem import Problem
from workbench.core.stream import rounds
from workbench.estimators import parameters as check
from workbench.estimators.common import WeightedClassifier, certified
from workbench.estimators.memoir import SAVED, SparseLinear
from workbench.estimators.parameters import not_negative, parameter, positive, whole
from workbench.memoir.compress import quantized
from workbench.memoir.working_set import LOSSES

SHARED = "working_set", "inner", "loss"  # with cs_working_set


@dataclass(eq=False, repr=False)
class WorkingSetClassifier(WeightedClassifier, SparseLinear, saved=f"{SAVED} lower_ upper_ gap_"):
    """A linear SVM for very many classes, with a small model and a certified duality gap. Ours.

    It minimises ``P = 1/2 |W|^2 + l1 |W|_1 + sum_i C_i max_c ([c != y_i] + x_i.(w_c - w_{y_i}))``
    by dual ascent on a short list of classes for each row. Few rounds predict as well as the
    optimum, and are the default; with `tol` the fit goes on until the gap says so. Rows should
    have a length of about 1, and there are no intercepts: append a constant feature. The dual has
    a variable for each row, so rows cannot be added later: there is no ``partial_fit``;
    :class:`MemoirClassifier` has one.

    Parameters
    ----------
    C : float > 0, weight of a row's loss, as in ``LinearSVC(multi_class="crammer_singer")``; the
        one parameter that has to be tuned
    l1 : float >= 0, of the l1 norm; 0.02 to 0.05 make the model of unit rows two to six times
        smaller and cost no accuracy. 0 is Crammer and Singer's SVM
    working_set : int from 2 to 255, classes of a row's list, its own among them; 6 bytes each
    truncate : float from 0 to 1, drop weights below this share of their root mean square at the
        end; 0 keeps all
    quantize : bool, keep one byte a weight, see :class:`workbench.memoir.compress.Quantized`
    balance : float >= 0, C_i is proportional to (rows of its class)^-balance, with mean C; 0.25
        helps where classes are of very different sizes and rows are long
    loss : {"crammer_singer", "weston_watkins"}; the second has the sum of the positive
        1 + x_i.(w_c - w_{y_i}) over c != y_i instead of the maximum
    inner : int >= 0, passes over the lists before each but the first pass over all classes
    tol : float > 0 or None, stop when P is certified to be at most this share above its minimum.
        A list that is too short for the optimum can keep the gap above it
    max_rounds : int >= 1. A round is a pass over all rows and classes, after `inner` passes over
        the lists: three suit texts of fifty words and more, four those of a few words; a small
        `tol` needs tens
    random_state : int, RandomState or None, of the order in which rows are visited. An integer is
        the solver's seed itself, and makes fits repeatable

    Attributes
    ----------
    coef_ : (k, d) truncated weights, float32; a CSR matrix if the rows were sparse, else an array;
        made again at each access
    intercept_ : (k,) zeros
    nbytes_ : int, bytes of the weights that predict
    upper_ : float, P at the weights before they were truncated
    lower_ : float, no weights have a smaller P
    gap_ : float, ``upper_ - lower_``

    References
    ----------
    Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector machines.
    Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class
    linear SVMs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = WorkingSetClassifier(tol=0.05, max_rounds=50, random_state=0).fit(X / 64, y)
    >>> model.coef_.shape, model.gap_ <= 0.05 * model.upper_, model.score(X / 64, y) > 0.95
    ((10, 64), True, True)
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    l1: float = parameter(0.02, not_negative)
    working_set: int = parameter(16, whole)
    truncate: float = parameter(0.25, check.fraction)
    quantize: bool = parameter(False, check.flag)
    balance: float = parameter(0.0, not_negative)
    loss: str = parameter("crammer_singer", check.one_of(LOSSES))
    inner: int = parameter(2, check.whole_or_zero)
    tol: float | None = parameter(None, positive)
    max_rounds: int = parameter(3, whole)
    random_state: Any = parameter(None, check.seed)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return "cs_working_set", {name: getattr(self, name) for name in SHARED} | {
            "C": float(self.C),
            "l1": float(self.l1),
            "balance": float(self.balance),
            "seed": self._seed(),
        }

    def _rules(self):
        goal = [] if self.tol is None else [certified(self.tol, relative=True)]
        return [*goal, rounds(self.max_rounds)]

    def _is_empty(self, state, trace) -> bool:
        return trace.stopped_by == "interrupted" and not state.alpha.any()

    def _keep(self, problem: Problem, state, trace) -> None:
        self._keep_weights(state.model(float(self.truncate)), problem.is_sparse, trace)
        if self.quantize:
            self._weights = quantized(self._weights)
            self.nbytes_ = self._weights.nbytes
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]
        self.gap_ = self.upper_ - self.lower_

    def _early(self) -> str | None:
        allowed = math.inf if self.tol is None else self.tol * self.upper_
        if self.gap_ <= allowed and self.trace_.stopped_by != "interrupted":
            return None
        advice = ""
        if self.tol is not None:
            advice = f", above {self.tol:.2g} of it: raise max_rounds, working_set or tol"
        return (
            f"after {self.n_iter_} rounds with a gap of {self.gap_ / self.upper_:.2g} of the "
            f"objective{advice}"
        )
