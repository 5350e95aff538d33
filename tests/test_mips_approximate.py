"""Hashes against their theory, and nmslib's graphs: recall, two tiers, silence, absence."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.memoir.mips import collision_probability, inexactness, make_oracle
from workbench.memoir.mips.hashing import SimpleLSH

N, D, C = 60, 40, 150
STORAGE = list(itertools.product([False, True], repeat=2))
GRAPHS = ("sw_graph", "hnsw")


def problem(seed, sparse, share=0.3, d=D, classes=C):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d)) * (rng.random((N, d)) < share)
    W = (rng.normal(size=(d, classes)) * (rng.random((d, classes)) < share)).astype(np.float32)
    y = rng.integers(classes, size=N)
    return (sp.csr_array(X), sp.csr_array(W), y) if sparse else (X, W, y)


def agreeing_bits(a, b, bits):
    """Return how many of the first `bits` bits agree, between the rows of two hashes."""
    differ = np.unpackbits((a ^ b).view(np.uint8), axis=1)
    return bits - differ.sum(axis=1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bits", [4096, 4000])
def test_bits_agree_as_often_as_theory_says(sparse, bits):
    """Over independent bits the share that agrees is binomial; four of its deviations are allowed.

    Norms and angles vary: without the division by the longest, or without the last coordinate,
    the cosines would be others.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=D)
    towards = np.linspace(-1, 1, 9)
    W = rng.normal(size=(D, 9)) * np.sqrt(1 - towards**2) + 3 * np.outer(x, towards)
    W *= np.linspace(0.2, 5, 9)
    W = W.astype(np.float32)
    longest = np.linalg.norm(W, axis=0).max()
    theory = collision_probability(x @ W / (np.linalg.norm(x) * longest))
    assert np.ptp(theory) > 0.4
    lsh = SimpleLSH(9, D, 1, bits=bits)
    given = (sp.csr_array(W), sp.csr_array(x[None])) if sparse else (W, x[None])
    agree = agreeing_bits(lsh.hash_weights(given[0]), lsh.hash_rows(7 * given[1]), bits)
    deviation = np.sqrt(theory * (1 - theory) / bits)
    assert (np.abs(agree / bits - theory) <= 4 * deviation).all()


def test_collision_probability_at_known_angles():
    np.testing.assert_allclose(collision_probability([-1, 0, 0.5, 1]), [0, 1 / 2, 2 / 3, 1])
    assert collision_probability(1 + 1e-9) == 1


@pytest.mark.parametrize("x_sparse, w_sparse", STORAGE)
@pytest.mark.parametrize("rerank", [None, 1, 20, C])
def test_the_nearest_hashes_are_found_and_ranked_exactly(rerank, x_sparse, w_sparse, monkeypatch):
    """Against a count of bits in Python, for a hash of two words, the second not full."""
    X, W, y = problem(3, False)
    W[:, 3] = W[:, 90]
    lsh = SimpleLSH(C, D, 5, bits=100, rerank=rerank)
    lsh.update(sp.csr_array(W) if w_sparse else W)
    given = sp.csr_array(X) if x_sparse else X
    r = lsh.query(given, np.arange(N), y)
    rows, weights = lsh.hash_rows(X), lsh.hash_weights(W)
    F = X @ W
    for i in range(N):
        distances = 100 - agreeing_bits(weights, rows[[i]], 100).astype(int)
        distances[y[i]] = 101
        nearest = np.sort(np.argsort(distances, kind="stable")[: min(rerank or 1, C - 1)])
        assert r[i] == nearest[F[i, nearest].argmax()]
    monkeypatch.setattr("workbench.memoir.mips.oracle.BLOCK_BYTES", 4 * 64 * 7)
    np.testing.assert_array_equal(lsh.query(given, np.arange(N), y), r)


def test_more_bits_and_reranking_find_more():
    X, W, y = problem(4, True)
    recall = []
    for options in ({"bits": 16}, {"bits": 1024}, {"bits": 1024, "rerank": 15}):
        oracle = make_oracle("simple_lsh", k=C, d=D, **options)
        oracle.update(W)
        recall.append(inexactness(oracle, W, X, np.arange(N), y)["recall"])
    assert recall[0] < 0.4 < recall[1] < 0.9 < recall[2]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("sparse", [False, True])
def test_graphs_find_nearly_all_of_an_easy_problem_after_each_update(name, sparse):
    X, W, y = problem(6, sparse)
    oracle = make_oracle(name, k=C, d=D)
    for weights in (np.negative(W) if not sparse else -W, W):
        oracle.update(weights)
        found = inexactness(oracle, weights, X, np.arange(N), y)
        assert found["recall"] >= 0.95 and found["epsilon_max"] < 3


def test_rows_without_any_answer_get_a_random_other_class():
    X, W, y = problem(10, True)
    oracle = make_oracle("sw_graph", k=C, d=D, seed=0)
    oracle.update(W)

    class Nothing:
        def knnQueryBatch(self, vectors, k, num_threads):
            return [(np.empty(0, np.int32), np.empty(0, np.float32))] * vectors.shape[0]

    oracle.graph = Nothing()
    r = oracle.query(X, np.arange(N), y)
    assert not (r == y).any() and len(np.unique(r)) > 20


def test_nmslib_is_imported_late_and_in_silence_and_later_errors_are_heard():
    code = """
import os, sys
from workbench.memoir.mips import make_oracle
assert "nmslib" not in sys.modules
make_oracle("sw_graph", k=2, d=2)
assert "nmslib" in sys.modules
os.write(2, b"heard")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "heard")


@pytest.mark.parametrize("name", GRAPHS)
def test_without_nmslib_graphs_say_so_and_all_else_works(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "nmslib", None)
    with pytest.raises(ValueError, match=f"^mips: {name} needs the package nmslib, .* no wheel"):
        make_oracle(name, k=C, d=D)
    for other in ("exact", "simple_lsh", "random"):
        make_oracle(other, k=C, d=D)
