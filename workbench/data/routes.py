"""Download and read published data sets: their files, and the parsers of their rows."""

from __future__ import annotations

import math
import shutil
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.data.formats import Rows, as_integers, open_text, read_libsvm

CC_BY = "CC BY 4.0"
SHA256 = {
    "htru2.zip": "ba442c076dd22a8952700f26e38499fc1806037dcf7bea0e125e6bfba393f379",
    "dry_bean_dataset.zip": "0a64eff5be87f48c3dbbfc0a12a56c5d5b5167ef8e61cd45d69b3e7c7130c06f",
    "letter_recognition.zip": "3b5f07a334697b6cace4fbae22940393a18fee596e73f68d97ce5973d52dc60f",
}
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
MRCPY = "https://github.com/MachineLearningBCAM/MRCpy/releases/download/v3.0.0-data/"
LSHTC = "https://lshtc.iit.demokritos.gr/files/second/datasets/"
UCI = "https://archive.ics.uci.edu/static/public/"


class File(NamedTuple):
    """One file of a data set: its mirrors, tried in turn, and its SHA-256 if it is known."""

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None


@dataclass(frozen=True)
class Source:
    """One published data set.

    Attributes
    ----------
    origin, licence : as published
    shape : all rows, features and classes; None for what is not published
    files : to download
    parse : makes the rows of the paths of these files and the source; None for data sets that
        only a local mirror can hold
    n_train : the published number of training rows, or None without a published split
    labels : the classes in the order of their codes, if the files spell them differently
    """

    origin: str
    shape: tuple[int | None, int | None, int | None]
    licence: str = "not stated"
    files: tuple[File, ...] = ()
    parse: Callable[[Sequence[Path], Source], Rows] | None = None
    n_train: int | None = None
    labels: tuple | None = None


def libsvm(
    origin: str,
    sizes: tuple,
    paths: str,
    licence: str = "not stated",
    sparse: bool = False,
    planes: int = 1,
    labels: tuple | None = None,
) -> Source:
    """Return a data set of the LIBSVM collection.

    Parameters
    ----------
    sizes : training rows (None without a published split), all rows, features, classes
    paths : of the training file and, if any, the test file, separated by a blank
    sparse : keep the rows sparse
    planes : rows of that many images, one per colour, become images of that many values per pixel
    """
    n_train, n, d, k = sizes
    folder = LIBSVM + ("binary/" if k == 2 else "multiclass/")
    files = tuple(File(path.rpartition("/")[2], (folder + path,)) for path in paths.split())
    parse = partial(_libsvm, sparse=sparse, planes=planes)
    return Source(f"{origin}, LIBSVM", (n, d, k), licence, files, parse, n_train, labels)


def uci(
    origin: str,
    shape: tuple,
    archive: str,
    *members: str,
    separator: str | None = ",",
    label: int = -1,
    **more,
) -> Source:
    """Return a data set of the UCI repository, whose tables are members of a zip archive."""
    name = archive.rpartition("/")[2].replace("+", "_")
    file = File(name, (UCI + archive,), SHA256.get(name))
    parse = partial(_zipped, members=members, separator=separator, label=label)
    return Source(origin, shape, CC_BY, (file,), parse, **more)


def idx(origin: str, licence: str, folders: Sequence[str]) -> Source:
    """Return a data set of four files in MNIST's format, each in any of the folders."""
    kinds = "images-idx3", "labels-idx1"
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in kinds]
    files = tuple(File(name, tuple(f"{folder}/{name}" for folder in folders)) for name in names)
    return Source(origin, (70_000, 784, 10), licence, files, _idx, n_train=60_000)


def openml(origin: str, shape: tuple, licence: str, data_id: int, labels: tuple) -> Source:
    """Return a numeric table of OpenML; scikit-learn downloads it and checks its MD5."""
    parse = partial(_openml, data_id=data_id)
    return Source(f"{origin}, OpenML {data_id}", shape, licence, parse=parse, labels=labels)


def newsgroups(origin: str, shape: tuple, n_train: int) -> Source:
    """Return the archive of 20 Newsgroups, sorted by date, that scikit-learn uses."""
    urls = (
        "https://ndownloader.figshare.com/files/5975967",
        "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
    )
    files = (File("20news-bydate.tar.gz", urls),)
    return Source(origin, shape, files=files, parse=_newsgroups, n_train=n_train)


def resnet18(images: str, shape: tuple, name: str, parts: int, header: bool = False) -> Source:
    """Return ResNet18 features that the authors of minimax risk publish with MRCpy 3.0.0."""
    names = [f"{name}_features_resnet18_{part + 1}.csv.zip" for part in range(parts)]
    files = tuple(File(name, (MRCPY + name,)) for name in names)
    parse = partial(_resnet18, header=0 if header else None)
    return Source(f"ResNet18 features of {images}, MRCpy", shape, files=files, parse=parse)


def lshtc(origin: str, archive: str) -> Source:
    """Return the training file of the second LSHTC challenge; its sizes are not published."""
    files = (File(archive, (LSHTC + archive, LSHTC.replace("https", "http") + archive)),)
    return Source(f"{origin}, LSHTC 2", (None, None, None), files=files, parse=_lshtc)


def _resnet18(paths: Sequence[Path], source: Source, header: int | None) -> Rows:
    import pandas as pd

    tables = [pd.read_csv(path, header=header, dtype=np.float32).to_numpy() for path in paths]
    table = np.concatenate(tables)
    return Rows(table[:, :-1], as_integers(table[:, -1]))


def _lshtc(paths: Sequence[Path], source: Source) -> Rows:
    zipped = zipfile.is_zipfile(paths[0])
    with tempfile.TemporaryDirectory() as folder:
        with (zipfile.ZipFile if zipped else tarfile.open)(paths[0]) as archive:
            names = archive.namelist() if zipped else archive.getnames()
            member = next((name for name in names if name.split("/")[-1] == "train.txt"), None)
            if member is None:
                raise ValueError("the archive has no train.txt")
            train = archive.open(member) if zipped else archive.extractfile(member)
            path = Path(folder) / "train.txt"
            with path.open("wb") as file:
                shutil.copyfileobj(train, file)
        return read_libsvm(path, dtype=np.float32, in_order=False)


def _libsvm(paths: Sequence[Path], source: Source, sparse: bool, planes: int) -> Rows:
    parts = [read_libsvm(path, source.shape[1], np.float32) for path in paths]
    X, y = sp.vstack([part.X for part in parts], "csr"), np.concatenate([p.y for p in parts])
    if not sparse:
        X = X.toarray().reshape(len(y), planes, -1).transpose(0, 2, 1).reshape(len(y), -1)
    return Rows(X, y, len(parts[0].y) if source.n_train is not None else None)


def _zipped(
    paths: Sequence[Path], source: Source, members: Sequence[str], separator: str | None, label: int
) -> Rows:
    with zipfile.ZipFile(paths[0]) as archive:
        inside = {name.rpartition("/")[2]: name for name in archive.namelist()}
        texts = [archive.read(inside[member]).decode("latin-1") for member in members]
    return read_delimited(texts, separator, label)._replace(n_train=source.n_train)


def read_delimited(texts: Sequence[str], separator: str | None = ",", label: int = -1) -> Rows:
    """Read headerless tables, one below the other; `label` is the column of the labels.

    A `separator` of None is any run of blanks. Lines that begin with ``@``, ``%`` or ``|`` (ARFF
    headers, remarks) are skipped. A column of words becomes the codes 1, 2, ... of its sorted
    words, a missing one (``?``) among them.
    """
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    table = np.char.strip([line.split(separator) for line in lines if line[0] not in "@%|"])
    # The test half of UCI's Adult ends its labels with a full stop.
    y = as_integers(np.char.rstrip(table[:, label], "."))
    X = np.column_stack([_numbers(column) for column in np.delete(table, label, axis=1).T])
    with np.errstate(over="ignore"):
        exact = X.astype(np.float32)
    return Rows(exact if np.array_equal(exact, X) else X, y)


def _numbers(column: np.ndarray) -> np.ndarray:
    try:
        return column.astype(np.float64)
    except ValueError:
        return np.unique(column, return_inverse=True)[1] + 1.0


def _idx(paths: Sequence[Path], source: Source) -> Rows:
    images, y, images_test, y_test = map(_bytes, paths)
    X = np.concatenate([images, images_test])
    return Rows(X.reshape(len(X), -1), np.concatenate([y, y_test]), len(y))


def _bytes(path: Path) -> np.ndarray:
    """Return an array of bytes in MNIST's idx format, compressed with gzip."""
    with open_text(path) as file:
        content = file.read()
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an idx file of bytes")
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if math.prod(shape) != len(content) - start:
        raise ValueError(f"{path}: is cut short, its header says {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _openml(paths: Sequence[Path], source: Source, data_id: int) -> Rows:
    from sklearn.datasets import fetch_openml

    # Its own cache would keep a second copy.
    with tempfile.TemporaryDirectory() as folder:
        table = fetch_openml(data_id=data_id, data_home=folder, as_frame=True, parser="auto")
    X = table.data.to_numpy(dtype=np.float32)
    y = table.target.to_numpy().astype(str)
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
