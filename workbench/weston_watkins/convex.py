"""Problem (4) by general convex solvers: what the paper compares with, and an oracle for tests.

With t = sum_j b_j as a variable of its own, the objective is 1/2 |b|^2 + 1/2 t^2 - v'b: its matrix
is the identity. Of b alone it would be dense, m^2 numbers, and no comparison fair.
"""

from __future__ import annotations

import clarabel
import cvxpy as cp
import numpy as np
import scipy.sparse as sp

TOLERANCE = 1e-8
# Clarabel and HiGHS stop at these for the scaled problem. cvxpy lets OSQP polish: it ends near
# machine precision or, where that fails, at its tolerance.
OPTIONS = {
    "CLARABEL": dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), TOLERANCE),
    "OSQP": {"eps_abs": TOLERANCE, "eps_rel": TOLERANCE, "max_iter": 100_000},
    "HIGHS": dict.fromkeys(
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), TOLERANCE
    ),
}


def by_cvxpy(v: np.ndarray, C: float, solver: str = "CLARABEL") -> np.ndarray:
    """Return the (m,) minimiser of problem (4) by cvxpy and `solver`, clipped into the box.

    Parameters
    ----------
    v, C : as of :func:`workbench.weston_watkins.walrus.subproblem`
    solver : ``CLARABEL``, ``OSQP`` or ``HIGHS``, to a tolerance of 1e-8

    Raises
    ------
    ValueError
        For another solver.
    RuntimeError
        If the solver finds no solution.
    """
    if solver not in OPTIONS:
        raise ValueError(f"solver: must be one of {', '.join(OPTIONS)}, got {solver!r}")
    b, t = cp.Variable(len(v)), cp.Variable()
    objective = cp.sum_squares(b) / 2 + cp.square(t) / 2 - v @ b
    program = cp.Problem(cp.Minimize(objective), [t == cp.sum(b), b >= 0, b <= C])
    try:
        program.solve(solver=solver, **OPTIONS[solver])
    except cp.SolverError as error:
        raise RuntimeError(f"{solver}: {error}") from None
    if b.value is None:
        raise RuntimeError(f"{solver}: {program.status}")
    return np.clip(b.value, 0.0, C)


def by_clarabel(v: np.ndarray, C: float) -> np.ndarray:
    """Return the (m,) minimiser of problem (4) by Clarabel without cvxpy, clipped into the box.

    The same program, tolerance and arguments as of :func:`by_cvxpy`, on one thread.

    Raises
    ------
    RuntimeError
        If Clarabel finds no solution.
    """
    m = len(v)
    # Rows: sum b - t = 0, then 0 <= b, then b <= C; entry j is in one row of each.
    j = np.arange(m)
    places = np.append(np.stack([np.zeros(m, dtype=int), 1 + j, 1 + m + j], axis=1), 0)
    values = np.append(np.tile([1.0, -1.0, 1.0], m), -1.0)
    starts = np.append(np.arange(0, 3 * m + 1, 3), 3 * m + 1)
    A = sp.csc_matrix((values, places, starts), shape=(1 + 2 * m, m + 1))
    limits = np.append(np.zeros(1 + m), np.full(m, float(C)))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * m)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    for name, value in OPTIONS["CLARABEL"].items():
        setattr(settings, name, value)
    P, q = sp.identity(m + 1, format="csc"), np.append(-v, 0.0)
    found = clarabel.DefaultSolver(P, q, A, limits, cones, settings).solve()
    if found.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise RuntimeError(f"Clarabel: {found.status}")
    return np.clip(np.array(found.x[:m]), 0.0, C)
