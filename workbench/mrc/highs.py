"""Linear programs in HiGHS, which only this file calls."""

import math
from dataclasses import dataclass

import highspy
import numpy as np
import scipy.sparse as sp

from workbench.core.checks import as_number, shown
from workbench.core.kinds import Array

# HiGHS's large_matrix_value. HiGHS refuses a program with such numbers silently.
TOO_LARGE = 1e15


@dataclass
class Solution:
    """The values ``x`` of a solution, with multipliers, basis and objective from HiGHS.

    ``dual`` has the multipliers of the rows in a minimisation, and ``activity`` their
    values A x. ``optimal`` is False if the time limit ended the run. The basis is empty
    if neither a simplex method nor crossover has run.
    """

    x: Array
    dual: Array
    activity: Array
    column_basis: Array
    row_basis: Array
    objective: float
    optimal: bool


def minimise(
    cost: Array,
    A: sp.csr_matrix,
    upper: Array,
    *,
    lower: Array | float = -math.inf,
    column_upper: Array | float = math.inf,
    free: Array | slice | list[int] = slice(0, 0),
    basis: tuple[Array, Array] | None = None,
    method: str = "simplex",
    seconds: float = math.inf,
) -> Solution:
    """Minimise ``cost'x`` with ``lower <= A x <= upper``, and ``x >= 0`` unless free.

    Parameters
    ----------
    cost : (q,) array
    A : (r, q) CSR matrix
    upper : (r,) array of upper bounds of the rows
    lower : (r,) array of lower bounds, or one number for all rows; a row whose bounds
        are equal is an equation
    column_upper : (q,) array of upper bounds of the variables, or one number for all
    free : indices of the variables without a lower bound
    basis : statuses of columns and rows to start from, as in a :class:`Solution`
    method : "simplex", or "ipx" for the interior point method with crossover
    seconds : float > 0, the time limit in wall seconds

    Raises
    ------
    ValueError
        If HiGHS would treat a number as infinite, finds the program infeasible or
        unbounded, or gives up. No program here is infeasible or unbounded, but HiGHS's
        tolerances are absolute.
    """
    check_seconds(seconds)
    largest = max(abs(A.data).max(initial=0), abs(cost).max(initial=0))
    if not largest < TOO_LARGE:
        raise ValueError(
            f"problem: its linear program contains numbers up to {largest:.3g}, but "
            f"HiGHS accepts only numbers below {TOO_LARGE:g}; scale the features, "
            "or choose a smaller weight of the regulariser"
        )

    # 1. State the program.
    rows, columns = A.shape
    lp = highspy.HighsLp()
    lp.num_col_ = columns
    lp.num_row_ = rows
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

    # 2. Solve it.
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
    statuses = highspy.HighsModelStatus
    if status not in (statuses.kOptimal, statuses.kTimeLimit):
        raise ValueError(
            f"problem: HiGHS ended with '{highs.modelStatusToString(status)}'; its "
            "tolerances are absolute: scale the features, or choose a weight of the "
            "regulariser nearer to 1"
        )
    solution = highs.getSolution()
    end = highs.getBasis()
    return Solution(
        x=np.array(solution.col_value),
        dual=np.array(solution.row_dual),
        activity=np.array(solution.row_value),
        column_basis=np.array([int(s) for s in end.col_status], dtype=np.int8),
        row_basis=np.array([int(s) for s in end.row_status], dtype=np.int8),
        objective=highs.getInfo().objective_function_value,
        optimal=status == statuses.kOptimal,
    )


def check_seconds(seconds: float) -> None:
    """Raise a ValueError unless a time limit is positive; it may be infinite."""
    if not as_number(seconds) > 0:
        raise ValueError(
            f"max_seconds: must be a positive number, or inf, got {shown(seconds)}"
        )
