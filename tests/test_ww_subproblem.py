"""The Weston-Watkins subproblem: exact whatever the numbers, by sorting and by Newton's method."""

import numpy as np
import pytest

from workbench.weston_watkins.convex import OPTIONS, by_clarabel, by_cvxpy
from workbench.weston_watkins.walrus import evaluate, subproblem, sweep, threshold

KINDS = (
    *("normal", "tied", "negative", "equal", "multiples of C", "almost multiples of C"),
    *("all above C", "around C", "of all sizes"),
)


def instance(kind, rng, most):
    """Return v, C with m = 1..most and C = 1e-6..1e6, small ones as often as large ones."""
    m = int(np.exp(rng.uniform(0, np.log(most + 0.99))))
    C = 10.0 ** rng.uniform(-6, 6)
    v = rng.normal(size=m) * 10.0 ** rng.uniform(-3, 3)
    if kind == "tied":
        v = np.round(v)
    elif kind == "negative":
        v = -np.abs(v) * (rng.random(m) < 0.9)
    elif kind == "equal":
        v = np.full(m, v[0])
    elif kind == "multiples of C":
        v = C * rng.integers(-3, 4, size=m)
    elif kind == "almost multiples of C":
        v = C * (rng.integers(0, 4, size=m) + rng.choice([-1e-9, 0.0, 1e-9], size=m))
    elif kind == "all above C":
        v = C * m * (1.0 + rng.random(m))
    elif kind == "around C":
        v = C * (1.0 + rng.normal(size=m))
    elif kind == "of all sizes":
        v = v * 10.0 ** rng.uniform(-6, 6, size=m)
    return v, C


def objective(v, b):
    return 0.5 * (b @ b + b.sum() ** 2) - v @ b


def residual(v, C, b):
    """The violation of b = clip(v - sum b, 0, C) relative to the larger of v and b."""
    scale = max(np.abs(v).max(), b.max())
    return np.abs(b - np.clip(v - b.sum(), 0.0, C)).max() / scale if scale else 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimality_conditions_hold(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(600):
        v, C = instance(kind, rng, 1000)
        b = subproblem(v, C)
        assert b.min() >= 0.0 and b.max() <= C
        assert residual(v, C, b) <= 1e-9
        if v.max() <= 0:
            assert not b.any()


@pytest.mark.parametrize("kind", KINDS)
def test_both_methods_agree_from_any_start(kind):
    rng = np.random.default_rng(100 + KINDS.index(kind))
    for _ in range(300):
        v, C = instance(kind, rng, 1000)
        g = sweep(v, C)
        starts = [0.0, g, 0.5 * g, 2.0 * g, C, C * len(v), rng.uniform(0, max(v.max(), 1e-9))]
        for start in (*starts, -1.0, 1e300):
            assert abs(threshold(v, C, start) - g) <= 1e-12 * g, (kind, C, start)


@pytest.mark.parametrize("kind", KINDS)
def test_never_worse_than_cvxpy(kind):
    rng = np.random.default_rng(200 + KINDS.index(kind))
    close = 0
    for _ in range(6):
        v, C = instance(kind, rng, 1000)
        # The solution scales; in this unit the absolute tolerances of the other mean something.
        size = np.abs(v).max() or 1.0
        unit = min(size, C * len(v)) if v.max() > 0 else size
        v, C = v / unit, C / unit
        ours, theirs = objective(v, subproblem(v, C)), objective(v, by_cvxpy(v, C))
        assert ours <= theirs + 1e-13 * abs(ours)
        close += theirs - ours <= 1e-5 * abs(ours) + 1e-7
    assert close >= 5, "the oracle is none"


def test_one_class_and_equal_ones_have_a_closed_form():
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 1000):
        for _ in range(50):
            value, C = rng.normal(0.0, 3.0), 10.0 ** rng.uniform(-2, 2)
            b = np.clip(value / (m + 1), 0.0, C)
            found = subproblem(np.full(m, value), C)
            np.testing.assert_allclose(found, b, rtol=0, atol=1e-13 * abs(value))


def test_an_example_by_hand():
    v = np.array([2.0, -1.0, 3.0, 1.4])
    assert sweep(v, 1.0) == threshold(v, 1.0, 0.0) == 1.5  # (C + 2) / 2: 3 at C, 2 free
    assert evaluate(v, 1.0, 1.5) == (0.0, 1.0)
    assert evaluate(v, 1.0, 1.25) == (pytest.approx(0.65), 2.0)
    np.testing.assert_array_equal(subproblem(v, 1.0), [0.5, 0.0, 1.0, 0.0])


def test_the_order_and_the_input_are_left_alone():
    rng = np.random.default_rng(1)
    v = rng.normal(size=50)
    before, order = v.copy(), rng.permutation(50)
    b = subproblem(v, 0.3)
    np.testing.assert_array_equal(subproblem(v[order], 0.3), b[order])
    np.testing.assert_array_equal(v, before)
    threshold(v, 0.3, 1.0)
    np.testing.assert_array_equal(v, before)
    np.testing.assert_array_equal(subproblem(v[::2], 0.3), subproblem(v[::2].copy(), 0.3))
    np.testing.assert_allclose(subproblem([1, 2], 5), [0.0, 1.0], atol=1e-15)


@pytest.mark.parametrize("v", [[], [[1.0, 2.0]], [np.nan, 1.0], [1.0, np.inf], [-np.inf]], ids=str)
def test_v_must_be_a_row_of_finite_numbers(v):
    with pytest.raises(ValueError, match="v: must be a one-dimensional array of finite numbers"):
        subproblem(v, 1.0)


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf])
def test_C_must_be_positive(C):
    with pytest.raises(ValueError, match="C: must be a positive number, got"):
        subproblem([1.0], C)


@pytest.mark.parametrize("m", [1, 2, 30, 500])
def test_every_convex_solver_finds_the_same(m):
    rng = np.random.default_rng(m)
    for C in (0.01, 1.0, 100.0):
        v = 0.5 + rng.normal(size=m)
        ours = subproblem(v, C)
        for theirs in (by_clarabel(v, C), *(by_cvxpy(v, C, solver) for solver in OPTIONS)):
            assert theirs.min() >= 0.0 and theirs.max() <= C
            np.testing.assert_allclose(theirs, ours, atol=1e-5 * (1.0 + np.abs(v).max()))


def test_what_convex_solvers_refuse():
    with pytest.raises(ValueError, match="solver: must be one of CLARABEL, OSQP, HIGHS, got 'SCS'"):
        by_cvxpy(np.ones(2), 1.0, "SCS")
    with pytest.raises(RuntimeError, match="CLARABEL: infeasible"):
        by_cvxpy(np.ones(2), -1.0)
    with pytest.raises(RuntimeError, match="Clarabel: PrimalInfeasible"):
        by_clarabel(np.ones(2), -1.0)
