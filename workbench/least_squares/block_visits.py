"""Visits of blocks of features: steps of Algorithm 1 with a kept factor, and their safeguards."""

from __future__ import annotations

import numpy as np

from workbench.least_squares.generalized import extrapolated
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import Factor
from workbench.least_squares.rows import TrainingRows

TOLERANCE = 1e-6  # by which an objective may rise: the rounding of the losses
RAISES = tuple(10.0**e for e in range(-8, 2))  # additions to the diagonal, over the trace


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
        self.penalty = None  # the matrix of the penalty of the block that is visited
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
    rows: TrainingRows,
    W: np.ndarray,
    alpha: float,
    link: str,
    inner: int,
    penalty: np.ndarray | None = None,
    factor: Factor | None = None,
    block: str = "a block",
) -> tuple[np.ndarray, float, Factor]:
    """Take the steps of Algorithm 1 on the block of `rows`, from its weights `W`.

    A Gram matrix of single precision may be smaller than the Hessian in directions that the rows
    hardly have. Steps are too long there, and the objective rises. The steps are then taken again,
    with more on the diagonal.

    Returns
    -------
    The change of W, the mean loss after it, whose scores `rows` has put aside, and the factor
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
    """Return where accelerated steps of Algorithm 1 lead from W, whose Z'R is `first`."""
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
