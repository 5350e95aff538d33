"""The right-hand sides of Theorems 1 and 2, as the lessons correct them."""

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx

from checks.memoir_bounds import l2_bound, risk_bound


def test_the_risk_bound_by_hand():
    bound = risk_bound(
        np.array([2.0, 0.5, -1.0]), k=4, norm=0.3, length=2.0, rho=0.5, delta=0.1
    )
    chance = 3 * np.sqrt(np.log(40) / 6)
    assert bound == approx((0 + 0 + 3) / 3 + 4 * 4 / 0.5 * 0.6 / np.sqrt(3) + chance)


def test_the_inexact_hinge_needs_its_factor():
    m = np.random.default_rng(0).normal(size=1000)
    rho = 0.7
    eps = 0.25
    exact = np.maximum(0, 1 - m / rho)
    # as far off as they may be
    worst = np.maximum(0, 1 - (m + eps * rho) / (rho * (1 + eps)))
    assert_allclose(exact, (1 + eps) * worst, atol=1e-12)
    assert (exact > worst + 1e-6).any()
    given = {"k": 9, "norm": 1.0, "rho": rho}
    inexact = risk_bound(m + eps * rho, eps=eps, **given)
    assert risk_bound(m, **given) == approx(inexact, rel=1e-12)


def test_the_l2_bound_by_hand_and_in_the_limit():
    G = np.sqrt(0.25) + 2 + 0.1
    B = np.sqrt(8)
    psi = 0.8 * 0.1 + 0.2 * B + np.sqrt(np.log(20) / (0.25 * 100))
    bound = l2_bound(100, lam=0.25, eps=0.1, missed=0.2, delta=0.05)
    assert bound == approx(G**2 * (1 + np.log(100)) / 50 + psi)
    # A search that is always wrong costs no more than the largest difference of two
    # scores.
    lost = l2_bound(10, lam=0.25, missed=1.0)
    assert lost == approx(2.5**2 * (1 + np.log(10)) / 5 + B)
    T = 10.0 ** np.arange(1, 12)
    for eps in (0.0, 0.3):  # after many steps only the shortfall is left
        bound = l2_bound(T, lam=0.1, eps=eps)
        assert bound.shape == T.shape and (np.diff(bound) < 0).all()
        assert bound[-1] == approx(eps, abs=1e-4)
