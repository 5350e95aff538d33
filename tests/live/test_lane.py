"""A lane goes on, turns back and branches."""

from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise

import numpy as np
from helpers import each, refuses

from workbench.live import lane as lanes
from workbench.live.lane import Lane, closed


@dataclass
class Count:
    """A state that counts, and adds what it is told to."""

    round: int
    sum: np.ndarray

    def info(self):
        return {"primal": float(self.sum[0])}


def counting(problem, *, add=1.0, fails_at=-1, last=10**9, state=None):
    s = state or Count(0, np.zeros(1))
    yield s
    while s.round < last:
        s.round += 1
        if s.round == fails_at:
            raise ArithmeticError("the toy broke")
        s.sum += add
        yield s


def same(state, other):
    if isinstance(state, np.random.Generator):
        return state.bit_generator.state == other.bit_generator.state
    if not is_dataclass(state):
        return np.array_equal(state, other)
    return all(
        same(getattr(state, f.name), getattr(other, f.name)) for f in fields(state)
    )


def plain(row):
    return {k: v for k, v in row.items() if k not in ("seconds", "cpu", "test_error")}


SETTINGS = {
    "ww_walrus": {"C": 0.25},
    "mrc_ccg": {"n_max": 5, "m_max": 5},
    "mrc_subgradient": {"steps": 3},
    "memoir_l2": {"batch_size": 20},
    "ls_stagewise": {"n_features": 128, "block": 16},
    "cuts_linear_time": {"gamma": 0.3, "r": 20},
}


@each("solver", SETTINGS)
def test_back_is_one_iterate_and_the_way_on_is_the_same(solver, iris, monkeypatch):
    # A state is kept at the start alone.
    monkeypatch.setattr(lanes, "TIME_FRACTION", 1e-9)
    lane = Lane(solver, iris, SETTINGS[solver])
    assert lane.last == {} and not lane.back()
    lane.advance()
    lane._keeping._next = np.inf
    rows = [dict(lane.last), *(dict(lane.advance()) for _ in range(4))]
    end = deepcopy(lane.state)
    assert lane.back() and lane.back()
    assert lane.state.round == 2 and plain(lane.last) == plain(rows[2])
    assert plain(lane.state.info()) == {k: rows[2][k] for k in plain(lane.state.info())}
    again = [lane.advance(), lane.advance()]
    assert [plain(row) for row in again] == [plain(row) for row in rows[3:]]
    assert same(lane.state, end)
    assert all(a["seconds"] <= b["seconds"] for a, b in pairwise(lane.rows))
    assert all(lane.back() for _ in range(4)) and not lane.back()
    assert plain(lane.last) == plain(rows[0]) and lane.seconds == rows[0]["seconds"]


def test_a_lane_plays_until_it_is_told_otherwise_or_ends(iris):
    lane = Lane(counting, iris, {"last": 9})
    assert len(lane.play(0.0)) == 1
    assert len(lane.play(60.0, lambda: lane.state.round < 7)) == 7
    assert lane.last["round"] == 7
    rows = lane.play(60.0)
    assert len(rows) == 2 and lane.rows[-2:] == rows
    assert lane.ended == lane.trace.stopped_by == "finished"
    assert lane.advance() is None and lane.back()
    assert not lane.ended and lane.trace.stopped_by == "paused"
    assert lane.advance()["primal"] == 9 and lane.advance() is None


def test_a_lane_plays_at_most_one_round_beyond_its_budget(iris):
    rows = Lane("ww_walrus", iris, {}).play(60.0, budget=1e-3)
    assert all(row["seconds"] < 1e-3 for row in rows[:-1])
    assert rows[-1]["seconds"] >= 1e-3


def test_a_gap_closes_in_relation_to_its_bound():
    assert closed({"gap": 1e-7, "upper": 100.0})
    assert not closed({"gap": 1e-7, "upper": 10.0})


def test_a_branch_leaves_its_origin_unchanged(iris):
    lane = Lane("mrc_ccg", iris, {"n_max": 5})
    for _ in range(3):
        lane.advance()
    seconds = lane.seconds
    before = deepcopy(lane.state)
    branch = lane.branch({"n_max": 50})
    assert branch.last["round"] == 2 and branch.last["seconds"] >= seconds
    branch.advance()
    assert same(lane.state, before) and lane.last["round"] == 2
    assert branch.since == 2 and branch.parameters["n_max"] == 50
    assert branch.back() and branch.state.round == 2 and not branch.back()


def test_an_impossible_branch_is_refused(iris):
    lane = Lane("memoir_l2", iris, {"batch_size": 20})
    lane.advance()
    with refuses("eta_1 must be below 1"):
        lane.branch({"eta0": 3.0})
    with refuses("no 'lams'"):
        lane.branch({"lams": 32})
    assert lane.advance()["round"] == 1 and not lane.error


def test_the_iterate_before_a_failure_can_be_had_again(iris):
    lane = Lane(
        counting, iris, {"fails_at": 3}, lambda state: {"test_error": state.sum[0]}
    )
    assert [row["round"] for row in lane.play(60.0)] == [0, 1, 2]
    assert lane.ended == "failed: the toy broke"
    assert isinstance(lane.error, ArithmeticError)
    lane._evaluated = -1
    before = dict(lane.last)
    assert lane.advance() is None
    assert lane.evaluate_now() == before  # not what failed in mid-round
    assert lane.back() and lane.error is None and lane.state.sum[0] == 1


def test_a_measure_that_fails_ends_the_run(iris):
    lane = Lane(counting, iris, {}, lambda state: {} if state.round < 3 else 1 / 0)
    lane._evaluating.due = lambda: False
    lane.play(60.0, lambda: lane.state.round < 3)
    assert not lane.error and lane.evaluate_now()["round"] == 3
    assert isinstance(lane.error, ZeroDivisionError) and lane.advance() is None


def test_old_rows_are_thinned_and_can_be_had_again(iris, monkeypatch):
    monkeypatch.setattr(lanes, "RECENT", 50)
    lane = Lane(counting, iris, {})
    for _ in range(5000):
        lane.advance()
    seen = [row["round"] for row in lane.rows]
    assert seen[-50:] == list(range(4950, 5000)) and seen[:20] == list(range(20))
    assert len(seen) < 500 and max(b / a for a, b in pairwise(seen[1:])) <= 2
    for _ in range(60):
        lane.back()
    assert lane.state.round == lane.last["round"] < 4950
    assert lane.state.sum[0] == lane.state.round


def test_states_fit_their_memory(iris, monkeypatch):
    monkeypatch.setattr(lanes, "MEMORY", 10 * (4096 + 8))
    lane = Lane(counting, iris, {})
    for i in range(100):
        lane.advance(wait=True)
        held = [state.round for state in lane._states]
        assert held[0] == 0 and held[-1] == i and len(held) <= 11
