"""The file formats of data sets: each reader returns all rows of a data set, as in its file."""

from __future__ import annotations

import bz2
import codecs
import gzip
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
# A zip archive may unpack to MAX_BYTES, and a large one to MAX_RATIO times its size.
MAX_BYTES, MAX_RATIO = 2**30, 100
COMMAS = re.compile(rb"\s*,\s*")
COLONS = re.compile(rb"\s+:\s*|:\s+")
# What reading a damaged file raises; the last three come of locked archives and impossible sizes.
BROKEN = (ValueError, TypeError, OSError, EOFError, zlib.error, lzma.LZMAError)
BROKEN += (zipfile.BadZipFile, RuntimeError, MemoryError, OverflowError)


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
    if "X" in parts:
        X = parts["X"]
    else:
        data, indices, indptr, shape = (parts[key] for key in CSR)
        if {indices.dtype.kind, indptr.dtype.kind} - {*"iu"}:
            raise ValueError("indices and indptr must contain whole numbers")
        X = rebuilt(sp.csr_matrix((data, indices, indptr), shape=tuple(shape)))
    y = parts["y"]
    if y.shape != X.shape[:1]:
        raise ValueError(f"shapes {X.shape} of the rows and {y.shape} of y do not match")
    if "labels" in parts:
        labels = as_integers(parts["labels"])
        if (
            labels.ndim != 1
            or y.dtype.kind not in "iu"
            or y.min(initial=0) < 0
            or y.max(initial=0) >= len(labels)
        ):
            raise ValueError(f"y must contain codes 0..{len(labels) - 1}, as labels has them")
        y = labels[y]
    n_train = parts["n_train"] if "n_train" in parts else None
    if n_train is not None:
        if n_train.shape or n_train.dtype.kind not in "iu" or not 0 < n_train < len(y):
            raise ValueError(f"n_train is {n_train}, there are {len(y)} rows")
        n_train = int(n_train)
    features = tuple(map(str, parts["features"])) if "features" in parts else None
    return Rows(X, y, n_train, features, str(parts.get("about", "")))


def write_npz(path: str | os.PathLike, rows: Rows) -> None:
    """Write the workbench's own format; the file appears whole or not at all."""
    labels, codes = np.unique(rows.y, return_inverse=True)
    labels = labels.astype(str) if labels.dtype == object else labels
    parts = {"y": codes.astype(np.int32), "labels": labels, "about": rows.about}
    parts |= {"n_train": rows.n_train, "features": rows.features}
    if sp.issparse(rows.X):
        X = sp.csr_matrix(rows.X)
        parts |= {name: getattr(X, name) for name in CSR}
    else:
        parts["X"] = rows.X
    with whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **{k: part for k, part in parts.items() if part is not None})


def read_npy(path: str | os.PathLike, mapped: bool = False) -> np.ndarray:
    """Read an array without pickle, or map the file; a ValueError names one that is damaged."""
    try:
        if mapped:
            return np.lib.format.open_memmap(path, mode="r")  # compares the sizes, too
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as an .npy file; {error}") from None


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, plain or compressed (.bz2, .gz, .xz)."""
    return OPENERS.get(path.suffix.lower(), open)(path, "rb")


def check_unpacked(path: Path) -> None:
    """Raise a ValueError if a zip archive says that it unpacks to more than a large data set.

    Python reads no more of an archive's entry than the archive says.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > (most := max(MAX_BYTES, MAX_RATIO * path.stat().st_size)):
        most = f"{most / 2**30:.2g} GB"
        raise ValueError(f"it unpacks to more than {most}; unpack it first if you trust it")


def read_libsvm(
    *paths: str | os.PathLike,
    d: int | None = None,
    dtype: type = np.float64,
    zero_based: bool | tuple[bool, bool] | None = None,
) -> list[Rows]:
    """Read files in LIBSVM's format, all with the same number of features.

    scikit-learn parses them, after blanks around colons and a byte order mark are dropped. A line
    with several labels, ``label,label,... index:value``, becomes one row for each of them, as in
    the papers; a random split of such rows can have one document on both sides. Whole labels become
    integers. `about` says from where indices count.

    Parameters
    ----------
    paths : plain or compressed (.bz2, .gz, .xz); a test file follows its training file
    d : number of features; None for as many as occur
    zero_based : whether indices count from 0, for all files or for each; None for from 1, or from
        0 if a 0 occurs in the first file

    Raises
    ------
    ValueError
        Naming the file: not of this format, or not clear that all count from the same number.
    """
    found = [_read_lines(Path(path), dtype) for path in paths]
    (X, _), (other, _) = found[0], found[-1]
    bases = zero_based if isinstance(zero_based, tuple | list) else [zero_based] * len(paths)
    if zero_based is None:
        zero, other_zero = _has_zero(X), _has_zero(other)
        if other_zero > zero or (zero > other_zero and other.shape[1] > X.shape[1]):
            raise ValueError(
                f"{paths[-1]}: has indices {'from 0' if other_zero else 'above 0'} to "
                f"{other.shape[1] - 1}, and {paths[0]} {'from 0' if zero else 'above 0'} to "
                f"{X.shape[1] - 1}; give zero_based=True if both count from 0, or for each, "
                "zero_based=(True, False)"
            )
        bases = [zero] * len(paths)
    widths = [max(X.shape[1] - (not base), 1) for (X, _), base in zip(found, bases)]
    d = d or max(widths)
    return [_rows_of_lines(*part, d) for part in zip(paths, found, bases, widths)]


def _rows_of_lines(path, lines: tuple, zero_based: bool, width: int, d: int) -> Rows:
    X, y = lines
    about, reason = f"indices count from {int(not zero_based)}", None
    if not zero_based and _has_zero(X):
        reason = "it has an index 0, and indices were to count from 1"
    elif width > d:
        reason = f"it has {width} features, more than {d}; {about}"
    elif not all(y):
        reason = "a line has no label"
    if reason:
        raise ValueError(f"{path}: cannot be read as LIBSVM's format: {reason}")
    X = sp.csr_matrix((X.data, X.indices - (not zero_based), X.indptr), (X.shape[0], d))
    about += f", {width} of {d} features occur" if width < d else ""
    counts = np.array([len(labels) for labels in y])
    if counts.max() > 1:
        about += f"; {np.sum(counts > 1)} of {len(y)} lines with several labels are a row for each"
        X = X[np.repeat(np.arange(len(y)), counts)]
    return Rows(X, as_integers(np.array(list(chain.from_iterable(y)))), about=about)


def _has_zero(X: sp.csr_matrix) -> bool:
    return X.nnz > 0 and X.indices.min() == 0


def _read_lines(path: Path, dtype: type) -> tuple[sp.csr_matrix, list[tuple]]:
    """Return the values at their indices as a file has them, and the labels of each line."""
    from sklearn.datasets import load_svmlight_file

    try:
        with open_bytes(path) as file:
            X, y = load_svmlight_file(_Lines(file), dtype=dtype, multilabel=True, zero_based=True)
        if not any(y):
            raise ValueError("it has no line with a label")
        return X, y
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as LIBSVM's format: {error}") from error


class _Lines:
    """Lines as scikit-learn reads them, without blanks in labels or pairs."""

    def __init__(self, file: IO[bytes]):
        self.file = file

    def __iter__(self) -> Iterator[bytes]:
        first = self.file.readline().removeprefix(codecs.BOM_UTF8)
        if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError("its text is UTF-16; save it again as UTF-8")
        for line in chain([first], self.file):
            line = line.partition(b"#")[0]
            line = COMMAS.sub(b",", line) if b"," in line else line
            yield COLONS.sub(b":", line) if COLONS.search(line) else line

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
