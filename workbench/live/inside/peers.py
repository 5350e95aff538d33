"""The portrait of a peer, or of any classifier of which no more is known than its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.problem import Problem
from workbench.core.stream import State
from workbench.live.inside.classes import weights
from workbench.live.inside.common import confusion, margins, plane, scored
from workbench.live.pictures import Picture

ENTRIES = 2**22  # of weights that are drawn


def portrait(state: State, problem: Problem, parameters: Mapping[str, Any]) -> list[Picture]:
    """Return regions in the plane, confusion, margins and, where there are any, the weights.

    Weights ``state.W`` are (d, k), or (k, d) where there are as many rows as classes.
    """
    held = getattr(state, "A", None)  # coefficients of rows: what makes scores dear
    cost = 0.0 if held is None else 1.0 + len(held) * (held.shape[1] + problem.d + 16)
    rows = scored(state, problem, cost)
    pictures = [
        *plane(state, problem, cost=cost),
        *confusion(state, problem, rows),
        *margins(state, problem, rows),
    ]
    W = getattr(state, "W", None)
    if W is not None and problem.d * problem.k <= ENTRIES:
        W = W if W.shape[0] == problem.d else W.T
        pictures.append(weights(W, "Weights of each class"))
    return pictures
