"""Stagewise regression: against joint solutions, however rows are cut, threaded or
kept."""

from dataclasses import replace
from itertools import islice

import numpy as np
from helpers import each, sparse_or_not
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from sklearn.datasets import make_moons

from workbench import as_problem, load
from workbench.least_squares import block_visits, products
from workbench.least_squares.generalized import ls_accelerated
from workbench.least_squares.generators import RANDOM
from workbench.least_squares.links import LINKS
from workbench.least_squares.passes import ls_columns_logistic, ls_stagewise_passes
from workbench.least_squares.stagewise import ls_columns, ls_stagewise

SMALL = {"alpha": 1e-3, "n_features": 48, "block": 16}


def joint(problem, generator, alpha, link):
    """The solution for all features of a generator at once, in double precision."""
    blocks = [
        np.empty((problem.n, generator.width(b)), "f4") for b in range(generator.blocks)
    ]
    for b, Z in enumerate(blocks):
        generator.make(b)(problem.X, Z)
    made = replace(problem, X=np.hstack(blocks).astype(float))
    return next(islice(ls_accelerated(made, alpha=alpha, link=link), 400, None))


@each("link", ["identity", "softmax", "squared_hinge"])
def test_passes_lead_to_the_solution_for_all_features(link, blobs):
    problem = blobs(n=80, d=5)
    settings = SMALL | {"alpha": 0.1, "link": link, "passes": 60}
    states = ls_stagewise_passes(problem, **settings)
    primal = [state.primal for state in states if state.round % 3 == 0]
    exact = joint(
        problem, next(ls_stagewise_passes(problem, **settings)).generator, 0.1, link
    )
    assert primal[1] > 1.01 * exact.primal  # one pass is not the joint solution
    assert primal[-1] == approx(exact.primal, rel=1e-2)
    if link == "identity":
        assert (np.diff(primal) < 1e-6).all()


@each("features", ["orthogonal_fourier", "nystroem", "poly3"])
@each("link", LINKS)
def test_nearly_equal_features_do_not_make_it_diverge(features, link):
    X, y = make_moons(300, noise=0.2, random_state=0)
    for problem in (as_problem(X.astype("f4"), y), load("iris", scale="standard")):
        for alpha in (1e-3, 1e-8):
            steps = ls_stagewise_passes(
                problem,
                alpha=alpha,
                link=link,
                features=features,
                n_features=128,
                block=64,
                passes=6,
            )
            primal = np.array([state.primal for state in steps])
            assert (np.diff(primal) < 1e-5 * primal[:-1]).all(), alpha


def test_steps_that_raise_the_objective_are_taken_again(blobs, monkeypatch):
    problem = blobs(n=80, d=5)
    expected = [state.primal for state in ls_stagewise_passes(problem, **SMALL)][-1]
    solve = products.Factor.solve
    long = {}

    def too_long(self, G):  # as if H were a hundredth of what it is, until it is raised
        return solve(self, G) * (1 if id(self) in long else 100)

    def raised(self, share):
        long[id(self)] = self  # kept alive: its id is not another's
        return self

    monkeypatch.setattr(products.Factor, "solve", too_long)
    monkeypatch.setattr(products.Factor, "raised", raised)
    steps = [state.primal for state in ls_stagewise_passes(problem, **SMALL)]
    assert (np.diff(steps) < 1e-6).all() and len(long) == 3
    assert steps[-1] == approx(expected, rel=1e-6)


@each("solver", [ls_stagewise, ls_stagewise_passes, ls_columns, ls_columns_logistic])
def test_pieces_and_remade_features_do_not_change_iterates(solver, blobs, monkeypatch):
    sizes = {"n_features": 48, "block": 16}
    if "columns" in solver.__name__:
        sizes = {"block": 2}
    problem = blobs(n=103, d=5)

    def trace():
        steps = solver(problem, alpha=1e-3, **sizes)
        return [(state.primal, state.loss) for state in islice(steps, 7)]

    whole = trace()
    monkeypatch.setattr(block_visits, "GRAM_ROWS", 10)
    assert_allclose(kept := trace(), whole, rtol=1e-6)
    monkeypatch.setattr(block_visits, "KEPT_BYTES", 0)
    assert trace() == kept


@each("settings", [{"features": f} for f in RANDOM] + [{"calibrate": True}])
def test_the_model_is_its_seed_and_weights(settings, blobs):
    problem = blobs(n=80, d=5)
    more = {"link": "identity"} if "calibrate" in settings else {}
    losses = []
    for state in ls_stagewise(problem, **SMALL | settings | more):
        losses.append(state.loss)
    assert_allclose(state.scores(problem.X), state.F, atol=2e-4)
    if more:
        assert (np.diff(losses) < 0).all()
        assert state.loss < [s.loss for s in ls_stagewise(problem, **SMALL | more)][-1]


@sparse_or_not
@each("solver, link", [(ls_columns, "identity"), (ls_columns_logistic, "softmax")])
def test_columns_lead_to_the_solution_for_all_columns(solver, link, sparse, blobs):
    problem = blobs(n=80, d=11, sparse=sparse)
    *_, exact = islice(ls_accelerated(problem, alpha=0.05, link=link), 300)
    steps = solver(problem, alpha=0.05, block=4, passes=40)
    seen = [s.primal for s in steps]
    assert len(seen) == 40 * 3 + 1
    assert seen[-1] == approx(exact.primal, rel=1e-4)


def test_columns_come_by_the_length_of_their_gradient(blobs):
    problem = blobs(n=80, d=6)
    X = problem.X * [1, 0, 10, 1, 100, 0.1]
    state = next(islice(ls_columns(replace(problem, X=X), block=2), 1, None))
    lengths = np.linalg.norm(X.T @ np.eye(3)[problem.y], axis=1)
    order = np.argsort(-lengths, kind="stable")
    assert_array_equal(state.generator.anchors, order)
    assert set(np.flatnonzero(state.W.any(axis=1))) == {*order[:2]}
