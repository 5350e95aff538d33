"""The live view: run, pause, step, take back and compare solvers while they run.

>>> explore(["mrc_ccg"], "digits | 30 % test", {"eps1": 0.1})    # doctest: +SKIP

A :class:`~workbench.live.lane.Lane` runs in the thread of a
:class:`~workbench.live.player.Player`. :class:`~workbench.live.chart.Chart` and
:class:`~workbench.live.chart.Inside` are the canvases, and the
:class:`~workbench.live.dashboard.Dashboard` holds the controls.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from workbench.core.checks import check_positive
from workbench.core.kinds import Given, Values
from workbench.core.names import hint
from workbench.core.problem import Problem
from workbench.live.dashboard import Dashboard
from workbench.registry import SOLVERS
from workbench.runs.run import check_data

_shown: Dashboard | None = None


def explore(
    solvers: str | Sequence[str],
    problem: Given,
    parameters: Values | None = None,
    *,
    chosen: str | Sequence[str] = (),
    seconds: float = 60.0,
) -> Dashboard:
    """Return a dashboard on which solvers run live; show it as the last line of a cell.

    The dashboard that an earlier call returned is stopped and releases its data.

    Parameters
    ----------
    solvers : names of the registry to choose from, or one name
    problem : data as :func:`workbench.data.load` reads them (if they have test rows,
        the test error is shown); a list of such descriptions to choose from, or a
        mapping of each to the parameters that suit it; or a Problem, such as ``load((X,
        y))``
    parameters : initial values of the sliders by the parameter's name (default: the
        solvers' defaults)
    chosen : the solvers that are selected at first (default: the first of `solvers`)
    seconds : float > 0, the initial limit on the wall seconds of each solver

    Raises
    ------
    ValueError
        If a name is unknown, a parameter has no slider, `seconds` is not positive, or
        the arguments are in another order.
    """
    global _shown
    check_data(problem, "explore(solvers, problem, parameters)")
    if not isinstance(problem, Problem | Mapping):
        problem = _descriptions(problem)
    solvers = _listed(solvers)
    chosen = _listed(chosen or solvers[:1])
    _check_known("solvers", solvers, SOLVERS)
    _check_known("chosen", chosen, solvers)
    check_positive(seconds, "seconds")
    dashboard = Dashboard(problem, solvers, parameters or {}, chosen, seconds)
    if _shown is not None:
        _shown.retire()
        _shown.chart.say(note="stopped: another dashboard has been opened")
    _shown = dashboard
    return dashboard


def _descriptions(problem: Given) -> list[str]:
    """Return one or several descriptions of data as texts."""
    problem = _listed(problem)
    if not problem or not all(isinstance(p, str | os.PathLike) for p in problem):
        raise ValueError(
            "problem: must be a name or file of data, a list of these or a Problem, "
            "such as load((X, y))"
        )
    return [*map(os.fspath, problem)]


def _check_known(argument: str, names: Sequence[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{argument}: unknown name {name!r}; {hint(name, known)}")


def _listed(given: Given) -> list:
    return list(given) if isinstance(given, list | tuple) else [given]
