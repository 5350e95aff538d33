"""The Weston-Watkins SVM: its dual, and the solvers of the whole problem."""

from dataclasses import replace
from itertools import islice

import numpy as np
from helpers import each, oracles
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx

from workbench import as_problem, below, rounds, run
from workbench.kernels.rows import squared_norms
from workbench.weston_watkins.bcd import samples, screened, ww_walrus
from workbench.weston_watkins.dual import losses, share_of
from workbench.weston_watkins.fast import easiest, threshold, ww_walrus_fast
from workbench.weston_watkins.path import ww_path
from workbench.weston_watkins.shark import TOLERANCE, greedy
from workbench.weston_watkins.walrus import subproblem, sweep

LINEAR = ("ww_walrus", "ww_shark", "ww_walrus_fast")
each_solver = each("name", LINEAR)


def optimum(problem, C):
    """Return the objective at the solution that the oracle found."""
    return oracles.optimum("ww_walrus", problem, {"C": C})[1] / (1 + oracles.PRECISION)


def solved(name, problem, C, gap_ratio=1e-9):
    return run(
        name,
        problem,
        below("gap_ratio", gap_ratio),
        rounds(20_000),
        parameters={"C": C},
        warm_up=False,
    )


@each_solver
@each(
    "n, d, k, C, sparse",
    [
        (60, 5, 4, 0.7, False),
        (40, 3, 2, 2.0, True),
        (50, 4, 12, 0.05, True),
        (40, 6, 3, 9.0, False),
    ],
)
def test_the_optimum_is_that_of_a_conic_solver(name, n, d, k, C, sparse, blobs):
    problem = blobs(n=n, d=d, k=k, sparse=sparse)
    value = optimum(problem, C)
    trace, s = solved(name, problem, C)
    # Shark's subproblem solver leaves violations of its tolerance, of which each costs
    # C at most.
    left = C * n * (k - 1) * TOLERANCE if name == "ww_shark" else 0.0
    assert trace.last["upper"] == approx(value, rel=1e-6, abs=left)
    assert trace.last["lower"] == approx(value, rel=1e-6, abs=left)
    B = s.B[:, :k]
    own = (np.arange(n), problem.y)
    assert not s.B[:, k:].any() and not s.W[:, k:].any() and not B[own].any()
    assert B.min() >= 0 and B.max() <= C
    A = -B.copy()
    A[own] = B.sum(axis=1)
    assert_allclose(s.W[:, :k], problem.X.T @ A, atol=1e-11)


@each_solver
def test_the_gap_ratio_of_the_paper(name, blobs):
    trace, _ = run(name, blobs(), rounds(15), parameters={"C": 50.0}, warm_up=False)
    gaps = trace.column("primal") - trace.column("dual")
    assert "gap_ratio" not in trace.rows[0] and trace.rows[1]["gap_ratio"] == 1
    assert_allclose(trace.column("gap_ratio")[1:], gaps[1:] / gaps[1])
    if name != "ww_walrus_fast":  # the dual of plain descent rises
        assert np.all(np.diff(trace.column("dual")) >= -1e-9)
        assert trace.column("visits").tolist() == list(range(16))
    # a gap that is not a number is not small
    assert np.isnan(share_of(1.0, np.nan, 0.0))
    assert share_of(0.0, 2.0, 1.0) == np.inf and share_of(0.0, 1.0, 1.0) == 0


def test_what_is_left_alone_is_found_again_with_fewer_visits(blobs):
    problem = blobs(n=200, k=4)
    *_, plain = islice(ww_walrus(problem), 2)
    *_, fast = islice(ww_walrus_fast(problem), 2)
    assert (plain.round, fast.round, fast.visits) == (1, 1, 1)
    assert fast.first == approx(plain.first, rel=1e-9)  # the first sweep is the same
    fast, plain = (
        solved(name, problem, 1.0, 1e-6)[0] for name in ("ww_walrus_fast", "ww_walrus")
    )
    assert fast.stopped_by == "gap_ratio <= 1e-06"
    assert fast.last["visits"] < plain.last["visits"] / 2
    assert fast.last["upper"] == approx(plain.last["upper"], rel=1e-6)


def test_a_large_C_is_reached_by_smaller_ones(blobs):
    problem = blobs(n=200, k=4)
    C = 64.0
    norms = squared_norms(problem.X)
    assert easiest(C, norms) < C
    assert easiest(0.01 / norms.mean(), norms) == 0.01 / norms.mean()
    trace, _ = solved("ww_walrus_fast", problem, C, 1e-5)
    levels = trace.column("C")
    assert levels[1] == C == levels[-1] and np.all(np.diff(levels[2:]) >= 0)
    assert levels[2] == easiest(C, norms)
    value = optimum(problem, C)
    assert np.all(trace.column("lower") <= value * (1 + 1e-8))
    assert np.all(trace.column("upper") >= value * (1 - 1e-8))
    rough = blobs(n=90)  # an easy problem that is hard is not waited for
    problem = as_problem(rough.X * np.array([1, 30, 900, 3e4]), rough.y)
    trace, _ = run("ww_walrus_fast", problem, rounds(170), warm_up=False)
    assert trace.last["C"] == 1.0


def test_the_path_solves_every_C_to_the_gap_asked_for(blobs):
    problem = blobs(n=120, k=4)
    Cs = [4.0, 0.01, 0.1, 0.1, 32.0]
    found = []
    for s in ww_path(problem, Cs):
        found.append((s.level, s.round))
        *_, cold = islice(ww_walrus_fast(problem, C=s.level), 2)
        assert s.primal - s.dual <= 1e-3 * cold.first == approx(1e-3 * s.first)
        value = optimum(problem, s.level)
        assert s.lower <= value * (1 + 1e-8)
        assert value * (1 - 1e-8) <= s.upper <= value + 1e-3 * cold.first
    levels, at = zip(*found)
    assert levels == (0.01, 0.1, 4.0, 32.0) and np.all(np.diff(at) > 0)


def test_a_path_of_weighted_rows_stays_in_their_box(blobs):
    """A row of zeros has weight C (k - 1) in the optimum, whatever W is, and half of it
    here."""
    rows = blobs(d=3)
    zeros = 20
    k = 3
    X = np.vstack([rows.X, np.zeros((zeros, 3))])
    problem = as_problem(X, np.r_[rows.y, np.arange(zeros) % k])
    problem = replace(problem, weights=np.repeat([1.0, 0.5], [60, zeros]))
    for s in ww_path(problem, [0.1, 4.0, 64.0], max_rounds=2):
        value = optimum(rows, s.level) + 0.5 * s.level * (k - 1) * zeros
        assert s.lower <= value * (1 + 1e-8) and s.upper >= value * (1 - 1e-8)
        assert np.all(s.B <= s.level * problem.weights[:, None] * (1 + 1e-12))
        gaps, *found = screened(samples(problem, s.level), s)
        assert found == approx(losses(problem, s.W, s.level), rel=1e-9, abs=0.0)
        assert gaps.sum() == approx(s.primal - s.dual)


def test_a_path_ends_at_rounding_or_when_rounds_run_out(blobs):
    problem = as_problem(np.pi * np.eye(3), [0, 1, 2])
    assert len(list(ww_path(problem, range(1, 11)))) == 10
    problem = blobs(n=90)
    steps = ww_path(problem, [1.0, 500.0], gap_ratio=1e-9, max_rounds=2)
    _, ratio = [s.gap_ratio for s in steps]
    assert ratio > 1e-9
    early = next(ww_path(problem, [64.0], max_rounds=2))
    loss, _ = losses(problem, early.W, 64.0)
    assert early.primal == approx(loss + 0.5 * np.vdot(early.W, early.W))


@each("kind", ["normal", "above C", "of all sizes"])
def test_the_solution_is_optimal_for_numbers_of_any_size(kind, rng):
    """Of ties and multiples of C, test_algorithm_2_is_exact has it."""
    for _ in range(300):
        m = int(np.exp(rng.uniform(0, np.log(1000.99))))
        C = 10.0 ** rng.uniform(-6, 6)
        v = rng.normal(size=m) * 10.0 ** rng.uniform(-3, 3)
        if kind == "above C":
            v = C * m * (1.0 + rng.random(m))
        elif kind == "of all sizes":
            v *= 10.0 ** rng.uniform(-6, 6, size=m)
        b = subproblem(v, C)
        g = sweep(v, C)
        assert b.min() >= 0.0 and b.max() <= C
        scale = max(abs(v).max(), b.max())
        assert abs(b - np.clip(v - b.sum(), 0.0, C)).max() <= 1e-9 * scale
        for start in (0.0, g, 0.5 * g, C, C * m, -1.0, 1e300):
            assert abs(threshold(v, C, start) - g) <= 1e-12 * g, (kind, C, start)
        order = rng.permutation(m)
        assert_array_equal(subproblem(v[order], C), b[order])


def test_shark_takes_as_many_steps_as_classes_at_worst():
    """Section 5: each step looks at all entries, so that the time is quadratic."""
    for m in 8, 64, 512:
        b = np.zeros(m)
        steps = greedy(np.ones(m), 1.0 / m**2, 1.0, b)
        assert m <= steps <= 10 * m and (b == 1.0 / m**2).all()


@each("m", [1, 7, 40])
@each("C", [1e-2, 1.0, 100.0])
def test_sharks_solver_ends_at_the_exact_solution(m, C):
    rng = np.random.default_rng(m)
    for _ in range(20):
        norm = rng.uniform(0.1, 10)
        v = rng.normal(size=m)
        b = np.zeros(m)
        steps = greedy(norm * v, C, norm, b)  # from b = 0 the gradient is |x|^2 v
        assert steps <= 10 * m
        if steps < 10 * m:
            assert_allclose(b, subproblem(v, C), atol=10 * TOLERANCE / norm)
