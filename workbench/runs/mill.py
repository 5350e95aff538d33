"""The figure notebooks: each run by papermill if something changed since its figures were made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.core.names import count, hint
from workbench.runs.engine import Say, execute
from workbench.runs.keys import notebook_key
from workbench.runs.notebook_runs import notebook_task
from workbench.runs.notebooks import (
    CHECKOUT,
    FOLDER,
    PROFILES,
    Notebook,
    find,
    here_or_there,
    runs_folder,
)
from workbench.runs.results import read_results
from workbench.runs.worker import ONE_THREAD, Limits, duration

KINDS = ("png", "svg", "pdf", "json")  # files of a figure
TIMEOUTS = {"smoke": 300.0, "quick": 900.0, "paper": 7 * 86400.0}


def make(
    names: Iterable[str] = (),
    profile: str = "quick",
    overrides: Mapping[str, str] | None = None,
    *,
    jobs: int | None = None,
    again: bool = False,
    results: Path | None = None,
    timeout: float | None = None,
    notebooks: Path = FOLDER,
    figures: Path | None = None,
    executed: Path | None = None,
    say: Say = print,
) -> list[str]:
    """Run figure notebooks, each in a kernel of its own; a failing one does not stop the others.

    Notebooks that run side by side have one thread each, and nothing in them is timed.

    Parameters
    ----------
    names : notebooks of the folder `notebooks`; all of them by default
    profile : ``smoke`` (seconds), ``quick`` (minutes, embedded data) or ``paper``
    overrides : parameter values as text; each of the notebooks must declare every one
    jobs : notebooks at a time, by default two, in the profile paper one; with more than one
        nothing is timed, and the figures say so
    again : rerun notebooks even if nothing changed
    results : redraw from the files of this folder, see :mod:`workbench.runs.results`, with the
        parameters that they were made with
    timeout : seconds for each notebook, by default those of the profile in :data:`TIMEOUTS`
    figures, executed : where the figures and the executed notebooks go, by default ``figures/``
        and ``runs/figures/`` of the checkout; profiles other than paper have folders in them
    say : receives a line for each notebook, and at the end their times, slowest first

    Returns
    -------
    failed : the names of the notebooks that failed

    Raises
    ------
    ValueError
        Before any notebook runs, naming the argument or the notebook.
    """
    profile = "paper" if results else profile
    if profile not in PROFILES:
        raise ValueError(f"profile: unknown name {profile!r}; {hint(str(profile), PROFILES)}")
    limits = Limits(TIMEOUTS[profile] if timeout is None else timeout)
    found = find(list(names), notebooks)
    if jobs is None:
        jobs = 1 if len(found) == 1 or (profile == "paper" and not results) else 2
    work = [(notebook, _values(notebook, profile, overrides, results)) for notebook in found]
    own = "" if profile == "paper" else profile
    figures = Path(figures or figures_folder() / own).absolute()
    executed = Path(executed or runs_folder() / "figures" / own).absolute()
    changed = work if again or results else [w for w in work if not unchanged(*w, figures, jobs)]
    same = f"; {len(work) - len(changed)} unchanged" if len(work) > len(changed) else ""
    say(f"{count(len(work), 'notebook')}, profile {profile}{same}; figures go to {figures}")
    variables = {"WORKBENCH_FIGURES": str(figures), "WORKBENCH_JOBS": str(jobs)}
    if results:  # notebooks redrawn side by side disturb no run
        variables |= {"WORKBENCH_JOBS": "1"}
    if jobs == 1:
        variables |= {name: os.environ.get(name) for name in ONE_THREAD}
    tasks = []
    for notebook, values in changed:
        name = notebook.name  # the key, too: copies of one notebook make different figures
        kept = {"WORKBENCH_RESULTS": str(_results_of(name, results))} if results else {}
        own = notebook_task(notebook, values, name, name, f"{name}.ipynb", variables | kept)
        tasks.append(own)
        tasks[-1].path(executed).unlink(missing_ok=True)  # of an earlier call
    how = {"jobs": jobs, "limits": limits, "what": "notebook"}
    failures = execute(tasks, executed, **how, say=say)
    times = {task.label: _seconds(task.path(executed)) for task in tasks}
    for name in sorted(times, key=times.get, reverse=True) if len(tasks) > 1 else ():
        say(f"{name:30} {'failed' if name in failures else duration(times[name]):>7}")
    return [name for name in times if name in failures]


def _seconds(path: Path) -> float:
    """Return how long a notebook took, infinity if it failed."""
    if not path.exists():
        return float("inf")
    return json.loads(path.read_text(encoding="utf-8"))["metadata"]["papermill"]["duration"]


def _values(notebook: Notebook, profile: str, overrides, results: Path | None) -> dict[str, Any]:
    """Return the values of the parameters: of the profile, of the results if given, overridden."""
    if results is None:
        values = notebook.values(profile, overrides)
        given = {name: values[name] for name in overrides or {}}
        return values | here_or_there(given, notebook.path.parent)
    path = _results_of(notebook.name, results)
    if not path.exists():
        raise ValueError(f"from: {notebook.name} has no results; there is no {path}")
    return notebook.values(profile, read_results(path)[1] | dict(overrides or {}))


def _results_of(name: str, folder: Path) -> Path:
    return Path(folder).absolute() / f"{name}.parquet"


def timed(values: Mapping[str, Any]) -> bool:
    """Return whether a notebook with these parameters times what it runs."""
    return bool(values.get("timing", True))


def figures_folder() -> Path:
    """Return the folder ``WORKBENCH_FIGURES``, or ``figures/`` of the checkout."""
    return Path(os.environ.get("WORKBENCH_FIGURES") or CHECKOUT / "figures")


def unchanged(notebook: Notebook, values: Mapping[str, Any], folder: Path, jobs: int = 1) -> bool:
    """Return whether the notebook's figures in `folder` are whole and would come out the same.

    If `jobs` is 1, what ran next to others does not count unless it times nothing.
    """
    wanted = notebook_key(notebook, values)
    for name in notebook.figures:
        stem = folder / notebook.name / name
        try:
            record = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
            own = record.get("key") == wanted, record.get("jobs") == 1
        except (OSError, ValueError, RecursionError, AttributeError):  # it is made again
            return False
        if not own[0] or (jobs == 1 and timed(values) and not own[1]):
            return False
        if not all(stem.with_suffix(f".{kind}").exists() for kind in KINDS):
            return False
    return True
