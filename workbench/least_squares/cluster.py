"""Least squares with the rows on the workers of a Dask cluster, each of which holds a share."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from operator import attrgetter

import numpy as np

from workbench.core.problem import Problem, noted
from workbench.core.shares import Shares, cut, total
from workbench.least_squares.products import GRAM_ROWS


def on_cluster(problem: Problem, client) -> Problem:
    """Return the problem with its rows on the workers of a ``distributed.Client``.

    ls_generalized, ls_accelerated and ls_stagewise leave every pass over the rows to the workers;
    all else uses the rows here. The rows are a memory-mapped .npy file, which the workers map
    under the same path. Dask makes again what a lost worker held. A ConnectionError ends a run
    whose scheduler is gone; a copy of its last state goes on with another cluster or none.

    Raises
    ------
    ValueError
        For rows that are not memory-mapped.
    """
    there = replace(problem)  # without a cluster, as any problem that is made from `there`
    noted(there, problem.recipe)
    object.__setattr__(there, "cluster", Cluster(client, problem))
    return there


def cluster_of(problem: Problem) -> Cluster | None:
    """Return the cluster that holds the problem's rows; None if there is none."""
    return getattr(problem, "cluster", None)


def summed(function: Callable, problem: Problem):
    """Return function(problem); on a cluster, the sum over the parts that its workers hold."""
    cluster = cluster_of(problem)
    return cluster.ask(function) if cluster else function(problem)


class Cluster(Shares):
    """Parts of a problem, or what is made of them, one for each thread of a cluster's workers.

    Each is a future of what made it and of the calls that changed it: Dask can make it again.
    """

    def __init__(self, client, problem: Problem):
        self.client = client
        threads = sum(client.nthreads().values()) or 1  # without a worker, wait for the first
        parts = cut(problem.n, GRAM_ROWS, threads)
        files, classes = [_file(problem.X, at) for at in parts], [problem.classes] * len(parts)
        labels, weights = ([a[at] for at in parts] for a in (problem.y, problem.weights))
        super().__init__(self._map(Part, files, labels, classes, weights))

    def hold(self, make: Callable) -> Cluster:
        """Return a cluster of what `make` builds of each part."""
        held = copy(self)
        held.shares = self._map(make, self.shares)
        return held

    def ask(self, function: Callable, *arguments):
        answers = self._map(lambda share: function(share, *arguments), self.shares)
        return total(self._reach(self.client.gather, answers))

    def change(self, function: Callable, *arguments):
        def changed(share):
            share.answer = function(share, *arguments)
            return share

        self.shares = self._map(changed, self.shares)
        return self.ask(attrgetter("answer"))

    def _map(self, function: Callable, *given: list) -> list:
        return self._reach(self.client.map, function, *given, pure=False)

    def _reach(self, request: Callable, *given, **options):
        try:
            if self.client.status == "running":  # a closing client never answers
                return request(*given, **options)
        except FileNotFoundError as error:
            raise ValueError(f"cluster: a worker finds no file {error.filename}") from None
        except Exception:
            if self.client.status == "running":
                raise
        raise ConnectionError("cluster: its scheduler does not answer any more")


class Part(Problem):
    """Some rows of a mapped file, of which pickle keeps ``numpy.memmap``'s arguments, `file`."""

    def __init__(self, file: tuple, y: np.ndarray, classes: np.ndarray, weights: np.ndarray):
        super().__init__(np.asarray(np.memmap(*file)), y, classes, weights=weights)
        object.__setattr__(self, "file", file)

    def __reduce__(self) -> tuple:
        return Part, (self.file, self.y, self.classes, self.weights)


def _file(X: np.ndarray, at: slice) -> tuple:
    file = X if isinstance(X, np.memmap) else getattr(X, "base", None)
    if not isinstance(file, np.memmap) or file.shape != X.shape or file.dtype != X.dtype:
        raise ValueError(
            "problem: must have the rows of a memory-mapped .npy file, float32 or float64 in C "
            "order, for the workers of a cluster to map"
        )
    offset = file.offset + at.start * X.strides[0]
    return file.filename, X.dtype, "r", offset, (at.stop - at.start, X.shape[1])
