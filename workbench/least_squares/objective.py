"""The objective of generalized least squares, its gradient, and its bounds."""

import numpy as np

from workbench.core.certificates import EPS
from workbench.core.problem import Array, Problem
from workbench.least_squares.cluster import summed
from workbench.least_squares.links import check_link
from workbench.least_squares.products import cached_rows, gram, residuals, terms


def second_moment(problem: Problem) -> Array:
    """Return E[x x'] (d, d) over the weighted rows, in double precision."""
    total = problem.weights.sum()
    return summed(lambda part: gram(part.X, part.weights, total), problem)


class Objective:
    """The objective P of a problem, its gradient, and bounds that allow for rounding.

    `S` is the (d, d) second moment of the rows.
    """

    def __init__(self, problem: Problem, alpha: float, link: str, S: Array):
        X = problem.X
        n = problem.n
        self.problem = problem
        self.alpha = alpha
        self.link = check_link(link)
        self.total = float(problem.weights.sum())
        self.length = float(np.sqrt(np.trace(S)))  # root mean square of rows' lengths
        self.longest = problem.d  # largest number of entries of a row
        if problem.is_sparse:
            self.longest = int(np.diff(X.indptr).max())
        self.eps = float(np.finfo(X.dtype).eps)
        piece = min(n, cached_rows(X))
        depth = float(np.sqrt((terms(X) + 2.0) ** 2 @ S.diagonal()))
        self.depth = self.eps / 2 * depth + EPS * n / piece * self.length
        # Relative error of sums in double precision.
        self.sums = EPS * (piece + n / piece + problem.d * problem.k)
        self.W: Array | None = None  # the point of the last pass over the rows

    def evaluate(self, W: Array) -> tuple[float, float, Array]:
        """Return the mean loss at W, the mean of <r, F> and E[x r'], from one pass over
        the rows.

        F are the scores, and r = y^ - y are their residuals. A second call at the same
        W takes no time.
        """
        if W is not self.W:
            of = self.link.residuals
            sums = summed(lambda p: residuals(p.X, p.y, W, of, p.weights), self.problem)
            loss, inner, G = (value / self.total for value in sums)
            self.W = W
            self.means = loss, inner, G
        return self.means

    def gradient(self, W: Array) -> Array:
        """Return the gradient of P."""
        return self.evaluate(W)[2] + self.alpha * W

    def certify(self, s) -> None:
        """Write the objective and the bounds at the state's W into the state.

        Let F be the scores and r their residuals as computed. The loss is convex with
        curvature at most L, so at the true scores it is at most loss(F) + <r, XW - F> +
        L/2 |XW - F|^2. For any F, X'r gives a dual point. Its value is this bound
        without the last term, minus |X'r + alpha W|^2 / (2 alpha). The middle term can
        be computed: in single precision it is added, so that only the rounding of sums
        in X'r remains.
        """
        alpha = self.alpha
        L = self.link.L
        k = self.problem.k
        s.loss, inner, G = self.evaluate(s.W)
        square = float(np.vdot(s.W, s.W))
        size = float(np.sqrt(square))
        slope = float(np.linalg.norm(self.gradient(s.W)))
        # Bounds on the errors of scores, residuals and X'r, as root mean squares over
        # rows. A loss that is not negative is at least |r|^2 / (2 L).
        residual = float(np.sqrt(2 * L * max(s.loss, 0.0)))
        score = self.eps * (self.longest + 3) * self.length * size
        rough = self.eps * (4 + k**0.5 + residual)
        off = self.depth * residual
        blur = self.eps * (s.loss + 4 + k / 2)
        blur = blur + self.sums * (s.loss + alpha * square) + score * rough
        value = s.loss + alpha / 2 * square
        s.primal = value + blur + L / 2 * score**2
        if self.eps > EPS:
            shift = float(np.vdot(s.W, G)) - inner
            value += shift
            s.primal = s.primal + shift + off * size
        else:
            blur += residual * score
            s.primal += residual * score
        steepest = slope + off + rough * self.length
        lower = value - blur - off * size - steepest**2 / (2 * alpha)
        s.lower = max(s.lower, lower)
        s.upper = min(s.upper, s.primal)
