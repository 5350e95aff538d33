"""An example of your own solver in one file; CONTRIBUTING.md says where it goes."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.certificates import bounds
from workbench.core.checks import check_positive, check_sparse, check_whole
from workbench.core.state import State, resumable
from workbench.kernels.compiled import njit


@dataclass
class FWState(State):
    """Weights and dual weights of a round, and the best bounds so far."""

    round: int
    rng: np.random.Generator
    W: np.ndarray  # weights (d, k)
    A: np.ndarray  # dual weights (n, k), which sum to 1 in each row
    lower: float = 0.0  # best bounds of the minimum so far
    upper: float = 1.0

    def scores(self, X):
        return np.asarray(check_sparse(X) @ self.W)

    def info(self):
        return bounds(self.lower, self.upper)


@resumable()
def frank_wolfe(
    problem, *, alpha: float = 1e-2, seed: int = 0, state: FWState | None = None
):
    """Minimise alpha/2 |W|^2 + mean_i max_c ([c != y_i] + x_i.(w_c - w_{y_i})).

    Lacoste-Julien, Jaggi, Schmidt, Pletscher: Block-coordinate Frank-Wolfe optimization
    for structural SVMs. ICML 2013, Algorithm 4. Each round visits the rows in a new
    random order.

    Parameters
    ----------
    alpha : float > 0, the weight of the squared norm of W
    seed : int >= 0, seeds the order of the rows
    """
    problem.refuse_weights()
    check_positive(alpha, "alpha")
    check_whole(seed, "seed", least=0)
    X = sp.csr_matrix(problem.X)
    Y = np.eye(problem.k)[problem.y]
    s = state
    if s is None:
        W = np.zeros((problem.d, problem.k))
        s = FWState(0, np.random.default_rng(seed), W, A=Y.copy())
    while True:
        H = s.scores(X) + 1.0 - Y
        hinges = H.max(axis=1) - (H * Y).sum(axis=1)
        square = alpha / 2 * np.vdot(s.W, s.W)
        s.upper = min(s.upper, float(hinges.mean() + square))
        s.lower = max(s.lower, float(1.0 - (s.A * Y).sum() / problem.n - square))
        yield s
        order = s.rng.permutation(problem.n)
        epoch(X.data, X.indices, X.indptr, Y, alpha, order, s.W, s.A)
        s.round += 1


@njit
def epoch(data, indices, starts, Y, alpha, order, W, A):
    """Visit each row once, in this order; W and A change in place."""
    for i in order:
        H = 1.0 - Y[i]
        entries = range(starts[i], starts[i + 1])
        for p in entries:
            H += data[p] * W[indices[p]]
        change = -A[i]  # towards the class of largest loss, by exact line search
        change[np.argmax(H)] += 1.0
        slope = alpha * len(A) * (change * H).sum()
        curvature = (change**2).sum() * (data[starts[i] : starts[i + 1]] ** 2).sum()
        if slope < curvature:
            change *= max(slope, 0.0) / curvature
        A[i] += change
        for p in entries:
            W[indices[p]] -= data[p] / (alpha * len(A)) * change
