"""The kernel Weston-Watkins SVM: exact, certified, and the same whatever the cache holds."""

from itertools import islice

import cvxpy as cp
import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from test_kernel_functions import COEF0, DEGREE, GAMMA, MATRICES, laplacian

from workbench.core.problem import as_problem
from workbench.core.stream import below, rounds, until, watch
from workbench.core.trace import load_state, save_state
from workbench.kernels.functions import scale
from workbench.weston_watkins import kernel
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.kernel import KernelState, coefficients, shuffled, ww_kernel

SETTINGS = {"gamma": GAMMA, "degree": DEGREE, "coef0": COEF0}
each_kernel = pytest.mark.parametrize("name", ["linear", "poly", "rbf"])


def solved(problem, gap=1e-7, most=3000, **parameters):
    *_, (row, s) = until(watch(ww_kernel(problem, **parameters)), below("gap", gap), rounds(most))
    assert row["gap"] <= gap
    return row, s


@each_kernel
@pytest.mark.parametrize(("k", "C"), [(2, 0.7), (3, 0.3), (5, 2.0)])
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
    if k == 2:  # the binary SVM with twice the C
        V = root * (2 * problem.y - 1)[:, None]
        a = cp.Variable(24)
        dual = cp.Maximize(cp.sum(a) - cp.sum_squares(V.T @ a) / 2)
        best = cp.Problem(dual, [a >= 0, a <= 2 * C]).solve(solver="CLARABEL")
        assert 2 * row["lower"] <= best * (1 + 1e-6) and best * (1 - 1e-6) <= 2 * row["upper"]


@pytest.mark.parametrize("sparse", [False, True])
def test_the_linear_kernel_gives_the_linear_classifier(sparse, blobs):
    problem = blobs(n=150, d=6, k=4, sparse=sparse)
    row, s = solved(problem, gap=1e-5, kernel="linear")
    *_, (other, linear) = until(watch(ww_walrus_fast(problem)), below("gap", 1e-5))
    assert row["lower"] <= other["upper"] and other["lower"] <= row["upper"]
    # |W - W*|^2 <= 2 gap.
    np.testing.assert_allclose(s.scores(problem.X), linear.scores(problem.X), atol=0.05)


@each_kernel
@pytest.mark.parametrize("sparse", [False, True])
def test_every_round_is_what_it_says_it_is(name, sparse, blobs):
    problem = blobs(n=300, d=4, k=5, sparse=sparse)
    X, rows, y = problem.X.toarray() if sparse else problem.X, np.arange(300), problem.y
    K = MATRICES[name](X, X)
    widths = []
    for s in islice(ww_kernel(problem, C=3.0, kernel=name, **SETTINGS), 12):
        A = -s.B.T
        A[rows, y] += s.B.sum(axis=0)
        F = K @ A
        z = np.maximum(0, 1 - F[rows, y][:, None] + F)
        z[rows, y] = 0
        half = (A * F).sum() / 2
        assert s.primal == pytest.approx(half + 3.0 * z.sum(), rel=1e-10)
        assert s.dual == pytest.approx(s.B.sum() - half, rel=1e-10)
        np.testing.assert_allclose(s.F.T, F, atol=1e-11 * max(1, np.abs(F).max()))
        assert (s.B >= 0).all() and (s.B <= 3.0).all() and not s.B[y, rows].any()
        widths.append(s.upper - s.lower)
    assert widths[-1] < 0.05 * widths[1]


def test_scores_do_not_drift_over_many_rounds(blobs):
    problem = blobs(n=200, d=4, k=5)
    *_, s = islice(ww_kernel(problem, C=100.0), 60)
    assert s.gamma == scale(problem)
    assert np.abs(s.F.T - s.scores(problem.X)).max() <= 1e-12 * np.abs(s.F).max()


@pytest.mark.parametrize("cache_mb", [512.0, 0.05, 0.003])
@pytest.mark.parametrize("name", ["poly", "rbf", laplacian])
def test_resumes_bit_for_bit_whatever_the_cache_held(name, cache_mb, blobs, tmp_path):
    problem = blobs(n=200, d=5, k=4, sparse=name == "poly")
    given = {"kernel": name, "cache_mb": cache_mb, "C": 2.0}

    def seen(steps):
        return [(s.info(), s.B.tobytes(), s.F.tobytes()) for s in steps]

    *_, s = islice(ww_kernel(problem, **given), 4)
    if callable(name):
        with pytest.raises(TypeError, match="kernel: cannot save"):
            save_state(tmp_path / "s.npz", s)
    else:
        save_state(tmp_path / "s.npz", s)
        s = load_state(tmp_path / "s.npz", KernelState)
    whole = seen(islice(ww_kernel(problem, **given), 7))
    assert seen(islice(ww_kernel(problem, **given, state=s), 4)) == whole[3:]


def test_a_small_cache_does_not_change_the_result(blobs):
    problem = blobs(n=300, d=4, k=4)
    row, _ = solved(problem, gap=1e-2)
    for rows in (10, 299):
        other, _ = solved(problem, gap=1e-2, cache_mb=rows * 300 * 8 / 2**20 + 1e-6)
        assert row["lower"] <= other["upper"] and other["lower"] <= row["upper"]


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", laplacian])
@pytest.mark.parametrize("sparse", [False, True])
def test_new_rows_of_any_kind_are_scored(name, sparse, blobs):
    if callable(name) and sparse:
        return
    problem, new = blobs(n=80, d=5, k=4, sparse=sparse), blobs(n=33, d=5, k=3, seed=9).X
    *_, s = islice(ww_kernel(problem, kernel=name, **SETTINGS), 5)
    old = problem.X.toarray() if sparse else problem.X
    expected = MATRICES[name](new, old) @ coefficients(s.B, s.y).T
    for X in (new, new.astype(np.float32), sp.csr_matrix(new), sp.csr_array(new)):
        np.testing.assert_allclose(s.scores(X), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_rows_of_zeros_are_at_their_bound_for_good(kind, blobs):
    problem = blobs(n=40, d=3, k=4)
    X = problem.X.copy()
    X[::3] = 0
    row, s = solved(as_problem(kind(X), problem.y), C=0.5, kernel="linear")
    others = np.eye(4)[problem.y].T == 0
    assert np.array_equal(s.B[:, ::3], 0.5 * others[:, ::3])
    steps = watch(ww_walrus_fast(as_problem(X, problem.y), C=0.5))
    *_, (other, _) = until(steps, below("gap", 1e-7))
    assert row["lower"] == pytest.approx(other["lower"], abs=1e-6)
    zero = as_problem(kind(np.zeros((6, 2))), np.arange(6) % 3)
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
        ({"kernel": "sigmoid"}, "kernel: must be one of 'linear', 'poly', 'rbf' or a function"),
        ({"kernel": lambda X, Z: np.eye(2)}, r"kernel: must return an array of shape \(32, 32\)"),
        ({"kernel": lambda X, Z: -(X @ Z.T)}, r"kernel: k\(x, x\) must be finite and not negative"),
        ({"kernel": "poly", "gamma": 1e200}, "must be finite"),
        ({"cache_mb": 0}, "cache_mb: must be a number from"),
        ({"cache_mb": np.nan}, "cache_mb: must be"),
    ],
)
def test_bad_input_is_refused_by_name(parameters, message, blobs, monkeypatch):
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        next(ww_kernel(blobs(), **parameters))
    free = psutil.virtual_memory()._replace(available=2000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(ValueError, match="problem: too large for ww_kernel, n = 60 rows of k = 3"):
        next(ww_kernel(blobs()))
