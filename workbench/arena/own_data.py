"""A stranger's table, looked at before anything is learnt from it, in plain words.

What can be mended without a choice of the owner's is mended, and told in a note; what cannot is an
error that says where and what to do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

from workbench.arena.columns import count, numbers, some
from workbench.core.names import near
from workbench.core.problem import Matrix, Problem, as_problem
from workbench.data import load
from workbench.data.features import constant, standardise
from workbench.data.formats import Rows, as_integers
from workbench.data.tables import TABLES, TARGETS, table, table_suffix

FEWEST = 20  # rows


class Inspected(NamedTuple):
    """Rows that can be learnt from, and the notes on what was done to them."""

    X: Matrix
    y: np.ndarray
    features: tuple[str, ...] | None
    name: str
    notes: tuple[str, ...]

    @property
    def rows(self) -> Rows:
        return Rows(self.X, self.y, features=self.features)


def prepared(
    source, target: str | None = None, *, test: float = 0.3, seed: int = 0, most: int | None = None
) -> Problem:
    """Return what `compare` learns from: inspected, split, standardised, with a constant column.

    Parameters
    ----------
    source, target : see :func:`inspected`
    test, seed : share and seed of the random test rows; the scale is that of the training rows
    most : rows that are kept at most, see :func:`thinned`
    """
    data = thinned(inspected(source, target), most)
    problem = as_problem(data.X, data.y, features=data.features, name=data.name)
    return constant(standardise(problem.split(test, seed)))


def inspected(source, target: str | None = None) -> Inspected:
    """Read rows and labels, and mend or refuse what would go wrong later.

    Parameters
    ----------
    source : a table (.csv, .tsv, .parquet; packed ones too) or any other file or name that
        :func:`workbench.data.load` takes; a DataFrame of pandas or Polars; a pair ``(X, y)``
    target : the column of the labels; by default the one called target, label, class or y, else
        the last

    Raises
    ------
    ValueError
        Saying in plain words what is wrong with the data, where, and what to do.
    """
    notes: list[str] = []
    frame, y, name = _read(source, target, notes)
    known = ~np.asarray(pd.isna(y))
    if not known.all():
        notes.append(f"{count(int((~known).sum()), 'row')} without a label left out")
        frame, y = frame[known], y[known]
        frame = frame.reset_index(drop=True) if isinstance(frame, pd.DataFrame) else frame
    y = _labels(np.asarray(y), notes)
    if isinstance(frame, pd.DataFrame):
        X, features = numbers(frame, y, notes)
    else:
        X, features = frame, None
    finite = np.isfinite(X.data if sp.issparse(X) else X).all()
    if not finite:
        raise ValueError("data: there are missing or infinite values among the features; fill them")
    dense = not sp.issparse(X)
    if dense and (twice := len(X) - len(np.unique(np.column_stack([X, _codes(y)]), axis=0))):
        notes.append(f"{count(twice, 'row')} there more than once: test rows may be known")
    return Inspected(X, y, features, name, tuple(notes))


def thinned(data: Inspected, most: int | None) -> Inspected:
    """Keep a random share of `most` rows, the same for the same data, a row of each class at least.

    With a note; None keeps all.
    """
    n = len(data.y)
    if most is None or n <= most:
        return data
    rng, codes = np.random.default_rng(0), _codes(data.y)
    order = rng.permutation(n)
    _, first = np.unique(codes[order], return_index=True)
    others = np.delete(order, first)[: max(0, most - len(first))]
    kept = np.sort(np.append(order[first], others))
    note = f"{len(kept):,} of {n:,} rows, drawn at random, to keep within the time given"
    return data._replace(X=data.X[kept], y=data.y[kept], notes=(*data.notes, note))


def _read(source, target: str | None, notes: list[str]):
    """Return features (a frame, or a matrix), labels and a name."""
    if isinstance(source, str | os.PathLike) and table_suffix(source) in TABLES:
        path = Path(source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"data: there is no file {path}")
        frame, said = table(path)
        notes += said
        return *_target(frame, target, notes), path.name.partition(".")[0]
    if hasattr(source, "columns"):
        frame = source.to_pandas() if hasattr(source, "to_pandas") else source.copy()
        frame.columns = frame.columns.map(str)
        return *_target(frame, target, notes), "frame"
    if target is not None:
        raise ValueError("target: only tables and frames have a label column to name")
    if isinstance(source, tuple) and len(source) == 2 and hasattr(source[0], "columns"):
        frame = source[0].to_pandas() if hasattr(source[0], "to_pandas") else source[0].copy()
        frame.columns = frame.columns.map(str)
        if len(frame) != len(y := np.asarray(source[1])):
            raise ValueError(f"y: has {len(y)} labels for {len(frame)} rows")
        return frame.reset_index(drop=True), y, "data"
    if isinstance(source, tuple) and len(source) == 2 and not sp.issparse(source[0]):
        X = np.asarray(source[0])
        if X.ndim == 2:  # as a frame, so that its columns are looked at too
            columns = [f"column {j}" for j in range(X.shape[1])]
            return _read((pd.DataFrame(X, columns=columns), source[1]), None, notes)
    problem = load(source)
    X, y = problem.X, problem.classes[problem.y]
    if problem.X_test is not None:
        notes.append("its published split is given up for a random one")
        X = (
            sp.vstack([X, problem.X_test], "csr")
            if problem.is_sparse
            else np.vstack([X, problem.X_test])
        )
        y = np.concatenate([y, problem.classes[problem.y_test]])
    if not problem.is_sparse:
        X = pd.DataFrame(X, columns=problem.features)
        X.columns = X.columns.map(str)
    return X, y, problem.name.replace("/", "_")


def _target(frame: pd.DataFrame, target: str | None, notes: list[str]):
    """Split a frame into features and labels."""
    columns = list(frame.columns)
    if len(set(columns)) < len(columns):
        raise ValueError(f"data: two columns have the same name; there are {some(columns, 20)}")
    if len(columns) < 2:
        raise ValueError(
            f"data: there is only one column, {columns}; a table needs a label column and features "
            "(is the separator a comma?)"
        )
    if target is None:
        named = [column for column in columns if column.lower() in TARGETS]
        if len(named) > 1:
            raise ValueError(f"target: {' and '.join(named)} could hold the labels; say which")
        target = named[0] if named else columns[-1]
        notes.append(f"the labels are taken from the column {target!r}; target says otherwise")
    elif str(target) not in columns:
        there = f"{near(str(target), columns)} there are {some(columns, 20)}".lstrip()
        raise ValueError(f"target: no column {target!r}; {there}")
    rest = frame.drop(columns=str(target)).reset_index(drop=True)
    return rest, frame[str(target)].to_numpy()


def _labels(y: np.ndarray, notes: list[str]) -> np.ndarray:
    """Check that these are labels of classes, and return them as integers or text."""
    if len(y) < FEWEST:
        raise ValueError(f"data: {len(y)} labelled rows are too few, {FEWEST} are the least")
    if y.dtype == object or y.dtype.kind in "bmM":
        y = y.astype(str)
    y = as_integers(y)
    values, counts = np.unique(y, return_counts=True)
    if len(values) < 2:
        raise ValueError(f"target: all rows have the label {values[0]}; two classes are the least")
    if y.dtype.kind == "f" and len(values) > max(10, 0.05 * len(y)):
        raise ValueError(
            f"target: {len(values)} different fractional numbers look like a quantity, for "
            "regression, not like classes; cut them into bins, or name another column"
        )
    if 2 * (counts == 1).sum() > len(values) and len(values) > 0.2 * len(y):
        raise ValueError(
            f"target: {int((counts == 1).sum())} of {len(values)} classes have one row: these look "
            "like names of rows or a quantity, not like classes; name another column"
        )
    if (single := values[counts == 1]).size:
        classes = some(single)
        notes.append(f"one row alone: class {classes}; it is trained on and never tested")
    return y


def _codes(y: np.ndarray) -> np.ndarray:
    return np.unique(y, return_inverse=True)[1]
