"""Pictures of what a method holds for each class, row or constraint: weights, ranks and sizes.

Each function takes numbers and returns pictures of them that stay small however many there are.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix, Problem
from workbench.live.inside.common import evenly, finite, weight_images
from workbench.live.pictures import Bars, Image

BARS = 40  # in one picture, and classes or features of a matrix, at most
FULL = 0.98  # share of the weights at which the shades end: a few large ones hide no others


def weights(W: Matrix, title: str) -> Image:
    """Return (d, k) `W` as one small image a class or, where d is no square, a row a class.

    Of many features the matrix takes those of largest weight.
    """
    picture = (weight_images(W, title) or [_matrix(W, title)])[0]
    sizes = np.abs(picture.values[picture.values != 0.0])
    high = float(np.quantile(sizes, FULL)) if len(sizes) else 1.0
    return picture._replace(low=-high, high=high)


def _matrix(W: Matrix, title: str) -> Image:
    d, k = W.shape
    W, title = W[:, :BARS], title + first_of(k)
    features, columns = np.arange(d), "features"
    if d > BARS:
        size = _squares(W, axis=1)
        features = np.sort(np.argsort(-size, kind="stable")[:BARS])
        columns = f"the {BARS} largest of {d:,} features"
    W = W[features]
    W = finite(W.toarray() if sp.issparse(W) else W)
    return Image(title, W.T, -1.0, 1.0, "classes", columns)


def _squares(W: Matrix, axis: int) -> np.ndarray:
    """Return the sums of squares; ``W * W`` is a product of matrices where W is a `csr_matrix`."""
    squares = W.multiply(W) if sp.issparse(W) else W * W
    return np.asarray(squares.sum(axis=axis, dtype=np.float64)).ravel()


def per_class(title: str, values: np.ndarray, problem: Problem, unit: str = "") -> Bars:
    """Return one bar a class, from (k,) `values`; of many classes the first :data:`BARS`."""
    labels = tuple(str(label) for label in problem.classes[:BARS])
    title += first_of(len(values))
    return Bars(title, finite(values[:BARS]), labels, unit)


def norms(W: Matrix, problem: Problem) -> Bars:
    """Return the length of each class's weights, a column of (d, k) `W`."""
    lengths = np.sqrt(_squares(W, axis=0))
    return per_class("Norm of each class's weights", lengths, problem)


def ranked(
    title: str,
    values: np.ndarray,
    what: str,
    unit: str = "",
    logarithmic: bool = False,
    marked: np.ndarray | None = None,
) -> Bars:
    """Return `values`, the largest first; of many, those at evenly spaced ranks.

    Bars are named by their ranks, from 1; the title says how many there are of `what`.
    """
    order = np.argsort(-values, kind="stable")
    ranks = evenly(len(values), BARS)
    order = order[ranks]
    shown = "" if len(ranks) == len(values) else f"{len(ranks)} of "
    title += f" by rank, {shown}{len(values):,} {what}"
    labels = tuple(f"{rank + 1:,}" for rank in ranks)
    bars = Bars(title, finite(values[order]), labels, unit, logarithmic)
    return bars if marked is None else bars._replace(marked=marked[order].astype(np.float64))


def counted(title: str, sizes: np.ndarray, top: int, unit: str) -> Bars:
    """Return how often each size from 1 to `top` occurs among (m,) `sizes`.

    Where `top` is too large for that, the smallest sizes that occur.
    """
    counts = np.bincount(sizes, minlength=top + 1)
    shown = np.arange(1, top + 1) if top <= BARS else np.flatnonzero(counts)
    if len(shown) > BARS:
        title += f"; the smallest {BARS} of {len(shown):,} sizes"
        shown = shown[:BARS]
    return Bars(title, counts[shown].astype(np.float64), tuple(map(str, shown)), unit)


def first_of(k: int) -> str:
    """Return what a title says of pictures that show only the first of `k` classes."""
    return f"; the first {BARS} of {k:,} classes" if k > BARS else ""
