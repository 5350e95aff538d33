"""The board of claims: what the five papers say of their methods, and whether it holds
here.

data/reference/claims.toml gives for each claim the SQL query whose one row decides it.
Its tables are ``"name/figure"``, the numbers of a figure's sidecar, ``"name"``, the
rows of all runs of results/name.parquet, and ``"path.csv"``, a file of the checkout.
"""

from __future__ import annotations

import json
import sqlite3
import tomllib
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from workbench.runs.mill import PRINTED
from workbench.runs.notebooks import CHECKOUT

VERDICTS = (
    "holds",
    "holds in part",
    "does not hold",
    "not decided",
    "cannot be tested here",
)


class Claim(NamedTuple):
    """A paper's claim: fields of claims.toml, and how its seconds were ``timed``."""

    paper: str
    claim: str
    where: str
    quote: str
    verdict: str
    number: str
    why: str = ""
    figure: str = ""
    command: str = ""
    timed: str = ""
    scope: str = ""
    threshold: str = ""


@cache
def read_claims() -> tuple[Claim, ...]:
    """Return all claims, their numbers computed now.

    A claim is not decided if its numbers no longer bear out the verdict, that is, if
    its query's column ``ok`` is not 1.
    """
    entries = tomllib.loads((PRINTED / "claims.toml").read_text("utf-8"))["claim"]
    with sqlite3.connect(":memory:") as base:
        base.create_aggregate("median", 1, Median)
        base.create_aggregate("slope", 2, Slope)
        return tuple(_claim(base, entry) for entry in entries)


def _claim(base: sqlite3.Connection, entry: dict) -> Claim:
    """Return the claim of an entry of claims.toml, with its numbers filled in."""
    fields = dict(entry)
    sql = fields.pop("sql", "")
    tables = fields.pop("tables", ())
    if fields.pop("time", False):
        sidecar = _sidecar(entry["figure"])
        processor = sidecar["machine"]["cpu"].replace("(R)", "")
        alone = f"timed alone, {processor}"
        fields["timed"] = alone if sidecar["timed"] else "not timed alone"
    values: dict = {}
    if sql:
        for name in tables:
            exists = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if not base.execute(exists, [name]).fetchone():
                _table(name).to_sql(name, base, index=False)
        values = pd.read_sql(sql, base).to_dict("records")[0]
        if values["ok"] != 1:
            verdict = fields["verdict"]
            fields["verdict"] = "not decided"
            fields["number"] = str(values)
            fields["why"] = (
                f"The numbers no longer bear out {verdict!r}: judge the claim again."
            )
            return Claim(**fields)
    for name in ("number", "why"):
        fields[name] = fields.get(name, "").format(**values)
    return Claim(**fields)


def _table(name: str) -> pd.DataFrame:
    """Return a table by its name in claims.toml."""
    if "/" not in name:
        table = pd.read_parquet(CHECKOUT / "results" / f"{name}.parquet")
        # True in the last row of each run.
        return table.assign(ended=~table.duplicated("run", keep="last"))
    if name.endswith(".csv"):
        return pd.read_csv(CHECKOUT / name)
    return pd.DataFrame(_sidecar(name)["numbers"]).map(_plain)


def _plain(value: object) -> object:
    """Return lists and dictionaries as texts, which a data base can hold."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def _sidecar(name: str) -> dict:
    return json.loads((CHECKOUT / "figures" / f"{name}.json").read_text("utf-8"))


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
        return float(np.polyfit(*zip(*self.rows), 1)[0]) if self.rows else None
