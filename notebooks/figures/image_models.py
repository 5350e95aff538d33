"""Models of images for `ls_cifar`: features of masks, then polynomials of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils.extmath import randomized_svd

from notebooks.figures.convolutions import PER_FILTER, convolve, start
from workbench.core.problem import Problem, as_problem
from workbench.least_squares.block_visits import BlockVisits
from workbench.least_squares.stagewise import StagewiseState, ls_stagewise, stages

ENOUGH_ROWS = 5000  # for a few principal directions


@dataclass
class Model:
    """A state of the stages of the masks, and after them one of the polynomials.

    ``mean`` and ``axes`` take the features of the masks to the principal components
    from which the polynomials are made.
    """

    round: int
    masks: StagewiseState
    products: StagewiseState | None = None
    mean: np.ndarray | None = None
    axes: np.ndarray | None = None

    def info(self) -> dict:
        last = self.products or self.masks
        return last.info() | {"polynomials": self.products is not None}

    def scores(self, X) -> np.ndarray:
        return self.scores_of(convolve(X, self.masks.generator.anchors))

    def scores_of(self, Z: np.ndarray) -> np.ndarray:
        """Return the scores of rows whose features of the masks are `Z`."""
        S = Z @ self.masks.W.astype(np.float32)
        if self.products is None:
            return S
        return S + self.products.scores((Z - self.mean) @ self.axes)


def ls_images(
    problem: Problem,
    *,
    features: str,
    link: str,
    alpha: float,
    after: float,
    n_filters: int,
    blocks: int,
    components: int,
    polynomials: int,
    passes: int,
    seed: int,
) -> Iterator[Model]:
    """Fit masks block by block, then polynomials to the residuals of the masks.

    Parameters
    ----------
    features : str
        ``random_filters`` or ``kmeans_filters``.
    link : str
        The link of :func:`workbench.least_squares.stagewise.ls_stagewise`.
    alpha, after : float
        The penalties of the masks and of the polynomials.
    n_filters, blocks : int
        The number of masks, and of the stages into which they are split.
    components, polynomials : int
        The number of principal components of the features of the masks, and of the
        random products of two factors of these.
    passes : int
        The visits of each block.
    """
    size = PER_FILTER * n_filters
    kind = features.removesuffix("_filters")
    begun = start(problem, n_features=size, block=size // blocks, how=kind, seed=seed)
    for masks in _visited(problem, begun, alpha, link, passes):
        yield Model(masks.round, masks)
    Z = convolve(problem.X, masks.generator.anchors)
    some = Z[:ENOUGH_ROWS]
    mean = some.mean(axis=0)
    _, _, axes = randomized_svd(some - mean, components, random_state=seed)
    rows = as_problem((Z - mean) @ axes.T, problem.y)
    poly = ls_stagewise(rows, features="poly2", n_features=polynomials, seed=seed)
    begun = replace(next(poly), F=masks.F.copy())
    for products in _visited(rows, begun, after, link, passes):
        if products.round:
            yield Model(masks.round + products.round, masks, products, mean, axes.T)


def _visited(problem: Problem, begun, alpha: float, link: str, passes: int):
    """Yield the stages that follow a state, with four accelerated steps per visit, as
    our variant has them."""
    visits = BlockVisits(problem, begun, alpha, link, keep=passes > 1)
    return stages(visits, passes, 4, accelerated=True)
