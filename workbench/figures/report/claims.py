"""The board of claims: what the five papers say of their methods, and whether it holds
here.

data/reference/claims.toml names for each claim the SQL query whose one row decides it.
The tables are ``"name/figure"``, the numbers of a figure's sidecar, ``"name"``, the
rows of all runs of results/name.parquet, and a .csv file of the checkout.
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
    """A paper's claim: the fields of claims.toml, and whether its seconds were timed
    alone."""

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
    values = {}
    if entry.pop("time", False):
        made = _sidecar(entry["figure"])
        alone = f"timed alone, {made['machine']['cpu'].replace('(R)', '')}"
        entry["timed"] = alone if made["timed"] else "not timed alone"
    if sql := entry.pop("sql", ""):
        for name in entry.pop("tables"):
            if not base.execute(
                "SELECT 1 FROM sqlite_master WHERE name = ?", [name]
            ).fetchone():
                _table(name).to_sql(name, base, index=False)
        values = pd.read_sql(sql, base).to_dict("records")[0]
        if values["ok"] != 1:
            why = f"The numbers no longer bear out {entry['verdict']!r}: judge the claim again."
            return Claim(
                **entry | {"verdict": "not decided", "number": str(values), "why": why}
            )
    return Claim(
        **entry | {n: entry.get(n, "").format(**values) for n in ("number", "why")}
    )


def _table(name: str) -> pd.DataFrame:
    if "/" in name:
        of_csv = name.endswith(".csv")
        table = pd.DataFrame(
            pd.read_csv(CHECKOUT / name) if of_csv else _sidecar(name)["numbers"]
        )
        return table.map(lambda v: json.dumps(v) if isinstance(v, (dict, list)) else v)
    table = pd.read_parquet(CHECKOUT / "results" / f"{name}.parquet")
    return table.assign(
        ended=~table.duplicated("run", keep="last")
    )  # the last row of each run


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
