"""The numbers that the five papers print, every row checked, and our own as rows of the same kind.

data/reference/README.md says what the columns and the words in them mean.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from workbench.figures.papers import PAPERS, same_data
from workbench.runs.notebooks import CHECKOUT

FOLDER = CHECKOUT / "data" / "reference"
COLUMNS = (
    *("paper", "table", "dataset", "method", "quantity", "setting"),  # these name the number
    *("value", "spread", "unit", "hardware", "note"),
)
KEY = 6
QUANTITIES = (
    *("samples", "features", "classes", "parameter"),
    *("training time", "test time", "subproblem time", "iterations", "memory"),
    *("classification error", "accuracy", "macro-F1", "worst-case error", "average error"),
    *("speed-up", "slow-down", "condition number"),
)
UNITS = ("", "fraction", "%", "s", "MB", "GB", "x", "thousand", "sqrt(C)")
NUMBER = r"(-?\d+(\.\d+)?(e[+-]?\d+)?)?", "is not a number such as 12, 0.5 or 1.1e+2"
RULES = {  # column -> (pattern of its cells, message on another)
    "table": (r"[IVX]+|\d+|Figure \d+|text", "is not a number, 'Figure 2' or 'text'"),
    "dataset": (r"[a-z0-9_]*", "is not in lower case with underscores"),
    "quantity": ("|".join(QUANTITIES), f"is not one of {', '.join(QUANTITIES)}"),
    "setting": (
        r"([A-Za-z][A-Za-z0-9_]*=[!-<>-~]+( (?=[A-Za-z])|$))*",
        "is not name=value name=value",
    ),
    "value": NUMBER,
    "spread": NUMBER,
    "unit": ("|".join(map(re.escape, UNITS)), f"is not one of {', '.join(UNITS)}"),
}


def printed(paper: str | None = None) -> pd.DataFrame:
    """Return the printed numbers of one paper, or of all five, one row per number.

    `value` and `spread` are floats, NaN if the paper or its text has none; the other columns are
    strings.

    Raises
    ------
    ValueError
        For a paper that is not one of `PAPERS`, or naming the file and the line of a bad row.
    """
    if paper is not None and paper not in PAPERS:
        raise ValueError(f"paper: no {paper!r}; there are {', '.join(PAPERS)}")
    rows = [row for name in PAPERS if paper in (None, name) for row in _read(name)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    numbers = ["value", "spread"]
    return frame.assign(**frame[numbers].replace("", math.nan).astype(float))


@cache
def missing() -> dict[str, str]:
    """Return the reasons for which data sets of the papers cannot be had, by their names."""
    with (FOLDER / "missing.csv").open(encoding="utf-8", newline="") as file:
        return {row["dataset"]: row["reason"] for row in csv.DictReader(file, strict=True)}


@cache
def captions() -> dict[tuple[str, str], str]:
    """Return the captions of the papers' tables and figures, by paper and table.

    In brackets are our words, where the text that we have lacks the paper's.
    """
    with (FOLDER / "captions.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        return {(row["paper"], row["table"]): row["caption"] for row in rows}


def measured(
    paper: str,
    tables: Iterable[str],
    dataset: str,
    method: str,
    quantity: str,
    values: Sequence[float],
    unit: str,
    **more: Any,
) -> list[dict[str, Any]]:
    """Return rows like those of :func:`printed`, one per table, with the mean of our values.

    Parameters
    ----------
    dataset : its name in the paper. A row on other ``data``, stand-ins or parts, has their name.
    values : one per run, empty if no run finished. The spread is their standard deviation.
    more : ``setting``, ``data`` (the data set that was run on), ``timed``, ``cut`` (the number of
        runs that the clock ended), and the ``reason`` for which ours may differ from the paper's
    """
    data = more.get("data", dataset)
    if dataset and not same_data(dataset, data):
        dataset = data.replace(", standardised", "")
    row = {
        "dataset": dataset,
        "method": method,
        "quantity": quantity,
        "setting": "",
        "value": float(np.mean(values)) if len(values) else None,
        "spread": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "unit": unit,
        "runs": len(values),
    }
    return [{"paper": paper, "table": table} | row | more for table in tables]


def _read(paper: str) -> list[list[str]]:
    """Read one paper's file."""
    path = FOLDER / f"{paper}.csv"
    if not path.is_file():
        raise ValueError(f"{path}: no such file; the printed numbers come with a checkout")
    rows, seen = [], {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            if (header := next(reader, [])) != list(COLUMNS):
                raise ValueError(f"the columns are {header}, not {list(COLUMNS)}")
            for cells in reader:
                _check(paper, cells)
                line = reader.line_num
                if (first := seen.setdefault(tuple(cells[:KEY]), line)) != line:
                    raise ValueError(f"the same number as line {first}")
                rows.append(cells)
        except UnicodeDecodeError as error:  # a ValueError too, and decoding runs ahead of lines
            raise ValueError(f"{path}: not UTF-8: {error.reason}") from error
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    return rows


def _check(paper: str, cells: list[str]) -> None:
    """Refuse a row that breaks a rule of data/reference/README.md."""
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells, not {len(COLUMNS)}")
    row = dict(zip(COLUMNS, cells))
    for column, text in row.items():
        if text != text.strip() or "\n" in text:
            raise ValueError(f"{column}: space around, or a line break in, {text!r}")
    if row["paper"] != paper:
        raise ValueError(f"paper: {row['paper']!r} in the file of {paper!r}")
    for column, (pattern, message) in RULES.items():
        if not re.fullmatch(pattern, row[column]):
            raise ValueError(f"{column}: {row[column]!r} {message}")
    if row["quantity"] == "parameter" and "parameter=" not in row["setting"]:
        raise ValueError("setting: a parameter needs parameter=name")
    if not row["value"] and (row["spread"] or not row["note"]):
        raise ValueError("value: an empty one needs a note with the reason, and has no spread")
