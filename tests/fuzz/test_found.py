"""Faults that the fuzzing found, each once, in plain words."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import each, refuses
from helpers.oracles import plain
from helpers.solvers import CERTIFIED, weight

from workbench import as_problem, rounds, run

X = np.arange(12.0).reshape(4, 3)
Y = [0, 1, 0, 1]


def test_small_integers_of_one_place_add_up_beyond_their_type():
    twice = sp.coo_matrix((np.array([100, 100], "i1"), ([0, 0], [0, 0])), shape=(2, 1))
    assert as_problem(twice, [0, 1]).X[0, 0] == 200


def test_values_whose_squares_are_no_numbers_are_refused():
    for scale, message in (
        (1e300, "X: contains values beyond 1e"),
        # LIBLINEAR's Newton method never ends on them
        (1e78, "X: contains values beyond 1e"),
        (1e-300, "X: column 0 contains no value beyond"),
    ):
        for kind in (np.asarray, sp.csr_matrix):
            with refuses(message):
                as_problem(kind((X + 1) * scale), Y)
    # next to others they are harmless
    assert as_problem(np.where(X == 1, 1e-300, X), Y).X[0, 1] == 1e-300
    with refuses("X_test: contains NaN or infinite"):
        as_problem(X.astype("f4"), Y, X_test=X * 1e50, y_test=Y)


@each("name", ["mrc_lp", "svm_multi", "memoir_l1"])
def test_rows_too_large_for_a_solver_are_refused_by_it(name):
    with refuses(r"^problem: .*; scale the features"):
        run(name, as_problem(X * 1e20, Y), rounds(2), warm_up=False)


def test_a_warm_up_that_fails_is_no_reason_to_fail():
    """Of 65,536 classes and more, a tiny problem has most without a row, and LIBLINEAR
    ends."""

    def steps(problem):
        if problem.n < 10:
            raise ArithmeticError("too few rows")
        yield SimpleNamespace(round=0, info=dict)

    problem = as_problem(np.tile(X, (3, 1)), Y * 3)
    assert len(run(steps, problem, rounds(1))[0].rows) == 1
    with pytest.raises(ArithmeticError):
        run(steps, as_problem(X, Y), rounds(1))


@each("value", [1e-30, 1e30])
@each("name", CERTIFIED)
def test_rows_of_zeros_at_the_ends_of_the_range_have_bounds(name, value):
    """lambda0 of 1e308 gave an upper bound of nan, or an error of NumPy's, C a lower
    one of inf."""

    def rows():
        given = {"parameters": {weight(name): value}, "warm_up": False}
        return run(name, as_problem(np.zeros((4, 3)), Y), rounds(3), **given)[0].rows

    if name == "mrc_lp" and value == 1e30:
        with refuses("HiGHS accepts only numbers below 1e"):
            rows()
        return
    for row in map(plain, rows()):
        assert 0 <= row["lower"] <= row["upper"] < np.inf
