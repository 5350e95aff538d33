"""Certified tuning of generalized least squares: no alpha of a range has fewer errors, proven.

P(W) = l(W) + alpha/2 |W|^2 with the mean loss l and g = grad l. A knot is a W_i with
|g_i + alpha_i W_i| <= e_i. With alpha = (1 - t) alpha_1 + t alpha_2, W(t) = (1 - t) W_1 + t W_2
and D = W_2 - W_1,

    |W*(alpha) - W(t)| <= [max(e_1, e_2) + t (1 - t) kappa] / alpha,                            (T4)
    kappa = |alpha_2 - alpha_1| |D| + max_i |x_i| Q / sqrt(2),
    Q = <D, g_2 - g_1> rho / (1 - exp(-rho)),    rho = max_i range(D'x_i),

since P is alpha-strongly convex, g is interpolated with an error of at most t (1 - t)/2 times its
second derivative along D, and the third cumulants of a softmax are at most range times variance.
With the identity link g is linear, and Q is 0. All of it is of second order: no tilt is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax

from workbench.core.measures import EPS
from workbench.core.names import hint
from workbench.core.problem import Matrix, Problem
from workbench.least_squares.generalized import GeneralizedState
from workbench.least_squares.objective import Objective
from workbench.least_squares.products import Factor, check_size, gram
from workbench.tuning.search import Search, between_roots, check_range, scanned
from workbench.tuning.state import Part, Tuning, begun, parted

SMOOTH = "softmax", "identity"  # links with a bound on the third derivative of their loss
SCANNED = 1e-3  # gradient of the scan, relative to alpha |W|
LOOSE, TIGHT = 0.02, 0.004  # gradients of the ends, relative to kappa: solved on above, to which
NEWTON = 60  # steps for one knot
SHORTER = 30  # halvings of a step
INNER = 1e-2  # residual of a step's linear equations


@dataclass
class LSTuning(Tuning):
    """The state of a search for alpha; ``at`` are values of alpha, the largest one first.

    ``gradients`` (p, folds, d, k) are those of the mean losses, ``slopes`` (p, folds) bounds on the
    norm of P's gradient, and ``blur`` (p, folds) what of them is room for rounding.
    """

    gradients: np.ndarray
    slopes: np.ndarray
    blur: np.ndarray


def certify_alpha(
    folds: Sequence[tuple[Problem, Matrix, np.ndarray]],
    alpha_range: tuple[float, float],
    eps: float = 0.005,
    *,
    link: str = "softmax",
    state: LSTuning | None = None,
) -> Iterator[LSTuning]:
    """Yield, one solution at a time, what is proven of the validation error over a range of alpha.

    :meth:`workbench.tuning.search.Search.steps` is the algorithm, its scan from the largest alpha
    down; knots are solved by Newton's method, each from the last one or the mixture of two.

    Parameters
    ----------
    folds : (problem, X, y) each, with validation rows X (m, d) and their labels y (m,), of the
        problem's classes; errors are those of all folds together
    alpha_range : (alpha_lo, alpha_hi), positive, in ascending order
    eps : fraction of the validation rows, in [0, 1)
    link : "softmax" or "identity"

    Raises
    ------
    ValueError
        If an argument is not as above, the folds differ in features or classes, or there are more
        features than one Gram matrix can hold.
    """
    if link not in SMOOTH:
        raise ValueError(f"link: {link!r} has no certified tuning; {hint(str(link), SMOOTH)}")
    parts, ends = parted(folds), check_range(alpha_range, eps, "alpha_range")
    check_size(parts[0].problem.d)
    if state is None:
        each = np.zeros((0, len(parts)))
        zeros = np.zeros((0, len(parts), parts[0].problem.d, parts[0].problem.k))
        own = {"gradients": zeros, "slopes": each, "blur": each}
        state = begun(LSTuning, parts, eps, ends, **own)
    yield from Smooth(state, parts, link).steps(scanned(ends)[::-1])


class Smooth(Search):
    """A search whose knots have small gradients, and whose bound is T4."""

    s: LSTuning
    per_knot = ("at", "W", "errors", "gradients", "slopes", "blur")

    def __init__(self, state: LSTuning, parts: list[Part], link: str):
        for part in parts:  # float32 rows are exact; all else is in double precision
            X = part.problem.X
            part.problem = replace(part.problem, X=X.astype(np.float64, copy=False))
        super().__init__(state, parts)
        self.link = link
        self.S = [gram(part.problem.X, part.problem.weights) for part in parts]

    def add(self, alpha: float, last: int) -> int:
        """Solve for the next alpha of the scan."""
        return self.added(alpha, self.s.W[last] if last >= 0 else None, None)

    def between(self, alpha: float, a: int, b: int) -> int:
        """Solve for an alpha between two knots, from the mixture of their solutions."""
        s = self.s
        t = (alpha - s.at[a]) / (s.at[b] - s.at[a])
        goals = [TIGHT / 4.0 * self.kappa(f, a, b) for f in range(len(self.parts))]
        return self.added(alpha, (1.0 - t) * s.W[a] + t * s.W[b], goals)

    def added(self, alpha: float, W: np.ndarray | None, goals) -> int:
        """Solve all folds at alpha from W to gradients of these norms, and return the knot."""
        knot = self.grown(alpha)
        for f in range(len(self.parts)):
            self.solve(knot, f, W[f] if W is not None else self.s.W[knot, f], goals and goals[f])
        self.counted(knot)
        self.s.round += 1
        return knot

    def refined(self, a: int, b: int) -> bool:
        """Solve knots on whose gradients are not small against kappa; say if that helped."""
        s, better = self.s, False
        kappas = np.array([self.kappa(f, a, b) for f in range(len(self.parts))])
        for knot in (a, b):
            before = s.slopes[knot].copy()
            for f in np.flatnonzero(before > LOOSE * kappas):
                self.solve(knot, f, s.W[knot, f], TIGHT * kappas[f])
            if np.any(s.slopes[knot] < 0.5 * before):  # else it is rounding alone
                better = True
                self.counted(knot)
                for i in np.flatnonzero((s.left == knot) | (s.right == knot)):
                    self.judge(i)
        return better

    def tied(self, a: int, b: int) -> bool:
        """Return whether T4 is what rounding leaves of the gradients: kappa adds nothing."""
        kappas = [self.kappa(f, a, b) for f in range(len(self.parts))]
        return bool(np.all(kappas <= self.s.slopes[[a, b]]))

    def solve(self, knot: int, f: int, W: np.ndarray, goal: float | None) -> None:
        """Take Newton's steps from W until the gradient is at most `goal`, or is only rounding."""
        s, alpha, problem = self.s, float(self.s.at[knot]), self.parts[f].problem
        objective = Objective(problem, alpha, self.link, self.S[f])
        at = GeneralizedState(0, W, W, 1.0, 0.0, 0.0, 0.0, math.inf, alpha)
        curved = Factor(objective.link.L * self.S[f] + alpha * np.eye(problem.d))
        gradient = objective.judge(at)
        for _ in range(NEWTON):
            slope = np.linalg.norm(gradient)
            enough = SCANNED * alpha * np.linalg.norm(at.W) if goal is None else goal
            if slope <= max(enough - objective.blur, objective.blur):
                break
            step = self.newton(problem, at.W, gradient, alpha, curved)
            for halvings in range(SHORTER):
                new = replace(at, W=at.W + 0.5**halvings * step)
                new_gradient = objective.judge(new)
                if (
                    new.loss + alpha / 2 * np.vdot(new.W, new.W)
                    <= at.loss + alpha / 2 * np.vdot(at.W, at.W)
                    or np.linalg.norm(new_gradient) < slope
                ):
                    break
            at, gradient = new, new_gradient
        s.W[knot, f], s.gradients[knot, f] = at.W, gradient - alpha * at.W
        s.slopes[knot, f] = np.linalg.norm(gradient) * (1.0 + 1e-12) + objective.blur
        s.blur[knot, f] = objective.blur

    def newton(self, problem: Problem, W, gradient, alpha: float, curved: Factor) -> np.ndarray:
        """Return about -H^{-1} gradient, with the Hessian H of P at W, by conjugate gradients."""
        X, weights = problem.X, problem.weights[:, None] / problem.weights.sum()
        p = softmax(np.asarray(X @ W), axis=1) if self.link == "softmax" else None

        def curvature(D: np.ndarray) -> np.ndarray:
            D = D.reshape(W.shape)
            F = np.asarray(X @ D)
            if p is not None:
                F = p * (F - (p * F).sum(axis=1, keepdims=True))
            return (np.asarray(X.T @ (weights * F)) + alpha * D).ravel()

        size = 2 * [W.size]
        H = LinearOperator(size, matvec=curvature, dtype=float)
        M = LinearOperator(size, lambda D: curved.solve(D.reshape(W.shape)).ravel(), dtype=float)
        step, _ = cg(H, -gradient.ravel(), rtol=INNER, maxiter=500, M=M)
        return step.reshape(W.shape)

    def kappa(self, f: int, a: int, b: int) -> float:
        """Return kappa between two knots, with room for rounding."""
        s, part = self.s, self.parts[f]
        D = s.W[b, f] - s.W[a, f]
        size = float(np.linalg.norm(D))
        kappa = abs(s.at[b] - s.at[a]) * size
        if self.link == "softmax":
            F = np.asarray(part.problem.X @ D)
            rho = float((F.max(axis=1) - F.min(axis=1)).max()) * (1.0 + 1e-9)
            mean = float(np.vdot(D, s.gradients[b, f] - s.gradients[a, f]))
            mean = max(mean, 0.0) + size * (s.blur[a, f] + s.blur[b, f])
            Q = mean * rho / -math.expm1(-rho) if rho > 0.0 else mean
            kappa += math.sqrt(part.norms.max() / 2.0) * Q
        return kappa * (1.0 + 1e-9)

    def slack(self, part: Part, f: int, a: int, b: int) -> np.ndarray:
        """Return (m,) by how much rounding may move a margin of a validation row."""
        W = self.s.W[[a, b], f]
        size = float(np.linalg.norm(W, axis=(1, 2)).max())
        return part.lengths * 2.0 * EPS * (W.shape[1] + 4.0) * size

    def uncertain(self, part: Part, f: int, a: int, b: int, first, last):
        """Return where margins from `first` to `last` (m, k) may be below those of T4's ball.

        That is at alpha_1, the smallest of the interval, where the ball is largest.
        """
        s, scale = self.s, math.sqrt(2.0) * part.lengths[:, None]
        alpha, e, kappa = s.at[a], float(s.slopes[[a, b], f].max()), self.kappa(f, a, b)
        first, last = alpha * first - scale * e, alpha * last - scale * e
        curved = scale * kappa
        return between_roots(curved, last - first - curved, first, first > 0.0, last > 0.0)
