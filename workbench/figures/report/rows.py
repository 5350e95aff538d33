"""The cells of the papers' tables, each with our number, a verdict and the reasons.

A comparison is a claim only between like and like: on the paper's data, and for times
on the paper's machine and measured in timing mode. Anything else is context. A number
that a paper prints again in another table is judged only where it appears first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

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
ALONE = {
    "note": NOT_IN_PRINT,
    "value": None,
    "spread": None,
}  # of a row without a printed number
NOT_EXPLAINED = "the difference is not explained yet"
COUNTED = {"runs": "runs", "cut": "of them ended by the clock"}  # fields of our rows
KEYS = ("paper", "table", "dataset", "method", "quantity", "setting")
GIVEN = (
    "samples",
    "features",
    "classes",
    "parameter",
)  # quantities that are not measured
LIMITS = {"mrc": "the paper's limits were 200,000 s and 180 GB"}
STAND_IN = {
    "MRC-LP": "MRC interior point (ours)"
}  # it solves the same program, on the same splits
EDITIONS = {
    "news20": "the edition by date, with another split"
}  # with the paper's name
# each distinct result in print has exactly one of these, except the last three
STANDINGS = {
    "agrees": "the 90 % interval of our mean lies within the margin around the printed number",
    "undecided": "our interval reaches beyond the margin, or one run has no interval",
    "differs": "our interval lies outside the margin",
    "no claim": "measured on the paper's own data, but on another machine, not in timing mode, or "
    "ended by the clock",
    "other data": "measured on other data: a stand-in, a part, or another edition",
    "no result": "was run, but gave no result within our limits, which are stated next to it",
    "not run": "could be run, but has not been",
    "not reached": "its data are public, but could not be fetched here; the reason is stated",
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
    data : the data set that was run on, with its preparation
    synthetic : whether those data were generated
    anchor : the figure that contains the number
    rank : of several measurements of one cell the one with the largest rank is shown
    command : measures this number again, and little else
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


@dataclass(frozen=True)
class Row:
    """A cell of a paper's table, and our value.

    Attributes
    ----------
    names : the cell, by `KEYS`
    note : the paper's note, or :data:`NOT_IN_PRINT`
    ours : the measurement to show, or None
    first : the table that printed the number before, empty if none did
    tried : what was run to explain a difference, and what came out
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
        """The paper's number in words; ``masked``, ``lost`` or ``none`` if it has no
        value."""
        value, spread, unit = self.paper
        if value is None:
            return next(
                (word for word in ("masked", "lost") if word in self.note), "none"
            )
        spread = f" ± {as_printed(spread)}" if spread is not None else ""
        return f"{as_printed(value)}{spread}{after(unit)}"

    @property
    def shown(self) -> str:
        """Our number in words; a time that the clock ended is a lower bound."""
        value, spread, unit = (
            self.ours.number.in_unit(self.paper.unit) or self.ours.number
        )
        if value is None:
            return "no value"
        known = self.paper.value is not None
        decimals = len(as_printed(self.paper.value).partition(".")[2]) if known else 0
        spread = f" ± {amount(spread, digits=2)}" if spread is not None else ""
        bound = (
            "> " if self.ours.row.get("cut") and self.names["quantity"] in TIMES else ""
        )
        return f"{bound}{amount(value, decimals)}{spread}{after(unit)}"

    @property
    def standing(self) -> str:
        """The key of :data:`STANDINGS` for a value in print, empty for a cell without
        one."""
        if self.note == NOT_IN_PRINT or self.paper.value is None:
            return "masked" if self.printed == "masked" else ""
        if self.first:
            return "reprint"
        if self.measured and self.verdict.tone != "none":
            claim = self.verdict.tone != "context"
            other = "other data" if "other data" in self.verdict.caveat else "no claim"
            return self.verdict.tone if claim else other
        if self.names["quantity"] in GIVEN:
            return "settings"
        if self.names["dataset"] in MISSING:
            return MISSING[self.names["dataset"]]["kind"]
        return "no result" if self.ours is not None else "not run"

    @property
    def remarks(self) -> list[str]:
        """The paper's note, our data, and the reasons why our value may differ."""
        found = [
            f"printed before: {self.first}" if self.first else _loaded(self.names),
            self.note,
        ]
        if self.standing == "no result":
            found.append(LIMITS.get(self.names["paper"], ""))
        if self.standing.startswith("not "):
            found.append(MISSING.get(self.names["dataset"], {}).get("reason", ""))
        if self.ours is not None:
            row, data, caveat = self.ours.row, self.ours.data, self.verdict.caveat
            if "other data" in caveat or not data:
                found.append(f"our data: {data or 'unknown'}")
            found.append(caveat)
            # A difference between two runs is not its cause until that has been tried.
            here = "here " if self.measured and self.paper.value is not None else ""
            found.append(here * bool(row.get("reason")) + text(row.get("reason")))
            found.append(self.tried or NOT_EXPLAINED * (self.verdict.tone == "differs"))
            found += [
                f"{row[name]} {words}"
                for name, words in COUNTED.items()
                if row.get(name)
            ]
        return [remark for remark in found if remark]


def measurements(figures: Iterable[Figure]) -> list[Measurement]:
    """Return the numbers of all figures that name a paper, each once."""
    found = {}
    for figure in figures:
        record = figure.record
        generated = {str(p.get("name")) for p in record["data"] if p.get("synthetic")}
        profile, machine = record.get("profile"), text(record["machine"].get("cpu"))
        for row in filter(lambda row: row.get("paper"), record["numbers"]):
            timed = bool(record.get("timed") and row.get("timed", True))
            own = Number(
                number(row.get("value")),
                number(row.get("spread")),
                text(row.get("unit")),
            )
            data = text(row.get("data"))
            trust = RANKS.index(profile if profile in RANKS else None)
            rank = (own.value is not None, trust, timed, str(record.get("date")))
            again = repeated_by(record, row.get("only"))
            made = (
                row,
                own,
                data,
                data in generated,
                timed,
                machine,
                figure.anchor,
                rank,
                again,
            )
            # The figures of one notebook may contain the same rows.
            found[cell(row), repr(sorted(row.items()))] = Measurement(*made)
    return list(found.values())


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Count values.

    ``printed`` are distinct values in print, ``results`` those that are not settings,
    ``own`` those measured on the paper's own data, ``alone`` our values that no table
    prints; and each of :data:`STANDINGS` has its count.
    """
    rows = list(rows)
    found = Counter(row.standing for row in rows if row.note != NOT_IN_PRINT)
    printed = found.total() - found[""] - found["reprint"] - found["masked"]
    return {
        "printed": printed,
        "results": printed - found["settings"],
        "own": sum(
            found[name] for name in ("agrees", "undecided", "differs", "no claim")
        ),
        "alone": sum(row.measured for row in rows if row.note == NOT_IN_PRINT),
    } | {name: found[name] for name in STANDINGS}


def cell(row: Mapping) -> tuple[str, ...]:
    """Return the cell that a row is about, whatever its spelling."""
    return tuple(token(text(row.get(key))) for key in KEYS)


def caveat(quantity: str, dataset: str, hardware: str, ours: Measurement) -> str:
    """Return why a comparison is context only; empty if it is a claim."""
    edition, machine, timing = (
        EDITIONS.get(dataset),
        token(ours.machine),
        quantity in TIMES,
    )
    reasons = {
        f"other data: {edition}": edition,
        "other data": not edition and not same_data(dataset, ours.data, ours.synthetic),
        "other machine": timing and not (machine and machine in token(hardware)),
        "not timed": timing and not ours.timed,
        "ended by the clock": ours.row.get("cut"),
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def side_by_side(printed: pd.DataFrame, measured: Iterable[Measurement]) -> list[Row]:
    """Join the papers' numbers with our own; neither side loses a number.

    Returns
    -------
    rows : in the order of print; our numbers that no table prints follow those of their
        table
    """
    by_cell: dict[tuple, list[Measurement]] = {}
    for measurement in measured:
        by_cell.setdefault(cell(measurement.row), []).append(measurement)
    rows, seen = [], dict[tuple, str]()
    tried = {cell(row): row["found"] for row in listed("tried")}
    for record in printed.to_dict("records"):
        own = (
            *(record[name] for name in KEYS if name != "table"),
            number(record["value"]),
        )
        table = record["table"]
        first = seen.setdefault(own, table) if own[-1] is not None else table
        other = record | {"method": STAND_IN.get(record["method"])} | ALONE
        instead = _row(other, by_cell.get(cell(other), []))
        if other["method"] and instead.measured:
            said = f"{other['method']} has {instead.shown}, on the same splits"
            record["note"] = "; ".join(filter(None, (record["note"], said)))
        more = {
            "first": first if first != table else "",
            "tried": tried.get(cell(record), ""),
        }
        rows.append(_row(record | more, by_cell.pop(cell(record), [])))
    rows += [_row({**group[0].row, **ALONE}, group) for group in by_cell.values()]
    tables = list(
        dict.fromkeys((row.names["paper"], row.names["table"]) for row in rows)
    )
    return sorted(
        rows, key=lambda row: tables.index((row.names["paper"], row.names["table"]))
    )


def _row(record: Mapping, group: list[Measurement]) -> Row:
    names = {key: text(record.get(key)) for key in KEYS}
    paper = Number(
        number(record["value"]), number(record["spread"]), text(record.get("unit"))
    )
    ours = max(group, key=lambda measurement: measurement.rank, default=None)
    verdict = Verdict("none")
    if ours is not None:
        quantity = names["quantity"]
        why = caveat(quantity, names["dataset"], text(record.get("hardware")), ours)
        runs = int(number(ours.row.get("runs")) or 0)
        verdict = compare(quantity, paper, ours.number, caveat=why, runs=runs)
        if ours.row.get("cut") and quantity in TIMES:
            verdict = Verdict("context", "ended by the clock", why)
    first, tried = (record.get(name, "") for name in ("first", "tried"))
    return Row(
        names,
        paper,
        text(record["note"]),
        None if first else ours,
        verdict,
        first,
        tried,
    )


def _loaded(names: dict[str, str]) -> str:
    """Return the size of the data set as it is loaded here, empty if that is not
    known."""
    source, whole = SOURCES.get(names["dataset"]), ("", "part=train", "part=all")
    if source is None or names["setting"] not in whole:
        return ""
    n, d, k = source.shape
    rows = source.n_train if names["setting"] == "part=train" else n
    size = {"features": d, "classes": k, "samples": rows}.get(names["quantity"])
    where = "here listed as" if names["dataset"] in MISSING else "here"
    return f"{where} {size:,}" if size else ""
