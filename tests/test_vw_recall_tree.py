"""Vowpal Wabbit's recall tree, where the package is installed; the rest is in test_solvers.py."""

from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.peers import vowpal_wabbit
from workbench.peers.vowpal_wabbit import RecallTreeState, vw_recall_tree

needs_vw = pytest.mark.skipif(not find_spec("vowpalwabbit"), reason="needs the extra vw")


def test_the_missing_package_is_named(monkeypatch, blobs):
    def nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(vowpal_wabbit, "import_module", nothing)
    with pytest.raises(ValueError, match=r"vw: needs the extra: pip install 'workbench-mc\[vw\]'"):
        next(vw_recall_tree(blobs()))


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"learning_rate": 0}, "learning_rate: must be a positive number"),
        ({"bits": 0}, "bits: "),
        ({"bits": 2.5}, "bits: "),
        ({"bits": 32}, "bits: must be at most 31"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, blobs):
    with pytest.raises(ValueError, match=message):
        next(vw_recall_tree(blobs(), **parameters))


def test_an_untrained_tree_has_no_opinion():
    state = RecallTreeState(0, 0, 3, np.zeros(0, np.uint8), 1.0)
    assert state.scores(np.ones((2, 5))).tolist() == [[0, 0, 0]] * 2
    assert state.predicted(np.ones((2, 5))).tolist() == [0, 0]


@needs_vw
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_it_learns_many_classes(kind):
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((64, 40)), np.tile(np.arange(64), 12)
    X = centres[y] + 0.3 * rng.standard_normal((len(y), 40))
    problem = as_problem(kind(X[:640]), y[:640])
    states = vw_recall_tree(problem, seed=1)
    begin = next(states)
    assert begin.primal == pytest.approx(63 / 64)
    state = list(islice(states, 5))[-1]
    assert state.round == 5 and state.primal < 0.1
    scores = state.scores(kind(X[640:]))
    assert set(np.unique(scores)) == {0, 1} and (scores.sum(axis=1) == 1).all()
    assert np.mean(scores.argmax(axis=1) == y[640:]) > 0.9
    assert state.info()["bytes"] == len(state.model) > 1000


@needs_vw
def test_fewer_weights_collide(blobs):
    problem = blobs(n=300, d=20, k=30)

    def error(bits):
        return list(islice(vw_recall_tree(problem, bits=bits), 4))[-1].primal

    assert error(2) > error(18) + 0.1
