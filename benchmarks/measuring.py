"""The clock, time limit, memory gauge and file format that all arms of benchmarks
share.

It imports only NumPy, SciPy and the standard library, because the peers' environment
has no workbench.
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
    """Let the system end this process after `seconds` more CPU seconds, even in C
    code."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(process_time() + seconds) + 1, hard))


def peak_memory() -> float:
    """Return the largest resident size of this process so far in MB (10^6 bytes).

    On Linux a child inherits ``ru_maxrss`` of its parent, while VmHWM is of this
    process alone.
    """
    # On macOS, which has no such status, ru_maxrss is in bytes.
    return status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def status(name: str) -> float | None:
    """Return a size in MB from Linux's status of this process, or None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kib = next(line for line in lines if line.startswith(name)).split()[1]
    return int(kib) * 1024 / 1e6


class PeakMemory:
    """The largest memory of this process in MB (10^6 bytes), without mapped files.

    A thread samples it every 10 ms, because no system records it.
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
        """Return the largest memory so far, and stop sampling."""
        self._look()
        self._ended.set()
        self._thread.join()
        return self.largest


def forget_peak() -> None:
    """Reset :func:`peak_memory` to the memory in use now, where Linux allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def save_rows(path: Path, X, y: np.ndarray) -> None:
    """Save the rows and labels for all arms of a case."""
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
