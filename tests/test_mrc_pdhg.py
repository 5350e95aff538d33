"""MRC-PDHG: agreement with the exact LP, valid bounds, repairs, exact resumption, sparsity."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.core.stream import below, rounds, until, watch
from workbench.core.trace import load_state, save_state
from workbench.mrc.lp import mrc_lp
from workbench.mrc.pdhg import (
    PrimalDualState,
    dual_step,
    entries,
    mrc_pdhg,
    project_columns,
    project_rows,
    renew_lower,
)
from workbench.mrc.risk import minimax_risk, psi


def toy(seed, n=25, d=4, k=3, sparse=False, scale=1.0):
    """Random rows and labels; every class occurs."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(k), rng.integers(k, size=n - k)]
    X = rng.standard_normal((n, d)) + rng.standard_normal((k, d))[y]
    if sparse:
        X = sp.csr_matrix(np.abs(X) * (rng.random((n, d)) < 0.4))
    return as_problem(X * scale if not sparse else (X * scale).tocsr(), y)


def solve(problem, tolerance=1e-6, limit=2000, **parameters):
    """Run to the tolerance; return all rows and the last state."""
    stream = watch(mrc_pdhg(problem, **parameters))
    found = list(until(stream, below("gap", tolerance), rounds(limit)))
    return [row for row, _ in found], found[-1][1]


def exact(problem, **parameters):
    return list(mrc_lp(problem, **parameters))[-1].R


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_lp_and_brackets_it_on_every_row(seed, k, sparse):
    problem = toy(seed, k=k, sparse=sparse)
    R = exact(problem, lambda0=0.1)
    trace, state = solve(problem, lambda0=0.1, relaxation=1.2)
    assert all(row["lower"] - 1e-9 <= R <= row["upper"] + 1e-9 for row in trace)
    assert trace[-1]["stopped_by"] == "gap <= 1e-06"
    assert trace[-1]["upper"] == pytest.approx(R, abs=1.1e-6)
    gaps = [row["gap"] for row in trace]
    assert gaps == sorted(gaps, reverse=True)
    risk = minimax_risk(problem, 0.1)
    assert risk.upper(state.M_best) == pytest.approx(state.upper, abs=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_ten_rounds_are_five_saved_loaded_and_five(tmp_path, sparse):
    problem = toy(3, n=60, d=10, sparse=sparse)

    def after(steps, count):
        return next(islice(steps, count, None))

    whole = after(mrc_pdhg(problem), 10)
    half = after(mrc_pdhg(problem), 5)
    save_state(tmp_path / "state.npz", half)
    state = load_state(tmp_path / "state.npz", PrimalDualState)
    resumed = after(mrc_pdhg(problem, state=state), 5)
    for name, value in vars(whole).items():
        assert np.array_equal(value, getattr(resumed, name)), name


def test_sparse_rows_are_never_densified(monkeypatch):
    problem = toy(4, n=40, d=300, sparse=True)
    shape = (problem.n, problem.d + 1)

    def refuse(self, *args, **kwargs):
        assert self.shape not in (shape, shape[::-1])
        return original(self, *args, **kwargs)

    original = sp.csr_matrix.toarray
    monkeypatch.setattr(sp.csr_matrix, "toarray", refuse)
    monkeypatch.setattr(sp.csr_matrix, "todense", refuse)
    trace, _ = solve(problem, limit=3)
    assert trace[-1]["round"] == 3


def test_dense_and_sparse_rows_take_the_same_path():
    problem = toy(5, d=6, sparse=True)
    dense = as_problem(problem.X.toarray(), problem.y)
    a, b = (solve(p, limit=5, tolerance=0)[1] for p in (problem, dense))
    assert np.allclose(a.M_best, b.M_best, atol=1e-9)


def test_features_never_seen_with_a_class_keep_a_zero_coefficient():
    problem = toy(6, n=30, d=12, k=3, sparse=True)
    X = problem.X.toarray()
    X[problem.y == 0, :4] = 0.0
    problem = as_problem(sp.csr_matrix(X), problem.y)
    risk = minimax_risk(problem, 0.1)
    assert not risk.active.all()
    _, state = solve(problem, lambda0=0.1, limit=20)
    assert np.all(state.M_best[~risk.active] == 0)
    assert np.any(state.M_best != 0)


@pytest.mark.parametrize("sparse", [False, True])
def test_awkward_rows_and_columns(sparse):
    rng = np.random.default_rng(7)
    X = rng.random((20, 3))
    X = np.c_[X, X[:, :1], np.ones(20), np.zeros(20), 1e6 * X[:, 1], 1e-6 * X[:, 2]]
    X[:3] = 0.0
    y = np.r_[0, 1, rng.integers(2, size=18)]
    problem = as_problem(sp.csr_matrix(X) if sparse else X, y)
    trace, state = solve(problem, limit=400, lambda0=0.1, tolerance=1e-4)
    R = exact(problem, lambda0=0.1)
    assert all(row["lower"] - 1e-9 <= R <= row["upper"] + 1e-9 for row in trace)
    assert trace[-1]["gap"] < 1e-2
    assert np.isfinite(state.scores(problem.X)).all()


def test_many_classes_and_two_rows():
    trace, _ = solve(toy(8, n=400, d=5, k=200), limit=2)
    assert 0 <= trace[-1]["lower"] <= trace[-1]["upper"] <= 1
    trace, _ = solve(as_problem(np.array([[1.0], [2.0]]), [0, 1]), limit=50)
    assert trace[-1]["gap"] < 1e-3


@pytest.mark.parametrize("phi", [-50.0, 0.0, 50.0])
def test_the_dual_step_is_the_prox(phi):
    """Checked by its optimality: the value of the prox problem at random feasible points."""
    rng = np.random.default_rng(9)
    n, k, sigma = 6, 4, 0.3
    p, V = rng.random((n, k)), rng.standard_normal((n, k))
    q, out = p.copy(), np.empty((n, k))
    dual_step(p.copy(), np.zeros((n, k)), V, sigma, phi, 1.0, out)
    assert out.min() >= 0 and out.sum() == pytest.approx(1, abs=1e-12)

    def value(r):
        return ((r - q - 2 * sigma * V) ** 2).sum() / (2 * sigma) + r.max(axis=1).sum()

    for _ in range(200):
        r = 0.9 * out + 0.1 * rng.dirichlet(np.full(n * k, 0.2)).reshape(n, k)
        assert value(r) >= value(out) - 1e-12


@pytest.mark.parametrize("total", [0.5, 0.999, 1.001])
def test_weights_that_do_not_sum_to_one_are_judged_as_if_they_did(total):
    """Newton's method may end early; 1 - sum_i max_y p_iy is too high where sum p < 1."""
    problem = toy(0)
    risk, *_, s = minimax_risk(problem, 0.1), *islice(mrc_pdhg(problem, lambda0=0.1), 6)
    p = np.maximum(s.p, 0.0)
    p /= p.sum()
    tables = [np.ascontiguousarray(a.T) for a in (risk.tau, risk.lam, risk.active)]

    def lower(p):
        return renew_lower(s, risk, entries(risk.X.T, float), *tables, p, risk.X.T @ p)

    assert lower(total * p) == pytest.approx(lower(p), rel=1e-9)
    assert 0 < s.lower <= exact(problem, lambda0=0.1) + 1e-9


def test_repairs_reach_their_sets():
    rng = np.random.default_rng(10)
    x = rng.random(5) + 0.1
    indptr, indices = np.array([0, 5]), np.arange(5)
    M, active = rng.standard_normal((5, 3)), np.ones((5, 3), dtype=bool)
    values = psi(x[None] @ M)
    for _ in range(30):
        project_rows(indptr, indices, x, M, values, values[0] - 0.5, active, np.ones(5))
    assert psi(x[None] @ M)[0] == pytest.approx(values[0] - 0.5, abs=1e-9)

    p = rng.random((5, 1))
    G, tau, lam = (x @ p)[None], np.array([[0.7 * (x @ p)[0]]]), np.array([[0.01]])
    assert project_columns(indptr, indices, x, p, G, tau, lam, np.array([[True]])) >= 1
    assert (x @ p)[0] - tau[0, 0] == pytest.approx(0.01)
    assert p.min() >= 0


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"balance": 0.0}, {"relaxation": 2.0}, {"lambda0": -1.0}]
)
def test_refuses_bad_parameters(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        next(mrc_pdhg(toy(0), **bad))
