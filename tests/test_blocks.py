"""Hash blocks against a dense matrix that takes the same changes."""

import numpy as np
import pytest

from workbench.core.problem import as_problem
from workbench.kernels.rows import rows_of
from workbench.memoir.blocks import (
    FULL,
    WHOLE,
    compacted,
    dense,
    empty,
    insert,
    length_of,
    matrix_of,
    needed_slots,
    position,
    reserve,
    roomier,
    slots_for,
)
from workbench.memoir.products import add_outer, add_scores, lacks_room, set_scores

D = 30
CLASSES = [2, 5, 17, 100, 1000, 2**16 - 1, 2**16]


def slot_of(b, f, c, k):
    """Return the slot of class c in the block of feature f, which it enters if it must."""
    reserve(b, f, 1, k)
    p = position(b.starts, b.sizes, b.classes, f, c, k)
    return p if p >= 0 else insert(b.used, b.classes, f, c, p)


def fill(k, changes=1500, *, sums=False, seed=0, slots=8):
    """Return blocks after random changes, and the dense matrices of their values and sums.

    Feature f has met a share of (f / D)^4 of the classes in the end, or nearly so.
    """
    rng = np.random.default_rng(seed)
    b, W, S = empty(D, k, sums=sums, slots=slots), np.zeros((D, k)), np.zeros((D, k))
    pools = 1
    for _ in range(changes):
        f = int(D * rng.random() ** 0.5)
        c = int(rng.integers(max(1, round(k * (f / D) ** 4)), endpoint=True) * (1 - 1e-9))
        value = np.float32(rng.normal())
        size = slots_for(b.sizes[f], b.used[f] + 1, k)
        need = 0 if size == b.sizes[f] else length_of(size, k)
        if len(b.values) - b.end[0] < need:
            b, pools = roomier(b, k, need), pools + 1
        p = slot_of(b, f, c, k)
        b.values[p] += value
        W[f, c] += value
        if sums:
            b.sums[p] += 3 * value
            S[f, c] += 3 * value
    assert pools > 2
    return b, W, S


@pytest.mark.parametrize("k", CLASSES)
def test_blocks_are_the_matrix_whose_changes_they_took(k):
    b, W, _ = fill(k)
    made = matrix_of(b, k)
    assert made.has_canonical_format and (made.data != 0).all()
    np.testing.assert_allclose(made.toarray(), W, atol=1e-5)
    assert b.classes.dtype == (np.uint16 if k < 2**16 else np.uint32)
    if k in (17, 100):
        assert (b.sizes == WHOLE).any() and ((b.sizes > 0) & (b.sizes < WHOLE)).any()
    for f in range(D):  # every class is found, and no other
        met = np.flatnonzero(W[f])
        for c in [*met[:200], *np.setdiff1d(np.arange(min(k, 200)), met)]:
            p = position(b.starts, b.sizes, b.classes, f, c, k)
            if W[f, c]:
                assert b.classes[p] == c and b.values[p] == pytest.approx(W[f, c], abs=1e-5)
            else:
                assert b.values[p] == 0 if b.sizes[f] == WHOLE else p < 0
    # Blocks lie side by side and are never full.
    hashed = (b.sizes > 0) & (b.sizes < WHOLE)
    lengths = np.where(hashed, 2.0 ** np.minimum(b.sizes, 31), np.where(b.sizes == WHOLE, k, 0))
    np.testing.assert_array_equal(b.used[hashed], (W != 0).sum(axis=1)[hashed])
    assert (b.used[hashed] <= FULL * lengths[hashed]).all()
    order = np.argsort(b.starts[lengths > 0])
    starts, ends = b.starts[lengths > 0][order], (b.starts + lengths)[lengths > 0][order]
    assert (starts[1:] >= ends[:-1]).all() and ends[-1] <= b.end[0] <= len(b.values)


@pytest.mark.parametrize("zeros", [0.0, 0.9])
@pytest.mark.parametrize("k", [5, 100, 70_000])
def test_a_new_pool_is_without_gaps_and_zeros(k, zeros):
    b, _, S = fill(k, sums=True)
    some = np.random.default_rng(1).random(len(b.values)) < zeros
    b.values[some] = 0.0
    new, same = compacted(b, k, 77), roomier(b, k, 77)
    assert (matrix_of(same, k) != matrix_of(b, k)).nnz == 0 and new.end[0] <= same.end[0] < b.end[0]
    assert len(same.values) - same.end[0] >= 77
    assert new.end[0] == needed_slots(b, k) < b.end[0] and len(new.values) - new.end[0] >= 77
    assert (matrix_of(new, k) != matrix_of(b, k)).nnz == 0
    np.testing.assert_allclose(matrix_of(new._replace(values=new.sums), k).toarray(), S, atol=1e-4)
    b.sums[:] = 0.0
    fewer = compacted(b, k, 77).end[0]
    assert fewer < new.end[0] if zeros and k > 5 else fewer <= new.end[0]
    assert needed_slots(empty(D, k), k) == 0 == matrix_of(compacted(empty(D, k), k, 5), k).nnz


def documents(dtype, filled, n=20):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(n, D)) * (rng.random((n, D)) < filled)).astype(dtype)
    X[3] = 0
    return X, rows_of(as_problem(X, np.arange(n) % 2).X)


@pytest.mark.parametrize("k", CLASSES)
@pytest.mark.parametrize("l1", [0.0, 0.4])
@pytest.mark.parametrize("filled", [0.2, 1.0])
def test_scores_are_the_product_with_the_values_taken_towards_zero(k, l1, filled):
    b, W, _ = fill(k)
    W = np.sign(W) * np.maximum(np.abs(W) - np.float32(l1), 0)
    np.testing.assert_allclose(matrix_of(b, k, l1).toarray(), W, atol=1e-5)
    for dtype in (np.float32, np.float64):
        X, rows = documents(dtype, filled)
        for i in range(len(X)):
            out = np.full(k + 1, 2, np.float32)
            add_scores(b, rows, np.uint64(i), np.float32(l1), out, k)
            np.testing.assert_allclose(out[:k] - 2, X[i] @ W, atol=1e-4)
            assert out[k] == 2  # empty slots add nothing, to a class that does not exist


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("k", [2, 5, 100, 70_000])
def test_a_row_finds_the_room_that_was_asked_for_and_changes_its_classes(k, kind):
    b, W, S = fill(k, sums=True)
    X, rows = documents(np.float64, 0.4)
    if kind == "dense":
        b = dense(W.astype(np.float32), sums=True)
        b.sums[:] = S.ravel()
    for i in range(len(X)):
        need = lacks_room(b, rows, np.uint64(i), 2, k)
        assert not (need and kind == "dense")
        while need:
            assert need > len(b.values) - b.end[0]
            b = roomier(b, k, need)
            need = lacks_room(b, rows, np.uint64(i), 2, k)
        pair, g = np.random.default_rng(i).choice(k, 2, replace=False), np.empty(2)
        add_outer(b, rows, np.uint64(i), np.array([0.5, -2.0]), pair, 3.0, k)
        for c, step in zip(pair, (0.5, -2.0), strict=True):
            W[:, c] += step * X[i]
            S[:, c] += 3.0 * step * X[i]
        set_scores(b, rows, np.uint64(i), pair, np.float32(0.0), g, k)
        np.testing.assert_allclose(g, X[i] @ W[:, pair], atol=1e-4)
        assert b.end[0] <= len(b.values)
    np.testing.assert_allclose(np.asarray(array(matrix_of(b, k))), W, atol=1e-5)
    np.testing.assert_allclose(array(matrix_of(b._replace(values=b.sums), k)), S, atol=1e-4)


def array(W):
    return W if isinstance(W, np.ndarray) else W.toarray()
