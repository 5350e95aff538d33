"""Sweeps: every point of a grid as one trace in a file named by its content, and never run twice.

>>> points = grid({"mrc_ccg": {"n_max": [100, 400]}}, "wine", stop={"cpu": 60})  # doctest: +SKIP
>>> sweep(points, jobs=2).frame()                                                # doctest: +SKIP
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from workbench.core.measures import errors
from workbench.core.problem import Problem
from workbench.core.stream import LIMITS, Row, geometric, stopping
from workbench.core.trace import Trace, read_finished, write_trace
from workbench.data.panels import panel
from workbench.proofs.writers import write
from workbench.registry import SOLVERS
from workbench.runs.engine import busy_cores, execute
from workbench.runs.grid import Point, at_least
from workbench.runs.keys import code, key
from workbench.runs.notebooks import runs_folder
from workbench.runs.progress import Say
from workbench.runs.results import recalled, setting
from workbench.runs.run import machine, run
from workbench.runs.worker import Limits, duration

TIMED_RUNS = 3

_warm: set[tuple[str, ...]] = set()


@dataclass(frozen=True)
class Run:
    """A point with its key: the task that the engine runs."""

    point: Point
    key: str
    timed: bool
    proofs: bool = False

    @property
    def label(self) -> str:
        return self.point.label

    def path(self, folder: Path) -> Path:
        return folder / self.key[:2] / f"{self.key}.jsonl"

    def check(self, path: Path) -> None:
        trace = read_finished(path, self.key)
        if self.proofs and "proof" not in trace.header:
            raise ValueError(f"{path}: has no proof next to it")

    @property
    def header_fields(self) -> dict[str, Any]:
        """The fields of the point that the trace's header records."""
        own = {name: getattr(self.point, name) for name in ("data", "seed", "test", "repetition")}
        return own | {"stop": dict(self.point.stop)}

    def run(self, folder: Path, limits: Limits) -> str:
        """Solve, evaluate at geometric rounds and at the end, and write the trace."""
        point = self.point
        problem = _problem(point.data, point.seed, point.test)
        if point_key(point, problem, self.timed) != self.key:
            raise ValueError(
                "data, code or versions have changed since the sweep was planned, or differ on "
                "this worker"
            )

        def in_time(row: Row) -> None:
            unknown = set(point.stop) - set(LIMITS) - set(row)
            if unknown and row["round"] == 1:  # some columns begin there, as a gap over the first
                columns = ", ".join(name for name in row if name not in LIMITS)
                raise ValueError(f"stop: no column {', '.join(unknown)}; there are {columns}")
            if limits.seconds and row["seconds"] > limits.seconds:
                raise TimeoutError(f"took more than {limits.seconds:g} s")

        # Parameters may choose other kernels, and compiling must not be timed.
        own = (repr(sorted(point.parameters.items())),) if self.timed else ()
        judge, kind = errors(problem), (point.solver, point.data, *own)
        trace, state = run(
            point.solver,
            problem,
            *stopping(point.stop),
            in_time,
            parameters=point.parameters,
            measure=judge,
            when=geometric(),
            warm_up=kind not in _warm,
        )
        _warm.add(kind)
        if trace.stopped_by == "interrupted":
            raise InterruptedError("its worker was interrupted")
        trace.last.update(judge(state))
        trace.header["rules"].pop()  # the limit of this call does not belong to the point
        trace.header |= {"key": self.key, "timed": self.timed} | self.header_fields
        self.path(folder).parent.mkdir(exist_ok=True)
        if self.proofs:
            path = self.path(folder).with_suffix(".npz")
            try:
                write(path, problem, state, **point.parameters)
                trace.header["proof"] = path.name
            except ValueError as error:  # this solver has none
                trace.header["proof"] = str(error)
        write_trace(self.path(folder), trace)
        last = trace.last
        gap = f"gap {last['gap']:.1e} after " if "gap" in last else ""
        return f"{gap}{last['cpu']:.2f} s and {last['round']} rounds, {last['stopped_by']}"


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, the folder of their traces, and the reasons of failures by key.

    ``results`` are the traces by key if they come from files of results, and not from the folder.
    """

    runs: tuple[Run, ...]
    folder: Path
    failures: dict[str, str]
    results: Mapping[str, Trace] | None = None

    def traces(self, **where: Any) -> list[Trace]:
        """Return the traces of the points whose attributes or parameters have these values.

        A run that failed, or that a solver's own limit ended before its first round, has none.
        Points that are the same run have one.
        """
        known = [{**task.point.parameters, **vars(task.point)} for task in self.runs]
        if unknown := set(where).difference(*known):
            raise ValueError(f"traces: no point has {', '.join(sorted(unknown))}")
        chosen = {
            task.key: task
            for task, values in zip(self.runs, known)
            if all(name in values and values[name] == value for name, value in where.items())
        }
        traces = [self._trace(t) for key, t in chosen.items() if key not in self.failures]
        return [trace for trace in traces if trace.last["round"] > 0]

    def proofs(self, **where: Any) -> list[Path]:
        """Return the files of the proofs of these traces, as far as their solvers have any."""
        headers = [trace.header for trace in self.traces(**where)]
        paths = [self.folder / h["key"][:2] / h.get("proof", "") for h in headers]
        return [path for path in paths if path.is_file()]

    def frame(self) -> pd.DataFrame:
        """Return a row for each point: its setting, how it ended, its last row.

        ``seed`` is that of the data. The parameters that the grid names are in columns
        ``p_<name>``, as in a Parquet file; ``status`` is done or failed, with the ``reason``;
        ``timed`` is whether its seconds were measured in timing mode, ``load`` the machine's.
        Points that are the same run have the same ``key``.
        """
        rows = []
        for task in self.runs:
            point = task.point
            row = {"solver": point.solver, "data": point.data, "seed": point.seed}
            rules = ", ".join(f"{name} {value:g}" for name, value in sorted(point.stop.items()))
            row |= {"repetition": point.repetition, "test": point.test, "stop": rules}
            row |= {f"p_{name}": point.parameters[name] for name in point.varied}
            if task.key in self.failures:
                row |= {"status": "failed", "reason": self.failures[task.key]}
            else:
                trace = self._trace(task)
                problem, load = trace.header["problem"], trace.header.get("load")
                size = {name: problem[name] for name in ("n", "d", "k", "checksum")}
                row |= {"status": "done", "reason": "", "load": load, **size, **trace.last}
            rows.append(row | {"timed": task.timed, "key": task.key})
        return pd.DataFrame(rows)

    def _trace(self, task: Run) -> Trace:
        if self.results is not None:
            return self.results[task.key]
        try:
            trace = read_finished(task.path(self.folder), task.key)
        except ValueError as error:
            raise ValueError(f"{error}; run the sweep again to replace it") from None
        trace.header |= task.header_fields  # an earlier sweep may have named the data otherwise
        return trace


def sweep(
    points: Sequence[Point],
    *,
    jobs: int = 1,
    timing: bool = False,
    cluster: str | None = None,
    seconds: float | None = None,
    memory: float | None = None,
    folder: str | os.PathLike | None = None,
    proofs: bool = False,
    say: Say = print,
) -> Sweep:
    """Run the points of a grid that have not been run before, in worker processes.

    Parameters
    ----------
    points : of :func:`workbench.runs.grid.grid`; grids can be added
    jobs : worker processes, each with one thread
    timing : one worker, pinned to a core, and at least three runs of each setting: repetitions
        are added if it has fewer seeds. Otherwise the seconds are not comparable, and marked so
    cluster : address of a Dask scheduler to use instead; it must share `folder`
    seconds, memory : limits of one point, in wall seconds and GB, see
        :class:`workbench.runs.worker.Limits`
    folder : where traces are kept (default: ``runs/points`` of the checkout, for all sweeps)
    proofs : write the proof of each point's last state next to its trace, with the suffix .npz;
        ``proof`` in the trace's header is its name, or the reason why it has none. Points that
        were run without proofs are run again
    say : receives the progress, line by line

    Raises
    ------
    ValueError
        For data that cannot be read, or timing on a cluster, before anything runs.
    OSError
        When traces cannot be written; what was finished before is kept.
    KeyboardInterrupt
        After all workers have been stopped; the same call resumes the sweep.
    """
    limits = Limits(seconds, memory)
    folder = Path(folder or runs_folder() / "points").absolute()
    if timing and cluster:
        raise ValueError("timing: is for one pinned process here, not for a cluster")
    if timing and jobs != 1:
        raise ValueError(f"timing: must run one job, got {jobs!r}")
    if timing and (notebooks := os.environ.get("WORKBENCH_JOBS", "1")) != "1":
        say(f"not timed: {notebooks} notebooks run side by side")
        timing = False
    if timing:
        points = at_least(points, TIMED_RUNS)
    if (known := recalled()) is not None:
        return _from_results(points, timing, known, folder)
    runs = _planned(points, timing, proofs)
    missing = {task.key: task.point.stop for task in runs if not task.path(folder).exists()}
    clocks = [
        [v for name, v in stop.items() if name in ("cpu", "seconds")] for stop in missing.values()
    ]
    if (most := sum(map(min, filter(None, clocks))) / max(jobs, 1)) > 60:
        say(f"the limits of the points to run add up to {duration(most)}")
    if timing and not all(task.path(folder).exists() for task in runs):
        if (busy := busy_cores(int(time.monotonic() // 60))) > 0.3:
            say(f"warning: other work keeps {busy:.1f} cores busy, the times will be unreliable")
    failures = execute(
        runs, folder, jobs=jobs, cluster=cluster, limits=limits, timing=timing, say=say
    )
    return Sweep(runs, folder, failures)


def summary(done: Sweep) -> pd.DataFrame:
    """Return a row for each setting: medians over its seeds and repetitions, and numbers of runs.

    ``failed`` counts those that failed, ``cut`` those that the clock ended, and ``short`` those
    whose solver ended by itself before the goals of the grid's ``stop``.
    The heading of ``cpu`` says ``not timed`` unless all was measured in timing mode.
    """
    frame = done.frame()
    named = [name for name in frame if name.startswith("p_")]
    by = ["solver", *named, "data", *[c for c in ("test", "stop") if frame[c].nunique() > 1]]
    frame = frame.drop_duplicates([*by, "key"])  # points that are the same run
    columns = [c for c in ("cpu", "round", "gap", "primal", "test_error") if c in frame]
    groups = frame.groupby(by, sort=False, dropna=False)
    table = groups[columns].median().join(groups.agg(runs=("key", "size")))
    table["failed"] = groups["status"].agg(lambda status: (status == "failed").sum())
    for name, marks in (("cut", "seconds$"), ("short", "^finished before")):
        if "stopped_by" in frame:
            table[name] = groups["stopped_by"].agg(lambda ends, m=marks: ends.str.contains(m).sum())
    cpu = "cpu (s)" if frame["timed"].all() else "cpu (s, not timed)"
    return table.reset_index().rename(columns={"cpu": cpu})


def point_key(point: Point, problem: Problem, timed: bool) -> str:
    """Return the content key of a point on its problem.

    The seed counts by its effect on data and parameters. Timed runs are kept apart even if it has
    none, and by machine: each is a measurement.
    """
    steps = SOLVERS[point.solver].steps
    return key(
        solver=point.solver,
        steps=steps.__qualname__,
        parameters=dict(point.parameters),
        data=problem.checksum,
        stop=dict(point.stop),
        repetition=point.repetition,
        timed=timed and {"seed": point.seed, "machine": machine()},
        code=code(steps.__module__, __name__),
    )


def _from_results(points: Sequence[Point], timed: bool, known: dict, folder: Path) -> Sweep:
    """Return the sweep of points that were run before, perhaps elsewhere and by other code."""
    runs = []
    for point in points:
        own = setting(vars(point) | {"timed": timed})
        runs.append(Run(point, known[own].header["key"] if own in known else own, timed))
    found = {trace.header["key"]: trace for trace in known.values()}
    failures = {
        run.key: "no run with these settings is in the results"
        for run in runs
        if run.key not in found
    }
    return Sweep(tuple(runs), folder, failures, found)


def _planned(points: Sequence[Point], timed: bool, proofs: bool = False) -> tuple[Run, ...]:
    """Return a run with its key for every point; each problem is made once."""
    code.cache_clear()  # a notebook's kernel may be older than the code; new workers are not
    places: dict[tuple, list[int]] = {}
    for place, point in enumerate(points):
        places.setdefault((point.data, point.seed, point.test), []).append(place)
    runs: dict[int, Run] = {}
    for chosen, indices in places.items():
        try:
            # As in the workers: the last digits of a matrix product depend on the threads.
            with threadpool_limits(1):
                problem = panel(*chosen)
        except (ValueError, OSError) as error:
            raise type(error)(f"data {chosen[0]!r}: {error}") from None
        for place in indices:
            point = points[place]
            # Only the checksum says which problem it is: equal data under two names is one run.
            runs[place] = Run(point, point_key(point, problem, timed), timed, proofs)
    return tuple(runs[place] for place in range(len(points)))


@lru_cache(maxsize=TIMED_RUNS)  # the splits of one setting, for the next solver
def _problem(data: str, seed: int, test: float | None) -> Problem:
    return panel(data, seed, test)
