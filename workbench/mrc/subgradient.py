"""MRC-SUB: the accelerated subgradient method (Mazuelas, Romero, Grünwald 2023)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_whole
from workbench.core.matrices import as_dense
from workbench.core.problem import Array, Problem
from workbench.core.state import Row, resumable
from workbench.mrc.risk import (
    MinimaxRisk,
    RiskState,
    greedy_subset,
    minimax_risk,
    restated,
    risk_fields,
)


@dataclass
class SubgradientState(RiskState):
    """The iterates ``M`` and ``M_bar`` (k, d'), after ``step`` steps.

    ``p`` (n, k) is the sum of the distributions of all maximising constraints; their
    average gives the lower bound.
    """

    step: int
    M: Array
    M_bar: Array
    p: Array

    def info(self) -> Row:
        return super().info() | {"steps": self.step}

    def move(self, risk: MinimaxRisk) -> None:
        """Restart from the best classifier, which later steps would hardly change."""
        self.step = 0
        self.M = self.M_bar = self.M_best
        self.p = 0.0 * self.p


@resumable("lambda0", "steps")
def mrc_subgradient(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    steps: int = 100,
    state: SubgradientState | None = None,
) -> Iterator[SubgradientState]:
    """Minimise U by Nesterov-extrapolated subgradient steps.

    A round is `steps` steps. With a_t = (t + 1)^(-3/2) and theta_t = 2 / (t + 1),

        M_bar_{t+1} = M_t - a_t g_t,    g_t a subgradient of U at M_t,
        M_{t+1} = M_bar_{t+1} + theta_{t+1} (1 / theta_t - 1) (M_bar_{t+1} - M_bar_t).

    Parameters
    ----------
    lambda0 : float > 0, the half-width of the uncertainty set in standard deviations
    steps : int >= 1, the number of steps per round

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    check_whole(steps, "steps")
    risk = minimax_risk(problem, lambda0)
    s = start(risk) if state is None else restated(risk, state)
    yield s
    while True:
        for _ in range(steps):
            s.step += 1
            t = s.step
            values = risk.heights(s.M)
            i = int(np.argmax(values))
            s.offer(s.M, risk.upper(s.M, float(values[i])))
            x = as_dense(risk.X[[i]])
            _, mask = greedy_subset(s.M @ x[0])
            cut = mask / mask.sum()
            s.p[i] += cut
            F = np.where(risk.active, cut[:, None] * x, 0.0)
            g = F - risk.tau + risk.lam * np.sign(s.M)
            M_bar = s.M - (t + 1.0) ** -1.5 * g
            momentum = 2.0 / (t + 2.0) * ((t + 1.0) / 2.0 - 1.0)
            s.M = M_bar + momentum * (M_bar - s.M_bar)
            s.M_bar = M_bar
        s.raise_lower(risk.lower(s.p / s.p.sum()), s.p)
        s.round += 1
        yield s


def start(risk: MinimaxRisk) -> SubgradientState:
    """Return round 0: M = 0."""
    zero = np.zeros_like(risk.tau)
    p = np.zeros((risk.n, risk.k))
    return SubgradientState(**risk_fields(risk), step=0, M=zero, M_bar=zero, p=p)
