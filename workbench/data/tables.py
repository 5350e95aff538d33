"""Tables: CSV, TSV and Parquet files as rows with a label column.

pandas reads them, and its own options decide what a file means. What is not clear without them is
refused in one sentence that names the option; :attr:`Rows.about` says what was taken for what.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.data.formats import BROKEN, OPENERS, Rows, as_integers, check_unpacked

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".parquet")
TARGETS = ("target", "label", "class", "y")
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
GAPS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>", "?")
LEADING_ZERO = re.compile(r"[+-]?0\d")  # 007 is a code, not a number
MARK = "="  # before a label, which keeps pandas from taking it for a gap
UNNAMED = "Unnamed: "  # how pandas calls a column without a name


def read_table(
    path: str | os.PathLike, target: str | None = None, options: Mapping[str, Any] | None = None
) -> Rows:
    """Read a CSV, TSV or Parquet table, one sample per row.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file; the first two may be compressed (.gz, .bz2, .xz, .zip).
        Columns are separated by commas, or by semicolons if these make more columns.
        Blanks around names and labels are dropped. A delimiter at the end of the rows makes no
        column. A first column without a name is left out if all its values differ: these are names
        of rows.
    target : the label column; by default the one column called target, label, class or y, in
        upper or lower case, else the last. Its text is the classes, also text that pandas takes
        for a gap such as NA, unless all other labels are numbers.
    options : of ``pandas.read_csv`` or ``read_parquet``, which decide instead

    Raises
    ------
    ValueError
        Naming the file: not a table, damaged, no such column, several candidates, a first line
        that may be a row, columns that are not numbers or have gaps.
    """
    import pandas as pd  # half a second that other formats need not wait for
    from pandas.api.types import is_numeric_dtype

    path, notes, options = Path(path), [], dict(options or {})
    try:
        if table_suffix(path) == ".parquet":
            frame = pd.read_parquet(path, **options)
            frame.columns = _names(path, frame.columns)
            label = _label_column(list(frame), target, path, notes)
            texts = frame.pop(label)
            labels = texts.map(lambda t: t.strip() if isinstance(t, str) else t).to_numpy()
        else:
            frame, label, labels = _delimited(path, target, options, notes)
    except (*BROKEN, ImportError, pd.errors.ParserWarning) as error:
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
        raise ValueError(f"{path}: {_not_numbers(frame, words)} ({'; '.join(notes)})")
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

    A spreadsheet is a ValueError.
    """
    path = Path(path)
    packed = path.suffix.lower() in (*OPENERS, ".zip")
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix in SHEETS:
        raise ValueError(f"{path}: is a spreadsheet; save the sheet with the rows as CSV (UTF-8)")
    return suffix


def _delimited(path: Path, target: str | None, options: dict, notes: list[str]):
    """Return the features of a CSV or TSV file as a frame, the label's name, and the labels."""
    import pandas as pd

    def read(**more) -> pd.DataFrame:
        return pd.read_csv(path, **options | more)

    if path.suffix.lower() == ".zip":
        check_unpacked(path)
    if not {"sep", "delimiter"} & {*options}:
        signs = "\t" if table_suffix(path) == ".tsv" else ",;"
        first = dict.fromkeys(("names", "usecols", "dtype", "converters", "index_col", "header"))
        options["sep"] = max(signs, key=lambda sign: read(**first, sep=sign, nrows=1).shape[1])
    options.setdefault("skipinitialspace", True)
    keys = list(read(nrows=0, dtype=None))
    names = _names(path, keys)
    if not {"header", "names"} & {*options} and any(map(_is_number, names)):
        raise ValueError(
            f"the first line may be a row, as it has numbers ({', '.join(names[:5])}); give "
            "header=None if it is, header=0 if these are the names"
        )
    label = _label_column(names, target, path, notes)
    place = keys[names.index(label)]
    if (dtype := options.get("dtype")) is not None and not isinstance(dtype, Mapping):
        options["dtype"] = {key: dtype for key in keys if key != place}
    converters = dict(options.get("converters") or {})
    marked = place not in (options.get("dtype") or {}) and place not in converters
    if marked:
        options["converters"] = converters | {place: lambda text: MARK + text.strip()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # values that would be lost
        frame = read()
        shifted = "index_col" not in options and not isinstance(frame.index, pd.RangeIndex)
        if shifted and frame.iloc[:, -1].isna().all():
            notes.append("a delimiter at the end of rows makes no column")
            frame, shifted = read(index_col=False), False
    frame.columns = names
    for name in [name for name in names if name.startswith(UNNAMED) and name != label]:
        if frame[name].isna().all():
            frame = frame.drop(columns=name)
            notes.append("an empty column without a name is left out")
    if names[0] == f"{UNNAMED}0" != label:
        frame, shifted = frame.set_index(names[0]), True
    if shifted:
        if not frame.index.is_unique or frame.index.dtype.kind == "f":
            raise ValueError(
                "the header has no name for the first column, or one name fewer than the rows have "
                "values; correct it, or give index_col=0 if the first column is no feature, "
                "header=None if the first line is a row"
            )
        notes.append("first column left out: names of the rows")
    labels = frame.pop(label).to_numpy()
    if marked:
        texts = (text.removeprefix(MARK) if isinstance(text, str) else "" for text in labels)
        labels = _classes(list(texts), notes)
    return frame, label, labels


def _names(path: Path, names: Sequence) -> list[str]:
    """Return the names of columns without blanks around them, which must differ."""
    names = [str(name).strip() for name in names]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path}: several columns are called {twice[0]!r}; give names=")
    return names


def _label_column(names: Sequence[str], target: str | None, path: Path, notes: list[str]) -> str:
    if target is not None:
        if (target := str(target).strip()) not in names:
            raise ValueError(f"target: {path} has no column {target!r}; it has {list(names)}")
        return target
    # pandas calls a second column `y` y.1.
    named = [name for name in names if re.sub(r"\.\d+$", "", name.lower()) in TARGETS]
    if len(named) > 1:
        raise ValueError(f"target: {path} has the columns {named}; name the one with the labels")
    label = named[0] if named else [n for n in names if UNNAMED not in n or n == names[0]][-1]
    notes.append(f"label column {label!r}" + ("" if named else ", the last"))
    return label


def _classes(texts: Sequence[str], notes: list[str]) -> np.ndarray:
    """Return labels, given as text, as numbers if all of them are; None and NaN are missing.

    Text that spells a gap is a class unless all other labels are numbers.
    """
    distinct = {*texts}
    others = distinct - {*GAPS}
    if not others or any(LEADING_ZERO.match(t) or not _is_number(t) for t in others):
        if gaps := sorted(distinct & {*GAPS} - {""}):
            notes.append(f"the label {', '.join(map(repr, gaps))} is a class, not a gap")
        counts = Counter(map(str.casefold, distinct))
        if alike := sorted(text for text in distinct if counts[text.casefold()] > 1):
            notes.append(f"labels that differ in case only are classes: {', '.join(alike[:6])}")
        return np.array([text or None for text in texts], object if "" in distinct else str)
    whole = as_integers(np.array(texts, str))  # also numbers that floats would make equal
    if whole.dtype.kind == "i":
        return whole
    return as_integers(np.array([np.nan if text in GAPS else float(text) for text in texts]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text not in GAPS


def _not_numbers(frame: pd.DataFrame, words: list[str]) -> str:
    values = frame[name := words[0]].dropna().unique()
    odd = [str(value) for value in values if not _is_number(str(value))]
    text = f"features must be numbers; {', '.join(words[:5])} are not"
    if 0 < len(odd) < len(values):
        text += (
            f" ({name} contains {', '.join(map(repr, odd[:3]))}; give na_values= if it is a gap)"
        )
    elif any("," in value for value in odd):
        text += f" ({name} contains {odd[0]!r}; give decimal=',' if that is a number)"
    return f"{text}: encode or drop them, or name the label column with target="
