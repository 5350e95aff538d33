"""Stagewise regression (Algorithm 3): features block by block, made when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real

import numpy as np

from workbench.core.checks import check_counts, check_flags, check_positive, check_sparse
from workbench.core.problem import Matrix, Problem
from workbench.core.shares import Shares, pieces
from workbench.core.stream import Row
from workbench.data.generators import Generator, fitted
from workbench.least_squares.cluster import cluster_of
from workbench.least_squares.generalized import extrapolated
from workbench.least_squares.links import check_link
from workbench.least_squares.products import GRAM_ROWS, Factor, check_size
from workbench.least_squares.rows import Share, training_rows

TOLERANCE = 1e-6  # by which an objective may rise: the rounding of the losses
RAISES = tuple(10.0**e for e in range(-8, 2))  # additions to the diagonal, over the trace


@dataclass
class StagewiseState:
    """Weights ``W`` (n_features, k), the scores ``F`` (n, k) of the training rows, the objective.

    ``F`` is empty, (0, k), if the rows are on a cluster, whose workers hold their scores.
    ``loss`` is the mean loss, ``primal`` adds the penalty. The other fields are those of a
    :class:`~workbench.data.generators.Generator`: the model stores a seed instead of features.
    """

    round: int
    W: np.ndarray
    F: np.ndarray
    loss: float
    primal: float
    features: str
    d: int
    n_features: int
    block: int
    seed: int
    s: float
    anchors: np.ndarray

    @property
    def generator(self) -> Generator:
        """Return the feature generator."""
        return Generator(
            self.features, self.d, self.n_features, self.block, self.seed, self.s, self.anchors
        )

    def scores(self, X) -> np.ndarray:
        return scores(self.generator, check_sparse(X), self.W)

    def info(self) -> Row:
        return {"primal": self.primal, "loss": self.loss}


def ls_stagewise(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    features: str = "orthogonal_fourier",
    n_features: int = 8192,
    block: int = 1024,
    link: str = "softmax",
    passes: int = 3,
    inner: int = 4,
    bandwidth: float = 1.0,
    calibrate: bool = False,
    seed: int = 0,
    kept: int = 2**28,
    workers: int = 1,
    state: StagewiseState | None = None,
) -> Iterator[StagewiseState]:
    """Minimise mean_i loss(W'z_i, y_i) + alpha/2 |W|^2 over random features z, block by block.

    A round visits one block: it makes the block's features and takes `inner` accelerated steps of
    Algorithm 1 from where the scores are (one step for the identity link, which is exact). With
    one pass this is the paper's Algorithm 3, for the softmax with logits instead of residuals.
    Later passes are ours: cyclic block descent, with the blocks' Cholesky factors kept, which goes
    on to the solution for all features at once. Products are of single precision, sums over rows
    of double. The stream ends after the last pass.

    Parameters
    ----------
    alpha : positive, for the mean loss of a row, weighted by the problem's weights
    features, n_features, block, bandwidth : see :func:`workbench.data.generators.fitted`
    link : "identity", "softmax", "squared_hinge" or "sigmoid"
    passes : visits of every block, at least 1
    inner : steps of Algorithm 1 per visit, at least 1
    calibrate : take the scores so far as k more features of every block (the paper's linear
        calibration); the model stays linear in its features. With one pass only
    seed : of the features; a `state` that is given has its own
    kept : bytes, at least 0, that a block's features may take between two steps; what does not
        fit is made again at every step
    workers : threads, at least 1, each with its share of the rows; the iterates are the same

    Raises
    ------
    ValueError
        For a parameter out of its range, or features that are not finite.
    """
    check_stages(alpha, link, passes, inner, block, kept, workers)
    check_counts(n_features=n_features)
    check_size(min(block, n_features), "block: its")
    check_flags(calibrate=calibrate)
    if calibrate and passes > 1:
        raise ValueError(f"calibrate: must have passes=1, got passes={passes!r}")
    s = state or start(fitted(problem, features, n_features, block, bandwidth, seed), problem)
    cluster = cluster_of(problem)
    s.F = s.F[:0] if cluster else s.F if len(s.F) else s.scores(problem.X)
    if not cluster and s.F.shape != (problem.n, problem.k):
        raise ValueError(
            f"state: is of {len(s.F)} rows and {s.F.shape[1]} classes, the problem has "
            f"{problem.n} and {problem.k}"
        )
    if cluster:
        make = partial(_share, s.W.copy(), s.generator, link, kept, calibrate)
        shares = cluster.hold(make)
    else:
        shares = training_rows(problem, s.F, s.generator, link, kept, workers, calibrate)
    with shares as rows:
        yield from stages(rows, s, alpha, link, passes, inner, calibrate)


def _share(W, generator, link, kept, calibrate, part: Problem) -> Share:
    F = scores(generator, part.X, W) if W.any() else start(generator, part).F
    return Share(part, slice(0, part.n), F, generator, link, int(min(kept, 2**62)), calibrate)


def check_stages(alpha, link, passes, inner, block, kept, workers) -> None:
    """Raise a ValueError that names the first argument out of its range."""
    check_positive(alpha, "alpha")
    check_link(link)
    check_counts(passes=passes, inner=inner, block=block, workers=workers)
    if not isinstance(kept, Real) or not kept >= 0:
        raise ValueError(f"kept: must be a number of bytes, at least 0, got {kept!r}")


def start(generator: Generator, problem: Problem) -> StagewiseState:
    """Return the state without weights."""
    g = generator
    W, F = np.zeros((g.n_features, problem.k)), np.zeros((problem.n, problem.k), np.float32)
    about = g.kind, g.d, g.n_features, g.block, g.seed, g.s, g.anchors
    return StagewiseState(0, W, F, np.nan, np.nan, *about)


def stages(
    rows: Shares,
    s: StagewiseState,
    alpha: float,
    link: str,
    passes: int,
    inner: int = 4,
    calibrate: bool = False,
) -> Iterator[StagewiseState]:
    """Do the rounds of Algorithm 3 on `rows`, whose scores are the state's.

    A visit has four steps: generate a block's features, fit them to what the scores leave over,
    update weights and scores, and forget the features.
    """
    generator, k = s.generator, s.W.shape[1]
    parts = [generator.part(b) for b in range(generator.blocks)]
    factors: dict[int, Factor] = {}

    def cost(b: int, M: np.ndarray | None) -> float:
        """Return the penalty of block `b`."""
        W = s.W[parts[b]]
        return alpha / 2 * float(np.vdot(W, penalised(M, W)))

    costs = np.zeros(len(parts))
    if s.round:
        costs[:] = [cost(b, generator.penalty(b)) for b in range(len(parts))]
    else:
        s.loss = rows.ask(Share.at_scores) / rows.ask(Share.total)
    s.primal = s.loss + float(costs.sum())
    yield s
    while s.round < passes * len(parts):
        b = s.round % len(parts)
        M = generator.penalty(b)
        rows.change(Share.generate, b)

        W = np.vstack([s.W[parts[b]], np.zeros((k if calibrate else 0, k))])
        of = f"block {b} of {generator.kind!r}"
        step, loss, factor = fit(rows, W, alpha, link, inner, M, factors.get(b), of)
        if passes > 1:
            factors[b] = factor

        if calibrate:  # F (I + U) + Z V: what made F changes with it
            step, U = step[:-k], step[-k:]
            s.W += s.W @ U
        s.W[parts[b]] += step
        rows.change(Share.update)

        rows.change(Share.forget)
        changed = range(len(parts)) if calibrate else [b]
        costs[changed] = [cost(c, M if c == b else generator.penalty(c)) for c in changed]
        s.round += 1
        s.loss = loss
        s.primal = s.loss + float(costs.sum())
        yield s


def fit(
    rows: Shares,
    W: np.ndarray,
    alpha: float,
    link: str,
    inner: int,
    penalty: np.ndarray | None = None,
    factor: Factor | None = None,
    block: str = "a block",
) -> tuple[np.ndarray, float, Factor]:
    """Take the steps of Algorithm 1 on the block of `rows`, from its weights `W`.

    Gram matrices of single precision may fall short of the Hessian in directions that the rows
    hardly have, and there the steps are too long: the objective rises. They are taken again then,
    with more on the diagonal.

    Returns
    -------
    The change of W, the mean loss after it, whose scores `rows` has put aside, and the factor
    """
    total = rows.ask(Share.total)
    S, first, before = rows.ask(Share.sums, factor is None)
    if factor is None:
        if not np.isfinite(S).all():
            raise ValueError(f"features: {block} is not finite; scale the rows of X")
        S /= total
        S += alpha / check_link(link).L * penalised(penalty, np.eye(len(W)))
        factor = Factor(S)

    def objective(loss: float, W: np.ndarray) -> float:
        return loss / total + alpha / 2 * float(np.vdot(W, penalised(penalty, W)))

    highest = (1 + TOLERANCE) * objective(before, W)
    for shift in RAISES:
        V = steps(rows, W, alpha, link, inner, penalty, factor, first)
        loss = rows.change(Share.advance, V)
        if objective(loss, W + V) <= highest:
            return V, loss / total, factor
        factor = factor.raised(shift * factor.bound())
    V = np.zeros(W.shape)
    return V, rows.change(Share.advance, V) / total, factor


def steps(
    rows: Shares,
    W: np.ndarray,
    alpha: float,
    link: str,
    inner: int,
    penalty: np.ndarray | None,
    factor: Factor,
    first: np.ndarray,
) -> np.ndarray:
    """Return where accelerated steps of Algorithm 1 lead from W, whose Z'R is `first`."""
    L, total = check_link(link).L, rows.ask(Share.total)
    V = stepped = np.zeros(W.shape)
    theta = 1.0
    for step in range(1 if link == "identity" else inner):
        G = rows.ask(Share.gradient, V) if step else first
        gradient = G / total + alpha * penalised(penalty, W + V)
        before, stepped = stepped, V - factor.solve(gradient) / L
        V, theta = extrapolated(stepped, before, gradient, theta)
    return stepped


def penalised(M: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """Return M W with the matrix of a block's penalty; None is the identity."""
    return W if M is None else np.vstack([M @ W[: len(M)], W[len(M) :]])


def scores(generator: Generator, X: Matrix, W: np.ndarray, rows: int = GRAM_ROWS) -> np.ndarray:
    """Return the (m, k) scores of `X`, whose features are made `rows` rows of a block at a time.

    Digits of a product in single precision depend on its number of rows: with one row at a time
    those of a row do not depend on the others.
    """
    F = np.zeros((X.shape[0], W.shape[1]), np.float32)
    W = W.astype(np.float32)
    for b in range(generator.blocks):
        make = generator.make(b)
        Z = np.empty((min(rows, len(F)), generator.width(b)), np.float32)
        for piece in pieces(len(F), rows):
            part = Z[: piece.stop - piece.start]
            make(X[piece], part)
            F[piece] += part @ W[generator.part(b)]
    return F
