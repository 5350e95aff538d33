"""The player: when solvers are asked for a round, and who is heard."""

import threading
import time

import pytest
from helpers import wait

from workbench.live.player import Player


class Toy:
    """A lane whose rounds are let through one by one, or all if `free`; it counts
    them."""

    busy = together = 0

    def __init__(self, last=10**9, fails_at=None, free=True, cost=0.001):
        self.end = last
        self.fails_at = fails_at
        self.cost = cost
        self.asked = self.evaluated = 0
        self.at = -1
        self.seconds = 0.0
        self.ended = ""
        self.error = None
        self.gate = threading.Semaphore(10**9 if free else 0)

    def advance(self, wait=False):
        self.asked += 1
        self.waited = wait
        Toy.busy += 1
        Toy.together = max(Toy.together, Toy.busy)
        self.gate.acquire()
        time.sleep(0.001)
        Toy.busy -= 1
        if self.at + 1 == self.fails_at:
            self.ended = "failed: the toy broke"
            self.error = ArithmeticError("the toy broke")
            return None
        self.at += 1
        self.seconds += self.cost
        self.ended = "finished" if self.at == self.end else ""
        return {"round": self.at}

    def play(self, seconds, go, budget):
        row = self.advance()
        return [row] if row else []

    def evaluate_now(self):
        self.evaluated += 1
        return {}

    def back(self):
        self.at -= self.at > 0
        self.ended = ""


class Heard(Player):
    """A player, and the rounds and statuses that were heard of it."""

    def __init__(self):
        self.rounds = []
        self.statuses = []
        super().__init__(self.hear)

    def hear(self, lane, rows):
        if lane is None:
            self.statuses += (
                [self.status] if self.statuses[-1:] != [self.status] else []
            )
        else:
            self.rounds += (
                [("back to", lane.at)] if rows is None else [r["round"] for r in rows]
            )

    def until(self, status):
        wait(lambda: self.status == status)


@pytest.fixture
def player():
    player = Heard()
    yield player
    player.stop()


def always(*toys):
    """Arrange these lanes, made once."""
    return lambda lanes: [*toys]


def new(made, **settings):
    """Arrange one new lane if there is none to resume."""
    return lambda lanes: lanes or (made.append(Toy(**settings)), made[-1:])[1]


def test_nothing_is_asked_for_while_paused(player):
    toy = Toy()
    player.run(always(toy))
    wait(lambda: len(player.rounds) > 5)
    player.pause()
    player.pause()  # a second press hangs nothing
    player.until("paused")
    asked = toy.asked
    seen = len(player.rounds)
    time.sleep(0.05)
    assert toy.asked == asked == seen == len(player.rounds) and toy.evaluated == 1
    player.run(always(toy))
    wait(lambda: len(player.rounds) > seen + 5)
    assert player.rounds == list(range(len(player.rounds))), "went on where it was"
    # arranged in mid-run, it plays from the next round on
    Toy.together, second = 0, Toy(last=2)
    player.run(always(second))
    player.until("finished")
    assert second.at == 2 and player.lanes == [second] and Toy.together == 1
    toy, player.pause_between = Toy(), 60.0  # slowed down: a pause does not wait
    player.run(always(toy))
    wait(lambda: toy.at == 0)
    player.pause()
    player.until("paused")
    assert toy.asked == 1


def test_back_turns_every_lane_back_by_one_and_pauses(player):
    toys = Toy(last=3), Toy(last=3)
    player.back()
    assert player.status == "ready", "there is nothing to turn back"
    for n in range(4):
        player.step(always(*toys))
        wait(lambda n=n: toys[1].at == n and not player._worker)
    assert player.lanes == [*toys] and [toy.asked for toy in toys] == [4, 4]
    player.back()
    wait(lambda: player.status == "paused" and toys[1].at == 2)
    assert player.rounds[-2:] == [("back to", 2)] * 2
    player.run(always(*toys))
    player.until("finished")
    assert [toy.at for toy in toys] == [3, 3] and player.error is None
    assert player.statuses[-3:] == ["starting", "running", "finished"]


def test_the_lane_with_the_least_solver_time_goes_first(player):
    slow = Toy(cost=0.1)
    quick = Toy(cost=0.02)
    failing = Toy(fails_at=2)
    for budget in (1.0, 2.0):
        player.budget = budget
        player.run(always(slow, quick, failing))
        player.until("finished")
        assert round(10 * budget) <= slow.asked <= round(10 * budget) + 1
        assert round(50 * budget) <= quick.asked <= round(50 * budget) + 1
        assert failing.asked == 3
        if budget == 1.0:
            assert str(player.error) == "the toy broke", (
                "it failed alone, and that is said"
            )


def test_quick_presses_are_counted(
    player,
):
    toy = Toy(free=False)
    player.step(always(toy))
    wait(lambda: toy.asked == 1)
    for _ in range(3):
        player.step(always(toy))
    toy.gate.release(4)
    wait(lambda: toy.at == 3 and player.status == "paused")
    player.back()
    player.back()
    wait(lambda: toy.at == 1 and player.status == "paused")
    player.run(always(toy))
    wait(lambda: toy.asked == 5)
    player.pause()
    assert player.status == "pausing"  # until the round in progress ends
    toy.gate.release()
    player.until("paused")
    assert (toy.asked, toy.at) == (5, 2)


def test_an_abandoned_round_ends_before_the_next_run(player):
    made = []
    player.run(new(made, free=False))
    wait(lambda: made and made[0].asked == 1)
    player.stop()
    assert player.lanes == [] and player.status == "stopping"
    player.run(new(made, last=2))
    time.sleep(0.02)
    assert len(made) == 1, "the round of the first is still in progress"
    made[0].gate.release()
    player.until("finished")
    assert player.rounds == [0, 0, 1, 2]
    assert player.lanes == [made[1]] and made[0].asked == 1


def test_a_player_outlives_exceptions_of_lanes_and_listeners(
    player,
):
    player.run(always(Toy(fails_at=3)))
    player.until("failed")
    assert player.rounds == [0, 1, 2] and str(player.error) == "the toy broke"
    player.run(lambda lanes: 1 / 0)  # no lanes can be made
    wait(lambda: isinstance(player.error, ZeroDivisionError))
    player.run(always(Toy(last=1)))
    player.until("finished")
    assert player.error is None
    for deaf_to in (2, 4):
        player = Player(lambda lane, rows, at=deaf_to: lane and lane.at == at and 1 / 0)
        player.run(always(Toy(last=4)))
        wait(lambda player=player: player.status == "failed")
        assert isinstance(player.error, ZeroDivisionError)
        player.run(always(Toy(last=1)))
        wait(lambda player=player: player.status == "finished")
