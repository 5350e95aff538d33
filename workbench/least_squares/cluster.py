"""Generalized least squares with the rows on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from weakref import WeakKeyDictionary

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Array, Problem, noted
from workbench.least_squares.products import GRAM_ROWS

# The clusters of problems whose rows are on workers. A problem that is derived from
# such a problem has no cluster.
CLUSTERS: WeakKeyDictionary[Problem, Cluster] = WeakKeyDictionary()


def on_cluster(problem: Problem, client) -> Problem:
    """Return the problem with its rows on the workers of a ``distributed.Client``.

    In ls_generalized and ls_accelerated the workers make every pass over the rows;
    other solvers use the rows in this process. The rows are a memory-mapped .npy file,
    which the workers map under the same path. If a worker is lost, Dask rebuilds its
    parts. If the scheduler is lost, a ConnectionError ends the run; a copy of its last
    state can be resumed with or without another cluster.

    Raises
    ------
    ValueError
        If the rows are not memory-mapped.
    """
    distributed = replace(problem)
    noted(distributed, problem.recipe)
    CLUSTERS[distributed] = Cluster(client, problem)
    return distributed


def summed(function: Callable, problem: Problem):
    """Return function(problem); on a cluster, the sum over its parts."""
    cluster = CLUSTERS.get(problem)
    return cluster.ask(function) if cluster else function(problem)


class Cluster:
    """Parts of a problem as futures, at most one per thread of a cluster's workers."""

    def __init__(self, client, problem: Problem):
        self.client = client
        # Without any worker, a single part waits for the first one.
        threads = sum(client.nthreads().values()) or 1
        size = -(-problem.n // (GRAM_ROWS * threads)) * GRAM_ROWS
        parts = list(pieces(problem.n, size))
        files = [_file(problem.X, rows) for rows in parts]
        labels = [problem.y[rows] for rows in parts]
        weights = [problem.weights[rows] for rows in parts]
        self.parts = self._reach(client.map, Part, files, labels, weights, pure=False)

    def ask(self, function: Callable):
        """Return the sum of function(part) over the parts; tuples add by entry."""
        futures = self._reach(self.client.map, function, self.parts, pure=False)
        return reduce(_add, self._reach(self.client.gather, futures))

    def _reach(self, request: Callable, *arguments, **options):
        try:
            if self.client.status == "running":  # a closing client never answers
                return request(*arguments, **options)
        except FileNotFoundError as error:
            message = f"cluster: a worker cannot find the file {error.filename}"
            raise ValueError(message) from None
        except Exception:
            if self.client.status == "running":
                raise
        raise ConnectionError("cluster: its scheduler no longer answers")


@dataclass(frozen=True)
class Part:
    """Some rows that ``numpy.memmap(*file)`` maps, with labels and weights."""

    file: tuple
    y: Array
    weights: Array

    @property
    def X(self) -> Array:
        """The rows. Pickle saves only the arguments, and each process maps the file."""
        return np.asarray(np.memmap(*self.file))


def _add(a, b):
    return tuple(map(_add, a, b)) if isinstance(a, tuple) else a + b


def _file(X: Array, rows: slice) -> tuple:
    """Return the arguments of ``numpy.memmap`` for some rows."""
    file = X if isinstance(X, np.memmap) else getattr(X, "base", None)
    mapped = isinstance(file, np.memmap)
    if not mapped or file.shape != X.shape or file.dtype != X.dtype:
        raise ValueError(
            "problem: must have the rows of a memory-mapped .npy file, float32 or "
            "float64 in C order, for the workers of a cluster to map"
        )
    offset = file.offset + rows.start * X.strides[0]
    shape = rows.stop - rows.start, X.shape[1]
    return file.filename, X.dtype, "r", offset, shape
