"""Random features by blocks: their kernels, their independence of how rows are cut."""

import numpy as np
from helpers import each, module_fixture, single_or_double
from numpy.testing import assert_allclose
from pytest import approx
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from scipy.special import expit

from workbench import as_problem
from workbench.least_squares.generators import (
    JITTER,
    RANDOM,
    Generator,
    cosines,
    fitted,
)


@module_fixture
def problem():
    rng = np.random.default_rng(0)
    return as_problem(rng.normal(size=(120, 9)).astype("f4"), np.arange(120) % 3)


def made(generator, X, b):
    Z = np.full((X.shape[0], generator.width(b)), np.nan, "f4")
    generator.make(b)(X, Z)
    return Z


@each("turns, atol", [(50, 5e-5), (0.5, 1e-6)])
def test_the_cosine_is_one(turns, atol, rng):
    Z = rng.uniform(-turns, turns, size=(40, 500)).astype("f4")
    shift = rng.random(500, np.float32) * (turns > 1)
    expected = np.sqrt(2) * np.cos(2 * np.pi * (Z.astype(float) + shift))
    cosines(Z, shift)
    assert_allclose(Z, expected, atol=atol)


@each("kind", ["fourier", "orthogonal_fourier"])
def test_waves_approximate_the_gaussian_kernel(kind, problem):
    generator = fitted(problem, kind, 20_000, 20_000)
    Z = made(generator, problem.X, 0)
    kernel = np.exp(-cdist(problem.X, problem.X, "sqeuclidean") / generator.s)
    assert abs(Z @ Z.T / 20_000 - kernel).max() < 0.05
    assert generator.s == approx(np.median(cdist(problem.X, problem.X)) ** 2, rel=0.1)


@each("mean", [0.0, 1e4])
@single_or_double
def test_nystroem_features_are_the_kernel_of_the_landmarks(dtype, mean, rng):
    X = rng.normal(mean, 1.0, size=(300, 7)).astype(dtype)
    generator = fitted(
        as_problem(X, np.arange(300) % 3), "nystroem", 50, 20, bandwidth=0.5
    )
    landmarks = generator.anchors[20:40].astype(float)
    expected = np.exp(-cdist(X, landmarks, "sqeuclidean") / generator.s)
    assert_allclose(made(generator, X, 1), expected, atol=1e-5)
    K = np.exp(-cdist(landmarks, landmarks, "sqeuclidean") / generator.s)
    assert_allclose(generator.penalty(1), K + JITTER * np.eye(20), atol=1e-9)


@each("kind", "poly2 poly3 poly4 logits".split())
def test_random_factors_have_their_inner_products(kind, problem, rng):
    generator = fitted(problem, kind, 20_000, 20_000, bandwidth=4.0)
    X = problem.X[:4].astype(float)
    covariance = 2 / generator.s * X @ X.T + 0.49  # of w.x + b at two rows
    if kind == "logits":
        U = expit(rng.multivariate_normal(np.zeros(4), covariance, 100_000))
        expected = U.T @ U / 100_000
    else:
        expected = covariance ** int(kind[-1])
    Z = made(generator, problem.X[:4], 0).astype(float)
    assert_allclose(Z @ Z.T / 20_000, expected, atol=0.1 * expected.max())


@each("kind", RANDOM)
def test_blocks_are_of_their_size_scale_and_seed(kind, problem):
    generator = fitted(problem, kind, 100, 40, seed=3)
    assert (generator.penalty(0) is None) == (kind != "nystroem")
    blocks = [made(generator, problem.X, b) for b in range(generator.blocks)]
    assert [Z.shape[1] for Z in blocks] == [40, 40, 20]
    again = fitted(problem, kind, np.int32(100), np.int64(40), seed=np.uint8(3))
    assert {type(getattr(again, name)) for name in ("n_features", "block", "seed")} == {
        int
    }
    again = made(again, problem.X, 1)
    assert np.array_equal(again, blocks[1])
    other = made(fitted(problem, kind, 100, 40, seed=4), problem.X, 1)
    assert not np.allclose(other, blocks[1])
    assert not np.allclose(blocks[0], blocks[1])
    assert 0.05 < np.square(np.hstack(blocks)).mean() < 20
    for X in (
        problem.X[7:50],
        csr_matrix(problem.X)[7:50],
        problem.X[7:50].astype(float),
    ):
        assert_allclose(made(generator, X, 0), blocks[0][7:50], atol=2e-4, rtol=1e-4)


def test_columns_come_in_their_order(problem):
    generator = Generator(
        "columns", 9, 9, 4, 0, 1.0, np.array([3, 1, 8, 0, 2, 7, 6, 5, 4])
    )
    for X in (problem.X, csr_matrix(problem.X)):
        assert np.array_equal(made(generator, X, 0), problem.X[:, [3, 1, 8, 0]])
        assert np.array_equal(made(generator, X, 2), problem.X[:, [4]])


def test_equal_rows_have_a_bandwidth_and_landmarks_repeat(problem):
    landmarks = fitted(problem, "nystroem", 130, 50).anchors
    assert np.array_equal(landmarks[:10], landmarks[120:])
    assert fitted(problem, "fourier", 10, 1000).blocks == 1
    X = np.ones((20, 3))
    assert fitted(as_problem(X, np.arange(20) % 2), "fourier", 4, 4, 2.0).s == 2.0
    X[:5] += 3.0  # most pairs are equal
    assert fitted(as_problem(X, np.arange(20) % 2), "fourier", 4, 4).s == approx(27.0)
