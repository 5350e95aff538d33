"""Rows in a file that the workers of a Dask cluster read, each its share."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter, methodcaller

from workbench.core.problem import Problem
from workbench.core.rows_in_file import RowsInFile, in_blocks, rows_per_block
from workbench.core.shares import Shares, cut


def on_cluster(problem: Problem, client) -> Problem:
    """Return the problem with its rows read by the workers of a ``distributed.Client``.

    All must find the file under its path. ls_generalized, ls_accelerated, ls_stagewise and
    cuts_nystroem leave every pass to them, mrc_splitting, mrc_ccg and mrc_subgradient those over
    all rows; all else reads the rows here. What a lost worker held, Dask makes again on another. A
    ConnectionError ends a run whose scheduler is gone; its last state goes on with another cluster
    or none.

    Raises
    ------
    ValueError
        For rows in memory.
    """
    if not isinstance(problem.X, RowsInFile):
        raise ValueError("problem: its rows must stay in a file, from which a cluster reads them")
    X = copy(problem.X)
    X.cluster = Cluster(client, problem)
    return replace(problem, X=X)


@contextmanager
def connected(address: str) -> Iterator:
    """Yield a ``distributed.Client`` of the scheduler at an address such as tcp://node1:8786.

    Raises
    ------
    ValueError
        Without the extra `cluster`, a scheduler there, or a worker.
    """
    try:
        from distributed import Client, comm
    except ImportError:
        raise ValueError("cluster: needs the extra: pip install 'workbench-mc[cluster]'") from None
    try:
        # Asked first, because a client that finds no scheduler complains at length.
        socket.create_connection(comm.get_address_host_port(address), timeout=10).close()
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"cluster: no scheduler answers at {address!r}: {error}") from None
    with client:
        if not client.nthreads():
            raise ValueError(f"cluster: the scheduler at {address!r} has no workers")
        yield client


def summed(function: Callable, problem: Problem):
    """Return function(problem), on a cluster the sum over the parts that its workers hold."""
    cluster = getattr(problem.X, "cluster", None)
    return cluster.ask(function) if cluster else function(problem)


class Cluster(Shares):
    """Parts of a problem, or what is made of them, one for each thread of a cluster's workers.

    Each is a future of what made it and of the calls that changed it: Dask can make it again.
    """

    def __init__(self, client, p: Problem):
        self.client, self.changing = client, frozenset()
        self.threads = sum(client.nthreads().values()) or 1  # of the first to come
        at = cut(p.n, 4096, self.threads)  # pieces of least squares begin there, too
        parts = [Problem(p.X.part(i), p.y[i], p.classes, weights=p.weights[i]) for i in at]
        super().__init__(self._map(deepcopy, parts))

    def hold(self, make: Callable, changing: Set[str]) -> Cluster:
        """Return a cluster of what `make` builds of each part; its methods `changing` change it."""
        held = copy(self)
        held.shares, held.changing = self._map(make, self.shares), changing
        return held

    def in_blocks(self, function: Callable, X: RowsInFile, by_row: tuple) -> Iterator:
        """Yield what :func:`~workbench.core.rows_in_file.in_blocks` does, worked out elsewhere."""
        at = cut(len(X), rows_per_block(X), self.threads)
        given = [X.part(rows) for rows in at], *([a[rows] for rows in at] for a in by_row)
        found = self._map(lambda *part: [*in_blocks(function, *part)], *given)
        return chain(*self._reach(self.client.gather, found))

    def _each(self, call: str | Callable, *arguments) -> list:
        method = methodcaller(call, *arguments) if isinstance(call, str) else call
        if call in self.changing:
            self.shares = self._map(partial(_changed, method), self.shares)
            method = attrgetter("answer")
        return self._reach(self.client.gather, self._map(method, self.shares))

    def _map(self, function: Callable, *given: list) -> list:
        return self._reach(self.client.map, function, *given, pure=False)

    def _reach(self, request: Callable, *given, **options):
        try:
            if self.client.status == "running":  # what is asked of a closing one is never answered
                return request(*given, **options)
        except FileNotFoundError as error:
            raise ValueError(f"cluster: a worker finds no file {error.filename}") from None
        except Exception:
            if self.client.status == "running":
                raise
        raise ConnectionError("cluster: its scheduler does not answer any more")


def _changed(method: Callable, share):
    share.answer = method(share)
    return share
