"""The two canvases of the live view: the convergence of runs, and the inside of one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget

from workbench.core.stream import Row
from workbench.live.curve import Curve
from workbench.live.pictures import Picture, pack

UPDATES = 10  # drawn a second, at most
KEPT = 12  # curves on the canvas


def _module(panel: str) -> str:
    """Return the source of a panel below what both share: anywidget loads a single module."""
    sources = (Path(__file__).with_name(name) for name in ("canvas.js", panel))
    return "\n".join(source.read_text(encoding="utf-8") for source in sources)


class Chart(anywidget.AnyWidget):
    """Curves over solver time: takes rows from any thread and sends the news to all pages.

    Points go as binary appends that say where they belong, so that none is drawn twice. A page
    that is opened later asks for all of them.

    Parameters
    ----------
    pending : returns a line on the changes that do not count yet, asked whenever news are sent
    """

    _esm = _module("chart.js")

    def __init__(self, pending: Callable[[], str] = str):
        super().__init__()
        self.curves: list[Curve] = []
        self._pending = pending
        self._count = 0
        self._said = {"status": "ready", "error": "", "note": ""}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self.on_msg(self._answer)

    def begin(self, label: str, colour: str) -> Curve:
        """Return a new curve; of those that are no longer live the latest are kept."""
        with self._lock:
            self._count += 1
            curve = Curve(self._count, label, colour)
            old = [c for c in self.curves if not c.live]
            spare = max(0, len(self.curves) + 1 - KEPT)
            self.curves = [c for c in self.curves if c not in old[:spare]] + [curve]
            return curve

    def add(self, curve: Curve, rows: list[Row]) -> None:
        """Draw new rows."""
        with self._lock:
            for row in rows:
                curve.add(row)
        self.say()

    def again(self, curve: Curve, rows: list[Row]) -> None:
        """Draw a curve anew that has turned back to the last of these rows."""
        with self._lock:
            curve.again(rows)
        self.say()

    def say(self, **words: str) -> None:
        """Show a ``status``, an ``error`` or a ``note``, within a tenth of a second."""
        with self._lock:
            self._said |= words
            if self._timer is None:
                self._timer = threading.Timer(1 / UPDATES, self._flush)
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Remove all curves and words."""
        with self._lock:
            self.curves, self._count = [], 0
        self.say(error="", note="")

    def _flush(self) -> None:
        with self._lock:
            self._timer = None
            news = [curve.news() for curve in self.curves]
            curves = [said for said, _ in news]
            content = self._said | {"pending": self._pending(), "curves": curves}
            self.send(content, [points for _, points in news])

    def _answer(self, _, content: Any, buffers: Any) -> None:
        """Send everything to a page that has just been opened."""
        with self._lock:
            for curve in self.curves:
                curve.sent = 0
        self.say()


class Inside(anywidget.AnyWidget):
    """Pictures of a method's own state, as :mod:`workbench.live.pictures` describes them."""

    _esm = _module("inside.js")

    def __init__(self):
        super().__init__()
        self.shown: tuple[dict[str, Any], list[bytes]] = ({"title": "", "pictures": []}, [])
        self.on_msg(lambda *_: self.send(*self.shown))

    def show(self, title: str, pictures: list[Picture]) -> None:
        """Show these pictures in the place of the last ones."""
        words, buffers = pack(pictures)
        self.shown = ({"title": title, "pictures": words}, buffers)
        self.send(*self.shown)
