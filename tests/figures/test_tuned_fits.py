"""The rule by which ls_text and ls_vs_solvers choose a parameter and a round."""

import numpy as np

from notebooks.figures.tuned_fits import choose, evaluated, first_as_good
from workbench.core.trace import Trace


def run_of(*errors, stopped_by="finished"):
    """A run whose start is evaluated, too, but is no fit."""
    rows = [{"round": i, "test_error": error} for i, error in enumerate(errors)]
    rows[-1]["stopped_by"] = stopped_by
    return Trace({}, rows)


def test_the_value_with_the_lowest_error_is_chosen():
    runs = {0.1: run_of(0.0, 0.5, 0.4), 1.0: run_of(0.0, 0.5, 0.21, 0.2)}
    exact, lax = (choose(runs, 100, slack) for slack in (0.0, 1.0))
    assert (exact.value, exact.round, exact.validation) == (1.0, 3, 0.2)
    assert (lax.value, lax.round, lax.validation) == (1.0, 2, 0.21)
    assert exact.trace is runs[1.0] and not exact.cut


def test_of_equal_values_the_middle_one_is_chosen():
    runs = {value: run_of(0.9, 0.3) for value in (1.0, 2.0, 3.0)}
    assert choose(runs | {4.0: Trace({})}, 10, 0.0).value == 2.0
    assert choose({1.0: Trace({})}, 10, 0.0) is None
    late = {1.0: run_of(0.9, 0.3, stopped_by="2 processor seconds")}
    assert choose(late, 10, 0.0).cut


def test_rounds_without_an_error_are_no_fits():
    rounds, errors = evaluated(run_of(0.9, np.nan, 0.3))
    assert rounds.tolist() == [2] and errors.tolist() == [0.3]
    assert first_as_good(run_of(0.9, 0.5), 0.1, 100, 0.0) is None
