"""The numbers that the five papers print, every row checked, and ours as rows of the same kind.

data/reference/README.md says what the columns and the words in them mean.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
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
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
_TABLE = re.compile(r"[IVX]+|\d+|Figure \d+|text")
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9_]*=[!-<>-~]+( (?=[A-Za-z])|$))*")


def printed(paper: str | None = None) -> pd.DataFrame:
    """Return the printed numbers of one paper, or of all five, a row a number.

    `value` and `spread` are floats, NaN where the paper or its text has none; the other columns
    are strings.

    Raises
    ------
    ValueError
        For a paper that is not one of `PAPERS`, or naming the file and the line of a bad row.
    """
    if paper is not None and paper not in PAPERS:
        raise ValueError(f"paper: no {paper!r}; there are {', '.join(PAPERS)}")
    rows = [row for name in PAPERS if paper in (None, name) for row in _read(name)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({c: float if c in ("value", "spread") else object for c in COLUMNS})


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
    dataset : the paper's name of it. A row on other ``data``, stand-ins or parts, has their name.
    values : one per run; none where no run came to an end. The spread is their standard deviation.
    more : ``setting``, ``data`` (what was really run on), ``timed``, ``cut`` (how many of the runs
        the clock ended), and the ``reason`` for which ours may differ from the paper's
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


def _read(paper: str) -> list[list]:
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
                key = tuple(cells[:KEY])
                if (first := seen.setdefault(key, reader.line_num)) != reader.line_num:
                    raise ValueError(f"the same number as line {first}")
                rows.append([_number(c, t) for c, t in zip(COLUMNS, cells)])
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
    if not _TABLE.fullmatch(row["table"]):
        raise ValueError(f"table: {row['table']!r} is not a number, 'Figure 2' or 'text'")
    if not re.fullmatch(r"[a-z0-9_]*", row["dataset"]):
        raise ValueError(f"dataset: {row['dataset']!r} is not in lower case with underscores")
    for column, words in (("quantity", QUANTITIES), ("unit", UNITS)):
        if row[column] not in words:
            raise ValueError(f"{column}: {row[column]!r} is not one of {', '.join(words)}")
    if not _SETTING.fullmatch(row["setting"]):
        raise ValueError(f"setting: {row['setting']!r} is not name=value name=value")
    if row["quantity"] == "parameter" and "parameter=" not in row["setting"]:
        raise ValueError("setting: a parameter needs parameter=name")
    if not row["value"] and (row["spread"] or not row["note"]):
        raise ValueError("value: an empty one needs a note that says why, and has no spread")


def _number(column: str, text: str) -> str | float:
    """Return the text of a cell, or its number in the two columns of numbers."""
    if column not in ("value", "spread"):
        return text
    if text and not _NUMBER.fullmatch(text):
        raise ValueError(f"{column}: {text!r} is not a number such as 12, 0.5 or 1.1e+2")
    return float(text) if text else math.nan
