"""Traces as JSON Lines and states as npz: plain data, so loading one can never run code."""

from __future__ import annotations

import json
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from workbench.core.files import whole
from workbench.core.stream import Row, Rule, State, finished

SCHEMA = 1
# Errors of NumPy and its archives for files that are not archives, damaged, or packed otherwise.
UNREADABLE = (ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, MemoryError)
UNREADABLE += (RuntimeError, OverflowError, zlib.error, zipfile.BadZipFile)
PLAIN = (bool, int, float, str, type(None))
TICK = 1e-6  # seconds by which the rounding of clocks may set them back
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass
class Trace:
    """One run: how it was made (`header`) and its numbers (`rows`).

    Attributes
    ----------
    header : dict, see :func:`workbench.runs.run.header`
    rows : list of dicts, one per round, in order; the last has ``stopped_by`` unless the run
        was killed
    """

    header: dict[str, Any] = field(default_factory=dict)
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
        """Whether the clock ended the run, by a limit on its wall or processor seconds."""
        return (self.stopped_by or "").endswith("seconds")


def record(
    stream: Iterable[tuple[Row, State]],
    trace: Trace,
    path: str | os.PathLike | None = None,
    rules: Iterable[Rule] = (),
) -> Iterator[tuple[Row, State]]:
    """Pass the stream on while its rows are appended to `trace` and, line by line, to `path`.

    A stream that ends by itself is closed as ``finished``, with the goals of its `rules` that it
    did not reach; one that Ctrl-C ends as ``interrupted``, before the interrupt is raised again.
    A killed process leaves a readable prefix.
    """
    sink = open(path, "w", encoding="utf-8") if path is not None else None

    def write(entry: dict[str, Any]) -> None:
        if sink:
            sink.write(json.dumps(encode(entry)) + "\n")
            sink.flush()

    def close(reason: str) -> None:
        if trace.rows and trace.stopped_by is None:
            trace.rows[-1]["stopped_by"] = reason
            write({"stopped_by": reason})

    try:
        write({"schema": SCHEMA} | trace.header)
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
            sink.close()


def write_trace(path: str | os.PathLike, trace: Trace) -> None:
    """Write a finished trace to `path`, whole or not at all, even if others write there too."""
    entries = [{"schema": SCHEMA} | trace.header, *trace.rows]
    with whole(path) as part:
        part.write_text("".join(json.dumps(encode(e)) + "\n" for e in entries), encoding="utf-8")


def read_trace(path: str | os.PathLike) -> Trace:
    """Read a trace, also one whose last line was cut off by a kill.

    Raises
    ------
    ValueError
        If the file is not a trace, was written by a newer schema, or a line before a cut one is
        not as this package writes it: an object of plain values, its round above the one before,
        its clocks not behind.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a trace, as it is not text") from None
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(decode(json.loads(line, parse_constant=_refuse)))
        except (ValueError, RecursionError):  # also numbers and nests too large to read
            if number < len(lines):
                raise ValueError(f"{path}: line {number} is damaged") from None
    if not entries or not isinstance(entries[0], dict) or "schema" not in entries[0]:
        raise ValueError(f"{path}: not a trace, its first line is not a header")
    strange = [number for number, entry in enumerate(entries, 1) if not isinstance(entry, dict)]
    if strange:
        raise ValueError(f"{path}: line {strange[0]} is damaged")
    header, *rows = entries
    schema = header.pop("schema")
    if not isinstance(schema, int):
        raise ValueError(f"{path}: not a trace, its schema is {schema!r}")
    if schema > SCHEMA:
        raise ValueError(f"{path}: schema {schema} is newer than this package's {SCHEMA}")
    if len(rows) > 1 and set(rows[-1]) == {"stopped_by"} > set(rows[-2]) & {"stopped_by"}:
        closing = rows.pop()
        rows[-1] |= closing
    before: Row = {}
    for number, row in enumerate(rows, 2):
        if not _follows(row, before):
            raise ValueError(f"{path}: line {number} is damaged")
        before = row
    return Trace(header, rows)


def read_finished(path: str | os.PathLike, key: str) -> Trace:
    """Read the trace of a run that came to its end and was kept under its content key.

    Raises
    ------
    ValueError
        As :func:`read_trace`, and if it has no end, another key or no problem in its header.
    """
    trace = read_trace(path)
    problem, found = trace.header.get("problem"), trace.header.get("key")
    if not isinstance(trace.stopped_by, str):
        raise ValueError(f"{path}: is the trace of a run that has not ended")
    if found != key:
        raise ValueError(f"{path}: is the trace of another run, {found!r}")
    if not isinstance(problem, dict) or not {"n", "d", "k", "checksum"} <= set(problem):
        raise ValueError(f"{path}: line 1 is damaged")
    return trace


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _follows(row: Row, before: Row) -> bool:
    """Return whether this can be the row after `before`, or the first row if that is empty."""
    clocks = {"seconds", "cpu"} & (set(row) | set(before))
    return (
        all(isinstance(value, PLAIN) for value in row.values())
        and "stopped_by" not in before
        and type(row.get("round")) is int
        and row["round"] > before.get("round", -1)
        and all(type(row.get(clock)) in (int, float) for clock in clocks)
        and all(before.get(c, 0.0) - TICK <= row[c] <= sys.float_info.max for c in clocks)
    )


def save_state(path: str | os.PathLike, state: State) -> None:
    """Save a solver's state to an npz file without pickle, whole or not at all.

    A state is a plain dataclass of arrays, numbers, strings, booleans, None and one or more
    `numpy.random.Generator` (PCG64).

    Raises
    ------
    TypeError
        Naming a field of any other type.
    """
    arrays, plain = {}, {}
    for f in fields(state):
        value = getattr(state, f.name)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            arrays[f.name] = value
        elif _is_pcg64(value):
            plain[f.name] = {"generator": value.bit_generator.state}
        elif value is None or isinstance(value, (bool, int, float, str)):
            plain[f.name] = value
        elif isinstance(value, np.generic):
            plain[f.name] = value.item()
        else:
            raise TypeError(f"{type(state).__name__}.{f.name}: cannot save a {type(value)}")
    plain_json = json.dumps({"state": type(state).__name__, "plain": plain})
    with whole(path) as part, open(part, "wb") as sink:
        np.savez(sink, **arrays, **{"": np.array(plain_json)})


def load_state(path: str | os.PathLike, kind: type) -> Any:
    """Load a state of dataclass `kind` that :func:`save_state` wrote.

    Loading runs nothing, and types are checked here. Going on from a state is for files that you
    trust: no solver compares its lengths and places with those of the problem, and compiled code
    that follows wrong ones could read or write anywhere.

    Raises
    ------
    ValueError
        If the file is damaged, or does not contain a state of this kind, with its fields and their
        types.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "" not in archive.files:
                raise ValueError("it does not contain a state")
            values = {name: archive[name] for name in archive.files if name}
            text = json.loads(str(archive[""]))
        state = text["state"]
        for name, value in text["plain"].items():
            if isinstance(value, dict):
                rng = np.random.Generator(np.random.PCG64())
                rng.bit_generator.state = value["generator"]
                value = rng
            values[name] = value
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise ValueError(f"{path}: not a state; {error}") from None
    if state != kind.__name__:
        raise ValueError(f"{path}: contains a {state}, not a {kind.__name__}")
    expected = {f.name for f in fields(kind)}
    if set(values) != expected:
        raise ValueError(f"{path}: fields {sorted(set(values) ^ expected)} do not match")
    for name, hint in get_type_hints(kind).items():
        hints = get_args(hint) or [hint]
        if name in expected and not any(_is_a(values[name], one) for one in hints):
            raise ValueError(f"{path}: {name} does not have the type of a {state}'s")
    return kind(**values)


def _is_a(value, hint) -> bool:
    """Return whether a value of a state is of this type; arrays are of plain, native numbers."""
    if isinstance(value, np.ndarray):
        plain = value.dtype.kind in "biufc" and value.dtype.isnative
        return hint in (np.ndarray, object) and plain
    return hint is object or type(value) is hint or (hint is float and type(value) is int)


def _is_pcg64(value) -> bool:
    bits = getattr(value, "bit_generator", None)
    return isinstance(value, np.random.Generator) and isinstance(bits, np.random.PCG64)


def encode(value):
    """Return `value` as strict JSON: NaN and infinities as strings, NumPy scalars as numbers."""
    if isinstance(value, dict):
        return {key: encode(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def decode(value):
    """Return the value that :func:`encode` was given, from its JSON."""
    if isinstance(value, dict):
        return {key: decode(v) for key, v in value.items()}
    if isinstance(value, list):
        return [decode(v) for v in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value
