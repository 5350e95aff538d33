"""The working set of the interior point method: the rows and components that join its iterate `s`.

`s` is an InteriorPointState, and changes in place.
"""

from __future__ import annotations

import numpy as np

from workbench.mrc.risk import MinimaxRisk, psi

LARGEST = 8000  # components of the working set; their normal matrix takes 256 MB in float32


def violated_rows(s, scores: np.ndarray, gap: float) -> np.ndarray:
    """Return the rows outside I whose psi exceeds phi most, at most an eighth of |I|."""
    excess = psi(scores) - s.phi
    excess[s.I] = -np.inf
    worst = np.argsort(-excess)[: max(20, len(s.I) // 8)]
    return worst[excess[worst] > 0.3 * gap]


def violated_features(s, ratios: np.ndarray) -> np.ndarray:
    """Return the components outside J whose mean is farthest outside, at most 3 % of |J|."""
    ratios = ratios.ravel().copy()
    ratios[s.J] = 0.0
    worst = np.argsort(-ratios)[: max(40, 3 * len(s.J) // 100)]
    return worst[ratios[worst] > 1.0][: max(0, LARGEST - len(s.J))]


def distances(risk: MinimaxRisk, s, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far the means of components J are from the upper and lower ends of intervals."""
    tau, lam = risk.tau.ravel()[J], risk.lam.ravel()[J]
    away = (risk.X[s.I].T @ s.p).T.ravel()[J] + s.alpha * tau - tau
    return lam - away, lam + away


def join_rows(s, rows: np.ndarray, scores: np.ndarray) -> None:
    """Let rows join I with little mass: their p is at most a fiftieth of 1 / |I|."""
    mu = s.complementarity() / s.pairs
    floor = 50.0 * mu * len(s.I)
    v = scores[rows]
    h = np.maximum(v - psi(v)[:, None], 0.0)
    slack = np.maximum(h - v + s.phi, floor)
    h = np.maximum(h, floor)
    s.I = np.concatenate([s.I, rows])
    s.s, s.h = np.vstack([s.s, slack]), np.vstack([s.h, h])
    s.p, s.g = np.vstack([s.p, mu / slack]), np.vstack([s.g, mu / h])
    s.q = np.concatenate([s.q, (mu / slack + mu / h).max(axis=1)])


def join_features(risk: MinimaxRisk, s, J: np.ndarray, mu: float) -> None:
    """Let components join J with coefficient 0 and their mean's distance to its interval's ends."""
    least = 0.1 * risk.lam.ravel()[J]
    a, b = (np.maximum(distance, least) for distance in distances(risk, s, J))
    s.J = np.concatenate([s.J, J])
    s.a, s.b = np.concatenate([s.a, a]), np.concatenate([s.b, b])
    s.m_plus = np.concatenate([s.m_plus, mu / a])
    s.m_minus = np.concatenate([s.m_minus, mu / b])
    s.mu = np.concatenate([s.mu, np.zeros(len(J))])
