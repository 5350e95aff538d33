"""The restricted linear program of the cutting-plane methods, solved from its last basis.

Over the rows I and the features J in play, both methods

    minimise    <linear, w> + <lam, |w|> + cost * t + loss * sum(xi)
    subject to  F w + g t - xi <= b,    xi >= 0

where w = mu_J and t = nu for `mrc_ccg`, whose rows are hard (xi = 0), and w = beta_J, t is the
intercept and xi the hinge losses for `svm_ccg`. The columns of the LP are w+, w-, t and, behind
them, one xi a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import as_number, check_whole, shown
from workbench.mrc.highs import minimise


@dataclass(frozen=True, eq=False)
class Restricted:
    """The program over r rows and f features; ``loss`` is infinite where rows are hard."""

    F: sp.csr_matrix
    g: np.ndarray
    b: np.ndarray
    linear: np.ndarray
    lam: np.ndarray
    cost: float
    loss: float = math.inf


@dataclass(frozen=True, eq=False)
class Optimum:
    """Solution w (f,), t; multipliers alpha >= 0 and slack of the r rows; value and basis.

    ``slack`` is b - (F w + g t - xi), at least -1e-9 or so.
    """

    w: np.ndarray
    t: float
    alpha: np.ndarray
    slack: np.ndarray
    value: float
    column_basis: np.ndarray
    row_basis: np.ndarray


def solve(lp: Restricted, column_basis: np.ndarray, row_basis: np.ndarray) -> Optimum:
    """Solve by the dual simplex from the basis given; an empty one is the slack basis.

    Raises
    ------
    ValueError
        If the program is unbounded, or HiGHS gives up.
    """
    r, f = lp.F.shape
    blocks = [lp.F, -lp.F, sp.csr_matrix(lp.g[:, None])]
    costs = [lp.lam + lp.linear, lp.lam - lp.linear, [lp.cost]]
    if math.isfinite(lp.loss):
        blocks.append(-sp.identity(r, format="csr"))
        costs.append(np.full(r, lp.loss))
    found = minimise(
        np.concatenate(costs),
        sp.hstack(blocks, format="csr"),
        lp.b,
        free=[2 * f],
        basis=(column_basis, row_basis) if len(row_basis) else None,
    )
    return Optimum(
        w=found.x[:f] - found.x[f : 2 * f],
        t=float(found.x[2 * f]),
        alpha=np.maximum(-found.dual, 0.0),
        slack=lp.b - found.activity,
        value=found.objective,
        column_basis=found.column_basis,
        row_basis=found.row_basis,
    )


def carry(
    column_basis: np.ndarray, row_basis: np.ndarray, f: int, joined: int, kept: np.ndarray, new: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the basis after features have joined J, and rows have left and joined I.

    A feature that joins is at zero. A row that joins is basic, with no multiplier and xi = 0: the
    basis stays dual feasible but for the features that join.

    Parameters
    ----------
    column_basis, row_basis : (2 f + 1,) or with soft rows (2 f + 1 + r,), and (r,) int8
    f, joined : features before, and how many join
    kept : (r,) bool, the rows that stay
    new : how many rows join, behind those
    """
    zeros = np.zeros(joined, dtype=np.int8)
    plus, minus, t, xi = np.split(column_basis, [f, 2 * f, 2 * f + 1])
    if len(xi):
        xi = np.concatenate([xi[kept], np.zeros(new, dtype=np.int8)])
    column_basis = np.concatenate([plus, zeros, minus, zeros, t, xi])
    return column_basis, np.concatenate([row_basis[kept], np.ones(new, dtype=np.int8)])


def largest(violation: np.ndarray, threshold: float, count: int) -> np.ndarray:
    """Return the indices of the `count` largest violations above `threshold`, largest first."""
    above = np.flatnonzero(violation > threshold)
    if len(above) > count:
        above = above[np.argpartition(-violation[above], count)[:count]]
    return above[np.argsort(-violation[above], kind="stable")]


def check(**parameters: float) -> None:
    """Refuse thresholds, whose names begin with eps, below 0 and counts that are not 1, 2, ...

    Raises
    ------
    ValueError
        Naming the first parameter out of range.
    """
    for name, value in parameters.items():
        if not name.startswith("eps"):
            check_whole(value, name)
        elif not as_number(value) >= 0:
            raise ValueError(f"{name}: must be at least 0, got {shown(value)}")
