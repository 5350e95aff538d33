"""Certified tuning of a Weston-Watkins SVM: no C of a range has fewer validation
errors, proven.

A knot is a value C_i, a dual point A_i in [0, C_i], the W_i that it makes, its duality
gap G_i and its sum of hinges L_i. Between two knots, for t in [0, 1], with C = (1 - t)
C_1 + t C_2 and W(t) = (1 - t) W_1 + t W_2,

    |W*(C) - W(t)|^2 <= r^2(t) = (1 - t) G_1 + t G_2 + t (1 - t) R^2,                           (T2)
    R^2 = (C_2 - C_1)(L_1 - L_2) - |W_1 - W_2|^2,

since the mixture of the A_i is feasible at C and makes W(t), and the gap at a pair (W,
A) with W = V_A bounds |W*(C) - W|^2 (P is strongly convex, and so is -D in V). Class p
beats q for row x under W*(C) if it does under W(t) by more than sqrt(2) r(t) |x|.
Margins of W(t) are linear in t, so that each row is undecided on one interval of t, and
the errors that are certain are a step function of C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.sparse import issparse

from workbench.core.certificates import EPS, svm_bounds
from workbench.core.checks import as_number, check_matrix, check_positive, encode, shown
from workbench.core.problem import Matrix, Problem
from workbench.core.state import resumable
from workbench.kernels.rows import lanes, squared_norms
from workbench.weston_watkins.dual import WWState, fill, objectives
from workbench.weston_watkins.pivoting import combined, solved
from workbench.weston_watkins.tuning_state import EDGES, PIECES, Tuning, start

STEP = 1.25  # ratio of neighbouring values of the scan
MARGIN = (
    1e-7  # added to either side of an undecided interval, for the rounding of its roots
)
SCAN_GAP = 1e-4  # gap of the scan's solutions, relative to the objective
MAX_GAP, GOAL_GAP = (
    0.05,
    0.01,
)  # relative to R^2: ends with a larger gap are solved on, to the goal
AT_BOUND = (
    1e-12  # relative distance from its bound within which a dual variable is put there
)
HALVED = 8.0  # R^2 of an interval over that of its halves, roughly
NARROW = 1e-9  # relative width below which an interval is given up


@resumable()
def certify_path(
    problem: Problem,
    X_val: Matrix,
    y_val: np.ndarray,
    C_range: tuple[float, float],
    eps: float = 0.005,
    *,
    seed: int = 0,
    state: Tuning | None = None,
) -> Iterator[Tuning]:
    """Yield, one solution at a time, what is proven of the validation error over all C
    of a range.

    1. Solve along a scan from the smallest C up, each knot from the last one's dual
       point, scaled.
    2. Take the open interval with the fewest errors at its ends. Close it where no C in
       it has fewer errors than the chosen one by more than eps. Else solve its ends
       further if they are too inaccurate to decide, give it up if rounding alone is in
       the way, or halve it at its geometric middle, solved from the mixture of its
       ends' dual points, which is feasible there with a gap of at most r^2.

    The stream ends when all intervals are closed. Stopped at any moment,
    ``state.achieved`` is proven. It holds for exact solutions: a loosely solved one can
    be luckier.

    Parameters
    ----------
    X_val, y_val : (m, d) validation rows, and their labels (m,), of the problem's
        classes
    C_range : (C_lo, C_hi), positive, C_lo < C_hi
    eps : fraction of the validation rows, in [0, 1)
    seed : int, seeds the order of the rows where coordinate descent is needed

    Raises
    ------
    ValueError
        If an argument is not as above; the message names it.
    """
    X_val = check_matrix(X_val, "X_val")
    if X_val.shape[1] != problem.d:
        raise ValueError(
            f"X_val: has {X_val.shape[1]} features, the problem has {problem.d}"
        )
    y_val = encode(np.asarray(y_val), problem.classes, "y_val")
    if len(y_val) != X_val.shape[0]:
        raise ValueError(f"y_val: has {len(y_val)} labels for {X_val.shape[0]} rows")
    low, high = (check_positive(end, "C_range") for end in C_range)
    if not low < high:
        raise ValueError(
            f"C_range: must be two numbers in ascending order, got {shown(C_range)}"
        )
    if not 0.0 <= as_number(eps) < 1.0:
        raise ValueError(
            f"eps: must be a number of at least 0 and below 1, got {shown(eps)}"
        )
    ends = np.array([low, high])
    state = start(problem, len(y_val), eps, ends, seed) if state is None else state
    yield from Search(state, problem, X_val, y_val).steps(scanned(ends))


class Search:
    """The moves of a certified search on its state, which contains all that they decide
    by."""

    per_knot = (
        "at",
        "W",
        "errors",
        "gap",
        "loss",
        "blur",
        "drift",
    )  # have a row per knot

    def __init__(self, state: Tuning, problem: Problem, X: Matrix, y: np.ndarray):
        self.s, self.problem, self.y = state, problem, y
        self.norms = squared_norms(problem.X)
        # W is 0 at features that no training row has: without them, bounds are the
        # tighter.
        used = np.asarray(abs(problem.X).sum(axis=0)).ravel() > 0.0
        self.X = (
            X if used.all() else X.multiply(used).tocsr() if issparse(X) else X * used
        )
        self.lengths = np.sqrt(squared_norms(self.X))

    def steps(self, scan: np.ndarray) -> Iterator[Tuning]:
        """Yield the state after each solution: of the scan, then inside intervals."""
        s = self.s
        yield s
        for C in scan[len(s.at) :]:
            last = len(s.at) - 1
            B = (
                self.duals(last) * (C / s.at[last])
                if last >= 0
                else np.zeros(s.B.shape[1:])
            )
            self.add_knot(float(C), B, None)
            if last >= 0:
                self.join(last, last + 1)
            if last == len(scan) - 2:
                self.next()
            yield s
        i = self.next()
        while i is not None:
            a, b = int(s.left[i]), int(s.right[i])
            if self.refine(a, b):
                s.round += 1
            elif self.curvature(a, b) <= s.gap[[a, b]].min():
                self.close(
                    i
                )  # R^2 adds nothing: undecided rows may have equal scores throughout
            else:
                self.halve(i, a, b)
            i = self.next()
            yield s

    def count_errors(self, knot: int) -> None:
        """Count the errors of a knot whose W is known, and choose it if they are fewer.

        A knot that is solved on may have more errors than before: the chosen classifier
        stays.
        """
        s = self.s
        s.errors[knot] = np.count_nonzero(
            np.argmax(self.scores(knot), axis=1) != self.y
        )
        if s.errors[knot] < s.fewest:
            s.fewest, s.chosen = int(s.errors[knot]), float(s.at[knot])
            s.chosen_W = s.W[knot].copy()

    def scores(self, knot: int) -> np.ndarray:
        """Return the scores (m, k) of a knot on the validation rows."""
        return np.asarray(self.X @ self.s.W[knot], dtype=float)

    def join(self, a: int, b: int) -> None:
        """Open the interval between two knots."""
        s = self.s
        s.left, s.right = np.append(s.left, a), np.append(s.right, b)
        s.open = np.append(s.open, True)
        empty = np.zeros((1, PIECES), np.int64)
        s.lower = np.concatenate([s.lower, empty])
        s.upper = np.concatenate([s.upper, empty + s.rows])
        self.judge(len(s.left) - 1)

    def halve(self, i: int, a: int, b: int) -> None:
        """Let interval i from knot a to b end at their geometric middle, where another
        begins."""
        s, C = self.s, math.sqrt(self.s.at[a] * self.s.at[b])
        t = (C - s.at[a]) / (s.at[b] - s.at[a])
        B = (1.0 - t) * self.duals(a) + t * self.duals(b)
        middle = self.add_knot(C, B, GOAL_GAP / HALVED * self.curvature(a, b))
        s.right[i], s.lower[i], s.upper[i] = middle, 0, s.rows
        self.judge(i)
        self.join(middle, b)

    def next(self) -> int | None:
        """Close what is proven or too narrow; return the open interval with the fewest
        errors."""
        s = self.s
        while s.open.any():
            ends = np.minimum(s.errors[s.left], s.errors[s.right])
            i = int(np.lexsort((s.at[s.left], ends, ~s.open))[0])
            narrow = s.at[s.right[i]] <= s.at[s.left[i]] * (1.0 + NARROW)
            if s.lower[i].min() < s.target and not narrow:
                return i
            self.close(i)
        return None

    def judge(self, i: int) -> None:
        """Bound the errors in each piece of an interval."""
        s = self.s
        maybe_right, maybe_wrong = self.undecided(int(s.left[i]), int(s.right[i]))
        for q in range(PIECES):
            piece = EDGES[q], EDGES[q + 1]
            lower = s.rows - most_at_once(maybe_right, *piece)
            s.lower[i, q] = max(s.lower[i, q], lower)
            s.upper[i, q] = min(s.upper[i, q], most_at_once(maybe_wrong, *piece))

    def undecided(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the [t_1, t_2] (m, 2) on which rows may be right, and on which they
        may be wrong.

        Outside the first a row is certainly wrong, outside the second certainly right.
        """
        s, own = self.s, (np.arange(len(self.y)), self.y)
        # Of each class over the row's own, at the two ends.
        leads = [V - V[own][:, None] for V in map(self.scores, (a, b))]
        size = max(np.linalg.norm(s.W[a]), np.linalg.norm(s.W[b]))
        moved = math.sqrt(2.0) * max(
            s.drift[a], s.drift[b]
        )  # by rounding, as is a product
        slack = self.lengths[:, None] * (
            moved + 2.0 * EPS * (self.problem.d + 4.0) * size
        )
        slack = slack + 1e-9 * (np.abs(leads[0]) + np.abs(leads[1]))
        # Right at most while no other class certainly leads.
        t_1, t_2 = self.uncertain(a, b, *(lead - slack for lead in leads))
        t_1[own], t_2[own] = -np.inf, np.inf
        maybe_right = np.stack([t_1.max(axis=1), t_2.min(axis=1)], axis=1)
        # Wrong at most while some other class is not certainly behind.
        t_1, t_2 = self.uncertain(a, b, *(-lead - slack for lead in leads))
        t_1[own], t_2[own] = np.inf, -np.inf
        maybe_wrong = np.stack([t_1.min(axis=1), t_2.max(axis=1)], axis=1)
        zero = (
            self.lengths == 0.0
        )  # all scores are zero, and the first class is predicted
        maybe_right[zero & (self.y > 0)] = np.inf, -np.inf
        maybe_wrong[zero & (self.y == 0)] = np.inf, -np.inf
        return maybe_right, maybe_wrong

    def duals(self, knot: int) -> np.ndarray:
        """Return the dual point (rows, k) of a knot that is an end of an open
        interval."""
        return self.s.B[np.flatnonzero(self.s.owner == knot)[0]]

    def add_knot(self, C: float, B: np.ndarray, gap: float | None) -> int:
        """Solve at C from a feasible dual point to an absolute gap, and return the
        knot."""
        s, knot = self.s, len(self.s.at)
        for name in self.per_knot:
            array = getattr(s, name)
            setattr(
                s,
                name,
                np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)]),
            )
        s.at[knot] = C
        s.B, s.owner = np.concatenate([s.B, B[None]]), np.append(s.owner, knot)
        self.solve(knot, gap)
        s.round += 1
        return knot

    def refine(self, a: int, b: int) -> bool:
        """Solve knots on whose gaps are not small against R^2; return whether a gap was
        halved."""
        s, R2, better = self.s, self.curvature(a, b), False
        for knot in (a, b):
            if s.gap[knot] > MAX_GAP * R2:
                before = float(s.gap[knot])
                self.solve(knot, GOAL_GAP * R2)
                for i in np.flatnonzero((s.left == knot) | (s.right == knot)):
                    self.judge(int(i))
                better |= bool(s.gap[knot] < 0.5 * before)  # else only rounding is left
        return better

    def close(self, i: int) -> None:
        """Close an interval, and drop the dual points that no open interval needs."""
        s = self.s
        s.open[i] = False
        kept = np.isin(s.owner, np.union1d(s.left[s.open], s.right[s.open]))
        s.B, s.owner = s.B[kept], s.owner[kept]

    def solve(self, knot: int, gap: float | None) -> None:
        """Solve a knot from its dual point to its gap, and note what follows from
        it."""
        s, problem, C, B = (
            self.s,
            self.problem,
            float(self.s.at[knot]),
            self.duals(knot),
        )
        k, most = problem.k, C * problem.weights[:, None]
        # Variables at their bound are put there exactly.
        rows = np.where(B > (1.0 - AT_BOUND) * most, most, np.maximum(B, 0.0))
        fill(rows, problem.y, self.norms, C, k, problem.weights)
        W, A = np.zeros((problem.d, lanes(k))), np.zeros((problem.n, lanes(k)))
        A[:, :k], W[:, :k] = rows, combined(problem, rows)
        primal, dual, _ = objectives(problem, W, A, C)
        zero = C * float(problem.weights.sum()) * (k - 1.0)
        gap = SCAN_GAP * min(primal, zero) if gap is None else gap
        rng = np.random.default_rng(s.rng.integers(2**63))
        at = WWState(
            2, rng, k, W, A, primal, dual, 0.0, math.inf, C=C, level=C, since=2
        )
        if primal - dual > gap:
            at = solved(problem, at, gap)
        B[:] = at.B[:, :k]
        self.note(knot, C, at)
        self.count_errors(knot)

    def note(self, knot: int, C: float, at: WWState) -> None:
        """Keep W, computed from its dual point, with its certificate and all
        rounding."""
        s, problem, k = self.s, self.problem, self.problem.k
        A = at.B[:, :k]
        W = np.zeros_like(at.W)
        W[:, :k] = combined(problem, A)
        primal, dual, room = objectives(problem, W, at.B, C)
        square, terms = float(np.vdot(W, W)), problem.n + problem.d + k
        pull = 2.0 * float(np.sqrt(self.norms) @ A.sum(axis=1))
        linear = dual + 0.5 * square
        lower, upper = svm_bounds(primal + room, linear, square, terms=terms, pull=pull)
        s.W[knot], s.gap[knot] = W[:, :k], upper - lower
        s.loss[knot] = (primal - 0.5 * square) / C
        s.blur[knot] = room / C + EPS * terms * primal / C
        s.drift[knot] = EPS * terms * pull

    def curvature(self, a: int, b: int) -> float:
        """Return R^2 between two knots, not below what rounding may hide."""
        s = self.s
        apart = np.linalg.norm(s.W[b] - s.W[a])
        size = np.linalg.norm(s.W[b]) + np.linalg.norm(s.W[a])
        drift = s.drift[a] + s.drift[b] + EPS * np.sqrt(s.W[0].size) * size
        loss = s.loss[a] - s.loss[b] + s.blur[a] + s.blur[b]
        return float(
            max((s.at[b] - s.at[a]) * loss - apart**2, 0.0) + 2.0 * drift * apart
        )

    def uncertain(self, a: int, b: int, at_a, at_b):
        """Return where margins (m, k) from `at_a` to `at_b` may be below sqrt(2) r(t)
        |x|.

        The square of the margin less that of its bound is a convex quadratic in t.
        """
        s, R2, scale = self.s, self.curvature(a, b), 2.0 * self.lengths[:, None] ** 2
        change, more = at_b - at_a, s.gap[b] - s.gap[a] + R2
        quadratic = change**2 + scale * R2, 2.0 * at_a * change - scale * more
        return between_roots(
            *quadratic, at_a**2 - scale * s.gap[a], at_a > 0.0, at_b > 0.0
        )


def scanned(ends: np.ndarray) -> np.ndarray:
    """Return values from one end of a range to the other, neighbours at most STEP
    apart."""
    low, high = ends
    values = np.geomspace(
        low, high, 1 + math.ceil(math.log(high / low) / math.log(STEP))
    )
    values[[0, -1]] = low, high
    return values


def between_roots(a, b, c, positive_0, positive_1) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of t in [0, 1] on which the convex a t^2 + b t + c may not be
    positive.

    `positive_0` and `positive_1` say whether it is at t = 0 and at t = 1. An interval
    with t_1 > t_2 is empty.
    """
    inner = b**2 - 4.0 * a * c
    half = -0.5 * (
        b + np.copysign(np.sqrt(np.maximum(inner, 0.0)), b)
    )  # without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([half / a, c / half])
    t_1 = np.where(positive_0 & (a > 0.0), np.fmin(*roots) - MARGIN, -np.inf)
    t_2 = np.where(positive_1 & (a > 0.0), np.fmax(*roots) + MARGIN, np.inf)
    nowhere = positive_0 & positive_1 & (inner < 0.0) & (a > 0.0)
    return np.where(nowhere, np.inf, t_1), np.where(nowhere, -np.inf, t_2)


def most_at_once(spans: np.ndarray, x: float, y: float) -> int:
    """Return the largest number of spans (s, 2) that share a single t in [x, y]."""
    t_1, t_2 = spans[(spans[:, 0] <= y) & (spans[:, 1] >= x)].T
    if not len(t_1):
        return 0
    t_1, t_2 = np.sort(np.maximum(t_1, x)), np.sort(t_2)
    inside = np.searchsorted(t_1, t_1, "right") - np.searchsorted(t_2, t_1, "left")
    return int(inside.max())
