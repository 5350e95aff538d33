"""Results of long runs, kept for good: one Parquet file per notebook redraws its figures.

``workbench figures NAME --from results`` sets the environment variable ``WORKBENCH_RESULTS`` to its
file. A sweep then returns the traces that the file holds, and so does a function of
:meth:`workbench.figures.Figures.kept`; nothing is run.
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
from pyarrow import ArrowException

from workbench.core.stream import Row
from workbench.core.trace import Trace, decode, encode
from workbench.data.panels import available_specs, listed
from workbench.registry import SOLVERS
from workbench.runs.export import to_parquet
from workbench.runs.keys import key

RENAMED = {"max_seconds": "max_cpu"}  # parameters of notebooks that committed files call otherwise
NAMES = ("solver", "parameters", "data", "seed", "test", "stop", "repetition", "timed")


def write_results(path: Path, traces: Iterable[Trace], parameters: Mapping[str, Any]) -> None:
    """Write the traces of sweeps, with their headers, and the parameters of their notebook.

    The same traces give the same bytes. Of a run's rows those are kept that :func:`_thinned` names.
    """
    by_setting = {_setting_of(trace): trace for trace in traces}  # two settings may share a run
    by_setting = dict(sorted(by_setting.items()))
    once = {trace.header["key"]: trace for trace in by_setting.values()}.values()
    traces = [Trace(trace.header, _thinned(trace)) for trace in once]
    columns = list(dict.fromkeys(name for trace in traces for row in trace.rows for name in row))
    headers = {name: trace.header for name, trace in by_setting.items()}
    about = {"headers": encode(headers), "columns": columns, "parameters": dict(parameters)}
    path.parent.mkdir(parents=True, exist_ok=True)
    to_parquet(traces, path, {name: _packed(value) for name, value in about.items()})


def _thinned(trace: Trace) -> list[Row]:
    """Return the rows of a run: all up to round 200, then one in each half per cent."""
    if not {"round", "cpu"} <= trace.last.keys():  # a notebook's own numbers are not rounds
        return trace.rows
    kept, following = [], 0.0
    for row in trace.rows:
        if row["round"] >= following or row is trace.last:
            kept.append(row)
            following = 1.005 * row["round"] if row["round"] >= 200 else 0.0
    return kept


def _packed(value: Any) -> bytes:
    """Return JSON compressed, as text: Parquet's metadata are not compressed."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9))


def _unpacked(text: bytes) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def read_results(path: Path) -> tuple[list[Trace], dict[str, Any]]:
    """Return the traces of a file of results, and the parameters of its notebook.

    Raises
    ------
    ValueError
        If it is not such a file, or damaged.
    """
    try:
        table = pq.read_table(path)
        about = {
            name: _unpacked(text)
            for name, text in (table.schema.metadata or {}).items()
            if name in (b"headers", b"columns", b"parameters")
        }
        headers, columns = decode(about[b"headers"]), about[b"columns"]
        rows: dict[str, list] = {header["key"]: [] for header in headers.values()}
        for run, row in zip(table["run"].to_pylist(), table.select(columns).to_pylist()):
            rows[run].append({name: v for name, v in row.items() if v is not None})
        for own in rows.values():
            for row in own[:-1]:
                row.pop("stopped_by", None)
        traces = [Trace(header, rows[header["key"]]) for header in headers.values()]
        return traces, {RENAMED.get(n, n): value for n, value in about[b"parameters"].items()}
    except (ArrowException, KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise ValueError(f"{path}: is not a file of results; {error}") from None


# Parameters that solvers had when results were made, with the one value that they have now.
GONE = {("splitting_rounds", None), ("relaxation", 1.9), ("balance", 0.4), ("balance", 0.0)}
GONE |= {("degree", 3), ("coef0", 0.0), ("stabilised", True), ("loss", "crammer_singer")}
GONE |= {("threads", 1), ("entering", 3), ("workers", 1), ("kept", 2**28), ("L", None)}


def setting(about: Mapping[str, Any]) -> str:
    """Return the key of a run's setting, whatever the code, the data and the machine."""
    return key(**{name: about.get(name) for name in NAMES})


def recalled() -> dict[str, Trace] | None:
    """Return all results by their settings, None unless figures are drawn from results.

    Raises
    ------
    ValueError
        As :func:`read_results`.
    """
    path = os.environ.get("WORKBENCH_RESULTS")
    return _recalled(path) if path else None


@cache
def _recalled(path: str) -> dict[str, Trace]:
    return {_setting_of(trace): trace for trace in read_results(Path(path))[0]}


def _setting_of(trace: Trace) -> str:
    if call := trace.header.get("call"):
        return call
    given, solver = trace.header.get("parameters"), SOLVERS.get(trace.header.get("solver"))
    if not given or solver is None:
        return setting(trace.header)
    takes = inspect.signature(solver.steps).parameters
    kept = {n: v for n, v in given.items() if n in takes or (n, v) not in GONE}
    return setting(trace.header | {"parameters": kept})


def there(text: str) -> list[str]:
    """Return the descriptions in a list whose data are available, or whose results are.

    Raises
    ------
    FileNotFoundError
        If none is.
    """
    found = recalled()
    if found is None:
        return available_specs(text)
    known = [trace.header["data"] for trace in found.values()]  # some with more features
    if specs := [
        s for s in listed(text) if any(re.match(rf"{re.escape(s)}( [|+]|$)", d) for d in known)
    ]:
        return specs
    raise FileNotFoundError(f"data: there are no results of {text!r}")


def described(trace: Trace) -> SimpleNamespace:
    """Return the ``name``, ``n``, ``d``, ``k`` and ``synthetic`` of the problem of a run."""
    return SimpleNamespace(**trace.header["problem"])
