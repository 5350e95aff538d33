"""Pictures of a method's inside as plain data, which ``inside.js`` draws.

Pictures hold no colours and no pixels. The functions below do not change a state, and
are fast: of a large problem they use some rows, the same in every round.
"""

from collections.abc import Iterable
from math import isqrt
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from matplotlib.ticker import MaxNLocator
from scipy.sparse.linalg import norm

from workbench.core.kinds import Array, Record
from workbench.core.matrices import as_dense
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import State

MAX_ROWS = 500  # rows that are scored for a picture
MAX_POINTS = 400  # points drawn in a plane
MAX_MARKED = 100  # points of a plane that stand out
SIDE = 60  # cells on each side of a plane
MAX_BARS = 40  # bars in one picture, and classes or features of a matrix
BINS = 20  # bins of a histogram; one more if the ends are rounded outwards
# The least and largest side, in pixels, of rows that are taken for square images.
MIN_SIDE = 3
MAX_SIDE = 64
# Fraction of the weights below the darkest shade, so that a few large ones hide no
# others.
SHADED = 0.98
LARGEST = 1e30  # larger values are drawn as this one
NO_ROWS = np.empty(0, int)


class Bars(NamedTuple):
    """One bar per value, upwards or downwards from 0.

    ``values`` is (m,), and ``unit`` is the unit of their axis. ``labels`` are m texts,
    ranks or lower ends of intervals, or none, and ``across`` is the title of their
    axis. ``marked`` (m,) is 1 where a bar stands out, else 0.
    """

    title: str
    values: Array
    labels: tuple[str, ...] = ()
    unit: str = ""
    across: str = ""
    logarithmic: bool = False
    marked: Array = np.empty(0)


class Image(NamedTuple):
    """A matrix in shades, ``values`` (h, w), from ``low`` to ``high``.

    If ``low`` is negative, the shades have two hues that meet at 0. ``rows`` and
    ``columns`` name the axes.
    """

    title: str
    values: Array
    low: float
    high: float
    rows: str = ""
    columns: str = ""


class Lines(NamedTuple):
    """Lines ``ys`` (c, m) over ``x`` (m,), their ``labels``, and ``points`` (p, 2)."""

    title: str
    x: Array
    ys: Array
    labels: tuple[str, ...] = ()
    across: str = ""
    up: str = ""
    points: Array = np.empty((0, 2))


class Plane(NamedTuple):
    """Rows in two dimensions over the regions that a classifier gives to each class.

    ``regions`` (h, w) are classes on a grid over ``extent`` (left, right, bottom, top),
    the first row at the bottom; ``points`` (p, 2) are rows of the data of these
    ``classes`` (p,); ``marked`` (p,) is 1 where a point stands out, else 0.
    """

    title: str
    regions: Array
    extent: tuple[float, float, float, float]
    points: Array
    classes: Array
    marked: Array = np.empty(0)


Picture = Bars | Image | Lines | Plane

Scored = tuple[Array, Array, str]  # labels, scores (m, k), and which rows


def decisions(
    state: State, problem: Problem, marked: Array = NO_ROWS, why: str = ""
) -> list[Picture]:
    """Return a classifier's margins, and its regions or its confusion.

    Regions need rows of two features.

    Parameters
    ----------
    marked : the training rows to mark in the plane, the most important first
    why : why they are marked, in a few words
    """
    rows = scored(state, problem)
    if problem.d == 2:
        return [plane(state, problem, marked, why), margins(rows)]
    return [confusion(rows, problem.k), margins(rows)]


def scored(state: State, problem: Problem) -> Scored:
    """Return labels and scores of at most :data:`MAX_ROWS` rows.

    They are test rows, or training rows if there are none.
    """
    if problem.X_test is None:
        X, y, what = problem.X, problem.y, "training rows"
    else:
        X, y, what = problem.X_test, problem.y_test, "test rows"
    rows = evenly(len(y), MAX_ROWS)
    return y[rows], finite(state.scores(X[rows])), some(rows, len(y), what)


def confusion(rows: Scored, k: int) -> Image:
    """Return the numbers of rows by true and predicted class.

    Of many classes the most frequent are shown. The shades end at twice the most
    frequent mistake or before, to show mistakes next to the diagonal.
    """
    y, scores, which = rows
    predicted = np.argmax(scores, axis=1)
    title = f"Confusion: {np.sum(predicted != y)} wrong among {which}"
    counts = sp.coo_array((np.ones(len(y)), (y, predicted)), shape=(k, k)).tocsr()
    if k > MAX_BARS:
        shown = _largest(np.bincount(y, minlength=k))
        counts = counts[shown][:, shown]
        title += f"; {MAX_BARS} of {k} classes"
    counts = counts.toarray()
    mistakes = counts - np.diag(counts.diagonal())
    high = max(1.0, min(counts.max(), 2.0 * mistakes.max()))
    return Image(title, counts, 0.0, float(high), "true", "predicted")


def margins(rows: Scored) -> Bars:
    """Return a histogram of margins: the own class's score less the largest other one.

    Rows below 0, which are marked, are predicted wrong.
    """
    y, scores, which = rows
    labels = np.arange(len(y)), y
    others = scores.astype(np.float64)
    others[labels] = -np.inf
    title = f"Margins of {which} (wrong: marked)"
    return histogram(title, scores[labels] - others.max(axis=1), "margin")


def plane(
    state: State, problem: Problem, marked: Array = NO_ROWS, why: str = ""
) -> Plane:
    """Return the regions in which each class is predicted, with training rows.

    Parameters are those of :func:`decisions`; at most :data:`MAX_MARKED` rows are
    marked.
    """
    X = problem.X
    low, high = (as_dense(end).ravel().astype(float) for end in (X.min(0), X.max(0)))
    rim = np.where(high > low, 0.04 * (high - low), 1.0)
    left, bottom = low - rim
    right, top = high + rim
    middle = (np.arange(SIDE) + 0.5) / SIDE
    x, y = np.meshgrid(left + middle * (right - left), bottom + middle * (top - bottom))
    grid = np.stack([x.ravel(), y.ravel()], axis=1).astype(X.dtype)
    scores = finite(state.scores(sp.csr_matrix(grid) if problem.is_sparse else grid))
    foremost = np.unique(marked[:MAX_MARKED]).astype(int)
    rows = np.union1d(evenly(problem.n, MAX_POINTS - len(foremost)), foremost)
    title = f"Regions and {some(rows, problem.n, 'training rows')}"
    if len(foremost):
        title += f"; marked: {why}"
    return Plane(
        title,
        np.argmax(scores, axis=1).reshape(SIDE, SIDE).astype(float),
        (float(left), float(right), float(bottom), float(top)),
        as_dense(X[rows]).astype(float),
        problem.y[rows].astype(float),
        np.isin(rows, foremost).astype(float),
    )


def weights(W: Matrix, title: str) -> Image:
    """Return (d, k) `W` as one small square image per class, or as one row per class.

    Images are square if d is a square number, with a side from :data:`MIN_SIDE` to
    :data:`MAX_SIDE`. Of many classes the first are shown. If classes are rows, only the
    :data:`MAX_BARS` features with the largest weights are shown.
    """
    d, k = W.shape
    if k > MAX_BARS:
        title += f"; the first {MAX_BARS} of {k:,} classes"
        W = W[:, :MAX_BARS]
    side = isqrt(d)
    names = "", ""
    if side**2 == d and MIN_SIDE <= side <= MAX_SIDE:
        values = _mosaic(finite(as_dense(W)).T)
    else:
        names = "classes", "features"
        if d > MAX_BARS:
            lengths = norm(W, axis=1) if sp.issparse(W) else np.linalg.norm(W, axis=1)
            W = W[_largest(lengths)]
            names = "classes", f"the {MAX_BARS} largest of {d:,} features"
        values = finite(as_dense(W)).T
    sizes = np.abs(values[values != 0.0])
    high = float(np.quantile(sizes, SHADED)) if len(sizes) else 1.0
    return Image(title, values, -high, high, *names)


def _largest(values: Array) -> Array:
    """Return the indices of the :data:`MAX_BARS` largest values, in ascending order."""
    return np.sort(np.argsort(-values, kind="stable")[:MAX_BARS])


def _mosaic(rows: Array) -> Array:
    """Return (m, s^2) rows as s x s tiles, in the order of words on a page, one cell
    apart."""
    m, side = len(rows), isqrt(rows.shape[1])
    across = -(-m // max(1, round(np.sqrt(m / 2))))
    down = -(-m // across)
    tiles = np.zeros((down * across, side + 1, side + 1))
    tiles[:m, :side, :side] = rows.reshape(m, side, side)
    page = tiles.reshape(down, across, side + 1, side + 1).swapaxes(1, 2)
    return page.reshape(down * (side + 1), across * (side + 1))[:-1, :-1]


def histogram(title: str, values: Array, what: str) -> Bars:
    """Return how many `values` lie in each of at most :data:`BINS` + 1 intervals.

    `what` is the title of their axis. 0 is a border between intervals. Bars are named
    by their lower ends; bars of negative values are marked.
    """
    values = finite(values).astype(float)
    ticks = MaxNLocator(BINS, steps=[1, 2, 5, 10])
    borders = ticks.tick_values(min(0.0, values.min()), max(0.0, values.max()))
    counts, edges = np.histogram(values, borders)
    labels = tuple(f"{edge:.6g}" for edge in edges[:-1])
    marked = (edges[1:] <= 0).astype(float)
    return Bars(title, counts.astype(float), labels, "rows", what, marked=marked)


def ranked(
    title: str,
    values: Array,
    what: str,
    unit: str = "",
    marked: Array | None = None,
) -> Bars:
    """Return `values` from the largest down; of many, those at evenly spaced ranks.

    Bars are named by their ranks, from 1; the title says how many of `what` there are.
    """
    ranks = evenly(len(values), MAX_BARS)
    order = np.argsort(-values, kind="stable")[ranks]
    title += f": {some(ranks, len(values), what)}"
    labels = tuple(f"{rank + 1:,}" for rank in ranks)
    marks = np.empty(0) if marked is None else marked[order].astype(float)
    return Bars(title, values[order], labels, unit, "rank", marked=marks)


def evenly(n: int, limit: int) -> Array:
    """Return at most `limit` of n rows, evenly spaced."""
    return np.arange(n) if n <= limit else np.linspace(0, n - 1, limit).astype(int)


def some(shown: Array, n: int, what: str) -> str:
    """Return a text on how many of `n` are shown, such as "500 of 3,000 test rows"."""
    return f"{len(shown)} of {n:,} {what}" if len(shown) < n else f"{n:,} {what}"


def finite(values: Array) -> Array:
    """Return the values, at most :data:`LARGEST` in size, and 0 instead of NaN."""
    return np.clip(np.nan_to_num(values), -LARGEST, LARGEST)


def pack(pictures: Iterable[Picture]) -> tuple[list[Record], list[bytes]]:
    """Return the pictures' texts with their arrays' names and shapes, and float32
    arrays."""
    words = []
    buffers = []
    for picture in pictures:
        texts: Record = {"kind": type(picture).__name__.lower()}
        arrays = []
        for name, value in picture._asdict().items():
            if isinstance(value, np.ndarray):
                arrays.append([name, list(value.shape)])
                buffers.append(finite(value).astype("<f4").tobytes())
            else:
                texts[name] = value
        words.append(texts | {"arrays": arrays})
    return words, buffers
