"""A primal-dual interior point method on the compact LP, started by a short splitting
run.

Over a working set of rows I and components J, with p the joint distribution, q_i >=
p_iy the mass that row i's best label saves, and alpha the mass on the empirical
distribution p_0,

    R* = 1 - min sum_i q_i + alpha   over  p, g = q - p, alpha >= 0,  sum p + alpha = 1,
         a = lam - (E_p Phi - tau) >= 0,  b = lam + (E_p Phi - tau) >= 0.

The multipliers s of p, h of g, s0 of alpha, m+ of a, m- of b give ``mu = m- - m+`` and
phi with ``h - s = x_i mu_y - phi`` and ``sum_y h_iy = 1``: mu is a classifier, h the
water-filling of psi. The normal matrix of a Newton step has closed-form k x k blocks:
no label subset is ever formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import Row
from workbench.mrc import splitting
from workbench.mrc.master import largest
from workbench.mrc.newton import (
    PAIRS,
    Direction,
    NewtonSystem,
    complementarity_ahead,
    step_lengths,
    take,
)
from workbench.mrc.risk import MinimaxRisk, RiskState, minimax_risk, psi, restated
from workbench.mrc.splitting import SplittingState

MAX_COMPONENTS = (
    8000  # components of the working set; their normal matrix takes 256 MB in float32
)
TO_BOUNDARY = 0.95  # fraction of the way to the boundary that a step may go
# J takes components whose mean is farther off its interval's middle, in half-widths.
SLACK = 0.8
MIN_PRODUCT = 3e-7  # product of a variable and its multiplier at the start
LEAD = 0.1  # complementarity may run ahead of the certified gap by this factor at most
RUNAWAY = 100  # complementarity over the gap from which a jammed iterate is given up
LAST_STALL = 10  # short steps in a row after which any iterate is given up
PATIENCE = 100  # iterations without a smaller gap after which only rounding is left
CENTRAL = 1000  # complementarity of a new start, as a multiple of the first one's


@dataclass
class InteriorPointState(RiskState):
    """One primal-dual iterate on rows I and components J (positions y d' + j).

    Primal: ``p``, ``g`` (|I|, k), ``q`` (|I|,), ``alpha``, ``a``, ``b`` (|J|,). Dual:
    ``s``, ``h`` (|I|, k), ``s0``, ``m_plus``, ``m_minus``, ``mu`` (|J|,), ``phi``.
    ``mu`` is kept apart from m- - m+: an error of the linear solver would otherwise be
    multiplied by m / a. ``step`` is the shorter of the last two step lengths,
    ``stalls`` how many in a row were short, ``idle`` how many left the gap as it was,
    ``double`` whether the Newton system is factored in double precision.
    """

    I: np.ndarray
    J: np.ndarray
    p: np.ndarray
    g: np.ndarray
    q: np.ndarray
    alpha: float
    a: np.ndarray
    b: np.ndarray
    s: np.ndarray
    h: np.ndarray
    s0: float
    m_plus: np.ndarray
    m_minus: np.ndarray
    mu: np.ndarray
    phi: float
    step: float
    stalls: int
    idle: int
    double: bool

    def info(self) -> Row:
        return super().info() | {
            "complementarity": self.complementarity(),
            "rows": len(self.I),
            "components": len(self.J),
            "step": self.step,
        }

    def complementarity(self) -> float:
        """Return the sum of all products of a variable and its multiplier."""
        return float(
            sum(np.vdot(getattr(self, x), getattr(self, z)) for x, z in PAIRS.items())
        )

    @property
    def pairs(self) -> int:
        return 2 * self.p.size + 1 + 2 * len(self.J)

    def move(self, risk: MinimaxRisk) -> None:
        """Let the distances a and b be those of the means to the ends of new
        intervals."""
        self.a, self.b = distances(risk, self, self.J)
        self.stalls = self.idle = 0
        recentre(self, max(self.upper - self.lower, 1e-12) / self.pairs)


@resumable("lambda0")
def mrc_interior_point(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    state: SplittingState | InteriorPointState | None = None,
) -> Iterator[SplittingState | InteriorPointState]:
    """Minimise U by splitting, then by an interior point method on the rows and
    features found.

    A round is 25 splitting iterations, later one interior point iteration. Rows and
    features that turn out to be violated join in place. Ends by itself when it can
    improve no more.

    Parameters
    ----------
    problem : Problem with dense rows
    lambda0 : > 0, confidence of the uncertainty set in standard deviations

    Raises
    ------
    ValueError
        For sparse rows (use :func:`mrc_pdhg`), too many features, or a `lambda0`
        outside its range.
    """
    if problem.is_sparse:
        raise ValueError(
            "problem: mrc_interior_point takes dense rows; use mrc_pdhg for sparse"
        )
    risk = minimax_risk(problem, lambda0)
    s = None if state is None else restated(risk, state)
    if not isinstance(s, InteriorPointState):
        for found in short_split(risk, s):
            yield found
        s = start(risk, found, found.M, found.p)
    yield s
    while iterate(risk, s):
        yield s


def iterate(risk: MinimaxRisk, s: InteriorPointState) -> bool:
    """Take one predictor-corrector step, certify it, and let violated rows and features
    join.

    Returns False, and leaves `s` unchanged, when no further step is possible or
    worthwhile.
    """
    gap = s.upper - s.lower
    if s.complementarity() < 1e-12 or s.stalls > 20 or s.idle > PATIENCE:
        return False
    found = newton_step(risk, s, gap)
    if found is None and not s.double:
        s.double = True
        found = newton_step(risk, s, gap)
    if found is None:
        return False
    take(s, *found)
    s.step = min(found[1:])
    s.stalls = s.stalls + 1 if s.step < 0.05 else 0
    scores, ratios = certify(risk, s)
    s.idle = 0 if s.upper - s.lower < 0.999 * gap else s.idle + 1
    if s.stalls and s.stalls % 5 == 0:
        if len(s.J) < risk.active.sum() <= MAX_COMPONENTS:
            join_features(
                risk, s, np.setdiff1d(np.flatnonzero(risk.active), s.J), MIN_PRODUCT
            )
        join_rows(s, violated_rows(s, scores, gap), scores)
        if s.stalls < LAST_STALL and s.complementarity() < RUNAWAY * gap:
            recentre(s, max(gap, s.complementarity()) / s.pairs)
        else:
            restart(risk, s)
    elif s.complementarity() < max(2e-2, gap) and s.step > 0.25:
        join_rows(s, violated_rows(s, scores, gap), scores)
        join_features(
            risk, s, violated_features(s, ratios), s.complementarity() / s.pairs
        )
    s.round += 1
    return True


def newton_step(
    risk: MinimaxRisk, s: InteriorPointState, gap: float
) -> tuple[Direction, float, float] | None:
    """Return Mehrotra's corrected direction with its primal and dual step, None on
    breakdown.

    The centring target follows the certified gap: far below it, steps would jam.
    """
    system = NewtonSystem(risk, s)
    mu = s.complementarity() / s.pairs
    affine = system.direction(0.0)
    if affine is None:
        return None
    ahead = complementarity_ahead(s, affine, *step_lengths(s, affine, 1.0)) / s.pairs
    sigma = min(1.0, max(ahead, 0.0) / mu) ** 3
    full = system.direction(max(sigma * mu, LEAD * gap / s.pairs), affine)
    if full is None:
        return None
    s.double = s.double or system.iterations > 40 or mu * s.pairs < 1e-5
    return full, *step_lengths(s, full, TO_BOUNDARY)


def short_split(
    risk: MinimaxRisk, s: SplittingState | None
) -> Iterator[SplittingState]:
    """Run the splitting, from its start or from `s`, for as many rounds as are worth
    while."""
    s = s or splitting.start(risk, weight=5.0)
    for found in splitting.split(risk, s, steps=25, repairs=0):
        yield found
        if found.round >= rounds_worth_while(risk, found):
            return


def rounds_worth_while(risk: MinimaxRisk, s: SplittingState) -> float:
    """Return 12 plus three times the cost of an interior point iteration in rounds, at
    most 40."""
    size = risk.tau.size
    rows = 1.5 * np.count_nonzero(s.p.max(axis=1))
    components = np.count_nonzero(s.M)
    newton = rows * components**2 + components**3 / 3
    sweep = 100 * rows * size + 10 * risk.n * size
    return 12 + min(28, 3 * newton / sweep)


def start(
    risk: MinimaxRisk,
    found: RiskState,
    M: np.ndarray,
    p: np.ndarray,
    central: float = 1.0,
    least: int = 0,
) -> InteriorPointState:
    """Return the working set and the smoothed point that M (k, d') and p (n, k)
    suggest.

    J holds the components with a non-zero coefficient or a mean near the end of its
    interval, I the rows with mass and the next by psi: half as many again, and at least
    |J| and `least`. `central` multiplies every product of a variable and its
    multiplier.
    """
    mass = p.max(axis=1)
    scores = risk.X @ M.T
    margin = psi(scores)
    support = int(np.count_nonzero(mass))
    mean = (risk.X.T @ p).T
    near = (M != 0) | (risk.ratios(mean) > SLACK)
    J = np.flatnonzero(near & risk.active)
    if len(J) > MAX_COMPONENTS:
        J = np.sort(J[np.argsort(-risk.ratios(mean).ravel()[J])[:MAX_COMPONENTS]])
    rank = np.lexsort((-margin, -(mass > 0).astype(int)))
    I = np.sort(rank[: max(support + support // 2, len(J), least)])
    p, mu = p[I], M.ravel()[J]
    lead = LEAD * (found.upper - found.lower) / (2 * (p.size + len(J)) + 1)
    mu0 = central * max(MIN_PRODUCT, lead)
    phi = float(margin.max())
    h = np.maximum(scores[I] - margin[I, None], 0.0)
    q, slack = p.max(axis=1), np.maximum(h - scores[I] + phi, 0.0)
    lam, away = risk.lam.ravel()[J], (mean - risk.tau).ravel()[J]
    h, g = smooth(h, q[:, None] - p, mu0)
    p, s = smooth(p, slack, mu0)
    a, m_plus = smooth(lam - away, np.maximum(-mu, 0.0), mu0)
    b, m_minus = smooth(lam + away, np.maximum(mu, 0.0), mu0)
    s0 = max(1.0 + phi - float(risk.tau.ravel()[J] @ mu), 1e-3)
    names = "M_best", "p_best", "p_rows", "lower", "upper", "lambda0"
    best = {name: getattr(found, name) for name in names}
    return InteriorPointState(
        found.round + 1,
        **best,
        I=I,
        J=J,
        p=p,
        g=g,
        q=q,
        alpha=mu0 / s0,
        a=a,
        b=b,
        s=s,
        h=h,
        s0=s0,
        m_plus=m_plus,
        m_minus=m_minus,
        mu=mu,
        phi=phi,
        step=1.0,
        stalls=0,
        idle=0,
        double=len(J) < 1000,
    )


def restart(risk: MinimaxRisk, s: InteriorPointState) -> None:
    """Begin again from the best bounds, far from the boundary, with twice the rows.

    If intervals are narrow, the mean of the first point may be many half-widths outside
    them: steps jam at once, and the iterate runs away in the directions that have no
    boundary.
    """
    p = np.zeros((risk.n, len(risk.tau)))
    p[s.p_rows] = s.p_best
    best = start(risk, s, s.M_best, p, CENTRAL, 2 * len(s.I))
    kept = {name: getattr(s, name) for name in ("round", "stalls", "idle")}
    vars(s).update(vars(best) | kept)


def smooth(x: np.ndarray, z: np.ndarray, mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearby positive pair with ``x z = mu``: x - theta z stays as it is.

    theta is the mean x over the mean z, but leaves x typical, whose mean is of the
    right size.
    """
    if not x.size:
        return x, z
    typical = max(float(np.abs(x).mean()), 1e-12)
    theta = min(typical / max(float(z.mean()), 1e-12), typical**2 / mu)
    v = x - theta * z
    root = np.sqrt(v * v + 4.0 * theta * mu)
    x = np.where(
        v > 0, (v + root) / 2.0, 2.0 * theta * mu / (root - np.minimum(v, 0.0))
    )
    return x, mu / x


def recentre(s: InteriorPointState, mu: float) -> None:
    """Smooth every pair again: the way out when steps have jammed at the boundary."""
    s.p, s.s = smooth(s.p, s.s, mu)
    s.h, s.g = smooth(s.h, s.g, mu)
    s.a, s.m_plus = smooth(s.a, s.m_plus, mu)
    s.b, s.m_minus = smooth(s.b, s.m_minus, mu)
    s.alpha = mu / s.s0


def certify(risk: MinimaxRisk, s: InteriorPointState) -> tuple[np.ndarray, np.ndarray]:
    """Renew the bounds over all rows and components; return the (n, k) scores and the
    ratios."""
    M = np.zeros_like(risk.tau)
    M.ravel()[s.J] = s.mu
    scores = risk.X @ M.T
    s.offer(M, risk.upper(M, float(psi(scores).max())))
    mass = s.p.sum() + s.alpha
    mean = ((risk.X[s.I].T @ s.p).T + s.alpha * risk.tau) / mass
    bayes = 1.0 - (s.p.max(axis=1).sum() + s.alpha) / mass
    s.raise_lower(risk.lower_of(float(bayes), mean), s.p, s.I)
    return scores, risk.ratios(mean)


def violated_rows(s: InteriorPointState, scores: np.ndarray, gap: float) -> np.ndarray:
    """Return the rows outside I whose psi exceeds phi most, at most an eighth of
    |I|."""
    excess = psi(scores) - s.phi
    excess[s.I] = -np.inf
    return largest(excess, 0.3 * gap, max(20, len(s.I) // 8))


def violated_features(s: InteriorPointState, ratios: np.ndarray) -> np.ndarray:
    """Return the components outside J whose mean is farthest outside, at most 3 % of
    |J|."""
    ratios = ratios.ravel().copy()
    ratios[s.J] = 0.0
    most = max(40, 3 * len(s.J) // 100)
    return largest(ratios, 1.0, min(most, max(0, MAX_COMPONENTS - len(s.J))))


def distances(risk: MinimaxRisk, s, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far the means of components J are from the upper and lower ends of
    intervals."""
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
    """Let components join J with coefficient 0 and their mean's distance to its
    interval's ends."""
    least = 0.1 * risk.lam.ravel()[J]
    a, b = (np.maximum(distance, least) for distance in distances(risk, s, J))
    s.J = np.concatenate([s.J, J])
    s.a, s.b = np.concatenate([s.a, a]), np.concatenate([s.b, b])
    s.m_plus = np.concatenate([s.m_plus, mu / a])
    s.m_minus = np.concatenate([s.m_minus, mu / b])
    s.mu = np.concatenate([s.mu, np.zeros(len(J))])
