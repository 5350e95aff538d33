"""Traces as JSON Lines: plain data, so loading one can never run code."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from workbench.core.files import naming, whole
from workbench.core.kinds import Json, PathLike, Record
from workbench.core.stream import Row, Rule, State, finished

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
    """One run: how it was made (:func:`workbench.runs.run.header`), and a row for each
    round.

    The last row has ``stopped_by`` unless the run was killed.
    """

    header: Record = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def column(self, key: str) -> np.ndarray:
        """Return ``row[key]`` of every row as floats, NaN where a row lacks it."""
        return np.array([row.get(key, math.nan) for row in self.rows], dtype=float)

    @property
    def last(self) -> Row:
        """The last row, empty before the first."""
        return self.rows[-1] if self.rows else {}

    @property
    def stopped_by(self) -> str | None:
        """Why the run ended; None when it is still running or was killed."""
        return self.last.get("stopped_by")

    @property
    def cut(self) -> bool:
        """Whether the clock ended the run, by a limit on its wall or processor
        seconds."""
        return (self.stopped_by or "").endswith("seconds")


def record(
    stream: Iterable[tuple[Row, State]],
    trace: Trace,
    path: PathLike | None = None,
    rules: Iterable[Rule] = (),
) -> Iterator[tuple[Row, State]]:
    """Pass the stream on while its rows are appended to `trace` and, line by line, to
    `path`.

    Rows that the trace already has are written first. The last row of a stream that
    ends by itself has ``stopped_by`` "finished", with the goals of its `rules` that it
    missed; after Ctrl-C it has "interrupted".
    """
    sink = open(path, "w", encoding="utf-8") if path is not None else None

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
        for entry in ({"schema": SCHEMA} | trace.header, *trace.rows):
            write(entry)
        for row, state in stream:
            trace.rows.append(row)
            write(row)
            yield row, state
        close(finished(rules, trace.rows))
    except (KeyboardInterrupt, GeneratorExit):  # here, or in the reader's own code
        close("interrupted")
        raise
    finally:
        if sink:
            with naming(path):
                sink.close()


def write_trace(path: PathLike, trace: Trace) -> None:
    """Write a finished trace to `path`, whole or not at all."""
    entries = [{"schema": SCHEMA} | trace.header, *trace.rows]
    with whole(path) as part:
        part.write_text(
            "".join(json.dumps(encode(e)) + "\n" for e in entries), encoding="utf-8"
        )


def read_trace(path: PathLike) -> Trace:
    """Read a trace, also one whose last line was cut off by a kill.

    A ValueError says if the file is not a trace, or a line before the last is damaged.
    """
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    entries: list[Json] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = decode(json.loads(line))
            before = entries[-1] if len(entries) > 1 else {}
            if set(entry) == {"stopped_by"} and before and "stopped_by" not in before:
                entry, before = entries.pop() | entry, {}
            if entries and not _follows(entry, before):
                raise ValueError("not a row")
            entries.append(entry)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            if number < len(lines):
                raise ValueError(f"{path}: line {number} is damaged") from None
    header, *rows = entries or [None]
    if not isinstance(header, dict) or header.pop("schema", None) != SCHEMA:
        raise ValueError(
            f"{path}: not a trace, its first line is not a header of schema {SCHEMA}"
        )
    return Trace(header, rows)


def read_finished(path: PathLike, key: str) -> Trace:
    """Read a trace; ValueError unless it has ended and its header has this key."""
    trace = read_trace(path)
    if not isinstance(trace.stopped_by, str):
        raise ValueError(f"{path}: is the trace of a run that has not ended")
    if (found := trace.header.get("key")) != key:
        raise ValueError(f"{path}: is the trace of another run, {found!r}")
    return trace


def _follows(row: Row, before: Row) -> bool:
    """Return whether this can be the row after `before`, or the first row if that is
    empty."""
    integers = [value for value in row.values() if type(value) is int]
    numbers = [*map(float, integers), *(row[name] for name in NUMBERS if name in row)]
    return (
        all(isinstance(value, PLAIN) for value in row.values())
        and all(type(number) in (int, float) for number in numbers)
        and isinstance(row.get("stopped_by", ""), str)
        and "stopped_by" not in before
        and type(number := row.get("round")) is int
        and number > before.get("round", -1)
    )


def encode(value: object) -> Json:
    """Return `value` as strict JSON: NaN and infinities as strings, NumPy scalars as
    numbers."""
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
    """Return the value that :func:`encode` was given, from its JSON."""
    if isinstance(value, dict):
        return {key: decode(v) for key, v in value.items()}
    if isinstance(value, list):
        return [decode(v) for v in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value
