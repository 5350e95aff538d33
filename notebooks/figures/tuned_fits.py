"""One rule for every solver of a comparison: its parameter and its number of rounds are
chosen on validation rows, then it is fitted to all training rows.

A peer's run is a sequence of fits with more and more iterations, one per round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

from workbench.core.problem import Problem
from workbench.core.trace import Trace
from workbench.data.formats import Rows, write_npz
from workbench.runs.grid import Point
from workbench.runs.run import header
from workbench.runs.sweep import Sweep, sweep

Key = tuple[str, str]  # the description of the data, and the name of the method


class Method(NamedTuple):
    """A solver of the registry, its fixed parameters, and the one to choose."""

    solver: str
    fixed: dict
    tuned: str
    values: list[float]


class Choice(NamedTuple):
    """The chosen value and round, the validation error there, and the run.

    ``cut`` says whether the clock ended the run.
    """

    value: float
    round: int
    validation: float
    trace: Trace
    cut: bool


class Contest:
    """The runs of methods that are tuned on some data sets, and then fitted to them.

    Parameters
    ----------
    methods : dict
        The :class:`Method` of each name.
    specs : list of str
        The data sets.
    points : function
        ``points(spec, method, values, final, stop)`` returns the grid of these values
        of a :class:`Method`: fitted to all training rows if ``final``, else to those
        without the validation rows.
    problem : function
        ``problem(spec)`` returns the data set.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        specs: list[str],
        points: Callable[..., list[Point]],
        problem: Callable[[str], Problem],
    ):
        self.methods, self.points, self.problem = methods, points, problem
        self.values = {(s, m): methods[m].values for s in specs for m in methods}
        self.sweeps: dict[object, Sweep] = {}

    def tried(self, spec: str, method: str, value: float, stop: Callable, **how):
        """Return the run of one value to choose from, without rows if it failed.

        Parameters
        ----------
        stop : function
            ``stop(method)`` returns the stopping rules of a method.
        how
            The arguments of :func:`workbench.runs.sweep.sweep`, in which the values of
            all methods and data sets run together.
        """
        settings = tuple((k, v) for k, values in self.values.items() for v in values)
        if settings not in self.sweeps:
            grids = [
                self.points(s, self.methods[m], [v], False, stop(m))
                for (s, m), v in settings
            ]
            self.sweeps[settings] = sweep([*chain(*grids)], **how)
        own = self.methods[method]
        points = self.points(spec, own, [value], False, stop(method))
        found = _traces(self.sweeps[settings], points[0])
        return found[0] if found else self.failed(spec, method)

    def fitted(self, spec: str, method: str, last: Mapping[Key, tuple], **how):
        """Return the final fits of a method, none if they failed.

        Parameters
        ----------
        last : dict
            The value and the number of rounds of every fit.
        how
            The arguments of the sweep, as in :meth:`tried`.
        """
        grids = {
            (s, m): self.points(s, self.methods[m], [value], True, {"rounds": rounds})
            for (s, m), (value, rounds) in last.items()
        }
        if "final" not in self.sweeps:
            self.sweeps["final"] = sweep([*chain(*grids.values())], **how)
        return _traces(self.sweeps["final"], grids[spec, method][0])

    def failed(self, spec: str, method: str) -> Trace:
        """Return a trace without rows."""
        return Trace(header(self.methods[method].solver, self.problem(spec), {}))

    def choices(
        self, tried: Callable[..., Trace], rows: Mapping, slack: float, wider: int = 0
    ) -> dict[Key, Choice]:
        """Return the choice of every method that did not fail.

        A grid grows by up to `wider` decades while its best value is at the edge.

        Parameters
        ----------
        tried : function
            ``tried(spec, method, value)`` returns the run of a value.
        rows : mapping
            The number of validation rows of each data set.
        slack : float
            See :func:`choose`.
        """
        for _ in range(wider + 1):
            choices, edges = {}, []
            for key, values in self.values.items():
                runs = {value: tried(*key, value) for value in values}
                chosen = choose(runs, rows[key[0]], slack)
                if chosen is None:
                    continue
                choices[key] = chosen
                if len(values) > 1 and chosen.value in (values[0], values[-1]):
                    edges.append(f"{key[1]}, {key[0]}: {chosen.value:g}")
                    low = chosen.value == values[0]
                    further = values[0] / 10 if low else values[-1] * 10
                    self.values[key] = sorted([*values, float(f"{further:.6g}")])
            if not edges:
                break
            title = "warning: the best value is at the edge of its grid:"
            print(title, *edges, sep="\n  ")
        return choices


def choose(traces: Mapping[float, Trace], rows: int, slack: float) -> Choice | None:
    """Return the value with the lowest validation error, and its first round that is
    nearly as good.

    Of equal values the middle one is chosen. The choice is None if all runs failed.

    Parameters
    ----------
    traces : dict
        The run of each value.
    rows : int
        The number of validation rows.
    slack : float
        The standard errors by which the validation error may exceed the lowest one.
    """
    lowest = {v: evaluated(trace)[1].min() for v, trace in traces.items() if trace.rows}
    if not lowest:
        return None
    best = min(lowest.values())
    equal = [value for value in lowest if lowest[value] == best]
    value = equal[(len(equal) - 1) // 2]
    trace = traces[value]
    first = first_as_good(trace, best, rows, slack)
    rounds, errors = evaluated(trace)
    error = float(errors[rounds == first][0])
    return Choice(value, first, error, trace, "processor" in trace.stopped_by)


def first_as_good(trace: Trace, error: float, rows: int, slack: float) -> int | None:
    """Return the first round whose error is within `slack` standard errors of `error`,
    None if there is none."""
    rounds, errors = evaluated(trace)
    good = rounds[errors <= error + slack * standard_error(error, rows)]
    return int(good[0]) if len(good) else None


def evaluated(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds and errors of the fits that were evaluated."""
    errors, rounds = trace.column("test_error"), trace.column("round").astype(int)
    known = np.isfinite(errors) & (rounds > 0)
    return rounds[known], errors[known]


def time_at(traces: Iterable[Trace], rounds: int, clock: str) -> float:
    """Return the median time of runs to a round, or to the last one."""
    times = []
    for trace in traces:
        before = [row for row in trace.rows if row["round"] <= rounds]
        times.append(before[-1][clock])
    return float(np.median(times))


def standard_error(error: float, rows: int) -> float:
    """Return the standard error of an error fraction, as if at least one row were
    wrong."""
    return np.sqrt(max(error, 1 / rows) * (1 - error) / rows)


def marks(frame: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Add the height ``place`` of each mark in a plot with a line per method, and its
    ``size``, larger for more training rows."""
    rank = frame["n"].rank(method="dense") - 1
    last = rank.max()
    place = frame["method"].map(order.index) + 0.22 * (rank - last / 2)
    return frame.assign(place=place, size=(3 if last else 6) + 1.5 * rank)


def validation_rows(problem: Problem, fraction: float) -> Problem:
    """Return the training rows, with a random fraction of them as test rows."""
    return replace(problem, X_test=None, y_test=None).split(fraction)


def as_file(problem: Problem, path: Path) -> str:
    """Write rows with their test rows into a file, for the workers of a sweep, and
    return its description."""
    parts = [problem.X, problem.X_test]
    X = sp.vstack(parts).tocsr() if sp.issparse(problem.X) else np.vstack(parts)
    y = np.concatenate([problem.y, problem.y_test])
    write_npz(path, Rows(X, y, problem.n))
    return f"{path} @ given"


def _traces(done: Sweep, point: Point) -> list[Trace]:
    """Return the traces of the setting of a point."""
    known = {"data": point.data, "solver": point.solver, **point.parameters}
    names = ("data", "solver", *point.varied)
    return done.traces(**{name: known[name] for name in names})
