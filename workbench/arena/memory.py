"""The memory of a process: what it holds, and the most that it has held since it was last asked."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

# A copy of a few lines of benchmarks/measuring.py, which must run where there is no workbench.
STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def begin() -> float | None:
    """Forget the peak so far and return what is held now in MB (10^6 bytes), None off Linux.

    What was freed is given back to the system first: a fit that found it again would seem to need
    nothing.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)
    try:
        CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return None
    return _megabytes("VmRSS")


def peak() -> float:
    """Return the most that was held since :func:`begin` in MB."""
    return _megabytes("VmHWM")


def _megabytes(field: str) -> float:
    lines = STATUS.read_text(encoding="ascii").splitlines()
    kib = next(line for line in lines if line.startswith(f"{field}:")).split()[1]
    return int(kib) * 1024 / 1e6
