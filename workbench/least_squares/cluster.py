"""Generalized least squares with the rows on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from weakref import WeakKeyDictionary

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Problem, noted
from workbench.least_squares.products import GRAM_ROWS

# The clusters of problems whose rows are elsewhere. What is made from such a problem
# has none.
CLUSTERS: WeakKeyDictionary[Problem, Cluster] = WeakKeyDictionary()


def on_cluster(problem: Problem, client) -> Problem:
    """Return the problem with its rows on the workers of a ``distributed.Client``.

    ls_generalized and ls_accelerated leave every pass over the rows to the workers;
    other solvers use the rows here. The rows are a memory-mapped .npy file, which the
    workers map under the same path. Dask rebuilds the parts of a lost worker. A
    ConnectionError ends a run whose scheduler is gone; a copy of its last state can
    resume with another cluster or none.

    Raises
    ------
    ValueError
        For rows that are not memory-mapped.
    """
    there = replace(problem)
    noted(there, problem.recipe)
    CLUSTERS[there] = Cluster(client, problem)
    return there


def summed(function: Callable, problem: Problem):
    """Return function(problem); on a cluster, the sum over the parts that its workers
    hold."""
    cluster = CLUSTERS.get(problem)
    return cluster.ask(function) if cluster else function(problem)


class Cluster:
    """Parts of a problem as futures, one for each thread of a cluster's workers."""

    def __init__(self, client, problem: Problem):
        self.client = client
        threads = (
            sum(client.nthreads().values()) or 1
        )  # without a worker, wait for the first
        size = -(-problem.n // (GRAM_ROWS * threads)) * GRAM_ROWS
        parts = list(pieces(problem.n, size))
        files = [_file(problem.X, at) for at in parts]
        labels, weights = (
            [a[at] for at in parts] for a in (problem.y, problem.weights)
        )
        self.parts = self._reach(client.map, Part, files, labels, weights, pure=False)

    def ask(self, function: Callable):
        """Return the sum of function(part) over the parts; tuples are summed entry by
        entry."""
        futures = self._reach(self.client.map, function, self.parts, pure=False)
        return reduce(_add, self._reach(self.client.gather, futures))

    def _reach(self, request: Callable, *given, **options):
        try:
            if self.client.status == "running":  # a closing client never answers
                return request(*given, **options)
        except FileNotFoundError as error:
            raise ValueError(
                f"cluster: a worker finds no file {error.filename}"
            ) from None
        except Exception:
            if self.client.status == "running":
                raise
        raise ConnectionError("cluster: its scheduler no longer answers")


@dataclass(frozen=True)
class Part:
    """Some rows of a file, which ``numpy.memmap(*file)`` maps, their labels and
    weights."""

    file: tuple
    y: np.ndarray
    weights: np.ndarray

    @property
    def X(self) -> np.ndarray:
        """The rows: pickle takes the arguments along, and each process maps its own."""
        return np.asarray(np.memmap(*self.file))


def _add(a, b):
    return tuple(map(_add, a, b)) if isinstance(a, tuple) else a + b


def _file(X: np.ndarray, at: slice) -> tuple:
    file = X if isinstance(X, np.memmap) else getattr(X, "base", None)
    if (
        not isinstance(file, np.memmap)
        or file.shape != X.shape
        or file.dtype != X.dtype
    ):
        raise ValueError(
            "problem: must have the rows of a memory-mapped .npy file, float32 or "
            "float64 in C order, for the workers of a cluster to map"
        )
    offset = file.offset + at.start * X.strides[0]
    return file.filename, X.dtype, "r", offset, (at.stop - at.start, X.shape[1])
