"""The live view: what the canvases are sent, and what the controls do."""

import asyncio
import gc
import threading
import time
import weakref
from dataclasses import dataclass
from functools import partial

import nbformat
import numpy as np
import pytest
from helpers import each, each_path, refuses, wait
from numpy.testing import assert_array_equal

import workbench.live
from workbench import SOLVERS, explore, load
from workbench.core.measures import held_out
from workbench.core.state import resumable
from workbench.core.trace import read_trace
from workbench.live.chart import KEPT, SIZE, Chart, Curve, Inside
from workbench.live.dashboard import GREY
from workbench.live.lane import Lane
from workbench.live.player import PLAYING
from workbench.live.sliders import SLIDERS, Sliders, described
from workbench.registry import Solver
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.run import resolve

IRIS = "iris | 30 % test"
NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*/*.ipynb"))
LIVE = [path for path in NOTEBOOKS if "live import explore" in path.read_text("utf-8")]


def points(sent):
    return np.frombuffer(sent).reshape(-1, SIZE)


def test_a_curve_sends_each_point_once_and_the_latest_row_always():
    curve = Curve(1, "toy", "#000000")
    bounds = enumerate([(0.0, 4.0), (1.0, 3.0), (0.5, 3.5)])
    rows = [
        {"round": i, "seconds": i / 2, "lower": a, "upper": b} for i, (a, b) in bounds
    ]
    curve.add(rows[:2])
    words, sent = curve.news()
    assert (words["at"], words["name"], words["numbers"]["round"]) == (0, "toy", 1)
    assert points(sent)[:, :4].tolist() == [
        [0, 0, 0, 4],
        [0.5, 1, 1, 3],
        [0.5, 1, 1, 3],
    ]
    curve.add(rows[2:])
    words, sent = curve.news()
    # the best bounds
    assert words["at"] == 2 and points(sent)[0, :4].tolist() == [1, 2, 1, 3]
    assert np.isnan(points(sent)[:, 4]).all()
    curve.restart(rows[:2])
    words, sent = curve.news()
    assert words["at"] == 0 and points(sent)[-1, :4].tolist() == [0.5, 1, 1, 3]
    # Without a certificate there are an objective, which may rise, and errors.
    for key in ("primal", "squared_error"):
        curve = Curve(1, "toy", "#000000")
        rows = [
            {"round": i, "seconds": float(i), key: v}
            for i, v in enumerate((2.0, 1.0, 3.0))
        ]
        curve.add([rows[0] | {"test_error": 0.5}, *rows[1:]])
        nan = np.nan
        expected = [[0, 0, nan, 2, 0.5], [1, 1, nan, 1, nan], [2, 2, nan, 3, nan]]
        assert_array_equal(points(curve.news()[1])[:3], expected)
    curve.add([{"round": i, "seconds": i / 10, key: 1.0} for i in range(3, 20_000)])
    _, sent = curve.news()
    # some are left out
    assert 500 < len(points(sent)) < 5000 and points(sent)[-1, 1] == 19_999


def say(chart, **words):
    """Send a chart the words of its page."""
    chart._answer(None, words, [])


@pytest.fixture
def sent(monkeypatch):
    """Return the messages that every chart sends."""
    messages = []
    monkeypatch.setattr(Chart, "send", lambda self, *message: messages.append(message))
    monkeypatch.setattr(Inside, "send", lambda self, *message: None)
    return messages


def test_a_chart_is_fed_a_few_times_a_second(sent):
    chart = Chart()
    tic = time.perf_counter()
    curve = chart.begin("toy", "#123456")
    for i in range(2000):
        chart.add(curve, [{"round": i, "seconds": i / 10, "lower": 0.0, "upper": 1.0}])

    def last():
        curves = sent[-1][0]["curves"] if sent else []
        return curves and curves[0]["numbers"]["round"] == 1999

    wait(last)
    wait(lambda: chart._timer is None)  # a last message without news may follow
    # a busy machine takes longer
    assert len(sent) < 20 + 10 * (time.perf_counter() - tic)
    at = 0
    for content, (buffer,) in sent:
        assert content["curves"][0]["at"] == at
        at += len(points(buffer)) - 1
    so_far = len(sent)
    kept = at
    chart._handle_custom_msg({"wants": "everything"}, [])
    wait(lambda: len(sent) > so_far)
    content, (buffer,) = sent[-1]
    assert content["curves"][0]["at"] == 0 and len(points(buffer)) == kept + 1


def test_only_the_newest_curves_are_kept_and_live_ones_always(sent):
    chart = Chart()
    live = chart.begin("first", "#123456")
    for i in range(KEPT + 3):
        chart.begin(str(i), "#123456").live = False
    assert [curve.number for curve in chart.curves] == [1, *range(6, KEPT + 5)]
    for gone in (*range(KEPT + 5), "everything", None):  # as a page may ask
        say(chart, remove=gone)
    chart._answer(None, "not words", [])
    assert chart.curves == [live] and live.live
    for _ in range(2):
        say(chart, undo=True)
    last = [1, KEPT + 3, KEPT + 4]
    assert [curve.number for curve in chart.curves] == last  # the latest removals
    chart.clear()
    wait(lambda: sent and sent[-1][0]["gone"] == KEPT - 2, 10)
    assert sent[-1][0]["curves"] == []
    say(chart, undo=True)
    assert len(chart.curves) == 3 and chart.begin("next", "#123456").number == KEPT + 5
    chart.clear()
    assert chart.begin("next", "#123456").number == 1 and not chart._gone


def test_solvers_with_equal_defaults_share_sliders():
    sliders = Sliders(
        ("cuts_exact", "cuts_linear_time_fast", "cuts_constant_time"), {"gamma": 2.0}
    )
    own = ["eps (Exact cuts)", "eps (Sampled cuts, linear time, fast (ours))"]
    shared, exact, *_ = sliders.groups()
    assert sliders.widgets["gamma"] in shared.children
    assert exact.children[1] is sliders.widgets[own[0]]
    assert exact.children[0].value == "<b>Exact cuts</b>"
    sliders.widgets[own[1]].value = 0.1
    assert sliders.parameters("cuts_linear_time_fast")["eps"] == 0.1
    assert (
        sliders.parameters("cuts_exact").items() >= {"eps": 0.001, "gamma": 2.0}.items()
    )
    for solver in SOLVERS:
        declared = resolve(solver, {})[1]
        expected = {k: v for k, v in declared.items() if k in SLIDERS}
        assert Sliders((solver,), {}).parameters(solver) == expected
        for name in expected:  # a line of help, from a docstring
            assert 5 < len(described(name, solver)) < 200 and ":`" not in described(
                name, solver
            )
    assert described("gamma", "libsvm") == described("gamma", "cuts_nystroem") != ""
    assert described("eta0", "memoir_l1").startswith("the size of the first step")
    sliders = Sliders(("memoir_l2", "cuts_linear_time"), {}).widgets
    assert sliders["batch_size"].options[0] == "default"  # which depends on the data
    kinds = [type(sliders[name]).__name__ for name in ("mips", "C")]
    assert kinds == ["Dropdown", "Knob"]
    for name, typed, kind in (("C", 3, float), ("r", 7, int), ("batch_size", 9, int)):
        sliders[name].set_state({"value": typed})  # as a page does
        assert (sliders[name].value, type(sliders[name].value)) == (typed, kind)


@pytest.fixture
def dashboard(sent):
    dashboard = explore(("mrc_ccg", "mrc_subgradient"), (IRIS, "wine"), {"n_max": 20})
    yield dashboard
    dashboard.reset()


def status(dashboard, *expected):
    wait(lambda: dashboard.player.status in expected)


def pends(sent, text):
    wait(lambda: sent and sent[-1][0]["pending"] == text)


def click(dashboard, name, *expected):
    say(dashboard.chart, press=name)
    status(dashboard, *expected)


def labels(dashboard):
    return [
        ", ".join([curve.name, *curve.settings]) for curve in dashboard.chart.curves
    ]


def steps(dashboard, *rounds):
    """Press step for each of these rounds in turn."""
    for n in rounds:
        dashboard.step()
        wait(lambda n=n: all(x.last.get("round") == n for x in dashboard.player.lanes))
        status(dashboard, "paused")


def finish(dashboard, curves):
    """Press run; wait until the last of so many curves is whole."""
    dashboard.run()
    wait(lambda: len(dashboard.chart.curves) == curves)
    status(dashboard, "finished")


def test_a_dashboard_goes_back_and_branches(dashboard, sent):
    steps(dashboard, 0, 1, 2, 3)
    click(dashboard, "back", "paused")
    wait(lambda: dashboard.player.lanes[0].state.round == 2)
    assert dashboard.chart.curves[0].latest[1] == 2
    dashboard.sliders.widgets["n_max"].value = 50
    pends(sent, "pending until run or step is pressed: n_max")
    steps(dashboard, 3)
    wait(lambda: len(dashboard.chart.curves) == 2)
    status(dashboard, "paused")
    assert labels(dashboard)[1] == f"MRC-CCG, {IRIS}, n_max = 50, from round 2"
    assert [curve.live for curve in dashboard.chart.curves] == [False, True]
    assert [row["round"] for row in dashboard.player.lanes[0].rows] == [2, 3]


def test_other_data_start_a_new_run_and_the_old_are_released(dashboard):
    steps(dashboard, 0)
    dashboard.data.value = "wine"
    finish(dashboard, 2)
    assert labels(dashboard)[-1].startswith("MRC-CCG, wine")
    old, new = dashboard.chart.curves
    assert old.colour == GREY != new.colour
    assert not (old.live or old.lane)
    finish(dashboard, 3)
    assert labels(dashboard)[1] == labels(dashboard)[2]  # it starts again


def test_nothing_of_a_removed_run_is_left(dashboard):
    finish(dashboard, 1)
    finish(dashboard, 2)
    lane = weakref.ref(dashboard.player.lanes[0])
    for number in (1, 2):  # an old run, and one that has just finished
        assert dashboard.inside.shown[0]["title"]
        say(dashboard.chart, remove=number)
    wait(lambda: gc.collect() is None or lane() is None)
    assert not dashboard.inside.shown[0]["title"]
    say(dashboard.chart, undo=True)
    (curve,) = dashboard.chart.curves
    assert not curve.live  # only a curve is back


@dataclass
class Used:
    """A state that says which parameters it was last run with."""

    round: int
    parameters: tuple = ()

    def scores(self, X):
        return np.zeros((X.shape[0], 3))

    def info(self):
        return {"primal": 1.0}


def toy(problem, *, C=1.0, alpha=0.01, eps=0.1, block=64, state=None):
    if eps > 0.4:
        raise ValueError(f"eps: must be at most 0.4, got {eps}")
    s = state or Used(0)
    s.parameters = C, alpha, eps, block
    yield s
    while s.round < 60:
        s.round += 1
        toy.round()
        yield s


@pytest.fixture
def toys(sent, monkeypatch):
    """Return a dashboard of two solvers that share their sliders; C is live in one of
    them."""
    monkeypatch.setattr(toy, "round", lambda: time.sleep(0.001), raising=False)
    for name, live in {
        "ww_toy": ("C", "alpha", "eps"),
        "ls_toy": ("alpha", "eps"),
    }.items():
        monkeypatch.setitem(
            SOLVERS, name, Solver(resumable(*live)(toy), name, "#000000")
        )
    dashboard = explore(("ww_toy", "ls_toy"), ("iris", "wine"))
    yield dashboard
    dashboard.reset()


def test_the_page_knows_that_data_are_being_loaded(dashboard, sent, monkeypatch):
    def slow(spec):
        wait(lambda: "loading the data" in [words.get("doing") for words, *_ in sent])
        return load(spec)

    monkeypatch.setattr("workbench.live.dashboard.load", slow)
    steps(dashboard, 1)
    wait(lambda: not sent[-1][0].get("doing"))


def test_moved_sliders_count_from_the_next_press_of_run(toys, sent, monkeypatch):
    gate = threading.Semaphore(3)  # two rounds of the warm-up, and one
    # With a limit: a test that fails here must not hold the others' runs back forever.
    monkeypatch.setattr(toy, "round", partial(gate.acquire, timeout=20))
    toys.run()
    wait(
        lambda: any(lane.state and lane.state.round == 2 for lane in toys.player.lanes)
    )
    sliders = toys.sliders.widgets
    sliders["alpha"].value = 1e-4
    sliders["C"].value = 0.25
    pends(sent, "pending until run or step is pressed: C, alpha")
    toys.run()
    pends(sent, "pending until the round in progress ends: C, alpha")
    say(toys.chart, remove=1)
    assert len(toys.chart.curves) == 1  # not while it is playing
    gate.release(10**6)
    status(toys, "finished")
    (lane,) = toys.player.lanes
    assert lane.state.parameters == (0.25, 1e-4, 0.1, 64) and lane.since == 2
    assert labels(toys)[1] == "ww_toy, iris, C = 0.25, alpha = 0.0001, from round 2"
    # which cannot change in mid-run
    toys.data.value, sliders["block"].value = "wine", 128
    pends(sent, "pending until run or step is pressed: data, block")
    toys.run()
    wait(
        lambda: (
            toys.player.lanes[0].parameters["block"] == 128
            and not sent[-1][0]["pending"]
        )
    )
    toys.player.stop()
    wait(lambda: not any(curve.live for curve in toys.chart.curves))


@each("seed", range(2))
def test_what_runs_is_what_the_controls_say_when_pressed(seed, toys):
    rng = np.random.default_rng(seed)
    choices = ("ww_toy",), ("ls_toy",), ("ww_toy", "ls_toy")

    def move():
        slider = toys.sliders.widgets[rng.choice([*toys.sliders.widgets])]
        slider.value = slider.options[rng.integers(len(slider.options))]

    acts = [*[move] * 8, toys.run, toys.run, toys.step, toys.player.back]
    acts += [toys.player.pause, toys.player.stop, toys.reset]
    acts += [lambda: setattr(toys.data, "value", rng.choice(["iris", "wine"]))]
    acts += [lambda: setattr(toys.solvers, "value", choices[rng.integers(3)])]
    for _ in range(4):
        for act in rng.choice(acts, 25):
            act()
            time.sleep(rng.exponential(0.003))
        toys.sliders.widgets["eps"].value = 0.1
        toys.run()
        status(toys, "finished")
        assert [lane.solver for lane in toys.player.lanes] == [*toys.solvers.value]
        for lane in toys.player.lanes:
            assert lane.problem.name.startswith(toys.data.value)
            assert lane.parameters == toys.sliders.parameters(lane.solver)
            assert lane.state.parameters == (*lane.parameters.values(),)


def test_a_run_that_no_page_shows_pauses_and_says_so(toys, monkeypatch):
    monkeypatch.setattr("workbench.live.dashboard.PING_S", 0.02)
    monkeypatch.setattr(toy, "round", lambda: time.sleep(0.05), raising=False)

    async def shown(answering):
        toys._loop = asyncio.get_running_loop()
        toys.run()
        for _ in range(15):
            await asyncio.sleep(0.02)
            if answering:
                say(toys.chart, pong=True)
        return toys.player.status

    assert asyncio.run(shown(True)) in PLAYING
    toys._watching = False  # as that loop has ended
    assert asyncio.run(shown(False)) in ("pausing", "paused")
    assert "no page showed this" in toys.chart._said["note"]


def test_lanes_are_let_go_when_their_curves_are(dashboard):
    lanes = []
    for i in range(KEPT + 3):
        dashboard.sliders.widgets["lambda0"].value = (0.1, 0.2)[i % 2]
        dashboard.step()
        status(dashboard, "paused", "finished")
        lanes.append(weakref.ref(dashboard.player.lanes[0]))
    assert len(dashboard.chart.curves) == KEPT
    gc.collect()
    assert sum(lane() is not None for lane in lanes) <= KEPT + 1
    explore("ww_walrus", "iris")
    status(dashboard, "stopped")
    gc.collect()
    assert sum(lane() is not None for lane in lanes) <= 1


def test_solvers_run_side_by_side_for_the_same_seconds(sent):
    solvers, iris = ("mrc_ccg", "mrc_subgradient"), load(IRIS)  # a problem of one's own
    dashboard = explore(solvers, iris, {"n_max": 20}, chosen=solvers, seconds=0.2)
    click(dashboard, "run", "finished")
    ccg, subgradient = dashboard.chart.curves
    assert ccg.ended == "the bounds agree" and subgradient.ended == "out of time"
    assert ccg.name == "MRC-CCG" and 0.2 <= subgradient.latest[0] < 1
    wait(lambda: sent[-1][0]["status"] == "finished")  # and the page has all of it
    content, (buffer, _) = sent[-1]
    shown, (*_, lower, upper, error) = content["curves"][0], points(buffer)[-1]
    assert content["error"] == "" and shown["numbers"]["lower"].startswith("0.4")
    assert shown["settings"] == [iris.name, "n_max = 20"]
    assert shown["ended"] == ccg.ended
    assert lower <= upper <= lower + 1e-2 and 0 < error < 0.5
    dashboard.watched.value = "mrc_subgradient"
    assert dashboard.inside.shown[0]["title"].startswith(
        "MRC-SUB, iris, standardised: round "
    )
    dashboard.budget.value = 1
    click(dashboard, "run", "running")
    status(dashboard, "finished")
    assert len(dashboard.chart.curves) == 2 and subgradient.latest[0] >= 1
    dashboard.reset()


def test_a_failure_is_shown_and_the_dashboard_lives_on(sent, monkeypatch):
    dashboard = explore(("mrc_ccg", "memoir_l2"), ("iris", "iris | 9 classes"))
    for control, wrong, right, told in (
        (dashboard.data, "iris | 9 classes", "iris", "must be from 2 to 3"),
        (dashboard.solvers, (), ("memoir_l2",), "choose at least one solver"),
        (dashboard.sliders.widgets["eta0"], 3.0, 0.1, "lam * eta_1 must be below 1"),
    ):
        control.value = wrong
        dashboard.run()
        wait(lambda told=told: sent and told in sent[-1][0]["error"])
        status(dashboard, "failed")
        control.value = right
    click(dashboard, "step", "paused")
    wait(lambda: sent[-1][0]["status"] == "paused")
    assert sent[-1][0]["error"] == ""
    monkeypatch.setattr("workbench.live.dashboard.portrait", lambda *_: 1 / 0)
    click(dashboard, "step", "paused", "finished")  # a picture that fails costs no run
    wait(lambda: "division by zero" in sent[-1][0]["note"])
    assert sent[-1][0]["error"] == "" and dashboard.chart.curves[-1].live
    dashboard.reset()


def test_a_page_saves_the_traces_and_code_that_repeats_the_runs(
    dashboard, sent, tmp_path
):
    steps(dashboard, 0, 1, 2)
    dashboard.sliders.widgets["n_max"].value = 50
    steps(dashboard, 3)
    wait(lambda: len(dashboard.chart.curves) == 2)
    steps(dashboard, 4)
    say(dashboard.chart, save="code")
    (saved,) = [content for content, *_ in sent if "runs" in content]
    assert saved["data"] == IRIS

    def until(lane, last):
        while lane.last.get("round", -1) < last:
            lane.advance()
        return lane

    problem = load(saved["data"])
    for i, solver, text, code in saved["runs"]:
        path = tmp_path / f"{i}.jsonl"
        path.write_text(text)
        trace = read_trace(path)
        assert (solver, trace.stopped_by) == ("mrc_ccg", "paused")
        again = eval(code, {"Lane": Lane, "problem": problem, "until": until})
        for name in ("round", "lower", "upper"):
            assert_array_equal(again.trace.column(name), trace.column(name))
        assert again.parameters == trace.header["parameters"]
    assert i == 2


@each(
    "solvers, main",
    [
        (("mrc_ccg", "mrc_pdhg"), "objective"),
        (("ls_generalized", "ls_accelerated"), "objective"),
        (("ls_generalized", "ls_calibrated"), "test error"),
        (("memoir_l2", "cs_working_set"), "test error"),
    ],
)
def test_one_axis_has_the_objectives_of_one_function_only(sent, solvers, main):
    dashboard = explore(solvers, IRIS)
    assert dashboard.chart._said["main"] == "objective"  # of the one that is chosen
    dashboard.solvers.value = solvers
    assert dashboard.chart._said["main"] == main


def test_a_new_dashboard_stops_the_old_one(dashboard):
    dashboard.solvers.value = ("mrc_subgradient",)
    click(dashboard, "run", "running")
    settings = {"solvers": "ww_walrus", "problem": "iris"}
    faults = {
        "solvers": {
            "unknown name 'mrc'": ("mrc",),
            r"unknown name \[\]; known names: mrc_lp": [],
            "unknown name None; known": None,
        },
        "parameters": {
            "no slider is called 'seed'": {"seed": 1},
            "C: must be a positive number, got inf": {"C": np.inf},
            "C: .* got -1; numbers from 1e-30 to": {"C": -1},
        },
        "problem": {
            r"such as load\(\(X, y\)\)": (np.eye(2), [0, 1]),
            "no data set or file is called 'nosuch'; known": "nosuch",
            "a number between 0 and 100": "iris | 130 % test",
            "there is no file /no.csv": ["iris", "/no.csv"],
        },
    }
    for name, told in faults.items():
        for words, wrong in told.items():
            with refuses(words, Exception):
                explore(**settings | {name: wrong})
    assert dashboard.player.status == "running"
    explore("ww_walrus", "no.csv or iris", {"C": 3})
    status(dashboard, "stopped")


def shown(path):
    """Return the dashboard of a notebook's cell `live`, run by itself as after a
    restart."""
    exec({cell.id: cell.source for cell in nbformat.read(path, 4).cells}["live"], {})
    return workbench.live._shown


@each_path(LIVE)
def test_the_cell_with_the_dashboard_needs_no_other_cell(path):
    assert "application/vnd.jupyter.widget-view+json" in shown(path)._repr_mimebundle_()


def test_memoir_learns_with_its_dashboard_s_first_settings():
    dashboard = shown(next(path for path in LIVE if path.stem == "memoir"))
    (solver,), problem = dashboard.solvers.value, load(dashboard.data.value)
    lane = Lane(
        solver, problem, dashboard.sliders.parameters(solver), held_out(problem)
    )
    first, *_, last = (lane.advance(wait=True) for _ in range(25))
    assert last["primal"] < first["primal"] and last["test_error"] < 0.45
