"""A contest: every entry on every data set, with the same rows, budget, clock and evaluation.

A match is one entry on one random split of one data set: a search on the training rows alone, a fit
of all training rows with what it chose, whose time and memory are measured, and the same fit
again, evaluated on the test rows while it runs. Matches are tasks of the sweep engine: isolated,
resumable, and known by the content of all that decides them.

>>> done = contest(["digits + constant", "my.csv"], budget=5.0)              # doctest: +SKIP
>>> done.table(), done.figure(), print(done.note())                         # doctest: +SKIP
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.sparse import vstack
from threadpoolctl import threadpool_limits

from workbench.arena import summary
from workbench.arena.entries import ENTRIES, Entry, entry
from workbench.arena.match import FINAL_FIT_FACTOR, Data, Match, match_key, problem_of, read_result
from workbench.core.problem import Problem
from workbench.core.trace import Trace, read_trace
from workbench.data.formats import Rows, write_npz
from workbench.runs.engine import Say, execute
from workbench.runs.keys import code
from workbench.runs.results import recalled
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits, timed_alone

KEPT = ("status", "reason", "timed")  # of matches among results, next to what they measured
COLUMNS = ["data", "partition", "entry", "label", "family", "status", "reason", "n", "d", "k"]
COLUMNS += ["n_test", "sparse", "synthetic", "settings", "rounds", "trials", "search_cpu"]
COLUMNS += ["validation_error", "at_edge", "cut", "fit_cpu", "fit_seconds", "predict_seconds"]
COLUMNS += ["test_error", "standard_error", "worst_case", "memory_mb", "wrong", "timed", "key"]


@dataclass(frozen=True)
class Contest:
    """The matches of a contest, their traces in a folder, refusals and failures by key.

    ``results`` are the traces of :meth:`kept` by key if they come from files of results
    (:mod:`workbench.runs.results`), and not from the folder.
    """

    matches: tuple[Match, ...]
    folder: Path
    refused: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Trace] | None = None

    def run(self, *, jobs: int = 1, timing: bool = False, say: Say = print) -> Contest:
        """Return this contest with every match run that has not been run before, and its failures.

        Each runs in a worker process with one thread. A match is killed after ten times its budget
        and final fit, which leaves out what is not timed.
        """
        if self.results is not None:
            return self
        running = [match for match in self.matches if match.key not in self.refused]
        first = self.matches[0]
        limits = Limits(10 * (first.budget + FINAL_FIT_FACTOR * first.fit) + 60)
        how = {"jobs": jobs, "timing": timing, "limits": limits}
        tasks = [match.task() for match in running]
        return replace(self, failures=execute(tasks, self.folder, say=say, **how))

    def frame(self) -> pd.DataFrame:
        """Return a row for each match: what it is, how it ended, and what was measured.

        ``status`` is done, failed, refused (both with a ``reason``) or not run. Errors are
        fractions; ``memory_mb`` is the peak of the fit of all training rows above what the process
        held with its data, in 10^6 bytes, NaN off Linux. ``fit_cpu`` is that of a fit with the
        chosen setting and rounds, the median of three if it is timed; ``search_cpu`` is of all
        trials. ``at_edge`` names the parameters at the edge of their range; ``cut`` says that the
        clock ended the chosen trial or the fit, so that more rounds might be better. ``worst_case``
        is the certified upper bound of minimax risk methods, and ``wrong`` has a bit for each test
        row, packed, as hexadecimal digits.
        """
        rows = []
        for match in self.matches:
            e, result = match.entry, self._result(match)
            row = {"data": match.set_name, "partition": match.partition, "entry": match.name}
            row |= {"label": e.label, "family": e.family, "timed": match.timed, "key": match.key}
            if match.key in self.refused:
                row |= {"status": "refused", "reason": self.refused[match.key]}
            elif result is not None:
                row |= {"status": "done", "reason": ""} | result
            else:
                status = "failed" if match.key in self.failures else "not run"
                row |= {"status": status, "reason": self.failures.get(match.key, "")}
            rows.append(row)
        return pd.DataFrame(rows, columns=COLUMNS)

    def table(self) -> pd.DataFrame:
        """Return a row for each data set and entry, see :func:`workbench.arena.summary.table`."""
        return summary.table(self.frame())

    def note(self) -> str:
        """Return a sentence for each data set: the best entry, and which are tied with it."""
        return summary.note(self.table())

    def figure(self) -> Figure:
        """Draw test error over the CPU time of a fit, a panel for each data set."""
        return summary.figure(self.table())

    def traces(self) -> list[Trace]:
        """Return the curves of the matches that are done, in the order of the frame.

        Their rows have ``round``, ``seconds``, ``cpu``, the columns of the solver and, if they were
        evaluated, ``test_error``; their header has the frame's row and the trials of the search
        under ``contest``.
        """
        done = self.frame()["status"] == "done"
        return [self._trace(match) for match, ended in zip(self.matches, done) if ended]

    def kept(self) -> list[Trace]:
        """Return a trace of each match for a file of results, without rows unless it is done."""
        traces = []
        for match, row in zip(self.matches, self.frame().itertuples()):
            done = row.status == "done"
            trace = self._trace(match) if done else Trace({"key": match.key, "contest": {}})
            trace.header |= {"call": _call(match), "data": match.set_name}
            trace.header["contest"] |= {name: getattr(row, name) for name in KEPT}
            traces.append(trace)
        return traces

    def _trace(self, match: Match) -> Trace:
        if self.results is not None:
            return self.results[match.key]
        return read_trace(match.path(self.folder))

    def _result(self, match: Match) -> dict[str, Any] | None:
        """Return the measurements of a match, None if it is not done."""
        if self.results is None:
            path = match.path(self.folder)
            return read_result(path) if path.exists() else None
        if match.key not in self.results:
            return {"status": "failed", "reason": "no match with these settings is in the results"}
        return self.results[match.key].header["contest"]


def plan(
    specs: Sequence[str | Path | Problem],
    entries: Sequence[str] | Mapping[str, Entry] | None = None,
    *,
    partitions: int = 3,
    budget: float = 20.0,
    fit: float | None = None,
    test: float | None = 0.3,
    timing: bool = False,
    folder: str | os.PathLike | None = None,
) -> Contest:
    """Return the contest of :func:`contest`, with nothing run that was not run before.

    If figures are drawn from results, it is that of the results, and no data are read.
    """
    fit = budget / 5 if fit is None else fit
    if not 0 < fit <= budget:
        raise ValueError(f"fit: must be positive and at most the budget {budget!r}, got {fit!r}")
    if not isinstance(specs, list | tuple) or not specs:
        raise ValueError(f"specs: must be a list of data sets, got {specs!r}")
    if partitions < 1:
        raise ValueError(f"partitions: must be at least 1, got {partitions!r}")
    folder = Path(folder or runs_folder() / "arena").absolute()
    specs = [own_data(spec, folder) for spec in specs]
    named = [spec.stem if isinstance(spec, Path) else spec for spec in specs]
    if twice := [name for name in named if named.count(name) > 1]:
        raise ValueError(f"specs: {twice[0]} appears twice")
    known, names = recalled(), ENTRIES if entries is None else entries
    chosen = names if isinstance(names, Mapping) else {name: entry(name) for name in names}
    if not chosen:
        raise ValueError("entries: give at least one name")
    if known is not None:
        rules = budget, fit, test, timing
        drawn = product(specs, range(partitions), chosen.items())
        asked = [Match(data, partition, *named, *rules) for data, partition, named in drawn]
        asked = [replace(match, key=_call(match)) for match in asked]
        if entries is None:  # those that were installed then
            asked = [match for match in asked if match.key in known]
        return Contest(tuple(asked), Path(), results=known)
    code.cache_clear()  # a notebook's kernel may be older than the code; new workers are not
    problem_of.cache_clear()  # and older than the files
    matches, refused = [], {}
    for data in specs:
        for partition in range(partitions):
            with threadpool_limits(1):  # as in the workers: digits depend on the threads
                problem = problem_of(data, partition, test)
            if problem.X_test is None:
                raise ValueError(f"data {data!r}: has no published split; give test=0.3")
            for name, e in chosen.items():
                match = Match(data, partition, name, e, budget, fit, test, timing)
                match = replace(match, key=match_key(match, problem))
                matches.append(match)
                if reason := e.refuses(problem):
                    refused[match.key] = reason
    return Contest(tuple(matches), folder, refused)


def own_data(spec: str | Path | Problem, folder: Path) -> Data:
    """Return words that describe data as they are, and the absolute path of a user's own data.

    A problem is written to `folder`, where the workers read it.
    """
    if isinstance(spec, Problem):
        if (spec.weights != 1.0).any():
            raise ValueError(f"specs: {spec.name} has weights, which a contest does not count")
        name = re.sub(r"[^\w-]+", "_", spec.name.partition(".")[0])[:40] or "data"
        path = folder / "data" / spec.checksum / f"{name}.npz"
        if not path.exists():
            X, y, m = spec.X, spec.y, None
            if spec.X_test is not None:
                stack = vstack if spec.is_sparse else np.vstack
                X, y, m = stack([X, spec.X_test]), np.append(y, spec.y_test), spec.n
            write_npz(path, Rows(X, spec.classes[y], m, spec.features))
        return path
    path = Path(spec).expanduser()
    if isinstance(spec, Path) or path.is_file():
        return path.absolute()
    return spec


def _call(match: Match) -> str:
    """Return the name of a match among results: what was asked for, whatever the code."""
    asked = match.name, match.set_name, match.partition, match.budget, match.fit, match.test
    return f"arena: {asked}"


def contest(
    specs: Sequence[str | Path | Problem],
    entries: Sequence[str] | Mapping[str, Entry] | None = None,
    *,
    jobs: int = 1,
    timing: bool = False,
    say: Say = print,
    **settings: Any,
) -> Contest:
    """Run every match that has not been run before, in worker processes, one thread each.

    Compilation is not timed.

    Parameters
    ----------
    specs : descriptions that :func:`workbench.data.panels.panel` reads; or your own data, as paths
        of files or as problems (``load("my.csv", target="kind")``), whose rows are standardised
        and have a constant column appended. Linear solvers have no intercept without one:
        ``digits + constant``.
    entries : names of :data:`workbench.arena.entries.ENTRIES` or of any solver, or entries by
        name; by default all of the former
    jobs : worker processes
    timing : one worker, pinned to a core; otherwise, or with other notebooks running, seconds are
        marked as not timed
    say : receives the progress, line by line
    settings : ``partitions`` (default: 3), random splits of each set, seeds 0, 1, ..., also of what
        solvers draw at random; ``budget`` (20), CPU seconds for the trials of one search; ``fit``,
        CPU seconds of one trial (a fifth of the budget), of which the fit of all training rows may
        take five times as long; ``test`` (0.3), fraction of test rows, or None for the published
        split; ``folder`` of the traces (``runs/arena`` of the checkout)

    Raises
    ------
    ValueError, FileNotFoundError
        For an unknown data set or entry, before anything runs.
    KeyboardInterrupt
        After all workers have been stopped; call it again to resume.
    """
    if timing and jobs != 1:
        raise ValueError(f"timing: must run one job, got {jobs!r}")
    timing = timed_alone(timing)
    return plan(specs, entries, timing=timing, **settings).run(jobs=jobs, timing=timing, say=say)
