"""The live view: solvers that one can run, pause, step, go back and compare while they run.

>>> explore("digits | 30 % test", ["mrc_ccg"], {"eps1": 0.1})              # doctest: +SKIP

A :class:`~workbench.live.lane.Lane` runs in the thread of a :class:`~workbench.live.player.Player`.
:class:`~workbench.live.chart.Chart` and :class:`~workbench.live.chart.Inside` are the canvases, and
the :class:`~workbench.live.dashboard.Dashboard` holds the controls.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.checks import check_positive
from workbench.core.names import hint
from workbench.core.problem import Problem
from workbench.live.dashboard import Dashboard
from workbench.registry import SOLVERS

DATA = tuple(f"{name} | 30 % test" for name in ("digits", "wine", "breast_cancer", "iris"))
_shown: Dashboard | None = None


def explore(
    problem: Any = DATA,
    solvers: str | Sequence[str] = (
        "mrc_ccg",
        "mrc_subgradient",
        "mrc_splitting",
        "mrc_interior_point",
    ),
    parameters: Mapping[str, Any] | None = None,
    *,
    chosen: str | Sequence[str] = (),
    seconds: float = 60.0,
) -> Dashboard:
    """Return a dashboard on which solvers run live; show it as the last line of a cell.

    The dashboard returned before is stopped, and releases its data.

    Parameters
    ----------
    problem : data as :func:`workbench.data.load` reads them, with a test error if they have test
        rows; a list of such descriptions to choose from; or a Problem, such as ``load((X, y))``
    solvers : names of the registry to choose from, or one
    parameters : initial values of the sliders by the parameter's name; the solvers' defaults
        otherwise
    chosen : the solvers that are chosen at first, by default the first one
    seconds : wall seconds that each solver may take, at first

    Raises
    ------
    ValueError
        For data that are none of these, a name that is not a solver, one chosen that is not among
        them, a parameter that none of them has a slider for, or seconds that are not positive.
    """
    global _shown
    if not isinstance(problem, Problem):
        told = "a name or file of data, a list of these or a Problem, such as load((X, y))"
        problem = list(map(os.fspath, _listed("problem", problem, str | os.PathLike, told)))
    names = "names of solvers"
    solvers, chosen = _listed("solvers", solvers, str, names), _listed("chosen", chosen, str, names)
    for argument, given in (("problem", problem), ("solvers", solvers)):
        if not given:
            raise ValueError(f"{argument}: give at least one name")
    for name in solvers:
        if name not in SOLVERS:
            raise ValueError(f"solvers: unknown name {name!r}; {hint(name, SOLVERS)}")
    for name in chosen:
        if name not in solvers:
            raise ValueError(f"chosen: {name!r} is not among the solvers {', '.join(solvers)}")
    if not isinstance(parameters, Mapping | None):
        raise ValueError(f"parameters: must be values by name, got {type(parameters).__name__}")
    check_positive(seconds, "seconds")
    dashboard = Dashboard(problem, solvers, parameters or {}, chosen or solvers[:1], seconds)
    if _shown is not None:
        _shown.retire()
    _shown = dashboard
    return dashboard


def _listed(argument: str, given: Any, kinds: Any, what: str) -> list:
    """Return one value of these kinds, or several, as a list."""
    found = [given] if isinstance(given, kinds) else given
    if not isinstance(found, list | tuple) or not all(isinstance(each, kinds) for each in found):
        raise ValueError(f"{argument}: must be {what}, got {type(given).__name__}")
    return list(found)
