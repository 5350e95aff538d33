"""The kernels of least squares revisited on problems of a few rows, against the
formulas."""

from copy import deepcopy
from dataclasses import replace
from itertools import islice

import numpy as np
from helpers import each
from numpy.testing import assert_allclose
from pytest import approx
from scipy.linalg import block_diag
from scipy.special import log_softmax

from workbench.least_squares import products
from workbench.least_squares.block_visits import RAISES
from workbench.least_squares.calibrated import ls_calibrated, project
from workbench.least_squares.generalized import (
    extrapolated,
    ls_accelerated,
    ls_generalized,
)
from workbench.least_squares.generators import fitted
from workbench.least_squares.links import LINKS
from workbench.least_squares.passes import ls_stagewise_passes
from workbench.least_squares.stagewise import ls_stagewise

F = np.array(
    [[0.5, -1.0, 2.0], [0.0, 0.0, 0.0], [-3.0, 1.5, 1.0], [800.0, -400.0, 2.0]]
)
Y = np.array([2, 0, 1, 0])


def by_formula(name, F, T, weights):
    """The weighted loss of all rows and its gradient."""
    if name == "identity":
        losses = ((F - T) ** 2).sum(axis=1) / 2
        R = F - T
    elif name == "softmax":
        logs = log_softmax(F, axis=1)
        losses = -(T * logs).sum(axis=1)
        R = np.exp(logs) - T
    else:
        t = 2 * T - 1
        short = np.maximum(1 - t * F, 0)
        losses = (short**2).sum(axis=1)
        R = -2 * t * short
    return weights @ losses, weights[:, None] * R


def weighted(problem):
    """The problem with weights from 1 to 3, their sum, and zeros and ones for its
    labels."""
    weights = 1.0 + np.arange(problem.n) % 5 / 2
    return (
        replace(problem, weights=weights),
        weights.sum(),
        np.eye(problem.k)[problem.y],
    )


@each("name", LINKS)
def test_links_by_their_formulas(name):
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    loss, R = by_formula(name, F, np.eye(3)[Y], weights)
    for dtype, close in ((np.float64, 1e-12), (np.float32, 1e-5)):
        found = np.empty(F.shape, dtype)
        of = LINKS[name].residuals(F.astype(dtype), Y, found, weights)
        assert of == approx(loss, rel=close)
        assert_allclose(found, R, rtol=close, atol=close / 10)


def test_projections_by_hand():
    V = np.array(
        [[0.5, 0.5, 0.5], [2.0, 0.0, 0.0], [1.0, 0.8, -3.0], [-5.0, -5.0, -6.0]]
    )
    project(V)
    third = 1 / 3
    expected = [[third] * 3, [1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.5, 0.5, 0.0]]
    assert_allclose(V, expected, atol=1e-15)
    V = np.array([[10.0, 4.0, 3.5, 0.0], [0.9, 0.35, 0.3, -0.2]])
    project(V)
    assert_allclose(V, [[1, 0, 0, 0], [2.15 / 3, 0.5 / 3, 0.35 / 3, 0]], atol=1e-15)
    one = np.array([[7.0], [-7.0]])
    project(one)
    assert one.tolist() == [[1.0], [1.0]]


def test_momentum_by_hand():
    W = np.array([[1.0, 3.0]])
    before = np.array([[0.5, 1.0]])
    point, after = extrapolated(W, before, -np.ones((1, 2)), 2.0)
    assert after == (1 + np.sqrt(17)) / 2
    assert_allclose(point, W + (W - before) / after, rtol=1e-15)
    # uphill: it restarts
    point, after = extrapolated(W, before, np.full((1, 2), 0.1), 2.0)
    assert after == (1 + np.sqrt(5)) / 2 and point.tolist() == W.tolist()
    _, after = extrapolated(W, before, np.zeros((1, 2)), 2.0)  # neither
    assert after == (1 + np.sqrt(17)) / 2


def by_steps(link, Z, F, T, weights, alpha, M, old, accelerated=False):
    """Yield the iterates of Algorithm 1 for scores F + Z V and a penalty on old + V.

    With each V come the one before momentum, the size of momentum, the loss and the
    gradient.
    """
    n = weights.sum()
    L = LINKS[link].L
    H = Z.T @ (weights[:, None] * Z) / n + alpha / L * M
    V = stepped = np.zeros_like(old)
    theta = 1.0
    while True:
        loss, R = by_formula(link, F + Z @ V, T, weights)
        gradient = Z.T @ R / n + alpha * M @ (old + V)
        yield V, stepped, theta, loss / n, gradient
        before = stepped
        V = stepped = V - np.linalg.solve(H, gradient) / L
        if accelerated:
            V, theta = extrapolated(stepped, before, gradient, theta)


def bounds(W, loss, gradient, alpha):
    """Return the objective at W, and the bound that strong convexity gives there."""
    primal = loss + alpha / 2 * (W**2).sum()
    return primal, primal - (gradient**2).sum() / (2 * alpha)


@each("solver", [ls_generalized, ls_accelerated])
@each("link", ["identity", "softmax"])
def test_the_rounds_of_algorithm_1(link, solver, blobs):
    problem, _, T = weighted(blobs(n=20, d=3))
    settings = {"alpha": 0.3, "link": link}
    X = problem.X
    given = T, problem.weights
    eye = np.eye(3)
    lower = 0.0
    upper = np.inf
    steps = by_steps(
        link, X, 0.0, *given, 0.3, eye, 0.0 * eye, solver is ls_accelerated
    )
    for s, step in zip(islice(solver(problem, **settings), 8), steps):
        W, stepped, theta, loss, gradient = step
        primal, bound = bounds(W, loss, gradient, 0.3)
        lower = max(lower, bound)
        upper = min(upper, primal)
        assert_allclose(s.W, W, atol=1e-12)
        found = s.loss, s.primal, s.lower, s.upper, s.theta
        assert_allclose(found, [loss, primal, lower, upper, theta], atol=1e-12)
        assert_allclose(s.stepped, stepped, atol=1e-12)
    assert s.round == 7
    kept = s.lower, s.upper, s.theta, s.primal
    again = next(solver(problem, **settings, state=s))
    assert (again.lower, again.upper, again.theta, again.primal) == kept
    for alpha in (0.6, 0.15):  # another optimum is above, and below
        other = next(solver(problem, **settings | {"alpha": alpha}, state=s))
        assert other.theta == 1.0 and other.alpha == alpha
        *_, loss, gradient = next(by_steps(link, X, X @ s.W, *given, alpha, eye, s.W))
        primal, bound = bounds(s.W, loss, gradient, alpha)
        assert other.primal == other.upper == approx(primal, rel=1e-12)
        assert other.lower == approx(max(0.0, bound), abs=1e-12)


@each("power, hinges", [(1, False), (2, False), (3, False), (3, True)])
def test_the_rounds_of_algorithm_2(power, hinges, blobs):
    problem, n, T = weighted(blobs(n=20, d=3))
    X = problem.X
    alpha = 0.1
    k = 3
    weights = problem.weights[:, None]
    P = between = refitted = np.zeros((20, k))
    Ws = []
    Vs = []

    def squared_error(P):
        return approx((weights * (T - P) ** 2).sum() / n, abs=1e-9)

    for s in islice(ls_calibrated(problem, alpha=alpha, basis=power, hinges=hinges), 5):
        assert_allclose(s.predictions, P, atol=1e-9)
        assert_allclose(s.W, np.reshape(Ws, (-1, 3, k)), atol=1e-9)
        assert_allclose(s.V, np.reshape(Vs, (-1, power * k, k)), atol=1e-5)
        assert s.squared_error == squared_error(P)
        assert s.round == len(Ws)
        if Ws:
            assert s.fitted == squared_error(between)
            assert s.refitted == squared_error(refitted)
            assert_allclose(s.scores(X), P, atol=1e-9)
        else:
            assert s.fitted == s.refitted == s.squared_error
        S = X.T @ (weights * X) / n
        W = np.linalg.solve(S + alpha * np.eye(3), X.T @ (weights * (T - P)) / n)
        between = P + X @ W
        G = np.hstack([between**m for m in range(1, power + 1)])
        if hinges:
            G = np.hstack([between, *((between - t).clip(0) for t in (1 / 3, 2 / 3))])
        q = power * k
        ridge = 1e-8 * (weights * G**2).sum() / q * np.eye(q)
        fitted = np.linalg.solve(
            G.T @ (weights * G) + ridge, G.T @ (weights * (T - between))
        )
        V = np.eye(q, k) + fitted
        refitted = G @ V
        P = refitted.copy()
        project(P)
        Ws.append(W)
        Vs.append(V)
    assert s.round == 4


@each(
    "solver, calibrated",
    [(ls_stagewise, False), (ls_stagewise, True), (ls_stagewise_passes, False)],
)
@each("features", ["fourier", "nystroem"])
@each("link", ["identity", "softmax"])
def test_the_rounds_of_algorithm_3(link, features, solver, calibrated, blobs):
    problem, n, T = weighted(blobs(n=30, d=3))
    k = 3
    alpha = 0.2
    weights = problem.weights
    sizes = {"features": features, "n_features": 8, "block": 4}
    generator = fitted(problem, features, 8, 4, 1.0, 0)
    Z = []
    M = []
    for b in range(2):
        Z.append(np.empty((30, generator.width(b)), "f4"))
        generator.make(b)(problem.X, Z[b])
        penalty = generator.penalty(b)
        M.append(np.eye(Z[b].shape[1]) if penalty is None else penalty)
    parts = [generator.part(b) for b in range(2)]
    W = np.zeros((generator.n_features, k))
    F = np.zeros((30, k))
    passes = 2 if solver is ls_stagewise_passes else 1
    settings = sizes | {"alpha": alpha, "link": link, "inner": 3}
    settings |= {"passes": 2} if passes == 2 else {"calibrate": calibrated}
    seen = []
    for s in solver(problem, **settings):
        loss = by_formula(link, F, T, weights)[0] / n
        penalty = sum(np.vdot(W[p], m @ W[p]) for p, m in zip(parts, M))
        assert_allclose(s.W, W, atol=2e-5)
        assert_allclose(s.F, F, atol=2e-5)
        assert s.loss == approx(loss, abs=1e-5)
        assert s.primal == approx(loss + alpha / 2 * penalty, abs=1e-5)
        again = next(solver(problem, **settings, state=deepcopy(s)))
        assert again.primal == approx(s.primal, rel=1e-12)
        seen.append(s.round)
        b = s.round % 2
        ZF = Z[b].astype(float)
        m = M[b]
        old = W[parts[b]]
        if calibrated:
            ZF = np.hstack([ZF, F])
            old = np.vstack([old, np.zeros((k, k))])
            m = block_diag(m, np.eye(k))
        steps = by_steps(link, ZF, F, T, weights, alpha, m, old, passes == 2)
        _, stepped, *_ = next(islice(steps, 1 if link == "identity" else 3, None))
        F = F + ZF @ stepped
        if calibrated:
            stepped, U = stepped[:-k], stepped[-k:]
            W = W + W @ U
        W = W.copy()
        W[parts[b]] += stepped
    assert seen == list(range(2 * passes + 1))


def test_a_block_stays_where_every_step_leads_uphill(blobs, monkeypatch):
    solve = products.Factor.solve
    shares = []
    monkeypatch.setattr(
        products.Factor, "solve", lambda self, G: -0.05 * solve(self, G)
    )

    def raised(self, share):
        shares.append(share)
        return self

    monkeypatch.setattr(products.Factor, "raised", raised)
    for s in ls_stagewise(blobs(n=30, d=3), n_features=4, block=4, alpha=0.2, inner=4):
        assert not s.W.any() and s.primal == approx(np.log(3))
    assert tuple(shares) == RAISES
