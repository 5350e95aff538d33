"""The file formats of data sets: each reader returns all rows of a data set, as in its file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import rebuilt
from workbench.core.files import whole
from workbench.core.problem import Matrix

OPENERS = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
CSR = ("data", "indices", "indptr", "shape")
PARTS = {  # the arrays of an archive, with their axes and the kinds of their dtypes
    "X": (2, "biuf"),
    "data": (1, "biuf"),
    "indices": (1, "iu"),
    "indptr": (1, "iu"),
    "shape": (1, "iu"),
    "y": (1, "biufUSmM"),
    "labels": (1, "biufUS"),
    "n_train": (0, "iu"),
    "features": (1, "biufU"),
    "about": (0, "U"),
}
# A packed file may unpack to this many bytes, and a large one to this many times its size.
UNPACKED, TIMES = 2**30, 100
HEADER = re.compile(rb"\s*\d+\s+\d+\s+\d+\s*")
BLANKS = re.compile(rb"\s*,\s*")
BROKEN = (ValueError, TypeError, OSError, EOFError, zlib.error, lzma.LZMAError)
BROKEN += (zipfile.BadZipFile,)
BROKEN += (RuntimeError, MemoryError, OverflowError)  # locked archives; impossible sizes, indices


class Rows(NamedTuple):
    """All rows of a data set; with a split, the first `n_train` are the training rows."""

    X: Matrix
    y: np.ndarray
    n_train: int | None = None
    features: tuple[str, ...] | None = None
    about: str = ""


def read_npz(path: str | os.PathLike) -> Rows:
    """Read the workbench's own format, without pickle.

    An archive of ``X`` (n, d), or ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix;
    ``y`` (n,) labels, or codes 0..k-1 if ``labels`` (k,) are given; and, optionally, ``n_train``,
    ``features``, ``about``. Labels spelt as integers become integers.

    Raises
    ------
    ValueError
        Naming the file: not an archive, damaged, with pickled objects, parts missing or at odds.
    """
    path = Path(path)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not an .npz archive, or cut short")
    try:
        check_unpacked(path)
        with np.load(path, allow_pickle=False) as archive:
            parts = {key: archive[key] for key in archive.files}
        if not all(isinstance(part, np.ndarray) for part in parts.values()):
            raise ValueError("it has entries that are not arrays")
        return _rows_of(parts)
    except KeyError as error:
        raise ValueError(f"{path}: lacks {error}; see data/README.md for the format") from None
    except BROKEN as error:
        raise ValueError(f"{path}: refused, {error}") from error


def _rows_of(parts: dict[str, np.ndarray]) -> Rows:
    """Return the rows of an archive of these arrays; a ValueError or KeyError names a bad one."""
    for name, (axes, kinds) in PARTS.items():
        if name in parts and (parts[name].ndim != axes or parts[name].dtype.kind not in kinds):
            raise ValueError(
                f"{name} must have {axes} axes and a dtype of kind {' or '.join(kinds)}, got "
                f"shape {parts[name].shape} and dtype {parts[name].dtype}"
            )
    if "X" in parts:
        X = parts["X"]
    else:
        data, indices, indptr, shape = (parts[key] for key in CSR)
        X = rebuilt(sp.csr_matrix((data, indices, indptr), shape=tuple(shape)))
    y = parts["y"]
    if y.shape != X.shape[:1]:
        raise ValueError(f"shapes {X.shape} of the rows and {y.shape} of y do not match")
    if "labels" in parts:
        labels = as_integers(parts["labels"])
        if y.dtype.kind not in "iu" or y.min(initial=0) < 0 or y.max(initial=0) >= len(labels):
            raise ValueError(f"y must contain codes 0..{len(labels) - 1}, as labels has them")
        y = labels[y]
    n_train = int(parts["n_train"]) if "n_train" in parts else None
    if n_train is not None and not 0 < n_train < len(y):
        raise ValueError(f"n_train is {n_train}, there are {len(y)} rows")
    features = tuple(map(str, parts["features"])) if "features" in parts else None
    return Rows(X, y, n_train, features, str(parts.get("about", "")))


def read_npy(path: str | os.PathLike, mapped: bool = False) -> np.ndarray:
    """Read an array without pickle, or map the file; a ValueError names one that is damaged."""
    try:
        if mapped:
            return np.lib.format.open_memmap(path, mode="r")  # compares the sizes, too
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as an .npy file; {error}") from None


def npz_shape(path: str | os.PathLike) -> tuple[int | None, int | None, int | None]:
    """Return rows, features and classes of a file of :func:`read_npz`, None if it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            y, there = archive["y"], archive.files
            k = len(archive["labels"]) if "labels" in there else len(np.unique(y))
            if "shape" in there:
                return len(y), int(archive["shape"][1]), k
            with archive.zip.open("X.npy") as array:  # its header alone: the rows may be large
                np.lib.format.read_magic(array)
                return len(y), np.lib.format.read_array_header_1_0(array)[0][1], k
    except (*BROKEN, KeyError, IndexError, AttributeError):  # np.load returns an array for .npy
        return None, None, None


def write_npz(path: str | os.PathLike, rows: Rows) -> None:
    """Write the workbench's own format; the file appears whole or not at all."""
    path = Path(path)
    labels, codes = np.unique(rows.y, return_inverse=True)
    if labels.dtype == object:
        labels = labels.astype(str)
    parts = {"y": codes.astype(np.int32), "labels": labels, "about": rows.about}
    if sp.issparse(rows.X):
        X = sp.csr_matrix(rows.X)
        parts |= {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    else:
        parts["X"] = rows.X
    parts |= {
        name: value
        for name, value in (("n_train", rows.n_train), ("features", rows.features))
        if value is not None
    }
    with whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **parts)


class _Counted(io.RawIOBase):
    """Bytes of a packed file, counted as they come: the size that it claims is not believed."""

    def __init__(self, path: Path):
        self.path, self.count = path, 0
        self.source = OPENERS[path.suffix.lower()](path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = self.source.readinto(buffer)
        self.count += count
        check_unpacked(self.path, self.count)
        return count

    def close(self) -> None:
        self.source.close()
        super().close()


def open_text(path: Path) -> IO[bytes]:
    """Open a file, plain or compressed (.bz2, .gz, .xz), to be read as bytes.

    Reading raises a ValueError if a compressed file unpacks to more than :data:`UNPACKED` bytes
    and to more than :data:`TIMES` its size.
    """
    if path.suffix.lower() not in OPENERS:
        return open(path, "rb")
    return io.BufferedReader(_Counted(path), 2**18)


def allowed(path: Path) -> int:
    """Return the bytes to which a packed file may unpack."""
    return max(UNPACKED, TIMES * path.stat().st_size)


def check_unpacked(path: Path, size: int | None = None) -> None:
    """Refuse a packed file of `size` unpacked bytes, by default a zip archive's own account.

    Python reads no more of an archive's entry than the archive says.
    """
    if size is None:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    if size > allowed(path):
        most = f"{allowed(path) / 2**30:.2g} GB"
        raise ValueError(f"it unpacks to more than {most}; unpack it first if you trust it")


def read_libsvm(path: str | os.PathLike, d: int | None = None, dtype: type = np.float64) -> Rows:
    """Read LIBSVM's format with one label per line, or with several as LSHTC and XMC publish it.

    A line with several labels, ``label,label,... index:value ...``, becomes one row for each of
    them, as in the papers, and one without labels none; `about` counts both. A random split of
    such rows can have one document on both sides. A first line of three whole numbers is a header,
    ``lines features labels``: indices count from 0 then. A first line ``Data`` is skipped. Whole
    labels become integers.

    Parameters
    ----------
    path : plain or compressed (.bz2, .gz, .xz)
    d : number of features, with indices from 1; None for as many as occur, with indices from 1, or
        from 0 if a 0 occurs

    Raises
    ------
    ValueError
        Naming the file: not of this format, or not of its header's sizes.
    """
    from sklearn.datasets import load_svmlight_file

    path = Path(path)
    try:
        with open_text(path) as file:
            lines = _Lines(file)
            count, width = lines.header or (None, d)
            X, y = load_svmlight_file(
                lines,
                n_features=width,
                dtype=dtype,
                multilabel=True,
                zero_based=True if lines.header else "auto" if d is None else False,
            )
        if lines.header and lines.count != count:
            raise ValueError(f"its header promises {count} rows, it has {lines.count}")
        counts = np.array([len(labels) for labels in y], int)
        if not counts.any():
            raise ValueError("it has no line with a label")
        several = lines.header is not None or counts.max() > 1
        if not several and not counts.all():
            raise ValueError("a line has no label")
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as LIBSVM's format: {error}") from error
    labels = as_integers(np.array(list(chain.from_iterable(y))))
    if not several:
        return Rows(X, labels)
    about = (
        f"{lines.count} lines: {np.sum(counts > 1)} with several labels made one row per label, "
        f"{lines.count - np.count_nonzero(counts)} without a label made none"
    )
    return Rows(X[np.repeat(np.arange(len(counts)), counts)], labels, about=about)


class _Lines:
    """Lines as scikit-learn reads them: without a header, and without blanks between labels."""

    def __init__(self, file: IO[bytes]):
        self.file, self.count, self.header, self.first = file, 0, None, file.readline()
        if HEADER.fullmatch(self.first):
            self.header = tuple(map(int, self.first.split()[:2]))  # rows and features
        if self.header or self.first.strip() == b"Data":
            self.first = b""

    def __iter__(self) -> Iterator[bytes]:
        for line in chain([self.first] if self.first else [], self.file):
            line = line.partition(b"#")[0]
            self.count += bool(line.strip()) or self.header is not None
            yield BLANKS.sub(b",", line) if b"," in line else line

    def read(self) -> bytes:
        """Return nothing: scikit-learn takes what has this method for an open file."""
        return b""


def as_integers(labels: np.ndarray) -> np.ndarray:
    """Return labels that are whole numbers, as floats or as text, as integers, others unchanged."""
    if labels.dtype.kind not in "fU":
        return labels
    try:
        with np.errstate(invalid="ignore"):
            whole = labels.astype(np.int64)
    except ValueError:
        return labels
    return whole if np.array_equal(whole.astype(labels.dtype), labels) else labels
