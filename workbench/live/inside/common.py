"""Pictures that fit any method: confusion, margins, regions in the plane, weights as images.

Each function returns a list of pictures, empty where it has nothing to show. None changes the
state or takes long: of a large problem they look at some rows, the same ones in every round.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix, Problem
from workbench.core.stream import State
from workbench.live.pictures import Bars, Image, Picture, Plane

ROWS = 500  # scored for a picture, at most
FEWEST = 40  # of them, however much a row costs
POINTS = 400  # drawn in a plane
MARKED = 200  # of those, at most
SIDE = 60  # cells of a plane's side, at most
WORK = 2**26  # multiplications for the scores of a picture
CLASSES = 40  # in a matrix or a mosaic
WRITTEN = 12  # classes up to which a matrix has its numbers in it
BINS = 20  # of a histogram, about
IMAGES = 3, 64  # sides that rows have which are taken for images
LARGEST = 1e30  # what single precision holds with ease


class Scored(NamedTuple):
    """Some rows of a problem: their classes ``y`` (m,), scores ``F`` (m, k), and what they are."""

    y: np.ndarray
    F: np.ndarray
    what: str


def scored(state: State, problem: Problem, cost: float = 0.0) -> Scored:
    """Return scores of at most :data:`ROWS` test rows, or of training rows where there are none.

    Parameters
    ----------
    cost : multiplications that the scores of a row take; by default those of a linear model
    """
    tested = problem.X_test is not None
    X, y = (problem.X_test, problem.y_test) if tested else (problem.X, problem.y)
    entries = X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1]
    most = int(np.clip(WORK / (cost or entries * problem.k + 1), FEWEST, ROWS))
    rows = evenly(len(y), most)
    return Scored(
        y[rows], finite(state.scores(X[rows])), "test rows" if tested else "training rows"
    )


def confusion(state: State, problem: Problem, rows: Scored | None = None) -> list[Picture]:
    """Return how often each true class was predicted as each.

    The shades end at twice the most frequent mistake, so that mistakes show beside the diagonal.
    Of many classes it takes those with most rows.

    Parameters
    ----------
    rows : those to look at, by default :func:`scored`
    """
    y, F, what = rows or scored(state, problem)
    k, predicted = problem.k, np.argmax(F, axis=1)
    title = f"Confusion: {int(np.sum(predicted != y))} of {len(y)} {what} wrong"
    shown = np.arange(k)
    if k > CLASSES:
        shown = np.sort(np.argsort(-np.bincount(y, minlength=k), kind="stable")[:CLASSES])
        title += f"; {CLASSES} of {k} classes"
    place = np.full(k, -1)
    place[shown] = np.arange(len(shown))
    true, said = place[y], place[predicted]
    both = (true >= 0) & (said >= 0)
    counts = np.zeros((len(shown), len(shown)))
    np.add.at(counts, (true[both], said[both]), 1.0)
    mistakes = counts - np.diag(counts.diagonal())
    high = max(1.0, min(counts.max(), 2.0 * mistakes.max()))
    return [Image(title, counts, 0.0, float(high), "true", "predicted", len(shown) <= WRITTEN)]


def margins(state: State, problem: Problem, rows: Scored | None = None) -> list[Picture]:
    """Return a histogram of rows' margins, the own class's score less the largest other one.

    Rows left of 0, which are marked, are predicted wrong.

    Parameters
    ----------
    rows : those to look at, by default :func:`scored`
    """
    y, F, what = rows or scored(state, problem)
    each = np.arange(len(y))
    own, others = F[each, y], F.astype(np.float64)
    others[each, y] = -np.inf
    return [histogram(f"Margins of {len(y)} {what} (wrong ones marked)", own - others.max(axis=1))]


def histogram(title: str, values: np.ndarray, unit: str = "rows") -> Bars:
    """Return how many of the finite `values` lie in about :data:`BINS` intervals; 0 is a border.

    Bars are named by their lower ends; those of negative values are marked.
    """
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    width = _round((high - low) / BINS) if high > low else 1.0
    first, last = int(np.floor(low / width)), int(np.floor(high / width))
    counts = np.bincount(np.floor(values / width).astype(int) - first, minlength=last - first + 1)
    edges = np.arange(first, first + len(counts))
    labels = tuple(f"{edge * width:.6g}" for edge in edges)
    return Bars(title, counts.astype(float), labels, unit, marked=(edges < 0).astype(float))


def plane(
    state: State,
    problem: Problem,
    marked: np.ndarray | None = None,
    cost: float = 0.0,
    why: str = "some",
) -> list[Picture]:
    """Return the regions that rows of two features are given to, with training rows over them.

    Parameters
    ----------
    marked : training rows that stand out, the foremost first; at most :data:`MARKED` of them do
    cost : multiplications that the scores of a point take
    why : a few words on those that are marked
    """
    if problem.d != 2:
        return []
    ends = np.array([_dense(end(axis=0)).ravel() for end in (problem.X.min, problem.X.max)], float)
    room = np.where(ends[1] > ends[0], 0.04 * (ends[1] - ends[0]), 1.0)
    (left, bottom), (right, top) = ends[0] - room, ends[1] + room
    side = int(np.clip(np.sqrt(WORK / (cost or 3.0 * problem.k)), SIDE // 3, SIDE))
    middle = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(left + middle * (right - left), bottom + middle * (top - bottom))
    grid = np.stack([x.ravel(), y.ravel()], axis=1).astype(problem.X.dtype)
    F = finite(state.scores(sp.csr_matrix(grid) if problem.is_sparse else grid))
    foremost = np.unique(marked[:MARKED]) if marked is not None else np.empty(0, int)
    rows = np.union1d(evenly(problem.n, POINTS - len(foremost)), foremost).astype(int)
    title = f"Regions and {len(rows)} training rows"
    title += f"; marked: {why}" if len(foremost) else ""
    return [
        Plane(
            title,
            np.argmax(F, axis=1).reshape(side, side).astype(float),
            (float(left), float(right), float(bottom), float(top)),
            _dense(problem.X[rows]).astype(float),
            problem.y[rows].astype(float),
            np.isin(rows, foremost).astype(float),
        )
    ]


def weight_images(W: np.ndarray, title: str = "Weights") -> list[Picture]:
    """Return the columns of (d, k) `W` as square images, side by side; none where d is no square.

    Tiles follow each other as words on a page, in the order of the classes.
    """
    d, k = W.shape
    side = isqrt(d)
    if side * side != d or not IMAGES[0] <= side <= IMAGES[1]:
        return []
    shown = min(k, CLASSES)
    if k > shown:
        title += f"; the first {shown} of {k} classes"
    across = -(-shown // max(1, round(np.sqrt(shown / 2))))
    down = -(-shown // across)
    tiles = np.zeros((down * across, side + 1, side + 1))  # one cell of 0 between two
    tiles[:shown, :side, :side] = finite(_dense(W[:, :shown]).T.reshape(shown, side, side))
    page = tiles.reshape(down, across, side + 1, side + 1).swapaxes(1, 2)
    page = page.reshape(down * (side + 1), across * (side + 1))[:-1, :-1]
    high = float(np.abs(page).max()) or 1.0
    return [Image(title, page, -high, high)]


def evenly(n: int, most: int) -> np.ndarray:
    """Return at most `most` of n rows, at even distances."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)


def finite(values: np.ndarray) -> np.ndarray:
    """Return the same numbers where single precision holds them, else the nearest; 0 for NaN."""
    return np.clip(np.nan_to_num(values, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)


def _dense(X: Matrix) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def _round(width: float) -> float:
    """Return the next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(width))
    return next(float(m * power) for m in (1, 2, 5, 10) if m * power >= width * (1 - 1e-9))
