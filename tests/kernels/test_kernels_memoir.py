"""MEMOIR's compiled steps and hash blocks, against dense matrices that take the same
changes."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import each
from numba import config
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx

from workbench.kernels.rows import rows_of
from workbench.memoir import blocks, steps
from workbench.memoir.blocks import (
    WHOLE,
    dense,
    empty,
    matrix_of,
    position,
    roomier,
    slots_for,
)
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores
from workbench.memoir.steps import (
    NO_ANSWERS,
    Batch,
    none_taken,
    square_of,
    truncate,
    visit,
)

D = 30
# Without compilation, large numbers of classes would take minutes.
CLASSES = [5, 100] if config.DISABLE_JIT else [2, 5, 17, 100, 1000, 2**16 - 1, 2**16]
uncompiled = pytest.mark.skipif(
    not config.DISABLE_JIT, reason="would compile again; with NUMBA_DISABLE_JIT=1"
)


def slot_of(b, f, c, k):
    """Return the slot of class c in the block of feature f, which it enters if it
    must."""
    blocks.reserve(b, f, 1)
    p = position(b.starts, b.sizes, b.classes, f, c, k)
    return p if p >= 0 else blocks.insert(b.used, b.classes, f, c, p)


def test_a_step_ends_in_the_ball():
    def scale_after(lam, square):
        steps.project(numbers := np.array([0.8, square]), lam)
        assert numbers[steps.SQUARE] == square
        return numbers[steps.SCALE]

    assert scale_after(0.25, 100.0) == approx(0.2, rel=1e-15)  # |W| = 8, radius 2
    assert scale_after(0.25, 9.0) == approx(0.8 / 1.2, rel=1e-15)
    # Inside of it, inside of a ball of radius 1/2, without a ball, and negative by
    # rounding.
    for lam, square in ((0.25, 1.0), (4.0, 0.01), (0.0, 1e9), (0.25, -1e-9)):
        assert scale_after(lam, square) == 0.8


def test_a_small_scale_is_multiplied_into_the_weights():
    b = dense(np.full((2, 3), 4.0, "f4"))
    scale = 5e-4
    steps.fold(b, numbers := np.array([scale, 16.0]))
    assert_allclose(b.values, 4.0 * scale, rtol=1e-6)
    assert_allclose(numbers, [1.0, 16.0 * scale**2], rtol=1e-12)


def visited(b, batch, numbers, taken):
    return visit(b, 0, len(batch.j), batch, numbers, taken, steps.scratch_of(b))


@pytest.fixture
def walk():
    """Return four rows, four classes, blocks after their steps, and what was taken."""
    X = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], "f4")
    y = np.array([0, 1, 2, 0], "i4")
    eta = np.array([0.8, 0.8, 0.3, 0.3])
    batch = Batch(rows_of(X), y, np.arange(4), NO_ANSWERS, eta, 5)
    b = dense(np.zeros((2, 4), "f4"), sums=True)
    numbers = np.array([0.5, 0.0])
    taken = none_taken(4)
    assert visited(b, batch, numbers, taken) == (4, 0)
    return X, batch, b, numbers, taken


@uncompiled
def test_steps_are_those_of_dense_matrices(walk):
    X, batch, b, numbers, taken = walk
    W = np.zeros((2, 4))
    S = np.zeros((2, 4))
    scale = 0.5
    eye = np.eye(4)
    answers = []
    moves = []
    for i, y in enumerate(batch.y):
        scores = X[i] @ W
        r = np.argmax(np.where(eye[y], -np.inf, scores))
        answers.append(r)
        moves.append(batch.eta[i] / scale * (scale * (scores[y] - scores[r]) < 1))
        change = moves[i] * np.outer(X[i], eye[y] - eye[r])
        W += change
        S += (5 + i) * change
    assert_allclose(b.values.reshape(2, 4), W, rtol=1e-6, atol=1e-6)
    assert_allclose(b.sums.reshape(2, 4), S, rtol=1e-6, atol=1e-6)
    assert_allclose(numbers, [scale, (W**2).sum()], rtol=1e-6)
    assert taken.classes.tolist() == answers
    assert_allclose(taken.steps, moves, rtol=1e-12)
    assert 0 < np.count_nonzero(moves) < 4


@each(
    "scores, own, wrong",
    [
        ([3, 7, 5, 9], 1, (2, 2.0)),  # none of the classes here is the last
        ([4, 6, 6, 6, 0], 0, (1, -2.0)),  # the first of equals
    ],
)
@uncompiled
def test_the_best_wrong_class_is_the_first_of_the_others(scores, own, wrong):
    assert steps.best_wrong(np.array(scores, float), own) == wrong


@uncompiled
def test_a_margin_of_one_is_enough_and_scores_are_precise(walk):
    _, batch, b, numbers, _ = walk
    b.values[:] = [-1.0] * 4 + [2.0, 0.0, -1.0, 0.0]
    one = batch._replace(j=np.array([1]), y=np.zeros(4, "i4"))
    for answer, r in ((NO_ANSWERS, 1), (np.array([2], "i4"), 2)):
        visited(b, one._replace(r=answer), numbers, taken := none_taken(1))
        # At a scale of 1/2 the margin is exactly one: enough.
        assert taken.classes[0] == r and not taken.steps[0]
    b.values[4:] = 1e-9 * np.arange(4)  # single precision keeps the differences
    visited(b, one, numbers, taken)
    assert taken.classes[0] == 3


def test_blocks_grow_when_they_are_nearly_full():
    k = 100
    b = empty(1, k, sums=True, slots=250)
    first = 50
    b.end[0] = first
    b.values[:] = b.sums[:] = 7.0  # which blocks that take these slots do not hold
    sizes = []
    for met in range(1, 60):
        p = slot_of(b, 0, 7 * met % k, k)
        b.values[p] += met
        b.sums[p] -= met
        sizes.append(int(b.sizes[0]))
    # up to 0.8 of the slots
    assert [sizes.count(size) for size in (2, 3, 4, 5)] == [3, 3, 6, 13]
    assert sizes[25:] == [WHOLE] * 34  # 64 slots would be more than half of all classes
    dense = np.zeros(k)
    dense[[7 * met % k for met in range(1, 60)]] = range(1, 60)
    start = b.starts[0]
    assert_array_equal(b.values[start : start + k], dense)
    assert_array_equal(b.sums[start : start + k], -dense)
    assert start == first + 4 + 8 + 16 + 32 and b.end[0] == start + k
    assert not b.values[first:start].any()  # norms are of all slots up to the end
    assert slots_for(np.uint8(WHOLE), 1000, k) == WHOLE
    # Eight slots are half of 16 classes, and more than half of 15.
    assert [slots_for(np.uint8(0), 4, k) for k in (16, 15)] == [3, WHOLE]
    assert [blocks.length_of(size, 7) for size in (0, 2, 5, WHOLE)] == [0, 4, 32, 7]


@uncompiled
def test_a_row_lacks_what_more_classes_would_take():
    k = 40
    rows = rows_of(sp.csr_matrix([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    assert lacks_room(empty(3, k), rows_of(np.ones((2, 3))), np.uint64(1), 2) == 3 * 4
    assert lacks_room(empty(3, 2, slots=3), rows, np.uint64(0), 2) == 4
    b = empty(1, k, slots=4 + 8)
    g = np.empty(2)
    one = rows_of(np.ones((1, 1)))
    for c in range(4):  # the pool has no slot left, and the block has room for two more
        add_outer(b, one, np.uint64(0), np.ones(1), np.array([c]), 0.0)
    batch = Batch(one, np.array([30]), np.array([0]), NO_ANSWERS, np.ones(1))
    assert visited(b, batch, np.array([1.0, 4.0]), none_taken(1)) == (1, 0)
    b = empty(1, k, slots=4)
    b.values[slot_of(b, 0, 0, k)] = 7.0  # in the first slot of the pool
    set_scores(b, one, np.uint64(0), np.array([0, 1]), None, g)
    assert g.tolist() == [7.0, 0.0]
    for free in (0, 3, 4, 20, 39, 40, 41, 43, 44, 79):
        b = empty(3, k, slots=4 + 8 + 16 + 4 + free)
        for c in range(12):  # as many as 16 slots take
            add_outer(b, rows, np.uint64(0), np.ones(1), np.array([c]), 0.0)
        add_outer(b, rows, np.uint64(1), np.ones(1), np.array([7]), 0.0)
        assert b.end[0] == len(b.values) - free  # no room is taken before its time
        needs = [lacks_room(b, rows, np.uint64(i), 2) for i in range(4)]
        # The first feature will want all 40 classes. The second has met one: its slots
        # take three.
        assert needs == [need if need > free else 0 for need in (40, 0, 40, 4)]
        assert lacks_room(b, rows, np.uint64(2), 3) == (48 if free < 48 else 0)


def fill(k, *, sums=False):
    """Return blocks after random changes, and the dense matrices of their values and
    sums.

    Feature f has met a share of (f / D)^4 of the classes in the end, or nearly so;
    feature 0 none.
    """
    rng = default_rng(0)
    b = empty(D, k, sums=sums, slots=8)
    W = np.zeros((D, k))
    S = np.zeros((D, k))
    pools = 1
    for _ in range(500 if config.DISABLE_JIT else 1500):
        f = 1 + int((D - 1) * rng.random() ** 0.5)
        c = int(
            rng.integers(max(1, round(k * (f / D) ** 4)), endpoint=True) * (1 - 1e-9)
        )
        value = np.float32(rng.normal())
        size = slots_for(b.sizes[f], b.used[f] + 1, k)
        need = 0 if size == b.sizes[f] else blocks.length_of(size, k)
        if len(b.values) - b.end[0] < need:
            b = roomier(b, need)
            pools += 1
        p = slot_of(b, f, c, k)
        b.values[p] += value
        W[f, c] += value
        if sums:
            b.sums[p] += 3 * value
            S[f, c] += 3 * value
    assert pools > 2 and b.sizes[0] == 0
    return b, W, S


def filled(k, kind, **given):
    """Return such blocks, from the first slot of a pool on, or those of the same dense
    matrix."""
    b, W, S = fill(k, **given)
    b = roomier(b, 8)
    if kind == "dense":
        b = dense(W.astype("f4"), **given)
        b.sums[:] = S.ravel()[: len(b.sums)]
    return b, W, S


def entries(b, of="values", **given):
    """Return the matrix of the values, or of the sums, as a dense array."""
    made = matrix_of(b._replace(values=getattr(b, of)), **given)
    return made.toarray() if sp.issparse(made) else made


@each("k", CLASSES)
def test_blocks_are_the_matrix_whose_changes_they_took(k):
    b, W, _ = fill(k)
    made = matrix_of(b)
    assert made.has_canonical_format and (made.data != 0).all()
    assert_allclose(made.toarray(), W, atol=1e-5)
    assert b.classes.dtype == (np.uint16 if k < 2**16 else np.uint32)
    if k in (17, 100):
        assert (b.sizes == WHOLE).any() and ((b.sizes > 0) & (b.sizes < WHOLE)).any()
    for f in range(D):  # every class is found, and no other
        met = np.flatnonzero(W[f])
        for c in (
            [*met[:200], *np.setdiff1d(np.arange(min(k, 200)), met)]
            if b.sizes[f]
            else met
        ):
            p = position(b.starts, b.sizes, b.classes, f, c, k)
            if W[f, c]:
                assert b.classes[p] == c and b.values[p] == approx(W[f, c], abs=1e-5)
            else:
                assert b.values[p] == 0 if b.sizes[f] == WHOLE else p < 0
    # Blocks lie side by side and are never full.
    hashed = (b.sizes > 0) & (b.sizes < WHOLE)
    lengths = np.where(
        hashed, 2.0 ** np.minimum(b.sizes, 31), np.where(b.sizes == WHOLE, k, 0)
    )
    assert_array_equal(b.used[hashed], (W != 0).sum(axis=1)[hashed])
    assert (b.used[hashed] <= blocks.FULL * lengths[hashed]).all()
    order = np.argsort(b.starts[lengths > 0])
    starts = b.starts[lengths > 0][order]
    ends = (b.starts + lengths)[lengths > 0][order]
    assert (starts[1:] >= ends[:-1]).all() and ends[-1] <= b.end[0] <= len(b.values)


@each("k", CLASSES)
def test_a_new_pool_is_without_gaps_and_zeros(k):
    b, _, S = fill(k, sums=True)
    same = roomier(b, 77)
    assert same.end[0] < b.end[0] or k == 2  # of two classes no block grows
    assert_allclose(entries(same, "sums"), S, atol=1e-4)
    b = b._replace(sums=b.sums[:0])
    for zeros in (0.0, 0.9):
        b.values[default_rng(1).random(len(b.values)) < zeros] = 0.0
        W = matrix_of(b)
        new = blocks.compacted(b, 77)
        same = roomier(b, 77)
        hashed = new.sizes < WHOLE
        assert_array_equal(new.used[hashed], np.diff(W.indptr)[hashed])
        assert new.end[0] < same.end[0] or not zeros or k == 2
        for made in (new, same):
            assert len(made.values) - made.end[0] >= 77
            assert (matrix_of(made) != W).nnz == 0
    assert matrix_of(blocks.compacted(empty(D, k), 5)).nnz == 0


def documents():
    """Yield ten sparse and ten full rows, one of each empty, with their compiled form
    and their numbers in it."""
    for share, store, dtype in (
        (0.2, sp.csr_array, np.float32),
        (1.0, np.asarray, np.float64),
    ):
        rng = default_rng(1)
        X = (rng.normal(size=(10, D)) * (rng.random((10, D)) < share)).astype(dtype)
        X[3] = 0
        rows = rows_of(store(X))
        for i, x in enumerate(X):
            yield x, rows, np.uint64(i)


@each("kind", ["sparse", "dense"])
@each("k", CLASSES)
def test_scores_are_the_product_with_values_towards_zero(k, kind):
    b, W, _ = filled(k, kind)
    for l1 in (None, np.float32(1.0)):
        nearer = np.sign(W) * np.maximum(abs(W) - (l1 or 0), 0)
        if kind == "sparse":
            assert_allclose(entries(b, l1=l1 or 0.0), nearer, atol=1e-5)
        for x, rows, i in documents():
            out = np.full(k + 1, 2, "f4")
            g = np.empty(2)
            add_scores(b, rows, i, l1, out)
            assert_allclose(out[:k] - 2, x @ nearer, atol=1e-4)
            # empty slots add nothing, to a class that does not exist
            assert out[k] == 2
            pair = default_rng(i).choice(k, 2, replace=False)
            set_scores(b, rows, i, pair, l1, g)
            assert_allclose(g, x @ nearer[:, pair], atol=1e-4)


@each("sums", [True, False])
@each("kind", ["dense", "sparse"])
@each("k", CLASSES)
def test_a_row_finds_the_room_that_was_reserved(k, kind, sums):
    b, W, S = filled(k, kind, sums=sums)
    for x, rows, i in documents():
        while need := lacks_room(b, rows, i, 2):
            assert need > len(b.values) - b.end[0] and kind != "dense"
            b = roomier(b, need)
        pair = default_rng(i).choice(k, 2, replace=False)
        steps = np.array([0.5, -2.0])
        add_outer(b, rows, i, steps, pair, 3.0)
        W[:, pair] += np.outer(x, steps)
        S[:, pair] += 3.0 * np.outer(x, steps)
        assert b.end[0] <= len(b.values)
    thresholds = default_rng(0).choice([0.0, 0.5, 3.0], k).astype("f4")
    # as they are, and each class taken towards zero by its threshold
    for _ in range(2):
        assert_allclose(entries(b), W, atol=1e-4)
        assert square_of(b) == approx((W**2).sum(), rel=1e-5)
        truncate(b, thresholds)
        W = np.sign(W) * np.maximum(abs(W) - thresholds, 0)
    if sums:
        assert_allclose(entries(b, "sums"), S, atol=1e-3)
