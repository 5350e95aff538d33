"""Many tasks in worker processes: isolated, limited, resumable.

A task is done if its file exists, so a sweep that was cut off resumes there. The file's
name is a content key: two runs share one exactly if nothing that can change their
result differs. Each worker runs one task at a time, so its death costs only that task.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import cache, partial
from importlib.metadata import distributions
from math import isfinite
from pathlib import Path
from queue import SimpleQueue

import numpy as np

import workbench
from workbench.core.checks import check_counts
from workbench.core.files import digest
from workbench.core.kinds import Steps
from workbench.core.names import count
from workbench.runs.worker import (
    Limits,
    Outcome,
    Task,
    Worker,
    attempt,
    duration,
    failed,
)

Say = Callable[[str], None]
PACKAGE = Path(workbench.__file__).parent
# The sources that a run of any solver may execute; the solver's own folder is added to
# them.
EXECUTED = ("core", "kernels", "data", "registry.py", "runs/run.py", "runs/sweep.py")
LIBRARIES = (
    "numpy scipy numba llvmlite scikit-learn pandas highspy nmslib vowpalwabbit".split()
)


def key(**parts: object) -> str:
    """Return 24 hex digits of the SHA-256 of named parts, whatever the order of names.

    Parts are plain data. 1 and 1.0 are one number and make one key, True is another.
    """
    text = json.dumps(_canonical(parts), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _canonical(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        # A mapping, so that it is not the text "nan".
        return (
            int(value)
            if value.is_integer()
            else value
            if isfinite(value)
            else {"": str(value)}
        )
    return value


def code(steps: Steps, *rooms: str) -> str:
    """Return the key of the code that a run of a solver may execute, with its
    libraries.

    It has the sources of :data:`EXECUTED`, of other `rooms` of the package, and of the
    solver's own room, or of the folder of a solver from elsewhere. Sources are read
    once per process, and again after ``sources.cache_clear()``: a notebook's kernel may
    be older than the code.
    """
    path = Path(sys.modules[steps.__module__].__file__ or "")
    own = [PACKAGE / room for room in (*EXECUTED, *rooms)]
    if path.is_relative_to(PACKAGE):
        own.append(PACKAGE / path.relative_to(PACKAGE).parts[0])
    else:
        own += python_files(path.parent, "*.py")
    return sources(*own)


def python_files(folder: Path, pattern: str = "**/*.py") -> list[Path]:
    """Return the Python files of a folder but hidden ones, which editors and systems
    leave."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.glob(pattern)}
    return [paths[name] for name in sorted(paths) if "/." not in f"/{name}"]


@cache
def sources(*places: Path) -> str:
    """Return the key of the Python files at some places, of Python and of
    :data:`LIBRARIES`."""
    files = {file for p in places for file in (python_files(p) if p.is_dir() else [p])}
    texts = sorted(map(digest, files))
    installed = [
        f"{d.name} {d.version}" for d in distributions() if d.name in LIBRARIES
    ]
    return key(
        sources=texts, python=platform.python_version(), libraries=sorted(installed)
    )


def execute(
    tasks: Sequence[Task],
    folder: Path,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    timing: bool = False,
    what: str = "point",
    say: Say = print,
) -> dict[str, str]:
    """Run the tasks that are not done yet; a failing one does not stop the others.

    Parameters
    ----------
    tasks : tasks with equal keys are run once; a task whose file is damaged is run
        again
    folder : where the files of tasks go
    jobs : worker processes
    timing : one worker, pinned to a core
    what : the name of one task in messages
    say : receives the progress, line by line: each failure, and at most one other task
        per second

    Returns
    -------
    failures : the reason for each key that failed; the next call retries its task

    Raises
    ------
    KeyboardInterrupt
        After all workers have been stopped. Finished tasks are kept.
    """
    check_counts(jobs=jobs)
    folder.mkdir(parents=True, exist_ok=True)
    once = {task.key: task for task in tasks}
    waiting = {key: task for key, task in once.items() if not _done(task, folder, say)}
    total, before = len(once), len(once) - len(waiting)
    done_before = f", {before} done before" if before else ""
    say(f"{count(total, what)}{done_before}, {len(waiting)} to run")
    if not waiting:
        return {}
    limits, failures, done = limits or Limits(), {}, before
    jobs = 1 if timing else min(jobs, len(waiting))
    run = partial(attempt, folder=folder.absolute(), limits=limits, timing=timing)
    started = said = time.monotonic()
    with ExitStack() as stop:
        submit = _in_processes(jobs, stop, folder)
        futures = {submit(task, run, limits): key for key, task in waiting.items()}
        for future in as_completed(list(futures)):
            key = futures.pop(future)  # so that memory does not grow with the sweep
            try:
                _, status, text = future.result()
            except Exception as error:  # raised by a pickle, not by the task
                _, status, text = failed(key, error)
            if status == "done" and not waiting[key].path(folder).exists():
                status, text = "failed", f"it has written no file in {folder}"
            done, now = done + 1, time.monotonic()
            if status == "failed":
                failures[key] = text
                text = f"FAILED, {text}"
            elif done < total and now - said < 1:
                continue
            if done < total:
                text += f"; {duration((now - started) / (done - before) * (total - done))} left"
            say(f"[{done}/{total}] {waiting[key].label}: {text}")
            said = now
    return failures


def _done(task: Task, folder: Path, say: Say) -> bool:
    """Return whether the file of a task is there; one that is damaged is deleted."""
    path = task.path(folder)
    if not path.exists():
        return False
    try:
        task.check(path)
    except ValueError as error:
        say(f"{task.label}: {error}; it will run again")
        path.unlink(missing_ok=True)  # another sweep may have found it, too
        return False
    return True


def _in_processes(
    jobs: int, stop: ExitStack, folder: Path
) -> Callable[..., Future[Outcome]]:
    """Return a function that submits a task to one of `jobs` workers.

    What a killed process was writing in `folder` is deleted.
    """
    free: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(jobs):
        free.put(worker := Worker())
        stop.callback(worker.kill, last=True)

    def work(task: Task, run: Callable[[Task], Outcome], limits: Limits) -> Outcome:
        worker = free.get()
        try:
            return worker.run(task, run, limits)
        finally:
            for number in worker.killed:
                for part in task.path(folder).parent.glob(f"*.{number}-*.part*"):
                    part.unlink(missing_ok=True)
            free.put(worker)

    pool = ThreadPoolExecutor(jobs)
    stop.callback(pool.shutdown, wait=False, cancel_futures=True)
    return lambda *call: pool.submit(work, *call)
