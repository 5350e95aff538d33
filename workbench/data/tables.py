"""CSV, TSV and Parquet files as rows with a label column.

pandas reads the files, and its options decide how they are read. An unclear file is
refused with a message that names the option to give. :attr:`Rows.about` says what was
read.
"""

import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from workbench.core.checks import as_array, folded, refuse_missing, shown
from workbench.core.kinds import Array, PathLike, Record
from workbench.data.formats import (
    BROKEN,
    OPENERS,
    Rows,
    as_integers,
    check_unpacked,
    opened,
)

TABLES = (".csv", ".tsv", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip")
TARGETS = ("target", "label", "class", "y")
MAX_LISTED = 8  # classes whose sizes `about` lists
# Matches a plainly written number that is written in the same way after it has been
# read as a float.
PLAIN = re.compile(r"(?=.{1,16}$)[+-]?(0|[1-9][0-9]*)(\.(0|[0-9]*[1-9]))?")
HEAD = {"nrows": 0, "skipfooter": 0}  # options for reading only the names of columns


def read_tables(*paths: PathLike, target: str | None = None, **options) -> list[Rows]:
    """Read CSV, TSV or Parquet tables with one example per row.

    Parameters
    ----------
    paths : str or Path
        .csv, .tsv or .parquet files. The first two may be compressed (.gz, .bz2, .xz,
        .zip). A test table comes after its training table.
    target : str or None
        The label column. By default it is the only column called target, label, class
        or y, in upper or lower case, or else the last column.
    options : options of ``pandas.read_csv`` or ``read_parquet``
        With `na_values`, rows whose features have gaps are left out; otherwise gaps
        raise a ValueError.

    Returns
    -------
    list of Rows
        Labels are the texts in the file. They become numbers if different texts are
        different numbers, all of them plainly written, such as 7, -1 or 2.5, but not
        07, 2.50 or 1e5. `about` names the label column, the size of each class, the
        error of always predicting the largest class, labels that differ only in case or
        blanks, and the number of rows that were left out.

    Raises
    ------
    ValueError
        If a table is unclear. The message names the file, the column and the option.
    """
    tables: list[Rows] = []
    for path in map(Path, paths):
        tables.append(_rows(path, target, options))
        target = tables[0].label  # also of the test table
    labels = [as_numbers(rows.y) for rows in tables]
    if any(y.dtype.kind == "U" for y in labels):
        labels = [rows.y for rows in tables]
    return [
        rows._replace(y=y, about="; ".join([rows.about, *described(y)]))
        for rows, y in zip(tables, labels, strict=True)
    ]


def as_numbers(labels: Array) -> Array:
    """Return labels as numbers if different labels are different, plain numbers."""
    if labels.dtype.kind != "U":
        return as_integers(labels)
    texts, codes = np.unique(np.char.strip(labels, " "), return_inverse=True)
    numbers = as_integers(texts)
    if numbers.dtype.kind == "U" and all(map(PLAIN.fullmatch, texts.tolist())):
        numbers = as_integers(texts.astype(np.float64))
    is_plain = numbers.dtype.kind != "U" and len(np.unique(numbers)) == len(texts)
    return numbers[codes] if is_plain else labels


def _rows(path: Path, target: str | None, options: Record) -> Rows:
    """Return the rows of one table, with the labels as they are in the file."""
    is_text = table_suffix(path) != ".parquet"
    if is_text:
        options = _usual(path, {**options})
    head = options | HEAD if is_text else options
    frame = _frame(path, head)
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
        as_written = options | {"na_filter": False, "dtype": str}
        written = _frame(path, as_written).iloc[:, place]
    frame = _numeric(frame, path)
    about = f"label column {label!r}"
    gaps = frame.isna()
    if gaps.any(axis=None):
        if "na_values" not in options:
            _refuse_gaps(gaps, path, is_text)
        full = ~gaps.any(axis=1).to_numpy()
        about += f"; {np.sum(~full):,} of {len(frame):,} rows have gaps (left out)"
        frame = frame[full]
        labels = labels[full]
        written = written[full]
    remedy = "fill them"
    if is_text:
        remedy += ", or give keep_default_na=False if that is a class"
    missing = written[labels.isna().to_numpy()].tolist()
    refuse_missing(missing, f"{path}: y", remedy)
    X = frame.to_numpy()
    if X.dtype == object:
        X = frame.to_numpy(dtype=np.float64)
    y = as_array(labels.tolist(), "y")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    return Rows(X, y, features=tuple(frame.columns), about=about, label=label)


def _refuse_gaps(gaps, path: Path, is_text: bool) -> None:
    """Raise a ValueError that names the column with the largest number of gaps."""
    counts = gaps.sum()
    name = counts.idxmax()
    what = f"{counts[name]:,} of {len(gaps):,} values of column {name!r} are missing"
    remedy = "fill them"
    if is_text:
        remedy += ", or give na_values='' to leave these rows out"
    raise ValueError(f"{path}: X: contains NaN: {what}; {remedy}")


def _usual(path: Path, given: Record) -> Record:
    """Return the given options of ``pandas.read_csv`` together with our defaults.

    A table is always read in one piece: in chunks, the values of a column may be
    numbers in one chunk and texts in another.
    """
    options: Record = {"skipinitialspace": True, "index_col": False}
    separator = "\t" if table_suffix(path) == ".tsv" else ","
    options["sep"] = given.pop("delimiter", separator)
    options |= given | {"chunksize": None, "iterator": False}
    if "engine" not in options and len(str(options["sep"])) == 1:
        options["low_memory"] = False
    return options


def _as_text(column: object, options: Record) -> Record:
    """Return options with which pandas reads this column as text.

    Columns to which the options give the type "category" are left to pandas.
    """
    types = options.get("dtype") or {}
    if not isinstance(types, dict) or column in (options.get("converters") or {}):
        return options
    types = {name: kind for name, kind in types.items() if kind != "category"}
    return options | {"dtype": {column: str} | types}


def _frame(path: Path, options: Record):
    """Return the table as pandas reads it."""
    import pandas as pd  # takes half a second, so only tables import it

    reason: object
    try:
        if table_suffix(path) == ".parquet":
            return pd.read_parquet(path.absolute(), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            warnings.filterwarnings(
                "error", "Length of header", pd.errors.ParserWarning
            )
            if path.suffix.lower() in OPENERS:
                with opened(path) as file:
                    return pd.read_csv(file, **options | {"compression": None})
            if path.suffix.lower() == ".zip":
                check_unpacked(path)
            return pd.read_csv(path.absolute(), **options)
    except pd.errors.ParserWarning:
        reason = "a row has more values than there are names; give sep= or index_col="
    except UnicodeError as error:
        reason = f"{error}; give encoding="
    except (*BROKEN, ImportError) as error:
        reason = error
    raise ValueError(f"{path}: cannot be read as a table: {reason}")


def _names(frame, path: Path, is_text: bool, options: Record) -> list[str]:
    """Return the names of the columns; unclear names raise a ValueError."""
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
            f"{path}: needs a label column and a feature, but has only {names}{advice}"
        )
    return names


def described(labels: Array) -> list[str]:
    """Return sentences on the classes: sizes, majority error and similar names."""
    counts = Counter(map(str, labels.tolist())).most_common()
    if not counts:
        return []
    sizes = ", ".join(f"{name} {size:,}" for name, size in counts[:MAX_LISTED])
    if len(counts) > MAX_LISTED:
        sizes += f" and {len(counts) - MAX_LISTED:,} more"
    largest, size = counts[0]
    error = 1 - size / len(labels)
    sentences = [
        f"{len(counts):,} classes: {sizes}",
        f"always predicting {largest} has an error of {100 * error:.1f} %",
    ]
    names = [name for name, _ in counts]
    spellings = Counter(map(folded, names))
    alike = sorted(name for name in names if spellings[folded(name)] > 1)
    if alike:
        sentences.append(
            f"labels that differ only in case or blanks are separate classes: {alike}"
        )
    return sentences


def table_suffix(path: PathLike) -> str:
    """Return the suffix of the format in lower case: ``.csv`` for ``rows.csv.gz``."""
    path = Path(path)
    if path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    return path.suffix.lower()


def _label_column(names: list[str], target: str | None, path: Path) -> str:
    if target is not None:
        target = str(target).strip()
        if target not in names:
            raise ValueError(f"target: {path} has no column {target!r}; it has {names}")
        return target
    usual = [name for name in names if name.lower() in TARGETS] or names[-1:]
    if len(usual) > 1:
        raise ValueError(
            f"target: {path} has the columns {usual}; name the one with the labels"
        )
    return usual[0]


def _numeric(frame, path: Path):
    """Return the features as numbers; a ValueError names a column with other values."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    for name, column in frame.items():
        if is_numeric_dtype(column):
            continue
        numbers = pd.to_numeric(column.astype(str), errors="coerce")
        texts = column[numbers.isna() & column.notna()].astype(str)
        if len(texts):
            example = texts.value_counts().index[0]
            remedy = f"give na_values={shown(example)} if that is a gap"
            if "," in example:
                remedy = "give decimal=',' or thousands=',' if these are numbers"
            raise ValueError(
                f"{path}: features must be numbers; column {name!r}: {len(texts):,} of "
                f"{len(column):,} values are not, most often {shown(example)}; "
                f"{remedy}, encode or drop such columns, or name the label column with "
                "target="
            )
        frame[name] = numbers
    return frame


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)  # a column may be called nan
    except ValueError:
        return False
