"""Measure both arms of a benchmark alike: one clock, one limit, one memory gauge, one
file format.

Only NumPy, SciPy and the standard library: the peers' environment has no workbench.
"""

from __future__ import annotations

import resource
import threading
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import scipy.sparse as sp


class Clock:
    """Wall and CPU seconds (of all threads) spent inside the ``with`` block."""

    def __enter__(self) -> Clock:
        self.seconds = perf_counter()
        self.cpu = process_time()
        return self

    def __exit__(self, *error) -> None:
        self.seconds = perf_counter() - self.seconds
        self.cpu = process_time() - self.cpu


def limit_cpu(seconds: float) -> None:
    """Let the system end this process after `seconds` more CPU seconds, also inside C
    code."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(process_time() + seconds) + 1, hard))


def peak_memory() -> float:
    """Return the largest resident size of this process so far in MB (10^6 bytes).

    Linux hands ``ru_maxrss`` of the parent down to its children; VmHWM is this process
    alone.
    """
    # In bytes on macOS, which has no such status.
    return status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def status(name: str) -> float | None:
    """Return a size in MB from Linux's status of this process; None on other
    systems."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kib = next(line for line in lines if line.startswith(name)).split()[1]
    return int(kib) * 1024 / 1e6


class PeakMemory:
    """The largest memory of this process in MB (10^6 bytes), without the pages of
    mapped files.

    A thread looks every 10 ms, because no system counts this.
    """

    def __init__(self):
        self.largest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self._look()

    def _look(self) -> None:
        self.largest = max(self.largest, status("RssAnon") or peak_memory())

    def stop(self) -> float:
        """Return the largest memory so far, and look no longer."""
        self._look()
        self._ended.set()
        self._thread.join()
        return self.largest


def forget_peak() -> None:
    """Let :func:`peak_memory` start again from the memory in use now, if Linux can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def save_rows(path: Path, X, y: np.ndarray) -> None:
    """Save the rows and labels that every arm of a case starts from."""
    if sp.issparse(X):
        np.savez(
            path, y=y, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape
        )
    else:
        np.savez(path, y=y, X=X)


def load_rows(path: Path) -> tuple[np.ndarray | sp.csr_matrix, np.ndarray]:
    """Return the rows and labels that :func:`save_rows` saved."""
    with np.load(path, allow_pickle=False) as a:
        if "X" in a:
            return a["X"], a["y"]
        return sp.csr_matrix((a["data"], a["indices"], a["indptr"]), a["shape"]), a["y"]
