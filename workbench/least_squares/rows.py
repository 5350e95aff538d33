"""The training rows of stagewise regression: their scores, and sums over a block's features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.problem import Problem
from workbench.core.shares import pieces
from workbench.data.generators import Generator
from workbench.kernels.thin import multiply
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import GRAM_ROWS, by_root, product, residuals

KEPT_BYTES = 2**30  # a block's features of all rows are kept during its visit up to this size


class TrainingRows:
    """The rows of a problem with their (n, k) float32 scores ``F``, which are changed in place.

    The features of a block are made `GRAM_ROWS` rows at a time. If they do not fit into
    :data:`KEPT_BYTES`, they are made again for every sum. With `calibrate` the scores are k more
    features.
    """

    def __init__(
        self,
        problem: Problem,
        F: np.ndarray,
        generator: Generator,
        link: str,
        calibrate: bool = False,
    ):
        self.problem, self.F, self.aside = problem, F, np.empty_like(F)
        self.total = float(problem.weights.sum())
        self.generator, self.of, self.calibrate = generator, LINKS[link].residuals, calibrate
        self.Z = np.zeros((0, 0), np.float32)
        self.made = 0  # rows whose features of this block are made

    def generate(self, b: int) -> None:
        """Begin a visit of block `b`: its features are made when a sum first needs them."""
        n, p = len(self.F), self.generator.width(b)
        self.make, self.made = self.generator.make(b), 0
        shape = (n if 4 * n * p <= KEPT_BYTES else min(n, GRAM_ROWS)), p
        if self.Z.shape != shape:
            self.Z = np.empty(shape, np.float32)

    def features(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and their features, the scores among them with `calibrate`."""
        kept = len(self.Z) == len(self.F)
        for rows in pieces(len(self.F), GRAM_ROWS):
            Z = self.Z[rows] if kept else self.Z[: rows.stop - rows.start]
            if not kept or rows.stop > self.made:
                self.make(self.problem.X[rows], Z)
                self.made = rows.stop
            yield rows, np.hstack([Z, self.F[rows]]) if self.calibrate else Z

    def loss(self, F: np.ndarray, rows: slice, R: np.ndarray) -> float:
        """Return the loss of some rows at their scores `F`, and write their residuals to `R`."""
        return self.of(F, self.problem.y[rows], R, self.problem.weights[rows])

    def at_scores(self) -> float:
        """Return the loss of all rows at their scores."""
        parts = pieces(len(self.F), GRAM_ROWS)
        return sum(self.loss(F := self.F[rows], rows, np.empty_like(F)) for rows in parts)

    @np.errstate(over="ignore", invalid="ignore")  # the caller refuses what is not finite
    def sums(self, with_gram: bool) -> tuple[np.ndarray | float, np.ndarray, float]:
        """Return Z'Z (0.0 without `with_gram`), Z'R and the loss at the scores."""
        k, q = self.F.shape[1], self.Z.shape[1] + self.calibrate * self.F.shape[1]
        S, G, loss = np.zeros((q, q)) if with_gram else 0.0, np.zeros((q, k)), 0.0
        part = np.empty((q, q), np.float32) if with_gram else None
        for rows, Z in self.features():
            if with_gram:
                heavy = by_root(Z, self.problem.weights[rows])
                S += np.dot(heavy.T, heavy, out=part)  # a symmetric one: NumPy does half
            R = np.empty_like(self.F[rows])
            loss += self.loss(self.F[rows], rows, R)
            G += product(Z, R)
        return S, G, loss

    def gradient(self, V: np.ndarray) -> np.ndarray:
        """Return Z'R at the scores F + ZV."""
        y, weights, G = self.problem.y, self.problem.weights, np.zeros(V.shape)
        for rows, Z in self.features():
            G += residuals(Z, y[rows], V, self.of, weights[rows], self.F[rows])[2]
        return G

    @np.errstate(over="ignore", invalid="ignore")  # the caller does not accept what is not finite
    def advance(self, V: np.ndarray) -> float:
        """Put the scores F + ZV aside and return the loss there."""
        V, loss = V.astype(np.float32), 0.0
        for rows, Z in self.features():
            F = self.aside[rows]
            multiply(Z, V, F)
            F += self.F[rows]
            loss += self.loss(F, rows, np.empty_like(F))
        return loss

    def update(self) -> None:
        """Replace the scores by those that were put aside."""
        self.F[...] = self.aside
