"""Every benchmark starts, names solvers that exist, and measures one arm of each
kind."""

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import each, refuses

from workbench import SOLVERS, as_problem, data, load
from workbench.data.synthetic import checkers
from workbench.runs.run import resolve

pytest.importorskip(
    "resource", reason="the benchmarks limit CPU time as POSIX systems do"
)
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import bench
import least_squares
import measuring
import memoir
import mrc
import rows as mapped_rows
import sampled_cuts
import svmlight
import weston_watkins
from mrc_cases import CASES, Arm

FOLDER = Path(bench.__file__).parent
SCRIPTS = sorted(
    path.stem for path in FOLDER.glob("*.py") if "argparse" in path.read_text("utf-8")
)


@each("script", SCRIPTS)
def test_a_benchmark_starts(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as ended:
        __import__(script).main()
    assert not ended.value.code and capsys.readouterr().out.startswith("usage:")


def test_every_case_names_solvers_and_parameters_that_exist():
    for arm in (arm for case in CASES.values() for arm in case.arms):
        if arm.solver == "MRCpy":
            assert set(arm.parameters) <= {"eps1", "eps2", "n_max", "max_iters"}
        else:
            resolve(arm.solver, arm.parameters)
    arms = {
        *SOLVERS,
        *sampled_cuts.ARMS,
        *least_squares.ARMS,
        *memoir.RIVALS,
        "stagewise",
    }
    arms |= {"all quick figures", "a loop of Python"}
    assert {
        name for case in bench.CASES.values() for name in (case.ours, case.rival)
    } <= arms


def test_an_arm_of_each_family_says_what_it_cost(tmp_path):
    iris = data.load("iris", scale="standard")
    rows = tmp_path / "rows.npz"
    measuring.save_rows(rows, iris.X, iris.y)  # for child processes
    record = mrc.measure(Arm("mrc_ccg", {"eps1": 0.0}), rows, tmp_path / "arm")
    assert record["stopped_by"] == "gap <= 1e-06" and set(
        record["threads"].values()
    ) == {1}
    judged = mrc.judge(iris, tmp_path / "arm")["judged_upper"]
    assert judged == pytest.approx(record["upper"], abs=1e-9)
    record = weston_watkins.measure("iris", "ww_walrus_fast", 1.0, rows, 20.0)
    assert len(record.marks) == len(weston_watkins.MARKS) and 0 < record.cpu < 20
    assert least_squares.measured("linear", iris, 64)["operations"] > 0
    board = checkers(300, seed=1)
    texts = load("text 300x9", test=0.25)
    board = as_problem(board.X, board.y, X_test=board.X, y_test=board.y)
    for arm in ("LIBSVM", "linear time"):
        fit = sampled_cuts.fit(board, arm, {"C": 1.0, "gamma": 30.0})
        assert 0 < fit["error"] < 0.35
    arm = memoir.CASES["sector"].arms["working sets (ours)"]
    assert 15 < arm(texts, C=1.0, l1=0.02, count=2)["accuracy"] < 80


def test_a_solver_is_measured_on_a_mapped_file(tmp_path):
    mapped_rows.write(tmp_path / "rows.npy", 300, 8, 3)
    for cold in (False, True):
        found = mapped_rows.measured(
            "ls_accelerated", str(tmp_path / "rows.npy"), 2, cold
        )
        assert 0 < found["read"][0] and 0 < found["round"][1] and 20 < found["peak"]
    X = data.load(tmp_path / "rows.npy").X
    assert np.isfinite(X).all() and 0.9 < X.std() < 1.1


def test_a_case_stops_at_its_mark_or_says_that_it_did_not(monkeypatch, capsys):
    monkeypatch.setenv("WORKBENCH_DATA", "")
    monkeypatch.setattr(sys, "argv", ["bench.py", "MEMOIR, sector"])
    assert bench.main() == 0
    assert "MEMOIR, sector: skipped, " in capsys.readouterr().out
    assert 0 < bench.solver("mrc_interior_point", "iris", {"gap": 1e-3}) < 5
    monkeypatch.setitem(bench.LIMIT, "cpu", 0.01)
    with refuses(r"on iris: not there after 0\.01 CPU seconds", TimeoutError):
        bench.solver("mrc_subgradient", "iris", {"gap": 0.0})


def test_svmlight_runs_what_its_table_lacks_and_repeats_no_cut():
    of = svmlight.Case("breast_cancer", 1.0, 0.05, svmlight.TABLE_1[::4], 5.0, 1)
    found = list(svmlight.missing(of, []))
    assert [row["repetition"] for row in found] == [0, *range(30)]
    assert set(found[0]) <= set(svmlight.COLUMNS) and found[0]["test_error"] < 0.1
    assert not list(svmlight.missing(of, found))
    cut = [row | {"cut": 1} for row in found[:2]]
    assert not list(svmlight.missing(of, cut))
