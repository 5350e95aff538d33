"""MRC-SUB: the accelerated subgradient method (Mazuelas, Romero, Grünwald 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_whole
from workbench.core.measures import bounds
from workbench.core.problem import Problem
from workbench.core.stream import Row
from workbench.mrc.risk import greedy_subset, linear_scores, minimax_risk, psi, renew_bounds


@dataclass
class SubgradientState:
    """Iterates ``M`` and ``M_bar`` (k, d'), the step counter, and the best of both bounds.

    ``p`` (n, k) sums the distributions of the maximising cuts; their average is the lower
    bound's. All is of the problem with this ``lambda0``.
    """

    round: int
    step: int
    M: np.ndarray
    M_bar: np.ndarray
    p: np.ndarray
    M_best: np.ndarray
    lower: float
    upper: float
    lambda0: float

    def scores(self, X) -> np.ndarray:
        return linear_scores(self.M_best, X)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {"steps": self.step}


def mrc_subgradient(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    steps: int = 100,
    state: SubgradientState | None = None,
) -> Iterator[SubgradientState]:
    """Minimise U by Nesterov-extrapolated subgradient steps; a round is `steps` of them.

    With a_t = (t + 1)^(-3/2) and theta_t = 2 / (t + 1),

        M_bar_{t+1} = M_t - a_t g_t,    g_t a subgradient of U at M_t,
        M_{t+1} = M_bar_{t+1} + theta_{t+1} (1 / theta_t - 1) (M_bar_{t+1} - M_bar_t).

    Raises
    ------
    ValueError
        If `steps` is no whole number of at least 1, or `lambda0` no positive number.
    """
    check_whole(steps, "steps")
    risk = minimax_risk(problem, lambda0)
    zero = np.zeros_like(risk.tau)
    s = state or SubgradientState(
        0, 0, zero, zero, np.zeros((risk.n, risk.k)), zero, 0.0, risk.upper(zero), lambda0
    )
    if s.lambda0 != lambda0:  # steps have become too short to leave the old optimum
        renew_bounds(s, risk)
        s.step, s.M, s.M_bar, s.p = 0, s.M_best, s.M_best, 0.0 * s.p
    yield s
    while True:
        for _ in range(steps):
            s.step += 1
            t = s.step
            V = np.asarray(risk.X @ s.M.T)
            values = psi(V)
            i = int(np.argmax(values))
            upper = risk.upper(s.M, float(values[i]))
            if upper < s.upper:
                s.upper, s.M_best = upper, s.M
            _, mask = greedy_subset(V[i])
            cut = mask / mask.sum()
            s.p[i] += cut
            x = risk.X[[i]].toarray() if risk.is_sparse else risk.X[[i]]
            g = np.where(risk.active, cut[:, None] * x, 0.0) - risk.tau + risk.lam * np.sign(s.M)
            M_bar = s.M - (t + 1.0) ** -1.5 * g
            s.M = M_bar + 2.0 / (t + 2.0) * ((t + 1.0) / 2.0 - 1.0) * (M_bar - s.M_bar)
            s.M_bar = M_bar
        s.lower = max(s.lower, risk.lower(s.p / s.p.sum()))
        s.round += 1
        yield s
