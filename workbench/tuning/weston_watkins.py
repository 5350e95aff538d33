"""Certified tuning of a Weston-Watkins SVM: no C of a range has fewer validation errors, proven.

A knot is a value C_i, a dual point A_i in [0, C_i], the W_i that it makes, its duality gap G_i and
its sum of hinges L_i. Between two knots, for t in [0, 1], with C = (1 - t) C_1 + t C_2 and
W(t) = (1 - t) W_1 + t W_2,

    |W*(C) - W(t)|^2 <= r^2(t) = (1 - t) G_1 + t G_2 + t (1 - t) R^2,                           (T2)
    R^2 = (C_2 - C_1)(L_1 - L_2) - |W_1 - W_2|^2,

since the mixture of the A_i is feasible at C and makes W(t), and the gap at a pair (W, A) with
W = V_A bounds |W*(C) - W|^2 (P is strongly convex, and so is -D in V). Class p beats q for row x
under W*(C) if it does under W(t) by more than sqrt(2) r(t) |x|. Margins of W(t) are linear in t, so
that each row is undecided on one interval of t, and the errors that are certain are a step function
of C. Intervals between knots are halved until enough errors are certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from workbench.core.checks import as_number, check_positive, shown
from workbench.core.interrupts import whole_rounds
from workbench.core.measures import EPS, svm_bounds
from workbench.core.problem import Matrix, Problem
from workbench.kernels.rows import lanes
from workbench.tuning.state import EDGES, PIECES, Part, Tuning, parted, start
from workbench.weston_watkins.dual import WWState, evaluated, fill
from workbench.weston_watkins.pivoting import combined, solved

STEP = 1.25  # ratio of neighbouring values of the scan
MARGIN = 1e-7  # added to either side of an undecided interval, for the rounding of its roots
SCAN_GAP = 1e-4  # gap of the scan's solutions, relative to the objective
MAX_GAP, GOAL_GAP = 0.05, 0.01  # relative to R^2: ends with a larger gap are solved on, to the goal
AT_BOUND = 1e-12  # relative distance from its bound within which a dual variable is put there
HALVED = 8.0  # R^2 of an interval over that of its halves, roughly
NARROW = 1e-9  # relative width below which an interval is given up


def certify_path(
    folds: Sequence[tuple[Problem, Matrix, np.ndarray]],
    C_range: tuple[float, float],
    eps: float = 0.005,
    *,
    seed: int = 0,
    state: Tuning | None = None,
) -> Iterator[Tuning]:
    """Yield, one solution at a time, what is proven of the validation error over all C of a range.

    :meth:`Search.steps` is the algorithm: a scan from the smallest C up, each solved from the last
    one's dual point, scaled; then halves of intervals, each solved from the mixture of its ends'
    dual points, which is feasible there with a gap of at most r^2.

    The stream ends when all intervals are closed. Stopped at any moment, ``state.achieved`` is
    proven. It holds for exact solutions: a loosely solved one can be luckier.

    Parameters
    ----------
    folds : (problem, X, y) each, with validation rows X (m, d) and their labels y (m,), of the
        problem's classes; errors are those of all folds together
    C_range : (C_lo, C_hi), positive, C_lo < C_hi
    eps : fraction of the validation rows, in [0, 1)
    seed : int, seeds the order of the rows where coordinate descent is needed

    Raises
    ------
    ValueError
        If an argument is not as above, or the folds differ in features or classes.
    """
    parts, ends = parted(folds), check_range(C_range, eps, "C_range")
    state = start(parts, eps, ends, seed) if state is None else state
    yield from whole_rounds(Search(state, parts).steps(scanned(ends)), state)


class Search:
    """The moves of a certified search on its state, which contains all that they decide by."""

    per_knot = ("at", "W", "errors", "gap", "loss", "blur", "drift")  # have a row per knot

    def __init__(self, state: Tuning, parts: list[Part]):
        self.s, self.parts = state, parts

    def steps(self, scan: np.ndarray) -> Iterator[Tuning]:
        """Yield the state after each solution: of the scan, then inside intervals.

        1. Solve along the scan, each knot from the last one.
        2. Take the open interval with the fewest errors at its ends. Close it where no C in it has
           fewer errors than the chosen one by more than eps. Else solve its ends on if they are not
           accurate enough to say so, give it up if rounding alone is in the way, or halve it at
           its geometric middle.
        """
        s = self.s
        yield s
        for knot in range(len(s.at), len(scan)):
            self.scan(float(scan[knot]), knot - 1)
            if knot:
                self.join(*sorted((knot - 1, knot), key=lambda knot: s.at[knot]))
            if knot == len(scan) - 1:
                self.next()
            yield s
        i = self.next()
        while i is not None:
            a, b = int(s.left[i]), int(s.right[i])
            if self.refine(a, b):
                s.round += 1
            elif self.tied(a, b):
                self.close(i)
            else:
                self.halve(i, self.middle(a, b))
            i = self.next()
            yield s

    def count_errors(self, knot: int) -> None:
        """Count the errors of a knot whose W is known, and choose it if they are fewer.

        A knot that is solved on may have more errors than before: the chosen classifier stays.
        """
        s = self.s
        V = [self.scores(knot, f) for f in range(len(self.parts))]
        wrong = [np.argmax(scores, axis=1) != p.y for scores, p in zip(V, self.parts, strict=True)]
        s.errors[knot] = sum(int(rows.sum()) for rows in wrong)
        if s.errors[knot] < s.fewest:
            s.fewest, s.chosen = int(s.errors[knot]), float(s.at[knot])
            s.chosen_W = s.W[knot].copy()

    def scores(self, knot: int, f: int) -> np.ndarray:
        """Return the scores (m, k) of a knot on a fold's validation rows."""
        return np.asarray(self.parts[f].X @ self.s.W[knot, f], dtype=float)

    def join(self, a: int, b: int) -> None:
        """Open the interval between two knots."""
        s = self.s
        s.left, s.right = np.append(s.left, a), np.append(s.right, b)
        s.open = np.append(s.open, True)
        empty = np.zeros((1, PIECES), np.int64)
        s.lower = np.concatenate([s.lower, empty])
        s.upper = np.concatenate([s.upper, empty + s.rows])
        self.judge(len(s.left) - 1)

    def halve(self, i: int, middle: int) -> None:
        """Let interval i end at a knot inside it, where another one begins."""
        right = int(self.s.right[i])
        self.s.right[i] = middle
        self.s.lower[i], self.s.upper[i] = 0, self.s.rows
        self.judge(i)
        self.join(middle, right)

    def next(self) -> int | None:
        """Close what is proven or too narrow; return the open interval with the fewest errors."""
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
        s, a, b = self.s, int(self.s.left[i]), int(self.s.right[i])
        wrong = np.empty((s.rows, 2))  # where a row is not certainly wrong
        right = np.empty((s.rows, 2))  # and where not certainly right
        for f, part in enumerate(self.parts):
            wrong[part.judged], right[part.judged] = self.undecided(part, f, a, b)
        for q in range(PIECES):
            piece = EDGES[q], EDGES[q + 1]
            lower = s.rows - most_at_once(wrong, *piece)
            s.lower[i, q] = max(s.lower[i, q], lower)
            s.upper[i, q] = min(s.upper[i, q], most_at_once(right, *piece))

    def undecided(self, part: Part, f: int, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the [t_1, t_2] (m, 2) on which rows are not certainly wrong, and not right."""
        y = part.y[:, None]
        both = self.scores(a, f), self.scores(b, f)
        first, last = (V - np.take_along_axis(V, y, axis=1) for V in both)
        slack = self.slack(part, f, a, b)[:, None] + 1e-9 * (np.abs(first) + np.abs(last))
        low, high = self.uncertain(part, f, a, b, first - slack, last - slack)
        others = np.arange(first.shape[1]) != y
        low, high = np.where(others, low, -np.inf), np.where(others, high, np.inf)
        wrong = np.stack([low.max(axis=1), high.min(axis=1)], axis=1)
        low, high = self.uncertain(part, f, a, b, -first - slack, -last - slack)
        low, high = np.where(others, low, np.inf), np.where(others, high, -np.inf)
        right = np.stack([low.min(axis=1), high.max(axis=1)], axis=1)
        zero = part.lengths == 0.0  # all scores are zero, and the first class is predicted
        wrong[zero & (part.y > 0)] = right[zero & (part.y == 0)] = np.inf, -np.inf
        return wrong, right

    def duals(self, knot: int) -> np.ndarray:
        """Return the dual point (rows, k) of a knot that is an end of an open interval."""
        return self.s.B[np.flatnonzero(self.s.owner == knot)[0]]

    def scan(self, C: float, last: int) -> int:
        """Solve for the next C of the scan, and return its knot."""
        s = self.s
        B = self.duals(last) * (C / s.at[last]) if last >= 0 else np.zeros(s.B.shape[1:])
        return self.add_knot(C, B, None)

    def middle(self, a: int, b: int) -> int:
        """Solve for the geometric middle of two knots, from the mixture of their dual points."""
        s, C = self.s, math.sqrt(self.s.at[a] * self.s.at[b])
        t = (C - s.at[a]) / (s.at[b] - s.at[a])
        B = (1.0 - t) * self.duals(a) + t * self.duals(b)
        return self.add_knot(C, B, GOAL_GAP / HALVED * self.curvatures(a, b))

    def add_knot(self, C: float, B: np.ndarray, gaps: np.ndarray | None) -> int:
        """Solve all folds at C from feasible dual points to absolute gaps, and return the knot."""
        s, knot = self.s, len(self.s.at)
        for name in self.per_knot:
            array = getattr(s, name)
            setattr(s, name, np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)]))
        s.at[knot] = C
        s.B, s.owner = np.concatenate([s.B, B[None]]), np.append(s.owner, knot)
        self.solve(knot, gaps)
        s.round += 1
        return knot

    def refine(self, a: int, b: int) -> bool:
        """Solve knots on whose gaps are not small against R^2; return whether a gap was halved."""
        s, R2, better = self.s, self.curvatures(a, b), False
        for knot in (a, b):
            if np.any(s.gap[knot] > MAX_GAP * R2):
                before = s.gap[knot].copy()
                self.solve(knot, np.where(before > GOAL_GAP * R2, GOAL_GAP * R2, np.inf))
                for i in np.flatnonzero((s.left == knot) | (s.right == knot)):
                    self.judge(i)
                better |= bool(np.any(s.gap[knot] < 0.5 * before))  # else only rounding is left
        return better

    def tied(self, a: int, b: int) -> bool:
        """Return whether r(t) is what rounding leaves of the gaps, in all folds: R^2 adds nothing.

        Rows that are undecided then have equal scores, over the whole interval perhaps.
        """
        return bool(np.all(self.curvatures(a, b) <= self.s.gap[[a, b]]))

    def close(self, i: int) -> None:
        """Do no more for an interval, and drop the dual points that no open one needs."""
        s = self.s
        s.open[i] = False
        kept = np.isin(s.owner, np.union1d(s.left[s.open], s.right[s.open]))
        if not kept.all():
            s.B, s.owner = s.B[kept], s.owner[kept]

    def solve(self, knot: int, gaps: np.ndarray | None) -> None:
        """Solve each fold from its dual point to its gap, and note what follows from it."""
        s, C, B = self.s, float(self.s.at[knot]), self.duals(knot)
        for f, part in enumerate(self.parts):
            problem, k = part.problem, part.problem.k
            most = C * problem.weights[:, None]
            rows = B[part.rows]  # variables at their bound are put there exactly
            rows = np.where(rows > (1.0 - AT_BOUND) * most, most, np.maximum(rows, 0.0))
            fill(rows, problem.y, part.norms, C, k, problem.weights)
            W, A = np.zeros((problem.d, lanes(k))), np.zeros((problem.n, lanes(k)))
            A[:, :k], W[:, :k] = rows, combined(problem, rows)
            primal, dual, _ = evaluated(problem, W, A, C)
            zero = C * float(problem.weights.sum()) * (k - 1.0)
            gap = SCAN_GAP * min(primal, zero) if gaps is None else gaps[f]
            rng = np.random.default_rng(s.rng.integers(2**63))
            at = WWState(2, rng, k, W, A, primal, dual, 0.0, math.inf, C=C, level=C, since=2)
            if primal - dual > gap:
                at = solved(problem, at, gap)
            B[part.rows] = at.B[:, :k]
            self.note(knot, f, C, at)
        self.count_errors(knot)

    def note(self, knot: int, f: int, C: float, at: WWState) -> None:
        """Keep W of a fold, computed from its dual point, with its certificate and all rounding."""
        s, part = self.s, self.parts[f]
        problem, k = part.problem, part.problem.k
        A = at.B[:, :k]
        W = np.zeros_like(at.W)
        W[:, :k] = combined(problem, A)
        primal, dual, room = evaluated(problem, W, at.B, C)
        square, terms = float(np.vdot(W, W)), problem.n + problem.d + k
        pull = 2.0 * float(np.sqrt(part.norms) @ A.sum(axis=1))
        linear = dual + 0.5 * square
        lower, upper = svm_bounds(primal + room, linear, square, terms=terms, pull=pull)
        s.W[knot, f], s.gap[knot, f] = W[:, :k], upper - lower
        s.loss[knot, f] = (primal - 0.5 * square) / C
        s.blur[knot, f] = room / C + EPS * terms * primal / C
        s.drift[knot, f] = EPS * terms * pull

    def curvatures(self, a: int, b: int) -> np.ndarray:
        """Return R^2 (folds,) between two knots, not below what rounding may hide."""
        s = self.s
        apart = np.linalg.norm(s.W[b] - s.W[a], axis=(1, 2))
        size = np.linalg.norm(s.W[b], axis=(1, 2)) + np.linalg.norm(s.W[a], axis=(1, 2))
        drift = s.drift[a] + s.drift[b] + EPS * np.sqrt(s.W[0, 0].size) * size
        loss = s.loss[a] - s.loss[b] + s.blur[a] + s.blur[b]
        return np.maximum((s.at[b] - s.at[a]) * loss - apart**2, 0.0) + 2.0 * drift * apart

    def slack(self, part: Part, f: int, a: int, b: int) -> np.ndarray:
        """Return (m,) by how much rounding may move a margin of a validation row."""
        s = self.s
        size = max(np.linalg.norm(s.W[a, f]), np.linalg.norm(s.W[b, f]))
        drift = max(s.drift[a, f], s.drift[b, f])
        return part.lengths * (math.sqrt(2.0) * drift + 2.0 * EPS * (len(s.W[a, f]) + 4.0) * size)

    def uncertain(self, part: Part, f: int, a: int, b: int, first, last):
        """Return where margins from `first` to `last` (m, k) may be below sqrt(2) r(t) |x|.

        The square of the margin less that of its bound is a convex quadratic in t.
        """
        s, R2, scale = self.s, self.curvatures(a, b)[f], 2.0 * part.lengths[:, None] ** 2
        change, more = last - first, s.gap[b, f] - s.gap[a, f] + R2
        quadratic = change**2 + scale * R2, 2.0 * first * change - scale * more
        return between_roots(*quadratic, first**2 - scale * s.gap[a, f], first > 0.0, last > 0.0)


def check_range(ends, eps: float, argument: str) -> np.ndarray:
    """Return the ends of a range as an array; a ValueError unless they ascend and eps fits."""
    try:
        low, high = (check_positive(end, argument) for end in ends)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise ValueError(
            f"{argument}: must be two positive numbers in ascending order, got {shown(ends)}"
        )
    if not 0.0 <= as_number(eps) < 1.0:
        raise ValueError(f"eps: must be a number of at least 0 and below 1, got {shown(eps)}")
    return np.array([low, high])


def scanned(ends: np.ndarray) -> np.ndarray:
    """Return values from one end of a range to the other, neighbours at most STEP apart."""
    low, high = ends
    values = np.geomspace(low, high, 1 + math.ceil(math.log(high / low) / math.log(STEP)))
    values[[0, -1]] = low, high
    return values


def between_roots(a, b, c, first, last) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of t in [0, 1] on which the convex a t^2 + b t + c may not be positive.

    `first` and `last` say whether it is positive at t = 0 and at t = 1. An interval with
    t_1 > t_2 is empty.
    """
    inner = b**2 - 4.0 * a * c
    half = -0.5 * (b + np.copysign(np.sqrt(np.maximum(inner, 0.0)), b))  # without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([half / a, c / half])
    low, high = np.fmin(*roots), np.fmax(*roots)
    low = np.where(first & (a > 0.0), low - MARGIN, -np.inf)
    high = np.where(last & (a > 0.0), high + MARGIN, np.inf)
    nowhere = first & last & (inner < 0.0) & (a > 0.0)
    return np.where(nowhere, np.inf, low), np.where(nowhere, -np.inf, high)


def most_at_once(spans: np.ndarray, x: float, y: float) -> int:
    """Return the largest number of spans (s, 2) that share a single t in [x, y]."""
    low, high = spans[(spans[:, 0] <= y) & (spans[:, 1] >= x)].T
    if not len(low):
        return 0
    low, high = np.sort(np.maximum(low, x)), np.sort(high)
    inside = np.searchsorted(low, low, "right") - np.searchsorted(high, low, "left")
    return int(inside.max())
