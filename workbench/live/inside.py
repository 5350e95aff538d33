"""Pictures of the inside of a method, found by the type of its state: one function per family."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from workbench.core.problem import Problem
from workbench.core.stream import State
from workbench.kernels.rows import squared_norms
from workbench.least_squares.calibrated import CalibratedState, targets
from workbench.least_squares.generalized import GeneralizedState
from workbench.least_squares.links import LINKS
from workbench.least_squares.stagewise import ColumnsState, StagewiseState
from workbench.live import pictures as draw
from workbench.memoir.pegasos import PegasosState
from workbench.memoir.state import MemoirState
from workbench.memoir.working_set import WorkingSetState
from workbench.mrc.ccg import TIGHT
from workbench.mrc.ccg import CutState as MinimaxCutState
from workbench.mrc.interior_point import InteriorPointState
from workbench.mrc.lp import LinearProgramState
from workbench.mrc.pdhg import PrimalDualState
from workbench.mrc.splitting import SplittingState
from workbench.mrc.subgradient import SubgradientState
from workbench.sampled_cuts.state import CutState
from workbench.weston_watkins.dual import WWState
from workbench.weston_watkins.walrus import sweep

MIN_MASS = 1e-9  # a row in the worst distribution has more; relaxation leaves traces
MAX_BREAKPOINTS = 200  # drawn in one F
MAX_ENTRIES = 2**22  # in weights, or in sums of rows times residuals
MAX_BLOCKS = 256  # bars of blocks
MAX_CUTS = 60  # that have a place in a line
HEAVY_ROWS = 60  # rows of an expansion that stand out in a plane
EXPONENTIAL = 16  # multiplications that take as long as a value of the kernel, about

Parameters = Mapping[str, Any]
Pictures = list[draw.Picture]
Minimax = MinimaxCutState | LinearProgramState | SubgradientState
Minimax |= SplittingState | PrimalDualState | InteriorPointState
Memoir = PegasosState | MemoirState | WorkingSetState
LeastSquares = GeneralizedState | CalibratedState | StagewiseState | ColumnsState


@singledispatch
def portrait(state: State, problem: Problem, parameters: Parameters) -> Pictures:
    """Return the pictures of a state: those of its family, registered below by its type.

    A state of another type has decisions and, if there are any, weights ``W``, (d, k) or (k, d).
    """
    pictures = draw.decisions(state, problem)
    W = getattr(state, "W", None)
    if W is not None and problem.d * problem.k <= MAX_ENTRIES:
        W = W if W.shape[0] == problem.d else W.T
        pictures.append(draw.weights(W, "Weights of each class"))
    return pictures


@portrait.register
def minimax(state: Minimax, problem: Problem, parameters: Parameters) -> Pictures:
    """Return coefficients and what proves the bounds: constraints, or the worst distribution.

    A constraint is active if it has a multiplier or is tight. The most violated constraint of a
    row has the slack ``nu - 1 - psi``: below 0, it may join.
    """
    pictures = []
    if isinstance(state, InteriorPointState):
        M = np.zeros_like(state.M_best)
        M.ravel()[state.J] = state.mu
    else:
        M = state.M.T if isinstance(state, PrimalDualState) else state.M
    if isinstance(state, MinimaxCutState):
        title = "Slack ν − 1 − ψ by row (violated: marked)"
        slack = draw.histogram(title, state.nu - 1.0 - state.psi)
        active = (state.alpha > 0) | (state.slack <= TIGHT)
        pictures += [_multipliers(state.alpha, active, "constraints")]
        pictures += [slack._replace(logarithmic=True)]
    elif np.any(p := np.maximum(getattr(state, "p", 0.0), 0.0)):  # extrapolated, p may be negative
        mass = p.sum(axis=1) / p.sum()
        mass = mass[mass > MIN_MASS]
        pictures += [draw.ranked("Worst distribution", mass, "rows in it", "fraction", True)]
    return [draw.weights(M[:, :-1].T, "Coefficients M"), *pictures, *draw.decisions(state, problem)]


@portrait.register
def weston_watkins(state: WWState, problem: Problem, parameters: Parameters) -> Pictures:
    """Return the subproblem of the row with most of the gap, all parts of the gap, and weights.

    A row's part is ``sum_j (C max(0, z_j) - b_j z_j)`` over the wrong classes j. A visit of it
    sets ``b = clip(v - root, 0, C)`` with the root of F, and v as in Proposition 3.5. C is that
    of the problem in progress, smaller than the one asked for while a continuation lasts.
    """
    rows, k = draw.evenly(problem.n, draw.MAX_ROWS), problem.k
    X, W = problem.X[rows], state.W[:, :k]
    F, B, norms, C = X @ W, state.B[rows, :k], squared_norms(X), state.level
    pictures = [draw.weights(W, "Weights W"), *draw.decisions(state, problem)]
    if not (norms > 0.0).any():
        return pictures
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
    title = f"F(γ) of row {rows[i]:,} (class {problem.classes[y[i]]}), "
    title += f"{len(ends):,} breakpoints above 0"
    point = np.array([[root, 0.0]])
    b = np.zeros(k)
    b[wrong] = np.clip(v - root, 0.0, C)
    what = "rows" if problem.n <= draw.MAX_ROWS else f"rows of {problem.n:,}"
    return [
        draw.Lines(title, across, up[None, :], (), "γ", "F", point),
        _dual_variables(b, C, problem),
        draw.ranked("Parts of the gap", parts[norms > 0.0], what),
        *pictures,
    ]


def _dual_variables(b: np.ndarray, C: float, problem: Problem) -> draw.Bars:
    """Return one bar per class for (k,) `b`; of many classes, the largest ones."""
    title = f"Its dual variables b by class, at most C = {C:.4g} (free: marked)"
    shown = np.sort(np.argsort(-b, kind="stable")[: draw.MAX_BARS])
    if len(b) > draw.MAX_BARS:
        title += f"; the {draw.MAX_BARS} largest of {len(b):,} classes"
    free = ((b > 0.0) & (b < C)).astype(float)
    labels = tuple(str(label) for label in problem.classes[shown])
    return draw.Bars(title, b[shown], labels, marked=free[shown])


@portrait.register
def memoir(state: Memoir, problem: Problem, parameters: Parameters) -> Pictures:
    """Return weights, how sparse they are, decisions and the sizes of working sets."""
    W = state.W if isinstance(state, PegasosState) else state.model()
    filled = (W != 0).sum(axis=0).astype(float)
    pictures = [
        draw.weights(W[: problem.d], "Weights W"),
        draw.ranked("Nonzero weights per class", filled, "classes", "weights", logarithmic=True),
        *draw.decisions(state, problem),
    ]
    if not isinstance(state, WorkingSetState):
        return pictures
    places = state.sets.shape[1]
    counts = np.bincount(state.held, minlength=places + 1)[1:].astype(float)
    labels = tuple(map(str, range(1, places + 1)))
    pictures.append(draw.Bars("Classes in a row's set", counts, labels, "rows"))
    return pictures


@portrait.register
def least_squares(state: LeastSquares, problem: Problem, parameters: Parameters) -> Pictures:
    """Return decisions, what each class still asks for, and what the solver changes per round.

    The gradient of a loss by the weights of class c is minus the sum of rows times their residuals
    y_c - g(w_c.x). Drawn as a row, it shows where the class still asks for more. Decisions are on
    training rows if the state holds their scores: others would need all rounds or features again.
    """
    entries = problem.X.size / problem.n  # those that are stored
    limit = np.clip(draw.MAX_WORK / (entries * problem.k + 1), 1, draw.MAX_ROWS)
    rows = draw.evenly(problem.n, int(limit))
    X, y = problem.X[rows], problem.y[rows]
    if isinstance(state, CalibratedState):
        F = state.predictions[rows]
        R = targets(y, problem.k, np.float64) - F
        pictures = []
    else:
        linear = isinstance(state, GeneralizedState)
        F = np.asarray(X @ state.W.astype(X.dtype)) if linear else state.F[rows]
        R = np.empty_like(F)
        LINKS[parameters["link"]].residuals(F, y, R, np.ones(len(F)))
        R = -R
        pictures = [draw.weights(state.W, "Weights of each class")] if linear else []
        pictures += [] if linear else [_blocks(state, parameters)]
    if problem.d * min(problem.k, draw.MAX_BARS) <= MAX_ENTRIES:
        title = "What each class still asks for: rows times residuals"
        pictures.append(draw.weights(np.asarray(X.T @ draw.finite(R)) / len(R), title))
    held = None if isinstance(state, GeneralizedState) else draw.Scored(y, F, "training rows")
    return [*draw.decisions(state, problem, held), *pictures]


def _blocks(state: StagewiseState | ColumnsState, parameters: Parameters) -> draw.Bars:
    """Return the norms of the blocks, the last one visited marked."""
    norms = np.linalg.norm(state.W, axis=1)
    if isinstance(state, ColumnsState):
        norms = norms[state.order]
    block = min(parameters["block"], len(norms))
    blocks = -(-len(norms) // block)
    together = -(-blocks // MAX_BLOCKS)
    starts = np.arange(0, len(norms), block * together)
    values = np.sqrt(np.add.reduceat(norms**2, starts))
    marked, title = np.zeros(len(starts)), "Blocks of features"
    if state.round:
        done, last = divmod(state.round - 1, blocks)
        marked[last // together] = 1.0
        title += f": pass {done + 1} of {parameters['passes']}, block {last + 1} of {blocks}"
    title += f" ({together} per bar)" if together > 1 else ""
    return draw.Bars(title, values, (), "norm of the weights", marked=marked)


@portrait.register
def sampled_cuts(state: CutState, problem: Problem, parameters: Parameters) -> Pictures:
    """Return decisions, cuts, and the rows of largest weight."""
    rows, A = state.expansion()
    sizes = np.linalg.norm(A, axis=1)
    rows = state.landmarks if len(state.landmarks) else rows
    foremost = rows[np.argsort(-sizes, kind="stable")]
    # Multiplications for the scores of one row: an expansion makes them expensive.
    cost = 1.0 + len(foremost) * (state.B.shape[1] + problem.d + EXPONENTIAL)
    marked, why = foremost[:HEAVY_ROWS], "most weight"
    if len(state.landmarks):
        marked, why = state.landmarks, "landmarks"
    pictures = draw.decisions(state, problem, None, cost, marked, why)
    if T := len(state.h):
        active = state.alpha > 0.0
        latest = np.arange(max(0, T - MAX_CUTS), T)
        slack = state.h - state.G @ state.w
        tight = latest[active[latest]]
        title = f"The latest {len(latest)} of {T} cuts" if T > MAX_CUTS else f"The {T} cuts"
        ys = np.stack([state.h[latest], slack[latest]])
        names = "loss", "slack it asks for at the iterate"
        points = np.stack([tight + 1.0, slack[tight]], axis=1)
        pictures.append(_multipliers(state.alpha, active, "cuts"))
        pictures.append(draw.Lines(title, latest + 1.0, ys, names, "cut", "loss of a row", points))
    if len(sizes):
        what = "landmarks" if len(state.landmarks) else f"of {problem.n:,} rows in the expansion"
        pictures.append(draw.ranked("Weight", sizes, what, "norm over classes"))
    return pictures


def _multipliers(alpha: np.ndarray, active: np.ndarray, what: str) -> draw.Bars:
    """Return the (c,) multipliers of the constraints in the program, marked if active."""
    what += f", {np.count_nonzero(active):,} active"
    return draw.ranked("Multipliers α", alpha, what, marked=active)
