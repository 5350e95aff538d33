"""The Weston-Watkins subproblem: exact whatever the numbers, by sorting and by Newton's method."""

import numpy as np
import pytest

from workbench.weston_watkins.shark import TOLERANCE, greedy
from workbench.weston_watkins.walrus import subproblem, sweep, threshold

KINDS = (
    *("normal", "tied", "negative", "equal", "multiples of C", "almost multiples of C"),
    *("all above C", "around C", "of all sizes"),
)


def instance(kind, rng, most):
    """Return v, C with m = 1..most and C = 1e-6..1e6, small ones as often as large ones."""
    m = int(np.exp(rng.uniform(0, np.log(most + 0.99))))
    C = 10.0 ** rng.uniform(-6, 6)
    v = rng.normal(size=m) * 10.0 ** rng.uniform(-3, 3)
    made = {
        "tied": lambda: np.round(v),
        "negative": lambda: -np.abs(v) * (rng.random(m) < 0.9),
        "equal": lambda: np.full(m, v[0]),
        "multiples of C": lambda: C * rng.integers(-3, 4, size=m),
        "almost multiples of C": lambda: (
            C * (rng.integers(0, 4, size=m) + rng.choice([-1e-9, 0.0, 1e-9], size=m))
        ),
        "all above C": lambda: C * m * (1.0 + rng.random(m)),
        "around C": lambda: C * (1.0 + rng.normal(size=m)),
        "of all sizes": lambda: v * 10.0 ** rng.uniform(-6, 6, size=m),
    }
    return made.get(kind, lambda: v)(), C


@pytest.mark.parametrize("kind", KINDS)
def test_the_solution_is_optimal_and_found_from_any_start(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(300):
        v, C = instance(kind, rng, 1000)
        before, b = v.copy(), subproblem(v, C)
        assert b.min() >= 0.0 and b.max() <= C
        scale = max(np.abs(v).max(), b.max())
        assert np.abs(b - np.clip(v - b.sum(), 0.0, C)).max() <= 1e-9 * scale
        g = sweep(v, C)
        starts = [0.0, g, 0.5 * g, 2.0 * g, C, C * len(v), rng.uniform(0, max(v.max(), 1e-9))]
        for start in (*starts, -1.0, 1e300):
            assert abs(threshold(v, C, start) - g) <= 1e-12 * g, (kind, C, start)
        order = rng.permutation(len(v))
        np.testing.assert_array_equal(subproblem(v[order], C), b[order])
        np.testing.assert_array_equal(v, before)


@pytest.mark.parametrize("m", [1, 7, 40])
@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_sharks_solver_ends_at_the_exact_solution(m, C):
    rng = np.random.default_rng(m)
    for _ in range(20):
        norm, v, b = rng.uniform(0.1, 10), rng.normal(size=m), np.zeros(m)
        steps = greedy(norm * v, C, norm, b)  # from b = 0 the gradient is |x|^2 v
        assert steps <= 10 * m
        if steps < 10 * m:
            np.testing.assert_allclose(b, subproblem(v, C), atol=10 * TOLERANCE / norm)


@pytest.mark.parametrize("v", [[], [[1.0, 2.0]], [np.nan, 1.0], [1.0, np.inf], [-np.inf]], ids=str)
def test_bad_subproblems_are_refused(v):
    with pytest.raises(ValueError, match="v: must be a one-dimensional array of finite numbers"):
        subproblem(v, 1.0)
    with pytest.raises(ValueError, match="C: must be a positive number, got"):
        subproblem([1.0], 0.0)
