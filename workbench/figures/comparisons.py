"""Plots that compare: one solver with another, solvers at each tolerance, ours with the papers'.

They are in the style of :mod:`workbench.figures.plots`, and draw into an Axes as those do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from workbench.core.stream import Row
from workbench.core.trace import Trace
from workbench.figures.curves import grouped, quartiles, time_to
from workbench.figures.plots import HOLLOW, RAMP, Runs, clock_label, log_axes, with_whiskers
from workbench.figures.style import LABELS, look
from workbench.registry import SOLVERS


def ratios(
    ax: Axes,
    one: Sequence[Trace],
    other: Sequence[Trace],
    setting: Callable[[Trace], float],
    levels: Iterable[float],
    key: str = "gap",
    x: str = "cpu",
) -> list[Row]:
    """Draw how many times as long `one` solver takes as an `other` to bring a column down.

    A dot for each setting at each level, tighter to the right: the median time of the one over
    the median time of the other, on logarithmic axes. The dots of a level stand side by side in
    the order of their settings, lighter for larger ones; a line joins the medians of the levels
    that all settings reached. Where most runs of the one did not get there, their ratio to its
    last row's time is a lower bound, a hollow triangle; where most of the other did not, there is
    no dot.

    Returns
    -------
    rows : ``C``, ``level`` and ``ratio`` of each dot, with ``bound`` where it is one
    """
    levels = np.sort(np.asarray(list(levels), dtype=float))[::-1]
    first, second = dict(zip(*grouped(one, setting))), dict(zip(*grouped(other, setting)))
    settings = [value for value in first if value in second]
    rows = []
    for place, value in enumerate(settings):
        share = place / max(len(settings) - 1, 1)
        style = {"color": RAMP(0.85 * share), "linestyle": "none", "markersize": 4}
        found = []
        for level in levels:
            over, under = (
                quartiles([[time_to(t, key, level, x)] for t in runs[value]])[1, 0]
                for runs in (first, second)
            )
            if not np.isfinite(under):
                continue
            bound = not np.isfinite(over)
            if bound:
                over = np.median([trace.last[x] for trace in first[value]])
            found.append({"C": float(value), "level": float(level), "ratio": over / under})
            found[-1] |= {"bound": True} if bound else {}
        for bound, marker in ((False, "o"), (True, "^")):
            kept = [row for row in found if ("bound" in row) is bound]
            at = [row["level"] * 10 ** (0.45 * (0.5 - share)) for row in kept]
            label = f"C = {value:g}" if not bound else None
            fill = HOLLOW if bound else {}
            ax.plot(at, [r["ratio"] for r in kept], marker=marker, label=label, **style | fill)
        rows += found
    found = {level: [row for row in rows if row["level"] == level] for level in levels}
    middle = {
        level: np.median([row["ratio"] for row in there])
        for level, there in found.items()
        if there and len(there) == len(settings) and not any("bound" in row for row in there)
    }
    ax.plot(list(middle), list(middle.values()), color="#888888", linewidth=1, zorder=1)
    ax.axhline(1, color="#444444", linewidth=0.8, linestyle="--", zorder=1)
    log_axes(ax, levels)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.set_xlim(2.2 * levels[0], levels[-1] / 2.2)
    return rows


def time_to_tolerance(
    ax: Axes, runs: Runs, tolerances: Iterable[float], key: str = "gap", x: str = "seconds"
) -> None:
    """Draw the time to reach each tolerance, tighter to the right; both axes logarithmic.

    Medians over repetitions with quartile whiskers; a tolerance that fewer than half of the runs
    reached is left out. The first of these is a hollow mark at the median time spent, a lower
    bound, where the clock ended a run.
    """
    tolerances = np.sort(np.asarray(list(tolerances), dtype=float))[::-1]
    for position, (label, traces) in enumerate(runs.items()):
        if not traces:
            continue
        name, colour, marker = look(label, position)
        reached = [[time_to(trace, key, t, x) for t in tolerances] for trace in traces]
        quarters = quartiles(reached)
        with_whiskers(ax, tolerances, quarters, color=colour, marker=marker, label=name)
        missed = np.flatnonzero(np.isinf(quarters[1]))[:1]
        if any(trace.cut for trace in traces):
            spent = [np.median([trace.last[x] for trace in traces])] * len(missed)
            ax.plot(tolerances[missed], spent, color=colour, marker=marker, **HOLLOW)
    log_axes(ax)
    ax.set(ylabel=clock_label(x, runs.values()), xlabel=f"tolerance on the {LABELS.get(key, key)}")
    if not ax.xaxis_inverted():
        ax.invert_xaxis()


def beside(
    ax: Axes, ours: Sequence[Row], theirs: pd.DataFrame, quantity: str, log: bool = False
) -> None:
    """Draw one quantity of a table: a line for each data set, ours as marks, the paper's as bars.

    Parameters
    ----------
    ours : rows of :func:`workbench.figures.reference.measured`; several tables may have the
        same number. Hollow where their `cut` is not 0: the clock ended so many of the runs.
    theirs : rows of :func:`workbench.figures.reference.printed`
    """
    ours = {(r["dataset"], r["method"]): r for r in ours if r["quantity"] == quantity}
    theirs = theirs[theirs["quantity"] == quantity]
    printed = {(r.dataset, r.method): r.value for r in theirs.itertuples()}
    datasets = list(dict.fromkeys(dataset for dataset, _ in ours))
    present = {method for _, method in ours}
    names = {solver.label: name for name, solver in SOLVERS.items() if solver.label in present}
    for place, (method, name) in enumerate(names.items()):
        label, colour, marker = look(name)
        shift = (place - (len(names) - 1) / 2) * 0.8 / len(names)
        for height, dataset in enumerate(datasets):
            row = ours.get((dataset, method), {})
            style = {"color": colour, "linestyle": "none"}
            other = printed.get((dataset, method), np.nan)
            ax.plot(other, height + shift, marker="|", markersize=9, markeredgewidth=1.6, **style)
            if row.get("value") is not None:
                at, spread = row["value"], row.get("spread") or 0.0
                style |= {"marker": marker, "markersize": 5} | (HOLLOW if row.get("cut") else {})
                ax.errorbar(at, height + shift, xerr=spread, elinewidth=1, **style)
        ax.plot([], [], color=colour, marker=marker, linestyle="none", label=label)
    if log:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_xlim(left=0)
    ax.set_yticks(range(len(datasets)), datasets)
    ax.set_ylim(len(datasets) - 0.5, -0.5)
    ax.set_yticks(np.arange(len(datasets) - 1) + 0.5, minor=True)
    ax.grid(False, axis="y")
    ax.grid(True, axis="y", which="minor")
    ax.tick_params(axis="y", which="both", length=0)
