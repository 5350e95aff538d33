"""MRC-PDHG: its kernels by their definitions, and rows that are never filled with zeros."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.mrc.lp import mrc_lp
from workbench.mrc.pdhg import (
    dual_step,
    entries,
    mrc_pdhg,
    project_columns,
    project_rows,
    renew_lower,
)
from workbench.mrc.risk import minimax_risk, psi


def test_sparse_rows_are_never_densified(blobs, monkeypatch):
    problem = blobs(n=40, d=300, sparse=True)
    original, shape = sp.csr_matrix.toarray, (problem.n, problem.d + 1)

    def refuse(self, *args, **kwargs):
        assert self.shape not in (shape, shape[::-1])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(sp.csr_matrix, "toarray", refuse)
    monkeypatch.setattr(sp.csr_matrix, "todense", refuse)
    *_, s = islice(mrc_pdhg(problem, steps=20), 4)
    assert s.round == 3


def test_features_never_seen_with_a_class_keep_a_zero_coefficient(blobs):
    problem = blobs(n=30, d=12, k=3)
    problem.X[problem.y == 0, :4] = 0.0
    problem = as_problem(sp.csr_matrix(problem.X), problem.y)
    unseen = ~minimax_risk(problem, 0.1).active
    *_, s = islice(mrc_pdhg(problem, lambda0=0.1), 20)
    assert unseen.any() and np.all(s.M_best[unseen] == 0) and np.any(s.M_best != 0)


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
def test_weights_that_do_not_sum_to_one_are_judged_as_if_they_did(total, blobs):
    """Newton's method may end early; 1 - sum_i max_y p_iy is too high where sum p < 1."""
    problem = blobs(n=25)
    risk, *_, s = minimax_risk(problem, 0.1), *islice(mrc_pdhg(problem, lambda0=0.1), 6)
    p = np.maximum(s.p, 0.0)
    p /= p.sum()
    tables = [np.ascontiguousarray(a.T) for a in (risk.tau, risk.lam, risk.active)]

    def lower(p):
        return renew_lower(s, risk, entries(risk.X.T, float), *tables, p, risk.X.T @ p)

    assert lower(total * p) == pytest.approx(lower(p), rel=1e-9)
    assert 0 < s.lower <= list(mrc_lp(problem, lambda0=0.1))[-1].R + 1e-9


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
