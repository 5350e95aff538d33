"""Portraits of the solvers for many classes: their search, their sparsity, their working sets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.core.problem import Matrix, Problem
from workbench.live.inside.classes import counted, norms, ranked, weights
from workbench.live.inside.common import ROWS, evenly, finite, histogram, margins
from workbench.live.pictures import Bars, Picture
from workbench.memoir.pegasos import PegasosState
from workbench.memoir.state import MemoirState
from workbench.memoir.working_set import WorkingSetState, costs_of


def sampled(state: MemoirState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the portrait of `memoir_l2` and `memoir_l1`: how good the search was, and the model.

    ``epsilon`` is by how much the scores of the search's answers fall short of the largest.
    """
    values = np.array([state.recall, state.epsilon, state.updates])
    names = "recall (share)", "shortfall ε (score)", "rows below margin 1 (share)"
    W = state.model()
    return [
        Bars(f"Search: {parameters['mips']}", finite(values), names),
        *_model(W, problem),
        *margins(state, problem),
        weights(W[: problem.d], "Weights W"),
    ]


def pegasos(state: PegasosState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the portrait of `memoir_pegasos`: the model that its exact search leaves."""
    return [
        *_model(state.W, problem),
        *margins(state, problem),
        weights(state.W, "Weights W"),
    ]


def working_sets(state: WorkingSetState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the portrait of `cs_working_set`: the rows' sets, multipliers and the model."""
    W, places = state.model(), state.sets.shape[1]
    passed = np.array([state.updates, state.full])
    return [
        counted(f"Classes in a row's set, at most {places}", state.held, places, "rows"),
        *_multipliers(state, problem, parameters),
        Bars("Last full pass, over n", finite(passed), ("steps", "violators without a place")),
        *_model(W, problem)[::2],
        *margins(state, problem),
    ]


def _multipliers(state: WorkingSetState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return a histogram of -alpha / C_i over the wrong classes that the rows' sets hold."""
    rows = evenly(problem.n, ROWS)
    costs = costs_of(problem.y, state.C, parameters["balance"], problem.weights)[rows]
    inside = np.arange(1, state.sets.shape[1]) < state.held[rows, None]
    shares = -state.alpha[rows, 1:].astype(np.float64) / costs[:, None]
    if not inside.any():
        return []
    title = f"−α/C of wrong classes in {len(rows):,} of {problem.n:,} sets"
    bars = histogram(title, finite(shares[inside]), "multipliers")
    return [bars._replace(logarithmic=True, marked=np.empty(0))]


def _model(W: Matrix, problem: Problem) -> list[Bars]:
    """Return how many weights of (d, k) `W` are not 0, by class and by feature, and the norms."""
    filled = W != 0
    by_class, by_feature = (filled.sum(axis=axis).astype(np.float64) for axis in (0, 1))
    return [
        ranked("Weights a class", by_class, "classes", "weights", logarithmic=True),
        ranked("Weights a feature", by_feature, "features", "weights", logarithmic=True),
        norms(W, problem),
    ]
