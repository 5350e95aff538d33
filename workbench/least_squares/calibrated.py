"""Calibrated least squares (Algorithm 2) learns the weights and the link."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.checks import check_flags, check_positive, check_sparse, check_whole
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State, resumable
from workbench.kernels.compiled import njit
from workbench.least_squares.products import (
    GRAM_ROWS,
    Factor,
    by_root,
    cached_rows,
    check_size,
    gram,
)

# The ridge of the calibration, as a fraction of the mean diagonal entry. It is needed
# because y, y^2 and y^3 are nearly equal if predictions are near 0 or 1.
RIDGE = 1e-8


@dataclass
class CalibratedState(State):
    """The chain ``W`` (t, d, k), ``V`` (t, m k, k) of t rounds, and its predictions.

    V_t is the paper's W~_t, transposed. ``predictions`` (n, k) are y^ for the training
    rows. Three squared errors, each a mean over rows of the squared distance to y, are
    for y~ (``fitted``), for y^ before the projection (``refitted``) and for y^
    (``squared_error``). ``basis`` and ``hinges`` are the parameters of the run.
    """

    round: int
    W: Array
    V: Array
    predictions: Array
    fitted: float
    refitted: float
    squared_error: float
    basis: int
    hinges: bool

    def scores(self, X: Matrix) -> Array:
        """Return the predictions (n, k), by applying all rounds one after another."""
        X = check_sparse(X)
        t, d, k = self.W.shape
        Y = np.zeros((X.shape[0], k), self.predictions.dtype)
        wide = self.W.transpose(1, 0, 2).reshape(d, t * k)
        wide = np.ascontiguousarray(wide, Y.dtype)
        V = self.V.astype(Y.dtype)
        for rows in pieces(len(Y), GRAM_ROWS):
            steps = np.asarray(X[rows] @ wide).reshape(len(Y[rows]), t, k)
            for i in range(t):
                fitted = Y[rows] + steps[:, i]
                Y[rows] = expanded(fitted, self.basis, self.hinges) @ V[i]
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
    """Fit E[y | x] = g(W'x), where g's inverse is a combination of basis functions.

    A round of Algorithm 2 fits the residuals of the predictions (18), fits the targets
    by functions of the sum (19), and projects onto the simplex. None of these three
    steps raises the squared error. Predictions for other rows repeat all rounds, so the
    model grows with each round. The problem is not convex, and its only known lower
    bound is zero.

    Parameters
    ----------
    alpha : float > 0, the ridge penalty of the fits (18), relative to the mean squared
        error of a row, weighted by the problem's weights. The fits (19) have a small
        ridge of their own, which pulls towards the identity
    basis : int >= 1, the number m of functions y, y^2, ..., y^m (3 in section 3.1)
    hinges : bool, whether max(y - j/m, 0), j = 1..m-1, replace the powers above the
        first, which gives a piecewise linear link, as in isotonic regression. The paper
        does not say which functions G has

    Raises
    ------
    ValueError
        If `alpha`, `basis` or `hinges` is out of its range, or there are too many
        features for one Gram matrix.
    """
    alpha = check_positive(alpha, "alpha")
    X = problem.X
    n = problem.n
    d = problem.d
    k = problem.k
    q = check_whole(basis, "basis") * k
    check_flags(hinges=hinges)
    check_size(d)
    check_size(q, f"basis: for {k} classes its")
    H = gram(X, problem.weights)
    H.flat[:: d + 1] += alpha
    R = Factor(H)
    s = state
    if s is None:
        Y = np.zeros((n, k), X.dtype)
        first = mean_square(problem, Y)
        s = CalibratedState(
            round=0,
            W=np.zeros((0, d, k)),
            V=np.zeros((0, q, k)),
            predictions=Y,
            fitted=first,
            refitted=first,
            squared_error=first,
            basis=basis,
            hinges=hinges,
        )
    yield s
    while True:  # repeat
        # (18): W_t fits the residuals, and y~_i = y^_i^(t-1) + W_t x_i
        W = fit_residual(problem, R, s.predictions)
        Y = s.predictions.copy()
        for rows in pieces(n, GRAM_ROWS):
            Y[rows] += X[rows] @ W.astype(X.dtype)
        s.fitted = mean_square(problem, Y)
        # (19): W~_t fits the targets, and y^_i = clip(W~_t G(y~_i))
        V = calibrate(problem, Y, basis, hinges)
        for rows in pieces(n, GRAM_ROWS):
            Y[rows] = expanded(Y[rows], basis, hinges) @ V
        s.refitted = mean_square(problem, Y)
        project(Y)
        s.squared_error = mean_square(problem, Y)
        s.W = np.concatenate([s.W, [W]])
        s.V = np.concatenate([s.V, [V]])
        s.predictions = Y
        s.round += 1
        yield s


def fit_residual(problem: Problem, R: Factor, predictions: Array) -> Array:
    """Return the W_t (d, k) of (18): the fit of y_i - y^_i^(t-1) to x_i.

    `R` is the factor of the rows' second moment plus alpha I.
    """
    X = problem.X
    G = np.zeros((problem.d, problem.k))
    for rows in pieces(problem.n, cached_rows(X)):
        rest = targets(problem.y[rows], problem.k, X.dtype) - predictions[rows]
        rest = rest * problem.weights[rows, None]
        G += X[rows].T @ rest.astype(X.dtype, copy=False)
    return R.solve(G / problem.weights.sum())


def calibrate(problem: Problem, Y: Array, basis: int, hinges: bool) -> Array:
    """Return the W~_t (q, k) of (19), transposed, from the y~ (n, k) of (18).

    Its ridge pulls towards the calibration that changes nothing, because a ridge
    towards 0 could raise the squared error.
    """
    k = Y.shape[1]
    q = basis * k
    B_B = np.zeros((q, q))
    B_rest = np.zeros((q, k))
    for rows in pieces(problem.n, GRAM_ROWS):
        weights = problem.weights[rows]
        B = expanded(Y[rows], basis, hinges).astype(np.float64, copy=False)
        B = by_root(B, weights)
        rest = by_root(targets(problem.y[rows], k, np.float64) - Y[rows], weights)
        B_B += B.T @ B
        B_rest += B.T @ rest
    B_B.flat[:: q + 1] += RIDGE * np.trace(B_B) / q + np.finfo(float).tiny
    return np.eye(q, k) + Factor(B_B).solve(B_rest)


def expanded(Y: Array, basis: int, hinges: bool) -> Array:
    """Return the basis functions G(Y) of (n, k) predictions, side by side."""
    if hinges:
        return np.hstack([Y, *(np.maximum(Y - j / basis, 0) for j in range(1, basis))])
    powers = [Y]
    for _ in range(basis - 1):
        powers.append(powers[-1] * Y)
    return np.hstack(powers)


@njit(nogil=True)
def project(V):
    """Project every row of (n, k) `V` onto {v >= 0, sum v = 1}, in place (Duchi et al.,
    ICML 2008).

    The threshold of a row is found without sorting, from the mean of the entries above
    it. The set of these entries shrinks, and always contains the entries that the
    projection keeps (Michelot, 1986).
    """
    n, k = V.shape
    for i in range(n):
        above = k
        theta = 0.0
        for c in range(k):
            theta += V[i, c]
        theta = (theta - 1.0) / k
        while True:
            total = 0.0
            count = 0
            for c in range(k):
                if V[i, c] > theta:
                    total += V[i, c]
                    count += 1
            if count == 0 or count >= above:
                break
            theta = (total - 1.0) / count
            above = count
        for c in range(k):
            V[i, c] = max(V[i, c] - theta, 0.0)


def targets(y: Array, k: int, dtype) -> Array:
    """Return (n, k) targets of zeros and ones."""
    return (y[:, None] == np.arange(k)).astype(dtype)


def mean_square(problem: Problem, Y: Array) -> float:
    """Return the weighted mean over rows of |y - Y|^2, in float64."""
    total = 0.0
    for rows in pieces(problem.n, GRAM_ROWS):
        rest = targets(problem.y[rows], problem.k, np.float64) - Y[rows]
        rest = by_root(rest, problem.weights[rows])
        total += float(np.vdot(rest, rest))
    return total / float(problem.weights.sum())
