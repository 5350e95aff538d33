"""The live view: run, pause, step, take back and compare solvers while they run.

>>> explore(["mrc_ccg"], "digits | 30 % test", {"eps1": 0.1})    # doctest: +SKIP

A :class:`~workbench.live.lane.Lane` runs in the thread of a
:class:`~workbench.live.player.Player`. :class:`~workbench.live.chart.Chart` and
:class:`~workbench.live.chart.Inside` are the canvases, and the
:class:`~workbench.live.dashboard.Dashboard` holds the controls.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from workbench.core.checks import check_known, check_positive
from workbench.core.kinds import Given, Values
from workbench.core.problem import Problem
from workbench.data import check_described
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
        If a solver or data set is unknown, a description is faulty, a parameter has no
        slider, a solver refuses a value, `seconds` is not positive, or the arguments
        are in another order.
    FileNotFoundError
        If there is no such file.
    """
    global _shown
    check_data(problem, "explore(solvers, problem, parameters)")
    if not isinstance(problem, Problem):
        descriptions = _descriptions(problem)
        problem = problem if isinstance(problem, Mapping) else descriptions
    solvers = _checked("solvers", solvers, SOLVERS)
    chosen = _checked("chosen", chosen or solvers[:1], solvers)
    check_positive(seconds, "seconds")
    dashboard = Dashboard(problem, solvers, parameters or {}, chosen, seconds)
    if _shown is not None:
        _shown.retire()
        _shown.chart.say(note="stopped: another dashboard has been opened")
    _shown = dashboard
    return dashboard


def _descriptions(problem: Given) -> list[str]:
    """Return one or several descriptions of data as texts, after checking them."""
    problem = _listed(problem)
    if not problem or not all(isinstance(p, str | os.PathLike) for p in problem):
        raise ValueError(
            "problem: must be a name or file of data, a list or mapping of these, or "
            f"a Problem, such as load((X, y)); got {problem!r:.60}"
        )
    texts = [*map(os.fspath, problem)]
    for text in texts:
        check_described(text)
    return texts


def _checked(argument: str, given: Given, known: Iterable[str]) -> list[str]:
    """Return one or several known names as a list."""
    names = _listed(given)
    for name in names or [given]:
        check_known(name, known, argument)
    return names


def _listed(given: Given) -> list:
    return list(given) if isinstance(given, list | tuple | Mapping) else [given]
