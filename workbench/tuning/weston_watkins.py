"""Certified tuning of a Weston-Watkins SVM: no C of a range has fewer errors, proven.

A knot is a dual point A_i in [0, C_i], the W_i that it makes, its duality gap G_i and its sum of
hinges L_i. With C = (1 - t) C_1 + t C_2, W(t) = (1 - t) W_1 + t W_2 for t in [0, 1],

    |W*(C) - W(t)|^2 <= r^2(t) = (1 - t) G_1 + t G_2 + t (1 - t) R^2,                           (T2)
    R^2 = (C_2 - C_1)(L_1 - L_2) - |W_1 - W_2|^2,

since the mixture of the A_i is feasible at C and makes W(t), and the gap at a pair (W, A) with
W = V_A bounds |W*(C) - W|^2 (P is strongly convex, and so is -D in V). Class p beats q for row x
under W*(C) if it does under W(t) by more than sqrt(2) r(t) |x|. R is 0 where no dual variable
meets or leaves a bound, and the gaps are as small as the solver makes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workbench.core.checks import check_whole
from workbench.core.interrupts import whole_rounds
from workbench.core.measures import EPS, svm_bounds
from workbench.core.problem import Matrix, Problem
from workbench.kernels.rows import lanes
from workbench.tuning.search import Search, between_roots, check_range, scanned
from workbench.tuning.state import EDGES, Part, Tuning, begun, parted
from workbench.tuning.tilts import tilted
from workbench.weston_watkins.dual import WWState, evaluated, fill
from workbench.weston_watkins.pivoting import combined, solved

SCANNED = 1e-4  # gap of the scan, relative to the objective
LOOSE, TIGHT = 0.05, 0.01  # gaps of the ends, relative to R^2: solved on above, to which
CAPPED = 1e-12  # relative distance from its bound at which a dual variable is taken to be there
SMALLER = 8.0  # R^2 of an interval over that of its halves, about


@dataclass
class WWTuning(Tuning):
    """The state of a search for C; ``at`` are values of C, the smallest one first.

    ``gap``, ``loss``, ``blur`` and ``drift`` (p, folds) are the duality gap and the sum of hinges
    of each knot, how far rounding may move that sum, and W. ``B`` (q, rows, k) are the dual points
    of the knots ``owner`` (q,), those at the ends of open intervals.
    """

    rng: np.random.Generator
    gap: np.ndarray
    loss: np.ndarray
    blur: np.ndarray
    drift: np.ndarray
    B: np.ndarray
    owner: np.ndarray


def certify_path(
    folds: Sequence[tuple[Problem, Matrix, np.ndarray]],
    C_range: tuple[float, float],
    eps: float = 0.005,
    *,
    seed: int = 0,
    state: WWTuning | None = None,
) -> Iterator[WWTuning]:
    """Yield, one solution at a time, what is proven of the validation error over all C of a range.

    :meth:`workbench.tuning.search.Search.steps` is the algorithm: a scan from the smallest C up,
    each solved from the last one's dual point, scaled; then halves of intervals, each solved from
    the mixture of its ends' dual points, which is feasible there with a gap of at most r^2. Where
    T2 leaves too little, :func:`workbench.tuning.tilts.tilted` says more.

    The stream ends when all intervals are closed. Stopped at any moment, ``state.achieved`` is
    proven: of the exact solutions, not of ones that are solved loosely, which can be luckier.

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
    state = start(parts, ends, eps, seed) if state is None else state
    yield from whole_rounds(Balls(state, parts).steps(scanned(ends)), state)


def start(parts: list[Part], ends: np.ndarray, eps: float, seed: int) -> WWTuning:
    """Return the state of round 0."""
    rng = np.random.default_rng(check_whole(seed, "seed", least=0))
    own = dict.fromkeys(("gap", "loss", "blur", "drift"), np.zeros((0, len(parts))))
    B = np.zeros((0, parts[-1].rows.stop, parts[0].problem.k))
    own |= {"B": B, "owner": np.zeros(0, np.int64), "rng": rng}
    return begun(WWTuning, parts, eps, ends, **own)


class Balls(Search):
    """A search whose knots have dual points, and whose bounds are T2 and tilts."""

    s: WWTuning
    per_knot = ("at", "W", "errors", "gap", "loss", "blur", "drift")

    def duals(self, knot: int) -> np.ndarray:
        """Return the dual point (rows, k) of a knot that is an end of an open interval."""
        return self.s.B[np.flatnonzero(self.s.owner == knot)[0]]

    def add(self, C: float, last: int) -> int:
        """Solve for the next C of the scan."""
        s = self.s
        B = self.duals(last) * (C / s.at[last]) if last >= 0 else np.zeros(s.B.shape[1:])
        return self.added(C, B, None)

    def between(self, C: float, a: int, b: int) -> int:
        """Solve for a C between two knots, from the mixture of their dual points."""
        s = self.s
        t = (C - s.at[a]) / (s.at[b] - s.at[a])
        B = (1.0 - t) * self.duals(a) + t * self.duals(b)
        return self.added(C, B, TIGHT / SMALLER * self.curvatures(a, b))

    def added(self, C: float, B: np.ndarray, gaps: np.ndarray | None) -> int:
        """Solve all folds at C from feasible dual points to absolute gaps, and return the knot."""
        s, knot = self.s, self.grown(C)
        s.B, s.owner = np.concatenate([s.B, B[None]]), np.append(s.owner, knot)
        self.solve(knot, gaps)
        s.round += 1
        return knot

    def refined(self, a: int, b: int) -> bool:
        """Solve knots on whose gaps are not small against R^2; return whether a gap was halved."""
        s, R2, better = self.s, self.curvatures(a, b), False
        for knot in (a, b):
            if np.any(s.gap[knot] > LOOSE * R2):
                before = s.gap[knot].copy()
                self.solve(knot, np.where(before > TIGHT * R2, TIGHT * R2, np.inf))
                for i in np.flatnonzero((s.left == knot) | (s.right == knot)):
                    self.judge(i)
                better |= bool(np.any(s.gap[knot] < 0.5 * before))  # else it is rounding alone
        return better

    def tied(self, a: int, b: int) -> bool:
        """Return whether r(t) is what rounding leaves of the gaps, in all folds: R^2 adds nothing.

        Rows that are undecided then have equal scores, over the whole interval perhaps.
        """
        return bool(np.all(self.curvatures(a, b) <= self.s.gap[[a, b]]))

    def close(self, i: int) -> None:
        """Do no more for an interval, and drop dual points that no open one needs."""
        super().close(i)
        s = self.s
        kept = np.isin(s.owner, np.union1d(s.left[s.open], s.right[s.open]))
        if not kept.all():
            s.B, s.owner = s.B[kept], s.owner[kept]

    def solve(self, knot: int, gaps: np.ndarray | None) -> None:
        """Solve each fold from its dual point to its gap, and note what follows from it."""
        s, C, B = self.s, float(self.s.at[knot]), self.duals(knot)
        for f, part in enumerate(self.parts):
            problem, k = part.problem, part.problem.k
            most = C * problem.weights[:, None]
            rows = B[part.rows]  # what was at its bound is there again, rounding apart
            rows = np.where(rows > (1.0 - CAPPED) * most, most, np.maximum(rows, 0.0))
            fill(rows, problem.y, part.norms, C, k, problem.weights)
            W, A = np.zeros((problem.d, lanes(k))), np.zeros((problem.n, lanes(k)))
            A[:, :k], W[:, :k] = rows, combined(problem, rows)
            primal, dual, _ = evaluated(problem, W, A, C)
            zero = C * float(problem.weights.sum()) * (k - 1.0)
            gap = SCANNED * min(primal, zero) if gaps is None else gaps[f]
            rng = np.random.default_rng(s.rng.integers(2**63))
            at = WWState(2, rng, k, W, A, primal, dual, 0.0, math.inf, C=C, level=C, since=2)
            if primal - dual > gap:
                at = solved(problem, at, gap)
            B[part.rows] = at.B[:, :k]
            self.note(knot, f, C, at)
        self.counted(knot)

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

    def sharper(self, part: Part, f: int, a: int, b: int, wrong: np.ndarray) -> np.ndarray:
        """Return (pieces, m) which rows tilts prove to be wrong in a piece, of those undecided."""
        s = self.s
        return tilted(
            part,
            rows=np.flatnonzero((wrong[:, 0] <= 1.0) & (wrong[:, 1] >= 0.0)),
            duals=[self.duals(knot)[part.rows] for knot in (a, b)],
            most=[s.at[knot] * part.problem.weights[:, None] for knot in (a, b)],
            W=[s.W[knot, f] for knot in (a, b)],
            scores=[self.scores(knot, f) for knot in (a, b)],
            G=tops(s.gap[a, f], s.gap[b, f], self.curvatures(a, b)[f]),
            slack=self.slack(part, f, a, b),
        )


def tops(G_1: float, G_2: float, R2: float) -> list[float]:
    """Return the largest r^2(t) of each piece."""

    def squared(t):
        return (1.0 - t) * G_1 + t * G_2 + t * (1.0 - t) * R2

    top = 0.5 * (1.0 + (G_2 - G_1) / R2) if R2 > 0.0 else 1.0
    return [max(squared(x), squared(y), squared(min(max(top, x), y))) for x, y in pairwise(EDGES)]
