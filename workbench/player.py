"""Behind the live view, without widgets: a stream played in a thread, and the curve it leaves."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.stream import Row, State

Stream = Iterator[tuple[Row, State]]
LIVE = ("starting", "running", "pausing", "paused")  # there is a run that can go on


class Player:
    """Plays one stream at a time in a thread of its own: run, pause, step, stop, reset.

    ``next()`` is called only while rounds are allowed: none after `pause`, one after `step`, any
    number after `run`. Nothing interrupts a round; what is asked for meanwhile is done when it
    ends. All methods return at once and may be called from any thread.

    Parameters
    ----------
    hear : ``hear(row)``, called for every row, and with None when only the status has changed

    Attributes
    ----------
    status : ready, starting, running, pausing, paused, stopping, stopped, finished or failed
    error : the exception that ended a failed run, else None
    """

    def __init__(self, hear: Callable[[Row | None], None] = lambda row: None):
        self.status = "ready"
        self.error: Exception | None = None
        self._hear = hear
        self._allowed = 0.0  # rounds that may still be asked for
        self._current: threading.Thread | None = None  # whose rows are heard
        self._latest: threading.Thread | None = None  # may still be busy with an abandoned round
        self._change = threading.Condition()

    def run(self, start: Callable[[], Stream]) -> None:
        """Play on, or from ``start()``, called in the thread, where there is no run to go on."""
        self._play(start, math.inf)

    def step(self, start: Callable[[], Stream]) -> None:
        """Play one round as `run` would, then pause."""
        self._play(start, 1)

    def pause(self) -> None:
        """Ask for no further round until `run` or `step`."""
        with self._change:
            self._allowed = 0
            if self.status in ("starting", "running"):
                self._say("pausing")

    def stop(self) -> None:
        """End the run; the next one begins anew."""
        with self._change:
            if self.status in LIVE:
                self._say("stopping")

    def reset(self) -> None:
        """Be as new at once; what a round still in progress finds is not heard."""
        with self._change:
            self._current, self.error = None, None
            self._say("ready")

    def _play(self, start: Callable[[], Stream], rounds: float) -> None:
        with self._change:
            self._allowed = rounds
            if self.status in LIVE:
                self._say("starting" if self.status == "starting" else "running")
                return
            worker = threading.Thread(target=self._work, args=(start, self._latest), daemon=True)
            self._current, self._latest, self.error = worker, worker, None
            self._say("starting")
            worker.start()

    def _work(self, start: Callable[[], Stream], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # two solvers at once would share the cores and spoil both clocks
        if self._is_over():
            return self._end("stopped")
        try:
            stream = start()
            while self._may_go_on():
                item = next(stream, None)
                if item is None:
                    return self._end("finished")
                with self._change:
                    if self._is_current():
                        self._hear(item[0])
            self._end("stopped")
        except Exception as error:
            self._end("failed", error)

    def _may_go_on(self) -> bool:
        """Wait until a round is allowed; False when the run is over instead."""
        with self._change:
            if self._is_current() and not self._allowed and self.status in LIVE:
                self._say("paused")
            self._change.wait_for(lambda: self._allowed or self._is_over())
            if self._is_over():
                return False
            self._allowed -= 1
            if self.status != "running":
                self._say("running")
            return True

    def _is_current(self) -> bool:
        return self._current is threading.current_thread()

    def _is_over(self) -> bool:
        return not self._is_current() or self.status not in LIVE

    def _end(self, status: str, error: Exception | None = None) -> None:
        with self._change:
            if self._is_current():
                self.error = error
                self._say(status)

    def _say(self, status: str) -> None:
        self.status = status
        self._change.notify_all()
        self._hear(None)


OBJECTIVES = ("upper", "primal", "squared_error")  # a row's first of these is drawn above


@dataclass
class Curve:
    """One run on the canvas: (seconds, best lower, best upper, test error) of its rows.

    A solver without a certificate has no lower bounds; its objective is drawn in the place of the
    upper ones, as it is: the best of many estimates would be too good.
    """

    number: int
    label: str
    colour: str
    points: array = field(default_factory=lambda: array("d"))
    latest: tuple[float, float, float, float] = (0.0, math.nan, math.nan, math.nan)
    sent: int = 0  # points that a page has for good

    def add(self, row: Row, keep: bool) -> None:
        """Take in a row; only a kept one stays as a point when the next comes."""
        _, lower, upper, error = self.latest
        objective = next((row[key] for key in OBJECTIVES if key in row), upper)
        lower = float(np.fmax(lower, row.get("lower", math.nan)))
        upper = float(np.fmin(upper, objective) if "upper" in row else objective)
        self.latest = (row["seconds"], lower, upper, row.get("test_error", error))
        if keep:
            self.points.extend(self.latest)

    def news(self) -> tuple[dict[str, Any], bytes]:
        """Return what to draw: the curve's words, and the new points with the latest, binary."""
        words = {"number": self.number, "label": self.label, "colour": self.colour, "at": self.sent}
        points = self.points[4 * self.sent :] + array("d", self.latest)
        self.sent = len(self.points) // 4
        return words, points.tobytes()
