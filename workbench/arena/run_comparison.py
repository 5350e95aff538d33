"""Run a sensible set of solvers on one's own data: first at their defaults, then with a search."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.arena.comparison import Comparison
from workbench.arena.contest import plan
from workbench.arena.entries import entry
from workbench.arena.own_data import inspected, thinned
from workbench.core.problem import as_problem
from workbench.data.formats import write_npz
from workbench.data.panels import listed
from workbench.runs.progress import Say
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits

# Fast methods come first, so that an early end still shows something.
SENSIBLE = listed(
    "random_forest, extra_trees, boosting, centroid, ridge, logistic_lbfgs, liblinear_l2_dual, "
    "ww_walrus_fast, ls_accelerated, mrc_fourier, cs_working_set, libsvm, cuts_nystroem, "
    "ls_stagewise"
)
# Fitted at their default settings before any search, so that there is an answer in seconds.
FIRST = listed("random_forest, boosting, logistic_lbfgs, ww_walrus_fast")
FIRST_SECONDS = 0.5  # CPU seconds in which each of them chooses its number of rounds
PASSES = 4e7  # numbers of a dense row times classes for which a second of budget is enough
MIN_ROWS = 1000  # kept in any case
# Fraction of the time given that searches are timed for; the rest gives the first answers, loads,
# compiles and evaluates.
SOLVER_TIME_FRACTION = 0.2


def compare(
    data,
    target: str | None = None,
    *,
    seconds: float = 60.0,
    entries: Sequence[str] | None = None,
    test: float = 0.3,
    fill: bool = False,
    jobs: int | None = None,
    folder: str | os.PathLike | None = None,
    say: Say = print,
) -> Comparison:
    """Run a sensible set of solvers on one's own data, on equal terms, and return how they did.

    Ctrl-C ends it early and keeps what has ended. What has ended is not run again.

    Parameters
    ----------
    data, target : a file, frame or pair, see :func:`workbench.arena.own_data.inspected`
    seconds : about how long it may take; too many rows for it are thinned, with a note
    entries : names of entries or solvers; by default :data:`SENSIBLE`
    test : random fraction of test rows
    fill : fill missing numbers, with the medians of the training rows
    jobs : worker processes, by default half of the cores
    folder : where traces are kept, by default ``runs/arena`` of the checkout
    say : receives the progress, line by line

    Raises
    ------
    ValueError
        In plain words, for data or an argument that cannot be used.
    FileNotFoundError
        For a missing file.
    """
    if not 0 < seconds < np.inf:
        raise ValueError(f"seconds: must be positive and finite, got {seconds!r}")
    jobs = max(1, (os.cpu_count() or 1) // 2) if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs!r}")
    whole, names = inspected(data, target, fill=fill), list(entries or SENSIBLE)
    budget = SOLVER_TIME_FRACTION * seconds * jobs / len(names)
    n, d = whole.X.shape
    width = whole.X.nnz / n if sp.issparse(whole.X) else d
    most = max(MIN_ROWS, round(budget * PASSES / (width * len(np.unique(whole.y)))))
    kept = thinned(whole, most)
    for note in kept.notes:
        say(f"{kept.name}: {note}")
    folder = Path(folder or runs_folder() / "arena").absolute()
    rows = kept.filled(test)
    checksum = as_problem(rows.X, rows.y, features=rows.features).checksum
    name = re.sub(r"[^\w-]+", "_", kept.name)[:40] or "data"
    path = folder / "data" / f"{name}-{checksum}.npz"
    if not path.exists():
        write_npz(path, rows)
    settings = {"partitions": 1, "test": test, "folder": folder}
    quick = [name for name in names if name in FIRST] or names[:1]
    defaults = {name: entry(name)._replace(ranges={}) for name in quick}
    first = plan([path], defaults, budget=FIRST_SECONDS, fit=FIRST_SECONDS, **settings)
    done = plan([path], names, budget=budget, **settings)
    given = _expression(data, target) + ", fill=True" * fill
    how = {"jobs": jobs, "limits": Limits(max(60.0, seconds))}  # compiling takes its time too
    found = Comparison(kept, first, done, given, test, most if len(kept.y) < n else None)
    told = set()

    def tell(line: str = "") -> None:
        for row in first.frame().itertuples():
            if row.entry not in told and row.status in ("done", "refused"):
                told.add(row.entry)
                say(_first_answer(row))

    try:
        found = replace(found, first=first.run(**how, say=tell))
        tell()
        if left := done.frame()["status"].eq("not run").sum():
            took = seconds * left / len(names)
            say(
                f"solvers: {left}, {jobs} at a time, about {took:.2g} s; the first run on "
                "this machine takes minutes longer, to compile them, which is not timed"
            )
        return replace(found, done=done.run(**how, say=say))
    except KeyboardInterrupt:
        return replace(found, interrupted=True)


def _first_answer(row) -> str:
    if row.status != "done":
        return f"{row.label}: {row.status}, {row.reason}"
    error, spread = 100 * row.test_error, 200 * row.standard_error
    low, high = max(0.0, error - spread), min(100.0, error + spread)
    return (
        f"{row.label}, default settings: test error {error:.2f} %, between {low:.2f} and "
        f"{high:.2f} (two standard errors), {row.fit_cpu:.2g} s"
    )


def _expression(data, target: str | None) -> str:
    """Return the data as an argument in the code, a file by its absolute path."""
    named = f", target={target!r}" if target is not None else ""
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        return repr(str(path.absolute()) if path.is_file() else os.fspath(data)) + named
    return ("(X, y)" if isinstance(data, tuple) else "frame") + named
