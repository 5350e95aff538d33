"""Kernel SVMs by sampled cuts for scikit-learn: a basis of the cuts by name, run to its end."""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from workbench.core.problem import Matrix, Problem
from workbench.core.stream import rounds, seconds
from workbench.core.trace import Trace
from workbench.estimators.common import Classifier
from workbench.kernels.functions import Kernel, as_given, check_gamma, check_kernel
from workbench.registry import SOLVERS
from workbench.runs.run import run, warm
from workbench.sampled_cuts.model import half_square, mean_violation
from workbench.sampled_cuts.spaces import inverse_root
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import task_of

PARAMETERS_OF = {  # of the solver of each basis, beside those that all have
    "linear_time": ("r",),
    "constant_time": ("r",),
    "exact": (),
    "nystroem": ("landmarks",),
}


class SampledCuts(Classifier):
    """What both estimators do alike: run the solver of a basis, and keep what predicts."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_name("basis", PARAMETERS_OF)
        self._check_positive("C", "eps")
        self._check_count("r", "landmarks", "max_iter")
        if self.compress is not None:
            self._check_count("compress")
        if self.max_seconds is not None:
            self._check_positive("max_seconds")
        check_gamma(self.gamma)
        check_kernel(self.kernel, None, self.degree, self.coef0)

    def _fit(self, problem: Problem) -> CutState:
        """Run the solver and keep where it ended; warn if that is too early."""
        trace, state = self._run(f"cuts_{self.basis}", problem)
        rows, A = state.expansion()
        used = A.any(axis=1)
        rows, A = rows[used], A[used]
        self._kernel, self.gamma_ = state.made_kernel(np.float64), state.gamma
        self.upper_ = max(state.primal, state.upper) if state.certified else state.primal
        if self.basis == "constant_time":  # what the state has is an estimate
            self.upper_ = objective(state, problem, self.C)
        self.lower_ = state.lower if state.certified else math.nan
        self.gap_ = self.upper_ - self.lower_
        self.n_iter_, self.trace_, self.compression_error_ = state.round, trace, 0.0
        if self.compress is not None and self.compress < len(rows):
            compressed = projected(self._kernel, problem.X, rows, A, self.compress, state.rng)
            rows, A, self.compression_error_ = compressed
        self.support_, self.support_vectors_ = rows, problem.X[rows]
        self.dual_coef_ = np.ascontiguousarray(A.T)
        # Certified bases end by rounding, too, and the others where nothing gets better.
        early = state.violation > self.eps if state.certified else trace.stopped_by != "finished"
        if early:
            warnings.warn(
                f"cuts_{self.basis} stopped ({trace.stopped_by}) after {self.n_iter_} rounds, "
                "before it had converged: scale the features, raise the limit, or raise eps",
                ConvergenceWarning,
                stacklevel=3,
            )
        return state

    def _run(self, name: str, problem: Problem) -> tuple[Trace, CutState]:
        """Return the trace and the last state."""
        rules = [rounds(self.max_iter)]
        if self.max_seconds is not None:
            rules.append(seconds(self.max_seconds))
        parameters = {
            "C": float(self.C),
            "eps": float(self.eps),
            "kernel": self.kernel,
            "gamma": check_gamma(self.gamma),
            "degree": self.degree,
            "coef0": float(self.coef0),
            "seed": self._seed(),
        } | {name: getattr(self, name) for name in PARAMETERS_OF[self.basis]}
        if self.basis == "exact":
            parameters["stabilised"] = True  # as the others are
        own_kernel = callable(self.kernel)  # may want rows as long as they are
        if own_kernel:
            warm(SOLVERS[name].steps, problem, parameters | {"kernel": "rbf"})
        trace, state = run(name, problem, *rules, parameters=parameters, warm_up=not own_kernel)
        if state is None:
            raise KeyboardInterrupt
        return trace, state  # which is whole, also where a round was interrupted

    def _of_rows(self, X: Matrix) -> np.ndarray:
        """Return the scores of rows by the kernel, (n, len(dual_coef_)), in double precision."""
        X = as_given(X, getattr(self.support_vectors_, "indices", None))
        basis = self._kernel.points(self.support_vectors_)
        return self._kernel.times(self._kernel.points(X), basis, self.dual_coef_.T)


class SampledCutClassifier(SampledCuts):
    """The kernel SVM by cutting planes, whose cuts may be made of random samples of the rows.

    It minimises ``1/2 |w|^2 + C sum_i hinge_i``. For two classes the hinge is that of LIBSVM,
    ``max(0, 1 - y_i f(x_i))``; for more it is that of Crammer and Singer,
    ``max(0, max_{j != y_i} 1 - f_{y_i}(x_i) + f_j(x_i))``. There is no bias: where one is needed,
    add a constant to the kernel, by a function k(X, Z) + 1. Scale the features first.
    There is no `sample_weight`: cuts are samples of the rows, drawn alike, and a weight could not
    stand for repeated rows.

    Parameters
    ----------
    C : float > 0, weight of a row's hinge, as in LIBSVM; the paper's C is n times that
    kernel : "rbf", "poly", "linear", or a function
        A function k(X, Z) is symmetric, positive semidefinite and returns a (len(X), len(Z)) array
    gamma : "scale" or float > 0, of "rbf" and "poly"; "scale" is 1 / (d times the variance of all
        entries of X), as in SVC
    degree, coef0 : int >= 1 and float >= 0, of "poly", (gamma x'z + coef0)^degree
    basis : {"linear_time", "constant_time", "exact", "nystroem"}
        What a cut is made of: `r` random rows among those that violate (Algorithm 3), `r` random
        rows, all others not being looked at (Algorithm 2), all rows that violate (Algorithm 1),
        or (ours) all of them in the span of a few rows. All but "constant_time" take a line
        search from the best iterate
    r : int >= 1, rows of a cut for the first two
    eps : float > 0, in units of the mean hinge: it ends where the last cut is violated by no more.
        "constant_time" asks that of ten samples in a row; "linear_time" also ends where that
        comes down no more
    landmarks : int >= 1, rows of "nystroem"
    compress : int >= 1 or None, rows that predictions need at most. So many random ones of those
        that the fit needs are kept, and w is projected onto their span
    max_iter : int >= 1, rounds of the solver, a cut each
    max_seconds : float > 0 or None, wall seconds of the solver; checked between rounds
    random_state : int, RandomState or None, of the samples. An integer is the solver's seed itself,
        and makes fits repeatable

    Attributes
    ----------
    classes_ : (k,) labels
    support_ : (m,) the training rows that predictions need, ``support_vectors_`` : (m, d), these
        rows; there are more of them than in an exact solution
    dual_coef_ : (k, m), f_j = sum_i dual_coef_[j, i] k(support_vectors_[i], .); for two classes
        (1, m) for the one f of the decision function, as in SVC
    gamma_ : float, as it was used
    upper_ : float, the objective at the fitted w, before `compress`; in single precision for the
        sampled bases, and for "nystroem" where X is. For "constant_time" it takes a sweep over all
        rows after the fit, which may take longer than the fit
    lower_ : float, no w has a smaller objective; for "nystroem" no w in the span of its rows, and
        in single precision where X is; nan for the sampled bases
    gap_ : float, ``upper_ - lower_``, at most C n eps unless a limit stopped the fit
    compression_error_ : float, |w - Pw| / |w| for the projection P of `compress`, 0 without
    n_iter_ : int, rounds of the solver
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose last row says ``stopped_by``
    n_features_in_ : int, ``feature_names_in_`` : (d,) where X has names

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

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        basis="linear_time",
        r=400,
        eps=5e-3,
        landmarks=200,
        compress=None,
        max_iter=1000,
        max_seconds=None,
        random_state=None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.basis = basis
        self.r = r
        self.eps = eps
        self.landmarks = landmarks
        self.compress = compress
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X, y):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,).

        Ctrl-C ends the fit early and keeps the last iterate.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, a single class, a kernel
            that returns other than finite numbers, or too many rows for exact cuts.

        Warns
        -----
        ConvergenceWarning
            When a limit, Ctrl-C or rounding stopped it.
        """
        self._check_parameters()
        problem = self._problem(*self._validated(X, y))
        self._fit(problem)
        self.classes_ = problem.classes
        return self

    def _widened(self, X):
        return X  # there is no bias

    def _scored(self, X) -> np.ndarray:
        F = self._of_rows(X)
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
    kept, coefficients : the (m,) rows, and those of the projection Pw, (m, K)
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
