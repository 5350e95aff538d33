"""The file formats of data sets: each reader returns all rows of a data set, as in its file."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
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
COMMAS = re.compile(rb"\s*,\s*")
COLONS = re.compile(rb"\s+:\s*|:\s+")
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
    label: str | None = None  # name of the label column


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


def read_libsvm(
    path: str | os.PathLike,
    d: int | None = None,
    dtype: type = np.float64,
    *,
    zero_based: bool | str = "auto",
    in_order: bool = True,
) -> Rows:
    """Read LIBSVM's format with one label per line, or with several as LSHTC and XMC publish it.

    Blanks around colons and a byte order mark are dropped. A line with several labels,
    ``label,label,... index:value ...``, becomes one row for each of them, as in the papers, and one
    without labels none; `about` counts both. A random split of such rows can have one document on
    both sides. A first line of three whole numbers is a header, ``lines features labels``: indices
    count from 0 then. A first line ``Data`` is skipped. Whole labels become integers. `about` says
    from where indices count.

    Parameters
    ----------
    path : plain or compressed (.bz2, .gz, .xz)
    d : number of features; None for as many as occur
    zero_based : whether indices count from 0; "auto" for from 1, or from 0 if a 0 occurs
    in_order : False sorts the values of each line by their indices; they must be in order else

    Raises
    ------
    ValueError
        Naming the file: not of this format, or not of its header's sizes.
    """
    found = _read_lines(Path(path), dtype, in_order)
    try:
        return _rows_of_lines(found, d, zero_based)
    except ValueError as error:
        raise ValueError(f"{path}: cannot be read as LIBSVM's format: {error}") from None


def read_libsvm_split(
    train: str | os.PathLike,
    test: str | os.PathLike,
    d: int | None = None,
    zero_based: bool | str | Sequence[bool] = "auto",
) -> tuple[Rows, Rows]:
    """Read training and test rows of one data set, with equally many features.

    Parameters
    ----------
    train, test : files as of :func:`read_libsvm`
    d : number of features; None for as many as occur in both
    zero_based : whether indices count from 0, for both files or for each; "auto" as the training
        file has them

    Raises
    ------
    ValueError
        As :func:`read_libsvm`, and if it is not clear that both files count from the same number.
    """
    both = [_read_lines(Path(path), np.float64) for path in (train, test)]
    bases = list(zero_based) if isinstance(zero_based, Sequence) else [zero_based] * 2
    if zero_based == "auto":
        zeros, ends = zip(*((_has_zero(X), X.shape[1]) for X, _, _ in both))
        if zeros[1] > zeros[0] or (zeros[0] > zeros[1] and ends[1] > ends[0]):
            raise ValueError(
                f"{test}: has indices {'from 0' if zeros[1] else 'above 0'} to {ends[1] - 1}, and "
                f"{train} {'from 0' if zeros[0] else 'above 0'} to {ends[0] - 1}; give "
                "zero_based=True if both count from 0, or for each, zero_based=(True, False)"
            )
        bases = [bool(zeros[0])] * 2
    try:
        widths = [_rows_of_lines(found, None, base).X.shape[1] for found, base in zip(both, bases)]
        rows = [_rows_of_lines(f, d or max(widths), base) for f, base in zip(both, bases)]
    except ValueError as error:
        raise ValueError(f"{train}, {test}: cannot be read as LIBSVM's format: {error}") from None
    about = f"{rows[0].about}; test rows: {rows[1].about}"
    if widths[0] != widths[1]:
        about += f"; {widths[0]} features in the training file, {widths[1]} in the test file"
    return rows[0]._replace(about=about), rows[1]


def _read_lines(path: Path, dtype: type, in_order: bool = True) -> tuple:
    """Return values at their indices as a file has them, the labels of each line, and the lines."""
    from sklearn.datasets import load_svmlight_file

    try:
        with open_text(path) as file:
            lines = _Lines(file, in_order)
            return *load_svmlight_file(lines, dtype=dtype, multilabel=True, zero_based=True), lines
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as LIBSVM's format: {error}") from error


def _rows_of_lines(found: tuple, d: int | None, zero_based: bool | str) -> Rows:
    X, y, lines = found
    base = 0 if lines.header or zero_based is True or _has_zero(X) else 1
    if zero_based is False and base == 0:
        raise ValueError("it has an index 0, and indices were to count from 1")
    count, width = lines.header or (None, d)
    if lines.header and lines.count != count:
        raise ValueError(f"its header promises {count} rows, it has {lines.count}")
    columns = max(X.shape[1] - base, 1)
    if width is not None and columns > width:
        raise ValueError(f"it has {columns} features, more than {width}; indices count from {base}")
    counts = np.array([len(labels) for labels in y], int)
    if not counts.any():
        raise ValueError("it has no line with a label")
    several = lines.header is not None or counts.max() > 1
    if not several and not counts.all():
        raise ValueError("a line has no label")
    X = sp.csr_matrix((X.data, X.indices - base, X.indptr), (X.shape[0], width or columns))
    labels = as_integers(np.array(list(chain.from_iterable(y))))
    about = f"indices count from {base}"
    if not several:
        return Rows(X, labels, about=about)
    about += (
        f"; {lines.count} lines: {np.sum(counts > 1)} with several labels made one row per label, "
        f"{lines.count - np.count_nonzero(counts)} without a label made none"
    )
    return Rows(X[np.repeat(np.arange(len(counts)), counts)], labels, about=about)


def _has_zero(X: sp.csr_matrix) -> bool:
    return X.nnz > 0 and X.indices.min() == 0


class _Lines:
    """Lines as scikit-learn reads them: without a header, and without blanks in labels or pairs."""

    def __init__(self, file: IO[bytes], in_order: bool = True):
        self.file, self.in_order, self.count, self.header = file, in_order, 0, None
        self.first = file.readline().removeprefix(codecs.BOM_UTF8)
        if self.first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError("its text is UTF-16; save it again as UTF-8")
        if HEADER.fullmatch(self.first):
            self.header = tuple(map(int, self.first.split()[:2]))  # rows and features
        if self.header or self.first.strip() == b"Data":
            self.first = b""

    def __iter__(self) -> Iterator[bytes]:
        for line in chain([self.first] if self.first else [], self.file):
            line = line.partition(b"#")[0]
            self.count += bool(line.strip()) or self.header is not None
            if b"," in line:
                line = COMMAS.sub(b",", line)
            if COLONS.search(line):
                line = COLONS.sub(b":", line)
            yield line if self.in_order else _sorted(line)

    def read(self) -> bytes:
        """Return nothing: scikit-learn takes what has this method for an open file."""
        return b""


def _sorted(line: bytes) -> bytes:
    """Return a line with its pairs in the order of their indices."""
    words = line.split()
    pairs = sorted((word for word in words if b":" in word), key=lambda w: int(w.split(b":")[0]))
    start = b" " if line[:1].isspace() else b""  # a line without labels
    return start + b" ".join([word for word in words if b":" not in word] + pairs) + b"\n"


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
