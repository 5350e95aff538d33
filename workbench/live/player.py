"""The thread that plays lanes: run, pause, step, back and stop, without widgets."""

import math
import threading
from collections.abc import Callable, Iterable

from workbench.core.stream import Row
from workbench.live.lane import Lane

# Two dashboards that play together would disturb each other's times.
ONE_AT_A_TIME = threading.Lock()
# Wall seconds that a lane plays before another one does or its view is updated.
SLICE_S = 0.02
PLAYING = ("starting", "running")
AT_REST = ("paused", "finished", "failed", "stopped")
Arrange = Callable[[list[Lane]], list[Lane]]


class Player:
    """Play lanes in turn; the one with the least solver seconds is always next.

    The thread runs while rounds are requested: any number of them after `run`, one per
    lane after `step`. Nothing interrupts a round: a request that comes during a round
    is carried out at the end of the round. A lane that fails ends, and the others go
    on. All methods return immediately and may be called from any thread.

    If several ``arrange`` functions are given before one is called, only the last one
    is called. So each function must make all requested changes, not only the latest
    one.

    Parameters
    ----------
    on_rows : ``on_rows(lane, rows)`` for new rows of a lane, an empty list if it has
        ended or paused; ``on_rows(lane, None)`` for a lane that has gone back;
        ``on_rows(None, None)``, which must return quickly, if only the status or
        `lanes` have changed

    Attributes
    ----------
    status : ready, starting, running, pausing, paused, stopping, stopped, finished or
        failed
    error : the exception that kept lanes from being made, or else the latest one of a
        lane, or None
    lanes : the lanes that `run` resumes
    budget : the wall seconds that the solver of a lane may take
    pause_between : seconds to wait after every round, so that it can be watched
    """

    def __init__(self, on_rows: Callable[[Lane | None, list[Row] | None], None]):
        self.status = "ready"
        self.error: Exception | None = None
        self.lanes: list[Lane] = []
        self.budget = math.inf
        self.pause_between = 0.0
        self._on_rows = on_rows
        self._arrange: Arrange | None = None  # to be called before the next round
        self._rounds = 0.0  # requested and not played yet; negative to go back
        self._worker: threading.Thread | None = None
        self._change = threading.Condition(threading.RLock())

    def run(self, arrange: Arrange) -> None:
        """Play on; ``arrange(lanes) -> lanes`` is called first, between two rounds."""
        self._ask(arrange, math.inf)

    def step(self, arrange: Arrange) -> None:
        """Play one round of each lane as `run` would, then pause."""
        self._ask(arrange, 1)

    def back(self) -> None:
        """Take each lane back by one row, then pause."""
        if self.lanes:
            self._ask(None, -1)

    def pause(self) -> None:
        """Play no further round until `run` or `step`."""
        with self._change:
            self._rounds = 0
            if self.status in PLAYING:
                self._say("pausing")

    def stop(self) -> None:
        """End the run; the next one starts from the beginning."""
        with self._change:
            self.lanes = []
            self._arrange = None
            self._rounds = 0
            self.error = None
            if self.status != "ready":
                self._say("stopping" if self._worker else "stopped")

    def _ask(self, arrange: Arrange | None, rounds: float) -> None:
        with self._change:
            add_up = 0 < rounds * self._rounds < math.inf  # clicks during a round
            self._rounds = rounds + (self._rounds if add_up else 0)
            self._arrange = arrange or self._arrange
            self._say("starting")
            if self._worker is None:
                self.error = None
                self._worker = threading.Thread(target=self._work, daemon=True)
                self._worker.start()

    def _work(self) -> None:
        """Carry out requests until there are none, then report the outcome."""
        lanes = self.lanes
        outcome = "paused"
        while True:
            with self._change:
                rounds = self._rounds
                if rounds:
                    self._rounds = rounds if rounds == math.inf else 0
                    arrange = self._arrange
                    self._arrange = None
                    if self.status != "running":
                        self._say("running")
            try:
                if rounds:
                    lanes = self._arranged(arrange, lanes)
                    outcome = self._play(lanes, rounds)
                else:
                    self._evaluate(lanes)
            except Exception as error:
                outcome = "failed"
                with self._change:
                    self.error = error
                    self._rounds = 0
                    self._arrange = None
            with self._change:
                # Everything is evaluated, and nothing is requested.
                if not rounds and not self._rounds:
                    self._worker = None
                    self._say("stopped" if self.status == "stopping" else outcome)
                    return

    def _arranged(self, arrange: Arrange | None, lanes: list[Lane]) -> list[Lane]:
        """Return the lanes to play, and evaluate those that are no longer played."""
        arranged = arrange(self.lanes) if arrange else self.lanes
        self._evaluate(lane for lane in lanes if lane not in arranged)
        with self._change:
            if self.status != "stopping":
                self.lanes = arranged
                self._on_rows(None, None)
        return arranged

    def _play(self, lanes: list[Lane], rounds: float) -> str:
        """Play `rounds` rounds, or a slice of time if `rounds` is infinite.

        Return the status that follows if no further rounds are due.
        """
        if rounds < 0:
            self.error = None
            for lane in lanes * int(-rounds):
                lane.back()
                self._tell(lane, None)
            return "paused"
        with ONE_AT_A_TIME:
            for _ in range(1 if rounds == math.inf else int(rounds)):
                if rounds == math.inf and not self._rounds:
                    return "paused"  # pause was pressed while the lanes were made
                self._round(lanes, rounds)
        if self._playing(lanes):
            return "paused"
        with self._change:
            if self._arrange is None and self._rounds == math.inf:
                self._rounds = 0
        return "failed" if lanes and all(lane.error for lane in lanes) else "finished"

    def _round(self, lanes: list[Lane], rounds: float) -> None:
        """Play a round of each lane, or a slice of the one with least solver time."""
        playing = self._playing(lanes)
        if rounds == math.inf and playing:
            playing = [min(playing, key=lambda lane: lane.seconds)]
        for lane in playing:
            if rounds < math.inf or self.pause_between:
                row = lane.advance(wait=True)
                rows = [row] if row else []
            else:
                rows = lane.play(SLICE_S, self._unchanged, self.budget)
            if lane.ended and not lane.error:
                lane.evaluate_now()
            self._tell(lane, rows)
        with self._change:
            self._change.wait_for(lambda: not self._rounds, self.pause_between)

    def _playing(self, lanes: list[Lane]) -> list[Lane]:
        return [lane for lane in lanes if not lane.ended and lane.seconds < self.budget]

    def _unchanged(self) -> bool:
        """Return whether there was no request since the round began; this is fast."""
        return self._rounds > 0 and self._arrange is None and self.status == "running"

    def _evaluate(self, lanes: Iterable[Lane]) -> None:
        """Evaluate the present iterates, and pass their rows on."""
        for lane in lanes:
            row = lane.evaluate_now()
            if row:
                self._tell(lane, [row])
                self._tell(lane, [])

    def _tell(self, lane: Lane, rows: list[Row] | None) -> None:
        self.error = lane.error or self.error
        self._on_rows(lane, rows)

    def _say(self, status: str) -> None:
        self.status = status
        self._change.notify_all()
        self._on_rows(None, None)
