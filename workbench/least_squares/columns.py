"""Stagewise regression on the columns of the rows themselves, those of largest gradient first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_sparse
from workbench.core.problem import Problem
from workbench.core.stream import Row
from workbench.data.generators import Generator
from workbench.least_squares.block_visits import fit
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import check_size
from workbench.least_squares.rows import Share, training_rows
from workbench.least_squares.stagewise import check_stages


@dataclass
class ColumnsState:
    """Weights ``W`` (d, k), scores ``F`` (n, k) of the training rows, the pass's ``order`` (d,)."""

    round: int
    W: np.ndarray
    F: np.ndarray
    order: np.ndarray
    loss: float
    primal: float

    def scores(self, X) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W)

    def info(self) -> Row:
        return {"primal": self.primal, "loss": self.loss}


def ls_columns(
    problem: Problem,
    *,
    alpha: float = 1e-3,
    block: int = 500,
    link: str = "identity",
    passes: int = 2,
    inner: int = 4,
    kept: int = 2**28,
    workers: int = 1,
    state: ColumnsState | None = None,
) -> Iterator[ColumnsState]:
    """Minimise mean_i loss(W'x_i, y_i) + alpha/2 |W|^2, a block of columns of X at a time.

    Algorithm 3 as the paper uses it for text (appendix A.2.2): a pass orders the columns by the
    length of their gradient, cuts them into blocks and visits each, as :func:`ls_stagewise` does.
    A round is a visit. Sparse rows become dense a block of columns and some rows at a time. The
    stream ends after the last pass.

    Parameters
    ----------
    alpha : positive, for the mean loss of a row; the paper's lambda = 30 is 30 / n
    block : columns per visit, at least 1; more than d are all
    link : "identity", "softmax", "squared_hinge" or "sigmoid"
    passes, inner, workers : whole numbers of at least 1
    kept : see :func:`~workbench.least_squares.stagewise.ls_stagewise`

    Raises
    ------
    ValueError
        For a parameter out of its range.
    """
    check_stages(alpha, link, passes, inner, block, kept, workers)
    n, d, k, weights = problem.n, problem.d, problem.k, problem.weights
    total = float(weights.sum())
    s = state
    if s is None:
        F = np.zeros((n, k), np.float32)
        loss = LINKS[link].residuals(F, problem.y, np.empty_like(F), weights) / total
        s = ColumnsState(0, np.zeros((d, k)), F, np.arange(d), loss, loss)
    block = min(block, d)
    check_size(block, "block: its")
    blocks = -(-d // block)
    s.primal = s.loss + alpha / 2 * float(np.vdot(s.W, s.W))
    yield s
    while s.round < passes * blocks:
        if s.round % blocks == 0:
            R = np.empty_like(s.F)
            LINKS[link].residuals(s.F, problem.y, R, weights)
            gradient = np.linalg.norm(problem.X.T @ R / total + alpha * s.W, axis=1)
            s.order = np.argsort(-gradient, kind="stable")
        generator = Generator("columns", d, d, block, 0, 1.0, s.order)
        with training_rows(problem, s.F, generator, link, kept, workers) as rows:
            for b in range(s.round % blocks, blocks):
                own = s.order[generator.part(b)]
                rows.change(Share.generate, b)
                step, s.loss, _ = fit(rows, s.W[own], alpha, link, inner)
                s.W[own] += step
                rows.change(Share.update)
                rows.change(Share.forget)
                s.round += 1
                s.primal = s.loss + alpha / 2 * float(np.vdot(s.W, s.W))
                yield s
