"""MEMOIR's compiled steps and hash blocks on problems of a few rows, step by step."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import config
from test_blocks import slot_of

from workbench.kernels.rows import rows_of
from workbench.memoir.blocks import WHOLE, dense, empty, length_of, needed_slots, slots_for
from workbench.memoir.pegasos import add_taken
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores
from workbench.memoir.steps import (
    NO_ANSWERS,
    SCALE,
    VIOLATED,
    Taken,
    fold,
    project,
    scratch_of,
    search,
    square_of,
    truncate,
    visit,
)

NONE = np.float32(0.0)
uncompiled = pytest.mark.skipif(
    not config.DISABLE_JIT, reason="would compile again; with NUMBA_DISABLE_JIT=1"
)


def numbers_of(scale, square, mass=0.0, total=0.0, violated=0.0):
    return np.array([scale, square, mass, total, violated])


def test_a_step_ends_in_the_ball():
    def scale_after(lam, square):
        numbers = numbers_of(0.8, square, 3.0, 7.0, 2.0)
        project(numbers, lam)
        scale = numbers[SCALE]
        np.testing.assert_allclose(numbers, [scale, square, 3.0, 7.0, 2.0], rtol=1e-15)
        return scale

    assert scale_after(0.25, 100.0) == pytest.approx(0.2, rel=1e-15)  # |W| = 8, radius 2
    # Inside of it, inside of a ball of radius 1/2, without a ball, and negative by rounding.
    for lam, square in ((0.25, 1.0), (4.0, 0.01), (0.0, 1e9), (0.25, -1e-9)):
        assert scale_after(lam, square) == 0.8


def test_a_small_scale_is_multiplied_into_the_weights():
    b, scale = dense(np.full((2, 3), 4.0, np.float32)), 5e-4
    fold(b, numbers := numbers_of(scale, 16.0, 2.0, 6.0, 7.0))
    np.testing.assert_allclose(b.values, 4.0 * scale, rtol=1e-6)
    np.testing.assert_allclose(numbers, [1.0, 16.0 * scale**2, 2.0, 6.0 * scale, 7.0], rtol=1e-12)


@uncompiled
def test_what_steps_carry_along():
    X = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], np.float32)
    rows, y, k = rows_of(X), np.array([0, 1, 2, 0], np.int32), 4
    b, numbers, R = dense(np.zeros((2, k), np.float32)), numbers_of(0.5, 0.0), np.zeros(k, bool)
    taken, order, etas = Taken(np.zeros(4, np.int32), np.zeros(4)), np.arange(4), np.full(4, 0.8)
    etas[2:] = 0.3
    assert visit(b, 0, rows, order, y, NO_ANSWERS, etas, numbers, R, taken, k) == (4, 0)
    W, scale, violated, total, met = np.zeros((2, k)), 0.5, 0, 0.0, set()
    for i in order:
        scores = X[i] @ W
        margin = scores[y[i]] - np.delete(scores, y[i]).max()
        r = np.argmax(np.where(np.arange(k) == y[i], -np.inf, scores))
        met |= {int(y[i]), int(r)}
        if scale * margin < 1:
            violated, total = violated + 1, total + etas[i] / scale
            W[:, y[i]] += etas[i] / scale * X[i]
            W[:, r] -= etas[i] / scale * X[i]
    np.testing.assert_allclose(b.values.reshape(2, k), W, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(numbers, [scale, (W**2).sum(), 0.0, total, violated], rtol=1e-6)
    assert set(np.flatnonzero(R)) == met and 0 < violated < 4
    weights = np.zeros((4, k))
    add_taken(weights, order, taken, 1.0)
    A = np.eye(k)[y] * weights.sum(axis=1)[:, None] - weights
    np.testing.assert_allclose(X.T @ A, W, rtol=1e-6, atol=1e-6)
    scratch = scratch_of(k, b.values)

    def found(classes=NO_ANSWERS):
        return search(b, rows, 1, 1, 0, classes, *scratch, k)

    best = max((X[1] @ W)[[0, 2, 3]])
    assert best > 0 and found()[1] == pytest.approx((X[1] @ W)[1] - best, rel=1e-6)
    given = found(np.array([3], np.int32))
    assert given[0] == 3 and given[1] == pytest.approx((X[1] @ W)[1] - (X[1] @ W)[3], abs=1e-6)
    b.values[:] = [-1.0] * 4 + [-2.0] * 4
    assert found() == (0, 0.0)  # the lowest of equals
    b.values[4:], before = [2.0, 0.0, 0.0, 0.0], numbers[VIOLATED]
    numbers[SCALE] = 0.5
    one = np.array([1]), np.zeros(4, np.int32), NO_ANSWERS, np.ones(1)
    visit(b, 0, rows, *one, numbers, R, Taken(np.zeros(0, np.int32), np.zeros(0)), k)
    assert numbers[VIOLATED] == before  # at a scale of 1/2 the margin is exactly one: enough


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
    assert slots_for(np.uint8(WHOLE), 1000, k) == WHOLE
    # Eight slots are half of 16 classes, and more than half of 15.
    assert [slots_for(np.uint8(0), 4, k) for k in (16, 15)] == [3, WHOLE]
    assert [length_of(size, 7) for size in (0, 2, 5, WHOLE)] == [0, 4, 32, 7]
    assert needed_slots(b, k) == k
    b.values[start + 10 : start + k] = b.sums[start + 12 : start + k] = 0.0
    assert needed_slots(b, k) == 16  # for the values and sums of ten to twelve classes


@uncompiled
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_scores_are_of_all_blocks_and_changes_go_to_their_classes(kind):
    d, k = 4, 5
    X = np.array([[3, 0, 0, 1], [0, 2, 1, 0], [1, 0, 2, 0], [0, 0, 0, 2]], np.float32)
    rows, W, S = rows_of(sp.csr_matrix(X)), np.zeros((d, k)), np.zeros((d, k))
    b = empty(d, k, sums=True, slots=50)
    if kind == "dense":
        b = dense(np.zeros((d, k), np.float32), sums=True)
    step = 1.0
    for i, c, r in [(0, 0, 2), (1, 1, 4), (2, 0, 3), (0, 0, 4), (3, 1, 3)]:
        step = -1.5 * step
        pair, steps = np.array([c, r]), np.array([step, -2 * step])
        add_outer(b, rows, np.uint64(i), steps, pair, 0.5, k)
        for changed, by in zip(pair, steps, strict=True):
            W[:, changed] += by * X[i]
            S[:, changed] += 0.5 * by * X[i]
    if kind == "sparse":  # one hash table is left: five classes leave no room for a larger one
        assert b.sizes.tolist() == [WHOLE, 2, WHOLE, WHOLE]
    else:
        np.testing.assert_allclose(b.values.reshape(d, k), W, atol=1e-5)
        np.testing.assert_allclose(b.sums.reshape(d, k), S, atol=1e-5)
    out, g = np.empty(k + 1, np.float32), np.empty(3)
    for i in range(len(X)):
        for l1 in (0.0, 0.5, 1.0):
            nearer = np.sign(W) * np.maximum(np.abs(W) - l1, 0)
            out[:] = 1.0
            add_scores(b, rows, np.uint64(i), np.float32(l1), out, k)
            np.testing.assert_allclose(out[:k], 1 + X[i] @ nearer, atol=1e-4)
            set_scores(b, rows, np.uint64(i), np.array([4, 1, 0]), np.float32(l1), g, k)
            np.testing.assert_allclose(g, (X[i] @ nearer)[[4, 1, 0]], atol=1e-4)
    nothing = empty(1, k, slots=9)
    nothing.values[:] = 7.0  # in no block
    set_scores(nothing, rows_of(np.ones((1, 1))), np.uint64(0), np.array([0, 1, 4]), NONE, g, k)
    assert not g.any()
    thresholds = np.array([0.5, 0.0, 3.0, 0.1, 100.0], np.float32)
    kept = np.sign(W) * np.maximum(np.abs(W) - thresholds, 0)
    assert square_of(b) == pytest.approx((W**2).sum(), rel=1e-6)
    truncate(b, thresholds, k)
    for i in range(len(X)):
        for now, expected in ((b, kept), (b._replace(values=b.sums), S)):
            out[:] = 0.0
            add_scores(now, rows, np.uint64(i), NONE, out, k)
            np.testing.assert_allclose(out[:k], X[i] @ expected, atol=1e-3)


@uncompiled
def test_a_row_lacks_what_more_classes_would_take():
    k, rows = 40, rows_of(sp.csr_matrix([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    assert lacks_room(empty(3, k), rows_of(np.ones((2, 3))), np.uint64(1), 2, k) == 3 * 4
    assert lacks_room(empty(3, 2, slots=3), rows, np.uint64(0), 2, 2) == 4
    for free in (0, 3, 4, 20, 39, 40, 41, 43, 44, 79):
        b = empty(3, k, slots=4 + 8 + 16 + 4 + free)
        for c in range(12):  # as many as 16 slots take
            add_outer(b, rows, np.uint64(0), np.ones(1), np.array([c]), 0.0, k)
        add_outer(b, rows, np.uint64(1), np.ones(1), np.array([7]), 0.0, k)
        assert b.end[0] == len(b.values) - free  # no room is taken before its time
        needs = [lacks_room(b, rows, np.uint64(i), 2, k) for i in range(4)]
        # The first feature will want all 40 classes. The second has met one: its slots take three.
        assert needs == [need if need > free else 0 for need in (40, 0, 40, 4)]
        assert lacks_room(b, rows, np.uint64(2), 3, k) == (48 if free < 48 else 0)
