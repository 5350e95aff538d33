"""The two canvases of the live view: the convergence of runs, and the inside of one."""

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

UPDATES = 10  # messages per second, at most
KEPT = 12  # curves on the canvas, at most
SIZE = 5  # numbers of a point: seconds, round, lower, upper, test error
# The first of these that a row has is the upper curve.
OBJECTIVES = ("upper", "primal", "squared_error")
TEXTS = ("number", "name", "settings", "colour", "ended", "live")  # sent per curve
NOT_SHOWN = ("cpu", "test_error", "stopped_by")  # not among the latest numbers
NO_POINT = (0.0, math.nan, math.nan, math.nan, math.nan)
# The first 500 rows, then one row each time that their number has grown by 0.2 %.
in_geometric = geometric(1.002)


@dataclass
class Curve:
    """The points of one run: seconds, round, best bounds and test error of its rows.

    The test error is NaN if a row was not evaluated. A solver without a certificate has
    no lower bounds, and its objective is drawn instead of upper bounds. The objective
    of each row is drawn, because the best of many estimates would be too low.

    Attributes
    ----------
    number : number of the curve on the canvas, from 1
    settings : texts about the run, such as its data and parameters
    row : the latest row
    ended : why the run ended, empty if it has not
    live : whether the run can be resumed
    lane : the run, or None once it is released
    points : the numbers of all points, :data:`SIZE` for each point
    latest : the numbers of the latest row
    sent : the number of points that have been sent and will not change
    seen, evaluated : the numbers of rows so far and of evaluated rows
    """

    number: int
    name: str
    colour: str
    settings: Sequence[str] = ()
    row: Row = field(default_factory=dict)
    ended: str = ""
    live: bool = True
    lane: Lane | None = None
    points: array = field(default_factory=lambda: array("d"))
    latest: tuple[float, ...] = NO_POINT
    sent: int = 0
    seen: int = 0
    evaluated: int = 0

    def add(self, rows: list[Row]) -> None:
        """Add rows; only some of them remain as points once later rows follow."""
        for row in rows:
            self.row = row
            self.latest = self._point(row)
            self.seen += 1
            due = in_geometric({"round": self.seen})
            if "test_error" in row:
                self.evaluated += 1
                due = due or in_geometric({"round": self.evaluated})
            if due:
                self.points.extend(self.latest)

    def _point(self, row: Row) -> tuple[float, ...]:
        """Return the numbers of a row, with the best bounds so far."""
        _, _, lower, upper, _ = self.latest
        new = row.get("lower", math.nan)
        if not math.isnan(new) and not lower >= new:  # there may be no bound so far
            lower = new
        objective = next((row[key] for key in OBJECTIVES if key in row), upper)
        if "upper" not in row or not upper <= objective:
            upper = objective
        error = row.get("test_error", math.nan)
        return row["seconds"], row["round"], lower, upper, error

    def restart(self, rows: list[Row]) -> None:
        """Replace all points by the points of these rows, after a run has gone back."""
        self.points = array("d")
        self.latest = NO_POINT
        self.sent = self.seen = self.evaluated = 0
        self.add(rows)

    def news(self) -> tuple[Record, bytes]:
        """Return the curve's texts, and in binary the new points and the latest one."""
        numbers = {
            name: f"{value:.4g}" if isinstance(value, float) else value
            for name, value in self.row.items()
            if name not in NOT_SHOWN
        }
        texts = {name: getattr(self, name) for name in TEXTS}
        texts |= {"numbers": numbers, "at": self.sent}
        points = self.points[SIZE * self.sent :] + array("d", self.latest)
        self.sent = len(self.points) // SIZE
        return texts, points.tobytes()


def _module(*names: str) -> str:
    """Return these sources as the single module that anywidget loads."""
    sources = (Path(__file__).with_name(f"{name}.js") for name in names)
    return "\n".join(source.read_text(encoding="utf-8") for source in sources)


CHART = _module("canvas", "curves", "pens", "table", "page", "chart")
INSIDE = _module("canvas", "inside")


class Chart(anywidget.AnyWidget):
    """A chart of curves over solver time; it accepts rows from any thread.

    New points go to all pages, in binary and with their position, so that none is drawn
    twice. A page that is opened later requests all points. Curves that a page or
    `clear` has removed can be brought back, the latest first.

    Parameters
    ----------
    pending : function that returns a line about changes that have no effect yet; it is
        called before every message
    release : function that releases the run whose curve a page has removed
    ask : function that is called with every message of a page; it handles the buttons
        and the saving of runs
    """

    _esm = CHART

    def __init__(
        self,
        pending: Callable[[], str] = str,
        release: Callable[[Curve], object] = id,
        ask: Callable[[Record], object] = id,
    ):
        super().__init__()
        self.curves: list[Curve] = []
        self.unanswered = 0  # pings since a page last answered
        self._pending, self._release = pending, release
        self._ask = ask
        self._gone: list[list[Curve]] = []  # curves that undo brings back
        self._said: Record = {"status": "ready", "error": "", "note": ""}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self.on_msg(self._answer)

    def begin(self, name: str, colour: str, settings: Sequence[str] = ()) -> Curve:
        """Return a new curve; drop the oldest ended ones beyond :data:`KEPT` curves."""
        with self._lock:
            if not self.curves:
                self._gone = []  # their numbers are used again
            known = [curve.number for curve in sum(self._gone, self.curves)]
            new = Curve(1 + max(known, default=0), name, colour, settings)
            old = [curve for curve in self.curves if not curve.live]
            surplus = max(0, len(self.curves) + 1 - KEPT)
            # A new list: other threads may be reading the old one.
            kept = [curve for curve in self.curves if curve not in old[:surplus]]
            self.curves = [*kept, new]
            return new

    def add(self, curve: Curve, rows: list[Row], restart: bool = False) -> None:
        """Draw new rows; with `restart`, draw these instead of all earlier ones."""
        with self._lock:
            (curve.restart if restart else curve.add)(rows)
        self.say()

    def say(self, **words: object) -> None:
        """Show a ``status``, ``error``, ``note`` or other field that chart.js knows.

        The message is sent within 0.1 s.
        """
        with self._lock:
            self._said |= words
            if self._timer is None:
                self._timer = threading.Timer(1 / UPDATES, self._flush)
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Remove all curves, the error and the note."""
        with self._lock:
            self._gone += [self.curves] if self.curves else []
            self.curves = []
        self.say(error="", note="")

    def _flush(self) -> None:
        """Send the texts, and the new points of all curves."""
        with self._lock:
            self._timer = None
            news = [curve.news() for curve in self.curves]
            content = self._said | {
                "pending": self._pending(),
                "gone": len(self._gone),
                "curves": [texts for texts, _ in news],
            }
            self.send(content, [points for _, points in news])

    def _answer(self, _: object, content: object, buffers: object) -> None:
        """Do what a page requests, and send everything to a new page.

        A request removes a curve or undoes a removal; `ask` handles the others.
        """
        words = content if isinstance(content, dict) else {}
        self._ask(words)
        with self._lock:
            self.unanswered = 0
            for curve in self.curves:
                over = curve.ended or not curve.live
                if over and curve.number == words.get("remove"):
                    self.curves = [other for other in self.curves if other is not curve]
                    self._gone.append([curve])
                    self._release(curve)
            if "undo" in words and self._gone:
                curves = [*self.curves, *self._gone.pop()]
                self.curves = sorted(curves, key=lambda curve: curve.number)
            if "wants" in words:
                for curve in self.curves:
                    curve.sent = 0
        self.say()


class Inside(anywidget.AnyWidget):
    """Pictures of a method's state, which :mod:`workbench.live.pictures` describes."""

    _esm = INSIDE

    def __init__(self):
        super().__init__()
        self.shown: tuple[Record, list[bytes]] = ({"title": "", "pictures": []}, [])
        self.on_msg(lambda *_: self.send(*self.shown))

    def show(self, title: str, pictures: list[Picture]) -> None:
        """Show these pictures instead of the last ones."""
        words, buffers = pack(pictures)
        self.shown = {"title": title, "pictures": words}, buffers
        self.send(*self.shown)
