"""The kernel Weston-Watkins SVM: the same blocks, with K_ii for |x_i|^2 and F = K A for X W."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from workbench.problem import Problem
from workbench.stream import Row


@dataclass
class KernelState:
    """Skeleton: has round, rng, classes, B, F, bounds; scores(X) and info() as WWState."""

    round: int
    rng: np.random.Generator

    def scores(self, X) -> np.ndarray:
        raise NotImplementedError

    def info(self) -> Row:
        raise NotImplementedError


def ww_kernel(
    problem: Problem,
    *,
    C: float = 1.0,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    cache_mb: float = 512.0,
    seed: int = 0,
    state: KernelState | None = None,
) -> Iterator[KernelState]:
    """Being written: the signature, and ``primal``, ``dual``, ``gap_ratio`` in the rows, stand.

    Parameters
    ----------
    C : positive, the weight of each pair of a row and a wrong class; divided by nothing
    kernel : "linear", "poly", "rbf", or a function k(X, Z) -> (len(X), len(Z)) array
    gamma : positive; None for 1 / (d times the variance of all entries of X)
    degree, coef0 : of "poly", (gamma x'z + coef0)^degree
    cache_mb : of kernel rows kept
    seed : of the random order
    """
    raise NotImplementedError
