"""Working sets: bounds around a general solver's optimum, steps that ascend, many classes."""

from copy import deepcopy
from dataclasses import replace
from itertools import islice

import numpy as np
import oracles
import pytest
import scipy.sparse as sp

from workbench.core.measures import errors
from workbench.core.problem import as_problem
from workbench.core.stream import rounds, until, watch
from workbench.data import zipf_text
from workbench.data.features import tfidf
from workbench.memoir import blocks, working_set
from workbench.memoir.blocks import matrix_of
from workbench.memoir.visit import step_of_max, step_of_sum
from workbench.memoir.working_set import costs_of, cs_working_set, truncated


@pytest.fixture(autouse=True, params=[0, working_set.SMALL], ids=["listed", "dense"])
def small(request, monkeypatch):
    """All of it, for both kinds of V."""
    monkeypatch.setattr(working_set, "SMALL", request.param)
    return request.param


def optimum(problem, C, l1, balance, loss):
    """Return an interval that holds P*."""
    weights = costs_of(problem.y, C, balance, problem.weights) / C
    given = {"C": C, "l1": l1, "loss": loss}
    return oracles.optimum("cs_working_set", replace(problem, weights=weights), given)


def last(problem, count, **parameters):
    *_, (row, state) = until(watch(cs_working_set(problem, **parameters)), rounds(count))
    return row, state


@pytest.mark.parametrize("loss", working_set.LOSSES)
@pytest.mark.parametrize(
    ("C", "l1", "balance"), [(0.3, 0.0, 0.0), (0.7, 0.3, 0.0), (1.0, 0.1, 0.5)]
)
def test_bounds_close_around_the_optimum(C, l1, balance, loss, blobs):
    problem = blobs(n=30, d=5, k=4)
    given = {"C": C, "l1": l1, "balance": balance, "loss": loss}
    row, _ = last(problem, 150, **given)
    low, high = optimum(problem, **given)
    assert row["lower"] <= high and low <= row["upper"]
    assert row["gap"] < 2e-3 * low
    assert row["full"] == 0


@pytest.mark.parametrize("C", [0.02, 1.0])
def test_bounds_of_sums_hold_on_awkward_rows(C, blobs):
    """Those of Crammer and Singer's loss are in test_solvers.py."""
    X, y = blobs(n=30, d=4, k=3).X, np.arange(30) % 3
    zeros, tiny, others = X * (np.arange(30) < 3)[:, None], X.copy(), X.copy()
    tiny[::2] *= 1e-6
    others[10:20] = X[:10]
    for rows in (zeros, tiny, others, X[:3]):
        problem = as_problem(rows, y[: len(rows)])
        row, _ = last(problem, 60, C=C, l1=0.0, loss="weston_watkins")
        low, high = optimum(problem, C, 0.0, 0.0, "weston_watkins")
        assert row["lower"] <= high and low <= row["upper"] and row["gap"] >= 0


def test_blocks_are_solved_exactly():
    rng = np.random.default_rng(0)
    for _ in range(300):
        m, cost, curvature = rng.integers(2, 7), rng.uniform(0.1, 3), rng.uniform(0.1, 4)
        g, block = 3 * rng.normal(size=m), np.arange(m)
        delta, room = np.empty(m), np.empty(m)
        alpha = np.zeros(m, np.float32)
        alpha[1:] = -cost / m * rng.uniform(0, 1, m - 1) * (rng.random(m - 1) < 0.6)
        alpha[0] = -alpha[1:].astype(float).sum()

        def value(step, curvature=curvature, g=g):
            return -curvature / 2 * (step**2).sum(axis=-1) - step @ g

        for solve, extra in ((step_of_max, (room,)), (step_of_sum, ())):
            solve(alpha, g, block, m, cost, curvature, delta, *extra)
            assert abs(delta.sum()) < 1e-6
            after = alpha + delta
            other = rng.normal(size=(200, m)) * rng.choice([1e-4, 1e-2, 1], size=(200, 1))
            other = alpha + delta + other
            other[:, 1:] = np.minimum(other[:, 1:], 0)
            if solve is step_of_max:
                other[:, 1:] *= np.minimum(1, cost / np.maximum(-other[:, 1:].sum(1), 1e-9))[
                    :, None
                ]
                assert after[0] <= cost + 1e-6
            else:
                other[:, 1:] = np.maximum(other[:, 1:], -cost)
                assert after[1:].min() >= -cost - 1e-6
            assert after[1:].max() <= 1e-6
            other[:, 0] = -other[:, 1:].sum(axis=1)
            assert value(delta) >= value(other - alpha).max() - 1e-5


def soft(V, l1):
    return V - V.clip(-np.float32(l1), np.float32(l1))


def text(n=400, k=40):
    return tfidf(zipf_text(n, k, seed=1, n_test=200))


@pytest.mark.parametrize("parameters", [{}, {"loss": "weston_watkins", "entering": 8}, {"l1": 0.0}])
def test_v_is_the_sum_over_rows_and_the_dual_ascends(parameters, small):
    problem = text()
    lower = -1.0
    for s in islice(cs_working_set(problem, **parameters), 5):
        A = np.zeros((problem.n, problem.k))
        for j in range(s.sets.shape[1]):
            np.add.at(A, (np.arange(problem.n), s.sets[:, j].astype(int)), s.alpha[:, j])
        V = problem.X.T @ A
        found = matrix_of(s.blocks(), problem.k)
        assert sp.issparse(found) == (small == 0)
        found = found.toarray() if sp.issparse(found) else found
        np.testing.assert_allclose(found, V, atol=2e-6)
        np.testing.assert_array_equal(s.model().toarray(), soft(found, s.l1))
        assert abs(A.sum(axis=1)).max() < 1e-5
        dual = -(np.maximum(abs(V) - s.l1, 0) ** 2).sum() / 2 + s.alpha[:, 0].sum()
        assert dual == pytest.approx(s.lower, rel=1e-5, abs=1e-4)
        assert dual >= lower - 1e-5
        lower = dual


def test_two_threads_find_the_same_optimum_and_repeat_themselves():
    problem = text()
    one, _ = last(problem, 25, threads=1)
    two, state = last(problem, 25, threads=2)
    again, same = last(problem, 25, threads=2)
    assert two["lower"] == again["lower"] and np.array_equal(state.alpha, same.alpha)
    assert max(one["lower"], two["lower"]) <= min(one["upper"], two["upper"])
    assert two["gap"] < 0.02 * two["upper"]


def test_a_chunk_may_end_where_the_rows_do_not(monkeypatch):
    monkeypatch.setattr(working_set, "CHUNK", 37)
    row, _ = last(text(), 6, threads=2)
    assert row["gap"] < 0.1 * row["upper"]


def test_sets_that_are_too_small_say_so():
    row, state = last(text(), 15, working_set=2, C=10.0)
    assert row["full"] > 0 and state.sets.shape[1] == 2
    assert row["lower"] <= row["upper"]


@pytest.mark.parametrize(("k", "kind"), [(65_535, np.uint16), (65_536, np.uint32)])
def test_more_classes_than_short_numbers_count(k, kind):
    X = sp.csr_matrix((np.ones(k), (np.arange(k), np.arange(k) % 500)), shape=(k, 500))
    s = next(cs_working_set(as_problem(X, np.arange(k)), working_set=3))
    assert s.sets.dtype == s.classes.dtype == kind
    assert s.sets[-1, 0] == k - 1 and s.classes.max() == k


def test_a_pool_that_grows_holds_the_same(monkeypatch):
    problem = text()
    monkeypatch.setattr(working_set, "SMALL", 0)
    *_, wide = islice(cs_working_set(problem), 4)
    for module in (blocks, working_set):
        monkeypatch.setattr(module, "PATCH", 16)
    *_, tight = islice(cs_working_set(problem), 4)
    assert np.array_equal(wide.alpha, tight.alpha)
    assert (wide.model() != tight.model()).nnz == 0
    assert tight.nbytes() < wide.nbytes()


def test_resumed_in_two_threads():
    problem = text()
    *_, whole = islice(cs_working_set(problem, threads=2), 6)
    *_, s = islice(cs_working_set(problem, threads=2), 3)
    *_, rest = islice(cs_working_set(problem, threads=2, state=deepcopy(s)), 4)
    assert np.array_equal(whole.alpha, rest.alpha) and whole.lower == rest.lower


def test_a_truncated_model_is_small_and_nearly_as_good():
    problem = text(2000, 50)
    judge = errors(problem)
    _, s = last(problem, 3)
    W, small = s.model(), s.model(truncate=0.5)
    assert small.nnz < 0.8 * W.nnz
    whole = judge(s)["test_error"]
    cut = np.mean((problem.X_test @ small).toarray().argmax(axis=1) != problem.y_test)
    assert abs(cut - whole) < 0.03
    assert truncated(W, 0.0) is W
