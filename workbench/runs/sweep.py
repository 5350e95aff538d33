"""Sweeps: every point of a grid as one trace in a file named by its content, and never
run twice.

>>> points = grid({"mrc_ccg": {"n_max": [100, 400]}}, "wine", stop={"cpu": 60})  # doctest: +SKIP
>>> sweep(points, jobs=2).frame()                                                # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from workbench.core.kinds import PathLike, Record
from workbench.core.measures import errors
from workbench.core.problem import Problem
from workbench.core.stream import LIMITS, Row, geometric, stopping
from workbench.core.trace import Trace, read_finished, write_trace
from workbench.data import load
from workbench.registry import SOLVERS
from workbench.runs.engine import Say, code, execute, key, sources
from workbench.runs.grid import Point, at_least
from workbench.runs.notebooks import runs_folder as runs_folder
from workbench.runs.results import recalled, setting
from workbench.runs.run import machine, run
from workbench.runs.worker import Limits, Task, timed_alone

if TYPE_CHECKING:
    import pandas as pd

TIMED_RUNS = 3
RECORDED = (
    "key",
    "timed",
    "data",
    "seed",
    "test",
    "repetition",
    "stop",
)  # in the trace's header

_warm: set[str] = set()  # the settings that this process has compiled


def solve(point: Point, proofs: bool, path: Path, limits: Limits) -> str:
    """Run a point: solve, evaluate at geometric rounds and at the end, and write the
    trace."""
    problem = _problem(point.data, point.seed, point.test)
    if point_key(point, problem.checksum, point.timed, proofs) != point.key:
        raise ValueError(
            "data, code or versions differ from those that the sweep was planned for"
        )

    def in_time(row: Row) -> None:
        unknown = set(point.stop) - set(LIMITS) - set(row)
        if (
            unknown and row["round"] == 1
        ):  # some columns begin there, as a ratio to the first gap
            columns = ", ".join(name for name in row if name not in LIMITS)
            raise ValueError(
                f"stop: no column {', '.join(unknown)}; known columns: {columns}"
            )
        if limits.seconds and row["seconds"] > limits.seconds:
            raise TimeoutError(f"took more than {limits.seconds:g} s")

    judge, setting = errors(problem), repr((point.solver, point.data, point.parameters))
    trace, state = run(
        point.solver,
        problem,
        *stopping(point.stop),
        in_time,
        parameters=point.parameters,
        measure=judge,
        when=geometric(),
        warm_up=setting not in _warm,  # parameters may choose other kernels
    )
    _warm.add(setting)
    if state is None or trace.stopped_by == "interrupted":
        raise InterruptedError("its worker was interrupted")
    trace.last.update(judge(state))
    trace.header["rules"].pop()  # the limit of this call does not belong to the point
    trace.header |= _recorded(point)
    if proofs:
        from workbench.proofs.writers import write

        with suppress(ValueError):  # this solver has none
            write(path.with_suffix(".npz"), problem, state, **point.parameters)
    write_trace(path, trace)
    return "{cpu:.2f} s and {round} rounds, {stopped_by}".format_map(trace.last)


def task(point: Point, proofs: bool = False) -> Task:
    """Return the task that runs a planned point."""
    check = partial(read_finished, key=point.key)
    return Task(
        point.key, point.label, _place(point.key), partial(solve, point, proofs), check
    )


def _place(key: str) -> str:
    return f"{key[:2]}/{key}.jsonl"


def _recorded(point: Point) -> Record:
    return {name: getattr(point, name) for name in RECORDED} | {
        "stop": dict(point.stop)
    }


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep, the folder of their traces, and the reasons of failures by
    key.

    ``results`` are the traces by key if they come from files of results, and not from
    the folder.
    """

    points: tuple[Point, ...]
    folder: Path
    failures: dict[str, str]
    results: Mapping[str, Trace] | None = None

    def traces(self, **where: object) -> list[Trace]:
        """Return the traces of the points whose attributes or parameters have these
        values.

        A run that failed, or that a solver's own limit ended before its first round,
        has none. Points that are the same run share one trace.
        """
        known = [{**point.parameters, **vars(point)} for point in self.points]
        if unknown := set(where).difference(*known):
            raise ValueError(f"traces: no point has {', '.join(sorted(unknown))}")
        chosen = {
            point.key: point
            for point, values in zip(self.points, known)
            if all(
                name in values and values[name] == value
                for name, value in where.items()
            )
        }
        traces = [
            self.trace(p) for key, p in chosen.items() if key not in self.failures
        ]
        return [trace for trace in traces if trace.last["round"] > 0]

    def proofs(self, **where: object) -> list[Path]:
        """Return the files of the proofs of these traces, as far as their solvers have
        any."""
        places = [
            self.folder / _place(trace.header["key"]) for trace in self.traces(**where)
        ]
        return [
            path for path in (p.with_suffix(".npz") for p in places) if path.is_file()
        ]

    def frame(self) -> pd.DataFrame:
        """Return a row for each point: its setting, how it ended, its last row.

        ``seed`` is the data's. The parameters that the grid names are in columns
        ``p_<name>``; ``status`` is done or failed, with the ``reason``; ``load`` is the
        machine's load average. Points that are the same run have the same ``key``.
        """
        import pandas as pd

        rows = []
        for point in self.points:
            row = {name: getattr(point, name) for name in ("solver", "data", "seed")}
            rules = ", ".join(
                f"{name} {value:g}" for name, value in sorted(point.stop.items())
            )
            row |= {"repetition": point.repetition, "test": point.test, "stop": rules}
            row |= {f"p_{name}": point.parameters[name] for name in point.varied}
            if point.key in self.failures:
                row |= {"status": "failed", "reason": self.failures[point.key]}
            else:
                trace = self.trace(point)
                problem, busy = trace.header["problem"], trace.header.get("load")
                size = {name: problem[name] for name in ("n", "d", "k", "checksum")}
                row |= {
                    "status": "done",
                    "reason": "",
                    "load": busy,
                    **size,
                    **trace.last,
                }
            rows.append(row | {"timed": point.timed, "key": point.key})
        return pd.DataFrame(rows)

    def trace(self, point: Point) -> Trace:
        """Return the trace of one of the points, which did not fail."""
        if self.results is not None:
            return self.results[point.key]
        trace = read_finished(self.folder / _place(point.key), point.key)
        trace.header |= _recorded(
            point
        )  # an earlier sweep may have named the data otherwise
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
    points : of :func:`workbench.runs.grid.grid`; grids can be added
    jobs : worker processes, each with one thread
    timing : one worker, pinned to a core, in which the solvers take turns, and at least
        three runs of each setting: repetitions are added if it has fewer seeds. Without
        timing, seconds are not comparable and marked so
    seconds, memory : limits of one point, in wall seconds and GB, see
        :class:`workbench.runs.worker.Limits`
    folder : where traces are kept (default: ``runs/points`` of the checkout, for all
        sweeps)
    proofs : write the proof of each point's last state next to its trace, with the
        suffix .npz, if its solver has one; runs with and without proofs are different
        ones
    say : receives the progress, line by line

    Raises
    ------
    ValueError
        For data that cannot be read, before anything runs.
    KeyboardInterrupt
        After all workers have been stopped; the same call resumes the sweep.
    """
    limits = Limits(seconds, memory)
    folder = Path(folder or runs_folder() / "points").absolute()
    if timing and jobs != 1:
        raise ValueError(f"jobs: must be 1 with timing, got {jobs!r}")
    timing = timed_alone(timing)
    points = at_least(points, TIMED_RUNS) if timing else points
    if (known := recalled()) is not None:
        return _recalled(points, timing, known, folder)
    points = planned(points, timing, proofs)
    tasks = [
        task(point, proofs)
        for point in (sorted(points, key=_turn) if timing else points)
    ]
    how: Record = {"jobs": jobs, "limits": limits, "timing": timing, "say": say}
    return Sweep(points, folder, execute(tasks, folder, **how))


def _turn(point: Point) -> tuple[object, ...]:
    return point.data, point.seed, point.parameters.get("seed", 0), point.repetition


def summary(done: Sweep) -> pd.DataFrame:
    """Return a row for each setting: medians over its seeds and repetitions, and
    numbers of runs.

    The heading of ``cpu`` says ``not timed`` unless all was measured in timing mode.
    """
    frame = done.frame()
    by = ["solver", *[name for name in frame if name.startswith("p_")], "data"]
    by += [c for c in ("test", "stop") if frame[c].nunique() > 1]
    frame = frame.drop_duplicates([*by, "key"])  # points that are the same run
    frame["failed"] = frame["status"] == "failed"
    columns = [c for c in ("cpu", "round", "gap", "primal", "test_error") if c in frame]
    groups = frame.groupby(by, sort=False, dropna=False)
    counts = groups.agg(runs=("key", "size"), failed=("failed", "sum"))
    table = groups[columns].median().join(counts)
    cpu = "cpu (s)" if frame["timed"].all() else "cpu (s, not timed)"
    return table.reset_index().rename(columns={"cpu": cpu})


def point_key(point: Point, checksum: str, timed: bool, proofs: bool = False) -> str:
    """Return the content key of a point on the problem with this checksum.

    Equal data under two names is one run. The seed counts by its effect on data and
    parameters. Timed runs are measurements: they are kept apart by seed, even if it has
    no effect, and by machine.
    """
    steps = SOLVERS[point.solver].steps
    return key(
        solver=point.solver,
        steps=steps.__qualname__,
        parameters=dict(point.parameters),
        data=checksum,
        stop=dict(point.stop),
        repetition=point.repetition,
        timed=timed and {"seed": point.seed, "machine": machine()},
        code=code(steps, *["proofs"] * proofs),
    )


def _recalled(
    points: Sequence[Point], timed: bool, known: dict[str, Trace], folder: Path
) -> Sweep:
    """Return the sweep of points that were run before, perhaps elsewhere and by other
    code."""
    found = []
    for point in points:
        own = setting(vars(point) | {"timed": timed})
        own = known[own].header["key"] if own in known else own
        found.append(replace(point, key=own, timed=timed))
    traces = {trace.header["key"]: trace for trace in known.values()}
    reason = "no run with these settings is in the results"
    failures = {point.key: reason for point in found if point.key not in traces}
    return Sweep(tuple(found), folder, failures, traces)


def planned(
    points: Sequence[Point], timed: bool, proofs: bool = False
) -> tuple[Point, ...]:
    """Return the points with their keys; each problem is made once."""
    # a notebook's kernel may be older than the code; new workers are not
    sources.cache_clear()

    @cache
    def checksum(data: str, seed: int, test: float | None) -> str:
        with threadpool_limits(
            1
        ):  # as in the workers: it may change the last digits of features
            return load(data, seed=seed, test=test).checksum

    keys = [
        point_key(p, checksum(p.data, p.seed, p.test), timed, proofs) for p in points
    ]
    return tuple(
        replace(point, key=own, timed=timed) for point, own in zip(points, keys)
    )


@lru_cache(maxsize=TIMED_RUNS)  # the splits of one setting, for the next solver
def _problem(data: str, seed: int, test: float | None) -> Problem:
    return load(data, seed=seed, test=test)
