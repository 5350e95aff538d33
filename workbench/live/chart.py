"""The two canvases of the live view: the convergence of runs, and the inside of one of
them."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anywidget

from workbench.core.kinds import Record
from workbench.core.stream import Row, geometric
from workbench.live.lane import Lane
from workbench.live.pictures import Picture, pack

UPDATES = 10  # drawn per second, at most
KEPT = 12  # curves on the canvas
SIZE = 5  # numbers of a point: seconds, round, lower, upper, test error
OBJECTIVES = (
    "upper",
    "primal",
    "squared_error",
)  # a row's first of these is drawn above
NOT_SHOWN = (
    "cpu",
    "test_error",
    "stopped_by",
)  # the last two have a place of their own
NO_POINT = (0.0, 0.0, math.nan, math.nan, math.nan)
in_geometric = geometric(1.002)  # the first 500 rows, later two in a thousand


@dataclass
class Curve:
    """The points of one run: seconds, round, best lower, best upper, test error of its
    rows.

    The test error is NaN if a row was not evaluated. A solver without a certificate has
    no lower bounds; its objective is drawn instead of the upper ones, unchanged: the
    best of many estimates would be too good.
    """

    number: int
    name: str
    colour: str
    settings: Sequence[str] = ()
    row: Row = field(default_factory=dict)
    ended: str = ""
    live: bool = True
    lane: Lane | None = None  # None once it is released
    points: array = field(default_factory=lambda: array("d"))
    latest: tuple[float, ...] = NO_POINT
    sent: int = 0  # points that a page has for good
    seen: int = 0  # rows, and those that were evaluated
    evaluated: int = 0

    def add(self, rows: list[Row]) -> None:
        """Add rows; only some of them stay as points when the next ones come."""
        for row in rows:
            _, _, lower, upper, _ = self.latest
            objective = next((row[key] for key in OBJECTIVES if key in row), upper)
            if not lower >= (new := row.get("lower", math.nan)) and new == new:
                lower = new
            if "upper" not in row or not upper <= objective:
                upper = objective
            error = row.get("test_error", math.nan)
            self.row, self.latest = (
                row,
                (row["seconds"], row["round"], lower, upper, error),
            )
            self.seen += 1
            self.evaluated += error == error
            counts = [self.seen] + [self.evaluated] * (error == error)
            if any(in_geometric({"round": count}) for count in counts):
                self.points.extend(self.latest)

    def restart(self, rows: list[Row]) -> None:
        """Replace all points by those of these rows, of a run that has gone back."""
        self.points, self.latest = array("d"), NO_POINT
        self.sent = self.seen = self.evaluated = 0
        self.add(rows)

    def news(self) -> tuple[Record, bytes]:
        """Return the curve's texts, and in binary the new points and the latest one."""
        numbers = {
            k: f"{v:.4g}" if isinstance(v, float) else v for k, v in self.row.items()
        }
        said = {
            "number": self.number,
            "name": self.name,
            "settings": self.settings,
            "colour": self.colour,
            "ended": self.ended,
            "live": self.live,
            "numbers": {k: v for k, v in numbers.items() if k not in NOT_SHOWN},
            "at": self.sent,
        }
        points = self.points[SIZE * self.sent :] + array("d", self.latest)
        self.sent = len(self.points) // SIZE
        return said, points.tobytes()


def _module(*names: str) -> str:
    """Return these sources as the single module that anywidget loads."""
    sources = (Path(__file__).with_name(f"{name}.js") for name in names)
    return "\n".join(source.read_text(encoding="utf-8") for source in sources)


CHART = _module("canvas", "curves", "table", "chart")
INSIDE = _module("canvas", "inside")


class Chart(anywidget.AnyWidget):
    """Curves over solver time: takes rows from any thread, and sends new points to all
    pages.

    Points are sent as binary appends with their position, so that none is drawn twice.
    A page that is opened later requests all of them. A removal by a page, or `clear`,
    can be undone once.

    Parameters
    ----------
    pending : returns a line on changes that have no effect yet; called before every
        message
    release : releases the run whose curve a page has removed
    """

    _esm = CHART

    def __init__(
        self, pending: Callable[[], str] = str, release: Callable[[Curve], object] = id
    ):
        super().__init__()
        self.curves: list[Curve] = []
        self.unanswered = 0  # pings since a page has answered
        self._pending, self._release = pending, release
        self._gone: list[Curve] = []  # curves that undo brings back
        self._said: Record = {"status": "ready", "error": "", "note": ""}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self.on_msg(self._answer)

    def begin(self, name: str, colour: str, settings: Sequence[str] = ()) -> Curve:
        """Return a new curve; of those that are no longer live the latest are kept."""
        with self._lock:
            if not self.curves:
                self._gone = []  # their numbers are given again
            known = [curve.number for curve in [*self.curves, *self._gone]]
            curve = Curve(1 + max(known, default=0), name, colour, settings)
            old = [c for c in self.curves if not c.live]
            spare = max(0, len(self.curves) + 1 - KEPT)
            self.curves = [c for c in self.curves if c not in old[:spare]] + [curve]
            return curve

    def add(self, curve: Curve, rows: list[Row], restart: bool = False) -> None:
        """Draw new rows, or only these if the run has gone back."""
        with self._lock:
            curve.restart(rows) if restart else curve.add(rows)
        self.say()

    def say(self, **words: object) -> None:
        """Show a ``status``, ``error``, ``note`` or other field that chart.js knows, in
        0.1 s."""
        with self._lock:
            self._said |= words
            if self._timer is None:
                self._timer = threading.Timer(1 / UPDATES, self._flush)
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Remove all curves and texts."""
        with self._lock:
            self._gone, self.curves = self.curves or self._gone, []
        self.say(error="", note="")

    def _flush(self) -> None:
        with self._lock:
            self._timer = None
            news = [curve.news() for curve in self.curves]
            curves = [said for said, _ in news]
            content = {
                "pending": self._pending(),
                "gone": len(self._gone),
                "curves": curves,
            }
            self.send(self._said | content, [points for _, points in news])

    def _answer(self, _: object, content: object, buffers: object) -> None:
        """Remove the curve that a page names, or undo this; send everything to a new
        page."""
        words = content if isinstance(content, dict) else {}
        with self._lock:
            self.unanswered = 0
            for gone in self.curves:
                if gone.number == words.get("remove") and (gone.ended or not gone.live):
                    self.curves, self._gone = (
                        [c for c in self.curves if c is not gone],
                        [gone],
                    )
                    self._release(gone)
            if "undo" in words:
                self.curves = sorted(
                    [*self.curves, *self._gone], key=lambda c: c.number
                )
                self._gone = []
            for curve in [] if "pong" in words else self.curves:
                curve.sent = 0
        self.say()


class Inside(anywidget.AnyWidget):
    """Pictures of a method's own state, as :mod:`workbench.live.pictures` describes
    them."""

    _esm = INSIDE

    def __init__(self):
        super().__init__()
        self.shown: tuple[Record, list[bytes]] = ({"title": "", "pictures": []}, [])
        self.on_msg(lambda *_: self.send(*self.shown))

    def show(self, title: str, pictures: list[Picture]) -> None:
        """Show these pictures instead of the last ones."""
        words, buffers = pack(pictures)
        self.shown = ({"title": title, "pictures": words}, buffers)
        self.send(*self.shown)
