"""Tables: CSV, TSV and Parquet files as rows with a label column.

pandas reads them, and its own options decide what a file means. What is not clear
without them is refused in one sentence that names the option; :attr:`Rows.about` says
what was read.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from workbench.core.checks import as_array, folded, refuse_missing, shown
from workbench.core.kinds import PathLike, Record
from workbench.data.formats import BROKEN, Rows, as_integers

TABLES = (".csv", ".tsv", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip")
TARGETS = ("target", "label", "class", "y")
MAX_LISTED = 8  # classes whose counts `about` lists
# A number as one writes it, and that a float holds exactly enough to be written so
# again.
PLAIN = re.compile(r"(?=.{1,16}$)[+-]?(0|[1-9][0-9]*)(\.(0|[0-9]*[1-9]))?")
HEAD = {"nrows": 0, "skipfooter": 0}  # options that read the names of the columns only


def read_tables(*paths: PathLike, target: str | None = None, **options) -> list[Rows]:
    """Read CSV, TSV or Parquet tables, one sample per row.

    Parameters
    ----------
    paths : .csv, .tsv or .parquet files; the first two may be compressed (.gz, .bz2,
        .xz, .zip); a test table follows its training table
    target : the label column; by default the one column called target, label, class or
        y, in upper or lower case, else the last
    options : of ``pandas.read_csv`` or ``read_parquet``. With `na_values`, rows that
        have gaps among their features are left out; otherwise gaps are an error.

    Returns
    -------
    list of Rows
        Labels are texts as they are written, or numbers if all of them spell different
        numbers plainly: 7, -1 or 2.5, but not 07, 2.50 or 1e5. `about` has the label
        column, the size of each class, the error of always predicting the largest
        class, labels that differ only in case or blanks, and how many rows were left
        out. A table that is unclear is a ValueError that names the file, the column and
        the option.
    """
    tables: list[Rows] = []
    for path in map(Path, paths):
        tables.append(_rows(path, target, options))
        target = tables[0].label
    numbers = [as_numbers(rows.y) for rows in tables]
    if not any(y.dtype.kind == "U" for y in numbers):
        tables = [rows._replace(y=y) for rows, y in zip(tables, numbers)]
    return [t._replace(about="; ".join([t.about, *described(t.y)])) for t in tables]


def as_numbers(labels: np.ndarray) -> np.ndarray:
    """Return texts that spell different numbers plainly as numbers, other labels
    unchanged."""
    if labels.dtype.kind != "U":
        return as_integers(labels)
    texts, codes = np.unique(np.char.strip(labels, " "), return_inverse=True)
    numbers = as_integers(texts)
    if numbers.dtype.kind == "U" and all(map(PLAIN.fullmatch, texts.tolist())):
        numbers = as_integers(texts.astype(np.float64))
    is_plain = numbers.dtype.kind != "U" and len(np.unique(numbers)) == len(texts)
    return numbers[codes] if is_plain else labels


def _rows(path: Path, target: str | None, options: Record) -> Rows:
    """Return the rows of one table, with its labels as they are written."""
    is_text = table_suffix(path) != ".parquet"
    if is_text:
        options = _usual(path, {**options})
    frame = _frame(path, options | HEAD if is_text else options)
    names = _names(frame, path, is_text, options)
    label = _label_column(names, target, path)
    place = names.index(label)
    if is_text:
        if f"{label}.1" in names and "names" not in options:
            raise ValueError(
                f"{path}: two columns are called {label!r}; give usecols= or names="
            )
        options = _as_text(frame.columns[place], options)
        frame = _frame(path, options)
    frame.columns = names
    written = labels = frame.pop(label)
    if is_text and labels.isna().any():
        written = _frame(path, options | {"na_filter": False, "dtype": str}).iloc[
            :, place
        ]
    frame = _numeric(frame, path)
    about, gaps = f"label column {label!r}", frame.isna()
    if gaps.any(axis=None):
        if "na_values" not in options:
            name = gaps.sum().idxmax()
            what = f"{gaps[name].sum():,} of {len(frame):,} values of column {name!r} are missing"
            advice = ", or give na_values='' to leave these rows out" if is_text else ""
            raise ValueError(f"{path}: X: contains NaN: {what}; fill them{advice}")
        kept = ~gaps.any(axis=1).to_numpy()
        about += (
            f"; {len(frame) - kept.sum():,} of {len(frame):,} rows have gaps, left out"
        )
        frame, labels, written = frame[kept], labels[kept], written[kept]
    advice = ", or give keep_default_na=False if that is a class" if is_text else ""
    missing = written[labels.isna().to_numpy()].tolist()
    refuse_missing(missing, f"{path}: y", f"fill them{advice}")
    X = frame.to_numpy()
    X = frame.to_numpy(dtype=np.float64) if X.dtype == object else X
    y = as_array(labels.tolist(), "y")
    y = np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y
    return Rows(X, y, features=tuple(frame.columns), about=about, label=label)


def _usual(path: Path, given: Record) -> Record:
    """Return options of ``pandas.read_csv`` with our defaults; a table is read in one
    piece."""
    options: Record = {"skipinitialspace": True, "index_col": False}
    options["sep"] = given.pop(
        "delimiter", "\t" if table_suffix(path) == ".tsv" else ","
    )
    options |= given | {"chunksize": None, "iterator": False}
    if "engine" not in options and len(str(options["sep"])) == 1:
        options["low_memory"] = (
            False  # in chunks, a column may be numbers in some, texts in others
        )
    return options


def _as_text(column: object, options: Record) -> Record:
    """Return options that let pandas guess no type for this column, nor for
    categories."""
    types = options.get("dtype") or {}
    if not isinstance(types, dict) or column in (options.get("converters") or {}):
        return options
    types = {name: kind for name, kind in types.items() if kind != "category"}
    return options | {"dtype": {column: str} | types}


def _frame(path: Path, options: Record):
    """Return the table as pandas reads it."""
    import pandas as pd  # half a second that other formats need not wait for

    reason: object
    try:
        if table_suffix(path) == ".parquet":
            return pd.read_parquet(path.absolute(), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            warnings.filterwarnings(
                "error", "Length of header", pd.errors.ParserWarning
            )
            return pd.read_csv(path.absolute(), **options)
    except pd.errors.ParserWarning:
        reason = "a row has more values than there are names; give sep= or index_col="
    except UnicodeError as error:
        reason = f"{error}; give encoding="
    except (*BROKEN, AttributeError, ImportError) as error:
        reason = error
    raise ValueError(f"{path}: cannot be read as a table: {reason}")


def _names(frame, path: Path, is_text: bool, options: Record) -> list[str]:
    """Return the names of the columns; a ValueError says which are unclear."""
    names = [str(name).strip() for name in frame.columns]
    if is_text:
        if not {"header", "names"} & {*options} and any(map(_is_number, names)):
            raise ValueError(
                f"{path}: the first line, {names[:5]}, may be a row; give header=None "
                "or header=0"
            )
        if any(name.startswith("Unnamed: ") for name in names):
            raise ValueError(
                f"{path}: a column has no name; give index_col=0 if the first column "
                "names rows"
            )
    if len({*names}) < len(names):
        raise ValueError(
            f"{path}: columns must have different names, got {names}; rename them"
        )
    if len(names) < 2:
        advice = "; give sep=" if is_text else ""
        raise ValueError(
            f"{path}: needs a label column and a feature, it has only {names}{advice}"
        )
    return names


def described(labels: np.ndarray) -> list[str]:
    """Return sentences on the classes: their sizes, the majority's error, nearly equal
    labels."""
    counts = Counter(labels.tolist()).most_common()
    if not counts:
        return []
    names = [str(name) for name, _ in counts]
    listed = ", ".join(f"{name} {size:,}" for name, size in counts[:MAX_LISTED])
    more = f" and {len(counts) - MAX_LISTED:,} more" if len(counts) > MAX_LISTED else ""
    error = 1 - counts[0][1] / len(labels)
    lines = [
        f"{len(counts):,} classes: {listed}{more}",
        f"always predicting {names[0]} has an error of {100 * error:.1f} %",
    ]
    sizes = Counter(map(folded, names))
    if alike := sorted(name for name in names if sizes[folded(name)] > 1):
        lines.append(
            f"labels that differ only in case or blanks are separate classes: {alike}"
        )
    return lines


def table_suffix(path: PathLike) -> str:
    """Return the suffix that names the format, in lower case: ``.csv`` for
    ``rows.csv.gz``."""
    path = Path(path)
    path = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return path.suffix.lower()


def _label_column(names: list[str], target: str | None, path: Path) -> str:
    named = [name for name in names if name.lower() in TARGETS]
    if target is not None:
        if (target := str(target).strip()) not in names:
            raise ValueError(f"target: {path} has no column {target!r}; it has {names}")
        return target
    if len(named) > 1:
        raise ValueError(
            f"target: {path} has the columns {named}; name the one with the labels"
        )
    return named[0] if named else names[-1]


def _numeric(frame, path: Path):
    """Return the features as numbers; a ValueError says which column has other
    values."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    for name, column in frame.items():
        if is_numeric_dtype(column):
            continue
        numbers = pd.to_numeric(column.astype(str), errors="coerce")
        odd = column[numbers.isna() & column.notna()].astype(str)
        if len(odd):
            example = odd.value_counts().index[0]
            what = f"{len(odd):,} of {len(column):,} values are not, most often {shown(example)}"
            advice = f"give na_values={shown(example)} if that is a gap"
            if "," in example:
                advice = "give decimal=',' if these are numbers"
            advice += (
                ", encode or drop such columns, or name the label column with target="
            )
            raise ValueError(
                f"{path}: features must be numbers; column {name!r}: {what}; {advice}"
            )
        frame = frame.assign(**{name: numbers})
    return frame


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)  # a column may be called nan
    except ValueError:
        return False
