"""A random wrong class: what any search must beat."""

from __future__ import annotations

import numpy as np

from workbench.core.problem import Matrix
from workbench.memoir.mips.protocol import (
    check_query,
    check_sizes,
    check_weights,
    draw_others,
    timed,
)


class Random:
    """Answers a class other than y, uniformly at random, whatever the weights."""

    def __init__(self, k: int, d: int, seed=0):
        self.k, self.d = check_sizes(k, d)
        self.rng = np.random.default_rng(seed)
        self.built = False
        self.build_seconds = self.query_seconds = 0.0

    @timed("build_seconds")
    def update(self, W: Matrix, touched: np.ndarray | None = None) -> None:
        check_weights(W, self.k, self.d)
        self.built = True

    @timed("query_seconds")
    def query(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        _, y = check_query(self.built, X, rows, y, self.k, self.d)
        return draw_others(self.rng, y, self.k)
