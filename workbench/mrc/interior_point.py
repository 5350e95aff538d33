"""A primal-dual interior point method on the compact LP, started by splitting.

Over a working set of rows I and components J, with p the joint distribution, q_i >=
p_iy the mass of the best label of row i, and alpha the mass on the empirical
distribution p_0,

    R* = 1 - min sum_i q_i + alpha   over  p, g = q - p, alpha >= 0,  sum p + alpha = 1,
         a = lam - (E_p Phi - tau) >= 0,  b = lam + (E_p Phi - tau) >= 0.

The multipliers s of p, h of g, s0 of alpha, m+ of a, m- of b give ``mu = m- - m+`` and
phi with ``h - s = x_i mu_y - phi`` and ``sum_y h_iy = 1``: mu is a classifier, and h is
the water-filling of psi. The normal matrix of a Newton step has closed-form k x k
blocks, so no label subset is ever formed. ``newton.py`` lists all unknowns and
equations.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.problem import Array, Problem
from workbench.core.state import Row, resumable
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

# The largest number of components of the working set, whose normal matrix then takes
# 256 MB in single precision.
MAX_COMPONENTS = 8000
TO_BOUNDARY = 0.95  # the largest fraction of the way to the boundary that a step takes
# A component is in the first J if its mean is farther than this from the middle of its
# interval, in half-widths of the interval.
NEAR_END = 0.8
MIN_PRODUCT = 3e-7  # the smallest product of a variable and its multiplier at the start
LEAD = 0.1  # complementarity may be smaller than the certified gap by this factor
RUNAWAY = 100  # ratio of complementarity to gap at which a jammed iterate restarts
MAX_STALLS = 10  # consecutive short steps after which any iterate restarts
PATIENCE = 100  # steps without a smaller gap after which the method stops
CENTRAL = 1000  # complementarity of a new start, as a multiple of the first start's


@dataclass
class InteriorPointState(RiskState):
    """One primal-dual iterate on rows I and components J (positions y d' + j).

    The primal variables are ``p``, ``g`` (|I|, k), ``q`` (|I|,), ``alpha``, ``a`` and
    ``b`` (|J|,); the dual variables are ``s``, ``h`` (|I|, k), ``s0``, ``m_plus``,
    ``m_minus``, ``mu`` (|J|,) and ``phi``. ``mu`` is stored although it equals m- - m+:
    an error of the linear solver would otherwise be multiplied by m / a. ``step`` is
    the shorter of the last two step lengths, ``stalls`` the number of consecutive short
    steps, ``idle`` the number of consecutive steps without a smaller gap, and
    ``double`` whether the Newton system is factored in double precision.
    """

    I: Array
    J: Array
    p: Array
    g: Array
    q: Array
    alpha: float
    a: Array
    b: Array
    s: Array
    h: Array
    s0: float
    m_plus: Array
    m_minus: Array
    mu: Array
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
        """The number of products of a variable and its multiplier."""
        return 2 * self.p.size + 1 + 2 * len(self.J)

    def move(self, risk: MinimaxRisk) -> None:
        """Set a and b to the distances of the means from the ends of new intervals."""
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
    """Minimise U by splitting, then by an interior point method on a working set.

    Splitting suggests the first working set, to which violated rows and features are
    added. A round is 25 splitting iterations, and later one interior point iteration.
    The stream ends when no further step is possible or worthwhile.

    Parameters
    ----------
    problem : Problem with dense rows
    lambda0 : float > 0, the half-width of the uncertainty set in standard deviations

    Raises
    ------
    ValueError
        If rows are sparse (use :func:`mrc_pdhg`), there are too many features, or
        `lambda0` is outside its range.
    """
    if problem.is_sparse:
        raise ValueError(
            "problem: mrc_interior_point takes dense rows; use mrc_pdhg instead"
        )
    risk = minimax_risk(problem, lambda0)
    s = None if state is None else restated(risk, state)
    if not isinstance(s, InteriorPointState):
        for split in short_split(risk, s):
            yield split
        s = start(risk, split, split.M, split.p)
    yield s
    while iterate(risk, s):
        yield s


def iterate(risk: MinimaxRisk, s: InteriorPointState) -> bool:
    """Take and certify one predictor-corrector step, and enlarge the working set.

    Return False, without a step, when no further step is possible or worthwhile.
    """
    gap = s.upper - s.lower
    if s.complementarity() < 1e-12 or s.stalls > 20 or s.idle > PATIENCE:
        return False
    step = newton_step(risk, s, gap)
    if step is None and not s.double:
        s.double = True
        step = newton_step(risk, s, gap)
    if step is None:
        return False
    direction, primal, dual = step
    take(s, direction, primal, dual)
    s.step = min(primal, dual)
    s.stalls = s.stalls + 1 if s.step < 0.05 else 0
    scores, ratios = certify(risk, s)
    s.idle = 0 if s.upper - s.lower < 0.999 * gap else s.idle + 1
    if s.stalls and s.stalls % 5 == 0:
        free_steps(risk, s, scores, gap)
    elif s.complementarity() < max(2e-2, gap) and s.step > 0.25:
        join_rows(s, violated_rows(s, scores, gap), scores)
        J = violated_features(s, ratios)
        join_features(risk, s, J, s.complementarity() / s.pairs)
    s.round += 1
    return True


def free_steps(
    risk: MinimaxRisk, s: InteriorPointState, scores: Array, gap: float
) -> None:
    """Enlarge the working set of a jammed iterate, and leave the boundary."""
    if len(s.J) < risk.active.sum() <= MAX_COMPONENTS:
        J = np.setdiff1d(np.flatnonzero(risk.active), s.J)
        join_features(risk, s, J, MIN_PRODUCT)
    join_rows(s, violated_rows(s, scores, gap), scores)
    if s.stalls < MAX_STALLS and s.complementarity() < RUNAWAY * gap:
        recentre(s, max(gap, s.complementarity()) / s.pairs)
    else:
        restart(risk, s)


def newton_step(
    risk: MinimaxRisk, s: InteriorPointState, gap: float
) -> tuple[Direction, float, float] | None:
    """Return Mehrotra's direction, and its primal and dual step; None on breakdown.

    The centring target follows the certified gap, because steps jam far below it.
    """
    system = NewtonSystem(risk, s)
    mean_product = s.complementarity() / s.pairs
    affine = system.direction(0.0)
    if affine is None:
        return None
    primal, dual = step_lengths(s, affine, 1.0)
    ahead = complementarity_ahead(s, affine, primal, dual) / s.pairs
    sigma = min(1.0, max(ahead, 0.0) / mean_product) ** 3
    target = max(sigma * mean_product, LEAD * gap / s.pairs)
    direction = system.direction(target, affine)
    if direction is None:
        return None
    s.double = s.double or system.iterations > 40 or mean_product * s.pairs < 1e-5
    return direction, *step_lengths(s, direction, TO_BOUNDARY)


def short_split(
    risk: MinimaxRisk, s: SplittingState | None
) -> Iterator[SplittingState]:
    """Run the splitting, from `s` or from its start, while it is worthwhile."""
    first = s or splitting.start(risk, weight=5.0)
    for s in splitting.split(risk, first, steps=25, repairs=0):
        yield s
        if s.round >= rounds_worth_while(risk, s):
            return


def rounds_worth_while(risk: MinimaxRisk, s: SplittingState) -> float:
    """Return 12 plus the cost of 3 interior point iterations in rounds, at most 40."""
    size = risk.tau.size
    rows = 1.5 * np.count_nonzero(s.p.max(axis=1))
    components = np.count_nonzero(s.M)
    newton = rows * components**2 + components**3 / 3
    sweep = 100 * rows * size + 10 * risk.n * size
    return 12 + min(28, 3 * newton / sweep)


def start(
    risk: MinimaxRisk,
    best: RiskState,
    M: Array,
    p: Array,
    central: float = 1.0,
    min_rows: int = 0,
) -> InteriorPointState:
    """Return the working set and smoothed point for M (k, d') and p (n, k).

    J holds the components with a non-zero coefficient or a mean near the end of its
    interval. I holds the rows with mass and those with the next largest psi: 1.5 times
    as many rows as have mass, but at least |J| and `min_rows`. `best` has the best
    bounds so far. `central` multiplies every product of a variable and its multiplier.
    """
    # 1. The working set.
    mass = p.max(axis=1)
    scores = risk.X @ M.T
    heights = psi(scores)
    support = int(np.count_nonzero(mass))
    mean = (risk.X.T @ p).T
    ratios = risk.ratios(mean)
    J = np.flatnonzero(((M != 0) | (ratios > NEAR_END)) & risk.active)
    if len(J) > MAX_COMPONENTS:
        J = np.sort(J[np.argsort(-ratios.ravel()[J])[:MAX_COMPONENTS]])
    rank = np.lexsort((-heights, -(mass > 0).astype(int)))
    I = np.sort(rank[: max(support + support // 2, len(J), min_rows)])

    # 2. The point: M and p on the working set, every pair smoothed.
    p = p[I]
    mu = M.ravel()[J]
    lead = LEAD * (best.upper - best.lower) / (2 * (p.size + len(J)) + 1)
    product = central * max(MIN_PRODUCT, lead)
    phi = float(heights.max())
    h = np.maximum(scores[I] - heights[I, None], 0.0)
    s = np.maximum(h - scores[I] + phi, 0.0)
    q = p.max(axis=1)
    lam = risk.lam.ravel()[J]
    distance = (mean - risk.tau).ravel()[J]
    h, g = smooth(h, q[:, None] - p, product)
    p, s = smooth(p, s, product)
    a, m_plus = smooth(lam - distance, np.maximum(-mu, 0.0), product)
    b, m_minus = smooth(lam + distance, np.maximum(mu, 0.0), product)
    s0 = max(1.0 + phi - float(risk.tau.ravel()[J] @ mu), 1e-3)
    return InteriorPointState(
        round=best.round + 1,
        M_best=best.M_best,
        p_best=best.p_best,
        p_rows=best.p_rows,
        lower=best.lower,
        upper=best.upper,
        lambda0=best.lambda0,
        I=I,
        J=J,
        p=p,
        g=g,
        q=q,
        alpha=product / s0,
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
    """Restart from the best classifier, far from the boundary, with twice the rows.

    If intervals are narrow, the means of the first point may be many half-widths
    outside them. Then steps jam at once, and the iterate diverges in the directions
    that have no boundary.
    """
    p = np.zeros((risk.n, len(risk.tau)))
    p[s.p_rows] = s.p_best
    fresh = start(risk, s, s.M_best, p, CENTRAL, 2 * len(s.I))
    fresh.round = s.round
    fresh.stalls = s.stalls
    fresh.idle = s.idle
    vars(s).update(vars(fresh))


def smooth(x: Array, z: Array, mu: float) -> tuple[Array, Array]:
    """Return the nearby positive pair with ``x z = mu`` that has the same x - theta z.

    theta is the ratio of the mean of x to the mean of z, but never so large that x
    loses its typical size.
    """
    if not x.size:
        return x, z
    typical = max(float(np.abs(x).mean()), 1e-12)
    theta = min(typical / max(float(z.mean()), 1e-12), typical**2 / mu)
    v = x - theta * z
    root = np.sqrt(v * v + 4.0 * theta * mu)
    # The second form avoids cancellation if v is negative.
    negative = 2.0 * theta * mu / (root - np.minimum(v, 0.0))
    x = np.where(v > 0, (v + root) / 2.0, negative)
    return x, mu / x


def recentre(s: InteriorPointState, mu: float) -> None:
    """Smooth every pair again, which frees steps that have jammed at the boundary."""
    s.p, s.s = smooth(s.p, s.s, mu)
    s.h, s.g = smooth(s.h, s.g, mu)
    s.a, s.m_plus = smooth(s.a, s.m_plus, mu)
    s.b, s.m_minus = smooth(s.b, s.m_minus, mu)
    s.alpha = mu / s.s0


def certify(risk: MinimaxRisk, s: InteriorPointState) -> tuple[Array, Array]:
    """Update the bounds over all rows; return the (n, k) scores and the ratios."""
    M = np.zeros_like(risk.tau)
    M.ravel()[s.J] = s.mu
    scores = risk.X @ M.T
    s.offer(M, risk.upper(M, float(psi(scores).max())))
    mass = s.p.sum() + s.alpha
    total = (risk.X[s.I].T @ s.p).T + s.alpha * risk.tau
    mean = total / mass
    bayes = 1.0 - (s.p.max(axis=1).sum() + s.alpha) / mass
    s.raise_lower(risk.lower_of(float(bayes), mean), s.p, s.I)
    return scores, risk.ratios(mean)


def violated_rows(s: InteriorPointState, scores: Array, gap: float) -> Array:
    """Return the rows outside I with the largest psi - phi above 0.3 `gap`."""
    excess = psi(scores) - s.phi
    excess[s.I] = -np.inf
    return largest(excess, 0.3 * gap, max(20, len(s.I) // 8))


def violated_features(s: InteriorPointState, ratios: Array) -> Array:
    """Return the components outside J that are farthest outside their intervals."""
    ratios = ratios.ravel().copy()
    ratios[s.J] = 0.0
    room = max(0, MAX_COMPONENTS - len(s.J))
    return largest(ratios, 1.0, min(max(40, 3 * len(s.J) // 100), room))


def distances(risk: MinimaxRisk, s, J: Array) -> tuple[Array, Array]:
    """Return the distances of the means of J from the ends of their intervals."""
    tau = risk.tau.ravel()[J]
    lam = risk.lam.ravel()[J]
    mean = (risk.X[s.I].T @ s.p).T.ravel()[J] + s.alpha * tau
    distance = mean - tau
    return lam - distance, lam + distance


def join_rows(s, rows: Array, scores: Array) -> None:
    """Add rows to I with little mass: their p is at most 1 / (50 |I|)."""
    product = s.complementarity() / s.pairs
    floor = 50.0 * product * len(s.I)
    v = scores[rows]
    h = np.maximum(v - psi(v)[:, None], 0.0)
    new_s = np.maximum(h - v + s.phi, floor)
    new_h = np.maximum(h, floor)
    new_p = product / new_s
    new_g = product / new_h
    q = (new_p + new_g).max(axis=1)
    append(s, {"I": rows, "p": new_p, "g": new_g, "q": q, "s": new_s, "h": new_h})


def join_features(risk: MinimaxRisk, s, J: Array, mu: float) -> None:
    """Let components join J with coefficient 0, away from their intervals' ends.

    a and b are the distances of their means from the ends, and at least a tenth of lam.
    """
    floor = 0.1 * risk.lam.ravel()[J]
    a, b = distances(risk, s, J)
    a = np.maximum(a, floor)
    b = np.maximum(b, floor)
    zeros = np.zeros(len(J))
    append(
        s, {"J": J, "a": a, "b": b, "m_plus": mu / a, "m_minus": mu / b, "mu": zeros}
    )


def append(s, entries: dict[str, Array]) -> None:
    """Append entries to the arrays of the state `s` that have these names."""
    for name, new in entries.items():
        setattr(s, name, np.concatenate([getattr(s, name), new]))
