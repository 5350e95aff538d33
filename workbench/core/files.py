"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from workbench.core.kinds import PathLike


@contextmanager
def whole(path: PathLike) -> Iterator[Path]:
    """Yield the path of a new file next to `path`, which replaces it unless an error occurs.

    The folder is created. If several processes write to the same place, one whole file remains.
    An OSError that names no file, as of a full disk, names `path`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        if error.errno and error.filename in (None, str(part)):
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)
