"""Working sets: bounds around a general solver's optimum, steps that ascend, many
classes."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import each
from helpers.oracles import optimum
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq

from workbench import as_problem, errors, rounds
from workbench.core.stream import until, watch
from workbench.data import zipf_text
from workbench.data.features import tfidf
from workbench.memoir import blocks, working_set
from workbench.memoir.ascent import Scratch, block_step
from workbench.memoir.blocks import matrix_of
from workbench.memoir.working_set import cs_working_set, truncated


@pytest.fixture(params=[0, working_set.DENSE_ENTRIES], ids=["sparse", "dense"])
def is_sparse(request, monkeypatch):
    """Return whether V is sparse."""
    monkeypatch.setattr(working_set, "DENSE_ENTRIES", request.param)
    return request.param == 0


def text(n=400, k=40):
    return tfidf(zipf_text(n, k, seed=1, n_test=200))


def last(problem, count, **parameters):
    *_, (row, state) = until(
        watch(cs_working_set(problem, **parameters)), rounds(count)
    )
    return row, state


@each("given", [{"C": 0.3, "l1": 0.0}, {"C": 0.7, "l1": 0.3}])
def test_bounds_close_around_the_optimum(given, is_sparse, blobs):
    problem = blobs(n=30, d=5, k=4)
    row, _ = last(problem, 150, **given)
    low, high = optimum("cs_working_set", problem, given)
    assert row["lower"] <= high and low <= row["upper"]
    assert row["gap"] < 2e-3 * low
    assert row["full"] == 0


def test_blocks_are_solved_exactly(rng):
    for _ in range(300):
        m = rng.integers(2, 7)
        cost = rng.uniform(0.1, 3)
        curvature = rng.uniform(0.1, 4)
        g = 3 * rng.normal(size=m)
        delta = np.empty(m)
        room = np.empty(m)
        alpha = np.zeros(m, "f4")
        alpha[1:] = -cost / m * rng.uniform(0, 1, m - 1) * (rng.random(m - 1) < 0.6)
        alpha[0] = -alpha[1:].astype(float).sum()
        places = np.arange(m)
        scratch = Scratch(np.empty(0, "f4"), places, g, delta, room, places, places)
        block_step(alpha, scratch, m, cost, curvature)
        # The optimum is a projection: what is above the limits is cut, once the sum is
        # moved to zero.
        limits = np.append(cost, np.zeros(m - 1))

        def moved(by, point=alpha - g / curvature, limits=limits):
            return np.minimum(point - by, limits)

        by = brentq(lambda by: moved(by).sum(), -1e3, 1e3)
        assert_allclose(alpha + delta, moved(by), atol=1e-5)


@each("parameters", [{}, {"l1": 0.0}])
def test_v_is_the_sum_over_rows_and_the_dual_ascends(parameters, is_sparse):
    problem = text()
    lower = -1.0
    for s in islice(cs_working_set(problem, **parameters), 5):
        A = np.zeros((problem.n, problem.k))
        for j in range(s.sets.shape[1]):
            np.add.at(
                A, (np.arange(problem.n), s.sets[:, j].astype(int)), s.alpha[:, j]
            )
        V = problem.X.T @ A
        found = matrix_of(s.blocks())
        assert sp.issparse(found) == is_sparse
        found = found.toarray() if is_sparse else found
        assert_allclose(found, V, atol=2e-6)
        l1 = np.float32(s.l1)
        assert_array_equal(s.model().toarray(), found - found.clip(-l1, l1))
        assert abs(A.sum(axis=1)).max() < 1e-5
        dual = -(np.maximum(abs(V) - s.l1, 0) ** 2).sum() / 2 + s.alpha[:, 0].sum()
        assert dual == pytest.approx(s.lower, rel=1e-5, abs=1e-4)
        assert dual >= lower - 1e-5
        lower = dual


def test_sets_that_are_too_small_say_so():
    row, state = last(text(), 15, working_set=2, C=10.0)
    assert row["full"] > 0 and state.sets.shape[1] == 2
    assert row["lower"] <= row["upper"]


@each("k, kind", [(65_535, np.uint16), (65_536, np.uint32)])
def test_class_numbers_beyond_sixteen_bits(k, kind):
    X = sp.csr_matrix((np.ones(k), (np.arange(k), np.arange(k) % 500)), shape=(k, 500))
    s = next(cs_working_set(as_problem(X, np.arange(k)), working_set=3))
    assert s.sets.dtype == s.classes.dtype == kind
    assert s.sets[-1, 0] == k - 1 and s.classes.max() == k


def test_a_pool_that_grows_holds_the_same(monkeypatch):
    problem = text()
    monkeypatch.setattr(working_set, "DENSE_ENTRIES", 0)
    *_, wide = islice(cs_working_set(problem), 4)
    for module in (blocks, working_set):
        monkeypatch.setattr(module, "PATCH", 16)
    *_, tight = islice(cs_working_set(problem), 4)
    assert np.array_equal(wide.alpha, tight.alpha)
    assert (wide.model() != tight.model()).nnz == 0
    assert len(tight.values) < len(wide.values)


def test_a_truncated_model_is_small_and_nearly_as_good():
    problem = text(2000, 50)
    judge = errors(problem)
    _, s = last(problem, 3)
    W = s.model()
    small = s.model(truncate=0.5)
    assert small.nnz < 0.8 * W.nnz
    whole = judge(s)["test_error"]
    cut = np.mean((problem.X_test @ small).toarray().argmax(axis=1) != problem.y_test)
    assert abs(cut - whole) < 0.03
    assert truncated(W, 0.0) is W
