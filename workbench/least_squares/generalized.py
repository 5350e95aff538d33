"""Generalized least squares (Algorithm 1), and its accelerated variant (Section 4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.certificates import bounds
from workbench.core.checks import check_positive, check_sparse
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State, resumable
from workbench.least_squares.links import check_link
from workbench.least_squares.objective import Objective, second_moment
from workbench.least_squares.products import Factor, check_size


@dataclass
class Iterate:
    """The weights ``W`` (d, k) of Algorithm 1 after ``round`` updates.

    ``stepped`` (d, k) is where the last step ended. The accelerated method extrapolates
    from ``stepped`` to ``W``, and ``theta`` is the counter of its momentum. In the
    plain method ``stepped`` equals ``W``.
    """

    round: int
    W: Array
    stepped: Array
    theta: float


@dataclass
class GeneralizedState(Iterate, State):
    """An iterate, its mean ``loss`` and objective ``primal``, and the best bounds.

    ``primal`` is at least P(W), because the largest possible rounding error is added.
    All numbers are for this ``alpha``.
    """

    loss: float
    primal: float
    lower: float
    upper: float
    alpha: float

    def scores(self, X: Matrix) -> Array:
        return np.asarray(check_sparse(X) @ self.W)

    def info(self) -> Row:
        objective = {"primal": self.primal, "loss": self.loss}
        return bounds(self.lower, self.upper) | objective


@resumable("alpha")
def ls_generalized(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    link: str = "softmax",
    state: GeneralizedState | None = None,
) -> Iterator[GeneralizedState]:
    """Minimise P(W) = mean_i (Phi(W'x_i) - y_i.W'x_i) + alpha/2 |W|^2 by Algorithm 1.

    Every round solves one least squares problem, always with the same Cholesky factor.
    L is 1 for the identity link, 1/2 for the softmax (footnote 3) and 2 for the squared
    hinge. The paper gives no formula for its regulariser. Here L (S + alpha/L I)
    majorises the Hessian, where S is the second moment of the rows, so the identity
    link gives ridge regression in one step. P is alpha-strongly convex, so P(W) - |grad
    P(W)|^2 / (2 alpha) is a lower bound. Both bounds allow for rounding errors, which
    in single precision are about 1e-5 times |W| times the root mean squares of the
    lengths and of the residuals of rows. Centre features that are far from zero, or use
    double precision.

    Parameters
    ----------
    alpha : float > 0, the ridge penalty, relative to the mean loss of a row, weighted
        by the problem's weights (the paper's lambda for text is n alpha). The paper
        prints no value for dense rows; the default hardly changes its numbers on MNIST
    link : the map from scores to predictions: "identity" or "softmax"; or
        "squared_hinge", which is ours and stands for a loss
        (:mod:`workbench.least_squares.links`)

    Raises
    ------
    ValueError
        If `alpha` is not a positive number, `link` is unknown, or there are too many
        features for one Gram matrix.
    """
    yield from descend(problem, alpha, link, False, state)


@resumable("alpha")
def ls_accelerated(
    problem: Problem,
    *,
    alpha: float = 1e-5,
    link: str = "softmax",
    state: GeneralizedState | None = None,
) -> Iterator[GeneralizedState]:
    """Minimise the objective of :func:`ls_generalized` with Nesterov's momentum, in the
    norm of S.

    The paper mentions this variant in Section 4, with an error of O(1/t^2), but prints
    no steps. These are the steps of Beck and Teboulle (2009). In addition, the momentum
    is restarted when it points uphill (O'Donoghue, Candes, 2015). The state's W is the
    extrapolated point, whose loss and gradient are known.
    """
    yield from descend(problem, alpha, link, True, state)


def descend(
    problem: Problem,
    alpha: float,
    link: str,
    accelerated: bool,
    state: GeneralizedState | None,
) -> Iterator[GeneralizedState]:
    """Yield the rounds of both methods."""
    alpha = check_positive(alpha, "alpha")
    L = check_link(link).L
    check_size(problem.d)
    H = second_moment(problem)  # E[x x']
    objective = Objective(problem, alpha, link, H)
    H.flat[:: problem.d + 1] += alpha / L
    R = Factor(H)
    zeros = np.zeros((problem.d, problem.k))
    s = state or GeneralizedState(
        round=0,
        W=zeros,
        stepped=zeros,
        theta=1.0,
        loss=0.0,
        primal=0.0,
        lower=0.0,
        upper=np.inf,
        alpha=alpha,
    )
    if s.alpha != alpha:  # momentum and bounds do not hold for another alpha
        s.alpha = alpha
        s.theta = 1.0
        s.lower = 0.0
        s.upper = np.inf
    objective.certify(s)
    yield s
    for _ in updates(s, objective.gradient, R, L, accelerated):
        objective.certify(s)
        yield s


def updates(
    s: Iterate,
    gradient: Callable[[Array], Array],
    R: Factor,
    L: float,
    accelerated: bool,
) -> Iterator[Iterate]:
    """Yield `s` after each update of its W by Algorithm 1.

    With predictions y^_i = g(W_t x_i), `gradient` returns E[(y^ - y) x'] + alpha W,
    transposed, and `R` is the factor of E[x x'] + alpha/L I.
    """
    while True:  # repeat
        G = gradient(s.W)
        W = s.W - R.solve(G) / L  # (14)
        if accelerated:
            s.W, s.theta = extrapolated(W, s.stepped, G, s.theta)
        else:
            s.W = W
        s.stepped = W
        s.round += 1
        yield s


def extrapolated(
    W: Array, before: Array, gradient: Array, theta: float
) -> tuple[Array, float]:
    """Return the point for the next step of Nesterov's method, and the next counter.

    The last two steps ended at `W` and `before`. If the last step's gradient points
    along their difference, the momentum points uphill and is restarted. The counter
    `theta` begins at 1.
    """
    if np.vdot(gradient, W - before) > 0:
        theta = 1.0
    next_theta = (1 + np.sqrt(1 + 4 * theta**2)) / 2
    return W + (theta - 1) / next_theta * (W - before), next_theta
