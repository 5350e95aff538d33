"""Linear programs in HiGHS: the one file that calls it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import highspy
import numpy as np
import scipy.sparse as sp

from workbench.core.checks import as_number, shown

TOO_LARGE = 1e15  # HiGHS's large_matrix_value, which it refuses without a message


@dataclass
class Solution:
    """A solution: values, row duals (of a minimisation), row activity, basis,
    objective.

    ``optimal`` is False when a time limit ended the run; the basis is empty without a
    simplex or crossover.
    """

    x: np.ndarray
    dual: np.ndarray
    activity: np.ndarray
    column_basis: np.ndarray
    row_basis: np.ndarray
    objective: float
    optimal: bool


def minimise(
    cost: np.ndarray,
    A: sp.csr_matrix,
    upper: np.ndarray,
    *,
    lower: np.ndarray | float = -math.inf,
    column_upper: np.ndarray | float = math.inf,
    free: np.ndarray | slice | list[int] = slice(0, 0),
    basis: tuple[np.ndarray, np.ndarray] | None = None,
    method: str = "simplex",
    seconds: float = math.inf,
) -> Solution:
    """Minimise ``cost'x`` subject to ``lower <= A x <= upper`` and, except where free,
    ``x >= 0``.

    Parameters
    ----------
    cost : (q,)
    A : (r, q) CSR
    upper : (r,)
    lower : (r,), or one for all rows; a row whose bounds are equal is an equation
    column_upper : (q,) upper bounds of the variables, or one for all
    free : indices of the variables without a lower bound
    basis : HiGHS status of columns and rows to start from, as :class:`Solution` holds
        it
    method : HiGHS's name of "simplex", or of its interior point method with crossover,
        "ipx"
    seconds : time limit

    Raises
    ------
    ValueError
        For numbers that HiGHS takes for infinite, or if it finds the program infeasible
        or unbounded, or gives up. No program here is either, but HiGHS's tolerances are
        absolute.
    """
    check_seconds(seconds)
    rows, columns = A.shape
    largest = max(abs(A.data).max(initial=0), abs(cost).max(initial=0))
    if not largest < TOO_LARGE:
        raise ValueError(
            f"problem: its linear program contains numbers up to {largest:.3g}, but "
            f"HiGHS takes none from {TOO_LARGE:g} up; scale the features"
        )
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_ = cost
    column_lower = np.zeros(columns)
    column_lower[free] = -math.inf
    lp.col_lower_ = column_lower
    lp.col_upper_ = np.full(columns, column_upper)
    lp.row_lower_ = np.full(rows, lower)
    lp.row_upper_ = upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = A.indptr
    lp.a_matrix_.index_ = A.indices
    lp.a_matrix_.value_ = A.data
    highs = highspy.Highs()
    options: dict[str, float | str] = {
        "output_flag": False,
        "threads": 1,
        "solver": method,
        "primal_feasibility_tolerance": 1e-9,
        "dual_feasibility_tolerance": 1e-9,
        "time_limit": float(seconds),
    }
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    if basis is not None:
        start = highspy.HighsBasis()
        start.col_status = [highspy.HighsBasisStatus(int(s)) for s in basis[0]]
        start.row_status = [highspy.HighsBasisStatus(int(s)) for s in basis[1]]
        start.valid = True
        start.alien = True
        highs.setBasis(start)
    highs.run()
    status = highs.getModelStatus()
    if status not in (
        highspy.HighsModelStatus.kOptimal,
        highspy.HighsModelStatus.kTimeLimit,
    ):
        raise ValueError(
            f"problem: HiGHS ended with '{highs.modelStatusToString(status)}'; its "
            "tolerances are absolute: scale the features, or choose a weight of the "
            "regulariser nearer to 1"
        )
    found, end = highs.getSolution(), highs.getBasis()
    return Solution(
        np.array(found.col_value),
        np.array(found.row_dual),
        np.array(found.row_value),
        np.array([int(s) for s in end.col_status], dtype=np.int8),
        np.array([int(s) for s in end.row_status], dtype=np.int8),
        highs.getInfo().objective_function_value,
        status == highspy.HighsModelStatus.kOptimal,
    )


def check_seconds(seconds: float) -> None:
    """Raise a ValueError unless a time limit is positive; it may be infinite."""
    if not as_number(seconds) > 0:
        raise ValueError(
            f"max_seconds: must be a positive number, or inf, got {shown(seconds)}"
        )
