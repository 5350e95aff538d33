"""Solutions to any accuracy from a close start: exact steps on the pairs that are free.

At the solution at most as many dual variables B_ij lie strictly between 0 and C as W
has degrees of freedom, unless rows are degenerate. From a start with nearly the right
ones, a quadratic programme in the free pairs and those that violate the condition of
their bound is solved by block principal pivoting (Júdice and Pires 1994). Coordinate
descent finishes what this refuses; alone, it takes 13 times as long or more on the data
of `certified_tuning`.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from workbench.core.problem import Problem
from workbench.kernels.rows import squared_norms
from workbench.weston_watkins.dual import WWState, objectives
from workbench.weston_watkins.fast import descent

RIDGE = (
    1e-9  # multiple of the mean |x|^2 on the diagonal, which pairs of equal rows lack
)
ENTERING = (
    50  # violating pairs that may enter, or half as many as are free if these are more
)
CROWDED = 2.0  # free pairs per degree of freedom of W, above which nothing is solved
PASSES = 20  # systems of pairs at most
PIVOTS = 40  # exchanges of pairs for one system at most
FALLS = 3  # exchanges without fewer wrong signs before single pairs are exchanged
NOISE = 1e-13  # a gap below this fraction of the objective is rounding
ROUNDS = 3000  # rounds of coordinate descent at most


def solved(problem: Problem, state: WWState, gap: float) -> WWState:
    """Return a state whose duality gap is at most `gap`, absolute, or only rounding.

    The given one has its ``level`` equal to ``C``, ``B`` in [0, C] and the W that B
    makes.
    """
    exact(problem, state, gap)
    if state.primal - state.dual <= max(gap, NOISE * state.primal):
        return state
    state.round, state.updates = (
        max(state.round, 2),
        1.0,
    )  # it neither measures nor starts again
    state.first = state.primal - state.dual
    steps = descent(problem, state.C, 0, state)
    return next((s for s in islice(steps, ROUNDS) if s.primal - s.dual <= gap), state)


def exact(problem: Problem, state: WWState, gap: float) -> None:
    """Take ``state.B`` to a duality gap of `gap` in place, as far as free pairs alone
    can."""
    y, k, C = problem.y, problem.k, state.C
    rows, B = np.arange(problem.n), np.ascontiguousarray(state.B[:, :k])
    most = C * problem.weights[:, None] + np.zeros(k)
    norms = squared_norms(problem.X)
    movable = np.repeat(norms[:, None] > 0.0, k, axis=1)
    movable[rows, y] = False
    W, crowd = combined(problem, B), CROWDED * problem.d * (k - 1)
    for _ in range(PASSES):
        z = np.asarray(problem.X @ W)
        z += 1.0 - z[rows, y][:, None]
        z[rows, y] = 0.0
        half = 0.5 * float(np.vdot(W, W))
        primal = half + C * float(problem.weights @ np.maximum(z, 0.0).sum(axis=1))
        gap_now = primal - (float(B.sum()) - half)
        if gap_now <= max(gap, NOISE * primal):
            break
        free = np.flatnonzero(movable & (B > 0.0) & (B < most))
        if len(free) > crowd:
            break
        violating = movable & ((B <= 0.0) & (z > 0.0) | (B >= most) & (z < 0.0))
        entering = np.flatnonzero(violating)
        few = max(ENTERING, len(free) // 2)
        if len(entering) > few:
            size = np.abs(z.ravel()[entering])
            entering = entering[np.argpartition(-size, few)[:few]]
        i, j = np.unravel_index(np.concatenate([free, entering]), B.shape)
        some, place = np.unique(i, return_inverse=True)
        X, D = problem.X[some].astype(float), np.eye(k)[y[i]] - np.eye(k)[j]
        X = X.toarray() if sp.issparse(X) else X
        M = (X @ X.T)[np.ix_(place, place)] * (
            D @ D.T
        )  # products of the x_i (e_{y_i} - e_j)'
        M[np.diag_indices(len(i))] += RIDGE * norms.mean()
        found = pivoted(M, z[i, j], B[i, j], most[i, j], crowd)
        if found is None:
            break
        B[i, j] = found
        W = combined(problem, B)
    state.B[:, :k], state.W[:, :k] = B, W
    state.primal, state.dual, _ = objectives(problem, state.W, state.B, C)


def combined(problem: Problem, B: np.ndarray) -> np.ndarray:
    """Return W = sum_i x_i (S_i e_{y_i} - B_i)' (d, k) of (n, k) dual variables."""
    weights = -B
    weights[np.arange(problem.n), problem.y] += B.sum(axis=1)
    return np.asarray(problem.X.T @ weights)


def pivoted(M, gradient, x, most, crowd) -> np.ndarray | None:
    """Return the maximiser of g.d - d'Md/2 with 0 <= x + d <= most, as x + d, or None.

    Every index is at 0, at its bound or free. The free ones solve their equations; then
    all that leave their bounds, and all at a bound whose sign is wrong, change places
    at once, or one at a time when that does not lower their number. None after too many
    exchanges, when more than `crowd` indices are free, or when M is singular on them.
    """
    at_zero = gradient + M @ x  # the gradient at x = 0
    free, above = (x > 0.0) & (x < most), x >= most
    fewest, left = len(x) + 1, FALLS
    for _ in range(PIVOTS):
        if free.sum() > crowd:
            return None
        found = np.where(above, most, 0.0)
        slope = at_zero - M @ found
        F = np.flatnonzero(free)
        if len(F):
            try:
                factor = cho_factor(M[np.ix_(F, F)], lower=True, check_finite=False)
            except LinAlgError:
                return None
            step = np.zeros(len(x))
            step[F] = cho_solve(factor, slope[F], check_finite=False)
            found += step
            slope = slope - M @ step
        below, over = free & (found < 0.0), free & (found > most)
        back = (
            ~free & np.where(above, slope < 0.0, slope > 0.0) & (np.abs(slope) > NOISE)
        )
        wrong = np.flatnonzero(below | over | back)
        if not len(wrong):
            return np.clip(found, 0.0, most)
        if len(wrong) < fewest:
            fewest, left = len(wrong), FALLS
        elif left:
            left -= 1
        else:
            last = np.arange(len(x)) == wrong[-1]
            below, over, back = below & last, over & last, back & last
        free = (free & ~below & ~over) | back
        above = (above & ~back) | over
    return None
