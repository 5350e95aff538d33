"""The compiled kernel of the splitting method for minimax risks, number by number."""

from itertools import islice

import numpy as np
from helpers import each
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx

from workbench import as_problem
from workbench.mrc import splitting
from workbench.mrc.risk import minimax_risk, psi
from workbench.mrc.splitting import prox_of_max, relax, soft_threshold

ROWS = np.array(
    [
        [0.0, 0.0, 0.0],
        [2.0, 0.5, -1.0],  # one class is the best subset
        [1.5, 0.5, 0.5],  # two ties: adding class 1 changes nothing
        [1.0, 1.0, -5.0],
        [0.25, 1.0, 0.75],
        [-3.0, -2.5, -2.75],
        [-2.0, -1.0, 4.0],
    ]
)


def thresholded(Z, mass):
    """P by bisection for phi, and phi."""
    clipped = np.minimum(Z, psi(Z)[:, None])
    low = clipped.min() - mass
    high = clipped.max()
    for _ in range(200):
        phi = (low + high) / 2
        low, high = (
            (phi, high) if np.maximum(clipped - phi, 0).sum() > mass else (low, phi)
        )
    return np.maximum(clipped - phi, 0), phi


@each("mass", [1e-3, 0.5, 3.0, 40.0])
def test_the_prox_of_the_maximum_from_any_start(mass):
    before = ROWS.copy()
    expected, threshold = thresholded(ROWS, mass)
    t = psi(ROWS)
    for start in (threshold, 0.0, t.max(), t.max() + 2.0, -30.0, t[4], ROWS[3, 0]):
        P, phi = prox_of_max(ROWS, mass, start)
        assert_allclose(P, expected, rtol=0, atol=1e-12 * max(mass, 1.0))
        assert phi == approx(threshold, abs=1e-12 * max(mass, 1.0))
    assert_array_equal(ROWS, before)


def test_newton_s_method_goes_on_until_the_mass_is_right():
    Z = np.linspace(-1.0, 1.0, 60).reshape(20, 3) ** 3
    for scale, mass in ((1.0, 0.01), (1.0, 0.3), (1.0, 2.0), (1.0, 10.0), (1e-5, 1e-6)):
        P, _ = prox_of_max(scale * Z, mass, -1.0)
        assert P.sum() == approx(mass, rel=1e-12 if scale == 1.0 else 1e-8)


def test_splitting_goes_on_where_no_row_is_above_phi(rng):
    risk = minimax_risk(as_problem(rng.normal(size=(30, 2)), np.arange(30) % 3), 0.3)
    s = splitting.start(risk, weight=5.0)
    s.Z_S[:] = rng.normal(size=s.Z_S.shape)
    s.phi = float(psi(s.Z_S).max()) + 1.0
    P, _ = splitting.prox_of_max(s.Z_S, risk.n / s.weight, s.phi)
    assert set(np.flatnonzero(P.any(axis=1))) <= set(splitting.working_rows(s))
    _, state = islice(splitting.split(risk, s, steps=3, repairs=0), 2)
    assert state.round == 1 and state.p.sum() == approx(1.0)


def test_relaxation_and_soft_thresholds_by_hand():
    Z = np.array([[1.0, 2.0]])
    S = np.array([[4.0, 0.5]])
    P = np.array([[0.25, 0.0]])
    relax(Z, S, P, 1.5)
    assert Z.tolist() == [[1.0 + 1.5 * 3.25, 2.0 + 1.5 * -1.5]]
    M = np.array([[3.0, -3.0, 0.5, -0.5, 0.0]])
    t = np.array([[1.0, 1.0, 1.0, 0.25, 1.0]])
    assert soft_threshold(M, t).tolist() == [[2.0, -2.0, 0.0, -0.25, 0.0]]
