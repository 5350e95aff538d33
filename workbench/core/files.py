"""Files that appear whole or not at all, and what is in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from uuid import uuid4

from workbench.core.kinds import PathLike

MAX_DIGEST_BYTES = 2**26


@contextmanager
def whole(path: PathLike, suffix: str = "") -> Iterator[Path]:
    """Yield the path of a new file next to `path`, which replaces it unless an error
    occurs.

    The folder is created; a link stays, and its file is replaced. If several processes
    write to the same place, one whole file remains. What is not a file, such as a pipe,
    is written to at once. An OSError names `path`. The new file's name has the number
    of this process and ends with `suffix`.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(
        f"{target.name}.{os.getpid()}-{uuid4().hex[:8]}.part{suffix}"
    )
    with naming(path, part):
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.exists(path) and not target.is_file():
            yield Path(path)
            return
        try:
            yield part
            os.replace(part, target)
        finally:
            with suppress(OSError):
                part.unlink()


@contextmanager
def naming(path: PathLike | None, part: PathLike | None = None) -> Iterator[None]:
    """Let an OSError that names no file, or `part`, name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename) == str(part):
            text = error.strerror or str(error)
            raise OSError(error.errno, text, str(path)) from error
        raise


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, empty for a link to nowhere, a folder, a pipe and
    the like.

    Of a file above `MAX_DIGEST_BYTES` it is the size and the date instead, and of one
    that may not be read.
    """
    found = ""
    with suppress(OSError):
        if path.is_file():
            status = path.stat()
            found = f"{status.st_size} {status.st_mtime_ns}"
            if status.st_size <= MAX_DIGEST_BYTES:
                with path.open("rb") as file:
                    found = file_digest(file, "sha256").hexdigest()
    return found
