"""Classifiers of the solvers that certify their results, and of sampled cuts.

References
----------
Bondugula, Mazuelas, Pérez: Efficient Large-Scale Learning of Minimax Risk Classifiers.
Wang, Scott: An Exact Solver for the Weston-Watkins SVM Subproblem.
Belyy, Sholokhov: MEMOIR: Multi-class Extreme Classification with Inexact Margin.
Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector
machines.
Agarwal, Kakade, Karampatziakis, Song, Valiant: Least Squares Revisited.
Yu, Joachims: Training Structural SVMs with Kernels Using Sampled Cuts.
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from workbench.core.kinds import Array, Given, Record
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import below
from workbench.core.trace import Trace
from workbench.estimators.base import (
    Classifier,
    WeightedClassifier,
    flag,
    fraction,
    not_negative,
    one_of,
    parameter,
    positive,
    whole,
    with_constant,
)
from workbench.kernels.mercer import KERNELS, check_gamma, stored_as
from workbench.least_squares.links import LINKS
from workbench.memoir.mips import best_classes, scores
from workbench.mrc.risk import psi
from workbench.mrc.splitting import WIDEST
from workbench.sampled_cuts.state import CutState

MRC = "interior_point", "splitting", "pdhg", "ccg", "ccg_fast", "lp"
# With more components k (d + 1), the interior point method's working set is too large.
WIDE = 16_000
WW = "walrus_fast", "walrus", "shark"
# By default "linear_time" samples nothing for up to this many rows of <= 25 classes.
UNSAMPLED = 20_000
# The solver of each basis, and the name that `r` has there.
BASES = {
    "linear_time": ("cuts_linear_time_fast", "r"),
    "constant_time": ("cuts_constant_time", "r"),
    "exact": ("cuts_exact_fast", None),
    "nystroem": ("cuts_nystroem", "landmarks"),
}


@dataclass(eq=False, repr=False)
class MinimaxRiskClassifier(WeightedClassifier):
    """0-1 minimax risk classifier with a certificate: ``lower_ <= R* <= upper_``.

    R* is the smallest worst-case error over all distributions whose mean of the
    features, class by class, is within `lambda0` standard deviations of the training
    mean. If the data's distribution is among them, ``upper_`` bounds the error of the
    *randomised* rule that :meth:`predict_proba` returns. The error of its mode, which
    :meth:`predict` returns, is at most twice as large, as the randomised rule is wrong
    with probability 1/2 or more where the mode is wrong; usually the mode has the
    smaller error.

    Use it if you need a proved bound of the error and have many features: a few hundred
    kernel features (scikit-learn's ``Nystroem`` or ``RBFSampler``), or gene
    expressions. With a few raw features, its predictions are worse than those of
    ``LinearSVC``, although the fit has converged: the worst case knows the features by
    their means only. An ``upper_`` near ``1 - 1/k`` means that the features separate
    little; an ``upper_`` far below the error on held-out rows means that `lambda0` is
    too small for so many features. The solver is ours, and not the paper's, unless
    `solver` is "ccg".

    There is one intercept per class. A feature that is zero in every training row of a
    class has no spread there: it is left out for that class, so its coefficient is 0
    and the bounds do not include it (see
    :attr:`workbench.mrc.risk.MinimaxRisk.active`).

    Parameters
    ----------
    lambda0 : float > 0, the width of the uncertainty set in standard deviations
    solver : {"auto", "interior_point", "splitting", "pdhg", "ccg", "ccg_fast", "lp"}
        "auto" takes "pdhg" for sparse rows or very many features, "splitting" for many
        features times classes, else "interior_point"; the last two are for dense rows
        only. "ccg" is the paper's constraint and column generation; "ccg_fast" adds a
        start of ours in large dense programs; "lp" passes the whole linear program to
        HiGHS and is for small data. No solver here has a seed
    tol : float >= 0. The fit stops when ``upper_ - lower_`` is at most this

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes
    phi_ : float, the largest psi of a training row, the threshold of the randomised
        rule
    lower_, upper_ : float, certified bounds of R*

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mrc = MinimaxRiskClassifier().fit(X, y)
    >>> mrc.upper_ - mrc.lower_ <= 1e-3
    True
    """

    lambda0: float = parameter(0.01, positive)
    _: KW_ONLY
    solver: str = parameter("auto", one_of(["auto", *MRC]))
    tol: float = parameter(1e-3, not_negative)
    _measured = "gap"

    def predict_proba(self, X: Given):
        """Return the (n, k) label probabilities of the minimax rule.

        ``upper_`` bounds the error of this rule. The probabilities are proportional to
        ``(v_y - phi_)_+``, and uniform if no score exceeds `phi_`. They define how
        to randomise, not how likely a label is.
        """
        excess = np.maximum(self._scores(X) - self.phi_, 0.0)
        total = excess.sum(axis=1, keepdims=True)
        uniform = np.full_like(excess, 1.0 / len(self.classes_))
        return np.divide(excess, total, out=uniform, where=total > 0)

    def _solver(self, problem: Problem) -> tuple[str, dict]:
        name = self.solver_for(problem)
        parameters = {"lambda0": float(self.lambda0)}
        if "ccg" in name:  # every violation counts, so that the gap closes
            parameters |= {"eps1": 0.0, "eps2": 0.0}
        if name == "mrc_lp" and self.max_seconds is not None:
            parameters["max_seconds"] = self.max_seconds
        return name, parameters

    def solver_for(self, problem: Problem) -> str:
        """Return the name of the solver for these rows."""
        if self.solver != "auto":
            return f"mrc_{self.solver}"
        if problem.is_sparse or problem.d > WIDEST:
            return "mrc_pdhg"
        wide = problem.k * (problem.d + 1) > WIDE
        return "mrc_splitting" if wide else "mrc_interior_point"

    def _goal(self):
        return below("gap", self.tol)

    def _distance(self) -> float:
        return self.gap_

    def _keep(self, problem: Problem, state: Any, trace: Trace) -> None:
        super()._keep(problem, state, trace)
        self.phi_ = float(psi(self._scored(problem.X)).max())


@dataclass(eq=False, repr=False)
class WestonWatkinsClassifier(WeightedClassifier):
    """The linear Weston-Watkins SVM for several classes, with a certified duality gap.

    It minimises ``1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i)``;
    `C` is the weight of each pair of a row and a wrong class, not of their mean. For
    two classes this is the SVM of ``LinearSVC(loss="hinge")`` with 2C, whose intercept
    is regularised, too.

    Use it for up to about a hundred classes that linear scores can separate; it is
    fastest on scaled rows. If there are few features, and some classes lie between
    others and overlap, :class:`GeneralizedLeastSquares` often has a smaller error,
    because here every wrong class counts. For very many classes there is
    :class:`WorkingSetClassifier`. The default solver is ours, not the paper's. `tol` is
    a fraction of the objective; the paper divides the gap by the gap after the first
    round, and this ratio is the trace's ``gap_ratio``.

    Parameters
    ----------
    C : float > 0, the weight of the loss, to be tuned by ``GridSearchCV``;
        :func:`workbench.weston_watkins.tuning.certify_path` proves that no other value
        is much better
    solver : {"walrus_fast", "walrus", "shark"}. All solve the same problem. "walrus" is
        the paper's block coordinate descent, and "walrus_fast" is our variant with
        fewer visits. "shark" uses Shark's solver of the subproblem, which leaves
        violations of 1e-6 and gaps of that size
    fit_intercept : bool, whether a constant feature of 1 is appended. Its coefficients,
        the intercepts, are regularised like all others; the problem itself has no
        offset (the paper's appendix A.1)

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes. Without `fit_intercept`
        the intercepts are zero

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> svm = WestonWatkinsClassifier(random_state=0).fit(X, y)
    >>> svm.coef_.shape, svm.gap_ <= 1e-3 * svm.upper_
    ((3, 4), True)
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    solver: str = parameter("walrus_fast", one_of(WW))
    fit_intercept: bool = parameter(True, flag)

    def _solver(self, problem: Problem) -> tuple[str, Record]:
        return f"ww_{self.solver}", {"C": float(self.C), "seed": self._seed()}


@dataclass(eq=False, repr=False)
class WorkingSetClassifier(WeightedClassifier):
    """A linear SVM of ours for very many classes, with a small model and a certificate.

    It minimises ``P = 1/2 |W|^2 + l1 |W|_1 + C sum_i max_c ([c != y_i] + x_i.(w_c -
    w_{y_i}))`` by dual ascent on a short list of classes for each row.

    Use it for hundreds of classes or more and for sparse rows of length 1, where a few
    rounds already predict as well as the optimum: ``max_iter=3`` suits texts of fifty
    words or more, and ``max_iter=4`` suits texts of a few words; the warning states the
    gap that is left. Tables of a few classes take a hundred rounds. Its error is close
    to that of ``LinearSVC`` if the classes are nearly separable. If they overlap, it is
    larger because of Crammer and Singer's loss, not because of the solver; use
    :class:`GeneralizedLeastSquares` then. Raw counts need thousands of rounds: scale
    the rows.

    Parameters
    ----------
    C : float > 0, the weight of a row's loss, as in
        ``LinearSVC(multi_class="crammer_singer")``; the only parameter that has to be
        tuned
    l1 : float >= 0, the weight of the l1 norm. On rows of length 1, values from 0.02 to
        0.05 make the model two to six times smaller without a loss of accuracy. 0 gives
        Crammer and Singer's SVM
    working_set : int from 2 to 255, the number of classes in a row's list, including
        its own; each takes 6 bytes
    truncate : float from 0 to 1. At the end, weights below this fraction of their root
        mean square are dropped; 0 keeps all, and 0.25 makes models of text smaller. The
        bounds are those before this step: on dense tables, the objective of the
        remaining weights may be several times as large
    fit_intercept : bool, whether a constant feature of 1 is appended; its coefficients
        are regularised like all others
    tol : float > 0. The fit stops when P is proved to be above its minimum by at most
        this fraction of itself. If the lists are too short for the optimum, the gap may
        stay above `tol`: raise `working_set`
    max_iter : int >= 1, the largest number of rounds; each is two passes over the
        lists, then one over all rows and classes

    Attributes
    ----------
    coef_ : (k, d) truncated weights, ``intercept_`` : (k,)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = WorkingSetClassifier(random_state=0).fit(X / 64, y)
    >>> model.coef_.shape, model.gap_ <= 0.01 * model.upper_
    ((10, 64), True)
    >>> model.score(X / 64, y) > 0.95
    True
    """

    C: float = parameter(1.0, positive)
    _: KW_ONLY
    l1: float = parameter(0.02, not_negative)
    working_set: int = parameter(16, whole)
    truncate: float = parameter(0.0, fraction)
    fit_intercept: bool = parameter(True, flag)
    tol: float = parameter(1e-2, positive)
    max_iter: int = parameter(1000, whole)

    @property
    def coef_(self) -> Matrix:  # type: ignore[override]
        """The (k, d) float32 weights, copied at each access; CSR for sparse rows."""
        W = self._weights[: self.n_features_in_].T
        return sp.csr_matrix(W) if sp.issparse(W) else np.ascontiguousarray(W)

    def predict(self, X: Given):
        """Return the (n,) labels of highest score, in little memory."""
        check_is_fitted(self)
        X = self._bounded(self._rows(X, reset=False))
        return self.classes_[best_classes(X, self._weights, np.arange(X.shape[0]))]

    def _scored(self, X: Given) -> Array:
        return scores(self._bounded(X), self._weights)

    def _bounded(self, X: Given):
        """Return the widened rows; raise a ValueError if their scores may overflow."""
        largest = float(abs(X).max())
        score = largest * float(abs(self._weights).max()) * X.shape[1]
        if not score < float(np.finfo(np.float32).max):
            raise ValueError(
                f"X: values up to {largest:.3g} give scores beyond single precision; "
                "scale the rows"
            )
        return with_constant(X) if self._weights.shape[0] > X.shape[1] else X

    def _solver(self, problem: Problem) -> tuple[str, Record]:
        parameters = {"C": float(self.C), "l1": float(self.l1), "seed": self._seed()}
        return "cs_working_set", parameters | {"working_set": self.working_set}

    def _keep(self, problem: Problem, state: Any, trace: Trace) -> None:
        W: Matrix = state.model(float(self.truncate))
        values = W.data if sp.issparse(W) else W
        if trace.stopped_by == "diverged" or not np.isfinite(values).all():
            raise ValueError(
                "X: the weights exceed single precision; scale the rows, for example "
                "to length 1"
            )
        if problem.is_sparse:
            W = sp.csr_matrix(W)
            W.sort_indices()
        elif sp.issparse(W):
            W = W.toarray()
        # `fit_intercept` may change before the next fit; an extra row of weights stays.
        self._weights = W
        self.intercept_ = np.asarray(W[self.n_features_in_ :].sum(axis=0)).ravel()
        self._keep_bounds(trace.last)


@dataclass(eq=False, repr=False)
class GeneralizedLeastSquares(WeightedClassifier):
    """A generalized linear model, fitted by least squares steps to a certified gap.

    It minimises P = mean_i loss(W'x_i, y_i) + alpha/2 |W|^2. Every round costs one pass
    over the rows and two triangular solves with the Cholesky factor of their second
    moment, so that the scaling of the features hardly matters. The solver is
    ``ls_accelerated``, which the paper mentions in Section 4; the restart of its
    momentum is ours.

    Use it for dense tables of up to 20,000 features, where its predictions are like
    those of scikit-learn's classifiers with the same loss. The solver ``ls_stagewise``
    takes more features. Large sparse text does not suit the class, because the second
    moment is dense. Rows in single precision are converted to double.

    Parameters
    ----------
    link : {"softmax", "identity", "squared_hinge"}: multinomial logistic regression;
        ridge regression, 1/2 |u - y|^2; or the L2-loss SVM of every class against the
        others
    alpha : float > 0 or None, the weight of the norm relative to the mean loss of a
        row. In scikit-learn it corresponds to ``C = 1 / (n alpha)`` in
        ``LogisticRegression`` and to ``n alpha`` in ``Ridge``. None means 1 / n, their
        default, where n is the number of rows or the sum of their weights
    fit_intercept : bool, whether a constant feature of 1 is appended; its coefficients
        are regularised like all others

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GeneralizedLeastSquares().fit(X, y)
    >>> model.gap_ <= 1e-3 * model.upper_
    True
    >>> model.predict_proba(X[:2]).argmax(axis=1).tolist()
    [0, 0]
    """

    # In single precision the bounds allow for more rounding than the default tol.
    _precisions = (np.float64,)

    link: str = parameter("softmax", one_of(LINKS))
    _: KW_ONLY
    alpha: float | None = parameter(None, positive)
    fit_intercept: bool = parameter(True, flag)

    def _has_probabilities(self) -> bool:
        if self.link == "softmax":
            return True
        raise AttributeError(
            f"predict_proba: link={self.link!r} has no probabilities; use "
            "link='softmax'"
        )

    @available_if(_has_probabilities)
    def predict_proba(self, X: Given):
        """Return (n, k) probabilities, for the link "softmax"."""
        return softmax(self._scores(X).astype(np.float64, copy=False), axis=1)

    def _solver(self, problem: Problem) -> tuple[str, Record]:
        alpha = 1 / problem.weights.sum() if self.alpha is None else self.alpha
        return "ls_accelerated", {"alpha": float(alpha), "link": self.link}


@dataclass(eq=False, repr=False)
class SampledCutClassifier(Classifier):
    """The kernel SVM by cutting planes, which may be made of random samples of rows.

    It minimises ``1/2 |w|^2 + C sum_i hinge_i``. For two classes the hinge is LIBSVM's,
    ``max(0, 1 - y_i f(x_i))``; for more it is Crammer and Singer's, ``max(0, max_{j !=
    y_i} 1 - f_{y_i}(x_i) + f_j(x_i))``. There is no bias, and no `sample_weight`: cuts
    sample all rows alike, so a weight could not stand for repeated rows.

    Use it for some 1,000 to 100,000 dense rows that no linear score separates. With
    fewer rows, scikit-learn's ``SVC`` is exact. All solvers except the one of
    "constant_time" are ours (``cuts_linear_time_fast``, ``cuts_exact_fast``,
    ``cuts_nystroem``): they take a line search from the best iterate, which the paper's
    algorithms do not.

    Parameters
    ----------
    C : float > 0, the weight of a row's hinge, as in LIBSVM; the paper's C is n times
        as large
    kernel : {"rbf", "linear"}
    gamma : "scale" or float > 0, the parameter of the kernel "rbf"; "scale" means 1 /
        (d times the variance of all entries of X), as in SVC
    basis : {"linear_time", "constant_time", "exact", "nystroem"}, the choice of the
        rows of a cut. In this order, they are `r` random rows among those that violate
        their margin (Algorithm 3); those that violate among `r` random rows (Algorithm
        2); all that violate (Algorithm 1); or (ours) all that violate, with w in the
        span of a few rows, the landmarks. Only "exact" has a lower bound of the
        objective; with landmarks, the optimum of the span may be far above that of all
        rows
    r : int >= 1 or None, the number of random rows or, for "nystroem", of landmarks.
        None means 1,000 for "constant_time" and 200 for "nystroem". For
        "linear_time" it means all rows that violate, up to 20,000 rows of up to 25
        classes or 500,000 / k rows of more classes; with more rows, it means 400 times
        the root of half the number of classes, which may be too few to reach `tol`
    tol : float > 0, in units of the mean hinge. The fit stops when the last cut is
        violated by no more than this. "constant_time" requires it of ten consecutive
        samples, which proves nothing about all rows; "linear_time" also ends, with a
        warning, when the violation no longer decreases

    Attributes
    ----------
    support_ : (m,) the indices of the training rows that predictions need, which are
        more than in an exact solution. ``support_vectors_`` : (m, d), the rows
        themselves
    dual_coef_ : (k, m), f_j = sum_i dual_coef_[j, i] k(support_vectors_[i], .). For two
        classes it is (1, m), for the one f of the decision function, as in SVC
    gamma_ : float, the value of `gamma` that was used
    upper_ : float, the objective at the fitted w. It has single precision for
        "linear_time", and is nan for "constant_time", which only estimates it
    lower_ : float, a lower bound of the objective; nan if the basis is not "exact"
    gap_ : float, for "exact" at most C n tol unless a limit ended the fit, else nan

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
    basis: str = parameter("linear_time", one_of(BASES))
    r: int | None = parameter(None, whole)
    tol: float = parameter(5e-3, positive)
    _measured = "violation"

    def _goal(self) -> None:
        return None

    def _solver(self, problem: Problem) -> tuple[str, Record]:
        parameters = {"kernel": self.kernel, "C": float(self.C), "eps": float(self.tol)}
        parameters |= {"gamma": check_gamma(self.gamma), "seed": self._seed()}
        solver, size = BASES[self.basis]
        r = self.r
        if r is None and self.basis == "linear_time":
            is_small = problem.n * max(25, problem.k) <= 25 * UNSAMPLED
            r = problem.n if is_small else None
        if r is not None and size:
            parameters[size] = r
        return solver, parameters

    def _keep(self, problem: Problem, state: CutState, trace: Trace) -> None:
        rows, A = state.expansion()
        used = A.any(axis=1)
        self.support_ = rows[used]
        self.support_vectors_ = problem.X[self.support_]
        self.dual_coef_ = np.ascontiguousarray(A[used].T)
        self._kernel = state.made_kernel(np.float64)
        self.gamma_ = float(state.gamma)
        self.upper_ = state.primal
        if self.basis == "constant_time":
            self.upper_ = math.nan
        elif state.certified:
            self.upper_ = max(state.primal, state.upper)
        # With landmarks the lower bound is of their span, and not of the problem.
        self.lower_ = state.lower if self.basis == "exact" else math.nan

    def _distance(self) -> float:
        violations = self.trace_.column("violation")
        if self.basis == "constant_time":  # one lucky sample is not enough
            return float(violations[-self.trace_.header["parameters"]["p"] :].max())
        return float(violations[-1])

    def _scored(self, X: Given) -> Array:
        X = stored_as(self.support_vectors_, X)
        basis = self._kernel.points(self.support_vectors_)
        F = self._kernel.times(self._kernel.points(X), basis, self.dual_coef_.T)
        if F.shape[1] == 1:
            F = np.hstack([-F / 2, F / 2])
        return F
