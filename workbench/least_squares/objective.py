"""The objective of generalized least squares, its gradient, and a certificate."""

from __future__ import annotations

import numpy as np

from workbench.core.certificates import EPS
from workbench.core.problem import Problem
from workbench.least_squares.cluster import summed
from workbench.least_squares.links import check_link
from workbench.least_squares.products import cached_rows, gram, residuals, terms


def second_moment(problem: Problem) -> np.ndarray:
    """Return E[x x'] (d, d) over the weighted rows, in double precision."""
    total = problem.weights.sum()
    return summed(lambda part: gram(part.X, part.weights, total), problem)


class Objective:
    """The objective P of a problem, its gradient, and bounds that rounding cannot
    break.

    `S` is the (d, d) second moment of the rows.
    """

    def __init__(self, problem: Problem, alpha: float, link: str, S: np.ndarray):
        X, n = problem.X, problem.n
        self.problem, self.alpha, self.link = problem, alpha, check_link(link)
        self.total = float(problem.weights.sum())
        self.length = float(np.sqrt(np.trace(S)))  # of rows, their root mean square
        self.longest = int(np.diff(X.indptr).max()) if problem.is_sparse else problem.d
        self.eps, piece = float(np.finfo(X.dtype).eps), min(n, cached_rows(X))
        depth = float(np.sqrt((terms(X) + 2.0) ** 2 @ S.diagonal()))
        self.depth = self.eps / 2 * depth + EPS * n / piece * self.length
        self.sums = EPS * (
            piece + n / piece + problem.d * problem.k
        )  # of double precision
        self.W: np.ndarray | None = None  # the point of the last pass over the rows

    def evaluate(self, W: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Return the mean loss at W, the mean of <r, F> and E[x r'], from one pass over
        the rows.

        F are the scores and r = y^ - y their residuals. A second call at the same W
        costs nothing.
        """
        if W is not self.W:
            of = self.link.residuals
            sums = summed(lambda p: residuals(p.X, p.y, W, of, p.weights), self.problem)
            loss, inner, G = (value / self.total for value in sums)
            self.W, self.means = W, (loss, inner, G)
        return self.means

    def gradient(self, W: np.ndarray) -> np.ndarray:
        """Return the gradient of P."""
        return self.evaluate(W)[2] + self.alpha * W

    def certify(self, s) -> None:
        """Put the objective and the bounds at its W into the state.

        Let F be the scores and r their residuals as computed. Since the loss is convex
        and of curvature L, it is at most loss(F) + <r, XW - F> + L/2 |XW - F|^2 at the
        true scores, and X'r, from any F, makes a dual point whose value is this bound
        without its last term, minus
        |X'r + alpha W|^2 / (2 alpha). The middle term is known: in single precision it is added,
        and the rounding that remains is that of sums in X'r.
        """
        alpha, L, eps, k = self.alpha, self.link.L, self.eps, self.problem.k
        s.loss, inner, G = self.evaluate(s.W)
        square = float(np.vdot(s.W, s.W))
        slope, size = float(np.linalg.norm(self.gradient(s.W))), float(np.sqrt(square))
        value = s.loss + alpha / 2 * square
        # How far scores, residuals and X'r may be off, as root mean squares over rows;
        # a loss of zero or more is at least |r|^2 / (2 L).
        residual = float(np.sqrt(2 * L * max(s.loss, 0.0)))
        score = eps * (self.longest + 3) * self.length * size
        rough = eps * (4 + k**0.5 + residual)
        off = self.depth * residual
        blur = (
            eps * (s.loss + 4 + k / 2)
            + self.sums * (s.loss + alpha * square)
            + score * rough
        )
        s.primal = value + blur + L / 2 * score**2
        if eps > EPS:
            shift = float(np.vdot(s.W, G)) - inner
            value, s.primal = value + shift, s.primal + shift + off * size
        else:
            blur, s.primal = blur + residual * score, s.primal + residual * score
        lower = (
            value
            - blur
            - off * size
            - (slope + off + rough * self.length) ** 2 / (2 * alpha)
        )
        s.lower, s.upper = max(s.lower, lower), min(s.upper, s.primal)
