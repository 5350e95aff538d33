"""The dashboard of certified tuning: what it does, what it draws, and what it says."""

import threading

import numpy as np
import pytest
from test_player import wait

from workbench.data.panels import panel
from workbench.live import explore, tune, tuning
from workbench.live.chart import Inside
from workbench.live.pictures import Lines
from workbench.tuning.weston_watkins import certify_path

SMALL = "iris", (1e-2, 1.0), 0.05


@pytest.fixture
def shown(monkeypatch):
    """Return the titles and pictures that are shown; each state is whole when it is drawn."""
    pictures = []
    monkeypatch.setattr(Inside, "show", lambda self, title, found: pictures.append((title, found)))
    return pictures


@pytest.fixture
def dashboard(shown):
    """Return a dashboard of a small problem, whose player is at rest when a test is over."""
    dashboard = tune(*SMALL)
    dashboard.speed.value = 0.0
    yield dashboard
    dashboard.retire()
    wait(lambda: dashboard.player._worker is None)


def until(dashboard, status):
    wait(lambda: dashboard.player.status == status and dashboard.player._worker is None)


def press(dashboard, name, status):
    dashboard.buttons[name].click()
    until(dashboard, status)


def solved(dashboard):
    return dashboard.player.lanes[0].state.n_solves


def reference(data, ends, eps):
    problem = panel(data)
    fold = problem, problem.X_test, problem.classes[problem.y_test]
    *_, state = certify_path([fold], ends, eps)
    return state


def test_it_runs_to_the_end_and_shows_what_the_search_has_proven(dashboard, shown):
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    press(dashboard, "run", "finished")
    state = reference(*SMALL)
    title, (picture,) = shown[-1]
    assert title == "iris: errors on 45 validation rows"
    edges, lower, upper = state.band()
    assert isinstance(picture, Lines) and picture.logarithmic and picture.filled
    np.testing.assert_array_equal(picture.x, np.repeat(edges, 2)[1:-1])
    np.testing.assert_allclose(picture.ys[0], np.repeat(lower, 2) / 0.45)
    top = 1.5 * state.errors.max() / 0.45
    np.testing.assert_allclose(picture.ys[1], np.minimum(np.repeat(upper, 2) / 0.45, top))
    np.testing.assert_allclose(picture.ys[2], (state.fewest - 2) / 0.45)
    assert picture.points[:-1, 0].tolist() == state.at.tolist()
    assert picture.points[-1].tolist() == [state.chosen, state.fewest / 0.45]
    assert picture.marked.sum() == picture.marked[-1] == 1.0
    assert f"fewer than {lower.min()} errors; ours" in dashboard.proven.value
    assert f"certified: 100 % of the axis; {state.n_solves} solutions." in dashboard.proven.value
    assert "<b>finished</b>" in dashboard.status.value
    now = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert now == timers, "a timer is left"


def test_steps_are_single_solutions_and_a_pause_is_resumed(dashboard, shown):
    for solves in (1, 2, 3):
        press(dashboard, "step", "paused")
        assert solved(dashboard) == solves and shown[-1][1][0].points.shape == (solves + 1, 2)
    assert "Nothing is proven yet for all C in [0.01, 1]; ours, C = " in dashboard.proven.value
    dashboard.speed.value = 1.0  # per second: the next solution is not awaited
    dashboard.buttons["run"].click()
    wait(lambda: solved(dashboard) == 4)
    press(dashboard, "pause", "paused")
    (search,), solves = dashboard.player.lanes, solved(dashboard)
    assert f"; {solves} solutions." in dashboard.proven.value, "the last state is drawn"
    dashboard.speed.value = 0.0
    press(dashboard, "run", "finished")
    assert dashboard.player.lanes == [search] and solved(dashboard) > solves
    press(dashboard, "run", "finished")
    assert dashboard.player.lanes == [search], "nothing is left to do"


def test_new_settings_start_again_when_run_or_step_is_pressed(dashboard, shown):
    press(dashboard, "step", "paused")
    for control, value in (("data", " wine "), ("C_range", (0.1, 1.0)), ("eps", 0.02)):
        (search,) = dashboard.player.lanes
        getattr(dashboard, control).value = value
        assert "pending: new settings" in dashboard.status.value
        assert dashboard.player.lanes == [search], "until then nothing changes"
        press(dashboard, "step", "paused")
        assert "pending" not in dashboard.status.value
        assert dashboard.player.lanes != [search] and solved(dashboard) == 1
    assert dashboard.player.lanes[0].settings == ("wine", (0.1, 1.0), 0.02)
    assert shown[-1][0] == "wine: errors on 53 validation rows"


@pytest.mark.parametrize(
    "data, message",
    [
        ("irris", "irris"),
        ("iris + 3 <b>", "not a name followed by steps"),
        ("iris @ big", "unknown scale"),
    ],
)
def test_bad_data_are_refused_in_one_line_and_what_there_is_stays(dashboard, data, message):
    press(dashboard, "step", "paused")
    (search,), proven = dashboard.player.lanes, dashboard.proven.value
    dashboard.data.value = data
    press(dashboard, "run", "failed")
    assert message in dashboard.status.value and "\n" not in dashboard.status.value
    assert "<b>" not in dashboard.status.value.split("role='alert'")[1]
    assert dashboard.player.lanes == [search] and dashboard.proven.value == proven
    dashboard.data.value = "iris"
    press(dashboard, "step", "paused")
    assert dashboard.player.lanes == [search] and solved(dashboard) == 2
    assert dashboard.status.value.endswith("></span></p>"), "the message is gone"


def test_a_range_of_one_value_is_refused(dashboard):
    dashboard.C_range.value = 0.1, 0.1
    press(dashboard, "run", "failed")
    assert "C_range: must be two positive numbers in ascending order" in dashboard.status.value


def test_a_search_that_fails_in_a_solution_is_not_drawn(dashboard, shown, monkeypatch):
    press(dashboard, "step", "paused")
    (search,), drawn = dashboard.player.lanes, len(shown)

    def fails():
        raise MemoryError
        yield

    search._steps = fails()
    press(dashboard, "run", "failed")
    assert len(shown) == drawn and "MemoryError" in dashboard.status.value
    press(dashboard, "step", "paused")
    assert dashboard.player.lanes != [search], "the next run starts again"


def test_a_range_and_an_eps_of_ones_own_are_offered_and_checked(shown):
    dashboard = tune("iris", (0.003, 0.7), 0.03)
    assert dashboard.settings == ("iris", (0.003, 0.7), 0.03)
    with pytest.raises(ValueError, match="C_range: must be two positive numbers"):
        tune("iris", (1.0, 0.1))
    with pytest.raises(ValueError, match="eps: must be a number"):
        tune("iris", eps=1.0)


def test_the_dashboard_before_it_is_stopped(dashboard):
    dashboard.speed.value = 1.0
    dashboard.buttons["run"].click()
    wait(lambda: dashboard.player.status == "running" and dashboard.player.lanes)
    explore("iris", "ww_walrus")
    until(dashboard, "stopped")


def test_before_the_first_solution_nothing_is_drawn_and_said_to_be_proven(shown):
    search = tuning.Search(tuning.Settings("iris", (0.01, 1.0), 0.05))
    said = tuning.proof(search.state)
    assert said == (
        "Nothing is proven yet for all C in [0.01, 1]: achieved eps 100 %, wanted 5 %; "
        "certified: 0 % of the axis; 0 solutions."
    )


def test_no_rounding_makes_more_of_what_is_proven():
    state = reference("iris", (1e-2, 1.0), 0.2)
    state.lower[:] = state.fewest - 1  # 1 / 45 = 0.02222...
    assert "achieved eps 2.23 %, wanted 20 %" in tuning.proof(state)
    state.lower[0, 0] = 0
    state.eps = 0.0
    assert f"certified: {int(100 * state.certified)} % of" in tuning.proof(state)
    assert "has fewer than" not in tuning.proof(state)
