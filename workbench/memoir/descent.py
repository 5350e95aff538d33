"""The descent of MEMOIR's fast solvers: rows drawn, answers sought, steps, and the objective."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import sqrt
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import (
    LARGEST,
    check_counts,
    check_flags,
    check_not_negative,
    check_positive,
)
from workbench.core.problem import Matrix, Problem
from workbench.core.shares import blocks
from workbench.core.stream import off_the_clock
from workbench.kernels.rows import rows_of
from workbench.memoir.blocks import compacted, matrix_of
from workbench.memoir.mips import MIPS, Oracle, inexactness, make_oracle
from workbench.memoir.mips.exact import score_blocks
from workbench.memoir.pegasos import hinges
from workbench.memoir.state import MemoirState, start, with_constant
from workbench.memoir.steps import (
    MASS,
    NOBODY,
    NOT_NOTED,
    SCALE,
    SQUARE,
    UPDATES,
    Answers,
    Batches,
    Rules,
    answer,
    finish,
    take,
    truncate,
)

MANY = 50  # batches in a pass over the rows from which on the pass is a round
SAMPLED = 200  # rows on which the answers of a search are compared with the exact ones
JUDGED = 5_000  # rows on which the objective is evaluated if there are more
LEAST = 1e-3  # scale of W below which it is multiplied into the weights
LOADED = 0.2  # share of non-zeros below which truncated weights move to smaller blocks
NOTHING = np.zeros(0)
SAMPLINGS = "uniform", "balanced", "passes"
CHOICES = {
    "sampling": SAMPLINGS,
    "in_batch": ("sequential", "frozen"),
    "predict_metric": ("dot", "cosine"),
    "mips": MIPS,
}


def default_batch(problem: Problem) -> int:
    """Return the paper's batch size, 100 sqrt(C), or n where there are fewer rows."""
    return min(problem.n, round(100 * sqrt(problem.k)))


def restated(
    problem: Problem, state: MemoirState, *, lam: float = 0.0, gamma: float = 0.0
) -> MemoirState:
    """Return the same iterate under these weights of the two penalties: its objective changes."""
    if state.weight != lam + gamma:  # one of the two is 0
        state.weight = lam + gamma
        with off_the_clock():
            X = with_constant(problem.X) if state.bias else problem.X
            state.primal = objective(problem, X, state, lam, gamma)
    return state


def descend(problem: Problem, p: SimpleNamespace) -> Iterator[MemoirState]:
    """Yield the state after every round; `p` are the parameters of `memoir_l2` and `memoir_l1`.

    One of ``p.lam`` and ``p.gamma`` is 0.
    """
    check_not_negative(lam=p.lam, gamma=p.gamma, eta_step=p.eta_step, eta_power=p.eta_power)
    flags = "hinge", "div_by_batch", "project", "average", "bias"
    check_flags(**{name: getattr(p, name) for name in flags})
    first = check_positive(p.eta0, "eta0") / (1 + p.eta_step) ** p.eta_power
    if p.lam * first >= 1:
        raise ValueError(
            "lam: lam * eta_1 must be below 1, or the first step erases W; got "
            f"{p.lam!r} * {first:g}"
        )
    for name, accepted in CHOICES.items():
        if (value := getattr(p, name)) not in accepted:
            raise ValueError(f"{name}: must be one of {', '.join(accepted)}, got {value!r}")
    parts = [problem.X] if problem.is_sparse else blocks(problem.X)
    if not all(abs(part).max() <= LARGEST["f"] for part in parts):
        raise ValueError(
            f"problem: contains values beyond {LARGEST['f']:g}, too large for weights of single "
            "precision; scale the features"
        )
    size = default_batch(problem) if p.batch_size is None else p.batch_size
    check_counts(threads=p.threads, batch_size=size)
    weights = {"lam": p.lam, "gamma": p.gamma}
    s = start(problem, p) if p.state is None else restated(problem, p.state, **weights)
    X, y, k = with_constant(problem.X) if s.bias else problem.X, problem.y, problem.k
    rows, frozen = rows_of(X), p.in_batch == "frozen"
    oracle, rules = search_of(s, X, p), Rules(p.lam * p.project, p.hinge, LEAST)
    yield s
    if oracle is not None:  # a state holds no index
        oracle.update(matrix_of(s.blocks(), k))
    in_steps = not (frozen or p.gamma)  # a step is over with its last row
    batches = 1 if size * MANY >= problem.n else -(-problem.n // size)
    while True:
        drawn = draw(problem, s, p.sampling, batches * size)
        spare = s.rng.random(len(drawn)) if p.empty else NOTHING
        ends = np.append(np.arange(size, len(drawn), size), len(drawn))
        t = np.arange(s.step + 1, s.step + len(ends) + 1)
        eta = p.eta0 / (1 + p.eta_step * t) ** p.eta_power
        steps = eta / np.diff(ends, prepend=0) if p.div_by_batch else eta
        s.numbers[UPDATES], s.recall, s.epsilon = 0.0, 1.0, 0.0
        s.build_seconds = s.query_seconds = 0.0
        # One pass of compiled code for all batches, or for each if Python has to do with it.
        stride = len(ends) if in_steps and oracle is None else 1
        for b in range(0, len(ends), stride):
            some, first = slice(b, b + stride), ends[b - 1] if b else 0
            part = slice(first, ends[some][-1])
            batch = Batches(drawn[part], ends[some] - first, 1 - p.lam * eta[some], steps[some])
            answers = Answers(NOBODY, NOTHING, spare[part])
            if oracle is not None:
                answers = answers._replace(classes=oracle.query(X, batch.rows, y[batch.rows]))
                s.query_seconds += oracle.query_seconds
                if ends[b] == len(drawn):
                    with off_the_clock():
                        s.recall, s.epsilon = shortfall(oracle, s, X, y, batch.rows)
            if frozen:
                answers = answered(s, rows, y, batch.rows, answers, p.threads)
            touched = np.zeros(k, bool)
            given = answers, rules, in_steps, s.numbers, touched, s.met, NOT_NOTED
            s.run(take, rows, y, batch, *given)
            thresholds = NOTHING
            if p.gamma:
                thresholds = touched * (p.gamma * eta[b] * k / touched.sum())
            thresholds = thresholds.astype(np.float32)
            s.numbers[SQUARE] = truncate(s.blocks(), thresholds, s.numbers[MASS], k)
            if not in_steps:
                finish(s.blocks(), rules, s.numbers)
            if p.gamma and len(s.classes) and not s.average:
                if np.count_nonzero(s.values) < LOADED * s.end[0]:
                    s.hold(compacted(s.blocks(), k))
            if oracle is not None:
                oracle.update(matrix_of(s.blocks(), k))
                s.build_seconds += oracle.build_seconds
        s.updates = float(s.numbers[UPDATES]) / len(drawn)
        s.round += 1
        with off_the_clock():
            s.primal = objective(problem, X, s, **weights)
        yield s


def search_of(s: MemoirState, X: Matrix, p: SimpleNamespace) -> Oracle | None:
    """Return the search of this name in rows like `X`, None for the exact one."""
    if p.mips == "exact":
        return None
    graph = {"ef": p.ef, "neighbours": p.neighbours, "threads": p.threads}
    options = {
        "sw_graph": graph,
        "hnsw": graph,
        "simple_lsh": {"bits": p.bits, "rerank": p.rerank or None},
    }.get(p.mips, {})
    # Chance goes on where the state is; hyperplanes are those that the run began with.
    seed = [s.seed, 1] if p.mips == "simple_lsh" else s.rng
    return make_oracle(p.mips, k=s.k, d=X.shape[1], seed=seed, **options)


def draw(problem: Problem, s: MemoirState, sampling: str, count: int) -> np.ndarray:
    """Return the next rows: up to `count` of a pass, or `count` that are drawn independently."""
    n = problem.n
    if sampling == "uniform":
        return s.rng.integers(n, size=count)
    if sampling == "balanced":  # a class, then a row of it: p_i = 1 / (C n_{y_i})
        order = np.argsort(problem.y, kind="stable")
        counts = np.bincount(problem.y, minlength=problem.k)
        present = np.flatnonzero(counts)
        classes = present[s.rng.integers(len(present), size=count)]
        within = (s.rng.random(count) * counts[classes]).astype(np.int64)
        return order[np.cumsum(counts)[classes] - counts[classes] + within]
    if s.position >= len(s.order):
        s.order, s.position = s.rng.permutation(n), 0
    taken = s.order[s.position : s.position + count]
    s.position += len(taken)
    return taken


def answered(s: MemoirState, rows, y, drawn, answers: Answers, threads: int) -> Answers:
    """Return each row's class r and its margin under the weights as they are, in some threads."""
    r, margins = np.empty(len(drawn), np.int32), np.empty(len(drawn))

    def part(ends: tuple[int, int]) -> None:
        answer(s.blocks(), rows, y, drawn, *ends, answers, s.met, r, margins, s.k)

    parts = list(pairwise(np.linspace(0, len(drawn), threads + 1).astype(np.int64)))
    if threads == 1:
        part(parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, parts))
    return Answers(r, margins, answers.spare)


def shortfall(oracle: Oracle, s: MemoirState, X: Matrix, y, batch) -> tuple[float, float]:
    """Return the recall of a search on some rows of a batch, and its mean shortfall in score."""
    some = batch[:SAMPLED]
    seen = inexactness(oracle, matrix_of(s.blocks(), s.k), X, some, y[some])
    return seen["recall"], float(s.numbers[SCALE] * seen["epsilon_mean"])


def objective(problem: Problem, X: Matrix, s: MemoirState, lam: float, gamma: float) -> float:
    """Return lam/2 |W|^2 + gamma/2 |W|_1 and the mean hinge, of at most `JUDGED` rows."""
    W, n = s.model(), problem.n
    rows = np.arange(n)
    if n > JUDGED:
        rows = np.sort(np.random.default_rng(0).choice(n, JUDGED, replace=False))
    values = (W.data if sp.issparse(W) else W).astype(np.float64).ravel()
    penalty = lam / 2 * (values @ values) if lam else 0.0
    penalty += gamma / 2 * np.abs(values).sum() if gamma else 0.0
    total = 0.0
    for part, V in score_blocks(X, W, rows):
        total += float(hinges(V, problem.y[rows[part]]).sum())
    return float(penalty + total / len(rows))
