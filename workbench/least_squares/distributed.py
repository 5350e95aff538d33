"""Stagewise regression over the rows of many machines: the same rounds, on a Dask cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from workbench.core.checks import check_counts
from workbench.core.problem import Problem
from workbench.data.generators import Generator
from workbench.least_squares.links import LINKS
from workbench.least_squares.rows import Share
from workbench.least_squares.stagewise import (
    StagewiseState,
    check_kept,
    check_stages,
    scores,
    stages,
    start,
)

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
    kept: float = 2**40,
    state: StagewiseState | None = None,
) -> Iterator[StagewiseState]:
    """Do as :func:`ls_stagewise` on rows that stay where they are; yield the same states.

    What travels are seeds, weights, and one Gram matrix and one gradient a worker, summed in a
    tree. Rows, features and scores stay on the workers, so the states' ``F`` is empty. Sums are
    made in the order of `parts`: the same parts give the same digits.

    What a lost worker held, Dask makes again, but not parts that were :func:`scattered`: there is
    no recipe for them, and the run ends with Dask's error. States are complete: go on from the
    last one, with new parts.

    Parameters
    ----------
    client : of the cluster
    parts : futures of pairs (X, y), float32 rows (m, d) and codes (m,); from :func:`scattered`,
        or better of a function that reads a part on the worker, ``client.submit(read, path)``:
        those are made again when they are lost
    generator : see :func:`workbench.data.generators.fitted`, on a sample of the rows
    k : number of classes
    kept : bytes that the features of a block and a part may take on a worker

    Raises
    ------
    ValueError
        For a parameter out of its range, no parts, codes that are not 0, ..., k - 1, or features
        that are not finite.
    """
    check_stages(alpha, link, passes, inner)
    check_kept(kept)
    s = state or start(generator, 0, k)
    rows = _Rows(client, list(parts), s, link, int(min(kept, 2**62)))
    yield from stages(rows.ask, s, rows.n, alpha, link, passes, inner, False)


def scattered(client: Client, problem: Problem, parts: int) -> list[Future]:
    """Send the training rows to the workers, in that many parts; return their futures.

    There are at most as many parts as rows. Dask cannot make them again: when a worker is lost,
    a run on its parts fails.
    """
    check_counts(parts=parts)
    parts = min(parts, problem.n)
    cuts = [i * problem.n // parts for i in range(parts + 1)]
    return client.scatter(
        [(problem.X[i:j], problem.y[i:j]) for i, j in pairwise(cuts)],
        hash=False,
    )


class _Rows:
    """The parts with their scores, as futures; it answers what `stages` asks.

    Scores are made of those before by one step. The scheduler holds the steps of all rounds, each
    once: Dask needs them for scores that were lost.
    """

    def __init__(self, client, parts: list, s: StagewiseState, link: str, kept: int):
        if not parts:
            raise ValueError("parts: must hold at least one future of a pair (X, y), got none")
        self.client, self.parts = client, parts
        k = s.W.shape[1]
        self.n, outside = self.sum([self.submit(_counted, part, k) for part in parts])
        if not self.n:
            raise ValueError("parts: hold no rows")
        if outside:
            raise ValueError(f"k: {outside} rows have codes that are not of 0, ..., {k - 1}")
        self.settings = self.sent((s.generator, link, kept))
        W = self.sent(s.W.copy())  # what changes with the state would be no recipe
        self.scored = [self.submit(_first_scores, part, self.settings, W) for part in parts]
        self.shares, self.aside = [], []

    def submit(self, function, *arguments):
        return self.client.submit(function, *arguments, pure=False)

    def sent(self, thing):
        """Return the future of a thing that many tasks share.

        A task makes it, so that it is made again with the worker that held it. What is scattered
        is lost with it, also after a broadcast: Dask drops copies that no task waits for.
        """
        return self.submit(_itself, thing)

    def ask(self, name: str, *arguments) -> list:
        return getattr(self, name)(*arguments)

    def loss(self) -> list:
        return [self.sum([self.submit(_item, pair, 1) for pair in self.scored])]

    def open(self, b: int) -> list:
        pairs = zip(self.parts, self.scored, strict=True)
        self.shares = [self.submit(_opened, part, F, self.settings, b) for part, F in pairs]
        return []

    def sums(self, with_gram: bool) -> list:
        return [self.sum([self.submit(_asked, s, "sums", with_gram) for s in self.shares])]

    def residuals(self, V: np.ndarray) -> list:
        V = self.sent(V)
        return [self.sum([self.submit(_asked, s, "residuals", V) for s in self.shares])]

    def advance(self, V: np.ndarray) -> list:
        V = self.sent(V)
        self.aside = [self.submit(_advanced, share, V) for share in self.shares]
        return [self.sum([self.submit(_item, pair, 1) for pair in self.aside])]

    def accept(self) -> list:
        self.scored = self.aside
        self.shares, self.aside = [], []  # their memory is for the next block
        return []

    def sum(self, futures: list):
        while len(futures) > 1:
            groups = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
            futures = [self.submit(_added, *group) for group in groups]
        return futures[0].result()


class _Share(Share):
    def __sizeof__(self) -> int:  # for Dask, which would take it for a small thing to move about
        return self.Z.nbytes + self.aside.nbytes


# Tasks leave alone what they are given: Dask may do them again.


def _counted(part, k: int) -> tuple[int, int]:
    """Return the number of rows, and of those whose code is none of 0, ..., k - 1."""
    y = part[1]
    return len(y), len(y) - int(np.isin(y, np.arange(k)).sum())


def _first_scores(part, settings: tuple, W: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the scores of weights, and the loss there."""
    (X, y), (generator, link, _) = part, settings
    F = scores(generator, X, W) if W.any() else np.zeros((len(y), W.shape[1]), np.float32)
    return F, LINKS[link].residuals(F, y, np.empty_like(F))


def _opened(part, scored: tuple, settings: tuple, b: int) -> Share:
    (X, y), (generator, link, kept) = part, settings
    share = _Share(X, y, scored[0], generator, link, kept, False)
    share.open(b)
    return share


def _asked(share: Share, name: str, *arguments):
    return getattr(share, name)(*arguments)


def _advanced(share: Share, V: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the scores F + ZV, and the loss there."""
    share = copy.copy(share)
    share.aside = np.empty_like(share.F)
    loss = share.advance(V)
    return share.aside, loss


def _itself(thing):
    return thing


def _item(pair: tuple, i: int):
    return pair[i]


def _added(*results):
    if not isinstance(results[0], tuple):
        return sum(results[1:], start=results[0])
    return tuple(
        None if column[0] is None else sum(column[1:], start=column[0])
        for column in zip(*results, strict=True)
    )
