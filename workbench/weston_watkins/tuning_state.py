"""The state of a certified search for C: what it has proven, and the points it was
proven from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_sparse, check_whole
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State
from workbench.core.stream import Row

PIECES = 4  # pieces of an interval, each with its own number of certain errors
EDGES = np.linspace(0.0, 1.0, PIECES + 1)


@dataclass
class Tuning(State):
    """All that is proven so far, of p knots and t intervals between them.

    The chosen classifier is ``chosen_W`` (d, k), solved for C = ``chosen``; it has
    ``fewest`` errors among the ``rows`` validation rows. ``at`` (p,) are the values of
    C at the knots, ``W`` (p, d, k) their solutions and ``errors`` (p,) the numbers of
    their errors. Interval i lies between the knots ``left[i]`` and ``right[i]``;
    ``lower`` and ``upper`` (t, 4) bound the errors for all C in each quarter of it
    (quarters of C, not of its logarithm). ``ends`` (2,) is the range.

    ``gap``, ``loss``, ``blur`` and ``drift`` (p,) are the duality gap and the sum of
    hinges of each knot, and how far rounding may move that sum and W. ``B`` (q, n, k)
    are the dual points of the knots ``owner`` (q,), those at the ends of open
    intervals.
    """

    round: int
    rng: np.random.Generator
    eps: float
    rows: int
    fewest: int
    chosen: float
    chosen_W: np.ndarray
    ends: np.ndarray
    at: np.ndarray
    W: np.ndarray
    errors: np.ndarray
    gap: np.ndarray
    loss: np.ndarray
    blur: np.ndarray
    drift: np.ndarray
    B: np.ndarray
    owner: np.ndarray
    left: np.ndarray
    right: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    open: np.ndarray

    def scores(self, X: Matrix) -> np.ndarray:
        """Return the scores of the chosen classifier."""
        return np.asarray(check_sparse(X) @ self.chosen_W)

    def info(self) -> Row:
        """Return the counted error, the eps achieved, the solves, and the fraction
        certified."""
        fractions = {"error": self.fewest / self.rows, "eps": self.achieved}
        return fractions | {"solves": self.round, "certified": self.certified}

    @property
    def target(self) -> int:
        """The number of certain errors that suffices."""
        return self.fewest - math.floor(self.eps * self.rows)

    @property
    def achieved(self) -> float:
        """No C of the range has an error that is lower than the chosen one's by more
        than this."""
        return max(0, self.fewest - int(self.band()[1].min())) / self.rows

    @property
    def certified(self) -> float:
        """The fraction of the range, on a logarithmic axis, for which `eps` is
        proven."""
        edges, lower, _ = self.band()
        widths = np.diff(np.log(edges))
        return float(widths[lower >= self.target].sum() / widths.sum())

    def band(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return edges (e + 1,) and the fewest and most errors possible between them
        (e,)."""
        order = np.argsort(self.at[self.left])
        C_1, C_2 = (
            self.at[self.left[order]][:, None],
            self.at[self.right[order]][:, None],
        )
        edges = np.append(C_1 + EDGES[:-1] * (C_2 - C_1), C_2[-1:])
        lower, upper = self.lower[order].ravel(), self.upper[order].ravel()
        if not len(lower):
            return self.ends, np.array([0]), np.array([self.rows])
        if edges[-1] < self.ends[1]:  # nothing is known of what is not scanned yet
            edges, lower = np.append(edges, self.ends[1]), np.append(lower, 0)
            upper = np.append(upper, self.rows)
        return edges, lower, upper


def start(
    problem: Problem, rows: int, eps: float, ends: np.ndarray, seed: int
) -> Tuning:
    """Return the state of round 0: no knot, nothing proven of the `rows` validation
    rows."""
    n, d, k = problem.n, problem.d, problem.k
    return Tuning(
        round=0,
        rng=np.random.default_rng(check_whole(seed, "seed", least=0)),
        eps=eps,
        rows=rows,
        fewest=rows,
        chosen=math.nan,
        chosen_W=np.zeros((d, k)),
        ends=ends,
        at=np.zeros(0),
        W=np.zeros((0, d, k)),
        errors=np.zeros(0, np.int64),
        gap=np.zeros(0),
        loss=np.zeros(0),
        blur=np.zeros(0),
        drift=np.zeros(0),
        B=np.zeros((0, n, k)),
        owner=np.zeros(0, np.int64),
        left=np.zeros(0, np.int64),
        right=np.zeros(0, np.int64),
        lower=np.zeros((0, PIECES), np.int64),
        upper=np.zeros((0, PIECES), np.int64),
        open=np.zeros(0, np.bool_),
    )
