"""A contest: every entry on every data set, with the same rows, budget, clock and judge.

>>> done = contest(["digits + constant", "wine + constant"], budget=5.0)     # doctest: +SKIP
>>> done.frame().pivot_table(index="entry", columns="data", values="test_error")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from workbench.arena.entries import Entry, entry, installed
from workbench.arena.match import Data, Match, made, match_key, read_result, shown
from workbench.arena.search import LONGER
from workbench.core.trace import Trace, read_trace
from workbench.runs.engine import Say, execute
from workbench.runs.keys import code
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits

COLUMNS = ["data", "partition", "entry", "label", "family", "status", "reason", "n", "d", "k"]
COLUMNS += ["n_test", "sparse", "synthetic", "settings", "rounds", "trials", "search_cpu"]
COLUMNS += ["validation_error", "at_edge", "cut", "fit_cpu", "fit_seconds", "predict_seconds"]
COLUMNS += ["test_error", "standard_error", "memory_mb", "timed", "key"]


@dataclass(frozen=True)
class Contest:
    """What a contest has: its matches, their traces in a folder, refusals and failures."""

    matches: tuple[Match, ...]
    folder: Path
    refused: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """Return a row for each match: what it is, how it ended, and what was measured.

        ``status`` is done, failed, refused (both with a ``reason``) or not run. Errors are
        fractions, ``memory_mb`` the peak of the fit of all training rows above what the process
        held with its data, in 10^6 bytes, NaN off Linux. ``fit_cpu`` is that of one fit with the
        chosen setting and rounds; ``search_cpu`` of all trials. ``at_edge`` names the parameters
        that lie at the edge of their range, ``cut`` says that the clock ended the chosen trial or
        the fit: more rounds might be better, and the error is not yet the method's.
        """
        rows = []
        for match in self.matches:
            e = match.entry
            row = {"data": shown(match.data), "partition": match.partition, "entry": match.name}
            row |= {"label": e.label, "family": e.family}
            if match.key in self.refused:
                row |= {"status": "refused", "reason": self.refused[match.key]}
            elif match.path(self.folder).exists():
                row |= {"status": "done", "reason": ""} | read_result(match.path(self.folder))
            elif match.key in self.failures:
                row |= {"status": "failed", "reason": self.failures[match.key]}
            else:
                row |= {"status": "not run", "reason": ""}
            rows.append(row | {"timed": match.timed, "key": match.key})
        return pd.DataFrame(rows, columns=COLUMNS)

    def traces(self, **where: Any) -> list[Trace]:
        """Return the curves of the matches that are done and have these values in the frame.

        Their rows have ``round``, ``seconds``, ``cpu``, what the solver says of itself and, where
        they were judged, ``test_error``; their header has the frame's row and the trials of the
        search under ``contest``.
        """
        frame = self.frame()
        if unknown := set(where) - set(frame):
            raise ValueError(f"traces: no column {', '.join(sorted(unknown))}")
        chosen = frame["status"] == "done"
        for name, value in where.items():
            chosen &= frame[name] == value
        return [read_trace(self.matches[place].path(self.folder)) for place in frame[chosen].index]

    def trials(self) -> pd.DataFrame:
        """Return a row for each trial of each search that was done."""
        rows = []
        for match in self.matches:
            if match.key not in self.refused and match.path(self.folder).exists():
                about = {"data": shown(match.data), "partition": match.partition}
                for place, trial in enumerate(read_result(match.path(self.folder))["search"]):
                    values = trial.pop("values")
                    rows.append(about | {"entry": match.name, "trial": place} | trial | values)
        return pd.DataFrame(rows)


def contest(
    specs: Sequence[Data],
    entries: Sequence[str] | Mapping[str, Entry] | None = None,
    *,
    partitions: int = 3,
    budget: float = 20.0,
    fit: float | None = None,
    test: float | None = 0.3,
    jobs: int = 1,
    timing: bool = False,
    folder: str | os.PathLike | None = None,
    say: Say = print,
) -> Contest:
    """Run every match that has not been run before, in worker processes, one thread each.

    A match: the search of :func:`workbench.arena.search.search` on training rows alone; then a fit
    of all training rows with what it chose, whose time and memory are measured; then the same fit
    judged on the test rows while it goes on. Compilation is on nobody's clock.

    Parameters
    ----------
    specs : descriptions that :func:`workbench.data.panels.panel` reads, or paths of files, whose
        rows are standardised and have a constant column appended. Linear solvers have no intercept
        without one: ``digits + constant``.
    entries : names of :data:`workbench.arena.entries.ENTRIES` or of any solver, or entries by
        name; by default all whose packages are installed
    partitions : random splits of each set, seeds 0, 1, ...; also of what solvers draw at random
    budget : CPU seconds of solver clock for the trials of one search
    fit : CPU seconds of one trial, by default a fifth of `budget`; the fit of all training rows,
        which ends with the chosen round, may take five times as long
    test : random share of test rows, or None for the published split
    jobs : worker processes
    timing : one worker, pinned to a core; without it seconds are marked as not timed
    folder : where traces are kept, by default ``runs/arena`` of the checkout
    say : receives the progress, line by line

    Raises
    ------
    ValueError, FileNotFoundError
        For a data set or an entry that there is not, before anything runs.
    KeyboardInterrupt
        After all workers have been stopped; the same call goes on from there.
    """
    if timing and jobs != 1:
        raise ValueError(f"timing: takes one job, got {jobs!r}")
    if timing and (notebooks := os.environ.get("WORKBENCH_JOBS", "1")) != "1":
        say(f"not timed: {notebooks} notebooks run side by side")
        timing = False
    settings = {"partitions": partitions, "budget": budget, "fit": fit, "test": test}
    done = planned(specs, entries, **settings, timing=timing, folder=folder)
    limits = limits_of(done)
    running = [match for match in done.matches if match.key not in done.refused]
    failures = execute(running, done.folder, jobs=jobs, limits=limits, timing=timing, say=say)
    return replace(done, failures=failures)


def planned(
    specs: Sequence[Data],
    entries: Sequence[str] | Mapping[str, Entry] | None,
    *,
    partitions: int,
    budget: float,
    fit: float | None,
    test: float | None,
    timing: bool,
    folder: str | os.PathLike | None,
) -> Contest:
    """Return the contest of :func:`contest` with nothing run that was not run before."""
    fit = budget / 5 if fit is None else fit
    if not 0 < fit <= budget:
        raise ValueError(f"fit: must be positive and at most the budget {budget!r}, got {fit!r}")
    if isinstance(specs, (str, Path)) or not specs:
        raise ValueError(f"specs: must be a list of data sets, got {specs!r}")
    if partitions < 1:
        raise ValueError(f"partitions: must be at least 1, got {partitions!r}")
    names = installed() if entries is None else entries
    chosen = names if isinstance(names, Mapping) else {name: entry(name) for name in names}
    if not chosen:
        raise ValueError("entries: at least one name is wanted")
    code.cache_clear()  # a notebook's kernel may be older than the code; new workers are not
    made.cache_clear()  # and older than the files
    matches, refused = [], {}
    for data in specs:
        for partition in range(partitions):
            with threadpool_limits(1):  # as in the workers: digits depend on the threads
                problem = made(data, partition, test)
            if problem.X_test is None:
                raise ValueError(f"data {shown(data)!r}: has no published split; give test=0.3")
            for name, e in chosen.items():
                match = Match(data, partition, name, e, budget, fit, test, timing)
                match = replace(match, key=match_key(match, problem))
                matches.append(match)
                if reason := e.refuses(problem):
                    refused[match.key] = reason
    folder = Path(folder or runs_folder() / "arena").absolute()
    return Contest(tuple(matches), folder, refused)


def limits_of(planned: Contest) -> Limits:
    """Return when a worker is killed: the clock leaves out the judge and what peers do again."""
    first = planned.matches[0]
    return Limits(10 * (first.budget + LONGER * first.fit) + 60)
