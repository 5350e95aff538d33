"""The restricted linear program of the cutting-plane methods, solved from its last
basis.

Over the rows I and the features J of the program, both methods

    minimise    <linear, w> + <lam, |w|> + cost * t + loss * sum(xi)
    subject to  F w + g t - xi <= b,    xi >= 0

where w = mu_J and t = nu for `mrc_ccg`, whose rows are hard (xi = 0), and w = beta_J, t
is the intercept and xi the hinge losses for `svm_ccg`. The columns of the LP are w+,
w-, t and then one xi for each row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.mrc.highs import minimise

LARGE = 200_000  # entries of a first program that is too slow for the simplex


class Restricted(NamedTuple):
    """The program over r rows and f features; ``loss`` is infinite where rows are
    hard."""

    F: sp.csr_matrix
    g: np.ndarray
    b: np.ndarray
    linear: np.ndarray
    lam: np.ndarray
    cost: float
    loss: float = math.inf


class Optimum(NamedTuple):
    """Solution w (f,), t; multipliers alpha >= 0 and slack of the r rows; value.

    ``slack`` is b - (F w + g t - xi), at least -1e-9 or so.
    """

    w: np.ndarray
    t: float
    alpha: np.ndarray
    slack: np.ndarray
    value: float


def solve(lp: Restricted, s) -> Optimum:
    """Solve by the dual simplex from the basis of the state `s`, and leave the new one
    there.

    Without a basis, a large program is solved by an interior point method with
    crossover: the first one of `mrc_ccg_fast` on optdigits with 400 Fourier features
    (1,589 x 1,706) in 12 s, by the simplex in 72 s or more.

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
        basis=(s.column_basis, s.row_basis) if len(s.row_basis) else None,
        method="ipx" if not len(s.row_basis) and lp.F.nnz > LARGE else "simplex",
    )
    s.column_basis, s.row_basis = found.column_basis, found.row_basis
    w, t = found.x[:f] - found.x[f : 2 * f], float(found.x[2 * f])
    return Optimum(
        w, t, np.maximum(-found.dual, 0.0), lp.b - found.activity, found.objective
    )


def add_features(s, J: np.ndarray) -> None:
    """Let features J join the state `s` at zero: their columns w+ and w- are not in the
    basis."""
    zeros = np.zeros(len(J), dtype=np.int8)
    plus, minus, others = np.split(
        s.column_basis, [len(s.features), 2 * len(s.features)]
    )
    s.column_basis = np.concatenate([plus, zeros, minus, zeros, others])
    s.features = np.concatenate([s.features, J])


def change_rows(s, kept: np.ndarray | slice, new: int) -> None:
    """Keep some rows in the basis of the state `s`, and let `new` ones join behind
    them.

    A row that joins is basic, with no multiplier and xi = 0: the basis stays dual
    feasible except for the features that join.

    Parameters
    ----------
    s : has ``column_basis`` (2 f + 1,), or (2 f + 1 + r,) with soft rows, and
        ``row_basis`` (r,), int8; both are empty before the first solution
    kept : of the r rows
    """
    columns, xi = np.split(s.column_basis, [2 * len(s.features) + 1])
    if len(xi):
        xi = np.concatenate([xi[kept], np.zeros(new, dtype=np.int8)])
    s.column_basis = np.concatenate([columns, xi])
    s.row_basis = np.concatenate([s.row_basis[kept], np.ones(new, dtype=np.int8)])


def largest(violation: np.ndarray, threshold: float, count: int) -> np.ndarray:
    """Return the indices of the `count` largest violations above `threshold`, largest
    first."""
    above = np.flatnonzero(violation > threshold)
    if len(above) > count:
        above = above[np.argpartition(-violation[above], count)[:count]]
    return above[np.argsort(-violation[above], kind="stable")]
