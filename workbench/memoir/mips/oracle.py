"""The interface of all searches for the best wrong class, and chance."""

from __future__ import annotations

from time import process_time

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix

BLOCK_BYTES = 2**24  # bytes of scores or of dense rows that are held at once


class Oracle:
    """A search for the class r other than y whose weights have the largest x.w_r.

    A subclass defines ``_build(W)``, and ``_find(X, rows, y)`` of arguments that have been checked.

    Attributes
    ----------
    k, d : int, numbers of classes and of features
    rng : np.random.Generator, made of `seed`, or that generator itself
    build_seconds, query_seconds : float, CPU seconds of the last update and of the last query
    """

    def __init__(self, k: int, d: int, seed=0):
        self.k, self.d, self.rng = int(k), int(d), np.random.default_rng(seed)
        self.build_seconds = self.query_seconds = 0.0

    def update(self, W: Matrix) -> None:
        """Take the (d, k) weights `W`, one column per class, as what later queries search.

        W is CSR or dense, of floats; otherwise a ValueError is raised. It must not change before
        the next update.
        """
        tic = process_time()
        form = getattr(W, "format", "dense")
        if W.shape != (self.d, self.k) or form not in ("csr", "dense") or W.dtype.kind != "f":
            raise ValueError(
                f"W: must be a CSR or dense matrix of floats, {self.d} features by {self.k} "
                f"classes, got {form} {W.dtype} {W.shape}"
            )
        self._build(W)
        self.build_seconds = process_time() - tic

    def query(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the int32 classes found for these rows of (n, d) `X` with labels `y`.

        An answer is never the row's label. Classes without weights are candidates, of score 0. A
        ValueError is raised if the arguments do not fit.
        """
        tic = process_time()
        if X.shape[1] != self.d or (sp.issparse(X) and X.format != "csr"):
            raise ValueError(f"X: must be dense or CSR with {self.d} features")
        rows, y = np.asarray(rows, dtype=np.int64), np.asarray(y, dtype=np.int32)
        if rows.ndim != 1 or rows.shape != y.shape:
            raise ValueError(f"y: must be a label for each row, got {y.shape} for {rows.shape}")
        if len(y) and not (y.min() >= 0 and y.max() < self.k):
            raise ValueError(f"y: must be from 0 to {self.k - 1}")
        answers = self._find(X, rows, y)
        self.query_seconds = process_time() - tic
        return answers

    def others(self, y: np.ndarray) -> np.ndarray:
        """Return a uniformly random class other than its label for each row, int32."""
        r = self.rng.integers(self.k - 1, size=len(y), dtype=np.int32)
        return r + (r >= y)


class Random(Oracle):
    """A class other than y, uniformly at random, whatever the weights."""

    def _build(self, W: Matrix) -> None:
        pass

    def _find(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.others(y)


def parts(count: int, floats: int) -> list[slice]:
    """Return slices of range(count), each of as many items of `floats` float32 as fit a block."""
    size = max(1, BLOCK_BYTES // (4 * max(1, floats)))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
