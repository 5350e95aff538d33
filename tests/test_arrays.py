"""Solvers on arrays of other libraries: the same iterates, to single precision."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.arrays import library
from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.data import load
from workbench.runs.run import run

ELSEWHERE = ["array_api_strict", "torch", "torch:cuda:0", "cupy"]


@pytest.fixture(scope="module", params=ELSEWHERE)
def arrays(request):
    """A library that can be used here; array_api_strict always can."""
    try:
        library(request.param)
    except ValueError as error:
        if request.param == "array_api_strict":
            raise
        pytest.skip(str(error))
    return request.param


@pytest.fixture(scope="module")
def digits():
    return load("digits", test=0.2, scale="standard")


@pytest.mark.parametrize(
    "chosen",
    [
        {"link": "softmax", "passes": 2, "kept": 0},
        {"link": "identity", "features": "fourier", "calibrate": True, "passes": 1},
        {"link": "squared_hinge", "passes": 1},
        {"link": "sigmoid", "passes": 1},
    ],
    ids=lambda chosen: chosen["link"],
)
def test_stagewise_least_squares_gives_the_same_scores_elsewhere(digits, arrays, chosen):
    parameters = {"n_features": 200, "block": 64, "alpha": 1e-3} | chosen
    here, mine = run("ls_stagewise", digits, parameters=parameters)
    there, theirs = run("ls_stagewise", digits, parameters=parameters | {"arrays": arrays})
    assert there.last["round"] == here.last["round"] > 3
    assert there.last["primal"] == pytest.approx(here.last["primal"], rel=1e-5)
    assert isinstance(theirs.F, np.ndarray) and theirs.F.dtype == np.float32
    np.testing.assert_allclose(theirs.F, mine.F, atol=1e-3)
    np.testing.assert_allclose(theirs.scores(digits.X_test), mine.scores(digits.X_test), atol=1e-3)


def test_rows_in_pieces_elsewhere_give_the_same_sums(digits, arrays, monkeypatch):
    chosen = {"n_features": 64, "block": 64, "passes": 1, "arrays": arrays}
    whole, _ = run("ls_stagewise", digits, parameters=chosen)
    monkeypatch.setattr("workbench.least_squares.device.ROWS", 500)
    parts, _ = run("ls_stagewise", digits, parameters=chosen)
    assert parts.last["primal"] == pytest.approx(whole.last["primal"], rel=1e-6)


def test_the_splitting_gives_the_same_bounds_elsewhere(digits, arrays):
    here, mine = run("mrc_splitting", digits, rounds(4))
    there, theirs = run("mrc_splitting", digits, rounds(4), parameters={"arrays": arrays})
    assert there.last["lower"] == pytest.approx(here.last["lower"], abs=1e-4)
    assert there.last["upper"] == pytest.approx(here.last["upper"], abs=1e-4)
    np.testing.assert_allclose(theirs.Z_M, mine.Z_M, atol=2e-3)


def test_a_state_from_elsewhere_goes_on_here(digits, arrays):
    first = run("mrc_splitting", digits, rounds(2), parameters={"arrays": arrays})
    trace, _ = run("mrc_splitting", digits, rounds(4), after=first)
    straight, _ = run("mrc_splitting", digits, rounds(4))
    assert trace.last["gap"] == pytest.approx(straight.last["gap"], abs=2e-4)


@pytest.mark.parametrize(
    "name, words",
    [
        ("jax", "known are numpy, torch, cupy, array_api_strict and torch:DEVICE"),
        ("numpy:cuda", "unknown 'numpy:cuda'"),
        (7, "unknown 7"),
    ],
)
def test_unknown_arrays_are_refused(digits, name, words):
    with pytest.raises(ValueError, match=f"arrays: .*{words}"):
        run("ls_stagewise", digits, parameters={"arrays": name})


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat.torch", None)
    with pytest.raises(ValueError, match="arrays: torch is not installed"):
        library("torch")


def test_what_stays_on_the_processor_says_so(digits):
    chosen = {"arrays": "array_api_strict", "features": "nystroem", "n_features": 32}
    with pytest.raises(ValueError, match="features 'nystroem' are made on the processor alone"):
        run("ls_stagewise", digits, parameters=chosen)
    rows = as_problem(sp.csr_matrix(digits.X), digits.y)
    with pytest.raises(ValueError, match="sparse rows stay on the processor"):
        run("ls_stagewise", rows, parameters={"arrays": "array_api_strict", "n_features": 32})
