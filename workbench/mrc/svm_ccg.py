"""SVM-CCG: the L1-norm support vector machine by column and constraint generation."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_not_negative
from workbench.core.problem import Array, Problem
from workbench.core.state import Row, resumable
from workbench.mrc.l1svm import L1SVM, SVMState, at_wrong_labels, rule, two_classes
from workbench.mrc.master import add_features, change_rows, largest, solve
from workbench.mrc.risk import squared_norm, with_intercept

# Samples with a margin of at most 1.01 are in the first program, as in the authors'
# code.
MARGIN_SLACK = 0.01
ITERATIONS = 100  # iterations of the first-order method that finds the first program
SMOOTHING = 0.2  # half-width of the bend of the smoothed hinge


@dataclass
class SVMCutState(SVMState):
    """One iterate of column and constraint generation.

    ``samples`` (c,) and ``features`` (f,) are I and J. ``w`` (d + 1,), the intercept
    last, solves the program over them, whose value is ``objective``; ``alpha`` (c,)
    solves its dual. The shortfalls ``short`` (n,) and the derivatives ``slope`` (d,)
    measure the violation of each sample and each feature.
    """

    samples: Array
    features: Array
    w: Array
    alpha: Array
    short: Array
    slope: Array
    column_basis: Array
    row_basis: Array

    def info(self) -> Row:
        return super().info() | {
            "constraints": len(self.samples),
            "features": len(self.features),
        }


@resumable("eps", "n_max", "m_max")
def svm_ccg(
    problem: Problem,
    *,
    lam: float = 0.01,
    eps: float = 1e-2,
    n_max: int = 400,
    m_max: int = 400,
    state: SVMCutState | None = None,
) -> Iterator[SVMCutState]:
    """Learn the L1-norm SVM of two classes by column and constraint generation.

    Every round solves the program over a few samples and features, adds the samples and
    features that its solution violates, and removes none. The stream ends when nothing
    is violated by more than `eps`. Then the program's value is at most `eps` below the
    optimum, and exceeds it by at most the fraction `eps` / (n lam).

    Parameters
    ----------
    problem : Problem of two classes
    lam : float > 0, the weight of ``|w|_1`` relative to the mean hinge loss; the
        intercept is not penalised
    eps : float >= 0, the largest violation that is tolerated, both of a margin and of
        the bound ``n lam`` on the derivatives of the *sum* of the losses. The authors'
        code has one tolerance for both, too
    n_max : int >= 1, the largest number of samples that a round adds, the most violated
        first. The authors add all violated samples
    m_max : int >= 1, the largest number of features that a round adds, the most
        violated first. The authors add 400 features

    Raises
    ------
    ValueError
        If a parameter is outside its range, or there are more than two classes.

    References
    ----------
    Dedieu, Mazumder, Wang: Solving L1-regularized SVMs and related linear programs:
    revisiting the effectiveness of column and constraint generation. JMLR 23 (2022).
    """
    check_not_negative(eps=eps)
    check_counts(n_max=n_max, m_max=m_max)
    svm = two_classes("svm_ccg", problem, lam)
    s = state or start(svm, lam, m_max)
    yield s
    while True:
        excess = np.abs(s.slope) - problem.n * s.lam
        excess[s.features] = -np.inf  # in the program already
        features = largest(excess, eps, m_max)
        short = s.short.copy()
        short[s.samples] = -np.inf
        samples = largest(short, eps, n_max)
        if len(features) == 0 and len(samples) == 0:
            return
        add_features(s, features)
        change_rows(s, slice(None), len(samples))
        s.samples = np.concatenate([s.samples, samples])
        lpsolve(svm, s)
        s.round += 1
        yield s


def lpsolve(svm: L1SVM, s: SVMCutState) -> None:
    """Solve the program over I and J, with the sum of the losses, from the last basis.

    Then price every sample and every feature at the solution, and update the bounds.
    """
    n = len(svm.y)
    f = len(s.features)
    z = 2.0 * svm.y[s.samples] - 1.0
    optimum = solve(
        s,
        F=sp.csr_matrix(sp.diags(-z) @ svm.X[s.samples][:, s.features]),
        g=-z,
        b=np.full(len(z), -1.0),
        linear=np.zeros(f),
        lam=np.full(f, n * s.lam),
        cost=0.0,
        loss=1.0,
    )
    s.w = np.zeros_like(s.w)
    s.w[s.features] = optimum.w
    s.w[-1] = optimum.t
    s.alpha = optimum.alpha
    s.objective = optimum.value / n
    alpha = np.zeros(n)
    alpha[s.samples] = s.alpha
    price(svm, s, alpha)


def price(svm: L1SVM, s: SVMCutState, alpha: Array) -> None:
    """Price all samples at w and all features at `alpha`; keep the better bounds."""
    W = rule(s.w)
    short = svm.shortfall(W)
    g, lower = svm.lower(at_wrong_labels(alpha, svm.y))
    s.short = short.sum(axis=1)
    s.slope = g[:, 0] - g[:, 1]
    s.offer(W, svm.upper(W, short), alpha, lower)


def start(svm: L1SVM, lam: float, m_max: int) -> SVMCutState:
    """Return round 0: the program that a first-order method suggests.

    The method works on the `m_max` features with the most negative reduced cost at w =
    0, which are the most correlated with the labels. J has those that the method does
    not leave at zero. I has the samples whose margin is then at most 1.01, and the
    worst sample of either class.
    """
    n, d = svm.X.shape
    s = SVMCutState(
        round=0,
        samples=np.zeros(0, int),
        features=np.zeros(0, int),
        w=np.zeros(d + 1),
        alpha=np.zeros(0),
        objective=np.inf,
        short=np.zeros(n),
        slope=np.zeros(d),
        column_basis=np.zeros(0, np.int8),
        row_basis=np.zeros(0, np.int8),
        W_best=np.zeros((2, d + 1)),
        alpha_best=np.zeros(n),
        lower=0.0,
        upper=np.inf,
        lam=lam,
    )
    price(svm, s, np.ones(n))
    features = largest(np.abs(s.slope), -1.0, m_max)
    s.w[features], s.w[-1] = smoothed(svm, lam, features)
    price(svm, s, np.ones(n))
    near = s.short >= -MARGIN_SLACK
    for c in range(2):
        near[np.argmax(np.where(svm.y == c, s.short, -np.inf))] = True
    s.samples = np.flatnonzero(near)
    s.features = np.flatnonzero(s.w[:-1])
    lpsolve(svm, s)
    return s


def smoothed(svm: L1SVM, lam: float, features: Array) -> tuple[Array, float]:
    """Minimise the objective with Nesterov's smoothed hinge over `features`, by FISTA.

    Returns
    -------
    (f,) coefficients, many of them exactly zero, and the intercept
    """
    X = svm.X[:, features]
    z = 2.0 * svm.y - 1.0
    n = len(z)
    step = 4.0 * SMOOTHING * n / squared_norm(with_intercept(X))
    w = np.zeros(len(features))
    b = 0.0
    v = w  # v and c are w and b, extrapolated
    c = b
    theta = 1.0
    for _ in range(ITERATIONS):
        short = 1.0 - z * (X @ v + c)
        loss = z * np.clip(0.5 + short / (4.0 * SMOOTHING), 0.0, 1.0) / n
        moved = v + step * (X.T @ loss)
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - step * lam, 0.0)
        intercept = c + step * loss.sum()
        following = (1.0 + np.sqrt(1.0 + 4.0 * theta**2)) / 2.0
        momentum = (theta - 1.0) / following
        theta = following
        v = shrunk + momentum * (shrunk - w)
        c = intercept + momentum * (intercept - b)
        w = shrunk
        b = intercept
    return w, float(b)
