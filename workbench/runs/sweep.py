"""Sweeps: each point of a grid is one trace in a file named by its content, and runs
once.

>>> points = grid("mrc_ccg", "wine", rounds(60), seeds=3)    # doctest: +SKIP
>>> sweep(points, jobs=2).frame()                            # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from workbench.core.checks import shown
from workbench.core.kinds import PathLike, Record
from workbench.core.measures import errors
from workbench.core.problem import Problem
from workbench.core.stream import LIMITS, Row, geometric, stopping
from workbench.core.trace import Trace, read_finished, write_trace
from workbench.data import load
from workbench.registry import SOLVERS
from workbench.runs.engine import Say, code, execute, key, place_of, sources
from workbench.runs.grid import Point, at_least
from workbench.runs.notebooks import runs_folder as runs_folder
from workbench.runs.results import recalled, setting
from workbench.runs.run import machine, run
from workbench.runs.worker import Limits, Task, timed_alone

if TYPE_CHECKING:
    import pandas as pd

TIMED_RUNS = 3
# Fields of a point in the header of its trace.
RECORDED = ("key", "timed", "data", "seed", "test", "repetition", "stop")

_warm: set[str] = set()  # the settings that this process has compiled


def solve(point: Point, proofs: bool, path: Path, limits: Limits) -> str:
    """Run a point, evaluate it at geometric rounds and at the end, and write its
    trace."""
    problem = _problem(point.data, point.seed, point.test)
    if _content(point, problem.checksum, proofs) != point.content:
        raise ValueError(
            "data, code or versions differ from those that the sweep was planned for"
        )

    def in_time(row: Row) -> None:
        # Some columns, such as ratios to the first gap, begin at round 1.
        unknown = set(point.stop) - set(LIMITS) - set(row)
        if unknown and row["round"] == 1:
            columns = ", ".join(name for name in row if name not in LIMITS)
            raise ValueError(
                f"stop: no column {', '.join(unknown)}; known columns: {columns}"
            )
        if limits.seconds and row["seconds"] > limits.seconds:
            raise TimeoutError(f"took more than {limits.seconds:g} s")

    evaluate = errors(problem)
    compiled = repr((point.solver, point.data, point.parameters))
    trace, state = run(
        point.solver,
        problem,
        *stopping(point.stop),
        in_time,
        parameters=point.parameters,
        measure=evaluate,
        when=geometric(),
        warm_up=compiled not in _warm,  # parameters may choose other kernels
    )
    _warm.add(compiled)
    if state is None or trace.stopped_by == "interrupted":
        raise InterruptedError("its worker was interrupted")
    trace.last.update(evaluate(state))
    trace.header["rules"].pop()  # the limit of this call does not belong to the point
    trace.header |= _recorded(point)
    if proofs:
        from workbench.proofs.writers import write

        with suppress(ValueError):  # this solver has no proofs
            write(path.with_suffix(".npz"), problem, state, **point.parameters)
    write_trace(path, trace)
    return "{cpu:.2f} s and {round} rounds, {stopped_by}".format_map(trace.last)


def task(point: Point, proofs: bool = False) -> Task:
    """Return the task that runs a planned point."""
    work = partial(solve, point, proofs)
    check = partial(read_finished, key=point.key)
    return Task(point.key, point.label, place_of(point.key), work, check)


def _recorded(point: Point) -> Record:
    return {name: getattr(point, name) for name in RECORDED}


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep, and the folder of their traces.

    Attributes
    ----------
    points : the points, with their keys
    folder : the folder of their traces
    failures : the reasons of failures by key
    results : the traces by key, if they come from a file of results instead of the
        folder
    """

    points: tuple[Point, ...]
    folder: Path
    failures: dict[str, str]
    results: Mapping[str, Trace] | None = None

    def traces(self, **where: object) -> list[Trace]:
        """Return the traces of the points whose attributes or parameters have these
        values.

        A run that failed, or that the solver's own limit ended before its first round,
        has no trace here. Points that are the same run share one trace.
        """
        known = [{**point.parameters, **vars(point)} for point in self.points]
        if unknown := set(where).difference(*known):
            raise ValueError(f"traces: no point has {', '.join(sorted(unknown))}")
        chosen = {}
        for point, values in zip(self.points, known):
            if where.items() <= values.items() and point.key not in self.failures:
                chosen[point.key] = point
        traces = map(self.trace, chosen.values())
        return [trace for trace in traces if trace.last["round"] > 0]

    def proofs(self, **where: object) -> list[Path]:
        """Return the files of the proofs of these traces, if their solvers have
        proofs."""
        keys = [trace.header["key"] for trace in self.traces(**where)]
        paths = [(self.folder / place_of(key)).with_suffix(".npz") for key in keys]
        return [path for path in paths if path.is_file()]

    def frame(self) -> pd.DataFrame:
        """Return a row for each point: its setting, how it ended, and its last row.

        ``seed`` is the seed of the data. The parameters that the grid sets are in
        columns ``p_<name>``. ``status`` is done, or failed with the ``reason``, and
        ``load`` is the machine's load average. Points that are the same run have the
        same ``key``.
        """
        import pandas as pd

        return pd.DataFrame([self._row(point) for point in self.points])

    def _row(self, point: Point) -> Record:
        """Return the row of the frame for a point."""
        rules = [f"{name} {value:g}" for name, value in sorted(point.stop.items())]
        row: Record = {
            "solver": point.solver,
            "data": point.data,
            "seed": point.seed,
            "repetition": point.repetition,
            "test": point.test,
            "stop": ", ".join(rules),
        }
        row |= {f"p_{name}": point.parameters[name] for name in point.varied}
        if point.key in self.failures:
            row |= {"status": "failed", "reason": self.failures[point.key]}
        else:
            trace = self.trace(point)
            row |= {"status": "done", "reason": "", "load": trace.header.get("load")}
            problem = trace.header["problem"]
            row |= {name: problem[name] for name in ("n", "d", "k", "checksum")}
            row |= trace.last
        return row | {"timed": point.timed, "key": point.key}

    def trace(self, point: Point) -> Trace:
        """Return the trace of a point that did not fail."""
        if self.results is not None:
            return self.results[point.key]
        trace = read_finished(self.folder / place_of(point.key), point.key)
        # An earlier sweep may have given the data another name.
        trace.header |= _recorded(point)
        return trace


def sweep(
    points: Sequence[Point],
    *,
    jobs: int = 1,
    timing: bool = False,
    seconds: float | None = None,
    memory: float | None = None,
    folder: PathLike | None = None,
    proofs: bool = False,
    say: Say = print,
) -> Sweep:
    """Run the points of a grid that have not been run before, in worker processes.

    Parameters
    ----------
    points : the points of :func:`workbench.runs.grid.grid`; lists of several grids can
        be added
    jobs : int >= 1, the number of worker processes, each with one thread
    timing : bool, whether seconds are measured. Then all runs share one worker that is
        pinned to a core, the solvers take turns, and each setting has at least three
        runs (repetitions are added if it has fewer seeds). Otherwise seconds are not
        comparable, and are marked as not timed
    seconds, memory : float, the limits of one point in wall seconds and in GB
        (:class:`workbench.runs.worker.Limits`)
    folder : the folder of the traces (default: ``runs/points`` of the checkout, for all
        sweeps)
    proofs : bool, whether the proof of each point's last state is written next to its
        trace, with the suffix .npz, if its solver has proofs; runs with and without
        proofs are different runs
    say : a function that receives the progress, line by line

    Raises
    ------
    ValueError
        If data cannot be read; this is raised before anything runs.
    KeyboardInterrupt
        After all workers have been stopped; the same call resumes the sweep.
    """
    for point in points:
        if not isinstance(point, Point):
            raise ValueError(
                "points: must come from grid(solvers, data, *rules, parameters=...), "
                f"got {shown(points)}"
            )
    limits = Limits(seconds, memory)
    folder = Path(folder or runs_folder() / "points").absolute()
    timing = timed_alone(timing, jobs)
    if timing:
        points = at_least(points, TIMED_RUNS)
    results = recalled()
    if results is not None:
        return _recalled(points, timing, results, folder)
    points = planned(points, timing, proofs)
    order = sorted(points, key=_turn) if timing else points
    tasks = [task(point, proofs) for point in order]
    failures = execute(tasks, folder, jobs=jobs, limits=limits, timing=timing, say=say)
    return Sweep(points, folder, failures)


def _turn(point: Point) -> tuple[object, ...]:
    """Return the sort key with which the solvers take turns."""
    return point.data, point.seed, point.parameters.get("seed", 0), point.repetition


def summary(done: Sweep) -> pd.DataFrame:
    """Return a row for each setting: medians over its seeds and repetitions, and
    numbers of runs.

    The heading of ``cpu`` contains ``not timed`` unless all runs were measured in
    timing mode.
    """
    frame = done.frame()
    by = ["solver", *[name for name in frame if name.startswith("p_")], "data"]
    by += [name for name in ("test", "stop") if frame[name].nunique() > 1]
    frame = frame.drop_duplicates([*by, "key"])  # points that are the same run
    frame["failed"] = frame["status"] == "failed"
    measured = ("cpu", "round", "gap", "primal", "test_error")
    columns = [name for name in measured if name in frame]
    groups = frame.groupby(by, sort=False, dropna=False)
    counts = groups.agg(runs=("key", "size"), failed=("failed", "sum"))
    table = groups[columns].median().join(counts)
    cpu = "cpu (s)" if frame["timed"].all() else "cpu (s, not timed)"
    return table.reset_index().rename(columns={"cpu": cpu})


def point_key(point: Point, checksum: str, timed: bool, proofs: bool = False) -> str:
    """Return the content key of a point on the problem with this checksum.

    Equal data under two names give one run. The seed matters only by its effect on data
    and parameters. Timed runs are measurements, so they also differ by seed, even if it
    has no effect, and by machine.
    """
    data, code_key = _content(point, checksum, proofs)
    return key(
        solver=point.solver,
        steps=SOLVERS[point.solver].steps.__qualname__,
        parameters=point.parameters,
        data=data,
        stop=point.stop,
        repetition=point.repetition,
        timed=timed and {"seed": point.seed, "machine": machine()},
        code=code_key,
    )


def _content(point: Point, checksum: str, proofs: bool) -> tuple[str, str]:
    """Return the checksum of a point's data and the key of the code that it runs."""
    rooms = ["proofs"] if proofs else []
    return checksum, code(SOLVERS[point.solver].steps, *rooms)


def _recalled(
    points: Sequence[Point], timed: bool, results: dict[str, Trace], folder: Path
) -> Sweep:
    """Return the sweep of points that were run before, perhaps by other code."""
    recalled_points = []
    for point in points:
        run_key = setting(vars(point) | {"timed": timed})
        if run_key in results:
            run_key = results[run_key].header["key"]
        recalled_points.append(replace(point, key=run_key, timed=timed))
    traces = {trace.header["key"]: trace for trace in results.values()}
    reason = "no run with these settings is in the results"
    failures = {
        point.key: reason for point in recalled_points if point.key not in traces
    }
    return Sweep(tuple(recalled_points), folder, failures, traces)


def planned(
    points: Sequence[Point], timed: bool, proofs: bool = False
) -> tuple[Point, ...]:
    """Return the points with their keys; each problem is made once."""
    # A notebook's kernel may be older than the code, but new workers are not.
    sources.cache_clear()

    @cache
    def checksum(data: str, seed: int, test: float | None) -> str:
        # There is one thread, as in the workers, because the number of threads may
        # change the last digits of features.
        with threadpool_limits(1):
            return load(data, seed=seed, test=test).checksum

    with_keys = []
    for point in points:
        data = checksum(point.data, point.seed, point.test)
        with_keys.append(
            replace(
                point,
                key=point_key(point, data, timed, proofs),
                timed=timed,
                content=_content(point, data, proofs),
            )
        )
    return tuple(with_keys)


@lru_cache(maxsize=TIMED_RUNS)  # keeps the splits of one setting for the next solver
def _problem(data: str, seed: int, test: float | None) -> Problem:
    return load(data, seed=seed, test=test)
