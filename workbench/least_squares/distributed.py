"""Stagewise regression over the rows of many machines: the same rounds, on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from workbench.generators import Generator
from workbench.least_squares.rows import Share
from workbench.least_squares.stagewise import StagewiseState, check_stages, scores, stages, start
from workbench.problem import Problem

if TYPE_CHECKING:
    from distributed import Client, Future

FAN_IN = 4  # summands of one node of a tree of sums


def stagewise_on_dask(
    client: Client,
    parts: Sequence[Future],
    generator: Generator,
    k: int,
    *,
    alpha: float = 1e-5,
    link: str = "softmax",
    passes: int = 3,
    inner: int = 4,
    kept: int = 2**40,
    state: StagewiseState | None = None,
) -> Iterator[StagewiseState]:
    """Do as :func:`ls_stagewise` on rows that stay where they are; yield the same states.

    What travels are seeds, weights, and one Gram matrix and one gradient a worker, summed in a
    tree. Rows, features and scores never leave their worker, so the states' ``F`` is empty. What
    a lost worker held, Dask makes again. Sums are made in the order of `parts`: the same parts
    give the same digits.

    Parameters
    ----------
    client : of the cluster
    parts : futures of pairs (X, y), float32 rows (m, d) and codes (m,); from :func:`scattered`,
        or of a function that reads a part on the worker
    generator : see :func:`workbench.generators.fitted`, on a sample of the rows
    k : number of classes
    kept : bytes that the features of a block and a part may take on a worker

    Raises
    ------
    ValueError
        For a parameter out of its range, or features that are not finite.
    """
    check_stages(alpha, link, passes, inner)
    s = state or start(generator, 0, k)
    rows = _Rows(client, list(parts), s, link, kept)
    yield from stages(rows.ask, s, rows.n, alpha, link, passes, inner, False)


def scattered(client: Client, problem: Problem, parts: int) -> list[Future]:
    """Send the training rows to the workers, in that many parts; return their futures."""
    cuts = [i * problem.n // parts for i in range(parts + 1)]
    return client.scatter(
        [(problem.X[i:j], problem.y[i:j]) for i, j in pairwise(cuts)],
        hash=False,
    )


class _Rows:
    """The parts with their scores, as futures; it answers what `stages` asks."""

    def __init__(self, client, parts: list, s: StagewiseState, link: str, kept: int):
        self.client, self.parts = client, parts
        self.settings = client.scatter([(s.generator, link, kept)], broadcast=True, hash=False)[0]
        self.F = [self.submit(_first_scores, part, s.generator, s.W) for part in parts]
        self.n = self.sum([self.submit(_length, part) for part in parts])
        self.shares = self.opened(0)

    def submit(self, function, *arguments):
        return self.client.submit(function, *arguments, pure=False)

    def ask(self, name: str, *arguments) -> list:
        if name == "open":
            self.shares = self.opened(*arguments)
            return []
        if name != "advance":
            return [self.sum([self.submit(_ask, s, name, *arguments) for s in self.shares])]
        done = [self.submit(_advanced, share, *arguments) for share in self.shares]
        self.F = [self.submit(_item, pair, 0) for pair in done]
        return [self.sum([self.submit(_item, pair, 1) for pair in done])]

    def opened(self, b: int) -> list:
        pairs = zip(self.parts, self.F, strict=True)
        return [self.submit(_opened, part, F, self.settings, b) for part, F in pairs]

    def sum(self, futures: list):
        while len(futures) > 1:
            groups = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
            futures = [self.submit(_added, *group) for group in groups]
        return futures[0].result()


def _length(part) -> int:
    return len(part[1])


def _first_scores(part, generator: Generator, W: np.ndarray) -> np.ndarray:
    if not W.any():
        return np.zeros((len(part[1]), W.shape[1]), np.float32)
    return scores(generator, part[0], W)


def _opened(part, F: np.ndarray, settings: tuple, b: int) -> Share:
    (X, y), (generator, link, kept) = part, settings
    share = Share(X, y, F, generator, link, kept, False)
    share.open(b)
    return share


def _ask(share: Share, name: str, *arguments):
    return getattr(share, name)(*arguments)


def _advanced(share: Share, V: np.ndarray) -> tuple[np.ndarray, float]:
    share.F = share.F.copy()  # the scores before are another future's
    return share.F, share.advance(V)


def _item(pair: tuple, i: int):
    return pair[i]


def _added(*results):
    if not isinstance(results[0], tuple):
        return sum(results[1:], start=results[0])
    return tuple(
        None if column[0] is None else sum(column[1:], start=column[0])
        for column in zip(*results, strict=True)
    )
