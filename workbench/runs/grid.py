"""Grids of solvers, parameters, data, seeds and repetitions, checked before anything
runs.

>>> solvers = {"mrc_ccg": {"eps1": [1e-2, 1e-3]}}
>>> len(grid(solvers, "wine, digits", stop={"rounds": 9}, seeds=3))
12
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.core.checks import check_counts, check_fraction, is_whole
from workbench.core.kinds import Given, PathLike, Record, Values
from workbench.core.stream import LIMITS, Rule
from workbench.data.specs import listed
from workbench.runs.parameters import (
    Parameter,
    check_names,
    combinations,
    parameters_of,
    read_entries,
)
from workbench.runs.run import check_data, resolve


@dataclass(frozen=True)
class Point:
    """One run of a grid.

    Attributes
    ----------
    solver : str, the name of a solver in the registry
    parameters : the values of all its parameters, including defaults
    data, seed, test : the arguments of :func:`workbench.data.load`, which makes the
        problem
    repetition : int, a number that distinguishes runs that are otherwise equal
    stop : the stopping rules as :func:`workbench.core.stream.stopping` reads them
    varied : the names of the parameters that the grid sets, for labels and tables
    timed : bool, whether the run is measured in timing mode; set by a sweep
    key : str, the content key, set by a sweep
    content : the checksum of the data and the key of the code for which a sweep was
        planned
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
    content: tuple[str, str] = ("", "")

    @property
    def label(self) -> str:
        """The values that distinguish this point from others, in one line."""
        words = [self.solver]
        for name in self.varied:
            value = self.parameters[name]
            text = f"{value:g}" if isinstance(value, float) else f"{value}"
            words.append(f"{name}={text}")
        parts = [" ".join(words), self.data, f"seed {self.seed}"]
        if self.repetition:
            parts.append(f"repetition {self.repetition}")
        return ", ".join(parts)


def grid(
    solvers: str | Sequence[str] | Values,
    data: str | Sequence[str],
    *rules: Rule,
    stop: Mapping[str, float] | None = None,
    parameters: Values | None = None,
    seeds: int | Sequence[int] = 1,
    repetitions: int = 1,
    test: float | None = None,
) -> list[Point]:
    """Return every point of a grid.

    Parameters
    ----------
    solvers : names of solvers in the registry, or a mapping from each name to its
        parameters, whose values may be lists. A list of mappings gives several settings
        of one solver.
    data : the descriptions of problems that :func:`workbench.data.load` reads
    rules : stopping rules of :mod:`workbench.core.stream`, as for
        :func:`workbench.runs.run.run`. At least one of them must be a limit on rounds,
        CPU seconds or wall seconds, so that every run ends
    stop : the same rules as plain data, such as ``{"gap": 1e-3, "cpu": 60}``, which a
        YAML file can contain
    parameters : values that all solvers share, or lists of values
    seeds : the number of seeds, or a list of seeds, for the split and the random
        features of the data, and for every solver with a parameter ``seed`` that the
        grid does not set
    repetitions : int >= 1, the number of runs of each point that are otherwise the same
    test : float in (0, 1), the fraction of test rows, or None for the published split
        if there is one

    Raises
    ------
    ValueError
        If a solver or parameter is unknown, a value has the wrong type, an axis is
        empty, or there are more than :data:`workbench.runs.parameters.MAX_POINTS`
        points. The message names the argument.
    """
    check_data(data, "grid(solvers, data, *rules, parameters=...)")
    if rules and stop:
        raise ValueError("stop: must be left out if rules are given")
    limits = checked_stop(rules or stop)
    seeds = _checked_seeds(seeds)
    check_counts(repetitions=repetitions)
    if test is not None:
        check_fraction(test, "test")
    specs = listed(data) if isinstance(data, str) else data
    if not isinstance(specs, Sequence) or not specs or {*map(type, specs)} != {str}:
        raise ValueError(f"data: must be a list of descriptions, got {data!r}")
    settings = list(_settings(solvers, parameters or {}))
    points = []
    for (solver, defaults, values), spec, seed, repetition in combinations(
        settings, specs, seeds, range(repetitions)
    ):
        complete = defaults | values
        if "seed" in defaults and "seed" not in values:
            complete["seed"] = seed
        varied = tuple(values)
        points.append(
            Point(solver, complete, spec, seed, test, repetition, limits, varied)
        )
    return points


def _checked_seeds(seeds: object) -> Sequence[int]:
    """Return the seeds of a grid, given as a list or as their number."""
    if is_whole(seeds):
        return range(seeds)
    if isinstance(seeds, Sequence) and seeds and all(is_whole(s, 0) for s in seeds):
        return seeds
    raise ValueError(
        f"seeds: must be a count >= 1 or a list of seeds >= 0, got {seeds!r}"
    )


def read_points(path: PathLike) -> list[Point]:
    """Return the points of a YAML file: the arguments of :func:`grid`, and a comment
    ``about``.

    Raises
    ------
    ValueError
        If the file is not YAML, has wrong entries, or has arguments that :func:`grid`
        refuses. The message names the file.
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
    """Return `points` with added repetitions, so that each setting has `runs` runs."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        values = sorted((n, v) for n, v in point.parameters.items() if n != "seed")
        stop = sorted(point.stop.items())
        setting = repr((point.solver, values, point.data, point.test, stop))
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
        steps, defaults = resolve(solver, {})
        declared = parameters_of(steps)
        given = solvers[solver] if isinstance(solvers, Mapping) else {}
        for values in given if isinstance(given, list) else [given or {}]:
            for part in (values, shared):
                if not isinstance(part, Mapping):
                    raise ValueError(
                        f"{solver}: parameters must be 'name: value', got {part!r}"
                    )
            values = {**shared, **values}
            check_names(values, declared, solver)
            axes = [
                _axis(solver, declared[name], value) for name, value in values.items()
            ]
            for chosen in combinations(*axes):
                yield solver, defaults, dict(zip(values, chosen))


def _axis(solver: str, parameter: Parameter, given: object) -> list[object]:
    """Return the values of one parameter of a solver."""
    name = f"{solver}: {parameter.name}"
    values = given if isinstance(given, (list, tuple)) else [given]
    axis = [parameter._replace(name=name).typed(value) for value in values]
    if not axis or len({*map(repr, axis)}) < len(axis):
        raise ValueError(f"{name}: must be distinct values, got {given!r}")
    for value in axis:
        infinite = isinstance(value, float) and not math.isfinite(value)
        if infinite and value != parameter.default:
            raise ValueError(f"{name}: must be finite, got {value!r}")
        if parameter.name == "seed" and not is_whole(value, 0):
            raise ValueError(f"{name}: must be a whole number >= 0, got {value!r}")
    return axis


def checked_stop(given: Given) -> dict[str, float]:
    """Return stopping rules as plain data in their types.

    The rules are given as plain data or as functions. A ValueError names any fault.
    """
    stop = given if isinstance(given, Mapping) else _plain(given)
    if not set(stop) & set(LIMITS):
        raise ValueError(
            f"stop: must set a limit ({', '.join(LIMITS)}) and may set goals, got "
            f"{given!r}"
        )
    checked = {}
    for name, value in stop.items():
        kind = int if name == "rounds" else float
        checked[name] = Parameter(f"stop: {name}", kind, kind()).typed(value)
        if not 0 <= checked[name] < math.inf:
            raise ValueError(
                f"stop: {name} must be finite and not negative, got {value!r}"
            )
    return checked


def _plain(rules: Given) -> dict[str, float]:
    """Return the plain data of rules."""
    stop: dict[str, float] = {}
    for rule in rules or ():
        if not hasattr(rule, "stop"):
            raise ValueError(
                "stop: a grid takes the rules of workbench.core.stream, such as "
                f"below('gap', 1e-3) and rounds(9), got {rule!r}"
            )
        [name] = rule.stop
        if name in stop:
            raise ValueError(f"stop: {name} appears twice")
        stop |= rule.stop
    return stop
