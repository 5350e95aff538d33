"""MEMOIR for scikit-learn: a linear classifier for very many classes, on any search."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import wraps

import numpy as np
import psutil
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from workbench.core.checks import is_flag, shown
from workbench.core.problem import Matrix, Problem, check_matrix, encode
from workbench.core.stream import Rule
from workbench.core.trace import Trace
from workbench.estimators.common import Classifier
from workbench.memoir.compress import STEPS, Quantized
from workbench.memoir.mips import MIPS, scores
from workbench.memoir.mips.exact import best_others, index
from workbench.memoir.solvers import PRESETS, default_batch
from workbench.memoir.state import MemoirState
from workbench.registry import SOLVERS
from workbench.runs.run import resolve, run, warm

WEIGHT_OF = {"l2": "lam", "l1": "gamma"}
BATCHES = 25  # the least of Table 4
PASSES = 5  # of the preset that is ours
FEW = 100  # rows that kernels are compiled on


class SparseLinear(Classifier):
    """What the classifiers for very many classes do alike: their weights are feature-major."""

    @property
    def coef_(self) -> Matrix:
        """The (k, d) weights, made anew at each access: CSR where all rows were sparse."""
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

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")  # a refused first call has left n_features_in_ alone

    def _scored(self, X) -> np.ndarray:
        W, X = self._weights, self._bounded(X)
        return W.scores(X) if isinstance(W, Quantized) else scores(X, W)

    def _bounded(self, X):
        """Return the rows; a ValueError if scores of single precision may overflow for them."""
        W = self._weights
        weight = STEPS * W.scales.max(initial=0) if isinstance(W, Quantized) else abs(W).max()
        most = float(abs(X).max())
        if not most * float(weight) * X.shape[1] < np.finfo(np.float32).max:
            raise ValueError(
                f"X: values of up to {most:.3g} make scores beyond single precision; scale the rows"
            )
        return X

    def _widened(self, X):
        return X

    def _keep(self, W: Matrix, classes: np.ndarray, from_sparse: bool, trace: Trace) -> None:
        """Keep the (d, k) weights: a CSR matrix after sparse rows, an array after dense ones."""
        finite = np.isfinite(W.data if sp.issparse(W) else W).all()
        if trace.stopped_by == "diverged" or not finite:
            raise ValueError(
                "X: the weights are beyond single precision; scale the rows, to length 1 for one"
            )
        if from_sparse:
            W = sp.csr_array(W)
            self.nbytes_ = W.data.nbytes + W.indices.nbytes + W.indptr.nbytes
        else:
            W = W.toarray() if sp.issparse(W) else W
            self.nbytes_ = W.nbytes
        self._weights, self._from_sparse = W, from_sparse
        self.classes_, self.intercept_ = classes, np.zeros(len(classes))
        self.trace_ = trace


class MemoirClassifier(SparseLinear):
    """A linear SVM for very many classes, by steps against the class that scores highest.

    It lowers the mean over rows of max(0, 1 + max_{r != y} x.(w_r - w_y)), Crammer and Singer's
    loss, plus lam/2 |W|^2 or gamma/2 |W|_1. The class r is found by `mips`, exactly or nearly. By
    default one row makes a step, nothing is regularised, and the mean of all iterates predicts,
    which does better than both the paper's algorithm and its authors' code: they are the presets
    "paper" and "reference". There is no certificate; :class:`WorkingSetClassifier` has one. Rows
    should have a length of about 1, and there are no intercepts: append a constant feature. There
    is no `sample_weight`: steps depend on the order of rows, and a weight could not stand for
    repeated ones.

    Parameters
    ----------
    penalty : {"l2", "l1"}
    mips : {"exact", "sw_graph", "hnsw", "simple_lsh", "random"}, see :mod:`workbench.memoir.mips`.
        Exact search is the fastest up to tens of thousands of classes; the graphs are nmslib's
    preset : {"averaged", "reference", "paper"}, what the parameters below are where they are None,
        see :data:`workbench.memoir.solvers.PRESETS`; "averaged" with penalty "l2" only
    batch_size : int >= 1 or None, rows a step; None is 1 for "averaged", else 100 sqrt(k)
    n_batches : int >= 1 or None, steps of `fit`. Where a batch is less than a fiftieth of the rows
        they are rounded up to whole passes over these. None is 25, or for "averaged" five passes
    lam : float >= 0 or None, of the penalty "l2"; ``lam * eta0 / (1 + eta_step)`` is below 1
    gamma : float >= 0 or None, of the penalty "l1"
    eta0, eta_step : float > 0 and float >= 0, or None; the size of step t is eta0 over
        1 + eta_step t, or for "averaged" over the square root of that
    switches : dict or None, any other parameters of :func:`workbench.memoir.solvers.memoir_l2`
        or ``memoir_l1``, which replace those of the preset: {"average": True}, {"ef": 100}
    dense : bool or None, hold W as an array of 4 d k bytes, twice that with an average, or as a
        list of its non-zeros; None is True up to 256 MB
    random_state : int, RandomState or None, of the rows drawn. An integer is the solver's seed
        itself, and makes fits repeatable, but not those with nmslib's graphs

    Attributes
    ----------
    classes_ : (k,) labels
    coef_ : (k, d) what predicts, float32; a CSR matrix where the rows were sparse, else an array;
        it is made anew at each access. Rows have length 1 where the scores are cosines
    intercept_ : (k,) zeros
    nbytes_ : int, bytes of the weights that predict. For `partial_fit` the solver's state is kept
        as well, which takes one and a half times as much again
    n_iter_ : int, steps since `fit` or the first `partial_fit`
    trace_ : :class:`workbench.core.trace.Trace` of the last call, whose rows have ``primal``, on at
        most 5,000 of the rows, and with an approximate search ``recall`` and ``epsilon``
    n_features_in_ : int, ``feature_names_in_`` : (d,) where X has names

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

    def __init__(
        self,
        penalty="l2",
        mips="exact",
        preset="averaged",
        *,
        batch_size=None,
        n_batches=None,
        lam=None,
        gamma=None,
        eta0=None,
        eta_step=None,
        switches=None,
        dense=None,
        random_state=None,
    ):
        self.penalty = penalty
        self.mips = mips
        self.preset = preset
        self.batch_size = batch_size
        self.n_batches = n_batches
        self.lam = lam
        self.gamma = gamma
        self.eta0 = eta0
        self.eta_step = eta_step
        self.switches = switches
        self.dense = dense
        self.random_state = random_state

    def fit(self, X, y):
        """Learn from rows `X` (n, d), dense or sparse, and labels `y` (n,), and from no others.

        Ctrl-C ends the fit early, with a ConvergenceWarning, and keeps what was learnt.

        Raises
        ------
        ValueError
            For a parameter outside its range or of the other penalty, NaN or infinite features, a
            single class, dense weights that memory does not hold, or weights that overflow.
        """
        parameters = self._parameters()
        X, y = self._validated(X, y)
        problem = self._problem(X, y)
        batches = self.n_batches
        if batches is None:
            whole = PASSES * self._pass(problem, parameters)
            batches = whole if self.preset == "averaged" else BATCHES
        return self._descend(problem, parameters, batches, None)

    def partial_fit(self, X, y, classes=None):
        """Go on with rows `X` (n, d) and labels `y` (n,): as many batches as make one pass.

        The weights, their average and the step size stay where earlier calls have left them.
        Ctrl-C ends the call early, with a ConvergenceWarning, and keeps what was learnt.

        Parameters
        ----------
        classes : all labels there will be, needed by the first call only; a class without rows
            has weights of zero until some other row takes it for its rival

        Raises
        ------
        ValueError
            As `fit`, for labels that are not among the classes, or a first call without them.
        """
        parameters = self._parameters()
        first = not hasattr(self, "classes_")
        if not (first or hasattr(self, "_state")):
            raise ValueError("partial_fit: a loaded model only predicts; call fit to learn anew")
        X, y = self._validated(X, y, ensure_min_samples=1, reset=first)
        known = _known(classes, None if first else self.classes_)
        problem = Problem(check_matrix(X, "X"), encode(y, known, "y"), known, type(self).__name__)
        # The rows of the pass that a state is in are gone.
        at_end = {"order": np.zeros(0, np.int64), "position": 0}
        state = None if first else replace(self._state, **at_end)
        return self._descend(problem, parameters, self._pass(problem, parameters), state)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_name("penalty", WEIGHT_OF)
        self._check_name("mips", MIPS)
        presets = [name for penalty, name in PRESETS if penalty == self.penalty]
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
        checks = {
            own: self._check_not_negative,
            "eta0": self._check_positive,
            "eta_step": self._check_not_negative,
            "batch_size": self._check_count,
            "n_batches": self._check_count,
        }
        for name, check in checks.items():
            if getattr(self, name) is not None:
                check(name)
        if not (self.switches is None or isinstance(self.switches, dict)):
            raise ValueError(f"switches: must be None or a dict, got {self.switches!r}")
        ours = {"seed", "bias", *self.get_params()}
        known = [name for name in resolve(f"memoir_{self.penalty}", {})[1] if name not in ours]
        for name in self.switches or {}:
            if name not in known:
                raise ValueError(f"switches: unknown name {name!r}; known are {', '.join(known)}")
        if not (self.dense is None or is_flag(self.dense)):
            raise ValueError(f"dense: must be None, True or False, got {shown(self.dense)}")

    def _parameters(self) -> dict:
        """Return the solver's parameters, checked."""
        self._check_parameters()
        own = WEIGHT_OF[self.penalty], "eta0", "eta_step", "batch_size"
        given = {name: getattr(self, name) for name in own if getattr(self, name) is not None}
        switches = self.switches or {}
        given |= {"mips": self.mips, "dense": self.dense, "seed": self._seed()}
        return PRESETS[self.penalty, self.preset] | switches | given

    def _pass(self, problem: Problem, parameters: dict) -> int:
        """Return the number of batches that take as many rows as there are."""
        size = parameters.get("batch_size") or default_batch(problem)
        return -(-problem.n // size)

    def _descend(self, problem: Problem, parameters: dict, batches: int, state) -> MemoirClassifier:
        """Take so many steps from the state, or from zero where it is None."""
        solver, done = f"memoir_{self.penalty}", 0
        if state is None:
            self._check_memory(problem, parameters)
            warm_few(solver, problem, parameters)
        else:
            solver, done = _going_on(solver, state), state.step
        rules = (_batches(done + batches),)
        trace, reached = run(solver, problem, *rules, parameters=parameters, warm_up=False)
        if reached is None or (trace.stopped_by == "interrupted" and reached.step == 0):
            raise KeyboardInterrupt
        from_sparse = problem.is_sparse and (state is None or self._from_sparse)
        self._keep(reached.predictor(), problem.classes, from_sparse, trace)
        self._state: MemoirState = reached
        self.n_iter_ = reached.step
        if trace.stopped_by == "interrupted":
            warnings.warn(
                f"{trace.header['solver']} was interrupted after {reached.step - done} of "
                f"{batches} batches",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _check_memory(self, problem: Problem, parameters: dict) -> None:
        """Refuse dense weights that do not fit into what memory is free."""
        size = 4 * problem.d * problem.k * (1 + bool(parameters.get("average")))
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
    if tiny.n > FEW:
        tiny = replace(tiny, X=tiny.X[:FEW], y=tiny.y[:FEW])
    warm(SOLVERS[solver].steps, tiny, parameters)


def _known(classes, before: np.ndarray | None) -> np.ndarray:
    """Return the labels that a call of `partial_fit` may have."""
    if before is None and classes is None:
        raise ValueError("classes: must be given to the first call of partial_fit")
    given = before if classes is None else np.unique(classes)
    if len(given) < 2:
        raise ValueError(f"classes: needs at least two classes, got {given.tolist()!r}")
    if before is not None and not np.array_equal(given, before):
        raise ValueError("classes: must be those of the first call of partial_fit, or None")
    return given


def _going_on(name: str, state: MemoirState):
    """Return the solver of this name as one that begins at this state."""
    steps = SOLVERS[name].steps

    @wraps(steps)
    def resumed(problem, **parameters):
        return steps(problem, **parameters, state=state)

    return resumed


def _batches(limit: int) -> Rule:
    """Stop after `limit` steps since the first."""

    def rule(row) -> str | None:
        return rule.__name__ if row["steps"] >= limit else None

    rule.__name__ = f"{limit} batches"
    return rule
