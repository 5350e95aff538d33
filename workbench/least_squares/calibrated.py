"""Calibrated least squares (Algorithm 2): the weights and the link are learnt
together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.checks import check_flags, check_positive, check_sparse, check_whole
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row
from workbench.kernels.compiled import njit
from workbench.least_squares.products import (
    GRAM_ROWS,
    Factor,
    by_root,
    cached_rows,
    check_size,
    gram,
)

# calibration's, over the mean diagonal: saturated y, y^2, y^3 are nearly equal
RIDGE = 1e-8


@dataclass
class CalibratedState(State):
    """The chain ``W`` (t, d, k), ``V`` (t, m, k) of t rounds, and the predictions it
    makes.

    V_t is the paper's W~_t, transposed. ``predictions`` (n, k) are yhat of the training
    rows. The squared errors are means over rows of |y - .|^2: of y~ (``fitted``),
    before the projection (``refitted``) and after (``squared_error``). ``basis`` and
    ``hinges`` are those of the run.
    """

    round: int
    W: np.ndarray
    V: np.ndarray
    predictions: np.ndarray
    fitted: float
    refitted: float
    squared_error: float
    basis: int
    hinges: bool

    def scores(self, X: Matrix) -> np.ndarray:
        """Replay the chain; all products with the rows are one."""
        X, (t, d, k) = check_sparse(X), self.W.shape
        Y = np.zeros((X.shape[0], k), self.predictions.dtype)
        wide = np.ascontiguousarray(
            self.W.transpose(1, 0, 2).reshape(d, t * k), Y.dtype
        )
        V = self.V.astype(Y.dtype)
        for rows in pieces(len(Y), GRAM_ROWS):
            parts = np.asarray(X[rows] @ wide).reshape(len(Y[rows]), t, k)
            for i in range(t):
                Y[rows] = (
                    expanded(Y[rows] + parts[:, i], self.basis, self.hinges) @ V[i]
                )
                project(Y[rows])
        return Y

    def info(self) -> Row:
        return {
            "fitted": self.fitted,
            "refitted": self.refitted,
            "squared_error": self.squared_error,
        }


@resumable("alpha")
def ls_calibrated(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    basis: int = 3,
    hinges: bool = False,
    state: CalibratedState | None = None,
) -> Iterator[CalibratedState]:
    """Fit E[y | x] = g(W'x) with a g whose inverse is a combination of a basis.

    A round of Algorithm 2 fits the residuals of the predictions (18), fits the targets
    by the functions of the sum (19), and projects onto the simplex. No step of the
    three raises the squared error. Predictions of other rows replay all rounds, so that
    the model grows with them. The problem is not convex, and zero is its only lower
    bound.

    Parameters
    ----------
    alpha : positive, ridge of the fits (18), for the mean squared error of a row,
        weighted by the problem's weights
    basis : whole number m >= 1; the functions are y, y^2, ..., y^m (3 in section 3.1)
    hinges : take max(y - j/m, 0), j = 1..m-1, instead of the powers above the first: a
        piecewise linear link, as isotonic regression has; which functions G has is open
        in the paper

    Raises
    ------
    ValueError
        For an `alpha` or `basis` out of its range, or more features than one Gram
        matrix can hold.
    """
    alpha = check_positive(alpha, "alpha")
    X, y, weights = problem.X, problem.y, problem.weights
    n, d, k, total = problem.n, problem.d, problem.k, float(weights.sum())
    q = check_whole(basis, "basis") * k
    check_flags(hinges=hinges)
    check_size(d)
    check_size(q, f"basis: for {k} classes its")
    H = gram(X, weights)
    H.flat[:: d + 1] += alpha
    R = Factor(H)
    s = state
    if s is None:
        Y = np.zeros((n, k), X.dtype)
        first = squared_error(Y, y, weights) / total
        chain = np.zeros((0, d, k)), np.zeros((0, q, k))
        s = CalibratedState(0, *chain, Y, first, first, first, basis, hinges)
    yield s
    while True:  # repeat
        # (18): W_t fits the residuals, and y~_i = y^_i^(t-1) + W_t x_i
        W = fit_residual(problem, R, s.predictions, total)
        Y = s.predictions.copy()
        for rows in pieces(n, GRAM_ROWS):
            Y[rows] += X[rows] @ W.astype(X.dtype)
        s.fitted = squared_error(Y, y, weights) / total
        # (19): W~_t fits the targets, and y^_i = clip(W~_t G(y~_i))
        V = calibrate(problem, Y, basis, hinges)
        for rows in pieces(n, GRAM_ROWS):
            Y[rows] = expanded(Y[rows], basis, hinges) @ V
        s.refitted = squared_error(Y, y, weights) / total
        project(Y)
        s.squared_error = squared_error(Y, y, weights) / total
        s.W, s.V = np.concatenate([s.W, [W]]), np.concatenate([s.V, [V]])
        s.predictions = Y
        s.round += 1
        yield s


def fit_residual(
    problem: Problem, R: Factor, predictions: np.ndarray, total: float
) -> np.ndarray:
    """Return the W_t (d, k) of (18): the fit of y_i - y^_i^(t-1) to x_i.

    `R` is the factor of the rows' second moment plus alpha, `total` the sum of their
    weights.
    """
    X, y, weights = problem.X, problem.y, problem.weights
    G = np.zeros((problem.d, predictions.shape[1]))
    for rows in pieces(problem.n, cached_rows(X)):
        rest = targets(y[rows], G.shape[1], X.dtype) - predictions[rows]
        G += X[rows].T @ (rest * weights[rows, None]).astype(X.dtype, copy=False)
    return R.solve(G / total)


def calibrate(problem: Problem, Y: np.ndarray, basis: int, hinges: bool) -> np.ndarray:
    """Return the W~_t (q, k) of (19), transposed, from the y~ (n, k) of (18).

    It has a ridge toward the calibration that changes nothing: a ridge toward 0 could
    raise the squared error.
    """
    k = Y.shape[1]
    q = basis * k
    B_B, B_rest = np.zeros((q, q)), np.zeros((q, k))
    for rows in pieces(problem.n, GRAM_ROWS):
        weights = problem.weights[rows]
        B = expanded(Y[rows], basis, hinges).astype(np.float64, copy=False)
        B = by_root(B, weights)
        rest = by_root(targets(problem.y[rows], k, np.float64) - Y[rows], weights)
        B_B += B.T @ B
        B_rest += B.T @ rest
    B_B.flat[:: q + 1] += RIDGE * np.trace(B_B) / q + np.finfo(float).tiny
    return np.eye(q, k) + Factor(B_B).solve(B_rest)


def expanded(Y: np.ndarray, basis: int, hinges: bool) -> np.ndarray:
    """Return the functions G(Y) of (n, k) predictions, side by side."""
    if hinges:
        return np.hstack([Y, *(np.maximum(Y - j / basis, 0) for j in range(1, basis))])
    powers = [Y]
    for _ in range(basis - 1):
        powers.append(powers[-1] * Y)
    return np.hstack(powers)


@njit(cache=True, nogil=True)
def project(V):
    """Put every row of (n, k) `V` onto {v >= 0, sum v = 1}, in place (Duchi et al.,
    ICML 2008).

    The threshold of a row is found without sorting: from the mean of what is above it,
    which leaves out more and more entries and never one that the projection keeps
    (Michelot, 1986).
    """
    n, k = V.shape
    for i in range(n):
        above, theta = k, 0.0
        for c in range(k):
            theta += V[i, c]
        theta = (theta - 1.0) / k
        while True:
            total, count = 0.0, 0
            for c in range(k):
                if V[i, c] > theta:
                    total += V[i, c]
                    count += 1
            if count == 0 or count >= above:
                break
            theta, above = (total - 1.0) / count, count
        for c in range(k):
            V[i, c] = max(V[i, c] - theta, 0.0)


def targets(y: np.ndarray, k: int, dtype) -> np.ndarray:
    """Return (n, k) targets of zeros and ones."""
    return (y[:, None] == np.arange(k)).astype(dtype)


def squared_error(Y: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted sum over rows of |y - Y|^2, in float64."""
    total = 0.0
    for rows in pieces(len(Y), GRAM_ROWS):
        rest = by_root(
            targets(y[rows], Y.shape[1], np.float64) - Y[rows], weights[rows]
        )
        total += float(np.vdot(rest, rest))
    return total
