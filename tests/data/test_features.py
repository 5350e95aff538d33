"""Feature maps: fitted on the training rows alone, seeded, and what they promise."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import each, refuses, single_or_double, sparse_or_not
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from upright import deskewed
from workbench import as_problem
from workbench.core.matrices import as_dense
from workbench.data import features
from workbench.least_squares.generators import fitted

MAPS = {
    "standardise": features.standardise,
    "unit_rows": features.unit_rows,
    "root_rows": lambda problem: features.root_rows(counted(problem)),
    "ranged": features.ranged,
    "over_maximum": features.over_maximum,
    "deskewed": lambda problem: deskewed(features.constant(counted(problem))),
    "constant": features.constant,
    "log_counts": lambda problem: features.log_counts(counted(problem), 3),
    "pca": lambda problem, **seed: features.pca(problem, 3, **seed),
    "fourier": lambda problem, **seed: features.fourier(problem, 20, **seed),
}
each_map = each("map_", MAPS.values(), ids=MAPS)


@pytest.fixture(params=["dense", "sparse"])
def problem(request):
    return make(request.param == "sparse")


def make(sparse=False, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) * rng.uniform(0.5, 9, 8) + 3
    X[rng.random(X.shape) < 0.4] = 0
    X = csr_matrix(X.astype(dtype)) if sparse else X.astype(dtype)
    y = np.arange(60) % 3
    return as_problem(X, y, name="rows", features=list("abcdefgh")).split(0.25)


def counted(problem):
    X_test = problem.X_test
    return replace(
        problem, X=abs(problem.X), X_test=None if X_test is None else abs(X_test)
    )


@each_map
def test_labels_type_and_split_stay_and_the_name_tells(problem, map_):
    before = problem.checksum
    mapped = map_(problem)
    assert replace(problem).checksum == before
    assert mapped.y is problem.y and mapped.y_test is problem.y_test
    assert mapped.X.dtype == mapped.X_test.dtype == np.float32
    assert mapped.name.startswith("rows") and mapped.name != "rows"
    assert len(mapped.features) == mapped.d
    assert map_(replace(problem, X_test=None, y_test=None)).X_test is None


@each_map
def test_maps_are_fitted_on_training_rows_only(problem, map_):
    mapped = map_(problem)
    other = map_(replace(problem, X_test=problem.X_test * 100))
    assert_array_equal(as_dense(mapped.X), as_dense(other.X))
    twin = map_(replace(problem, X_test=problem.X, y_test=problem.y))
    assert_allclose(as_dense(twin.X_test), as_dense(twin.X), rtol=1e-5, atol=1e-5)


@single_or_double
def test_standardised_columns_and_constant_ones(dtype, rng):
    X = rng.standard_normal((20, 3)).astype(dtype)
    X[:, 1] = 0.1
    X_test = X + np.array([0, 7, 0])
    y = np.arange(20) % 2
    mapped = features.standardise(
        as_problem(X, y, X_test=X_test.astype(dtype), y_test=y)
    )
    for made in (mapped.X, mapped.X_test):
        assert_array_equal(made[:, 1], 0)
    wide = (X * [1e-3, 1, 1e3] + [5, 0, -9]).astype(dtype)
    wide[::2, 1] = np.nextafter(wide[1, 1], wide[1, 1] + 1)  # varies by rounding alone
    ours = features.standardise(as_problem(wide, y)).X
    theirs = StandardScaler().fit_transform(wide)
    assert ours.dtype == theirs.dtype and (ours == theirs).all()
    X = csr_matrix(np.array([[1, 0, 2], [1, 0, 3], [1, 0, 0], [1, 0, 1]], dtype))
    scaled = features.standardise(as_problem(X, [0, 1, 0, 1])).X
    assert scaled.nnz == X.nnz and (scaled.toarray()[:, :2] == [1, 0]).all()
    assert_allclose(scaled.toarray()[:, 2].std(), 1, rtol=1e-6)


def test_pca_keeps_inner_products_and_waves_those_of_the_kernel(problem):
    assert not features.pca(problem, 4).is_sparse
    full = features.pca(make(), 8)
    centred = make().X - make().X.mean(axis=0)
    assert_allclose(full.X @ full.X.T, centred @ centred.T, rtol=1e-3, atol=1e-2)
    line = as_problem(np.array([[0.0], [3.0], [9.0]]), [0, 1, 1])
    assert features.median_distance(line) == 6  # of 3, 6 and 9
    problem = make(dtype=float)
    s = features.median_distance(problem) ** 2
    far = replace(problem, X=problem.X * 10)
    assert_allclose(features.median_distance(far) ** 2, 100 * s)
    Z = features.fourier(problem, 20_000).X[:, problem.d :]
    assert_allclose(Z @ Z.T, rbf_kernel(problem.X, gamma=1 / s), atol=0.05)


def test_fourier_appends_pairs_of_norm_one(problem, monkeypatch):
    mapped = features.fourier(problem, 10)
    assert mapped.d == problem.d + 10
    assert mapped.is_sparse == problem.is_sparse
    assert_array_equal(as_dense(mapped.X)[:, : problem.d], as_dense(problem.X))
    Z = as_dense(mapped.X)[:, problem.d :]
    assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-5)
    assert_allclose(Z[:, :5] ** 2 + Z[:, 5:] ** 2, 1 / 5, rtol=1e-5)
    assert mapped.features[-1] == "sin5"
    assert features.fourier(problem, 10).checksum == mapped.checksum
    assert features.fourier(problem, 10, seed=1).checksum != mapped.checksum
    monkeypatch.setattr(features, "BLOCK", 7)  # rows at a time
    assert_allclose(
        as_dense(features.fourier(problem, 10).X), as_dense(mapped.X), rtol=1e-4
    )


def test_bad_arguments():
    for map_ in (features.pca, features.fourier, features.log_counts):
        for bad in (0, 2.5, "4", True, None):
            with refuses("must be a whole number of at least 1"):
                map_(make(), bad)
    for map_, given, message in (
        (features.fourier, (make(), 5), "n_features: must be even"),
        (features.pca, (make(), 9), "d: must be at most 8, got 9"),
        (features.pca, (make(sparse=True), 8), "d: must be at most 7"),
        (
            features.fourier,
            (as_problem(np.ones((6, 2)), [0, 1] * 3),),
            "training rows is zero",
        ),
        (fitted, (make(), "nystroem", 10**13, 9), r"too large for .* need .* GB free"),
        (fitted, (make(), "fourier", 10**13, 10**13), "too many for one Gram matrix"),
    ):
        with refuses(message):
            map_(*given)


SPARSE = [[0, 1, 1 / 3, 0], [1, 1, -1, 0], [0.5, 1, 0, 0]]
DENSE = [[-1, 0, 1, 0], [1, 0, -1, 0], [0, 0, 0.5, 0]]


@each("wrap, expected", [(csr_matrix, SPARSE), (np.asarray, DENSE)])
def test_columns_onto_a_range(wrap, expected):
    X = np.array([[0.0, 5, 2, 0], [4, 5, -6, 0], [2, 5, 0, 0]])
    problem = as_problem(wrap(X), [0, 1, 1], X_test=wrap(X[:1] * 2), y_test=[0])
    scaled = features.ranged(problem)
    assert_allclose(as_dense(scaled.X), expected, atol=1e-12)
    assert scaled.X.dtype == problem.X.dtype and scaled.X_test.shape == (1, 4)
    pixels = features.over_maximum(problem)
    assert abs(pixels.X).max() == 1
    assert abs(pixels.X_test - problem.X_test / 6).max() < 1e-12
    nothing = as_problem(wrap(np.zeros((2, 2))), [0, 1])
    assert abs(features.over_maximum(nothing).X).max() == 0


@sparse_or_not
def test_log_counts_of_words_that_are_not_rare(sparse):
    X = np.array([[0.0, 1, 0, 3], [9, 0, 2, 1], [0, 4, 0, 1]])
    wrap = csr_matrix if sparse else np.asarray
    problem = as_problem(
        wrap(X),
        [0, 1, 1],
        features=list("abcd"),
        X_test=wrap(np.array([[7.0, 2, 7, 0]])),
        y_test=[1],
    )
    mapped = features.log_counts(problem, 2)
    assert mapped.features == ("b", "d") and mapped.is_sparse == sparse
    assert_allclose(as_dense(mapped.X), np.log([[2, 4], [1, 2], [5, 2]]))
    assert_allclose(as_dense(mapped.X_test), np.log([[3, 1]]))
    if sparse:  # stored zeros are not counts
        problem.X.data[problem.X.data == 4] = 0
        assert features.log_counts(problem, 2).features == ("d",)
    with refuses("no column of X has 4 entries"):
        features.log_counts(problem, 4)


def test_tfidf_is_that_of_the_training_rows():
    problem = counted(make(sparse=True))
    mapped = features.tfidf(problem)
    X = as_dense(problem.X).astype(float)
    weights = 1 + np.log((1 + len(X)) / (1 + (X > 0).sum(axis=0)))
    for given, made in ((problem.X, mapped.X), (problem.X_test, mapped.X_test)):
        expected = as_dense(given) * weights
        expected /= np.linalg.norm(expected, axis=1)[:, None]
        assert_allclose(as_dense(made), expected, rtol=1e-5)
    empty = as_problem(csr_matrix([[1.0, 0], [0, 0]]), [0, 1])
    assert features.tfidf(empty).X.toarray().tolist() == [[1, 0], [0, 0]]
    with refuses("X: tf-idf is for word counts in a sparse matrix"):
        features.tfidf(as_problem(np.eye(3), [0, 1, 1]))
    for map_ in (features.tfidf, features.log_counts, features.root_rows):
        for part in ("X", "X_test"):
            wrong = replace(problem, **{part: -getattr(problem, part)})
            with refuses(f"^{part}: contains negative values"):
                map_(wrong)


def test_roots_of_rows_are_of_length_one_and_a_constant_column(problem):
    mapped = features.constant(problem)
    assert mapped.is_sparse == problem.is_sparse
    assert mapped.features == (*problem.features, "1")
    assert_array_equal(as_dense(mapped.X)[:, :-1], as_dense(problem.X))
    for X in (mapped.X, mapped.X_test):
        assert_array_equal(as_dense(X)[:, -1], 1)
    problem = counted(problem)
    norms = np.linalg.norm(as_dense(features.unit_rows(problem).X), axis=1)
    assert_allclose(norms, 1, rtol=1e-6)
    empty = problem.X * 0
    assert abs(features.unit_rows(replace(problem, X=empty)).X).max() == 0
    mapped = features.root_rows(problem)
    fractions = as_dense(problem.X) / as_dense(problem.X).sum(axis=1, keepdims=True)
    assert_allclose(as_dense(mapped.X) ** 2, fractions, rtol=1e-5, atol=1e-7)
