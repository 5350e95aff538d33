"""Writing files whole or not at all, and digests of their content."""

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
    """Yield the path of a temporary file, which replaces `path` if no error occurs.

    The temporary file is next to `path`. Its name contains the number of this process
    and ends with `suffix`. The folder is created if necessary. If `path` is a link, the
    file that it points to is replaced. If several processes write to the same path, one
    whole file remains. If `path` exists but is not a file (a pipe, say), `path` itself
    is yielded. An OSError names `path`.
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
    """Make an OSError name `path` if it names no file, or names `part`."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename) == str(part):
            text = error.strerror or str(error)
            raise OSError(error.errno, text, str(path)) from error
        raise


def digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    For a file that is larger than `MAX_DIGEST_BYTES` or cannot be read, return its size
    and date instead. For anything else (a folder, a pipe, a broken link), return an
    empty text.
    """
    result = ""
    with suppress(OSError):
        if path.is_file():
            status = path.stat()
            result = f"{status.st_size} {status.st_mtime_ns}"
            if status.st_size <= MAX_DIGEST_BYTES:
                with path.open("rb") as file:
                    result = file_digest(file, "sha256").hexdigest()
    return result
