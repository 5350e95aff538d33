"""The portrait of a machine of cuts: what it decides, its cuts, and the rows it is a sum of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.core.problem import Problem
from workbench.live.inside.classes import ranked, weights
from workbench.live.inside.common import (
    CLASSES,
    confusion,
    finite,
    margins,
    plane,
    scored,
    weight_images,
)
from workbench.live.pictures import Bars, Image, Lines, Picture
from workbench.sampled_cuts.state import CutState

CUTS = 60  # that have a bar, or a place in a line
HEAVY = 60  # rows that stand out in a plane
FACES = 12  # rows drawn as images
EXPONENTIAL = 16  # multiplications that take as long as a value of the kernel, about


def portrait(state: CutState, problem: Problem, parameters: Mapping[str, Any]) -> list[Picture]:
    """Return the decisions, the cuts' multipliers and losses, and the weights of training rows.

    Decisions are regions where rows have two features, else confusion; of sequences, how labels
    follow each other.
    """
    rows, A = state.expansion()
    sizes = np.sqrt(np.einsum("uc,uc->u", A, A))
    rows = state.landmarks if len(state.landmarks) else rows
    foremost = rows[np.argsort(-sizes, kind="stable")]
    return [
        *_decisions(state, problem, foremost),
        *_cuts(state),
        *_expansion(state, problem, foremost, sizes),
    ]


def _decisions(state: CutState, problem: Problem, foremost: np.ndarray) -> list[Picture]:
    """Return what is drawn of a row's decision; `foremost` are the rows that decide, in order."""
    if state.explicit.shape[1]:
        return _transitions(state, problem.k)
    cost = 1.0 + len(foremost) * (state.B.shape[1] + problem.d + EXPONENTIAL)
    marked, why = foremost[:HEAVY], "most weight"
    if len(state.landmarks):
        marked, why = state.landmarks, "landmarks"
    seen = scored(state, problem, cost)
    decisions = plane(state, problem, marked, cost, why)
    return [*(decisions or confusion(state, problem, seen)), *margins(state, problem, seen)]


def _transitions(state: CutState, k: int) -> list[Picture]:
    """Return the explicit weights of a chain, (k, k): label b after label a."""
    shown = min(k, CLASSES)
    values = finite(state.transitions.reshape(k, k)[:shown, :shown])
    high = float(np.abs(values).max()) or 1.0
    title = "Weights of transitions" + (f", {shown} of {k} labels" if shown < k else "")
    return [Image(title, values, -high, high, "label", "next label", shown <= 12)]


def _cuts(state: CutState) -> list[Picture]:
    """Return the multipliers, the largest first, and each cut's loss and value at the iterate."""
    T = len(state.h)
    if not T:
        return []
    active = state.alpha > 0.0
    order = np.argsort(-state.alpha, kind="stable")[:CUTS]
    multipliers = Bars(
        f"Multipliers by cut, largest first: {int(active.sum())} of {T} active",
        finite(state.alpha[order]),
        tuple(str(t + 1) for t in order),
        "multiplier",
        marked=active[order].astype(float),
    )
    latest = np.arange(max(0, T - CUTS), T)
    values = state.h - state.G @ state.w
    tight = latest[active[latest]]
    lines = Lines(
        f"The latest {len(latest)} of {T} cuts" if T > CUTS else f"The {T} cuts, oldest first",
        latest + 1.0,
        finite(np.stack([state.h[latest], values[latest]])),
        ("loss", "slack it asks for at the iterate"),
        "cut",
        "loss of a row",
        points=finite(np.stack([tight + 1.0, values[tight]], axis=1)),
    )
    return [multipliers, lines]


def _expansion(
    state: CutState, problem: Problem, foremost: np.ndarray, sizes: np.ndarray
) -> list[Picture]:
    """Return the weights of the rows that the iterate is a sum of, and the foremost as images."""
    if not len(sizes):
        return []
    what = "landmarks" if len(state.landmarks) else f"of {problem.n:,} rows in the expansion"
    pictures = [ranked("Weight", sizes, what, "norm over classes")]
    if not problem.is_sparse:
        images = problem.X[foremost[:FACES]].T
        if weight_images(images):
            pictures.append(weights(images, f"The {images.shape[1]} rows of most weight"))
    return pictures
