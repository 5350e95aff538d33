"""A contest compares every entry on every data set, on equal terms.

Rows, budget, clock and evaluation are the same for all. A match is one entry on one
split of one data set: a search on the training rows alone, then a fit of all
training rows with the chosen setting, which is evaluated on the test rows. If the match
is timed, two more fits follow without evaluation. Matches are tasks of the sweep
engine: they are isolated, can be resumed, and have a key that contains all that decides
their result.

>>> done = contest(["digits + constant", "my.csv"], budget=5.0)   # doctest: +SKIP
>>> done.table()                                                  # doctest: +SKIP
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from workbench.arena.entries import ENTRIES, FAMILY, Entry, entry
from workbench.arena.match import FINAL_FIT_FACTOR, Data, Match, match_key, problem_of
from workbench.core.checks import check_counts, check_positive
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

# Columns that results keep in addition to measurements.
KEPT = "status", "reason", "timed"
MEANS = ["test_error", "standard_error", "fit_cpu", "worst_case"]
COLUMNS = (
    "data partition entry label family status reason n d k n_test sparse synthetic "
    "settings rounds trials search_cpu validation_error at_edge cut fit_cpu "
    "fit_seconds test_error standard_error worst_case timed key"
).split()


@dataclass(frozen=True)
class Contest:
    """The matches of a contest, and the folder of their traces.

    ``unfinished`` maps the key of a match without a trace to "refused" or "failed" and
    the reason. If the traces come from files of results (:mod:`workbench.runs.results`)
    and not from the folder, ``results`` has those of :meth:`kept` by key.
    """

    matches: tuple[Match, ...]
    folder: Path
    unfinished: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    results: Mapping[str, Trace] | None = None

    def frame(self) -> pd.DataFrame:
        """Return a row for each match: its entry, data, outcome and measurements.

        ``status`` is done, failed or refused; the last two have a ``reason``. Errors
        are fractions. ``fit_cpu`` is the CPU seconds of a fit with the chosen setting
        and rounds, the median of three if it is timed; ``search_cpu`` covers all
        trials. ``at_edge`` names the parameters at the edge of their range; ``cut``
        is whether the time limit ended the chosen trial or the fit, so that more rounds
        might be better. ``worst_case`` is the certified upper bound of minimax risk
        methods.
        """
        rows = []
        for match in self.matches:
            row = {
                "data": match.set_name,
                "partition": match.partition,
                "entry": match.name,
                "label": match.entry.label,
                "family": match.entry.family,
                "timed": match.timed,
                "key": match.key,
            }
            trace = self._trace(match)
            if trace is not None:
                row |= {"status": "done", "reason": ""} | trace.header["contest"]
            else:
                unknown = "failed", "no match with these settings is in the results"
                row["status"], row["reason"] = self.unfinished.get(match.key, unknown)
            rows.append(row)
        return pd.DataFrame(rows, columns=COLUMNS)

    def table(self) -> pd.DataFrame:
        """Return means over the partitions, a row for each data set and entry.

        Data sets keep their order; their entries are sorted by test error. ``done``
        counts the partitions that are done; ``tied`` is whether the test error is
        within one standard error of the lowest; ``cut`` is whether a time limit ended a
        run; ``settings`` are those of the first partition.
        """
        frame = self.frame()
        frame = frame.astype(dict.fromkeys(MEANS, float))
        frame["done"] = frame["status"] == "done"
        frame["cut"] = frame["cut"].eq(True)
        how = dict.fromkeys(MEANS, "mean")
        how |= {"done": "sum", "settings": "first", "reason": "first", "cut": "any"}
        table = frame.groupby(["data", "entry", "label"], sort=False).agg(how)
        table = table.reset_index()
        table["place"] = table.groupby("data", sort=False).ngroup()
        table = table.sort_values(["place", "test_error", "fit_cpu"])
        groups = table.groupby("place")
        best = groups[["test_error", "standard_error"]].transform("first")
        table["tied"] = table["test_error"] <= best.sum(axis=1)
        return table.drop(columns="place").reset_index(drop=True)

    def traces(self) -> list[Trace]:
        """Return the curves of the matches that are done, in the order of the frame.

        Their rows have ``round``, ``seconds``, ``cpu``, the columns of the solver and,
        if they were evaluated, ``test_error``. Their header contains the measurements
        of the frame's row and the trials of the search under ``contest``.
        """
        traces = map(self._trace, self.matches)
        return [trace for trace in traces if trace is not None and trace.rows]

    def kept(self) -> list[Trace]:
        """Return a trace of each match for a file of results.

        A match that is not done has a trace without rows.
        """
        traces = []
        for match, row in zip(self.matches, self.frame().itertuples()):
            trace = self._trace(match) or Trace({"key": match.key, "contest": {}})
            trace.header |= {"call": _call(match), "data": match.set_name}
            trace.header["contest"] |= {name: getattr(row, name) for name in KEPT}
            traces.append(trace)
        return traces

    def _trace(self, match: Match) -> Trace | None:
        """Return the trace of a match, or None if there is none."""
        if self.results is not None:
            return self.results.get(match.key)
        if match.key in self.unfinished:
            return None
        return read_trace(match.path(self.folder))


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
    """Run all matches of a contest, in worker processes of one thread each.

    A match that has been run before is not run again. Compilation is not timed. A match
    is killed after 110 wall seconds plus fifteen times the budgets of its search and
    its final fit. If figures are drawn from results, nothing runs and no data are read.

    Parameters
    ----------
    specs : list of data sets. A description is read by :func:`workbench.data.load`;
        linear solvers have no intercept without a constant column, as in ``digits +
        constant``. Your own data are given as paths of files or as problems
        (``load("my.csv", target="kind")``); their rows are standardised and get a
        constant column
    entries : names of :data:`workbench.arena.entries.ENTRIES` or of any solver, or a
        mapping from names to entries (default: all of ``ENTRIES``). On your own data
        one entry always has a certified bound: if none has, the solver of
        :class:`workbench.estimators.MinimaxRiskClassifier` takes part, too
    partitions : int >= 1, the number of random splits of each data set, with the seeds
        0, 1, ..., which also seed the solvers
    budget : float > 0, the CPU seconds for the trials of one search
    fit : float > 0 and at most `budget`, the CPU seconds of one run of a trial
        (default: a fifth of `budget`); the final fit of all training rows may take five
        times as long
    test : float, the fraction of test rows, or None for the published split (default:
        0.3)
    jobs : int >= 1, the number of worker processes
    timing : bool, whether the one worker is pinned to a core. If not, or if other
        notebooks are running, seconds are marked as not timed
    folder : path of the folder for the traces (default: ``runs/arena`` in the checkout)
    say : function that receives the progress, line by line

    Raises
    ------
    ValueError, FileNotFoundError
        If a data set or an entry is unknown, before anything runs.
    KeyboardInterrupt
        After all workers have been stopped; call it again to resume.
    """
    check_data(specs, "contest(data, entries)")
    check_counts(partitions=partitions)
    check_positive(budget, "budget")
    if fit is None:
        fit = budget / 5
    if not 0 < fit <= budget:
        raise ValueError(
            f"fit: must be positive and at most the budget {budget!r}, got {fit!r}"
        )
    timed = timed_alone(timing, jobs)
    folder = Path(folder or runs_folder() / "arena").absolute()
    sets = data_sets(specs, folder)
    chosen = competitors(entries)
    splits = list(product(sets, range(partitions)))
    make = partial(Match, budget=budget, fit=fit, test=test, timed=timed)
    results = recalled()
    if results is not None:
        matches = [
            make(data, partition, name, e)
            for data, partition in splits
            for name, e in chosen.items()
        ]
        matches = [replace(match, key=_call(match)) for match in matches]
        if entries is None:  # the results may lack peers that were not installed
            matches = [match for match in matches if match.key in results]
        return Contest(tuple(matches), Path(), results=results)
    matches, unfinished = planned(splits, chosen, make, test, say)
    failed = execute(
        [match.task() for match in matches if match.key not in unfinished],
        folder,
        jobs=jobs,
        timing=timed,
        limits=Limits(10 * (budget + FINAL_FIT_FACTOR * fit) + 60),
        say=say,
    )
    unfinished |= {key: ("failed", reason) for key, reason in failed.items()}
    return Contest(tuple(matches), folder, unfinished)


def planned(
    splits: Iterable[tuple[Data, int]],
    entries: Mapping[str, Entry],
    make: Callable[..., Match],
    test: float | None,
    say: Say,
) -> tuple[list[Match], dict[str, tuple[str, str]]]:
    """Return the matches of a contest with their keys, and the refused ones by key."""
    # The code and the files may have changed since the notebook's kernel started; new
    # workers read them again.
    sources.cache_clear()
    problem_of.cache_clear()
    matches = []
    refused = {}
    for data, partition in splits:
        problem = drawn(data, partition, test)
        competing = entries
        if isinstance(data, Path):
            competing = with_a_bound(entries, problem)
            if partition == 0:
                say(f"{data.stem}: {counted(problem)}")
        for name, e in competing.items():
            match = make(data, partition, name, e)
            match = replace(match, key=match_key(match, problem))
            matches.append(match)
            reason = e.refuses(problem)
            if reason:
                refused[match.key] = "refused", reason
    return matches, refused


def data_sets(specs: Sequence[str | Path | Problem], folder: Path) -> list[Data]:
    """Return the data sets of a contest; raise a ValueError if two have one name."""
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
    """Return a split of a data set; raise a ValueError if it has no test rows."""
    with threadpool_limits(1):  # as in the workers: digits depend on the threads
        problem = problem_of(data, partition, test)
    if problem.X_test is None:
        raise ValueError(f"data {data!r}: has no published split; give test=0.3")
    return problem


def with_a_bound(chosen: Mapping[str, Entry], problem: Problem) -> Mapping[str, Entry]:
    """Return the entries, with the estimator's solver if none bounds the worst case."""
    for e in chosen.values():
        if e.family == FAMILY["mrc"] and not e.refuses(problem):
            return chosen
    solver = MinimaxRiskClassifier().solver_for(problem)
    return {**chosen, solver: entry(solver)}


def counted(problem: Problem) -> str:
    """Return the rows and classes of a problem, and the error of its majority class."""
    labels = problem.classes[np.sort(np.append(problem.y, problem.y_test))]
    return f"{len(labels):,} rows, {'; '.join(described(labels))}"


def own_data(spec: str | Path | Problem, folder: Path) -> Data:
    """Return a description unchanged, or the absolute path of a user's own data.

    A problem is written to `folder`, where the workers read it.
    """
    if not isinstance(spec, Problem):
        path = Path(spec).expanduser()
        return path.absolute() if isinstance(spec, Path) or path.is_file() else spec
    if (spec.weights != 1.0).any():
        raise ValueError(
            f"specs: {spec.name} has weights; a contest does not support them"
        )
    name = re.sub(r"[^\w-]+", "_", spec.name.partition(".")[0])[:40] or "data"
    path = folder / "data" / spec.checksum / f"{name}.npz"
    if not path.exists():
        X, y = spec.all_rows()
        n_train = None if spec.X_test is None else spec.n
        rows = Rows(
            X,
            spec.classes[y],
            n_train,
            spec.features,
            spec.about,
            synthetic=spec.synthetic,
        )
        write_npz(path, rows)
    return path


def _call(match: Match) -> str:
    """Return the name of a match in files of results.

    The name consists of the match's settings and does not depend on the code.
    """
    m = match
    settings = m.name, m.set_name, m.partition, m.budget, m.fit, m.test
    return f"arena: {settings}"
