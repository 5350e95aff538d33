"""Traces on disk: JSON Lines that survive a kill, and refuse what they cannot read."""

import json
import math
import os

import numpy as np
import pytest
from helpers import each, refuses
from helpers.streams import ROWS, count

from workbench.core.stream import watch
from workbench.core.trace import (
    SCHEMA,
    Trace,
    read_finished,
    read_trace,
    record,
    write_trace,
)

HEADER = {
    "solver": "toy",
    "parameters": {"C": 1.0, "max_seconds": math.inf, "columns": None, "name": "naïve"},
    "rules": ["3 rounds"],
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.jsonl"


def same(a, b):
    """Equality in which NaN equals NaN."""
    return json.dumps(a) == json.dumps(b)


def toys(limit=3):
    return count(limit, values=[float(r) for r in range(limit + 1)])


def test_a_trace_survives_the_disk_exactly_as_strict_json(path):
    write_trace(path, Trace(HEADER, ROWS))
    trace = read_trace(path)
    assert same(trace.header, HEADER) and same(trace.rows, ROWS)
    assert trace.rows[1]["seconds"] == 0.1 + 0.2  # to the last bit
    assert os.listdir(path.parent) == ["t.jsonl"]
    column = trace.column("lower")
    assert column[0] == -math.inf and np.isnan(column[1:]).all()
    assert Trace().column("gap").shape == (0,) and Trace().last == {}

    lines = [
        json.loads(s, parse_constant=pytest.fail) for s in path.read_text().splitlines()
    ]
    assert len(lines) == 1 + len(ROWS) and lines[0]["schema"] == SCHEMA
    row = {"round": np.int32(3), "gap": np.float32("nan"), "ok": np.True_}
    write_trace(path, Trace({}, [row]))
    assert same(read_trace(path).rows, [{"round": 3, "gap": math.nan, "ok": True}])


def test_a_reader_s_own_interrupt_is_recorded(path):
    trace = Trace(HEADER)
    with pytest.raises(KeyboardInterrupt):
        for seen, (row, _) in enumerate(record(watch(toys()), trace, path), 1):
            assert [row["round"] for row in read_trace(path).rows] == list(range(seen))
            if row["round"] == 2:
                raise KeyboardInterrupt
    assert trace.stopped_by == read_trace(path).stopped_by == "interrupted"
    assert len(trace.rows) == 3


def test_a_trace_cut_anywhere_is_read_to_its_last_whole_line(path):
    none = Trace(HEADER)
    assert list(record(iter(()), none, path)) == [] and none.stopped_by is None
    list(record(watch(toys(2)), Trace(HEADER), path))
    whole = path.read_bytes()
    for size in range(whole.index(b"\n"), len(whole) + 1):
        path.write_bytes(whole[:size])
        # A line counts when it is whole, with or without its end.
        complete = whole[:size].count(b"\n") + (whole[size : size + 1] == b"\n")
        trace = read_trace(path)
        assert len(trace.rows) == min(complete - 1, 3)
        assert [row["round"] for row in trace.rows] == list(range(len(trace.rows)))
        assert (trace.stopped_by == "finished") == (complete == 5)


HEAD = b'{"schema": 1}\n'
NO_TRACES = [
    b"",
    b"\n",
    b'{"schema',
    b'{"a": 1}\n',
    b"5\n6\n",
    b'"text"\n',
    b"[]",
    b"\x80",
    b'{"schema": 9}\n',
    b'{"schema": "1"}\n',
    HEAD + b"5\n",
]


@each("content", NO_TRACES, ids=range(len(NO_TRACES)))
def test_what_is_not_a_trace_is_refused(path, content):
    path.write_bytes(content)
    told = r"t\.jsonl: (not a trace|line [12] is damaged|.* is newer)"
    with refuses(told):
        read_trace(path)


DAMAGE = {
    "nests": "[" * 100_000,
    "a nest in a row": '{"round": 1, "gap": [0.5]}',
    "no round": '{"seconds": 0.2, "cpu": 0.2}',
    "a round before": '{"round": -1, "seconds": 0.2, "cpu": 0.2}',
    "an end": '{"round": 1, "seconds": 0.2, "cpu": 0.2, "stopped_by": "gap"}',
}


@each("damage", DAMAGE)
def test_a_damaged_line_is_named_wherever_it_is(path, damage):
    message = r"t\.jsonl: (line \d is damaged|not a trace|is the trace)"
    for place in range(5):
        write_trace(path, Trace({"key": "k"}, ROWS))
        lines = path.read_text().splitlines()
        lines[place : place + 1] = [DAMAGE[damage]]
        path.write_text("\n".join(lines) + "\n")
        with refuses(message):
            read_finished(path, "k")


def test_a_trace_is_finished_only_whole_and_under_its_key(path):
    header = {"key": "k", "problem": {"n": 9, "d": 2, "k": 2, "checksum": "c"}}
    write_trace(path, Trace(header, ROWS))
    assert same(read_finished(path, "k").rows, ROWS)
    with refuses(r"t\.jsonl: is the trace of another run, 'k'"):
        read_finished(path, "other")
    write_trace(path, Trace(header, ROWS[:2]))
    with refuses(r"t\.jsonl: is the trace of a run that has"):
        read_finished(path, "k")
    # a failed write leaves the old trace, and nothing else
    with pytest.raises(TypeError):
        write_trace(path, Trace(header, [{"round": 0, "state": object()}]))
    assert same(read_trace(path).rows, ROWS[:2]) and os.listdir(path.parent) == [
        "t.jsonl"
    ]


def test_links_stay_devices_are_written_and_errors_name_the_file(tmp_path):
    (link := tmp_path / "link").symlink_to(tmp_path / "there.jsonl")
    write_trace(link, Trace(HEADER, ROWS))
    assert link.is_symlink() and same(read_trace(tmp_path / "there.jsonl").rows, ROWS)
    places = [tmp_path]
    if os.path.exists("/dev/full"):  # every write there finds the disk full
        places.append("/dev/full")
        with pytest.raises(OSError) as raised:
            list(record(watch(toys()), Trace(HEADER), "/dev/full"))
        assert raised.value.filename == "/dev/full"
    for place in places:
        with pytest.raises(OSError) as raised:
            write_trace(place, Trace(HEADER, ROWS))
        assert raised.value.filename == str(place)
    assert sorted(os.listdir(tmp_path)) == ["link", "there.jsonl"]
