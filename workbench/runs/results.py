"""Traces in one tidy Parquet file: the runs of a sweep, or a notebook's results.

>>> write_results("runs.parquet", sweep(points).traces())       # doctest: +SKIP
>>> pd.read_parquet("runs.parquet").groupby("solver").gap.min()  # doctest: +SKIP

``workbench figures NAME --from results`` sets the environment variable
``WORKBENCH_RESULTS`` to the file of a notebook. A sweep, and a function of
:meth:`workbench.figures.Figures.kept`, then return the traces of the file without
running anything.
"""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from workbench.core.files import whole
from workbench.core.kinds import PathLike, Record, Values
from workbench.core.stream import Row
from workbench.core.trace import Trace, decode, encode
from workbench.data.formats import BROKEN
from workbench.data.specs import available_specs, listed
from workbench.runs.engine import key

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("solver", "parameters", "data", "seed", "test", "stop", "repetition", "timed")


def write_results(
    path: PathLike, traces: Iterable[Trace], parameters: Values | None = None
) -> None:
    """Write traces as one tidy table with a row for each of their rows; whole or not at
    all.

    The columns, each null if a trace or row lacks it:

    - ``run``, the trace's key; ``solver``; ``data``, the problem's name; ``n``, ``d``,
      ``k``; ``seed``, ``repetition``, ``timed``;
    - ``p_<name>`` for each parameter of any solver; None is also written as null;
    - all columns of the rows: ``round``, ``seconds``, ``cpu``, ``lower``, ``upper``,
      ``gap``, ...;
    - ``stopped_by``, on all rows of the run.

    A column that mixes types, or contains anything except numbers, booleans and texts,
    becomes text: texts are unchanged, other values become JSON. The same traces give
    the same bytes. Of a long run, all rows up to round 200 are kept, and later only
    the last row and rows whose round is at least 0.5 % larger than the round before.

    Parameters
    ----------
    path : the file, which is replaced
    traces : at least one trace of sweeps or of :meth:`workbench.figures.Figures.kept`
    parameters : the parameters of the notebook that made the traces

    Raises
    ------
    ValueError
        If there is no trace.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    by_setting = {_setting_of(trace): trace for trace in traces}
    by_setting = dict(sorted(by_setting.items()))
    if not by_setting:
        raise ValueError("traces: there are none to write")
    # Two settings may share a run.
    runs = {trace.header["key"]: trace for trace in by_setting.values()}
    rows = list[Row]()
    names = Record()  # the names of the columns, in their order
    measured = Record()
    for trace in runs.values():
        header = _header(trace)
        names |= header
        for row in _thinned(trace):
            measured |= row
            rows.append(header | row | {"stopped_by": trace.stopped_by})
    columns = [*(measured | {"stopped_by": None})]
    table = {
        name: _array([row.get(name) for row in rows]) for name in [*names, *columns]
    }
    about = {
        "headers": {name: encode(trace.header) for name, trace in by_setting.items()},
        "columns": columns,
        "parameters": dict(parameters or {}),
    }
    metadata = {name: _packed(value) for name, value in about.items()}
    packed = pa.table(table).replace_schema_metadata(metadata)
    with whole(path) as part:
        pq.write_table(
            packed,
            part,
            write_page_checksum=True,
            compression="zstd",
            compression_level=19,
        )


def read_results(path: PathLike) -> tuple[list[Trace], Record]:
    """Return the traces of a file of results, and the parameters of its notebook.

    Raises
    ------
    ValueError
        If the file is not a file of results, or is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = Path(path).read_bytes()
    try:
        table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
        about = {
            name: json.loads(zlib.decompress(base64.b64decode(text)))
            for name, text in (table.schema.metadata or {}).items()
            if name in (b"headers", b"columns", b"parameters")
        }
        headers = decode(about[b"headers"])
        rows: dict[str, list[Row]] = {header["key"]: [] for header in headers.values()}
        columns = table.select(about[b"columns"]).to_pylist()
        for run, row in zip(table["run"].to_pylist(), columns):
            rows[run].append({name: v for name, v in row.items() if v is not None})
        for of_run in rows.values():
            for row in of_run[:-1]:
                row.pop("stopped_by", None)
        traces = [Trace(header, rows[header["key"]]) for header in headers.values()]
        return traces, dict(about[b"parameters"])
    except (pa.ArrowException, *BROKEN) as error:
        raise ValueError(f"{path}: is not a file of results; {error}") from None


def _header(trace: Trace) -> Record:
    """Return the columns that all rows of a trace share."""
    header = trace.header
    problem = header.get("problem") or {}
    shared = {
        "run": header["key"],
        "solver": header.get("solver"),
        "data": problem.get("name"),
    }
    shared |= {name: problem.get(name) for name in ("n", "d", "k")}
    shared |= {name: header.get(name) for name in ("seed", "repetition", "timed")}
    parameters = header.get("parameters") or {}
    return shared | {f"p_{name}": value for name, value in parameters.items()}


def _thinned(trace: Trace) -> list[Row]:
    """Return all rows of a run up to round 200, then one for each growth by 0.5 %."""
    if not {"round", "cpu"} <= trace.last.keys():
        return trace.rows  # a notebook's own numbers, which have no rounds
    rows = trace.rows[:1]
    for row in trace.rows[1:]:
        due = row["round"] <= 200 or row["round"] >= 1.005 * rows[-1]["round"]
        if due or row is trace.last:
            rows.append(row)
    return rows


def _array(values: list[object]) -> pa.Array:
    """Return values of one type in this type, and mixed values as text."""
    import pyarrow as pa

    plain = [v.item() if isinstance(v, np.generic) else v for v in values]
    # pyarrow refuses mixed types and an integer that is too large.
    with suppress(OverflowError, pa.ArrowException):
        array = pa.array(plain)
        if not pa.types.is_nested(array.type):
            return array
    return pa.array(map(_as_text, plain), pa.string())


def _as_text(value: object) -> str | None:
    """Return a value as JSON; texts and None are returned unchanged."""
    encoded = encode(value)
    if encoded is None or isinstance(encoded, str):
        return encoded
    return json.dumps(encoded, default=str)


def _packed(value: object) -> bytes:
    """Return a value as compressed JSON, as Parquet does not compress metadata."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9))


def setting(about: Values) -> str:
    """Return the key of a run's setting, without its code, its data and its machine."""
    return key(**{name: about.get(name) for name in NAMES})


def _setting_of(trace: Trace) -> str:
    return trace.header.get("call") or setting(trace.header)


def recalled() -> dict[str, Trace] | None:
    """Return all results by setting; None unless figures are drawn from results.

    Raises
    ------
    ValueError
        As in :func:`read_results`.
    """
    path = os.environ.get("WORKBENCH_RESULTS")
    return _recalled(path) if path else None


@cache
def _recalled(path: str) -> dict[str, Trace]:
    return {_setting_of(trace): trace for trace in read_results(path)[0]}


def there(text: str) -> list[str]:
    """Return the descriptions in a list whose data or results are available.

    Raises
    ------
    FileNotFoundError
        If neither data nor results are available.
    """
    results = recalled()
    if results is None:
        return available_specs(text)
    known = [trace.header["data"] for trace in results.values()]

    def has_results(spec: str) -> bool:  # the results' data may have further features
        return any(re.match(rf"{re.escape(spec)}( [|+]|$)", name) for name in known)

    specs = list(filter(has_results, listed(text)))
    if not specs:
        raise FileNotFoundError(f"data: there are no results for {text!r}")
    return specs


def described(trace: Trace) -> SimpleNamespace:
    """Return a run's problem: its ``name``, ``n``, ``d``, ``k`` and ``synthetic``."""
    return SimpleNamespace(**trace.header["problem"])
