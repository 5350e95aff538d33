"""Algorithms 1 and 2 of MEMOIR (Belyy, Sholokhov), line by line.

Comments give the line numbers of the printed boxes. Lines 5 to 11 of Algorithm 1 and 5
to 10 of Algorithm 2 are compiled (:func:`workbench.memoir.steps.visit`). W is dense or
sparse.

About (13) the paper says that a truncation is applied "only in the case of the
resulting l1/l2 norm of the truncated elements is sufficiently small", but not how small
it must be. Its box truncates after every batch, and so does :func:`memoir_l1`. The text
does not say what a batch of Algorithm 2 is; here rows are drawn uniformly, as in
Algorithm 1. The defaults are from Table 4. The steps of Theorem 2 are in
:func:`workbench.memoir.pegasos.memoir_pegasos`, which is ours.
"""

from collections.abc import Iterator

import numpy as np

from workbench.core.checks import check_not_negative, check_positive
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import off_the_clock
from workbench.kernels.rows import rows_of
from workbench.memoir.mips import Oracle, make_oracle
from workbench.memoir.state import MemoirState, default_batch, objective, start
from workbench.memoir.steps import SCALE, Batch

# A batch is a round if a pass over the rows has at most this many batches.
MAX_BATCHES = 50


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

    This is Algorithm 1; the defaults are the settings of Table 4. Step t has the size
    eta_t = eta0 / (1 + eta_step t). A round is a batch, or a whole pass over the rows
    if a pass has more than fifty batches. There is no certificate.

    The box does not say how to search in line 6 ("compute approximately"). The default
    search is exact, with an inexactness of zero. The paper's experiments use
    "sw_graph". Current versions of nmslib cannot insert and delete the edges of a
    graph. So a new graph has to be built for each batch, and the same answers take
    longer. With "simple_lsh" the solver is :func:`memoir_lsh`.

    An approximate search uses an index of the weights before the batch. Its ``recall``
    and ``epsilon``, the mean shortfall in score, are measured on up to 200 rows of the
    last batch of a round; this is not timed. nmslib has its own random number
    generator, so runs that use it cannot be repeated bit for bit.

    Parameters
    ----------
    eta0 : float > 0, the size of the first step
    eta_step : float >= 0, how fast the steps shrink
    lam : float >= 0, the weight of the regularisation; lam eta_1 must be below 1
    batch_size : int >= 1, the number of rows per step, drawn independently; by default
        100 sqrt(C), or n if that is less
    mips : the search for the best wrong class: "exact", "sw_graph", "hnsw",
        "simple_lsh" or "random"
    ef : int >= 1, the number of candidates that a search of a graph keeps. The paper
        prints no value; graphs are built with 50 candidates
    bits : int >= 1, the number of bits of a hash
    dense : bool or None, whether W is stored dense (4 d C bytes) or sparse (about 10
        bytes per entry), which changes only time and memory. The paper's W is sparse.
        By default W is dense up to 256 MB
    seed : int >= 0, seeds the draws of rows

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    check_steps(lam, eta0, eta_step)
    size, batches = batches_of(problem, batch_size)
    s = begun(problem, "l2", lam, dense, seed, state)
    eta_1 = eta0 / (1 + eta_step)
    if lam * eta0 >= 1 + eta_step:
        raise ValueError(
            "lam: lam * eta_1 must be below 1, or the first step erases W; got "
            f"{lam!r} * {eta_1:g}"
        )
    rows = rows_of(problem.X)
    oracle = oracle_of(s, mips, ef, bits)
    yield s  # line 1: W^0 = 0
    while True:
        end = s.step + batches
        for t in range(s.step + 1, end + 1):  # line 2
            eta = eta0 / (1 + eta_step * t)
            b = s.rng.integers(problem.n, size=size)  # line 3
            s.numbers[SCALE] *= 1 - lam * eta  # line 4
            r = s.search(oracle, problem, b, t == end)  # line 6, unless it is exact
            s.visit(Batch(rows, problem.y, b, r, np.full(size, eta)))  # lines 5 to 11
            s.project(lam)  # lines 12 and 13
            s.step = t
        with off_the_clock():
            s.end_round(problem, size * batches, "l2")
        yield s


@resumable("lam", "eta0", "eta_step", "batch_size", "mips")
def memoir_l1(
    problem: Problem,
    *,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    lam: float = 1e-6,
    batch_size: int | None = None,
    mips: str = "exact",
    ef: int = 50,
    bits: int = 64,
    dense: bool | None = None,
    seed: int = 0,
    state: MemoirState | None = None,
) -> Iterator[MemoirState]:
    """Lower P(W) = lam/2 |W|_1 + mean_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})).

    This is Algorithm 2: after each batch, the weights of the classes R_t in it (every
    label and every answer) move towards zero by C / |R_t| lam eta_t, as printed in
    (13); the objective (11) contains half of lam. Every batch visits all weights, so
    small batches are slow. Everything else is as in :func:`memoir_l2`.

    Parameters
    ----------
    lam : float >= 0, the weight of the l1 norm

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    check_steps(lam, eta0, eta_step)
    size, batches = batches_of(problem, batch_size)
    s = begun(problem, "l1", lam, dense, seed, state)
    rows = rows_of(problem.X)
    oracle = oracle_of(s, mips, ef, bits)
    yield s  # line 1: W^0 = 0
    while True:
        end = s.step + batches
        for t in range(s.step + 1, end + 1):  # line 2
            eta = eta0 / (1 + eta_step * t)
            b = s.rng.integers(problem.n, size=size)  # line 3
            r = s.search(oracle, problem, b, t == end)  # line 6, unless it is exact
            # Lines 5 to 10
            r = s.visit(Batch(rows, problem.y, b, r, np.full(size, eta)))
            R = np.union1d(problem.y[b], r)  # lines 4 and 11
            if lam:
                s.truncate(R, problem.k / len(R) * lam * eta)  # lines 13 to 15: (13)
            s.step = t
        with off_the_clock():
            s.end_round(problem, size * batches, "l1")
        yield s


@resumable("lam", "eta0", "eta_step", "batch_size")
def memoir_lsh(
    problem: Problem,
    *,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    lam: float = 1.0,
    batch_size: int | None = None,
    bits: int = 64,
    dense: bool | None = None,
    seed: int = 0,
    state: MemoirState | None = None,
) -> Iterator[MemoirState]:
    """Run Algorithm 1 with SimpleLSH, the paper's MEMOIR-LSH.

    The defaults are the settings of Table 4. The paper mentions a "reduced feature
    space", and its authors' code hashes a truncated SVD; ``| 128 pca`` makes such
    features. Everything else is as in :func:`memoir_l2`.
    """
    return memoir_l2.__wrapped__(  # type: ignore[attr-defined]
        problem,
        lam=lam,
        eta0=eta0,
        eta_step=eta_step,
        batch_size=batch_size,
        mips="simple_lsh",
        bits=bits,
        dense=dense,
        seed=seed,
        state=state,
    )


def check_steps(lam: float, eta0: float, eta_step: float) -> None:
    """Raise a ValueError that names the first of these that is out of its range."""
    check_positive(eta0, "eta0")
    check_not_negative(lam=lam, eta_step=eta_step)


def batches_of(problem: Problem, batch_size: int | None) -> tuple[int, int]:
    """Return the numbers of rows in a batch and of batches in a round."""
    size = default_batch(problem, batch_size)
    if size * MAX_BATCHES >= problem.n:
        return size, 1
    return size, -(-problem.n // size)


def begun(problem, penalty, lam, dense, seed, state) -> MemoirState:
    """Return the first state, or the given one with the objective for `lam`."""
    s = state or start(problem, lam, dense, seed)
    if s.weight != lam:
        s.weight = lam
        with off_the_clock():
            s.primal = objective(problem, s.model(), lam, penalty)
    return s


def oracle_of(s: MemoirState, mips: str, ef: int, bits: int) -> Oracle | None:
    """Return a search for line 6, or None if `visit` finds the exact answers."""
    d = len(s.starts)
    match mips:
        case "exact":
            s.recall = 1.0
            s.epsilon = 0.0
            s.build_seconds = 0.0
            s.query_seconds = 0.0
            return None
        case "simple_lsh":  # a resumed run needs the same hyperplanes
            return make_oracle(mips, k=s.k, d=d, seed=[s.seed, 1], bits=bits)
        case "random":
            return make_oracle(mips, k=s.k, d=d, seed=s.rng)
        case _:
            return make_oracle(mips, k=s.k, d=d, seed=s.rng, ef=ef)
