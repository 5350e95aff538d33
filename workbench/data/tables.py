"""Tables: CSV, TSV and Parquet files as frames, and as rows with a label column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.data.formats import BROKEN, OPENERS, Rows, check_unpacked, open_text

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".parquet")
TARGETS = ("target", "label", "class", "y")
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")


def table(path: str | os.PathLike) -> tuple[pd.DataFrame, list[str]]:
    """Return a CSV, TSV or Parquet table, the names of its columns as text.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file; the first two may be compressed (.gz, .bz2, .xz, .zip).
        A CSV is separated by semicolons where they make more columns of its first line than commas
        do; one whose first line is all numbers has no header, its columns are called 0, 1, ...

    Returns
    -------
    frame
    notes : list of str, the guesses about separator and header

    Raises
    ------
    ValueError
        Naming the file: not a table, or damaged.
    """
    import pandas as pd  # half a second that other formats need not wait for
    from pyarrow.parquet import read_metadata

    path, notes = Path(path), []
    try:
        if table_suffix(path) == ".parquet":
            about = read_metadata(path)
            check_unpacked(path, 8 * about.num_rows * about.num_columns)
            frame = pd.read_parquet(path)
        else:
            frame = _delimited(path, notes)
    except (*BROKEN, ImportError) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pd.errors.EmptyDataError):
            reason = "it is empty"
        if isinstance(error, UnicodeDecodeError):
            reason = "its text is not UTF-8; save it again in that encoding"
        raise ValueError(f"{path}: cannot be read as a table: {reason}") from error
    frame.columns = frame.columns.map(str)
    return frame, notes


def read_table(path: str | os.PathLike, target: str | None = None) -> Rows:
    """Read a CSV, TSV or Parquet table, one sample per row.

    Parameters
    ----------
    path : see :func:`table`
    target : the label column; by default the one column called target, label, class or y, in
        upper or lower case, else the last

    Raises
    ------
    ValueError
        Naming the file: no such column, several candidates, columns that are not numbers.
    """
    from pandas.api.types import is_numeric_dtype

    path, (frame, notes) = Path(path), table(path)
    if len(frame.columns) < 2:
        raise ValueError(f"{path}: needs a label column and a feature, got {list(frame.columns)}")
    y = frame.pop(label_column(frame.columns, target, path)).to_numpy()
    if words := [column for column in frame if not is_numeric_dtype(frame[column])]:
        other = "" if target else ", or name the label column with target="
        raise ValueError(
            f"{path}: features must be numbers; {', '.join(words[:5])} are not: "
            f"encode or drop them{other}"
        )
    X = frame.to_numpy()
    if X.dtype == object:
        X = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return Rows(X, y, features=tuple(frame.columns), about="; ".join(notes))


def table_suffix(path: str | os.PathLike) -> str:
    """Return the suffix that names the format, in lower case: ``.csv`` for ``rows.csv.gz``.

    Raises
    ------
    ValueError
        For a spreadsheet.
    """
    path = Path(path)
    if path.suffix.lower() in (*OPENERS, ".zip"):
        suffix = path.with_suffix("").suffix.lower()
    else:
        suffix = path.suffix.lower()
    if suffix in SHEETS:
        raise ValueError(f"{path}: is a spreadsheet; save the sheet with the rows as CSV (UTF-8)")
    return suffix


def _csv(path: Path, **options) -> pd.DataFrame:
    import pandas as pd

    if path.suffix.lower() == ".zip":
        check_unpacked(path)
        return pd.read_csv(path, **options)
    with open_text(path) as file:
        return pd.read_csv(file, **options)


def _delimited(path: Path, notes: list[str]) -> pd.DataFrame:
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
        notes.append(f"the first line is read as names, not as a row: {', '.join(first[:5])}")
    renamed = [f"{new} (was {old})" for old, new in zip(first, frame) if old and old != new]
    if renamed:
        notes.append(f"duplicate names are now {', '.join(renamed[:5])}")
    return frame


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def label_column(columns: Sequence[str], target: str | None, path: Path) -> str:
    """Return the name of the label column, as of :func:`read_table`."""
    if target is not None:
        if str(target) not in columns:
            raise ValueError(f"target: {path} has no column {target!r}; it has {list(columns)}")
        return str(target)
    named = [column for column in columns if column.lower() in TARGETS]
    if len(named) > 1:
        raise ValueError(f"target: {path} has the columns {named}; name the one with the labels")
    return named[0] if named else columns[-1]
