"""The state of a certified search for C: its knots and its intervals."""

import math
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_sparse
from workbench.core.problem import Array, Matrix
from workbench.core.state import Row, State

PIECES = 4  # pieces of an interval, each with its own bounds on the number of errors
EDGES = np.linspace(0.0, 1.0, PIECES + 1)


@dataclass(eq=False)
class Knot:
    """A solution ``W`` (d, k) for one ``C`` and its number of validation ``errors``.

    ``B`` (n, k) is its dual point, or None once no open interval ends at the knot.
    ``gap`` and ``loss`` are its duality gap and its sum of hinges. The rounding error
    of the sum is at most ``blur``, and that of W at most ``drift``.
    """

    C: float
    B: Array | None
    W: Array | None = None
    errors: int = 0
    gap: float = 0.0
    loss: float = 0.0
    blur: float = 0.0
    drift: float = 0.0


@dataclass(eq=False)
class Interval:
    """The values of C between two knots.

    ``lower`` and ``upper`` (4,) bound the numbers of errors for all C in each quarter
    of the interval (quarters of C, not of its logarithm).
    """

    left: Knot
    right: Knot
    lower: Array
    upper: Array
    open: bool = True

    @property
    def errors(self) -> int:
        """The smaller of the numbers of errors at its two ends."""
        return min(self.left.errors, self.right.errors)


@dataclass
class Tuning(State):
    """The knots of a search, and what is proven for the intervals between them.

    The chosen classifier is ``chosen_W`` (d, k), solved for C = ``chosen``; it has
    ``fewest`` errors among the ``rows`` validation rows. ``ends`` (2,) is the range.
    """

    round: int
    rng: np.random.Generator
    eps: float
    rows: int
    fewest: int
    chosen: float
    chosen_W: Array
    ends: Array
    knots: list[Knot]
    intervals: list[Interval]

    def scores(self, X: Matrix) -> Array:
        """Return the scores of the chosen classifier."""
        return np.asarray(check_sparse(X) @ self.chosen_W)

    def info(self) -> Row:
        """Return the error, the proven eps, the solves and the certified fraction."""
        return {
            "error": self.fewest / self.rows,
            "eps": self.achieved,
            "solves": self.round,
            "certified": self.certified,
        }

    @property
    def open_intervals(self) -> list[Interval]:
        """The intervals in which fewer errors are still possible."""
        return [interval for interval in self.intervals if interval.open]

    @property
    def target(self) -> int:
        """The number of certain errors that proves an interval."""
        return self.fewest - math.floor(self.eps * self.rows)

    @property
    def achieved(self) -> float:
        """The proven bound on how much the chosen error exceeds the error for any C."""
        return max(0, self.fewest - int(self.band()[1].min())) / self.rows

    @property
    def certified(self) -> float:
        """The fraction of the range (of log C) for which `eps` is proven."""
        edges, lower, _ = self.band()
        widths = np.diff(np.log(edges))
        return float(widths[lower >= self.target].sum() / widths.sum())

    def band(self) -> tuple[Array, Array, Array]:
        """Return edges (e + 1,) of C, and bounds (e,) on the errors between them."""
        edges: list[float] = []
        lower: list[int] = []
        upper: list[int] = []
        last = self.ends[0]
        for interval in sorted(self.intervals, key=lambda interval: interval.left.C):
            last = interval.right.C
            edges.extend(interval.left.C + EDGES[:-1] * (last - interval.left.C))
            lower.extend(interval.lower)
            upper.extend(interval.upper)
        if last < self.ends[1]:  # nothing is known about the rest of the scan
            edges.append(last)
            lower.append(0)
            upper.append(self.rows)
        edges.append(self.ends[1])
        return np.array(edges), np.array(lower), np.array(upper)
