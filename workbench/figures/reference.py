"""The numbers that the five papers print, and our own numbers as rows of the same kind.

data/reference/README.md explains the columns; tests/papers/test_reference.py checks
that the files follow its rules.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pandas as pd

from workbench.core.checks import check_known
from workbench.core.kinds import Json, Record
from workbench.papers import PAPERS, same_data
from workbench.runs.mill import PRINTED


def printed(paper: str | None = None) -> pd.DataFrame:
    """Return the printed numbers of one paper, or of all five, one row per number.

    `value` and `spread` are floats, or NaN if the paper or our text of it has no
    number; the other columns are strings.

    Raises
    ------
    ValueError
        If `paper` is not a key of `PAPERS`.
    """
    if paper is not None:
        check_known(paper, PAPERS, "paper")
    return pd.concat(
        [_read(name) for name in PAPERS if paper in (None, name)], ignore_index=True
    )


@cache
def listed(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of another file of printed facts, such as ``captions``."""
    with (PRINTED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file, strict=True))


def measured(
    paper: str,
    tables: Iterable[str],
    dataset: str,
    method: str,
    quantity: str,
    values: Sequence[float],
    unit: str,
    **more: Json,
) -> list[Record]:
    """Return rows like those of :func:`printed`, one per table, with our mean.

    Parameters
    ----------
    dataset : str
        The name of the data set in the paper. A row on other ``data`` (a stand-in or a
        part) has the name of these data instead.
    values : sequence of float
        The values of the runs; empty if no run finished. The spread is their sample
        standard deviation, or None if there are fewer than two.
    more
        Further columns: ``setting``; ``data``, the data set that was run on; ``timed``;
        ``cut``, the number of runs that the clock ended; ``reason``, why our number may
        differ; and a ``spread`` of 0 if nothing is random and there is one run.
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


def _read(paper: str) -> pd.DataFrame:
    """Return the printed numbers in one paper's file."""
    frame = pd.read_csv(PRINTED / f"{paper}.csv", dtype=str, keep_default_na=False)
    numbers = frame[["value", "spread"]].replace("", math.nan).astype(float)
    return frame.astype(object).assign(**numbers)
