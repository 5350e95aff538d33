"""Stagewise regression (Algorithm 3) on blocks of random features, or of columns."""

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
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State, resumable
from workbench.least_squares.block_visits import BlockVisits
from workbench.least_squares.generators import Generator, fitted
from workbench.least_squares.links import check_link
from workbench.least_squares.products import GRAM_ROWS, check_size


@dataclass
class StagewiseState(State):
    """Weights ``W`` (n_features, k), the scores ``F`` (n, k) of the training rows, and
    the objective.

    ``loss`` is the mean loss, and ``primal`` adds the penalty. Instead of its features,
    the model stores their ``generator``, which makes them from a seed.
    """

    round: int
    W: Array
    F: Array
    loss: float
    primal: float
    generator: Generator

    def scores(self, X: Matrix) -> Array:
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
    """Fit W'z with random features z, each block to the residuals of the earlier ones.

    This is Algorithm 3: a round makes one block of features and fits it by Algorithm 1
    from zero, with the penalty alpha/2 |W|^2 (alpha/2 tr(W'KW) for "nystroem", where K
    is the kernel matrix of the block's landmarks). The scores of the earlier blocks are
    added to those of the block. The paper writes residuals instead, which gives the
    same fit for the identity link only. If rounding makes a block raise the objective,
    the block is fitted again with a larger ridge, and left out after ten attempts in
    all. The stream ends after the last block; `ls_stagewise_passes`, which is ours,
    visits the blocks again. Products are in single precision, sums over rows in double
    precision.

    Parameters
    ----------
    alpha : float > 0, the ridge penalty, relative to the mean loss of a row, weighted
        by the problem's weights. The paper prints no value for dense rows. The default
        is small compared with the features' mean square of 1, so that each block can be
        fitted
    features : the kind of the features (see
        :func:`workbench.least_squares.generators.fitted`); section 3.1 uses Fourier
        features
    n_features : int >= 1, the number of random features in all; 8000 in Table 1
    block : int >= 1, the number of random features per visit; 512 and 1024 in section
        3.1
    link : the map from scores to predictions: "softmax" and "identity" are logistic and
        linear regression in section 3.1; "squared_hinge", which is ours, stands for a
        loss (:mod:`workbench.least_squares.links`)
    inner : int >= 1, the number of steps of Algorithm 1 per visit. Section 3.1 has 50;
        with the identity link a visit takes one step, which is exact
    bandwidth : float > 0, the width of the kernel exp(-|x - x'|^2 / (bandwidth m^2)),
        where m is the median distance. Appendix A.2.1 prints s = m, but only m^2 has
        the unit of |x - x'|^2
    calibrate : bool, whether the scores so far are k additional features of every block
        (linear calibration in section 3.1); the model remains linear in its features
    seed : int >= 0, seeds the features

    Raises
    ------
    ValueError
        If a parameter is out of its range, or features are not finite.
    """
    check_stages(alpha, link, inner=inner)
    check_flags(calibrate=calibrate)
    s = state or start(
        fitted(problem, features, n_features, block, bandwidth, seed), problem
    )
    visits = BlockVisits(problem, s, alpha, link, calibrate=calibrate)
    yield from stages(visits, 1, inner)


def check_stages(alpha, link, **counts) -> None:
    """Raise a ValueError that names the first argument out of its range."""
    check_positive(alpha, "alpha")
    check_link(link)
    check_counts(**counts)


def start(generator: Generator, problem: Problem) -> StagewiseState:
    """Return the state before round 1, with weights of zero."""
    W = np.zeros((generator.n_features, problem.k))
    F = np.zeros((problem.n, problem.k), np.float32)
    return StagewiseState(0, W, F, np.nan, np.nan, generator)


def stages(
    visits: BlockVisits, passes: int, inner: int, accelerated: bool = False
) -> Iterator[StagewiseState]:
    """Yield the rounds of Algorithm 3; the scores F are the printed predictions y^.

    The first pass has as many rounds as there are blocks, T; later passes visit them
    again.
    """
    s = visits.s
    yield s  # Initialize predictions: y^_i^(1) = 0
    while s.round < passes * visits.blocks:  # for t = 1, ..., T do
        # Generate p features: {x~_i} = GEN({x_i}, p)
        visits.generate(s.round % visits.blocks)
        # W_t = Output of Algorithm 1 on {(x~_i, y_i - y^_i^(t))}
        W = visits.output(inner, accelerated)
        # Update predictions: y^_i^(t+1) = y^_i^(t) + W_t x~_i
        visits.update(W)
        s.round += 1
        yield s


@dataclass
class ColumnsState(StagewiseState):
    """A state of columns: ``W`` is (d, k); the generator has the order of the pass."""

    def scores(self, X: Matrix) -> Array:
        return np.asarray(check_sparse(X) @ self.W)


class ColumnVisits(BlockVisits):
    """Visits of columns, which each pass first sorts by the norm of their gradient."""

    def generate(self, b: int) -> None:
        if b == 0:
            s = self.s
            rows = self.rows
            residuals = np.empty_like(s.F)
            rows.loss(s.F, slice(None), residuals)
            gradient = rows.problem.X.T @ residuals / rows.total + self.alpha * s.W
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
    """Minimise mean_i |W'x_i - y_i|^2 / 2 + alpha/2 |W|^2, one block of columns of X at
    a time.

    This is Algorithm 3 as the paper uses it for text (appendix A.2.2): a pass sorts the
    columns by the norm of their gradient, divides them into blocks and fits each block
    by one exact step. A round is a visit. Sparse rows are made dense for a block of
    columns and some rows at a time. The stream ends after the last pass. The defaults
    are the paper's values for NEWS20.

    Parameters
    ----------
    alpha : float > 0, the ridge penalty, relative to the mean loss of a row: lambda /
        n, 30 / 15,000 for NEWS20
    block : int >= 1, the number of columns per visit, or all columns if there are fewer
    passes : int >= 1, the number of visits of every block
    """
    yield from column_stages(problem, state, alpha, block, passes)


def column_stages(
    problem: Problem, state, alpha, block, passes, link="identity", inner=1
) -> Iterator[StagewiseState]:
    """Yield the rounds of Algorithm 3 on columns, with accelerated steps."""
    check_stages(alpha, link, passes=passes, inner=inner, block=block)
    d = problem.d
    block = min(block, d)
    check_size(block, "block: its")
    generator = Generator("columns", d, d, block, seed=0, s=1.0, anchors=np.arange(d))
    s = state or ColumnsState(**vars(start(generator, problem)))
    visits = ColumnVisits(problem, s, alpha, link)
    yield from stages(visits, passes, inner, accelerated=True)


def scores(generator: Generator, X: Matrix, W: Array) -> Array:
    """Return the (m, k) scores of `X`; features are made for a few rows at a time."""
    F = np.zeros((X.shape[0], W.shape[1]), np.float32)
    W = W.astype(np.float32)
    for b in range(generator.blocks):
        weights = W[generator.own(b)]
        if not weights.any():  # the block has not been visited
            continue
        make = generator.make(b)
        Z = np.empty((min(GRAM_ROWS, len(F)), generator.width(b)), np.float32)
        for rows in pieces(len(F), GRAM_ROWS):
            part = Z[: rows.stop - rows.start]
            make(X[rows], part)
            F[rows] += part @ weights
    return F
