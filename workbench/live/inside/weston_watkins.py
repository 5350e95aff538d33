"""Portraits of the Weston-Watkins solvers: one row's subproblem, the multipliers, the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from workbench.core.problem import Problem
from workbench.kernels.rows import squared_norms
from workbench.live.inside.classes import BARS, norms, per_class, ranked, weights
from workbench.live.inside.common import ROWS, evenly, finite
from workbench.live.pictures import Bars, Lines, Picture
from workbench.weston_watkins.dual import WWState
from workbench.weston_watkins.kernel import KernelState, coefficients
from workbench.weston_watkins.walrus import sweep

BREAKPOINTS = 200  # of one F, at most


class Sample(NamedTuple):
    """Some training rows, none of them 0 in the feature space.

    ``rows`` (m,) of the problem, ``y`` (m,), scores ``F`` (m, k), multipliers ``B`` (m, k) up to
    ``C``, and ``norms`` (m,), |x|^2 or K_ii.
    """

    rows: np.ndarray
    y: np.ndarray
    F: np.ndarray
    B: np.ndarray
    norms: np.ndarray
    C: float


def linear(state: WWState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the portrait of `ww_walrus`, `ww_shark` and `ww_walrus_fast`.

    C is that of the problem in hand, smaller than the one asked for while a continuation lasts.
    """
    rows = evenly(problem.n, ROWS)
    X, k = problem.X[rows], problem.k
    W = state.W[:, :k]
    F = np.asarray(X @ W, dtype=np.float64)
    sample = _sample(rows, problem, F, state.B[rows, :k], squared_norms(X), state.level)
    return [
        *_blocks(sample, problem),
        norms(W, problem),
        weights(W, "Weights W"),
    ]


def with_kernel(state: KernelState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the portrait of `ww_kernel`, which has functions of the kernel's space for weights."""
    rows = evenly(problem.n, ROWS)
    kernel = state.made_kernel(np.float64)
    diagonal = kernel.diagonal(kernel.points(problem.X[rows]))
    F, B = state.F[:, rows].T, state.B[:, rows].T
    sample = _sample(rows, problem, F, B, diagonal, state.C)
    squares = np.einsum("ij,ij->i", coefficients(state.B, state.y), state.F)
    lengths = np.sqrt(np.maximum(squares, 0.0))
    return [
        *_blocks(sample, problem),
        per_class("Norm of each class's function f", lengths, problem),
    ]


def gap_parts(sample: Sample) -> np.ndarray:
    """Return each row's part of the gap, (m,): sum_j (C max(0, z_ij) - B_ij z_ij), j not y_i."""
    own = np.arange(len(sample.y)), sample.y
    z = 1.0 - sample.F[own][:, None] + sample.F
    parts = sample.C * np.maximum(z, 0.0) - sample.B * z
    parts[own] = 0.0
    return np.maximum(parts.sum(axis=1), 0.0)


def _sample(rows, problem: Problem, F, B, norms, C: float) -> Sample:
    kept = norms > 0.0
    rows = rows[kept]
    return Sample(rows, problem.y[rows], F[kept], B[kept], norms[kept], C)


def _blocks(sample: Sample, problem: Problem) -> list[Picture]:
    """Return the block that holds most of the gap, all blocks' parts of it, and where they are."""
    if not len(sample.rows):
        return []
    parts = gap_parts(sample)
    looked = "rows" if problem.n <= ROWS else f"rows of {problem.n:,}"
    return [
        *_subproblem(sample, int(np.argmax(parts)), problem),
        ranked("Parts of the gap", parts, looked),
        _shares(sample, f"Multipliers of {len(parts):,} {looked}"),
    ]


def _subproblem(sample: Sample, i: int, problem: Problem) -> list[Picture]:
    """Return F with its root, and the b = clip(v - root, 0, C) that a visit of row `i` gives."""
    own, b = sample.y[i], sample.B[i]
    z = 1.0 - sample.F[i, own] + sample.F[i]
    v = z / sample.norms[i] + b + b.sum()  # Proposition 3.5
    wrong = np.flatnonzero(np.arange(problem.k) != own)
    v, C = v[wrong], sample.C
    row = f"row {sample.rows[i]:,} (class {problem.classes[own]})"
    g = sweep(v, C)
    ends = np.sort(np.concatenate([v, v - C]))
    ends = ends[ends > 0.0]  # the root is not below 0
    title = f"F(γ) of {row}, {len(ends):,} breakpoints above 0"
    last = 1.05 * ends[-1] if len(ends) else C
    gammas = np.unique([0.0, *ends[evenly(len(ends), BREAKPOINTS)], g, last])
    F = np.clip(v - gammas[:, None], 0.0, C).sum(axis=1) - gammas
    solved = np.zeros(problem.k)
    solved[wrong] = np.clip(v - g, 0.0, C)
    shown = np.arange(problem.k)
    held = f"Its dual variables b by class, at most C = {C:.4g} (free: marked)"
    if problem.k > BARS:
        shown = np.sort(np.argsort(-solved, kind="stable")[:BARS])
        held += f"; the {BARS} largest of {problem.k:,} classes"
    labels = tuple(str(label) for label in problem.classes[shown])
    free = ((solved > 0.0) & (solved < C)).astype(np.float64)
    return [
        Lines(
            title,
            finite(gammas),
            finite(F)[None, :],
            across="γ",
            up="F",
            points=finite(np.array([[g, 0.0]])),
        ),
        Bars(held, finite(solved[shown]), labels, marked=free[shown]),
    ]


def _shares(sample: Sample, title: str) -> Bars:
    """Return the shares of rows whose b is 0, is free in some class, or stands at its bounds."""
    positive = sample.B > 0.0
    free = (positive & (sample.B < sample.C)).any(axis=1)
    some = positive.any(axis=1)
    values = np.array([np.mean(~some), np.mean(free), np.mean(some & ~free)])
    return Bars(title, values, ("all at 0", "some free", "at 0 and C only"), "share of rows")
