"""Pictures of the inside of a method: one function per family of states."""

from functools import singledispatch

import numpy as np

from workbench.core.names import count
from workbench.core.problem import Array, Problem
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

# The smallest mass of a row that is drawn; averages leave tiny masses.
MIN_MASS = 1e-9
MAX_BREAKPOINTS = 200  # breakpoints drawn of one F
MAX_ENTRIES = 2**22  # largest number of weights in a picture

Pictures = list[draw.Picture]
Minimax = MinimaxCutState | LinearProgramState | SubgradientState
Memoir = PegasosState | MemoirState | WorkingSetState


@singledispatch
def portrait(state: State, problem: Problem) -> Pictures:
    """Return the pictures of a state, by the function below for its type.

    A state of another type has decisions and, if there are any, weights ``W``, (d, k)
    or (k, d), unless they are more than :data:`MAX_ENTRIES`.
    """
    pictures = draw.decisions(state, problem)
    W = getattr(state, "W", None)
    small = problem.d * problem.k <= MAX_ENTRIES
    if small and np.ndim(W) == 2 and problem.d in W.shape:
        if W.shape[0] != problem.d:
            W = W.T
        pictures.append(draw.weights(W, "Weights of each class"))
    return pictures


@portrait.register
def minimax(state: Minimax, problem: Problem) -> Pictures:
    """Return coefficients, decisions, and the proof of the bounds.

    The constraints or the worst distribution prove the bounds. A constraint is active
    if it has a positive multiplier or is tight. The most violated constraint of a row
    has the slack ``nu - 1 - psi``; if that is below 0, the constraint may join.
    """
    pictures: Pictures = [draw.weights(state.M[:, :-1].T, "Coefficients M")]
    if isinstance(state, MinimaxCutState):
        active = (state.alpha > 0) | (state.slack <= TIGHT)
        alpha = draw.ranked("Multipliers α", state.alpha, "constraints", marked=active)
        slack = draw.histogram(
            "Slack of rows (below 0: marked)", state.nu - 1 - state.psi, "ν − 1 − ψ"
        )
        pictures += [alpha, slack._replace(logarithmic=True)]
    else:
        p = np.asarray(getattr(state, "p", 0.0))
        if p.any():
            mass = p.sum(axis=1) / p.sum()
            mass = mass[mass > MIN_MASS]
            title = "Worst distribution"
            pictures.append(draw.ranked(title, mass, "rows in it", "fraction"))
    return [*pictures, *draw.decisions(state, problem)]


@portrait.register
def weston_watkins(state: WWState, problem: Problem) -> Pictures:
    """Return the subproblem of the row with the largest part of the gap, the parts of
    the gap, weights and decisions.

    At most :data:`workbench.live.pictures.MAX_ROWS` rows are considered. A row's part
    is ``sum_j (C max(0, z_j) - b_j z_j)`` over the wrong classes j. A visit of the row
    sets ``b = clip(v - root, 0, C)`` with the root of F, and v as in
    Proposition 3.5. Here C belongs to the current problem, and is smaller than the
    parameter C while a continuation lasts.
    """
    rows = draw.evenly(problem.n, draw.MAX_ROWS)
    k = problem.k
    C = state.level
    X = problem.X[rows]
    y = problem.y[rows]
    W = state.W[:, :k]
    B = state.B[rows, :k]
    norms = squared_norms(X)
    F = np.asarray(X @ W, dtype=np.float64)
    labels = np.arange(len(rows)), y  # the entries of the rows' own classes
    Z = 1.0 - F[labels][:, None] + F
    parts = C * np.maximum(Z, 0.0) - B * Z
    parts[labels] = 0.0
    parts = np.maximum(parts.sum(axis=1), 0.0)
    i = int(np.argmax(np.where(norms > 0.0, parts, -1.0)))
    wrong = np.delete(np.arange(k), y[i])
    v = (Z[i] / norms[i] + B[i] + B[i].sum())[wrong]
    root = sweep(v, C)
    b = np.zeros(k)
    b[wrong] = np.clip(v - root, 0.0, C)
    bounds = f"Its dual variables b, at most C = {C:.4g} (free: marked)"
    return [
        _breakpoints(v, C, root, f"row {rows[i]:,}"),
        draw.ranked(bounds, b, "classes", marked=(b > 0.0) & (b < C)),
        draw.ranked("Parts of the gap", parts[norms > 0.0], f"of {problem.n:,} rows"),
        draw.weights(W, "Weights W"),
        *draw.decisions(state, problem),
    ]


def _breakpoints(v: Array, C: float, root: float, row: str) -> draw.Lines:
    """Return the function F of a row's subproblem, with its root."""
    ends = np.sort(np.concatenate([v, v - C]))
    ends = ends[ends > 0.0]  # the root is not below 0
    shown = ends[draw.evenly(len(ends), MAX_BREAKPOINTS)]
    last = 1.05 * ends[-1] if len(ends) else C
    across = np.unique([0.0, *shown, root, last])
    up = np.clip(v - across[:, None], 0.0, C).sum(axis=1) - across
    title = f"F(γ) of {row}, {count(len(ends), 'breakpoint')} above 0"
    points = np.array([[root, 0.0]])
    return draw.Lines(title, across, up[None, :], (), "γ", "F", points)


@portrait.register
def memoir(state: Memoir, problem: Problem) -> Pictures:
    """Return weights and decisions."""
    W = state.W if isinstance(state, PegasosState) else state.model()
    return [draw.weights(W[: problem.d], "Weights W"), *draw.decisions(state, problem)]


@portrait.register
def sampled_cuts(state: CutState, problem: Problem) -> Pictures:
    """Return decisions, multipliers of the cuts, and weights of rows or landmarks."""
    rows, A = state.expansion()
    sizes = np.linalg.norm(A, axis=1)
    if len(state.landmarks):
        marked = state.landmarks
        why = what = "landmarks"
    else:
        marked = rows[np.argsort(-sizes, kind="stable")]
        why = "most weight"
        what = f"of {problem.n:,} rows in the expansion"
    pictures = draw.decisions(state, problem, marked, why)
    alpha = state.alpha
    if len(alpha):
        pictures.append(draw.ranked("Multipliers α", alpha, "cuts", marked=alpha > 0.0))
    if len(sizes):
        pictures.append(draw.ranked("Weight", sizes, what, "norm over classes"))
    return pictures
