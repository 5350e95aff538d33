"""Vowpal Wabbit, if its package is installed; what all solvers promise is in
test_solvers.py."""

import sys
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
from helpers import dense_or_sparse, each, refuses
from numpy.testing import assert_allclose
from pytest import approx

from workbench import as_problem
from workbench.peers.vowpal_wabbit import vw, vw_recall_tree

needs_vw = pytest.mark.skipif(
    not find_spec("vowpalwabbit"), reason="needs the extra vw"
)


@each("steps", [vw, vw_recall_tree])
def test_the_missing_package_is_named(steps, monkeypatch, blobs):
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    with refuses(r"vw: needs the extra vw; run pip install 'workbench-mc\[vw\]'"):
        next(steps(blobs()))


@needs_vw
@each("k", [2, 3, 5])
def test_the_weights_are_those_that_it_predicts_with(k, blobs, rng):
    from vowpalwabbit import Workspace

    problem = blobs(100, 6, k)
    *_, s = islice(vw(problem, learning_rate=0.2), 3)
    # The same from a text file, features by name.
    arguments = f"--oaa {k} --loss_function logistic -l 0.2 --noconstant --scores"
    workspace = Workspace(f"{arguments} --quiet --no_stdin")
    order = rng.permutation(problem.n)
    text = [" ".join(f"f{j}:{v}" for j, v in enumerate(x)) for x in problem.X]
    for i in 2 * order.tolist():
        workspace.learn(f"{problem.y[i] + 1} | {text[i]}")
    theirs = np.array([workspace.predict(f"| {line}") for line in text])
    workspace.finish()
    assert_allclose(s.scores(problem.X), theirs, rtol=1e-4, atol=1e-4)
    z = np.where(np.eye(k)[problem.y] > 0, 1, -1) * (problem.X @ s.W)
    expected = np.log1p(np.exp(-z)).sum() / problem.n
    assert s.info()["primal"] == approx(expected, rel=1e-12)


@needs_vw
@dense_or_sparse
def test_the_tree_learns_many_classes(kind, rng):
    centres = rng.standard_normal((64, 40))
    y = np.tile(np.arange(64), 12)
    X = centres[y] + 0.3 * rng.standard_normal((len(y), 40))
    problem = as_problem(kind(X[:640]), y[:640])
    states = vw_recall_tree(problem, seed=1)
    assert next(states).primal == approx(63 / 64)
    state = list(islice(states, 5))[-1]
    assert state.round == 5 and state.primal < 0.1
    scores = state.scores(kind(X[640:]))
    assert set(np.unique(scores)) == {0, 1} and (scores.sum(axis=1) == 1).all()
    assert np.mean(scores.argmax(axis=1) == y[640:]) > 0.9
    assert state.info()["bytes"] == len(state.model) > 1000
    few = list(islice(vw_recall_tree(problem, bit_precision=2, seed=1), 4))[-1]
    assert few.primal > state.primal + 0.1  # fewer weights collide
