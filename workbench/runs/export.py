"""Traces as one tidy Parquet file, and the columns that other layouts are made of.

>>> to_parquet(sweep(points).traces(), "runs.parquet")          # doctest: +SKIP
>>> pd.read_parquet("runs.parquet").groupby("solver").gap.min()  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.core.stream import Row
from workbench.core.trace import Trace, encode
from workbench.runs.keys import key

# Whatever the traces lack, these columns of a tidy file are there, in these types.
RUN = {"run": pa.string(), "solver": pa.string(), "data": pa.string(), "spec": pa.string()}
PROBLEM = {
    "checksum": pa.string(),
    "n": pa.int64(),
    "d": pa.int64(),
    "k": pa.int64(),
    "synthetic": pa.bool_(),
}
SETTING = {"seed": pa.int64(), "repetition": pa.int64(), "timed": pa.bool_()}

BATCH = 1 << 16  # rows that wait as dicts before they become Arrow arrays


def to_parquet(traces: Iterable[Trace], path: str | os.PathLike) -> None:
    """Write traces as one tidy table, a row for each of their rows; whole or not at all.

    The columns, each null where a trace or row lacks it:

    - ``run``, the header's ``key`` or else a hash of the header and the last row; ``solver``;
      ``data``, the problem's name; ``spec``, the description a sweep made it from; ``checksum``,
      ``n``, ``d``, ``k``, ``synthetic``; ``seed``, ``repetition``, ``timed``;
    - ``p_<name>`` for each parameter of any solver; None is null too;
    - all that any row holds: ``round``, ``seconds``, ``cpu``, ``lower``, ``upper``, ``gap``, ...;
    - ``stopped_by``, on all rows of the run.

    A column of booleans, of integers, of numbers or of texts keeps that type. One that mixes them,
    or holds anything else, becomes text: texts as they are, the rest as JSON. Infinities and NaN
    stay what they are.

    Parameters
    ----------
    traces : may be a generator; its traces are not kept
    path : of the file, which is replaced

    Raises
    ------
    ValueError
        If there is no trace, one is there twice, or a row's column has the name of another.
    """
    runs, lengths, rows = read_all(traces)
    problems = [run.get("problem") or {} for run in runs]
    columns = {
        "run": [run["run"] for run in runs],
        "solver": [run.get("solver") for run in runs],
        "data": [problem.get("name") for problem in problems],
        "spec": [run.get("data") for run in runs],
        **{name: [problem.get(name) for problem in problems] for name in PROBLEM},
        **{name: [run.get(name) for run in runs] for name in SETTING},
        **parameters(runs, "p_"),
    }
    twice = (set(columns) | {"stopped_by"}) & set(rows)
    if twice:
        raise ValueError(f"traces: their rows hold {', '.join(sorted(twice))}, as the headers do")
    index = np.repeat(np.arange(len(runs)), lengths)
    table = {}
    for name, values in columns.items():
        array = as_array(values)
        if pa.types.is_null(array.type):
            array = array.cast((RUN | PROBLEM | SETTING).get(name, array.type))
        table[name] = array.take(index)
    table |= rows
    table["stopped_by"] = pa.array([run["stopped_by"] for run in runs], pa.string()).take(index)
    write(pa.table(table), path)


def read_all(traces: Iterable[Trace]) -> tuple[list[dict], list[int], dict[str, pa.ChunkedArray]]:
    """Return each run's header with its id and end, its number of rows, and all rows' columns."""
    runs, lengths, batches, waiting = [], [], [], []
    seen = set()
    for trace in traces:
        run = trace.header.get("key") or key(header=trace.header, last=trace.last)
        if run in seen:
            raise ValueError(f"traces: run {run} is there twice")
        seen.add(run)
        runs.append(trace.header | {"run": run, "stopped_by": trace.stopped_by})
        lengths.append(len(trace.rows))
        waiting += trace.rows
        if len(waiting) >= BATCH:
            batches.append(_batch(waiting))
            waiting = []
    if not runs:
        raise ValueError("traces: there are none to export")
    batches.append(_batch(waiting))
    names = dict.fromkeys(chain.from_iterable(columns for _, columns in batches))
    return runs, lengths, {name: _joined(name, batches) for name in names}


def _batch(rows: Sequence[Row]) -> tuple[int, dict[str, pa.Array]]:
    names = dict.fromkeys(chain.from_iterable(rows))
    names.pop("stopped_by", None)  # of the run, not of its last row
    return len(rows), {name: as_array([row.get(name) for row in rows]) for name in names}


def _joined(name: str, batches: Sequence[tuple[int, dict[str, pa.Array]]]) -> pa.ChunkedArray:
    chunks = [columns.get(name, pa.nulls(rows)) for rows, columns in batches]
    if len({chunk.type for chunk in chunks} - {pa.null()}) > 1:
        chunks = [as_array([value for chunk in chunks for value in chunk.to_pylist()])]
    kind = next((chunk.type for chunk in chunks if chunk.type != pa.null()), pa.null())
    return pa.chunked_array([chunk.cast(kind) for chunk in chunks])


def as_array(values: Sequence[Any]) -> pa.Array:
    """Return values of one kind in its type, mixed ones as text."""
    if any(issubclass(kind, np.generic) for kind in set(map(type, values))):
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
    found = set(map(type, values)) - {type(None)}
    for kinds, arrow in (
        (set(), pa.null()),
        ({bool}, pa.bool_()),
        ({int}, pa.int64()),
        ({int, float}, pa.float64()),
        ({str}, pa.string()),
    ):
        if found <= kinds:
            try:
                return pa.array(values, arrow)
            except (OverflowError, pa.ArrowInvalid):  # an integer that the type cannot hold
                break
    return pa.array([None if value is None else as_text(value) for value in values], pa.string())


def as_text(value: Any) -> str:
    """Return text as it is and all else as JSON."""
    value = encode(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def value_of(run: Mapping[str, Any], parameter: str) -> Any:
    """Return a run's value of a parameter, None where it has none."""
    return (run.get("parameters") or {}).get(parameter)


def parameters(runs: Sequence[dict], prefix: str, skip: Sequence[str] = ()) -> dict[str, list]:
    """Return a column for each parameter of any run, its name behind `prefix`."""
    names = dict.fromkeys(chain.from_iterable(run.get("parameters") or {} for run in runs))
    return {
        prefix + name: [value_of(run, name) for run in runs] for name in names if name not in skip
    }


def write(table: pa.Table, path: str | os.PathLike) -> None:
    """Write a Parquet file, whole or not at all."""
    part = f"{os.fspath(path)}.part"
    pq.write_table(table, part)
    os.replace(part, path)
