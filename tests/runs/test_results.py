"""Results that last: traces as one tidy table, and figures redrawn without data or
runs."""

import io
import itertools
import json
import math
import os
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers import refuses
from helpers.streams import ROWS

from workbench import Figures, grid, load, rounds, run, sweep
from workbench.core.trace import Trace, encode
from workbench.runs import results
from workbench.runs.mill import make
from workbench.runs.notebooks import CHECKOUT, FOLDER, read
from workbench.runs.results import read_results, setting, there, write_results
from workbench.runs.run import resolve

SOLVERS = {"ww_walrus": {"C": [0.1, 1.0]}}
DATA = ["wine @ range"]


@pytest.fixture
def kept(tmp_path, redraw, no_workers):
    """A sweep and its file of results, from which figures are drawn."""
    path = tmp_path / "x.parquet"
    points = grid(SOLVERS, DATA, stop={"rounds": 3}, seeds=2, test=0.3)
    done = sweep(points, folder=tmp_path / "points")
    write_results(path, done.traces(), {"C": 0.5, "timing": False})
    redraw(path)
    return points, done


def test_traces_come_back_as_they_were(kept, tmp_path):
    traces, parameters = read_results(tmp_path / "x.parquet")
    assert parameters == {"C": 0.5, "timing": False}
    before = {trace.header["key"]: trace for trace in kept[1].traces()}
    assert len(traces) == len(before) == 4
    for trace in traces:
        own = before[trace.header["key"]]
        assert encode(trace.header) == encode(own.header) and trace.rows == own.rows
    own.rows[0] |= {"gap_ratio": math.inf, "only_here": -math.inf}
    write_results(tmp_path / "y.parquet", [own], {})
    ((again,), _) = read_results(tmp_path / "y.parquet")
    assert again.rows == own.rows


def test_a_sweep_from_results_runs_nothing_and_reads_no_data(
    kept, tmp_path, monkeypatch
):
    points, done = kept
    monkeypatch.setattr("workbench.runs.sweep.load", None)
    again = sweep(points, folder=tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    before = done.frame()
    assert again.failures == {} and again.frame()[list(before)].equals(before)
    assert there("wine @ range, iris") == ["wine @ range"]
    with refuses("no results for 'iris'", FileNotFoundError):
        there("iris")


def test_a_point_without_a_result_is_a_failure(kept):
    other = grid({"ww_walrus": {"C": [2.0]}}, DATA, stop={"rounds": 3}, test=0.3)
    (reason,) = sweep(other).failures.values()
    assert reason == "no run with these settings is in the results"
    about = {"solver": "a", "stop": {}, "timed": False}
    assert len({setting(about), setting(about | {"timed": True}), setting({})}) == 3


def test_one_run_asked_for_by_two_names_is_found_by_both(tmp_path, no_workers, redraw):
    names = ["wine @ range", "wine @ range or iris"]
    (point,) = grid({"ww_walrus": {}}, names[:1], stop={"rounds": 1}, test=0.3)
    (trace,) = sweep([point], folder=tmp_path / "points").traces()
    other = Trace(trace.header | {"data": names[1]}, trace.rows)
    write_results(tmp_path / "z.parquet", [trace, other], {})
    found, _ = read_results(tmp_path / "z.parquet")
    assert sorted(t.header["data"] for t in found) == names
    assert found[0].rows == found[1].rows
    redraw(tmp_path / "z.parquet")
    assert there(", ".join(names)) == names


def test_a_long_run_keeps_a_row_in_each_half_per_cent(tmp_path):
    rows = [{"round": i, "cpu": i / 8} for i in range(5000)]
    traces = [Trace({"solver": "a", "key": f"{i}", "seed": i}, rows) for i in range(2)]
    write_results(tmp_path / "a.parquet", traces, {"C": 1.0})
    write_results(tmp_path / "b.parquet", traces[::-1], {"C": 1.0})
    first, second = ((tmp_path / f"{name}.parquet").read_bytes() for name in "ab")
    assert first == second
    kept = [row["round"] for row in read_results(tmp_path / "a.parquet")[0][0].rows]
    assert kept[:201] == list(range(201)) and kept[-1] == 4999 and len(kept) < 900
    assert all(
        later <= 1.005 * earlier + 1 for earlier, later in itertools.pairwise(kept)
    )


PROBLEM = {"n": 60, "d": 4, "k": 3, "synthetic": False, "checksum": "ab12"}
HEADER = {"key": "a", "solver": "ccg", "data": "x", "problem": PROBLEM}
HEADER |= {"parameters": {"C": 1.0}, "seed": 3, "repetition": 1, "timed": True}


def test_a_table_has_a_row_for_each_row_and_the_columns_of_all(tmp_path):
    bare = {"key": "b", "solver": "bare"}
    second = Trace(bare, [{"round": 0, "seconds": 0.5, "primal": 2}])
    none = Trace(HEADER | {"key": "no rows", "seed": 4}, [])
    write_results(tmp_path / "t.parquet", [second, Trace(HEADER, ROWS), none])
    table = pd.read_parquet(tmp_path / "t.parquet").set_index("run")
    assert set(table) == {
        *"solver data n d k seed repetition timed p_C".split(),
        *"round seconds upper lower gap primal stopped_by".split(),
    }
    values = {"solver": "bare", "round": 0, "seconds": 0.5, "primal": 2}
    assert table.loc["b"].dropna().to_dict() == values
    rows = table.loc["a"]
    assert (rows[["p_C", "timed", "n"]] == [1.0, True, 60]).all(axis=None)
    given = pd.DataFrame(ROWS).assign(stopped_by="2 rounds").set_index(rows.index)
    pd.testing.assert_frame_equal(rows[list(given)], given, check_dtype=False)


def test_the_committed_results_name_real_parameters():
    """`--from results` finds a run by its solver's parameters."""
    for path in sorted((CHECKOUT / "results").glob("*.parquet")):
        headers = [trace.header for trace in read_results(path)[0]]
        named = {h["solver"]: h["parameters"] for h in headers if "call" not in h}
        for solver, parameters in named.items():
            assert parameters.keys() == resolve(solver, {})[1].keys(), path


def test_nothing_to_write_writes_nothing(tmp_path):
    path = tmp_path / "x.parquet"
    with refuses("there are none to write"):
        write_results(path, [])
    assert os.listdir(tmp_path) == []
    write_results(path, [Trace(HEADER, ROWS)])
    whole = path.read_bytes()
    metadata = pq.read_schema(path).metadata
    damaged = [b"", b"PAR1", b"x" * 100, whole[:-90], bytes(len(whole))]
    damaged += [whole[:n] + bytes(9) + whole[n + 9 :] for n in range(4, 300, 9)]
    for name in (b"headers", b"columns", b"parameters"):
        for about in (results._packed([None]), b"", b"?"):
            table = pq.read_table(path).replace_schema_metadata(
                metadata | {name: about}
            )
            sink = io.BytesIO()
            pq.write_table(table, sink)
            damaged.append(sink.getvalue())
    for content in damaged:
        path.write_bytes(content)
        with refuses(r"x\.parquet: is not a file of results"):
            read_results(path)


SMALL = {
    "data": "wine @ range",
    "C_grid": "0.1, 1",
    "max_cpu": "1",
    "test": "0.3",
    "repetitions": "1",
    "timing": "false",
}


def test_runs_are_made_once_and_redraw_all_figures(tmp_path, monkeypatch, no_kernels):
    """A second run reads every point, and so does one from results, which has no
    data."""
    notebook = read(FOLDER / "ww_path.ipynb")
    points = tmp_path / "runs" / "points"
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    folder = tmp_path / "figures"

    def drawn(figures, **options):
        options |= {"figures": figures, "executed": tmp_path}
        assert make(["ww_path"], "paper", **options) == []
        paths = [figures / "ww_path" / f"{figure}.json" for figure in notebook.figures]
        records = [json.loads(path.read_text("utf-8")) for path in paths]
        wanted = "caption numbers traces parameters data".split()
        return [{k: r.get(k) for k in wanted} for r in records]

    first = drawn(folder, overrides=SMALL)
    dates = {path: path.stat().st_mtime_ns for path in points.rglob("*.jsonl")}
    assert dates and drawn(folder, overrides=SMALL, again=True) == first
    assert {path: path.stat().st_mtime_ns for path in points.rglob("*.jsonl")} == dates
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "nothing"))
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "nothing"))
    assert drawn(tmp_path / "redrawn", results=tmp_path / "results") == first
    assert not (tmp_path / "nothing").exists()
    with refuses("from: mrc_nmax has no results"):
        make(["mrc_nmax"], results=tmp_path / "results")


@pytest.fixture
def figures(tmp_path, monkeypatch):
    """The figures of a notebook whose runs are kept in a folder of their own."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    notebook = read(FOLDER / "ww_path.ipynb")
    return Figures("ww_path", notebook.values("quick"), folder=tmp_path / "figures")


def counting(calls, stopped_by="rounds"):
    def fit(spec, C):
        calls.append((spec, C))
        return Trace(
            {"solver": "ww_walrus"}, [{"round": 0, "C": C, "stopped_by": stopped_by}]
        )

    return fit


def test_a_run_is_kept_by_its_values_made_once_and_recalled(figures, tmp_path, redraw):
    calls = []
    first, again, other = (
        figures.kept(counting(calls))("wine", C) for C in (0.5, 0.5, 2.0)
    )
    assert calls == [("wine", 0.5), ("wine", 2.0)]
    assert (again.header, again.rows) == (first.header, first.rows)
    assert other.last["C"] == 2.0 and other.header["key"] != first.header["key"]
    figures.key = "of other code"
    figures.kept(counting(calls))("wine", 0.5)
    figures.timed = not figures.timed
    figures.kept(counting(calls))("wine", 0.5)
    assert len(calls) == 4
    for _ in range(2):  # a run that was interrupted is not kept
        figures.kept(counting(calls, "interrupted"))("iris", 0.5)
    assert len(calls) == 6
    figures.kept(counting([]))("iris", 0.5)
    files = tmp_path.rglob("*.jsonl")
    [damaged] = [path for path in files if '"data": "iris"' in path.read_text()]
    whole = damaged.read_bytes()
    for content in (b"", whole[:-9], whole[: whole.rindex(b"{")]):
        damaged.write_bytes(content)
        figures.kept(counting(made_again := []))("iris", 0.5)
        assert made_again == [("iris", 0.5)] and len(damaged.read_bytes()) == len(whole)
    figures._keep([])  # though no figure shows them
    redraw(tmp_path / "results" / "ww_path.parquet")
    figures.key = "of another code"
    again = figures.kept(counting(calls))("wine", 0.5)
    assert len(calls) == 6 and again.rows == first.rows
    assert there("wine, digits") == ["wine"]
    message = r"do not contain the run ww_path: fit\('wine', 3\.0\)"
    with refuses(message, FileNotFoundError):
        figures.kept(counting(calls))("wine", 3.0)


def test_a_figure_redrawn_from_results_keeps_its_proofs(figures, tmp_path, redraw):
    proof = tmp_path / "a.npz"
    proof.write_bytes(b"proof")
    save = partial(figures.save, plt.figure(), "time", "No runs.")
    save(proofs=[proof])
    trace = Trace({"solver": "a", "key": "a"}, [{"round": 0}])
    write_results(tmp_path / "results" / "ww_path.parquet", [trace], {})
    redraw(tmp_path / "results" / "ww_path.parquet")
    save()
    record = json.loads((figures.folder / "time.json").read_text("utf-8"))
    assert record["proofs"] == ["time.proofs/a.npz"]
    assert (figures.folder / "time.proofs" / "a.npz").read_bytes() == b"proof"
    trace, _ = run("ww_walrus", load("iris"), rounds(1))
    save(traces=[trace])
    record = json.loads((figures.folder / "time.json").read_text("utf-8"))
    assert record["date"] == trace.header["started"]
