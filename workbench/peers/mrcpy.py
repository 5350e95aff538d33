"""The minimax risk papers' own package, MRCpy: an extra, not a dependency.

Its version 3.0.0 does not run with scikit-learn 1.8 or later, so it cannot be in the lock file.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from workbench.core.checks import check_positive
from workbench.core.problem import Problem
from workbench.core.stream import Row, off_the_clock
from workbench.mrc.risk import linear_scores, minimax_risk

MISSING = "mrcpy: needs the extra: pip install 'workbench-mc[mrcpy]', in an environment of its own"


@dataclass
class MrcpyState:
    """Coefficients ``M`` (k, d + 1), the intercept last, and ``primal``, the bound U(M)."""

    round: int
    M: np.ndarray
    primal: float

    def scores(self, X) -> np.ndarray:
        return linear_scores(self.M, X)

    def info(self) -> Row:
        return {"primal": self.primal}


def mrcpy(
    problem: Problem, *, lambda0: float = 0.01, state: MrcpyState | None = None
) -> Iterator[MrcpyState]:
    """Minimise U(M) by MRCpy's constraint and column generation with its defaults, in one fit.

    The problem of :func:`~workbench.mrc.ccg.mrc_ccg`. Its linear programs go to Gurobi, here on
    one thread; its free licence takes 2,000 rows and columns. ``primal`` is U(M), computed off the
    clock; MRCpy has no lower bound.

    Parameters
    ----------
    problem : Problem with dense rows
    lambda0 : positive, confidence of the uncertainty set in standard deviations; MRCpy's own `s`
        is sqrt(n) times as large

    Raises
    ------
    ValueError
        For sparse rows, if `lambda0` is not a positive number, or MRCpy is missing or does not
        work with this scikit-learn.

    References
    ----------
    Bondugula, Mazuelas, Pérez: MRCpy: a library for minimax risk classifiers. 2021.
    """
    check_positive(lambda0, "lambda0")
    if problem.is_sparse:
        raise ValueError("problem: mrcpy takes dense rows; use mrc_ccg or mrc_pdhg for sparse ones")
    with off_the_clock():
        MRC = _imported()
        risk = minimax_risk(problem, lambda0)
        zero = np.zeros_like(risk.tau)
        s = state or MrcpyState(0, zero, risk.upper(zero))
    yield s
    if s.round:
        return
    model = MRC(loss="0-1", solver="ccg", s=lambda0 * np.sqrt(problem.n))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every round
        model.fit(problem.X, problem.y, X_=problem.X)  # else it optimises over 5000 rows at most
    with off_the_clock():
        M = np.roll(model.mu_, -1, axis=1)  # its intercept is the first
        s.M = np.vstack([M, -M]) if len(M) < problem.k else M
        s.primal, s.round = risk.upper(s.M), 1
    yield s


def _imported():
    """Import MRCpy, and limit Gurobi to one thread, for which it has no other setting."""
    if find_spec("MRCpy") is None:
        raise ValueError(MISSING)
    try:
        import gurobipy
        from MRCpy import MRC
    except ImportError as error:
        raise ValueError(f"{MISSING}; the installed one does not work: {error}") from None
    gurobipy.setParam("OutputFlag", 0)
    gurobipy.setParam("Threads", 1)
    return MRC
