"""Certified tuning: what is proven over a range, against solutions at many values inside it."""

from dataclasses import replace

import numpy as np
import pytest

from workbench.core.problem import as_problem
from workbench.tuning.weston_watkins import certify_path
from workbench.weston_watkins.path import ww_path

ROWS = 15  # of validation


def tiny(seed, kind):
    """A random problem of a kind, and validation rows."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    n, d = int(rng.integers(2 * k, 25)), int(rng.integers(1, 6))
    X, y = rng.standard_normal((n, d)), rng.integers(0, k, n)
    y[:k] = np.arange(k)
    X_val, y_val = rng.standard_normal((ROWS, d)), rng.integers(0, k, ROWS)
    if kind == "duplicates":
        X, X_val = X.round(), X_val.round()
    if kind == "separable":
        X += 3.0 * np.eye(max(d, k))[y % max(d, k), :d]
    if kind == "zero rows":
        X[rng.random(n) < 0.2] = 0.0
    problem = as_problem(X, y)
    if kind == "weights":
        problem = replace(problem, weights=rng.integers(1, 4, n).astype(float))
    return problem, X_val, y_val


def most_solves(stream, solves):
    """Return the last state of a stream that is stopped after so many solutions."""
    for state in stream:
        if state.n_solves >= solves:
            break
    return state


def counted(states, X_val, y_val):
    """Yield C, the errors of its solution, and how many of them its own gap leaves open."""
    lengths = np.linalg.norm(X_val, axis=1)
    for state in states:
        V = np.asarray(state.scores(X_val))
        wrong = V.argmax(axis=1) != y_val
        V = np.sort(V, axis=1)
        near = V[:, -1] - V[:, -2] <= np.sqrt(2.0 * max(state.primal - state.dual, 0.0)) * lengths
        yield state.C, wrong, near | (lengths == 0.0)


@pytest.mark.parametrize("kind", ["plain", "duplicates", "separable", "zero rows", "weights"])
@pytest.mark.parametrize("seed", range(6))
def test_no_solution_in_the_range_leaves_the_band(kind, seed):
    problem, X_val, y_val = tiny(seed, kind)
    state = most_solves(certify_path([(problem, X_val, y_val)], (1e-2, 1e2), 0.0), 150)
    edges, lower, upper = state.band()
    assert edges[0] == 1e-2 and edges[-1] == 1e2 and np.all(np.diff(edges) > 0.0)
    path = ww_path(problem, np.geomspace(1.01e-2, 0.99e2, 25), gap_ratio=1e-10, max_rounds=5000)
    for C, wrong, near in counted(path, X_val, y_val):
        at = np.searchsorted(edges, C) - 1
        assert lower[at] <= (wrong | near).sum() and (wrong & ~near).sum() <= upper[at], C
    assert (
        state.fewest == state.errors.min() and state.fewest - lower.min() == ROWS * state.achieved
    )
