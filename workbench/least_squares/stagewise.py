"""Stagewise regression (Algorithm 3): blocks of features made when needed, or of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.checks import check_counts, check_flags, check_positive, check_sparse
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row
from workbench.data.generators import Generator, fitted
from workbench.least_squares.block_visits import BlockVisits, TrainingRows, fit
from workbench.least_squares.links import check_link
from workbench.least_squares.products import GRAM_ROWS, check_size


@dataclass
class StagewiseState(State):
    """Weights ``W`` (n_features, k), the scores ``F`` (n, k) of the training rows, the objective.

    ``loss`` is the mean loss, ``primal`` adds the penalty. The model keeps the ``generator`` of its
    features, a seed, instead of these.
    """

    round: int
    W: np.ndarray
    F: np.ndarray
    loss: float
    primal: float
    generator: Generator

    def scores(self, X: Matrix) -> np.ndarray:
        return scores(self.generator, check_sparse(X), self.W)

    def info(self) -> Row:
        return {"primal": self.primal, "loss": self.loss}


@resumable("alpha", "passes", "inner")
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
    state: StagewiseState | None = None,
) -> Iterator[StagewiseState]:
    """Minimise mean_i loss(W'z_i, y_i) + alpha/2 |W|^2 over random features z, block by block.

    A round visits one block: it makes the block's features and takes `inner` accelerated steps of
    Algorithm 1 from where the scores are (one step for the identity link, which is exact). One
    pass is the paper's Algorithm 3, for the softmax with logits instead of residuals. Later passes
    are ours: block descent to the solution for all features at once. Products are of single
    precision, sums over rows of double. The stream ends after the last pass.

    Parameters
    ----------
    alpha : positive ridge penalty, for the mean loss of a row, weighted by the problem's weights
    n_features, block : random features, in all and of each visit
    bandwidth, features : the kernel's width and kind, see :func:`workbench.data.generators.fitted`
    link : of scores to predictions: "identity", "softmax" or "squared_hinge"
    passes, inner : visits of every block, and steps of Algorithm 1 per visit, at least 1
    calibrate : take the scores so far as k more features of every block (the paper's linear
        calibration); the model stays linear in its features. With one pass only
    seed : int, seeds the features; a `state` that is given has its own

    Raises
    ------
    ValueError
        For a parameter out of its range, or features that are not finite.
    """
    check_stages(alpha, link, passes, inner, block)
    check_counts(n_features=n_features)
    check_size(min(block, n_features), "block: its")
    check_flags(calibrate=calibrate)
    if calibrate and passes > 1:
        raise ValueError(f"calibrate: must have passes=1, got passes={passes!r}")
    s = state or start(fitted(problem, features, n_features, block, bandwidth, seed), problem)
    rows = TrainingRows(problem, s.F, s.generator, link, calibrate)
    yield from stages(rows, s, alpha, link, passes, inner)


def check_stages(alpha, link, passes, inner, block) -> None:
    """Raise a ValueError that names the first argument out of its range."""
    check_positive(alpha, "alpha")
    check_link(link)
    check_counts(passes=passes, inner=inner, block=block)


def start(generator: Generator, problem: Problem) -> StagewiseState:
    """Return the state without weights."""
    W = np.zeros((generator.n_features, problem.k))
    F = np.zeros((problem.n, problem.k), np.float32)
    return StagewiseState(0, W, F, np.nan, np.nan, generator)


def stages(
    rows: TrainingRows, s: StagewiseState, alpha: float, link: str, passes: int, inner: int = 4
) -> Iterator[StagewiseState]:
    """Do the rounds of Algorithm 3 on `rows`, whose scores F are the printed predictions y^.

    T is the number of blocks in the first pass; later passes visit them again.
    """
    visits = BlockVisits(rows, s, alpha, link, passes, inner)
    yield s  # Initialize predictions: y^_i^(1) = 0
    while s.round < passes * visits.blocks:  # for t = 1, ..., T do
        b = s.round % visits.blocks
        rows.generate(b)  # Generate p features: {x~_i} = GEN({x_i}, p)
        step = visits.fit(b)  # Let W_t be the output of Algorithm 1 on {(x~_i, y_i - y^_i^(t))}
        visits.update(b, step)  # Update predictions: y^_i^(t+1) = y^_i^(t) + W_t x~_i
        s.round += 1
        yield s


@dataclass
class ColumnsState(State):
    """Weights ``W`` (d, k), scores ``F`` (n, k) of the training rows, the pass's ``order`` (d,)."""

    round: int
    W: np.ndarray
    F: np.ndarray
    order: np.ndarray
    loss: float
    primal: float

    def scores(self, X: Matrix) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W)

    def info(self) -> Row:
        return {"primal": self.primal, "loss": self.loss}


@resumable("alpha", "passes", "inner")
def ls_columns(
    problem: Problem,
    *,
    alpha: float = 1e-3,
    block: int = 500,
    link: str = "identity",
    passes: int = 2,
    inner: int = 4,
    state: ColumnsState | None = None,
) -> Iterator[ColumnsState]:
    """Minimise mean_i loss(W'x_i, y_i) + alpha/2 |W|^2, a block of columns of X at a time.

    Algorithm 3 as the paper uses it for text (appendix A.2.2): a pass orders the columns by the
    length of their gradient, cuts them into blocks and visits each, as :func:`ls_stagewise` does.
    A round is a visit. Sparse rows become dense a block of columns and some rows at a time. The
    stream ends after the last pass.

    Parameters
    ----------
    alpha : positive ridge penalty, for the mean loss of a row; the paper's lambda = 30 is 30 / n
    block : columns per visit, at least 1; more than d are all
    link, passes, inner : see :func:`ls_stagewise`
    """
    check_stages(alpha, link, passes, inner, block)
    n, d, k, block = problem.n, problem.d, problem.k, min(block, problem.d)
    check_size(block, "block: its")
    blocks = -(-d // block)
    s = state or ColumnsState(
        0, np.zeros((d, k)), np.zeros((n, k), np.float32), np.arange(d), np.nan, np.nan
    )
    rows = TrainingRows(problem, s.F, Generator("columns", d, d, block, 0, 1.0, s.order), link)
    if not s.round:
        s.loss = rows.at_scores() / rows.total
    s.primal = s.loss + alpha / 2 * float(np.vdot(s.W, s.W))
    yield s
    while s.round < passes * blocks:
        b = s.round % blocks
        if b == 0:
            R = np.empty_like(s.F)
            rows.loss(s.F, slice(None), R)
            gradient = np.linalg.norm(problem.X.T @ R / rows.total + alpha * s.W, axis=1)
            s.order = np.argsort(-gradient, kind="stable")
            rows.generator = Generator("columns", d, d, block, 0, 1.0, s.order)
        own = s.order[rows.generator.part(b)]
        rows.generate(b)
        step, s.loss, _ = fit(rows, s.W[own], alpha, link, inner)
        s.W[own] += step
        rows.update()
        s.round += 1
        s.primal = s.loss + alpha / 2 * float(np.vdot(s.W, s.W))
        yield s


def scores(generator: Generator, X: Matrix, W: np.ndarray) -> np.ndarray:
    """Return the (m, k) scores of `X`; the features of a block are made some rows at a time."""
    F = np.zeros((X.shape[0], W.shape[1]), np.float32)
    W = W.astype(np.float32)
    for b in range(generator.blocks):
        make = generator.make(b)
        Z = np.empty((min(GRAM_ROWS, len(F)), generator.width(b)), np.float32)
        for piece in pieces(len(F), GRAM_ROWS):
            part = Z[: piece.stop - piece.start]
            make(X[piece], part)
            F[piece] += part @ W[generator.part(b)]
    return F
