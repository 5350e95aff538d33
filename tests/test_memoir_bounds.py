"""The theorems' right-hand sides: limits, what is corrected, and runs that stay below them."""

from itertools import islice

import numpy as np
import pytest
from test_memoir import plain

from checks.memoir_bounds import l2_bound, risk_bound
from workbench.core.problem import as_problem
from workbench.memoir.pegasos import memoir_pegasos


def hinge(margins, rho):
    return np.maximum(0, 1 - margins / rho)


def test_the_risk_bound_by_hand():
    bound = risk_bound(np.array([2.0, 0.5, -1.0]), k=4, norm=0.3, length=2.0, rho=0.5, delta=0.1)
    chance = 3 * np.sqrt(np.log(40) / 6)
    assert bound == pytest.approx((0 + 0 + 3) / 3 + 4 * 4 / 0.5 * 0.6 / np.sqrt(3) + chance)


def test_the_inexact_hinge_needs_its_factor():
    rng = np.random.default_rng(0)
    rho, eps = 0.7, 0.25
    m = rng.normal(size=1000)
    inexact = m + eps * rho * rng.random(1000)
    assert (hinge(m, rho) <= (1 + eps) * hinge(inexact, rho * (1 + eps)) + 1e-12).all()
    # The margins as far off as they may be: equality; and below the factor it fails.
    worst = hinge(m + eps * rho, rho * (1 + eps))
    np.testing.assert_allclose(hinge(m, rho), (1 + eps) * worst, atol=1e-12)
    assert (hinge(m, rho) > worst + 1e-6).any()
    given = {"k": 9, "norm": 1.0, "rho": rho}
    assert risk_bound(m, **given) == pytest.approx(
        risk_bound(m + eps * rho, eps=eps, **given), rel=1e-12
    )


def test_the_l2_bound_by_hand():
    G, B = np.sqrt(0.25) + 2 + 0.1, np.sqrt(8)
    psi = 0.8 * 0.1 + 0.2 * B + np.sqrt(np.log(20) / (0.25 * 100))
    bound = l2_bound(100, lam=0.25, eps=0.1, missed=0.2, delta=0.05)
    assert bound == pytest.approx(G**2 * (1 + np.log(100)) / 50 + psi)
    # A search that is always wrong costs no more than the largest difference of two scores.
    lost = l2_bound(10, lam=0.25, missed=1.0)
    assert lost == pytest.approx(2.5**2 * (1 + np.log(10)) / 5 + B)


def test_the_l2_bound_goes_to_the_shortfall():
    T = 10.0 ** np.arange(1, 12)
    for eps in (0.0, 0.3):
        bound = l2_bound(T, lam=0.1, eps=eps)
        assert bound.shape == T.shape and (np.diff(bound) < 0).all()
        assert bound[-1] == pytest.approx(eps, abs=1e-4)
    assert (l2_bound(T, lam=0.1, eps=0.1) < l2_bound(T, lam=0.1, eps=0.2)).all()
    assert (l2_bound(T, lam=0.1, eps=0.1) < l2_bound(T, lam=0.01, eps=0.1)).all()


@pytest.fixture(scope="module")
def toy(blobs):
    """Return a problem of rows no longer than 1, lam, the optimum from both sides, and its W."""
    problem = blobs(n=120, d=5, k=4)
    X = problem.X / np.linalg.norm(problem.X, axis=1).max()
    problem, lam = as_problem(X, problem.y), 0.05
    *_, state = islice(memoir_pegasos(problem, lam=lam), 400)
    assert state.upper - state.lower < 0.02
    return problem, lam, state.lower, state.upper, state.W


def objective(problem, W, lam):
    V = problem.X @ W
    own, rows = V[np.arange(problem.n), problem.y].copy(), np.arange(problem.n)
    V[rows, problem.y] = -np.inf
    return lam / 2 * (W**2).sum() + np.maximum(0, 1 + V.max(axis=1) - own).mean()


@pytest.mark.parametrize("mips", ["exact", "random"])
def test_the_mean_of_runs_of_theorem_2_stays_below_its_bound(mips, toy):
    problem, lam, lower, upper, _ = toy
    eta0 = 1e6  # eta_t = 1 / (lam t + 1e-6)
    given = {"lam": lam, "eta0": eta0, "eta_step": eta0 * lam, "batch_size": 1, "mips": mips}
    runs = []
    for seed in range(3):
        means = plain(problem, average=True, seed=seed, **given)
        ends = islice(means, problem.n - 1, 25 * problem.n, problem.n)
        runs.append([((t + 1) * problem.n, objective(problem, W, lam)) for t, W in enumerate(ends)])
    steps, primal = np.mean(runs, axis=0).T
    assert steps[-1] == 25 * problem.n
    bound = l2_bound(steps, lam=lam, missed=float(mips == "random"))
    assert (primal <= lower + bound).all()
    if mips == "exact":
        assert primal[-1] - upper > 1e-3  # and there is something to bound
        assert (np.diff(primal[::8]) < 0).all()


@pytest.mark.parametrize("answer", ["always the same", "at random", "exact"])
def test_the_mean_shortfall_does_not_vanish_as_the_steps_do(answer):
    """One row x = 1 of class 0, k = 3, steps of MEMOIR-l1 without a penalty.

    f(mean W) - f* <= R^2 / (2 T eta_T) + S_T / T + the mean shortfall. Theorem 3 multiplies the
    shortfall by the mean step, S_T / T, which would let it vanish.
    """
    rng, T = np.random.default_rng(0), 50_000
    W, total, shortfall, far = np.zeros(3), np.zeros(3), 0.0, 0.0
    etas = 0.1 / np.sqrt(np.arange(1, T + 1))
    for eta in etas:
        total += W
        best = 1 + np.argmax(W[1:])
        r = {"always the same": 1, "at random": 1 + rng.integers(2), "exact": best}[answer]
        shortfall += max(0, 1 + W[best] - W[0]) - max(0, 1 + W[r] - W[0])
        if 1 + W[r] - W[0] > 0:
            W[0], W[r] = W[0] + eta, W[r] - eta
        far = max(far, np.linalg.norm(W - [0.5, -0.5, -0.5]))  # an optimum: f* = 0
    mean = total / T
    value = max(0, 1 + mean[1:].max() - mean[0])
    vanishing = far**2 / (2 * T * etas[-1]) + etas.sum() / T  # subgradients of at most sqrt(2)
    assert value <= vanishing + shortfall / T
    if answer == "always the same":
        claimed = vanishing + 2 * far * np.sqrt(2) * shortfall / T * etas.sum() / T
        assert value > 0.4 and claimed < 0.1


BAD = [
    (lambda: risk_bound([1.0], k=3, norm=1.0, rho=0.0), "rho: must be a positive number"),
    (lambda: risk_bound([1.0], k=1, norm=1.0), "k: must be at least 2 classes, got 1"),
    (lambda: risk_bound([], k=3, norm=1.0), "margins: must be of at least one row, got 0"),
    (lambda: risk_bound([1.0], k=3, norm=-1.0), "norm: must be a number that is not negative"),
    (lambda: risk_bound([1.0], k=3, norm=1.0, delta=1.0), "delta: must lie strictly between"),
    (lambda: l2_bound(0, lam=1.0), "steps: must be at least 1, got 0"),
    (lambda: l2_bound(5, lam=0.0), "lam: must be a positive number, got 0.0"),
    (lambda: l2_bound(5, lam=1.0, eps=np.nan), "eps: must be a number that is not negative"),
    (lambda: l2_bound(5, lam=1.0, missed=1.5), r"missed: must lie in \[0, 1\], got 1.5"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
