"""Portraits of least squares: what is confused, and what the residuals look like as rows do.

The gradient of a loss by the weights of class c is minus the sum of rows times their residuals
y_c - g(w_c.x). Drawn as a row, it shows where the class still asks for more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.core.problem import Problem
from workbench.least_squares.calibrated import CalibratedState, expanded, targets
from workbench.least_squares.columns import ColumnsState
from workbench.least_squares.generalized import GeneralizedState
from workbench.least_squares.links import LINKS
from workbench.least_squares.stagewise import StagewiseState
from workbench.live.inside.classes import first_of, weights
from workbench.live.inside.common import (
    CLASSES,
    ROWS,
    WORK,
    Scored,
    confusion,
    evenly,
    finite,
    histogram,
    plane,
)
from workbench.live.pictures import Bars, Lines, Picture

ENTRIES = 2**22  # of a sum of rows times residuals
BLOCKS = 256  # bars of blocks
CURVES = 10  # classes whose link is drawn
CORRECTIONS = 60  # rounds whose correction has a bar
COLUMNS = 20  # named, the heaviest

Parameters = Mapping[str, Any]


def generalized(state: GeneralizedState, problem: Problem, parameters: Parameters) -> list[Picture]:
    """Return confusion, weights, residuals, and how far momentum is ahead, where there is any."""
    rows = _rows(problem)
    X = problem.X[rows]
    R = _residuals(np.asarray(X @ state.W.astype(X.dtype)), problem.y[rows], parameters["link"])
    pictures = [
        *(plane(state, problem) or confusion(state, problem)),
        weights(state.W, "Weights of each class"),
        *_residual_pictures(X, R),
    ]
    if state.stepped is not state.W and np.any(ahead := state.W - state.stepped):
        pictures.append(weights(ahead, "Momentum: how far the weights are ahead of the last step"))
    return pictures


def calibrated(state: CalibratedState, problem: Problem, parameters: Parameters) -> list[Picture]:
    """Return confusion and residuals of training rows, the last link, the sizes of corrections.

    Predictions of other rows would replay all rounds.
    """
    rows = _rows(problem)
    Y, y = state.predictions[rows], problem.y[rows]
    pictures = [
        *confusion(state, problem, Scored(y, finite(Y), "training rows")),
        *_residual_pictures(problem.X[rows], targets(y, problem.k, np.float64) - Y),
    ]
    if state.round:
        latest = state.W[-CORRECTIONS:]
        first = state.round - len(latest) + 1
        pictures += [
            _link(state, problem),
            Bars(
                "Size of the correction of each round",
                finite(np.sqrt(np.einsum("tdk,tdk->t", latest, latest))),
                tuple(str(t) for t in range(first, state.round + 1)),
                "norm of W",
            ),
        ]
    return pictures


def stagewise(state: StagewiseState, problem: Problem, parameters: Parameters) -> list[Picture]:
    """Return the blocks' weights and, of training rows, confusion and residuals.

    Scores of other rows would make all features anew.
    """
    norms, passes = _row_norms(state.W), parameters["passes"]
    return [
        _blocks("Blocks of features", norms, state.block, state.round, passes),
        *_by_scores(state, problem, parameters["link"]),
    ]


def columns(state: ColumnsState, problem: Problem, parameters: Parameters) -> list[Picture]:
    """Return the blocks' weights in the pass's order, the heaviest columns, and as stagewise."""
    norms, passes = _row_norms(state.W), parameters["passes"]
    block = min(parameters["block"], problem.d)
    heaviest = np.argsort(-norms, kind="stable")[:COLUMNS]
    names = problem.features or range(problem.d)
    return [
        *plane(state, problem),
        _blocks("Blocks of columns in their order", norms[state.order], block, state.round, passes),
        Bars(
            "The columns with the largest weights",
            finite(norms[heaviest]),
            tuple(str(names[j]) for j in heaviest),
            "norm over classes",
        ),
        *_by_scores(state, problem, parameters["link"]),
    ]


def _rows(problem: Problem) -> np.ndarray:
    """Return the training rows whose residuals are looked at."""
    entries = problem.X.size / problem.n  # those that are stored
    most = int(np.clip(WORK / (entries * problem.k + 1), 1, ROWS))
    return evenly(problem.n, most)


def _residuals(F: np.ndarray, y: np.ndarray, link: str) -> np.ndarray:
    """Return y - g(F) of (m, k) scores."""
    R = np.empty_like(F)
    LINKS[link].residuals(F, y, R, np.ones(len(F)))
    return -R


def _by_scores(state, problem: Problem, link: str) -> list[Picture]:
    """Return confusion and residuals by the scores of training rows that the state holds."""
    rows = _rows(problem)
    F, y = state.F[rows], problem.y[rows]
    return [
        *confusion(state, problem, Scored(y, finite(F), "training rows")),
        *_residual_pictures(problem.X[rows], _residuals(F, y, link)),
    ]


def _residual_pictures(X, R: np.ndarray) -> list[Picture]:
    """Return the mean of rows times residuals, as rows, and a histogram of the (m, k) residuals."""
    R = finite(R)
    bars = histogram(f"Residuals of {len(R)} training rows, all classes", R.ravel(), "residuals")
    bars = bars._replace(logarithmic=True)
    few = R[:, :CLASSES]
    if X.shape[1] * few.shape[1] > ENTRIES:
        return [bars]
    title = "What each class still asks for: rows times residuals" + first_of(R.shape[1])
    return [weights(np.asarray(X.T @ few) / len(R), title), bars]


def _link(state: CalibratedState, problem: Problem) -> Lines:
    """Return what the last calibration makes of a class's score u where another one has 1 - u.

    Predictions are means over the other classes, and not projected yet.
    """
    k, shown = problem.k, min(problem.k, CURVES)
    u = np.linspace(0.0, 1.0, 41)
    ys = np.empty((shown + 1, len(u)))
    for c in range(shown):
        others = np.delete(np.arange(k), c)[evenly(k - 1, CURVES)]
        scores = np.zeros((len(others), len(u), k))
        scores[:, :, c] = u
        scores[np.arange(len(others)), :, others] = 1.0 - u
        predicted = expanded(scores.reshape(-1, k), state.basis) @ state.V[-1, :, c]
        ys[c] = predicted.reshape(scores.shape[:2]).mean(axis=0)
    ys[shown] = u
    title = f"The link learnt in round {state.round}"
    title += f"; {shown} of {k} classes" if shown < k else ""
    labels = (*(str(label) for label in problem.classes[:shown]), "unchanged")
    return Lines(title, u, finite(ys), labels, "score of a class", "its prediction")


def _blocks(title: str, norms: np.ndarray, block: int, round: int, passes: int) -> Bars:
    """Return the norms of blocks of weights, of (d,) norms; marked is the last one visited."""
    blocks = -(-len(norms) // block)
    together = -(-blocks // BLOCKS)
    starts = np.arange(0, len(norms), block * together)
    values = np.sqrt(np.add.reduceat(norms**2, starts))
    marked = np.zeros(len(starts))
    if round:
        done, last = divmod(round - 1, blocks)
        marked[last // together] = 1.0
        title += f": pass {done + 1} of {passes}, block {last + 1} of {blocks}"
    if together > 1:
        title += f" ({together} a bar)"
    return Bars(title, finite(values), (), "norm of the weights", marked=marked)


def _row_norms(W: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("jc,jc->j", W, W))
