"""The live view: solvers that one can run, pause, step, go back and compare while they
run.

>>> explore("digits | 30 % test", ["mrc_ccg"], {"eps1": 0.1})              # doctest: +SKIP

A :class:`~workbench.live.lane.Lane` runs in the thread of a
:class:`~workbench.live.player.Player`. :class:`~workbench.live.chart.Chart` and
:class:`~workbench.live.chart.Inside` are the canvases, and the
:class:`~workbench.live.dashboard.Dashboard` holds the controls.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from workbench.core.checks import check_positive
from workbench.core.kinds import Given, Values
from workbench.core.names import hint
from workbench.core.problem import Problem
from workbench.live.dashboard import Dashboard
from workbench.registry import SOLVERS

_shown: Dashboard | None = None


def explore(
    problem: Given,
    solvers: str | Sequence[str],
    parameters: Values | None = None,
    *,
    chosen: str | Sequence[str] = (),
    seconds: float = 60.0,
) -> Dashboard:
    """Return a dashboard on which solvers run live; show it as the last line of a cell.

    The dashboard returned before is stopped, and releases its data.

    Parameters
    ----------
    problem : data as :func:`workbench.data.load` reads them, with a test error if they
        have test rows; a list of such descriptions to choose from, or a mapping to the
        parameters that suit each; or a Problem, such as ``load((X, y))``
    solvers : names of the registry to choose from, or one
    parameters : initial values of the sliders by the parameter's name; the solvers'
        defaults otherwise
    chosen : the solvers that are chosen at first, by default the first one
    seconds : the initial limit on the wall seconds of each solver

    Raises
    ------
    ValueError
        For an unknown name, a parameter without a slider, or seconds that are not
        positive.
    """
    global _shown
    if not isinstance(problem, Problem | Mapping):
        problem = _listed(problem)
        if not problem or not all(
            isinstance(each, str | os.PathLike) for each in problem
        ):
            what = "a name or file of data, a list of these or a Problem, such as load((X, y))"
            raise ValueError(f"problem: must be {what}")
        problem = list(map(os.fspath, problem))
    solvers = _listed(solvers)
    chosen = _listed(chosen or solvers[:1])
    for argument, names, known in (
        ("solvers", solvers, SOLVERS),
        ("chosen", chosen, solvers),
    ):
        for name in names:
            if name not in known:
                raise ValueError(
                    f"{argument}: unknown name {name!r}; {hint(name, known)}"
                )
    check_positive(seconds, "seconds")
    dashboard = Dashboard(problem, solvers, parameters or {}, chosen, seconds)
    if _shown is not None:
        _shown.retire()
    _shown = dashboard
    return dashboard


def _listed(given: Given) -> list:
    return list(given) if isinstance(given, list | tuple) else [given]
