"""Stagewise regression in several passes of a few accelerated steps (ours)."""

from collections.abc import Iterator

from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.least_squares.block_visits import BlockVisits
from workbench.least_squares.generators import fitted
from workbench.least_squares.stagewise import (
    ColumnsState,
    StagewiseState,
    check_stages,
    column_stages,
    stages,
    start,
)


@resumable("alpha", "passes", "inner")
def ls_stagewise_passes(
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
    seed: int = 0,
    state: StagewiseState | None = None,
) -> Iterator[StagewiseState]:
    """Minimise mean_i loss(W'z_i, y_i) + alpha/2 |W|^2 over random features z, block by
    block.

    This solver is ours. :func:`workbench.least_squares.stagewise.ls_stagewise` fits
    each block only once, as if no other block followed. Here every block is visited
    `passes` times, with the same Cholesky factor. This is block descent to the solution
    for all features together. Its steps are those of
    :func:`workbench.least_squares.generalized.ls_accelerated`.

    Parameters
    ----------
    passes : int >= 1, the number of visits of every block
    inner : int >= 1, the number of steps per visit
    alpha, features, n_features, block, link, bandwidth, seed : as in `ls_stagewise`

    Raises
    ------
    ValueError
        If a parameter is out of its range, or features are not finite.
    """
    check_stages(alpha, link, passes=passes, inner=inner)
    s = state or start(
        fitted(problem, features, n_features, block, bandwidth, seed), problem
    )
    visits = BlockVisits(problem, s, alpha, link, keep=passes > 1)
    yield from stages(visits, passes, inner, accelerated=True)


@resumable("alpha", "passes", "inner")
def ls_columns_logistic(
    problem: Problem,
    *,
    alpha: float = 1e-3,
    block: int = 500,
    passes: int = 2,
    inner: int = 4,
    state: ColumnsState | None = None,
) -> Iterator[StagewiseState]:
    """Minimise the mean logistic loss + alpha/2 |W|^2, one block of columns of X at a
    time.

    This solver, which is ours, is :func:`workbench.least_squares.stagewise.ls_columns`
    with the softmax and `inner` accelerated steps per visit. The paper uses the softmax
    only for dense features, and mentions accelerated steps only in its discussion.

    Parameters
    ----------
    alpha, block, passes : as in `ls_columns`
    inner : int >= 1, the number of steps per visit
    """
    yield from column_stages(problem, state, alpha, block, passes, "softmax", inner)
