"""Tables: CSV, TSV and Parquet files as rows with a label column.

pandas reads them, and its own options decide what a file means. What is not clear without them is
refused in one sentence that names the option; :attr:`Rows.about` says what was read.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from workbench.core.kinds import PathLike, Values
from workbench.data.formats import BROKEN, Rows, as_integers

TABLES = (".csv", ".tsv", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip")
TARGETS = ("target", "label", "class", "y")
MAX_LISTED = 8  # classes whose counts `about` lists


def read_table(path: PathLike, target: str | None = None, options: Values | None = None) -> Rows:
    """Read a CSV, TSV or Parquet table, one sample per row.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file; the first two may be compressed (.gz, .bz2, .xz, .zip)
    target : the label column; by default the one column called target, label, class or y, in
        upper or lower case, else the last
    options : of ``pandas.read_csv`` or ``read_parquet``. With `na_values`, rows that have gaps
        among their features are left out; otherwise gaps are an error.

    Returns
    -------
    Rows
        `about` has the label column, the size of each class, the error of always predicting the
        largest class, labels that differ only in case or blanks, and how many rows were left out.
        A table that is unclear is a ValueError that names the file, the column and the option.
    """
    import pandas as pd  # half a second that other formats need not wait for

    path, options = Path(path), dict(options or {})
    try:
        if table_suffix(path) == ".parquet":
            frame = pd.read_parquet(path, **options)
        else:
            usual: dict = {"skipinitialspace": True, "index_col": False}
            if "delimiter" not in options:
                usual["sep"] = "\t" if table_suffix(path) == ".tsv" else ","
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # values without a name
                frame = pd.read_csv(path, **usual | options)
    except (*BROKEN, ImportError, pd.errors.ParserWarning) as error:
        reason = f"{error}; give encoding=" if isinstance(error, UnicodeError) else error
        if isinstance(error, pd.errors.ParserWarning):
            reason = "a row has more values than there are names; give sep= or index_col="
        raise ValueError(f"{path}: cannot be read as a table: {reason}") from error
    names = frame.columns = [str(name).strip() for name in frame.columns]
    if not {"header", "names"} & {*options} and any(map(_is_number, names)):
        _refuse(path, f"the first line, {names[:5]}, may be a row; give header=None or header=0")
    if "" in names or any(name.startswith("Unnamed: ") for name in names):
        _refuse(path, "a column has no name; give index_col=0 if the first column names rows")
    if len({*names}) < len(names):
        _refuse(path, f"columns must have different names, got {names}; give names=")
    if len(names) < 2:
        _refuse(path, f"needs a label column and a feature, it has only {names}; give sep=")
    label = _label_column(names, target, path)
    labels = frame.pop(label)
    about = [f"label column {label!r}"]
    frame = _numeric(frame, path)
    gaps = frame.isna()
    if gaps.any(axis=None) and "na_values" in options:
        whole = ~gaps.any(axis=1)
        about.append(f"{len(frame) - whole.sum():,} of {len(frame):,} rows have gaps, left out")
        frame, labels = frame[whole], labels[whole]
    elif gaps.any(axis=None):
        name = gaps.sum().idxmax()
        _refuse(
            path,
            f"X: contains NaN: {gaps[name].sum():,} of {len(frame):,} values of column {name!r} "
            "are missing; fill them, or give na_values='' to leave these rows out",
        )
    labels = np.asarray(labels.tolist()) if labels.notna().all() else labels.to_numpy()
    labels = as_integers(labels)
    about += described(labels)
    X = frame.to_numpy()
    X = frame.to_numpy(dtype=np.float64) if X.dtype == object else X
    return Rows(X, labels, features=tuple(frame.columns), about="; ".join(about), label=label)


def described(labels: np.ndarray) -> list[str]:
    """Return sentences on the classes: their sizes, the majority's error, nearly equal labels."""
    import pandas as pd

    counts = pd.Series(labels).value_counts(sort=False).sort_values(ascending=False, kind="stable")
    if not len(counts):
        return []
    listed = ", ".join(f"{name!s} {count:,}" for name, count in counts[:MAX_LISTED].items())
    more = f" and {len(counts) - MAX_LISTED:,} more" if len(counts) > MAX_LISTED else ""
    error = 1 - counts.iloc[0] / counts.sum()
    lines = [
        f"{len(counts):,} classes: {listed}{more}",
        f"always predicting {counts.index[0]!s} has an error of {100 * error:.1f} %",
    ]
    folded = pd.Series(["".join(str(name).split()).casefold() for name in counts.index])
    if alike := sorted(str(counts.index[i]) for i in np.flatnonzero(folded.duplicated(keep=False))):
        lines.append(f"labels that differ only in case or blanks are separate classes: {alike}")
    return lines


def table_suffix(path: PathLike) -> str:
    """Return the suffix that names the format, in lower case: ``.csv`` for ``rows.csv.gz``."""
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
        raise ValueError(f"target: {path} has the columns {named}; name the one with the labels")
    return named[0] if named else names[-1]


def _numeric(frame, path: Path):
    """Return the features as numbers; a ValueError says which column has other values."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    texts = [name for name in frame if not is_numeric_dtype(frame[name])]
    for name in texts:
        column = frame[name]
        numbers = pd.to_numeric(column.astype(str), errors="coerce")
        odd = column[numbers.isna() & column.notna()].astype(str)
        if len(odd):
            example = odd.value_counts().index[0]
            advice = f"give na_values={example!r} if that is a gap"
            if len(odd) > len(column) / 2:
                advice = "encode or drop such columns, or name the label column with target="
            if "," in example:
                advice = "give decimal=',' if these are numbers"
            others = f" (also: {', '.join(texts[1:6])})" if len(texts) > 1 else ""
            _refuse(
                path,
                f"features must be numbers; column {name!r}{others}: {len(odd):,} of "
                f"{len(column):,} values are not, most often {example!r}; {advice}",
            )
        frame = frame.assign(**{name: numbers})
    return frame


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)  # a column may be called nan
    except ValueError:
        return False


def _refuse(path: Path, reason: str) -> None:
    raise ValueError(f"{path}: {reason}")
