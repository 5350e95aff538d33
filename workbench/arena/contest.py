"""A contest: every entry on every data set, with the same rows, budget, clock and
evaluation.

A match is one entry on one random split of one data set: a search on the training rows
alone, a timed fit of all training rows with what it chose, and the same fit again,
evaluated on the test rows while it runs. Matches are tasks of the sweep engine:
isolated, resumable, and known by the content of all that decides them.

>>> done = contest(["digits + constant", "my.csv"], budget=5.0)              # doctest: +SKIP
>>> done.table()                                                            # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from workbench.arena.entries import ENTRIES, FAMILY, Entry, entry
from workbench.arena.match import FINAL_FIT_FACTOR, Data, Match, match_key, problem_of
from workbench.core.kinds import PathLike
from workbench.core.problem import Problem
from workbench.core.trace import Trace, read_trace
from workbench.data.formats import Rows, write_npz
from workbench.data.tables import described
from workbench.estimators import MinimaxRiskClassifier
from workbench.runs.engine import Say, execute, sources
from workbench.runs.results import recalled
from workbench.runs.run import check_data
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits, timed_alone

KEPT = (
    "status",
    "reason",
    "timed",
)  # columns that results keep in addition to measurements
MEANS = ["test_error", "standard_error", "fit_cpu", "worst_case"]
COLUMNS = (
    "data partition entry label family status reason n d k n_test sparse synthetic "
    "settings rounds trials search_cpu validation_error at_edge cut fit_cpu "
    "fit_seconds test_error standard_error worst_case timed key"
).split()


@dataclass(frozen=True)
class Contest:
    """The matches of a contest, and their traces in a folder.

    ``unfinished`` maps the key of a match without a trace to "refused" or "failed", and
    a reason. ``results`` are the traces of :meth:`kept` by key if they come from files
    of results (:mod:`workbench.runs.results`), and not from the folder.
    """

    matches: tuple[Match, ...]
    folder: Path
    unfinished: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    results: Mapping[str, Trace] | None = None

    def frame(self) -> pd.DataFrame:
        """Return a row for each match: its entry and data, its outcome, and its
        measurements.

        ``status`` is done, failed or refused, the last two with a ``reason``. Errors
        are fractions. ``fit_cpu`` is the CPU seconds of a fit with the chosen setting
        and rounds, the median of three if it is timed; ``search_cpu`` covers all
        trials. ``at_edge`` names the parameters at the edge of their range; ``cut``
        says that the clock ended the chosen trial or the fit, so that more rounds might
        be better. ``worst_case`` is the certified upper bound of minimax risk methods.
        """
        rows = []
        for match in self.matches:
            e, trace = match.entry, self._trace(match)
            row = {
                "data": match.set_name,
                "partition": match.partition,
                "entry": match.name,
                "label": e.label,
                "family": e.family,
                "timed": match.timed,
                "key": match.key,
            }
            if trace is not None:
                row |= {"status": "done", "reason": ""} | trace.header["contest"]
            else:
                none = "failed", "no match with these settings is in the results"
                row["status"], row["reason"] = self.unfinished.get(match.key, none)
            rows.append(row)
        return pd.DataFrame(rows, columns=COLUMNS)

    def table(self) -> pd.DataFrame:
        """Return a row for each data set and entry, by test error: means over the
        partitions.

        ``done`` counts the partitions that are done; ``tied`` says that the test error
        is within one standard error of the lowest; ``cut`` says that the clock ended a
        run; ``settings`` come from the first partition.
        """
        frame = self.frame()
        frame = frame.assign(done=frame["status"] == "done").astype(
            dict.fromkeys(MEANS, float)
        )
        how: dict = {**dict.fromkeys(MEANS, "mean"), "done": "sum", "settings": "first"}
        how |= {"reason": "first", "cut": lambda cut: cut.eq(True).any()}
        found = (
            frame.groupby(["data", "entry", "label"], sort=False).agg(how).reset_index()
        )
        found = found.sort_values(["test_error", "fit_cpu"], kind="stable")
        sets = {name: place for place, name in enumerate(frame["data"].unique())}
        found = found.sort_values(
            "data", key=lambda names: names.map(sets), kind="stable"
        )
        best = found.groupby("data")[["test_error", "standard_error"]].transform(
            "first"
        )
        found["tied"] = found["test_error"] <= best.sum(axis=1)
        return found.reset_index(drop=True)

    def traces(self) -> list[Trace]:
        """Return the curves of the matches that are done, in the order of the frame.

        Their rows have ``round``, ``seconds``, ``cpu``, the columns of the solver and,
        if they were evaluated, ``test_error``; their header has the frame's row and the
        trials of the search under ``contest``.
        """
        traces = map(self._trace, self.matches)
        return [trace for trace in traces if trace is not None and trace.rows]

    def kept(self) -> list[Trace]:
        """Return a trace of each match for a file of results, without rows unless it is
        done."""
        traces = []
        for match, row in zip(self.matches, self.frame().itertuples()):
            trace = self._trace(match) or Trace({"key": match.key, "contest": {}})
            trace.header |= {"call": _call(match), "data": match.set_name}
            trace.header["contest"] |= {name: getattr(row, name) for name in KEPT}
            traces.append(trace)
        return traces

    def _trace(self, match: Match) -> Trace | None:
        if self.results is not None:
            return self.results.get(match.key)
        return (
            None
            if match.key in self.unfinished
            else read_trace(match.path(self.folder))
        )


def contest(
    specs: Sequence[str | Path | Problem],
    entries: Sequence[str] | Mapping[str, Entry] | None = None,
    *,
    partitions: int = 3,
    budget: float = 20.0,
    fit: float | None = None,
    test: float | None = 0.3,
    jobs: int = 1,
    timing: bool = False,
    folder: PathLike | None = None,
    say: Say = print,
) -> Contest:
    """Run every match that has not been run before, in worker processes, one thread
    each.

    Compilation is not timed. A match is killed far beyond its budget, at ten times it
    or more. If figures are drawn from results, nothing runs and no data are read.

    Parameters
    ----------
    specs : descriptions that :func:`workbench.data.load` reads; or your own data, as
        paths of files or as problems (``load("my.csv", target="kind")``), whose rows
        are standardised and have a constant column appended. Linear solvers have no
        intercept without one: ``digits + constant``.
    entries : names of :data:`workbench.arena.entries.ENTRIES` or of any solver, or a
        mapping from names to entries; by default all of ``ENTRIES``. On your own data
        one entry always has a certified bound:
        :class:`workbench.estimators.MinimaxRiskClassifier` joins if none has one
    partitions : random splits of each data set, with seeds 0, 1, ..., which also seed
        the solvers
    budget : CPU seconds for the trials of one search
    fit : CPU seconds of one trial (default: a fifth of the budget); the final fit of
        all training rows may take five times as long
    test : fraction of test rows, or None for the published split
    jobs : worker processes
    timing : one worker, pinned to a core; otherwise, or with other notebooks running,
        seconds are marked as not timed
    folder : where traces are kept (default: ``runs/arena`` of the checkout)
    say : receives the progress, line by line

    Raises
    ------
    ValueError, FileNotFoundError
        For an unknown data set or entry, before anything runs.
    KeyboardInterrupt
        After all workers have been stopped; call it again to resume.
    """
    check_data(specs, "contest(data, entries)")
    check_numbers(partitions, budget, fit, timing, jobs)
    fit = budget / 5 if fit is None else fit
    folder = Path(folder or runs_folder() / "arena").absolute()
    sets = data_sets(specs, folder)
    chosen = competitors(entries)
    make = partial(Match, budget=budget, fit=fit, test=test, timed=timed_alone(timing))
    results = recalled()
    if results is not None:
        matches = [
            with_key(make(data, partition, name, e), _call)
            for data, partition in product(sets, range(partitions))
            for name, e in chosen.items()
        ]
        if (
            entries is None
        ):  # only entries that were installed when the results were made
            matches = [match for match in matches if match.key in results]
        return Contest(tuple(matches), Path(), results=results)

    # a notebook's kernel may be older than the code; new workers are not
    sources.cache_clear()
    problem_of.cache_clear()  # and older than the files
    matches = []
    unfinished = {}
    for data, partition in product(sets, range(partitions)):
        problem = drawn(data, partition, test)
        if isinstance(data, Path) and partition == 0:
            say(f"{data.stem}: {counted(problem)}")
        joined = with_a_bound(chosen, problem) if isinstance(data, Path) else chosen
        for name, e in joined.items():
            match = with_key(
                make(data, partition, name, e), partial(match_key, problem=problem)
            )
            matches.append(match)
            if reason := e.refuses(problem):
                unfinished[match.key] = "refused", reason
    failed = execute(
        [match.task() for match in matches if match.key not in unfinished],
        folder,
        jobs=jobs,
        timing=timed_alone(timing),
        limits=Limits(10 * (budget + FINAL_FIT_FACTOR * fit) + 60),
        say=say,
    )
    unfinished |= {key: ("failed", reason) for key, reason in failed.items()}
    return Contest(tuple(matches), folder, unfinished)


def check_numbers(
    partitions: int, budget: float, fit: float | None, timing: bool, jobs: int
) -> None:
    """Raise a ValueError for the first number of a contest that is out of its range."""
    if fit is not None and not 0 < fit <= budget:
        raise ValueError(
            f"fit: must be positive and at most the budget {budget!r}, got {fit!r}"
        )
    if fit is None and not budget > 0:
        raise ValueError(f"budget: must be positive, got {budget!r}")
    if partitions < 1:
        raise ValueError(f"partitions: must be at least 1, got {partitions!r}")
    if timing and jobs != 1:
        raise ValueError(f"jobs: must be 1 with timing, got {jobs!r}")


def data_sets(specs: Sequence[str | Path | Problem], folder: Path) -> list[Data]:
    """Return the data sets of a contest, each with its own name.

    Raises
    ------
    ValueError
        If `specs` is not a list of them, or two have one name.
    """
    if not isinstance(specs, list | tuple) or not specs:
        raise ValueError(f"specs: must be a list of data sets, got {specs!r}")
    sets = [own_data(spec, folder) for spec in specs]
    names = [spec.stem if isinstance(spec, Path) else spec for spec in sets]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"specs: {name} appears twice")
    return sets


def competitors(
    entries: Sequence[str] | Mapping[str, Entry] | None,
) -> Mapping[str, Entry]:
    """Return the entries by name; None stands for all of ``ENTRIES``."""
    if entries is None:
        return ENTRIES
    if not entries:
        raise ValueError("entries: give at least one name")
    if isinstance(entries, Mapping):
        return entries
    return {name: entry(name) for name in entries}


def drawn(data: Data, partition: int, test: float | None) -> Problem:
    """Return a data set with its test rows; a ValueError says that it has no published
    split."""
    with threadpool_limits(1):  # as in the workers: digits depend on the threads
        problem = problem_of(data, partition, test)
    if problem.X_test is None:
        raise ValueError(f"data {data!r}: has no published split; give test=0.3")
    return problem


def with_a_bound(chosen: Mapping[str, Entry], problem: Problem) -> Mapping[str, Entry]:
    """Return the entries, and the estimator's solver if none of them certifies a worst
    case."""
    if any(
        e.family == FAMILY["mrc"] and not e.refuses(problem) for e in chosen.values()
    ):
        return chosen
    solver = MinimaxRiskClassifier().solver_for(problem)
    return {**chosen, solver: entry(solver)}


def with_key(match: Match, key_of: Callable[[Match], str]) -> Match:
    """Return the match with the key that `key_of` makes of it."""
    return replace(match, key=key_of(match))


def counted(problem: Problem) -> str:
    """Return the rows and classes of a problem, and the error of its largest class."""
    labels = problem.classes[np.sort(np.append(problem.y, problem.y_test))]
    return f"{len(labels):,} rows, {'; '.join(described(labels))}"


def own_data(spec: str | Path | Problem, folder: Path) -> Data:
    """Return a description unchanged, or the absolute path of a user's own data.

    A problem is written to `folder`, where the workers read it.
    """
    if isinstance(spec, Problem):
        if (spec.weights != 1.0).any():
            raise ValueError(
                f"specs: {spec.name} has weights; a contest does not support them"
            )
        name = re.sub(r"[^\w-]+", "_", spec.name.partition(".")[0])[:40] or "data"
        path = folder / "data" / spec.checksum / f"{name}.npz"
        if not path.exists():
            (X, y), m = spec.all_rows(), None if spec.X_test is None else spec.n
            rows = Rows(
                X,
                spec.classes[y],
                m,
                spec.features,
                spec.about,
                synthetic=spec.synthetic,
            )
            write_npz(path, rows)
        return path
    path = Path(spec).expanduser()
    return path.absolute() if isinstance(spec, Path) or path.is_file() else spec


def _call(match: Match) -> str:
    """Return the name of a match in files of results: its settings, whatever the
    code."""
    asked = (
        match.name,
        match.set_name,
        match.partition,
        match.budget,
        match.fit,
        match.test,
    )
    return f"arena: {asked}"
