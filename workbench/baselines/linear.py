"""Linear classifiers of scikit-learn, LIBLINEAR's among them, without certificates.

None of them can be resumed exactly: where a warm start exists, it forgets curvature, gradients or
the random order. So every round fits anew, with a budget of iterations that grows by about 1.4:
1, 2, 3, 4, 6, 8, 11, 16 and so on. Who knows the budget fits once, so a round's clock is that of
its own fit alone; the earlier ones are given back. A stream ends with the fit that needed less
than its budget.

All that a fit does is the peer's own cost and stays on the clock: checks, labels, and LIBLINEAR's
copy of dense rows in double precision and of each value in a node of 16 bytes. The rows must leave
memory for these. There is no intercept: add a constant column.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from scipy.special import logsumexp

from workbench.baselines.certified import leave_dearest
from workbench.problem import Matrix, Problem, check_positive
from workbench.stream import Row, off_the_clock

ITERATIONS = 10_000  # the last budget
ENTRIES = 2**22  # of a block of rows, that scores need in double precision

Fit = Callable[[Matrix, np.ndarray, int, int], tuple[np.ndarray, int]]
Objective = Callable[[Matrix, np.ndarray, np.ndarray], float]


@dataclass
class LinearState:
    """Weights ``W`` (d, k) of the last fit, its objective and the peer's count of iterations.

    ``seconds`` and ``cpu`` are those of the dearest fit so far.
    """

    round: int
    seed: int
    W: np.ndarray
    iterations: int
    primal: float
    seconds: float = 0.0
    cpu: float = 0.0

    def scores(self, X) -> np.ndarray:
        return np.concatenate([V for _, V in blocks(X, self.W)])

    def info(self) -> Row:
        return {"primal": self.primal, "iterations": self.iterations}


def liblinear_lr(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i log(1 + exp(-+ x_i.w_c)).

    One binary logistic regression for each class against the rest, by LIBLINEAR's trust region
    Newton method; the sign is - for rows of class c. scikit-learn has LIBLINEAR copy the rows
    once for each class, which takes about as long as one iteration. Two classes mirror each other:
    LIBLINEAR fits one, and the objective counts both.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the gradient relative to that of no weights

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression. JMLR 2008.
    """
    from sklearn.linear_model import LogisticRegression

    def fit(X, y, iterations, seed):
        model = LogisticRegression(
            C=C, tol=tol, fit_intercept=False, solver="liblinear", max_iter=iterations
        )
        X = X.astype(np.float64, copy=False)  # or scikit-learn does it for each class
        weights, taken = [], 0
        for c in range(problem.k) if problem.k > 2 else [1]:
            model.fit(X, y == c)
            weights.append(model.coef_[0])
            taken = max(taken, int(model.n_iter_[0]))
        return mirrored(np.stack(weights, axis=1)), taken

    def objective(X, y, W):
        return 0.5 * float(np.vdot(W, W)) + C * total(logistic_losses, X, y, W)

    return _fits(fit, objective, {"C": C, "tol": tol}, problem, 0, state)


def liblinear_l2_dual(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    One binary SVM with the squared hinge loss for each class against the rest, by LIBLINEAR's
    dual coordinate descent; the sign is - for rows of class c. Two classes mirror each other:
    LIBLINEAR fits one, and the objective counts both. An early fit may be worse than no weights.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the dual's violation of optimality
    seed : of LIBLINEAR's random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale
    linear SVM. ICML 2008.
    """
    settings = {"C": C, "tol": tol, "dual": True}
    return _fits(linear_svc(settings), squared_svm(C), {"C": C, "tol": tol}, problem, seed, state)


def liblinear_l2_primal(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    The problem of :func:`liblinear_l2_dual`, by LIBLINEAR's trust region Newton method.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the gradient relative to that of no weights

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression. JMLR 2008.
    """
    settings = {"C": C, "tol": tol, "dual": False}
    return _fits(linear_svc(settings), squared_svm(C), {"C": C, "tol": tol}, problem, 0, state)


def liblinear_l1(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise the sum over classes c of |w_c|_1 + C sum_i max(0, 1 -+ x_i.w_c)^2.

    One sparse binary SVM with the squared hinge loss for each class against the rest, by
    LIBLINEAR's coordinate descent; the sign is - for rows of class c. Two classes mirror each
    other: LIBLINEAR fits one, and the objective counts both.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, LIBLINEAR's tolerance on the violation of optimality relative to the first
    seed : of LIBLINEAR's random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Yuan, Chang, Hsieh, Lin: A comparison of optimization methods and software for large-scale
    L1-regularized linear classification. JMLR 2010.
    """

    def objective(X, y, W):
        return float(np.abs(W).sum()) + C * total(squared_hinges, X, y, W)

    settings = {"C": C, "tol": tol, "dual": False, "penalty": "l1"}
    return _fits(linear_svc(settings), objective, {"C": C, "tol": tol}, problem, seed, state)


def logistic_lbfgs(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    Multinomial logistic regression by SciPy's L-BFGS, on rows in the precision they have. Of two
    classes the first has the weights 0.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, tolerance on the largest entry of the gradient over n C

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Zhu, Byrd, Lu, Nocedal: Algorithm 778: L-BFGS-B. ACM Transactions on Mathematical Software
    1997.
    """
    fit = multinomial({"C": C, "tol": tol, "solver": "lbfgs"})
    return _fits(fit, softmax_regression(C), {"C": C, "tol": tol}, problem, 0, state)


def logistic_saga(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-6,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/2 |W|^2 + C sum_i (log sum_c exp(x_i.w_c) - x_i.w_{y_i}).

    Multinomial logistic regression by SAGA, stochastic gradients with a memory, on rows in the
    precision they have; an iteration is n of its steps. Of two classes the first has the
    weights 0.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, tolerance on the largest change of a weight relative to the largest weight
    seed : of the random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Defazio, Bach, Lacoste-Julien: SAGA: a fast incremental gradient method with support for
    non-strongly convex composite objectives. NIPS 2014.
    """
    fit = multinomial({"C": C, "tol": tol, "solver": "saga"})
    return _fits(fit, softmax_regression(C), {"C": C, "tol": tol}, problem, seed, state)


def ridge(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    tol: float = 1e-8,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/(2n) |Y - X W|^2 + alpha/2 |W|^2 for the one-hot targets Y, in one round.

    By Cholesky's factors of X'X + n alpha, or of XX' + n alpha where that is smaller, in the
    precision of the rows; of sparse rows by conjugate gradients, one class after the other.
    `alpha` is weighed against one row's loss: scikit-learn's own is n times as large.

    Parameters
    ----------
    alpha : positive, weight of the squared weights
    tol : positive, of conjugate gradients on the residual, relative to the right-hand side

    Raises
    ------
    ValueError
        If `alpha` or `tol` is not a positive number.

    References
    ----------
    Hoerl, Kennard: Ridge regression: biased estimation for nonorthogonal problems. Technometrics
    1970.
    """
    from sklearn.linear_model import Ridge

    def fit(X, y, iterations, seed):
        Y = np.zeros((X.shape[0], problem.k), X.dtype)
        Y[np.arange(len(y)), y] = 1.0
        model = Ridge(alpha=alpha * X.shape[0], tol=tol, fit_intercept=False)
        return model.fit(X, Y).coef_.T, 1

    def objective(X, y, W):
        penalty = alpha / 2 * float(np.vdot(W, W))
        return total(squared_errors, X, y, W) / (2 * len(y)) + penalty

    return _fits(fit, objective, {"alpha": alpha, "tol": tol}, problem, 0, state, limit=1)


def linear_svc(settings: dict) -> Fit:
    """Return the fit of scikit-learn's LinearSVC with the squared hinge loss."""
    from sklearn.svm import LinearSVC

    def fit(X, y, iterations, seed):
        model = LinearSVC(
            loss="squared_hinge",
            fit_intercept=False,
            max_iter=iterations,
            random_state=seed,
            **settings,
        )
        model.fit(X, y)
        return mirrored(model.coef_.T), int(model.n_iter_)

    return fit


def multinomial(settings: dict) -> Fit:
    """Return the fit of scikit-learn's LogisticRegression without LIBLINEAR."""
    from sklearn.linear_model import LogisticRegression

    def fit(X, y, iterations, seed):
        model = LogisticRegression(
            fit_intercept=False, max_iter=iterations, random_state=seed, **settings
        )
        W = model.fit(X, y).coef_.T
        W = np.hstack([np.zeros_like(W), W]) if W.shape[1] == 1 else W
        return W, int(np.max(model.n_iter_))

    return fit


def squared_svm(C: float) -> Objective:
    """Return the objective of the SVMs with the squared hinge loss, one against the rest."""
    return lambda X, y, W: 0.5 * float(np.vdot(W, W)) + C * total(squared_hinges, X, y, W)


def softmax_regression(C: float) -> Objective:
    """Return the objective of multinomial logistic regression."""
    return lambda X, y, W: 0.5 * float(np.vdot(W, W)) + C * total(softmax_losses, X, y, W)


def mirrored(W: np.ndarray) -> np.ndarray:
    """Return the weights of both classes, where LIBLINEAR keeps those of the second alone."""
    return np.hstack([-W, W]) if W.shape[1] == 1 else W


def blocks(X: Matrix, W: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows and their (rows, k) scores: `X` is never cast to `W`'s dtype at once."""
    size = max(1, ENTRIES // max(W.shape))
    for first in range(0, X.shape[0], size):
        part = slice(first, first + size)
        yield part, np.asarray(X[part] @ W)


def total(losses: Callable, X: Matrix, y: np.ndarray, W: np.ndarray) -> float:
    """Return the sum of ``losses(V, y)`` over the rows' scores `V`, in double precision."""
    W = W.astype(np.float64, copy=False)
    return sum(float(losses(V, y[part])) for part, V in blocks(X, W))


def logistic_losses(V: np.ndarray, y: np.ndarray) -> float:
    return np.logaddexp(0.0, -margins(V, y)).sum()


def squared_hinges(V: np.ndarray, y: np.ndarray) -> float:
    return (np.maximum(0.0, 1.0 - margins(V, y)) ** 2).sum()


def softmax_losses(V: np.ndarray, y: np.ndarray) -> float:
    return (logsumexp(V, axis=1) - V[np.arange(len(y)), y]).sum()


def squared_errors(V: np.ndarray, y: np.ndarray) -> float:
    return ((V - (np.arange(V.shape[1]) == y[:, None])) ** 2).sum()


def margins(V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the scores `V` with their sign turned but for each row's own class."""
    return np.where(np.arange(V.shape[1]) == y[:, None], V, -V)


def budget(round: int) -> int:
    """Return the iterations of a round: 0, 1, 2, 3, 4, 6, 8, 11, 16, ..."""
    return min(int(0.5 + 2.0 ** (round / 2)), ITERATIONS) if round > 1 else round


def _fits(
    fit: Fit,
    objective: Objective,
    positive: dict[str, float],
    problem: Problem,
    seed: int,
    state: LinearState | None,
    limit: float = np.inf,
) -> Iterator[LinearState]:
    """Fit with one budget after the other until one suffices; judge each fit off the clock.

    Parameters
    ----------
    fit : ``fit(X, y, iterations, seed)`` returns (d, k) weights and the iterations taken
    objective : ``objective(X, y, W)``, what the peer minimises
    positive : the parameters that must be positive
    limit : the last budget, where that is less than `ITERATIONS`
    """
    from sklearn.exceptions import ConvergenceWarning

    for name, value in positive.items():
        check_positive(value, name)
    X, y = problem.X, problem.y
    s = state
    if s is None:
        with off_the_clock():
            W = np.zeros((problem.d, problem.k))
            s = LinearState(0, seed, W, 0, objective(X, y, W))
    yield s
    while budget(s.round) <= s.iterations < min(limit, ITERATIONS):
        wall, process = perf_counter(), process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            W, s.iterations = fit(X, y, budget(s.round + 1), s.seed)
        leave_dearest(s, perf_counter() - wall, process_time() - process)
        with off_the_clock():
            s.W = np.ascontiguousarray(W)
            s.primal = objective(X, y, s.W)
            s.round += 1
        yield s
