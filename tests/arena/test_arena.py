"""The arena: one budget, split and clock for all; no choice sees test rows; all is
resumable."""

import time
from dataclasses import dataclass, replace
from functools import wraps
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from helpers import refuses
from pytest import approx

from workbench import SOLVERS, as_problem, load
from workbench.arena import contest, match, search
from workbench.arena.contest import Contest, own_data
from workbench.arena.entries import ENTRIES, FAMILIES, Entry, entry
from workbench.arena.match import Match, match_key, problem_of
from workbench.core import stream
from workbench.core.trace import read_trace
from workbench.runs.results import write_results
from workbench.runs.run import resolve
from workbench.runs.worker import Limits

MANY = 1000.0  # seconds that no search here comes to the end of


@dataclass
class Toy:
    """A classifier with less error the nearer its parameter is to one, from round
    `late` on."""

    round: int
    wrong: float
    gap: float

    def scores(self, X):
        right = X[:, 0].astype(int)  # the label is the first feature
        right = np.where(X[:, 1] < self.wrong, 1 - right, right)
        return np.eye(2)[right]

    def info(self):
        return {"gap": self.gap, "upper": 1.0}


def toy(problem, *, C=1.0, cost=0.1, late=3, ends=100, gap=0.0):
    for r in range(ends + 1):
        time.sleep(cost if r else 0.0)
        yield Toy(r, abs(np.log10(C)) / 10 + (0.5 if r < late else 0.0), gap)


@pytest.fixture
def clock(clock, monkeypatch):
    """Let CPU seconds pass in ``time.sleep()`` alone, too."""
    monkeypatch.setattr(stream, "process_time", lambda: stream.perf_counter())


@pytest.fixture
def problem(rng):
    y = np.arange(400) % 2  # 80 validation rows: five splits
    return as_problem(np.column_stack([y, rng.random(400)]), y)


def found(problem, budget, fit, ranges=None, **fixed):
    ranges = {"C": (1e-4, 1e2)} if ranges is None else ranges
    return search.search(toy, fixed, ranges, problem, budget=budget, fit=fit)


def test_points_begin_in_the_middle_and_leave_no_gap():
    points = search.points({"C": (1e-3, 1e3), "gamma": (1e-2, 1e2)})
    assert points[0] == {"C": 1.0, "gamma": 1.0} and len(points) == search.MAX_TRIALS
    logs = np.log10([[p["C"] / 1e3, p["gamma"] / 1e2] for p in points]) / [6, 4] + 1
    for column in logs.T:
        assert np.diff(np.sort(np.r_[0, column, 1])).max() < 0.07
    assert len(np.unique((logs * 4).astype(int) @ [4, 1])) == 16  # of 4 x 4 boxes


def test_the_budget_ends_the_search_and_a_fit_ends_the_run(problem, clock):
    # A run goes on to 1.5 s: its best round is the third, at 0.3 s, and nothing gets
    # better.
    cheap = found(problem, budget=15.0, fit=1.5)
    assert len(cheap["trials"]) == 2 and 15.0 <= cheap["search_cpu"] < 17.0
    assert cheap["rounds"] == 3 and cheap["cpu"] == approx(0.3)
    # Rounds that take longer than a fit may do not count, and the search says so.
    with refuses(r"no round ended within 1\.5 s", RuntimeError):
        found(problem, budget=15.0, fit=1.5, cost=2.5)
    assert (
        len(found(problem, budget=MANY, fit=MANY, ends=5)["trials"])
        == search.MAX_TRIALS
    )
    # The best value wins, and an edge is reported.
    best = found(problem, budget=MANY, fit=100.0)
    assert abs(np.log10(best["values"]["C"])) < 0.15 and not best["at_edge"]
    ranges = {"C": (1e-4, 1.0), "cost": (1.0, 1.0)}
    assert found(problem, MANY, 9.0, ranges=ranges)["at_edge"] == ["C"]


def test_a_run_ends_when_its_best_round_lies_far_behind(problem, clock):
    at_once = {"cost": 0.1, "late": 1, "C": 10.0}
    for given, fit, spent, cut in (
        ({"cost": 0.1}, 1.5, 1.5, True),
        (at_once, 2.0, 0.6, False),
        # the bounds are apart: it is not the end
        (at_once | {"gap": 0.5}, 2.0, 2.0, True),
    ):
        run = search._run(toy, given, problem.split(0.2, 0), fit=fit)
        assert run.spent == approx(spent) and run.cut == cut


def test_an_ended_run_keeps_its_error_and_an_endless_round_stops():
    one = search._Run([1, 2, 4], [0.4, 0.2, 0.3], [1.0, 2.0, 4.0], 4.0, False, "")
    two = search._Run([1, 2], [0.4, 0.3], [1.0, 3.0], 3.0, False, "")
    best = search._best([one, two])
    assert (best["rounds"], best["validation_error"], best["cpu"]) == (2, 0.25, 2.5)
    later = search._best([one._replace(errors=[0.4, 0.3, 0.1]), two])
    assert (later["rounds"], later["validation_error"], later["cpu"]) == (4, 0.2, 3.5)
    none = search._best([one, two._replace(rounds=[], reason="lost")])
    assert none["rounds"] is None and none["reason"] == "lost"
    with pytest.raises(TimeoutError), search._at_most(0.05):
        while True:
            pass


def test_no_entry_sees_test_rows(blobs, monkeypatch, tmp_path, rng):
    whole = blobs(200, k=4).split(0.3)
    with refuses("must not be given test rows"):
        search.search(toy, {}, {}, whole, budget=1.0, fit=1.0)
    monkeypatch.setattr(search, "MAX_TRIALS", 4)
    seen = []
    chosen = []
    y_test = rng.permutation(whole.y_test)
    scrambled = replace(whole, y_test=y_test, X_test=whole.X_test + 3.0)
    centroid = SOLVERS["centroid"]

    @wraps(centroid.steps)
    def spying(problem, **parameters):
        seen.append(problem.X_test)
        return centroid.steps(problem, **parameters)

    monkeypatch.setitem(SOLVERS, "centroid", centroid._replace(function=spying))
    for problem in (whole, scrambled):
        monkeypatch.setattr(match, "problem_of", lambda *_, p=problem: p)
        task = Match("x", 0, "centroid", ENTRIES["centroid"], MANY, MANY, 0.3, False)
        task = replace(task, key=match_key(task, problem))
        task.play(task.path(tmp_path), Limits())
        chosen.append(read_trace(task.path(tmp_path)).header["contest"])
    assert len(seen) > 2 * 4 * 5 and all(rows is None for rows in seen)
    first, second = chosen
    for column in ("settings", "rounds", "validation_error"):
        assert first[column] == second[column]
    assert first["test_error"] < second["test_error"]


def test_a_failure_stops_no_other_match_and_nothing_runs_twice(tmp_path, no_workers):
    entries = {
        "ridge": entry("ridge"),
        "bad": Entry("ridge", {"alpha": (1e-3, 1e-1)}, {"tol": -1.0}),
        "dense": entry("mrc_splitting"),
    }
    settings = {"partitions": 1, "budget": 0.1, "folder": tmp_path}
    done = contest(["text 150x3"], entries, **settings)
    frame = done.frame().set_index("entry")
    assert frame["status"].tolist() == ["done", "failed", "refused"]
    assert "tol: must be a positive number" in frame.loc["bad", "reason"]
    assert frame.loc["dense", "reason"] == "takes dense rows only"
    assert frame.loc["ridge", "search_cpu"] > 0 and frame.loc["ridge", "n"] == 150
    (trace,) = done.traces()
    assert trace.last["test_error"] == frame.loc["ridge", "test_error"]
    assert len(trace.header["contest"]["search"]) == frame.loc["ridge", "trials"]
    lines = []
    again = contest(["text 150x3"], ["ridge"], **settings, say=lines.append)
    assert lines == ["1 point, 1 done before, 0 to run"]
    assert again.frame().iloc[0]["fit_cpu"] == frame.loc["ridge", "fit_cpu"]


def test_a_contest_from_results_runs_nothing_and_reads_no_data(
    tmp_path, monkeypatch, no_workers, redraw
):
    entries = ["mrc_splitting", "centroid"]
    settings = {"partitions": 2, "budget": 0.2}
    done = contest(["text 150x3"], entries, **settings, folder=tmp_path)
    before = done.frame().drop(columns="key")
    assert before["status"].tolist() == ["refused", "done"] * 2
    write_results(tmp_path / "results" / "x.parquet", done.kept(), {})
    redraw(tmp_path / "results" / "x.parquet")
    monkeypatch.setitem(contest.__globals__, "problem_of", None)
    for names in (entries, None):  # by default those that took part
        again = contest(["text 150x3"], names, **settings)
        pd.testing.assert_frame_equal(again.frame().drop(columns="key"), before)
        assert [trace.rows for trace in again.traces()] == [
            trace.rows for trace in done.traces()
        ]
    other = contest(["text 150x3"], ["ridge"], **settings).frame()
    assert other["status"].tolist() == ["failed"] * 2
    assert set(other["reason"]) == {"no match with these settings is in the results"}


def test_own_data_give_a_table_a_picture_and_a_note_on_ties(
    tmp_path, no_workers, monkeypatch, rng
):
    monkeypatch.chdir(tmp_path)
    codes = np.arange(90) % 3
    height, girth = rng.normal(codes, 0.4, (2, 90))
    kind = np.array(["oak", "elm", "ash"])[codes]
    # The labels are not the last column, nor are they called label.
    frame = pd.DataFrame({"kind": kind, "height": height, "girth": girth})
    frame.to_csv("trees.csv", index=False)
    frame.rename(columns={"kind": "label"}).to_csv("odd + name.csv", index=False)
    specs = [load("trees.csv", target="kind"), "odd + name.csv"]
    entries = {"ridge": entry("ridge"), "centroid": entry("centroid")}
    entries["small"] = entry("liblinear_cs")._replace(most={"training rows": 1})
    lines = []
    done = contest(
        specs,
        entries,
        partitions=1,
        budget=0.2,
        folder=tmp_path / "arena",
        say=lines.append,
    )
    said = "trees: 90 rows, 3 classes: ash 30, elm 30, oak 30; always predicting ash "
    assert lines[0] == f"{said}has an error of 66.7 %"
    found = done.table()
    assert found["data"].tolist() == ["trees"] * 4 + ["odd + name"] * 4
    assert found["done"].tolist() == [1, 1, 1, 0] * 2
    assert found.loc[0, "test_error"] == approx(found.loc[4, "test_error"])
    assert found["tied"][0] and not found["tied"][3] and found["test_error"][0] < 0.3
    assert found["worst_case"][:4].notna().any(), "the minimax risk joined"
    assert "takes at most 1 training rows" in found["reason"][3]
    assert done.traces()[0].header["problem"]["d"] == 3, "two columns and a constant"


def test_ties_are_within_one_standard_error_of_the_lowest(monkeypatch):
    error = [0.1, 0.09, 0.13, np.nan]
    frame = pd.DataFrame({"entry": list("abcd"), "test_error": error})
    frame = frame.assign(data="x", label="A", settings="", reason="", status="done")
    frame = frame.assign(fit_cpu=1.0, worst_case=np.nan, standard_error=0.02, cut=False)
    monkeypatch.setattr(Contest, "frame", lambda self: frame)
    found = Contest((), None).table()
    assert found["entry"].tolist() == list("bacd")
    assert found["tied"].tolist() == [True, True, False, False]


def test_all_that_decides_a_match_is_in_its_key(blobs, monkeypatch):
    problem = blobs()
    e = ENTRIES["libsvm"]
    first = Match("iris", 0, "libsvm", e, 1.0, 0.2, None, False)
    changed = [
        replace(first, entry=e._replace(ranges={"C": (1.0, 2.0)})),
        replace(first, entry=e._replace(fixed={"tol": 0.1})),
        replace(first, partition=1),
    ]
    changed += [replace(first, **{name: 0.5}) for name in ("budget", "fit")]
    seen = {match_key(m, problem) for m in [first, *changed]}
    monkeypatch.setattr("workbench.arena.match.code", lambda steps, room: room)
    seen.add(match_key(first, problem))
    assert len(seen) == 2 + len(changed)


def test_refusals_have_reasons():
    for name, size, reason in (
        ("mrc_splitting", {"d": 9000}, "takes at most 8,000 features, got 9,000"),
        ("mrc_interior_point", {"k": 201}, "takes at most 20,000 weights, got 20,100"),
        ("libsvm", {"n": 30_000}, None),
    ):
        rows = SimpleNamespace(**{"is_sparse": False, "n": 50, "d": 100, "k": 3} | size)
        assert ENTRIES[name].refuses(rows) == reason


def test_entries_are_registered_and_equals_have_equal_ranges():
    for name, e in ENTRIES.items():
        parameters = resolve(e.solver, dict(e.fixed))[1]
        assert (name == e.solver or e.name) and e.family in FAMILIES
        assert set(e.ranges) <= set(parameters) and not set(e.ranges) & set(e.fixed)
        assert all(0 < low < high for low, high in e.ranges.values())
        decades = {
            p: round(np.log10(high / low), 9) for p, (low, high) in e.ranges.items()
        }
        assert all(decades.get(p, 6) == 6 for p in "C alpha lam gamma".split())
    assert entry("logistic_saga").ranges == {"C": ENTRIES["logistic_lbfgs"].ranges["C"]}
    others = "mrc_pdhg ww_shark memoir_l1 ls_generalized cuts_exact vw boosting".split()
    assert [entry(name).family for name in others] == list(FAMILIES)


def test_generated_data_are_known_as_such_in_a_contest(tmp_path):
    made = load("synthetic 60x3x2")
    known = problem_of(own_data(made, tmp_path), 0, 0.3)
    assert known.synthetic and known.about == made.about and made.about


def test_a_mistake_is_reported_before_anything_runs(tmp_path):
    weighted = replace(as_problem(np.eye(2), [0, 1]), weights=np.array([1.0, 2.0]))
    for settings, message in (
        ({"partitions": 0}, "partitions: must be a whole number of at least 1"),
        ({"fit": 50.0}, "fit: must be positive and at most the budget"),
        ({"specs": [weighted]}, "has weights; a contest"),
        ({"specs": ["iris", "iris"]}, "specs: iris appears twice"),
        ({"entries": ["mrc_fourie"]}, "unknown name 'mrc_fourie'; .*mrc_fourier"),
    ):
        with refuses(message):
            contest(
                **{"specs": ["iris"], "entries": ["ridge"], "folder": tmp_path}
                | settings
            )
