"""Numba's `njit`, with a cache on disk that knows all files that a kernel is compiled from.

Numba takes machine code from its cache while the file that defines the kernel is the same. The
kernels of other files that it calls are part of that code: after a change of theirs, the old
answer came back. The version of the cache here covers them too, and an index that names types of
a module that has moved is not read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256

import numba

IMPORTS = re.compile(rb"^from (workbench[\w.]*) import", re.MULTILINE)


def njit(**options) -> Callable[[Callable], Callable]:
    """Return ``numba.njit(**options)``, whose cache is renewed when any of its sources changes."""

    def compiled(function: Callable) -> Callable:
        kernel = numba.njit(**options)(function)
        file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
        if file:  # Numba's index on disk, which is read no further where its version is another
            file._version = f"{file._version} {sources(function.__module__)}"
        return kernel

    return compiled


@cache
def sources(module: str) -> str:
    """Return a hash of a module and of those that it imports from, as far as they hold kernels.

    A kernel takes functions and constants from such modules alone; a test holds it.
    """
    digests: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        if (name := waiting.pop()) not in digests:
            digests[name], imported = _read(name)
            waiting += imported
    return sha256(b"".join(digests[name] for name in sorted(digests))).hexdigest()


@cache
def _read(module: str) -> tuple[bytes, list[str]]:
    """Return the digest and the imports of an imported module, nothing if it has no kernels."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    text = spec.loader.get_data(spec.origin) if spec else b""  # from a zip file too
    if b"njit" not in text and b"numba" not in text:
        return b"", []
    return sha256(text).digest(), [name.decode() for name in IMPORTS.findall(text)]
