"""Multiclass Pegasos against the optimum, against the box of the paper, and its certificate."""

from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.core.stream import watch
from workbench.memoir.pegasos import memoir_pegasos

BATCHES = [1, 7, 60, 1000]


def after(rounds, problem, **parameters):
    """Return the state after `rounds` rounds."""
    *_, state = islice(memoir_pegasos(problem, **parameters), rounds + 1)
    return state


def rows_of(stream, length):
    """Return the rows of a stream without its clock."""
    clock = ("seconds", "cpu")
    return [
        {key: row[key] for key in row if key not in clock}
        for row, _ in islice(watch(stream), length)
    ]


def optimum(problem, lam):
    """Return min P by a solver that knows nothing of ours."""
    n, d, k = problem.n, problem.d, problem.k
    X = problem.X.toarray() if problem.is_sparse else problem.X
    W, hinge = cp.Variable((d, k)), cp.Variable(n, nonneg=True)
    V = X @ W
    wrong = np.ones((n, k))
    wrong[np.arange(n), problem.y] = 0.0
    own = cp.sum(cp.multiply(1.0 - wrong, V), axis=1, keepdims=True)
    margins = wrong + V - own @ np.ones((1, k)) <= cp.reshape(hinge, (n, 1), "C") @ np.ones((1, k))
    least = cp.Problem(cp.Minimize(lam / 2 * cp.sum_squares(W) + cp.sum(hinge) / n), [margins])
    return least.solve(cp.CLARABEL)


def objective(problem, W, lam):
    """Return P(W) of (d, k) `W`, row by row."""
    X = problem.X.toarray() if problem.is_sparse else problem.X
    total = 0.0
    for x, own in zip(X, problem.y, strict=True):
        v = x @ W
        total += max(0.0, 1.0 + np.delete(v, own).max() - v[own])
    return lam / 2 * np.sum(W**2) + total / problem.n


def by_the_box(problem, lam, batch_size, seed, rounds):
    """Algorithm 1 as printed, 1/|b| added, with every dual weight: return W (d, k) and a (n, k)."""
    n, k = problem.n, problem.k
    rng = np.random.default_rng(seed)
    W, a, t = np.zeros((problem.d, k)), np.zeros((n, k)), 0
    m = -(-n // batch_size)
    for _ in range(rounds):
        order = rng.permutation(n)
        for b in range(m):
            t += 1
            eta = 1 / (lam * t)
            W, a = (1 - lam * eta) * W, (1 - lam * eta) * a
            for i in order[b * n // m : (b + 1) * n // m]:
                x, own = problem.X[i], problem.y[i]
                others = [c for c in range(k) if c != own]
                r = others[int(np.argmax(x @ W[:, others]))]
                if 1 + x @ (W[:, r] - W[:, own]) > 0:
                    W[:, r] -= eta * m / n * x
                    W[:, own] += eta * m / n * x
                    a[i, r] += lam * eta * m / n
            length = np.linalg.norm(W)
            phi = min(1, 1 / (np.sqrt(lam) * length)) if length > 0 else 1
            W, a = phi * W, phi * a
    return W, a


KINDS = {
    "two classes": lambda X, y: (X, y % 2),
    "five classes": lambda X, y: (X, y),
    "sparse": lambda X, y: (sp.csr_matrix(np.where(np.abs(X) < 1, 0, X)), y),
    "zero rows": lambda X, y: (X * (np.arange(60) % 6 > 0)[:, None], y),
    "sparse zero rows": lambda X, y: (sp.csr_array(X * (np.arange(60) % 6 > 0)[:, None]), y),
    "nothing but zeros": lambda X, y: (0 * X, y),
    "imbalanced": lambda X, y: (X, np.where(np.arange(60) < 54, 2, y)),
    "one row a class": lambda X, y: (X[:5], y[:5]),
    "duplicates with other labels": lambda X, y: (np.vstack([X[:30], X[:30]]), np.roll(y, 1)),
    "more features than rows": lambda X, y: (np.hstack([X[:20] / 4] * 10), y[:20]),
}


@pytest.fixture(scope="module")
def solved(blobs):
    """Return a problem of every kind with its optimum at lam = 0.05."""
    base = blobs(n=60, d=4, k=5)
    problems = {kind: as_problem(*make(base.X, base.y)) for kind, make in KINDS.items()}
    return {kind: (problem, optimum(problem, 0.05)) for kind, problem in problems.items()}


@pytest.mark.parametrize("batch_size", BATCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_lies_between_the_bounds_and_they_close(kind, batch_size, solved):
    problem, least = solved[kind]
    rows = rows_of(memoir_pegasos(problem, lam=0.05, batch_size=batch_size), 1001)
    lower, upper = (np.array([row[key] for row in rows]) for key in ("lower", "upper"))
    assert lower[0] == 0 and upper[0] == 1
    assert np.all(lower <= least + 1e-7) and np.all(least - 1e-7 <= upper)
    assert np.all(np.diff(lower) >= 0) and np.all(np.diff(upper) <= 0)
    assert upper[-1] <= 1.02 * least + 1e-7
    assert lower[-1] >= 0.98 * least - 1e-7


@pytest.mark.parametrize("lam", [1e-4, 0.05, 3.0])
@pytest.mark.parametrize("batch_size", BATCHES)
@pytest.mark.parametrize("k", [2, 5])
def test_it_is_the_box_and_the_weights_are_dual_feasible(lam, batch_size, k, blobs):
    problem = blobs(k=k)
    for rounds in (1, 4):
        W, a = by_the_box(problem, lam, batch_size, 5, rounds)
        state = after(rounds, problem, lam=lam, batch_size=batch_size, seed=5)
        np.testing.assert_allclose(state.W, W, atol=1e-9 * np.abs(W).max())
        assert state.mass == pytest.approx(a.sum(), abs=1e-12)
        assert state.step == rounds * -(-problem.n // batch_size)
        assert a.min() >= 0 and a.sum(axis=1).max() <= (1 + 1e-12) / problem.n
        own = np.zeros_like(a)
        own[np.arange(problem.n), problem.y] = a.sum(axis=1)
        np.testing.assert_allclose(problem.X.T @ (own - a) / lam, W, atol=1e-9 * np.abs(W).max())
        assert lam * np.sum(state.W**2) <= 1 + 1e-12
        D = a.sum() - lam / 2 * np.sum(W**2)
        assert state.lower >= D - 1e-12


@pytest.mark.parametrize(("k", "lam"), [(2, 1e-4), (5, 1e-2), (5, 10.0)])
def test_bounds_hold_for_any_lam(lam, k, blobs):
    problem = blobs(n=45, d=4, k=k, seed=3)
    least = optimum(problem, lam)
    for batch_size in BATCHES:
        state = after(40, problem, lam=lam, batch_size=batch_size)
        assert state.lower <= least + 1e-7 and least - 1e-7 <= state.upper


def test_the_primal_is_that_of_the_classifier(blobs, monkeypatch):
    problem = blobs(n=50, k=4)
    monkeypatch.setattr("workbench.memoir.pegasos.SCORES", 30)  # blocks of seven rows
    for state in islice(memoir_pegasos(problem, lam=0.02), 8):
        W = state.scores(np.eye(problem.d))
        primal = state.info()["primal"]
        assert primal == pytest.approx(objective(problem, W, 0.02), rel=1e-12)
        assert state.upper <= primal


@pytest.mark.parametrize("batch_size", BATCHES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_is_sparse(dtype, batch_size, blobs):
    sparse = blobs(n=40, d=6, sparse=True, dtype=dtype)
    dense = as_problem(sparse.X.toarray(), sparse.y)
    one, two = (after(12, p, lam=1e-3, batch_size=batch_size) for p in (sparse, dense))
    np.testing.assert_allclose(one.W, two.W, atol=1e-9)
    np.testing.assert_allclose(list(one.info().values()), list(two.info().values()), atol=1e-9)


def test_a_batch_of_n_or_more_is_the_whole_set(blobs):
    problem = blobs(n=60)
    one, two = (after(3, problem, batch_size=size) for size in (60, 10**6))
    assert one.step == 3 and one.W.tobytes() == two.W.tobytes()


def test_many_projections_do_not_underflow(blobs):
    # Every step of the first rounds ends far outside the ball.
    problem = blobs(n=3000, d=4, k=3)
    problem = as_problem(1e3 * problem.X, problem.y)
    state = after(2, problem, lam=1e-9)
    assert np.isfinite(state.W).all() and 0 < state.mass <= 1
    assert 1e-9 * np.sum(state.W**2) <= 1 + 1e-9
    assert 0 < state.lower <= state.upper <= 1


@pytest.mark.parametrize(
    ("given", "message"),
    [({"lam": lam}, "lam: must be a positive number, got") for lam in (0.0, -1.0, np.nan, np.inf)]
    + [({"batch_size": b}, "batch_size: must be a whole number of at least 1") for b in (0, 2.5)],
)
def test_bad_parameters_are_named(given, message, blobs):
    with pytest.raises(ValueError, match=message):
        next(memoir_pegasos(blobs(), **given))
