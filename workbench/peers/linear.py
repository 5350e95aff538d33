"""scikit-learn's linear classifiers as streams with one fit from scratch per round.

They are LIBLINEAR, L-BFGS, SAGA and ridge regression. None of them can be resumed
exactly: if a warm start exists, it loses the curvature, the gradients or the random
order. So every round fits from scratch. The limit on iterations grows by a factor of
about 1.4 per round: 1, 2, 3, 4, 6, 8, 11, 16 and so on. LIBLINEAR's Crammer-Singer
solver has no limit on iterations. Its rounds, and those of the other SVM with the hinge
loss, have a tolerance that is half a decade tighter each time: 10, 3.2, 1 and so on. A
user who knows the right limit fits only once, so the clock shows only the longest fit
so far; the time of the others is subtracted.

A stream ends with the fit that needs fewer iterations than its limit or has the
tolerance `tol`, or if the peer gives up. All work of a fit is timed, including checks,
labels and copies of the rows, for which there must be enough memory. Only the
conversion of single-precision rows for the SVMs with the hinge loss is not timed. There
is no intercept; add a constant column if one is needed. LIBLINEAR fits each class
against the rest, and the sign in its losses is - for rows of class c. Of two classes it
fits only one, and the objective counts both.

Parameters
----------
C, alpha : float > 0, the weight of a row's loss (C) or of the squared weights (alpha)
tol : float > 0, the tolerance on the quantity that each solver's description names
seed : int >= 0, seeds the random order, which is the same for every fit

References
----------
1. Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale
   multi-class linear SVMs. KDD 2008.
2. Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for
   large-scale linear SVM. ICML 2008.
3. Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression.
   JMLR 2008.
4. Yuan, Chang, Hsieh, Lin: A comparison of optimization methods and software for
   large-scale L1-regularized linear classification. JMLR 2010.
5. Zhu, Byrd, Lu, Nocedal: Algorithm 778: L-BFGS-B. ACM Transactions on Mathematical
   Software 1997.
6. Defazio, Bach, Lacoste-Julien: SAGA: a fast incremental gradient method with support
   for non-strongly convex composite objectives. NIPS 2014.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from workbench.core.blocks import pieces
from workbench.core.checks import check_positive, check_sparse, check_whole
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, give_back, off_the_clock

BLOCK_SCORES = 2**22  # number of scores computed together, in double precision
ITERATIONS = 10_000  # the largest limit on iterations
LIBLINEAR_LIMIT = 100_000  # iterations at which LIBLINEAR's SVM solvers give up
LOOSEST = 10.0  # the tolerance of round 1, which one pass over the rows meets


@dataclass
class LinearState(State):
    """The weights ``W`` (d, k) of the last fit, its objective and its iterations.

    ``seconds`` and ``cpu`` are the wall and CPU seconds of the longest fit so far.
    """

    round: int
    seed: int
    W: Array
    iterations: int
    primal: float
    seconds: float = 0.0
    cpu: float = 0.0

    def scores(self, X: Matrix) -> Array:
        return np.concatenate([V for _, V in blocks(check_sparse(X), self.W)])

    def info(self) -> Row:
        return {"primal": self.primal, "iterations": self.iterations}


def blocks(X: Matrix, W: Array) -> Iterator[tuple[slice, Array]]:
    """Yield slices of rows and their scores, so that `X` is never cast as a whole."""
    for part in pieces(X.shape[0], BLOCK_SCORES // max(W.shape)):
        yield part, np.asarray(X[part] @ W)


def total(losses: Callable, X: Matrix, y: Array, W: Array) -> float:
    """Return the sum of ``losses(V, y)`` over all scores `V`, in double precision."""
    W = W.astype(np.float64, copy=False)
    return sum(float(losses(V, y[part])) for part, V in blocks(X, W))


def against_rest(V: Array, y: Array) -> Array:
    """Return the (n, k) margins of all classes against the rest, from (n, k) scores."""
    return np.where(np.arange(V.shape[1]) == y[:, None], V, -V)


def hinges(V: Array, y: Array) -> float:
    """Return the sum of the hinge losses of all classes against the rest."""
    return np.maximum(0.0, 1.0 - against_rest(V, y)).sum()


def squared_hinges(V: Array, y: Array) -> float:
    """Return the sum of the squared hinge losses of all classes against the rest."""
    return (np.maximum(0.0, 1.0 - against_rest(V, y)) ** 2).sum()


def logistic_losses(V: Array, y: Array) -> float:
    """Return the sum of the logistic losses of all classes against the rest."""
    return np.logaddexp(0.0, -against_rest(V, y)).sum()


def crammer_singer(V: Array, y: Array) -> float:
    """Return the sum of the losses max(0, 1 + max_{r != y} v_r - v_y)."""
    own = np.arange(V.shape[1]) == y[:, None]
    best = np.where(own, -np.inf, V).max(axis=1)
    return np.maximum(0.0, 1.0 + best - V[own]).sum()


def softmax_losses(V: Array, y: Array) -> float:
    """Return the sum of the multinomial logistic losses."""
    return (logsumexp(V, axis=1) - V[np.arange(len(y)), y]).sum()


def squared_errors(V: Array, y: Array) -> float:
    """Return the sum of the squared distances of the scores from one-hot labels."""
    one_hot = np.arange(V.shape[1]) == y[:, None]
    return ((V - one_hot) ** 2).sum()


def half_square(W: Array) -> float:
    """Return 1/2 |W|^2."""
    return 0.5 * float(np.vdot(W, W))


def one_norm(W: Array) -> float:
    """Return |W|_1."""
    return float(np.abs(W).sum())


class Peer(NamedTuple):
    """A classifier of scikit-learn with its settings and its objective.

    The objective is ``penalty(W) + C losses``. For ridge regression, whose weight is
    alpha, it is ``losses / 2n + alpha penalty(W)``.

    Attributes
    ----------
    model : the name of the class in scikit-learn
    settings : its parameters other than weight, tolerance and limits
    losses : a function of scores and labels, the sum of the losses
    penalty : a function of W
    two : the weights of two classes, as multiples of the single vector that
        scikit-learn returns
    last : the largest limit on iterations; None if rounds differ by their tolerance
    """

    model: str
    settings: Mapping
    losses: Callable
    penalty: Callable = half_square
    two: tuple[float, float] = (-1.0, 1.0)
    last: int | None = ITERATIONS

    def objective(self, X: Matrix, y: Array, W: Array, weight: float):
        """Return the objective at W, in double precision."""
        losses = total(self.losses, X, y, W)
        if self.model == "Ridge":
            return losses / (2 * len(y)) + weight * self.penalty(W)
        return self.penalty(W) + weight * losses


SQUARED = {"loss": "squared_hinge"}
PEERS = {
    "liblinear_cs": Peer(
        "LinearSVC",
        {"multi_class": "crammer_singer"},
        crammer_singer,
        two=(-0.5, 0.5),
        last=None,
    ),
    "liblinear_ovr": Peer(
        "LinearSVC", {"loss": "hinge", "dual": True}, hinges, last=None
    ),
    "liblinear_lr": Peer(
        "LogisticRegression", {"solver": "liblinear"}, logistic_losses
    ),
    "liblinear_l2_dual": Peer("LinearSVC", SQUARED | {"dual": True}, squared_hinges),
    "liblinear_l2_primal": Peer("LinearSVC", SQUARED | {"dual": False}, squared_hinges),
    "liblinear_l1": Peer(
        "LinearSVC",
        SQUARED | {"dual": False, "penalty": "l1"},
        squared_hinges,
        penalty=one_norm,
    ),
    "logistic_lbfgs": Peer(
        "LogisticRegression", {"solver": "lbfgs"}, softmax_losses, two=(0.0, 1.0)
    ),
    "logistic_saga": Peer(
        "LogisticRegression", {"solver": "saga"}, softmax_losses, two=(0.0, 1.0)
    ),
    "ridge": Peer("Ridge", {}, squared_errors, last=1),
}


def fitted(peer: Peer, X, y: Array, k: int, settings: Mapping) -> tuple[Array, int]:
    """Return the (d, k) weights of one fit, and the iterations of the slowest class.

    Parameters
    ----------
    settings : C or alpha, tol, max_iter and random_state
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if peer.model == "Ridge":
        Y = np.zeros((len(y), k), X.dtype)
        Y[np.arange(len(y)), y] = 1.0
        alpha = settings["alpha"] * len(y)
        model = Ridge(alpha=alpha, tol=settings["tol"], fit_intercept=False)
        return model.fit(X, Y).coef_.T, 1
    kind = LinearSVC if peer.model == "LinearSVC" else LogisticRegression
    model = kind(fit_intercept=False, **peer.settings, **settings)
    targets = [y]
    if peer.settings.get("solver") == "liblinear":
        X = X.astype(np.float64, copy=False)  # or scikit-learn copies X per class
        classes = range(k) if k > 2 else [1]
        targets = [y == c for c in classes]
    weights = []
    iterations = 0
    for target in targets:
        weights.append(model.fit(X, target).coef_)
        iterations = max(iterations, int(np.max(model.n_iter_)))
    W = np.concatenate(weights).T
    if W.shape[1] == 1:
        zeros = np.zeros_like(W)
        W = np.hstack([factor * W if factor else zeros for factor in peer.two])
    return W, iterations


def fits(
    name: str,
    problem: Problem,
    state: LinearState | None,
    seed: int = 0,
    **parameters: float,
) -> Iterator[LinearState]:
    """Yield the fits of a peer with growing limits; evaluation is not timed.

    Parameters
    ----------
    name : str, a key of :data:`PEERS`
    parameters : the weight (C or alpha) and the tolerance, by name
    """
    for argument, value in parameters.items():
        check_positive(value, argument)
    problem.refuse_weights()
    check_whole(seed, "seed", least=0)
    peer = PEERS[name]
    weight, tol = parameters.values()
    X = problem.X
    y = problem.y
    s = state
    with off_the_clock():
        rows = X.astype(np.float64, copy=False) if peer.last is None else X
        if s is None:
            W = np.zeros((problem.d, problem.k))
            s = LinearState(0, seed, W, 0, peer.objective(X, y, W, weight))
    yield s
    while limits := _limits(peer, s, tol):
        wall = perf_counter()
        cpu = process_time()
        with quiet():
            settings = {**parameters, **limits, "random_state": s.seed}
            W, s.iterations = fitted(peer, rows, y, problem.k, settings)
        wall = perf_counter() - wall
        cpu = process_time() - cpu
        give_back(min(s.seconds, wall), min(s.cpu, cpu))
        s.seconds = max(s.seconds, wall)
        s.cpu = max(s.cpu, cpu)
        with off_the_clock():
            s.W = np.ascontiguousarray(W)
            s.primal = peer.objective(X, y, s.W, weight)
            s.round += 1
        yield s


@contextmanager
def quiet() -> Iterator[None]:
    """Silence scikit-learn's warnings about convergence and many classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ConvergenceWarning is one
        yield


def timed_fit(model, X, y, weights):
    """Return the fitted model, or None if the fit failed, and its wall seconds."""
    start = perf_counter()
    fitted = None
    with quiet(), suppress(Exception):
        fitted = model.fit(X, y, **weights)
    return fitted, perf_counter() - start


def budget(round: int) -> int:
    """Return the limit on iterations of a round: 0, 1, 2, 3, 4, 6, 8, 11, 16, ..."""
    return min(int(0.5 + 2.0 ** (round / 2)), ITERATIONS) if round > 1 else round


def _limits(peer: Peer, s: LinearState, tol: float) -> dict[str, float] | None:
    """Return the limits of the next fit; None if the last one sufficed or failed."""
    if peer.last is not None:
        if not budget(s.round) <= s.iterations < min(peer.last, ITERATIONS):
            return None
        return {"max_iter": budget(s.round + 1)}
    if s.iterations >= LIBLINEAR_LIMIT or LOOSEST * 10.0 ** (0.5 - s.round / 2) <= tol:
        return None
    return {
        "tol": max(LOOSEST * 10.0 ** (-s.round / 2), tol),
        "max_iter": LIBLINEAR_LIMIT,
    }


@resumable()
def liblinear_cs(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-8, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})).

    This is the SVM of Crammer and Singer, solved by sequential dual descent [1]. `tol`
    bounds LIBLINEAR's violation of optimality in the last fit.
    """
    return fits("liblinear_cs", problem, state, seed, C=C, tol=tol)


@resumable()
def liblinear_ovr(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-8, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c).

    These are binary SVMs with the hinge loss, solved by dual coordinate descent [2].
    `tol` has the same meaning as in `liblinear_cs`.
    """
    return fits("liblinear_ovr", problem, state, seed, C=C, tol=tol)


@resumable()
def liblinear_lr(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i log(1 + exp(-+
    x_i.w_c)).

    These are binary logistic regressions, solved by a trust region Newton method [3].
    `tol` bounds the gradient relative to the gradient at zero weights. scikit-learn
    makes LIBLINEAR copy the rows once for each class, which takes about as long as one
    iteration.
    """
    return fits("liblinear_lr", problem, state, C=C, tol=tol)


@resumable()
def liblinear_l2_dual(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    These are binary SVMs with the squared hinge loss, solved by dual coordinate descent
    [2]. `tol` bounds the violation of optimality in the dual. An early fit may be worse
    than zero weights.
    """
    return fits("liblinear_l2_dual", problem, state, seed, C=C, tol=tol)


@resumable()
def liblinear_l2_primal(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    This is the problem of `liblinear_l2_dual`, solved by the method of `liblinear_lr`,
    with the same meaning of `tol`.
    """
    return fits("liblinear_l2_primal", problem, state, C=C, tol=tol)


@resumable()
def liblinear_l1(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of |w_c|_1 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    These are sparse binary SVMs with the squared hinge loss, solved by coordinate
    descent [4]. `tol` bounds the violation of optimality relative to the first one.
    """
    return fits("liblinear_l1", problem, state, seed, C=C, tol=tol)


@resumable()
def logistic_lbfgs(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, state=None
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    This is multinomial logistic regression, solved by SciPy's L-BFGS [5] in the
    precision of the rows. `tol` bounds the largest entry of the gradient, divided by n
    C. With two classes the first one has zero weights.
    """
    return fits("logistic_lbfgs", problem, state, C=C, tol=tol)


@resumable()
def logistic_saga(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    This is the problem of `logistic_lbfgs`, solved by SAGA [6], a method of stochastic
    gradients with a memory. An iteration has n steps. `tol` bounds the largest change
    of a weight, relative to the largest weight.
    """
    return fits("logistic_saga", problem, state, seed, C=C, tol=tol)


@resumable()
def ridge(
    problem: Problem, *, alpha: float = 1e-5, tol: float = 1e-8, state=None
) -> Iterator[LinearState]:
    """Minimise 1/(2n) |Y - X W|^2 + alpha/2 |W|^2 for the one-hot labels Y, in one
    round.

    For dense rows, the solution comes from the Cholesky factor of X'X + n alpha, or of
    XX' + n alpha if that is smaller, in the precision of the rows. For sparse rows, it
    comes from conjugate gradients, one class after another, until the residual is at
    most `tol` times the right-hand side.
    """
    return fits("ridge", problem, state, alpha=alpha, tol=tol)
