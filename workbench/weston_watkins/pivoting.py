"""Solve to any accuracy from a close start, by exact steps on the pairs that are free.

At the solution, at most as many dual variables B_ij lie strictly between 0 and C as W
has degrees of freedom, unless rows are degenerate. From a start with nearly the right
free variables, block principal pivoting (Júdice and Pires 1994) solves a quadratic
program in the free pairs (i, j) and in the pairs that violate the condition of their
bound. Coordinate descent solves what this method refuses; used alone, it takes at least
13 times as long on the data of `certified_tuning`.
"""

from itertools import islice

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from workbench.core.problem import Array, Problem
from workbench.kernels.rows import squared_norms
from workbench.weston_watkins.dual import WWState, losses
from workbench.weston_watkins.fast import descent

# This multiple of the mean |x|^2 is added to the diagonal, because the matrix of pairs
# with equal rows is singular.
RIDGE = 1e-9
# The largest number of violating pairs that enter together, or half the number of free
# pairs if that is larger.
ENTERING = 50
# The largest number of free pairs per degree of freedom of W for which a system is
# solved.
CROWDED = 2.0
PASSES = 20  # the largest number of systems
PIVOTS = 40  # the largest number of exchanges of pairs for one system
FALLS = 3  # exchanges of all pairs without progress before single ones are exchanged
NOISE = 1e-13  # a gap below this fraction of the objective is rounding
ROUNDS = 3000  # the largest number of rounds of coordinate descent


def solved(problem: Problem, state: WWState, gap: float) -> WWState:
    """Return a state whose duality gap is at most `gap`, absolute, or only rounding.

    The given state must have ``level`` equal to ``C``, ``B`` in [0, C], and the W of
    this B.
    """
    exact(problem, state, gap)
    if state.primal - state.dual <= max(gap, NOISE * state.primal):
        return state
    # With these values, coordinate descent neither measures a first gap nor starts its
    # continuation.
    state.round = max(state.round, 2)
    state.updates = 1.0
    state.first = state.primal - state.dual
    for s in islice(descent(problem, state.C, 0, state), ROUNDS):
        if s.primal - s.dual <= gap:
            return s
    return state


def exact(problem: Problem, state: WWState, gap: float) -> None:
    """Reduce the gap of ``state.B`` to `gap` in place, as far as pivoting succeeds."""
    k = problem.k
    C = state.C
    labels = np.arange(problem.n), problem.y
    norms = squared_norms(problem.X)
    B = np.ascontiguousarray(state.B[:, :k])
    bound = C * problem.weights[:, None] + np.zeros(k)
    movable = np.repeat(norms[:, None] > 0.0, k, axis=1)
    movable[labels] = False
    max_free = CROWDED * problem.d * (k - 1)
    W = combined(problem, B)
    for _ in range(PASSES):
        # 1. The gap at W.
        z = np.asarray(problem.X @ W)
        z += 1.0 - z[labels][:, None]
        z[labels] = 0.0
        half = 0.5 * float(np.vdot(W, W))
        primal = half + C * float(problem.weights @ np.maximum(z, 0.0).sum(axis=1))
        dual = float(B.sum()) - half
        if primal - dual <= max(gap, NOISE * primal):
            break

        # 2. The free pairs, and the most violating ones.
        free = np.flatnonzero(movable & (B > 0.0) & (B < bound))
        if len(free) > max_free:
            break
        violating = (B <= 0.0) & (z > 0.0) | (B >= bound) & (z < 0.0)
        entering = np.flatnonzero(movable & violating)
        count = max(ENTERING, len(free) // 2)
        if len(entering) > count:
            size = np.abs(z.ravel()[entering])
            entering = entering[np.argpartition(-size, count)[:count]]
        i, j = np.unravel_index(np.concatenate([free, entering]), B.shape)

        # 3. The matrix of inner products of all x_i (e_{y_i} - e_j)', and the solution.
        rows, place = np.unique(i, return_inverse=True)
        X = problem.X[rows].astype(float)
        if sp.issparse(X):
            X = X.toarray()
        D = np.eye(k)[problem.y[i]] - np.eye(k)[j]
        M = (X @ X.T)[np.ix_(place, place)] * (D @ D.T)
        M[np.diag_indices(len(i))] += RIDGE * norms.mean()
        solution = pivoted(M, z[i, j], B[i, j], bound[i, j], max_free)
        if solution is None:
            break
        B[i, j] = solution
        W = combined(problem, B)
    state.B[:, :k] = B
    state.W[:, :k] = W
    state.judged(norms, *losses(problem, state.W, C))


def combined(problem: Problem, B: Array) -> Array:
    """Return W = sum_i x_i (S_i e_{y_i} - B_i)' (d, k) for (n, k) dual variables."""
    weights = -B
    weights[np.arange(problem.n), problem.y] += B.sum(axis=1)
    return np.asarray(problem.X.T @ weights)


def pivoted(
    M: Array, gradient: Array, x: Array, bound: Array, max_free
) -> Array | None:
    """Return x + step, where step maximises g.step - step'M step/2, or None.

    Every x + step stays between 0 and its `bound`. Every index is at 0, at its bound or
    free. The free indices solve their equations. Then all indices that leave their
    bounds, and all at a bound with the wrong sign of the gradient, are exchanged at
    once, or one at a time if that does not lower their number. The result is None after
    too many exchanges, if more than `max_free` indices are free, or if M is singular on
    them.
    """
    gradient_at_0 = gradient + M @ x
    above = x >= bound
    free = (x > 0.0) & ~above
    fewest = len(x) + 1
    falls_left = FALLS
    for _ in range(PIVOTS):
        if free.sum() > max_free:
            return None
        solution = np.where(above, bound, 0.0)
        slope = gradient_at_0 - M @ solution
        F = np.flatnonzero(free)
        if len(F):
            try:
                factor = cho_factor(M[np.ix_(F, F)], lower=True, check_finite=False)
            except LinAlgError:
                return None
            step = np.zeros(len(x))
            step[F] = cho_solve(factor, slope[F], check_finite=False)
            solution += step
            slope = slope - M @ step
        falls = free & (solution < 0.0)
        rises = free & (solution > bound)
        wrong_sign = np.where(above, slope < 0.0, slope > 0.0)
        returns = ~free & wrong_sign & (np.abs(slope) > NOISE)
        wrong = np.flatnonzero(falls | rises | returns)
        if not len(wrong):
            return np.clip(solution, 0.0, bound)
        if len(wrong) < fewest:
            fewest = len(wrong)
            falls_left = FALLS
        elif falls_left:
            falls_left -= 1
        else:
            last = np.arange(len(x)) == wrong[-1]
            falls &= last
            rises &= last
            returns &= last
        free = (free & ~falls & ~rises) | returns
        above = (above & ~returns) | rises
    return None
