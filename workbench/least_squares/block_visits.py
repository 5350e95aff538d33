"""Visits of blocks of features: Algorithm 1 on a block, and its safeguard."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Array, Problem
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

KEPT_BYTES = 2**30  # largest size of a block's features that a visit keeps for all rows
TOLERANCE = 1e-6  # the fraction by which rounding may raise an objective
# Fractions of the trace that are added to the diagonal, one after another, while steps
# raise the objective.
RAISES = tuple(10.0**e for e in range(-8, 2))


class TrainingRows:
    """The rows of a problem and their (n, k) float32 scores ``F``, which change in
    place.

    The features of a block are made `GRAM_ROWS` rows at a time. If they do not fit into
    :data:`KEPT_BYTES`, they are made again for every sum. With `calibrate` the scores
    are k additional features.
    """

    def __init__(
        self, problem: Problem, F, generator: Generator, link: str, calibrate=False
    ):
        self.problem = problem
        self.F = F
        self.new = np.empty_like(F)  # the scores after a step that is not yet taken
        self.total = float(problem.weights.sum())
        self.generator = generator
        self.residuals = LINKS[link].residuals
        self.calibrate = calibrate
        self.Z = np.zeros((0, 0), np.float32)
        self.ready = 0  # number of rows whose features of this block are in Z

    def generate(self, b: int) -> None:
        """Begin a visit of block `b`; its features are made when a sum needs them."""
        n = len(self.F)
        p = self.generator.width(b)
        self.make = self.generator.make(b)
        self.ready = 0
        rows = n if 4 * n * p <= KEPT_BYTES else min(n, GRAM_ROWS)
        if self.Z.shape != (rows, p):
            self.Z = np.empty((rows, p), np.float32)

    def features(self) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and their features, and with `calibrate` the scores."""
        kept = len(self.Z) == len(self.F)
        for rows in pieces(len(self.F), GRAM_ROWS):
            Z = self.Z[rows] if kept else self.Z[: rows.stop - rows.start]
            if not kept or rows.stop > self.ready:
                self.make(self.problem.X[rows], Z)
                self.ready = rows.stop
            if self.calibrate:
                Z = np.hstack([Z, self.F[rows]])
            yield rows, Z

    def loss(self, F: Array, rows: slice, R: Array) -> float:
        """Return the loss of rows at the scores `F`; write their residuals to `R`."""
        return self.residuals(F, self.problem.y[rows], R, self.problem.weights[rows])

    # The callers refuse values that are not finite.
    @np.errstate(over="ignore", invalid="ignore")
    def sums(self, with_gram: bool) -> tuple[Array, Array, float]:
        """Return Z'Z (weighted, empty unless `with_gram`), Z'R and the loss at the
        scores."""
        k = self.F.shape[1]
        q = self.Z.shape[1]
        if self.calibrate:
            q += k
        size = q if with_gram else 0
        S = np.zeros((size, size))
        part = np.empty((size, size), np.float32)
        G = np.zeros((q, k))
        loss = 0.0
        for rows, Z in self.features():
            if with_gram:
                heavy = by_root(Z, self.problem.weights[rows])
                # NumPy computes half of a product with the same matrix.
                S += np.dot(heavy.T, heavy, out=part)
            R = np.empty_like(self.F[rows])
            loss += self.loss(self.F[rows], rows, R)
            G += product(Z, R)
        return S, G, loss

    def gradient(self, V: Array) -> Array:
        """Return Z'R at the scores F + ZV."""
        y = self.problem.y
        weights = self.problem.weights
        G = np.zeros(V.shape)
        for rows, Z in self.features():
            _, _, part = residuals(
                Z, y[rows], V, self.residuals, weights[rows], self.F[rows]
            )
            G += part
        return G

    @np.errstate(over="ignore", invalid="ignore")
    def advance(self, V: Array) -> float:
        """Write the scores F + ZV to ``new`` and return the loss there."""
        V = V.astype(np.float32)
        loss = 0.0
        for rows, Z in self.features():
            F = self.new[rows]
            write_product(Z, V, F)
            F += self.F[rows]
            loss += self.loss(F, rows, np.empty_like(F))
        return loss


class BlockVisits:
    """The visits of a stagewise regression, which change its state `s`.

    With `keep` the Cholesky factors of the blocks are stored for later passes. With
    `calibrate` the scores are k additional features of every block. Then the change of
    the block's weights has k more rows, U, and W (I + U) replaces all weights.
    """

    def __init__(
        self, problem: Problem, s, alpha: float, link: str, keep=False, calibrate=False
    ):
        self.rows = TrainingRows(problem, s.F, s.generator, link, calibrate)
        self.s = s
        self.alpha = alpha
        self.link = link
        self.keep = keep
        self.blocks = s.generator.blocks
        self.factors: dict[int, Factor] = {}
        if not s.round:
            s.loss = self.rows.loss(s.F, slice(None), self.rows.new) / self.rows.total
        self.restart()

    def restart(self) -> None:
        """Compute the penalty of each block, and the objective."""
        self.costs = [0.0] * self.blocks
        if self.s.round:
            self.costs = [self.cost(b) for b in range(self.blocks)]
        self.s.primal = self.s.loss + sum(self.costs)

    def cost(self, b: int) -> float:
        """Return the penalty of a block's weights."""
        generator = self.s.generator
        return self.cost_of(self.s.W[generator.own(b)], generator.penalty(b))

    def cost_of(self, W: Array, M: Array | None) -> float:
        """Return the penalty of the weights `W`, whose matrix is `M`."""
        return self.alpha / 2 * float(np.vdot(W, penalised(M, W)))

    def generate(self, b: int) -> None:
        """Begin the visit of block `b`; its features are made when a sum needs them."""
        self.b = b
        self.penalty = self.s.generator.penalty(b)
        self.rows.generate(b)

    def output(self, inner: int, accelerated: bool) -> Array:
        """Return the change of the block's weights, and write the new scores to `rows`.

        A Gram matrix in single precision may be smaller than the Hessian in directions
        in which the rows hardly vary. Then steps in these directions are too long, and
        the objective rises. The steps are repeated with larger values on the diagonal.
        """
        rows = self.rows
        W = self.s.W[self.s.generator.own(self.b)]
        if rows.calibrate:
            k = W.shape[1]
            W = np.vstack([W, np.zeros((k, k))])
        factor = self.factors.get(self.b)
        S, first, before = rows.sums(factor is None)
        if factor is None:
            factor = self.factor(S)

        def objective(loss: float, W: Array) -> float:
            return loss / rows.total + self.cost_of(W, self.penalty)

        def gradient(V: Array) -> Array:
            G = first if V is zeros else rows.gradient(V)
            return G / rows.total + self.alpha * penalised(self.penalty, W + V)

        zeros = np.zeros(W.shape)
        highest = (1 + TOLERANCE) * objective(before, W)
        if self.link == "identity":
            inner = 1
        for fraction in RAISES:
            start = Iterate(0, zeros, zeros, 1.0)
            steps = updates(start, gradient, factor, LINKS[self.link].L, accelerated)
            *_, end = islice(steps, inner)
            step = end.stepped
            loss = rows.advance(step)
            if objective(loss, W + step) <= highest:
                break
            factor = factor.raised(fraction)
        else:
            step = zeros
            loss = rows.advance(zeros)
        if self.keep:
            self.factors[self.b] = factor
        self.s.loss = loss / rows.total
        return step

    def factor(self, S: Array) -> Factor:
        """Return the factor of the mean of z z' over the rows, plus the penalty."""
        if not np.isfinite(S).all():
            kind = f"block {self.b} of {self.s.generator.kind!r}"
            raise ValueError(f"features: {kind} is not finite; scale the rows of X")
        S /= self.rows.total
        S += self.alpha / LINKS[self.link].L * penalised(self.penalty, np.eye(len(S)))
        return Factor(S)

    def update(self, step: Array) -> None:
        """Add the change to the weights, and replace the scores by the new ones."""
        s = self.s
        changed = [self.b]
        if self.rows.calibrate:
            # The scores are F (I + U) + Z V, so the weights of F change too.
            k = s.W.shape[1]
            s.W += s.W @ step[-k:]
            step = step[:-k]
            changed = range(self.blocks)
        s.W[s.generator.own(self.b)] += step
        self.rows.F[...] = self.rows.new
        for b in changed:
            self.costs[b] = self.cost(b)
        s.primal = s.loss + sum(self.costs)


def penalised(M: Array | None, W: Array) -> Array:
    """Return M W with the matrix of a block's penalty; None is the identity."""
    return W if M is None else np.vstack([M @ W[: len(M)], W[len(M) :]])
