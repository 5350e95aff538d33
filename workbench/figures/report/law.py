"""The law of the board: how measured cells become a verdict.

data/reference/LAW.md is the law in words, and the only source of what the words of a
threshold mean. A cell is one part of a claim's scope, such as a data set with one
setting.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as students_t

from workbench.core.kinds import Array

# In the order of the board; the last two are not decisions.
VERDICTS = (
    "does not hold",
    "false as printed",
    "holds",
    "in part",
    "not decided",
    "cannot be tested here",
)
CONFIDENCE = 0.9  # level of a cell's interval
NOISE = 1.25  # factor by which a time of one or two runs may be off
NUMBER = r"-?[\d.]+(?:e-?\d+)?"
RATIOS = re.compile("faster|comparable|.* times|factor in")
LIMITS = re.compile("(below|above) [1-9]")  # limits of ratios if times are compared


class Cell(NamedTuple):
    """A part of a scope: its name, and its interval, which is infinite at an open end.

    `runs` is the number of measured values. `place` is ``inside`` or ``outside`` the
    threshold, ``straddles``, or ``cut`` if a run that the clock ended or that has no
    result leaves the cell open.
    """

    name: str
    low: float
    high: float
    runs: int
    place: str

    @property
    def range(self) -> str:
        """The interval in words: a number, a bound, or nothing if both ends are
        open."""
        low = f"{self.low:.3g}"
        high = f"{self.high:.3g}"
        if -self.low == self.high == math.inf:
            return ""
        if self.high == math.inf:
            return f"at least {low}"
        if self.low == -math.inf:
            return f"at most {high}"
        return low + f" to {high}" * (low != high)

    @property
    def text(self) -> str:
        """The cell in words: its name, and its interval."""
        return f"{self.name}: {self.range}".removesuffix(": ")


def threshold(words: str) -> tuple[float, float]:
    """Return the interval that a threshold's words mean.

    Raises
    ------
    ValueError
        If the law does not define these words.
    """
    numbers = [float(number) for number in re.findall(NUMBER, words)]
    match re.sub(NUMBER, "N", words):
        case "faster":
            return 1.0, math.inf
        case "comparable":
            return 0.8, 1.25
        case "about N times":
            return numbers[0] / 2, math.inf
        case "at least N times" | "above N" | "exponent above N":
            return numbers[0], math.inf
        case "below N" | "exponent below N":
            return -math.inf, numbers[0]
        case "exponent in N to N" | "factor in N to N":
            return numbers[0], numbers[1]
        case "within N points" | "within N point" | "equal to N":
            return -numbers[0], numbers[0]
        case "lower" | "never violated":
            return -math.inf, 0.0
        case "lower by a tenth":
            return -math.inf, -0.1
        case "not dominated":
            return 0.0, 0.0
    raise ValueError(f"threshold: the law has no words {words!r}; see LAW.md")


def cells(rows: Iterable[Mapping], words: str, timed: bool) -> list[Cell]:
    """Return the cells of a query's rows, in their order.

    Parameters
    ----------
    rows : iterable of mapping
        Each has the name of its ``cell``, the measured ``value`` of one repetition, and
        ``bound``: ``at least`` or ``at most`` if the clock ended a run, else None. A
        value that is None leaves its cell open.
    words : str
        The threshold.
    timed : bool
        Whether times are compared: ratios of them are uncertain if there are fewer
        than three.
    """
    by_name: dict[str, list[Mapping]] = {}
    for row in rows:
        by_name.setdefault(str(row["cell"]), []).append(row)
    return [_cell(name, own, words, timed) for name, own in by_name.items()]


def _cell(name: str, rows: Sequence[Mapping], words: str, timed: bool) -> Cell:
    values = np.array([row["value"] for row in rows], float)
    values = values[np.isfinite(values)]
    bounds = {row.get("bound") for row in rows} - {None}
    if len(values) < len(rows):
        bounds.add("no result")
    low = -math.inf
    high = math.inf
    if not bounds:
        ratio = bool(RATIOS.match(words) or (timed and LIMITS.match(words)))
        low, high = interval(values, ratio=ratio, timed=timed)
    elif bounds == {"at least"}:
        low = float(values.min())
    elif bounds == {"at most"}:
        high = float(values.max())
    place = placed(low, high, *threshold(words))
    if place == "straddles" and bounds:
        place = "cut"
    return Cell(name, low, high, len(values), place)


def interval(values: Array, *, ratio: bool, timed: bool) -> tuple[float, float]:
    """Return the interval of a cell's mean: Student's, of logarithms for ratios.

    Fewer than three values give no estimate of their spread. Their range is widened by
    a factor of :data:`NOISE` either way for ratios of times, and kept for other
    numbers. Three or more ratios that are not all positive get no logarithms.
    """
    low = values.min()
    high = values.max()
    if len(values) < 3:
        slack = NOISE if ratio and timed else 1.0
        return float(low / slack), float(high * slack)
    ratio = ratio and low > 0
    x = np.log(values) if ratio else values
    half = half_interval(x.std(ddof=1), len(x))
    low, high = x.mean() - half, x.mean() + half
    return (math.exp(low), math.exp(high)) if ratio else (float(low), float(high))


def half_interval(spread: float, runs: int) -> float:
    """Return half of Student's interval of a mean, from the deviation of its values."""
    quantile = students_t.ppf((1 + CONFIDENCE) / 2, max(1, runs - 1))
    return quantile * spread / math.sqrt(runs)


def placed(low: float, high: float, least: float, most: float) -> str:
    """Return where the interval from low to high lies: inside, outside or straddles."""
    if least <= low and high <= most:
        return "inside"
    if high < least or low > most:
        return "outside"
    return "straddles"


def verdict(found: Iterable[Cell], missing: Mapping[str, str]) -> str:
    """Return the verdict on a claim.

    Parameters
    ----------
    found : iterable of Cell
        The cells that were measured.
    missing : mapping
        The names of the cells that were not, each with what it needs: a ``run``,
        ``data``, a ``machine`` or a ``program``.
    """
    places = {cell.place for cell in found}
    if {"inside", "outside"} <= places:
        return "in part"
    if "outside" in places:
        return "does not hold"
    if places == {"inside"} and not missing:
        return "holds"
    if places or "run" in missing.values():
        return "not decided"
    return "cannot be tested here"
