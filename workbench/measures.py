"""The common judge: what is measured of any solver's state, always off the clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.problem import Problem
from workbench.stream import Row, State


def errors(problem: Problem) -> Callable[[State], Row]:
    """Return a judge of the 0-1 error, a fraction in [0, 1], on training and test rows.

    ``test_error`` is left out where the problem has no test rows. A row whose scores are all
    equal is predicted as the first class, as ``argmax`` does.
    """

    def measure(state: State) -> Row:
        row = {"train_error": error(state.scores(problem.X), problem.y)}
        if problem.X_test is not None:
            row["test_error"] = error(state.scores(problem.X_test), problem.y_test)
        return row

    return measure


def error(scores: np.ndarray, y: np.ndarray) -> float:
    """Return the fraction of rows whose highest score is not at their label."""
    return float(np.mean(np.argmax(scores, axis=1) != y))


def bounds(lower: float, upper: float) -> Row:
    """Return the certificate columns of a row: ``lower``, ``upper`` and ``gap``, their distance."""
    return {"lower": float(lower), "upper": float(upper), "gap": float(upper - lower)}
