"""Traces as Parquet: every value as it was, and columns of one type."""

import math
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.core.measures import errors
from workbench.core.stream import geometric, rounds
from workbench.core.trace import Trace, read_trace, write_trace
from workbench.runs import export
from workbench.runs.export import to_parquet
from workbench.runs.run import run

PROBLEM = {"name": "blobs", "n": 60, "d": 4, "k": 3, "synthetic": False, "checksum": "ab12"}
ROWS = [
    {"round": 0, "seconds": 0.1, "upper": math.inf, "lower": -math.inf, "gap": math.inf},
    {"round": 1, "seconds": 0.1 + 0.2, "upper": 0.5, "lower": 1e-300, "gap": 0.5, "error": 0.25},
    {"round": 2, "seconds": 1.0, "upper": 0.4, "lower": 0.3, "gap": 0.1, "stopped_by": "2 rounds"},
]


def trace(rows=ROWS, solver="ccg", parameters=None, **header):
    """A trace that differs from another in its key."""
    trace.made += 1
    plain = {"key": f"key{trace.made}", "solver": solver, "parameters": parameters or {}}
    return Trace(
        plain | {"problem": PROBLEM, "started": "2026-01-01T00:00:00+00:00"} | header, rows
    )


trace.made = 0


def tidy(tmp_path, *traces):
    to_parquet(traces, tmp_path / "t.parquet")
    return pq.read_table(tmp_path / "t.parquet")


def test_every_value_of_a_real_run_comes_back(tmp_path, blobs):
    problem = blobs().split(0.3)
    made, _ = run("mrc_subgradient", problem, rounds(4), measure=errors(problem), when=geometric())
    table = tidy(tmp_path, made)
    for row, read in zip(made.rows, table.to_pylist()):
        assert {name: read[name] for name in row if name != "stopped_by"} == {
            name: value for name, value in row.items() if name != "stopped_by"
        }
        assert read["solver"] == "mrc_subgradient" and read["data"] == problem.name
        assert read["p_lambda0"] == made.header["parameters"]["lambda0"]
        assert read["checksum"] == problem.checksum and read["synthetic"] is True
        assert (read["n"], read["d"], read["k"]) == (problem.n, problem.d, problem.k)
        assert read["stopped_by"] == "4 rounds"
    assert len(made.rows) == len(table)


def test_infinities_and_nan_are_no_nulls(tmp_path):
    rows = [*ROWS, {"round": 3, "seconds": 2.0, "upper": math.nan}]
    table = tidy(tmp_path, trace(rows), trace([]))  # a trace without rows adds none
    assert table["lower"].to_pylist() == [-math.inf, 1e-300, 0.3, None]
    assert table["upper"].to_pylist()[0] == math.inf and math.isnan(table["upper"][3].as_py())
    assert table["upper"].null_count == 0
    assert table["error"].to_pylist() == [None, 0.25, None, None]
    schema = tidy(tmp_path, Trace({}, [{"round": 0}])).schema  # nothing fills its fixed columns
    assert schema.field("spec").type == pa.string() and schema.field("seed").type == pa.int64()
    assert schema.field("timed").type == pa.bool_() and schema.field("n").type == pa.int64()


def test_columns_are_the_union_over_all_traces(tmp_path):
    first = trace(parameters={"C": 1.0}, seed=3, repetition=1, timed=True, data="blobs | 9 % rows")
    second = Trace({"solver": "bare"}, [{"round": 0, "seconds": 0.5, "primal": 2}])
    table = tidy(tmp_path, first, second)
    assert table.column_names == [
        *("run", "solver", "data", "spec", "checksum", "n", "d", "k", "synthetic"),
        *("seed", "repetition", "timed", "p_C", "round", "seconds", "upper", "lower", "gap"),
        *("error", "primal", "stopped_by"),
    ]
    *_, told, bare = table.to_pylist()
    assert told["run"] == first.header["key"] and told["spec"] == "blobs | 9 % rows"
    assert (told["seed"], told["repetition"], told["timed"]) == (3, 1, True)
    values = {name: value for name, value in bare.items() if value is not None and name != "run"}
    assert values == {"solver": "bare", "round": 0, "seconds": 0.5, "primal": 2}
    assert table["stopped_by"].to_pylist() == ["2 rounds"] * 3 + [None]


@pytest.mark.parametrize(
    "values, kind, read",
    [
        ([1, None, 2], pa.int64(), [1, None, 2]),
        ([True, False, None], pa.bool_(), [True, False, None]),
        ([np.float32(0.5), np.int64(2)], pa.float64(), [0.5, 2.0]),
        ([1, "auto"], pa.string(), ["1", "auto"]),
        ([math.inf, "naïve"], pa.string(), ["inf", "naïve"]),
        ([[1, 2], {"b": 0.5}], pa.string(), ["[1, 2]", '{"b": 0.5}']),
        ([2**63, 1], pa.string(), [str(2**63), "1"]),
        ([None, None], pa.null(), [None, None]),
        ([1, 0.5, None, 2], pa.float64(), [1.0, 0.5, None, 2.0]),
        ([True, "no", None, 3], pa.string(), ["true", "no", None, "3"]),
    ],
)
def test_a_column_has_one_type(tmp_path, values, kind, read):
    table = tidy(tmp_path, *[trace(ROWS[-1:], parameters={"p": value}) for value in values])
    assert table.schema.field("p_p").type == kind
    assert table["p_p"].to_pylist() == read


def test_a_run_s_id_is_stable_and_its_own(tmp_path):
    header = {"solver": "ccg", "started": "2026-01-01T00:00:00+00:00"}
    later = [ROWS[0], ROWS[1], ROWS[2] | {"seconds": 1.5}]
    table = tidy(tmp_path, Trace(header, ROWS), Trace(header, later))
    first, second = table["run"].unique().to_pylist()
    once = (tmp_path / "t.parquet").read_bytes()
    tidy(tmp_path, Trace(header, ROWS), Trace(header, later))
    assert (tmp_path / "t.parquet").read_bytes() == once
    write_trace(tmp_path / "t.jsonl", Trace(dict(reversed(header.items())), ROWS))
    assert tidy(tmp_path, read_trace(tmp_path / "t.jsonl"))["run"][0].as_py() == first != second


def test_no_trace_or_one_given_twice_is_refused(tmp_path):
    one, hiding = trace(), trace([{"round": 0, "n": 7}])
    for traces, message in (
        ([], "there are none to export"),
        ([one, one], f"{one.header['key']} appears twice"),
        ([hiding], "rows contain n,"),
    ):
        with pytest.raises(ValueError, match=message):
            to_parquet(traces, tmp_path / "t.parquet")
    assert os.listdir(tmp_path) == []


def test_a_failed_export_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    to_parquet([trace()], path)
    before = path.read_bytes()

    def broken():
        yield trace()
        raise RuntimeError("a damaged trace")

    with pytest.raises(RuntimeError, match="a damaged trace"):
        to_parquet(broken(), path)

    def full(table, part, **options):
        with open(part, "wb") as sink:
            sink.write(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr(export.pq, "write_table", full)
    with pytest.raises(OSError, match="no space left"):
        to_parquet([trace()], path)
    assert path.read_bytes() == before
