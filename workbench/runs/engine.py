"""Run many tasks in worker processes: isolated, limited, resumable.

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
# The sources that a run of any solver may execute, besides the solver's own folder.
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
    if not isinstance(value, float):
        return value
    if value.is_integer():
        return int(value)
    # A mapping, so that it is not the text "nan".
    return value if isfinite(value) else {"": str(value)}


def code(steps: Steps, *rooms: str) -> str:
    """Return the key of the code that a run of a solver may execute, and its libraries.

    The code is that of :data:`EXECUTED`, of other `rooms` of the package, and of the
    solver's own room, or of the folder of a solver from elsewhere. Sources are read
    once per process, and again after ``sources.cache_clear()``: a notebook's kernel may
    be older than the code.
    """
    path = Path(sys.modules[steps.__module__].__file__ or "")
    places = [PACKAGE / room for room in (*EXECUTED, *rooms)]
    if path.is_relative_to(PACKAGE):
        places.append(PACKAGE / path.relative_to(PACKAGE).parts[0])
    else:
        places += python_files(path.parent, "*.py")
    return sources(*places)


def python_files(folder: Path, pattern: str = "**/*.py") -> list[Path]:
    """Return the Python files of a folder, without the hidden ones that editors
    leave."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.glob(pattern)}
    return [paths[name] for name in sorted(paths) if "/." not in f"/{name}"]


@cache
def sources(*places: Path) -> str:
    """Return the key of some Python files, of Python and of :data:`LIBRARIES`.

    A place is a file, or a folder of which all files count.
    """
    files = set[Path]()
    for place in places:
        files |= set(python_files(place)) if place.is_dir() else {place}
    installed = [
        f"{library.name} {library.version}"
        for library in distributions()
        if library.name in LIBRARIES
    ]
    return key(
        sources=sorted(map(digest, files)),
        python=platform.python_version(),
        libraries=sorted(installed),
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
    tasks : the tasks; those with equal keys are run once, and one whose file is damaged
        is run again
    folder : the folder for the files of tasks
    jobs : number of worker processes, at least 1
    timing : whether to use one worker only, pinned to a core
    what : the name of one task in messages
    say : function that receives the progress line by line: each failure, and at most
        one other task per second

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
    waiting = [task for task in once.values() if not _done(task, folder, say)]
    done = len(once) - len(waiting)
    done_before = f", {done} done before" if done else ""
    say(f"{count(len(once), what)}{done_before}, {len(waiting)} to run")
    failures: dict[str, str] = {}
    if not waiting:
        return failures
    limits = limits or Limits()
    workers = 1 if timing else min(jobs, len(waiting))
    run = partial(attempt, folder=folder.absolute(), limits=limits, timing=timing)
    started = last_line = time.monotonic()
    ended = 0
    with ExitStack() as stop:
        submit = _in_processes(workers, stop, folder)
        futures = {submit(task, run, limits): task for task in waiting}
        for future in as_completed(list(futures)):
            task = futures.pop(future)  # so that memory does not grow with the sweep
            outcome = _outcome(task, future, folder)
            text = outcome.text
            ended += 1
            left = len(waiting) - ended
            now = time.monotonic()
            if outcome.status == "failed":
                failures[task.key] = text
                text = f"FAILED, {text}"
            elif left and now - last_line < 1:
                continue
            if left:
                text += f"; {duration((now - started) / ended * left)} left"
            say(f"[{done + ended}/{len(once)}] {task.label}: {text}")
            last_line = now
    return failures


def _outcome(task: Task, future: Future[Outcome], folder: Path) -> Outcome:
    """Return how a task ended; it has failed if it has written no file."""
    try:
        outcome = future.result()
    except Exception as error:  # raised by a pickle, not by the task
        return failed(error)
    if outcome.status == "done" and not task.path(folder).exists():
        return Outcome("failed", f"it has written no file in {folder}")
    return outcome


def _done(task: Task, folder: Path, say: Say) -> bool:
    """Return whether the file of a task exists; a damaged file is deleted."""
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
    workers: int, stop: ExitStack, folder: Path
) -> Callable[..., Future[Outcome]]:
    """Return a function that submits a task to one of some workers.

    What a killed process was writing in `folder` is deleted.
    """
    idle = [Worker() for _ in range(workers)]  # as many as the pool has threads
    for worker in idle:
        stop.callback(worker.kill, last=True)

    def work(task: Task, run: Callable[[Task], Outcome], limits: Limits) -> Outcome:
        worker = idle.pop()
        try:
            return worker.run(task, run, limits)
        finally:
            for number in worker.killed:
                for part in task.path(folder).parent.glob(f"*.{number}-*.part*"):
                    part.unlink(missing_ok=True)
            idle.append(worker)

    pool = ThreadPoolExecutor(workers)
    stop.callback(pool.shutdown, wait=False, cancel_futures=True)
    return lambda *call: pool.submit(work, *call)
