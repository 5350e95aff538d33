"""Sweeps of real points: killed, interrupted, spread, limited, timed, and always the
same rows."""

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml
from helpers import module_fixture, refuses, slow, wait
from helpers.processes import alive, started

from workbench import load, run
from workbench.cli import main
from workbench.core.trace import read_trace
from workbench.runs import sweep as room
from workbench.runs.grid import grid as any_grid
from workbench.runs.sweep import Sweep, runs_folder, summary, sweep
from workbench.runs.worker import Limits

grid = partial(any_grid, test=0.3)  # seeds split the rows
TIMES = ["seconds", "cpu", "load"]
GRID = """
solvers:
  mrc_subgradient: {lambda0: [0.01, 0.02, 0.04]}
  mrc_ccg: {eps1: [0.1, 0.01, 0.001], n_max: [20, 100]}
  mrc_pdhg: {lambda0: [0.01, 0.02, 0.04]}
data: [iris, wine]
seeds: 3
test: 0.3
stop: {gap: 0.0001, rounds: 12}
"""
GRID = yaml.safe_load(GRID)
SMALL = """
solvers: [mrc_ccg, mrc_subgradient]
data: iris
stop: {rounds: 3}
test: 0.3
"""
SMALL = yaml.safe_load(SMALL)


def without_times(frame):
    return frame.drop(columns=TIMES)


def rows_of(trace):
    """Return the contents of a trace except times."""
    kept = "solver parameters rules problem key data seed repetition stop".split()
    rows = [{k: v for k, v in row.items() if k not in TIMES} for row in trace.rows]
    return [{name: trace.header[name] for name in kept}, *rows]


def finished(folder):
    """Return the finished points of a folder of runs, by file, with their dates."""
    return {
        path: path.stat().st_mtime_ns
        for path in Path(folder, "points").glob("*/*.jsonl")
    }


def command(folder, entries, *options):
    """Start the command line on a grid, as a session of its own."""
    path = Path(folder, "grid.yaml")
    path.write_text(yaml.safe_dump(entries))
    return started(
        "-m", "workbench.cli", "sweep", path, *options, WORKBENCH_RUNS=str(folder)
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Keep the runs of the command line, called in this process, in a folder of the
    test's own."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))

    def write(entries):
        (tmp_path / "grid.yaml").write_text(yaml.safe_dump(entries))
        return str(tmp_path / "grid.yaml")

    return write


@module_fixture
def whole(tmp_path_factory):
    """Return a sweep that nothing disturbed."""
    return sweep(grid(**GRID), folder=tmp_path_factory.mktemp("whole"))


@slow
def test_an_interrupted_sweep_equals_the_undisturbed_one(whole, tmp_path):
    assert len(whole.points) == 72 and not whole.failures
    before = {}
    for enough, number in ((8, signal.SIGINT), (30, signal.SIGKILL)):
        process = command(tmp_path, GRID, "-j", "2")
        wait(lambda n=enough: len(finished(tmp_path)) > n, 120, process)
        family = [
            child.pid for child in psutil.Process(process.pid).children(recursive=True)
        ]
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        _, err = process.communicate(timeout=60)
        assert len(family) >= 2
        wait(lambda pids=family: not any(map(alive, pids)))
        after = finished(tmp_path)
        assert before.items() <= after.items() and len(after) < len(whole.points)
        assert all(read_trace(path).stopped_by for path in after)
        before = after
        if number == signal.SIGINT:
            assert (process.returncode, err) == (130, "workbench: interrupted\n")
            assert {path.suffix for path in tmp_path.glob("points/**/*.*")} == {
                ".jsonl"
            }
    said = []
    resumed = sweep(grid(**GRID), folder=tmp_path / "points", say=said.append)
    assert said[0] == f"72 points, {len(before)} done before, {72 - len(before)} to run"
    after = finished(tmp_path)
    assert before.items() <= after.items() and len(after) == len(whole.points)
    pd.testing.assert_frame_equal(
        without_times(resumed.frame()), without_times(whole.frame())
    )
    for ours, theirs in zip(resumed.traces(), whole.traces(), strict=True):
        assert rows_of(ours) == rows_of(theirs)


def test_traces_are_chosen_by_attribute_and_parameter(whole):
    assert len(whole.traces(solver="mrc_ccg")) == 36
    chosen = whole.traces(solver="mrc_ccg", data="wine", eps1=1e-2, n_max=20)
    assert [trace.header["seed"] for trace in chosen] == [0, 1, 2]
    assert set(chosen[0].header["threads"].values()) == {1}
    assert {t.header["solver"] for t in whole.traces(n_max=20)} == {"mrc_ccg"}
    with refuses("traces: no point has eps"):
        whole.traces(eps1=1e-2, eps=1)


def test_a_summary_has_the_medians_of_repetitions(whole):
    frame = whole.frame()
    assert {*"n d k checksum stopped_by gap test_error".split()} <= set(frame)
    table = summary(whole)
    assert "cpu (s, not timed)" in table and "cpu (s)" not in table
    assert len(table) == len(frame) / 3 and set(table["runs"]) == {3}
    point = "solver == 'mrc_pdhg' and p_lambda0 == 0.02 and data == 'wine'"
    chosen = frame.query(point)
    row = table.query(point)
    assert row["cpu (s, not timed)"].item() == chosen["cpu"].median()
    assert row["failed"].item() == 0


@slow
def test_two_sweeps_of_the_same_points_at_once_both_end_well(tmp_path):
    process = command(tmp_path, SMALL | {"seeds": 12})
    points = grid(**SMALL | {"seeds": 12})
    wait(lambda: len(finished(tmp_path)) > 2, 120, process)
    done = sweep(points, folder=tmp_path / "points")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    frame = done.frame()
    assert set(frame["status"]) == {"done"} and len(finished(tmp_path)) == 24
    [table] = tmp_path.glob("sweeps/grid-*.csv")
    theirs = pd.read_csv(table)
    own = ["key", "gap"]
    pd.testing.assert_frame_equal(theirs[own], frame[own], rtol=1e-14, atol=0)
    assert list(tmp_path.glob("points/*.*")) == []


def test_a_trace_names_its_point_and_its_last_row_is_judged(tmp_path, no_workers):
    stop = {"gap": 1e-3, "rounds": 50}
    [point] = grid("mrc_ccg", "iris", stop=stop, seeds=[3])
    done = sweep([point], folder=tmp_path)
    [trace], [path] = done.traces(), tmp_path.glob("*/*.jsonl")
    problem = load("iris", seed=3, test=0.3)
    expected, _ = run("mrc_ccg", problem, parameters=point.parameters)
    assert trace.header["key"] == done.points[0].key == path.stem
    assert trace.header["problem"]["checksum"] == problem.checksum
    about = {"rules": ["gap <= 0.001", "50 rounds"], "seed": 3, "timed": False}
    assert trace.header | about | {"stop": stop} == trace.header
    assert {"train_error", "test_error", "stopped_by"} <= set(trace.last)
    lower = trace.column("lower").tolist()
    assert lower == expected.column("lower").tolist()[: len(lower)]


def test_the_same_run_shares_a_file_and_another_stop_does_not(tmp_path, no_workers):
    said = []
    for eps in ([1e-2, 1e-3], [1e-3, 1e-4]):
        points = grid({"mrc_ccg": {"eps1": eps}}, "iris", stop={"rounds": 9}, seeds=2)
        sweep(points, folder=tmp_path / "shared", say=said.append)
    starts = [line for line in said if line.startswith("4 points")]
    assert starts == ["4 points, 4 to run", "4 points, 2 done before, 2 to run"]
    points = grid(
        "mrc_ccg", "wine, missing.csv or wine", stop={"rounds": 2}, seeds=3, test=None
    )
    done = sweep(points, folder=tmp_path / "same")
    assert len(done.frame()) == 6
    assert done.frame()["key"].nunique() == len(done.traces()) == 1
    assert list(summary(done)["runs"]) == [1, 1]
    # figures are redrawn by what was asked for
    for spec in ("wine", "missing.csv or wine"):
        points = grid("mrc_ccg", spec, stop={"rounds": 2}, test=None)
        (trace,) = sweep(points, folder=tmp_path / "same").traces()
        assert trace.header["data"] == spec
    stops = ({"gap": gap, "rounds": 90} for gap in (1e-1, 1e-3, 0.999e-3))
    points = [
        point for stop in stops for point in grid("mrc_ccg", "iris", stop=stop, seeds=2)
    ]
    table = summary(sweep(points, folder=tmp_path / "stops"))
    assert list(table["runs"]) == [2, 2, 2]
    assert table["gap"][1] <= 1e-3 < table["gap"][0]
    for folder, files in (("shared", 6), ("same", 1), ("stops", 6)):
        assert len(list(tmp_path.glob(f"{folder}/*/*.jsonl"))) == files


def test_a_failure_is_a_row_with_its_reason_and_is_retried(tmp_path, no_workers):
    solvers = {"mrc_ccg": {"eps1": [-1.0, 1e-2]}, "svm_multi": {}}
    points = grid(solvers, "iris", stop={"rounds": 2})
    points += grid("mrc_lp", "synthetic 4000x50x20", stop={"rounds": 1})
    points += grid("mrc_ccg", "iris", stop={"gpa": 1e-3, "rounds": 9})
    points += grid("mrc_subgradient", "wine", stop={"seconds": 600})
    reasons = {
        0: "ValueError: eps1: must be a number that is not negative",
        3: "ValueError: problem: too large for mrc_lp;",
        4: "ValueError: stop: no column gpa; known columns: ",
        5: "took more than 1.5 s",
    }
    said = []
    done = sweep(points, folder=tmp_path, seconds=1.5, say=said.append)
    frame = done.frame()
    assert frame.index[frame["status"] == "failed"].tolist() == [*reasons]
    assert all(frame["reason"][i].startswith(reason) for i, reason in reasons.items())
    assert len(done.traces()) == 2 and len(list(tmp_path.glob("*/*.jsonl"))) == 2
    assert any("FAILED, ValueError: eps1" in line for line in said)
    table = summary(done)
    assert list(table["failed"]) == [1, 0, 0, 1, 1, 1]
    assert list(table["runs"]) == [1] * 6
    sweep(points[:4], folder=tmp_path, say=said.append)
    assert "4 points, 2 done before, 2 to run" in said


def test_a_worker_with_other_code_or_data_refuses(tmp_path, monkeypatch):
    [point] = room.planned(grid("mrc_lp", "iris", stop={"rounds": 1}), False)
    path = tmp_path / "trace.jsonl"
    with refuses("differ from those that the sweep was planned for"):
        room.solve(replace(point, content=("", "")), False, path, Limits())

    def interrupted(*args, **options):
        trace, state = run(*args, **options)
        trace.last["stopped_by"] = "interrupted"
        return trace, state

    monkeypatch.setattr(room, "run", interrupted)
    with pytest.raises(InterruptedError):
        room.solve(point, False, path, Limits())
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_point_is_named_and_run_again_and_nothing_else(tmp_path, no_workers):
    points = grid("mrc_ccg", "iris", stop={"rounds": 3}, seeds=2)
    said = []
    done = sweep(points, folder=tmp_path)
    damaged, whole = (room.task(point).path(tmp_path) for point in done.points)
    before = without_times(done.frame())
    kept = whole.stat().st_mtime_ns
    damaged.write_text(damaged.read_text().replace('"round": 1', '"round": 0'))
    with refuses(f"{damaged}: "):
        done.traces(seed=0)
    again = sweep(points, folder=tmp_path, say=said.append)
    assert said[0].startswith(f"{done.points[0].label}: {damaged}: ")
    assert said[:2] == [said[0], "2 points, 1 done before, 1 to run"]
    pd.testing.assert_frame_equal(without_times(again.frame()), before)
    assert len(again.traces()) == 2 and whole.stat().st_mtime_ns == kept


def test_timing_runs_each_setting_three_times_and_says_so(
    tmp_path, monkeypatch, no_workers
):
    points = grid("mrc_ccg", "iris", stop={"rounds": 3}, seeds=2)
    said = []
    timed = sweep(points, timing=True, folder=tmp_path, say=said.append)
    assert all(trace.header["timed"] for trace in timed.traces())
    both = grid(["mrc_ccg", "ww_walrus"], "iris", stop={"rounds": 1}, seeds=3)
    order = []
    note = lambda tasks, *_, **__: order.extend(tasks) or {}  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(room, "execute", note)
        sweep(both, timing=True, folder=tmp_path)
    assert [task.label.split(",")[0] for task in order] == 3 * ["mrc_ccg", "ww_walrus"]
    assert "cpu (s)" in summary(timed) and summary(timed)["runs"][0] == 3
    untimed = sweep(points, folder=tmp_path, say=said.append)
    assert "2 points, 2 to run" in said and "cpu (s, not timed)" in summary(untimed)
    both = Sweep(timed.points + untimed.points, tmp_path, {})
    assert len({point.key for point in both.points}) == 3 + 2
    assert "cpu (s, not timed)" in summary(both)

    # next to other notebooks nothing is timed
    monkeypatch.setenv("WORKBENCH_JOBS", "2")
    beside = sweep(points, timing=True, folder=tmp_path, say=said.append)
    assert said[-1] == "2 points, 2 done before, 0 to run"
    assert not beside.points[0].timed


def test_the_command_writes_every_point_and_tells_how_it_went(
    here, tmp_path, capsys, no_workers
):
    (tmp_path / "runs").write_text("in the way")
    assert main(["sweep", here(SMALL)]) == 2 and "runs" in capsys.readouterr().err
    (tmp_path / "runs").unlink()
    assert main(["sweep", here(SMALL), "-j", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 points, 2 to run" in out and "cpu (s, not timed)" in out
    [written] = tmp_path.glob("runs/sweeps/grid-*.csv")
    assert list(pd.read_csv(written)["solver"]) == ["mrc_ccg", "mrc_subgradient"]
    assert runs_folder() == tmp_path / "runs"
    assert main(["sweep", here(SMALL | {"solvers": {"mrc_ccg": {"eps1": -1}}})]) == 1
    out, err = capsys.readouterr()
    assert err == "workbench: 1 point failed; run the sweep again to retry\n"
    assert "eps1: must be a number that is not negative" in out
    assert list(pd.read_csv(written)["status"]) == ["failed"]
    (tmp_path / "other").mkdir()  # a grid of the same name has a table of its own
    other = (tmp_path / "grid.yaml").rename(tmp_path / "other" / "grid.yaml")
    assert main(["sweep", str(other)]) == 1
    assert len(list(written.parent.iterdir())) == 2


def test_a_parameter_is_not_mistaken_for_what_a_solver_reports(tmp_path, no_workers):
    solvers = {
        "mrc_subgradient": {"steps": [5, 50]},
        "memoir_pegasos": {"seed": [3, 4]},
    }
    done = sweep(grid(solvers, "iris", stop={"rounds": 3}, seeds=2), folder=tmp_path)
    frame = done.frame()
    assert sorted(frame["p_steps"].dropna()) == [5, 5, 50, 50]
    # so far, which is another thing
    assert sorted(frame["steps"].dropna())[:2] == [15, 15]
    assert sorted(frame["p_seed"].dropna()) == [3, 3, 4, 4]
    assert set(frame["seed"]) == {0, 1}
    assert list(summary(done)["runs"]) == [2] * 4
