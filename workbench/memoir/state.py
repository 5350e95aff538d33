"""The state of MEMOIR's fast form after a round, and how it predicts."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import psutil
import scipy.sparse as sp

from workbench.core.checks import check_whole
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row
from workbench.memoir.blocks import PATCH, InBlocks, dense, empty, matrix_of, roomier
from workbench.memoir.mips import scores
from workbench.memoir.steps import NUMBERS, SCALE, SQUARE, STEP

BUDGET = 2**28  # bytes up to which weights are dense by default


@dataclass
class MemoirState(InBlocks):
    """Weights after a round, lazily scaled, and what was seen on the way.

    W is ``scale`` U, where U (d, k) is in blocks. With ``average`` the model is
    (``mass`` U - S) / ``step`` with the S of ``sums`` (see `steps.py`), with ``cosine`` its columns
    have unit length, with ``bias`` its last row belongs to a constant feature. ``numbers`` are
    scale, |U|^2, mass, the sum of all steps, violated margins and steps so far.
    ``primal`` is the objective of W or of the average, on all rows or on a sample of them, with
    this ``weight`` of its penalty; ``updates`` is the share of the round's rows that violated their
    margin; ``recall``, ``epsilon`` and both times are those of the search, see
    :func:`workbench.memoir.mips.inexactness`.
    """

    round: int
    # The method: weights, the pass over the rows, the classes changed so far.
    numbers: np.ndarray
    rng: np.random.Generator
    seed: int  # began `rng`; hyperplanes, which must outlive a pause, follow from it alone
    order: np.ndarray
    position: int
    met: np.ndarray
    # How it predicts.
    average: bool
    bias: bool
    cosine: bool
    # What the rows of a trace say.
    weight: float
    primal: float
    updates: float
    recall: float
    epsilon: float
    build_seconds: float
    query_seconds: float

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.numbers[STEP])

    def model(self) -> sp.csr_array | np.ndarray:
        """Return the (d, k) weights that are judged: W, or the average of all iterates."""
        U, S, (scale, _, mass, *_) = self.values, self.sums, self.numbers
        if self.average and self.step:
            values = (mass * U - S.astype(float)) / self.step
        else:
            values = np.float32(scale) * U
        values = values.astype(np.float32, copy=False)
        return matrix_of(self.blocks()._replace(values=values), self.k)

    def predictor(self) -> sp.csr_array | np.ndarray:
        """Return the weights that predict: the model, its columns of unit length for a cosine."""
        return unit_columns(self.model()) if self.cosine else self.model()

    def scores(self, X) -> np.ndarray:
        return scores(with_constant(X) if self.bias else X, self.predictor())

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


def start(problem: Problem, p: SimpleNamespace) -> MemoirState:
    """Return round 0: weights of zero, dense if asked for or, by default, if they are small.

    `p` has the parameters of :func:`workbench.memoir.solvers.memoir_l2` and `gamma`.

    Raises
    ------
    ValueError
        If dense weights are asked for and do not fit into memory.
    """
    d, k = problem.d + p.bias, problem.k
    need, free = 4 * d * k * (1 + p.average), psutil.virtual_memory().available
    is_dense = need <= BUDGET if p.dense is None else p.dense
    if is_dense and need > free:
        raise ValueError(
            f"dense: weights of {d} features and {k} classes take {need / 2**30:.2g} GB, "
            f"{free / 2**30:.2g} GB of memory are free; False keeps them sparse"
        )
    # A warm-up on few rows has dense weights by default, and compiles this too.
    blocks = roomier(empty(d, k, sums=p.average), k, 1 if is_dense else PATCH)
    if is_dense:
        blocks = dense(np.zeros((d, k), np.float32), sums=p.average)
    return MemoirState(
        k=k,
        **blocks._asdict(),
        round=0,
        numbers=np.array(NUMBERS),
        rng=np.random.default_rng(check_whole(p.seed, "seed", least=0)),
        seed=p.seed,
        order=np.zeros(0, np.int64),
        position=0,
        met=np.zeros(k, bool),
        average=p.average,
        bias=p.bias,
        cosine=p.predict_metric == "cosine",
        weight=p.lam + p.gamma,  # one of the two is 0
        primal=1.0,
        updates=0.0,
        recall=1.0,
        epsilon=0.0,
        build_seconds=0.0,
        query_seconds=0.0,
    )


def with_constant(X: Matrix) -> Matrix:
    """Return the rows with a last feature that is 1."""
    ones = np.ones((X.shape[0], 1), X.dtype)
    if sp.issparse(X):
        return sp.csr_matrix(sp.hstack([X, sp.csr_matrix(ones)], format="csr"))
    return np.hstack([np.asarray(X), ones])


def unit_columns(W: sp.csr_array | np.ndarray) -> sp.csr_array | np.ndarray:
    """Return the matrix with columns of unit length, columns of zeros unchanged."""
    if sp.issparse(W):
        norms = np.sqrt(np.bincount(W.indices, W.data.astype(float) ** 2, W.shape[1]))
        data = W.data / np.where(norms > 0, norms, 1.0)[W.indices]
        return sp.csr_array((data.astype(np.float32), W.indices, W.indptr), shape=W.shape)
    norms = np.sqrt((W.astype(float) ** 2).sum(axis=0))
    return (W / np.where(norms > 0, norms, 1.0)).astype(np.float32)
