"""Lanes played in a thread of their own: run, pause, step, back, stop, reset; no widgets."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable

from workbench.core.stream import Row
from workbench.live.lane import Lane

ONE_AT_A_TIME = threading.Lock()  # two dashboards that play together would spoil both clocks
SLICE = 0.02  # seconds that a lane plays before others do, or its view learns of it
PLAYING = ("starting", "running")
LIVE = (*PLAYING, "pausing", "paused")  # the thread is there and can go on
Arrange = Callable[[list[Lane]], list[Lane]]


class Player:
    """Plays lanes, the one with the least solver seconds first: all under one clock.

    A round is asked for only while rounds are allowed: none after `pause`, one of each lane after
    `step`, any number after `run`. Nothing interrupts a round; what is asked for meanwhile is done
    when it ends. A lane that fails ends alone. All methods return at once and may be called from
    any thread.

    Of several ``arrange`` functions that are given before one is called, only the last is: each
    must lead to all that was asked for, not to the latest change alone.

    Parameters
    ----------
    hear : ``hear(lane, rows)`` for new rows of a lane, none of them where it has ended or come to
        rest; ``hear(lane, None)`` for one that has turned back; ``hear(None, None)`` when only the
        status or `lanes` have changed. All but the last may take their time

    Attributes
    ----------
    status : ready, starting, running, pausing, paused, stopping, stopped, finished or failed
    error : the exception that kept lanes from being made, or of the last one that failed, or None
    lanes : those that `run` goes on with
    budget : solver seconds that a lane may take
    pause_between : seconds to wait after every round, for eyes to follow
    """

    def __init__(
        self, hear: Callable[[Lane | None, list[Row] | None], None] = lambda lane, rows: None
    ):
        self.status = "ready"
        self.error: Exception | None = None
        self.lanes: list[Lane] = []
        self.budget = math.inf
        self.pause_between = 0.0
        self._hear = hear
        self._left: list[Lane] = []  # lanes that were stopped
        self._arrange: Arrange | None = None  # what is still to be arranged
        self._allowed = 0.0  # rounds that may still be asked for; -1 to turn back
        self._current: threading.Thread | None = None  # whose rows are heard
        self._latest: threading.Thread | None = None  # may still be busy with an abandoned round
        self._change = threading.Condition(threading.RLock())

    def run(self, arrange: Arrange) -> None:
        """Play on; ``arrange(lanes) -> lanes`` is called first, between two rounds."""
        self._play(arrange, math.inf)

    def step(self, arrange: Arrange) -> None:
        """Play one round of each lane as `run` would, then pause."""
        self._play(arrange, 1)

    def rearrange(self, arrange: Arrange) -> None:
        """Call `arrange` before the next round where a run or a step is in progress, or not at all.

        How many rounds may be asked for stays as it is: a step ends in a pause.
        """
        with self._change:
            if self.status in PLAYING:
                self._arrange = arrange

    def back(self) -> None:
        """Turn each lane back by one round, then pause."""
        if self.lanes:
            self._play(None, -1)

    def pause(self) -> None:
        """Ask for no further round until `run` or `step`."""
        with self._change:
            self._allowed = 0
            if self.status in PLAYING:
                self._say("pausing")

    def stop(self) -> None:
        """End the run; the next one begins anew."""
        with self._change:
            self._left, self.lanes, self._arrange = self.lanes, [], None
            if self.status in LIVE:
                self._say("stopping")
            elif self.status in ("finished", "failed"):
                self._say("stopped")

    def reset(self) -> None:
        """Be as new at once; what a round still in progress finds is not heard."""
        with self._change:
            self._current, self._arrange, self.error = None, None, None
            self.lanes, self._left = [], []
            self._say("ready")

    def at_rest(self) -> bool:
        """Whether no round is in progress, so that states may be looked at."""
        return self.status in ("paused", "finished", "failed", "stopped")

    def _play(self, arrange: Arrange | None, rounds: float) -> None:
        with self._change:
            both = rounds * self._allowed
            more = self.status in LIVE and 0 < both < math.inf  # quick clicks are counted
            self._allowed = rounds + (self._allowed if more else 0)
            self._arrange = arrange or self._arrange
            if self.status in LIVE:
                self._say("starting" if self.status == "starting" else "running")
                return
            worker = threading.Thread(target=self._work, args=(self._latest,), daemon=True)
            self._current, self._latest, self.error = worker, worker, None
            self._say("starting")
            worker.start()

    def _work(self, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # two threads at once would share the cores and spoil all clocks
        try:
            while rounds := self._ask():
                self._prepare()
                if rounds == math.inf and not self._allowed:
                    continue  # a pause while the lanes were made
                with ONE_AT_A_TIME:
                    can_go_on = self._play_on(rounds)
                if not can_go_on and self._is_settled():
                    break
        except Exception as error:
            return self._end("failed", error)
        failed = [lane.error for lane in self.lanes if lane.error]
        if self.status == "stopping":
            self._end("stopped")
        elif failed and len(failed) == len(self.lanes):
            self._end("failed", failed[-1])
        else:
            self._end("finished", failed[-1] if failed else None)

    def _ask(self) -> float:
        """Wait until something is allowed and return it; 0 when the run is over instead."""
        if not self._allowed:
            self._settle(self.lanes)
        with self._change:
            while not self._allowed and not self._is_over():
                if self.status != "paused":
                    self._say("paused")
                self._change.wait()
            if self._is_over():
                return 0
            if self.status != "running":
                self._say("running")
            allowed = self._allowed
            if allowed < math.inf:
                self._allowed = 0
            return allowed

    def _prepare(self) -> None:
        """Arrange the lanes, which may take time, where that was asked for."""
        with self._change:
            if self._is_over() or self._arrange is None:
                return
            arrange, self._arrange = self._arrange, None
            before = self.lanes
        lanes = arrange(before)
        self._settle(lane for lane in before if lane not in lanes)
        with self._change:
            if not self._is_over():
                self.lanes = lanes
                self._hear(None, None)

    def _play_on(self, rounds: float) -> bool:
        """Do what is allowed; False where no lane can go on."""
        if rounds < 0:
            for _ in range(int(-rounds)):
                self._turn_back()
            return True
        return all([self._round(rounds) for _ in range(1 if rounds == math.inf else int(rounds))])

    def _round(self, rounds: float) -> bool:
        """Play a round, of each lane if only one is allowed; False where none can go on."""
        playing = self._playing()
        one = rounds < math.inf or self.pause_between > 0
        if rounds == math.inf and playing:
            playing = [min(playing, key=lambda lane: lane.seconds)]
        for lane in playing:
            if one:
                row = lane.advance(wait=True)
                rows = [row] if row else []
            else:
                rows = lane.play(SLICE, self._unchanged)
            if lane.ended and not lane.error:
                lane.settle()
            if not self._is_current():
                return False
            self.error = lane.error or self.error
            self._hear(lane, rows)
        if self.pause_between:
            with self._change:
                rest = self.pause_between
                self._change.wait_for(lambda: not self._allowed or self._is_over(), rest)
        return bool(self._playing())

    def _is_settled(self) -> bool:
        """Whether nothing was asked for meanwhile; what is from now on begins another thread."""
        with self._change:
            settled = self._arrange is None and self._allowed >= 0
            if settled and self._is_current() and self.status != "stopping":
                self.status = "ending"
            return settled

    def _unchanged(self) -> bool:
        """Whether nobody has asked for anything since the round began; costs next to nothing."""
        return self._allowed > 0 and self._arrange is None and self.status == "running"

    def _playing(self) -> list[Lane]:
        return [x for x in self.lanes if not x.ended and x.seconds < self.budget]

    def _settle(self, lanes: Iterable[Lane]) -> None:
        """Let the present iterates be judged and looked at."""
        for lane in lanes:
            row = lane.settle()
            if self._is_current() and row:
                self._hear(lane, [row])
                self._hear(lane, [])

    def _turn_back(self) -> None:
        for lane in self.lanes:
            lane.back()
            if self._is_current():
                self._hear(lane, None)
        self.error = next((lane.error for lane in self.lanes if lane.error), None)

    def _is_current(self) -> bool:
        return self._current is threading.current_thread()

    def _is_over(self) -> bool:
        return not self._is_current() or self.status not in LIVE

    def _end(self, status: str, error: Exception | None = None) -> None:
        with self._change:
            if self._is_current():
                self.status = "ending"  # what is asked for from now on begins another thread
                self._arrange = None
        try:
            self._settle(self._left if status == "stopped" else self.lanes)
        except Exception as fault:
            status, error = "failed", fault
        with self._change:
            if self._is_current():
                self.error = error
                self._say(status)

    def _say(self, status: str) -> None:
        self.status = status
        self._change.notify_all()
        self._hear(None, None)
