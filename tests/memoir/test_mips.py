"""Searches for the best wrong class: exact, by chance, by hashes and by graphs; what is
refused."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from helpers import each, refuses, single_or_double, sparse_or_not
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from workbench.core.matrices import as_dense
from workbench.memoir import mips
from workbench.memoir.mips import MIPS, inexactness, make_oracle
from workbench.memoir.mips.hashing import SimpleLSH

N = 60
D = 40
C = 150
each_graph = each("name", ["sw_graph", "hnsw"])
STORAGE = list(itertools.product([False, True], repeat=2))
each_storage = each("x_sparse, w_sparse", STORAGE)


def eighths(seed=0, dtype=np.float32):
    """Return X (N, D), W (D, C) and labels; values are sparse multiples of 1/8.

    Sums of products are exact, and ties are common.
    """
    rng = default_rng(seed)
    X, W = (
        (rng.integers(-8, 9, size=shape) * (rng.random(shape) < 0.3) / 8).astype(dtype)
        for shape in ((N, D), (D, C))
    )
    return X, W, rng.integers(C, size=N)


def reals(seed, sparse):
    """Return the same of real numbers, dense or sparse."""
    rng = default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.3)
    W = (rng.normal(size=(D, C)) * (rng.random((D, C)) < 0.3)).astype("f4")
    return stored(X, sparse), stored(W, sparse), rng.integers(C, size=N)


def stored(A, sparse):
    return sp.csr_array(A) if sparse else np.ascontiguousarray(A)


def brute_force(X, W, y):
    F = X.astype(float) @ W.astype(float)
    F[np.arange(len(y)), y] = -np.inf
    return F.argmax(axis=1)


def built(name, W, **options):
    """Return an oracle that searches W."""
    oracle = make_oracle(name, k=W.shape[1], d=W.shape[0], **options)
    oracle.update(W)
    return oracle


def ask(name, X, W, y, rows=None, **options):
    return built(name, W, **options).query(
        X, np.arange(X.shape[0]) if rows is None else rows, y
    )


@each_storage
@single_or_double
@each("block", [4 * D * 7, 2**24])
def test_exact_is_brute_force_however_many_blocks(
    x_sparse, w_sparse, dtype, block, monkeypatch
):
    """Ties go to the lowest class."""
    monkeypatch.setattr("workbench.memoir.mips.oracle.BLOCK_BYTES", block)
    X, W, y = eighths(dtype=dtype)
    W = W.astype(np.float32 if w_sparse else dtype)
    W[:, 5] = W[:, 17]  # a tie in every row
    W[:, [2, 3, 20]] = 0
    W[4] = 0.5  # a list of all classes
    X[6] = 0  # all scores are equal
    y[:20] = (X @ W).argmax(axis=1)[:20]
    rows = default_rng(0).permutation(N)
    stores = stored(X, x_sparse), stored(W, w_sparse)
    r = ask("exact", *stores, y[rows], rows)
    assert r.dtype == np.int32
    assert_array_equal(r, brute_force(X[rows], W, y[rows]))
    F = mips.scores(*stores)
    assert F.dtype == np.float32 or dtype == np.float64
    assert_array_equal(F, X @ W)
    assert_array_equal(mips.best_classes(*stores, rows), F[rows].argmax(axis=1))


@each_storage
def test_answers_by_hand(x_sparse, w_sparse):
    for row, y, answers in (
        ([-3, -1, -2, -5], [0, 1], [1, 2]),  # all scores are negative
        ([1, 0, 0, 0], [0, 1], [1, 0]),  # only the label is good
        ([np.nan] * 4, [0, 2], [1, 0]),  # scores that are not numbers
    ):
        X = np.ones((2, 3), "f4")
        W = np.array([row] * 3, "f4")
        r = ask("exact", stored(X, x_sparse), stored(W, w_sparse), np.array(y))
        assert_array_equal(r, answers)


@sparse_or_not
def test_class_numbers_beyond_sixteen_bits(sparse):
    k = 2**16 + 5
    W = np.zeros((2, k), "f4")
    X = stored(np.eye(2, dtype="f4"), sparse)
    W[0, -1], W[0, 3], W[1, -2] = 2, 1, 1
    for name, y, answers, options in (
        ("exact", [k - 1, 0], [3, k - 2], {}),
        ("simple_lsh", [0, 0], [k - 1, k - 2], {"rerank": k}),
    ):
        r = ask(name, X, stored(W, sparse), np.array(y), **options)
        assert_array_equal(r, answers)


@each("name", MIPS)
@each_storage
def test_no_oracle_answers_the_label(name, x_sparse, w_sparse):
    X, W, _ = eighths(5)
    X[3] = 0
    y = (X @ W).argmax(axis=1)
    none = np.empty(0, int)
    X = stored(X, x_sparse)
    for weights in (W, np.zeros_like(W)):
        r = ask(name, X, stored(weights, w_sparse), y)
        assert r.dtype == np.int32 and r.shape == y.shape
        assert not (r == y).any() and r.min() >= 0 and r.max() < C
        assert ask(name, X, stored(weights, w_sparse), none, none).shape == (0,)
        two = stored(weights[:, :2], w_sparse)  # the other is the answer
        assert_array_equal(ask(name, X, two, y % 2), 1 - y % 2)


def test_chance_is_uniform_over_the_other_classes_and_seeded():
    y = np.full(6000, 2)
    X = np.zeros((6000, D), "f4")
    W = np.zeros((D, 4), "f4")
    first = ask("random", X, W, y, seed=3)
    counts = np.bincount(first, minlength=4)
    assert counts[2] == 0
    assert_allclose(counts[[0, 1, 3]], 2000, atol=4 * np.sqrt(6000 * 2 / 9))
    assert_array_equal(ask("random", X, W, y, seed=3), first)
    # A generator is drawn from, not copied: its owner can save where it stands.
    rng = default_rng(3)
    assert (ask("random", X, W, y, seed=rng) != ask("random", X, W, y, seed=rng)).any()


@sparse_or_not
def test_inexactness_of_answers_that_are_known(sparse):
    """Scores 4, 3, 1 and a tie, all of label 0."""
    oracle = SimpleNamespace(query_seconds=7.0, rng=default_rng(0))

    def query(X, rows, y):
        oracle.query_seconds = 0.1
        return np.array([2, 1, 3, 4], "i4")

    oracle.query = query
    W = stored(np.array([[9, 4, 3, 1, 4]], "f4"), sparse)
    X = stored(np.ones((4, 1)), sparse)
    found = inexactness(oracle, W, X, np.arange(4), np.zeros(4, int))
    assert oracle.query_seconds == 7.0
    # answers 1 and 4 share the best score
    assert found == {"recall": 0.5, "epsilon_mean": 1.0}


def differing_bits(a, b):
    return np.unpackbits((a ^ b).view(np.uint8), axis=1).sum(axis=1).astype(int)


@sparse_or_not
@each("bits", [4096, 4000])
def test_bits_agree_as_often_as_theory_says(sparse, bits, rng):
    """The share of bits that agrees is binomial: four of its deviations are allowed."""
    assert_allclose(mips.collision_probability([-1, 0, 0.5, 1]), [0, 1 / 2, 2 / 3, 1])
    assert mips.collision_probability(1 + 1e-9) == 1
    x = rng.normal(size=D)
    towards = np.linspace(-1, 1, 9)
    W = rng.normal(size=(D, 9)) * np.sqrt(1 - towards**2) + 3 * np.outer(x, towards)
    W = (W * np.linspace(0.2, 5, 9)).astype("f4")
    longest = np.linalg.norm(W, axis=0).max()
    theory = mips.collision_probability(x @ W / (np.linalg.norm(x) * longest))
    assert np.ptp(theory) > 0.4
    lsh = SimpleLSH(9, D, 1, bits=bits)
    weights = lsh.hash_weights(stored(W, sparse))
    differ = differing_bits(weights, lsh.hash_rows(7 * stored(x[None], sparse)))
    deviation = np.sqrt(theory * (1 - theory) / bits)
    assert (abs(1 - differ / bits - theory) <= 4 * deviation).all()


def test_the_exponent_is_that_of_the_bits(rng):
    S = np.linspace(0.2, 0.95, 4)
    c = 0.6
    lsh = SimpleLSH(8, D, 1, bits=100_000)
    x, aside = np.linalg.qr(rng.normal(size=(D, 2)))[0].T
    cosines = np.append(S, c * S)
    W = np.outer(x, cosines) + np.outer(aside, np.sqrt(1 - cosines**2))
    codes = lsh.hash_weights(W.astype("f4")), lsh.hash_rows(x[None])
    agree = 1 - differing_bits(*codes) / 100_000
    measured = np.log(agree[:4]) / np.log(agree[4:])
    assert_allclose(measured, mips.hash_exponent(c, S), rtol=0.03)
    # the larger the best product, the fewer hashes
    assert (np.diff(measured) < 0).all()
    # As (9) prints it, with cos for arccos, opposite vectors would agree as often as
    # equal ones.
    printed = np.log(1 - np.cos(S) / np.pi) / np.log(1 - np.cos(c * S) / np.pi)
    assert (printed - measured > 0.05).all() and 1 - np.cos(-1) / np.pi == 1 - np.cos(
        1
    ) / np.pi
    codes = lsh.hash_rows(np.stack([x, -x]))
    assert differing_bits(codes[:1], codes[:1]) == 0
    assert differing_bits(*codes[:, None]) == 100_000


@each_storage
@each("rerank", [None, 1, 20, C])
def test_the_nearest_hashes_are_found_and_ranked_exactly(
    rerank, x_sparse, w_sparse, monkeypatch
):
    """Against a count of bits in Python, for a hash of two words, the second not
    full."""
    X, W, y = reals(3, False)
    W[:, 3] = W[:, 90]
    lsh = SimpleLSH(C, D, 5, bits=100, rerank=rerank)
    lsh.update(stored(W, w_sparse))
    given = stored(X, x_sparse)
    r = lsh.query(given, np.arange(N), y)
    rows = lsh.hash_rows(X)
    weights = lsh.hash_weights(W)
    F = X @ W
    for i in range(N):
        distances = differing_bits(weights, rows[[i]])
        distances[y[i]] = 101
        nearest = np.sort(
            np.argsort(distances, kind="stable")[: min(rerank or 1, C - 1)]
        )
        assert r[i] == nearest[F[i, nearest].argmax()]
    monkeypatch.setattr("workbench.memoir.mips.oracle.BLOCK_BYTES", 4 * 64 * 7)
    assert_array_equal(lsh.query(given, np.arange(N), y), r)


@each_graph
@sparse_or_not
def test_graphs_find_nearly_all_after_each_update(name, sparse):
    X, W, y = reals(6, sparse)
    oracle = make_oracle(name, k=C, d=D)
    few = stored(np.where(np.arange(C) % 11, 0, as_dense(W)), sparse)
    # few classes have weights: a graph keeps them as sparse vectors
    for weights in (-W, few, W):
        oracle.update(weights)
        found = inexactness(oracle, weights, X, np.arange(N), y)
        assert found["recall"] >= 0.9 and found["epsilon_mean"] < 0.1
    poorer = {"ef": 1}, {"ef": 1, "links": 2}, {"ef": 1, "links": 2, "ef_build": 1}
    graphs = [built(name, W, **given) for given in ({}, *poorer)]
    recalls = [inexactness(graph, W, X, np.arange(N), y)["recall"] for graph in graphs]
    assert (np.diff(recalls) < 0).all()


@each_graph
def test_without_nmslib_graphs_say_so_and_all_else_works(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "nmslib", None)
    with refuses(f"^mips: {name} needs the package nmslib, .* no wheel"):
        make_oracle(name, k=C, d=D)
    for other in ("exact", "simple_lsh", "random"):
        make_oracle(other, k=C, d=D)


REFUSED = {
    "mips: must be one of exact, sw_graph, hnsw, simple_lsh, random": {"name": "exakt"},
    "rerank: must be a whole": {"name": "simple_lsh", "rerank": 0},
    "links: must be a whole number of at least 2": {"name": "hnsw", "links": 1},
    "ef_build: must be a whole": {"name": "hnsw", "ef_build": 1.5},
    "problem: too large for hyperplanes of 10000000000000 features": {
        "name": "simple_lsh",
        "d": 10**13,
    },
}


@each("message", REFUSED)
def test_an_oracle_with_wrong_options_is_refused(message):
    with refuses(f"^{message}"):
        make_oracle(**{"k": C, "d": D} | REFUSED[message])


def test_weights_rows_and_labels_of_another_shape_are_refused():
    oracle = built("exact", np.zeros((D, C)))
    row = np.zeros(1, int)
    with refuses("^W: must be CSR or dense floats, 40 features by 150 classes"):
        oracle.update(np.zeros((C, D)))
    with refuses(r"^X: must be dense or CSR with 40 features, got \(2, 41\)"):
        oracle.query(np.zeros((2, D + 1)), row, row)
    with refuses("^y: must contain one label in 0"):
        oracle.query(np.zeros((2, D)), row, row + C)
