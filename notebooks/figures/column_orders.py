"""Stagewise regression on the columns of the data in a given order, for `ls_text`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.core.problem import Problem
from workbench.least_squares.block_visits import BlockVisits
from workbench.least_squares.generators import Generator
from workbench.least_squares.stagewise import StagewiseState, stages, start


def column_order(problem: Problem, name: str, place: int) -> np.ndarray:
    """Return the order of the columns with this name, or the random one of a place."""
    d = problem.d
    if name == "natural order":
        return np.arange(d)
    frequent = np.argsort(-(problem.X != 0).sum(axis=0).A1, kind="stable")
    if name == "most frequent first":
        return frequent
    if name == "least frequent first":
        return frequent[::-1]
    rng = np.random.default_rng(0)
    return [rng.permutation(d) for _ in range(place + 1)][-1]


def in_order(
    problem: Problem, *, order: np.ndarray, alpha: float, block: int, passes: int
) -> Iterator[StagewiseState]:
    """Yield the package's stagewise regression on columns, visited in an order."""
    d = problem.d
    generator = Generator("columns", d, d, min(block, d), 0, 1.0, order[order < d])
    s = start(generator, problem)
    yield from stages(BlockVisits(problem, s, alpha, "identity"), passes, 1)
