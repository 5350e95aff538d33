"""The training rows of stagewise regression: their scores, and sums over a block's features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.problem import Problem
from workbench.core.shares import Shares, cut, pieces
from workbench.data.generators import Generator
from workbench.kernels.thin import multiply
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import (
    GRAM_ROWS,
    add_lower,
    by_root,
    product,
    residuals,
)


class Share:
    """The rows `at` of a problem with their scores ``F`` (m, k), a view of those of all rows.

    The features of a block are made `GRAM_ROWS` rows at a time. While the block is visited, the
    features of the first rows are kept, as many as fit into `kept` bytes. The others are made
    again whenever they are needed.
    """

    def __init__(
        self,
        problem: Problem,
        at: slice,
        F: np.ndarray,
        generator: Generator,
        link: str,
        kept: int,
        calibrate: bool,
    ):
        self.problem, self.start = problem, at.start  # a slice of sparse rows would be a copy
        self.y, self.weights = problem.y[at], problem.weights[at]
        self.weight = float(self.weights.sum())
        self.F, self.aside = F[at], np.empty_like(F[at])
        self.generator, self.residuals_of = generator, LINKS[link].residuals
        self.kept, self.calibrate = kept, calibrate
        self.Z = np.zeros((0, 0), np.float32)  # the rows that are kept, then a buffer
        self.lasting = self.made = 0  # rows that are kept, and rows whose features are made

    def generate(self, b: int) -> None:
        """Begin a visit of block `b`: its features are made when a sum first needs them."""
        n, p = len(self.F), self.generator.width(b)
        self.make, self.made = self.generator.make(b), 0
        rows_kept = self.kept // (4 * p)
        self.lasting = n if rows_kept >= n else rows_kept // GRAM_ROWS * GRAM_ROWS
        shape = self.lasting + min(n - self.lasting, GRAM_ROWS), p
        if self.Z.shape != shape:
            self.Z = np.empty(shape, np.float32)

    def loss(self, F: np.ndarray, rows: slice, R: np.ndarray) -> float:
        """Return the loss of some rows at their scores `F`, and write their residuals to `R`."""
        return self.residuals_of(F, self.y[rows], R, self.weights[rows])

    def total(self) -> float:
        """Return the sum of the rows' weights."""
        return self.weight

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
                heavy = by_root(Z, self.weights[rows])
                # NumPy does half of a product that is symmetric, and a factor reads half of it.
                add_lower(S, np.dot(heavy.T, heavy, out=part))
            R = np.empty_like(self.F[rows])
            loss += self.loss(self.F[rows], rows, R)
            G += product(Z, R)
        return S, G, loss

    def gradient(self, V: np.ndarray) -> np.ndarray:
        """Return Z'R at the scores F + ZV."""
        G = np.zeros(V.shape)
        for rows, Z in self.features():
            of, weights = self.residuals_of, self.weights[rows]
            G = G + residuals(Z, self.y[rows], V, of, weights, self.F[rows])[2]
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

    def forget(self) -> None:
        """Drop the block's weights; its features' memory is for the next block's."""
        self.make = None

    def features(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and their features; with `calibrate` the scores are features too."""
        for rows in pieces(len(self.F), GRAM_ROWS):
            if rows.stop <= self.lasting:
                Z = self.Z[rows]
            else:
                Z = self.Z[self.lasting : self.lasting + rows.stop - rows.start]
            if rows.stop > min(self.made, self.lasting):
                first = self.start + rows.start
                self.make(self.problem.X[first : self.start + rows.stop], Z)
                self.made = rows.stop
            yield rows, np.hstack([Z, self.F[rows]]) if self.calibrate else Z


def training_rows(
    problem: Problem,
    F: np.ndarray,
    generator: Generator,
    link: str,
    kept: float = 2**28,
    workers: int = 1,
    calibrate: bool = False,
) -> Shares:
    """Return all training rows in shares, each worked on by its own thread.

    :meth:`Share.update` changes the (n, k) float32 scores `F` in place. The features of a block may
    take `kept` bytes. Of few rows, there are no more shares than pieces of `GRAM_ROWS`.
    """
    parts = cut(problem.n, GRAM_ROWS, workers)
    kept = int(min(kept, 2**62)) // len(parts)
    return Shares([Share(problem, at, F, generator, link, kept, calibrate) for at in parts])
