"""MEMOIR's compiled steps and hash blocks on problems of a few rows, step by step."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
import test_memoir
from numba import config
from test_blocks import slot_of
from test_memoir import SHARED, SHRINKING, documents, literal

from workbench.kernels.rows import rows_of
from workbench.memoir import descent
from workbench.memoir.blocks import WHOLE, add_scores, empty, slots_for
from workbench.memoir.solvers import memoir_l1, memoir_l2
from workbench.memoir.steps import (
    LEAST,
    NO_MARGINS,
    NOBODY,
    SCALE,
    SQUARE,
    STEP,
    UPDATES,
    Plan,
    begin,
    empty_class,
    eta_of,
    finish,
    search,
    take,
)
from workbench.memoir.weights import add_row, class_score, lacks_room, merged, row_scores, zeros

uncompiled = pytest.mark.skipif(
    not config.DISABLE_JIT, reason="would compile anew; with NUMBA_DISABLE_JIT=1"
)
CASES = {
    "projected": (memoir_l2, {"lam": 1.0, "eta0": 0.9}),
    "sizes of steps": (memoir_l2, {"lam": 0.2, "eta0": 0.7, "eta_step": 0.5, "eta_power": 2.0}),
    "shrinking": (memoir_l2, SHRINKING | {"project": False}),
    "average": (memoir_l2, SHRINKING | {"average": True, "batch_size": 2, "lam": 1.2}),
    "every row, one batch a round": (memoir_l2, {"lam": 0.1, "hinge": False, "batch_size": 7}),
    "last batch of a pass": (memoir_l2, {"batch_size": 4, "lam": 0.1} | SHARED),
    "empty classes": (memoir_l2, {"empty": True, "lam": 0.1, "batch_size": 1}),
    "random classes": (memoir_l2, {"mips": "random", "lam": 0.1, "empty": True}),
    "l1": (memoir_l1, {"gamma": 0.02, "eta0": 1.0}),
}


@pytest.mark.parametrize("form", ["dense", "sparse", "full rows"])
@pytest.mark.parametrize("case", CASES)
def test_few_rows_take_the_literal_update(case, form, monkeypatch):
    for module in (descent, test_memoir):
        monkeypatch.setattr(module, "MANY", 2)  # batches from which on a round is a pass
    solver, given = CASES[case]
    given = {"batch_size": 3, "seed": 1} | given
    problem = documents(14, 9, 5, sparse=form == "sparse", words=9 if form == "full rows" else 3)
    *_, state = islice(solver(problem, dense=form == "dense", **given), 5)
    expected, norms = literal(problem, 4, **given)
    W = state.model()
    W = W.toarray() if sp.issparse(W) else W
    atol = 2e-5 if given.get("average") else 1e-6
    np.testing.assert_allclose(W, expected, atol=atol * abs(expected).max(), rtol=0)
    assert state.step == len(norms)
    assert state.info()["norm"] == pytest.approx(norms[-1], rel=1e-6)


def plan(**given):
    chosen = {"eta0": 0.5, "eta_step": 0.1, "eta_power": 2.0, "lam": 0.25, "hinge": True}
    return Plan(**chosen | {"div_by_batch": False, "project": True} | given)


def test_a_step_begins_smaller_and_ends_in_the_ball():
    numbers = np.array([0.8, 100.0, 3.0, 0.0, 4.0])  # scale, |U|^2, mass, violated, steps
    begin(plan(), numbers)
    assert numbers[STEP] == 5 and eta_of(plan(), 5) == 0.5 / 1.5**2
    assert numbers[SCALE] == pytest.approx(0.8 * (1 - 0.25 * 0.5 / 1.5**2), rel=1e-15)
    w = zeros(2, 2, dense=True, average=True)
    numbers = np.array([0.8, 100.0, 3.0, 0.0, 5.0])
    finish(w, plan(), numbers)  # |W| = 8, in a ball of radius 2
    np.testing.assert_allclose(numbers, [0.2, 100.0, 3.2, 0.0, 5.0], rtol=1e-15)
    numbers = np.array([0.8, 1.0, 3.0, 0.0, 5.0])
    finish(w, plan(), numbers)  # inside
    np.testing.assert_allclose(numbers, [0.8, 1.0, 3.8, 0.0, 5.0], rtol=1e-15)
    numbers = np.array([0.8, 0.01, 3.0, 0.0, 5.0])
    finish(w, plan(lam=4.0), numbers)  # inside of a ball of radius 1/2
    assert numbers[SCALE] == 0.8
    finish(w, plan(project=False), given := np.array([0.8, 100.0, 3.0, 0.0, 5.0]))
    assert given[SCALE] == 0.8
    finish(w, plan(lam=0.0), given := np.array([0.8, 1e9, 3.0, 0.0, 5.0]))
    assert given[SCALE] == 0.8
    finish(w, plan(), given := np.array([0.8, -1e-9, 3.0, 0.0, 5.0]))  # by rounding
    assert given[SCALE] == 0.8


def test_a_small_scale_is_multiplied_into_the_weights():
    w = zeros(2, 3, dense=True, average=True)
    w.dense[:] = 4.0
    w.dense_sums[:] = 1.0
    numbers = np.array([LEAST / 2, 16.0, 2.0, 7.0, 5.0])
    finish(w, plan(project=False), numbers)
    mass = 2.0 + LEAST / 2
    np.testing.assert_allclose(w.dense_sums, 1.0 - 4.0 * mass, rtol=1e-6)
    np.testing.assert_allclose(w.dense, 4.0 * LEAST / 2, rtol=1e-6)
    np.testing.assert_allclose(numbers, [1.0, 16.0 * (LEAST / 2) ** 2, 0.0, 7.0, 5.0], rtol=1e-12)
    numbers = np.array([LEAST, 16.0, 2.0, 7.0, 5.0])
    finish(w, plan(project=False), numbers)
    assert numbers[SCALE] == LEAST


@uncompiled
def test_what_steps_carry_along():
    X = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], np.float32)
    rows, y, k = rows_of(X), np.array([0, 1, 2, 0], np.int32), 4
    w, numbers = zeros(2, k, dense=True, average=False), np.array([0.5, 0.0, 0.0, 0.0, 0.0])
    touched, met = np.zeros(k, bool), np.zeros(k, bool)
    drawn, none = np.array([0, 1, 2, 3]), np.zeros(0)
    given = NOBODY, NO_MARGINS, plan(lam=0.0), numbers, touched, met, none
    at, lack = take(w, rows, y, drawn, 2, 0, True, *given, k)
    assert (at, lack) == (4, 0) and numbers[STEP] == 2
    W = np.zeros((2, k))
    updates = 0
    for t, i in ((1, 0), (1, 1), (2, 2), (2, 3)):
        scores = X[i] @ W
        margin = scores[y[i]] - np.delete(scores, y[i]).max()
        r = np.argmax(np.where(np.arange(k) == y[i], -np.inf, scores))
        if 0.5 * margin < 1:
            updates += 1
            step = 0.5 / (1 + 0.1 * t) ** 2 / 0.5
            W[:, y[i]] += step * X[i]
            W[:, r] -= step * X[i]
    np.testing.assert_allclose(w.dense, W, rtol=1e-6, atol=1e-6)
    assert numbers[UPDATES] == updates < 4
    assert numbers[SQUARE] == pytest.approx((W**2).sum(), rel=1e-6)
    out = np.empty(k + 1, np.float32)
    found = search(w, rows, 1, 1, 0, NOBODY, np.array([1, 1, 1, 0], bool), np.zeros(2), out, k)
    best = max((X[1] @ W)[[0, 2, 3]])
    assert best > 0 and found[1] == pytest.approx((X[1] @ W)[1] - best, rel=1e-6)
    w.dense[:] = [[-1.0] * 4, [-2.0] * 4]
    found = search(w, rows, 1, 1, 0, NOBODY, np.array([1, 1, 1, 0], bool), np.zeros(2), out, k)
    assert found == (3, -2.0)  # the class without weights, whose score is zero
    found = search(w, rows, 1, 1, 0, NOBODY, np.array([0, 1, 1, 1], bool), np.zeros(2), out, k)
    assert found == (0, -2.0)
    w.dense[1], before = [2.0, 0.0, 0.0, 0.0], numbers[UPDATES]
    take(w, rows, np.zeros(4, np.int32), np.array([1]), 1, 0, True, *given, k)
    assert numbers[UPDATES] == before  # at a scale of 1/2 the margin is exactly one: enough


def test_the_empty_class_at_each_share():
    met = np.array([False, True, False, False, True])
    assert [empty_class(met, 0, share) for share in (0.0, 0.49, 0.5, 0.99)] == [2, 2, 3, 3]
    assert [empty_class(met, 1, share) for share in (0.0, 0.34, 0.67)] == [0, 2, 3]
    assert empty_class(np.ones(5, bool), 0, 0.0) == -1
    assert empty_class(np.arange(3) > 0, 0, 0.0) == -1  # only its own is left


def test_blocks_grow_when_they_are_nearly_full():
    k = 100
    b, first = empty(1, k, sums=True, slots=250), 50
    b.end[0] = first
    b.values[:] = b.sums[:] = 7.0  # which blocks that take these slots do not hold
    sizes = []
    for met in range(1, 60):
        p = slot_of(b, 0, 7 * met % k, k)
        b.values[p] += met
        b.sums[p] -= met
        sizes.append(int(b.sizes[0]))
    assert [sizes.count(size) for size in (2, 3, 4, 5)] == [3, 3, 6, 13]  # up to 0.8 of the slots
    assert sizes[25:] == [WHOLE] * 34  # 64 slots would be more than half of all classes
    dense = np.zeros(k)
    dense[[7 * met % k for met in range(1, 60)]] = range(1, 60)
    start = b.starts[0]
    np.testing.assert_array_equal(b.values[start : start + k], dense)
    np.testing.assert_array_equal(b.sums[start : start + k], -dense)
    assert start == first + 4 + 8 + 16 + 32 and b.end[0] == start + k
    assert not b.values[first:start].any()  # norms are of all slots up to the end
    assert slots_for(b, 0, 1000, k) == WHOLE
    # Eight slots are half of 16 classes, and more than half of 15.
    assert [slots_for(empty(1, k), 0, 4, k) for k in (16, 15)] == [3, WHOLE]


@uncompiled
def test_scores_are_of_the_list_and_its_changes_together():
    d, k = 4, 5
    X = np.array([[3, 0, 0, 1], [0, 2, 1, 0], [1, 0, 2, 0], [0, 0, 0, 2]], np.float32)
    rows = rows_of(sp.csr_matrix(X))
    listed = [(0, 0), (0, 2), (1, 1), (1, 4), (2, 0), (2, 3)]
    beside = [(0, 0), (0, 4), (3, 1), (3, 3)]  # classes 0 and 4 take the slots 0 and 1
    w, W, step = zeros(d, k, dense=False, average=False), np.zeros((d, k)), 1.0
    for changes in listed, beside:
        w, before = merged(w, NO_MARGINS, 0.0)[0], W.copy()
        w = w._replace(changes=empty(d, k, slots=50))
        for i, c in changes:
            step = -1.5 * step
            add_row(w, rows, np.uint64(i), c, step, 0.0, k)
            W[:, c] += step * X[i]
    assert w.changes.sizes.tolist() == [2, 0, 0, WHOLE] and len(w.values) == 11
    out = np.empty(k + 1, np.float32)
    for i in range(len(X)):
        row_scores(w, rows, np.uint64(i), out, k)
        np.testing.assert_allclose(out[:k], X[i] @ W, atol=1e-5)
        scores = [class_score(w, rows, np.uint64(i), c, k) for c in range(k)]
        np.testing.assert_allclose(scores, X[i] @ W, atol=1e-5)
        for l1 in (0.5, 1.0):
            nearer = np.sign(W - before) * np.maximum(np.abs(W - before) - l1, 0)
            out[:] = 0.0
            add_scores(w.changes, rows, np.uint64(i), np.float32(l1), out, k)
            np.testing.assert_allclose(out[:k], X[i] @ nearer, atol=1e-4)


@uncompiled
def test_a_row_lacks_what_two_more_classes_would_take():
    k, rows = 40, rows_of(sp.csr_matrix([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    for free in (0, 20, 39, 40, 41, 79):
        w = zeros(3, k, dense=False, average=False)
        w = w._replace(changes=empty(3, k, slots=4 + 8 + 16 + 4 + free))
        for c in range(12):  # as many as 16 slots take
            add_row(w, rows, np.uint64(0), c, 1.0, 0.0, k)
        add_row(w, rows, np.uint64(1), 7, 1.0, 0.0, k)
        assert w.changes.end[0] == len(w.changes.values) - free  # no room is taken before its time
        lacks = [lacks_room(w, rows, np.uint64(i), k) for i in range(4)]
        # The first feature will want all 40 classes. The second has met one: its slots take three.
        assert lacks == [max(0, 40 - free), 0, max(0, 40 - free), max(0, 4 - free)]
