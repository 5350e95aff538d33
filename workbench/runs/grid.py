"""Grids: solvers x parameters x data x seeds x repetitions, checked before anything
runs.

>>> points = grid({"mrc_ccg": {"eps1": [1e-2, 1e-3]}}, "wine, digits", stop={"cpu": 60}, seeds=3)
>>> len(points)
12
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.core.checks import check_counts, is_whole
from workbench.core.kinds import Given, PathLike, Record, Values
from workbench.core.stream import LIMITS
from workbench.data.specs import listed
from workbench.runs.parameters import (
    Parameter,
    check_names,
    combinations,
    parameters_of,
    read_entries,
)
from workbench.runs.run import resolve


@dataclass(frozen=True)
class Point:
    """One run of a grid.

    Attributes
    ----------
    solver, parameters : a name of the registry, and all of its parameters, defaults
        filled in
    data, seed, test : arguments of :func:`workbench.data.load`, which makes the problem
    repetition : distinguishes runs that are otherwise equal
    stop : stopping rules as :func:`workbench.core.stream.stopping` reads them
    varied : the names of the parameters that the grid names, for labels and tables
    timed, key : whether it is measured in timing mode, and its content key, set by a
        sweep
    """

    solver: str
    parameters: Values
    data: str
    seed: int
    test: float | None
    repetition: int
    stop: Mapping[str, float]
    varied: tuple[str, ...] = field(default=(), compare=False)
    timed: bool = False
    key: str = ""

    @property
    def label(self) -> str:
        """The values that distinguish this point from others, in one line."""
        varied = ((name, self.parameters[name]) for name in self.varied)
        values = [
            f"{n}={v:g}" if isinstance(v, float) else f"{n}={v}" for n, v in varied
        ]
        parts = [" ".join([self.solver, *values]), self.data, f"seed {self.seed}"]
        return ", ".join(
            parts + [f"repetition {self.repetition}"] * bool(self.repetition)
        )


def grid(
    solvers: str | Sequence[str] | Values,
    data: str | Sequence[str],
    *,
    stop: Mapping[str, float],
    parameters: Values | None = None,
    seeds: int | Sequence[int] = 1,
    repetitions: int = 1,
    test: float | None = None,
) -> list[Point]:
    """Return every point of a grid.

    Parameters
    ----------
    solvers : names of the registry; as a mapping, each with its parameters, whose
        values may be lists. A list of such mappings is the union of their grids.
    data : descriptions of problems that :func:`workbench.data.load` reads
    stop : when a run ends, see :func:`workbench.core.stream.stopping`; at least one of
        ``rounds``, ``cpu`` and ``seconds``, so that every run ends
    parameters : shared by all the solvers
    seeds : their number, or a list, for the data's split and random features and for
        every solver with a parameter ``seed`` that the grid does not name
    repetitions : runs of each point that is otherwise the same
    test : the fraction of test rows in (0, 1), None for the published split if there is
        one

    Raises
    ------
    ValueError
        Naming the argument: an unknown solver or parameter, a value of the wrong type,
        an empty axis; more than :data:`workbench.runs.parameters.MAX_POINTS` points.
    """
    stop = checked_stop(stop)
    if is_whole(seeds):
        seeds = range(seeds)
    elif (
        not isinstance(seeds, Sequence)
        or not seeds
        or not all(is_whole(s, 0) for s in seeds)
    ):
        raise ValueError(
            f"seeds: must be a count from 1 or a list of seeds from 0, got {seeds!r}"
        )
    check_counts(repetitions=repetitions)
    if test is not None and not (isinstance(test, float) and 0 < test < 1):
        raise ValueError(
            f"test: must be None or lie strictly between 0 and 1, got {test!r}"
        )
    specs = listed(data) if isinstance(data, str) else data
    if not isinstance(specs, Sequence) or not specs or {*map(type, specs)} != {str}:
        raise ValueError(f"data: must be a list of descriptions, got {data!r}")
    points, settings = [], [*_settings(solvers, parameters or {})]
    for setting, spec, seed, r in combinations(
        settings, specs, seeds, range(repetitions)
    ):
        solver, defaults, values = setting
        own = {"seed": seed} if "seed" in defaults else {}
        complete = defaults | own | values
        points.append(Point(solver, complete, spec, seed, test, r, stop, tuple(values)))
    return points


def read_points(path: PathLike) -> list[Point]:
    """Return the points of a YAML file: the arguments of :func:`grid`, and a comment
    ``about``.

    Raises
    ------
    ValueError
        Naming the file: not YAML, wrong entries, and what :func:`grid` refuses.
    FileNotFoundError
        If there is no such file.
    """
    entries = read_entries(path, "solvers, data and stop")
    entries.pop("about", None)
    try:
        return grid(**entries)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{Path(path).name}: {error}") from None


def at_least(points: Sequence[Point], runs: int) -> list[Point]:
    """Return `points` with repetitions added until each setting has `runs`, over its
    seeds."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        values = sorted((n, v) for n, v in point.parameters.items() if n != "seed")
        setting = repr(
            (point.solver, values, point.data, point.test, sorted(point.stop.items()))
        )
        groups.setdefault(setting, []).append(point)
    extended = list(points)
    for group in groups.values():
        first = [point for point in group if point.repetition == group[0].repetition]
        following = 1 + max(point.repetition for point in group)
        for i in range(runs - len(group)):
            lap, place = divmod(i, len(first))
            extended.append(replace(first[place], repetition=following + lap))
    return extended


def _settings(solvers: Given, shared: Given) -> Iterator[tuple[str, Record, Record]]:
    """Yield each solver with its defaults and each of its parameter settings, typed."""
    solvers = listed(solvers) if isinstance(solvers, str) else solvers
    if not isinstance(solvers, Mapping | Sequence) or {*map(type, solvers)} != {str}:
        raise ValueError("solvers: must be names, or 'name: parameters' lines")
    for solver in solvers:
        own = solvers[solver] if isinstance(solvers, Mapping) else {}
        steps, defaults = resolve(solver, {})
        declared = parameters_of(steps)
        for values in own if isinstance(own, list) else [own or {}]:
            if not isinstance(values, Mapping) or not isinstance(shared, Mapping):
                raise ValueError(
                    f"{solver}: its parameters must be 'name: value', got {own!r}"
                )
            values = {**shared, **values}
            check_names(values, declared, solver)
            axes = [
                _axis(solver, declared[name], value) for name, value in values.items()
            ]
            for chosen in combinations(*axes):
                yield solver, defaults, dict(zip(values, chosen))


def _axis(solver: str, parameter: Parameter, value: object) -> list[object]:
    """Return the values of one parameter of a solver."""
    name = f"{solver}: {parameter.name}"
    given = value if isinstance(value, (list, tuple)) else [value]
    axis = [parameter._replace(name=name).typed(item) for item in given]
    if not axis or len({*map(repr, axis)}) < len(axis):
        raise ValueError(f"{name}: must be distinct values, got {value!r}")
    for item in axis:
        if (
            isinstance(item, float)
            and not math.isfinite(item)
            and item != parameter.default
        ):
            raise ValueError(f"{name}: must be finite, got {item!r}")
        if parameter.name == "seed" and not is_whole(item, 0):
            raise ValueError(f"{name}: must be a seed from 0, got {item!r}")
    return axis


def checked_stop(stop: object) -> dict[str, float]:
    """Return stopping rules in their types, or raise a ValueError that names what is
    wrong."""
    if not isinstance(stop, Mapping) or not set(stop) & set(LIMITS):
        raise ValueError(
            f"stop: must set a limit ({', '.join(LIMITS)}) and may set goals, got "
            f"{stop!r}"
        )
    rules = {}
    for name, value in stop.items():
        kind = int if name == "rounds" else float
        rules[name] = Parameter(f"stop: {name}", kind, kind()).typed(value)
        if not 0 <= rules[name] < math.inf:
            raise ValueError(
                f"stop: {name} must be finite and not negative, got {value!r}"
            )
    return rules
