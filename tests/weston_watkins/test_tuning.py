"""Certified tuning: what is proven over a range, against solutions at many values
inside it."""

import copy
from dataclasses import asdict, replace
from itertools import islice

import numpy as np
import pytest
from helpers import each, refuses, sparse_or_not
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

from workbench import as_problem, load
from workbench.weston_watkins.dual import start
from workbench.weston_watkins.path import ww_path
from workbench.weston_watkins.pivoting import solved
from workbench.weston_watkins.tuning import between_roots, certify_path, most_at_once

ROWS = 15  # validation rows


def tiny(seed, kind):
    """A random problem of a kind, and validation rows."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    n = int(rng.integers(2 * k, 25))
    d = int(rng.integers(1, 6))
    X = rng.standard_normal((n, d))
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    X_val = rng.standard_normal((ROWS, d))
    y_val = rng.integers(0, k, ROWS)
    if kind == "duplicates":
        X = X.round()
        X_val = X_val.round()
    if kind == "separable":
        X += 3.0 * np.eye(max(d, k))[y % max(d, k), :d]
    if kind == "zero rows":
        X[rng.random(n) < 0.2] = 0.0
    problem = as_problem(X, y)
    if kind == "weights":
        problem = replace(problem, weights=rng.integers(1, 4, n).astype(float))
    return problem, X_val, y_val


def mirrored(sparse):
    """A problem whose classes swap with its features, and rows that it gives equal
    scores."""
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 2.0, 0.0]])
    X_val = np.array([[0.7, 0.7, 0.0], [0.0, 0.0, 1.0], [3.0, 0.0, 0.0]])
    y_val = [1, 1, 0]
    problem = as_problem(csr_matrix(X) if sparse else X, [0, 1, 0, 1])
    return problem, csr_matrix(X_val) if sparse else X_val, np.array(y_val)


@sparse_or_not
def test_equal_scores_over_a_whole_interval_end_the_search(sparse):
    *_, state = islice(certify_path(*mirrored(sparse), (1e-3, 10.0), 0.0), 1000)
    assert not state.open_intervals, "it ended by itself"
    # The row of a feature that was never seen is of the first class everywhere:
    # certainly wrong.
    assert state.fewest in (1, 2) and state.achieved == (state.fewest - 1) / 3


def test_rows_of_zeros_do_not_keep_the_search_from_its_end():
    X = np.array([[1.0, 0.2], [0.1, 1.0], [0.0, 0.0], [0.9, 0.4]])
    steps = certify_path(
        as_problem(X, [0, 1, 0, 1]), X[[0, 1]], [0, 1], (1e-2, 0.1), 0.0
    )
    *_, state = islice(steps, 1000)
    assert state.achieved == 0.0 and state.certified == 1.0


def test_a_classifier_is_chosen_even_if_every_row_is_wrong():
    problem = as_problem([[1.0], [-1.0]], [0, 1])
    *_, state = certify_path(problem, [[1.0]], [1], (1.0, 1.5))
    assert state.chosen_W.any()


def most_solves(stream, solves):
    """Return the last state of a stream that is stopped after that many solutions."""
    for state in stream:
        if state.round >= solves:
            break
    return state


@each("kind", ["plain", "duplicates", "separable", "zero rows", "weights"])
@each("seed", range(12))
def test_no_solution_in_the_range_leaves_the_band(kind, seed):
    problem, X_val, y_val = tiny(seed, kind)
    state = most_solves(certify_path(problem, X_val, y_val, (1e-2, 1e2), 0.0), 100)
    edges, lower, upper = state.band()
    assert edges[0] == 1e-2 and edges[-1] == 1e2 and np.all(np.diff(edges) > 0.0)
    path = ww_path(
        problem, np.geomspace(1.01e-2, 0.99e2, 15), gap_ratio=1e-10, max_rounds=5000
    )
    lengths = np.linalg.norm(X_val, axis=1)
    for s in path:  # the errors of its solution, and those that its own gap leaves open
        V = np.sort(s.scores(X_val), axis=1)
        open_ = (
            V[:, -1] - V[:, -2] <= np.sqrt(2.0 * max(s.primal - s.dual, 0.0)) * lengths
        )
        wrong = s.scores(X_val).argmax(axis=1) != y_val
        near = open_ | (lengths == 0.0)
        at = np.searchsorted(edges, s.C) - 1
        assert lower[at] <= (wrong | near).sum(), s.C
        assert (wrong & ~near).sum() <= upper[at], s.C
    assert state.fewest - lower.min() == pytest.approx(ROWS * state.achieved)


@each("name", ["digits @ maximum | 30 % rows", "breast_cancer @ range"])
def test_a_search_ends_when_all_of_the_range_is_proven(name):
    problem = load(name, test=0.25)
    fewest = len(problem.y_test)
    y = problem.classes[problem.y_test]
    for state in certify_path(problem, problem.X_test, y, (1e-2, 1.0), 0.01):
        assert state.fewest <= fewest  # so that what is closed stays closed
        fewest = state.fewest
        certified = state.certified
    assert certified == state.certified == 1.0
    assert state.achieved <= 0.01
    assert state.chosen in [knot.C for knot in state.knots]
    wrong = state.scores(problem.X_test).argmax(axis=1) != problem.y_test
    assert wrong.sum() == fewest == round(state.info()["error"] * state.rows)
    assert not state.open_intervals
    assert all(knot.B is None for knot in state.knots)  # none is kept without need


def test_a_search_goes_on_from_a_copied_state_bit_for_bit():
    given = *tiny(3, "plain"), (1e-2, 1e1), 0.01
    whole = copy.deepcopy(most_solves(certify_path(*given), 60))
    again = copy.deepcopy(most_solves(certify_path(*given), 30))
    again = most_solves(certify_path(*given, state=again), 60)
    assert again.round == whole.round > 30
    one, other = (
        asdict(s) | {"rng": s.rng.bit_generator.state} for s in (whole, again)
    )
    np.testing.assert_equal(one, other)


def test_pivoting_solves_as_far_as_it_is_asked():
    problem, *_ = tiny(5, "plain")
    state = start(problem, 1.0, 0, np.einsum("ij,ij->i", problem.X, problem.X))
    state.round = 2
    state.since = 2
    state = solved(problem, state, 1e-9)
    tight = next(iter(ww_path(problem, [1.0], gap_ratio=1e-12, max_rounds=5000)))
    assert 0.0 <= state.primal - state.dual <= 1e-9
    assert_allclose(state.W, tight.W, atol=1e-4)
    assert np.all(state.B >= 0.0) and np.all(state.B <= 1.0)


def test_roots_and_spans(rng):
    t = np.linspace(0.0, 1.0, 1001)
    for _ in range(200):
        a = rng.random() * 10.0 ** rng.integers(-12, 2)
        b, c = rng.normal(size=2)
        value = a * t**2 + b * t + c
        low, high = between_roots(*map(np.array, (a, b, c, c > 0.0, a + b + c > 0.0)))
        assert not np.any((value < -1e-12) & ((t < low) | (t > high)))
    spans = np.array(
        [[0.0, 0.4], [0.3, 0.6], [0.6, 2.0], [np.inf, -np.inf], [-np.inf, 0.1]]
    )
    assert most_at_once(spans, 0.0, 1.0) == 2 and most_at_once(spans, 0.45, 0.5) == 1
    assert most_at_once(spans, 0.6, 0.6) == 2
    assert most_at_once(spans[3:4], 0.0, 1.0) == 0


def test_what_cannot_be_certified_is_refused():
    problem, X, y = tiny(1, "plain")
    for given, message in (
        ((X, y, (1, 1)), "C_range: must be two numbers in ascending order"),
        (
            (X, y, (1, 2), -0.1),
            "eps: must be a number of at least 0 and below 1, got -0.1",
        ),
        ((X, [0, 1, 0], (1, 2)), "y_val: has 3 labels for 15 rows"),
        ((X, y, (1, 2, 3)), "C_range: must be two numbers in ascending order"),
        ((np.ones((15, 9)), y, (1, 2)), "X_val: has 9 features"),
    ):
        with refuses(message):
            next(certify_path(problem, *given))
