"""scikit-learn's linear classifiers as streams: LIBLINEAR, L-BFGS, SAGA and ridge regression.

None of them can be resumed exactly: where a warm start exists, it forgets curvature, gradients or
the random order. So every round fits from scratch. Its budget of iterations grows by about 1.4:
1, 2, 3, 4, 6, 8, 11, 16 and so on. LIBLINEAR's Crammer-Singer solver takes no limit of iterations:
its rounds, and those of the other SVM with a certificate, have a tolerance that is half a decade
tighter each time: 10, 3.2, 1 and so on. A user who knows the budget fits once, so the clock shows
the longest fit so far alone; the time of the others is given back.

A stream ends with the fit that needs less than its budget or has the tolerance `tol`, or if the
peer gives up. All that a fit does is the peer's own cost and is timed: checks, labels and copies of
the rows, which must leave memory for these. There is no intercept: add a constant column. LIBLINEAR
fits one class against the rest; of two classes it fits one, and the objective counts both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from workbench.core.checks import check_positive, check_whole
from workbench.core.problem import Problem
from workbench.core.stream import give_back, off_the_clock
from workbench.peers.objectives import (
    OWN,
    Certificate,
    CertifiedState,
    LinearState,
    Objective,
    crammer_singer,
    logistic_losses,
    marked,
    one_vs_rest,
    regularised,
    ridge_objective,
    softmax_losses,
    squared_hinges,
)

ITERATIONS = 10_000  # the last budget
LIBLINEAR_LIMIT = 100_000  # iterations at which LIBLINEAR's solvers of SVMs give up
LOOSEST = 10.0  # the tolerance of round 1, which one pass over the rows meets


class Peer(NamedTuple):
    """A classifier of scikit-learn with its settings, and what it minimises.

    Attributes
    ----------
    model, settings : name of its class, and what it is told besides weight, tolerance and limits
    objective : what it minimises, or, in its place, the certificate of a fit
    two : the weights of two classes, as multiples of the one vector that scikit-learn keeps
    last : the last budget of iterations
    """

    model: str
    settings: Mapping[str, Any]
    objective: Objective | None = None
    certificate: Certificate | None = None
    two: tuple[float, float] = (-1.0, 1.0)
    last: int = ITERATIONS


SQUARED = {"loss": "squared_hinge"}
LOGISTIC, SOFTMAX = regularised(logistic_losses), regularised(softmax_losses)
SQUARED_SVM = regularised(squared_hinges)
SPARSE_SVM = regularised(squared_hinges, lambda W: float(np.abs(W).sum()))
MULTI = {"multi_class": "crammer_singer"}
PEERS = {
    "liblinear_cs": Peer("LinearSVC", MULTI, None, crammer_singer, two=(-0.5, 0.5)),
    "liblinear_ovr": Peer("LinearSVC", {"loss": "hinge", "dual": True}, None, one_vs_rest),
    "liblinear_lr": Peer("LogisticRegression", {"solver": "liblinear"}, LOGISTIC),
    "liblinear_l2_dual": Peer("LinearSVC", SQUARED | {"dual": True}, SQUARED_SVM),
    "liblinear_l2_primal": Peer("LinearSVC", SQUARED | {"dual": False}, SQUARED_SVM),
    "liblinear_l1": Peer("LinearSVC", SQUARED | {"dual": False, "penalty": "l1"}, SPARSE_SVM),
    "logistic_lbfgs": Peer("LogisticRegression", {"solver": "lbfgs"}, SOFTMAX, two=(0.0, 1.0)),
    "logistic_saga": Peer("LogisticRegression", {"solver": "saga"}, SOFTMAX, two=(0.0, 1.0)),
    "ridge": Peer("Ridge", {}, ridge_objective, last=1),
}


def fitted(peer: Peer, X, y: np.ndarray, k: int, settings: Mapping) -> tuple[np.ndarray, int]:
    """Return the weights (d, k) of one fit, and its iterations, of several classes' fits the most.

    Parameters
    ----------
    settings : C or alpha, tol, max_iter and random_state
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if peer.model == "Ridge":
        Y = np.zeros((len(y), k), X.dtype)
        Y[np.arange(len(y)), y] = 1.0
        alpha, tol = settings["alpha"] * len(y), settings["tol"]
        return Ridge(alpha=alpha, tol=tol, fit_intercept=False).fit(X, Y).coef_.T, 1
    kind = LinearSVC if peer.model == "LinearSVC" else LogisticRegression
    model = kind(fit_intercept=False, **peer.settings, **settings)
    labels, weights, taken = [y], [], 0
    if peer.settings.get("solver") == "liblinear":
        X = X.astype(np.float64, copy=False)  # or scikit-learn does it for each class
        labels = [y == c for c in (range(k) if k > 2 else [1])]
    for own in labels:
        weights.append(model.fit(X, own).coef_)
        taken = max(taken, int(np.max(model.n_iter_)))
    W = np.concatenate(weights).T
    if W.shape[1] == 1:
        W = np.hstack([share * W if share else np.zeros_like(W) for share in peer.two])
    return W, taken


def fits(
    name: str, problem: Problem, given: Mapping[str, float], seed: int, state: LinearState | None
) -> Iterator[LinearState]:
    """Fit a peer to one budget after the other, and judge each fit off the clock.

    Parameters
    ----------
    name : of :data:`PEERS`
    given : the weight (C or alpha) and the tolerance, by name
    """
    from sklearn.exceptions import ConvergenceWarning

    for argument, value in given.items():
        check_positive(value, argument)
    check_whole(seed, "seed", least=0)
    peer, (weight, tol) = PEERS[name], given.values()
    X, y, d, k = problem.X, problem.y, problem.d, problem.k

    def judge(s: LinearState, W: np.ndarray) -> None:
        s.W = W[:d]
        if peer.certificate is None:
            s.primal = peer.objective(X, y, W, weight)
        else:
            s.dual, s.primal = peer.certificate(X, y, weight, s.W, W[d:] / OWN)
            s.lower, s.upper = max(s.lower, s.dual), min(s.upper, s.primal)

    s, kind, taken = state, LinearState, X
    with off_the_clock():
        if peer.certificate is not None:
            X, kind = X.astype(np.float64, copy=False), CertifiedState
            taken = marked(X)
        if s is None:
            s = kind(0, seed, np.zeros((d, k)), 0, 0.0)
            judge(s, np.zeros((taken.shape[1], k)))
    yield s
    while limits := _limits(peer, s, tol):
        wall, process = perf_counter(), process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The number of unique classes")  # they are classes
            settings = {**given, **limits, "random_state": s.seed}
            W, s.iterations = fitted(peer, taken, y, k, settings)
        wall, process = perf_counter() - wall, process_time() - process
        give_back(min(s.seconds, wall), min(s.cpu, process))
        s.seconds, s.cpu = max(s.seconds, wall), max(s.cpu, process)
        with off_the_clock():
            judge(s, np.ascontiguousarray(W))
            s.round += 1
        yield s


def budget(round: int) -> int:
    """Return the iterations of a round: 0, 1, 2, 3, 4, 6, 8, 11, 16, ..."""
    return min(int(0.5 + 2.0 ** (round / 2)), ITERATIONS) if round > 1 else round


def _limits(peer: Peer, s: LinearState, tol: float) -> dict[str, float] | None:
    """Return the limits of the next fit, None if the last one sufficed or gave up."""
    if peer.certificate is None:
        if not budget(s.round) <= s.iterations < min(peer.last, ITERATIONS):
            return None
        return {"max_iter": budget(s.round + 1)}
    if s.iterations >= LIBLINEAR_LIMIT or LOOSEST * 10.0 ** (0.5 - s.round / 2) <= tol:
        return None
    return {"tol": max(LOOSEST * 10.0 ** (-s.round / 2), tol), "max_iter": LIBLINEAR_LIMIT}


def documented(tol: str) -> Callable:
    """Return a decorator that adds the shared parameters to a docstring, `tol` as given."""
    shared = {
        "C": "positive, weight of a row's loss",
        "alpha": "positive, weight of the squared weights; scikit-learn's own is n times as large",
        "tol": f"positive, tolerance on {tol}",
        "seed": "whole number of at least 0, seeds the random order, the same for every fit",
    }

    def add(steps: Callable) -> Callable:
        own = [f"{name} : {text}" for name, text in shared.items() if name in steps.__kwdefaults__]
        lines = ["Parameters", "----------", *own, "", "Raises", "------", "ValueError"]
        lines += ["    If a parameter is not as above.", "", "References"]
        steps.__doc__ = steps.__doc__.replace("References", "\n    ".join(lines), 1)
        return steps

    return add


@documented("LIBLINEAR's violation of optimality in the last fit")
def liblinear_cs(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-8, seed: int = 0, state=None
) -> Iterator[CertifiedState]:
    """Minimise 1/2 |W|^2 + C sum_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})).

    The SVM of Crammer and Singer by sequential dual descent, with a certificate.

    References
    ----------
    Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class
    linear SVMs. KDD 2008.
    """
    return fits("liblinear_cs", problem, {"C": C, "tol": tol}, seed, state)


@documented("LIBLINEAR's violation of optimality in the last fit")
def liblinear_ovr(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-8, seed: int = 0, state=None
) -> Iterator[CertifiedState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c).

    One binary SVM with the hinge loss for each class against the rest, by dual coordinate
    descent, with a certificate; the sign is - for rows of class c.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale
    linear SVM. ICML 2008.
    """
    return fits("liblinear_ovr", problem, {"C": C, "tol": tol}, seed, state)


@documented("LIBLINEAR's gradient relative to that of zero weights")
def liblinear_lr(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i log(1 + exp(-+ x_i.w_c)).

    One binary logistic regression for each class against the rest, by LIBLINEAR's trust region
    Newton method; the sign is - for rows of class c. scikit-learn has LIBLINEAR copy the rows
    once for each class, which takes about as long as one iteration.

    References
    ----------
    Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression. JMLR 2008.
    """
    return fits("liblinear_lr", problem, {"C": C, "tol": tol}, 0, state)


@documented("LIBLINEAR's violation of the dual's optimality")
def liblinear_l2_dual(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    One binary SVM with the squared hinge loss for each class against the rest, by LIBLINEAR's
    dual coordinate descent; the sign is - for rows of class c. An early fit may be worse than zero
    weights.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale
    linear SVM. ICML 2008.
    """
    return fits("liblinear_l2_dual", problem, {"C": C, "tol": tol}, seed, state)


@documented("LIBLINEAR's gradient relative to that of zero weights")
def liblinear_l2_primal(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    The problem of :func:`liblinear_l2_dual`, by LIBLINEAR's trust region Newton method.

    References
    ----------
    Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression. JMLR 2008.
    """
    return fits("liblinear_l2_primal", problem, {"C": C, "tol": tol}, 0, state)


@documented("LIBLINEAR's violation of optimality relative to the first one")
def liblinear_l1(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of |w_c|_1 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    One sparse binary SVM with the squared hinge loss for each class against the rest, by
    LIBLINEAR's coordinate descent; the sign is - for rows of class c.

    References
    ----------
    Yuan, Chang, Hsieh, Lin: A comparison of optimization methods and software for large-scale
    L1-regularized linear classification. JMLR 2010.
    """
    return fits("liblinear_l1", problem, {"C": C, "tol": tol}, seed, state)


@documented("the largest entry of the gradient over n C")
def logistic_lbfgs(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, state=None
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    Multinomial logistic regression by SciPy's L-BFGS, in the precision of the rows. Of two classes
    the first has zero weights.

    References
    ----------
    Zhu, Byrd, Lu, Nocedal: Algorithm 778: L-BFGS-B. ACM Transactions on Mathematical Software 1997.
    """
    return fits("logistic_lbfgs", problem, {"C": C, "tol": tol}, 0, state)


@documented("the largest change of a weight relative to the largest weight")
def logistic_saga(
    problem: Problem, *, C: float = 1.0, tol: float = 1e-6, seed: int = 0, state=None
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    The problem of :func:`logistic_lbfgs` by SAGA, stochastic gradients with a memory; an iteration
    is n of its steps.

    References
    ----------
    Defazio, Bach, Lacoste-Julien: SAGA: a fast incremental gradient method with support for
    non-strongly convex composite objectives. NIPS 2014.
    """
    return fits("logistic_saga", problem, {"C": C, "tol": tol}, seed, state)


@documented("the residual of conjugate gradients, relative to the right-hand side")
def ridge(
    problem: Problem, *, alpha: float = 1e-5, tol: float = 1e-8, state=None
) -> Iterator[LinearState]:
    """Minimise 1/(2n) |Y - X W|^2 + alpha/2 |W|^2 for the one-hot labels Y, in one round.

    By Cholesky's factors of X'X + n alpha, or of XX' + n alpha if that is smaller, in the precision
    of the rows; of sparse rows by conjugate gradients, one class after the other.

    References
    ----------
    Hoerl, Kennard: Ridge regression: biased estimation for nonorthogonal problems. Technometrics
    1970.
    """
    return fits("ridge", problem, {"alpha": alpha, "tol": tol}, 0, state)
