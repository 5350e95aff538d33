"""Files kept of a run on the dashboard: its trace with the code that repeats it, and a grid."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from workbench.core.trace import write_trace
from workbench.live.lane import Lane
from workbench.runs.run import resolve
from workbench.runs.sweep import runs_folder

NO_SPEC = "...  # the problem that the dashboard was given"
PROGRAM = """\
from workbench.data.panels import panel
from workbench.runs.run import run
from workbench.core.stream import rounds

problem = {problem}
"""


def keep(lane: Lane, spec: str | None) -> Path:
    """Write a run's trace to ``kept/`` in the folder of runs, and return its path.

    The header holds the code that repeats the run, too; ``make report`` shows both.

    Parameters
    ----------
    lane : a run that has done a round
    spec : its data as :func:`workbench.data.panels.panel` reads them; None for a problem given as
        such

    Raises
    ------
    ValueError
        If the run has no row yet.
    """
    trace = lane.trace
    if not trace.rows:
        raise ValueError("it has not done a round yet")
    trace.header |= {"data": spec, "code": code(lane, spec)}
    path = _free(runs_folder() / "kept", f"{lane.solver}-{spec or lane.problem.name}", ".jsonl")
    write_trace(path, trace)
    return path


def code(lane: Lane, spec: str | None) -> str:
    """Return a program that repeats a run to its present iterate, branch by branch."""
    program = PROGRAM.format(problem=f"panel({spec!r})" if spec else NO_SPEC)
    for i, (parameters, last) in enumerate([*lane.past, (lane.parameters, lane.last["round"])]):
        call = [f'"{lane.solver}"', "problem", f"rounds({last})"]
        if own := own_parameters(lane.solver, parameters):
            call.append(f"parameters={own!r}")
        if i:
            call.append("after=(trace, state)")
        program += f"trace, state = run({', '.join(call)})\n"
    return program


def send_to_sweep(lanes: Sequence[Lane], data: Sequence[str], cpu: float) -> Path:
    """Write a grid over all values that these runs have tried, and return its path.

    ``workbench sweep`` runs it unchanged; it is meant to be edited.

    Parameters
    ----------
    lanes : runs
    data : descriptions of their problems
    cpu : CPU seconds of each point

    Raises
    ------
    ValueError
        If there is no run, or one on data that have no description.
    """
    if not lanes or not all(data):
        raise ValueError("sweep: there is no run on data that can be described")
    solvers: dict[str, dict[str, Any]] = {}
    for lane in lanes:
        tried = solvers.setdefault(lane.solver, {})
        for parameters in (*(p for p, _ in lane.past), lane.parameters):
            for name, value in parameters.items():
                values = tried.setdefault(name, [])
                values += [value] * (value not in values)
    for solver, tried in solvers.items():
        defaults = resolve(solver, {})[1]
        varied = {name: v for name, v in tried.items() if v != [defaults[name]]}
        solvers[solver] = {name: v if len(v) > 1 else v[0] for name, v in varied.items()}
    entries = {
        "about": "every value that was tried on a dashboard, in all combinations",
        "solvers": solvers,
        "data": list(dict.fromkeys(data)),
        "seeds": 1,
        "stop": {"cpu": float(cpu)},
    }
    path = _free(runs_folder() / "grids", "-".join(solvers), ".yaml")
    path.write_text(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def own_parameters(solver: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are not at the solver's defaults."""
    defaults = resolve(solver, {})[1]
    return {name: value for name, value in parameters.items() if value != defaults.get(name)}


def _free(folder: Path, name: str, suffix: str) -> Path:
    """Return the first numbered path in `folder`, which is made, that no file has yet."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:80]
    paths = (folder / f"{stem}-{i}{suffix}" for i in count(1))
    return next(path for path in paths if not path.exists())
