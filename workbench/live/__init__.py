"""The live view: solvers that one can run, pause, step, go back and compare while they run.

>>> explore("digits", ["mrc_ccg"], {"eps1": 0.1})                          # doctest: +SKIP

What runs is a :class:`~workbench.live.lane.Lane`, in the thread of a
:class:`~workbench.live.player.Player`; :class:`~workbench.live.chart.Chart` and
:class:`~workbench.live.chart.Inside` are the canvases, and the
:class:`~workbench.live.dashboard.Dashboard` holds the controls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.names import hint
from workbench.core.problem import Problem
from workbench.live.dashboard import Dashboard
from workbench.registry import SOLVERS

_shown: Dashboard | None = None


def explore(
    problem: str | Sequence[str] | Problem = ("digits", "wine", "breast_cancer", "iris"),
    solvers: str | Sequence[str] = (
        "mrc_ccg",
        "mrc_subgradient",
        "mrc_splitting",
        "mrc_interior_point",
    ),
    parameters: Mapping[str, Any] | None = None,
    *,
    chosen: Sequence[str] = (),
    seconds: float = 60.0,
) -> Dashboard:
    """Return a dashboard on which solvers run live; show it as the last line of a cell.

    The dashboard returned before is stopped, and releases its data.

    Parameters
    ----------
    problem : data as :func:`workbench.data.panels.panel` reads them, which train on 70 % of the
        rows, or a list of them to choose from, or a problem of your own
    solvers : names of the registry to choose from, or one
    parameters : what the sliders start from, by the parameter's name; the solvers' defaults
        otherwise
    chosen : the solvers that are chosen at first, by default the first one
    seconds : solver seconds that each may take, at first

    Raises
    ------
    ValueError
        For a name that is not a solver, one chosen that is not among them, a parameter that none
        of them has a slider for, or seconds that are not positive.
    """
    global _shown
    solvers = [solvers] if isinstance(solvers, str) else solvers
    if not solvers:
        raise ValueError("solvers: give at least one name")
    if not isinstance(problem, Problem) and not len(problem):
        raise ValueError("problem: give at least one description")
    for name in solvers:
        if name not in SOLVERS:
            raise ValueError(f"solvers: unknown name {name!r}; {hint(name, SOLVERS)}")
    for name in chosen:
        if name not in solvers:
            raise ValueError(f"chosen: {name!r} is not among the solvers {', '.join(solvers)}")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds: must be positive and finite, got {seconds!r}")
    dashboard = Dashboard(problem, solvers, parameters or {}, chosen or solvers[:1], seconds)
    if _shown is not None:
        _shown.retire()
    _shown = dashboard
    return dashboard
