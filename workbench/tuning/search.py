"""Certified tuning: no value of a range has a validation error more than eps below the one we have.

A grid says which of its values was best. Between two solved values, *knots*, nothing is known
unless a bound holds at all of them. With the knots' solutions W_1 and W_2 and, for t in [0, 1],

    value(t) = (1 - t) value_1 + t value_2,    W(t) = (1 - t) W_1 + t W_2,

a theorem of the family bounds how far the exact solution at value(t) is from W(t). Margins of W(t)
are linear in t and the bound is such that each row is undecided on one interval of t, in closed
form: the errors that are certain are a step function of the value. Intervals between knots are
halved until enough is certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from workbench.core.checks import as_number, check_positive, shown
from workbench.tuning.state import EDGES, PIECES, Part, Tuning

STEP = 1.25  # from one value of the scan to the next
SHARPER = 0.6  # fraction of the target that has to be certain before tilts are tried
NARROW = 1e-9  # relative width below which an interval is given up
WIDER = 1e-7  # added to either side of what is undecided, for the rounding of roots


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


class Search:
    """The moves of a certified search on its state, which holds all that they decide by.

    A family of classifiers says how a knot is solved (`add`, `between`, `refined`), whether halving
    can help (`tied`), where two knots leave rows undecided (`uncertain`), and by how much rounding
    moves a margin (`slack`).
    """

    def __init__(self, state: Tuning, parts: list[Part]):
        self.s, self.parts = state, parts
        self.known: dict[int, list[np.ndarray]] = {}  # scores of a knot on validation rows

    per_knot = ("at", "W", "errors")  # the state's arrays with a row for each knot

    def steps(self, scan: np.ndarray) -> Iterator[Tuning]:
        """Yield the state after each solution: of the scan, then inside intervals.

        1. Solve along the scan, each knot from the last one.
        2. Take the open interval with the fewest errors at its ends. Close it where no value in it
           has fewer errors than ours by more than eps. Else solve its ends on if they are not
           accurate enough to say so, give it up if rounding alone is in the way, or halve it at
           its geometric middle.
        """
        s = self.s
        yield s
        for knot in range(len(s.at), len(scan)):
            self.add(float(scan[knot]), knot - 1)
            if knot:
                self.join(*sorted((knot - 1, knot), key=lambda knot: s.at[knot]))
            if knot == len(scan) - 1:
                self.next()
            yield s
        i = self.next()
        while i is not None:
            a, b = int(s.left[i]), int(s.right[i])
            if self.refined(a, b):
                s.round += 1
            elif self.tied(a, b):
                self.close(i)
            else:
                self.halve(i, self.between(math.sqrt(s.at[a] * s.at[b]), a, b))
            i = self.next()
            yield s

    def grown(self, value: float) -> int:
        """Make room for one more knot in all arrays that have a row for each; return its number."""
        s, knot = self.s, len(self.s.at)
        for name in self.per_knot:
            array = getattr(s, name)
            setattr(s, name, np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)]))
        s.at[knot] = value
        return knot

    def counted(self, knot: int) -> None:
        """Count the errors of a knot whose W is there, and take it in hand if they are fewer.

        A knot that is solved on may have more errors than before: what was in hand stays there.
        """
        s = self.s
        self.known.pop(knot, None)
        V = [self.scores(knot, f) for f in range(len(self.parts))]
        wrong = [np.argmax(scores, axis=1) != p.y for scores, p in zip(V, self.parts, strict=True)]
        s.errors[knot] = sum(int(rows.sum()) for rows in wrong)
        if s.errors[knot] < s.fewest:
            s.fewest, s.chosen = int(s.errors[knot]), float(s.at[knot])
            s.chosen_W = s.W[knot].copy()

    def scores(self, knot: int, f: int) -> np.ndarray:
        """Return the scores (m, k) of a knot on a fold's validation rows."""
        if knot not in self.known:
            pairs = zip(self.parts, self.s.W[knot], strict=True)
            self.known[knot] = [np.asarray(part.X @ W, dtype=float) for part, W in pairs]
        return self.known[knot][f]

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

    def close(self, i: int) -> None:
        """Do no more for an interval."""
        self.s.open[i] = False

    def next(self) -> int | None:
        """Close what is proven or too narrow; return the open interval with the fewest errors."""
        s = self.s
        while s.open.any():
            ends = np.minimum(s.errors[s.left], s.errors[s.right])
            i = int(np.lexsort((s.at[s.left], ends, ~s.open))[0])
            if SHARPER * s.target <= s.lower[i].min() < s.target:
                self.judge(i, sharper=True)
            narrow = s.at[s.right[i]] <= s.at[s.left[i]] * (1.0 + NARROW)
            if s.lower[i].min() < s.target and not narrow:
                return i
            self.close(i)
        return None

    def judge(self, i: int, sharper: bool = False) -> None:
        """Bound the errors in each piece of an interval."""
        s, a, b = self.s, int(self.s.left[i]), int(self.s.right[i])
        wrong = np.empty((s.rows, 2))  # where a row is not certainly wrong
        right = np.empty((s.rows, 2))  # and where not certainly right
        proven = np.zeros((PIECES, s.rows), dtype=bool)
        for f, part in enumerate(self.parts):
            wrong[part.judged], right[part.judged] = self.undecided(part, f, a, b)
            if sharper:
                proven[:, part.judged] = self.sharper(part, f, a, b, wrong[part.judged])
        for q in range(PIECES):
            piece = EDGES[q], EDGES[q + 1]
            lower = s.rows - most_at_once(wrong[~proven[q]], *piece)
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

    def sharper(self, part: Part, f: int, a: int, b: int, wrong: np.ndarray) -> np.ndarray:
        """Return (pieces, m) which rows are certainly wrong in a piece, by costlier bounds."""
        return np.zeros((PIECES, len(part.y)), dtype=bool)


def between_roots(a, b, c, first, last) -> tuple[np.ndarray, np.ndarray]:
    """Return between which t the convex a t^2 + b t + c may not be positive.

    Where it is at t = 0 is told by `first`, and at t = 1 by `last`. From t_1 > t_2 on it is
    positive everywhere.
    """
    inner = b**2 - 4.0 * a * c
    half = -0.5 * (b + np.copysign(np.sqrt(np.maximum(inner, 0.0)), b))  # without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([half / a, c / half])
    low, high = np.fmin(*roots), np.fmax(*roots)
    low = np.where(first & (a > 0.0), low - WIDER, -np.inf)
    high = np.where(last & (a > 0.0), high + WIDER, np.inf)
    nowhere = first & last & (inner < 0.0) & (a > 0.0)
    return np.where(nowhere, np.inf, low), np.where(nowhere, -np.inf, high)


def most_at_once(spans: np.ndarray, x: float, y: float) -> int:
    """Return of how many spans (s, 2) a single t in [x, y] can lie at most."""
    low, high = spans[(spans[:, 0] <= y) & (spans[:, 1] >= x)].T
    if not len(low):
        return 0
    low, high = np.sort(np.maximum(low, x)), np.sort(high)
    inside = np.searchsorted(low, low, "right") - np.searchsorted(high, low, "left")
    return int(inside.max())
