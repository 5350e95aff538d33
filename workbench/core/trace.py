"""Traces as JSON Lines. They are plain data, so reading one cannot run code."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import numpy as np

from workbench.core.files import naming, whole
from workbench.core.kinds import Array, Json, PathLike, Record
from workbench.core.stream import Row, Rule, Stream, finished

SCHEMA = 1
PLAIN = (bool, int, float, str, type(None))
NUMBERS = (
    "seconds",
    "cpu",
    "lower",
    "upper",
    "gap",
    "primal",
    "squared_error",
    "test_error",
)
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass
class Trace:
    """The record of one run: a header (:func:`workbench.runs.run.header`) and rows.

    There is a row for every round. The last has ``stopped_by`` unless the run is still
    in progress or was killed.
    """

    header: Record = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def column(self, key: str) -> Array:
        """Return ``row[key]`` of every row as floats, NaN for rows without `key`."""
        return np.array([row.get(key, math.nan) for row in self.rows], dtype=float)

    @property
    def last(self) -> Row:
        """The last row; empty if there are no rows."""
        return self.rows[-1] if self.rows else {}

    @property
    def text(self) -> str:
        """The content of a trace's file: a line for the header and for each row."""
        return "".join(json.dumps(encode(entry)) + "\n" for entry in _entries(self))

    @property
    def stopped_by(self) -> str | None:
        """Why the run ended; None if it is still in progress or was killed."""
        return self.last.get("stopped_by")

    @property
    def cut(self) -> bool:
        """Whether a limit on wall or CPU seconds ended the run."""
        return (self.stopped_by or "").endswith("seconds")


def record(
    stream: Stream,
    trace: Trace,
    path: PathLike | None = None,
    rules: Iterable[Rule] = (),
) -> Stream:
    """Yield the stream, and append its rows to `trace` and, line by line, to `path`.

    Rows that the trace already has are written first. If the stream ends by itself, the
    last row's ``stopped_by`` is the text from :func:`workbench.core.stream.finished`;
    after Ctrl-C it is "interrupted".
    """
    if path is not None:
        open(path, "a").close()  # an error before the first row keeps an older file
    first = [*islice(stream, 1)]
    sink = None if path is None else open(path, "w", encoding="utf-8")

    def write(entry: Record) -> None:
        if sink:
            with naming(path):
                sink.write(json.dumps(encode(entry)) + "\n")
                sink.flush()

    def close(reason: str) -> None:
        if trace.rows and trace.stopped_by is None:
            trace.rows[-1]["stopped_by"] = reason
            write({"stopped_by": reason})

    try:
        for entry in _entries(trace):
            write(entry)
        for row, state in chain(first, stream):
            trace.rows.append(row)
            write(row)
            yield row, state
        close(finished(rules, trace.rows))
    except (KeyboardInterrupt, GeneratorExit):  # in the stream or in its reader
        close("interrupted")
        raise
    finally:
        if sink:
            with naming(path):
                sink.close()


def write_trace(path: PathLike, trace: Trace) -> None:
    """Write a finished trace to `path`, whole or not at all."""
    with whole(path) as part:
        part.write_text(trace.text, encoding="utf-8")


def _entries(trace: Trace) -> list[Record]:
    return [{"schema": SCHEMA} | trace.header, *trace.rows]


def read_trace(path: PathLike) -> Trace:
    """Read a trace. Its last line may be incomplete if the run was killed.

    A file that is not a trace, or a damaged line before the last, raises a ValueError.
    """
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    entries: list[Json] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = decode(json.loads(line))
            before = entries[-1] if len(entries) > 1 else {}
            if set(entry) == {"stopped_by"} and before and "stopped_by" not in before:
                entry = entries.pop() | entry
                before = {}
            if entries and not _follows(entry, before):
                raise ValueError("not a row")
            entries.append(entry)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            if number < len(lines):
                raise ValueError(f"{path}: line {number} is damaged") from None
    header, *rows = entries or [None]
    if not isinstance(header, dict) or header.pop("schema", None) != SCHEMA:
        raise ValueError(
            f"{path}: not a trace; its first line is not a header of schema {SCHEMA}"
        )
    return Trace(header, rows)


def read_finished(path: PathLike, key: str) -> Trace:
    """Read the trace of a run that has ended; its header must have this key.

    Any other trace raises a ValueError.
    """
    trace = read_trace(path)
    if not isinstance(trace.stopped_by, str):
        raise ValueError(f"{path}: is the trace of a run that has not ended")
    other = trace.header.get("key")
    if other != key:
        raise ValueError(f"{path}: is the trace of another run, {other!r}")
    return trace


def _follows(row: Row, before: Row) -> bool:
    """Return whether `row` can follow the row `before` (empty for the first row).

    An integer that is too large for a float raises an OverflowError.
    """
    for name, value in row.items():
        if not isinstance(value, PLAIN):
            return False
        if name in NUMBERS and type(value) not in (int, float):
            return False
        if type(value) is int:
            float(value)
    if "stopped_by" in before or not isinstance(row.get("stopped_by", ""), str):
        return False
    number = row.get("round")
    return type(number) is int and number > before.get("round", -1)


def encode(value: object) -> Json:
    """Return `value` for strict JSON: NaN and infinities become texts, and
    NumPy scalars numbers."""
    if isinstance(value, dict):
        return {key: encode(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def decode(value: Json) -> Json:
    """Return the value that :func:`encode` has encoded."""
    if isinstance(value, dict):
        return {key: decode(v) for key, v in value.items()}
    if isinstance(value, list):
        return [decode(v) for v in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value
