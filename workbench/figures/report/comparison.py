"""The papers' numbers beside ours: what belongs together, and when two numbers agree.

A comparison is a claim only between like and like: on the paper's data, and for times on the
paper's machine and measured in timing mode. Anything else is context.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pandas as pd

from workbench.figures.papers import same_data, token
from workbench.figures.report.numerals import amount

NOT_IN_PRINT = "not in print"
KEYS = ("paper", "table", "dataset", "method", "quantity", "setting")
# Every unit as a multiple of its kind's; the empty unit is a pure number.
SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0} | {
    "min": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hours": 3600.0,
}
BYTES = {"b": 1.0, "bytes": 1.0} | {
    name: 10.0**power
    for power, names in {3: "k kb kib", 6: "m mb mib", 9: "g gb gib"}.items()
    for name in names.split()
}
FRACTIONS = {"": 1.0, "fraction": 1.0, "%": 1e-2, "percent": 1e-2, "thousand": 1e3}
CLOCK = r"\btime|seconds|runtime"
COUNTS = r"memory|size|nonzero|non-zero|epoch|round|iteration|vectors|condition number"
ERRORS = r"(?<!worst-case )error|risk|loss|gap|objective"  # a bound that is lower is no merit
SCORES = r"accura|f1|precision|recall"


class Number(NamedTuple):
    """A value, its spread and its unit; None where there is none."""

    value: float | None
    spread: float | None = None
    unit: str = ""

    def in_unit(self, unit: str) -> Number | None:
        """Return the same number in another unit, None where there is no way."""
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
    """How ours compares.

    Attributes
    ----------
    tone : ``agrees``, ``better``, ``worse``, ``differs``, ``context`` or ``none``
    amount : the ratio or the difference, ready to print before the word
    word : what it means
    caveat : why it is no more than context; empty for a claim
    """

    tone: str
    amount: str = ""
    word: str = ""
    caveat: str = ""


@dataclass(frozen=True)
class Measurement:
    """One of our numbers and how it was come by.

    Attributes
    ----------
    key : the cell of the paper's tables, normalised
    data : what it was measured on, with how it was prepared
    synthetic : whether those data were generated
    anchor : the figure that brought it
    rank : of several measurements of one cell the largest is shown
    """

    row: Mapping[str, Any]
    number: Number
    data: str
    synthetic: bool
    timed: bool
    machine: str
    anchor: str
    rank: tuple

    @property
    def key(self) -> tuple[str, ...]:
        return cell(self.row)


@dataclass(frozen=True)
class Row:
    """A cell of a paper's table with all that there is to say about it; `ours` may be None.

    `others` is how many more values of ours there are.
    """

    names: Mapping[str, str]
    paper: Number
    note: str
    ours: Measurement | None
    others: int
    verdict: Verdict

    @property
    def measured(self) -> bool:
        """Whether there is a value of ours."""
        return self.ours is not None and self.ours.number.value is not None


class Counts(NamedTuple):
    """How many values some rows have; a cell without one, or a run without a result, is none.

    Attributes
    ----------
    printed : values that the papers print
    absent : cells of theirs without a value: masked, lost, or a run of theirs that did not end
    beside : printed values with a value of ours beside them
    same_data : those of them where ours is on the paper's own data
    claims : those of them that are compared as like with like
    alone : values of ours that no table prints
    """

    printed: int
    absent: int
    beside: int
    same_data: int
    claims: int
    alone: int


def counts(rows: Iterable[Row]) -> Counts:
    """Return how many values the papers print, and how many ours stand beside."""
    rows = list(rows)
    own = [row for row in rows if row.note != NOT_IN_PRINT]
    printed = [row for row in own if row.paper.value is not None]
    beside = [row for row in printed if row.measured]
    return Counts(
        len(printed),
        len(own) - len(printed),
        len(beside),
        sum("other data" not in row.verdict.caveat for row in beside),
        sum(row.verdict.tone not in ("none", "context") for row in beside),
        sum(row.measured for row in rows if row.note == NOT_IN_PRINT),
    )


def cell(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cell that a row is about, whatever its spelling."""
    return tuple(token(_text(row.get(key))) for key in KEYS)


def kind(quantity: str, unit: str) -> str:
    """Return how numbers are compared: by ``difference``, or by the ratio of a kind of size."""
    unit, quantity = unit.strip().casefold(), quantity.casefold()
    if unit in SECONDS:
        return "time"
    if unit in ("x", "×") or "speed-up" in quantity:
        return "slow-down" if "slow" in quantity else "speed-up"
    if (unit in BYTES and unit) or (unit not in FRACTIONS and re.search(COUNTS, quantity)):
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
    quantity: str, paper: Number, ours: Number, *, caveat: str = "", column: Iterable[float] = ()
) -> Verdict:
    """Return how ours compares with the paper's number.

    Parameters
    ----------
    caveat : why the two are not like and like, if they are not
    column : the paper's other values of the same quantity, see :func:`rounding`

    Notes
    -----
    Times and counts (sizes, rounds) are divided, the larger by the smaller: within a factor of 2
    they agree. So are speed-ups, where more is better. Everything else is subtracted, and agrees if
    the difference is at most the larger of both spreads and of the paper's rounding.
    """
    ours = ours.in_unit(paper.unit)
    if ours is None:
        return Verdict("context", word="other unit", caveat="the units cannot be converted")
    if paper.value is None or ours.value is None:
        return Verdict("none")
    how = kind(quantity, paper.unit)
    if how == "difference":
        tone, shown, word = _difference(quantity, paper, ours, column)
    elif paper.value > 0 and ours.value > 0:
        tone, shown, word = _ratio(how, ours.value / paper.value)
    else:
        return Verdict("none")
    return Verdict("context" if caveat else tone, shown, word, caveat)


def caveat(quantity: str, unit: str, dataset: str, hardware: str, ours: Measurement) -> str:
    """Return why a comparison is context only; empty where it is a claim."""
    reasons = []
    if not same_data(dataset, ours.data, ours.synthetic):
        reasons.append("other data")
    if kind(quantity, unit) == "time":
        machine = token(ours.machine)
        if not machine or machine not in token(hardware):
            reasons.append("other machine")
        if not ours.timed:
            reasons.append("not timed")
    if ours.row.get("cut"):
        reasons.append("ended by the clock")
    return ", ".join(reasons)


def side_by_side(printed: pd.DataFrame, measured: Iterable[Measurement]) -> list[Row]:
    """Join what the papers print with what we measured; neither side loses a number.

    Returns
    -------
    rows : in the order of print, our numbers that no table prints after those of their table
    """
    by_cell: dict[tuple, list[Measurement]] = {}
    for measurement in measured:
        by_cell.setdefault(measurement.key, []).append(measurement)
    records = [{k: _plain(v) for k, v in r.items()} for r in printed.to_dict("records")]
    columns: dict[tuple, list[float]] = {}
    for record in records:
        if record.get("value") is not None:
            columns.setdefault(_column(record), []).append(float(record["value"]))
    rows = [_row(r, by_cell.get(cell(r), []), columns.get(_column(r), [])) for r in records]
    in_print = set(map(cell, records))
    alone = [group for key, group in by_cell.items() if key not in in_print]
    rows += [_row(group[0].row, group, [], in_print=False) for group in alone]
    tables = list(dict.fromkeys((row.names["paper"], row.names["table"]) for row in rows))
    return sorted(rows, key=lambda row: tables.index((row.names["paper"], row.names["table"])))


def number(value: Any) -> float | None:
    """Return a finite number, None for anything else: NaN, text, nothing."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _row(record: Mapping[str, Any], group: list[Measurement], column, in_print=True) -> Row:
    names = {key: _text(record.get(key)) for key in KEYS}
    unit, note = _text(record.get("unit")), _text(record.get("note")) if in_print else ""
    paper = Number(None, None, unit)
    if in_print:
        paper = Number(number(record.get("value")), number(record.get("spread")), unit)
    ours = max(group, key=lambda measurement: measurement.rank, default=None)
    verdict = Verdict("none")
    if ours is not None:
        hardware = _text(record.get("hardware"))
        why = caveat(names["quantity"], unit, names["dataset"], hardware, ours)
        verdict = compare(names["quantity"], paper, ours.number, caveat=why, column=column)
        if ours.row.get("cut") and kind(names["quantity"], unit) == "time":
            verdict = Verdict("context", word="ended by the clock", caveat=why)
    if not note and not in_print:
        note = NOT_IN_PRINT
    others = sum(m is not ours and m.number.value is not None for m in group)
    return Row(names, paper, note, ours, others, verdict)


def _ratio(how: str, ratio: float) -> tuple[str, str, str]:
    less, more = ("faster", "slower") if how == "time" else ("smaller", "larger")
    times, word = f"{amount(max(ratio, 1 / ratio), digits=2)}×", less if ratio < 1 else more
    if 0.5 <= ratio <= 2:
        return "agrees", times, f"{word}, within 2×"
    good = ratio < 1 if how != "speed-up" else ratio > 1
    return "better" if good else "worse", times, word


def _difference(quantity: str, paper: Number, ours: Number, column) -> tuple[str, str, str]:
    difference = ours.value - paper.value
    points = " points" if paper.unit in ("%", "percent") else ""
    sign = "−" if difference < 0 else "+" if difference > 0 else ""
    shown = f"{sign}{amount(abs(difference), digits=2)}{points}"
    allowed = max(paper.spread or 0.0, ours.spread or 0.0, rounding(paper.value, column))
    # A difference of exactly the half digit must not fail by the last bit of a float.
    if abs(difference) <= allowed * (1 + 1e-9):
        return "agrees", shown, "agrees"
    word = "lower" if difference < 0 else "higher"
    if re.search(SCORES, quantity.casefold()):
        return ("better" if difference > 0 else "worse"), shown, word
    if re.search(ERRORS, quantity.casefold()):
        return ("better" if difference < 0 else "worse"), shown, word
    return "differs", shown, word


def _column(record: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_text(record.get(key)) for key in ("paper", "table", "dataset", "quantity"))


def _exponent(value: float) -> int:
    return min(0, int(Decimal(repr(float(value))).normalize().as_tuple().exponent))


def _plain(value: Any) -> Any:
    return None if value is None or value is pd.NA or value != value else value


def _text(value: Any) -> str:
    return "" if _plain(value) is None else str(value).strip()
