"""Algorithms 1 and 2 of MEMOIR (Belyy, Sholokhov), line by line: dense W, any search.

They can be read next to the printed boxes, whose lines the comments number. `solvers.py` takes the
same steps in compiled code and with sparse weights; its tests compare the two, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import (
    check_counts,
    check_not_negative,
    check_positive,
    check_sparse,
    check_whole,
)
from workbench.core.problem import Problem
from workbench.core.stream import Row
from workbench.memoir.mips import Oracle, make_oracle


@dataclass
class PlainState:
    """The weights ``W`` (d, C), column r those of class r, after ``round`` steps t.

    ``updates`` is the fraction of the batch's rows that violated their margin.
    """

    round: int
    rng: np.random.Generator
    W: np.ndarray
    updates: float

    def scores(self, X) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W)

    def info(self) -> Row:
        return {"norm": float(np.linalg.norm(self.W)), "updates": self.updates}


def algorithm_1(
    problem: Problem,
    *,
    lam: float = 1.0,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    batch_size: int = 100,
    mips: str = "exact",
    seed: int = 0,
    state: PlainState | None = None,
) -> Iterator[PlainState]:
    """Lower lam/2 |W|^2 + mean_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})) by Algorithm 1.

    A round is a step t, of size eta_t = eta0 / (1 + eta_step t). The search knows the weights as
    they were before the batch; the exact one follows every change.

    Parameters
    ----------
    lam : not negative; lam eta_t must be below 1
    eta0, eta_step : positive, and not negative
    batch_size : rows per step, at least 1
    mips : a search of :data:`workbench.memoir.mips.MIPS`
    seed : of the rows drawn

    Raises
    ------
    ValueError
        Naming the argument that is out of its range.
    """
    s, search, eta = _started(problem, lam, eta0, eta_step, batch_size, mips, seed, state)
    if lam * eta(1) >= 1:
        raise ValueError(f"lam: lam * eta_1 must be below 1, got {lam!r} * {eta(1):g}")
    yield s  # line 1: W^0 = 0
    while True:  # line 2
        t = s.round + 1
        b = s.rng.integers(problem.n, size=batch_size)  # line 3
        s.W *= 1 - lam * eta(t)  # line 4
        _visit(problem, s, b, eta(t), search)  # lines 5 to 11
        length = np.sqrt(lam) * np.linalg.norm(s.W)
        phi = min(1, 1 / length) if length > 0 else 1  # line 12
        s.W *= phi  # line 13
        s.round = t
        yield s


def algorithm_2(
    problem: Problem,
    *,
    gamma: float = 1e-6,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    batch_size: int = 100,
    mips: str = "exact",
    seed: int = 0,
    state: PlainState | None = None,
) -> Iterator[PlainState]:
    """Lower gamma/2 |W|_1 + mean_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})) by Algorithm 2.

    The paper calls gamma lambda. All else is as in :func:`algorithm_1`.
    """
    s, search, eta = _started(problem, gamma, eta0, eta_step, batch_size, mips, seed, state)
    yield s  # line 1: W^0 = 0
    while True:  # line 2
        t = s.round + 1
        b = s.rng.integers(problem.n, size=batch_size)  # line 3
        R = _visit(problem, s, b, eta(t), search)  # lines 4 to 12
        for i in R:  # line 13
            threshold = problem.k / len(R) * gamma * eta(t)  # line 14: Truncate, (13)
            s.W[:, i] = np.sign(s.W[:, i]) * np.maximum(np.abs(s.W[:, i]) - threshold, 0.0)
        s.round = t
        yield s


def _visit(problem: Problem, s: PlainState, b: np.ndarray, eta: float, search: Oracle) -> set[int]:
    """Take the rows of a batch, the inner loop of both boxes; return R, the classes met in it."""
    X, y, W, R, violated = problem.X, problem.y, s.W, set(), 0
    if search is not None:
        search.update(W)
        found = search.query(X, b, y[b])
    for j, row in enumerate(b):  # for (x_j, y_j) in b_t do
        x = X[[row]].toarray()[0] if sp.issparse(X) else X[row]
        if search is None:  # r_j := argmax over r != y_j of x_j.w_r, exactly ...
            r = int(np.argmax(np.where(np.arange(problem.k) == y[row], -np.inf, x @ W)))
        else:  # ... or nearly
            r = int(found[j])
        if 1 + x @ (W[:, r] - W[:, y[row]]) > 0:
            W[:, r] -= eta * x
            W[:, y[row]] += eta * x
            violated += 1
        R |= {int(y[row]), r}
    s.updates = violated / len(b)
    return R


def _started(problem, weight, eta0, eta_step, batch_size, mips, seed, state):
    """Return the state of W^0 = 0 or the one given, the search, and eta as a function of t."""
    check_not_negative(weight=weight, eta_step=eta_step)
    check_positive(eta0, "eta0")
    check_counts(batch_size=batch_size)
    if state is None:
        rng = np.random.default_rng(check_whole(seed, "seed", least=0))
        state = PlainState(0, rng, np.zeros((problem.d, problem.k)), 0.0)
    search = None
    if mips != "exact":
        search = make_oracle(mips, k=problem.k, d=problem.d, seed=state.rng)
    return state, search, lambda t: eta0 / (1 + eta_step * t)
