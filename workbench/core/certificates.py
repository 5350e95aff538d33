"""Lower and upper bounds that hold in spite of rounding."""

import math

import numpy as np

from workbench.core.kinds import Record

EPS = float(np.finfo(float).eps)  # all certificates are computed in double precision


def bounds(lower: float, upper: float) -> Record:
    """Return the certificate columns of a row: ``lower``, ``upper`` and ``gap``, their
    difference."""
    return {"lower": float(lower), "upper": float(upper), "gap": float(upper - lower)}


def svm_bounds(
    primal: float,
    linear: float,
    square: float,
    *,
    terms: float,
    pull: float,
    losses: float = 0.0,
    reach: float = 0.0,
    norm: float = 0.0,
    updates: float = 0.0,
) -> tuple[float, float]:
    """Return a lower and an upper bound of an SVM's optimum, widened by their rounding.

    They are the dual objective sum(b) - 1/2 |V|^2 and the primal objective P(W), both
    computed in double precision.

    Parameters
    ----------
    primal : float
        The primal objective P(W).
    linear, square : float
        The terms sum(b) and |V|^2 of the dual objective.
    terms : float
        The number of terms of the longest sum: rows, features and classes together.
    pull : float
        The sum over rows of each dual variable times the Euclidean norm of its row.
    losses, reach : float
        The sum of the costs in the loss, and the sum of these costs times the norms of
        their rows. Both are zero if P(W) already allows for the rounding of scores.
    norm : float
        The Euclidean norm of W.
    updates : float
        The number of times that V has been rounded since it was last computed from the
        dual variables.
    """
    unit = EPS * terms
    upper = primal + unit * (primal + losses + 2.0 * reach * norm)
    dual_error = unit * (linear + square)
    dual_error += EPS * (terms + updates) * math.sqrt(square) * pull
    return linear - 0.5 * square - 2.0 * dual_error, upper
