"""The training rows of stagewise regression: their scores, and sums over features made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock

import numpy as np
from threadpoolctl import ThreadpoolController

from workbench.core.problem import Matrix, Problem
from workbench.data.generators import Generator
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import GRAM_ROWS, pieces, residuals

Ask = Callable[..., list]  # ask("name", ...) calls that method of every share of the rows


class Share:
    """Some of the rows with their scores ``F`` (m, k); a thread's, or a Dask worker's.

    The features of a block are made `GRAM_ROWS` rows at a time. Those of the first rows are kept
    while the block is visited, as many as fit into `kept` bytes; the others are made again
    whenever they are needed.
    """

    def __init__(
        self,
        X: Matrix,
        y: np.ndarray,
        F: np.ndarray,
        generator: Generator,
        link: str,
        kept: int,
        calibrate: bool,
    ):
        self.X, self.y, self.F, self.aside = X, y, F, np.empty_like(F)
        self.generator, self.residuals_of = generator, LINKS[link].residuals
        self.kept, self.calibrate = kept, calibrate
        self.Z = np.zeros((0, 0), np.float32)  # the rows that are kept, then a buffer
        self.lasting = self.made = 0  # rows that are kept, and that are there already

    def loss(self) -> float:
        """Return the loss at the scores."""
        return self.residuals_of(self.F, self.y, np.empty_like(self.F))

    def open(self, b: int) -> None:
        """Begin a visit of block `b`."""
        n, p = len(self.F), self.generator.width(b)
        self.make, self.made = self.generator.make(b), 0
        rows_kept = self.kept // (4 * p)
        self.lasting = n if rows_kept >= n else rows_kept // GRAM_ROWS * GRAM_ROWS
        shape = self.lasting + min(n - self.lasting, GRAM_ROWS), p
        if self.Z.shape != shape:
            self.Z = np.empty(shape, np.float32)

    @np.errstate(over="ignore", invalid="ignore")  # who asks refuses what is not finite
    def sums(self, with_gram: bool) -> tuple[np.ndarray | None, np.ndarray, float]:
        """Return Z'Z, or None, and Z'R and the loss at the scores."""
        k, q = self.F.shape[1], self.Z.shape[1] + self.calibrate * self.F.shape[1]
        S, G, loss = np.zeros((q, q)) if with_gram else None, np.zeros((q, k)), 0.0
        product = np.empty((q, q), np.float32) if with_gram else None
        for rows, Z in self.features():
            if with_gram:
                S += np.dot(Z.T, Z, out=product)  # a symmetric one: NumPy does half
            R = np.empty_like(self.F[rows])
            loss += self.residuals_of(self.F[rows], self.y[rows], R)
            G += Z.T @ R
        return S, G, loss

    def residuals(self, V: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Z'R and the loss at the scores F + ZV."""
        G, loss = np.zeros(V.shape), 0.0
        for rows, Z in self.features():
            l, _, g = residuals(Z, self.y[rows], V, self.residuals_of, self.F[rows])
            G, loss = G + g, loss + l
        return G, loss

    @np.errstate(over="ignore", invalid="ignore")  # who asks does not accept what is not finite
    def advance(self, V: np.ndarray) -> float:
        """Put the scores F + ZV aside and return the loss there."""
        V, loss = V.astype(np.float32), 0.0
        for rows, Z in self.features():
            F = self.aside[rows]
            np.matmul(Z, V, out=F)
            F += self.F[rows]
            loss += self.residuals_of(F, self.y[rows], np.empty_like(F))
        return loss

    def accept(self) -> None:
        """Make the scores that were put aside those of the rows: the end of a visit."""
        self.F[...] = self.aside

    def features(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and their features; where predictions are calibrated, the scores are too."""
        for rows in pieces(len(self.F), GRAM_ROWS):
            if rows.stop <= self.lasting:
                Z = self.Z[rows]
            else:
                Z = self.Z[self.lasting : self.lasting + rows.stop - rows.start]
            if rows.stop > min(self.made, self.lasting):
                self.make(self.X[rows], Z)
                self.made = rows.stop
            yield rows, np.hstack([Z, self.F[rows]]) if self.calibrate else Z


def shares(
    problem: Problem,
    F: np.ndarray,
    generator: Generator,
    link: str,
    workers: int,
    kept: float,
    calibrate: bool = False,
) -> list[Share]:
    """Return a share of the training rows, and of the bytes that may be kept, for each worker."""
    n, workers = problem.n, min(workers, problem.n)
    kept = int(min(kept, 2**62)) // workers
    parts = []
    for i in range(workers):
        rows = slice(i * n // workers, (i + 1) * n // workers)
        X = problem.X if workers == 1 else problem.X[rows]  # a slice of sparse rows is a copy
        parts.append(Share(X, problem.y[rows], F[rows], generator, link, kept, calibrate))
    return parts


@contextmanager
def threads(shares: list[Share]) -> Iterator[Ask]:
    """Ask every share from a thread of its own, each with a BLAS of one thread."""
    if len(shares) == 1:
        yield lambda name, *arguments: [getattr(shares[0], name)(*arguments)]
        return
    with ThreadPoolExecutor(len(shares)) as pool:

        def ask(name: str, *arguments) -> list:
            # The limit is the process's: of two streams at a time, one would undo the other's.
            with _asking, _libraries().limit(limits=1):
                return list(pool.map(lambda share: getattr(share, name)(*arguments), shares))

        yield ask


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for loaded libraries, which takes milliseconds


_asking = Lock()
