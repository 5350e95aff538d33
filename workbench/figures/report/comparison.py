"""Compare a paper's number with ours: units, digits, and whether they agree."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import NamedTuple

from workbench.figures.report.law import half_interval, placed

TIMES = ("training time", "test time", "subproblem time")
# Quantities that should be large, and those that should be small.
MORE = "accuracy", "macro-F1", "speed-up"
LESS = (*TIMES, "classification error", "worst-case error", "average error", "memory")
# Margins were fixed for each quantity before anything was compared.
# FACTORS are quantities whose margin is this factor.
FACTOR = 1.5
FACTORS = (
    *TIMES,
    "iterations",
    "memory",
    "slow-down",
    "speed-up",
    "condition number",
)
# Margins that are differences, as fractions; others are one unit of the last digit.
MARGINS = {
    "classification error": 0.005,
    "accuracy": 0.005,
    "macro-F1": 0.005,
    "worst-case error": 0.01,
}
UNITS = {  # unit -> (unit that it is a multiple of, factor)
    "ms": ("s", 1e-3),
    "min": ("s", 60.0),
    "GB": ("MB", 1e3),
    "fraction": ("", 1.0),
    "%": ("", 1e-2),
    "thousand": ("", 1e3),
}
# The verdict, by where the interval of our mean lies.
TONES = {"inside": "agrees", "straddles": "undecided", "outside": "differs"}


class Number(NamedTuple):
    """A value, its spread and its unit; None if there is none."""

    value: float | None
    spread: float | None = None
    unit: str = ""

    def in_unit(self, unit: str) -> Number | None:
        """Return the same number in another unit, None if it cannot be converted."""
        base, factor = UNITS.get(self.unit, (self.unit, 1.0))
        other_base, other_factor = UNITS.get(unit, (unit, 1.0))
        if base != other_base:
            return None
        ratio = factor / other_factor
        value, spread = (None if x is None else x * ratio for x in self[:2])
        return Number(value, spread, unit)


class Verdict(NamedTuple):
    """The outcome of a comparison.

    Attributes
    ----------
    tone : ``agrees``, ``undecided``, ``differs``, ``context`` or ``none``
    amount : the ratio or the difference, with its interval, in words
    caveat : why the comparison is only context; empty for a claim
    """

    tone: str
    amount: str = ""
    caveat: str = ""


def compare(
    quantity: str, paper: Number, ours: Number, *, caveat: str = "", runs: int = 0
) -> Verdict:
    """Return the verdict on our number, the mean of `runs` values.

    Parameters
    ----------
    quantity : name of what the numbers measure
    paper, ours : the two numbers
    caveat : why the two are not comparable; empty if they are
    runs : int, the number of values that our number is the mean of

    Notes
    -----
    This is a test of equivalence at a level of 5 %. The two agree if the 90 % interval
    of our mean, mean ± t s / √runs, lies within a margin of the printed number, and
    differ if it lies outside. The margin of quantities in :data:`FACTORS`, unless they
    are in %, is a factor of :data:`FACTOR`; other margins are in :data:`MARGINS`, or
    one unit of the last printed digit, at most 1.
    """
    ours = ours.in_unit(paper.unit)
    if ours is None:
        return Verdict("context", "other unit", caveat="the units cannot be converted")
    if paper.value is None or ours.value is None:
        return Verdict("none")
    half = math.inf  # half of the interval, which a single run does not give
    if ours.spread is not None:  # a spread of 0 means that nothing is random
        half = half_interval(ours.spread, runs)
    if quantity in FACTORS and paper.unit != "%":
        if min(paper.value, ours.value) <= 0:
            return Verdict("none")
        low = paper.value / FACTOR
        high = paper.value * FACTOR
        shown = f"{amount(ours.value / paper.value, digits=2)}×"
    else:
        margin = _margin(quantity, paper)
        low = paper.value - margin
        high = paper.value + margin
        shown = _difference(ours.value - paper.value, half, paper.unit)
    slack = 1e-9 * high  # a difference of exactly the margin may be off by the last bit
    if caveat:
        return Verdict("context", shown, caveat)
    ends = ours.value - half, ours.value + half
    tone = TONES[placed(*ends, low - slack, high + slack)]
    if ours.spread is None:
        shown += "; one run has no interval"
    if tone == "differs" and quantity in (*MORE, *LESS):
        better = (ours.value > paper.value) == (quantity in MORE)
        shown += "; better" if better else "; worse"
    return Verdict(tone, shown)


def _margin(quantity: str, paper: Number) -> float:
    """Return the largest difference to a printed number that counts as agreement."""
    if quantity in MARGINS:
        return MARGINS[quantity] / UNITS.get(paper.unit, ("", 1.0))[1]
    exponent = Decimal(repr(paper.value)).normalize().as_tuple().exponent
    return 10.0 ** min(0, int(exponent))


def number(value: str | float | None) -> float | None:
    """Return a finite number, or None for anything else, such as NaN or a text."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def amount(value: float, decimals: int = 0, digits: int = 3) -> str:
    """Return a number with `digits` digits, or more for `decimals` decimals."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = f"{value:.{digits - 1}e}"
    if not 1e-3 <= abs(value) < 1e6:
        return _power(rounded)
    _, _, exponent = rounded.partition("e")
    power = int(exponent)  # after rounding: 0.0999 is 0.100
    return f"{value:,.{max(decimals, digits - 1 - power, 0)}f}"


def as_printed(value: float) -> str:
    """Return a paper's number with its own digits; trailing zeros are lost."""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return _power(f"{value:g}")
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def after(unit: str) -> str:
    """Return the unit as it follows a number; fractions have none."""
    return {"": "", "fraction": "", "x": " ×"}.get(unit, f" {unit}")


def _difference(difference: float, half: float, unit: str) -> str:
    """Return a difference with its sign, its interval and its unit in words."""
    text = amount(abs(difference), digits=2)
    if difference:
        text = f"{'−' if difference < 0 else '+'}{text}"
    if 0 < half < math.inf:
        text += f" ± {amount(half, digits=2)}"
    return f"{text} points" if unit == "%" else text


def _power(shown: str) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), shown)
