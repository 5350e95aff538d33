"""The kernel library: values, products, gamma, and rows of a kernel matrix that are
kept."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from helpers import each, single_or_double
from numpy.testing import assert_allclose
from pytest import approx
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from workbench import as_problem
from workbench.core.matrices import as_dense
from workbench.kernels.gaussian import gaussian_of_products
from workbench.kernels.gram import Gram
from workbench.kernels.mercer import CACHE_BYTES, Kernel, kernel_of, scale

GAMMA = 0.3
MATRICES = {"linear": linear_kernel, "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA)}
MATRICES["cubic"] = lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA)
KINDS = [(name, sparse) for name in MATRICES for sparse in (False, True)]


def at(X, kind, dtype=np.float64):
    return kernel_of(as_problem(X, np.arange(X.shape[0]) % 2), kind, GAMMA, dtype)


def held(kernel, X, megabytes):
    return Gram(kernel, kernel.points(X), megabytes)


@single_or_double
@each("d", [1, 9, 60])
@each("kind, sparse", KINDS)
def test_products_with_a_kernel_are_those_of_scikit_learn(kind, d, sparse, dtype, rng):
    X, Z = (2.0 / np.sqrt(d) * rng.normal(size=(m, d)) + 1.0 for m in (701, 203))
    if sparse:
        X, Z = (sp.csr_matrix(np.where(A < 0.8, 0, A)) for A in (X, Z))
    B = rng.normal(size=(203, 3))
    assert 701 * 203 * np.dtype(dtype).itemsize > CACHE_BYTES  # more than one piece
    kernel = at(X, kind, dtype)
    K = MATRICES[kind](X, Z)
    rounding = {np.float32: 4e-6, np.float64: 1e-13}[dtype] * max(1.0, abs(K).max())
    left = kernel.points(X)
    right = kernel.points(Z)
    found = kernel.times(left, right, B)
    assert found.dtype == dtype and kernel.values == 701 * 203
    assert_allclose(found, K @ B, rtol=0, atol=rounding * abs(B).sum(axis=0).max())
    assert_allclose(kernel.matrix(left[:50], right), K[:50], rtol=0, atol=rounding)
    diagonal = MATRICES[kind](X[:9], X[:9]).diagonal()
    assert_allclose(kernel.diagonal(left[:9]), diagonal, rtol=0, atol=20 * rounding)
    one = kernel.times(left[5:6], right[[3, 3]], np.ones((2, 1)))
    assert one[0, 0] == approx(2 * K[5, 3], abs=2 * rounding)
    with_none = kernel.times(left, right[:0], B[:0])
    assert with_none.shape == (701, 3) and not with_none.any()


@single_or_double
@each("d", [7, 150])
@each("kind, sparse", KINDS)
def test_a_row_of_the_kernel_matrix_stands_alone(kind, sparse, d, dtype, blobs, rng):
    X = blobs(n=501, d=d, sparse=sparse).X
    gram = held(at(X, kind, dtype), X, 512)
    whole = gram.rows(np.arange(501))
    assert whole.dtype == dtype
    for r in (1, 3, 15, 16, 17, 40, 64):
        some = rng.permutation(501)[:r]
        assert np.array_equal(gram.rows(some), whole[some])
    exact = MATRICES[kind](X, X)
    rounding = 1e-12 if dtype is np.float64 else 3e-4
    assert_allclose(whole, exact, rtol=0, atol=rounding * abs(exact).max())


@single_or_double
def test_distances_keep_their_digits_far_from_zero(dtype, rng):
    X = rng.normal(size=(60, 6)).astype(dtype)
    kernel = at(X + dtype(1e3), "rbf", dtype)
    points = kernel.points(X + dtype(1e3))
    tolerance = 1e-3 if dtype is np.float32 else 1e-11  # the offset rounds X itself
    near = MATRICES["rbf"](X, X)
    assert_allclose(kernel.matrix(points, points), near, atol=tolerance)
    kernel = Kernel("rbf", 1.0, dtype, np.zeros(0))
    # which have nothing in common
    points = kernel.points(np.array([[-10.0], [0.0], [15.0]]))
    assert_allclose(kernel.matrix(points, points), np.eye(3), atol=1e-5)


@each("dtype, digits, least", [("f4", 4e-7, -90), ("f8", 4e-16, -900)])
def test_the_exponential_is_exact_to_its_last_digits(dtype, digits, least):
    t = -np.concatenate([[0.0, 1e-9], np.logspace(-20, np.log10(-least), 2000)]).astype(
        dtype
    )
    out = t[None, :].copy()
    gaussian_of_products(out, np.zeros(1, dtype), np.zeros(len(t), dtype))
    assert_allclose(out[0], np.exp2(t.astype(np.longdouble)), rtol=digits)
    far = np.array([[-1e9, -5e8, least]], dtype)
    gaussian_of_products(far, np.zeros(1, dtype), np.zeros(3, dtype))
    assert_allclose(far, 2.0**least, rtol=digits)
    # with a small weight it is normal, too
    assert (far * 1e-9 >= np.finfo(dtype).tiny).all()


@each("wrap", [np.asarray, sp.csr_matrix, np.float32])
@each("offset", [0.0, 1e7])
def test_gamma_is_scikit_learn_s_and_weights_repeat_rows(wrap, offset, blobs):
    problem = blobs(n=30)
    times = np.arange(30) % 3 + 1
    X = wrap(problem.X + offset)
    rows = as_dense(X).astype(float)
    expected = SVC(gamma="scale").fit(
        np.repeat(rows, times, axis=0), problem.y.repeat(times)
    )
    weighed = replace(as_problem(X, problem.y), weights=1e6 * times)
    assert scale(weighed) == approx(expected._gamma, rel=1e-12 if not offset else 1e-7)
    for equal in (0 * X, 0 * rows + 0.1):
        assert scale(as_problem(equal, problem.y)) == 1


def test_the_rows_kept_fit_their_budget_and_were_used_last(blobs, rng):
    X = blobs(n=120, d=5).X
    gram = held(at(X, "rbf"), X, 40 * 120 * 8 / 2**20 + 1e-6)
    exact = gram.rows(np.arange(120))
    assert gram.most == 40 and gram.held.nbytes <= 40 * 120 * 8
    for _ in range(50):
        wanted = rng.permutation(120)[: rng.integers(1, 41)]
        assert np.array_equal(gram.held[gram.at(wanted)], exact[wanted])
    for first in (0, 20, 0):
        gram.at(np.arange(first, first + 20))
    asked = []
    gram.rows = lambda wanted, rows=gram.rows: asked.extend(wanted) or rows(wanted)
    gram.at(np.arange(40, 60))  # instead of 20..39
    gram.at(np.arange(20))
    assert asked == list(range(40, 60))
    assert held(at(X, "rbf"), X, 512).most == 120
