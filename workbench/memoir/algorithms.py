"""Algorithms 1 and 2 of MEMOIR (Belyy, Sholokhov), line by line.

Comments number the lines of the printed boxes. Lines 5 to 11 are compiled
(:func:`workbench.memoir.steps.visit`); W is dense or sparse.

About (13) the paper says that a truncation is applied "only in the case of the resulting l1/l2
norm of the truncated elements is sufficiently small", and not how small. Its box truncates after
every batch, and so does :func:`memoir_l1`. The text leaves open what a batch of Algorithm 2 is;
rows are drawn uniformly, as in Algorithm 1. The defaults are the steps of Table 4; those of Theorem
2 are in :func:`workbench.memoir.pegasos.memoir_pegasos`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from workbench.core.checks import check_not_negative, check_positive
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import off_the_clock
from workbench.kernels.rows import rows_of
from workbench.memoir.blocks import matrix_of
from workbench.memoir.mips import inexactness, make_oracle
from workbench.memoir.state import MemoirState, default_batch, objective, start
from workbench.memoir.steps import NO_ANSWERS, SCALE

MAX_BATCHES = 50  # if a pass over the rows has fewer batches, each is a round
SAMPLED = 200  # rows on which the answers of a search are compared with the exact ones


@resumable("lam", "eta0", "eta_step", "batch_size", "mips")
def memoir_l2(
    problem: Problem,
    *,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    lam: float = 1.0,
    batch_size: int | None = None,
    mips: str = "exact",
    ef: int = 50,
    bits: int = 64,
    dense: bool | None = None,
    seed: int = 0,
    state: MemoirState | None = None,
) -> Iterator[MemoirState]:
    """Lower P(W) = lam/2 |W|^2 + mean_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})).

    Algorithm 1 with the settings of Table 4, which are the defaults. Step t has the size
    eta_t = eta0 / (1 + eta_step t). A round is a batch, or the batches of a pass over the rows if
    these are more than fifty. There is no certificate.

    An approximate search uses an index of the weights before the batch; ``recall`` and ``epsilon``,
    its shortfall in score, are measured on a round's last batch, off the clock. nmslib draws from a
    generator of its own: such runs cannot be repeated bit for bit.

    Parameters
    ----------
    eta0, eta_step : length of the first step, positive, and how fast steps shrink, not negative
    lam : weight of the regularisation, not negative; lam eta_1 must be below 1
    batch_size : rows per step, drawn independently; by default 100 sqrt(C), or n if that is less
    mips : search for the best wrong class: "exact", "sw_graph", "hnsw", "simple_lsh" or "random"
    ef : candidates that a search of a graph keeps
    bits : length of a hash
    dense : keep W dense, 4 d C bytes, or sparse, about 10 bytes per entry; by default dense up to
        256 MB
    seed : int, seeds the rows drawn

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    given = eta0, eta_step, batch_size, mips, ef, bits, dense, seed, state
    s, eta, size, many, search = _started(problem, "lam", lam, *given)
    if lam * eta(1) >= 1:
        raise ValueError(
            "lam: lam * eta_1 must be below 1, or the first step erases W; got "
            f"{lam!r} * {eta(1):g}"
        )
    rows, y = rows_of(problem.X), problem.y
    yield s  # line 1: W^0 = 0
    while True:  # line 2
        for t in range(s.step + 1, s.step + 1 + many):
            b = s.rng.integers(problem.n, size=size)  # line 3
            r = search(b)  # line 6, unless it is exact
            s.numbers[SCALE] *= 1 - lam * eta(t)  # line 4
            s.visit(rows, b, y, r, np.full(size, eta(t)))  # lines 5 to 11
            s.project(lam)  # lines 12 and 13
            s.step = t
        with off_the_clock():
            s.end_round(problem, size * many, "l2")
        yield s


@resumable("gamma", "eta0", "eta_step", "batch_size", "mips")
def memoir_l1(
    problem: Problem,
    *,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    gamma: float = 1e-6,
    batch_size: int | None = None,
    mips: str = "exact",
    ef: int = 50,
    bits: int = 64,
    dense: bool | None = None,
    seed: int = 0,
    state: MemoirState | None = None,
) -> Iterator[MemoirState]:
    """Lower P(W) = gamma/2 |W|_1 + mean_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})).

    Algorithm 2: after each batch, the weights of the classes R_t in it (every label and every
    answer) are taken towards zero by C / |R_t| gamma eta_t. The paper calls gamma lambda, and its
    objective counts half of it. Every batch sweeps all weights, so that small batches are slow.
    Everything else is as in :func:`memoir_l2`.

    Parameters
    ----------
    gamma : weight of the l1 norm, not negative

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    given = eta0, eta_step, batch_size, mips, ef, bits, dense, seed, state
    s, eta, size, many, search = _started(problem, "gamma", gamma, *given)
    rows, y = rows_of(problem.X), problem.y
    yield s  # line 1: W^0 = 0
    while True:  # line 2
        for t in range(s.step + 1, s.step + 1 + many):
            b = s.rng.integers(problem.n, size=size)  # line 3
            r = search(b)  # line 6, unless it is exact
            R = s.visit(rows, b, y, r, np.full(size, eta(t)))  # lines 4 to 12
            if gamma:
                s.truncate(R, problem.k / R.sum() * gamma * eta(t))  # lines 13 and 14: (13)
            s.step = t
        with off_the_clock():
            s.end_round(problem, size * many, "l1")
        yield s


def _started(
    problem, name, weight, eta0, eta_step, batch_size, mips, ef, bits, dense, seed, state
) -> tuple[MemoirState, Callable, int, int, Callable]:
    """Return the state to start from, eta, rows per batch, batches per round and the search."""
    check_not_negative(**{name: weight}, eta_step=eta_step)
    check_positive(eta0, "eta0")
    size = default_batch(problem, batch_size)
    s = start(problem, weight, dense, seed) if state is None else state
    if s.weight != weight:
        s.weight = weight
        with off_the_clock():
            s.primal = objective(problem, s.model(), weight, "l2" if name == "lam" else "l1")
    many = 1 if size * MAX_BATCHES >= problem.n else -(-problem.n // size)

    def eta(t: int) -> float:
        return eta0 / (1 + eta_step * t)

    if mips == "exact":
        s.recall, s.epsilon, s.build_seconds, s.query_seconds = 1.0, 0.0, 0.0, 0.0
        return s, eta, size, many, lambda b: NO_ANSWERS
    # A hash keeps the hyperplanes that the run began with; other searches draw as the run does.
    given = {"seed": s.rng} | ({} if mips == "random" else {"ef": ef})
    given = {"seed": [s.seed, 1], "bits": bits} if mips == "simple_lsh" else given
    oracle, batches = make_oracle(mips, k=s.k, d=problem.d, **given), count(1)

    def search(b: np.ndarray) -> np.ndarray:
        """Return the class that an index of W, as it is now, finds for each row of the batch."""
        U = matrix_of(s.blocks(), s.k)
        oracle.update(U)
        found = oracle.query(problem.X, b, problem.y[b])
        s.build_seconds, s.query_seconds = oracle.build_seconds, oracle.query_seconds
        if next(batches) % many == 0:  # the last batch of a round
            with off_the_clock():
                rows = b[:SAMPLED]
                seen = inexactness(oracle, U, problem.X, rows, problem.y[rows])
                s.recall = seen["recall"]
                s.epsilon = float(s.numbers[SCALE] * seen["epsilon_mean"])
        return found

    return s, eta, size, many, search
