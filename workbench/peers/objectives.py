"""Linear classifiers of peers: their states, what they minimise, certificates of two SVMs.

scikit-learn keeps LIBLINEAR's dual variables to itself. For the certificates every row gets a
feature of its own, of the value 2^-100, whose weights are that row's dual variables times 2^-100,
exactly. Its part in norms and scores is 2^-200 of a dual variable, which rounding swallows: the
other weights are to the last bit those of a fit without it. Only rows of zeros have none: no
weights change their loss, and their best dual variables are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from workbench.core.checks import check_sparse
from workbench.core.measures import bounds, svm_bounds
from workbench.core.problem import Matrix
from workbench.core.stream import Row
from workbench.kernels.rows import squared_norms
from workbench.memoir.pegasos import mean_hinge

BLOCK_SCORES = 2**22  # scores of a block of rows, in double precision
OWN = 2.0**-100  # the value of a row's own feature

Objective = Callable[[Matrix, np.ndarray, np.ndarray, float], float]
Certificate = Callable[[Matrix, np.ndarray, float, np.ndarray, np.ndarray], tuple[float, float]]


@dataclass
class LinearState:
    """Weights ``W`` (d, k) of the last fit, its objective and the peer's count of iterations.

    ``seconds`` and ``cpu`` are the wall and CPU seconds of the longest fit so far.
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


@dataclass
class CertifiedState(LinearState):
    """The same with the dual objective of the last fit, and the best bounds of all fits."""

    dual: float = -np.inf
    lower: float = 0.0
    upper: float = np.inf

    def info(self) -> Row:
        row = bounds(self.lower, self.upper) | {"primal": self.primal, "dual": self.dual}
        return row | {"iterations": self.iterations}


def blocks(X: Matrix, W: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows and their (rows, k) scores: `X` is never cast to `W`'s dtype at once."""
    size = max(1, BLOCK_SCORES // max(W.shape))
    for first in range(0, X.shape[0], size):
        part = slice(first, first + size)
        yield part, np.asarray(X[part] @ W)


def total(losses: Callable, X: Matrix, y: np.ndarray, W: np.ndarray) -> float:
    """Return the sum of ``losses(V, y)`` over the rows' scores `V`, in double precision."""
    W = W.astype(np.float64, copy=False)
    return sum(float(losses(V, y[part])) for part, V in blocks(X, W))


def margins(V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the scores `V` (n, k), negated except for each row's own class."""
    return np.where(np.arange(V.shape[1]) == y[:, None], V, -V)


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


def half_square(W: np.ndarray) -> float:
    """Return 1/2 |W|^2."""
    return 0.5 * float(np.vdot(W, W))


def regularised(losses: Callable, penalty: Callable = half_square) -> Objective:
    """Return the objective ``penalty(W) + C sum_i losses_i``."""
    return lambda X, y, W, C: penalty(W) + C * total(losses, X, y, W)


def ridge_objective(X: Matrix, y: np.ndarray, W: np.ndarray, alpha: float) -> float:
    """Return 1/(2n) |Y - X W|^2 + alpha/2 |W|^2 for the one-hot labels Y."""
    return total(squared_errors, X, y, W) / (2 * len(y)) + alpha * half_square(W)


def marked(X: Matrix) -> sp.csr_matrix:
    """Return the rows (n, d) with n more columns, their own features."""
    own = sp.diags(np.where(squared_norms(X) > 0.0, OWN, 0.0))
    return sp.hstack([sp.csr_matrix(X), own], format="csr")


def crammer_singer(X: Matrix, y: np.ndarray, C: float, W: np.ndarray, A: np.ndarray):
    """Return the objective of the dual point made of (n, k) `A`, and the primal one of (d, k) `W`.

    Both leave room for their rounding. The dual is to maximise ``sum_ic b_ic - 1/2 |W_b|^2`` over
    b >= 0, b_iy = 0, sum_c b_ic <= C, with ``W_b = sum_i x_i (e_y sum_c b_ic - b_i)'``. LIBLINEAR's
    variables are the brackets, to rounding.
    """
    rows, lengths = np.arange(len(y)), np.sqrt(squared_norms(X))
    primal = 0.5 * float(np.vdot(W, W)) + C * len(y) * mean_hinge(X, y, W)
    B = np.maximum(-A, 0.0)
    B[rows, y] = 0.0
    zero = np.flatnonzero(lengths == 0.0)
    B[zero, (y[zero] + 1) % B.shape[1]] = C
    S = B.sum(axis=1)
    B *= np.divide(C, S, out=np.ones(len(y)), where=S > C)[:, None]
    S = B.sum(axis=1)
    np.negative(B, out=B)
    B[rows, y] = S
    return enclosed(X, lengths, C, primal, W, S, X.T @ B)


def one_vs_rest(X: Matrix, y: np.ndarray, C: float, W: np.ndarray, A: np.ndarray):
    """Return the objective of the dual point made of (n, k) `A`, and the primal one of (d, k) `W`.

    Both leave room for their rounding. The dual is to maximise ``sum_ic a_ic - 1/2 |W_a|^2`` over
    0 <= a <= C, with the columns ``w_c = sum_i z_ic a_ic x_i`` for z_ic = 1 where y_i = c, else -1.
    LIBLINEAR's variables are the z_ic a_ic.
    """
    Z = np.where(np.arange(W.shape[1]) == y[:, None], 1.0, -1.0)
    hinge = np.maximum(1.0 - Z * np.asarray(X @ W), 0.0).sum()
    a = np.clip(Z * A, 0.0, C)
    lengths = np.sqrt(squared_norms(X))
    a[lengths == 0.0] = C
    primal = 0.5 * float(np.vdot(W, W)) + C * float(hinge)
    return enclosed(X, lengths, C * W.shape[1], primal, W, a.sum(axis=1), X.T @ (Z * a))


def enclosed(X: Matrix, lengths: np.ndarray, cost: float, primal: float, W, S, V):
    """Return the dual objective of V (d, k) and P(W), with room for rounding.

    Parameters
    ----------
    lengths : (n,) of the rows
    cost : of a row's loss, times the number of its terms
    S : (n,) sums of each row's dual variables, of which V is made
    """
    return svm_bounds(
        float(primal),
        float(S.sum()),
        float(np.vdot(V, V)),
        terms=sum(X.shape) + W.shape[1],
        losses=cost * len(S),
        reach=cost * float(lengths.sum()),
        pull=2.0 * float(lengths @ S),
        norm=float(np.linalg.norm(W)),
    )
