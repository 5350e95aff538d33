"""The folders that hold data sets on this machine, and how a set gets into the cache.

Both folders hold ``<name>.npz`` (:func:`workbench.data.formats.read_npz`). The cache also keeps
the downloaded files, ``<name>/<file>``, and in SHA256SUMS the checksum of all that it holds, as it
was when it first came: ``sha256sum -c SHA256SUMS`` checks the lot.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from workbench.data.formats import BROKEN, Rows, read_npz, write_npz
from workbench.data.routes import Source, download

LEDGER = "SHA256SUMS"


def mirror_folder() -> Path | None:
    """The local mirror: the folder that WORKBENCH_DATA names, if any."""
    folder = os.environ.get("WORKBENCH_DATA")
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """WORKBENCH_CACHE, else data/cache of the checkout, else the user's cache folder."""
    if folder := os.environ.get("WORKBENCH_CACHE"):
        return Path(folder).expanduser()
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data" / "cache"
    import pooch  # with requests, only where it is needed

    return Path(pooch.os_cache("workbench"))


def held() -> dict[str, tuple[str, Path]]:
    """Return every set at hand: its name -> where it lies, "local mirror" or "cache", and its file.

    The local mirror goes before the cache.
    """
    files = {path.stem: ("cache", path) for path in sorted(cache_folder().glob("*.npz"))}
    if mirror := mirror_folder():
        files |= {path.stem: ("local mirror", path) for path in sorted(mirror.glob("*.npz"))}
    return files


def state_of_folders(mentioned: Iterable[str] = ()) -> list[list]:
    """Return name, size and date of every data file at hand, and of files that a text names.

    Parameters
    ----------
    mentioned : texts such as ``"digits, my rows.csv @ given + 400 fourier"``
    """
    folders = [folder for folder in (mirror_folder(), cache_folder()) if folder and folder.is_dir()]
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    words = [word.strip() for text in mentioned for word in re.split(r"[,+|@]| or ", text)]
    # A word with a suffix or a folder may be a file; others are names of data sets or numbers.
    words = [word for word in words if len(word) < 1000 and re.search(r"[./]", word)]
    named = [Path(os.path.expanduser(word)) for word in words]
    seen = [path for path in files + named if path.is_file()]
    return [[str(p), (s := p.stat()).st_size, s.st_mtime_ns] for p in seen]


def read(path: Path) -> Rows:
    """Read a set at hand; a file of the cache must be as it was when it came.

    Raises
    ------
    ValueError
        When it has changed since, or cannot be read.
    """
    known = _recorded(path.parent).get(path.name)
    if known not in (None, _digest(path)):
        raise ValueError(f"{path}: is not as it was fetched; delete it to fetch it again")
    return read_npz(path)


def fetch_into_cache(name: str, source: Source, progress: bool = False) -> None:
    """Get a set by the first of its routes that leads to rows of the published shape.

    Raises
    ------
    FileNotFoundError
        Saying what was tried and how to get the set. No half file stays behind, and no file whose
        checksum nobody knows and whose content is not what it should be.
    """
    folder = cache_folder()
    answers = []
    for route in source.routes:
        paths = {file: folder / name / file.name for file in route.files}
        known = _recorded(folder)
        try:
            for file, path in paths.items():
                download(file, path, known.get(f"{name}/{file.name}"), progress)
            rows = route.parse(list(paths.values()), source)
            shape = (*rows.X.shape, len(np.unique(rows.y)))
            if faults := differences(shape, rows.n_train, source):
                raise ValueError(f"not the published set: {'; '.join(faults)}")
        except (*BROKEN, KeyError, tarfile.TarError) as error:
            answers.append(f"{route.name}: {error}")
            for file, path in paths.items():
                if file.sha256 is None and f"{name}/{file.name}" not in known:
                    path.unlink(missing_ok=True)
            with suppress(OSError):  # it may hold other files
                (folder / name).rmdir()
            continue
        held_as = folder / f"{name}.npz"
        write_npz(held_as, rows._replace(about=f"{source.origin}; {source.licence}; {route.name}"))
        _record(folder, [*paths.values(), held_as])
        return
    raise FileNotFoundError(_advice(name, source, answers))


def differences(
    shape: tuple[int, int, int], n_train: int | None, source: Source
) -> tuple[str, ...]:
    """Say where rows, features, classes and training rows differ from what is published."""
    what = ("rows", "features", "classes", "training rows")
    published = (*source.shape, source.n_train)
    return tuple(
        f"{name}: {have}, published {want}"
        for name, have, want in zip(what, (*shape, n_train), published)
        if have != want and not (name == "features" and want is None)
    )


def _advice(name: str, source: Source, answers: list[str]) -> str:
    mirror, cache = mirror_folder(), cache_folder()
    place = f"no {name}.npz in {mirror}" if mirror else "WORKBENCH_DATA is not set"
    tried = [f"local mirror: {place}", f"cache: no {name}.npz in {cache}", *answers]
    files = dict.fromkeys(file.name for route in source.routes for file in route.files)
    if not source.routes:
        tried.append("download: no public file has these rows")
        advice = f"Make {name}.npz from its origin ({source.origin})"
    else:
        advice = f"Run `workbench data fetch {name}` with a network, or bring {name}.npz"
    if files:
        advice += f", or put {', '.join(files)} into {cache / name}"
    lines = [f"  {line}" for answer in tried for line in answer.splitlines()]
    return "\n".join(
        [
            f"{name} cannot be had here. Tried:",
            *lines,
            f"{advice}. WORKBENCH_DATA names the folder of the local mirror; data/README.md has "
            "the format.",
        ]
    )


def _recorded(folder: Path) -> dict[str, str]:
    """File, relative to the folder -> its SHA-256 as it was last recorded."""
    try:
        lines = (folder / LEDGER).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _record(folder: Path, paths: list[Path]) -> None:
    """Append what is new, in one write: other processes may do the same."""
    known = _recorded(folder)
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in paths}
    lines = [f"{digest}  {file}\n" for file, digest in digests.items() if known.get(file) != digest]
    with (folder / LEDGER).open("a") as ledger:
        ledger.write("".join(lines))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
