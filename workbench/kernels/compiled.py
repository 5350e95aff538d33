"""Numba's `njit`, with machine code kept in one folder of the user, named by its
sources.

Numba keeps machine code next to the file that defines a kernel: each clone would
compile again, and changes in kernels of other files would go unnoticed. Here the file
name has a hash of all sources. Each file ends with a checksum of the rest: a damaged
one counts as missing, and is written again.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from platformdirs import user_cache_path

IMPORTS = re.compile(rb"^from (workbench[\w.]*) import", re.MULTILINE)
CHECKSUM_BYTES = 32
VERSIONS = f"{numba.__version__} {llvmlite.__version__} {np.__version__}"


def njit(*, cache: bool = False, **options) -> Callable[[Callable], Callable]:
    """Return ``numba.njit(**options)``; with `cache` the machine code is kept in
    `folder()`."""

    def compiled(function: Callable) -> Callable:
        kernel = numba.njit(**options)(function)
        if cache and not numba.config.DISABLE_JIT and folder():  # type: ignore[attr-defined]
            kernel._cache = _Cache(function)
        return kernel

    return compiled


@cache
def folder() -> Path | None:
    """Return NUMBA_CACHE_DIR, or ``workbench/kernels`` in the user's cache folder.

    If the folder cannot be written to, warn and return None.
    """
    try:
        user = user_cache_path("workbench", appauthor=False) / "kernels"
        place = Path(numba.config.CACHE_DIR or user)  # type: ignore[attr-defined]
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=place).close()
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        _not_kept(error)
        return None
    return place


def _not_kept(error: Exception) -> None:
    text = f"compiled code cannot be kept: {error}; set NUMBA_CACHE_DIR to a writable folder"
    warnings.warn_explicit(
        text, RuntimeWarning, "workbench", 1
    )  # one line on a terminal


class _Locator:
    """The place of one kernel's machine code, with the methods that
    `numba.core.caching` calls."""

    def __init__(self, function: Callable, file: str) -> None:
        self._py_file = file
        self.module = function.__module__

    @classmethod
    def from_function(cls, function: Callable, file: str) -> _Locator:
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(folder())

    def ensure_cache_path(self) -> None:
        """Do nothing: `folder` has made it."""

    def get_source_stamp(self) -> str:
        return f"{VERSIONS} {sources(self.module)}"

    def get_disambiguator(self) -> str:
        return sha256(f"{self.module} {self.get_source_stamp()}".encode()).hexdigest()[
            :20
        ]


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)  # type: ignore[assignment]


class _Files(IndexDataCacheFile):
    """The files of one kernel, with the methods that `numba.core.caching` calls."""

    def save(self, key: object, data: object) -> None:
        try:
            super().save(key, data)
        except OSError as error:  # the disk is full
            _not_kept(error)

    def _load_index(self) -> dict:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> object:
        if not _is_whole(path := self._data_path(name)):
            raise OSError(f"{path}: is damaged")  # Numba compiles the kernel again
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[BytesIO]:
        yield (sink := BytesIO())
        with super()._open_for_write(path) as file:
            file.write(sink.getvalue() + sha256(sink.getvalue()).digest())


def _is_whole(path: str) -> bool:
    """Return whether a file ends with the checksum of what is before."""
    content = b""
    with suppress(OSError):
        content = Path(path).read_bytes()
    return sha256(content[:-CHECKSUM_BYTES]).digest() == content[-CHECKSUM_BYTES:]


class _Cache(FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamp)


@cache
def sources(module: str) -> str:
    """Return a hash of a module and of those that it imports from, if they contain
    kernels.

    Kernels may take functions and constants from such modules only; a test checks this.
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
    """Return the digest and the imports of an imported module, nothing if it has no
    kernels."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    text = spec.loader.get_data(spec.origin) if spec else b""  # from a zip file too
    if b"njit" not in text and b"numba" not in text:
        return b"", []
    return sha256(text).digest(), [name.decode() for name in IMPORTS.findall(text)]
