"""Rows that stay in Parquet files and are decoded one row group at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import local

import numpy as np

from workbench.core import rows_in_file
from workbench.data.formats import BROKEN, check_unpacked
from workbench.data.tables import label_column

HELD = local()  # the row group that a thread has read last, and its columns


class RowGroup:
    """Some (n, d) rows of a Parquet file, as RowsInFile reads them: those read last stay decoded.

    Rows in order are decoded once; rows in random order, almost as often as they are asked for.
    """

    def __init__(self, path: str, group: int, rows: int, names: Sequence[str], dtype: np.dtype):
        self.path, self.group, self.names, self.dtype = path, group, names, dtype
        self.shape, self.stamp = (rows, len(names)), self.current()
        most = max(1, rows_in_file.AT_ONCE // (len(names) * dtype.itemsize))
        if rows > most:
            raise ValueError(
                f"row group {group} has {rows:,} rows, at most {most:,} can be decoded at once; "
                f"write it again with row_group_size={most}"
            )

    def read(self, first: int, out: np.ndarray) -> None:
        key = self.path, self.group, self.stamp
        if self.current() != self.stamp:
            raise ValueError(f"{self.path}: was cut or has changed while in use; load it again")
        if getattr(HELD, "key", None) != key:
            HELD.key = HELD.columns = None  # their memory is for the next
            columns = np.empty(self.shape[::-1], self.dtype)
            with _opened(self.path) as file:
                for at, name in enumerate(self.names):  # all at once take many times the room
                    table = file.read_row_group(self.group, [name], use_threads=False)
                    columns[at] = table.column(name).to_numpy()
            HELD.key, HELD.columns = key, columns
        out[...] = HELD.columns[:, first : first + len(out)].T

    def current(self) -> tuple[int, int]:
        about = os.stat(self.path)
        return about.st_size, about.st_mtime_ns


def read_groups(
    files: Sequence[Path], target: str | None
) -> tuple[list[RowGroup], np.ndarray, tuple[str, ...]]:
    """Return the row groups of Parquet files, the label of each row, and the features' names.

    Parameters
    ----------
    files : at least one, of the same columns: the labels, and float32 or float64 features
    target : the label column, by default as of :func:`~workbench.data.tables.read_table`

    Raises
    ------
    ValueError
        Naming the file: damaged, other columns, or a row group of more than
        :data:`~workbench.core.rows_in_file.AT_ONCE` bytes.
    """
    with _opened(files[0]) as file:
        columns = file.schema_arrow.names
    label = label_column(columns, target, files[0])
    groups, labels = [], []
    for path in files:
        with _opened(path) as file:
            about, schema = file.metadata, file.schema_arrow
            check_unpacked(path, 8 * about.num_rows * about.num_columns)
            if schema.names != columns:
                raise ValueError(f"its columns are not those of {files[0]}, in the same order")
            names, dtype = _features(schema, label)
            labels.append(file.read([label], use_threads=False).column(label).to_numpy())
            sizes = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
            place = os.path.abspath(path)  # workers of a cluster have other folders
            groups += [RowGroup(place, at, n, names, dtype) for at, n in enumerate(sizes) if n]
    if not groups:
        raise ValueError(f"{files[0]}: contains no rows")
    return groups, np.concatenate(labels), names


def _features(schema, label: str) -> tuple[tuple[str, ...], np.dtype]:
    names = tuple(name for name in schema.names if name != label)
    if not names or len(set(names)) < len(schema.names) - 1:
        raise ValueError(
            f"a label column and features of different names are needed, got {schema.names}"
        )
    kinds = {str(schema.field(name).type): name for name in reversed(names)}  # one of each
    if set(kinds) not in ({"float"}, {"double"}):
        some = ", ".join(f"{name} is {kind}" for kind, name in kinds.items())
        raise ValueError(f"features must be all float32 (float) or all float64 (double); {some}")
    return names, np.dtype(np.float32 if "float" in kinds else np.float64)


@contextmanager
def _opened(path: str | os.PathLike) -> Iterator:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except BROKEN as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: cannot be read in row groups; {reason}") from None
