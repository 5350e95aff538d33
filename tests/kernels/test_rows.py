"""Rows of a matrix in compiled loops: right for every kind, and the same to the last
bit or so."""

import numpy as np
from helpers import each
from numba import njit
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

from workbench.kernels.rows import WIDEST, multiply, rows_of, subtract, width


@njit
def times(rows, i, W, out, width):
    multiply(rows, i, W, out, width)


@njit
def minus(rows, i, delta, W, width):
    subtract(rows, i, delta, W, width)


def matrix(kind, dtype):
    X = np.random.default_rng(0).normal(size=(5, 11)).astype(dtype)
    if kind != "dense":
        X[abs(X) < 1] = 0
    X[3] = 0
    return X, csr_matrix(X) if kind == "CSR" else X


@each("columns", [4, 16, WIDEST + 8])
@each(
    "kind, dtype",
    [
        ("dense", np.float64),
        ("dense", np.float32),
        ("mostly zeros", np.float64),
        ("CSR", np.float32),
    ],
)
def test_rows_are_multiplied_and_subtracted(kind, dtype, columns):
    X, given = matrix(kind, dtype)
    rows = rows_of(given)
    assert rows.shift == (kind == "dense") and not rows.data.flags.writeable
    assert (given.data if kind == "CSR" else given).flags.writeable  # as it was
    rng = np.random.default_rng(1)
    W = rng.normal(size=(11, columns))
    delta = rng.normal(size=columns)
    out = np.ones(columns)
    few = np.where(np.arange(columns) % 7 == 1, delta, 0)
    for i in range(5):
        times(rows, np.uint64(i), W, out, width(columns))
        assert_allclose(out, X[i].astype(float) @ W, atol=1e-12)
        for step in (delta, few):
            expected = W - np.outer(X[i].astype(float), step)
            minus(rows, np.uint64(i), step, W, width(columns))
            assert_allclose(W, expected, atol=1e-12)
