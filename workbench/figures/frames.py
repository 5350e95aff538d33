"""Runs as tidy frames: one row per run, for tables, plots and sentences.

>>> from workbench import load, rounds, run
>>> traces = [run("ridge", load("iris"), rounds(1))[0]]
>>> ends(traces)[["label", "round"]].values.tolist()
[['Ridge regression (scikit-learn)', 1]]
"""

from collections.abc import Iterable

import pandas as pd

from workbench.core.trace import Trace
from workbench.figures.curves import quartiles
from workbench.figures.style import look
from workbench.runs.results import described


def ends(traces: Iterable[Trace]) -> pd.DataFrame:
    """Return one row per run: its setting, its problem, and the last row of its trace.

    The columns are ``trace``, the run itself; ``solver`` and its ``label``; ``data``,
    the description of the loaded data; ``problem``, the name, sizes and origin of the
    problem; ``n``, ``d``, ``k`` and the ``checksum`` that distinguishes splits;
    ``seed``; ``cut``, whether the clock ended the run; a column ``p_<name>`` per
    parameter; and all columns of the last row.
    """
    rows = []
    for trace in traces:
        header = trace.header
        problem = described(trace)
        row = {"trace": trace, "solver": header["solver"], "problem": problem}
        row |= {"label": look(header["solver"]).label, "data": header.get("data")}
        row |= {name: header["problem"][name] for name in ("n", "d", "k", "checksum")}
        row |= {"seed": header.get("seed"), "cut": trace.cut}
        row |= {f"p_{name}": value for name, value in header["parameters"].items()}
        rows.append(row | trace.last)
    return pd.DataFrame(rows)


def optima(traces: Iterable[Trace]) -> pd.DataFrame:
    """Return the interval of the optimum from certified runs, one row per split.

    The index is the checksum of the split. The optimum lies between ``lower``, the best
    lower bound of any run, and ``upper``, the best upper bound. ``value`` is the middle
    of this interval, and ``error`` half of its length.
    """
    splits = ends(traces).groupby("checksum")
    bounds = splits.agg(lower=("lower", "max"), upper=("upper", "min"))
    middle = (bounds["lower"] + bounds["upper"]) / 2
    return bounds.assign(value=middle, error=(bounds["upper"] - bounds["lower"]) / 2)


def spread(frame: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Return the quartiles of column `y` for each value of column `x`, in ascending
    order.

    The columns are ``low``, ``median`` and ``high``. Infinite values count as the
    largest values, as in :func:`workbench.figures.curves.quartiles`.
    """
    rows = {value: quartiles(part[y]) for value, part in frame.groupby(x)}
    return pd.DataFrame(rows, index=["low", "median", "high"]).T
