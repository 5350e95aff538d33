"""The live view: when the solver is asked for a round, and what the canvas is sent."""

import threading
import time
from dataclasses import dataclass
from itertools import count

import nbformat
import numpy as np
import pytest
from papermill import execute_notebook

from workbench import live
from workbench.kernels import IpcKernelManager
from workbench.live import Dashboard, LiveView, explore
from workbench.notebooks import CHECKOUT
from workbench.player import Curve, Player
from workbench.stream import rounds, until, watch

NOTEBOOKS = sorted((CHECKOUT / "notebooks" / "explore").glob("*.ipynb"))


@dataclass
class Halves:
    """A state whose bounds close in on 1."""

    round: int = 0

    def info(self):
        return {"lower": 1 - 0.5**self.round, "upper": 1 + 0.5**self.round}


class Toy:
    """A solver whose rounds are let through one by one, or all where `free`; it counts them."""

    def __init__(self, last=10**9, fails_at=None, free=True):
        self.last, self.fails_at = last, fails_at
        self.asked = self.started = self.busy = self.together = 0
        self.gate = threading.Semaphore(10**9 if free else 0)

    def __call__(self):
        self.started += 1
        return until(watch(self.steps()), rounds(self.last))

    def steps(self):
        for i in count():
            self.asked += 1
            self.busy += 1
            self.together = max(self.together, self.busy)
            self.gate.acquire()
            time.sleep(0.001)
            self.busy -= 1
            if i == self.fails_at:
                raise ArithmeticError("the toy broke")
            yield Halves(i)


@pytest.fixture
def heard():
    """Return a player and the rows and statuses that were heard of it."""
    rows, statuses = [], []

    def hear(row):
        statuses.append(player.status) if row is None else rows.append(row["round"])

    player = Player(hear)
    yield player, rows, statuses
    player.reset()


def wait(condition, limit=20.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def test_a_run_plays_to_its_end(heard):
    player, rows, statuses = heard
    player.run(Toy(last=4))
    wait(lambda: player.status == "finished")
    assert rows == [0, 1, 2, 3, 4]
    assert statuses == ["starting", "running", "finished"]
    assert player.error is None


def test_each_step_asks_for_one_round(heard):
    player, rows, _ = heard
    toy = Toy()
    for n in range(1, 5):
        player.step(toy)
        wait(lambda n=n: len(rows) == n and player.status == "paused")
        assert toy.asked == n
    assert toy.started == 1


def test_nothing_is_asked_for_while_paused(heard):
    player, rows, _ = heard
    toy = Toy()
    player.run(toy)
    wait(lambda: len(rows) > 5)
    player.pause()
    wait(lambda: player.status == "paused")
    asked, seen = toy.asked, len(rows)
    time.sleep(0.1)
    assert toy.asked == asked == seen == len(rows)
    player.run(toy)
    wait(lambda: len(rows) > seen + 5)
    assert rows == list(range(len(rows))), "went on where it was"
    assert toy.started == 1


def test_a_round_in_progress_ends_before_the_pause(heard):
    player, rows, _ = heard
    toy = Toy(free=False)
    player.run(toy)
    wait(lambda: toy.asked == 1)
    player.pause()
    assert player.status == "pausing" and rows == []
    toy.gate.release()
    wait(lambda: player.status == "paused")
    assert rows == [0] and toy.asked == 1


@pytest.mark.parametrize("paused", [False, True])
def test_stop_ends_the_run_and_the_next_begins_anew(heard, paused):
    player, rows, _ = heard
    toy = Toy()
    player.run(toy)
    wait(lambda: len(rows) > 3)
    if paused:
        player.pause()
        wait(lambda: player.status == "paused")
    player.stop()
    wait(lambda: player.status == "stopped")
    seen = len(rows)
    player.step(toy)
    wait(lambda: player.status == "paused")
    assert rows[seen:] == [0] and toy.started == 2


def test_an_exception_ends_the_run_and_the_player_lives_on(heard):
    player, rows, _ = heard
    player.run(Toy(fails_at=3))
    wait(lambda: player.status == "failed")
    assert rows == [0, 1, 2] and str(player.error) == "the toy broke"

    def no_start():
        raise ValueError("no such data")

    player.run(no_start)
    wait(lambda: str(player.error) == "no such data")
    player.run(Toy(last=1))
    wait(lambda: player.status == "finished")
    assert player.error is None


def test_after_a_reset_an_abandoned_round_is_not_heard(heard):
    player, rows, _ = heard
    slow, toy = Toy(free=False), Toy(last=2)
    player.run(slow)
    wait(lambda: slow.asked == 1)
    player.reset()
    assert player.status == "ready"
    player.run(toy)
    time.sleep(0.05)
    assert toy.started == 0, "one solver at a time: the round of the first still goes on"
    slow.gate.release()
    wait(lambda: player.status == "finished")
    assert rows == [0, 1, 2] and slow.asked == 1


def test_pressing_everything_at_once_never_runs_two_solvers(heard):
    player, _, _ = heard
    toy, rng = Toy(), np.random.default_rng(0)
    acts = (lambda: player.run(toy), lambda: player.step(toy))
    acts += (player.pause, player.stop, player.reset)

    def press(order):
        for i in order:
            acts[i]()
            time.sleep(0.0005)

    hands = [threading.Thread(target=press, args=(rng.integers(0, 5, 100),)) for _ in range(4)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    player.run(toy)
    wait(lambda: player.status == "running")
    player.stop()
    wait(lambda: player.status == "stopped")
    assert toy.started > 1 and toy.together == 1


def points(sent):
    return np.frombuffer(sent).reshape(-1, 4)


def test_a_curve_sends_each_point_once_and_the_latest_row_always():
    curve = Curve(1, "toy", "#000000")
    for i, (lower, upper) in enumerate([(0.0, 4.0), (1.0, 3.0), (0.5, 3.5)]):
        curve.add({"seconds": float(i), "lower": lower, "upper": upper}, keep=i < 2)
    words, sent = curve.news()
    assert words == {"number": 1, "label": "toy", "colour": "#000000", "at": 0}
    # The bounds are the best so far, and the last point is the row that was not kept.
    assert points(sent)[:, :3].tolist() == [[0, 0, 4], [1, 1, 3], [2, 1, 3]]
    words, sent = curve.news()
    assert words["at"] == 2 and points(sent)[:, :3].tolist() == [[2, 1, 3]]
    curve.add({"seconds": 3.0, "upper": 2.0}, keep=True)
    words, sent = curve.news()
    assert words["at"] == 2 and points(sent)[:, :3].tolist() == [[3, 1, 2], [3, 1, 2]]
    assert np.isnan(points(sent)[:, 3]).all()


@pytest.mark.parametrize("key", ["primal", "squared_error"])
def test_a_curve_without_a_certificate_has_an_objective_and_errors(key):
    curve = Curve(1, "toy", "#000000")
    curve.add({"seconds": 0.0, key: 2.0, "test_error": 0.5}, keep=True)
    curve.add({"seconds": 1.0, key: 1.0}, keep=True)  # not judged: the error is the last one
    curve.add({"seconds": 2.0, key: 3.0}, keep=True)  # an estimate may rise, and is drawn so
    _, sent = curve.news()
    expected = [[0, np.nan, 2, 0.5], [1, np.nan, 1, 0.5], [2, np.nan, 3, 0.5]]
    np.testing.assert_array_equal(points(sent)[:3], expected)


@pytest.fixture
def sent(monkeypatch):
    """Return the messages that every canvas sends."""
    messages = []
    monkeypatch.setattr(
        LiveView, "send", lambda self, content, buffers: messages.append((content, buffers))
    )
    return messages


def test_the_canvas_is_fed_a_few_times_a_second_and_a_new_page_gets_all(sent):
    view = LiveView()
    view.begin("toy", "#123456")
    for i in range(2000):
        view.add({"round": i, "seconds": i / 10, "lower": 0.0, "upper": 1.0})
    wait(lambda: sent and "round 1999" in sent[-1][0]["numbers"])
    assert len(sent) < 20
    at = 0
    for content, (buffer,) in sent:
        assert content["curves"][0]["at"] == at
        at += len(points(buffer)) - 1
    assert at == 2000
    so_far = len(sent)
    view._handle_custom_msg({"wants": "everything"}, [])
    wait(lambda: len(sent) > so_far)
    content, (buffer,) = sent[-1]
    assert content["curves"][0]["at"] == 0 and len(points(buffer)) == 2001


def test_only_the_newest_curves_are_kept(sent):
    view = LiveView()
    for i in range(live.KEPT + 3):
        view.begin(str(i), "#123456")
    assert [curve.number for curve in view.curves] == list(range(4, live.KEPT + 4))
    view.clear()
    wait(lambda: sent and sent[-1][0]["curves"] == [])


@pytest.fixture
def dashboard(sent):
    dashboard = explore(("iris", "no_such_data"), ("mrc_ccg", "mrc_subgradient"))
    yield dashboard
    dashboard.reset()


def test_a_dashboard_runs_a_solver(dashboard, sent):
    dashboard.buttons["run"].click()
    wait(lambda: sent and sent[-1][0]["status"] == "finished")
    content, (buffer,) = sent[-1]
    assert content["error"] == "" and "lower 0.4" in content["numbers"]
    assert content["curves"][0]["label"] == "MRC-CCG, iris"
    _, lower, upper, _ = points(buffer)[-1]
    assert lower <= upper <= lower + 1e-2


def test_a_changed_slider_begins_anew_and_the_curve_stays(dashboard):
    for _ in range(2):
        dashboard.buttons["step"].click()
        wait(lambda: dashboard.player.status == "paused")
    assert len(dashboard.view.curves) == 1
    dashboard.sliders["eps1"].value = 0.1
    dashboard.buttons["step"].click()
    wait(lambda: len(dashboard.view.curves) == 2)
    assert [c.label for c in dashboard.view.curves][1] == "MRC-CCG, iris, eps1 = 0.1"
    dashboard.fourier.value = True
    dashboard.buttons["run"].click()
    wait(lambda: dashboard.player.status == "finished")
    (curve,) = dashboard.view.curves
    assert curve.label == "MRC-CCG, iris + 400 fourier, eps1 = 0.1"
    dashboard.buttons["reset"].click()
    assert dashboard.view.curves == [] and dashboard.player.status == "ready"


def test_sliders_are_those_of_the_solver(dashboard):
    assert set(dashboard.parameters) == {"lambda0", "eps1", "eps2", "n_max", "m_max"}
    dashboard.solver.value = "mrc_subgradient"
    assert set(dashboard.parameters) == {"lambda0"}
    assert dashboard.sliders["eps1"].layout.display == "none"
    assert dashboard.sliders["lambda0"].layout.display is None


def test_a_failure_is_shown_and_the_dashboard_lives_on(dashboard, sent):
    dashboard.data.value = "no_such_data"
    dashboard.run()
    wait(lambda: sent and sent[-1][0]["status"] == "failed")
    assert "no data set or file is called 'no_such_data'" in sent[-1][0]["error"]
    dashboard.data.value = "iris"
    dashboard.run()
    wait(lambda: sent[-1][0]["status"] == "finished")
    assert sent[-1][0]["error"] == ""


def test_a_new_dashboard_stops_the_old_one_and_wrong_names_do_not(dashboard):
    dashboard.solver.value = "mrc_subgradient"
    dashboard.run()
    wait(lambda: dashboard.player.status == "running")
    with pytest.raises(ValueError, match="unknown name 'mrc'"):
        explore(solvers=("mrc",))
    assert dashboard.player.status == "running"
    assert isinstance(explore(), Dashboard)
    wait(lambda: dashboard.player.status == "stopped")


def test_bounds_of_an_objective_close_relative_to_it(sent):
    dashboard = explore(("iris",), ("ww_walrus", "ww_walrus_fast", "ww_shark"))
    assert dashboard.parameters == {"C": 1.0}
    dashboard.sliders["C"].value = 0.25
    dashboard.run()
    wait(lambda: sent and sent[-1][0]["status"] == "finished")
    content, (buffer,) = sent[-1]
    assert "stopped_by gap <= 1e-09" in content["numbers"]
    assert content["curves"][0]["label"] == "Walrus, iris, C = 0.25"
    _, lower, upper, _ = points(buffer)[-1]
    assert lower == pytest.approx(11.39905, abs=1e-5) and upper - lower <= 1e-9 * upper
    dashboard.reset()


LEAST_SQUARES = ("ls_generalized", "ls_accelerated", "ls_calibrated", "ls_stagewise")


def test_solvers_without_certificates_are_judged_by_their_errors(sent):
    dashboard = explore(("iris",), LEAST_SQUARES, judged=True)
    assert set(dashboard.parameters) == {"alpha", "link"}
    dashboard.solver.value = "ls_stagewise"
    assert set(dashboard.parameters) == {
        "alpha",
        "link",
        "n_features",
        "block",
        "passes",
        "inner",
        "bandwidth",
    }
    dashboard.sliders["link"].value = "squared_hinge"
    dashboard.sliders["n_features"].value = 128
    dashboard.sliders["block"].value = 64
    dashboard.run()
    wait(lambda: sent and sent[-1][0]["status"] == "finished")
    content, (buffer,) = sent[-1]
    assert "round 6" in content["numbers"] and "test_error" in content["numbers"]
    label = content["curves"][0]["label"]
    assert label.endswith("n_features = 128, block = 64, link = squared_hinge")
    _, lower, upper, error = points(buffer)[-1]
    assert np.isnan(lower) and 0 < upper < 1 and 0 <= error < 0.2
    for solver in ("ls_calibrated", "ls_generalized"):
        dashboard.solver.value = solver
        dashboard.step()
        wait(lambda: dashboard.player.status == "paused")
    _, lower, upper, _ = dashboard.view.curves[-1].latest
    assert 0 <= lower <= upper
    dashboard.reset()


CUTS = ("cuts_linear_time", "cuts_constant_time", "cuts_nystroem", "cuts_exact")


def test_sampled_cuts_have_sliders_and_draw_objectives_with_and_without_bounds(sent):
    dashboard = explore(("iris",), CUTS, judged=True)
    common = {"C", "eps", "gamma"}
    assert set(dashboard.parameters) == common | {"r", "stabilised", "p"}
    assert dashboard.parameters["gamma"] == 1.0 and dashboard.parameters["stabilised"] is True
    dashboard.sliders["gamma"].value, dashboard.sliders["stabilised"].value = 0.3, False
    dashboard.run()
    wait(lambda: sent and sent[-1][0]["status"] == "finished")
    content, (buffer,) = sent[-1]
    label = content["curves"][0]["label"]
    assert label.endswith("iris, gamma = 0.3, stabilised = False")
    _, lower, upper, error = points(buffer)[-1]
    assert np.isnan(lower) and 0 < upper < 105 and error < 0.2
    dashboard.solver.value = "cuts_nystroem"
    assert set(dashboard.parameters) == common | {"landmarks", "stabilised"}
    dashboard.run()
    wait(lambda: len(dashboard.view.curves) == 2 and dashboard.player.status == "finished")
    _, lower, upper, _ = dashboard.view.curves[-1].latest
    assert 0 < lower <= upper
    dashboard.reset()


MEMOIR = ("memoir_l2", "memoir_l1", "cs_working_set", "memoir_pegasos")


def test_memoir_has_its_switches_and_a_step_that_leaves_nothing_says_why(sent):
    dashboard = explore(("text 60x3",), MEMOIR, judged=True)
    steps = {"eta0", "sampling", "in_batch", "hinge", "div_by_batch", "average", "mips"}
    assert set(dashboard.parameters) == steps | {"lam", "predict_metric"}
    assert dashboard.parameters["lam"] == 1.0 and dashboard.parameters["mips"] == "exact"
    dashboard.sliders["eta0"].value = 3.0
    dashboard.run()
    wait(lambda: sent and sent[-1][0]["status"] == "failed")
    assert "lam * eta_1 must be below 1" in sent[-1][0]["error"]
    dashboard.sliders["lam"].value, dashboard.sliders["mips"].value = 0.0, "random"
    dashboard.step()
    wait(lambda: dashboard.player.status == "paused")
    assert dashboard.view.curves[-1].label.endswith("lam = 0, eta0 = 3, mips = random")
    dashboard.solver.value = "memoir_l1"
    assert set(dashboard.parameters) == steps | {"gamma", "predict_metric"}
    dashboard.sliders["gamma"].value = 1e-6
    dashboard.step()
    wait(lambda: len(dashboard.view.curves) == 2 and dashboard.player.status == "paused")
    dashboard.solver.value = "cs_working_set"
    assert set(dashboard.parameters) == {"C", "l1", "working_set", "inner"}
    dashboard.sliders["l1"].value = 0.0
    for _ in range(3):  # round 0 is one
        dashboard.step()
        wait(lambda: dashboard.player.status == "paused")
    wait(lambda: len(dashboard.view.curves) == 3)
    _, lower, upper, error = dashboard.view.curves[-1].latest
    assert 0 < lower < upper < 60 and 0 <= error < 0.9
    dashboard.reset()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_at_its_smallest_scale(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    (parameters,) = (cell for cell in notebook.cells if cell.id == "parameters")
    parameters.source += '\ndata, max_seconds = "iris", 0.1'
    nbformat.write(notebook, tmp_path / "small.ipynb")
    executed = execute_notebook(
        tmp_path / "small.ipynb",
        None,
        kernel_name="python3",
        kernel_manager_class=IpcKernelManager,
        progress_bar=False,
        execution_timeout=120,
        cwd=CHECKOUT,
    )
    cells = {cell.id: cell for cell in executed.cells}
    assert any("image/png" in out.get("data", {}) for out in cells["still"].outputs)
    (shown,) = cells["live"].outputs
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]
