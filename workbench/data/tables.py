"""Tables: CSV, TSV and Parquet files as rows with a label column.

What a table means is decided in few ways, and :attr:`Rows.about` says each in one line; pandas'
own options decide otherwise.
"""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from workbench.data.formats import (
    BROKEN,
    OPENERS,
    Rows,
    as_integers,
    check_unpacked,
    open_text,
)

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".parquet")
TARGETS = ("target", "label", "class", "y")
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
HEAD_ROWS = 1_000  # read as text, to decide what the first line is
LAYOUT = {"header", "names", "index_col", "usecols", "skiprows", "comment", "dialect", "engine"}
GAPS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>", "?")
MARK = "="
WHOLE = re.compile(r"[+-]?\d+")
LEADING_ZERO = re.compile(r"[+-]?0\d")  # 007 is a code, not a number


def read_table(
    path: str | os.PathLike, target: str | None = None, options: Mapping[str, Any] | None = None
) -> Rows:
    """Read a CSV, TSV or Parquet table, one sample per row.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file; the first two may be compressed (.gz, .bz2, .xz, .zip).
        Columns are separated by semicolons if they make more columns of the first line than commas
        do. A first line with numbers or gaps over columns of numbers, or with words that occur
        again below, is a row, and the columns are called 0, 1, ... Blanks around names and labels
        are dropped. A delimiter at the end of the rows makes no column. A first column without a
        name is left out if all its values differ: these are names of rows.
    target : the label column; by default the one column called target, label, class or y, in
        upper or lower case, else the last. Its text is the classes, also text that pandas takes
        for a gap such as NA, unless all other labels are numbers.
    options : of ``pandas.read_csv`` or ``read_parquet``, which decide instead

    Raises
    ------
    ValueError
        Naming the file: not a table, damaged, no such column, several candidates, columns that are
        not numbers or have gaps.
    """
    import pandas as pd  # half a second that other formats need not wait for
    from pandas.api.types import is_numeric_dtype

    path, notes, options = Path(path), [], dict(options or {})
    try:
        if table_suffix(path) == ".parquet":
            frame, label, labels = _parquet(path, target, options, notes)
        else:
            frame, label, labels = _delimited(path, target, options, notes)
    except (*BROKEN, ImportError, csv.Error, pd.errors.ParserWarning) as error:
        if str(error).startswith(("target: ", str(path))):
            raise
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pd.errors.EmptyDataError):
            reason = "it is empty"
        if isinstance(error, UnicodeDecodeError):
            reason = "its text is not UTF-8; save it again in that encoding, or give encoding="
        raise ValueError(f"{path}: cannot be read as a table: {reason}") from error
    if not frame.shape[1]:
        raise ValueError(
            f"{path}: needs a label column and a feature, it has only {label!r}; if the columns "
            "are not separated by commas, give sep="
        )
    if words := [name for name in frame if not is_numeric_dtype(frame[name])]:
        raise ValueError(f"{_not_numbers(path, frame, words, target)} ({'; '.join(notes)})")
    gaps = frame.isna().sum()
    if total := int(gaps.sum()):
        name = gaps.idxmax()
        row = int(np.flatnonzero(frame[name].isna())[0]) + 1
        raise ValueError(
            f"{path}: X: contains NaN: {total} gap{'s' * (total > 1)}, {gaps[name]} of them in the "
            f"column {name!r}, first in row {row}; fill them or leave those rows or columns out "
            f"({'; '.join(notes)})"
        )
    notes.append("no gaps")
    X = frame.to_numpy()
    if X.dtype == object:
        X = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return Rows(X, labels, features=tuple(frame.columns), about="; ".join(notes), label=label)


def table_suffix(path: str | os.PathLike) -> str:
    """Return the suffix that names the format, in lower case: ``.csv`` for ``rows.csv.gz``.

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


def _parquet(path: Path, target: str | None, options: dict, notes: list[str]):
    import pandas as pd
    from pyarrow.parquet import read_metadata

    about = read_metadata(path)
    check_unpacked(path, 8 * about.num_rows * about.num_columns)
    frame = pd.read_parquet(path, **options)
    frame.columns = _names(frame.columns.map(str), notes)
    label = label_column(list(frame), target, path, notes)
    labels = frame.pop(label)
    texts = labels.map(lambda value: value.strip() if isinstance(value, str) else value)
    return frame, label, texts.to_numpy()


def _delimited(path: Path, target: str | None, options: dict, notes: list[str]):
    """Return the features of a CSV or TSV file as a frame, the label's name, and the labels."""
    import pandas as pd

    if "delimiter" in options:
        options["sep"] = options.pop("delimiter")
    if "sep" not in options:
        options["sep"] = _separator(path, options, notes)
    options |= {} if {"low_memory", "engine"} & set(options) else {"low_memory": False}
    options.setdefault("skipinitialspace", True)
    layout = LAYOUT & set(options)
    if layout or len(options["sep"] or "") != 1:
        kept = {name: value for name, value in options.items() if name != "dtype"}
        read = pd.read_csv(_open(path), **kept | {"nrows": HEAD_ROWS})
        keys, names = list(read), _names(read.columns.map(str), notes)
        if layout:
            notes.append(f"names as {', '.join(sorted(layout))} says")
    else:
        own, names = _layout(path, options, notes)
        keys, options = names, options | own
    label = label_column(names, target, path, notes)
    place = keys[names.index(label)]
    if (dtype := options.get("dtype")) is not None and not isinstance(dtype, Mapping):
        options["dtype"] = {key: dtype for key in keys if key != place}
    if place not in (options.get("dtype") or {}):
        options["converters"] = {place: _marked} | dict(options.get("converters") or {})
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # values that would be lost
        frame = pd.read_csv(_open(path), **options)
    frame.columns = names
    empty = [name for name in names if name.startswith("Unnamed: ") and frame[name].isna().all()]
    if empty and label not in empty:
        frame = frame.drop(columns=empty)
        notes.append(f"{len(empty)} empty column without a name left out")
    first = frame.columns[0]
    if first in ("Unnamed: 0", "row names") and first != label:
        if not frame[first].is_unique or frame[first].dtype.kind == "f":
            raise ValueError(
                f"{path}: the header has no name for the first column (Unnamed: 0), or one name "
                "fewer than the rows have values; correct it, or give index_col=0 if the first "
                "column is no feature, header=None if the first line is a row"
            )
        frame = frame.drop(columns=first)
        notes.append("first column left out: names of the rows")
    labels = frame.pop(label).to_numpy()
    marked = labels.dtype == object and all(str(text).startswith(MARK) for text in labels)
    texts = [str(text).removeprefix(MARK) for text in labels] if marked else []
    return frame, label, _classes(texts, notes) if marked else labels


def _marked(text: str) -> str:
    """Return a label with a mark, which keeps pandas from taking it for a gap."""
    return MARK + text.strip()


def _open(path: Path) -> IO[bytes]:
    """Open a file, plain or compressed, or the one file in a .zip archive."""
    if path.suffix.lower() != ".zip":
        return open_text(path)
    check_unpacked(path)
    archive = zipfile.ZipFile(path)
    if len(names := [name for name in archive.namelist() if not name.endswith("/")]) != 1:
        raise ValueError(f"the archive must contain one file, it has {len(names)}")
    return archive.open(names[0])


def _head(path: Path, options: Mapping, separator: str, count: int) -> list[list[str]]:
    """Return the first lines of a CSV file as fields, without blanks around them."""
    with _open(path) as file:
        text = io.TextIOWrapper(file, options.get("encoding") or "utf-8-sig", newline="")
        quote = options.get("quotechar", '"')
        rows = csv.reader(text, delimiter=separator, quotechar=quote, skipinitialspace=True)
        filled = (row for row in rows if any(cell.strip() for cell in row) or len(row) > 1)
        return [[cell.strip() for cell in row] for row in islice(filled, count)]


def _separator(path: Path, options: Mapping, notes: list[str]) -> str:
    if table_suffix(path) == ".tsv":
        return "\t"
    commas, semicolons = (sum(map(len, _head(path, options, s, 1))) for s in ",;")
    if semicolons > commas:
        notes.append("columns separated by semicolons")
        return ";"
    return ","


def _layout(path: Path, options: Mapping, notes: list[str]) -> tuple[dict, list[str]]:
    """Return pandas' options for the header of a file, and the names of its columns."""
    rows = _head(path, options, options["sep"], HEAD_ROWS)
    if not rows:
        raise ValueError("it is empty")
    first, below = rows[0], rows[1:]
    if not _is_header(first, below):
        names = list(map(str, range(len(first))))
        if len(first) > 1 and not any(row[len(first) - 1 :] != [""] for row in rows):
            names.pop()
        notes.append("no header: the first line is a row, the columns are called 0, 1, ...")
        return {"header": None, "names": names, "index_col": False}, names
    names = _names(first, notes)
    longer = [row for row in below if len(row) > len(names)]
    # R writes one name fewer than columns if rows have names.
    if below and len(longer) == len(below) and all(row[len(names)] for row in longer):
        names = ["row names", *names]
    elif longer:
        notes.append("a delimiter at the end of rows makes no column")
        if lost := [row for row in longer if any(row[len(names) :])]:
            line = rows.index(lost[0]) + 1
            raise ValueError(
                f"line {line} has {len(lost[0])} values and the header {len(names)} names; correct "
                "the file, or give header=None if the first line is a row"
            )
    shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
    notes.append(f"the first line has the names: {shown}")
    return {"header": 0, "names": names, "index_col": False}, names


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line has names, by what stands below it.

    A word over numbers is a name, and so is a word that does not occur again below while other
    words there repeat. Otherwise a number or a gap over numbers, and a word that occurs again
    below, are values, except numbers that count the columns.
    """
    values = []
    for place, name in enumerate(first):
        column = [row[place] for row in below if place < len(row) and row[place] not in GAPS]
        numeric = bool(column) and all(map(_is_number, column))
        gap = name in GAPS or not any(map(str.isalnum, name))
        if numeric and not gap and not _is_number(name):
            return True
        if column and not numeric and not gap and not _is_number(name) and name not in column:
            if 2 * len(set(column)) <= len(column):  # words that repeat, and this one does not
                return True
        values.append((name != "" and numeric and gap) or _is_number(name) or name in column)
    numbers = [name for name in first if _is_number(name)]
    counted = [[str(i + base) for i in range(len(numbers))] for base in (0, 1)]
    if numbers in counted and len(numbers) < len(first):
        return not any(v for v, name in zip(values, first) if not _is_number(name))
    return not any(values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text not in GAPS


def _names(names: Sequence[str], notes: list[str]) -> list[str]:
    """Return distinct names without blanks around them; the second `a` becomes ``a.1``."""
    found, renamed = [], []
    for place, name in enumerate(map(str.strip, names)):
        new, count = name or f"Unnamed: {place}", 0
        while new in found:
            count += 1
            new = f"{name}.{count}"
        renamed += [f"{new} (was {name})"] * (count > 0)
        found.append(new)
    if renamed:
        notes.append(f"duplicate names are now {', '.join(renamed[:5])}")
    return found


def label_column(
    names: Sequence[str], target: str | None, path: Path, notes: list[str] | None = None
) -> str:
    """Return the name of the label column, as of :func:`read_table`, and note it."""
    notes = [] if notes is None else notes
    if target is not None:
        if (target := str(target).strip()) not in names:
            why = "; ".join(note for note in notes if "header" in note)
            raise ValueError(
                f"target: {path} has no column {target!r}; it has {list(names)}"
                + (f" ({why}; give header=0 if it has the names)" if why else "")
            )
        return target
    named = [name for name in names if re.sub(r"\.\d+$", "", name.lower()) in TARGETS]
    if len(named) > 1:
        raise ValueError(f"target: {path} has the columns {named}; name the one with the labels")
    label = named[0] if named else [n for n in names if "Unnamed: " not in n or n == names[0]][-1]
    notes.append(f"label column {label!r}" + ("" if named else ", the last"))
    return label


def _classes(texts: Sequence[str], notes: list[str]) -> np.ndarray:
    """Return labels, given as text, as numbers if all of them are; None and NaN are missing.

    Text that spells a gap is a class if any other label is a word.
    """
    distinct = {*texts}
    numbers = any(map(_is_number, distinct))
    if not numbers or any(LEADING_ZERO.match(t) or not _is_number(t) for t in distinct - {*GAPS}):
        if gaps := sorted(distinct & {*GAPS} - {""}):
            notes.append(f"the label {', '.join(map(repr, gaps))} is a class, not a gap")
        counts = Counter(map(str.casefold, distinct))
        if alike := sorted(text for text in distinct if counts[text.casefold()] > 1):
            notes.append(f"labels that differ in case only are classes: {', '.join(alike[:6])}")
        return np.array([text or None for text in texts], object if "" in distinct else str)
    if all(map(WHOLE.fullmatch, distinct)):
        return np.array([int(text) for text in texts])
    return as_integers(np.array([np.nan if text in GAPS else float(text) for text in texts]))


def _not_numbers(path: Path, frame: pd.DataFrame, words: list[str], target: str | None) -> str:
    name = words[0]
    column = frame[name].dropna()
    odd = [str(value) for value in column.unique() if not _is_number(str(value))]
    text = f"{path}: features must be numbers; {', '.join(words[:5])} are not"
    if odd and len(odd) < column.nunique():
        text += (
            f" ({name} contains {', '.join(map(repr, odd[:3]))}; give na_values= if it is a gap)"
        )
    if any("," in value for value in odd) and len(odd) == column.nunique():
        text += f" ({name} contains {odd[0]!r}; give decimal=',' if that is a number)"
    other = "" if target else ", or name the label column with target="
    return f"{text}: encode or drop them{other}"
