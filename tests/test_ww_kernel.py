"""The kernel Weston-Watkins SVM: exact, certified, and the same whatever the cache holds."""

from itertools import islice

import cvxpy as cp
import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from workbench.core.problem import as_problem
from workbench.core.stream import below, rounds, until, watch
from workbench.core.trace import load_state, save_state
from workbench.kernels import gram
from workbench.kernels.gram import Cache, Gram, scale
from workbench.weston_watkins import kernel
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.kernel import KernelState, coefficients, shuffled, ww_kernel

GAMMA, DEGREE, COEF0 = 0.25, 3, 0.5
SETTINGS = {"gamma": GAMMA, "degree": DEGREE, "coef0": COEF0}
MATRICES = {
    "linear": linear_kernel,
    "poly": lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA, degree=DEGREE, coef0=COEF0),
    "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA),
}
each_kernel = pytest.mark.parametrize("name", MATRICES)


def laplacian(X, Z):
    return np.exp(-np.abs(X[:, None, :] - Z[None, :, :]).sum(axis=2) / 4)


def solved(problem, gap=1e-7, most=3000, **parameters):
    *_, (row, s) = until(watch(ww_kernel(problem, **parameters)), below("gap", gap), rounds(most))
    assert row["gap"] <= gap
    return row, s


def objectives(K, problem, s):
    """P and D by their definitions."""
    rows, labels = np.arange(problem.n), problem.y
    A = -s.B.T
    A[rows, labels] += s.B.sum(axis=0)
    F = K @ A
    z = np.maximum(0, 1 - F[rows, labels][:, None] + F)
    z[rows, labels] = 0
    half = (A * F).sum() / 2
    return half + s.C * z.sum(), s.B.sum() - half, F


@each_kernel
@pytest.mark.parametrize(("k", "C"), [(2, 1.0), (3, 0.3), (5, 2.0)])
def test_the_optimum_is_that_of_cvxpy(name, k, C, blobs):
    problem = blobs(n=24, d=3, k=k, seed=k)
    values, vectors = np.linalg.eigh(MATRICES[name](problem.X, problem.X))
    root = vectors * np.sqrt(np.maximum(values, 0))
    own = np.eye(k)[problem.y]
    B = cp.Variable((problem.n, k))
    S = cp.sum(B, axis=1, keepdims=True)
    A = cp.multiply(own, S @ np.ones((1, k))) - B
    program = cp.Problem(
        cp.Maximize(cp.sum(B) - cp.sum_squares(root.T @ A) / 2),
        [B >= 0, B <= C, cp.multiply(own, B) == 0],
    )
    best = program.solve(solver="CLARABEL")
    row, s = solved(problem, gap=1e-7 * best, C=C, kernel=name, **SETTINGS)
    assert row["lower"] <= best * (1 + 1e-6) and row["upper"] >= best * (1 - 1e-6)
    # |f - f*|^2 <= 2 gap in the kernel's space.
    F = root @ (root.T @ A.value)
    near = np.sqrt(2e-6 * best * values.sum())
    np.testing.assert_allclose(s.scores(problem.X), F, rtol=0, atol=near)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_linear_kernel_gives_the_linear_classifier(sparse, blobs):
    problem = blobs(n=150, d=6, k=4, sparse=sparse)
    row, s = solved(problem, gap=1e-5, kernel="linear")
    *_, (other, linear) = until(watch(ww_walrus_fast(problem)), below("gap", 1e-5))
    assert row["lower"] <= other["upper"] and other["lower"] <= row["upper"]
    # |W - W*|^2 <= 2 gap.
    np.testing.assert_allclose(s.scores(problem.X), linear.scores(problem.X), atol=0.05)


def test_two_classes_are_the_binary_svm_with_twice_the_c(blobs):
    problem = blobs(n=40, d=3, k=2)
    values, vectors = np.linalg.eigh(MATRICES["rbf"](problem.X, problem.X))
    root = vectors * np.sqrt(np.maximum(values, 0)) * (2 * problem.y - 1)[:, None]
    a = cp.Variable(40)
    dual = cp.sum(a) - cp.sum_squares(root.T @ a) / 2
    best = cp.Problem(cp.Maximize(dual), [a >= 0, a <= 2 * 0.7]).solve(solver="CLARABEL")
    row, s = solved(problem, C=0.7, gamma=GAMMA)
    assert 2 * row["lower"] <= best + 1e-6 and best - 1e-6 <= 2 * row["upper"]
    np.testing.assert_allclose(s.scores(problem.X).sum(axis=1), 0, atol=1e-12)


@each_kernel
@pytest.mark.parametrize("sparse", [False, True])
def test_every_round_is_certified(name, sparse, blobs):
    problem = blobs(n=300, d=4, k=5, sparse=sparse)
    X = problem.X.toarray() if sparse else problem.X
    K = MATRICES[name](X, X)
    lower, upper = [], []
    for s in islice(ww_kernel(problem, C=3.0, kernel=name, **SETTINGS), 12):
        P, D, F = objectives(K, problem, s)
        assert [s.primal, s.dual] == pytest.approx([P, D], rel=1e-10)
        np.testing.assert_allclose(s.F.T, F, atol=1e-11 * max(1, np.abs(F).max()))
        lower, upper = [*lower, s.lower], [*upper, s.upper]
        assert (s.B >= 0).all() and (s.B <= 3.0).all() and not s.B[problem.y, np.arange(300)].any()
    assert np.all(np.diff(lower) >= 0) and np.all(np.diff(upper) <= 0)
    assert lower[-1] == max(lower) <= min(upper) == upper[-1]
    assert upper[-1] - lower[-1] < 0.05 * (upper[1] - lower[1])


def test_scores_do_not_drift_over_many_rounds(blobs):
    problem = blobs(n=300, d=4, k=5)
    *_, s = islice(ww_kernel(problem, C=100.0, gamma=1.0), 100)
    assert np.abs(s.F.T - s.scores(problem.X)).max() <= 1e-12 * np.abs(s.F).max()


@pytest.mark.parametrize("cache_mb", [512.0, 0.05, 0.003])
@pytest.mark.parametrize("name", [*MATRICES, laplacian])
def test_resumes_bit_for_bit(name, cache_mb, blobs, tmp_path):
    problem = blobs(n=300, d=5, k=4, sparse=name in ("poly", "linear"))
    parameters = {"kernel": name, "cache_mb": cache_mb, "C": 2.0}
    whole = [(s.info(), s.B.tobytes(), s.F.tobytes()) for s in islice(run(problem, parameters), 7)]
    *_, s = islice(run(problem, parameters), 4)
    if callable(name):
        with pytest.raises(TypeError, match="kernel: cannot save"):
            save_state(tmp_path / "s.npz", s)
    else:
        save_state(tmp_path / "s.npz", s)
        s = load_state(tmp_path / "s.npz", KernelState)
    resumed = islice(run(problem, parameters, s), 4)
    assert [(s.info(), s.B.tobytes(), s.F.tobytes()) for s in resumed] == whole[3:]


def run(problem, parameters, state=None):
    return ww_kernel(problem, **parameters, state=state)


@pytest.mark.parametrize("name", [*MATRICES, laplacian])
def test_a_row_of_the_kernel_does_not_depend_on_its_company(name, blobs):
    for sparse in (False, True)[: 1 if callable(name) else 2]:
        problem = blobs(n=101, d=7, k=3, sparse=sparse)
        K = Gram(problem.X, name, GAMMA, DEGREE, COEF0)
        whole = K.rows(np.arange(101))
        for some in (np.array([5]), np.array([100, 3, 5]), np.arange(0, 101, 7)):
            assert np.array_equal(K.rows(some), whole[some])
        np.testing.assert_allclose(np.diag(whole), K.diagonal(), rtol=1e-13)


@each_kernel
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_kernels_are_those_of_scikit_learn(name, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * 10.0 ** rng.uniform(-2, 1, size=(60, 1))
    expected = MATRICES[name](X if name == "rbf" else X + offset, X + offset * (name != "rbf"))
    K = Gram(X + offset, name, GAMMA, DEGREE, COEF0)
    tolerance = 1e-8 if offset else 1e-13  # an offset rounds X itself
    np.testing.assert_allclose(K.rows(np.arange(60)), expected, rtol=tolerance, atol=tolerance)
    A = rng.normal(size=(3, 60))
    size = np.abs(expected).max()
    np.testing.assert_allclose(
        K.times(X + offset, np.arange(60), A), expected @ A.T, rtol=0, atol=60 * tolerance * size
    )


def test_the_exponential_is_exact_to_its_last_digits():
    t = np.concatenate([-np.logspace(-20, np.log10(690), 2000), [0.0, 1e-9]])
    out = t[None, :] / 2  # with gamma = 1 and norms of 0, the kernel is exp of twice the product
    gram.gaussian(out, np.zeros(1), np.zeros(len(t)), 1.0)
    np.testing.assert_allclose(out[0], np.exp(np.minimum(t, 0)), rtol=4e-16)
    far = np.array([[-1e9, -5e8]])
    gram.gaussian(far, np.zeros(1), np.zeros(2), 1.0)
    assert np.all((far >= 0) & (far < 1e-300))


def test_gamma_defaults_to_that_of_scikit_learn(blobs):
    dense = blobs(n=50, d=5, k=3)
    for X in (dense.X, dense.X.astype(np.float32), sp.csr_matrix(dense.X)):
        expected = SVC(gamma="scale").fit(dense.X, dense.y)._gamma
        assert scale(X) == pytest.approx(expected, rel=1e-12)
    assert scale(np.ones((4, 2))) == scale(sp.csr_matrix(np.ones((4, 2)))) == 1.0
    assert next(ww_kernel(dense)).gamma == scale(dense.X)


def test_the_cache_keeps_to_its_budget_and_to_what_was_used_last(blobs):
    problem = blobs(n=120, d=5, k=3)
    K = Gram(problem.X, "rbf", GAMMA, DEGREE, COEF0)
    exact = K.rows(np.arange(120))
    cache = Cache(K, 40 * 120 * 8 / 2**20 + 1e-6)
    assert cache.most == 40 and cache.rows.nbytes <= 40 * 120 * 8
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = rng.permutation(120)[: rng.integers(1, 41)]
        assert np.array_equal(cache.rows[cache.at(wanted)], exact[wanted])
    cache.at(np.arange(20))
    cache.at(np.arange(20, 40))
    cache.at(np.arange(20))
    asked = []
    cache.gram.rows = lambda wanted, rows=K.rows: asked.extend(wanted) or rows(wanted)
    cache.at(np.arange(40, 60))  # in the place of 20..39
    cache.at(np.arange(20))
    assert asked == list(range(40, 60))
    assert Cache(K, 512).most == 120


def test_a_small_cache_does_not_change_the_result(blobs):
    problem = blobs(n=300, d=4, k=4)
    row, _ = solved(problem, gap=1e-2)
    for rows in (10, 50, 299):
        other, _ = solved(problem, gap=1e-2, cache_mb=rows * 300 * 8 / 2**20 + 1e-6)
        assert row["lower"] <= other["upper"] and other["lower"] <= row["upper"]


@pytest.mark.parametrize("name", [*MATRICES, laplacian])
def test_new_rows_are_scored_in_parts_and_of_any_kind(name, blobs, monkeypatch):
    problem = blobs(n=80, d=5, k=4)
    new = blobs(n=33, d=5, k=3, seed=9).X
    *_, s = islice(ww_kernel(problem, kernel=name, **SETTINGS), 5)
    matrix = name if callable(name) else MATRICES[name]
    expected = matrix(new, problem.X) @ coefficients(s.B, s.y).T
    monkeypatch.setattr(gram, "HELD", 7 * 80)
    for X in (new, new.astype(np.float32), sp.csr_matrix(new), sp.csr_array(new)):
        np.testing.assert_allclose(s.scores(X), expected, rtol=1e-11, atol=1e-11)
    if not callable(name):
        sparse = as_problem(sp.csr_matrix(problem.X), problem.y)
        *_, t = islice(ww_kernel(sparse, kernel=name, **SETTINGS), 5)
        expected = matrix(new, problem.X) @ coefficients(t.B, t.y).T
        for X in (new, sp.csr_matrix(new), sp.csr_array(new.astype(np.float32))):
            np.testing.assert_allclose(t.scores(X), expected, rtol=1e-11, atol=1e-11)


def test_rows_of_zeros_are_at_their_bound_for_good(blobs):
    problem = blobs(n=40, d=3, k=4)
    X = problem.X.copy()
    X[::3] = 0
    for kind in (np.asarray, sp.csr_matrix):
        row, s = solved(as_problem(kind(X), problem.y), C=0.5, kernel="linear")
        others = np.eye(4)[problem.y].T == 0
        assert np.array_equal(s.B[:, ::3], 0.5 * others[:, ::3])
        *_, (other, _) = until(
            watch(ww_walrus_fast(as_problem(X, problem.y), C=0.5)), below("gap", 1e-7)
        )
        assert row["lower"] == pytest.approx(other["lower"], abs=1e-6)
    zero = as_problem(np.zeros((6, 2)), np.arange(6) % 3)
    for row, s in islice(watch(ww_kernel(zero, kernel="linear")), 3):
        assert 12 - 1e-9 < row["lower"] <= 12 <= row["upper"] < 12 + 1e-9
        assert s.primal == s.dual == 12 and not s.scores(np.ones((2, 2))).any()


def test_the_random_order_keeps_neighbours_together():
    rows = np.arange(5, 48, 2)
    order = shuffled(rows, np.random.default_rng(0))
    assert sorted(order) == list(rows) and list(order) != list(rows)
    assert (np.diff(order) == 2).sum() >= len(rows) - -(-len(rows) // kernel.RUN)
    assert len(shuffled(rows[:0], np.random.default_rng(0))) == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C: must be a positive number"),
        ({"kernel": "sigmoid"}, "kernel: must be one of 'linear', 'poly', 'rbf' or a function"),
        ({"kernel": None}, "kernel: must be one of"),
        ({"kernel": lambda X, Z: np.eye(2)}, r"kernel: must return an array of shape \(16, 16\)"),
        ({"kernel": lambda X, Z: -(X @ Z.T)}, r"kernel: k\(x, x\) must be finite and not negative"),
        ({"gamma": 0}, "gamma: must be a positive number or None, got 0"),
        ({"gamma": -1.0}, "gamma: must be"),
        ({"gamma": np.nan}, "gamma: must be"),
        ({"gamma": "scale"}, "gamma: must be a positive number or None, got 'scale'"),
        ({"degree": 0}, "degree: must be a whole number"),
        ({"degree": 2.5}, "degree: must be a whole number"),
        ({"coef0": -0.1}, "coef0: must be a number, not negative"),
        ({"coef0": np.inf}, "coef0: must be"),
        ({"cache_mb": 0}, "cache_mb: must be a number from"),
        ({"cache_mb": np.nan}, "cache_mb: must be"),
        ({"kernel": "poly", "gamma": 1e200}, "must be finite"),
    ],
)
def test_bad_input_is_refused_by_name(parameters, message, blobs):
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        next(ww_kernel(blobs(), **parameters))


def test_a_problem_too_large_for_memory_is_refused(blobs, monkeypatch):
    class Memory:
        available = 2000

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    with pytest.raises(ValueError, match="problem: too large for ww_kernel, n = 60 rows of k = 3"):
        next(ww_kernel(blobs()))
