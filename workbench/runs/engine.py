"""Run many tasks in worker processes, which are isolated, limited and resumable.

A task is done if its file exists, so an interrupted sweep can be resumed. The name of
the file is a content key: two runs share a key exactly if nothing that can change their
result differs. Each worker runs one task at a time, so only that task is lost if the
worker dies.
"""

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
# The sources that a run of any solver may execute, in addition to the solver's own
# folder.
EXECUTED = ("core", "kernels", "data", "registry.py", "runs/run.py", "runs/sweep.py")
LIBRARIES = (
    "numpy scipy numba llvmlite scikit-learn pandas highspy nmslib vowpalwabbit".split()
)


def key(**parts: object) -> str:
    """Return 24 hex digits of the SHA-256 of named parts, in any order of names.

    Parts are plain data. 1 and 1.0 are the same number and give the same key; True
    differs.
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
    # A mapping differs from the text "nan".
    return value if isfinite(value) else {"": str(value)}


def place_of(key: str) -> str:
    """Return where the trace with this key is in a folder of traces."""
    return f"{key[:2]}/{key}.jsonl"


def code(steps: Steps, *rooms: str) -> str:
    """Return the key of the code and the libraries that a solver's run may execute.

    The code is in :data:`EXECUTED`, in other `rooms` of the package, and in the
    solver's own room or, for a solver from elsewhere, in its folder. Sources are read
    once per process, and again after ``sources.cache_clear()``, because a notebook's
    kernel may be older than the code.
    """
    path = Path(sys.modules[steps.__module__].__file__ or "")
    places = [PACKAGE / room for room in (*EXECUTED, *rooms)]
    if path.is_relative_to(PACKAGE):
        places.append(PACKAGE / path.relative_to(PACKAGE).parts[0])
    else:
        places += python_files(path.parent, "*.py")
    return sources(*places)


def python_files(folder: Path, pattern: str = "**/*.py") -> list[Path]:
    """Return the Python files of a folder, except hidden ones, which editors leave."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.glob(pattern)}
    return [paths[name] for name in sorted(paths) if "/." not in f"/{name}"]


@cache
def sources(*places: Path) -> str:
    """Return the key of some Python files, of Python and of :data:`LIBRARIES`.

    A place is a file, or a folder, which stands for all of its files.
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
    """Run the tasks that are not done yet; a failing task does not stop the others.

    Parameters
    ----------
    tasks : the tasks; tasks with equal keys are run once, and a task whose file is
        damaged is run again
    folder : the folder for the files of tasks
    jobs : int >= 1, the number of worker processes
    timing : bool, whether to use only one worker, pinned to a core
    what : the name of one task in messages
    say : a function that receives the progress line by line: each failure, and at most
        one other task per second

    Returns
    -------
    failures : the reasons by the keys of failed tasks, which the next call retries

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
    """Return the outcome of a task, which has failed if it has not written its file."""
    try:
        outcome = future.result()
    except Exception as error:  # raised by pickling, not by the task
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
        path.unlink(missing_ok=True)  # another sweep may have deleted it already
        return False
    return True


def _in_processes(
    workers: int, stop: ExitStack, folder: Path
) -> Callable[..., Future[Outcome]]:
    """Return a function that submits a task to one of some workers.

    Unfinished files that a killed process leaves in `folder` are deleted.
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
