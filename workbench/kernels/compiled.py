"""Numba's `njit`, with machine code kept in one folder of the user, named by its sources.

Numba keeps machine code next to the file that defines a kernel, and uses it while that file is the
same. A second clone, a test's worker and an installed package would each compile everything again,
and kernels of other files that a kernel inlines could change unnoticed. Here the name of the
machine code contains a hash of all sources that it was compiled from.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from platformdirs import user_cache_path

IMPORTS = re.compile(rb"^from (workbench[\w.]*) import", re.MULTILINE)
KEPT_DAYS = 60  # machine code older than this is deleted by `workbench warm`
VERSIONS = f"{numba.__version__} {llvmlite.__version__} {np.__version__}"


def njit(*, cache: bool = False, **options) -> Callable[[Callable], Callable]:
    """Return ``numba.njit(**options)``; with `cache` the machine code is kept in `folder()`.

    A folder that cannot be written to, and files that were cut or damaged, cost the time of
    compiling again and one warning per process.
    """

    def compiled(function: Callable) -> Callable:
        kernel = numba.njit(**options)(function)
        if cache and not numba.config.DISABLE_JIT and folder():
            kernel._cache = _Cache(function)
        return kernel

    return compiled


@cache
def folder() -> Path | None:
    """Return the folder of compiled code, None if it cannot be written to.

    NUMBA_CACHE_DIR names it; by default it is ``workbench/kernels`` in the user's cache folder.
    """
    try:
        user = user_cache_path("workbench", appauthor=False) / "kernels"
        place = Path(numba.config.CACHE_DIR or user)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=place).close()
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        _warn_once(
            f"compiled code cannot be kept: {error}; every process compiles its solvers again, "
            "unless NUMBA_CACHE_DIR names a folder that can be written to"
        )
        return None
    return place


def delete_old() -> None:
    """Delete compiled code that was written more than `KEPT_DAYS` days ago."""
    for path in folder().glob("*.nb[ci]") if folder() else ():
        with suppress(OSError):  # another process may have been faster
            if path.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
                path.unlink()


class _Locator:
    """The place of one kernel's machine code, with the methods that `numba.core.caching` calls."""

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
        return sources(self.module)

    def get_disambiguator(self) -> str:
        return sha256(f"{self.module} {sources(self.module)}".encode()).hexdigest()[:20]


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Files(IndexDataCacheFile):
    """An index and machine code on disk; damaged code is compiled and written again."""

    def __init__(self, numbas: IndexDataCacheFile) -> None:
        self.__dict__.update(numbas.__dict__)
        self._version = VERSIONS

    def save(self, key: tuple, data: tuple) -> None:
        try:
            super().save(key, data)
        except OSError as error:  # a full disk, or a folder that has been locked since
            _warn_once(f"compiled code could not be kept: {error}")

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except Exception as error:  # unpickling damaged data may raise anything
            return self._report_damage(self._index_path, error) or {}

    def _load_data(self, name: str) -> tuple:
        data = Path(self._data_path(name)).read_bytes()
        if sha256(data[:-32]).digest() != data[-32:]:
            self._report_damage(self._data_path(name), "its checksum differs")
            raise OSError  # Numba then compiles
        return super()._load_data(name)

    def _dump(self, obj: object) -> bytes:
        data = super()._dump(obj)
        return data + sha256(data).digest()  # unpickling ignores what follows its end

    @staticmethod
    def _report_damage(path: str, error: object) -> None:
        _warn_once(f"{path}: damaged compiled code ({error}); it is compiled and written again")


class _Cache(FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file = _Files(self._cache_file)


@cache
def _warn_once(message: str) -> None:
    warnings.warn_explicit(message, RuntimeWarning, "workbench", 1)  # one line on a terminal


@cache
def sources(module: str) -> str:
    """Return a hash of a module and of those that it imports from, if they contain kernels.

    Kernels may take functions and constants from such modules only, which a test checks.
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
