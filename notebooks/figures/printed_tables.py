"""A table of a paper as a plot: our values as marks next to the printed ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from workbench.core.stream import Row
from workbench.figures.plots import HOLLOW
from workbench.figures.style import look, plain_log
from workbench.registry import SOLVERS


def beside(
    ax: Axes,
    ours: Sequence[Row],
    theirs: pd.DataFrame,
    quantity: str,
    log: bool = False,
) -> None:
    """Draw one quantity of a table: a line per data set, our values as marks, printed
    ones as bars.

    Parameters
    ----------
    ours : list of dict
        Rows of :func:`workbench.figures.reference.measured`; several tables may have
        the same number. A mark is hollow if `cut`, the number of runs that hit the time
        limit, is not 0.
    theirs : DataFrame
        Rows of :func:`workbench.figures.reference.printed`.
    """
    ours = {(r["dataset"], r["method"]): r for r in ours if r["quantity"] == quantity}
    theirs = theirs[theirs["quantity"] == quantity]
    printed = {(r.dataset, r.method): r.value for r in theirs.itertuples()}
    datasets = list(dict.fromkeys(dataset for dataset, _ in ours))
    present = {method for _, method in ours}
    names = [name for name, solver in SOLVERS.items() if solver.label in present]
    for place, name in enumerate(names):
        method, colour, marker = look(name)
        for height, dataset in enumerate(datasets):
            row = ours.get((dataset, method), {})
            at = height + (place - (len(names) - 1) / 2) * 0.8 / len(names)
            if (dataset, method) in printed:
                bar = {"marker": "|", "markersize": 9, "markeredgewidth": 1.6}
                ax.plot(printed[dataset, method], at, color=colour, **bar)
            if row.get("value") is not None:
                style = {
                    "color": colour,
                    "marker": marker,
                    "linestyle": "none",
                    "markersize": 5,
                }
                style |= HOLLOW if row.get("cut") else {}
                ax.errorbar(
                    row["value"], at, xerr=row.get("spread") or 0, elinewidth=1, **style
                )
        ax.plot([], [], color=colour, marker=marker, linestyle="none", label=method)
    if log:
        ax.set_xscale("log")
        plain_log(ax.xaxis)
    else:
        ax.set_xlim(left=0)
    ax.set_yticks(range(len(datasets)), datasets)
    ax.set_ylim(max(1, len(datasets)) - 0.5, -0.5)  # none of these methods may have it
    ax.set_yticks(np.arange(len(datasets) - 1) + 0.5, minor=True)
    ax.grid(False, axis="y")
    ax.grid(True, axis="y", which="minor")
    ax.tick_params(axis="y", which="both", length=0)
