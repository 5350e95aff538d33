"""The benchmarks' machinery on data that take no time: what is measured, judged and reported."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from workbench import data
from workbench.core.problem import as_problem
from workbench.data.panels import panel
from workbench.data.synthetic import checkers
from workbench.mrc.risk import minimax_risk
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

pytest.importorskip("resource", reason="the benchmarks limit CPU time as POSIX systems do")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import bench
import least_squares
import measuring
import memoir
import mrc
import peers
import sampled_cuts
import weston_watkins
from mrc_cases import CASES, Arm, Case


@pytest.fixture(scope="module")
def iris():
    return data.load("iris", scale="standard")


@pytest.fixture
def measured(iris, tmp_path):
    """Return what one arm measured and judged on iris yields."""
    measuring.save_rows(tmp_path / "rows.npz", iris.X, iris.y)

    def measure(arm):
        folder = tmp_path / "arm"
        return mrc.measure(arm, tmp_path / "rows.npz", folder) | mrc.judge(iris, folder)

    return measure


@pytest.mark.parametrize("name", CASES)
def test_every_arm_names_a_solver_and_its_parameters(name):
    for arm in CASES[name].arms:
        if arm.solver == "MRCpy":
            assert set(arm.parameters) <= {"eps1", "eps2", "n_max", "max_iters"}
        else:
            resolve(arm.solver, arm.parameters)


def test_every_target_is_a_mark_that_the_arm_runs_to():
    for case in CASES.values():
        assert set(case.targets) <= set(mrc.MARKS)
        assert all(gap >= case.arms[0].gap for gap in case.targets)


def test_an_arm_is_certified_and_judged_the_same(measured):
    record = measured(Arm("mrc_ccg", {"eps1": 0.0}))
    assert record["stopped_by"] == "gap <= 1e-06"
    assert record["judged_upper"] == pytest.approx(record["upper"], abs=1e-9)
    assert set(record["threads"].values()) == {1}
    assert 0 < record["cpu"] < 60
    assert 20 < record["peak_mb"] < 2000
    marks = list(record["marks"].values())
    assert len(marks) == len(mrc.MARKS)
    assert marks == sorted(marks)


def test_an_arm_that_takes_too_long_is_killed_and_says_so(measured):
    record = measured(Arm("mrc_subgradient", gap=0.0, limit=1.0))
    assert record["stopped_by"] == "killed after 1 CPU s"
    assert record["cpu"] == 1.0


def test_an_arm_that_fails_costs_nothing_and_says_why(measured):
    record = measured(Arm("mrc_ccg", {"nonsense": 1}))
    assert record["stopped_by"].startswith("failed: ValueError")
    assert "nonsense" in record["stopped_by"]
    assert "cpu" not in record


@pytest.mark.skipif(not peers.ready(), reason="needs benchmarks/.peers: run `make peers`")
def test_the_peer_solves_the_same_problem(measured):
    """Its own value is U of its coefficients as we read them: same tau, lambda and intercept."""
    record = measured(Arm("MRCpy", {"eps1": 1e-6, "max_iters": 1000}))
    assert record["stopped_by"] == "finished"
    assert record["judged_upper"] == pytest.approx(record["R"], abs=1e-5)


def test_coefficients_are_read_back_from_scores(iris):
    class Linear:
        M = np.arange(15.0).reshape(3, 5)

        def scores(self, X):
            return np.asarray(X @ self.M[:, :-1].T) + self.M[:, -1]

    np.testing.assert_allclose(mrc.coefficients(Linear(), iris.d), Linear.M)


def test_judging_counts_every_row(iris, tmp_path):
    M = np.zeros((3, 5))
    np.save(tmp_path / "M.npy", M)
    assert mrc.judge(iris, tmp_path)["judged_upper"] == pytest.approx(2 / 3)
    assert minimax_risk(iris).upper(M) == pytest.approx(2 / 3)
    assert mrc.judge(iris, tmp_path / "elsewhere") == {}


def test_a_summary_holds_medians_and_ratios():
    case = Case(None, (Arm("ours"), Arm("rival")))
    records = [
        {"arm": "ours", "cpu": cpu, "judged_upper": 0.5, "lower": low, "stopped_by": "gap"}
        for cpu, low in ((1.0, 0.3), (3.0, 0.4), (2.0, 0.2))
    ]
    records += [{"arm": "rival", "cpu": 8.0, "judged_upper": 0.7, "stopped_by": "finished"}]
    ours, rival = mrc.summarise(case, records)
    assert ours["cpu"] == 2.0
    assert ours["range"] == (1.0, 3.0)
    assert ours["excess"] == pytest.approx(0.1)
    assert rival["ratio"] == 4.0
    assert rival["excess"] == pytest.approx(0.3)


def test_a_case_without_data_is_skipped_with_its_reason(capsys):
    def missing():
        raise FileNotFoundError("no such data here")

    assert mrc.measure_case("absent", Case(missing, (Arm("mrc_ccg"),)), 1) == []
    assert "absent: skipped, no such data here" in capsys.readouterr().out


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_survive_the_way_to_the_child(tmp_path, sparse):
    X = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]], dtype=np.float32)
    y = np.array([0, 1, 0], dtype=np.int32)
    measuring.save_rows(tmp_path / "rows.npz", sp.csr_matrix(X) if sparse else X, y)
    X_back, y_back = measuring.load_rows(tmp_path / "rows.npz")
    assert sp.issparse(X_back) == sparse
    assert X_back.dtype == np.float32
    np.testing.assert_array_equal(X_back.toarray() if sparse else X_back, X)
    np.testing.assert_array_equal(y_back, y)


def test_peers_with_other_pins_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "DONE", tmp_path / ".ok")
    with pytest.raises(FileNotFoundError, match="make peers"):
        peers.python()
    peers.DONE.write_text("numpy==1.0\n")
    assert not peers.ready()
    peers.DONE.write_text(peers.pins())
    assert peers.ready()


@pytest.mark.parametrize("arm", ["ww_walrus_fast", "path", "cold"])
def test_a_weston_watkins_arm_reaches_its_marks(iris, tmp_path, arm):
    measuring.save_rows(tmp_path / "rows.npz", iris.X, iris.y)
    C = None if arm in ("path", "cold") else 1.0
    record = weston_watkins.measure("iris", arm, C, tmp_path / "rows.npz", 20.0)
    marks = list(record.marks.values())
    assert len(marks) == (1 if C is None else len(weston_watkins.MARKS))
    assert marks == sorted(marks) and 0 < marks[-1] <= record.cpu < 20
    assert record.visits > 1 and record.peak_mb > 20


def test_ratios_are_of_medians_that_all_runs_reached(capsys):
    def record(arm, *seconds):
        marks = dict(zip(("0.1", "0.01"), seconds, strict=False))
        return weston_watkins.Record("c", arm, marks, 1.0, 1.0, 1.0, 0.0)

    records = [record("ours", 1.0, 2.0), record("ours", 3.0, 4.0), record("ours", 2.0, 3.0)]
    records += [record("rival", 8.0), record("rival", 9.0, 1.0), record("rival", 7.0)]
    assert weston_watkins.medians(records, "ours") == {"0.1": 2.0, "0.01": 3.0}
    weston_watkins.print_case(("ours", "rival"), records)
    ours, rival = capsys.readouterr().out.splitlines()[-2:]
    assert ours.split() == ["ours", "2.000", "3.000"]
    assert rival.split() == ["rival", "8.000", "(4.0x)", "-"]


@pytest.mark.parametrize("arm", ["sgemm", "linear, 2 threads", "logistic", "predict"])
def test_a_least_squares_arm_counts_its_operations(iris, arm, monkeypatch):
    monkeypatch.setattr(least_squares, "BLOCK", 16)
    found = least_squares.measured(arm, iris, 64)
    assert found["operations"] > 2 * iris.n * 64 * (iris.d + iris.k) - 1 or arm == "sgemm"
    assert 0 < found["seconds"] < 20 and found["memory_mb"] >= 0


def test_rates_are_shares_of_that_of_sgemm(iris, capsys):
    run = {"seconds": 2.0, "cpu": 2.0, "operations": 1e10, "memory_mb": 5.0, "load": 0.0}
    runs = {arm: [run] for arm in least_squares.ARMS}
    runs["linear"] = [run | {"cpu": 4.0, "seconds": 4.0}]
    least_squares.print_table(runs, iris, 64)
    out = capsys.readouterr().out
    assert "linear                     4.00     4.00      2.5      50%" in out
    assert "linear: 2.00x on two threads" in out and "logistic: 1.00x" in out


@pytest.fixture(scope="module")
def board():
    train, test = checkers(300, seed=1), checkers(200, seed=2)
    return as_problem(train.X, train.y, X_test=test.X, y_test=test.y)


@pytest.mark.parametrize("arm", sampled_cuts.ARMS)
def test_an_arm_of_sampled_cuts_says_what_it_cost_and_how_good_it_is(board, arm):
    found = sampled_cuts.fit(board, arm, {"C": 1.0, "gamma": 30.0})
    assert 0 < found["cpu"] < 20 and found["error"] < 0.35 and 0.2 < found["primal"] < 0.8
    assert (found["rounds"] is None) == ("LIB" in arm)
    assert 0 <= found["qp_share"] < 1 and (found["qp_share"] > 0) == ("LIB" not in arm)


def test_tuning_takes_the_width_of_least_error(board):
    assert sampled_cuts.tune(board, "LIBSVM", (1e-4, 30.0))["gamma"] == 30.0


def test_ratios_of_sampled_cuts_are_of_medians(capsys):
    numbers = {"error": 0.1, "primal": 0.3, "rounds": 50, "qp_share": 0.02, "peak_mb": 90.0}
    record = numbers | {"C": 1.0, "gamma": 3.0, "load": 0.0}
    cpu = {"LIBSVM": (8.0, 9.0, 1.0), "linear time": (4.0,), "linear time, line search": (2.0,)}
    records = [
        record | {"arm": arm, "cpu": c, "rounds": None if arm == "LIBSVM" else 25 * c}
        for arm, several in cpu.items()
        for c in several
    ]
    sampled_cuts.print_case(records, 100)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("1.0x") and lines[2].endswith("2.0x") and lines[3].endswith("4.0x")
    line = "line search: 2.0 times fewer cuts, 2.0 times faster, objective 0.3000 for 0.3000"
    assert lines[-1] == line


@pytest.fixture(scope="module")
def text():
    return panel("text 300x9", test=0.25)


CHOSEN = {"working sets (ours)": {"C": 1.0, "l1": 0.02, "count": 2}}
CHOSEN["Crammer-Singer (LIBLINEAR)"] = {"C": 1.0, "tol": 0.1}
MEMOIR_ARMS = [(case, arm) for case in ("training 1k", "sector") for arm in memoir.CASES[case].arms]


@pytest.mark.parametrize(("case", "arm"), MEMOIR_ARMS)
def test_an_arm_of_memoir_says_what_it_cost_and_how_good_it_is(text, case, arm):
    found = memoir.CASES[case].arms[arm](text, **CHOSEN.get(arm, {}))
    assert 0 < found["cpu"] < 20 and found["peak_mb"] >= 0
    assert 15 < found["accuracy"] < 80 and 10 < found["macro_f1"] < 80
    assert 0 < found["model_mb"] <= 8e-6 * text.d * text.k


@pytest.mark.parametrize("arm", memoir.SEARCH)
def test_a_search_is_exact_or_says_how_often_it_is(text, arm):
    found = memoir.SEARCH[arm](text)
    assert 0 < found["cpu"] <= found["with_build"]
    assert found["recall"] == 1.0 if "graph" not in arm else 0.5 < found["recall"] <= 1.0


def test_of_equally_good_settings_the_fastest_is_chosen(text):
    times = {"bad": (0.1, 50.0), "slow": (3.0, 90.0), "fast": (1.0, 89.5), "best": (5.0, 90.1)}

    def fit(problem, name):
        return dict(zip(("cpu", "accuracy"), times[name], strict=True))

    assert memoir.choose(text, fit, [{"name": name} for name in times]) == {"name": "fast"}


def test_ratios_of_memoir_are_of_medians_of_cpu_times(capsys):
    chosen = {"chosen": {"C": 3.0}, "load": 0.0, "accuracy": 50.0}
    records = [{"arm": "ours", "cpu": cpu} | chosen for cpu in (1.0, 2.0, 9.0)]
    records += [{"arm": "rival", "cpu": 10.0, "peak_mb": 4.0} | chosen]
    memoir.print_case(records, "ours")
    ours, rival = capsys.readouterr().out.splitlines()[-2:]
    assert ours.split() == ["ours", "2", "50", "1.00x", "C", "=", "3"]
    assert rival.split() == ["rival", "10", "50", "4", "5.00x", "C", "=", "3"]


@pytest.mark.parametrize("name", bench.CASES)
def test_a_case_of_the_regression_table_names_what_there_is(name):
    case = bench.CASES[name]
    arms = {*SOLVERS, *sampled_cuts.ARMS, *least_squares.ARMS, "stagewise"}
    assert {case.ours, case.rival} <= arms


def test_a_case_stops_at_its_mark_or_says_that_it_did_not(monkeypatch):
    assert 0 < bench.solver("mrc_interior_point", "iris", {"gap": 1e-3}) < 5
    monkeypatch.setitem(bench.LIMIT, "cpu", 0.01)
    with pytest.raises(TimeoutError, match=r"on iris: not there after 0\.01 CPU seconds"):
        bench.solver("mrc_subgradient", "iris", {"gap": 0.0})


def test_what_got_slower_is_said_with_numbers(tmp_path, monkeypatch, capsys):
    clock = {"own": 2.0, "other": 8.0}
    drift = iter(np.tile([1.0, 1.0, 1.02, 1.02, 0.98, 1.0], 99))
    monkeypatch.setattr(bench, "seconds", lambda name, side: clock[side] * next(drift))
    monkeypatch.setattr(bench, "RATIOS", tmp_path / "ratios.json")

    def told(*arguments):
        monkeypatch.setattr(sys, "argv", ["bench.py", "MEMOIR", "--runs", "3", *arguments])
        return bench.main(), capsys.readouterr().out

    code, out = told("--update")
    assert code == 0 and "ratio 4 (4-4.08), none committed" in out
    kept = json.loads((tmp_path / "ratios.json").read_text())
    assert kept["ratios"]["MEMOIR"]["ours"] == 2.0 and {"machine", "versions", "date"} <= set(kept)
    assert "as it was" in told()[1] and told()[0] == 0
    clock["own"] = 2.15  # within the noise of a machine
    assert told()[0] == 0
    clock["own"] = 2.5
    code, out = told()
    assert code == 1 and "ratio 3.2 (3.2-3.27), was 4 (4-4.08): SLOWER, 20 % less" in out
    assert out.endswith("slower: MEMOIR\n")
    clock["own"] = 1.0
    code, out = told()
    assert code == 0 and "faster; `--update` keeps that" in out
    clock["own"], drift = 3.0, iter([1.0, 1.0, 3.0, 1.0, 0.5, 1.0])
    assert told()[0] == 0  # too wide a spread to say
