"""Multiclass Pegasos against the optimum, against the box of the paper, and its
certificate."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import each
from helpers.oracles import optimum
from helpers.solvers import after
from numpy.testing import assert_allclose

from workbench import as_problem
from workbench.memoir.pegasos import memoir_pegasos

BATCHES = [1, 7, 60, 1000]


def weights(problem, a, lam):
    """Return the primal weights (d, k) of dual weights a (n, k), which are of wrong
    classes."""
    own = np.eye(problem.k)[problem.y]
    return problem.X.T @ (own * a.sum(axis=1, keepdims=True) - a) / lam


def by_the_box(problem, lam, batch_size, seed, rounds):
    """Algorithm 1 as printed, 1/|b| added, in dual weights: return a (n, k)."""
    n = problem.n
    k = problem.k
    rng = np.random.default_rng(seed)
    a = np.zeros((n, k))
    t = 0
    m = -(-n // batch_size)
    for _ in range(rounds):
        order = rng.permutation(n)
        for b in range(m):
            t += 1
            eta = 1 / (lam * t)
            a *= 1 - lam * eta
            for i in order[b * n // m : (b + 1) * n // m]:
                scores = problem.X[i] @ weights(problem, a, lam)
                own = problem.y[i]
                others = [c for c in range(k) if c != own]
                r = others[int(np.argmax(scores[others]))]
                if 1 + scores[r] - scores[own] > 0:
                    a[i, r] += lam * eta * m / n
            length = np.linalg.norm(weights(problem, a, lam))
            a *= min(1, 1 / (np.sqrt(lam) * length)) if length > 0 else 1
    return a


KINDS = {  # in addition to the awkward ones of test_solvers.py
    "two classes": lambda X, y: (X, y % 2),
    "sparse zero rows": lambda X, y: (
        sp.csr_array(X * (np.arange(60) % 6 > 0)[:, None]),
        y,
    ),
    "imbalanced": lambda X, y: (X, np.where(np.arange(60) < 54, 2, y)),
}


@each("kind", KINDS)
def test_the_bounds_close_around_the_optimum(kind, blobs):
    problem = as_problem(*KINDS[kind](blobs(k=5).X, np.arange(60) % 5))
    low, high = optimum("memoir_pegasos", problem, {"lam": 0.05})
    for batch_size in BATCHES:
        for s in islice(memoir_pegasos(problem, lam=0.05, batch_size=batch_size), 1001):
            assert s.lower <= high and low <= s.upper
        assert s.upper <= 1.02 * low + 1e-7 and s.lower >= 0.98 * high - 1e-7


@each("lam", [1e-4, 0.05, 10.0])
@each("batch_size", BATCHES)
@each("k", [2, 5])
def test_it_is_the_box_and_the_weights_are_dual_feasible(lam, batch_size, k, blobs):
    problem = blobs(k=k)
    low, high = optimum("memoir_pegasos", problem, {"lam": lam})
    for rounds in (1, 4):
        a = by_the_box(problem, lam, batch_size, 5, rounds)
        W = weights(problem, a, lam)
        state = after(
            rounds, "memoir_pegasos", problem, lam=lam, batch_size=batch_size, seed=5
        )
        assert_allclose(state.W, W, atol=1e-9 * abs(W).max())
        assert state.mass == pytest.approx(a.sum(), abs=1e-12)
        assert state.step == rounds * -(-problem.n // batch_size)
        assert a.min() >= 0 and a.sum(axis=1).max() <= (1 + 1e-12) / problem.n
        assert lam * np.sum(state.W**2) <= 1 + 1e-12
        D = a.sum() - lam / 2 * np.sum(W**2)
        assert D - 1e-12 <= state.lower <= high and low <= state.upper


def test_many_projections_do_not_underflow(blobs):
    # Every step of the first rounds ends far outside the ball.
    problem = blobs(n=3000)
    problem = as_problem(1e3 * problem.X, problem.y)
    state = after(2, "memoir_pegasos", problem, lam=1e-9)
    assert np.isfinite(state.W).all() and 0 < state.mass <= 1
    assert 1e-9 * np.sum(state.W**2) <= 1 + 1e-9
    assert 0 < state.lower <= state.upper <= 1
