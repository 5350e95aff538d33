"""SVM-CCG: the L1-norm support vector machine by column and constraint generation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_not_negative
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import Row
from workbench.mrc.l1svm import L1SVM, SVMState, of_others, rule, two_classes
from workbench.mrc.master import Restricted, add_features, change_rows, largest, solve
from workbench.mrc.risk import squared_norm, with_intercept

NEARLY = 0.01  # a margin short of 1.01 joins the first program, as in the authors' code
ITERATIONS = 100  # iterations of the first-order method that finds the first program
SMOOTHING = 0.2  # half-width of the bend of the smoothed hinge


@dataclass
class SVMCutState(SVMState):
    """One iterate of column and constraint generation.

    ``samples`` (c,) and ``features`` (f,) are I and J. ``w`` (d + 1,), the intercept
    last, solves the program over them, whose value is ``objective``; ``alpha`` (c,)
    solves its dual. ``short`` (n,), the shortfalls, and ``slope`` (d,), the
    derivatives, price all samples and all features.
    """

    samples: np.ndarray
    features: np.ndarray
    w: np.ndarray
    alpha: np.ndarray
    short: np.ndarray
    slope: np.ndarray
    column_basis: np.ndarray
    row_basis: np.ndarray

    def info(self) -> Row:
        counts = {"constraints": len(self.samples), "features": len(self.features)}
        return super().info() | counts


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
    """Learn the L1-norm support vector machine of two classes by column and constraint
    generation.

    Every round solves the program over few samples and features, adds those that it
    violates and removes none. Ends by itself when there are no more: then the program's
    value is at most `eps` below the optimum, and exceeds it by at most the fraction
    `eps` / (n lam).

    Parameters
    ----------
    problem : Problem of two classes
    lam : > 0, weight of ``|w|_1`` relative to the mean hinge loss; the intercept is
        free. A `state` that is given has its own
    eps : >= 0, smallest violation that counts: of a margin, or of a derivative of the
        *sum* of the losses, beyond ``n lam``. One tolerance for both, as in the
        authors' code
    n_max, m_max : >= 1, samples and features added per round, the most violated first.
        The authors add 400 features and all samples

    Raises
    ------
    ValueError
        For a parameter outside its range, or more than two classes.

    References
    ----------
    Dedieu, Mazumder, Wang: Solving L1-regularized SVMs and related linear programs: revisiting
    the effectiveness of column and constraint generation. JMLR 23 (2022).
    """
    check_not_negative(eps=eps)
    check_counts(n_max=n_max, m_max=m_max)
    svm = two_classes("svm_ccg", problem, lam if state is None else state.lam)
    s = start(svm, lam, m_max) if state is None else state
    yield s
    while True:
        excess, short = np.abs(s.slope) - problem.n * s.lam, s.short.copy()
        excess[s.features] = short[s.samples] = -np.inf  # in the program already
        features, samples = largest(excess, eps, m_max), largest(short, eps, n_max)
        if not len(features) and not len(samples):
            return
        add_features(s, features)
        change_rows(s, slice(None), len(samples))
        s.samples = np.concatenate([s.samples, samples])
        lpsolve(svm, s)
        s.round += 1
        yield s


def lpsolve(svm: L1SVM, s: SVMCutState) -> None:
    """Solve the program over I and J, in the scale of the sum, from the last basis.

    Then price every sample and every feature at the solution, and renew the
    certificate.
    """
    n, f, z = len(svm.y), len(s.features), 2.0 * svm.y[s.samples] - 1.0
    F = sp.csr_matrix(sp.diags(-z) @ svm.X[s.samples][:, s.features])
    lam = np.full(f, n * s.lam)
    b = np.full(len(z), -1.0)
    found = solve(Restricted(F, -z, b, np.zeros(f), lam, cost=0.0, loss=1.0), s)
    s.w = np.zeros_like(s.w)
    s.w[s.features], s.w[-1] = found.w, found.t
    s.alpha, s.objective = found.alpha, found.value / n
    alpha = np.zeros(n)
    alpha[s.samples] = s.alpha
    price(svm, s, alpha)


def price(svm: L1SVM, s: SVMCutState, alpha: np.ndarray) -> None:
    """Price all samples at w and all features at (n,) `alpha`, and keep the better
    bounds."""
    W = rule(s.w)
    short, (g, lower) = svm.shortfall(W), svm.lower(of_others(alpha, svm.y))
    s.short, s.slope = short.sum(axis=1), g[:, 0] - g[:, 1]
    s.offer(W, svm.upper(W, short), alpha, lower)


def start(svm: L1SVM, lam: float, m_max: int) -> SVMCutState:
    """Return round 0: the program over the samples and features that a first-order
    method finds.

    Of the `m_max` features of most negative reduced cost at w = 0, which are the most
    correlated with the labels, J keeps those that the method does not leave at zero; I
    are the samples whose margin it does not bring beyond 1, and the worst of either
    class.
    """
    n, d = svm.X.shape
    nothing = np.zeros(0, dtype=np.int8)
    s = SVMCutState(
        round=0,
        samples=np.zeros(0, int),
        features=np.zeros(0, int),
        w=np.zeros(d + 1),
        alpha=np.zeros(0),
        objective=np.inf,
        short=np.zeros(n),
        slope=np.zeros(d),
        column_basis=nothing,
        row_basis=nothing,
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
    near = s.short >= -NEARLY
    for c in range(2):
        near[np.argmax(np.where(svm.y == c, s.short, -np.inf))] = True
    s.samples, s.features = np.flatnonzero(near), np.flatnonzero(s.w[:-1])
    lpsolve(svm, s)
    return s


def smoothed(svm: L1SVM, lam: float, features: np.ndarray) -> tuple[np.ndarray, float]:
    """Minimise the objective with Nesterov's smoothed hinge over `features`, by FISTA.

    Returns
    -------
    (f,) coefficients, many of them exactly zero, and the intercept
    """
    X, z, n = svm.X[:, features], 2.0 * svm.y - 1.0, len(svm.y)
    step = 4.0 * SMOOTHING * n / squared_norm(with_intercept(X))
    w, b = np.zeros(len(features)), 0.0
    v, c, theta = w, b, 1.0
    for _ in range(ITERATIONS):
        short = 1.0 - z * (X @ v + c)
        loss = z * np.clip(0.5 + short / (4.0 * SMOOTHING), 0.0, 1.0) / n
        moved = v + step * (X.T @ loss)
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - step * lam, 0.0)
        intercept = c + step * loss.sum()
        theta, before = (1.0 + np.sqrt(1.0 + 4.0 * theta**2)) / 2.0, theta
        momentum = (before - 1.0) / theta
        v, c = shrunk + momentum * (shrunk - w), intercept + momentum * (intercept - b)
        w, b = shrunk, intercept
    return w, float(b)
