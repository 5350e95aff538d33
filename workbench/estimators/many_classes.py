"""Linear classifiers for very many classes for scikit-learn: averaged MEMOIR, and working sets."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from workbench.core.problem import Matrix, Problem
from workbench.core.trace import Trace
from workbench.estimators.base import (
    Classifier,
    WeightedClassifier,
    certified,
    fraction,
    not_negative,
    parameter,
    positive,
    whole,
)
from workbench.memoir.mips import best_classes, scores
from workbench.memoir.state import MemoirState

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
        return self.classes_[best_classes(X, self._weights, np.arange(X.shape[0]))]

    def _scored(self, X) -> np.ndarray:
        return scores(self._bounded(X), self._weights)

    def _bounded(self, X):
        """Return the rows; a ValueError if scores of single precision may overflow for them."""
        most = float(abs(X).max())
        largest = most * float(abs(self._weights).max()) * X.shape[1]
        if not largest < float(np.finfo(np.float32).max):
            raise ValueError(
                f"X: values of up to {most:.3g} make scores beyond single precision; scale the rows"
            )
        return X

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
        elif sp.issparse(W):
            W = W.toarray()
        self._weights, self.intercept_ = W, np.zeros(W.shape[1])

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        return {"_weights": (d, k), "intercept_": (k,)}

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if self._weights.dtype != np.float32:
            raise ValueError("_weights: must be of single precision")


@dataclass(eq=False, repr=False)
class MemoirClassifier(SparseLinear):
    """A linear SVM for very many classes, by averaged steps against the class that scores highest.

    It lowers the mean over rows of max(0, 1 + max_{r != y} x.(w_r - w_y)), Crammer and Singer's
    loss: one row makes a step, nothing is regularised, and the mean of all iterates predicts. That
    is more accurate than the paper's two algorithms, which are
    ``SolverClassifier("memoir_l2")`` and ``SolverClassifier("memoir_l1")``.
    There is no certificate; :class:`WorkingSetClassifier` has one. Rows should have a length of
    about 1, and there are no intercepts: append a constant feature. There is no `sample_weight`:
    steps depend on the order of rows, and a weight could not stand for repeated ones.

    Parameters
    ----------
    eta0, eta_step : float > 0 and float >= 0; the size of step t is eta0 / sqrt(1 + eta_step t)
    max_iter : int >= 1, passes over the rows

    Attributes
    ----------
    coef_ : (k, d) weights, float32; a CSR matrix if the rows were sparse, else an array; made again
        at each access. If rows have length 1, the scores are cosines
    intercept_ : (k,) zeros

    References
    ----------
    Belyy, Sholokhov: MEMOIR: Multi-class Extreme Classification with Inexact Margin.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MemoirClassifier(random_state=0).fit(X / 64, y)
    >>> model.coef_.shape, model.score(X / 64, y) > 0.95
    ((10, 64), True)
    """

    eta0: float = parameter(1.0, positive)
    _: KW_ONLY
    eta_step: float = parameter(1e-4, not_negative)
    max_iter: int = parameter(5, whole)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        given = {"eta0": self.eta0, "eta_step": self.eta_step, "seed": self._seed()}
        return "memoir_averaged", given

    def _keep(self, problem: Problem, state: MemoirState, trace: Trace) -> None:
        self._keep_weights(state.model(), problem.is_sparse, trace)


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
    tol : float > 0 or None, stop when P is certified to be at most this fraction above its minimum.
        A list that is too short for the optimum can keep the gap above it
    max_iter : int >= 1, rounds, each a pass over all rows and classes after two passes over
        the lists: three suit texts of fifty words and more, four those of a few words; a small
        `tol` needs tens

    Attributes
    ----------
    coef_ : (k, d) truncated weights, float32; a CSR matrix if the rows were sparse, else an array;
        made again at each access
    intercept_ : (k,) zeros
    upper_ : float, P at the weights before they were truncated
    lower_ : float, no weights have a smaller P

    References
    ----------
    Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector machines.
    Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class
    linear SVMs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = WorkingSetClassifier(tol=0.05, max_iter=50, random_state=0).fit(X / 64, y)
    >>> model.coef_.shape, model.gap_ <= 0.05 * model.upper_, model.score(X / 64, y) > 0.95
    ((10, 64), True, True)
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    l1: float = parameter(0.02, not_negative)
    working_set: int = parameter(16, whole)
    truncate: float = parameter(0.25, fraction)
    tol: float | None = parameter(None, positive)
    max_iter: int = parameter(3, whole)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        given = {"C": float(self.C), "l1": float(self.l1), "working_set": self.working_set}
        return "cs_working_set", given | {"seed": self._seed()}

    def _rules(self):
        goal = [] if self.tol is None else [certified(self.tol, relative=True)]
        return [*goal, *super()._rules()]

    def _distance(self) -> float:
        return self.gap_ / self.upper_ if self.upper_ else 0.0

    def _keep(self, problem: Problem, state, trace) -> None:
        self._keep_weights(state.model(float(self.truncate)), problem.is_sparse, trace)
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]

    def _early(self) -> str | None:
        if self.tol is None and (
            self._distance() > FAR_FROM_OPTIMUM or not abs(self._weights).max()
        ):
            return (
                f"after {self.n_iter_} rounds with a gap of {self._distance():.4g} of the "
                "objective: scale the rows to length 1, raise max_iter, or lower C or l1"
            )
        return super()._early()
