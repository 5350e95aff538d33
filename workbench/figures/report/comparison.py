"""Two numbers, a paper's and ours: their units, their digits, and when they agree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from scipy.stats import t as student

# Every unit as a multiple of its kind's; the empty unit is a pure number.
SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0}
SECONDS |= {"min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0}
BYTES = {"b": 1.0, "bytes": 1.0, "k": 1e3, "kb": 1e3, "kib": 1e3, "m": 1e6, "mb": 1e6, "mib": 1e6}
BYTES |= {"g": 1e9, "gb": 1e9, "gib": 1e9}
FRACTIONS = {"": 1.0, "fraction": 1.0, "%": 1e-2, "percent": 1e-2, "thousand": 1e3}
CLOCK = r"\btime|seconds|runtime"
COUNTS = r"memory|size|nonzero|non-zero|epoch|round|iteration|vectors|condition number"
NEITHER = r"condition number"  # a property of the data: smaller is not better
ERRORS = r"(?<!worst-case )error|risk|loss|gap|objective"  # a lower bound is no better or worse
SCORES = r"accura|f1|precision|recall"


class Number(NamedTuple):
    """A value, its spread and its unit; None if there is none."""

    value: float | None
    spread: float | None = None
    unit: str = ""

    def in_unit(self, unit: str) -> Number | None:
        """Return the same number in another unit, None if it cannot be converted."""
        mine, other = self.unit.strip().casefold(), unit.strip().casefold()
        if mine == other:
            return self
        for scale in (SECONDS, BYTES, FRACTIONS):
            if mine in scale and other in scale:
                factor = scale[mine] / scale[other]
                value, spread = (x if x is None else x * factor for x in self[:2])
                return Number(value, spread, unit)
        return None


class Verdict(NamedTuple):
    """The outcome of a comparison.

    Attributes
    ----------
    tone : ``agrees``, ``better``, ``worse``, ``differs``, ``context`` or ``none``
    amount : the ratio or the difference, ready to print before the word
    word : its meaning
    caveat : why it is no more than context; empty for a claim
    """

    tone: str
    amount: str = ""
    word: str = ""
    caveat: str = ""


def kind(quantity: str, unit: str) -> str:
    """Return ``difference`` for numbers that are subtracted, or the kind of those divided."""
    unit, quantity = unit.strip().casefold(), quantity.casefold()
    if unit in SECONDS:
        return "time"
    if unit in ("x", "×") or "speed-up" in quantity:
        return "slow-down" if "slow" in quantity else "speed-up"
    if unit in BYTES or (unit not in FRACTIONS and re.search(COUNTS, quantity)):
        return "count"
    if unit == "":
        for pattern, name in ((CLOCK, "time"), (COUNTS, "count")):
            if re.search(pattern, quantity):
                return name
    return "difference"


def rounding(value: float, column: Iterable[float] = ()) -> float:
    """Return half a unit of the last digit in print.

    The zeros at the end of ``12.0`` and ``94.60`` are lost in a number: it is taken to have the
    decimals that four fifths of its `column` have, and a whole one those of the finest there.
    """
    own, others = _exponent(value), sorted(map(_exponent, column))
    if not others:
        return 0.5 * 10.0**own
    place = 0 if float(value).is_integer() else math.floor(0.8 * (len(others) - 1))
    return 0.5 * 10.0 ** min(own, others[place])


def compare(
    quantity: str,
    paper: Number,
    ours: Number,
    *,
    caveat: str = "",
    column: Iterable[float] = (),
    runs: int = 0,
) -> Verdict:
    """Return the verdict on our number.

    Parameters
    ----------
    caveat : why the two are not like and like, if they are not
    column : the paper's other values of the same quantity, see :func:`rounding`
    runs : how many ours is the mean of

    Notes
    -----
    Times and counts (sizes, rounds) are divided, the larger by the smaller: within a factor of 2
    they agree. So are speed-ups, where more is better. Everything else is subtracted, and agrees if
    the difference is at most the larger of both spreads and of the paper's rounding. A value in
    print without a spread is taken for one run: it agrees if it lies in the 95 % prediction
    interval for one more run of ours, the mean ± t s √(1 + 1/runs) of normal runs.
    """
    ours = ours.in_unit(paper.unit)
    if ours is None:
        return Verdict("context", word="other unit", caveat="the units cannot be converted")
    if paper.value is None or ours.value is None:
        return Verdict("none")
    how = kind(quantity, paper.unit)
    if how == "difference":
        tone, shown, word = _difference(quantity, paper, ours, column, runs)
    elif paper.value > 0 and ours.value > 0:
        tone, shown, word = _ratio(how, ours.value / paper.value)
        if tone != "agrees" and re.search(NEITHER, quantity.casefold()):
            tone = "differs"
    else:
        return Verdict("none")
    return Verdict("context" if caveat else tone, shown, word, caveat)


def number(value: Any) -> float | None:
    """Return a finite number, None for anything else: NaN, text, nothing."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def amount(value: float, decimals: int = 0, digits: int = 3) -> str:
    """Return a measured number, rounded to `digits` digits but to at least `decimals` decimals."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = f"{value:.{digits - 1}e}"
    if not 1e-3 <= abs(value) < 1e6:
        return _power(rounded)
    power = int(rounded.partition("e")[2])  # after rounding: 0.0999 is 0.100
    return f"{value:,.{max(decimals, digits - 1 - power, 0)}f}"


def as_printed(value: float) -> str:
    """Return a paper's number with its own digits; the zeros at its end are lost."""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return _power(f"{value:g}")
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def after(unit: str) -> str:
    """Return the unit as it follows a number; fractions have none."""
    return {"": "", "fraction": "", "%": " %", "x": " ×"}.get(unit, f" {unit}")


def _ratio(how: str, ratio: float) -> tuple[str, str, str]:
    less, more = ("faster", "slower") if how == "time" else ("smaller", "larger")
    times, word = f"{amount(max(ratio, 1 / ratio), digits=2)}×", less if ratio < 1 else more
    if 0.5 <= ratio <= 2:
        return "agrees", times, f"{word}, within 2×"
    good = ratio < 1 if how != "speed-up" else ratio > 1
    return "better" if good else "worse", times, word


def _difference(
    quantity: str, paper: Number, ours: Number, column: Iterable[float], runs: int
) -> tuple[str, str, str]:
    difference = ours.value - paper.value
    points = " points" if paper.unit in ("%", "percent") else ""
    sign = "−" if difference < 0 else "+" if difference > 0 else ""
    shown = f"{sign}{amount(abs(difference), digits=2)}{points}"
    own = ours.spread or 0.0
    if paper.spread is None and runs > 1:
        own *= student.ppf(0.975, runs - 1) * math.sqrt(1 + 1 / runs)
    allowed = max(paper.spread or 0.0, own, rounding(paper.value, column))
    # A difference of exactly the half digit must not fail by the last bit of a float.
    if abs(difference) <= allowed * (1 + 1e-9):
        return "agrees", shown, "agrees"
    tone, quantity = "differs", quantity.casefold()
    if re.search(SCORES, quantity):
        tone = "better" if difference > 0 else "worse"
    elif re.search(ERRORS, quantity):
        tone = "better" if difference < 0 else "worse"
    return tone, shown, "lower" if difference < 0 else "higher"


def _exponent(value: float) -> int:
    return min(0, int(Decimal(repr(float(value))).normalize().as_tuple().exponent))


def _power(shown: str) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), shown)
