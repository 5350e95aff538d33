"""The state of MEMOIR's solvers: weights that are scaled lazily, dense or sparse."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import (
    LARGEST,
    check_counts,
    check_flags,
    check_memory,
    seeded,
)
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import State
from workbench.core.stream import Row, off_the_clock
from workbench.memoir.blocks import PATCH, InBlocks, compacted, dense, empty, matrix_of
from workbench.memoir.mips import Oracle, inexactness, scores
from workbench.memoir.pegasos import mean_hinge
from workbench.memoir.steps import (
    NO_ANSWERS,
    NUMBERS,
    SCALE,
    SQUARE,
    Batch,
    fold,
    none_taken,
    project,
    scratch_of,
    square_of,
    truncate,
    visit,
)

DENSE_BYTES = 2**28  # weights up to this size are dense by default
MIN_SCALE = 1e-3  # a scale of W below this is multiplied into the weights
# Truncated weights move to smaller blocks if their fraction of nonzeros is smaller.
LOADED = 0.2
SAMPLED = 200  # number of rows on which a search is compared with the exact one
OBJECTIVE_ROWS = 5_000  # the largest number of rows used for the objective


@dataclass
class MemoirState(InBlocks, State):
    """The weights W = scale U after a round, with U (d, k) in blocks.

    An averaged state predicts by the mean of all iterates, U - S / step with S in
    ``sums`` (see `averaged.py`). ``primal`` is the objective, on all rows or a sample,
    of the weights that predict; the columns ``norm`` and ``nonzeros`` of a row are of
    the last iterate. ``weight`` is the weight of the penalty, and ``updates`` the
    fraction of the round's rows that violated their margin. ``recall`` and ``epsilon``
    come from :func:`workbench.memoir.mips.inexactness`.
    """

    round: int
    # Fields of the method: the number of steps so far, the numbers of W (see steps.py),
    # and the generator that draws rows.
    step: int
    numbers: Array
    rng: np.random.Generator
    # The seed of `rng` and of a hash's hyperplanes, which a resumed run makes again.
    seed: int
    weight: float
    moved: int = 0  # number of rows of this round that violated their margin
    # Fields that a trace records.
    primal: float = 1.0
    updates: float = 0.0
    recall: float = 1.0
    epsilon: float = 0.0
    build_seconds: float = 0.0
    query_seconds: float = 0.0

    def model(self) -> sp.csr_array | Array:
        """Return the (d, k) weights that predict: W, or the average of all iterates."""
        if len(self.sums) and self.step:
            values = self.values - self.sums.astype(float) / self.step
        else:
            values = np.float32(self.numbers[SCALE]) * self.values
        return matrix_of(self.blocks()._replace(values=values.astype(np.float32)))

    def scores(self, X: Matrix) -> Array:
        return scores(X, self.model())

    def info(self) -> Row:
        return {
            "primal": self.primal,
            "updates": self.updates,
            "norm": float(self.numbers[SCALE] * np.sqrt(self.numbers[SQUARE])),
            "nonzeros": int(np.count_nonzero(self.values)),
            "steps": self.step,
            "recall": self.recall,
            "epsilon": self.epsilon,
            "build_seconds": self.build_seconds,
            "query_seconds": self.query_seconds,
        }

    def search(
        self, oracle: Oracle | None, problem: Problem, j, measured: bool
    ) -> Array:
        """Return the class that a search of the current W finds for each of these rows.

        Without an oracle the result is empty, and :func:`visit` finds the best classes.
        """
        if oracle is None:
            return NO_ANSWERS
        U = matrix_of(self.blocks())
        oracle.update(U)
        answers = oracle.query(problem.X, j, problem.y[j])
        self.build_seconds = oracle.build_seconds
        self.query_seconds = oracle.query_seconds
        if measured:
            with off_the_clock():
                sample = j[:SAMPLED]
                y = problem.y[sample]
                quality = inexactness(oracle, U, problem.X, sample, y)
                self.recall = quality["recall"]
                self.epsilon = float(self.numbers[SCALE] * quality["epsilon_mean"])
        return answers

    def visit(self, batch: Batch) -> Array:
        """Change W by the steps of a batch; return the wrong classes of its rows."""
        m = len(batch.j)
        taken = none_taken(m)
        self.run(visit, m, batch, self.numbers, taken, scratch_of(self.blocks()))
        self.moved += int(np.count_nonzero(taken.steps))
        return taken.classes

    def project(self, lam: float) -> None:
        """Shorten W to the ball |W| <= 1 / sqrt(lam)."""
        project(self.numbers, lam)
        if self.numbers[SCALE] < MIN_SCALE:
            fold(self.blocks(), self.numbers)

    def truncate(self, R: Array, threshold: float) -> None:
        """Move the weights of the classes R towards zero by a threshold, as in (13)."""
        thresholds = np.zeros(self.k, np.float32)
        thresholds[R] = threshold
        truncate(self.blocks(), thresholds)
        if len(self.classes) and np.count_nonzero(self.values) < LOADED * self.end[0]:
            self.hold(compacted(self.blocks(), PATCH))

    def end_round(self, problem: Problem, rows: int, penalty: str) -> None:
        """End a round that visited `rows` rows, and evaluate the objective."""
        self.round += 1
        self.updates = self.moved / rows
        self.moved = 0
        self.numbers[SQUARE] = square_of(self.blocks())
        self.primal = objective(problem, self.model(), self.weight, penalty)


def start(
    problem: Problem, weight: float, dense_weights: bool | None, seed: int, sums=False
):
    """Return round 0, with weights of zero; by default small weights are dense.

    Raises
    ------
    ValueError
        If rows have weights, `dense_weights` or `seed` is not accepted, dense weights
        do not fit into memory, or rows are too large for weights of single precision.
    """
    problem.refuse_weights()
    largest = max(problem.X.max(), -problem.X.min())  # np.abs would copy the rows
    if not largest <= LARGEST["f"]:
        raise ValueError(
            f"problem: contains values beyond {LARGEST['f']:g}, too large for weights "
            "of single precision; scale the features"
        )
    d = problem.d
    k = problem.k
    numbers = np.array(NUMBERS)
    fold(empty(1, k, sums=sums), numbers)  # compile it, as a warm-up does not
    need = 8 * d * k if sums else 4 * d * k
    if dense_weights is None:
        dense_weights = need <= DENSE_BYTES
    check_flags(dense=dense_weights)
    if dense_weights:
        check_memory(f"dense weights of {d} features and {k} classes, which", need)
        blocks = dense(np.zeros((d, k), np.float32), sums=sums)
    else:
        blocks = empty(d, k, sums=sums, slots=PATCH)
    rng = seeded(seed)
    return MemoirState(
        **blocks._asdict(),
        round=0,
        step=0,
        numbers=numbers,
        rng=rng,
        seed=seed,
        weight=weight,
    )


def default_batch(problem: Problem, size: int | None = None) -> int:
    """Return `size`; if it is None, the paper's 100 sqrt(C), but at most n."""
    if size is None:
        return min(problem.n, round(100 * sqrt(problem.k)))
    check_counts(batch_size=size)
    return size


def objective(problem: Problem, W, weight: float, penalty: str) -> float:
    """Return weight/2 |W|^2, or weight/2 |W|_1, plus the mean hinge loss of rows."""
    rows = np.arange(problem.n)
    if problem.n > OBJECTIVE_ROWS:
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(problem.n, OBJECTIVE_ROWS, replace=False))
    loss = mean_hinge(problem.X, problem.y, W, rows)
    if not weight:
        return loss
    values = W.data if sp.issparse(W) else W.ravel()
    values = values.astype(np.float64)
    size = values @ values if penalty == "l2" else np.abs(values).sum()
    return float(weight / 2 * size + loss)
