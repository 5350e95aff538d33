"""The stream: what is on the clock, what is judged, what stops it."""

import math
import time

import numpy as np
from helpers import each
from helpers.streams import Count, count
from pytest import approx

from workbench import below, rounds
from workbench.core import stream
from workbench.core.stream import until, watch


def test_only_the_solver_is_on_the_clock(clock):
    judge = lambda state: time.sleep(0.05) or {"error": 0.25}  # noqa: E731
    rows = []
    for row, _ in watch(count(3, values=[1.0] * 4, pause=0.02), judge):
        rows.append(row)
        time.sleep(0.05)
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    # Round 0 counts too: its set-up is the solver's work.
    assert [row["seconds"] for row in rows] == approx([0.02, 0.04, 0.06, 0.08])
    assert row["value"] == 1.0 and row["error"] == 0.25
    *_, (row, _) = until(watch(count(20, pause=0.01), judge), stream.seconds(0.055))
    assert row["stopped_by"] == "0.055 seconds" and row["round"] == 5


def test_cpu_seconds_are_the_process_s_own():
    *_, (asleep, _) = watch(count(3, pause=0.05))
    assert asleep["seconds"] > 0.2 and asleep["cpu"] < 0.1

    def busy():
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        yield Count()

    [(row, _)] = watch(busy())
    assert row["cpu"] >= 0.05


def test_only_sampled_rows_are_judged_and_all_rows_pass():
    judged = []
    judge = lambda state: judged.append(state.round) or {"error": 0.5}  # noqa: E731
    rows = [
        row for row, _ in watch(count(7), judge, when=lambda row: row["round"] % 3 == 0)
    ]
    assert judged == [0, 3, 6]
    assert len(rows) == 8 and [row["round"] for row in rows if "error" in row] == judged
    # A rule on the judge's numbers waits for a sampled row, one on the solver's own
    # does not.
    for sampled, rule, last in ((5, below("error", 0.5), 5), (0, rounds(7), 7)):
        rows = watch(count(), judge, lambda row, at=sampled: row["round"] == at)
        *_, (row, _) = until(rows, rule)
        assert row["round"] == last and ("error" in row) == (last == sampled)


def test_geometric_samples_are_dense_early_and_sparse_late():
    when = stream.geometric(1.2)
    sampled = [r for r in range(20_000) if when({"round": r})]
    assert sampled[:6] == [0, 1, 2, 3, 4, 5]
    late = np.array([r for r in sampled if r > 100])
    assert np.allclose(late[1:] / late[:-1], 1.2, atol=0.01)
    assert stream.geometric(10)({"round": 1000})


@each(
    "stop, last, reason",
    [
        ({"value": 0.25}, 2, "value <= 0.25"),
        ({"rounds": 3}, 3, "3 rounds"),
        ({"rounds": 0}, 0, "0 rounds"),
        ({"seconds": 0}, 0, "0 seconds"),
        ({"cpu": 0}, 0, "0 processor seconds"),
    ],
)
def test_the_last_row_says_what_stopped_it(stop, last, reason):
    values, [rule] = [1.0, 0.5, 0.25, 0.1, 0.0], stream.stopping(stop)
    asked = []  # no round after the last
    for _ in range(2):  # rules keep no state, and the first that speaks is named
        watched = watch((asked.append(s.round), s)[1] for s in count(values=values))
        rows = [row for row, _ in until(watched, rounds(9), rule, below("nowhere", 1))]
        assert rows[-1]["round"] == last and rows[-1]["stopped_by"] == reason
        assert all("stopped_by" not in row for row in rows[:-1])
        assert rule.__name__ == reason
    assert asked == 2 * [*range(last + 1)]


@each("nan", [math.nan, np.float64("nan"), np.float32("nan")])
def test_a_nan_ends_the_stream_as_diverged(nan):
    rows = [row for row, _ in until(watch(count(values=[1.0, nan, 1.0])), rounds(2))]
    assert [row.get("stopped_by") for row in rows] == [None, "diverged"]
    judged = until(watch(count(), lambda state: {"error": nan}), rounds(9))
    assert [row for row, _ in judged][-1]["stopped_by"] == "diverged"


def test_a_stream_that_ends_by_itself_is_unmarked():
    rows = [
        row for row, _ in until(watch(count(values=[math.inf, math.inf])), rounds(100))
    ]
    assert len(rows) == 2 and "stopped_by" not in rows[-1]  # infinite is not diverged
    assert stream.diverged(rows[-1]) is None
    assert list(until(watch(iter(())), rounds(3))) == []


def pause(duration):
    with stream.off_the_clock():
        time.sleep(duration)


def test_a_solver_may_pause_the_clock(clock):
    rows = [row for row, _ in watch((pause(0.2), s)[1] for s in count(2, pause=0.01))]
    assert rows[-1]["seconds"] == approx(0.03)
    row, _ = next(watch(count(pause=0.5), seconds=100.0, cpu=50.0))  # of a resumed run
    assert row["seconds"] == 100.5 and 50 <= row["cpu"] < 51
