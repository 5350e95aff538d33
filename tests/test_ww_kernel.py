"""The kernel Weston-Watkins SVM: exact, certified, and the same whatever the cache holds."""

from itertools import islice

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from oracles import optimum
from test_kernel_functions import COEF0, DEGREE, GAMMA, MATRICES, laplacian

from workbench.core.stream import below, rounds, until, watch
from workbench.core.trace import load_state, save_state
from workbench.kernels.functions import scale
from workbench.weston_watkins import kernel
from workbench.weston_watkins.kernel import KernelState, coefficients, shuffled, ww_kernel

SETTINGS = {"gamma": GAMMA, "degree": DEGREE, "coef0": COEF0}
each_kernel = pytest.mark.parametrize("name", ["linear", "poly", "rbf"])


def solved(problem, gap=1e-7, most=3000, **parameters):
    *_, (row, s) = until(watch(ww_kernel(problem, **parameters)), below("gap", gap), rounds(most))
    assert row["gap"] <= gap
    return row, s


@each_kernel
@pytest.mark.parametrize(("k", "C"), [(2, 0.7), (3, 0.3), (5, 2.0)])
def test_the_bounds_close_around_the_optimum(name, k, C, blobs):
    problem, given = blobs(n=24, d=3, k=k, seed=k), {"C": C, "kernel": name} | SETTINGS
    low, high = optimum("ww_kernel", problem, given, next(ww_kernel(problem, **given)))
    row, _ = solved(problem, gap=1e-7 * low, **given)
    assert row["lower"] <= high and low <= row["upper"]


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


def test_the_random_order_keeps_neighbours_together():
    rows = np.arange(5, 48, 2)
    order = shuffled(rows, np.random.default_rng(0))
    assert sorted(order) == list(rows) and list(order) != list(rows)
    assert (np.diff(order) == 2).sum() >= len(rows) - -(-len(rows) // kernel.RUN)
    assert len(shuffled(rows[:0], np.random.default_rng(0))) == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": lambda X, Z: np.eye(2)}, r"kernel: must return an array of shape \(32, 32\)"),
        ({"kernel": lambda X, Z: -(X @ Z.T)}, r"kernel: k\(x, x\) must be finite and not negative"),
        ({"kernel": "poly", "gamma": 1e200}, "must be finite"),
    ],
)
def test_bad_input_is_refused_by_name(parameters, message, blobs, monkeypatch):
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        next(ww_kernel(blobs(), **parameters))
    free = psutil.virtual_memory()._replace(available=2000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(ValueError, match="problem: too large for ww_kernel, n = 60 rows of k = 3"):
        next(ww_kernel(blobs()))
