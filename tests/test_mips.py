"""Exact search against brute force, chance, how inexact answers are, and what is refused."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.memoir.mips import MIPS, best_classes, inexactness, make_oracle, scores

N, D, C = 70, 33, 24


def eighths(rng, shape, dtype=np.float32):
    """Return sparse random multiples of 1/8: sums of products are exact, and ties are common."""
    A = rng.integers(-8, 9, size=shape) * (rng.random(shape) < 0.3)
    return (A / 8).astype(dtype)


def stored(A, sparse):
    return sp.csr_array(A) if sparse else np.ascontiguousarray(A)


def brute_force(X, W, y):
    F = X.astype(float) @ W.astype(float)
    F[np.arange(len(y)), y] = -np.inf
    return F.argmax(axis=1)


def ask(name, X, W, y, rows=None, **options):
    oracle = make_oracle(name, k=W.shape[1], d=W.shape[0], **options)
    oracle.update(W)
    return oracle.query(X, np.arange(X.shape[0]) if rows is None else rows, y)


STORAGE = list(itertools.product([False, True], [False, True]))


@pytest.mark.parametrize("x_sparse, w_sparse", STORAGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_is_brute_force_with_ties_going_to_the_lowest_class(x_sparse, w_sparse, dtype):
    rng = np.random.default_rng(0)
    X = eighths(rng, (N, D), dtype)
    W = eighths(rng, (D, C), np.float32 if w_sparse else dtype)
    W[:, 5] = W[:, 17]  # a tie in every row
    W[:, [2, 3, 20]] = 0
    W[4] = 0.5  # a list of all classes
    X[6] = 0  # all scores are equal
    y = rng.integers(C, size=N)
    y[:20] = (X @ W).argmax(axis=1)[:20]
    rows = rng.permutation(N)
    r = ask("exact", stored(X, x_sparse), stored(W, w_sparse), y[rows], rows)
    assert r.dtype == np.int32
    np.testing.assert_array_equal(r, brute_force(X[rows], W, y[rows]))


@pytest.mark.parametrize("x_sparse, w_sparse", STORAGE)
@pytest.mark.parametrize("block", [4 * D * 7, 2**24])
def test_scores_are_the_product_however_many_blocks(x_sparse, w_sparse, block, monkeypatch):
    monkeypatch.setattr("workbench.memoir.mips.oracle.BLOCK_BYTES", block)
    rng = np.random.default_rng(2)
    X, W = eighths(rng, (N, D)), eighths(rng, (D, C))
    y = rng.integers(C, size=N)
    stores = stored(X, x_sparse), stored(W, w_sparse)
    F = scores(*stores)
    assert F.dtype == np.float32
    np.testing.assert_array_equal(F, X @ W)
    rows = np.array([2, 0, 2])
    np.testing.assert_array_equal(scores(*stores, rows), F[rows])
    np.testing.assert_array_equal(ask("exact", *stores, y), brute_force(X, W, y))
    np.testing.assert_array_equal(best_classes(*stores, rows), F[rows].argmax(axis=1))


@pytest.mark.parametrize("x_sparse, w_sparse", STORAGE)
@pytest.mark.parametrize(
    ("row", "y", "answers"),
    [
        ([-3, -1, -2, -5], [0, 1], [1, 2]),  # all scores are negative
        ([1, 0, 0, 0], [0, 1], [1, 0]),  # only the label is good
        ([np.nan] * 4, [0, 2], [1, 0]),  # scores that are not numbers
    ],
)
def test_answers_by_hand(row, y, answers, x_sparse, w_sparse):
    X, W = np.ones((2, 3), np.float32), np.array([row] * 3, np.float32)
    r = ask("exact", stored(X, x_sparse), stored(W, w_sparse), np.array(y))
    np.testing.assert_array_equal(r, answers)


@pytest.mark.parametrize("sparse", [False, True])
def test_class_numbers_beyond_sixteen_bits(sparse):
    classes = 2**16 + 5
    W = np.zeros((2, classes), np.float32)
    W[0, -1], W[0, 3], W[1, -2] = 2, 1, 1
    X = np.eye(2, dtype=np.float32)
    for name in ("exact", "simple_lsh"):
        options = {"rerank": classes} if name == "simple_lsh" else {}
        r = ask(name, stored(X, sparse), stored(W, sparse), np.array([0, 0]), **options)
        np.testing.assert_array_equal(r, [classes - 1, classes - 2])
    r = ask("exact", stored(X, sparse), stored(W, sparse), np.array([classes - 1, 0]))
    np.testing.assert_array_equal(r, [3, classes - 2])


@pytest.mark.parametrize("name", MIPS)
@pytest.mark.parametrize("x_sparse, w_sparse", STORAGE)
def test_no_oracle_answers_the_label(name, x_sparse, w_sparse):
    rng = np.random.default_rng(5)
    X, W = eighths(rng, (N, D)), eighths(rng, (D, C))
    X[3] = 0
    y = (X @ W).argmax(axis=1)
    for weights in (W, np.zeros_like(W)):
        r = ask(name, stored(X, x_sparse), stored(weights, w_sparse), y)
        assert r.dtype == np.int32 and r.shape == y.shape
        assert not (r == y).any() and r.min() >= 0 and r.max() < C
        none = np.empty(0, int)
        empty = ask(name, stored(X, x_sparse), stored(weights, w_sparse), none, none)
        assert empty.shape == (0,)
        two = stored(np.ascontiguousarray(weights[:, :2]), w_sparse)  # the other is the answer
        np.testing.assert_array_equal(ask(name, stored(X, x_sparse), two, y % 2), 1 - y % 2)


def test_chance_is_uniform_over_the_other_classes_and_seeded():
    y = np.full(6000, 2)
    X, W = np.zeros((6000, D), np.float32), np.zeros((D, 4), np.float32)
    counts = np.bincount(ask("random", X, W, y, seed=3), minlength=4)
    assert counts[2] == 0
    np.testing.assert_allclose(counts[[0, 1, 3]], 2000, atol=4 * np.sqrt(6000 * 2 / 9))
    np.testing.assert_array_equal(ask("random", X, W, y, seed=3), ask("random", X, W, y, seed=3))
    # A generator is drawn from, not copied: its owner can save where it stands.
    rng = np.random.default_rng(3)
    first, second = (ask("random", X, W, y, seed=rng) for _ in range(2))
    assert (first != second).any()


def test_inexactness_of_answers_that_are_known():
    """Scores 4, 3, 1 and a tie, all of label 0."""

    class Fixed:
        query_seconds, rng = 7.0, np.random.default_rng(0)

        def query(self, X, rows, y):
            self.query_seconds = 0.1
            return np.array([2, 1, 3, 4], np.int32)

    W = np.array([[9, 4, 3, 1, 4]], np.float32)
    X, rows, y = np.ones((4, 1)), np.arange(4), np.array([0, 0, 0, 0])
    for store in (False, True):
        oracle = Fixed()
        found = inexactness(oracle, stored(W, store), stored(X, store), rows, y)
        assert oracle.query_seconds == 7.0
        assert found["recall"] == 0.5  # answers 1 and 4 share the largest score
        assert found["epsilon_mean"] == 1.0 and found["epsilon_max"] == 3.0
        assert found["epsilon_p95"] == np.quantile([1, 0, 3, 0], 0.95)


@pytest.mark.parametrize("x_sparse, w_sparse", STORAGE)
def test_exact_search_is_not_inexact_and_looking_draws_nothing(x_sparse, w_sparse):
    rng = np.random.default_rng(7)
    X, W = rng.normal(size=(N, D)), rng.normal(size=(D, C)).astype(np.float32)
    X, W, y = stored(X, x_sparse), stored(W, w_sparse), rng.integers(C, size=N)
    before = rng.bit_generator.state
    for name, recall in (("exact", 1.0), ("random", 0.5)):
        oracle = make_oracle(name, k=C, d=D, seed=rng)
        oracle.update(W)
        found = inexactness(oracle, W, X, np.arange(N), y)
        assert rng.bit_generator.state == before and found["recall"] <= recall
        exact = {"recall": 1, "epsilon_mean": 0, "epsilon_p95": 0, "epsilon_max": 0}
        assert (found == exact) == (name == "exact")


@pytest.mark.parametrize("name", MIPS)
def test_an_index_must_be_built_before_it_is_asked(name):
    oracle = make_oracle(name, k=C, d=D)
    with pytest.raises(ValueError, match="has not been built"):
        oracle.query(np.zeros((2, D)), np.arange(2), np.zeros(2, int))


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("exakt", {}, r"^mips: must be one of exact, sw_graph, hnsw, simple_lsh, random"),
        ("exact", {"ef": 3}, "^exact has no option 'ef'; valid options: none"),
        ("sw_graph", {"M": 3}, "^sw_graph has no option 'M'; valid options: neighbours, ef, thr"),
        (
            "sw_graph",
            {"neighbours": 0},
            r"^neighbours: must be a whole number of .* 1, got 0",
        ),
        ("hnsw", {"ef": -1}, r"^ef: must be"),
        ("hnsw", {"threads": True}, r"^threads: must be"),
        ("exact", {"k": 1}, r"^k, d: must be at least 2 classes and 1 feature, got 1, 33"),
        ("exact", {"d": 0}, r"^k, d: must be at least 2"),
        ("simple_lsh", {"bits": 0}, r"^bits: must be a whole"),
        ("simple_lsh", {"rerank": 0}, r"^rerank: must be a whole"),
        ("simple_lsh", {"d": 10**7}, r"^bits: .* d = 10000000 .* 64 bits .* at most 26 bits fit"),
    ],
)
def test_what_no_oracle_accepts(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_oracle(name, **{"k": C, "d": D} | options)


@pytest.mark.parametrize(
    "W, message",
    [
        (np.zeros((C, D)), "^W: must have shape"),
        (sp.csc_array((D, C), dtype=np.float32), "^W: must be CSR of float32"),
        (sp.csr_array((D, C)), "^W: must be CSR of float32"),
        (np.zeros((C, D)).T, "^W: must be a C-ordered"),
        (np.zeros((D, C), int), "^W: must be a C-ordered"),
    ],
)
def test_weights_that_are_not_accepted(W, message):
    with pytest.raises(ValueError, match=message):
        make_oracle("exact", k=C, d=D).update(W)


@pytest.mark.parametrize(
    "X, rows, y, message",
    [
        (np.zeros((2, D + 1)), [0], [0], "^X: must have 33 features"),
        (sp.csc_array((2, D)), [0], [0], "^X: must be CSR"),
        (np.zeros((2, D)), [2], [0], "^rows: must be from 0 to 1"),
        (np.zeros((2, D)), [-1], [0], "^rows: must be"),
        (np.zeros((2, D)), [0, 1], [0], "^y: must be a label for each row"),
        (np.zeros((2, D)), [0], [C], "^y: must be from 0 to 23"),
    ],
)
def test_queries_that_are_not_accepted(X, rows, y, message):
    oracle = make_oracle("exact", k=C, d=D)
    oracle.update(np.zeros((D, C)))
    with pytest.raises(ValueError, match=message):
        oracle.query(X, np.array(rows), np.array(y))
