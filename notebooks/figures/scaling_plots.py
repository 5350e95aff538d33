"""Times of runs, and plots over a size or a setting with logarithmic axes, for figure
notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FuncFormatter,
    LogFormatterSciNotation,
    LogLocator,
    NullFormatter,
)

from workbench.core.trace import Trace
from workbench.figures.curves import quartiles
from workbench.figures.frames import spread
from workbench.figures.plots import HOLLOW, Runs, clock_label
from workbench.figures.style import look


def time_to(trace: Trace, key: str, tolerance: float, x: str = "seconds") -> float:
    """Return ``row[x]`` of the first row with ``row[key] <= tolerance``, infinity
    without one."""
    hits = np.flatnonzero(trace.column(key) <= tolerance)
    return float(trace.rows[hits[0]][x]) if len(hits) else np.inf


def times(
    traces: Sequence[Trace], tolerance: float | None, x: str, key: str = "gap"
) -> np.ndarray:
    """Return the three quartiles of the times until the gap, or another `key`, is at
    most `tolerance`.

    Without a tolerance they are the times of whole runs. The time of a run that did not
    reach the tolerance, or that hit the time limit, is infinite.
    """
    if tolerance is None:
        return quartiles(
            [[np.inf if trace.cut else trace.last[x]] for trace in traces]
        )[:, 0]
    return quartiles([[time_to(trace, key, tolerance, x)] for trace in traces])[:, 0]


def grouped(
    traces: Sequence[Trace], key: Callable[[Trace], float]
) -> tuple[np.ndarray, list[list[Trace]]]:
    """Return the ascending values of `key` and the traces that have each."""
    groups: dict[float, list[Trace]] = {}
    for trace in traces:
        groups.setdefault(key(trace), []).append(trace)
    keys = sorted(groups)
    return np.array(keys), [groups[k] for k in keys]


def scaling(
    ax: Axes,
    runs: Runs,
    size: Callable[[Trace], float],
    tolerance: float | None = None,
    x: str = "seconds",
    symbol: str = "n",
) -> dict[str, float]:
    """Draw time over size, both logarithmic, with the exponent of a fitted power law.

    Points are medians over the repetitions of one size, whiskers show the quartiles. A
    size that half of the runs did not finish has a hollow mark at the time spent, a
    lower bound, and is left out of the fit.

    Parameters
    ----------
    size : function
        ``size(trace)`` returns a positive number.
    tolerance : float, optional
        The time is taken at the first row with a certified gap of at most `tolerance`
        (default: at the last row, infinite if the time limit ended the run).
    x : str
        ``seconds`` or ``cpu``.
    symbol : str
        The symbol of the size in the legend.

    Returns
    -------
    exponents : dict of str to float
        The exponent of each label with at least four finished sizes.
    """
    exponents, ticks = {}, set()
    for position, (label, traces) in enumerate(runs.items()):
        if not traces:
            continue
        name, colour, marker = look(label, position)
        sizes, groups = grouped(traces, size)
        ticks.update(sizes)
        spread = np.array([times(group, tolerance, x) for group in groups]).T
        done = np.isfinite(spread[1])
        if done.sum() >= 4:  # a line through three points says little
            logs = np.log(sizes[done]), np.log(spread[1, done])
            exponents[label] = float(np.polyfit(*logs, 1)[0])
            name = f"{name}  ∝ ${symbol}^{{{exponents[label]:.1f}}}$"
        style = {"color": colour, "marker": marker}
        if done.any():
            with_whiskers(ax, sizes, spread, label=name, **style)
            name = None
        else:
            name = f"{name} (not finished)"
        spent = [
            max(t.last[x] for t in g)
            for g, d in zip(groups, done, strict=True)
            if not d
        ]
        ax.plot(sizes[~done], spent, label=name, zorder=3, **style, **HOLLOW)
    log_axes(ax, ticks)
    ax.set_ylabel(clock_label(x, runs.values()))
    return exponents


def over(ax: Axes, frame: pd.DataFrame, x: str, y: str, by: str = "solver") -> None:
    """Draw a value over a setting, both logarithmic: medians with quartile whiskers.

    A median is hollow if the clock ended one of its runs.

    Parameters
    ----------
    frame : DataFrame
        One row per run, as :func:`workbench.figures.frames.ends` returns them.
    x, y : str
        Columns of the setting and of the value.
    by : str
        The column whose values have a curve each, solvers or labels.
    """
    for position, (label, runs) in enumerate(frame.groupby(by, sort=False)):
        name, colour, marker = look(label, position)
        quarters = spread(runs, x, y)
        style = {"color": colour, "marker": marker}
        with_whiskers(ax, quarters.index, quarters.T.to_numpy(), label=name, **style)
        cut = runs.groupby(x)["cut"].any()
        ax.plot(quarters["median"][cut], **style, **HOLLOW)
    log_axes(ax, frame[x].unique())


def with_whiskers(ax: Axes, x: np.ndarray, quarters: np.ndarray, **style) -> None:
    """Draw the finite medians of (3, points) quartiles, whiskers up to a finite
    quartile."""
    low, median, high = quarters[:, np.isfinite(quarters[1])]
    x = x[np.isfinite(quarters[1])]
    whiskers = [median - low, np.where(np.isfinite(high), high, median) - median]
    ax.plot(x, median, **style)
    ax.errorbar(
        x, median, whiskers, fmt="none", ecolor=style["color"], capsize=2, elinewidth=1
    )


def log_axes(ax: Axes, settings: Iterable[float] = ()) -> None:
    """Make both axes logarithmic with numbers as people write them, x ticks at the
    settings."""
    log_x(ax, settings)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 20 * low else (1,)))
    plain = FuncFormatter(lambda value, _: f"{value:,g}")  # writes 1e-05 below 0.0001
    ax.yaxis.set_major_formatter(plain if low >= 1e-4 else LogFormatterSciNotation())
    ax.yaxis.set_minor_formatter(NullFormatter())


def log_x(ax: Axes, settings: Iterable[float] = ()) -> None:
    """Make the x axis logarithmic, with ticks at the settings if there are any.

    A setting too near the one left of it, or the last one, keeps its tick without a
    number.
    """
    ax.set_xscale("log")
    if settings := sorted(settings):
        inches = ax.bbox.width / ax.figure.dpi
        decades = max(np.log10(settings[-1] / settings[0]), 0.1)
        names = [f"{s:,.0f}" if s >= 1e6 else f"{s:,g}" for s in settings]
        middles = inches / decades * np.log10(settings)
        halves = 0.035 * np.array([len(name) for name in names])
        end, last = -np.inf, len(names) - 1
        for i, (low, high) in enumerate(zip(middles - halves, middles + halves)):
            if low > end and (i == last or high < middles[last] - halves[last]):
                end = high
            else:
                names[i] = ""
        ax.set_xticks(settings, names)
        ax.set_xticks([], minor=True)
