"""Plots of traces in one house style: one colour and one marker per solver everywhere.

Every function draws into an Axes and takes ``runs``: a dict from a label to the traces of its
repetitions. A label that names a solver of the registry gets the solver's label, colour and
marker; other labels (the settings of one solver) are drawn as they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from workbench.curves import grouped, on_grid, quartiles, time_to, times
from workbench.registry import SOLVERS
from workbench.stream import Row
from workbench.style import LABELS, look
from workbench.trace import Trace

Runs = Mapping[str, Sequence[Trace]]
RAMP = colormaps["viridis"]  # of ordered settings


def convergence(
    ax: Axes,
    runs: Runs,
    x: str = "seconds",
    y: str | Callable[[Trace], np.ndarray] = "gap",
    floor: float = 1e-9,
    ylabel: str | None = None,
) -> None:
    """Draw the median curve and the quartile band of each label over its repetitions.

    A run is a step function: between two rows it keeps the value of the first, and after its last
    row that value. A marker stands where a label's last run ended.

    Parameters
    ----------
    x : ``seconds``, ``cpu`` or ``round``; logarithmic, rounds with 0 shown
    y : a column of the rows, or ``y(trace) -> array`` with one value a row; logarithmic. NaN
        values (rows that were not judged) are skipped.
    floor : values below it are drawn at it, since a logarithmic axis has no 0
    """
    for position, (label, traces) in enumerate(runs.items()):
        curves = [_curve(trace, x, y) for trace in traces]
        grid, values = on_grid([c for c in curves if len(c[0])])
        if not len(grid):
            continue
        name, colour, marker = look(label, position)
        low, median, high = np.maximum(quartiles(values), floor)
        ax.plot(grid, median, color=colour, label=name, marker=marker, markevery=[len(grid) - 1])
        if len(traces) > 1:
            ax.fill_between(grid, low, high, color=colour, alpha=0.18, linewidth=0)
    _x_axis(ax, x, runs.values())
    ax.set_yscale("log")
    if ylabel is None:
        ylabel = LABELS.get(y, y) if isinstance(y, str) else ""
    ax.set_ylabel(ylabel)


def certified_band(
    ax: Axes, label: str, traces: Sequence[Trace], x: str = "seconds", position: int = 0
) -> None:
    """Fill the band between the best lower and the best upper bound so far, medians over runs.

    The minimax risk, or whatever the bounds enclose, is certified to lie in the band.
    """
    name, colour, marker = look(label, position)
    edges = []
    for key, best in (("lower", np.fmax), ("upper", np.fmin)):
        curves = [
            _curve(trace, x, lambda t, key=key, best=best: best.accumulate(t.column(key)))
            for trace in traces
        ]
        grid, values = on_grid([c for c in curves if len(c[0])])
        edges.append((grid, quartiles(values)[1]))
    (grid, low), (same, high) = edges
    start = max(grid[0], same[0])
    grid, low = grid[grid >= start], low[grid >= start]
    high = high[np.searchsorted(same, grid, side="right") - 1]
    ax.fill_between(grid, low, high, color=colour, alpha=0.2, linewidth=0)
    for edge in (low, high):
        ax.plot(
            grid,
            edge,
            color=colour,
            linewidth=1.1,
            marker=marker,
            markevery=[len(grid) - 1],
            label=name if edge is low else None,
        )
    _x_axis(ax, x, [traces])


def scaling(
    ax: Axes,
    runs: Runs,
    size: Callable[[Trace], float],
    tolerance: float | None = None,
    x: str = "seconds",
    symbol: str = "n",
    cost: Callable[[Trace], float] | None = None,
) -> dict[str, float]:
    """Draw time over size, both logarithmic, with the exponent of a fitted power law.

    Points are medians over the repetitions of one size, whiskers the quartiles. A size that half
    of the runs did not finish is an open marker at the time spent: a lower bound, left out of the
    fit.

    Parameters
    ----------
    size : ``size(trace) -> number`` in (0, inf)
    tolerance : the time is that of the first row with a certified gap of at most this; by default
        that of the last row
    x : ``seconds`` or ``cpu``
    symbol : what stands for the size in the legend
    cost : drawn in the place of the time; infinite for a run that did not finish

    Returns
    -------
    exponents : by label, of those with at least three finished sizes
    """
    exponents, ticks = {}, set()
    for position, (label, traces) in enumerate(runs.items()):
        if not traces:
            continue
        name, colour, marker = look(label, position)
        sizes, groups = grouped(traces, size)
        ticks.update(sizes)
        if cost is None:
            spread = np.array([times(group, tolerance, x) for group in groups]).T
        else:
            spread = np.hstack([quartiles([[cost(trace)] for trace in group]) for group in groups])
        done = np.isfinite(spread[1])
        if done.sum() >= 3:
            logs = np.log(sizes[done]), np.log(spread[1, done])
            exponents[label] = float(np.polyfit(*logs, 1)[0])
            name = f"{name}  ∝ ${symbol}^{{{exponents[label]:.1f}}}$"
        style = {"color": colour, "marker": marker}
        if done.any():
            _with_whiskers(ax, sizes, spread, label=name, **style)
            name = None
        else:
            name = f"{name} (not finished)"
        spent = [max(t.last[x] for t in g) for g, d in zip(groups, done, strict=True) if not d]
        ax.plot(sizes[~done], spent, linestyle="none", fillstyle="none", label=name, **style)
    _log_axes(ax, ticks)
    if cost is None:
        ax.set_ylabel(clock_label(x, runs.values()))
    return exponents


def ratios(
    ax: Axes,
    one: Sequence[Trace],
    other: Sequence[Trace],
    setting: Callable[[Trace], float],
    levels: Iterable[float],
    key: str = "gap",
    x: str = "cpu",
    symbol: str = "C",
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
    rows : ``symbol``, ``level`` and ``ratio`` of each dot, with ``bound`` where it is one
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
            found.append({symbol: float(value), "level": float(level), "ratio": over / under})
            found[-1] |= {"bound": True} if bound else {}
        for bound, marker in ((False, "o"), (True, "^")):
            kept = [row for row in found if ("bound" in row) is bound]
            at = [row["level"] * 10 ** (0.45 * (0.5 - share)) for row in kept]
            label = f"{symbol} = {value:g}" if not bound else None
            fill = {"fillstyle": "none"} if bound else {}
            ax.plot(at, [r["ratio"] for r in kept], marker=marker, label=label, **style, **fill)
        rows += found
    found = {level: [row for row in rows if row["level"] == level] for level in levels}
    middle = {
        level: np.median([row["ratio"] for row in there])
        for level, there in found.items()
        if there and len(there) == len(settings) and not any("bound" in row for row in there)
    }
    ax.plot(list(middle), list(middle.values()), color="#888888", linewidth=1, zorder=1)
    ax.axhline(1, color="#444444", linewidth=0.8, linestyle="--", zorder=1)
    _log_axes(ax, levels)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.set_xlim(2.2 * levels[0], levels[-1] / 2.2)
    return rows


def over(ax: Axes, runs: Runs, x: Callable[[Trace], float], y: Callable[[Trace], float]) -> None:
    """Draw a value over a setting, both logarithmic: medians with quartile whiskers.

    Parameters
    ----------
    x, y : functions of a trace; runs with equal `x` are the repetitions of one setting
    """
    for position, (label, traces) in enumerate(runs.items()):
        if not traces:
            continue
        name, colour, marker = look(label, position)
        settings, groups = grouped(traces, x)
        values = np.hstack([quartiles([[y(trace)] for trace in group]) for group in groups])
        _with_whiskers(ax, settings, values, color=colour, marker=marker, label=name)
    _log_axes(ax, {x(trace) for traces in runs.values() for trace in traces})


def heatmap(
    ax: Axes,
    values: np.ndarray,
    rows: Sequence[float],
    columns: Sequence[float],
    form: str = ".1e",
    log: bool = True,
) -> None:
    """Draw a table as shades, darker for more, with the numbers written in.

    Parameters
    ----------
    values : (len(rows), len(columns)), not negative; positive when `log`, which shades their
        logarithms. The shades span a decade, or a fifth of the largest, at least: noise stays pale.
    form : format specification of the numbers
    """
    shades = np.log10(values) if log else values
    low, span = shades.min(), max(np.ptp(shades), 1.0 if log else 0.2 * shades.max() or 1.0)
    # The darkest third of the map is left out, so that black numbers stay legible throughout.
    ax.imshow(shades, cmap="Blues", vmin=low - 0.1 * span, vmax=low + 1.8 * span, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        ax.text(j, i, f"{value:{form}}", ha="center", va="center", size=8)
    ax.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
    ax.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def time_to_tolerance(
    ax: Axes, runs: Runs, tolerances: Iterable[float], key: str = "gap", x: str = "seconds"
) -> None:
    """Draw the time to reach each tolerance, tighter to the right; both axes logarithmic.

    Medians over repetitions with quartile whiskers; a tolerance that fewer than half of the runs
    reached is left out.
    """
    tolerances = np.sort(np.asarray(list(tolerances), dtype=float))[::-1]
    for position, (label, traces) in enumerate(runs.items()):
        if not traces:
            continue
        name, colour, marker = look(label, position)
        reached = [[time_to(trace, key, t, x) for t in tolerances] for trace in traces]
        _with_whiskers(ax, tolerances, quartiles(reached), color=colour, marker=marker, label=name)
    _log_axes(ax)
    ax.set(ylabel=clock_label(x, runs.values()), xlabel=f"tolerance on the {LABELS.get(key, key)}")
    if not ax.xaxis_inverted():
        ax.invert_xaxis()


def beside(
    ax: Axes, ours: Sequence[Row], theirs: pd.DataFrame, quantity: str, log: bool = False
) -> None:
    """Draw one quantity of a table: a line for each data set, ours filled, the paper's hollow.

    Parameters
    ----------
    ours : rows of :func:`workbench.reference.measured`; several tables may have the same number
    theirs : rows of :func:`workbench.reference.printed`
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
            style = {"marker": marker, "color": colour, "linestyle": "none", "markersize": 4}
            if row.get("value") is not None:
                at, spread = row["value"], row.get("spread") or 0.0
                ax.errorbar(at, height + shift, xerr=spread, **style, label=label, elinewidth=1)
                label = None  # once is enough
            other = printed.get((dataset, method), np.nan)
            (hollow,) = ax.plot(other, height + shift, **style, fillstyle="none")
        hollow.set_label(label)
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


def clock_label(x: str, groups: Iterable[Sequence[Trace]]) -> str:
    """Return the label of an axis of ``seconds``, ``cpu`` or ``round``.

    It says ``not timed`` where a run's seconds were not measured in timing mode.
    """
    label = LABELS.get(x, x)
    runs = [trace for traces in groups for trace in traces]
    if x == "round" or all(trace.header.get("timed", False) for trace in runs):
        return label
    return f"{label}, not timed"


def _with_whiskers(ax: Axes, x: np.ndarray, quarters: np.ndarray, **style) -> None:
    """Draw the finite medians of (3, points) quartiles, whiskers up to a finite quartile."""
    low, median, high = quarters[:, np.isfinite(quarters[1])]
    x = x[np.isfinite(quarters[1])]
    whiskers = [median - low, np.where(np.isfinite(high), high, median) - median]
    ax.plot(x, median, **style)
    ax.errorbar(x, median, whiskers, fmt="none", ecolor=style["color"], capsize=2, elinewidth=1)


def _log_axes(ax: Axes, settings: Iterable[float] = ()) -> None:
    """Make both axes logarithmic with numbers as people write them, x ticks at the settings."""
    ax.set(xscale="log", yscale="log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 20 * low else (1,)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    if settings := sorted(settings):
        ax.set_xticks(settings, [f"{setting:,g}" for setting in settings])
        ax.set_xticks([], minor=True)


def _curve(trace: Trace, x: str, y) -> tuple[np.ndarray, np.ndarray]:
    xs = trace.column(x)
    ys = trace.column(y) if isinstance(y, str) else np.asarray(y(trace), dtype=float)
    kept = np.isfinite(ys)
    return xs[kept], ys[kept]


def _x_axis(ax: Axes, x: str, groups: Iterable[Sequence[Trace]]) -> None:
    ax.set_xlabel(clock_label(x, groups))
    if x == "round":
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(left=0)
    else:
        ax.set_xscale("log")
    ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10)))
    ax.xaxis.set_minor_formatter(NullFormatter())
