"""Many tasks in worker processes: isolated, limited, resumable, on this machine or on a cluster.

A task is done when its file is there, so a sweep that was cut off resumes where it was. Each worker
is a pool of its own, of joblib's loky, so that its death takes one task along; with a Dask cluster
the same function runs in its workers, which must share the folder of results.
"""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, as_completed, wait
from contextlib import ExitStack, closing, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import psutil
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.backend.context import get_context

from workbench.runs.cluster import connected
from workbench.runs.progress import Progress, Say
from workbench.runs.worker import (
    DIED,
    ONE_THREAD,
    TOO_LONG,
    Limits,
    Outcome,
    Task,
    attempt,
    failed,
    mark_of,
    overdue,
    start,
)

LITTER_S = 86400.0  # age at which the marks and unfinished files of killed sweeps are removed
IDLE_S = 60.0  # after which a worker without work ends


class Surroundings(NamedTuple):
    """All that a new process would find; a worker that rests is used while none of it changes."""

    time: int
    dates: dict[str, int]
    path: tuple[str, ...]
    folder: str
    settings: dict[str, str]

    def stand(self, now: Surroundings) -> bool:
        """Return whether they are the same `now`, except for files that were imported since."""
        new = [date for file, date in now.dates.items() if file not in self.dates]
        return (
            now.dates == now.dates | self.dates
            and all(date < self.time for date in new)
            and now[2:] == self[2:]
        )


# A worker takes seconds to start, so those of a sweep that ended well wait a while for the next.
_resting: list[tuple[Surroundings, ProcessPoolExecutor]] = []


def execute(
    tasks: Sequence[Task],
    folder: Path,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    limits: Limits | None = None,
    timing: bool = False,
    say: Say = print,
) -> dict[str, str]:
    """Run the tasks that are not done yet; a failing one does not stop the others.

    Parameters
    ----------
    tasks : those with equal keys are run once, and one whose file is damaged again
    folder : where their files go
    jobs : worker processes on this machine
    cluster : address of a Dask scheduler to use instead, such as ``tcp://node1:8786``
    timing : one worker, pinned to a core
    say : receives the progress, line by line

    Returns
    -------
    failures : the reason of each key that failed; the next call retries it

    Raises
    ------
    OSError
        If results cannot be written. Finished tasks are kept.
    KeyboardInterrupt
        After all workers have been stopped.
    """
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs!r}")
    folder.mkdir(parents=True, exist_ok=True)
    once = {task.key: task for task in tasks}
    waiting = {key: task for key, task in once.items() if not _done(task, folder, say)}
    progress = Progress(len(once), len(waiting), say)
    if not waiting:
        return {}
    _remove_litter(folder)
    session, failures = uuid.uuid4().hex[:12], {}
    run = partial(attempt, folder=folder, session=session, limits=limits or Limits(), timing=timing)
    if cluster:
        ended = _on_a_cluster(run, waiting, cluster)
    else:
        mark = partial(mark_of, folder, session)
        ended = _in_processes(run, waiting, 1 if timing else jobs, mark)
    try:
        with closing(ended):
            for key, status, text in ended:
                if status == "stop":
                    raise OSError(f"{text}; {progress.kept()}")
                if status == "done" and not waiting[key].path(folder).exists():
                    status, text = "failed", f"its worker does not share the folder {folder}"
                if status == "failed":
                    failures[key] = text
                progress.show(waiting[key].label, status, text)
    except KeyboardInterrupt:
        say(f"interrupted: {progress.kept()}")
        raise
    finally:
        for mark in folder.glob(f"*.{session}.begun"):
            mark.unlink(missing_ok=True)
    return failures


def _done(task: Task, folder: Path, say: Say) -> bool:
    """Return whether a task's file is there; a damaged one is reported and put out of the way."""
    path = task.path(folder)
    if not path.exists():
        return False
    try:
        task.check(path)
    except ValueError as error:
        say(f"{task.label}: {error}; it is run again")
        os.replace(path, path.with_suffix(".damaged"))
        return False
    return True


def _in_processes(
    run: Callable, tasks: Mapping[str, Task], jobs: int, mark: Callable[[str], Path]
) -> Iterator[Outcome]:
    """Yield how each task ended; one whose worker dies is tried once more in a new one."""
    with ExitStack() as stop:

        def worker(made: Callable[[], ProcessPoolExecutor] = _worker) -> ProcessPoolExecutor:
            pool = made()
            stop.callback(_end, pool)
            return pool

        idle = [worker() for _ in range(min(jobs, len(tasks)))]
        waiting, died, busy = list(reversed(tasks)), set(), {}
        while waiting or busy:
            while waiting and idle:
                try:
                    future = idle[-1].submit(run, tasks[waiting[-1]])
                except BrokenExecutor:  # its worker died while it had nothing to do
                    idle[-1] = worker()
                else:
                    busy[future] = waiting.pop(), idle.pop()
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                key, pool = busy.pop(future)
                try:
                    yield future.result()
                except BrokenExecutor:
                    pool = worker(_new_worker)  # one that rested may be dead, too
                    if overdue(mark(key)):
                        yield Outcome(key, "failed", TOO_LONG)
                    elif key in died:
                        yield Outcome(key, "failed", DIED)
                    else:
                        died.add(key)
                        waiting.append(key)
                except Exception as error:  # raised by pickle, not by the task
                    yield failed(key, error)
                idle.append(pool)
        stop.pop_all()
    _resting.extend((surroundings(), pool) for pool in idle)


def _worker() -> ProcessPoolExecutor:
    """Return a worker that rests and that a new one would not differ from, or else a new one."""
    now = surroundings()
    while _resting:
        before, pool = _resting.pop()
        if before.stand(now):
            return pool
        _end(pool)
    return _new_worker()


def _new_worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1, timeout=IDLE_S, env=ONE_THREAD, initializer=start, initargs=[os.getpid()]
    )


def fork_worker() -> None:
    """Fork a worker that rests until the first sweep; a process with other threads must not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`fork` start method", UserWarning)
        pool = ProcessPoolExecutor(
            1, context=get_context("fork"), initializer=start, initargs=[os.getpid()]
        )
        pool.submit(os.getpid)
    _resting.append((surroundings(), pool))


def _end(pool: ProcessPoolExecutor) -> None:
    """Kill a worker; an interrupt may have caught the pool, or its worker, half started."""
    with suppress(OSError, RuntimeError):
        pool.shutdown(kill_workers=True)


@atexit.register
def _end_resting() -> None:
    """Kill workers that rest: to end them otherwise takes this process seconds at its own end."""
    while _resting:
        _end(_resting.pop()[1])


def surroundings() -> Surroundings:
    """Return the surroundings of a new process: dates of code files, search path, folder, settings.

    An installation changes the date of the folder of libraries.
    """
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    ours = [f for f in files if f and not f.startswith((sys.prefix, sys.base_prefix))]
    ours += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    dates = {f: os.stat(f).st_mtime_ns for f in ours if os.path.exists(f)}
    settings = {n: v for n, v in os.environ.items() if n.startswith("WORKBENCH_")}
    return Surroundings(time.time_ns(), dates, tuple(sys.path), os.getcwd(), settings)


def _on_a_cluster(run: Callable, tasks: Mapping[str, Task], address: str) -> Iterator[Outcome]:
    """Yield how each task ended; Dask gives those of a dead worker to others."""
    with connected(address) as client, ExitStack() as stop:
        if set(client.nthreads().values()) != {1}:
            raise ValueError("cluster: start its workers with one thread each (--nthreads 1)")
        pool = client.get_executor(pure=False)
        stop.callback(pool.shutdown, wait=False)  # cancels what has not ended
        futures = {pool.submit(run, task): key for key, task in tasks.items()}
        for future in as_completed(futures):
            key = futures.pop(future)  # so that memory does not grow with the sweep
            try:
                yield future.result()
            except Exception as error:  # raised by the scheduler or a pickle, not by the task
                yield failed(key, error)


def _remove_litter(folder: Path) -> None:
    """Remove the marks and unfinished files that killed sweeps left."""
    for pattern in ("*.begun", "*.part", "*/*.part"):
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):  # of a sweep that runs at the same time
                if time.time() - path.stat().st_mtime > LITTER_S:
                    path.unlink()


@lru_cache(maxsize=1)
def busy_cores(minute: int) -> float:
    """Return how many cores other work keeps busy, measured while this process sleeps.

    It sleeps once in each `minute`: a notebook may call for sixty sweeps of a moment each.
    """
    return psutil.cpu_percent(0.3) / 100 * (os.cpu_count() or 1)
