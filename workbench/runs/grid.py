"""Grids: solvers x parameters x data x seeds x repetitions, checked before anything runs.

>>> points = grid({"mrc_ccg": {"eps1": [1e-2, 1e-3]}}, "wine, digits", stop={"cpu": 60}, seeds=3)
>>> len(points)
12
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from workbench.core.stream import LIMITS
from workbench.data.panels import listed
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

ENTRIES = ("about", "solvers", "parameters", "data", "seeds", "repetitions", "test", "stop")
SCALARS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Point:
    """One run of a grid.

    Attributes
    ----------
    solver, parameters : a name of the registry, and all of its parameters, defaults filled in
    data, seed, test : what :func:`workbench.data.panels.panel` makes the problem from
    repetition : tells runs apart that are equal in all else
    stop : stopping rules as :func:`workbench.core.stream.stopping` reads them
    varied : the names of the parameters that the grid names, for labels and tables
    """

    solver: str
    parameters: Mapping[str, Any]
    data: str
    seed: int
    test: float | None
    repetition: int
    stop: Mapping[str, float]
    varied: tuple[str, ...] = field(default=(), compare=False)

    @property
    def label(self) -> str:
        """What tells this point from the others, in a line."""
        values = [f"{name}={_short(self.parameters[name])}" for name in self.varied]
        repeated = [f"repetition {self.repetition}"] if self.repetition else []
        return ", ".join(
            [" ".join([self.solver, *values]), self.data, f"seed {self.seed}", *repeated]
        )


def grid(
    solvers: str | Sequence[str] | Mapping[str, Any],
    data: str | Sequence[str],
    *,
    stop: Mapping[str, float],
    parameters: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 1,
    repetitions: int = 1,
    test: float | None = 0.3,
) -> list[Point]:
    """Return every point of a grid.

    Parameters
    ----------
    solvers : names of the registry; as a mapping, each with its parameters, whose values may be
        lists. A list of such mappings is the union of their grids: parameters that go together.
    data : descriptions of problems that :func:`workbench.data.panels.panel` reads
    stop : when a run ends, see :func:`workbench.core.stream.stopping`; at least one of ``rounds``,
        ``cpu`` and ``seconds``, so that every run does
    parameters : of all the solvers
    seeds : how many, or which; of the data's split and random features, and of every solver that
        has a parameter ``seed`` which the grid does not name
    repetitions : runs of each point that is otherwise the same
    test : the share of test rows in (0, 1), or None for the published split

    Raises
    ------
    ValueError
        Naming what is wrong: an unknown solver or parameter, a value of the wrong type, an empty
        axis, a point that is there twice.
    """
    stop = _stop(stop)
    seeds = list(range(seeds)) if _whole(seeds) and seeds > 0 else seeds
    if not _filled(seeds) or not all(_whole(seed) and seed >= 0 for seed in seeds):
        raise ValueError(f"seeds: must be a number from 1 or a list of numbers, got {seeds!r}")
    if not _whole(repetitions) or repetitions < 1:
        raise ValueError(f"repetitions: must be a whole number, at least 1, got {repetitions!r}")
    if test is not None and not (isinstance(test, float) and 0 < test < 1):
        raise ValueError(f"test: must be None or lie strictly between 0 and 1, got {test!r}")
    specs = listed(data) if isinstance(data, str) else data
    if not _filled(specs) or not all(isinstance(spec, str) for spec in specs):
        raise ValueError(f"data: must be a list of descriptions, got {data!r}")
    points = []
    for solver, settings in _settings(solvers, parameters or {}):
        for values, spec, seed, r in product(settings, specs, seeds, range(repetitions)):
            own = {"seed": seed} if "seed" in resolve(solver, {})[1] else {}
            complete = resolve(solver, own | values)[1]
            points.append(Point(solver, complete, spec, seed, test, r, stop, tuple(values)))
    _refuse_twins(points)
    return points


def read_grid(path: str | os.PathLike) -> dict[str, Any]:
    """Read the arguments of :func:`grid` from a YAML file; an entry ``about`` is for people.

    Raises
    ------
    ValueError
        For a file that is no YAML, or entries that are unknown or missing; it names the file.
    FileNotFoundError
        When there is no such file.
    """
    path = Path(path)
    try:
        entries = yaml.load(path.read_text(encoding="utf-8"), _NothingTwice)
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{path.name}: not a YAML file; {error.problem}{where}") from None
    except RecursionError:
        raise ValueError(f"{path.name}: not a YAML file; it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # also of dates and of long numbers
        raise ValueError(f"{path.name}: not a YAML file; {error}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{path.name}: must hold entries such as solvers, data and stop")
    unknown = [str(name) for name in entries if name not in ENTRIES]
    missing = [name for name in ("solvers", "data", "stop") if name not in entries]
    for kind, names in (("unknown", unknown), ("missing", missing)):
        if names:
            raise ValueError(
                f"{path.name}: {kind} entries {', '.join(names)}; it takes {', '.join(ENTRIES)}"
            )
    entries.pop("about", None)
    return entries


def read_points(path: str | os.PathLike) -> list[Point]:
    """Return the points of a YAML file.

    Raises
    ------
    ValueError
        As :func:`read_grid` and :func:`grid`; it names the file.
    """
    arguments = read_grid(path)
    try:
        return grid(**arguments)
    except ValueError as error:
        raise ValueError(f"{Path(path).name}: {error}") from None


def at_least(points: Sequence[Point], runs: int) -> list[Point]:
    """Return `points` with repetitions added until each setting has `runs`, over its seeds."""
    groups: dict[tuple, list[Point]] = {}
    for point in points:
        values = tuple(sorted((n, repr(v)) for n, v in point.parameters.items() if n != "seed"))
        setting = (point.solver, values, point.data, point.test, tuple(sorted(point.stop.items())))
        groups.setdefault(setting, []).append(point)
    extended = list(points)
    for group in groups.values():
        first = [point for point in group if point.repetition == group[0].repetition]
        highest = max(point.repetition for point in group)
        for added in range(runs - len(group)):
            original, lap = first[added % len(first)], added // len(first)
            extended.append(replace(original, repetition=highest + 1 + lap))
    return extended


def _settings(
    solvers: str | Sequence[str] | Mapping[str, Any], shared: Mapping[str, Any]
) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """Yield each solver with the list of its parameter settings, typed."""
    if isinstance(solvers, str):
        solvers = listed(solvers)
    if not isinstance(shared, Mapping):
        raise ValueError(f"parameters: must be 'name: value', got {shared!r}")
    if _filled(solvers) and all(isinstance(name, str) for name in solvers):
        if len(set(solvers)) < len(solvers):
            raise ValueError(f"solvers: a name is there twice in {list(solvers)!r}")
        solvers = {name: {} for name in solvers}
    if not isinstance(solvers, Mapping) or not solvers:
        raise ValueError(f"solvers: must be names, or 'name: parameters' lines, got {solvers!r}")
    for solver, own in solvers.items():
        if not isinstance(solver, str):
            raise ValueError(f"solvers: a name must be text, got {solver!r}")
        defaults = resolve(solver, {})[1]
        settings = []
        if own == []:
            raise ValueError(f"{solver}: its list of parameters is empty")
        for alternative in own if isinstance(own, list) else [own or {}]:
            if not isinstance(alternative, Mapping):
                raise ValueError(f"{solver}: its parameters must be 'name: value', got {own!r}")
            values = dict(shared) | dict(alternative)
            resolve(solver, values)
            axes = [_axis(solver, name, value, defaults[name]) for name, value in values.items()]
            settings += [dict(zip(values, chosen)) for chosen in product(*axes)]
        yield solver, settings


def _axis(solver: str, name: str, value: Any, default: Any) -> list:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise ValueError(f"{solver}: the list of {name} is empty")
    typed = [_typed(solver, name, v, default) for v in values]
    for v in typed:
        if sum(v == w and type(v) is type(w) for w in typed) > 1:
            raise ValueError(f"{solver}: the list of {name} holds {v!r} twice")
    return typed


def _typed(solver: str, name: str, value: Any, default: Any) -> Any:
    """Return `value` in the type of the default; YAML reads 1e-2, without a point, as text."""
    kind = type(default)
    if type(value) is kind and kind in (bool, int, float, str):
        return value
    if kind is float and not isinstance(value, bool) and isinstance(value, (int, float, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    elif kind is int and not isinstance(value, bool) and isinstance(value, (int, float, str)):
        try:
            if float(value) == int(float(value)):
                return int(float(value))
        except (ValueError, OverflowError):
            pass
    elif default is None and isinstance(value, SCALARS):
        annotation = str(inspect.signature(SOLVERS[solver].steps).parameters[name].annotation)
        if annotation == "bool | None" and not isinstance(value, (bool, type(None))):
            raise ValueError(f"{solver}: {name} must be true, false or null, got {value!r}")
        return value
    what = "one value" if default is None else f"of type {kind.__name__}"
    raise ValueError(f"{solver}: {name} must be {what}, got {value!r}")


def _stop(stop: Any) -> dict[str, float]:
    if not isinstance(stop, Mapping) or not set(stop) & set(LIMITS):
        raise ValueError(
            f"stop: must set a limit ({', '.join(LIMITS)}), and may set columns to come down to, "
            f"such as gap; got {stop!r}"
        )
    rules = {}
    for name, value in stop.items():
        if isinstance(value, (list, tuple)):
            raise ValueError(f"stop: {name} takes one value; a sweep of stops is a grid for each")
        rules[name] = _typed("stop", name, value, 0.0)
        if not 0 <= rules[name] < math.inf:
            raise ValueError(f"stop: {name} must be finite and not negative, got {value!r}")
        if name == "rounds":
            rules[name] = _typed("stop", name, value, 0)
    return rules


class _NothingTwice(yaml.SafeLoader):
    """A loader that refuses an entry which is there twice; YAML's own keeps the last in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        names = [self.construct_object(name, deep=True) for name, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.YAMLError(f"{name!r} is there twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def _refuse_twins(points: Sequence[Point]) -> None:
    seen = set()
    for point in points:
        parameters = repr(sorted(point.parameters.items()))
        identity = (point.solver, parameters, point.data, point.seed, point.repetition)
        if identity in seen:
            raise ValueError(f"points: {point.label} is there twice")
        seen.add(identity)


def _filled(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
