"""Visits of blocks of features: steps of Algorithm 1 with a kept factor, and their safeguards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Problem
from workbench.data.generators import Generator
from workbench.kernels.rows import write_product
from workbench.least_squares.generalized import extrapolated
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import GRAM_ROWS, Factor, by_root, product, residuals

KEPT_BYTES = 2**30  # a block's features of all rows are kept during its visit up to this size
TOLERANCE = 1e-6  # by which an objective may rise: the rounding of the losses
RAISES = tuple(10.0**e for e in range(-8, 2))  # additions to the diagonal, over the trace


class TrainingRows:
    """The rows of a problem with their (n, k) float32 scores ``F``, which are changed in place.

    The features of a block are made `GRAM_ROWS` rows at a time. If they do not fit into
    :data:`KEPT_BYTES`, they are made again for every sum. With `calibrate` the scores are k more
    features.
    """

    def __init__(self, problem: Problem, F, generator: Generator, link: str, calibrate=False):
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

    @np.errstate(over="ignore", invalid="ignore")  # the caller refuses values that are not finite
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

    @np.errstate(over="ignore", invalid="ignore")  # the caller rejects values that are not finite
    def advance(self, V: np.ndarray) -> float:
        """Put the scores F + ZV aside and return the loss there."""
        V, loss = V.astype(np.float32), 0.0
        for rows, Z in self.features():
            F = self.aside[rows]
            write_product(Z, V, F)
            F += self.F[rows]
            loss += self.loss(F, rows, np.empty_like(F))
        return loss

    def update(self) -> None:
        """Replace the scores by those that were put aside."""
        self.F[...] = self.aside


class BlockVisits:
    """The visits of a stagewise regression, which change its state `s` and the scores of `rows`.

    The Cholesky factors of the blocks are kept if there are several passes. With the scores as
    features, a block's change has k more rows, U: then W (I + U) replaces all weights.
    """

    def __init__(self, rows: TrainingRows, s, alpha: float, link: str, passes: int, inner: int):
        self.rows, self.s, self.generator = rows, s, s.generator
        self.alpha, self.link, self.inner = alpha, link, inner
        self.blocks, self.several = self.generator.blocks, passes > 1
        self.parts = [self.generator.part(b) for b in range(self.blocks)]
        self.factors: dict[int, Factor] = {}
        self.costs = np.zeros(self.blocks)  # the penalty of each block
        if s.round:
            self.costs[:] = [self.cost(b, self.generator.penalty(b)) for b in range(self.blocks)]
        else:
            s.loss = rows.at_scores() / rows.total
        s.primal = s.loss + float(self.costs.sum())

    def cost(self, b: int, M: np.ndarray | None) -> float:
        """Return the penalty of a block's weights, `M` its matrix."""
        W = self.s.W[self.parts[b]]
        return self.alpha / 2 * float(np.vdot(W, penalised(M, W)))

    def fit(self, b: int) -> np.ndarray:
        """Return the change of a block's weights; `rows` put the new scores aside."""
        k = self.s.W.shape[1] if self.rows.calibrate else 0
        W = np.vstack([self.s.W[self.parts[b]], np.zeros((k, self.s.W.shape[1]))])
        self.penalty, name = self.generator.penalty(b), f"block {b} of {self.generator.kind!r}"
        given = self.alpha, self.link, self.inner, self.penalty, self.factors.get(b), name
        step, self.s.loss, factor = fit(self.rows, W, *given)
        if self.several:
            self.factors[b] = factor
        return step

    def update(self, b: int, step: np.ndarray) -> None:
        """Add the change to the weights, and replace the scores by those that were put aside."""
        s, changed = self.s, [b]
        if self.rows.calibrate:  # F (I + U) + Z V: the weights that made F change with it
            k = s.W.shape[1]
            step, U = step[:-k], step[-k:]
            s.W += s.W @ U
            changed = range(self.blocks)
        s.W[self.parts[b]] += step
        self.rows.update()
        for c in changed:
            self.costs[c] = self.cost(c, self.penalty if c == b else self.generator.penalty(c))
        s.primal = s.loss + float(self.costs.sum())


def fit(
    rows: TrainingRows, W, alpha, link, inner, penalty=None, factor=None, block="a block"
) -> tuple[np.ndarray, float, Factor]:
    """Take the steps of Algorithm 1 on the block of `rows`, from its (p, k) weights `W`.

    Returns the change of W, the mean loss after it, whose scores `rows` has put aside, and the
    factor. A Gram matrix of single precision may be smaller than the Hessian in directions that the
    rows hardly have. Steps are too long there, and the objective rises. The steps are then taken
    again, with more on the diagonal.
    """
    S, first, before = rows.sums(factor is None)
    if factor is None:
        if not np.isfinite(S).all():
            raise ValueError(f"features: {block} is not finite; scale the rows of X")
        S /= rows.total
        S += alpha / LINKS[link].L * penalised(penalty, np.eye(len(W)))
        factor = Factor(S)

    def objective(loss: float, W: np.ndarray) -> float:
        return loss / rows.total + alpha / 2 * float(np.vdot(W, penalised(penalty, W)))

    highest = (1 + TOLERANCE) * objective(before, W)
    for share in RAISES:
        V = steps(rows, W, alpha, link, inner, penalty, factor, first)
        loss = rows.advance(V)
        if objective(loss, W + V) <= highest:
            return V, loss / rows.total, factor
        factor = factor.raised(share)
    V = np.zeros(W.shape)
    return V, rows.advance(V) / rows.total, factor


def steps(rows, W, alpha, link, inner, penalty, factor, first) -> np.ndarray:
    """Return the change of W by accelerated steps of Algorithm 1; Z'R at W is `first`."""
    V = stepped = np.zeros(W.shape)
    theta = 1.0
    for step in range(1 if link == "identity" else inner):
        G = rows.gradient(V) if step else first
        gradient = G / rows.total + alpha * penalised(penalty, W + V)
        before, stepped = stepped, V - factor.solve(gradient) / LINKS[link].L
        V, theta = extrapolated(stepped, before, gradient, theta)
    return stepped


def penalised(M: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """Return M W with the matrix of a block's penalty; None is the identity."""
    return W if M is None else np.vstack([M @ W[: len(M)], W[len(M) :]])
