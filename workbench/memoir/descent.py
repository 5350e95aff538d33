"""MEMOIR's descent (Belyy, Sholokhov; Algorithms 1 and 2) around any search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix, Problem
from workbench.core.stream import off_the_clock
from workbench.kernels.rows import rows_of
from workbench.memoir.blocks import roomier
from workbench.memoir.mips import Oracle, inexactness, make_oracle
from workbench.memoir.mips.exact import score_blocks
from workbench.memoir.state import MemoirState, with_constant
from workbench.memoir.steps import (
    MASS,
    NO_MARGINS,
    NOBODY,
    SCALE,
    SQUARE,
    STEP,
    UPDATES,
    Plan,
    answers,
    begin,
    eta_of,
    finish,
    take_batch,
    take_batches,
)
from workbench.memoir.weights import Weights, merged, zeros

MANY = 50  # batches in a pass over the rows from which on the pass is a round
SAMPLED = 200  # rows on which the answers of a search are compared with the exact ones
JUDGED = 5_000  # rows on which the objective is judged, where there are more
SAMPLINGS = "uniform", "balanced", "passes"


def descend(
    problem: Problem,
    s: MemoirState,
    plan: Plan,
    *,
    gamma: float | None,
    batch_size: int,
    sampling: str,
    sequential: bool,
    empty: bool,
    mips: str,
    options: dict,
    threads: int,
) -> Iterator[MemoirState]:
    """Yield the state after every round: a batch, or a pass over the rows if batches are small.

    Parameters
    ----------
    gamma : the l1 weight by which the classes of a batch are truncated; None without
    empty : answers that score no more than 0 become a class that is still empty
    options : of :func:`workbench.memoir.mips.make_oracle`
    """
    X = with_constant(problem.X) if s.bias else problem.X
    rows, y, k = rows_of(X), problem.y, problem.k
    exact = mips == "exact"
    # Chance goes on where the state is; hyperplanes are those that the run began with.
    seed = [s.seed, 1] if mips == "simple_lsh" else s.rng
    oracle = None if exact else make_oracle(mips, k=k, d=X.shape[1], seed=seed, **options)
    with off_the_clock():
        if not len(s.dense):  # a small problem's weights are dense: its warm-up compiled less
            changes = zeros(1, k, dense=False, average=s.average)
            roomier(merged(changes, NO_MARGINS, 0.0)[0].changes, k, 1)
        weight = plan.lam if gamma is None else gamma
        if s.weight != weight:
            s.weight, s.primal = weight, objective(problem, s, X, plan.lam, gamma)
    yield s
    if oracle is not None:  # a state holds no index
        oracle.update(s.weights().matrix(), None)
    # Small batches of the plain method leave the list alone; all others make it anew each time.
    together = exact and sequential and gamma is None
    batches = 1 if batch_size * MANY >= problem.n else -(-problem.n // batch_size)
    while True:
        drawn = draw(problem, s, sampling, batches * batch_size)
        w, numbers = s.weights(), np.array([s.scale, s.square, s.mass, 0.0, s.step])
        spare = s.rng.random(len(drawn)) if empty else np.zeros(0)
        about, whole = dict.fromkeys(("epsilon", "build_seconds", "query_seconds"), 0.0), False
        about["recall"] = 1.0
        try:
            if together:
                given = plan, numbers, np.zeros(k, bool), s.met, spare
                w = take_batches(w, rows, y, drawn, batch_size, *given)
                w, numbers[SQUARE] = merged(w, NO_MARGINS, numbers[MASS])
            else:
                for first in range(0, len(drawn), batch_size):
                    part = slice(first, first + batch_size)
                    batch, found, touched = drawn[part], NOBODY, np.zeros(k, bool)
                    begin(plan, numbers)
                    if oracle is not None:
                        found = oracle.query(X, batch, y[batch])
                        about["query_seconds"] += oracle.query_seconds
                        if first + batch_size >= len(drawn):
                            with off_the_clock():
                                about |= shortfall(oracle, w, numbers[SCALE], X, batch, y)
                    margins = NO_MARGINS
                    if not sequential:
                        given = batch, found, s.met, spare[part], threads
                        found, margins = answers(w, rows, y, *given)
                    given = plan, numbers, touched, s.met, spare[part]
                    w = take_batch(w, rows, y, batch, found, margins, *given)
                    thresholds = NO_MARGINS
                    if gamma is not None:
                        step = gamma * eta_of(plan, numbers[STEP]) * k / touched.sum()
                        thresholds = (touched * step).astype(np.float32)
                    w, numbers[SQUARE] = merged(w, thresholds, numbers[MASS])
                    finish(w, plan, numbers)
                    if oracle is not None:
                        # A scale multiplied into U, which starts the mass anew, changes all.
                        changed = np.flatnonzero(touched) if numbers[MASS] else None
                        oracle.update(w.matrix(), changed)
                        about["build_seconds"] += oracle.build_seconds
            whole = True
        finally:
            # Dense weights change in place: the numbers of an interrupted round must follow them.
            if whole or len(s.dense):
                scale, square, mass, _, steps = numbers.tolist()
                vars(s).update(scale=scale, square=square, mass=mass, step=int(steps))
        vars(s).update(
            round=s.round + 1,
            updates=float(numbers[UPDATES]) / len(drawn),
            **{name: getattr(w, name) for name in Weights._fields if name != "changes"},
            **about,
        )
        with off_the_clock():
            s.primal = objective(problem, s, X, plan.lam, gamma)
        yield s


def shortfall(oracle: Oracle, w: Weights, scale: float, X: Matrix, batch, y) -> dict[str, float]:
    """Return how far a search falls short of the exact one, on some rows of a batch."""
    sample = batch[:SAMPLED]
    seen = inexactness(oracle, w.matrix(), X, sample, y[sample])
    return {"recall": seen["recall"], "epsilon": float(scale * seen["epsilon_mean"])}


def draw(problem: Problem, s: MemoirState, sampling: str, count: int) -> np.ndarray:
    """Return the next rows: up to `count` of a pass, or `count` that are drawn independently."""
    n = problem.n
    if sampling == "uniform":
        return s.rng.integers(n, size=count)
    if sampling == "balanced":  # a class, then a row of it: p_i = 1 / (C n_{y_i})
        order = np.argsort(problem.y, kind="stable")
        counts = np.bincount(problem.y, minlength=problem.k)
        there = np.flatnonzero(counts)
        classes = there[s.rng.integers(len(there), size=count)]
        within = (s.rng.random(count) * counts[classes]).astype(np.int64)
        return order[np.cumsum(counts)[classes] - counts[classes] + within]
    if s.position >= len(s.order):
        s.order, s.position = s.rng.permutation(n), 0
    taken = s.order[s.position : s.position + count]
    s.position += len(taken)
    return taken


def objective(
    problem: Problem, s: MemoirState, X: Matrix, lam: float, gamma: float | None
) -> float:
    """Return lam/2 |W|^2, or gamma/2 |W|_1, and the mean hinge, of at most `JUDGED` rows."""
    W, n = s.model(), problem.n
    rows = np.arange(n)
    if n > JUDGED:
        rows = np.sort(np.random.default_rng(0).choice(n, JUDGED, replace=False))
    values = (W.data if sp.issparse(W) else W).astype(np.float64).ravel()
    weight = lam / 2 * (values @ values) if gamma is None else gamma / 2 * np.abs(values).sum()
    total = 0.0
    for part, V in score_blocks(X, W, rows):
        at = np.arange(len(V)), problem.y[rows[part]]
        own = V[at].astype(float)
        V[at] = -np.inf
        total += float(np.maximum(0.0, 1.0 + V.max(axis=1) - own).sum())
    return float(weight + total / len(rows))
