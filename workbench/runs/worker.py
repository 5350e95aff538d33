"""A worker process, which runs one task at a time, within its limits, on one thread."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from threadpoolctl import threadpool_limits

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
GRACE_S = 20.0
DIED = "its worker died twice (out of memory, or a crash in compiled code)"
TOO_LONG = "exceeded its time limit within a round and was killed"
# PR_SET_PDEATHSIG: the process is killed when its parent ends in any way, even while
# compiled code runs here. On other systems it ends after its task.
WITH_ITS_PARENT = (
    "import ctypes; ctypes.CDLL(None).prctl(1, 9)" if psutil.LINUX else "pass"
)
# The program of a worker's process; its arguments are a file descriptor and sys.path.
SERVE = (
    f"{WITH_ITS_PARENT}; import sys; sys.path[:] = sys.argv[2:]; "
    "from workbench.runs import worker; worker.serve(int(sys.argv[1]))"
)


@dataclass(frozen=True)
class Limits:
    """Limits of one task: wall ``seconds`` and ``memory`` in GB, None for no limit.

    The time of a solver is checked after each of its rounds. A task and its worker are
    killed after 1.5 times the limit plus :data:`GRACE_S`; the additional time is for
    loading data and for evaluation. The memory limit is for allocations in addition to
    those that the process has; it is enforced on Linux only.
    """

    seconds: float | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None:
                continue
            if not isinstance(value, (int, float)) or not 0 < value < inf:
                raise ValueError(f"{name}: must be positive and finite, got {value!r}")


@dataclass(frozen=True)
class Task:
    """A picklable unit of work: a point of a grid, a notebook or a match of the arena.

    Attributes
    ----------
    key : str, its content key
    label : str, its name in messages
    place : str, the path, in the folder of tasks, of the file that marks it as done
    work : a function (path, limits) that writes the file whole or not at all, and
        returns a summary in a few words
    check : a function (path) that raises a ValueError if the file is damaged or belongs
        to another task
    """

    key: str
    label: str
    place: str
    work: Callable[[Path, Limits], str]
    check: Callable[[Path], object]

    def path(self, folder: Path) -> Path:
        return folder / self.place


class Outcome(NamedTuple):
    """The end of a task: its status is ``done`` or ``failed``."""

    status: str
    text: str


def attempt(task: Task, *, folder: Path, limits: Limits, timing: bool) -> Outcome:
    """Run one task in a worker."""
    path = task.path(folder)
    if path.exists():
        return Outcome("done", "already done by another run")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _limited_memory(limits.memory), _on_one_core(timing):
            return Outcome("done", task.work(path, limits))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return failed(error, limits)


def failed(error: BaseException, limits: Limits | None = None) -> Outcome:
    """Return the failed outcome of an error, in one line."""
    if isinstance(error, MemoryError):
        within = f"{limits.memory:g} GB" if limits and limits.memory else "there is"
        return Outcome("failed", f"out of memory: it needs more than {within}")
    kind = "" if isinstance(error, TimeoutError) else f"{type(error).__name__}: "
    return Outcome("failed", kind + " ".join(str(error).split())[:500])


@contextmanager
def _limited_memory(gigabytes: float | None) -> Iterator[None]:
    """Limit further allocations of this process to `gigabytes`, on Linux only."""
    if gigabytes is None or not psutil.LINUX:
        yield
        return
    process = psutil.Process()
    soft, hard = process.rlimit(psutil.RLIMIT_AS)
    limit = process.memory_info().vms + round(gigabytes * 2**30)
    if hard >= 0:  # a negative number means no limit
        limit = min(limit, hard)
    process.rlimit(psutil.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_AS, (soft, hard))


def timed_alone(timing: bool, jobs: int = 1) -> bool:
    """Return whether a notebook's runs are timed: if `timing`, and it runs alone."""
    if timing and jobs != 1:
        raise ValueError(f"jobs: must be 1 with timing, got {jobs!r}")
    return timing and os.environ.get("WORKBENCH_JOBS", "1") == "1"


@contextmanager
def one_thread(timed: bool) -> Iterator[None]:
    """Use one thread of BLAS in this process, and one core if its runs are timed."""
    with threadpool_limits(1), _on_one_core(timed):
        yield


@contextmanager
def _on_one_core(timing: bool) -> Iterator[None]:
    if not timing or not psutil.LINUX:
        yield
        return
    process = psutil.Process()
    cores = process.cpu_affinity()
    process.cpu_affinity(cores[-1:])
    try:
        yield
    finally:
        process.cpu_affinity(cores)


def duration(seconds: float) -> str:
    """Return a time in words: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 5940:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Worker:
    """Run tasks in another process, which is replaced if it dies or takes too long."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.ended = False
        self.lock = threading.Lock()
        self.killed: list[int] = []  # processes whose files may be unfinished

    def run(
        self, task: Task, attempt: Callable[[Task], Outcome], limits: Limits
    ) -> Outcome:
        """Return the outcome of a task; if its process dies, try it once more."""
        try:
            message = bytes(ForkingPickler.dumps(partial(attempt, task)))
        except Exception as error:  # a task with a nested function or an open file
            return failed(error)
        seconds = limits.seconds and 1.5 * limits.seconds + GRACE_S
        for _ in range(2):
            try:
                return self.answer(message, seconds)
            except TimeoutError:
                self.kill()
                return Outcome("failed", TOO_LONG)
            except (OSError, EOFError):  # the process is dead
                self.kill()
        return Outcome("failed", DIED)

    def kill(self, last: bool = False) -> None:
        """Kill the process; after the `last` call no other is started."""
        with self.lock:
            self.ended |= last
            if self.process:
                self.process.kill()
                self.process.wait()
                self.killed.append(self.process.pid)
                self.process = None

    def answer(self, message: bytes, seconds: float | None) -> Any:
        """Return the answer of the process to a pickled call, or raise a
        TimeoutError."""
        connection = self._started()
        connection.send_bytes(message)
        connection.recv()  # the call has begun; compiled code may never answer
        if not connection.poll(seconds):
            raise TimeoutError
        return connection.recv()

    def _started(self) -> Connection:
        with self.lock:
            if self.ended:
                raise InterruptedError("the sweep was stopped")
            if not self.process:
                self.connection, other = Pipe()
                with other:
                    self.process = subprocess.Popen(
                        [sys.executable, "-c", SERVE, str(other.fileno()), *sys.path],
                        stdin=subprocess.DEVNULL,
                        stdout=2,  # output of tasks goes to stderr
                        pass_fds=(other.fileno(),),
                        env=os.environ | ONE_THREAD,
                        start_new_session=True,
                    )
            return self.connection


def serve(descriptor: int) -> None:
    """Run the calls of a :class:`Worker`, as its process, until it closes the
    connection."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection = Connection(descriptor)
    while True:
        try:
            call = connection.recv()
        except EOFError:
            return
        except Exception as error:  # a module that the task needs is missing
            call = partial(failed, error)
        connection.send("begun")
        connection.send(call())
