"""MEMOIR for scikit-learn: a linear classifier for very many classes, on any search."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from workbench.core.problem import Matrix, Problem, check_matrix, encode
from workbench.core.stream import Rule
from workbench.core.trace import Trace
from workbench.estimators import parameters as check
from workbench.estimators.common import Classifier, warn
from workbench.estimators.parameters import not_negative, one_of, parameter, whole
from workbench.memoir.compress import STEPS, Quantized
from workbench.memoir.mips import MIPS, scores
from workbench.memoir.mips.exact import best_others, index
from workbench.memoir.state import MemoirState, default_batch
from workbench.registry import SOLVERS
from workbench.runs.run import warm

WEIGHT_OF = {"l2": "lam", "l1": "gamma"}
PRESETS = {"l2": ("averaged", "paper"), "l1": ("paper",)}
MIN_BATCHES = 25  # the smallest number in Table 4
PASSES = 5  # over the rows, with the preset "averaged", ours
WARMUP_ROWS = 100
SAVED = "n_iter_ trace_ _weights:dk~ _from_sparse intercept_:k nbytes_"


class SparseLinear(Classifier):
    """A classifier for very many classes, whose weights are feature-major and may be sparse."""

    @property
    def coef_(self) -> Matrix:
        """The (k, d) weights, made again at each access: CSR if all rows were sparse."""
        W = self._weights.weights() if isinstance(self._weights, Quantized) else self._weights
        if self._from_sparse:
            return sp.csr_matrix(W.T)
        return np.ascontiguousarray((W.toarray() if sp.issparse(W) else W).T)

    def predict(self, X):
        """Return the (n,) labels of highest score, without holding the scores of all rows."""
        check_is_fitted(self)
        X = self._bounded(self._rows(X, reset=False))
        if isinstance(self._weights, Quantized):
            return self.classes_[self._weights.best(X)]
        n = X.shape[0]
        searched, rows, no_label = index(self._weights), np.arange(n), np.full(n, -1, np.int32)
        return self.classes_[best_others(X, searched, rows, no_label)[0]]

    def _scored(self, X) -> np.ndarray:
        W, X = self._weights, self._bounded(X)
        return W.scores(X) if isinstance(W, Quantized) else scores(X, W)

    def _as_of(self, problem: Problem, state, row) -> dict[str, Any]:
        def predict(X):  # by the state's scores, as the weights are made when the fit has ended
            return problem.classes[state.scores(self._rows(X, reset=False)).argmax(axis=1)]

        return super()._as_of(problem, state, row) | {"predict": predict}

    def _bounded(self, X):
        """Return the rows; a ValueError if scores of single precision may overflow for them."""
        W = self._weights
        weight = STEPS * W.scales.max(initial=0) if isinstance(W, Quantized) else abs(W).max()
        most = float(abs(X).max())
        if not most * float(weight) * X.shape[1] < float(np.finfo(np.float32).max):
            raise ValueError(
                f"X: values of up to {most:.3g} make scores beyond single precision; scale the rows"
            )
        return X

    def _run(self, problem: Problem, solver: str, parameters: dict, *rules: Rule, **options):
        if options.get("after") is None:
            warm_few(solver, problem, parameters)
        return super()._run(problem, solver, parameters, *rules, warm_up=False, **options)

    def _keep_weights(self, W: Matrix, from_sparse: bool, trace: Trace) -> None:
        """Keep the (d, k) weights: a CSR matrix after sparse rows, an array after dense ones."""
        finite = np.isfinite(W.data if sp.issparse(W) else W).all()
        if trace.stopped_by == "diverged" or not finite:
            raise ValueError(
                "X: the weights exceed single precision; scale the rows, for example to length 1"
            )
        if from_sparse:
            W = sp.csr_array(W)
            self.nbytes_ = W.data.nbytes + W.indices.nbytes + W.indptr.nbytes
        else:
            W = W.toarray() if sp.issparse(W) else W
            self.nbytes_ = W.nbytes
        self._weights, self._from_sparse = W, from_sparse
        self.intercept_ = np.zeros(W.shape[1])


@dataclass(eq=False, repr=False)
class MemoirClassifier(SparseLinear, saved=SAVED):
    """A linear SVM for very many classes, by steps against the class that scores highest.

    It lowers the mean over rows of max(0, 1 + max_{r != y} x.(w_r - w_y)), Crammer and Singer's
    loss, plus lam/2 |W|^2 or gamma/2 |W|_1. The class r is found by `mips`, exactly or nearly. By
    default one row makes a step, nothing is regularised, and the mean of all iterates predicts,
    which does better than the paper's algorithms, the preset "paper", and than its authors' code.
    There is no certificate; :class:`WorkingSetClassifier` has one. Rows
    should have a length of about 1, and there are no intercepts: append a constant feature. There
    is no `sample_weight`: steps depend on the order of rows, and a weight could not stand for
    repeated ones.

    Parameters
    ----------
    penalty : {"l2", "l1"}
    mips : {"exact", "sw_graph", "hnsw", "simple_lsh", "random"}, see :mod:`workbench.memoir.mips`.
        Exact search is the fastest up to tens of thousands of classes; the graphs are nmslib's
    preset : {"averaged", "paper"}; "averaged" with penalty "l2" and exact search only
    batch_size : int >= 1 or None, rows per step of "paper"; None is 100 sqrt(k)
    n_batches : int >= 1 or None, steps of `fit`. Where a batch is less than a fiftieth of the rows
        they are rounded up to whole passes over these. None is 25, or for "averaged" five passes
    lam : float >= 0 or None, of the penalty "l2"; ``lam * eta0 / (1 + eta_step)`` is below 1
    gamma : float >= 0 or None, of the penalty "l1"
    eta0, eta_step : float > 0 and float >= 0, or None; the size of step t is eta0 over
        1 + eta_step t, or for "averaged" over the square root of that
    dense : bool or None, hold W as an array of 4 d k bytes, twice that with an average, or as a
        list of its non-zeros; None is True up to 256 MB
    random_state : int, RandomState or None, of the rows drawn. An integer is the solver's seed
        itself, and makes fits repeatable, but not those with nmslib's graphs

    Attributes
    ----------
    coef_ : (k, d) weights, float32; a CSR matrix if the rows were sparse, else an array; made again
        at each access. Rows have length 1 if the scores are cosines
    intercept_ : (k,) zeros
    nbytes_ : int, bytes of the weights that predict. For `partial_fit` the solver's state is kept
        as well, which takes one and a half times as much again
    n_iter_ : int, steps since `fit` or the first `partial_fit`
    trace_ : :class:`workbench.core.trace.Trace` of the last call, whose rows have ``primal``, on at
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

    penalty: str = parameter("l2", one_of(WEIGHT_OF))
    mips: str = parameter("exact", one_of(MIPS))
    preset: str = parameter("averaged")
    _: KW_ONLY
    batch_size: int | None = parameter(None, whole)
    n_batches: int | None = parameter(None, whole)
    lam: float | None = parameter(None, not_negative)
    gamma: float | None = parameter(None, not_negative)
    eta0: float | None = parameter(None, check.positive)
    eta_step: float | None = parameter(None, not_negative)
    dense: bool | None = parameter(None, check.flag)
    random_state: Any = parameter(None, check.seed)

    def partial_fit(self, X, y, classes=None):
        """Go on with rows `X` (n, d) and labels `y` (n,): as many batches as make one pass.

        The weights, their average and the step size stay where earlier calls have left them.
        Ctrl-C ends the call early, with a ConvergenceWarning, and keeps the progress.

        Parameters
        ----------
        classes : all labels there will be, needed by the first call only; a class without rows
            has weights of zero until it scores highest, next to its own class, for some row

        Raises
        ------
        ValueError
            As `fit`, for labels that are not among the classes, or a first call without them.
        """
        self._check_parameters()
        state = None
        if hasattr(self, "classes_"):
            if not hasattr(self, "_state"):
                raise ValueError(
                    "partial_fit: a loaded model only predicts; call fit to learn from the start"
                )
            state = self._state
        X, y, known = self._part(X, y, classes)
        problem = Problem(check_matrix(X, "X"), encode(y, known, "y"), known, type(self).__name__)
        return self._descend(problem, self._parameters(), None, state)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        presets = PRESETS[self.penalty]
        if self.preset not in presets:
            raise ValueError(
                f"preset: with penalty={self.penalty!r} it must be one of {', '.join(presets)}, "
                f"got {self.preset!r}"
            )
        own = WEIGHT_OF[self.penalty]
        for name in set(WEIGHT_OF.values()) - {own}:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name}: must be None with penalty={self.penalty!r}, which has {own}; "
                    f"got {getattr(self, name)!r}"
                )
        if self.preset == "averaged":
            for name in ("batch_size", "lam"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: must be None with preset='averaged', got {getattr(self, name)!r}"
                    )
            if self.mips != "exact":
                raise ValueError(f"mips: must be exact with preset='averaged', got {self.mips!r}")

    def _parameters(self) -> dict[str, Any]:
        """Return the solver's parameters."""
        own = WEIGHT_OF[self.penalty], "eta0", "eta_step", "batch_size"
        given = {name: getattr(self, name) for name in own if getattr(self, name) is not None}
        if self.preset == "paper":
            given["mips"] = self.mips
        return given | {"dense": self.dense, "seed": self._seed()}

    def _learn(self, X, y):
        self._check_parameters()
        problem, parameters = self._problem(*self._validated(X, y)), self._parameters()
        batches = self.n_batches
        if batches is None and self.preset != "averaged":
            batches = MIN_BATCHES
        return self._descend(problem, parameters, batches, None, PASSES)

    def _descend(self, problem: Problem, parameters, batches: int | None, state, passes: int = 1):
        """Take `batches` steps, or `passes` over the rows, from the state, or from zero."""
        if batches is None:
            size = 1 if self.preset == "averaged" else default_batch(problem, self.batch_size)
            batches = passes * -(-problem.n // size)
        done, from_sparse = 0, problem.is_sparse
        if state is None:
            self._check_memory(problem, parameters)
        else:
            done, from_sparse = state.step, from_sparse and self._from_sparse
        after = None if state is None else (Trace(), state)
        solver = "memoir_averaged" if self.preset == "averaged" else f"memoir_{self.penalty}"
        rule = _batches(done + batches)
        trace, state = self._run(problem, solver, parameters, rule, after=after)
        self._keep_weights(state.model(), from_sparse, trace)
        self.classes_, self.trace_, self.n_iter_ = problem.classes, trace, state.step
        self._state: MemoirState = state
        if trace.stopped_by == "interrupted":
            warn(f"{solver} stopped (interrupted) after {state.step - done} of {batches} batches")
        return self

    def _is_empty(self, state: MemoirState, trace: Trace) -> bool:
        return trace.stopped_by == "interrupted" and state.step == 0

    def _check_memory(self, problem: Problem, parameters: dict) -> None:
        """Refuse dense weights that do not fit into the free memory."""
        size = 4 * problem.d * problem.k * (1 + (self.preset == "averaged"))
        free = psutil.virtual_memory().available
        if self.dense and size > free:
            raise ValueError(
                f"dense: True takes {size / 2**30:,.1f} GB for {problem.d} features and "
                f"{problem.k} classes, and {free / 2**30:,.1f} GB are free; take None or False"
            )


def warm_few(solver: str, problem: Problem, parameters: dict) -> None:
    """Compile a solver's kernels on a few rows.

    Two rows of each of 100,000 classes, scored for all of these, would take longer than the fit.
    """
    tiny = problem.tiny()
    if tiny.n > WARMUP_ROWS:
        tiny = replace(tiny, X=tiny.X[:WARMUP_ROWS], y=tiny.y[:WARMUP_ROWS])
    warm(SOLVERS[solver].steps, tiny, parameters)


def _batches(limit: int) -> Rule:
    """Stop after `limit` steps since the first."""

    def rule(row) -> str | None:
        return rule.__name__ if row["steps"] >= limit else None

    rule.__name__ = f"{limit} batches"
    return rule
