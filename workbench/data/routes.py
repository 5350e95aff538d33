"""Ways to get a published data set: which files to download, and how to read them together."""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.data.formats import Rows, read_delimited, read_idx, read_libsvm

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
UCI = "https://archive.ics.uci.edu/"


@dataclass(frozen=True)
class File:
    """One file of a set: its mirrors, tried in turn, and its SHA-256 where it is known."""

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None


@dataclass(frozen=True)
class Route:
    """One way to get a set: files to download, and a function of their paths and the source."""

    files: tuple[File, ...]
    parse: Callable[[Sequence[Path], Source], Rows]
    name: str = ""


@dataclass(frozen=True)
class Source:
    """One published data set.

    Attributes
    ----------
    shape : all rows, features (None where the vocabulary decides) and classes
    licence, origin : as published
    n_train : the published number of training rows, or None without a published split
    routes : ways to get it, tried in turn; none for sets that only a local mirror can hold
    labels : the classes in the order of their codes, where the routes spell them differently
    """

    shape: tuple[int, int | None, int]
    licence: str
    origin: str
    n_train: int | None = None
    routes: tuple[Route, ...] = ()
    labels: tuple | None = None


def download(file: File, path: Path, known: str | None = None, progress: bool = False) -> None:
    """Put `file` at `path`, from the first mirror that has it; a failure leaves nothing behind.

    Parameters
    ----------
    file : what to download; without a SHA-256 of its own `known` is asked for, if given
    path : where it goes; a file that is there already and has the right checksum stays
    progress : show a bar

    Raises
    ------
    OSError
        When no mirror has it, saying what each of them answered.
    """
    import pooch  # with requests, only where something is downloaded

    # It would report each download, and the hash of what it did not know.
    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=2**16, timeout=30)
    answers = []
    for url in file.urls:
        try:
            pooch.retrieve(url, file.sha256 or known, path.name, path.parent, downloader=downloader)
            return
        except (OSError, ValueError) as error:
            answers.append(f"{url}: {error}")
    raise OSError("\n".join(answers))


def libsvm(*paths: str, dense: bool = False, planes: int = 1) -> tuple[Route, ...]:
    """The route to one training file or a training and a test file of the LIBSVM collection.

    Rows of `planes` images, one a colour, become images of that many values a pixel.
    """
    files = tuple(File(path.rpartition("/")[2], (LIBSVM + path,)) for path in paths)
    return (Route(files, partial(_libsvm, dense=dense, planes=planes), "LIBSVM"),)


def uci(
    archive: str,
    members: Sequence[str],
    twin: str | None = None,
    old: str | None = None,
    sha256: str | None = None,
    separator: str | None = ",",
    label: int = -1,
) -> tuple[Route, ...]:
    """Routes to a zip of the UCI repository.

    `twin` is where the older site has the same zip, `old` its folder of the unpacked files.
    """
    name = archive.rpartition("/")[2].replace("+", "_")
    older = f"{UCI}ml/machine-learning-databases/"
    urls = (f"{UCI}static/public/{archive}", *([older + twin] if twin else []))
    parse = partial(_tables, members=members, separator=separator, label=label)
    zipped = Route((File(name, urls, sha256),), parse, "UCI")
    if old is None:
        return (zipped,)
    files = tuple(File(member, (f"{older}{old}/{member}",)) for member in members)
    return (zipped, Route(files, parse, "UCI, older site"))


def idx(*folders: str) -> tuple[Route, ...]:
    """The route to the four files of MNIST's format, each in any of the folders."""
    names = [
        f"{part}-{kind}-ubyte.gz"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ]
    files = tuple(File(name, tuple(f"{folder}/{name}" for folder in folders)) for name in names)
    return (Route(files, _idx, "idx files"),)


def openml(data_id: int) -> tuple[Route, ...]:
    """The route through scikit-learn to a numeric table of OpenML, which checks its own MD5."""
    return (Route((), partial(_openml, data_id=data_id), f"OpenML {data_id}"),)


def newsgroups() -> tuple[Route, ...]:
    """The route to the archive of 20 Newsgroups, sorted by date, that scikit-learn uses."""
    urls = (
        "https://ndownloader.figshare.com/files/5975967",
        "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
    )
    return (Route((File("20news-bydate.tar.gz", urls),), _newsgroups, "20 Newsgroups"),)


def _libsvm(paths: Sequence[Path], source: Source, dense: bool, planes: int) -> Rows:
    parts = [read_libsvm(path, source.shape[1], np.float32) for path in paths]
    X = sp.vstack([X for X, _ in parts], format="csr")
    n_train = parts[0][0].shape[0] if source.n_train is not None else None
    y = np.concatenate([y for _, y in parts])
    if dense:
        X = X.toarray().reshape(len(y), planes, -1).transpose(0, 2, 1).reshape(len(y), -1)
    return Rows(X, y, n_train)


def _tables(
    paths: Sequence[Path], source: Source, members: Sequence[str], separator: str | None, label: int
) -> Rows:
    if zipfile.is_zipfile(paths[0]):
        with zipfile.ZipFile(paths[0]) as archive:
            inside = {name.rpartition("/")[2]: name for name in archive.namelist()}
            texts = [archive.read(inside[member]).decode("latin-1") for member in members]
    else:
        texts = [path.read_text("latin-1") for path in paths]
    rows = read_delimited(texts, separator, label)
    return rows._replace(n_train=source.n_train)


def _idx(paths: Sequence[Path], source: Source) -> Rows:
    images, y, images_test, y_test = map(read_idx, paths)
    X = np.concatenate([images, images_test])
    return Rows(X.reshape(len(X), -1), np.concatenate([y, y_test]), len(y))


def _openml(paths: Sequence[Path], source: Source, data_id: int) -> Rows:
    from sklearn.datasets import fetch_openml

    # Its own cache would keep a second copy.
    with tempfile.TemporaryDirectory() as folder:
        table = fetch_openml(data_id=data_id, data_home=folder, as_frame=True, parser="auto")
    y = table.target.to_numpy().astype(str)
    X = table.data.to_numpy(dtype=np.float32)
    return Rows(X, y, source.n_train, tuple(map(str, table.feature_names)))


def _newsgroups(paths: Sequence[Path], source: Source) -> Rows:
    from sklearn.feature_extraction.text import CountVectorizer

    texts = {}
    with tarfile.open(paths[0]) as archive:
        for member in archive:
            if member.isfile() and member.name.startswith("20news-bydate-"):
                texts[member.name] = archive.extractfile(member).read().decode("latin-1")
    # "20news-bydate-test" sorts before "20news-bydate-train".
    names = sorted(texts, key=lambda name: (not name.startswith("20news-bydate-train"), name))
    n_train = sum(name.startswith("20news-bydate-train") for name in names)
    counter = CountVectorizer(dtype=np.int16).fit(texts[name] for name in names[:n_train])
    X = counter.transform(texts[name] for name in names)
    return Rows(X, np.array([name.split("/")[1] for name in names]), n_train)
