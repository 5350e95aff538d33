"""Run a sensible set of solvers on one's own data, in searches that ever fewer take part in."""

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
from workbench.arena.own_data import inspected, thinned
from workbench.core.problem import as_problem
from workbench.data.formats import write_npz
from workbench.data.panels import listed
from workbench.runs.progress import Say
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits

# A forest, boosting, a linear model and ours come first, as the answer of the first seconds.
SENSIBLE = listed(
    "random_forest, boosting, logistic_lbfgs, ww_walrus_fast, extra_trees, centroid, ridge, "
    "liblinear_l2_dual, ls_accelerated, mrc_fourier, cs_working_set, libsvm, cuts_nystroem, "
    "ls_stagewise"
)
FIRST_SECONDS = 0.5  # the most CPU seconds of a solver's first search
LONGER = 5  # the next search is this many times as long, and a trial as long as the last search
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

    After each search the solvers that are surely worse than the best on the test rows are out, and
    the others have one five times as long, until there is no time for that, one is left, or a
    search of the whole budget has put none out. How long a search is does not depend on the test
    rows, so that the verdicts are valid, see :mod:`workbench.core.watched`.

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
    given = _expression(data, target) + ", fill=True" * fill
    how = {"jobs": jobs, "limits": Limits(max(60.0, seconds))}  # compiling takes its time too
    share = budget / LONGER
    while share > FIRST_SECONDS:
        share /= LONGER
    total = unspent = budget * len(names) * LONGER / (LONGER - 1)  # of all searches of all solvers
    search, told = plan([path], names, budget=share, fit=share, **settings), set()
    found = Comparison(kept, (search,), given, test, most if len(kept.y) < n else None)

    def tell(line: str = "") -> None:
        for row in found.contests[0].frame().itertuples():
            if row.entry not in told and row.status in ("done", "refused"):
                told.add(row.entry)
                say(_answer(row))

    try:
        while True:
            before, entered = found.contests[:-1], len(search.matches)
            if new := search.frame()["status"].eq("not run").sum():
                say(f"solvers: {new}, {jobs} at a time, {share:.2g} s of CPU time for each search")
            search = search.run(**how, say=say if before else tell)
            found, unspent = replace(found, contests=(*before, search)), unspent - share * entered
            tell()
            left, share = found.left, share * LONGER
            over = share > 1.001 * budget and len(left) in (1, entered)
            if over or not 0 < share * len(left) < 1.001 * unspent:
                return replace(found, early=_early(len(left), unspent / total))
            search = plan([path], left, budget=share, fit=share / LONGER, **settings)
            found = replace(found, contests=(*found.contests, search))
    except KeyboardInterrupt:
        return replace(found, interrupted=True)


def _early(left: int, unspent: float) -> str:
    """Return why a comparison ended before its time, "" if it did not."""
    if not left or unspent < 0.1:
        return ""
    rest = "one is" if left == 1 else f"{left} tied ones are"
    return f"Ended with {100 * unspent:.0f} % of the time for searches unspent: all but {rest} out."


def _answer(row) -> str:
    if row.status != "done":
        return f"{row.label}: {row.status}, {row.reason}"
    error, spread = 100 * row.test_error, 200 * row.standard_error
    low, high = max(0.0, error - spread), min(100.0, error + spread)
    return (
        f"{row.label}, after a first search: test error {error:.2f} %, between {low:.2f} and "
        f"{high:.2f} (two standard errors), {row.fit_cpu:.2g} s"
    )


def _expression(data, target: str | None) -> str:
    """Return the data as an argument in the code, a file by its absolute path."""
    named = f", target={target!r}" if target is not None else ""
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        return repr(str(path.absolute()) if path.is_file() else os.fspath(data)) + named
    return ("(X, y)" if isinstance(data, tuple) else "frame") + named
