"""Generalized and calibrated least squares, against closed forms, cvxpy and the
theorems."""

from dataclasses import replace
from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
from helpers import each, oracles, refuses
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.special import softmax

from workbench import as_problem
from workbench.core.matrices import as_dense
from workbench.least_squares import products
from workbench.least_squares.calibrated import ls_calibrated
from workbench.least_squares.generalized import (
    Iterate,
    ls_accelerated,
    ls_generalized,
    updates,
)
from workbench.least_squares.links import LINKS

each_link = each("link", LINKS)


@each_link
def test_the_lipschitz_constant_holds_and_is_attained(link):
    rng = np.random.default_rng(1)
    L, of = LINKS[link]
    y = np.zeros(2, int)
    steepest = 0.0
    # The softmax is steepest where two classes share all: at the ends of a very
    # negative third.
    near = [np.array([0.0, 0.0, -40.0]) + 1e-4 * rng.normal(size=3) for _ in range(200)]
    for u in [*near, *rng.normal(size=(300, 3)) * 3]:
        v = u + 1e-4 * rng.normal(size=3)
        R = np.empty((2, 3))
        of(np.array([u, v]), y, R, np.ones(2))
        steepest = max(steepest, np.linalg.norm(R[0] - R[1]) / np.linalg.norm(u - v))
    assert 0.95 * L < steepest <= L * (1 + 1e-6)


def cvxpy_optimum(problem, link, alpha):
    X = as_dense(problem.X).astype(float)
    mean = X.mean(axis=0)
    share = problem.weights / problem.weights.sum()
    W = cp.Variable((problem.d, problem.k))
    offset = cp.Variable((1, problem.k))
    U = (X - mean) @ W + np.ones((problem.n, 1)) @ offset
    loss = share @ oracles.LINKS[link](U, np.eye(problem.k)[problem.y])
    size = np.linalg.norm(mean)  # scores of the mean row are variables of their own
    given = [(mean / size)[None] @ W == offset / size]
    objective = cp.Minimize(loss + alpha / 2 * cp.sum_squares(W))
    return cp.Problem(objective, given).solve(solver="CLARABEL")


@each_link
@each("solver", [ls_generalized, ls_accelerated])
@each(
    "dtype, sparse, offset, decades",
    [
        (np.float64, False, 0.0, 0),
        (np.float32, False, 1e4, 0),
        (np.float32, True, 1e3, 0),
        (np.float64, False, 1e6, 0),
        (np.float32, False, 0, 26),
        (np.float64, True, 0, 26),
    ],
)
def test_the_bounds_hold_far_from_zero_and_for_any_weights(
    dtype, sparse, offset, decades, solver, link, blobs, rng
):
    problem = blobs()
    X = (problem.X + offset).astype(dtype)
    problem = as_problem(csr_matrix(X) if sparse else X, problem.y)
    if decades:
        weights = 10.0 ** rng.uniform(14 - decades, 14, 60)
        problem = replace(problem, weights=weights)
    alpha, most = (0.01, 60) if offset or decades else (0.05, 301)
    optimum = cvxpy_optimum(problem, link, alpha)
    for state in islice(solver(problem, alpha=alpha, link=link), most):
        assert state.lower <= state.upper <= state.primal
        assert state.lower - 3e-8 <= optimum <= state.upper + 3e-8
    assert state.upper < 1.5 * optimum
    assert state.upper - state.lower < 1e-6 or offset or decades


def test_the_loss_falls_whatever_the_condition_of_the_rows(
    blobs,
):
    problem = blobs(n=80, d=5, k=4, seed=3)
    plain = np.array(
        [s.primal for s in islice(ls_generalized(problem, alpha=1e-4), 51)]
    )
    assert (np.diff(plain) < 0).all()
    (faster,) = islice(ls_accelerated(problem, alpha=1e-4), 25, 26)
    assert faster.primal < plain[50]
    skewed = replace(problem, X=problem.X * 10.0 ** np.arange(-2, 3))
    steps = (ls_generalized(p, alpha=1e-12) for p in (problem, skewed))
    ends = [next(islice(s, 20, None)).loss for s in steps]
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)


def test_irls_diverges_where_algorithm_1_makes_progress():
    """Two rows x = 1 of labels 0 and 1: the slope is tanh(w / 2) / 2, and w - sinh(w)
    is IRLS."""
    start = np.full((1, 1), 2.25)
    state = Iterate(0, start, start, 1.0)
    steps = updates(
        state, lambda W: np.tanh(W / 2) / 2, products.Factor(np.eye(1)), 0.25, False
    )
    irls = [2.25]
    ours = [2.25]
    for _ in range(4):
        irls.append(irls[-1] - np.sinh(irls[-1]))
        ours.append(next(steps).W.item())
    assert (np.diff(np.abs(irls)) > 0).all() and abs(irls[-1]) > 1000
    assert (np.diff(np.abs(ours)) < 0).all() and abs(ours[-1]) < 0.1


def test_the_accelerated_form_has_the_rate_of_section_4(iris):
    best = next(islice(ls_accelerated(iris, alpha=1e-4), 2000, None))
    t = np.arange(1, 500)
    L = LINKS["softmax"].L
    H = iris.X.T @ iris.X / iris.n + 1e-4 / L * np.eye(iris.d)
    # the length of W* is that of the second moment
    size = 2 * L * np.vdot(best.W, H @ best.W)
    plain, fast = (
        np.array([s.upper for s in islice(solver(iris, alpha=1e-4), 1, 500)])
        - best.lower
        for solver in (ls_generalized, ls_accelerated)
    )
    assert (fast <= size / (t + 1) ** 2).all()
    assert (plain <= size / (t + 4)).all()  # Theorem 1
    assert (plain > size / (t + 1) ** 2).any()


def test_the_minimiser_of_the_expected_loss_is_the_truth(rng):
    """Lemma 2: a label for each row and class, with its probability as weight."""
    X = rng.normal(size=(9, 3))
    P = softmax(X @ rng.normal(size=(3, 4)), axis=1)
    problem = as_problem(np.repeat(X, 4, axis=0), np.tile(np.arange(4), 9))
    problem = replace(problem, weights=P.ravel())
    *_, s = islice(ls_accelerated(problem, alpha=1e-11), 2000)
    assert_allclose(softmax(X @ s.W, axis=1), P, atol=1e-6)


@each("solver", [ls_generalized, ls_accelerated, ls_calibrated])
def test_too_many_features_for_one_gram_matrix_are_refused(solver):
    d = products.LARGEST + 1
    wide = as_problem(
        csr_matrix((np.ones(2), ([0, 1], [0, d - 1])), shape=(2, d)), [0, 1]
    )
    with refuses("features are too many for one Gram matrix"):
        next(solver(wide))
    huge = replace(wide, X=np.full((2, 3), 1e200))  # whose products overflow
    with np.errstate(all="ignore"), refuses("not finite; scale the rows"):
        next(solver(huge))


def test_calibration_is_within_the_bound_of_theorem_2(rng):
    # Without noise: y = g(W'x) for a g between the identity and the uniform
    # distribution.
    X = rng.normal(size=(300, 4)) / 4
    U = X @ rng.normal(size=(4, 3))
    Y = 1 / 3 + 0.1 * (U - U.mean(axis=1, keepdims=True))
    assert Y.min() > 0
    # On the complement of (1, 1, 1) g has L = mu, so that kappa is 1. It takes until
    # the last round for the bound to be half of what predicting nothing costs. A label
    # for each class, with its probability as weight, leaves an error of 1 - |Y|^2 that
    # no prediction avoids.
    size = (Y**2).sum(axis=1).mean()
    rounds = int(44 / size) + 1
    labels = as_problem(np.repeat(X, 3, axis=0), np.tile(np.arange(3), 300))
    problem = replace(labels, weights=Y.ravel())
    steps = islice(ls_calibrated(problem, alpha=1e-9, basis=2), 1, rounds + 1)
    errors = np.array([s.squared_error for s in steps]) - (1 - size)
    assert (errors <= 22 / np.arange(1, rounds + 1)).all()


def kinked(x, y, rounds):
    """Return the excess loss of each round of Algorithm 1 on one row, whose label y is
    negative, and w*, for a link of slope 1 below 0 and 2 above: L = 2 and mu = 1."""

    def gradient(W):
        u = x * W
        return x * (np.where(u < 0, u, 2 * u) - y)

    start = np.zeros((1, 1))
    factor = products.Factor(np.full((1, 1), x * x))
    steps = updates(Iterate(0, start, start, 1.0), gradient, factor, 2.0, False)
    scores = np.array([x * s.W.item() for s in islice(steps, rounds)])
    assert (scores < 0).all()
    return (scores - y) ** 2 / 2, y / x


@each("x", [0.01, 1.0, 1000.0])
@each("y", [-3.0, -0.2])
def test_theorem_1_corrected(x, y):
    """With the norm of the proof, the mean square of the best scores."""
    t = np.arange(1, 31)
    excess, w = kinked(x, y, 30)
    size = (w * x) ** 2
    assert (excess <= 4 * size / (t + 4)).all()
    assert (excess <= (1 / 3) ** t * size + 1e-15).all()


def test_theorem_1_as_printed_has_a_counterexample():
    """In other units W* is short, and the losses are the same."""
    t = np.arange(1, 6)
    excess, w = kinked(1000.0, -1.0, 5)
    assert (excess > 4 * w**2 / (t + 4)).all()
    assert (excess > (1 / 3) ** t * w**2).all()


@each("scale", [1e-3, 1.0, 1e3])
@each("solver", [ls_generalized, ls_calibrated])
def test_no_parameter_is_needed(solver, scale, iris):
    """No learning rate and no line search: at any scale of the rows no round raises
    the loss, with nothing given but the penalty."""
    problem = replace(iris, X=scale * iris.X)
    name = "primal" if solver is ls_generalized else "squared_error"
    rows = islice(solver(problem, alpha=1e-12 * scale**2), 1, 30)
    losses = np.array([getattr(state, name) for state in rows])
    assert (np.diff(losses) <= 1e-12).all() and losses[-1] < losses[0]
