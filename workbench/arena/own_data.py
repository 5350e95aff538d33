"""A user's own table, checked before anything is learnt from it, with messages in plain words.

What can be mended without a decision of the owner is mended, with a note; anything else is an error
that says where it is and what to do.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.impute import SimpleImputer

from workbench.core.names import count, near
from workbench.core.problem import Matrix, as_problem
from workbench.data import load
from workbench.data.formats import Rows, as_integers
from workbench.data.tables import TABLES, TARGETS, table, table_suffix

MIN_ROWS = 20
LEVELS = 30  # distinct texts up to which a column of text becomes columns of zeros and ones
MIN_OTHERS = 5  # rows outside the largest class from which a copy of the labels is suspicious
WITH_COMMA = re.compile(r"[-+]?(\d[\d.]*)?,\d[\d,]*(\.\d+)?([eE][-+]?\d+)?")
ADVICE = {
    "commas": "Write numbers with a decimal point and nothing between thousands, or read them in "
    "Python, with pandas.read_csv(..., decimal=',') or thousands=',', and compare the frame",
    "wrong": "Fill gaps in the file or frame with sensible values, or drop these columns or rows; "
    "--fill (in Python fill=True) replaces missing numbers by the median of the training rows",
}
NOTES = {
    "encoded": "text encoded as columns of zeros and ones (number of different texts)",
    "filled": "missing numbers replaced by the median of the training rows (how many)",
    "left out": "left out",
    "constant": "left out, as all rows have the same value",
    "copies": "identifies the label of every row, one to one, as a copy of it would; drop it "
    "unless it is known before the label",
}


class Inspected(NamedTuple):
    """Rows that can be learnt from, and the notes on what was done to them."""

    X: Matrix
    y: np.ndarray
    features: tuple[str, ...] | None
    name: str
    notes: tuple[str, ...]

    def filled(self, test: float) -> Rows:
        """Return the rows with gaps filled by the medians of the training rows of :meth:`split`."""
        X = self.X
        if not sp.issparse(X) and np.isnan(X).any():
            medians = SimpleImputer(strategy="median", keep_empty_features=True)
            X = medians.fit(self.split(test)[0]).transform(X)
        return Rows(X, self.y, features=self.features)

    def split(
        self, test: float = 0.3, most: int | None = None
    ) -> tuple[Matrix, np.ndarray, Matrix, np.ndarray]:
        """Return X, y, X_test and y_test, the split of `compare`; see :func:`thinned` for `most`.

        Parameters
        ----------
        test : fraction of random test rows
        """
        data = thinned(self, most)
        rows = as_problem(np.arange(len(data.y))[:, None], data.y).split(test)
        parts = [part[:, 0].astype(int) for part in (rows.X, rows.X_test)]
        return tuple(values[part] for part in parts for values in (data.X, data.y))

    def encode(self, source) -> Matrix:
        """Return new rows, a table or frame with the same columns, as those of X.

        Raises
        ------
        ValueError
            Naming the columns that are missing or are not numbers.
        """
        if self.features is None:
            raise ValueError("encode: the data have no named columns; use new rows as they are")
        named = isinstance(source, str | os.PathLike)
        frame = _frame(table(Path(source).expanduser())[0] if named else source)
        texts = {name: c for name, c in frame.items() if not pd.api.types.is_numeric_dtype(c)}
        made = [_words(column) for column in texts.values()]
        wide = pd.concat([frame.drop(columns=list(texts)), *map(_one_hot, made)], axis=1)
        wrong = [
            name
            for name in self.features
            if name not in wide and not any(name.startswith(f"{text}=") for text in texts)
        ]
        if wrong:
            there = some(frame.columns, 20)
            raise ValueError(f"encode: no column for {some(wrong, 20)}; there are {there}")
        return wide.reindex(columns=list(self.features), fill_value=0.0).to_numpy(np.float64)


def inspected(source, target: str | None = None, *, fill: bool = False) -> Inspected:
    """Read rows and labels, and mend or refuse what would go wrong later.

    Parameters
    ----------
    source : a table (.csv, .tsv, .parquet; compressed ones too) or any other file or name that
        :func:`workbench.data.load` takes; a DataFrame of pandas or Polars; a pair ``(X, y)``
    target : the column of the labels; by default the one called target, label, class or y, else
        the last
    fill : leave missing numbers in X, as NaN: what fits the rows fills them

    Raises
    ------
    ValueError
        With what is wrong with the data, where, and what to do.
    """
    notes: list[str] = []
    frame, y, name = _read(source, target, notes)
    known = ~np.asarray(pd.isna(y))
    if not known.all():
        notes.append(f"{count(int((~known).sum()), 'row')} without a label left out")
        frame, y = frame[known], y[known]
    y = _labels(np.asarray(y), notes)
    X, features = frame, None
    if isinstance(frame, pd.DataFrame):
        X, features = numbers(frame, y, notes, fill)
    if sp.issparse(X):
        if not np.isfinite(X.data).all():
            raise ValueError("data: features contain missing or infinite values; fill them")
    elif twice := len(X) - len(np.unique(np.column_stack([X, pd.factorize(y)[0]]), axis=0)):
        notes.append(f"{count(twice, 'row')} duplicated: a test row may also be a training row")
    return Inspected(X, y, features, name, tuple(notes))


def thinned(data: Inspected, most: int | None) -> Inspected:
    """Return a random part of `most` rows, the same for the same data, with a row of each class.

    With a note; None keeps all.
    """
    n = len(data.y)
    if most is None or n <= most:
        return data
    order = np.random.default_rng(0).permutation(n)
    _, first = np.unique(data.y[order], return_index=True)
    others = np.delete(order, first)[: max(0, most - len(first))]
    kept = np.sort(np.append(order[first], others))
    note = f"{len(kept):,} of {n:,} rows, drawn at random, to keep within the time given"
    return data._replace(X=data.X[kept], y=data.y[kept], notes=(*data.notes, note))


def numbers(
    frame: pd.DataFrame, y: np.ndarray, notes: list[str], fill: bool = False
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the features as numbers (n, d), text of few words as zeros and ones, and their names.

    Columns that are the same in all rows, that count the rows, or whose text cannot be used are
    left out. A column that identifies the label `y` of every row is kept, with a note that asks.

    Raises
    ------
    ValueError
        Naming all columns with gaps, infinite values or numbers that are written as text.
    """
    said = {kind: [] for kind in (*ADVICE, *NOTES)}
    kept, labels = [], pd.factorize(y)[0]
    often = len(y) - np.bincount(labels).max() >= MIN_OTHERS
    for name, column in frame.reset_index(drop=True).items():
        kind, text, values = _inspect(column, fill)
        if kind:
            said[kind].append(f"{name}{text}")
        if values is not None:
            kept.append(values)
            if often and np.array_equal(pd.factorize(column, use_na_sentinel=False)[0], labels):
                said["copies"].append(name)
    if said["commas"] or said["wrong"]:
        advice = [text for kind, text in ADVICE.items() if said[kind]]
        found = some(said["commas"] + said["wrong"], 20, "; ")
        raise ValueError(f"data: {found}. {'. '.join(advice)}")
    notes += [f"{text}: {some(said[kind], 10)}" for kind, text in NOTES.items() if said[kind]]
    if not kept:
        raise ValueError(f"data: no feature is left; {'; '.join(notes)}")
    whole = pd.concat(kept, axis=1)
    return whole.to_numpy(np.float64), tuple(map(str, whole.columns))


def _inspect(column: pd.Series, fill: bool) -> tuple[str, str, pd.Series | pd.DataFrame | None]:
    """Return a kind of :data:`ADVICE` or :data:`NOTES` or "", its text, and the numbers to use."""
    missing = int(column.isna().sum())
    if pd.api.types.is_numeric_dtype(column):
        values = pd.Series(column.to_numpy(np.float64, na_value=np.nan), name=column.name)
        infinite = int(np.isinf(values).sum())
        wrong = [(missing, "missing value"), (infinite, "infinite value")]
        if infinite or (missing and not fill):
            return "wrong", ": " + " and ".join(count(n, what) for n, what in wrong if n), None
        if values.nunique() <= 1:
            return "constant", "", None
        if len(values) > LEVELS and bool((values.diff()[1:] == 1).all()):
            return "left out", " (row numbers)", None
        return ("filled", f" ({missing:,})", values) if missing else ("", "", values)
    if not isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype | np.dtypes.ObjectDType):
        return "left out", f" ({column.dtype}: convert it to numbers, such as days or hours)", None
    filled = column.dropna().astype(str).str.strip()
    strange = filled[pd.to_numeric(filled, errors="coerce").isna()]
    comma = strange.str.fullmatch(WITH_COMMA)
    if comma.any() and (~comma).sum() < 0.2 * len(filled):
        text = (
            f"{count(int(comma.sum()), 'number')} with a comma such as {strange[comma].iloc[0]!r}"
        )
        return "commas", f": {text}", None
    if 0 < len(strange) < 0.2 * len(filled):
        entries = f"numbers, except for {count(len(strange), 'entry')} such as {strange.iloc[0]!r}"
        gaps = f", and {count(missing, 'missing value')}" if missing else ""
        return "wrong", f": {entries}{gaps}", None
    words = _words(column)
    different = words.nunique()
    if different > LEVELS:
        hint = "convert them to numbers, such as days or counts of words"
        return "left out", f" ({different:,} different texts; {hint})", None
    if different == 1:
        return "constant", "", None
    gaps = f", {count(missing, 'gap')} counted as one" if missing else ""
    return "encoded", f" ({different}{gaps})", _one_hot(words)


def _words(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "missing").astype(str)


def _one_hot(words: pd.Series) -> pd.DataFrame:
    return pd.get_dummies(words, prefix=words.name, prefix_sep="=", dtype=np.float64)


def _read(source, target: str | None, notes: list[str]):
    """Return features (a frame, or a sparse matrix), labels and a name."""
    if isinstance(source, str | os.PathLike) and table_suffix(source) in TABLES:
        path = Path(source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"data: there is no file {path}")
        frame, said = table(path)
        notes += said
        return *_target(frame, target, notes), path.name.partition(".")[0]
    if hasattr(source, "columns"):
        return *_target(_frame(source), target, notes), "frame"
    if target is not None:
        raise ValueError("target: only tables and frames have a label column to name")
    if isinstance(source, tuple) and len(source) == 2 and not sp.issparse(source[0]):
        X, y = source[0], np.asarray(source[1])
        if not hasattr(X, "columns") and np.ndim(X) == 2:
            X = pd.DataFrame(np.asarray(X)).add_prefix("column ")
        if hasattr(X, "columns"):
            if len(X) != len(y):
                raise ValueError(f"y: has {len(y)} labels for {len(X)} rows")
            return _frame(X), y, "data"
    problem = load(source)
    X, y = problem.X, problem.classes[problem.y]
    if problem.X_test is not None:
        notes.append("its published split is replaced by a random one")
        stack = sp.vstack if problem.is_sparse else np.vstack
        X = stack([X, problem.X_test])
        y = np.concatenate([y, problem.classes[problem.y_test]])
    if problem.is_sparse:
        return sp.csr_matrix(X), y, problem.name.replace("/", "_")
    return _frame(pd.DataFrame(X, columns=problem.features)), y, problem.name.replace("/", "_")


def _frame(source) -> pd.DataFrame:
    """Return a frame of pandas or Polars as one of pandas, the names of its columns as text."""
    frame = source.to_pandas() if hasattr(source, "to_pandas") else source
    return frame.set_axis(frame.columns.map(str), axis=1)


def _target(frame: pd.DataFrame, target: str | None, notes: list[str]):
    """Split a frame into features and labels."""
    columns = list(frame.columns)
    if len(set(columns)) < len(columns):
        raise ValueError(f"data: two columns have the same name; there are {some(columns, 20)}")
    if len(columns) < 2:
        raise ValueError(
            f"data: must have a label column and features, got one column, {columns}; is the "
            "separator a comma?"
        )
    if target is None:
        named = [column for column in columns if column.lower() in TARGETS]
        if len(named) > 1:
            raise ValueError(f"target: {' and '.join(named)} could be the label column; choose one")
        target = named[0] if named else columns[-1]
        notes.append(f"the labels are taken from the column {target!r}; set target to change it")
    elif len(same := [c for c in columns if plain(c) == plain(target)]) == 1:
        if same[0] != str(target):
            notes.append(f"the labels are taken from the column {same[0]!r}, not {str(target)!r}")
        target = same[0]
    elif str(target) not in columns:
        there = f"{near(str(target), columns)} there are {some(columns, 20)}".lstrip()
        raise ValueError(f"target: no column {target!r}; {there}")
    return frame.drop(columns=str(target)), frame[str(target)].to_numpy()


def _labels(y: np.ndarray, notes: list[str]) -> np.ndarray:
    """Check that these are labels of classes, and return them as integers or text."""
    if len(y) < MIN_ROWS:
        raise ValueError(
            f"data: {count(len(y), 'labelled row')} found; at least {MIN_ROWS} are needed"
        )
    if y.dtype == object or y.dtype.kind in "bmM":
        y = y.astype(str)
    y = as_integers(y)
    values, counts = np.unique(y, return_counts=True)
    if len(values) < 2:
        raise ValueError(
            f"target: all rows have the label {values[0]}; at least two classes are needed"
        )
    if y.dtype.kind == "f" and len(values) > max(10, 0.05 * len(y)):
        raise ValueError(
            f"target: {len(values)} different fractional numbers look like a quantity, for "
            "regression, not like classes; cut them into bins, or name another column"
        )
    single = values[counts == 1]
    if 2 * len(single) > len(values) and len(values) > 0.2 * len(y):
        raise ValueError(
            f"target: {len(single)} of {len(values)} classes have one row: these look like names "
            "of rows or a quantity, not like classes; name another column"
        )
    if len(single):
        notes.append(f"only one row, used for training alone: class {some(single)}")
    return y


def plain(name: str) -> str:
    """Return a column's name without what is easily mistyped: capitals, and blanks around it."""
    return str(name).strip().casefold()


def some(names, most: int = 5, between: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    names = list(map(str, names))
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + rest
