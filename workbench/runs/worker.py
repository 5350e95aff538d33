"""One task in a worker process: held to its limits, on one thread, its failure in one line."""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

import numba
import numpy as np
import psutil
from scipy.linalg import solve
from threadpoolctl import threadpool_limits

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
DIED = "its worker died, twice (out of memory, or a crash in compiled code)"
TOO_LONG = "exceeded its time within a round and was killed"


class Task(Protocol):
    """A task of the engine; it must be picklable."""

    key: str
    label: str

    def path(self, folder: Path) -> Path:
        """Return the file that marks it as done; it appears whole or not at all."""

    def check(self, path: Path) -> None:
        """Raise a ValueError if the file there is not a whole one of this task."""

    def run(self, folder: Path, limits: Limits) -> str:
        """Do the work in a worker and return in a few words how it went; raise if it failed."""


@dataclass(frozen=True)
class Limits:
    """Limits of one task: wall ``seconds`` and ``memory`` in GB, None for no limit.

    The time of a solver is checked after each of its rounds. A task that takes half as much again
    and five seconds in all, with its data and its evaluation, is killed with its worker. The
    memory is what the process may allocate beyond what it has; it is enforced on Linux alone.
    """

    seconds: float | None = None
    memory: float | None = None

    def __post_init__(self):
        for name, value in vars(self).items():
            if value is not None and not (isinstance(value, (int, float)) and 0 < value < inf):
                raise ValueError(f"{name}: must be positive and finite, got {value!r}")


class Outcome(NamedTuple):
    """The end of a task: ``done``, ``failed`` or, if results cannot be kept, ``stop``."""

    key: str
    status: str
    text: str


def attempt(task: Task, *, folder: Path, session: str, limits: Limits, timing: bool) -> Outcome:
    """Run one task in a worker."""
    if task.path(folder).exists():
        return Outcome(task.key, "done", "already done by another run")
    mark = mark_of(folder, session, task.key)
    try:
        if overdue(mark):  # a scheduler sent it here after it had killed another worker
            return Outcome(task.key, "failed", TOO_LONG)
        _one_thread()
        with _limited(limits, mark), _on_one_core(timing):
            outcome = Outcome(task.key, "done", task.run(folder, limits))
    except TimeoutError as error:
        outcome = Outcome(task.key, "failed", one_line(error))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        outcome = failed(task.key, error, limits, folder)
    mark.unlink(missing_ok=True)
    return outcome


def failed(
    key: str, error: BaseException, limits: Limits | None = None, folder: Path | None = None
) -> Outcome:
    """Return an error in one line; one that says that results cannot be kept stops the sweep."""
    number, place = getattr(error, "errno", None), getattr(error, "filename", None)
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        within = f"{limits.memory:g} GB" if limits and limits.memory else "there is"
        return Outcome(key, "failed", f"out of memory: it needs more than {within}")
    ours = folder and isinstance(place, (str, Path)) and Path(place).is_relative_to(folder)
    status = "stop" if number in DISK_FULL or ours else "failed"
    return Outcome(key, status, f"{type(error).__name__}: {one_line(error)}")


@cache
def _one_thread() -> None:
    """Give every numeric library of this process one thread, those not yet loaded too."""
    # Numba is loaded, and refuses another value of its own variable from then on.
    os.environ |= {n: one for n, one in ONE_THREAD.items() if not n.startswith("NUMBA")}
    threadpool_limits(1)
    numba.set_num_threads(1)


@contextmanager
def _limited(limits: Limits, mark: Path) -> Iterator[None]:
    """Hold the process to the limits; the mark shows that the task began, and why it was killed."""
    with open(mark, "w") as report, limited_memory(limits.memory):
        if limits.seconds:
            # Its thread is C and needs no lock of Python's: compiled code cannot hold it up.
            hard = 1.5 * limits.seconds + 5
            faulthandler.dump_traceback_later(hard, exit=True, file=report)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def limited_memory(gigabytes: float | None) -> Iterator[None]:
    """Let this process allocate no more than that beyond what it has, on Linux."""
    if gigabytes is None or not psutil.LINUX:
        yield
        return
    import resource  # Unix only

    _take_buffers()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + round(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@cache
def _take_buffers() -> None:
    """Let NumPy's and SciPy's OpenBLAS take their buffers, for which they would wait forever."""
    A = np.eye(100)
    solve(A, A @ A, assume_a="pos")


def timed_alone(timing: bool) -> bool:
    """Return whether the runs of a notebook itself are timed: no other notebook runs."""
    return timing and os.environ.get("WORKBENCH_JOBS", "1") == "1"


@contextmanager
def one_thread(timed: bool) -> Iterator[None]:
    """Hold this process to one thread of BLAS, and to one core if its runs are timed."""
    with threadpool_limits(1), _on_one_core(timed):
        yield


@contextmanager
def _on_one_core(timing: bool) -> Iterator[None]:
    process = psutil.Process()
    if not timing or not hasattr(process, "cpu_affinity"):  # macOS has none
        yield
        return
    cores = process.cpu_affinity()
    process.cpu_affinity(cores[-1:])
    try:
        yield
    finally:
        process.cpu_affinity(cores)


def keep_off_timed_core() -> None:
    """Leave the core that timed runs are pinned to, where there is another one."""
    process = psutil.Process()
    if hasattr(process, "cpu_affinity") and len(cores := process.cpu_affinity()) > 1:
        process.cpu_affinity(cores[:-1])


def mark_of(folder: Path, session: str, key: str) -> Path:
    """Return the file that is there while a task runs, and after the death of its worker."""
    return folder / f"{key}.{session}.begun"


def overdue(mark: Path) -> bool:
    """Return whether a task was killed for its time: then its mark has a traceback."""
    return mark.exists() and mark.stat().st_size > 0


def duration(seconds: float) -> str:
    """Return a time in words: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5940 else f"{seconds / 3600:.1f} h"


def one_line(error: BaseException) -> str:
    """Return the message of an error without its line breaks, at most some 500 characters."""
    text = " ".join(str(error).split())
    return text if len(text) <= 500 else f"{text[:500]} ..."


def start(parent: int) -> None:
    """Make a new worker leave Ctrl-C to its parent, and end when the parent ends, however."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not what the command line makes of it
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(1)
    os._exit(1)
