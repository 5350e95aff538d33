"""Weston-Watkins SVMs for scikit-learn: any of the solvers, run to a certified gap."""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from workbench.core.problem import Problem
from workbench.core.stream import State, below, rounds, seconds
from workbench.estimators.common import Classifier
from workbench.kernels.functions import as_given, check_gamma, check_kernel, kernel_at
from workbench.runs.run import run, warm
from workbench.weston_watkins.dual import hinges, share_of
from workbench.weston_watkins.kernel import coefficients, ww_kernel

SOLVER_OF = {"walrus_fast": "ww_walrus_fast", "walrus": "ww_walrus", "shark": "ww_shark"}


class Bounded(Classifier):
    """What both classifiers do alike: fit one C, and say how good the fit is."""

    def _half_norm(self, scores: np.ndarray) -> float:
        """Return 1/2 |W|^2, given the scores of the training rows."""
        return 0.5 * float((self.coef_**2).sum() + (self.intercept_**2).sum())

    def _solve(self, solver, problem: Problem, parameters: dict, *limits) -> None:
        """Run a solver and keep where it ended, with its bounds; warn if that is too early."""
        rules = below("gap_ratio", self.gap_ratio), *limits
        own_kernel = callable(parameters.get("kernel"))  # may want rows as long as they are
        if own_kernel:
            warm(solver, problem, parameters | {"kernel": "rbf"})
        trace, state = run(solver, problem, *rules, parameters=parameters, warm_up=not own_kernel)
        if state is None:
            raise KeyboardInterrupt
        self._take(state, problem)
        self.trace_, self.n_iter_ = trace, trace.last["round"]
        primal = trace.last["primal"]
        # The best upper bound has room for rounding, and these coefficients are no better.
        self.lower_, self.upper_ = trace.last["lower"], max(primal, trace.last["upper"])
        if trace.stopped_by == "interrupted":  # maybe on the way to the next iterate
            scores = np.ascontiguousarray(state.scores(problem.X))
            weights = problem.weights
            loss, _ = hinges(scores, problem.y, problem.k, np.zeros(problem.n), weights)
            primal = self._half_norm(scores) + parameters["C"] * loss
            self.upper_ = max(primal, self.lower_)
        first = trace.rows[1]["primal"] - trace.rows[1]["dual"] if self.n_iter_ else math.nan
        self.gap_ratio_ = share_of(first, primal, trace.column("dual").max())
        if not self.gap_ratio_ <= self.gap_ratio:
            warnings.warn(
                f"{trace.header['solver']} stopped ({trace.stopped_by}) after {self.n_iter_} "
                f"rounds with a gap ratio of {self.gap_ratio_:.2g}, above {self.gap_ratio:.2g}: "
                "scale the features, raise the limit, or raise gap_ratio",
                ConvergenceWarning,
                stacklevel=3,
            )


class WestonWatkinsClassifier(Bounded):
    """The Weston-Watkins SVM, a multiclass one, solved to a certified duality gap.

    It minimises ``1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i)``; `C` is
    the weight of each pair of a row and a wrong class, divided by nothing. For two classes this
    is the SVM of ``LinearSVC(loss="hinge", fit_intercept=False)`` with 2C. Scale the features
    first: on raw ones of the size of 1000 every solver here takes very long.

    Parameters
    ----------
    C : float > 0
    solver : {"walrus_fast", "walrus", "shark"}
        All solve the same problem. "walrus" is the paper's block coordinate descent, "walrus_fast"
        ours with fewer visits, "shark" has Shark's solver of the subproblem; that one leaves
        violations of 1e-6, and gaps of their size. A kernel has its own solver
    gap_ratio : float > 0, stop when the duality gap is at most this share of the gap after the
        first round, as the paper does, or nothing but rounding
    kernel : None, "rbf", "poly", "linear", or a function
        None is the linear SVM. A function k(X, Z) is symmetric, positive semidefinite and returns
        a (len(X), len(Z)) array
    gamma : "scale" or float > 0, of "rbf" and "poly"; "scale" is 1 / (d times the variance of all
        entries of X)
    degree, coef0 : int >= 1 and float >= 0, of "poly", (gamma x'z + coef0)^degree
    fit_intercept : bool, append a constant feature of 1; without a kernel only. Its coefficients,
        the intercepts, are regularised as all others are; the problem itself has no offset (the
        paper's appendix A.1), and neither has the fit by default
    max_iter : int >= 1, rounds of the solver
    max_seconds : float > 0 or None, wall seconds of the solver; checked between rounds
    random_state : int, RandomState or None, of the order in which rows are visited. An integer is
        the solver's seed itself, and makes fits repeatable

    Attributes
    ----------
    classes_ : (k,) labels
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes; without a kernel only. The
        intercepts are zeros without `fit_intercept`
    support_ : (m,) the training rows that predictions need, ``support_vectors_`` : (m, d), these
        rows, ``dual_coef_`` : (k, m), and ``gamma_`` as it was used; with a kernel only
    upper_ : float, the objective at the fitted coefficients
    lower_ : float, no coefficients have a smaller one
    gap_ratio_ : float, the gap over that after the first round, neither of them with the bounds'
        room for rounding; 0 where it is nothing but rounding, nan where there was no round
    n_iter_ : int, rounds of the solver
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose last row says ``stopped_by``
    n_features_in_ : int, ``feature_names_in_`` : (d,) where X has names

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

    def __init__(
        self,
        C=1.0,
        *,
        solver="walrus_fast",
        gap_ratio=1e-3,
        kernel=None,
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=False,
        max_iter=1000,
        max_seconds=None,
        random_state=None,
    ):
        self.C = C
        self.solver = solver
        self.gap_ratio = gap_ratio
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,).

        A row with a `sample_weight`, (n,) of numbers >= 0, counts as that many equal rows; one of 0
        is left out, and so is a class of which nothing else is there.

        Ctrl-C ends the fit early and keeps the last iterate with its bounds.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, or a single class.

        Warns
        -----
        ConvergenceWarning
            When ``gap_ratio_`` is above `gap_ratio`.
        """
        self._check_parameters()
        limits = [rounds(self.max_iter)]
        if self.max_seconds is not None:
            limits.append(seconds(self.max_seconds))
        solver, parameters = SOLVER_OF[self.solver], {"C": float(self.C), "seed": self._seed()}
        if self.kernel is not None:
            solver, parameters = ww_kernel, parameters | self._kernel()
        problem = self._problem(*self._weighed(*self._validated(X, y), sample_weight))
        for name in ("coef_", "intercept_", "support_", "support_vectors_", "dual_coef_", "gamma_"):
            vars(self).pop(name, None)  # of an earlier fit with another kernel
        self._solve(solver, problem, parameters, *limits)
        return self

    def __getattr__(self, name):
        """Say why there are no coefficients; called for attributes that are not there."""
        if name in ("coef_", "intercept_") and "dual_coef_" in vars(self):
            raise AttributeError(f"{name}: with a kernel there is none, see dual_coef_")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_name("solver", SOLVER_OF)
        self._check_positive("C", "gap_ratio")
        self._check_count("max_iter")
        if self.max_seconds is not None:
            self._check_positive("max_seconds")
        if self.kernel is not None:
            check_gamma(self.gamma)
            check_kernel(self.kernel, None, self.degree, self.coef0)
            if self.fit_intercept:
                raise ValueError(
                    "fit_intercept: must be False with a kernel; add a constant to it instead"
                )

    def _kernel(self) -> dict:
        """Return the kernel's parameters as the solver takes them."""
        return {
            "kernel": self.kernel,
            "gamma": check_gamma(self.gamma),
            "degree": self.degree,
            "coef0": float(self.coef0),
        }

    def _take(self, state: State, problem: Problem) -> None:
        if self.kernel is None:
            super()._take(state, problem)
            return
        A = coefficients(state.B, problem.y)
        self.classes_, self.gamma_ = problem.classes, state.gamma
        self.support_ = np.flatnonzero(A.any(axis=0))
        self.support_vectors_ = problem.X[self.support_]
        self.dual_coef_ = np.ascontiguousarray(A[:, self.support_])

    def _half_norm(self, scores: np.ndarray) -> float:
        if self.kernel is None:
            return super()._half_norm(scores)
        return 0.5 * float(np.vdot(self.dual_coef_.T, scores[self.support_]))

    def _scored(self, X) -> np.ndarray:
        if "dual_coef_" not in vars(self):
            return super()._scored(X)
        if not len(self.support_):
            return np.zeros((X.shape[0], len(self.classes_)))
        held, given = self.support_vectors_, (self.gamma_, self.degree, self.coef0)
        kernel = kernel_at(held, self.kernel, *given, np.float64)
        rows = kernel.points(as_given(X, getattr(held, "indices", None)))
        return kernel.times(rows, kernel.points(held), self.dual_coef_.T)
