"""Two numbers, a paper's and ours: their units, their digits, and when they agree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from scipy.stats import t as student

# Quantities that are divided, unless they are in %; others are subtracted. 1 means that more is
# better, -1 that less is, 0 neither.
TIMES = {"training time": -1, "test time": -1, "subproblem time": -1}
RATIOS = TIMES | {"iterations": -1, "memory": -1, "slow-down": -1, "speed-up": 1}
RATIOS |= {"condition number": 0}
DIFFERENCES = {"classification error": -1, "average error": -1, "accuracy": 1, "macro-F1": 1}
UNITS = {  # unit -> (dimension, factor)
    **{"ms": ("time", 1e-3), "s": ("time", 1.0), "min": ("time", 60.0)},
    **{"MB": ("memory", 1e6), "GB": ("memory", 1e9)},
    **{"": ("number", 1.0), "fraction": ("number", 1.0), "%": ("number", 1e-2)},
    "thousand": ("number", 1e3),
}


class Number(NamedTuple):
    """A value, its spread and its unit; None if there is none."""

    value: float | None
    spread: float | None = None
    unit: str = ""

    def in_unit(self, unit: str) -> Number | None:
        """Return the same number in another unit, None if it cannot be converted."""
        if self.unit == unit:
            return self
        (one, mine), (other, wanted) = UNITS.get(self.unit, ("", 1.0)), UNITS.get(unit, ("?", 1.0))
        if one != other:
            return None
        value, spread = (x if x is None else x * (mine / wanted) for x in self[:2])
        return Number(value, spread, unit)


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
    if quantity not in RATIOS or paper.unit == "%":
        tone, shown, word = _difference(quantity, paper, ours, column, runs)
    elif paper.value > 0 and ours.value > 0:
        tone, shown, word = _ratio(quantity, ours.value / paper.value)
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


def _ratio(quantity: str, ratio: float) -> tuple[str, str, str]:
    less, more = ("faster", "slower") if quantity in TIMES else ("smaller", "larger")
    times, word = f"{amount(max(ratio, 1 / ratio), digits=2)}×", less if ratio < 1 else more
    if 0.5 <= ratio <= 2:
        return "agrees", times, f"{word}, within 2×"
    return _tone(RATIOS[quantity], ratio > 1), times, word


def _tone(better: int, larger: bool) -> str:
    if not better:
        return "differs"
    return "better" if larger == (better > 0) else "worse"


def _difference(
    quantity: str, paper: Number, ours: Number, column: Iterable[float], runs: int
) -> tuple[str, str, str]:
    difference = ours.value - paper.value
    points = " points" if paper.unit == "%" else ""
    sign = "−" if difference < 0 else "+" if difference > 0 else ""
    shown = f"{sign}{amount(abs(difference), digits=2)}{points}"
    own = ours.spread or 0.0
    if paper.spread is None and runs > 1:
        own *= student.ppf(0.975, runs - 1) * math.sqrt(1 + 1 / runs)
    allowed = max(paper.spread or 0.0, own, rounding(paper.value, column))
    # A difference of exactly the half digit must not fail by the last bit of a float.
    if abs(difference) <= allowed * (1 + 1e-9):
        return "agrees", shown, "agrees"
    tone = _tone(DIFFERENCES.get(quantity, 0), difference > 0)
    return tone, shown, "lower" if difference < 0 else "higher"


def _exponent(value: float) -> int:
    return min(0, int(Decimal(repr(float(value))).normalize().as_tuple().exponent))


def _power(shown: str) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), shown)
