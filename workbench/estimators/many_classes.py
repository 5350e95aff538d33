"""Linear classifiers for very many classes for scikit-learn: MEMOIR, and working sets."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from workbench.core.checks import shown
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Rule, rounds
from workbench.core.trace import Trace
from workbench.estimators import parameters as check
from workbench.estimators.base import Classifier, WeightedClassifier, certified
from workbench.estimators.parameters import not_negative, one_of, parameter, positive, whole
from workbench.memoir.mips import MIPS, scores
from workbench.memoir.mips.exact import best_others, index
from workbench.memoir.state import MemoirState
from workbench.registry import SOLVERS
from workbench.runs.run import resolve, warm

MIN_BATCHES = 25  # the smallest number in Table 4
PASSES = 5  # over the rows, by averaged steps
MEMOIR = "mips", "batch_size", "lam", "gamma", "eta0", "eta_step"  # parameters of its solvers
WARMUP_ROWS = 100
WORKING_SETS = "working_set", "inner"  # parameters of cs_working_set
# A gap above this fraction of the objective says that the fit has hardly begun. Standardised rows
# of a hundred features reach 0.9 in three rounds, and predict well.
FAR_FROM_OPTIMUM = 0.999


class SparseLinear(Classifier):
    """A classifier for very many classes, whose weights are feature-major and may be sparse."""

    @property
    def coef_(self) -> Matrix:
        """The (k, d) weights, made again at each access: CSR if the rows were sparse."""
        W = self._weights
        return sp.csr_matrix(W.T) if sp.issparse(W) else np.ascontiguousarray(W.T)

    def predict(self, X):
        """Return the (n,) labels of highest score, without holding the scores of all rows."""
        check_is_fitted(self)
        X = self._bounded(self._rows(X, reset=False))
        n = X.shape[0]
        searched, rows, no_label = index(self._weights), np.arange(n), np.full(n, -1, np.int32)
        return self.classes_[best_others(X, searched, rows, no_label)[0]]

    def _scored(self, X) -> np.ndarray:
        return scores(self._bounded(X), self._weights)

    def _bounded(self, X):
        """Return the rows; a ValueError if scores of single precision may overflow for them."""
        most = float(abs(X).max())
        if not most * float(abs(self._weights).max()) * X.shape[1] < float(
            np.finfo(np.float32).max
        ):
            raise ValueError(
                f"X: values of up to {most:.3g} make scores beyond single precision; scale the rows"
            )
        return X

    def _run(self, problem: Problem, solver: str, parameters: dict):
        # Two rows of each of 100,000 classes, scored for all of these, take longer than the fit.
        tiny = problem.tiny()
        if tiny.n > WARMUP_ROWS:
            tiny = replace(tiny, X=tiny.X[:WARMUP_ROWS], y=tiny.y[:WARMUP_ROWS])
        warm(SOLVERS[solver].steps, tiny, parameters)
        return super()._run(problem, solver, parameters, warm_up=False)

    def _keep_weights(self, W: Matrix, from_sparse: bool, trace: Trace) -> None:
        """Keep the (d, k) weights: a CSR matrix after sparse rows, an array after dense ones."""
        finite = np.isfinite(W.data if sp.issparse(W) else W).all()
        if trace.stopped_by == "diverged" or not finite:
            raise ValueError(
                "X: the weights exceed single precision; scale the rows, for example to length 1"
            )
        if from_sparse:
            W = sp.csr_matrix(W)
            W.sort_indices()
            self.nbytes_ = W.data.nbytes + W.indices.nbytes + W.indptr.nbytes
        else:
            W = W.toarray() if sp.issparse(W) else W
            self.nbytes_ = W.nbytes
        self._weights, self.intercept_ = W, np.zeros(W.shape[1])

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        return {"_weights": (d, k), "intercept_": (k,)}

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if self._weights.dtype != np.float32:
            raise ValueError("_weights: must be of single precision")


@dataclass(eq=False, repr=False)
class MemoirClassifier(SparseLinear):
    """A linear SVM for very many classes, by steps against the class that scores highest.

    It lowers the mean over rows of max(0, 1 + max_{r != y} x.(w_r - w_y)), Crammer and Singer's
    loss. By default one row makes a step, nothing is regularised, and the mean of all iterates
    predicts, which does better than the paper's algorithms and than its authors' code. Those
    algorithms add lam/2 |W|^2 or gamma/2 |W|_1, and find the class r by `mips`, exactly or nearly.
    There is no certificate; :class:`WorkingSetClassifier` has one. Rows should have a length of
    about 1, and there are no intercepts: append a constant feature. There is no `sample_weight`:
    steps depend on the order of rows, and a weight could not stand for repeated ones.

    Parameters
    ----------
    solver : {"averaged", "l2", "l1"}, ours, or one of the paper's boxes; parameters below that are
        None keep its defaults, and those that it does not have must be None
    mips : {"exact", "sw_graph", "hnsw", "simple_lsh", "random"} or None, of "l2" and "l1", see
        :mod:`workbench.memoir.mips`
    batch_size : int >= 1 or None, rows per step of "l2" and "l1"; None is 100 sqrt(k)
    n_batches : int >= 1 or None, steps of `fit`. If a batch is less than a fiftieth of the rows
        they are rounded up to whole passes over these. None is 25, or for "averaged" five passes
    lam : float >= 0 or None, of "l2"; ``lam * eta0 / (1 + eta_step)`` is below 1
    gamma : float >= 0 or None, of "l1"
    eta0, eta_step : float > 0 and float >= 0, or None; the size of step t is eta0 over
        1 + eta_step t, or for "averaged" over the square root of that
    random_state : int, RandomState or None, of the rows drawn. An integer is the solver's seed
        itself, and makes fits repeatable, but not those with nmslib's graphs

    Attributes
    ----------
    coef_ : (k, d) weights, float32; a CSR matrix if the rows were sparse, else an array; made again
        at each access. If rows have length 1, the scores are cosines
    intercept_ : (k,) zeros
    nbytes_ : int, bytes of the weights that predict
    n_iter_ : int, steps
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose rows have ``primal``, on at
        most 5,000 of the rows, and with an approximate search ``recall`` and ``epsilon``

    References
    ----------
    Belyy, Sholokhov: MEMOIR: Multi-class Extreme Classification with Inexact Margin.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MemoirClassifier(random_state=0).fit(X / 64, y)
    >>> model.coef_.shape, model.n_iter_, model.score(X / 64, y) > 0.95
    ((10, 64), 8985, True)
    """

    solver: str = parameter("averaged", one_of(("averaged", "l2", "l1")))
    _: KW_ONLY
    mips: str | None = parameter(None, one_of(MIPS))
    batch_size: int | None = parameter(None, whole)
    n_batches: int | None = parameter(None, whole)
    lam: float | None = parameter(None, not_negative)
    gamma: float | None = parameter(None, not_negative)
    eta0: float | None = parameter(None, positive)
    eta_step: float | None = parameter(None, not_negative)
    random_state: Any = parameter(None, check.seed)

    def _given(self) -> dict[str, Any]:
        """Return the parameters of the solver that are not None."""
        given = {name: getattr(self, name) for name in MEMOIR}
        return {name: value for name, value in given.items() if value is not None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        known = resolve(f"memoir_{self.solver}", {})[1]
        for name, value in self._given().items():
            if name not in known:
                raise ValueError(
                    f"{name}: must be None with solver={self.solver!r}, got {shown(value)}"
                )

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        self._limit = self.n_batches or MIN_BATCHES
        if self.solver == "averaged" and self.n_batches is None:
            self._limit = PASSES * problem.n
        return f"memoir_{self.solver}", self._given() | {"seed": self._seed()}

    def _rules(self):
        return [steps_taken(self._limit)]

    def _is_empty(self, state: MemoirState, trace: Trace) -> bool:
        return trace.stopped_by == "interrupted" and state.step == 0

    def _keep(self, problem: Problem, state: MemoirState, trace: Trace) -> None:
        self._keep_weights(state.model(), problem.is_sparse, trace)
        self.n_iter_ = state.step

    def _early(self) -> str | None:
        if self.trace_.stopped_by != "interrupted":
            return None
        return f"after {self.n_iter_} of {self._limit} batches"


@dataclass(eq=False, repr=False)
class WorkingSetClassifier(WeightedClassifier, SparseLinear):
    """A linear SVM for very many classes, with a small model and a certified duality gap. Ours.

    It minimises ``P = 1/2 |W|^2 + l1 |W|_1 + C sum_i max_c ([c != y_i] + x_i.(w_c - w_{y_i}))``
    by dual ascent on a short list of classes for each row. Few rounds predict as well as the
    optimum, and are the default; with `tol` the fit goes on until the gap says so. Rows should
    have a length of about 1, and there are no intercepts: append a constant feature.

    Parameters
    ----------
    C : float > 0, weight of a row's loss, as in ``LinearSVC(multi_class="crammer_singer")``; the
        one parameter that has to be tuned
    l1 : float >= 0, of the l1 norm; 0.02 to 0.05 make the model of unit rows two to six times
        smaller and cost no accuracy. 0 is Crammer and Singer's SVM
    working_set : int from 2 to 255, classes of a row's list, its own among them; 6 bytes each
    truncate : float from 0 to 1, drop weights below this fraction of their root mean square at the
        end; 0 keeps all
    inner : int >= 0, passes over the lists before each but the first pass over all classes
    tol : float > 0 or None, stop when P is certified to be at most this fraction above its minimum.
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
    inner: int = parameter(2, check.whole_or_zero)
    tol: float | None = parameter(None, positive)
    max_rounds: int = parameter(3, whole)
    random_state: Any = parameter(None, check.seed)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        return "cs_working_set", {name: getattr(self, name) for name in WORKING_SETS} | {
            "C": float(self.C),
            "l1": float(self.l1),
            "seed": self._seed(),
        }

    def _rules(self):
        goal = [] if self.tol is None else [certified(self.tol, relative=True)]
        return [*goal, rounds(self.max_rounds)]

    def _is_empty(self, state, trace) -> bool:
        return trace.stopped_by == "interrupted" and not state.alpha.any()

    def _keep(self, problem: Problem, state, trace) -> None:
        self._keep_weights(state.model(float(self.truncate)), problem.is_sparse, trace)
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]
        self.gap_ = self.upper_ - self.lower_

    def _early(self) -> str | None:
        relative = self.gap_ / self.upper_ if self.upper_ else 0.0
        text = f"after {self.n_iter_} rounds with a gap of {relative:.4g} of the objective"
        if self.tol is not None and self.gap_ > self.tol * self.upper_:
            return f"{text}, above {self.tol:.2g} of it: raise max_rounds, working_set or tol"
        if not abs(self._weights).max():
            return f"{text}: all weights are zero, scale the rows to length 1, or lower l1"
        if relative > FAR_FROM_OPTIMUM:
            return f"{text}: scale the rows to length 1, raise max_rounds, or lower C"
        return text if self.trace_.stopped_by == "interrupted" else None


def steps_taken(limit: int) -> Rule:
    """Stop after `limit` steps."""

    def rule(row) -> str | None:
        return rule.__name__ if row["steps"] >= limit else None

    rule.__name__ = f"{limit} batches"
    return rule
