"""What MEMOIR's methods hold after a round, and how it predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import psutil
import scipy.sparse as sp

from workbench.core.checks import check_whole, rebuilt
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row
from workbench.memoir.blocks import empty
from workbench.memoir.mips import scores
from workbench.memoir.weights import Weights, zeros

BUDGET = 2**28  # bytes up to which weights are dense


@dataclass
class MemoirState:
    """Weights after a round, lazily scaled, and what was seen on the way.

    W is ``scale`` U. U (d, C) is ``dense``, or listed: ``starts``, ``classes`` and ``values`` are
    its CSR arrays. With ``average`` the model is (``mass`` U - S) / ``step`` with the S of
    ``dense_sums`` or ``sums`` (see `steps.py`), with ``cosine`` its columns have unit length, with
    ``bias`` its last row belongs to a constant feature. ``square`` is |U|^2. ``order`` and
    ``position`` are those of the pass over the rows, ``met`` flags the classes changed so far.
    ``seed`` began ``rng``; hyperplanes, which must outlive a pause, follow from it alone.
    ``primal`` is the objective of W or of the average, on all rows or on a sample of them, with
    this ``weight`` of its penalty; ``updates`` is the share of the round's rows that violated their
    margin; ``recall``, ``epsilon`` and both times are those of the search, see
    :func:`workbench.memoir.mips.inexactness`.
    """

    round: int
    step: int
    seed: int
    rng: np.random.Generator
    dense: np.ndarray
    dense_sums: np.ndarray
    starts: np.ndarray
    classes: np.ndarray
    values: np.ndarray
    sums: np.ndarray
    scale: float
    square: float
    mass: float
    order: np.ndarray
    position: int
    met: np.ndarray
    average: bool
    bias: bool
    cosine: bool
    updates: float
    weight: float
    primal: float
    recall: float
    epsilon: float
    build_seconds: float
    query_seconds: float

    def weights(self) -> Weights:
        """Return U and S."""
        # A step may scale what is listed, in place.
        listed = self.starts, self.classes, self.values.copy(), self.sums.copy()
        sums = self.average and not len(self.dense)
        changes = empty(max(len(self.starts) - 1, 0), self.dense.shape[1], sums=sums)
        return Weights(self.dense, self.dense_sums, *listed, changes)

    def model(self) -> sp.csr_array | np.ndarray:
        """Return the (d, C) weights that are judged: W, or the average of all iterates."""
        w = self.weights()
        U, S = (w.dense, w.dense_sums) if len(w.dense) else (w.values, w.sums)
        if self.average and self.step:
            W = w.matrix(((self.mass * U - S.astype(float)) / self.step).astype(np.float32))
        else:
            W = w.matrix((self.scale * U).astype(np.float32))
        return rebuilt(W) if sp.issparse(W) else W

    def predictor(self) -> sp.csr_array | np.ndarray:
        """Return the weights that predict: the model, its columns of unit length for a cosine."""
        return unit_columns(self.model()) if self.cosine else self.model()

    def scores(self, X) -> np.ndarray:
        return scores(with_constant(X) if self.bias else X, self.predictor())

    def info(self) -> Row:
        return {
            "primal": self.primal,
            "updates": self.updates,
            "norm": self.scale * float(np.sqrt(self.square)),
            "nonzeros": int(np.count_nonzero(self.dense) + np.count_nonzero(self.values)),
            "steps": self.step,
            "recall": self.recall,
            "epsilon": self.epsilon,
            "build_seconds": self.build_seconds,
            "query_seconds": self.query_seconds,
        }


def start(
    problem: Problem, *, seed: int, average: bool, bias: bool, cosine: bool, dense: bool | None
) -> MemoirState:
    """Return round 0: weights of zero, dense if asked for or, by default, if they are small.

    Raises
    ------
    ValueError
        If dense weights are asked for and do not fit into memory.
    """
    d, k = problem.d + bias, problem.k
    need, free = 4 * d * k * (1 + average), psutil.virtual_memory().available
    dense = need <= BUDGET if dense is None else dense
    if dense and need > free:
        raise ValueError(
            f"dense: weights of {d} features and {k} classes take {need / 2**30:.2g} GB, "
            f"{free / 2**30:.2g} GB of memory are free; False keeps them as a list"
        )
    w = zeros(d, k, dense=dense, average=average)
    return MemoirState(
        round=0,
        step=0,
        seed=seed,
        rng=np.random.default_rng(check_whole(seed, "seed", least=0)),
        **{name: getattr(w, name) for name in Weights._fields if name != "changes"},
        scale=1.0,
        square=0.0,
        mass=0.0,
        order=np.zeros(0, np.int64),
        position=0,
        met=np.zeros(k, bool),
        average=average,
        bias=bias,
        cosine=cosine,
        updates=0.0,
        weight=np.nan,  # of no objective yet
        primal=1.0,
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
    """Return the matrix with columns of unit length, those of zeros as they are."""
    if sp.issparse(W):
        norms = np.sqrt(np.bincount(W.indices, W.data.astype(float) ** 2, W.shape[1]))
        norms = np.where(norms > 0, norms, 1.0)
        data = (W.data / norms[W.indices]).astype(np.float32)
        return sp.csr_array((data, W.indices, W.indptr), shape=W.shape)
    norms = np.sqrt((W.astype(float) ** 2).sum(axis=0))
    return (W / np.where(norms > 0, norms, 1.0)).astype(np.float32)
