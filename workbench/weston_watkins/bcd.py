"""Block coordinate descent for the Weston-Watkins SVM (Wang, Scott; Algorithm 1).

Our copy of the paper lacks the printed box. Its lines are written here after sections
2.2 and 3.2, with the label-indexed variables B of :mod:`~workbench.weston_watkins.dual`
and y = y_i. Comments in the code give their numbers.

    1: W := 0, b_i := 0 for every row i
    2: until the gap is small enough:                               outer iteration
    3:     for every row i, in random order:                        inner iteration
    4:         v := (1 - (w_y - w_j).x_i) / |x_i|^2 + b_ij + sum b_i    Proposition 3.5
    5:         b := Walrus(v, C)                                        Algorithm 2
    6:         W := W - x_i delta', where delta_j = b_j - b_ij          (1), (2), (3)
    7:         b_i := b
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from workbench.core.checks import check_positive
from workbench.core.problem import Array, Problem
from workbench.core.state import resumable
from workbench.core.stream import off_the_clock
from workbench.kernels.compiled import njit
from workbench.kernels.rows import (
    FAST,
    Rows,
    lanes,
    multiply,
    rows_of,
    squared_norms,
    subtract,
    width,
)
from workbench.weston_watkins.dual import WWState, restated, slack_of, start
from workbench.weston_watkins.walrus import walrus


@resumable("C")
def ww_walrus(
    problem: Problem, *, C: float = 1.0, seed: int = 0, state: WWState | None = None
) -> Iterator[WWState]:
    """Minimise 1/2 |W|^2 + C sum_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j).x_i).

    This is the paper's method: a round visits every row once, in a new random order,
    and solves its block of the dual exactly by
    :func:`~workbench.weston_watkins.walrus.sweep`. Rows of zeros are skipped, because
    their loss does not depend on W. As in the paper's experiments, the evaluation of
    primal and dual after a round is not timed. The stream ends when no gap is left, or
    when no block has changed in a round.

    Parameters
    ----------
    C : float > 0, the weight of each pair of a row and a wrong class, not divided by
        the number of rows. The paper prints no default; 1 is in its grid, 2^-6 to 2^3
        (section 5)
    seed : int >= 0, seeds the order of the rows, which the paper leaves open

    Raises
    ------
    ValueError
        If `C` is not a positive number.
    """
    return descent(problem, C, seed, state, epoch)


class Samples(NamedTuple):
    """The problem as compiled code reads it; row i has the bound ``C * weights[i]``.

    W and B have columns of zeros after the first k, which fill up vector registers.
    """

    rows: Rows
    y: Array
    norms: Array  # |x_i|^2
    weights: Array
    C: float
    k: np.uint64
    width: tuple


def samples(problem: Problem, C: float) -> Samples:
    """Return the samples of a problem, for a positive `C`."""
    return Samples(
        rows_of(problem.X),
        problem.y.astype(np.uint64),
        squared_norms(problem.X),
        problem.weights,
        check_positive(C, "C"),
        np.uint64(problem.k),
        width(lanes(problem.k)),
    )


def descent(
    problem: Problem, C: float, seed: int, state: WWState | None, epoch: Callable
) -> Iterator[WWState]:
    """Yield the iterations of Algorithm 1; `epoch` runs its lines 3 to 7."""
    data = samples(problem, C)
    if state is None:
        s = start(problem, data.C, seed, data.norms)  # line 1
    else:
        fresh = descent(problem, C, seed, None, epoch)
        s = restated(problem, state, fresh, C=data.C)
    yield s
    while not s.finished(data.C):  # line 2
        order = s.rng.permutation(problem.n).astype(np.uint64)
        s.updates = epoch(data, s.W, s.B, order) / problem.n
        s.round += 1
        s.visits += 1.0
        with off_the_clock():
            s.judged(data.norms, *screened(data, s)[1:])
        yield s


def screened(data: Samples, s: WWState) -> tuple[Array, float, float]:
    """Return each row's part of the gap at the level of `s`, and the loss for C.

    The last two numbers are those of :func:`~workbench.weston_watkins.dual.losses`.
    """
    gaps, hinge, room = screen(
        data._replace(C=s.level), s.W, s.B, slack_of(data.norms, s.W)
    )
    return gaps, data.C * hinge, data.C * room


@njit(fastmath=FAST)
def epoch(data, W, B, order):
    """Run lines 3 to 7 in place; return the number of changed blocks."""
    v = np.empty(W.shape[1])
    b = np.empty(W.shape[1])
    delta = np.empty(W.shape[1])
    changed = 0
    for i in order:  # line 3
        if data.norms[i] == 0.0:
            continue
        margins(data, i, W, v)  # line 4: v = 1 - (w_y - w_j).x_i
        arguments(data, i, B, v)  # line 4: v / |x_i|^2 + b_ij + sum b_i
        walrus(v, data.C * data.weights[i], b)  # line 5
        if difference(data, i, b, B, delta):
            subtract(data.rows, i, delta, W, data.width)  # line 6
            B[i] = b  # line 7
            changed += 1
    return changed


@njit(fastmath=FAST, inline="always")
def margins(data, i, W, z):
    """Write z_ij = 1 - (w_y - w_j).x_i to (lanes,) `z`, with -1 for class y."""
    multiply(data.rows, i, W, z, data.width)
    y = data.y[i]
    margin = 1.0 - z[y]
    for j in range(columns(data, z)):
        z[j] += margin
    z[y] = -1.0


@njit(fastmath=FAST)
def screen(data, W, B, slack):
    """Return each row's part of the gap, and the sum of all hinges with its rounding.

    Row i has the part ``gaps[i] = sum_j (C_i max(0, z_ij) - B_ij z_ij)``. Here ``C_i =
    weights[i] C``, and the hinges of row i are multiplied by `weights[i]`. The last
    number is how much the sum may grow if every z_ij grows by up to slack_i.
    """
    z = np.empty(W.shape[1])
    gaps = np.empty(len(slack))
    total = room = 0.0
    for i in range(np.uint64(len(gaps))):
        margins(data, i, W, z)
        hinge, linear = part(data, i, z, B)
        near = 0.0
        for j in range(data.k):
            near += z[j] > -slack[i]
        weight = data.weights[i]
        gaps[i] = data.C * weight * hinge - linear
        total += weight * hinge
        room += weight * near * slack[i]
    return gaps, total, room


@njit(fastmath=FAST, inline="always")
def part(data, i, z, B):
    """Return row i's sums of max(0, z_ij) and of B_ij z_ij over the wrong classes j."""
    hinge = 0.0
    linear = 0.0
    for j in range(data.k):
        hinge += max(0.0, z[j])
        linear += B[i, j] * z[j]
    return hinge, linear


@njit(fastmath=FAST, inline="always")
def arguments(data, i, B, z):
    """Replace the margins z_ij by the v of Proposition 3.5; return sum b_i.

    The row's own class and the padding get v = 0, for which b = 0.
    """
    S = 0.0
    inverse = 1.0 / data.norms[i]
    for j in range(columns(data, z)):
        S += B[i, j]
    for j in range(columns(data, z)):
        z[j] = z[j] * inverse + B[i, j] + S
    z[data.y[i]] = 0.0
    for j in range(data.k, columns(data, z)):
        z[j] = 0.0
    return S


@njit(fastmath=FAST, inline="always")
def difference(data, i, b, B, delta):
    """Write b - b_i to `delta`; return whether any entry is not 0.

    The entry of the row's own class is minus the sum of the others, so that the columns
    of W keep their sum.
    """
    total = moved = 0.0
    for j in range(columns(data, b)):
        delta[j] = b[j] - B[i, j]
        total += delta[j]
        moved += abs(delta[j])
    delta[data.y[i]] = -total
    return moved > 0.0


@njit(inline="always")
def columns(data, z):
    """Return the number of columns of W, a constant if loops are unrolled."""
    return np.uint64(len(data.width)) if len(data.width) else np.uint64(len(z))
