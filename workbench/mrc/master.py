"""The restricted linear program of the cutting-plane methods.

It is solved from its last basis. Over the rows I and the features J of the program,
both methods

    minimise    <linear, w> + <lam, |w|> + cost * t + loss * sum(xi)
    subject to  F w + g t - xi <= b,    xi >= 0

where w = mu_J and t = nu for `mrc_ccg`, whose rows are hard (xi = 0). For `svm_ccg`, w
= beta_J, t is the intercept, and xi are the hinge losses. The columns of the LP are w+,
w-, t and then one xi for each row.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Array
from workbench.mrc.highs import minimise

# The simplex method solves a first program with at most this number of entries.
MAX_SIMPLEX_ENTRIES = 200_000


class Optimum(NamedTuple):
    """A solution w (f,) and t, its multipliers alpha >= 0 (r,), slack (r,) and value.

    ``slack`` is b - (F w + g t - xi), which is at least about -1e-9.
    """

    w: Array
    t: float
    alpha: Array
    slack: Array
    value: float


def solve(
    s,
    *,
    F: sp.csr_matrix,
    g: Array,
    b: Array,
    linear: Array,
    lam: Array,
    cost: float,
    loss: float = math.inf,
) -> Optimum:
    """Solve a program over r rows and f features from the last basis of `s`.

    The new basis is stored in the state. Without a basis, a large program is solved by
    an interior point method with crossover. It solves the first program of
    `mrc_ccg_fast` on optdigits with 400 Fourier features (1,589 x 1,706) in 12 s, and
    the simplex method in 72 s or more.

    Parameters
    ----------
    s : state with ``column_basis`` and ``row_basis``
    F : (r, f) CSR matrix
    g, b : (r,) arrays
    linear, lam : (f,) arrays
    cost : float, the cost of t
    loss : float, the cost of xi; infinite if rows are hard

    Raises
    ------
    ValueError
        If the program is unbounded, or HiGHS gives up.
    """
    r, f = F.shape
    blocks = [F, -F, sp.csr_matrix(g[:, None])]
    costs = [lam + linear, lam - linear, [cost]]
    if math.isfinite(loss):
        blocks.append(-sp.identity(r, format="csr"))
        costs.append(np.full(r, loss))
    basis = None
    method = "simplex"
    if len(s.row_basis):
        basis = s.column_basis, s.row_basis
    elif F.nnz > MAX_SIMPLEX_ENTRIES:
        method = "ipx"
    solution = minimise(
        np.concatenate(costs),
        sp.hstack(blocks, format="csr"),
        b,
        free=[2 * f],
        basis=basis,
        method=method,
    )
    s.column_basis = solution.column_basis
    s.row_basis = solution.row_basis
    plus, minus, others = np.split(solution.x, [f, 2 * f])
    return Optimum(
        w=plus - minus,
        t=float(others[0]),
        alpha=np.maximum(-solution.dual, 0.0),
        slack=b - solution.activity,
        value=solution.objective,
    )


def add_features(s, J: Array) -> None:
    """Add features J at zero to the state `s`: w+ and w- are not in the basis."""
    f = len(s.features)
    plus, minus, others = np.split(s.column_basis, [f, 2 * f])
    zeros = np.zeros(len(J), dtype=np.int8)
    s.column_basis = np.concatenate([plus, zeros, minus, zeros, others])
    s.features = np.concatenate([s.features, J])


def change_rows(s, stays: Array | slice, new: int) -> None:
    """Keep some rows in the basis of the state `s`, and append `new` rows.

    A new row is basic, with no multiplier and xi = 0, so the basis stays dual feasible
    except for new features.

    Parameters
    ----------
    s : state with ``column_basis`` (2 f + 1,), or (2 f + 1 + r,) with soft rows, and
        ``row_basis`` (r,), int8; both are empty before the first solution
    stays : (r,) bool or slice, the rows that are kept
    new : int, the number of new rows
    """
    columns, xi = np.split(s.column_basis, [2 * len(s.features) + 1])
    if len(xi):
        xi = np.concatenate([xi[stays], np.zeros(new, dtype=np.int8)])
    s.column_basis = np.concatenate([columns, xi])
    s.row_basis = np.concatenate([s.row_basis[stays], np.ones(new, dtype=np.int8)])


def largest(violation: Array, threshold: float, count: int) -> Array:
    """Return the indices of the `count` largest violations above `threshold`.

    The largest one comes first.
    """
    above = np.flatnonzero(violation > threshold)
    if len(above) > count:
        above = above[np.argpartition(-violation[above], count)[:count]]
    return above[np.argsort(-violation[above], kind="stable")]
