"""Kernel SVMs by sampled cuts for scikit-learn: a basis of the cuts by name, run to its end."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from workbench.core.problem import Problem
from workbench.estimators.base import Classifier, floats_of, one_of, parameter, positive, whole
from workbench.kernels.functions import Kernel, as_given, check_gamma, check_kernel
from workbench.sampled_cuts.state import CutState

KERNELS = "rbf", "linear"
# The name that `r` has in each basis' solver.
SIZE_OF = {"linear_time": "r", "constant_time": "r", "exact": None, "nystroem": "landmarks"}


@dataclass(eq=False, repr=False)
class SampledCutClassifier(Classifier):
    """The kernel SVM by cutting planes, whose cuts may be made of random samples of the rows.

    It minimises ``1/2 |w|^2 + C sum_i hinge_i``. For two classes the hinge is LIBSVM's,
    ``max(0, 1 - y_i f(x_i))``; for more it is Crammer and Singer's,
    ``max(0, max_{j != y_i} 1 - f_{y_i}(x_i) + f_j(x_i))``. There is no bias. There is
    no `sample_weight`: cuts are samples of the rows, drawn alike, and a weight could not stand for
    repeated rows.

    Parameters
    ----------
    C : float > 0, weight of a row's hinge, as in LIBSVM; the paper's C is n times that
    kernel : {"rbf", "linear"}
    gamma : "scale" or float > 0, of "rbf"; "scale" is 1 / (d times the variance of all entries of
        X), as in SVC
    basis : {"linear_time", "constant_time", "exact", "nystroem"}
        The rows of a cut: `r` random rows among those that violate (Algorithm 3), `r` random
        rows, all others not being looked at (Algorithm 2), all rows that violate (Algorithm 1),
        or (ours) all of them in the span of a few rows. All but "constant_time" take a line
        search from the best iterate
    r : int >= 1 or None, rows of a cut for the first two, landmarks of "nystroem". None is 400 for
        "constant_time", 400 times the root of half the number of classes for "linear_time", and
        200 for "nystroem"
    tol : float > 0, in units of the mean hinge: it ends where the last cut is violated by no more.
        "constant_time" requires this of ten samples in a row; "linear_time" also ends when the
        violation no longer decreases

    Attributes
    ----------
    support_ : (m,) the training rows that predictions need, ``support_vectors_`` : (m, d), these
        rows; there are more of them than in an exact solution
    dual_coef_ : (k, m), f_j = sum_i dual_coef_[j, i] k(support_vectors_[i], .); for two classes
        (1, m) for the one f of the decision function, as in SVC
    gamma_ : float, as it was used
    upper_ : float, the objective at the fitted w; in single precision for "linear_time", and for
        "nystroem" if X is; nan for "constant_time", which only estimates it
    lower_ : float, no w has a smaller objective; nan if the basis is not "exact"
    gap_ : float, C n tol at most unless a limit ended the fit

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
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    kernel: str = parameter("rbf", one_of(KERNELS))
    gamma: str | float = parameter("scale", lambda value, name: check_gamma(value))
    basis: str = parameter("linear_time", one_of(SIZE_OF))
    r: int | None = parameter(None, whole)
    tol: float = parameter(5e-3, positive)

    def _solver(self, problem: Problem) -> tuple[str, dict[str, Any]]:
        parameters = {
            "kernel": self.kernel,
            "C": float(self.C),
            "eps": float(self.tol),
            "gamma": check_gamma(self.gamma),
            "seed": self._seed(),
        }
        if self.r is not None and (size := SIZE_OF[self.basis]):
            parameters[size] = self.r
        if self.basis == "exact":
            parameters["stabilised"] = True  # as the others are
        return f"cuts_{self.basis}", parameters

    def _keep(self, problem: Problem, state: CutState, trace) -> None:
        rows, A = state.expansion()
        used = A.any(axis=1)
        rows, A = rows[used], A[used]
        self._kernel, self.gamma_ = state.made_kernel(np.float64), float(state.gamma)
        self.upper_ = max(state.primal, state.upper) if state.certified else state.primal
        if self.basis == "constant_time":
            self.upper_ = math.nan
        # With landmarks the lower bound is of their span, and not of the problem.
        self.lower_ = state.lower if self.basis == "exact" else math.nan
        self.support_, self.support_vectors_ = rows, problem.X[rows]
        self.dual_coef_ = np.ascontiguousarray(A.T)

    def _distance(self) -> float | None:
        # Certified bases end by rounding, too, and the others when nothing gets better.
        certified = self.basis in ("exact", "nystroem")
        return self.trace_.last["violation"] if certified else None

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        m = len(self.support_)
        return {
            "support_vectors_": (m, d),
            "dual_coef_": (1 if k == 2 else k, m),
            "gamma_": (),
        }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        kernel = vars(self).get("_kernel")
        if type(kernel) is not Kernel or kernel.kind not in KERNELS:
            raise ValueError("_kernel: must be a kernel by name")
        check_kernel(kernel.kind, kernel.gamma, kernel.degree, kernel.coef0)
        centre = floats_of(kernel.centre, "_kernel.centre", np.shape(kernel.centre))
        if centre.shape not in ((0,), (self.n_features_in_,)) or kernel.dtype != np.float64:
            raise ValueError("_kernel: does not fit the features")
        if kernel.gamma != self.gamma_:
            raise ValueError("_kernel: its gamma must be gamma_")

    def _scored(self, X) -> np.ndarray:
        X = as_given(X, getattr(self.support_vectors_, "indices", None))
        basis = self._kernel.points(self.support_vectors_)
        F = self._kernel.times(self._kernel.points(X), basis, self.dual_coef_.T)
        return np.hstack([-F / 2, F / 2]) if F.shape[1] == 1 else F
