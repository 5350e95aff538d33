"""Traces as one tidy Parquet file.

>>> to_parquet(sweep(points).traces(), "runs.parquet")          # doctest: +SKIP
>>> pd.read_parquet("runs.parquet").groupby("solver").gap.min()  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.core.files import whole
from workbench.core.trace import Trace, encode
from workbench.runs.keys import key

# These columns of a tidy file are there even if the traces lack them, in these types.
FIXED = {
    **dict.fromkeys(("run", "solver", "data", "spec", "checksum"), pa.string()),
    **dict.fromkeys(("n", "d", "k"), pa.int64()),
    "synthetic": pa.bool_(),
    **dict.fromkeys(("seed", "repetition"), pa.int64()),
    "timed": pa.bool_(),
}


def to_parquet(
    traces: Iterable[Trace], path: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write traces as one tidy table with a row for each of their rows; whole or not at all.

    The columns, each null if a trace or row lacks it:

    - ``run``, the header's ``key`` or else a hash of the header and the last row; ``solver``;
      ``data``, the problem's name; ``spec``, the description a sweep made it from; ``checksum``,
      ``n``, ``d``, ``k``, ``synthetic``; ``seed``, ``repetition``, ``timed``;
    - ``p_<name>`` for each parameter of any solver; None is null too;
    - all columns of the rows: ``round``, ``seconds``, ``cpu``, ``lower``, ``upper``, ``gap``, ...;
    - ``stopped_by``, on all rows of the run.

    A column of booleans, of integers, of numbers or of texts keeps that type. One that mixes them,
    or contains anything else, becomes text: texts as they are, the rest as JSON. Infinities and
    NaN stay what they are.

    Parameters
    ----------
    traces : may be a generator
    path : of the file, which is replaced
    metadata : texts by name, which the file keeps

    Raises
    ------
    ValueError
        If there is no trace, one appears twice, or a row has a column of the header's name.
    """
    columns: dict[str, list] = {name: [] for name in FIXED}
    measured: dict[str, list] = {}
    stops, seen = [], set()
    for trace in traces:
        about = dict(_header(trace))
        if about["run"] in seen:
            raise ValueError(f"traces: run {about['run']} appears twice")
        seen.add(about["run"])
        for name in dict.fromkeys([*columns, *about]):
            column = columns.setdefault(name, [None] * len(stops))
            column += [about.get(name)] * len(trace.rows)
        for name in dict.fromkeys([*measured, *(name for row in trace.rows for name in row)]):
            column = measured.setdefault(name, [None] * len(stops))
            column += [row.get(name) for row in trace.rows]
        stops += [trace.stopped_by] * len(trace.rows)
    if not seen:
        raise ValueError("traces: there are none to export")
    measured.pop("stopped_by", None)  # on all rows of the run instead of on its last
    if twice := sorted(set(columns) & set(measured)):
        raise ValueError(f"traces: their rows contain {', '.join(twice)}, as the headers do")
    table = {name: _array(values) for name, values in (columns | measured).items()}
    for name, kind in FIXED.items():
        if pa.types.is_null(table[name].type):
            table[name] = table[name].cast(kind)
    table["stopped_by"] = pa.array(stops, pa.string())
    with whole(path) as part:
        pq.write_table(pa.table(table).replace_schema_metadata(metadata), part)


def _header(trace: Trace) -> Iterator[tuple[str, Any]]:
    header, problem = trace.header, trace.header.get("problem") or {}
    yield "run", header.get("key") or key(header=header, last=trace.last)
    yield from {"data": problem.get("name"), "spec": header.get("data")}.items()
    yield from ((name, header.get(name)) for name in ("solver", "seed", "repetition", "timed"))
    yield from ((name, problem.get(name)) for name in ("checksum", "n", "d", "k", "synthetic"))
    yield from ((f"p_{name}", value) for name, value in (header.get("parameters") or {}).items())


def _array(values: Sequence[Any]) -> pa.Array:
    """Return values of one kind in its type, mixed ones as text."""
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
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    value = encode(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)
