"""Kernel SVMs by sampled cuts for scikit-learn: a basis of the cuts by name, run to its end."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from workbench.core.problem import Matrix, Problem
from workbench.estimators import parameters as check
from workbench.estimators.common import Classifier
from workbench.estimators.parameters import parameter, positive, whole
from workbench.kernels.functions import Kernel, as_given, check_gamma
from workbench.sampled_cuts.model import half_square, mean_violation
from workbench.sampled_cuts.spaces import inverse_root
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import task_of

PARAMETERS_OF = {  # parameters of each basis' solver, in addition to those that all have
    "linear_time": ("r",),
    "constant_time": ("r",),
    "exact": (),
    "nystroem": ("landmarks",),
}

SAVED = (
    "n_iter_ trace_ lower_ upper_ _kernel gamma_ gap_ compression_error_ support_:m "
    "support_vectors_:md~"
)


@dataclass(eq=False, repr=False)
class SampledCutClassifier(Classifier, saved=f"{SAVED} dual_coef_:rm"):
    """The kernel SVM by cutting planes, whose cuts may be made of random samples of the rows.

    It minimises ``1/2 |w|^2 + C sum_i hinge_i``. For two classes the hinge is LIBSVM's,
    ``max(0, 1 - y_i f(x_i))``; for more it is Crammer and Singer's,
    ``max(0, max_{j != y_i} 1 - f_{y_i}(x_i) + f_j(x_i))``. There is no bias. Scale the features
    first. There is no `sample_weight`: cuts are samples of the rows, drawn alike, and a weight
    could not stand for repeated rows.

    Parameters
    ----------
    C : float > 0, weight of a row's hinge, as in LIBSVM; the paper's C is n times that
    kernel : "rbf", "poly" or "linear"
    gamma : "scale" or float > 0, of "rbf" and "poly"; "scale" is 1 / (d times the variance of all
        entries of X), as in SVC
    degree, coef0 : int >= 1 and float >= 0, of "poly", (gamma x'z + coef0)^degree
    basis : {"linear_time", "constant_time", "exact", "nystroem"}
        The rows of a cut: `r` random rows among those that violate (Algorithm 3), `r` random
        rows, all others not being looked at (Algorithm 2), all rows that violate (Algorithm 1),
        or (ours) all of them in the span of a few rows. All but "constant_time" take a line
        search from the best iterate
    r : int >= 1 or None, rows of a cut for the first two. None is 400 for "constant_time", and 400
        times the root of half the number of classes for "linear_time"
    eps : float > 0, in units of the mean hinge: it ends where the last cut is violated by no more.
        "constant_time" requires this of ten samples in a row; "linear_time" also ends when the
        violation no longer decreases
    landmarks : int >= 1, rows of "nystroem"
    compress : int >= 1 or None, most rows that predictions may need. That number of random rows of
        those that the fit needs are kept, and w is projected onto their span
    max_iter : int >= 1, rounds of the solver, a cut each
    max_seconds : float > 0 or None, wall seconds of the solver; checked between rounds
    random_state : int, RandomState or None, of the samples. An integer is the solver's seed itself,
        and makes fits repeatable

    Attributes
    ----------
    support_ : (m,) the training rows that predictions need, ``support_vectors_`` : (m, d), these
        rows; there are more of them than in an exact solution
    dual_coef_ : (k, m), f_j = sum_i dual_coef_[j, i] k(support_vectors_[i], .); for two classes
        (1, m) for the one f of the decision function, as in SVC
    gamma_ : float, as it was used
    upper_ : float, the objective at the fitted w, before `compress`; in single precision for the
        sampled bases, and for "nystroem" if X is. For "constant_time" it takes a sweep over all
        rows after the fit, which may take longer than the fit
    lower_ : float, no w has a smaller objective; nan if the basis is not "exact"
    gap_ : float, ``upper_ - lower_``, nan if that is; C n eps at most unless a limit ended the fit
    compression_error_ : float, |w - Pw| / |w| for the projection P of `compress`, 0 without

    References
    ----------
    Yu, Joachims: Training Structural SVMs with Kernels Using Sampled Cuts. KDD 2008.

    Examples
    --------
    >>> from workbench.data.synthetic import checkers
    >>> train, test = checkers(3000), checkers(1000, seed=1)
    >>> svm = SampledCutClassifier(gamma=30.0, random_state=0).fit(train.X, train.y)
    >>> svm.score(test.X, test.y) > 0.87
    True
    >>> small = SampledCutClassifier(gamma=30.0, compress=200, random_state=0)
    >>> small = small.fit(train.X, train.y)
    >>> len(small.support_), small.compression_error_ < 0.1
    (200, True)
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    kernel: Any = parameter("rbf", check.kernel)
    gamma: str | float = parameter("scale", check.gamma)
    degree: int = parameter(3, whole)
    coef0: float = parameter(0.0, check.not_negative)
    basis: str = parameter("linear_time", check.one_of(PARAMETERS_OF))
    r: int | None = parameter(None, whole)
    eps: float = parameter(5e-3, positive)
    landmarks: int = parameter(200, whole)
    compress: int | None = parameter(None, whole)
    max_iter: int = parameter(1000, whole)
    max_seconds: float | None = parameter(None, positive)
    random_state: Any = parameter(None, check.seed)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        names = "kernel", "degree", *PARAMETERS_OF[self.basis]
        given = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        parameters = given | {
            "C": float(self.C),
            "eps": float(self.eps),
            "gamma": check_gamma(self.gamma),
            "coef0": float(self.coef0),
            "seed": self._seed(),
        }
        if self.basis == "exact":
            parameters["stabilised"] = True  # as the others are
        return f"cuts_{self.basis}", parameters

    def _keep(self, problem: Problem, state: CutState, trace) -> None:
        rows, A = state.expansion()
        used = A.any(axis=1)
        rows, A = rows[used], A[used]
        self._kernel, self.gamma_ = state.made_kernel(np.float64), state.gamma
        self.upper_ = max(state.primal, state.upper) if state.certified else state.primal
        if self.basis == "constant_time":  # the state has an estimate only
            self.upper_ = objective(state, problem, self.C)
        # With landmarks the lower bound is of their span, and not of the problem.
        self.lower_ = state.lower if self.basis == "exact" else math.nan
        self.gap_ = self.upper_ - self.lower_
        self.compression_error_ = 0.0
        if self.compress is not None and self.compress < len(rows):
            compressed = projected(self._kernel, problem.X, rows, A, self.compress, state.rng)
            rows, A, self.compression_error_ = compressed
        self.support_, self.support_vectors_ = rows, problem.X[rows]
        self.dual_coef_ = np.ascontiguousarray(A.T)
        self.n_iter_ = state.round

    def _early(self) -> str | None:
        # Certified bases end by rounding, too, and the others when nothing gets better.
        early = not self.trace_.stopped_by.startswith("finished")
        if self.basis in ("exact", "nystroem"):
            early = self.trace_.last["violation"] > self.eps
        if not early:
            return None
        return (
            f"after {self.n_iter_} rounds, before it had converged: scale the features, raise the "
            "limit, or raise eps"
        )

    def _check_saved(self, found: dict[str, Any], d: int, k: int) -> None:
        if found["_kernel"].centre.shape not in ((0,), (d,)):
            raise ValueError("_kernel: its centre does not fit the features")

    def _kernel_scores(self, X: Matrix) -> np.ndarray:
        """Return the scores of rows by the kernel, (n, len(dual_coef_)), in double precision."""
        X = as_given(X, getattr(self.support_vectors_, "indices", None))
        basis = self._kernel.points(self.support_vectors_)
        return self._kernel.times(self._kernel.points(X), basis, self.dual_coef_.T)

    def _scored(self, X) -> np.ndarray:
        F = self._kernel_scores(X)
        return np.hstack([-F / 2, F / 2]) if F.shape[1] == 1 else F


def objective(state: CutState, problem: Problem, C: float) -> float:
    """Return the objective at an iterate, by a sweep over all rows in single precision."""
    task, kernel = task_of(problem), state.made_kernel(np.float32)
    rows, A = state.expansion()
    points = kernel.points(problem.X)
    answers = task.answers(kernel.times(points, points[rows], A), state.transitions)
    return half_square(state, state.w) + C * task.n * mean_violation(answers)


def projected(
    kernel: Kernel, X: Matrix, rows: np.ndarray, A: np.ndarray, m: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Project w = sum_i phi(X[rows[i]]) A[i] onto the span of `m` random ones of these rows.

    Returns
    -------
    kept, coefficients : the (m,) rows, and the coefficients (m, K) of the projection Pw
    error : |w - Pw| / |w|
    """
    kept = np.sort(rng.choice(len(rows), m, replace=False))
    points = kernel.points(X[rows])
    few = points[kept]
    root = inverse_root(kernel.matrix(few, few))
    scores = kernel.times(points, points, A)
    coordinates = root @ scores[kept]  # of Pw in an orthonormal basis of the span
    share = np.vdot(coordinates, coordinates) / np.vdot(A, scores)
    return rows[kept], root @ coordinates, math.sqrt(max(0.0, 1.0 - share))
