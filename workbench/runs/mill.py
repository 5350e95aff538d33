"""Notebooks by papermill: the figure notebooks, and any notebook over a grid of its parameters."""

from __future__ import annotations

import json
import logging
import os
import re
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from workbench.core.checks import check_positive
from workbench.runs.jupyter_kernels import IpcKernelManager, kill_kernels
from workbench.runs.keys import key, notebook_key
from workbench.runs.notebooks import CHECKOUT, FOLDER, PROFILES, Notebook, find, parse, read
from workbench.runs.worker import Limits

KINDS = ("png", "svg", "pdf", "json")  # files of a figure
TIMEOUTS = {"smoke": 300.0, "quick": 900.0, "paper": 7 * 86400.0}
PATIENCE_S = 3.0  # that notebooks have to end after an interrupt

Say = Callable[[str], None]


def make(
    names: Iterable[str] = (),
    profile: str = "quick",
    overrides: Mapping[str, str] | None = None,
    *,
    jobs: int = 1,
    again: bool = False,
    timeout: float | None = None,
    notebooks: Path = FOLDER,
    figures: Path | None = None,
    executed: Path | None = None,
    say: Say = print,
) -> list[str]:
    """Run figure notebooks, each in a kernel of its own; a failing one does not stop the others.

    Parameters
    ----------
    names : notebooks of the folder `notebooks`; all of them by default
    profile : ``smoke`` (seconds), ``quick`` (minutes, embedded data) or ``paper``
    overrides : parameter values as text; each of the notebooks must declare every one
    jobs : notebooks at a time; with more than one nothing is timed, and the figures say so
    again : rerun notebooks even if nothing changed
    timeout : seconds for each notebook, by default those of the profile in :data:`TIMEOUTS`
    figures, executed : where the figures and the executed notebooks go, by default ``figures/``
        and ``runs/figures/`` of the checkout; profiles other than quick have their own folders
    say : receives the progress, line by line

    Returns
    -------
    failed : the names of the notebooks that failed

    Raises
    ------
    ValueError
        Before anything runs: an unknown notebook, profile or parameter, a value of the wrong type,
        a notebook without a valid parameters cell.
    """
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs}")
    if timeout is not None:
        check_positive(timeout, "timeout")
    if profile not in PROFILES:
        raise ValueError(f"profile: unknown name {profile!r}; known are {', '.join(PROFILES)}")
    work = [
        (notebook, notebook.values(profile, overrides)) for notebook in find(list(names), notebooks)
    ]
    own = "" if profile == "quick" else profile
    figures = Path(figures or figures_folder() / own).absolute()
    asked = len(work)
    work = [(n, values) for n, values in work if again or not unchanged(n, values, figures, jobs)]
    jobs = min(jobs, max(1, len(work)))
    executed = Path(executed or CHECKOUT / "runs" / "figures" / own).absolute()
    executed.mkdir(parents=True, exist_ok=True)
    timeout = TIMEOUTS[profile] if timeout is None else timeout
    say = _one_at_a_time(say)
    same = f"; nothing has changed for {asked - len(work)}" if asked > len(work) else ""
    say(f"{asked} notebooks, profile {profile}, {jobs} at a time{same}; figures go to {figures}")
    failed, tic = [], time.perf_counter()
    run = lambda work: run_notebook(*work, figures, executed, timeout, say)  # noqa: E731
    with (
        environment(WORKBENCH_FIGURES=str(figures), WORKBENCH_JOBS=str(jobs)),
        closing(side_by_side(run, work, jobs)) as ended,
    ):
        for done, ((notebook, _), (outcome, error)) in enumerate(ended, 1):
            elapsed = f"{time.perf_counter() - tic:.0f} s since the start"
            say(f"[{done}/{len(work)}] {notebook.name} {outcome} ({elapsed})")
            if error:
                failed.append(notebook.name)
                say(textwrap.indent(error, f"  {notebook.name} | ", lambda line: True))
    return failed


def figures_folder() -> Path:
    """Return where figures go: ``WORKBENCH_FIGURES``, or ``figures/`` of the checkout."""
    return Path(os.environ.get("WORKBENCH_FIGURES") or CHECKOUT / "figures")


def unchanged(notebook: Notebook, values: Mapping[str, Any], folder: Path, jobs: int = 1) -> bool:
    """Return whether the notebook's figures in `folder` are whole and would come out the same.

    If `jobs` is 1, figures that ran next to others do not count: nothing in them was timed.
    """
    wanted = notebook_key(notebook, values)
    for name in notebook.figures:
        stem = folder / notebook.name / name
        if not all(stem.with_suffix(f".{kind}").exists() for kind in KINDS):
            return False
        try:
            record = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False
        if not isinstance(record, dict) or record.get("key") != wanted:
            return False
        if jobs == 1 and record.get("jobs") != 1:
            return False
    return True


def side_by_side(run: Callable, items: Iterable, jobs: int) -> Iterator[tuple[Any, Any]]:
    """Yield each item with ``run(item)``, which runs a notebook, as they end; `jobs` at a time.

    Close it: if an interrupt or an error ends its reader, the kernels are killed, and the runs have
    :data:`PATIENCE_S` to end. Then they are left in daemon threads: nbclient may wait forever for a
    kernel that was killed.
    """
    futures = {Future(): item for item in items}
    waiting: SimpleQueue[Future | None] = SimpleQueue()
    for future in (*futures, *[None] * jobs):
        waiting.put(future)

    def work() -> None:
        for future in iter(waiting.get, None):
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(run(futures[future]))
                except BaseException as error:
                    future.set_exception(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    try:
        for thread in threads:
            thread.start()
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        for name in ("papermill", "traitlets"):  # which would report that kernels have died
            logging.getLogger(name).setLevel(logging.CRITICAL)
        for future in futures:
            future.cancel()
        end = time.monotonic() + PATIENCE_S
        while any(map(threading.Thread.is_alive, threads)) and time.monotonic() < end:
            kill_kernels()  # also one that is just being started
            time.sleep(0.05)
        raise


def run_notebook(
    notebook: Notebook, values: dict[str, Any], figures: Path, executed: Path, timeout: float, say
) -> tuple[str, str | None]:
    """Run one notebook in a kernel of its own; return how it ended, and its error or None.

    The executed notebook is kept in the folder `executed`, as ``NAME.ipynb`` or
    ``NAME.failed.ipynb``.
    """
    # papermill takes a second to import; `workbench list` reads notebooks without it.
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    say(f"{notebook.name}: starts")
    part = executed / f"{notebook.name}.part.ipynb"
    tic, started = time.monotonic(), time.time_ns()
    error = None
    try:
        execute_notebook(
            notebook.path,
            part,
            values,
            kernel_name="python3",
            progress_bar=False,
            stdout_file=_Lines(f"  {notebook.name} | ", say),
            kernel_manager_class=IpcKernelManager,
            # The shutdown interrupts the kernel, which would log that as an error.
            extra_arguments=["--log-level=CRITICAL"],
            # nbclient's timeout is for one cell; each gets what is left until the deadline.
            timeout_func=lambda cell: max(tic + timeout - time.monotonic(), 0.01),
        )
        error = _missing(notebook, figures, started)
    except PapermillExecutionError as failure:
        traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(failure.traceback))
        error = f"in cell {failure.cell_index}:\n{traceback}"
    except TimeoutError:
        error = f"not done after {timeout:g} s"
    except Exception as failure:  # a dead kernel, a full disk: this notebook's, not the others'
        error = f"{type(failure).__name__}: {failure}"
    failed = executed / f"{notebook.name}.failed.ipynb"
    failed.unlink(missing_ok=True)
    kept = failed if error else executed / f"{notebook.name}.ipynb"
    if part.exists():
        os.replace(part, kept)
    seconds = f"{time.monotonic() - tic:.0f} s"
    if error:
        return f"FAILED after {seconds}; see {kept}", error
    pictures = ", ".join(f"{notebook.name}/{name}.png" for name in notebook.figures)
    return f"done in {seconds}" + (f": {pictures}" if pictures else ""), None


def _missing(notebook: Notebook, figures: Path, started: int) -> str | None:
    """Return which declared figures were not written since `started` (in ns), None if all were."""
    paths = [figures / notebook.name / f"{name}.json" for name in notebook.figures]
    stale = [p.stem for p in paths if not p.exists() or p.stat().st_mtime_ns < started]
    return f"did not make the figures {stale} that its metadata declare" if stale else None


class _Lines:
    """A text file that passes on whole lines, each with a prefix."""

    def __init__(self, prefix: str, say: Say):
        self.prefix, self.say, self.rest = prefix, say, ""

    def write(self, text: str) -> None:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self.say(self.prefix + line)

    def flush(self) -> None:
        """Do nothing: only an unfinished line is held back."""


def _one_at_a_time(say: Say) -> Say:
    lock = threading.Lock()

    def locked(line: str) -> None:
        with lock:
            say(line)

    return locked


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class NotebookRun:
    """A notebook with values for all of its parameters: a task of the engine."""

    notebook: Notebook
    values: Mapping[str, Any]
    key: str
    varied: tuple[str, ...]
    jobs: int = 1

    @property
    def label(self) -> str:
        return " ".join([self.notebook.name, *(f"{n}={self.values[n]}" for n in self.varied)])

    def path(self, folder: Path) -> Path:
        """Return the executed notebook; its figures are in folders next to it."""
        return folder / f"{self.notebook.name}-{self.key[:10]}" / f"{self.notebook.name}.ipynb"

    def check(self, path: Path) -> None:
        read(path, figures=False)

    def run(self, folder: Path, limits: Limits) -> str:
        """Execute the notebook."""
        home = self.path(folder).parent
        home.mkdir(exist_ok=True)
        timeout = limits.seconds or TIMEOUTS["paper"]
        with environment(WORKBENCH_FIGURES=str(home), WORKBENCH_JOBS=str(self.jobs)):
            ended, error = run_notebook(
                self.notebook, dict(self.values), home, home, timeout, lambda line: None
            )
        if error:
            raise RuntimeError(f"{ended}: {error.splitlines()[-1]}")
        return ended


def fan_out(notebook: Notebook, texts: Mapping[str, str], jobs: int = 1) -> list[NotebookRun]:
    """Return a run for every combination of the comma-separated values in `texts`.

    Parameters
    ----------
    notebook : with a parameters cell, which gives the values of the other parameters
    texts : parameter -> its values, as in ``{"eps1": "1e-2,1e-3"}``
    jobs : how many will run side by side; with more than one nothing inside is timed

    Raises
    ------
    ValueError
        For a parameter that the notebook does not declare, a value of the wrong type or a
        duplicate value.
    """
    axes = []
    for name, text in texts.items():
        axes.append([parse(notebook.parameter(name), part.strip()) for part in text.split(",")])
        if len(set(axes[-1])) < len(axes[-1]):
            raise ValueError(f"{name}: a value appears twice in {text!r}")
    runs = []
    for chosen in product(*axes):
        values = notebook.values() | dict(zip(texts, chosen))
        # A notebook that ran at the same time as others was not timed: its results differ.
        own = key(notebook=notebook_key(notebook, values), alone=jobs == 1)
        runs.append(NotebookRun(notebook, values, own, tuple(texts), jobs))
    return runs
