"""Times to a certified gap, from the traces in the sidecars: tables and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from workbench.figures.curves import quartiles
from workbench.figures.papers import base, order, paper_of_solver
from workbench.figures.provenance import TOLERANCES
from workbench.figures.report.comparison import number
from workbench.figures.report.sidecars import Figure, label
from workbench.figures.style import look

# These change what is to be solved; all other parameters only how.
PROBLEM_PARAMETERS = {"lambda0", "C", "lam", "lambda_", "l1", "l2", "ridge", "kernel", "gamma"}
RESOLUTION = 1e-4  # seconds, of the times in sidecars; no ratio is taken of less
ALL = ""  # the notebook of a scope that takes the runs of every notebook


class Run(NamedTuple):
    """One trace: what ran on what, and when its gap got below each tolerance (inf: never)."""

    notebook: str
    place: str
    paper: str
    solver: str
    parameters: Mapping[str, Any]
    data: str
    checksum: str
    times: tuple[float, ...]
    timed: bool


@dataclass
class Scope:
    """Runs that may be compared: of one paper's problem, from one notebook or from all of a place.

    Attributes
    ----------
    entries : label -> runs; a solver that ran with several settings is several entries
    looks : label -> (colour, index among the entries of the same solver)
    instances : what was solved, (checksum, regularisation) -> label
    times : tolerance -> entry -> instance -> median seconds, inf where most runs never got there
    regularisers : the parameters of the problem that differ between the runs
    """

    paper: str
    notebook: str
    place: str
    entries: dict[str, list[Run]] = field(default_factory=dict)
    looks: dict[str, tuple[str, int]] = field(default_factory=dict)
    instances: dict[tuple, str] = field(default_factory=dict)
    times: dict[str, dict[str, dict[tuple, float]]] = field(default_factory=dict)
    regularisers: tuple[str, ...] = ()

    def instance(self, run: Run) -> tuple:
        """Return what a run solved: its rows, and the regularisation where that differs."""
        return (run.checksum, *(str(run.parameters.get(name)) for name in self.regularisers))

    @property
    def title(self) -> str:
        """What a reader chooses the scope by."""
        name = self.notebook or f"all of {self.paper.replace('_', ' ')}"
        return f"{name}, {self.place}" if self.place else name

    @property
    def runs(self) -> list[Run]:
        """The runs of all entries."""
        return [run for group in self.entries.values() for run in group]

    @property
    def shown(self) -> list[str]:
        """The entries to show at first: those that ran on half of the instances or more."""
        ran = self.times[TOLERANCES[0]]
        return [name for name in self.entries if 2 * len(ran[name]) >= len(self.instances)]

    @property
    def tolerance(self) -> str:
        """The one to show at first: the tightest that half of all runs reached."""
        reached = np.isfinite([run.times for run in self.runs]).mean(axis=0)
        return TOLERANCES[max(np.flatnonzero(reached >= 0.5), default=0)]


class TimeRow(NamedTuple):
    """A line of a time-to-tolerance table: (median seconds, runs that got there) a tolerance."""

    data: str
    entry: str
    cells: list[tuple[float, int]]
    runs: int
    timed: bool


def scopes(figures: Iterable[Figure]) -> list[Scope]:
    """Return the scopes of all traces in some figures, those with the most runs first in a paper.

    Runs from several notebooks of one paper are one more scope. Profiles are never mixed.
    """
    groups: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in _runs(figures):
        by_notebook = groups.setdefault((run.paper, run.place), {})
        by_notebook.setdefault(run.notebook, []).append(run)
    found = []
    for paper, place in sorted(groups, key=lambda key: order(key[0])):
        by_notebook = groups[paper, place]
        for notebook in sorted(by_notebook, key=lambda name: -len(by_notebook[name])):
            found.append(_scope(Scope(paper, notebook, place), by_notebook[notebook]))
        if len(by_notebook) > 1:
            found.append(_scope(Scope(paper, ALL, place), [*chain(*by_notebook.values())]))
    return found


def median(times: Iterable[float]) -> float:
    """Return the median; where some runs never got there the larger of the two middle ones."""
    return float(quartiles([[time] for time in times])[1, 0])


def ratios(times: Mapping[str, Mapping[Any, float]]) -> tuple[dict[str, np.ndarray], int]:
    """Return the performance ratios of Dolan and Moré.

    Parameters
    ----------
    times : entry -> instance -> seconds, inf for a failure. Only instances on which every entry
        ran are compared.

    Returns
    -------
    ratios : entry -> ascending times, each divided by the best of all entries on its instance;
        failures are left out
    count : instances compared, also those that no entry solved
    """
    common = set.intersection(*(set(ran) for ran in times.values())) if times else set()
    best = {i: min(ran[i] for ran in times.values()) for i in common}
    return {
        entry: np.sort([ran[i] / best[i] for i in common if math.isfinite(ran[i])])
        for entry, ran in times.items()
    }, len(common)


def share(ratios: np.ndarray, count: int, tau: float) -> float:
    """Return the share of `count` instances that were solved within `tau` times the best time."""
    return float(np.searchsorted(ratios, tau * (1 + 1e-12), side="right")) / count if count else 0.0


def time_table(scope: Scope) -> list[TimeRow]:
    """Return the times to each tolerance, one row for each data set, size and entry."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for entry, runs in scope.entries.items():
        for run in runs:
            groups.setdefault((scope.instances[scope.instance(run)], entry), []).append(run)
    sets = list(dict.fromkeys(scope.instances.values()))
    rows = []
    for data, entry in sorted(groups, key=lambda key: sets.index(key[0])):
        runs = groups[data, entry]
        columns = np.array([run.times for run in runs]).T
        cells = [(median(column), int(np.isfinite(column).sum())) for column in columns]
        rows.append(TimeRow(data, entry, cells, len(runs), all(run.timed for run in runs)))
    return rows


def payload(scope: Scope) -> dict[str, Any]:
    """Return what the page's script needs to draw a scope: -1 is never, null is not run."""
    instances = list(scope.instances)
    shown = scope.shown

    def plain(time: float | None) -> float | None:
        return None if time is None else float(f"{time:.6g}") if math.isfinite(time) else -1

    return {
        "title": scope.title,
        "paper": scope.paper,
        "tolerance": scope.tolerance,
        "runs": len(scope.runs),
        "timed": sum(run.timed for run in scope.runs),
        "entries": [
            {"label": name, "colour": colour, "dash": dash, "shown": name in shown}
            for name, (colour, dash) in scope.looks.items()
        ],
        "times": {
            tolerance: [[plain(ran[name].get(i)) for i in instances] for name in scope.entries]
            for tolerance, ran in scope.times.items()
        },
    }


def _runs(figures: Iterable[Figure]) -> list[Run]:
    runs = {}
    for figure in figures:
        sizes = {str(p.get("checksum")): p for p in figure.record.get("data", [])}
        for trace in figure.record.get("traces", []):
            solver = str(trace["solver"])
            checksum = str(trace.get("checksum"))
            size = sizes.get(checksum, {})
            data = str(trace.get("data") or size.get("name") or "unnamed")
            if all(isinstance(size.get(name), int) for name in "ndk"):
                data += f" · n = {size['n']:,}, d = {size['d']:,}, k = {size['k']:,}"
            times = [number(trace["times"].get(tolerance)) for tolerance in TOLERANCES]
            # The figures of one notebook show the same runs.
            key = str(trace.get("key") or "") or repr(sorted(trace.items(), key=str))
            runs[figure.place, figure.notebook, key] = Run(
                figure.notebook,
                figure.place,
                paper_of_solver(solver) or figure.paper,
                solver,
                trace["parameters"] if isinstance(trace.get("parameters"), dict) else {},
                data,
                checksum,
                tuple(math.inf if time is None else max(time, RESOLUTION) for time in times),
                bool(trace.get("timed", figure.record.get("timed"))),
            )
    return list(runs.values())


def _scope(scope: Scope, runs: list[Run]) -> Scope:
    """Return the empty scope filled with runs."""
    varying = _varying([run.parameters for run in runs])
    scope.regularisers = tuple(name for name in varying if name in PROBLEM_PARAMETERS)
    by_solver: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        setting = [f"{name} = {run.parameters.get(name)}" for name in scope.regularisers]
        scope.instances[scope.instance(run)] = " · ".join([run.data, *setting])
        by_solver.setdefault(run.solver, {})
    for position, solver in enumerate(by_solver):
        own = [run for run in runs if run.solver == solver]
        names = [n for n in _varying([r.parameters for r in own]) if n not in PROBLEM_PARAMETERS]
        for run in own:
            setting = ", ".join(f"{name} = {run.parameters.get(name)}" for name in names)
            name = f"{label(solver)} ({setting})" if setting else label(solver)
            by_solver[solver].setdefault(name, []).append(run)
        for index, name in enumerate(by_solver[solver]):
            scope.looks[name] = (look(solver, position).colour, index)
        scope.entries |= by_solver[solver]
    for place, tolerance in enumerate(TOLERANCES):
        scope.times[tolerance] = {
            name: _medians(scope, group, place) for name, group in scope.entries.items()
        }
    return scope


def _medians(scope: Scope, runs: list[Run], place: int) -> dict[tuple, float]:
    groups: dict[tuple, list[float]] = {}
    for run in runs:
        groups.setdefault(scope.instance(run), []).append(run.times[place])
    return {instance: median(times) for instance, times in groups.items()}


def _varying(parameters: list[Mapping[str, Any]]) -> list[str]:
    """Return the parameters that differ between the runs that have them."""
    values: dict[str, set[str]] = {}
    for given in parameters:
        for name, value in given.items():
            values.setdefault(name, set()).add(str(value))
    return [name for name, found in values.items() if len(found) > 1]


def data_set(row: TimeRow) -> str:
    """Return the data set of a row, as filters know it."""
    return base(row.data.split(" · ")[0])
