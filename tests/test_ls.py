"""Generalized and calibrated least squares, against closed forms, cvxpy and the theorems."""

from dataclasses import replace
from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.data.generators import fitted
from workbench.least_squares import calibrated, products
from workbench.least_squares.calibrated import calibrate, ls_calibrated
from workbench.least_squares.generalized import descend, ls_accelerated, ls_generalized
from workbench.least_squares.links import LINKS
from workbench.least_squares.simplex import clip, project
from workbench.least_squares.stagewise import scores

SOLVERS = {"plain": ls_generalized, "accelerated": ls_accelerated}


def onehot(problem):
    return np.eye(problem.k)[problem.y]


def after(steps, rounds):
    return next(islice(steps, rounds, None))


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_residuals_are_gradients_of_the_loss(name, dtype):
    rng = np.random.default_rng(0)
    F, y, of = 2 * rng.normal(size=(5, 4)), rng.integers(4, size=5), LINKS[name].residuals
    R = np.empty((5, 4), dtype)
    loss = of(F.astype(dtype), y, R)
    scratch, h = np.empty_like(F), 1e-5
    for i, c in np.ndindex(F.shape):
        D = np.zeros_like(F)
        D[i, c] = h
        slope = (of(F + D, y, scratch) - of(F - D, y, scratch)) / (2 * h)
        assert R[i, c] == pytest.approx(slope, abs=2e-6 if dtype == np.float32 else 1e-8)
    labels = np.empty_like(R)
    assert of(F.astype(dtype), np.eye(4)[y], labels) == pytest.approx(loss, rel=1e-12)
    assert np.array_equal(labels, R)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_may_overwrite_its_scores_and_survives_extreme_ones(name):
    F, y = np.array([[1e4, -1e4, 0.0], [0.0, 1e3, 1e4]]), np.array([0, 0])
    R = np.empty_like(F)
    loss = LINKS[name].residuals(F, y, R)
    assert np.isfinite(loss) and np.isfinite(R).all()
    assert LINKS[name].residuals(F, y, F) == loss
    assert np.array_equal(F, R)


@pytest.mark.parametrize("name", LINKS)
def test_the_lipschitz_constant_holds_and_is_attained(name):
    rng = np.random.default_rng(1)
    L, of = LINKS[name]
    y, steepest = np.zeros(2, int), 0.0
    # The softmax is steepest where two classes share all: at the ends of a very negative third.
    near = [np.array([0.0, 0.0, -40.0]) + 1e-4 * rng.normal(size=3) for _ in range(200)]
    for u in [*near, *rng.normal(size=(300, 3)) * 3]:
        v = u + 1e-4 * rng.normal(size=3)
        R = np.empty((2, 3))
        of(np.array([u, v]), y, R)
        steepest = max(steepest, np.linalg.norm(R[0] - R[1]) / np.linalg.norm(u - v))
    assert 0.95 * L < steepest <= L * (1 + 1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_one_step_of_the_identity_link_is_ridge_regression(solver, sparse, blobs):
    problem = blobs(n=50, d=6, k=3, sparse=sparse)
    X = problem.X.toarray() if sparse else problem.X
    W = np.linalg.solve(X.T @ X / 50 + 0.1 * np.eye(6), X.T @ onehot(problem) / 50)
    state = after(SOLVERS[solver](problem, alpha=0.1, link="identity"), 1)
    np.testing.assert_allclose(state.W, W, atol=1e-12)
    assert state.info()["gap"] == pytest.approx(0, abs=1e-12)


def cvxpy_optimum(problem, link, alpha, weights=None):
    n, k = problem.n, problem.k
    X = (problem.X.toarray() if problem.is_sparse else problem.X).astype(float)
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    W, offset = cp.Variable((problem.d, k)), cp.Variable((1, k))  # of scores, by the rows' mean
    U, T, mean = (
        (X - X.mean(axis=0)) @ W + np.ones((n, 1)) @ offset,
        onehot(problem),
        X.mean(axis=0),
    )
    losses = {
        "softmax": lambda: cp.log_sum_exp(U, axis=1) - cp.sum(cp.multiply(T, U), axis=1),
        "sigmoid": lambda: cp.sum(cp.logistic(U) - cp.multiply(T, U), axis=1),
        "squared_hinge": lambda: cp.sum(cp.pos(1 - cp.multiply(2 * T - 1, U)) ** 2, axis=1),
        "identity": lambda: cp.sum((U - T) ** 2, axis=1) / 2,
    }[link]()
    objective = cp.Minimize(share @ losses + alpha / 2 * cp.sum_squares(W))
    size = np.linalg.norm(mean)
    return cp.Problem(objective, [(mean / size)[None] @ W == offset / size]).solve(
        solver="CLARABEL"
    )


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_bounds_close_in_on_cvxpys_optimum(solver, link, blobs):
    problem = blobs(n=40, d=4, k=3)
    optimum = cvxpy_optimum(problem, link, 0.05)
    for state in islice(SOLVERS[solver](problem, alpha=0.05, link=link), 301):
        assert state.lower - 1e-7 <= optimum <= state.upper + 1e-7
    assert state.upper - state.lower < 1e-6


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("dtype", "sparse", "offset", "decades"),
    [
        (np.float32, False, 1e4, 0),
        (np.float32, True, 1e3, 0),
        (np.float64, False, 1e6, 0),
        (np.float32, False, 0.0, 26),
        (np.float64, True, 0.0, 26),
    ],
)
def test_the_bounds_hold_far_from_zero_and_for_any_weights(
    dtype, sparse, offset, decades, solver, link, blobs
):
    problem = blobs(n=60, d=4, k=3)
    X = (problem.X + offset).astype(dtype)
    problem = as_problem(sp.csr_matrix(X) if sparse else X, problem.y)
    weights = 10.0 ** np.random.default_rng(0).uniform(14 - decades, 14, 60)
    optimum = cvxpy_optimum(problem, link, 0.01, weights if decades else None)
    problem = replace(problem, weights=weights) if decades else problem
    for state in islice(SOLVERS[solver](problem, alpha=0.01, link=link), 60):
        assert state.lower <= state.upper <= state.primal
        assert state.lower - 3e-8 <= optimum <= state.upper + 3e-8
    assert state.upper < 1.5 * optimum


def test_the_loss_falls_at_every_step_and_faster_with_the_smaller_constant(blobs):
    problem = blobs(n=80, d=5, k=4, seed=3)
    half, one = (
        np.array([s.primal for s in islice(ls_generalized(problem, alpha=1e-4, L=L), 41)])
        for L in (None, 1.0)
    )
    assert (np.diff(half) < 0).all() and (np.diff(one) < 0).all()
    assert (half[1:] < one[1:]).all()


def test_momentum_needs_fewer_rounds(blobs):
    problem = blobs(n=80, d=5, k=4, seed=3)
    plain = after(ls_generalized(problem, alpha=1e-4), 50)
    assert after(ls_accelerated(problem, alpha=1e-4), 25).primal < plain.primal


def test_the_condition_of_the_rows_does_not_matter(blobs):
    problem = blobs(n=80, d=5, k=4, seed=3)
    skewed = replace(problem, X=problem.X * 10.0 ** np.arange(-2, 3))
    ends = [after(ls_generalized(p, alpha=1e-12), 20).loss for p in (problem, skewed)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


@pytest.mark.parametrize("solver", [ls_generalized, ls_accelerated, ls_calibrated])
def test_more_features_than_rows(solver, blobs):
    state = after(solver(blobs(n=6, d=40, k=3)), 30)
    assert np.isfinite(state.scores(blobs(n=6, d=40, k=3).X)).all()


def test_several_labels_a_row(blobs):
    problem = blobs(n=60, d=4, k=3)
    Y = (problem.X @ np.ones((4, 5)) + np.arange(5) - 2 > 0).astype(float)
    state = after(descend(problem.X, Y, 5, 1e-3, "sigmoid", None, True), 40)
    assert ((state.scores(problem.X) > 0) == Y).mean() > 0.85
    state = after(calibrate(problem.X, Y, 5, 1e-3, 3), 15)
    assert state.predictions.min() >= 0 and state.predictions.max() <= 1
    assert ((state.predictions > 0.5) == Y).mean() > 0.85
    np.testing.assert_allclose(state.scores(problem.X), state.predictions, atol=1e-12)


@pytest.mark.parametrize(
    ("solver", "settings", "message"),
    [
        (ls_generalized, {"link": "probit"}, "link: unknown name 'probit'; known are identity"),
        (ls_accelerated, {"L": 0.0}, "L: must be a positive number, got 0.0"),
        (ls_calibrated, {"basis": 0}, "basis: must be a whole number of at least 1 or a function"),
        (ls_calibrated, {"basis": lambda Y: Y**2}, "basis: the function must return"),
    ],
)
def test_bad_settings_are_named(solver, settings, message, blobs):
    with pytest.raises(ValueError, match=message):
        next(solver(blobs(), **settings))


@pytest.mark.parametrize("solver", [ls_generalized, ls_accelerated, ls_calibrated])
def test_too_many_features_for_one_gram_matrix_are_refused(solver):
    d = products.LARGEST + 1
    wide = as_problem(sp.csr_matrix((np.ones(2), ([0, 1], [0, d - 1])), shape=(2, d)), [0, 1])
    with pytest.raises(ValueError, match="features are too many for one Gram matrix"):
        next(solver(wide))


def test_a_singular_gram_matrix_is_factored_an_indefinite_one_is_not():
    v = np.ones((3, 1))
    np.testing.assert_allclose(v.T @ products.Factor(v @ v.T).solve(v), 1, rtol=1e-6)
    with pytest.raises(np.linalg.LinAlgError):
        products.Factor(np.diag([1.0, -2.0]))


@pytest.mark.parametrize("solver", [ls_generalized, ls_accelerated, ls_calibrated])
def test_rows_whose_products_overflow_are_refused(solver, blobs):
    problem = blobs()
    huge = replace(problem, X=problem.X * 1e200)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite; scale the rows"):
        next(solver(huge))


def sorted_projection(v):
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, len(u) + 1)
    return np.maximum(v - excess[u > excess][-1], 0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("k", [1, 2, 3, 50])
def test_the_projection_onto_the_simplex_is_that_by_sorting(k, scale):
    rng = np.random.default_rng(k)
    V = rng.normal(size=(200, k)) * scale
    V[:50] = np.round(V[:50] / scale) * scale  # ties
    V[50] = 1 / k
    P = V.copy()
    project(P)
    np.testing.assert_allclose(P, [sorted_projection(v) for v in V], atol=1e-9 * max(scale, 1))
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-9 * max(scale, 1))


def test_clipping_keeps_what_is_inside():
    V = np.array([[-0.5, 0.25, 7.0]], np.float32)
    clip(V)
    assert V.tolist() == [[0.0, 0.25, 1.0]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("basis", [1, 3, lambda Y: np.hstack([Y, np.sin(Y)])])
def test_no_step_of_algorithm_2_raises_the_squared_error(basis, seed, blobs):
    problem = blobs(n=70, d=4, k=3, seed=seed)
    so_far = 1.0
    for state in islice(ls_calibrated(problem, alpha=1e-3, basis=basis), 30):
        steps = [so_far, state.fitted, state.refitted, state.squared_error]
        assert (np.diff(steps) <= 1e-12).all()
        so_far = state.squared_error
        assert (state.predictions >= 0).all()
        np.testing.assert_allclose(state.predictions.sum(axis=1), float(state.round > 0))
    np.testing.assert_allclose(state.scores(problem.X), state.predictions, atol=1e-10)


def algorithm_2(X, Y, alpha, power, rounds, projected):
    """The squared errors of the three steps of Algorithm 2 in every round, with our ridge."""
    n, d = X.shape
    P, errors = np.zeros(Y.shape), []
    for _ in range(rounds):
        between = P + X @ np.linalg.solve(X.T @ X / n + alpha * np.eye(d), X.T @ (Y - P) / n)
        G = np.hstack([between**m for m in range(1, power + 1)])
        ridge = calibrated.RIDGE * (G**2).sum() / G.shape[1] * np.eye(G.shape[1])
        step = np.linalg.solve(G.T @ G + ridge, G.T @ (Y - between))
        refitted = between + G @ step
        P = projected(refitted)
        errors.append([((Y - F) ** 2).sum() / n for F in (between, refitted, P)])
    return np.array(errors)


def errors_of(steps, rounds):
    """The same of our states, number by number: a state is the stream's, which goes on with it."""
    next(steps)
    return np.array(
        [[s.fitted, s.refitted, s.squared_error] for s in islice(steps, rounds)],
    )


@pytest.mark.parametrize("power", [1, 2, 3])
def test_calibration_is_algorithm_2(power, blobs):
    problem = blobs(n=70, d=4, k=3)
    expected = algorithm_2(
        problem.X,
        onehot(problem),
        1e-3,
        power,
        12,
        lambda V: np.array([sorted_projection(v) for v in V]),
    )
    found = errors_of(ls_calibrated(problem, alpha=1e-3, basis=power), 12)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    Y = (problem.X @ np.ones((4, 5)) + np.arange(5) - 2 > 0).astype(float)
    expected = algorithm_2(problem.X, Y, 1e-3, power, 12, lambda V: np.clip(V, 0, 1))
    found = errors_of(calibrate(problem.X, Y, 5, 1e-3, power), 12)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_calibration_is_by_theorem_2_within_22_kappa_squared_over_t():
    # Without noise: y = g(W'x) for a g between the identity and the uniform distribution.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) / 4
    U = X @ rng.normal(size=(4, 3))
    Y = 1 / 3 + 0.1 * (U - U.mean(axis=1, keepdims=True))
    assert Y.min() > 0
    # Clipped to [0, 1]; on the complement of (1, 1, 1) g has L = mu, so that kappa is 1. It takes
    # until the last round for the bound to be half of what predicting nothing costs.
    rounds = int(44 / (Y**2).sum(axis=1).mean()) + 1
    errors = errors_of(calibrate(X, Y, 3, 1e-9, 2), rounds)[:, 2]
    assert (errors <= 22 / np.arange(1, rounds + 1)).all()


def test_a_basis_is_looked_at_where_predictions_are(blobs):
    problem = blobs()
    for basis, message in {
        lambda Y: np.hstack([Y / Y.sum(1, keepdims=True), Y**2]): "the function must return",
        lambda Y: np.hstack([np.multiply(Y, 2, out=Y), Y]): "the function must return",
        lambda Y: np.vstack([Y, Y]): "the function must return",
        lambda Y: np.hstack([Y, np.log(Y)]): "its values are not finite for all predictions",
        lambda Y: np.hstack([Y, 1 / (1 - Y)]): "its values are not finite for all predictions",
        lambda Y: np.hstack([Y, np.sqrt(Y)]): "its values at predictions before their projection",
    }.items():
        with np.errstate(all="ignore"), pytest.raises(ValueError, match=f"basis: {message}"):
            after(ls_calibrated(problem, basis=basis), 1)


def test_a_state_goes_on_with_its_basis(blobs):
    problem = blobs()
    whole = errors_of(ls_calibrated(problem, basis=2), 8)
    state = after(ls_calibrated(problem, basis=2), 5)
    rest = errors_of(ls_calibrated(problem, basis=3, state=state), 3)
    assert np.array_equal(rest, whole[5:]) and state.basis == 2


def test_chunks_of_rows_do_not_matter(blobs, monkeypatch):
    problem = blobs(n=90, d=5, k=3)
    generator = fitted(problem, "fourier", 20, 8)
    W = np.random.default_rng(0).normal(size=(20, 3))

    def found():
        states = [after(f(problem), 5) for f in (ls_accelerated, ls_calibrated)]
        return [*(state.scores(problem.X) for state in states), states[1].predictions]

    whole = found()
    for module in (products, calibrated):
        monkeypatch.setattr(module, "GRAM_ROWS", 7)
        monkeypatch.setattr(module, "cached_rows", lambda X: 7)
    np.testing.assert_allclose(found(), whole, atol=1e-9)
    features = np.hstack([made(problem.X, generator, b) for b in range(3)])
    for rows in (1, 7, 90, 1000):
        np.testing.assert_allclose(
            scores(generator, problem.X, W, rows), features @ W, atol=1e-4, err_msg=f"{rows}"
        )


def made(X, generator, b):
    Z = np.empty((len(X), generator.width(b)), np.float32)
    generator.make(b)(X, Z)
    return Z
