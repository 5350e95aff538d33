"""The figure notebooks by papermill: what is timed alone on its core, the rest on another."""

from __future__ import annotations

import json
import logging
import os
import re
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from workbench.core.checks import check_positive
from workbench.core.names import hint
from workbench.runs.jupyter_kernels import (
    BesideKernelManager,
    IpcKernelManager,
    OneThreadKernelManager,
    kill_kernels,
)
from workbench.runs.keys import notebook_key
from workbench.runs.notebooks import CHECKOUT, FOLDER, PROFILES, Notebook, find
from workbench.runs.progress import Say, TimeLeft
from workbench.runs.results import read_results, run_seconds
from workbench.runs.worker import duration

KINDS = ("png", "svg", "pdf", "json")  # files of a figure
TIMEOUTS = {"smoke": 300.0, "quick": 900.0, "paper": 7 * 86400.0}
PATIENCE_S = 3.0  # that notebooks have to end after an interrupt


def make(
    names: Iterable[str] = (),
    profile: str = "quick",
    overrides: Mapping[str, str] | None = None,
    *,
    jobs: int = 1,
    again: bool = False,
    results: Path | None = None,
    timeout: float | None = None,
    notebooks: Path = FOLDER,
    figures: Path | None = None,
    executed: Path | None = None,
    say: Say = print,
) -> list[str]:
    """Run figure notebooks, each in a kernel of its own; a failing one does not stop the others.

    A notebook whose parameter `timing` is false times nothing: it runs next to one that does, on
    another core, where there is one. Notebooks that run side by side have one thread each, except
    the one that is timed.

    Parameters
    ----------
    names : notebooks of the folder `notebooks`; all of them by default
    profile : ``smoke`` (seconds), ``quick`` (minutes, embedded data) or ``paper``
    overrides : parameter values as text; each of the notebooks must declare every one
    jobs : notebooks at a time; with more than one nothing is timed, and the figures say so
    again : rerun notebooks even if nothing changed
    results : redraw from the files of this folder, see :mod:`workbench.runs.results`, with the
        parameters that they were made with
    timeout : seconds for each notebook, by default those of the profile in :data:`TIMEOUTS`
    figures, executed : where the figures and the executed notebooks go, by default ``figures/``
        and ``runs/figures/`` of the checkout; profiles other than quick have their own folders
    say : receives the progress, line by line; what a notebook prints begins with two spaces

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
    profile = "paper" if results else profile
    if profile not in PROFILES:
        raise ValueError(f"profile: unknown name {profile!r}; {hint(str(profile), PROFILES)}")
    work = [
        (notebook, _values(notebook, profile, overrides, results))
        for notebook in find(list(names), notebooks)
    ]
    own = "" if profile == "quick" else profile
    figures = Path(figures or figures_folder() / own).absolute()
    asked = len(work)
    work = [
        (n, values)
        for n, values in work
        if again or results or not unchanged(n, values, figures, jobs)
    ]
    executed = Path(executed or CHECKOUT / "runs" / "figures" / own).absolute()
    executed.mkdir(parents=True, exist_ok=True)
    timeout = TIMEOUTS[profile] if timeout is None else timeout
    say = _one_at_a_time(say)
    alone = [(n, values) for n, values in work if jobs == 1 and timed(values)]
    others = [item for item in work if item not in alone]
    lanes = min(max(jobs, min(2, os.cpu_count() or 1)), max(1, bool(alone) + len(others)))
    beside = int(lanes > 1 and bool(alone))
    seconds = {notebook.name: _seconds(notebook, figures) for notebook, _ in work}
    if results:  # redrawing takes a notebook about as long as any other
        seconds = dict.fromkeys(seconds, 0.0)
    elif profile == "paper":  # a figure drawn of kept runs took only seconds
        kept = {name: figures.parents[1] / "results" / f"{name}.parquet" for name in seconds}
        seconds = {name: max(s, run_seconds(kept[name])) for name, s in seconds.items()}
    left = TimeLeft(seconds, [notebook.name for notebook, _ in alone], lanes)
    same = f"; {asked - len(work)} unchanged" if asked > len(work) else ""
    say(
        f"{asked} notebooks, profile {profile}, {lanes} at a time{same}; figures go to {figures}"
        + left.in_words()
    )

    def run(item: tuple[Notebook, dict], lane: int) -> tuple[str, str | None]:
        manager = BesideKernelManager if beside and lane else OneThreadKernelManager
        manager = IpcKernelManager if lanes == 1 or item in alone else manager
        return run_notebook(*item, figures, executed, timeout, say, manager)

    failed, tic = [], time.perf_counter()
    surroundings = {"FIGURES": figures, "JOBS": jobs, "BESIDE": beside}
    if results:  # what runs beside a redraw disturbs no run
        surroundings |= {"RESULTS": Path(results).absolute(), "JOBS": 1}
    with (
        environment(**{f"WORKBENCH_{name}": str(value) for name, value in surroundings.items()}),
        closing(side_by_side(run, others, lanes, alone)) as ended,
    ):
        for done, ((notebook, _), (outcome, error, seconds)) in enumerate(ended, 1):
            left.took[notebook.name] = seconds
            say(f"[{done}/{len(work)}] {notebook.name} {outcome}{left.in_words()}")
            if error:
                failed.append(notebook.name)
                say(textwrap.indent(error, f"{notebook.name} | ", lambda line: True))
    if len(work) > 1:
        slowest = sorted(left.took.items(), key=lambda item: -item[1])
        say("\n".join(f"{seconds:7.1f} s  {name}" for name, seconds in slowest))
        say(f"all in {duration(time.perf_counter() - tic)}")
    return failed


def _values(notebook: Notebook, profile: str, overrides, results: Path | None) -> dict[str, Any]:
    """Return the values of the parameters: of the profile, of the results if given, overridden."""
    if results is None:
        return notebook.values(profile, overrides)
    path = Path(results) / f"{notebook.name}.parquet"
    if not path.exists():
        raise ValueError(f"from: {notebook.name} has no results; there is no {path}")
    _, kept = read_results(path)
    kept = {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in kept.items()}
    return notebook.values(profile, kept | dict(overrides or {}))


def timed(values: Mapping[str, Any]) -> bool:
    """Return whether a notebook with these parameters times what it runs."""
    return bool(values.get("timing", True))


def _seconds(notebook: Notebook, figures: Path) -> float:
    """Return the seconds after which a notebook's last figure was saved, 0 if that is not known."""
    records = [_record(figures / notebook.name / f"{name}.json") for name in notebook.figures]
    seconds = [record.get("seconds") for record in records]
    return float(max((s for s in seconds if isinstance(s, (int, float))), default=0.0))


def figures_folder() -> Path:
    """Return where figures go: ``WORKBENCH_FIGURES``, or ``figures/`` of the checkout."""
    return Path(os.environ.get("WORKBENCH_FIGURES") or CHECKOUT / "figures")


def unchanged(notebook: Notebook, values: Mapping[str, Any], folder: Path, jobs: int = 1) -> bool:
    """Return whether the notebook's figures in `folder` are whole and would come out the same.

    If `jobs` is 1, what ran next to others does not count unless it times nothing.
    """
    wanted = notebook_key(notebook, values)
    for name in notebook.figures:
        stem = folder / notebook.name / name
        if not all(stem.with_suffix(f".{kind}").exists() for kind in KINDS):
            return False
        record = _record(stem.with_suffix(".json"))
        if record.get("key") != wanted:
            return False
        if jobs == 1 and timed(values) and record.get("jobs") != 1:
            return False
    return True


def _record(path: Path) -> dict[str, Any]:
    """Return how a figure was made, nothing if that cannot be read."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def side_by_side(
    run: Callable, items: Iterable, lanes: int, alone: Sequence = ()
) -> Iterator[tuple[Any, Any]]:
    """Yield each item with ``run(item, lane)``, which runs a notebook, as they end.

    The items `alone` come first, one after the other in lane 0, while the other lanes begin with
    `items`.

    Close it: if an interrupt or an error ends its reader, the kernels are killed, and the runs have
    :data:`PATIENCE_S` to end. Then they are left in daemon threads: nbclient may wait forever for a
    kernel that was killed.
    """
    futures = {Future(): item for item in (*alone, *items)}
    queues: tuple[SimpleQueue, SimpleQueue] = SimpleQueue(), SimpleQueue()
    for place, future in enumerate(futures):
        queues[place >= len(alone)].put(future)
    for queue in queues:
        for _ in range(lanes):
            queue.put(None)

    def work(lane: int) -> None:
        for queue in queues[min(lane, 1) :]:
            for future in iter(queue.get, None):
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(run(futures[future], lane))
                    except BaseException as error:
                        future.set_exception(error)

    threads = [threading.Thread(target=work, args=[n], daemon=True) for n in range(lanes)]
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
    notebook: Notebook,
    values: dict[str, Any],
    figures: Path,
    executed: Path,
    timeout: float,
    say: Say,
    manager: type = IpcKernelManager,
) -> tuple[str, str | None, float]:
    """Run one notebook in a kernel of its own; return how it ended, its error or None, its seconds.

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
            kernel_manager_class=manager,
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
    seconds = time.monotonic() - tic
    if error:
        return f"FAILED after {duration(seconds)}; see {kept}", error, seconds
    folder = os.path.relpath(figures / notebook.name)
    pictures = ", ".join(os.path.join(folder, f"{name}.png") for name in notebook.figures)
    return f"done in {duration(seconds)}" + f": {pictures}" * bool(pictures), None, seconds


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
