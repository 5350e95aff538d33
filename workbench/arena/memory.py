"""The memory of this process, in MB (10^6 bytes): what it holds, and the most since it was asked.

A copy of a few lines of benchmarks/measuring.py, which must run without the workbench.
"""

from __future__ import annotations

import ctypes
import gc
import re
from contextlib import suppress
from pathlib import Path

CLEAR = Path("/proc/self/clear_refs")


def begin() -> float | None:
    """Forget the peak so far and return what is held now, None off Linux.

    Freed memory is first given back to the system: a fit that reused it would seem to need none.
    """
    # What stays, modules and compiled kernels, is walked once and not each time, for 0.2 s.
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    try:
        CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return None
    return _megabytes("VmRSS")


def peak() -> float:
    """Return the most that was held since :func:`begin`."""
    return _megabytes("VmHWM")


def _megabytes(field: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"{field}:\s*(\d+)", status)[1]) * 1024 / 1e6
