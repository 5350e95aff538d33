"""The cells of the papers' tables, with our numbers, verdicts and reasons.

A comparison is a claim only under equal conditions: on the paper's data, and for times
also on the paper's machine and in timing mode. Any other comparison is context. A
number that a paper prints again in another table is judged only where it appears first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from workbench.core.kinds import Record
from workbench.data.sources import SOURCES
from workbench.figures.provenance import repeated_by
from workbench.figures.reference import listed
from workbench.figures.report.comparison import (
    TIMES,
    Number,
    Verdict,
    after,
    amount,
    as_printed,
    compare,
    number,
)
from workbench.figures.report.sidecars import Figure, text
from workbench.papers import same_data, token

NOT_IN_PRINT = "not in print"
# Fields of a row without a printed number.
ALONE = {"note": NOT_IN_PRINT, "value": None, "spread": None, "first": ""}
NOT_EXPLAINED = "the difference is not explained yet"
COUNTED = {"runs": "runs", "cut": "of them ended by the clock"}  # fields of our rows
KEYS = ("paper", "table", "dataset", "method", "quantity", "setting")
GIVEN = ("samples", "features", "classes", "parameter")  # they are not measured
LIMITS = {"mrc": "the paper's limits were 200,000 s and 180 GB"}
# Our method solves the same program, on the same splits.
STAND_IN = {"MRC-LP": "MRC interior point (ours)"}
# Data that have the paper's name, and differ from the paper's.
EDITIONS = {"news20": "the edition by date, with another split"}
# Each distinct result in print has exactly one of these, but none of the last three.
# The first four are measured on the paper's own data, and the last two are not counted.
STANDINGS = {
    "agrees": "the 90 % interval of our mean lies within the margin around the printed "
    "number",
    "undecided": "our interval reaches beyond the margin, or one run has none",
    "differs": "our interval lies outside the margin",
    "no claim": "measured on the paper's own data, but on another machine, not in "
    "timing mode, or ended by the clock",
    "other data": "measured on other data: a stand-in, a part, or another edition",
    "no result": "was run, but gave no result within our limits, which are stated next "
    "to it",
    "not run": "could be run, but has not been",
    "not reached": "its data are public, but could not be fetched here; the reason is "
    "stated",
    "not public": "no public file of its data is known",
    "settings": "a setting of the authors or a size, which is not a result",
    "reprint": "printed before, in the table named next to it",
    "masked": "masked in the text that we have",
}
MISSING = {row["dataset"]: row for row in listed("missing")}
RANKS = ("smoke", "quick", None, "paper")  # profiles in ascending order of trust


class Measurement(NamedTuple):
    """One of our numbers.

    Attributes
    ----------
    row : the row of the figure's numbers
    number : our number
    data : name of the data set that was run on, with its preparation
    synthetic : whether those data were generated
    timed : whether its seconds were measured in timing mode
    machine : name of the processor
    anchor : name, in links, of the figure that contains the number
    rank : the measurement of largest rank is shown, if a cell has several
    command : command that measures this number again, and little else
    """

    row: Mapping
    number: Number
    data: str
    synthetic: bool
    timed: bool
    machine: str
    anchor: str
    rank: tuple
    command: str = ""


class Row(NamedTuple):
    """A cell of a paper's table, and our value.

    Attributes
    ----------
    names : names of the cell, by :data:`KEYS`
    paper : the paper's number
    note : the paper's note, or :data:`NOT_IN_PRINT`
    ours : the measurement to show, or None; always None for a reprint
    verdict : outcome of the comparison of the two numbers
    first : name of the table that printed the number before, empty if none did
    tried : words on what was run to explain a difference, and on the result
    """

    names: dict[str, str]
    paper: Number
    note: str
    ours: Measurement | None
    verdict: Verdict
    first: str = ""
    tried: str = ""

    @property
    def measured(self) -> bool:
        """Whether a value was measured here."""
        return self.ours is not None and self.ours.number.value is not None

    @property
    def printed(self) -> str:
        """The paper's number in words; ``masked``, ``lost`` or ``none`` without one."""
        value, spread, unit = self.paper
        if value is None:
            words = (word for word in ("masked", "lost") if word in self.note)
            return next(words, "none")
        text = as_printed(value)
        if spread is not None:
            text += f" ± {as_printed(spread)}"
        return f"{text}{after(unit)}"

    @property
    def shown(self) -> str:
        """Our number in words; a time that the clock ended is a lower bound."""
        ours = self.ours.number.in_unit(self.paper.unit) or self.ours.number
        value, spread, unit = ours
        if value is None:
            return "no value"
        _, _, fraction = as_printed(self.paper.value or 0).partition(".")
        text = amount(value, len(fraction))
        if self.ours.row.get("cut") and self.names["quantity"] in TIMES:
            text = f"> {text}"
        if spread is not None:
            text += f" ± {amount(spread, digits=2)}"
        return f"{text}{after(unit)}"

    @property
    def standing(self) -> str:
        """The key of :data:`STANDINGS` for a value in print, otherwise empty."""
        if self.note == NOT_IN_PRINT or self.paper.value is None:
            return "masked" if self.printed == "masked" else ""
        if self.first:
            return "reprint"
        tone = self.verdict.tone
        if self.measured and tone != "none":
            if tone != "context":
                return tone
            return "other data" if "other data" in self.verdict.caveat else "no claim"
        if self.names["quantity"] in GIVEN:
            return "settings"
        if self.names["dataset"] in MISSING:
            return MISSING[self.names["dataset"]]["kind"]
        return "not run" if self.ours is None else "no result"

    @property
    def remarks(self) -> list[str]:
        """The paper's note, our data, and the reasons why our value may differ."""
        before = f"printed before: {self.first}" if self.first else _loaded(self.names)
        remarks = [before, self.note]
        if self.standing == "no result":
            remarks.append(LIMITS.get(self.names["paper"], ""))
        if self.standing.startswith("not "):
            remarks.append(MISSING.get(self.names["dataset"], {}).get("reason", ""))
        if self.ours is not None:
            remarks += self._remarks_on(self.ours)
        return list(filter(None, remarks))

    def _remarks_on(self, ours: Measurement) -> list[str]:
        """Return our data, and the reasons why our value may differ."""
        caveat = self.verdict.caveat
        remarks = [caveat]
        if "other data" in caveat or not ours.data:
            remarks.insert(0, f"our data: {ours.data or 'unknown'}")
        reason = text(ours.row.get("reason"))
        # A difference between the conditions is not the cause until it has been tried.
        if reason and self.measured and self.paper.value is not None:
            reason = f"here {reason}"
        unexplained = NOT_EXPLAINED if self.verdict.tone == "differs" else ""
        remarks += [reason, self.tried or unexplained]
        for name, words in COUNTED.items():
            if total := ours.row.get(name):
                remarks.append(f"{total} {words}")
        return remarks


def measurements(figures: Iterable[Figure]) -> list[Measurement]:
    """Return the numbers of all figures that name a paper, each once."""
    measured = {}
    for figure in figures:
        record = figure.record
        generated = {str(p.get("name")) for p in record["data"] if p.get("synthetic")}
        profile = record.get("profile")
        trust = RANKS.index(profile if profile in RANKS else None)
        for row in record["numbers"]:
            if not row.get("paper"):
                continue
            timed = bool(record.get("timed") and row.get("timed", True))
            ours = _number(row)
            data = text(row.get("data"))
            # The figures of one notebook may contain the same rows.
            measured[repr(sorted(row.items()))] = Measurement(
                row=row,
                number=ours,
                data=data,
                synthetic=data in generated,
                timed=timed,
                machine=text(record["machine"].get("cpu")),
                anchor=figure.anchor,
                rank=(ours.value is not None, trust, timed, str(record.get("date"))),
                command=repeated_by(record, row.get("only")),
            )
    return list(measured.values())


def _number(row: Mapping) -> Number:
    """Return the number of a row, a paper's or ours."""
    value, spread = (number(row.get(name)) for name in ("value", "spread"))
    return Number(value, spread, text(row.get("unit")))


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Return the counts of values, by name.

    ``printed`` counts the distinct values in print, ``results`` those that are not
    settings, ``own`` those measured on the paper's own data, and ``alone`` our values
    that no table prints. Each of :data:`STANDINGS` has its count, too.
    """
    rows = list(rows)
    standings = Counter(row.standing for row in rows)
    found = {name: standings[name] for name in STANDINGS}
    *distinct, _, _ = found.values()
    return found | {
        "printed": sum(distinct),
        "results": sum(distinct) - found["settings"],
        "own": sum(distinct[:4]),
        "alone": sum(row.measured and row.note == NOT_IN_PRINT for row in rows),
    }


def cell(row: Mapping) -> tuple[str, ...]:
    """Return the cell of a row, in a form that does not depend on spelling."""
    return tuple(token(text(row.get(key))) for key in KEYS)


def caveat(quantity: str, dataset: str, hardware: str, ours: Measurement) -> str:
    """Return why a comparison is context only; empty if it is a claim."""
    edition = EDITIONS.get(dataset)
    machine = token(ours.machine)
    timing = quantity in TIMES
    reasons = {
        f"other data: {edition}": edition,
        "other data": not edition and not same_data(dataset, ours.data, ours.synthetic),
        "other machine": timing and not (machine and machine in token(hardware)),
        "not timed": timing and not ours.timed,
        "ended by the clock": ours.row.get("cut"),
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def side_by_side(printed: pd.DataFrame, measured: Iterable[Measurement]) -> list[Row]:
    """Join the papers' numbers with our own; all numbers of both sides are kept.

    Returns
    -------
    rows : the rows in the order of print; our numbers that no table prints follow those
        of their table
    """
    by_cell: dict[tuple, list[Measurement]] = {}
    for measurement in measured:
        by_cell.setdefault(cell(measurement.row), []).append(measurement)
    rows = []
    tried = {cell(row): row["found"] for row in listed("tried")}
    names = [name for name in KEYS if name != "table"]
    # The table that prints a number first; NaN without a number.
    first = printed.groupby([*names, "value"])["table"].transform("first")
    first = first.where(first != printed["table"])
    for record in printed.assign(first=first).to_dict("records"):
        _note_stand_in(record, by_cell)
        record["tried"] = tried.get(cell(record))
        rows.append(_row(record, by_cell.pop(cell(record), [])))
    rows += [_row({**group[0].row, **ALONE}, group) for group in by_cell.values()]
    tables = [(row.names["paper"], row.names["table"]) for row in rows]
    order = list(dict.fromkeys(tables))
    pairs = sorted(zip(tables, rows), key=lambda pair: order.index(pair[0]))
    return [row for _, row in pairs]


def _note_stand_in(record: Record, by_cell: Mapping[tuple, list[Measurement]]) -> None:
    """Add to a record's note the result of a method that stands in for the paper's."""
    method = STAND_IN.get(record["method"])
    if method is None:
        return
    other = record | {"method": method} | ALONE
    row = _row(other, by_cell.get(cell(other), []))
    if row.measured:
        words = f"{method} has {row.shown}, on the same splits"
        record["note"] = "; ".join(filter(None, (record["note"], words)))


def _row(record: Mapping, group: list[Measurement]) -> Row:
    """Return the row of a cell, with the best of our measurements."""
    names = {key: text(record.get(key)) for key in KEYS}
    paper = _number(record)
    ours = max(group, key=lambda measurement: measurement.rank, default=None)
    verdict = Verdict("none")
    if ours is not None:
        quantity = names["quantity"]
        why = caveat(quantity, names["dataset"], text(record.get("hardware")), ours)
        runs = int(number(ours.row.get("runs")) or 0)
        verdict = compare(quantity, paper, ours.number, caveat=why, runs=runs)
        if ours.row.get("cut") and quantity in TIMES:
            verdict = Verdict("context", "ended by the clock", why)
    first, note, tried = (text(record.get(key)) for key in ("first", "note", "tried"))
    return Row(names, paper, note, None if first else ours, verdict, first, tried)


def _loaded(names: dict[str, str]) -> str:
    """Return the size of the data set as it is loaded here, empty if unknown."""
    source = SOURCES.get(names["dataset"])
    if source is None or names["setting"] not in ("", "part=train", "part=all"):
        return ""
    n, d, k = source.shape
    rows = source.n_train if names["setting"] == "part=train" else n
    size = {"features": d, "classes": k, "samples": rows}.get(names["quantity"])
    where = "here listed as" if names["dataset"] in MISSING else "here"
    return f"{where} {size:,}" if size else ""
