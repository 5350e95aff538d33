"""Fitted exponents, their intervals and extrapolations, and the table of costs on paper."""

import math

import numpy as np
import pytest
from scipy.optimize import curve_fit
from scipy.stats import t

from workbench.arena.costs import ON_PAPER, exponent, first_break, held
from workbench.arena.exponents import extrapolate, fit
from workbench.registry import SOLVERS

SIZES = np.array([100.0, 200, 400, 800, 1600])


def test_exact_power_law():
    law = fit(SIZES, 3e-4 * SIZES**1.7)
    assert law.exponent == pytest.approx(1.7) and law.error < 1e-9
    assert law.at(1e8) == pytest.approx(3e-4 * 1e8**1.7)
    assert law.interval() == pytest.approx((1.7, 1.7))


def test_interval_is_that_of_another_fit():
    rng = np.random.default_rng(0)
    costs = 2.0 * SIZES**1.3 * np.exp(0.2 * rng.standard_normal(5))
    law = fit(SIZES, costs)
    (slope, _), covariance = curve_fit(lambda x, b, a: b * x + a, np.log(SIZES), np.log(costs))
    half = t.ppf(0.95, 3) * math.sqrt(covariance[0, 0])
    assert law.interval(0.9) == pytest.approx((slope - half, slope + half))


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(1)
    base, target = {"n": 400.0, "k": 10.0}, {"n": 1e6, "k": 1e4}
    truth = target["n"] ** 1.5 * target["k"] ** 0.5
    ks, exponents, ends = np.array([10.0, 20, 40, 80]), 0, 0
    for _ in range(400):
        noise = np.exp(0.1 * rng.standard_normal(9))
        laws = {
            "n": fit(SIZES, SIZES**1.5 * 10**0.5 * noise[:5]),
            "k": fit(ks, 400**1.5 * ks**0.5 * noise[5:]),
        }
        low, high = laws["n"].interval(0.9)
        exponents += low <= 1.5 <= high
        low, middle, high = extrapolate(laws, base, target, 0.9)
        assert low < middle < high
        ends += low <= truth <= high
    assert 335 <= exponents <= 385  # of 360
    assert 335 <= ends <= 395  # sums of squares of t intervals are a little too wide


@pytest.mark.parametrize(
    "sizes, costs, word",
    [
        ([1, 2], [1, 2], "sizes"),
        ([1, 2, 2], [1, 2, 3], "sizes"),
        ([1, 2, 0], [1, 2, 3], "sizes"),
        ([1, 2, 3], [1, 0, 3], "costs"),
        ([1, 2, 3], [1, math.nan, 3], "costs"),
        ([1, 2, 3], [1, 2], "costs"),
    ],
)
def test_bad_points_are_named(sizes, costs, word):
    with pytest.raises(ValueError, match=f"^{word}:"):
        fit(sizes, costs)


def test_extrapolation_needs_laws_and_sizes():
    law = fit(SIZES, SIZES)
    with pytest.raises(ValueError, match="laws"):
        extrapolate({}, {}, {})
    with pytest.raises(ValueError, match="no size of k"):
        extrapolate({"n": law, "k": law}, {"n": 1, "k": 1}, {"n": 2})


def test_costs_on_paper_are_of_solvers():
    assert set(ON_PAPER) <= set(SOLVERS)
    assert exponent("ww_shark", "k") == 2 and exponent("ww_walrus", "k") == 1
    assert exponent("ridge", "d") == 3 and exponent("libsvm", "n") == 2
    assert math.isnan(exponent("mrc_lp", "k")) and exponent("mrc_lp", "n") == 1
    assert math.isnan(exponent("not a solver", "n"))
    wide, long = {"n": 10, "d": 1e4, "k": 3}, {"n": 1e9, "d": 1e4, "k": 3}
    assert exponent("ridge", "d", wide) == pytest.approx(3, abs=0.01)
    assert exponent("ridge", "d", long) == pytest.approx(2, abs=0.01)


def test_held_is_the_size_of_the_state():
    """The formula, beside the arrays that a state has."""
    from workbench.data.synthetic import synthetic
    from workbench.weston_watkins.bcd import ww_walrus

    problem = synthetic(300, 64, 32)
    state = next(iter(ww_walrus(problem)))
    parts = held("ww_walrus", n=problem.n, d=problem.d, k=problem.k, z=problem.d)
    assert parts["n k"] == state.B.nbytes and parts["d k"] == state.W.nbytes


def test_what_breaks_first():
    base, target = {"n": 1e3, "d": 10, "k": 10}, {"n": 1e8, "d": 1e3, "k": 1e6}
    broken = first_break("ww_walrus", base, target, memory=1e9)
    assert broken.what == "n k" and broken.size["n"] * broken.size["k"] * 8 <= 1.1e9
    least = first_break("ww_walrus", base, target, memory=1e9, seconds=lambda s: s["n"], most=2e3)
    assert least.what == "time" and least.size["n"] == pytest.approx(2e3, rel=0.1)
    index = first_break("liblinear_cs", base, target, memory=1e30, sparse=True)
    assert index.what == "32-bit index" and index.size["n"] * index.size["d"] >= 2**31
    assert first_break("centroid", base, target, memory=1e30) is None
