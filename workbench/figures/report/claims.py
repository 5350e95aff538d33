"""The board of claims: the five papers' statements on their methods, and whether they
hold here.

data/reference/claims.toml gives for each claim its scope, its threshold and the SQL
query of its cells, and the law judges them (:mod:`workbench.figures.report.law`). The
tables of a query are ``"name/figure"``, the numbers of a figure's sidecar, ``"name"``,
the rows of all runs of results/name.parquet, and ``"path.csv"``, a file of the
checkout. They are read from each of :func:`sources`, so that a reader's own runs count
as ours do. A source may lack the table ``"name?"``, which then has no rows. The table
``"name!"`` always has the checkout's rows; only errors are read from it.
"""

import json
import sqlite3
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from workbench.figures.report.law import VERDICTS, Cell, cells, verdict
from workbench.runs.mill import PRINTED, decided_folder
from workbench.runs.notebooks import CHECKOUT

FEW = 4  # a sentence names at most this many cells of a place one by one
ALONE = 2.0  # load average of a machine on which a process ran alone
PLACES = {
    "inside": "as claimed",
    "outside": "not as claimed",
    "straddles": "too uncertain",
    "cut": "cut short",
}
NEEDS = {
    "run": "not measured yet",
    "data": "data that cannot be fetched",
    "machine": "needs a larger machine",
    "program": "needs a program that is not here",
}


class Claim(NamedTuple):
    """A paper's claim: the fields of claims.toml, and what the law makes of them.

    Attributes
    ----------
    verdict : str
        One of :data:`workbench.figures.report.law.VERDICTS`.
    cells : tuple of Cell
        The parts of the scope that were measured.
    missing : mapping
        The parts that were not measured, each with what it needs: a ``run``, ``data``,
        a ``machine`` or a ``program``.
    test : str
        The test that decides the claim, if no cell does.
    why : str
        Reasons and remarks, with numbers that are computed now.
    decide, minutes : str, float
        The notebook whose profile ``decide`` runs what is missing, and how long that
        takes on a core of our machine; empty and 0 if no notebook does.
    machines : tuple of str
        Processors that the cells were measured on.
    date, commit : str
        When the last of the runs behind the cells was made, and at which commit; the
        tables of benchmarks have no date.
    """

    paper: str
    claim: str
    where: str
    quote: str
    scope: str
    threshold: str
    verdict: str
    cells: tuple[Cell, ...] = ()
    missing: Mapping[str, str] = {}
    test: str = ""
    why: str = ""
    figure: str = ""
    command: str = ""
    decide: str = ""
    minutes: float = 0.0
    machines: tuple[str, ...] = ()
    date: str = ""
    commit: str = ""

    @property
    def decided(self) -> bool:
        """Whether the parts of the scope that were measured decide the claim."""
        return self.verdict not in VERDICTS[-2:]

    @property
    def measured(self) -> str:
        """Where and when the cells were measured, in words; empty if there are none."""
        return ", ".join(filter(None, [*self.machines, self.date or self.commit[:8]]))

    @property
    def number(self) -> str:
        """The test or the cells that decide the claim, by their place, as a text."""
        parts = [f"by {self.test}"] if self.test else []
        for place, words in PLACES.items():
            found = [cell for cell in self.cells if cell.place == place]
            if found:
                parts.append(f"{words}: {_named(found)}")
        for need in dict.fromkeys(self.missing.values()):
            names = [name for name, other in self.missing.items() if other == need]
            parts.append(f"{NEEDS[need]}: {'; '.join(names)}")
        return ". ".join(part[0].upper() + part[1:] for part in parts if part)


def _named(found: list[Cell]) -> str:
    """Return a few cells one by one; for many, return their number and the extremes.

    A cell that was measured on several machines has an interval of each.
    """
    texts: dict[str, str] = {}
    for cell in found:
        same = texts.get(cell.name)
        texts[cell.name] = f"{same} and {cell.range}" if same else cell.text
    if len(texts) <= FEW:
        return "; ".join(texts.values())
    ordered = sorted(found, key=lambda cell: (cell.low, cell.high))
    return f"{len(texts)} parts; lowest, {ordered[0].text}; highest, {ordered[-1].text}"


def _file(folder: Path, name: str) -> Path:
    """Return the file of a table in a folder with ``figures/`` and ``results/``."""
    if name.endswith(".csv"):
        return CHECKOUT / name
    if "/" in name:
        return folder / "figures" / f"{name}.json"
    return folder / "results" / f"{name}.parquet"


@cache
def _table(path: Path) -> pd.DataFrame:
    """Return the table of a file; the last row of each run has ``ended``.

    Several claims read the same file.
    """
    if path.suffix == ".csv":
        return pd.read_csv(path)
    if path.suffix == ".json":
        return pd.DataFrame(_json(path)["numbers"]).map(_plain)
    table = pd.read_parquet(path)
    return table.assign(ended=~table.duplicated("run", keep="last"))


@cache
def _json(path: Path) -> dict:
    """Return a sidecar; several claims ask for the same."""
    return json.loads(path.read_text("utf-8"))


@cache
def _base(folder: Path) -> sqlite3.Connection:
    """Return the database of a folder."""
    base = sqlite3.connect(":memory:")
    base.create_aggregate("median", 1, Median)
    base.create_aggregate("slope", 2, Slope)
    return base


@cache
def _load(folder: Path, name: str) -> None:
    """Read a table into a folder's database, once: its own, or the checkout's if the
    name ends with ``!``."""
    place = CHECKOUT if name.endswith("!") else folder
    _table(_file(place, name.rstrip("!"))).to_sql(name, _base(folder), index=False)


def _fill(folder: Path, name: str) -> None:
    """Add a table that a folder lacks, with the checkout's columns and no rows."""
    empty = _table(_file(CHECKOUT, name))[:0]
    empty.to_sql(name, _base(folder), index=False, if_exists="replace")


def _query(folder: Path, sql: str, tables: Iterable[str]) -> list[dict]:
    """Return the rows of a query, after its tables are read."""
    for name in tables:
        plain = name.rstrip("?")
        if plain.endswith("!") or _file(folder, plain).is_file():
            _load(folder, plain)
        else:
            _fill(folder, plain)
    rows = pd.read_sql(sql, _base(folder)).astype(object)
    return rows.where(rows.notna(), None).to_dict("records")


def _made(folder: Path, table: str) -> list[dict]:
    """Return how a table was measured: the sidecars of its notebook, or for a table of
    a benchmark the machine and commit of its runs.

    The list is empty for a benchmark whose table does not name the machine.
    """
    if not table.endswith(".csv"):
        figures = folder / "figures" / table.split("/")[0]
        return [*map(_json, sorted(figures.glob("*.json")))]
    runs = _table(CHECKOUT / table)
    machines = runs.groupby("machine") if "machine" in runs else ()
    return [
        {"machine": {"cpu": cpu}, "commit": own["commit"].iloc[-1]}
        | {"timed": own["load"].max() < ALONE}
        for cpu, own in machines
    ]


def sources() -> list[Path]:
    """Return the folders whose measurements count: the profile paper's, the committed
    ones of ``workbench decide``, and the reader's own."""
    return [CHECKOUT, CHECKOUT / "results" / "decided", decided_folder()]


@cache
def read_claims() -> tuple[Claim, ...]:
    """Return all claims, judged now."""
    entries = tomllib.loads((PRINTED / "claims.toml").read_text("utf-8"))["claim"]
    try:
        return tuple(map(_claim, entries))
    finally:
        for folder in sources():
            _base(folder).close()
        for function in (_base, _load, _json, _table):
            function.cache_clear()


def _claim(entry: dict) -> Claim:
    """Return the claim of an entry of claims.toml, judged."""
    fields = dict(entry)
    sql = fields.pop("sql", "")
    tables = fields.pop("tables", ())
    query = fields.pop("cells", "")
    timed = fields.pop("time", False)
    counterexample = fields.pop("counterexample", "")
    found: dict[str, list[Cell]] = {}
    made: list[dict] = []
    needed = [name for name in tables if name[-1] not in "?!"]
    for folder in sources() if query else ():
        if all(_file(folder, name).is_file() for name in needed):
            rows = _query(folder, query, tables)
            for cell in cells(rows, entry["threshold"], timed):
                found.setdefault(cell.name, []).append(cell)
            for name in (name.rstrip("?") for name in tables):
                made += _made(folder, name) if rows and name in query else []
    judged = tuple(cell for same in found.values() for cell in _decided(same))
    missing = fields.pop("missing", {})
    missing = {name: missing[name] for name in missing if name not in found}
    proof = [Cell("test", 0, 0, 0, "inside")] * ("test" in entry)
    fields["verdict"] = verdict([*judged, *proof], missing)
    if counterexample:
        fields |= {"test": counterexample, "verdict": "false as printed"}
    if sql:
        fields["why"] = entry["why"].format(**_query(CHECKOUT, sql, tables)[0])
    last = max(made, key=lambda sidecar: sidecar.get("date", ""), default={})
    fields |= {
        "cells": judged,
        "missing": missing,
        "machines": _machines(made, timed),
        "date": last.get("date", "")[:10],
        "commit": last.get("commit") or "",
    }
    return Claim(**fields)


def _machines(made: list[dict], timed: bool) -> tuple[str, ...]:
    """Return the processors behind some figures, and for times whether the runs had
    them alone."""
    found = {
        cpu.replace("(R)", "") + " (not alone)" * (timed and not sidecar["timed"])
        for sidecar in made
        for cpu in sidecar["machine"]["cpu"].split(" and ")
    }
    return tuple(sorted(found))


def _decided(same: list[Cell]) -> list[Cell]:
    """Return the decided ones of a cell's measurements on several machines, or the
    last; a file of the checkout is read again for each folder."""
    decided = [cell for cell in same if cell.place in ("inside", "outside")]
    return [*dict.fromkeys(decided)] or same[-1:]


def _plain(value: object) -> object:
    """Return lists and dictionaries as texts, which a database can hold."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


class Median:
    """The aggregate ``median(x)``; rows without a number are left out."""

    def __init__(self):
        self.rows = []

    def step(self, *row):
        if None not in row:
            self.rows.append(row)

    def finalize(self):
        return float(np.median(self.rows)) if self.rows else None


class Slope(Median):
    """The aggregate ``slope(x, y)`` of a fitted line."""

    def finalize(self):
        if len({x for x, _ in self.rows}) < 2:
            return None
        return float(np.polyfit(*zip(*self.rows), 1)[0])
