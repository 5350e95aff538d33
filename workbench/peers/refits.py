"""Linear classifiers without certificates as streams: fits anew, with growing budgets.

None of them can be resumed exactly: where a warm start exists, it forgets curvature, gradients or
the random order. So every round fits anew, with a budget of iterations that grows by about 1.4:
1, 2, 3, 4, 6, 8, 11, 16 and so on. Who knows the budget fits once, so a round's clock is that of
its own fit alone; the earlier ones are given back. A stream ends with the fit that needed less
than its budget.

All that a fit does is the peer's own cost and stays on the clock: checks, labels and copies of the
rows. The rows must leave memory for these. There is no intercept: add a constant column.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from scipy.special import logsumexp

from workbench.core.checks import check_positive, check_sparse, check_whole
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row, off_the_clock
from workbench.peers.certified import leave_dearest

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
        return np.concatenate([V for _, V in blocks(check_sparse(X), self.W)])

    def info(self) -> Row:
        return {"primal": self.primal, "iterations": self.iterations}


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
    """Return the sum of the logistic losses of all classes against the rest, scores `V` (n, k)."""
    return np.logaddexp(0.0, -margins(V, y)).sum()


def squared_hinges(V: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of the squared hinge losses of all classes against the rest."""
    return (np.maximum(0.0, 1.0 - margins(V, y)) ** 2).sum()


def softmax_losses(V: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of the multinomial logistic losses."""
    return (logsumexp(V, axis=1) - V[np.arange(len(y)), y]).sum()


def squared_errors(V: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of the squared distances of the scores from 1 for the own class, else 0."""
    return ((V - (np.arange(V.shape[1]) == y[:, None])) ** 2).sum()


def margins(V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the scores `V` with their sign turned but for each row's own class."""
    return np.where(np.arange(V.shape[1]) == y[:, None], V, -V)


def budget(round: int) -> int:
    """Return the iterations of a round: 0, 1, 2, 3, 4, 6, 8, 11, 16, ..."""
    return min(int(0.5 + 2.0 ** (round / 2)), ITERATIONS) if round > 1 else round


def fits(
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
    check_whole(seed, "seed", least=0)
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
            warnings.filterwarnings("ignore", "The number of unique classes")  # they are classes
            W, s.iterations = fit(X, y, budget(s.round + 1), s.seed)
        leave_dearest(s, perf_counter() - wall, process_time() - process)
        with off_the_clock():
            s.W = np.ascontiguousarray(W)
            s.primal = objective(X, y, s.W)
            s.round += 1
        yield s
