"""Pictures of the inside of a method, found by the type of its state: one function per
family."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from workbench.core.kinds import Values
from workbench.core.problem import Problem
from workbench.core.stream import State
from workbench.kernels.rows import squared_norms
from workbench.live import pictures as draw
from workbench.memoir.pegasos import PegasosState
from workbench.memoir.state import MemoirState
from workbench.memoir.working_set import WorkingSetState
from workbench.mrc.ccg import TIGHT
from workbench.mrc.ccg import CutState as MinimaxCutState
from workbench.mrc.lp import LinearProgramState
from workbench.mrc.subgradient import SubgradientState
from workbench.sampled_cuts.state import CutState
from workbench.weston_watkins.dual import WWState
from workbench.weston_watkins.walrus import sweep

MIN_MASS = 1e-9  # a row in the worst distribution has more; averages leave traces
MAX_BREAKPOINTS = 200  # drawn in one F
MAX_ENTRIES = 2**22  # in weights

Parameters = Values
Pictures = list[draw.Picture]
Minimax = MinimaxCutState | LinearProgramState | SubgradientState
Memoir = PegasosState | MemoirState | WorkingSetState


@singledispatch
def portrait(state: State, problem: Problem, parameters: Parameters) -> Pictures:
    """Return the pictures of a state: those of its family, registered below by its
    type.

    A state of another type has decisions and, if there are any, weights ``W``, (d, k)
    or (k, d).
    """
    pictures = draw.decisions(state, problem)
    W = getattr(state, "W", None)
    if (
        np.ndim(W) == 2
        and problem.d in W.shape
        and problem.d * problem.k <= MAX_ENTRIES
    ):
        W = W if W.shape[0] == problem.d else W.T
        pictures.append(draw.weights(W, "Weights of each class"))
    return pictures


@portrait.register
def minimax(state: Minimax, problem: Problem, parameters: Parameters) -> Pictures:
    """Return coefficients and what proves the bounds: constraints, or the worst
    distribution.

    A constraint is active if it has a multiplier or is tight. The most violated
    constraint of a row has the slack ``nu - 1 - psi``: below 0, it may join.
    """
    pictures = []
    if isinstance(state, MinimaxCutState):
        slack = draw.histogram(
            "Slack ν − 1 − ψ by row (below 0: marked)", state.nu - 1 - state.psi
        )
        active = (state.alpha > 0) | (state.slack <= TIGHT)
        alpha = draw.ranked("Multipliers α", state.alpha, "constraints", marked=active)
        pictures = [alpha, slack._replace(logarithmic=True)]
    elif np.any(p := np.asarray(getattr(state, "p", 0.0))):
        mass = p.sum(axis=1) / p.sum()
        mass = mass[mass > MIN_MASS]
        pictures = [draw.ranked("Worst distribution", mass, "rows in it", "fraction")]
    coefficients = draw.weights(state.M[:, :-1].T, "Coefficients M")
    return [coefficients, *pictures, *draw.decisions(state, problem)]


@portrait.register
def weston_watkins(
    state: WWState, problem: Problem, parameters: Parameters
) -> Pictures:
    """Return the subproblem of the row with most of the gap, all parts of the gap, and
    weights.

    A row's part is ``sum_j (C max(0, z_j) - b_j z_j)`` over the wrong classes j. A
    visit of it sets ``b = clip(v - root, 0, C)`` with the root of F, and v as in
    Proposition 3.5. C is that of the problem in progress, smaller than the one asked
    for while a continuation lasts.
    """
    rows, k = draw.evenly(problem.n, draw.MAX_ROWS), problem.k
    X, W = problem.X[rows], state.W[:, :k]
    F, B, norms, C = X @ W, state.B[rows, :k], squared_norms(X), state.level
    pictures = [draw.weights(W, "Weights W"), *draw.decisions(state, problem)]
    y, F = problem.y[rows], np.asarray(F, dtype=np.float64)
    own = np.arange(len(rows)), y
    Z = 1.0 - F[own][:, None] + F
    parts = C * np.maximum(Z, 0.0) - B * Z
    parts[own] = 0.0
    parts = np.where(norms > 0.0, np.maximum(parts.sum(axis=1), 0.0), -1.0)
    i = int(np.argmax(parts))
    wrong = np.delete(np.arange(k), y[i])
    v = (Z[i] / norms[i] + B[i] + B[i].sum())[wrong]
    root = sweep(v, C)
    ends = np.sort(np.concatenate([v, v - C]))
    ends = ends[ends > 0.0]  # the root is not below 0
    shown = ends[draw.evenly(len(ends), MAX_BREAKPOINTS)]
    across = np.unique([0.0, *shown, root, 1.05 * ends[-1] if len(ends) else C])
    up = np.clip(v - across[:, None], 0.0, C).sum(axis=1) - across
    title = f"F(γ) of row {rows[i]:,}, {len(ends):,} breakpoint{'s' * (len(ends) != 1)} above 0"
    b = np.zeros(k)
    b[wrong] = np.clip(v - root, 0.0, C)
    bounds = f"Its dual variables b, at most C = {C:.4g} (free: marked),"
    return [
        draw.Lines(title, across, up[None, :], (), "γ", "F", np.array([[root, 0.0]])),
        draw.ranked(bounds, b, "classes", marked=(b > 0.0) & (b < C)),
        draw.ranked("Parts of the gap", parts[norms > 0.0], f"of {problem.n:,} rows"),
        *pictures,
    ]


@portrait.register
def memoir(state: Memoir, problem: Problem, parameters: Parameters) -> Pictures:
    """Return weights and decisions."""
    W = state.W if isinstance(state, PegasosState) else state.model()
    return [draw.weights(W[: problem.d], "Weights W"), *draw.decisions(state, problem)]


@portrait.register
def sampled_cuts(state: CutState, problem: Problem, parameters: Parameters) -> Pictures:
    """Return decisions, the multipliers of the cuts, and the rows of largest weight."""
    rows, A = state.expansion()
    sizes = np.linalg.norm(A, axis=1)
    marked, why = rows[np.argsort(-sizes, kind="stable")], "most weight"
    if len(state.landmarks):
        marked, why = state.landmarks, "landmarks"
    pictures = draw.decisions(state, problem, marked, why)
    if len(state.alpha):
        marked = state.alpha > 0.0
        pictures.append(
            draw.ranked("Multipliers α", state.alpha, "cuts", marked=marked)
        )
    if len(sizes):
        what = (
            "landmarks"
            if len(state.landmarks)
            else f"of {problem.n:,} rows in the expansion"
        )
        pictures.append(draw.ranked("Weight", sizes, what, "norm over classes"))
    return pictures
