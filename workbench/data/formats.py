"""The file formats of data sets: each reader returns all rows of one set, as the file has them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import rebuilt
from workbench.core.problem import Matrix

if TYPE_CHECKING:
    import pandas as pd

TARGETS = ("target", "label", "class", "y")
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
OPENERS = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
CSR = ("data", "indices", "indptr", "shape")
PARTS = {  # of an archive, with their axes and the kinds of their dtypes
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
UNPACKED = 2**30  # bytes that a packed file may always unpack to; a larger one to TIMES its size
TIMES = 100
BROKEN = (ValueError, TypeError, OSError, EOFError, zlib.error, lzma.LZMAError)
BROKEN += (zipfile.BadZipFile,)
BROKEN += (RuntimeError, MemoryError, OverflowError)  # locked archives; impossible sizes, indices


class Rows(NamedTuple):
    """All rows of a data set; where there is a split, the first `n_train` are the training rows."""

    X: Matrix
    y: np.ndarray
    n_train: int | None = None
    features: tuple[str, ...] | None = None
    about: str = ""


def read_npz(path: str | os.PathLike) -> Rows:
    """Read the workbench's own format, without pickle.

    A compressed archive of ``X`` (n, d), or ``data``, ``indices``, ``indptr``, ``shape`` of a CSR
    matrix; ``y`` (n,) labels, or codes 0..k-1 where ``labels`` (k,) are given; and, optionally,
    ``n_train``, ``features``, ``about``. Labels spelt as integers become integers.

    Raises
    ------
    ValueError
        Naming the file: no archive, damaged, pickled objects in it, parts missing or at odds.
    """
    path = Path(path)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not an .npz archive, or cut short")
    try:
        check_unpacked(path)
        with np.load(path, allow_pickle=False) as archive:
            parts = {key: archive[key] for key in archive.files}
        if not all(isinstance(part, np.ndarray) for part in parts.values()):
            raise ValueError("it has entries that are no arrays")
        return _rows_of(parts)
    except KeyError as error:
        raise ValueError(f"{path}: lacks {error}; see data/README.md for the format") from None
    except BROKEN as error:
        raise ValueError(f"{path}: refused, {error}") from error


def _rows_of(parts: dict[str, np.ndarray]) -> Rows:
    """Return the rows of an archive of these arrays; a ValueError or KeyError names a bad one."""
    for name, (axes, kinds) in PARTS.items():
        if name in parts and (parts[name].ndim != axes or parts[name].dtype.kind not in kinds):
            shape, dtype = parts[name].shape, parts[name].dtype
            raise ValueError(
                f"{name} must have {axes} axes and a dtype of kind {' or '.join(kinds)}, got "
                f"shape {shape} and dtype {dtype}"
            )
    X = parts["X"] if "X" in parts else _csr(**{key: parts[key] for key in CSR})
    y = parts["y"]
    if y.shape != X.shape[:1]:
        raise ValueError(f"shapes {X.shape} of the rows and {y.shape} of y do not match")
    if "labels" in parts:
        labels = as_integers(parts["labels"])
        if y.dtype.kind not in "iu" or y.min(initial=0) < 0 or y.max(initial=0) >= len(labels):
            raise ValueError(f"y must hold codes 0..{len(labels) - 1}, as labels has them")
        y = labels[y]
    n_train = int(parts["n_train"]) if "n_train" in parts else None
    if n_train is not None and not 0 < n_train < len(y):
        raise ValueError(f"n_train is {n_train}, there are {len(y)} rows")
    features = tuple(map(str, parts["features"])) if "features" in parts else None
    return Rows(X, y, n_train, features, str(parts.get("about", "")))


def npz_shape(path: str | os.PathLike) -> tuple[int | None, int | None, int | None]:
    """Return rows, features and classes of a file of :func:`read_npz`, None where it is damaged."""
    if not zipfile.is_zipfile(path):
        return None, None, None
    try:
        with np.load(path, allow_pickle=False) as archive:
            y = archive["y"]
            k = len(archive["labels"]) if "labels" in archive.files else len(np.unique(y))
            if "shape" in archive.files:
                return len(y), int(archive["shape"][1]), k
            with archive.zip.open("X.npy") as array:  # its header alone: the rows may be large
                np.lib.format.read_magic(array)
                shape, _, _ = np.lib.format.read_array_header_1_0(array)
            return len(y), shape[1], k
    except (*BROKEN, KeyError, IndexError):
        return None, None, None


def write_npz(path: str | os.PathLike, rows: Rows) -> None:
    """Write the workbench's own format; the file appears whole or not at all."""
    path = Path(path)
    labels, codes = np.unique(rows.y, return_inverse=True)
    if labels.dtype == object:
        labels = labels.astype(str)
    X = sp.csr_matrix(rows.X) if sp.issparse(rows.X) else rows.X
    parts = {"y": codes.astype(np.int32), "labels": labels, "about": np.array(rows.about)}
    if sp.issparse(X):
        shape = np.array(X.shape)
        parts |= {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": shape}
    else:
        parts["X"] = X
    if rows.n_train is not None:
        parts["n_train"] = np.array(rows.n_train)
    if rows.features is not None:
        parts["features"] = np.array(rows.features)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **parts)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class _Counted(io.RawIOBase):
    """Bytes of a packed file, counted as they come: the size that it claims is not believed."""

    def __init__(self, source: IO[bytes], most: int):
        self.source, self.most, self.count = source, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = self.source.readinto(buffer)
        self.count += count
        if self.count > self.most:
            raise ValueError(too_large(self.most))
        return count

    def close(self) -> None:
        self.source.close()
        super().close()


def open_text(path: Path) -> IO[bytes]:
    """Open a file, plain or compressed (.bz2, .gz, .xz), to be read as bytes.

    A ValueError comes while a compressed one is read that unpacks to more than :data:`UNPACKED`
    bytes and to more than :data:`TIMES` its size.
    """
    suffix = path.suffix.lower()
    if suffix not in OPENERS:
        return open(path, "rb")
    return io.BufferedReader(_Counted(OPENERS[suffix](path, "rb"), allowed(path)), 2**18)


def allowed(path: Path) -> int:
    """Return the bytes to which a packed file may unpack."""
    return max(UNPACKED, TIMES * path.stat().st_size)


def too_large(most: int) -> str:
    """Return what is wrong with a packed file."""
    return f"it unpacks to more than {most / 2**30:.2g} GB; unpack it first if it is to be trusted"


def check_unpacked(path: Path) -> None:
    """Refuse a zip archive whose entries take more than what is allowed, as it says itself.

    More than it says is not read of an entry.
    """
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > allowed(path):
            raise ValueError(too_large(allowed(path)))


def table(path: str | os.PathLike) -> tuple[pd.DataFrame, list[str]]:
    """Return a CSV, TSV or Parquet table as it is, the names of its columns as text.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file; the first two may be compressed (.gz, .bz2, .xz, .zip).
        A CSV is separated by semicolons where they make more columns of its first line than commas
        do; one whose first line is all numbers has no header, its columns are called 0, 1, ...

    Returns
    -------
    frame
    notes : what was guessed of the separator and the header, for people

    Raises
    ------
    ValueError
        Naming the file: it is no table, or damaged.
    """
    import pandas as pd  # half a second that other formats need not wait for

    path, notes = Path(path), []
    try:
        parquet = table_suffix(path) == ".parquet"
        frame = _parquet(path) if parquet else _delimited(path, notes)
    except (*BROKEN, ImportError) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pd.errors.EmptyDataError):
            reason = "it is empty"
        if isinstance(error, UnicodeDecodeError):
            reason = "its text is not UTF-8; save it anew in that encoding"
        raise ValueError(f"{path}: cannot be read as a table: {reason}") from error
    frame.columns = frame.columns.map(str)
    return frame, notes


def read_table(path: str | os.PathLike, target: str | None = None) -> Rows:
    """Read a CSV, TSV or Parquet table, one row a sample.

    Parameters
    ----------
    path : see :func:`table`
    target : the column of the labels; by default the one column that is called target, label,
        class or y, in any case, else the last

    Raises
    ------
    ValueError
        Naming the file: no such column, several candidates, columns that are not numbers.
    """
    from pandas.api.types import is_numeric_dtype

    path, (frame, notes) = Path(path), table(path)
    if len(frame.columns) < 2:
        raise ValueError(f"{path}: needs a label column and a feature, has {list(frame.columns)}")
    y = frame.pop(_target(frame.columns, target, path)).to_numpy()
    numeric = [is_numeric_dtype(frame[column]) for column in frame]
    if not all(numeric):
        strange = [column for column, good in zip(frame, numeric) if not good]
        other = "" if target else ", or name the label column with target="
        raise ValueError(
            f"{path}: features must be numbers; {', '.join(strange[:5])} are not: "
            f"encode or drop them{other}"
        )
    X = frame.to_numpy()
    if X.dtype == object:
        X = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return Rows(X, y, features=tuple(frame.columns), about="; ".join(notes))


def read_libsvm(
    path: str | os.PathLike, d: int | None = None, dtype: type = np.float64
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Read one file of LIBSVM's format, plain or compressed (.bz2, .gz, .xz).

    `d` features with indices from 1; without it as many as occur, indices from 0 or 1. Labels that
    are whole numbers become integers.

    Raises
    ------
    ValueError
        Naming the file, when it is not of this format.
    """
    from sklearn.datasets import load_svmlight_file

    path = Path(path)
    zero_based = "auto" if d is None else False
    try:
        with open_text(path) as file:
            X, y = load_svmlight_file(file, n_features=d, dtype=dtype, zero_based=zero_based)
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read as LIBSVM's format: {error}") from error
    return X, as_integers(y)


def read_delimited(texts: Sequence[str], separator: str | None = ",", label: int = -1) -> Rows:
    """Read headerless tables, one below the other; `label` is the column of the labels.

    A `separator` of None is any run of blanks. Lines that begin with ``@``, ``%`` or ``|`` (ARFF
    headers, remarks) are skipped. A column of words becomes the codes 1, 2, ... of its sorted
    words, a missing one (``?``) among them.
    """
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    rows = [line.split(separator) for line in lines if line[0] not in "@%|"]
    table = np.char.strip(rows)
    # The test half of UCI's Adult ends its labels with a full stop.
    y = as_integers(np.char.rstrip(table[:, label], "."))
    columns = np.delete(table, label, axis=1).T
    X = np.column_stack([_numbers(column) for column in columns])
    with np.errstate(over="ignore"):
        exact = X.astype(np.float32)
    return Rows(exact if np.array_equal(exact, X) else X, y)


def read_idx(path: str | os.PathLike) -> np.ndarray:
    """Read an array of bytes from MNIST's idx format, compressed with gzip."""
    with open_text(Path(path)) as file:
        content = file.read()
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an idx file of bytes")
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if math.prod(shape) != len(content) - start:
        raise ValueError(f"{path}: is cut short, its header says {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


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


def table_suffix(path: str | os.PathLike) -> str:
    """The suffix that tells the format, in lower case: that of ``rows.csv.gz`` is ``.csv``.

    Raises
    ------
    ValueError
        For a spreadsheet.
    """
    path = Path(path)
    packed = path.suffix.lower() in (*OPENERS, ".zip")
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix in SHEETS:
        raise ValueError(f"{path}: is a spreadsheet; save the sheet with the rows as CSV (UTF-8)")
    return suffix


def _parquet(path: Path) -> pd.DataFrame:
    import pandas as pd
    from pyarrow.parquet import read_metadata

    about = read_metadata(path)
    if 8 * about.num_rows * about.num_columns > allowed(path):
        raise ValueError(too_large(allowed(path)))
    return pd.read_parquet(path)


def _csv(path: Path, **options) -> pd.DataFrame:
    import pandas as pd

    if path.suffix.lower() == ".zip":
        return pd.read_csv(path, **options)
    with open_text(path) as file:
        return pd.read_csv(file, **options)


def _delimited(path: Path, notes: list[str]) -> pd.DataFrame:
    if path.suffix.lower() == ".zip":
        check_unpacked(path)
    options = {"sep": "\t" if table_suffix(path) == ".tsv" else ",", "skipinitialspace": True}
    # As text: what pandas makes of a header, it makes of equal numbers too, 1.5 and 1.5.1.
    as_text = {"header": None, "nrows": 1, "dtype": str, "na_filter": False}
    first = list(_csv(path, **as_text, **options).iloc[0])
    if options["sep"] == ",":
        other = list(_csv(path, **as_text, **options | {"sep": ";"}).iloc[0])
        if len(other) > len(first):
            first, options["sep"] = other, ";"
            notes.append("the columns are separated by semicolons")
    if all(map(_is_number, first)):
        return _csv(path, header=None, **options)
    frame = _csv(path, **options)
    if any(_is_number(name) and not name.isdigit() for name in first):
        notes.append(f"the first line is taken for names, not for a row: {', '.join(first[:5])}")
    renamed = [f"{new} (was {old})" for old, new in zip(first, frame) if old and old != new]
    if renamed:
        notes.append(f"names that were there twice are now {', '.join(renamed[:5])}")
    return frame


def _csr(data, indices, indptr, shape) -> sp.csr_matrix:
    return rebuilt(sp.csr_matrix((data, indices, indptr), shape=tuple(shape)))


def _numbers(column: np.ndarray) -> np.ndarray:
    try:
        return column.astype(np.float64)
    except ValueError:
        return np.unique(column, return_inverse=True)[1] + 1.0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _target(columns, target: str | None, path: Path) -> str:
    if target is not None:
        if str(target) not in columns:
            raise ValueError(f"target: {path} has no column {target!r}; it has {list(columns)}")
        return str(target)
    named = [column for column in columns if column.lower() in TARGETS]
    if len(named) > 1:
        raise ValueError(f"target: {path} has the columns {named}; say which holds the labels")
    return named[0] if named else columns[-1]
