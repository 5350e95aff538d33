"""Two numbers, a paper's and ours: their units, their digits, and whether they
agree."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import NamedTuple

from scipy.stats import t as student

TIMES = ("training time", "test time", "subproblem time")
MORE = "accuracy", "macro-F1", "speed-up"  # is better
LESS = (*TIMES, "classification error", "worst-case error", "average error", "memory")
# Margins, fixed for each quantity before anything was compared: a factor, points, or a
# bound.
FACTOR, FACTORS = (
    1.5,
    (*TIMES, "iterations", "memory", "slow-down", "speed-up", "condition number"),
)
MARGINS = dict.fromkeys(("classification error", "accuracy", "macro-F1"), 0.005)
MARGINS |= {
    "worst-case error": 0.01
}  # of other quantities it is a unit of the last printed digit
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
        (one, mine), (other, wanted) = (
            UNITS.get(self.unit, ("", 1.0)),
            UNITS.get(unit, ("?", 1.0)),
        )
        if one != other:
            return None
        value, spread = (x if x is None else x * (mine / wanted) for x in self[:2])
        return Number(value, spread, unit)


class Verdict(NamedTuple):
    """The outcome of a comparison.

    Attributes
    ----------
    tone : ``agrees``, ``undecided``, ``differs``, ``context`` or ``none``
    amount : the ratio or the difference, with its interval, in words
    caveat : why it is no more than context; empty for a claim
    """

    tone: str
    amount: str = ""
    caveat: str = ""


def compare(
    quantity: str, paper: Number, ours: Number, *, caveat: str = "", runs: int = 0
) -> Verdict:
    """Return the verdict on our number, the mean of `runs` values, by a test of
    equivalence.

    Parameters
    ----------
    caveat : why the two are not comparable; empty if they are

    Notes
    -----
    The two agree if the 90 % interval of our mean, mean ± t s / √runs, lies within a margin of the
    printed number, at a level of 5 %, and differ if it lies outside. The margin of times and
    counts is a factor of :data:`FACTOR`; other margins are in :data:`MARGINS`, or one unit of the
    last printed digit.
    """
    ours = ours.in_unit(paper.unit)
    if ours is None:
        return Verdict("context", "other unit", caveat="the units cannot be converted")
    if paper.value is None or ours.value is None:
        return Verdict("none")
    known = ours.spread is not None  # 0 if nothing is random and there is one run
    half = (
        student.ppf(0.95, max(1, runs - 1)) * ours.spread / runs**0.5
        if known
        else math.inf
    )
    if quantity in FACTORS and paper.unit != "%":
        if min(paper.value, ours.value) <= 0:
            return Verdict("none")
        low, high = paper.value / FACTOR, paper.value * FACTOR
        shown = f"{amount(ours.value / paper.value, digits=2)}×"
    else:
        place = min(0, int(Decimal(repr(paper.value)).normalize().as_tuple().exponent))
        own = MARGINS.get(quantity)
        margin = 10.0**place if own is None else own / UNITS[paper.unit][1]
        low, high = paper.value - margin, paper.value + margin
        shown = _difference(ours.value - paper.value, half, paper.unit)
    slack = (
        1e-9 * high
    )  # a difference of exactly the margin must not fail by the last bit
    tone = "undecided"
    if low - slack <= ours.value - half and ours.value + half <= high + slack:
        tone = "agrees"
    elif ours.value + half < low - slack or ours.value - half > high + slack:
        tone = "differs"
    shown += "" if known or caveat else "; one run has no interval"
    if tone == "differs" and not caveat and quantity in (*MORE, *LESS):
        shown += (
            "; better"
            if (ours.value > paper.value) == (quantity in MORE)
            else "; worse"
        )
    return Verdict("context" if caveat else tone, shown, caveat)


def number(value: str | float | None) -> float | None:
    """Return a finite number, None for anything else: NaN, text, nothing."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def amount(value: float, decimals: int = 0, digits: int = 3) -> str:
    """Return a measured number, rounded to `digits` digits but to at least `decimals`
    decimals."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = f"{value:.{digits - 1}e}"
    if not 1e-3 <= abs(value) < 1e6:
        return _power(rounded)
    power = int(rounded.partition("e")[2])  # after rounding: 0.0999 is 0.100
    return f"{value:,.{max(decimals, digits - 1 - power, 0)}f}"


def as_printed(value: float) -> str:
    """Return a paper's number with its own digits; trailing zeros are lost."""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return _power(f"{value:g}")
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def after(unit: str) -> str:
    """Return the unit as it follows a number; fractions have none."""
    return {"": "", "fraction": "", "%": " %", "x": " ×"}.get(unit, f" {unit}")


def _difference(difference: float, half: float, unit: str) -> str:
    sign = "−" if difference < 0 else "+" if difference > 0 else ""
    spread = f" ± {amount(half, digits=2)}" if 0 < half < math.inf else ""
    return f"{sign}{amount(abs(difference), digits=2)}{spread}{' points' if unit == '%' else ''}"


def _power(shown: str) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), shown)
