"""The player: when solvers are asked for a round, and who is heard."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.live.player import Player


class Toy:
    """A lane whose rounds are let through one by one, or all where `free`; it counts them."""

    busy = together = 0

    def __init__(self, last=10**9, fails_at=None, free=True, cost=0.001):
        self.end, self.fails_at, self.cost = last, fails_at, cost
        self.asked = self.settled = 0
        self.at, self.seconds, self.ended, self.error = -1, 0.0, "", None
        self.gate = threading.Semaphore(10**9 if free else 0)

    def advance(self, wait=False):
        self.asked += 1
        Toy.busy += 1
        Toy.together = max(Toy.together, Toy.busy)
        self.gate.acquire()
        time.sleep(0.001)
        Toy.busy -= 1
        self.waited = wait
        if self.at + 1 == self.fails_at:
            self.ended, self.error = "failed: the toy broke", ArithmeticError("the toy broke")
            return None
        self.at += 1
        self.seconds += self.cost
        self.ended = "finished" if self.at == self.end else ""
        return {"round": self.at}

    def play(self, seconds, go):
        row = self.advance()
        return [row] if row else []

    def evaluate_now(self):
        self.settled += 1
        return {}

    def back(self):
        self.at -= self.at > 0
        self.ended = ""


@pytest.fixture
def heard():
    """Return a player, and the rounds and statuses that were heard of it."""
    rounds, statuses = [], []

    def hear(lane, rows):
        if lane is None:
            statuses.extend([player.status] if statuses[-1:] != [player.status] else [])
        elif rows is None:
            rounds.append(("back to", lane.at))
        else:
            rounds.extend(row["round"] for row in rows if row)

    player = Player(hear)
    yield SimpleNamespace(player=player, rounds=rounds, statuses=statuses)
    player.reset()


def wait(condition, limit=20.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def always(*toys):
    """Arrange these lanes, made once."""
    return lambda lanes: [*toys]


def anew(made, **settings):
    """Arrange one new lane where there is none to go on with."""

    def arrange(lanes):
        if not lanes:
            made.append(Toy(**settings))
        return lanes or [made[-1]]

    return arrange


def rest(player):
    wait(lambda: player.status == "paused")


def test_a_run_plays_to_its_end(heard):
    player = heard.player
    player.run(always(Toy(last=4)))
    wait(lambda: player.status == "finished")
    assert heard.rounds == [0, 1, 2, 3, 4]
    assert heard.statuses == ["starting", "running", "finished"]
    assert player.error is None


def test_each_step_asks_each_lane_for_one_round(heard):
    player, toys = heard.player, (Toy(), Toy(cost=5.0))
    for n in range(1, 5):
        player.step(always(*toys))
        wait(lambda n=n: len(heard.rounds) == 2 * n and player.status == "paused")
        assert [toy.asked for toy in toys] == [n, n] and toys[0].waited
    assert player.lanes == [*toys]


def test_nothing_is_asked_for_while_paused(heard):
    player, toy = heard.player, Toy()
    player.run(always(toy))
    wait(lambda: len(heard.rounds) > 5)
    player.pause()
    rest(player)
    asked, seen = toy.asked, len(heard.rounds)
    time.sleep(0.1)
    assert toy.asked == asked == seen == len(heard.rounds) and toy.settled == 1
    player.run(always(toy))
    wait(lambda: len(heard.rounds) > seen + 5)
    assert heard.rounds == list(range(len(heard.rounds))), "went on where it was"


def test_a_round_in_progress_ends_before_the_pause(heard):
    player, toy = heard.player, Toy(free=False)
    player.run(always(toy))
    wait(lambda: toy.asked == 1)
    player.pause()
    assert player.status == "pausing" and heard.rounds == []
    toy.gate.release()
    rest(player)
    assert heard.rounds == [0] and toy.asked == 1


@pytest.mark.parametrize("ended", [False, True])
def test_back_turns_every_lane_back_by_one_and_pauses(heard, ended):
    player, toys = heard.player, (Toy(last=3), Toy(last=3))
    player.back()
    assert player.status == "ready", "there is nothing to turn back"
    if ended:
        player.run(always(*toys))
        wait(lambda: player.status == "finished")
    else:
        for n in range(1, 4):
            player.step(always(*toys))
            wait(lambda n=n: len(heard.rounds) == 2 * n and player.status == "paused")
    at = toys[0].at
    player.back()
    wait(lambda: player.status == "paused" and toys[1].at == at - 1)
    assert heard.rounds[-2:] == [("back to", at - 1)] * 2
    player.run(always(*toys))
    wait(lambda: player.status == "finished")
    assert [toy.at for toy in toys] == [3, 3]


def test_the_lane_with_the_least_solver_time_goes_first(heard):
    player = heard.player
    player.budget = 1.0
    slow, quick, failing = Toy(cost=0.1), Toy(cost=0.01), Toy(fails_at=2)
    player.run(always(slow, quick, failing))
    wait(lambda: player.status == "finished")
    assert slow.asked in (10, 11) and quick.asked in (100, 101) and failing.asked == 3
    assert str(player.error) == "the toy broke", "it failed alone, and that is said"
    player.budget = 2.0
    player.run(always(slow, quick, failing))
    wait(lambda: player.status == "finished")
    assert slow.asked in (20, 21) and failing.asked == 3, "went on with what time was added"


def test_a_second_press_of_pause_hangs_nothing(heard):
    player, toy = heard.player, Toy()
    player.step(always(toy))
    rest(player)
    player.run(always(toy))
    player.pause()
    rest(player)
    player.step(always(toy))
    at = toy.at
    wait(lambda: toy.at == at + 1)


@pytest.mark.parametrize("press", ["run", "back"])
def test_what_is_pressed_while_the_last_iterate_is_judged_is_not_lost(heard, press):
    player, first, second = heard.player, Toy(last=2), Toy(last=1)
    judging, judged = threading.Event(), threading.Event()
    first.evaluate_now = lambda: (judging.set(), judged.wait(20))[:0]
    player.run(always(first))
    judging.wait(20)
    player.run(always(second)) if press == "run" else player.back()
    judged.set()
    if press == "run":
        wait(lambda: player.status == "finished" and second.at == 1)
    else:
        wait(lambda: player.status == "paused" and first.at == 1)


def test_quick_presses_are_counted(heard):
    player, toy = heard.player, Toy(free=False)
    player.step(always(toy))
    wait(lambda: toy.asked == 1)
    for _ in range(3):
        player.step(always(toy))
    for _ in range(4):
        toy.gate.release()
    wait(lambda: toy.at == 3 and player.status == "paused")
    player.back()
    player.back()
    wait(lambda: toy.at == 1 and player.status == "paused")


def test_a_pause_while_lanes_are_made_lets_no_round_begin(heard):
    player, toy, begun, made = heard.player, Toy(), threading.Event(), threading.Event()

    def slowly(lanes):
        begun.set()
        made.wait(20)
        return [toy]

    player.run(slowly)
    begun.wait(20)
    player.pause()
    made.set()
    rest(player)
    assert toy.asked == 0 and player.lanes == [toy]


@pytest.mark.parametrize("deaf_to", [2, 4])
def test_a_listener_that_fails_ends_the_run_and_is_told(deaf_to):
    def hear(lane, rows):
        if lane is not None and lane.at == deaf_to:
            raise OSError("no canvas")

    player = Player(hear)
    player.run(always(Toy(last=4)))
    wait(lambda: player.status == "failed")
    assert str(player.error) == "no canvas"
    player.run(always(Toy(last=1)))
    wait(lambda: player.status == "finished")


def test_stop_after_the_end_begins_anew(heard):
    player, made = heard.player, []
    player.run(anew(made, last=1))
    wait(lambda: player.status == "finished")
    player.stop()
    assert player.status == "stopped"
    player.step(anew(made))
    rest(player)
    assert len(made) == 2


def test_what_is_arranged_in_mid_run_goes_on_at_the_next_round(heard):
    player, first, second = heard.player, Toy(), Toy(last=2)
    player.run(always(first))
    wait(lambda: first.at > 3)
    player.run(always(second))
    wait(lambda: player.status == "finished")
    assert second.at == 2 and player.lanes == [second]
    asked = first.asked
    time.sleep(0.02)
    assert first.asked == asked and Toy.together == 1


def test_lanes_are_rearranged_in_mid_step_and_the_step_ends_in_a_pause(heard):
    player, first, second = heard.player, Toy(free=False), Toy()
    player.rearrange(always(second))
    assert player.status == "ready" and not player.lanes, "nothing was in progress"
    player.step(always(first))
    wait(lambda: first.asked == 1)
    player.rearrange(always(second))
    first.gate.release()
    rest(player)
    time.sleep(0.02)
    assert player.status == "paused" and second.asked == 0
    player.back()
    wait(lambda: player.status == "paused" and player.lanes == [second])


def test_rounds_can_be_slowed_down_and_a_pause_does_not_wait_for_them(heard):
    player, toy = heard.player, Toy()
    player.pause_between = 60.0
    player.run(always(toy))
    wait(lambda: toy.at == 0)
    time.sleep(0.05)
    assert toy.asked == 1
    player.pause()
    rest(player)
    player.pause_between = 0.0
    player.run(always(toy))
    wait(lambda: toy.at > 5)


@pytest.mark.parametrize("paused", [False, True])
def test_stop_ends_the_run_and_the_next_begins_anew(heard, paused):
    player, made = heard.player, []
    player.run(anew(made))
    wait(lambda: len(heard.rounds) > 3)
    if paused:
        player.pause()
        rest(player)
    player.stop()
    wait(lambda: player.status == "stopped")
    seen = len(heard.rounds)
    player.step(anew(made))
    rest(player)
    assert heard.rounds[seen:] == [0] and len(made) == 2


def test_stop_then_run_at_once_begins_anew(heard):
    player, made = heard.player, []
    player.run(anew(made, free=False))
    wait(lambda: made and made[0].asked == 1)
    player.stop()
    player.step(anew(made))
    assert len(made) == 1, "the round of the first still goes on"
    made[0].gate.release()
    wait(lambda: len(made) == 2 and player.status == "paused")
    assert made[1].at == 0 and player.lanes == [made[1]]


def test_an_exception_ends_the_run_and_the_player_lives_on(heard):
    player = heard.player
    player.run(always(Toy(fails_at=3)))
    wait(lambda: player.status == "failed")
    assert heard.rounds == [0, 1, 2] and str(player.error) == "the toy broke"

    def no_start(lanes):
        raise ValueError("no such data")

    player.run(no_start)
    wait(lambda: str(player.error) == "no such data")
    player.run(always(Toy(last=1)))
    wait(lambda: player.status == "finished")
    assert player.error is None


def test_after_a_reset_an_abandoned_round_is_not_heard(heard):
    player, slow, toy = heard.player, Toy(free=False), Toy(last=2)
    player.run(always(slow))
    wait(lambda: slow.asked == 1)
    player.reset()
    assert player.status == "ready" and player.lanes == []
    player.run(always(toy))
    time.sleep(0.05)
    assert toy.asked == 0, "one at a time: the round of the first still goes on"
    slow.gate.release()
    wait(lambda: player.status == "finished")
    assert heard.rounds == [0, 1, 2] and slow.asked == 1


def test_pressing_everything_at_once_never_plays_two_rounds_together(heard):
    player, made, rng = heard.player, [], np.random.default_rng(0)
    acts = (lambda: player.run(anew(made)), lambda: player.step(anew(made)), player.back)
    acts += (player.pause, player.stop, player.reset)
    Toy.together = 0

    def press(order):
        for i in order:
            acts[i]()
            time.sleep(0.0005)

    hands = [threading.Thread(target=press, args=(rng.integers(0, 6, 100),)) for _ in range(4)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    player.run(anew(made))
    wait(lambda: player.status == "running")
    player.stop()
    wait(lambda: player.status == "stopped")
    assert len(made) > 1 and Toy.together == 1
