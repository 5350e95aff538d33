"""Certified tuning: a proof that no C of a range has fewer validation errors.

A knot is a value C_i, a dual point A_i in [0, C_i], its primal point W_i, its duality
gap G_i and its sum of hinges L_i. Between two knots, for t in [0, 1], with C = (1 - t)
C_1 + t C_2 and W(t) = (1 - t) W_1 + t W_2,

    |W*(C) - W(t)|^2 <= r^2(t) = (1 - t) G_1 + t G_2 + t (1 - t) R^2,           (T2)
    R^2 = (C_2 - C_1)(L_1 - L_2) - |W_1 - W_2|^2,

since the mixture of the A_i is feasible at C and has the primal point W(t), and the gap
at a pair (W, A) with W = V_A bounds |W*(C) - W|^2 (P is strongly convex, and so is -D
in V). If class p beats class q for row x under W(t) by more than sqrt(2) r(t) |x|, it
also does under W*(C). Margins of W(t) are linear in t. So each row is undecided on one
interval of t, and the number of certain errors is a step function of C.
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.sparse import issparse

from workbench.core.certificates import EPS, svm_bounds
from workbench.core.checks import (
    as_number,
    check_labels,
    check_matrix,
    check_positive,
    encode,
    seeded,
    shown,
)
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import resumable
from workbench.kernels.rows import squared_norms
from workbench.weston_watkins.dual import WWState, fill, losses, start
from workbench.weston_watkins.pivoting import combined, solved
from workbench.weston_watkins.tuning_state import EDGES, PIECES, Interval, Knot, Tuning

STEP = 1.25  # ratio of neighbouring values of the scan
# Added to either side of an undecided interval of t, for the rounding of its roots.
MARGIN = 1e-7
SCAN_GAP = 1e-4  # gap of the scan's solutions, relative to the objective
# Ends whose gap exceeds MAX_GAP times R^2 are solved further, to GOAL_GAP times R^2.
MAX_GAP = 0.05
GOAL_GAP = 0.01
# A dual variable whose relative distance from its bound is smaller is set to the bound.
AT_BOUND = 1e-12
HALVED = 8.0  # the approximate ratio of R^2 of an interval to R^2 of its halves
NARROW = 1e-9  # relative width below which an interval is closed without proof


@resumable()
def certify_path(
    problem: Problem,
    X_val: Matrix,
    y_val: Array,
    C_range: tuple[float, float],
    eps: float = 0.005,
    *,
    seed: int = 0,
    state: Tuning | None = None,
) -> Iterator[Tuning]:
    """Yield proven bounds on the validation error for all C of a range.

    Each iterate has one more solution. 1. Solve along a scan from the smallest C up,
    each knot from the scaled dual point of the last knot. 2. Take the open interval
    with the fewest errors at its ends. Close it if no C in it has fewer errors than the
    chosen C by more than eps. Otherwise solve its ends more accurately if their gaps
    are too large, close it without proof if only rounding prevents a decision, or halve
    it at its geometric middle. The middle is solved from the mixture of the dual points
    of both ends, which is feasible there with a gap of at most r^2.

    The stream ends when all intervals are closed. Whenever it is stopped,
    ``state.achieved`` is proven. The proof is about exact solutions: an inexact
    solution may have fewer errors by chance.

    Parameters
    ----------
    X_val : (m, d) validation rows
    y_val : (m,) their labels, of the problem's classes
    C_range : (C_lo, C_hi) with 0 < C_lo < C_hi, the range of C
    eps : float in [0, 1), the excess error that is accepted, as a fraction of the
        validation rows
    seed : int >= 0, seeds the order of the rows if coordinate descent is needed

    Raises
    ------
    ValueError
        If an argument is not valid; the message names it.
    """
    X_val = check_matrix(X_val, "X_val")
    if X_val.shape[1] != problem.d:
        raise ValueError(
            f"X_val: has {X_val.shape[1]} features, the problem has {problem.d}"
        )
    y_val = check_labels(y_val, "y_val", X_val.shape[0])
    y_val = encode(y_val, problem.classes, "y_val")
    ends = np.array([check_positive(end, "C_range") for end in np.ravel(C_range)])
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise ValueError(
            f"C_range: must be two numbers in ascending order, got {shown(C_range)}"
        )
    if not 0.0 <= as_number(eps) < 1.0:
        raise ValueError(
            f"eps: must be a number of at least 0 and below 1, got {shown(eps)}"
        )
    if state is None:
        state = Tuning(
            round=0,
            rng=seeded(seed),
            eps=eps,
            rows=len(y_val),
            fewest=len(y_val),
            chosen=math.nan,
            chosen_W=np.zeros((problem.d, problem.k)),
            ends=ends,
            knots=[],
            intervals=[],
        )
    yield from Search(state, problem, X_val, y_val).steps(scanned(ends))


class Search:
    """The steps of a certified search, which change its state."""

    def __init__(self, state: Tuning, problem: Problem, X: Matrix, y: Array):
        self.s = state
        self.problem = problem
        self.y = y
        self.labels = np.arange(len(y)), y
        self.norms = squared_norms(problem.X)
        # W is 0 at features that no training row has; without them, bounds are tighter.
        used = np.asarray(abs(problem.X).sum(axis=0)).ravel() > 0.0
        if not used.all():
            X = X.multiply(used).tocsr() if issparse(X) else X * used
        self.X = X
        self.lengths = np.sqrt(squared_norms(self.X))

    def steps(self, scan: Array) -> Iterator[Tuning]:
        """Yield the state after each solution, in the scan and then in intervals."""
        s = self.s
        yield s
        for C in scan[len(s.knots) :]:
            if s.knots:
                last = s.knots[-1]
                knot = self.add_knot(float(C), last.B * (C / last.C), None)
                self.join(last, knot)
            else:
                B = np.zeros((self.problem.n, self.problem.k))
                self.add_knot(float(C), B, None)
            if len(s.knots) == len(scan):
                self.next()
            yield s
        interval = self.next()
        while interval:
            left = interval.left
            right = interval.right
            if self.refine(left, right):
                s.round += 1
            elif self.curvature(left, right) <= min(left.gap, right.gap):
                # R^2 adds nothing: undecided rows may have equal scores throughout.
                self.close(interval)
            else:
                self.halve(interval)
            interval = self.next()
            yield s

    def next(self) -> Interval | None:
        """Close proven and narrow intervals; return the most promising open one."""
        s = self.s
        while s.open_intervals:
            best = min(s.open_intervals, key=lambda one: (one.errors, one.left.C))
            narrow = best.right.C <= best.left.C * (1.0 + NARROW)
            if best.lower.min() < s.target and not narrow:
                return best
            self.close(best)
        return None

    def close(self, interval: Interval) -> None:
        """Close an interval, and drop the dual points that no open interval needs."""
        interval.open = False
        needed = [(i.left, i.right) for i in self.s.open_intervals]
        for knot in (interval.left, interval.right):
            if not any(knot in ends for ends in needed):
                knot.B = None

    def join(self, left: Knot, right: Knot) -> None:
        """Open the interval between two knots."""
        lower = np.zeros(PIECES, np.int64)
        interval = Interval(left, right, lower, lower + self.s.rows)
        self.s.intervals.append(interval)
        self.judge(interval)

    def halve(self, interval: Interval) -> None:
        """Halve an interval at its geometric middle, where a new interval begins."""
        left = interval.left
        right = interval.right
        C = math.sqrt(left.C * right.C)
        t = (C - left.C) / (right.C - left.C)
        B = (1.0 - t) * left.B + t * right.B
        gap = GOAL_GAP / HALVED * self.curvature(left, right)
        middle = self.add_knot(C, B, gap)
        interval.right = middle
        interval.lower[:] = 0
        interval.upper[:] = self.s.rows
        self.judge(interval)
        self.join(middle, right)

    def add_knot(self, C: float, B: Array, gap: float | None) -> Knot:
        """Solve at C from a feasible dual point to an absolute gap; return the knot."""
        knot = Knot(C, B)
        self.s.knots.append(knot)
        self.solve(knot, gap)
        self.s.round += 1
        return knot

    def refine(self, left: Knot, right: Knot) -> bool:
        """Solve ends with large gaps again; return whether a gap was halved."""
        R2 = self.curvature(left, right)
        halved = False
        for knot in (left, right):
            if knot.gap > MAX_GAP * R2:
                before = knot.gap
                self.solve(knot, GOAL_GAP * R2)
                for interval in self.s.intervals:
                    if knot in (interval.left, interval.right):
                        self.judge(interval)
                if knot.gap < 0.5 * before:  # else only rounding is left
                    halved = True
        return halved

    def solve(self, knot: Knot, gap: float | None) -> None:
        """Solve a knot from its dual point, certify it and count its errors."""
        problem = self.problem
        k = problem.k
        C = knot.C
        state = start(problem, C, int(self.s.rng.integers(2**63)), self.norms)
        primal_at_0 = state.primal
        state.round = state.since = 2
        # Variables at their bound are put there exactly.
        bound = C * problem.weights[:, None]
        at_bound = knot.B > (1.0 - AT_BOUND) * bound
        state.B[:, :k] = np.where(at_bound, bound, np.maximum(knot.B, 0.0))
        fill(state.B, problem.y, self.norms, C, k, problem.weights)
        state.W[:, :k] = combined(problem, state.B[:, :k])
        state.judged(self.norms, *losses(problem, state.W, C))
        if gap is None:
            gap = SCAN_GAP * min(state.primal, primal_at_0)
        if state.primal - state.dual > gap:
            state = solved(problem, state, gap)
        knot.B = state.B[:, :k].copy()
        self.certify(knot, state)
        self.count_errors(knot)

    def certify(self, knot: Knot, state: WWState) -> None:
        """Set W from the dual point, then the gap, the loss and their rounding."""
        problem = self.problem
        C = knot.C
        W = np.zeros_like(state.W)
        W[:, : problem.k] = combined(problem, knot.B)
        loss, room = losses(problem, W, C)
        square = float(np.vdot(W, W))
        primal = 0.5 * square + loss
        terms = problem.n + problem.d + problem.k
        pull = 2.0 * float(np.sqrt(self.norms) @ knot.B.sum(axis=1))
        linear = float(knot.B.sum())
        lower, upper = svm_bounds(primal + room, linear, square, terms=terms, pull=pull)
        knot.W = W[:, : problem.k].copy()
        knot.gap = upper - lower
        knot.loss = loss / C
        knot.blur = room / C + EPS * terms * primal / C
        knot.drift = EPS * terms * pull

    def count_errors(self, knot: Knot) -> None:
        """Count the errors of a knot whose W is known, and choose it if they are fewer.

        A knot that is solved more accurately may have more errors than before; the
        chosen classifier is kept.
        """
        s = self.s
        predictions = np.argmax(self.scores(knot), axis=1)
        knot.errors = int(np.count_nonzero(predictions != self.y))
        if knot.errors < s.fewest or math.isnan(s.chosen):
            s.fewest = knot.errors
            s.chosen = knot.C
            s.chosen_W = knot.W.copy()

    def scores(self, knot: Knot) -> Array:
        """Return the scores (m, k) of a knot on the validation rows."""
        return np.asarray(self.X @ knot.W, dtype=float)

    def judge(self, interval: Interval) -> None:
        """Bound the errors in each piece of an interval."""
        maybe_right, maybe_wrong = self.undecided(interval.left, interval.right)
        for q in range(PIECES):
            right = most_at_once(maybe_right, EDGES[q], EDGES[q + 1])
            wrong = most_at_once(maybe_wrong, EDGES[q], EDGES[q + 1])
            interval.lower[q] = max(interval.lower[q], self.s.rows - right)
            interval.upper[q] = min(interval.upper[q], wrong)

    def undecided(self, left: Knot, right: Knot) -> tuple[Array, Array]:
        """Return the [t_1, t_2] (m, 2) on which rows may be right, and may be wrong.

        Outside the first interval a row is certainly wrong, outside the second one
        certainly right.
        """
        # 1. The leads of all classes over the row's own at both ends, and their
        # rounding.
        leads = []
        for knot in (left, right):
            V = self.scores(knot)
            leads.append(V - V[self.labels][:, None])
        size = max(np.linalg.norm(left.W), np.linalg.norm(right.W))
        drift = math.sqrt(2.0) * max(left.drift, right.drift)
        product = 2.0 * EPS * (self.problem.d + 4.0) * size
        slack = self.lengths[:, None] * (drift + product)
        slack = slack + 1e-9 * (np.abs(leads[0]) + np.abs(leads[1]))

        # 2. A row may be right as long as no other class certainly leads.
        ends = [lead - slack for lead in leads]
        t_1, t_2 = self.uncertain(left, right, *ends)
        t_1[self.labels] = -np.inf
        t_2[self.labels] = np.inf
        maybe_right = np.stack([t_1.max(axis=1), t_2.min(axis=1)], axis=1)

        # 3. It may be wrong as long as some other class is not certainly behind.
        ends = [-lead - slack for lead in leads]
        t_1, t_2 = self.uncertain(left, right, *ends)
        t_1[self.labels] = np.inf
        t_2[self.labels] = -np.inf
        maybe_wrong = np.stack([t_1.min(axis=1), t_2.max(axis=1)], axis=1)

        # 4. All scores of a row of zeros are zero, and the first class is predicted.
        zero = self.lengths == 0.0
        maybe_right[zero & (self.y > 0)] = np.inf, -np.inf
        maybe_wrong[zero & (self.y == 0)] = np.inf, -np.inf
        return maybe_right, maybe_wrong

    def curvature(self, left: Knot, right: Knot) -> float:
        """Return R^2 between two knots, rounded up."""
        distance = np.linalg.norm(right.W - left.W)
        size = np.linalg.norm(right.W) + np.linalg.norm(left.W)
        drift = left.drift + right.drift + EPS * np.sqrt(left.W.size) * size
        loss = left.loss - right.loss + left.blur + right.blur
        exact = max((right.C - left.C) * loss - distance**2, 0.0)
        return float(exact + 2.0 * drift * distance)

    def uncertain(
        self, left: Knot, right: Knot, margin_left: Array, margin_right: Array
    ) -> tuple[Array, Array]:
        """Return the [t_1, t_2] on which margins (m, k) may be below sqrt(2) r(t) |x|.

        The margins are given at the two ends. The square of the margin minus the square
        of its bound is a convex quadratic in t.
        """
        R2 = self.curvature(left, right)
        scale = 2.0 * self.lengths[:, None] ** 2
        change = margin_right - margin_left
        return between_roots(
            change**2 + scale * R2,
            2.0 * margin_left * change - scale * (right.gap - left.gap + R2),
            margin_left**2 - scale * left.gap,
            margin_left > 0.0,
            margin_right > 0.0,
        )


def scanned(ends: Array) -> Array:
    """Return values from one end of a range to the other, with ratios up to STEP."""
    low, high = ends
    steps = math.ceil(math.log(high / low) / math.log(STEP))
    values = np.geomspace(low, high, 1 + steps)
    values[[0, -1]] = low, high
    return values


def between_roots(a, b, c, positive_0, positive_1) -> tuple[Array, Array]:
    """Return the [t_1, t_2] on which a convex a t^2 + b t + c may not be positive.

    Only t in [0, 1] matter: `positive_0` and `positive_1` say whether the margin is
    positive at 0 and at 1. An interval with t_1 > t_2 is empty.
    """
    inner = b**2 - 4.0 * a * c
    root = np.copysign(np.sqrt(np.maximum(inner, 0.0)), b)
    half = -0.5 * (b + root)  # without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([half / a, c / half])
    t_1 = np.where(positive_0 & (a > 0.0), np.fmin(*roots) - MARGIN, -np.inf)
    t_2 = np.where(positive_1 & (a > 0.0), np.fmax(*roots) + MARGIN, np.inf)
    nowhere = positive_0 & positive_1 & (inner < 0.0) & (a > 0.0)
    return np.where(nowhere, np.inf, t_1), np.where(nowhere, -np.inf, t_2)


def most_at_once(spans: Array, low: float, high: float) -> int:
    """Return the largest number of spans (s, 2) that share a t in [low, high]."""
    t_1, t_2 = spans[(spans[:, 0] <= high) & (spans[:, 1] >= low)].T
    if not len(t_1):
        return 0
    t_1 = np.sort(np.maximum(t_1, low))
    t_2 = np.sort(t_2)
    inside = np.searchsorted(t_1, t_1, "right") - np.searchsorted(t_2, t_1, "left")
    return int(inside.max())
