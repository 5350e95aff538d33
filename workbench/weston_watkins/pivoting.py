"""Solutions to any accuracy from a close start: exact steps on the pairs that are free.

At the solution most dual variables B_ij are 0 or C, and few, at most as many as W has degrees of
freedom unless rows are degenerate, lie between. Where a start has nearly the right ones, the
solution is one system of linear equations in these away: a quadratic programme in the free pairs
and those that violate their bound's condition, solved by block principal pivoting (Júdice and
Pires 1994). Coordinate descent (:mod:`workbench.weston_watkins.fast`) is better from afar, and
finishes what this refuses.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from workbench.core.problem import Problem
from workbench.kernels.rows import squared_norms
from workbench.weston_watkins.dual import WWState, evaluated
from workbench.weston_watkins.fast import ww_walrus_fast

RIDGE = 1e-9  # times the mean |x|^2: added to the diagonal, what pairs of equal rows would lack
ENTERING = 50  # violating pairs that may enter at least, and half as many as are free
CROWDED = 2.0  # free pairs, over the degrees of freedom of W, above which equations have no sense
PASSES = 20  # systems of pairs
PIVOTS = 40  # exchanges of pairs for one system
SIMILAR = 0.1  # indices that change, over those of a factor, for which it is used again
FALLS = 3  # exchanges without fewer wrong signs before single pairs are exchanged
NOISE = 1e-13  # a gap below this fraction of the objective is rounding
ROUNDS = 3000  # of coordinate descent


def solved(problem: Problem, state: WWState, gap: float) -> WWState:
    """Return a state whose duality gap is at most `gap`, or only rounding, from one at its C.

    Parameters
    ----------
    state : with ``level`` equal to ``C``, and ``B`` in [0, C]; W is made of B
    gap : positive, absolute
    """
    exact(problem, state, gap)
    if state.primal - state.dual <= max(gap, NOISE * state.primal):
        return state
    state.round, state.updates = max(state.round, 2), 1.0  # it neither measures nor starts again
    state.first = state.primal - state.dual
    steps = ww_walrus_fast(problem, C=state.C, state=state)
    return next((s for s in islice(steps, ROUNDS) if s.primal - s.dual <= gap), state)


def exact(problem: Problem, state: WWState, gap: float) -> None:
    """Take ``state.B`` to a duality gap of `gap` in place, as far as free pairs alone can."""
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
        M = products(problem, i, j)
        M[np.diag_indices(len(i))] += RIDGE * norms.mean()
        found = pivoted(M, z[i, j], B[i, j], most[i, j], crowd)
        if found is None:
            break
        B[i, j] = found
        W = combined(problem, B)
    state.B[:, :k], state.W[:, :k] = B, W
    state.primal, state.dual, _ = evaluated(problem, state.W, state.B, C)


def combined(problem: Problem, B: np.ndarray) -> np.ndarray:
    """Return W = sum_i x_i (S_i e_{y_i} - B_i)' (d, k) of (n, k) dual variables."""
    weights = -B
    weights[np.arange(problem.n), problem.y] += B.sum(axis=1)
    return np.asarray(problem.X.T @ weights)


def products(problem: Problem, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return <X_f, X_g> (f, f) of the pairs f = (i_f, j_f), X_ij = x_i (e_{y_i} - e_j)'."""
    rows, place = np.unique(i, return_inverse=True)
    X, D = dense(problem.X[rows]), differences(problem.y[i], j, problem.k)
    return (X @ X.T)[np.ix_(place, place)] * (D @ D.T)


def dense(X) -> np.ndarray:
    """Return a few rows as a dense array of doubles."""
    return X.toarray().astype(float) if sp.issparse(X) else np.asarray(X, dtype=float)


def differences(y: np.ndarray, j: np.ndarray, k: int) -> np.ndarray:
    """Return e_y - e_j (f, k) of all pairs."""
    D = np.zeros((len(y), k))
    D[np.arange(len(y)), y] = 1.0
    D[np.arange(len(y)), j] -= 1.0
    return D


class Equations:
    """Those of a set of free indices, whose one factor also solves those of similar sets."""

    def __init__(self, M: np.ndarray, free: np.ndarray):
        self.M, self.free, self.F = M, free, np.flatnonzero(free)
        A = M[np.ix_(self.F, self.F)]
        self.factor, self.singular = lapack.dpotrf(A, lower=1, overwrite_a=1, clean=0)

    def near(self, free: np.ndarray) -> bool:
        """Return whether few indices are free that were not, or the other way round."""
        return (free ^ self.free).sum() <= SIMILAR * len(self.F)

    def solved(self, free: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Return x with (M x)_i = b_i where `free`, and 0 elsewhere; None if M is singular.

        New indices border the matrix, and so do multipliers of x_i = 0 for those free no longer.
        """
        if self.singular:
            return None
        F, x = self.F, np.zeros(len(b))
        new, old = np.flatnonzero(free & ~self.free), np.flatnonzero(~free[F])
        x[F], _ = lapack.dpotrs(self.factor, b[F], lower=1)
        q = len(new)
        if not q + len(old):
            return x
        border = np.zeros((len(F), q + len(old)))
        border[:, :q] = self.M[np.ix_(F, new)]
        border[old, q + np.arange(len(old))] = 1.0
        inner, _ = lapack.dpotrs(self.factor, border, lower=1)
        schur = -border.T @ inner
        schur[:q, :q] += self.M[np.ix_(new, new)]
        try:
            u = np.linalg.solve(schur, np.append(b[new], np.zeros(len(old))) - border.T @ x[F])
        except np.linalg.LinAlgError:
            return None
        x[F] -= inner @ u
        x[new], x[F[old]] = u[:q], 0.0
        return x


def pivoted(M, gradient, x, most, crowd) -> np.ndarray | None:
    """Return the maximiser of g.d - d'Md/2 with 0 <= x + d <= most, as x + d, or None.

    Every index is at 0, at its bound or free. The free ones solve their equations; then all that
    leave their bounds, and all at a bound whose sign is wrong, change places at once, or one at a
    time when that does not lower their number. None after too many exchanges, when more than
    `crowd` indices are free, or when M is singular on them.
    """
    at_zero = gradient + M @ x  # the gradient at x = 0
    free, above = (x > 0.0) & (x < most), x >= most
    fewest, left, equations = len(x) + 1, FALLS, None
    for _ in range(PIVOTS):
        if free.sum() > crowd:
            return None
        found = np.where(above, most, 0.0)
        slope = at_zero - M @ found
        if free.any():
            if equations is None or not equations.near(free):
                equations = Equations(M, free)
            step = equations.solved(free, slope)
            if step is None:
                return None
            found += step
            slope = slope - M @ step
        below, over = free & (found < 0.0), free & (found > most)
        back = ~free & np.where(above, slope < 0.0, slope > 0.0) & (np.abs(slope) > NOISE)
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
