"""Linear models of one byte a weight: int8 numbers of steps, and a step for each feature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_sparse, is_whole
from workbench.core.problem import Matrix
from workbench.kernels.compiled import njit
from workbench.memoir.mips.oracle import parts

STEPS = 127  # from zero to the largest weight of a feature
KINDS = {
    "values": (np.int8,),
    "classes": (np.uint16, np.uint32),
    "starts": (np.int32, np.int64),
    "scales": (np.float32,),
}


@dataclass(frozen=True, eq=False)
class Quantized:
    """Weights (d, k) as a CSR matrix of int8, row f of which counts steps of ``scales[f]``.

    All fields are plain arrays: ``np.savez(path, **vars(model))`` saves a model, and
    ``Quantized(**np.load(path))`` is it again.

    Attributes
    ----------
    values : (nonzeros,) int8
    classes : (nonzeros,) uint16, uint32 from 65,536 classes on
    starts : (d + 1,) int32, int64 from 2^31 non-zeros on
    scales : (d,) float32
    k : int, number of classes
    """

    values: np.ndarray
    classes: np.ndarray
    starts: np.ndarray
    scales: np.ndarray
    k: int

    def __post_init__(self):
        """Raise a ValueError unless compiled code can read these arrays: it does not look again."""
        for name, kinds in KINDS.items():
            array = getattr(self, name)
            plain = isinstance(array, np.ndarray) and array.ndim == 1 and array.flags.c_contiguous
            if not plain or array.dtype not in kinds:
                allowed = " or ".join(np.dtype(kind).name for kind in kinds)
                raise ValueError(f"{name}: must be a one-dimensional array of {allowed}")
        k = np.asarray(self.k)
        if k.ndim or not is_whole(k[()], most=2**31 - 1):
            raise ValueError(f"k: must be a number of classes, got {self.k!r}")
        starts, m = self.starts, len(self.values)
        if len(starts) != len(self.scales) + 1 or starts[0] != 0 or starts[-1] != m:
            raise ValueError("starts: must be one more than scales, from 0 to the number of values")
        if (starts[1:] < starts[:-1]).any():
            raise ValueError("starts: must not decrease")
        if len(self.classes) != m or self.classes.max(initial=0) >= k:
            raise ValueError("classes: must be one for each value, with indices from 0 to k - 1")
        if not (np.isfinite(self.scales) & (self.scales >= 0)).all():
            raise ValueError("scales: must be finite and not negative")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and of classes."""
        return len(self.scales), int(self.k)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: 3 a non-zero (5 with very many classes) and 8 a feature."""
        return sum(a.nbytes for a in (self.values, self.classes, self.starts, self.scales))

    def weights(self) -> sp.csr_array:
        """Return the (d, k) weights that these stand for, float32."""
        steps = np.repeat(self.scales, np.diff(self.starts))
        parts = steps * self.values, self.classes.astype(np.int32), self.starts
        return sp.csr_array(parts, shape=(len(self.scales), int(self.k)))

    def scores(self, X: Matrix) -> np.ndarray:
        """Return the (n, k) scores of (n, d) rows, dense or CSR, float32."""
        made = [F for _, F in self.score_blocks(X)]
        return np.concatenate(made) if made else np.empty((0, int(self.k)), np.float32)

    def best(self, X: Matrix) -> np.ndarray:
        """Return the (n,) class of highest score of each row, holding few scores at a time."""
        answers = np.empty(X.shape[0], np.int64)
        for part, F in self.score_blocks(X):
            answers[part] = F.argmax(axis=1)
        return answers

    def score_blocks(self, X: Matrix) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of the rows with their scores."""
        X, d, k = check_sparse(X), len(self.scales), int(self.k)
        if X.shape[1] != d:
            raise ValueError(f"X: must have {d} features, got {X.shape[1]}")
        for part in parts(X.shape[0], max(d, k)):
            Z = sp.csr_array(X[part])
            F = np.zeros((Z.shape[0], k), np.float32)
            _add_scores(
                Z.data, Z.indices, Z.indptr, self.values, self.classes, self.starts, self.scales, F
            )
            yield part, F


def quantized(W: Matrix) -> Quantized:
    """Return (d, k) weights `W`, feature-major as a solver's model, dense or sparse, as int8.

    Each is rounded to the nearest of 255 numbers, from minus to plus the largest of its feature:
    an error of at most half a step, 1/254 of that. What is rounded to zero is dropped.

    Raises
    ------
    ValueError
        For weights that are not finite.
    """
    W = sp.csr_array(W)
    d, k = W.shape
    if not np.isfinite(W.data).all():
        raise ValueError("W: contains NaN or infinite values")
    counts = np.diff(W.indptr)
    largest = np.zeros(d)
    full = np.flatnonzero(counts)
    if len(full):
        largest[full] = np.maximum.reduceat(np.abs(W.data), W.indptr[full])
    scales = (largest / STEPS).astype(np.float32)
    steps = np.repeat(np.where(scales > 0, scales, np.float32(np.inf)), counts)
    values = np.rint(W.data / steps).clip(-STEPS, STEPS).astype(np.int8)
    kept = values != 0
    features = np.repeat(np.arange(d), counts)[kept]
    starts = np.concatenate([[0], np.cumsum(np.bincount(features, minlength=d))])
    starts = starts.astype(np.int32 if starts[-1] < 2**31 else np.int64)
    kind = np.uint16 if k < 2**16 else np.uint32
    return Quantized(values[kept], W.indices[kept].astype(kind), starts, scales, k)


@njit(cache=True)
def _add_scores(data, indices, indptr, values, classes, starts, scales, F):
    """Add the rows of a CSR matrix times the weights to F."""
    for i in range(np.uint64(len(F))):
        out = F[i]
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            f = np.uint64(indices[p])
            x = np.float32(data[p]) * scales[f]
            for q in range(np.uint64(starts[f]), np.uint64(starts[f + np.uint64(1)])):
                out[np.uint64(classes[q])] += x * np.float32(values[q])
