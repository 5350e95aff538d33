"""One run on the canvas: its points, and what of them a page does not know yet."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Any

from workbench.core.stream import Row, geometric

SIZE = 5  # numbers of a point: seconds, round, lower, upper, test error
OBJECTIVES = ("upper", "primal", "squared_error")  # a row's first of these is drawn above
UNKNOWN = (0.0, 0.0, math.nan, math.nan, math.nan)
kept = geometric(1.002)  # the first 500 rows, later two in a thousand


@dataclass
class Curve:
    """The points of one run: seconds, round, best lower, best upper, test error of its rows.

    The test error is NaN where a row was not judged.

    A solver without a certificate has no lower bounds; its objective is drawn in the place of the
    upper ones, as it is: the best of many estimates would be too good.
    """

    number: int
    label: str
    colour: str
    row: Row = field(default_factory=dict)
    ended: str = ""
    live: bool = True
    points: array = field(default_factory=lambda: array("d"))
    latest: tuple[float, ...] = UNKNOWN
    sent: int = 0  # points that a page has for good
    seen: int = 0  # rows, and those that were judged
    judged: int = 0

    def add(self, row: Row) -> None:
        """Take in a row; only some stay as points when the next comes."""
        _, _, lower, upper, _ = self.latest
        objective = next((row[key] for key in OBJECTIVES if key in row), upper)
        if not lower >= (new := row.get("lower", math.nan)) and new == new:
            lower = new
        if "upper" not in row or not upper <= objective:
            upper = objective
        error = row.get("test_error", math.nan)
        self.row, self.latest = row, (row["seconds"], row["round"], lower, upper, error)
        self.seen += 1
        self.judged += error == error
        if kept({"round": self.seen}) or (error == error and kept({"round": self.judged})):
            self.points.extend(self.latest)

    def again(self, rows: list[Row]) -> None:
        """Be the curve of these rows: of a run that has turned back."""
        self.points, self.latest, self.sent, self.seen = array("d"), UNKNOWN, 0, 0
        self.judged = 0
        for row in rows:
            self.add(row)

    def news(self) -> tuple[dict[str, Any], bytes]:
        """Return what to draw: the curve's words, and the new points with the latest, binary."""
        said = {
            name: getattr(self, name) for name in ("number", "label", "colour", "ended", "live")
        }
        said |= {"numbers": words(self.row), "at": self.sent}
        points = self.points[SIZE * self.sent :] + array("d", self.latest)
        self.sent = len(self.points) // SIZE
        return said, points.tobytes()


def words(row: Row) -> str:
    """Return a row in one line."""
    said = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()}
    return " · ".join(f"{key} {word}" for key, word in said.items() if key != "cpu")
