"""Working sets for extreme classification, ours: dual ascent with an exact, live inverted index.

What is left of MEMOIR is its idea: an inexact argmax is good enough for most steps. Here it comes
from each row's own short list of classes, so that no step needs an index of approximate answers,
and none can do harm: it ascends a dual whatever the list holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_not_negative, check_positive, check_whole
from workbench.core.measures import bounds
from workbench.core.problem import Problem
from workbench.core.stream import Row, off_the_clock
from workbench.kernels.rows import rows_of, squared_norms
from workbench.memoir.ascent import candidates, full_pass, set_pass
from workbench.memoir.blocks import PATCH, InBlocks, dense, empty, matrix_of, roomier
from workbench.memoir.mips import scores
from workbench.memoir.visit import Rules, Sets
from workbench.memoir.working_set_certificate import certificate

LOSSES = "crammer_singer", "weston_watkins"
EPS = 0.01  # violation below which a row is left alone at first, in units of the margin
FEW = 0.5  # share of the rows: when a full pass takes steps for fewer, this violation falls
FALL = 4.0  # the factor
LEAST = 1e-6  # never below this: single precision has no more digits
CALM = 2  # visits without a step after which a row is left out of passes over the sets
CHUNK = 1024  # rows whose violators are found before the steps of any
SMALL = 2**23  # entries of V up to which it is dense: a pass takes a third to half of the time


@dataclass
class WorkingSetState(InBlocks):
    """The dual point: V = sum_i alpha_i x_i in blocks, and each row's set with its alpha.

    ``sets`` to ``calm`` are the fields of :class:`workbench.memoir.visit.Sets`.
    W = soft(V, ``l1``). ``primal`` is P(W) for this ``C``; ``updates`` the steps of the last full
    pass over n, ``full`` how often in it a violating class found no place in a set.
    """

    round: int
    rng: np.random.Generator
    C: float
    l1: float
    eps: float
    sets: np.ndarray
    alpha: np.ndarray
    held: np.ndarray
    calm: np.ndarray
    updates: float
    full: float
    primal: float
    lower: float
    upper: float

    def model(self, truncate: float = 0.0) -> sp.csr_array:
        """Return W (d, k) without the entries that are below `truncate` times their rms."""
        W = matrix_of(self.blocks(), self.k, self.l1)
        if not sp.issparse(W):
            W = sp.csr_array(W - W.clip(-np.float32(self.l1), np.float32(self.l1)))
        return truncated(W, truncate)

    def scores(self, X) -> np.ndarray:
        return scores(X, self.model())

    def nbytes(self) -> int:
        """Return the bytes of V and of the sets."""
        arrays = self.sets, self.alpha, self.held, self.calm
        return self.blocks().nbytes() + sum(array.nbytes for array in arrays)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {
            "primal": self.primal,
            "updates": self.updates,
            "full": self.full,
            "active": int(np.count_nonzero(self.alpha)),
        }


def cs_working_set(
    problem: Problem,
    *,
    C: float = 1.0,
    l1: float = 0.02,
    working_set: int = 16,
    inner: int = 2,
    added: int = 3,
    entering: int = 3,
    balance: float = 0.0,
    loss: str = "crammer_singer",
    threads: int = 1,
    seed: int = 0,
    state: WorkingSetState | None = None,
) -> Iterator[WorkingSetState]:
    """Minimise P(W) = 1/2 |W|^2 + l1 |W|_1 + sum_i C_i loss_i(W), the elastic net for many classes.

    loss_i is max_c [c != y_i] + x_i.(w_c - w_{y_i}), or the sum of the positive ones of these over
    c != y_i (Weston and Watkins). With alpha_ic <= C_i [c = y_i] and sum_c alpha_ic = 0 for the
    first, -C_i <= alpha_ic <= 0 for c != y_i in the second, the dual is

        D(alpha) = - 1/2 |soft(V, l1)|^2 - sum_{i, c != y_i} alpha_ic,    V = sum_i x_i alpha_i^T,

    and W = soft(V, l1). Visiting a row with a block of classes maximises D over their alpha, with
    |x_i|^2 as curvature, which is exact for l1 = 0, up to rounding, and a bound of D otherwise.

    A round is `inner` passes over the rows' working sets (none in the first), then one over all
    rows, in random order, with the scores of all classes: its `added` largest violators enter the
    row's set, and at most `entering` of them the block of a visit, which keeps V sparse. A full
    set gives up a class that is not in use. Rows that violate by less than eps are left alone; eps
    is 0.01, and a quarter of that whenever a full pass took steps for fewer than half of the rows.

    Each round's certificate is of that W and alpha, evaluated off the clock, in double precision
    and with V computed again from alpha. Where ``full`` stays above 0, sets are too small for the
    optimum.

    Parameters
    ----------
    C : weight of a row's loss, as in LIBLINEAR, positive
    l1 : weight of the l1 norm, not negative; rows of unit length suit 0.02 to 0.05
    working_set : classes of a row, its own among them, from 2 to 255; memory is 6 bytes for each
    inner : passes over the sets before a full one
    balance : C_i is proportional to (rows of its class)^-balance, with mean C; not negative
    loss : "crammer_singer" or "weston_watkins"; the second wants sets for all classes that violate,
        which at the beginning are all
    threads : several look for violators, with the V of a chunk's begin, while steps stay in order:
        the iterates are others than those of one thread; it pays from some thousands of classes on
    seed : of the rows' order

    Raises
    ------
    ValueError
        Naming the argument that is out of its range.
    """
    check_positive(C, "C")
    check_not_negative(l1=l1, balance=balance)
    check_counts(working_set=working_set, added=added, entering=entering, threads=threads)
    if not 2 <= working_set <= 255:
        raise ValueError(f"working_set: must be from 2 to 255, got {working_set!r}")
    if inner != 0:
        check_counts(inner=inner)
    if loss not in LOSSES:
        raise ValueError(f"loss: must be one of {', '.join(LOSSES)}, got {loss!r}")
    X, y, n, k = problem.X, problem.y, problem.n, problem.k
    weights = problem.weights
    rows, squares = rows_of(X), squared_norms(X)
    costs = costs_of(y, C, balance, weights)
    caps = rounded_down(costs)
    every = loss == "weston_watkins"
    worst = float(costs.sum()) * (k - 1 if every else 1)
    if state is None:
        s = start(problem, min(working_set, k), C, l1, worst, seed)
    else:
        s = restated(problem, state, C=C, l1=l1, balance=balance, loss=loss)
    yield s
    while True:
        rules = Rules(np.float32(s.l1), s.eps, min(added, k - 1), entering, every)
        given = Sets(s.sets, s.alpha, s.held, s.calm), caps, squares, rules
        none = np.zeros((0, 1), s.sets.dtype), np.zeros(0, np.int64)
        for _ in range(inner if s.round else 0):
            order = s.rng.permutation(n)
            order = order[((s.held > 1) & (s.calm < CALM))[order]]
            s.run(set_pass, rows, order, *given, *none, np.zeros(2))
        order, seen = s.rng.permutation(n), np.zeros(2)  # steps, and classes without a place
        if threads == 1:
            s.run(full_pass, rows, order, y, *given, seen)
        else:
            shared_pass(s, rows, y, order, *given, seen, threads)
        s.eps = max(s.eps / FALL, LEAST) if seen[0] < FEW * n else s.eps
        s.updates, s.full = float(seen[0]) / n, float(seen[1]) / n
        with off_the_clock():
            dual, s.primal = certificate(problem, s, rows, squares, costs, every)
            s.lower, s.upper = max(s.lower, dual), min(s.upper, s.primal)
        s.round += 1
        yield s


def shared_pass(
    s: WorkingSetState, rows, y, order, sets, costs, squares, rules, seen, threads: int
) -> None:
    """Visit all rows, chunk by chunk: find violators in threads, then take the steps in order."""
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(order), CHUNK):
            chunk = order[first : first + CHUNK]
            found = (
                np.empty((len(chunk), rules.added), sets.classes.dtype),
                np.zeros(len(chunk), int),
            )
            parts = pairwise(np.linspace(0, len(chunk), threads + 1).astype(int))
            before = s.blocks(), rows, y, chunk
            after = sets, costs, rules, *found, s.k
            jobs = [pool.submit(candidates, *before, *part, *after) for part in parts]
            for job in jobs:
                job.result()
            s.run(set_pass, rows, chunk, sets, costs, squares, rules, *found, seen)


def restated(
    problem: Problem,
    state: WorkingSetState,
    *,
    C: float,
    l1: float,
    balance: float = 0.0,
    loss: str = "crammer_singer",
) -> WorkingSetState:
    """Return the same dual point, scaled down to a smaller `C`, with its W and its bounds."""
    if (state.C, state.l1) != (C, l1):
        share = min(1.0, C / state.C)  # a larger C leaves alpha feasible
        costs = costs_of(problem.y, C, balance, problem.weights)
        state.values *= np.float32(share)
        state.alpha = np.maximum(share * state.alpha, -rounded_down(costs)[:, None])
        state.alpha = state.alpha.astype(np.float32)
        state.calm[:] = 0
        state.C, state.l1 = float(C), float(l1)
        every = loss == "weston_watkins"
        with off_the_clock():
            given = rows_of(problem.X), squared_norms(problem.X), costs, every
            dual, state.primal = certificate(problem, state, *given)
        worst = float(costs.sum()) * (problem.k - 1 if every else 1)
        state.lower, state.upper = max(0.0, dual), min(worst, state.primal)
    return state


def start(
    problem: Problem, M: int, C: float, l1: float, worst: float, seed: int
) -> WorkingSetState:
    """Return round 0: alpha = 0, and the loss of W = 0 as upper bound."""
    n, k = problem.n, problem.k
    if problem.d * k <= SMALL:
        b = dense(np.zeros((problem.d, k), np.float32))
    else:
        b = roomier(empty(problem.d, k), k, PATCH)
    sets = np.zeros((n, M), b.classes.dtype)
    sets[:, 0] = problem.y
    return WorkingSetState(
        k=k,
        **b._asdict(),
        round=0,
        rng=np.random.default_rng(check_whole(seed, "seed", least=0)),
        C=float(C),
        l1=float(l1),
        eps=EPS,
        sets=sets,
        alpha=np.zeros((n, M), np.float32),
        held=np.ones(n, np.uint8),
        calm=np.zeros(n, np.uint8),
        updates=0.0,
        full=0.0,
        primal=worst,
        lower=0.0,
        upper=worst,
    )


def rounded_down(costs: np.ndarray) -> np.ndarray:
    """Return the largest numbers of single precision up to these: alpha is held in it."""
    single = costs.astype(np.float32)
    below = np.nextafter(single, np.float32(0.0))
    return np.where(single > costs, below, single).astype(float)


def costs_of(y: np.ndarray, C: float, balance: float, weights) -> np.ndarray:
    """Return C_i, proportional to (rows of its class)^-balance and of mean C.

    With (n,) `weights`, row i counts `weights[i]` times, and costs that many times as much.
    """
    costs = np.bincount(y, weights)[y] ** -float(balance)
    costs = C * costs / np.average(costs, weights=weights)
    return weights * costs


def truncated(W: sp.csr_array, share: float) -> sp.csr_array:
    """Return W without the entries that are below `share` times their root mean square."""
    if share and W.nnz:
        W.data[np.abs(W.data) < share * np.sqrt(np.mean(W.data.astype(float) ** 2))] = 0.0
        W.eliminate_zeros()
    return W
