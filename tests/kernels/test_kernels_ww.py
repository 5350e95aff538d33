"""The compiled kernel of Walrus, against the same written out with whole vectors."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import each, sparse_or_not
from numba import config
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy.sparse import csr_matrix

from workbench import as_problem
from workbench.kernels.rows import lanes
from workbench.weston_watkins import fast
from workbench.weston_watkins.bcd import arguments, epoch, margins, samples
from workbench.weston_watkins.fast import evaluate, threshold
from workbench.weston_watkins.walrus import MAX_INSERTION, breakpoint, descending, sweep


def root(v, C):
    """The root of F, the one of the linear pieces between two breakpoints that holds
    it."""
    points = np.unique(np.maximum(np.concatenate([v, v - C, [0.0]]), 0.0))
    F = np.array([np.clip(v - g, 0.0, C).sum() - g for g in points])
    at = np.flatnonzero(F >= 0.0)[-1]
    free = (v > points[at]) & (v - C <= points[at])
    return points[at] + F[at] / (1.0 + free.sum())


def vectors():
    """Arguments of every kind: alone, tied, all below zero, at C and around it."""
    rng = default_rng(0)
    few = "0.5; 2.5; -1; 0 0; 1 1 1; 3 2 1 0; 2 -1 3 1.4; 5 4.5"
    yield from (np.array(v.split(), float) for v in few.split("; "))
    for m in (2, 3, 5, 9):
        yield from rng.normal(0.5, 1.0, size=(6, m))
        yield from np.round(2 * rng.normal(0.5, 1.0, size=(3, m))) / 2


@each("C", [0.1, 0.5, 1.0, 8.0])
def test_sweep_and_newton_s_method_find_the_root(C):
    for v in vectors():
        g = root(v, C)
        assert sweep(v, C) == approx(g, rel=1e-14, abs=1e-15), v
        for start in (0.0, g, g / 2, 2 * g + 0.1, -1.0, v.max() + 1.0, 1e300):
            assert threshold(v, C, start) == approx(g, rel=1e-14, abs=1e-15), (
                v,
                start,
            )


@pytest.mark.skipif(
    not config.DISABLE_JIT, reason="counts calls, with NUMBA_DISABLE_JIT=1"
)
def test_newton_s_method_takes_few_passes_and_rarely_the_sweep(monkeypatch):
    passes = []
    swept = []
    monkeypatch.setattr(
        fast, "evaluate", lambda *given: (passes.append(1), evaluate(*given))[1]
    )
    monkeypatch.setattr(
        fast, "sweep", lambda *given: (swept.append(1), sweep(*given))[1]
    )
    for v in vectors():
        threshold(v, 8.0, 0.0)  # F is convex there
        assert len(passes) <= len(v) + 2 and not swept, v
        passes.clear()
        threshold(v, 8.0, root(v, 8.0))
        assert len(passes) <= 2 and not swept, v
        passes.clear()
    v = np.array([1.3, 2.0, -0.8, 2.0, 1.8])  # from 0 it would go to 4, and back
    assert threshold(v, 1.0, 0.0) == approx(root(v, 1.0), rel=1e-14)
    assert len(passes) == 2 and len(swept) == 1


def test_f_and_its_free_indices_by_hand():
    v = np.array([2.0, -1.0, 3.0, 1.5])
    assert evaluate(v, 1.0, 1.0) == (1.0 + 0.0 + 1.0 + 0.5 - 1.0, 1.0)
    assert evaluate(v, 2.0, 1.0) == (1.0 + 2.0 + 0.5 - 1.0, 2.0)  # at C is not free
    assert evaluate(v, 2.0, 1.5) == (0.5 + 1.5 + 0.0 - 1.5, 2.0)  # nor at zero


def test_breakpoints_are_met_in_the_order_of_subroutine_3():
    v = np.array([5.0, 4.5, 1.0])
    C = 1.0
    met = []
    n_u = 0
    n_m = 0
    for _ in range(6):
        g, enters = breakpoint(v, C, n_u, n_m)
        met.append((g, enters))
        n_u, n_m = (n_u, n_m + 1) if enters else (n_u + 1, n_m - 1)
    entries = [(g, True) for g in v]
    assert met == sorted([*entries, *[(g - C, False) for g in v]], reverse=True)


@each("m", [1, 6, MAX_INSERTION, 4 * MAX_INSERTION])
def test_what_is_positive_comes_in_descending_order(m):
    v = np.round(default_rng(m).normal(size=m), 1)
    v[: m // 3] = 0.0
    before = v.copy()
    assert descending(v).tolist() == sorted(v[v > 0], reverse=True)
    assert_array_equal(v, before)


def epoch_by_hand(X, y, costs, order, W, B):
    """Algorithm 1 with whole vectors; return how many blocks changed."""
    changed = 0
    for i in order:
        x = X[i]
        own = y[i]
        if not x @ x:
            continue
        v = (1.0 - x @ W[:, [own]] + x @ W) / (x @ x) + B[i] + B[i].sum()
        v[own] = 0.0
        b = np.clip(v - root(v, costs[i]), 0.0, costs[i])
        delta = b - B[i]
        delta[own] = -delta.sum()
        B[i] += np.where(np.arange(len(b)) == own, 0.0, delta)
        W -= np.outer(x, delta)
        changed += bool(delta.any())
    return changed


def test_the_arguments_of_a_block_by_hand():
    data = samples(as_problem([[2.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [1, 0, 2]), 1.0)
    i = np.uint64(0)
    z = np.empty(4)
    W = np.array([[1.0, 2.0, 0.5, 0.0], [0.0, 1.0, 3.0, 0.0]])
    B = np.array([[0.25, 0.0, 0.5, 0.0]])
    margins(data, i, W, z)  # scores 2, 5, 4
    assert z.tolist() == [-2.0, -1.0, 0.0, -4.0]
    assert arguments(data, i, B, z) == 0.75
    assert z.tolist() == [-2.0 / 5 + 1.0, 0.0, 1.25, 0.0]


@each("k", [3, 4, 66])
@sparse_or_not
def test_an_epoch_of_walrus(sparse, k):
    rng = default_rng(k)
    n = 12
    d = 7
    X = rng.normal(size=(n, d))
    y = (np.arange(n) % k).astype("i4")
    X[3] = 0.0
    if sparse:
        X[rng.random((n, d)) < 0.6] = 0.0
    X[5] = 10.0 * np.eye(d)[0]
    X[6] = np.eye(d)[1]
    problem = as_problem(csr_matrix(X) if sparse else X, y)
    problem = replace(problem, classes=np.arange(k))  # of 66 only the first have rows
    W = np.zeros((d, lanes(k)))
    B = np.zeros((n, lanes(k)))
    W_own = np.zeros((d, k))
    B_own = np.zeros((n, k))
    for C, weights in (
        (0.05, np.ones(n)),
        (0.3, np.ones(n)),
        (0.2, rng.uniform(0.5, 2.0, n)),
    ):
        order = rng.permutation(n)
        data = samples(replace(problem, weights=weights), C)
        found = epoch(data, W, B, order.astype(np.uint64))
        changed = epoch_by_hand(X, y, C * weights, order, W_own, B_own)
        if C == 0.05:  # later, a block may move by rounding alone
            assert found == changed
        assert_allclose(W[:, :k], W_own, atol=1e-12)
        assert_allclose(B[:, :k], B_own, atol=1e-12)
        assert not B[:, k:].any() and not W[:, k:].any()


def test_a_row_that_is_solved_changes_nothing():
    data = samples(as_problem(2.0 * np.eye(2), [0, 1]), 10.0)
    order = np.arange(2, dtype=np.uint64)
    W = np.zeros((2, 4))
    B = np.zeros((2, 4))
    assert [epoch(data, W, B, order) for _ in range(2)] == [2, 0]
