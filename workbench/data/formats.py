"""The file formats of data sets. Their readers return all rows of a file, unscaled."""

import bz2
import codecs
import gzip
import lzma
import operator
import re
import zipfile
import zlib
from contextlib import ExitStack
from functools import partial
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import rebuilt
from workbench.core.files import whole
from workbench.core.kinds import Array, PathLike, Record
from workbench.core.problem import Matrix

CSR = ("data", "indices", "indptr", "shape")
OPENERS: Record = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# A packed file may unpack to at most MAX_BYTES, or to MAX_RATIO times its own size if
# that is more.
MAX_BYTES = 2**30
MAX_RATIO = 100
# Errors from reading a damaged file. RuntimeError comes from locked archives, and
# MemoryError and OverflowError come from impossible sizes.
BROKEN = (ValueError, TypeError, OSError, EOFError, zlib.error, lzma.LZMAError)
BROKEN += (zipfile.BadZipFile, RuntimeError, MemoryError, OverflowError)
BROKEN += (AttributeError, LookupError, TokenError)


class Rows(NamedTuple):
    """All rows of a data set, training rows first.

    `n_train` is the number of training rows if the split is published, and `label` is
    the name of the label column. If the rows are sequences, sequence i has the rows
    ``starts[i]:starts[i + 1]``.
    """

    X: Matrix
    y: Array
    n_train: int | None = None
    features: tuple[str, ...] | None = None
    about: str = ""
    label: str | None = None
    synthetic: bool = False
    starts: Array | None = None


def read_npz(path: PathLike) -> Rows:
    """Read the workbench's own format, without pickle.

    The archive has ``X`` (n, d), or ``data``, ``indices``, ``indptr`` and ``shape`` of
    a CSR matrix. It has ``y``, n labels, or codes 0..k-1 of ``labels`` (k,). It may
    have ``n_train``, ``features``, ``about``, ``synthetic``, and ``starts`` if rows are
    the positions of sequences (:class:`workbench.core.structures.SequenceProblem`).
    Labels written as integers become integers. A file that is damaged, or has pickled
    objects or parts that do not fit each other, raises a ValueError.
    """
    path = Path(path)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not an .npz archive, or cut short")
    try:
        check_unpacked(path)
        with np.load(path, allow_pickle=False) as archive:
            return _rows_of({key: archive[key] for key in archive.files})
    except KeyError as error:
        raise ValueError(
            f"{path}: lacks {error}; see data/README.md for the format"
        ) from None
    except BROKEN as error:
        raise ValueError(f"{path}: refused, {error}") from error


def _rows_of(parts: dict) -> Rows:
    """Return an archive's rows; a ValueError or KeyError names any faulty array."""
    y = parts["y"]
    if "X" in parts:
        X = parts["X"]
    else:
        data, indices, indptr, shape = (parts[key] for key in CSR)
        if {indices.dtype.kind, indptr.dtype.kind} - {*"iu"}:
            raise ValueError("indices and indptr must contain whole numbers")
        X = rebuilt(sp.csr_matrix((data, indices, indptr), shape=tuple(shape)))
    if y.shape != X.shape[:1]:
        raise ValueError(
            f"shapes {X.shape} of the rows and {y.shape} of y do not match"
        )
    if "labels" in parts:
        y = _decoded(y, as_integers(parts["labels"]))
    n_train = parts.get("n_train")
    if n_train is not None:
        n_train = operator.index(n_train)
        if not 0 < n_train < len(y):
            raise ValueError(
                f"n_train must be above 0 and below the {len(y)} rows, got {n_train}"
            )
    features = None
    if "features" in parts:
        features = tuple(map(str, parts["features"]))
    starts = parts.get("starts")
    if starts is not None and starts.dtype.kind not in "iu":
        raise ValueError("starts must contain whole numbers")
    about = str(parts.get("about", ""))
    synthetic = bool(parts.get("synthetic"))
    return Rows(X, y, n_train, features, about, synthetic=synthetic, starts=starts)


def _decoded(codes: Array, labels: Array) -> Array:
    """Return the labels that have these codes; other codes raise a ValueError."""
    k = len(labels)
    whole = codes.dtype.kind in "iu"
    if not whole or codes.min(initial=0) < 0 or codes.max(initial=0) >= k:
        raise ValueError(f"y must contain codes 0..{k - 1}, indices of labels")
    return labels[codes]


def write_npz(path: PathLike, rows: Rows) -> None:
    """Write the workbench's own format; the file appears whole or not at all."""
    labels, codes = np.unique(rows.y, return_inverse=True)
    if labels.dtype == object:
        labels = labels.astype(str)
    parts: dict = {
        "y": codes.astype(np.int32),
        "labels": labels,
        "n_train": rows.n_train,
        "about": rows.about,
        "features": rows.features,
        "synthetic": rows.synthetic or None,
        "starts": rows.starts,
    }
    if sp.issparse(rows.X):
        X = sp.csr_matrix(rows.X)
        parts |= {name: getattr(X, name) for name in CSR}
    else:
        parts["X"] = rows.X
    parts = {name: array for name, array in parts.items() if array is not None}
    with whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **parts)


def read_npy(path: PathLike) -> Array:
    """Map an array into memory, without pickle; a damaged file raises a ValueError."""
    try:
        # This also checks that the file is as large as the array.
        return np.lib.format.open_memmap(path, mode="r")
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as an .npy file; {error}") from None


def read_libsvm(*paths: PathLike, dtype: type = np.float64, **options) -> list[Rows]:
    """Read files in LIBSVM's format, all with the same number of features.

    Parameters
    ----------
    paths : str or Path
        Plain or compressed files (.gz, .bz2, .xz). A test file comes after its training
        file.
    dtype : type
        The type of the values.
    options : options of scikit-learn's ``load_svmlight_files``
        Options such as `n_features` and `zero_based`. By default indices count from 1,
        or from 0 if a 0 occurs in a file. With `multilabel=True` a line may have any
        number of labels and becomes one row per label, as in the LSHTC data sets; lines
        without a label are left out.
    """
    from sklearn.datasets import load_svmlight_files

    read = partial(load_svmlight_files, dtype=dtype, **options)
    try:
        try:
            with ExitStack() as files:
                parts = read([files.enter_context(opened(path)) for path in paths])
        except ValueError:
            parts = read([_plain(Path(path)) for path in paths])
    except BROKEN as error:
        names = " or ".join(map(str, paths))
        raise ValueError(
            f"{names}: cannot be read as LIBSVM's format, the format of all files "
            f"that are not .csv, .tsv, .parquet, .npz or .npy: {error}"
        ) from error
    rows = []
    for X, y in zip(parts[::2], parts[1::2], strict=True):
        if options.get("multilabel"):
            X = X[np.repeat(np.arange(len(y)), [*map(len, y)])]
            y = np.concatenate(y)
        rows.append(Rows(X, as_integers(y)))
    return rows


def _plain(path: Path) -> BytesIO:
    """Return a file without a byte order mark and without blanks inside entries.

    LIBSVM skips both, but scikit-learn does not.
    """
    with opened(path) as file:
        content = file.read().removeprefix(codecs.BOM_UTF8)
    return BytesIO(re.sub(rb"([:,])[ \t]+", rb"\1", content))


def as_integers(labels: Array) -> Array:
    """Return floats or texts as integers if all are whole numbers, else unchanged."""
    if labels.dtype.kind not in "fU":
        return labels
    try:
        with np.errstate(invalid="ignore"):
            whole = labels.astype(np.int64)
    except (OverflowError, ValueError):
        return labels
    return whole if np.array_equal(whole.astype(labels.dtype), labels) else labels


class Unpacking(RawIOBase):
    """The content of a packed file, which can be read only up to a size limit."""

    def __init__(self, path: Path):
        self.path = path
        self.file = OPENERS[path.suffix.lower()](path)
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = self.file.readinto(buffer)
        self.size += count
        check_size(self.path, self.size)
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def opened(path: PathLike) -> BufferedReader:
    """Open a plain or packed file (.gz, .bz2, .xz) for reading.

    Reading raises a ValueError as soon as more is unpacked than :func:`check_size`
    accepts.
    """
    path = Path(path)
    if path.suffix.lower() in OPENERS:
        return BufferedReader(Unpacking(path))
    return path.open("rb")


def check_unpacked(path: Path) -> None:
    """Raise a ValueError if the size that a zip archive states is too large.

    Python reads no more of an entry than the archive states.
    """
    with zipfile.ZipFile(path) as archive:
        check_size(path, sum(entry.file_size for entry in archive.infolist()))


def check_size(path: Path, size: int) -> None:
    """Raise a ValueError if `size`, in bytes, is too large for an unpacked file."""
    limit = max(MAX_BYTES, MAX_RATIO * path.stat().st_size)
    if size > limit:
        raise ValueError(
            f"it unpacks to {size / 2**30:.2g} GB or more, above the limit of "
            f"{limit / 2**30:.2g} GB; unpack it first if you trust it"
        )
