"""Working sets for scikit-learn: a certified, sparse SVM for very many classes."""

from __future__ import annotations

import math
import warnings
from numbers import Real

from sklearn.exceptions import ConvergenceWarning

from workbench.core.checks import is_whole
from workbench.core.problem import Problem
from workbench.core.stream import Rule, rounds
from workbench.estimators.memoir import SparseLinear, warm_few
from workbench.kernels.rows import rows_of
from workbench.memoir.compress import quantized
from workbench.memoir.working_set import LOSSES, certificate, costs_of
from workbench.runs.run import run

SHARED = "working_set", "inner", "loss"  # with cs_working_set


class WorkingSetClassifier(SparseLinear):
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
        1 + x_i.(w_c - w_{y_i}) over c != y_i in place of the maximum
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
    classes_ : (k,) labels
    coef_ : (k, d) what predicts, truncated, float32; a CSR matrix where the rows were sparse, else
        an array; it is made anew at each access
    intercept_ : (k,) zeros
    nbytes_ : int, bytes of the weights that predict
    upper_ : float, P at the weights before they were truncated
    lower_ : float, no weights have a smaller P
    gap_ : float, ``upper_ - lower_``
    n_iter_ : int, rounds
    trace_ : :class:`workbench.core.trace.Trace` of the fit, whose last row says ``stopped_by``
    n_features_in_ : int, ``feature_names_in_`` : (d,) where X has names

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

    def __init__(
        self,
        C=1.0,
        *,
        l1=0.02,
        working_set=16,
        truncate=0.25,
        quantize=False,
        balance=0.0,
        loss="crammer_singer",
        inner=2,
        tol=None,
        max_rounds=3,
        random_state=None,
    ):
        self.C = C
        self.l1 = l1
        self.working_set = working_set
        self.truncate = truncate
        self.quantize = quantize
        self.balance = balance
        self.loss = loss
        self.inner = inner
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,).

        A row with a `sample_weight`, (n,) of numbers >= 0, counts as that many equal rows; one of 0
        is left out, and so is a class of which nothing else is there.

        Ctrl-C ends the fit early and keeps the weights as they are, with their bounds.

        Raises
        ------
        ValueError
            For a parameter outside its range, NaN or infinite features, a single class, or weights
            that overflow.

        Warns
        -----
        ConvergenceWarning
            When it was interrupted, or ``gap_`` is above `tol`'s share of ``upper_``.
        """
        self._check_parameters()
        rules = [rounds(self.max_rounds)]
        if self.tol is not None:
            rules.insert(0, _certified(self.tol))
        parameters = {name: getattr(self, name) for name in SHARED} | {
            "C": float(self.C),
            "l1": float(self.l1),
            "balance": float(self.balance),
            "seed": self._seed(),
        }
        problem = self._problem(*self._weighed(*self._validated(X, y), sample_weight))
        warm_few("cs_working_set", problem, parameters)
        given = {"parameters": parameters, "warm_up": False}
        trace, state = run("cs_working_set", problem, *rules, **given)
        if state is None or (not state.alpha.any() and trace.stopped_by == "interrupted"):
            raise KeyboardInterrupt
        self._keep(state.model(float(self.truncate)), problem.classes, problem.is_sparse, trace)
        if self.quantize:
            self._weights = quantized(self._weights)
            self.nbytes_ = self._weights.nbytes
        self.n_iter_ = trace.last["round"]
        self.lower_, self.upper_ = trace.last["lower"], trace.last["primal"]
        if trace.stopped_by == "interrupted":  # maybe on the way to the next iterate
            dual, self.upper_ = self._certificate(problem, state)
            self.lower_ = max(self.lower_, dual)
        self.gap_ = self.upper_ - self.lower_
        self._warn()
        return self

    def _certificate(self, problem: Problem, state) -> tuple[float, float]:
        """Return the bounds of a state as it is."""
        weights = problem.weights
        costs = costs_of(problem.y, float(self.C), float(self.balance), weights)
        pairwise = self.loss == "weston_watkins"
        return certificate(problem, state, rows_of(problem.X), costs, pairwise)

    def _warn(self) -> None:
        """Warn of a fit that ended too early."""
        stopped = self.trace_.stopped_by
        wanted = math.inf if self.tol is None else self.tol * self.upper_
        if self.gap_ <= wanted and stopped != "interrupted":
            return
        advice = (
            ""
            if self.tol is None
            else (f", above {self.tol:.2g} of it: raise max_rounds, working_set or tol")
        )
        warnings.warn(
            f"cs_working_set stopped ({stopped}) after {self.n_iter_} rounds with a gap of "
            f"{self.gap_ / self.upper_:.2g} of the objective{advice}",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_positive("C")
        self._check_not_negative("l1", "balance")
        self._check_count("working_set", "max_rounds")
        self._check_name("loss", LOSSES)
        if self.tol is not None:
            self._check_positive("tol")
        if not isinstance(self.truncate, Real) or not 0 <= self.truncate <= 1:
            raise ValueError(f"truncate: must be a number from 0 to 1, got {self.truncate!r}")
        if not is_whole(self.inner, least=0):
            raise ValueError(f"inner: must be an integer of at least 0, got {self.inner!r}")


def _certified(tol: float) -> Rule:
    """Stop when P of this iterate, not of the best one, is within a share `tol` of its minimum."""

    def rule(row) -> str | None:
        return rule.__name__ if row["primal"] - row["lower"] <= tol * row["primal"] else None

    rule.__name__ = f"gap <= {tol:g} of primal"
    return rule
