"""Traces as one tidy Parquet file.

>>> to_parquet(sweep(points).traces(), "runs.parquet")          # doctest: +SKIP
>>> pd.read_parquet("runs.parquet").groupby("solver").gap.min()  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.core.files import whole
from workbench.core.trace import Trace, encode
from workbench.runs.keys import key

# Every tidy file has these columns, in these types, even if the traces lack them.
FIXED = {
    **dict.fromkeys(("run", "solver", "data", "spec", "checksum"), pa.string()),
    **dict.fromkeys(("n", "d", "k"), pa.int64()),
    "synthetic": pa.bool_(),
    **dict.fromkeys(("seed", "repetition"), pa.int64()),
    "timed": pa.bool_(),
}


def to_parquet(
    traces: Iterable[Trace],
    path: str | os.PathLike,
    metadata: Mapping[str, str | bytes] | None = None,
) -> None:
    """Write traces as one tidy table with a row for each of their rows; whole or not at all.

    The columns, each null if a trace or row lacks it:

    - ``run``, the header's ``key`` or else a hash of the header and the last row; ``solver``;
      ``data``, the problem's name; ``spec``, the description a sweep made it from; ``checksum``,
      ``n``, ``d``, ``k``, ``synthetic``; ``seed``, ``repetition``, ``timed``;
    - ``p_<name>`` for each parameter of any solver; None is null too;
    - all columns of the rows: ``round``, ``seconds``, ``cpu``, ``lower``, ``upper``, ``gap``, ...;
    - ``stopped_by``, on all rows of the run.

    A column that mixes types, or contains anything but numbers, booleans and texts, becomes text:
    texts as they are, the rest as JSON. Infinities and NaN stay what they are.

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
    rows, names, seen = [], {}, set()  # names: those of parameters, in the order of the traces
    for trace in traces:
        about = _header(trace)
        if about["run"] in seen:
            raise ValueError(f"traces: run {about['run']} appears twice")
        seen.add(about["run"])
        names |= dict.fromkeys(about)
        for row in trace.rows:
            if twice := sorted(about.keys() & row.keys()):
                raise ValueError(f"traces: rows contain {', '.join(twice)}, as the headers do")
            rows.append(about | row | {"stopped_by": trace.stopped_by})
    if not seen:
        raise ValueError("traces: there are none to export")
    columns = dict.fromkeys(name for row in rows for name in row if name != "stopped_by")
    table = {}
    for name in [*FIXED | names | columns, "stopped_by"]:
        table[name] = _array([row.get(name) for row in rows])
        if pa.types.is_null(table[name].type) and (kind := FIXED.get(name)):
            table[name] = table[name].cast(kind)
    numbers = [name for name, column in table.items() if pa.types.is_floating(column.type)]
    compact = {"compression": "zstd", "compression_level": 19, "use_byte_stream_split": numbers}
    compact["use_dictionary"] = [name for name in table if name not in numbers]
    with whole(path) as part:
        pq.write_table(pa.table(table).replace_schema_metadata(metadata), part, **compact)


def _header(trace: Trace) -> dict[str, Any]:
    """Return the columns that all rows of a trace share."""
    header, problem = trace.header, trace.header.get("problem") or {}
    own = {name: header.get(name) for name in ("solver", "seed", "repetition", "timed")}
    data = {name: problem.get(name) for name in ("checksum", "n", "d", "k", "synthetic")}
    parameters = {f"p_{n}": value for n, value in (header.get("parameters") or {}).items()}
    run = header.get("key") or key(header=header, last=trace.last)
    names = {"run": run, "data": problem.get("name"), "spec": header.get("data")}
    return names | own | data | parameters


def _array(values: list) -> pa.Array:
    """Return values of one type in that type, mixed ones as text."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    with suppress(OverflowError, pa.ArrowException):  # mixed, or an integer that is too large
        if not pa.types.is_nested((array := pa.array(values)).type):
            return array
    texts = [encode(value) for value in values]
    texts = [t if t is None or isinstance(t, str) else json.dumps(t, default=str) for t in texts]
    return pa.array(texts, pa.string())
