"""Stagewise regression (Algorithm 3) on blocks of random features, or of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.checks import (
    check_counts,
    check_flags,
    check_positive,
    check_sparse,
)
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row
from workbench.least_squares.block_visits import BlockVisits
from workbench.least_squares.generators import Generator, fitted
from workbench.least_squares.links import check_link
from workbench.least_squares.products import GRAM_ROWS, check_size


@dataclass
class StagewiseState(State):
    """Weights ``W`` (n_features, k), the scores ``F`` (n, k) of the training rows, the
    objective.

    ``loss`` is the mean loss, ``primal`` adds the penalty. The model keeps the
    ``generator`` of its features, a seed, instead of these.
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


@resumable("inner")
def ls_stagewise(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    features: str = "fourier",
    n_features: int = 8000,
    block: int = 1024,
    link: str = "softmax",
    inner: int = 50,
    bandwidth: float = 1.0,
    calibrate: bool = False,
    seed: int = 0,
    state: StagewiseState | None = None,
) -> Iterator[StagewiseState]:
    """Fit W'z of random features z, block by block, each to what the earlier ones left.

    Algorithm 3: a round makes one block of features and fits it by Algorithm 1 from
    zero, with the penalty alpha/2 |W|^2. For the softmax the scores of the earlier
    blocks are added to the logits: the paper writes residuals, which are the same for
    the identity link only. The stream ends after the last block; `ls_stagewise_passes`
    is ours and goes on. Products are of single precision, sums over rows of double.

    Parameters
    ----------
    alpha : positive ridge penalty, for the mean loss of a row, weighted by the
        problem's weights. The paper prints none for dense rows: the default is small
        compared with the features' mean square of 1, and lets each block be fitted
    features : kind of the features, see
        :func:`workbench.least_squares.generators.fitted`; Fourier features are those of
        section 3.1
    n_features, block : random features, in all and per visit; 8000 in Table 1, 512 and
        1024 in section 3.1
    link : of scores to predictions: "softmax" and "identity" are logistic and linear
        regression in section 3.1, "squared_hinge" is ours
    inner : steps of Algorithm 1 per visit, 50 in section 3.1; the identity link takes
        one, which is exact
    bandwidth : positive, the kernel is exp(-|x - x'|^2 / (bandwidth m^2)), m the median
        distance. Appendix A.2.1 prints s = m; a square has the unit of |x - x'|^2
    calibrate : take the scores so far as k more features of every block (linear
        calibration in section 3.1); the model stays linear in its features
    seed : int, seeds the features; a `state` that is given has its own

    Raises
    ------
    ValueError
        For a parameter out of its range, or features that are not finite.
    """
    check_stages(alpha, link, inner=inner)
    check_flags(calibrate=calibrate)
    s = state or start(
        fitted(problem, features, n_features, block, bandwidth, seed), problem
    )
    yield from stages(
        BlockVisits(problem, s, alpha, link, calibrate=calibrate), 1, inner
    )


def check_stages(alpha, link, **counts) -> None:
    """Raise a ValueError that names the first argument out of its range."""
    check_positive(alpha, "alpha")
    check_link(link)
    check_counts(**counts)


def start(generator: Generator, problem: Problem) -> StagewiseState:
    """Return the state without weights."""
    W = np.zeros((generator.n_features, problem.k))
    F = np.zeros((problem.n, problem.k), np.float32)
    return StagewiseState(0, W, F, np.nan, np.nan, generator)


def stages(
    visits: BlockVisits, passes: int, inner: int, accelerated: bool = False
) -> Iterator[StagewiseState]:
    """Do the rounds of Algorithm 3, in which the scores F are the printed predictions
    y^.

    T is the number of blocks in the first pass; later passes visit them again.
    """
    s = visits.s
    yield s  # Initialize predictions: y^_i^(1) = 0
    while s.round < passes * visits.blocks:  # for t = 1, ..., T do
        visits.generate(
            s.round % visits.blocks
        )  # Generate p features: {x~_i} = GEN({x_i}, p)
        W = visits.output(
            inner, accelerated
        )  # of Algorithm 1 on {(x~_i, y_i - y^_i^(t))}
        visits.update(W)  # Update predictions: y^_i^(t+1) = y^_i^(t) + W_t x~_i
        s.round += 1
        yield s


@dataclass
class ColumnsState(StagewiseState):
    """A state of columns: ``W`` is (d, k), and the generator has their order in this
    pass."""

    def scores(self, X: Matrix) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W)


class ColumnVisits(BlockVisits):
    """Visits of columns, which every pass orders by the length of their gradient,
    longest first."""

    def generate(self, b: int) -> None:
        if b == 0:
            s, rows = self.s, self.rows
            rows.loss(s.F, slice(None), rows.aside)  # writes the residuals there
            gradient = rows.problem.X.T @ rows.aside / rows.total + self.alpha * s.W
            order = np.argsort(-np.linalg.norm(gradient, axis=1), kind="stable")
            s.generator = rows.generator = replace(s.generator, anchors=order)
            self.restart()
        super().generate(b)


@resumable("alpha", "passes")
def ls_columns(
    problem: Problem,
    *,
    alpha: float = 2e-3,
    block: int = 500,
    passes: int = 2,
    state: ColumnsState | None = None,
) -> Iterator[StagewiseState]:
    """Minimise mean_i |W'x_i - y_i|^2 / 2 + alpha/2 |W|^2, a block of columns of X at a
    time.

    Algorithm 3 as the paper uses it for text (appendix A.2.2): a pass orders the
    columns by the length of their gradient, cuts them into blocks and fits each by one
    exact step. A round is a visit. Sparse rows become dense a block of columns and some
    rows at a time. The stream ends after the last pass. The defaults are those of
    NEWS20.

    Parameters
    ----------
    alpha : positive ridge penalty, for the mean loss of a row: lambda / n, 30 / 15,000
        for NEWS20
    block : columns per visit, at least 1; more than d are all
    passes : visits of every block, at least 1
    """
    yield from column_stages(problem, state, alpha, block, passes)


def column_stages(
    problem: Problem, state, alpha, block, passes, link="identity", inner=1
) -> Iterator[StagewiseState]:
    """Do the rounds of Algorithm 3 on columns, with accelerated steps."""
    check_stages(alpha, link, passes=passes, inner=inner, block=block)
    d, block = problem.d, min(block, problem.d)
    check_size(block, "block: its")
    generator = Generator("columns", d, d, block, 0, 1.0, np.arange(d))
    s = state or ColumnsState(**vars(start(generator, problem)))
    yield from stages(
        ColumnVisits(problem, s, alpha, link), passes, inner, accelerated=True
    )


def scores(generator: Generator, X: Matrix, W: np.ndarray) -> np.ndarray:
    """Return the (m, k) scores of `X`; the features of a block are made some rows at a
    time."""
    F = np.zeros((X.shape[0], W.shape[1]), np.float32)
    W = W.astype(np.float32)
    for b in range(generator.blocks):
        make = generator.make(b)
        Z = np.empty((min(GRAM_ROWS, len(F)), generator.width(b)), np.float32)
        for piece in pieces(len(F), GRAM_ROWS):
            part = Z[: piece.stop - piece.start]
            make(X[piece], part)
            F[piece] += part @ W[generator.own(b)]
    return F
