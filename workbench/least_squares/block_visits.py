"""Visits of blocks of features: Algorithm 1 on a block, and its safeguard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Problem
from workbench.kernels.rows import write_product
from workbench.least_squares.generalized import Iterate, updates
from workbench.least_squares.generators import Generator
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import (
    GRAM_ROWS,
    Factor,
    by_root,
    product,
    residuals,
)

KEPT_BYTES = (
    2**30
)  # a block's features of all rows are kept during its visit up to this size
TOLERANCE = 1e-6  # by which an objective may rise: the rounding of the losses
RAISES = tuple(
    10.0**e for e in range(-8, 2)
)  # additions to the diagonal, over the trace


class TrainingRows:
    """The rows of a problem with their (n, k) float32 scores ``F``, which are changed
    in place.

    The features of a block are made `GRAM_ROWS` rows at a time. If they do not fit into
    :data:`KEPT_BYTES`, they are made again for every sum. With `calibrate` the scores
    are k more features.
    """

    def __init__(
        self, problem: Problem, F, generator: Generator, link: str, calibrate=False
    ):
        self.problem, self.F, self.aside = problem, F, np.empty_like(F)
        self.total = float(problem.weights.sum())
        self.generator, self.of, self.calibrate = (
            generator,
            LINKS[link].residuals,
            calibrate,
        )
        self.Z = np.zeros((0, 0), np.float32)
        self.made = 0  # rows whose features of this block are made

    def generate(self, b: int) -> None:
        """Begin a visit of block `b`: its features are made when a sum first needs
        them."""
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
        """Return the loss of some rows at their scores `F`, and write their residuals
        to `R`."""
        return self.of(F, self.problem.y[rows], R, self.problem.weights[rows])

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # the caller refuses values that are not finite
    def sums(self, with_gram: bool) -> tuple[np.ndarray, np.ndarray, float]:
        """Return Z'Z (empty without `with_gram`), Z'R and the loss at the scores."""
        k, q = self.F.shape[1], self.Z.shape[1] + self.calibrate * self.F.shape[1]
        whole = q * with_gram
        S, part = np.zeros((whole, whole)), np.empty((whole, whole), np.float32)
        G, loss = np.zeros((q, k)), 0.0
        for rows, Z in self.features():
            if with_gram:
                heavy = by_root(Z, self.problem.weights[rows])
                S += np.dot(
                    heavy.T, heavy, out=part
                )  # a symmetric one: NumPy does half
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

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # the caller rejects values that are not finite
    def advance(self, V: np.ndarray) -> float:
        """Put the scores F + ZV aside and return the loss there."""
        V, loss = V.astype(np.float32), 0.0
        for rows, Z in self.features():
            F = self.aside[rows]
            write_product(Z, V, F)
            F += self.F[rows]
            loss += self.loss(F, rows, np.empty_like(F))
        return loss


class BlockVisits:
    """The visits of a stagewise regression, which change its state `s`.

    With `keep` the Cholesky factors of the blocks are kept, for further passes. With
    `calibrate` the scores are k more features of every block, whose change then has k
    more rows, U: W (I + U) replaces all weights.
    """

    def __init__(
        self, problem: Problem, s, alpha: float, link: str, keep=False, calibrate=False
    ):
        self.rows = TrainingRows(problem, s.F, s.generator, link, calibrate)
        self.s, self.alpha, self.link, self.keep = s, alpha, link, keep
        self.blocks = s.generator.blocks
        self.factors: dict[int, Factor] = {}
        if not s.round:
            s.loss = self.rows.loss(s.F, slice(None), self.rows.aside) / self.rows.total
        self.restart()

    def restart(self) -> None:
        """Set the penalty of each block, and the objective."""
        s, self.costs = self.s, [0.0] * self.blocks
        if s.round:
            self.costs = [
                self.cost(b, s.generator.penalty(b)) for b in range(self.blocks)
            ]
        s.primal = s.loss + sum(self.costs)

    def cost(self, b: int, M: np.ndarray | None) -> float:
        """Return the penalty of a block's weights, `M` its matrix."""
        return self.price(self.s.W[self.s.generator.own(b)], M)

    def price(self, W: np.ndarray, M: np.ndarray | None) -> float:
        """Return the penalty of some weights."""
        return self.alpha / 2 * float(np.vdot(W, penalised(M, W)))

    def generate(self, b: int) -> None:
        """Begin the visit of block `b`, whose features are made when a sum first needs
        them."""
        self.b, self.penalty = b, self.s.generator.penalty(b)
        self.rows.generate(b)

    def output(self, inner: int, accelerated: bool) -> np.ndarray:
        """Return the change of the block's weights; `rows` put the new scores aside.

        A Gram matrix of single precision may be smaller than the Hessian in directions
        that the rows hardly have. Steps are too long there, and the objective rises.
        The steps are then taken again, with more on the diagonal.
        """
        rows, k = self.rows, self.s.W.shape[1]
        more = np.zeros((k * rows.calibrate, k))
        W = np.vstack([self.s.W[self.s.generator.own(self.b)], more])
        factor = self.factors.get(self.b)
        S, first, before = rows.sums(factor is None)
        if factor is None:
            factor = self.factor(S)

        def objective(loss: float, W: np.ndarray) -> float:
            return loss / rows.total + self.price(W, self.penalty)

        def gradient(V: np.ndarray) -> np.ndarray:
            G = first if V is zeros else rows.gradient(V)
            return G / rows.total + self.alpha * penalised(self.penalty, W + V)

        zeros, highest = np.zeros(W.shape), (1 + TOLERANCE) * objective(before, W)
        for share in RAISES:
            start = Iterate(0, zeros, zeros, 1.0)
            rounds = updates(start, gradient, factor, LINKS[self.link].L, accelerated)
            *_, end = islice(rounds, 1 if self.link == "identity" else inner)
            step, loss = end.stepped, rows.advance(end.stepped)
            if objective(loss, W + step) <= highest:
                break
            factor = factor.raised(share)
        else:
            step, loss = zeros, rows.advance(zeros)
        if self.keep:
            self.factors[self.b] = factor
        self.s.loss = loss / rows.total
        return step

    def factor(self, S: np.ndarray) -> Factor:
        """Return the factor of a block's Z'Z over the rows, with its penalty."""
        if not np.isfinite(S).all():
            kind = f"block {self.b} of {self.s.generator.kind!r}"
            raise ValueError(f"features: {kind} is not finite; scale the rows of X")
        S /= self.rows.total
        S += self.alpha / LINKS[self.link].L * penalised(self.penalty, np.eye(len(S)))
        return Factor(S)

    def update(self, step: np.ndarray) -> None:
        """Add the change to the weights, and replace the scores by those that were put
        aside."""
        s, changed = self.s, [self.b]
        if (
            self.rows.calibrate
        ):  # F (I + U) + Z V: the weights that made F change with it
            k = s.W.shape[1]
            step, U = step[:-k], step[-k:]
            s.W += s.W @ U
            changed = range(self.blocks)
        s.W[s.generator.own(self.b)] += step
        self.rows.F[...] = self.rows.aside
        for c in changed:
            self.costs[c] = self.cost(
                c, self.penalty if c == self.b else s.generator.penalty(c)
            )
        s.primal = s.loss + sum(self.costs)


def penalised(M: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """Return M W with the matrix of a block's penalty; None is the identity."""
    return W if M is None else np.vstack([M @ W[: len(M)], W[len(M) :]])
