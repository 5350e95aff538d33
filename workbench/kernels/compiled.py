"""Numba's `njit`, with machine code cached in one folder per user.

Numba itself caches machine code next to the file that defines a kernel. Then each clone
compiles again, and changes in kernels of other files go unnoticed. Here the name of a
cache file contains a hash of all its sources. Each file ends with a checksum of its
content: a damaged file counts as missing, and is written again.
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


def njit(
    function: Callable | None = None, *, cache: bool = True, **options
) -> Callable:
    """Return ``numba.njit(function, **options)``, whose machine code is stored in
    :func:`folder` unless `cache` is false; without a function, return a decorator."""

    def compiled(function: Callable) -> Callable:
        kernel = numba.njit(**options)(function)
        if cache and not numba.config.DISABLE_JIT and folder():  # type: ignore[attr-defined]
            kernel._cache = _Cache(function)
        return kernel

    return compiled if function is None else compiled(function)


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
    text = f"compiled code cannot be cached: {error}"
    text += "; set NUMBA_CACHE_DIR to a writable folder"
    # This warning takes one line on a terminal.
    warnings.warn_explicit(text, RuntimeWarning, "workbench", 1)


class _Locator:
    """The location of one kernel's machine code, as `numba.core.caching` expects it."""

    def __init__(self, function: Callable, file: str) -> None:
        self._py_file = file
        self.module = function.__module__

    @classmethod
    def from_function(cls, function: Callable, file: str) -> _Locator:
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(folder())

    def ensure_cache_path(self) -> None:
        """Do nothing: :func:`folder` has made the folder."""

    def get_source_stamp(self) -> str:
        return f"{VERSIONS} {sources(self.module)}"

    def get_disambiguator(self) -> str:
        stamp = f"{self.module} {self.get_source_stamp()}"
        return sha256(stamp.encode()).hexdigest()[:20]


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)  # type: ignore[assignment]


class _Files(IndexDataCacheFile):
    """The files of one kernel; `numba.core.caching` calls these methods."""

    def save(self, key: object, data: object) -> None:
        # Numba numbers the files of a kernel. Two processes that compile it for
        # different types could take the same number, and one could then read the
        # other's code.
        name = f"{self._index_name}.{sha256(repr(key).encode()).hexdigest()[:20]}.nbc"
        try:
            self._save_data(name, data)
            self._save_index(self._load_index() | {key: name})
        except OSError as error:  # such as a full disk
            _not_kept(error)

    def _load_index(self) -> dict:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> object:
        path = self._data_path(name)
        if not _is_whole(path):
            raise OSError(f"{path}: is damaged")  # Numba compiles the kernel again
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[BytesIO]:
        buffer = BytesIO()
        yield buffer
        content = buffer.getvalue()
        with super()._open_for_write(path) as file:
            file.write(content + sha256(content).digest())


def _is_whole(path: str) -> bool:
    """Return whether a file ends with the checksum of the content before it."""
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
    """Return a hash of a module and of all modules with kernels that it imports.

    Kernels use functions and constants of such modules only; a test checks this.
    """
    digests: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in digests:
            digests[name], imported = _read(name)
            waiting += imported
    return sha256(b"".join(digests[name] for name in sorted(digests))).hexdigest()


@cache
def _read(module: str) -> tuple[bytes, list[str]]:
    """Return a module's digest and imports; both are empty if it has no kernels."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    # The loader also reads from a zip file.
    text = spec.loader.get_data(spec.origin) if spec else b""
    if b"njit" not in text and b"numba" not in text:
        return b"", []
    return sha256(text).digest(), [name.decode() for name in IMPORTS.findall(text)]
