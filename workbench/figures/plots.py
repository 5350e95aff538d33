"""Plots of traces in one house style: one colour and one marker per solver everywhere.

Every function draws into an Axes and takes ``runs``: a dict from a label to the traces
of its repetitions. A label that names a solver of the registry gets the solver's label,
colour and marker; other labels (the settings of one solver) are drawn as they are
given.

A mark is hollow exactly if the clock ended a run behind it; :func:`ended_by_clock` says
so in words, which :class:`workbench.figures.Figures` appends to every caption. A
paper's printed number is a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from workbench.core.trace import Trace
from workbench.figures.curves import on_grid, quartiles
from workbench.figures.style import LABELS, look, plain_log
from workbench.registry import SOLVERS

if TYPE_CHECKING:
    import pandas as pd

Runs = Mapping[str, Sequence[Trace]]
RAMP = colormaps["viridis"]  # for ordered settings
HOLLOW: dict = {"markerfacecolor": "white", "linestyle": "none"}
ENDED = "Hollow, in brackets or missing: ended by the clock"


def convergence(
    ax: Axes,
    runs: Runs,
    x: str = "seconds",
    y: str | Callable[[Trace], np.ndarray] = "gap",
    floor: float = 1e-9,
    ylabel: str | None = None,
) -> None:
    """Draw the median curve and the quartile band of each label over its repetitions.

    A run is a step function: between two rows it keeps the value of the first, and
    after its last row that value. A marker stands where a label's last run ended,
    hollow if the clock ended one.

    Parameters
    ----------
    x : ``seconds``, ``cpu`` or ``round``; logarithmic, rounds with 0 shown
    y : a column of the rows, or ``y(trace) -> array`` with one value per row;
        logarithmic. NaN values (rows that were not evaluated) are skipped.
    floor : smallest value drawn; a logarithmic axis has no 0
    """
    for position, (label, traces) in enumerate(runs.items()):
        curves = [_curve(trace, x, y) for trace in traces]
        grid, values = on_grid(curves)
        if not len(grid):
            continue
        name, colour, marker = look(label, position)
        low, median, high = np.maximum(quartiles(values), floor)
        ax.plot(
            grid,
            median,
            color=colour,
            label=name,
            marker=marker,
            markevery=[len(grid) - 1],
        )
        if any(trace.cut for trace in traces):
            ax.plot(grid[-1], median[-1], color=colour, marker=marker, **HOLLOW)
        if len(traces) > 1:
            ax.fill_between(grid, low, high, color=colour, alpha=0.18, linewidth=0)
    _x_axis(ax, x, runs.values())
    ax.set_yscale("log")
    if ylabel is None:
        ylabel = LABELS.get(y, y) if isinstance(y, str) else ""
    ax.set_ylabel(ylabel)


def certified_band(
    ax: Axes, label: str, traces: Sequence[Trace], x: str = "seconds"
) -> None:
    """Fill the band between the best lower and the best upper bound so far, medians
    over runs.

    The minimax risk, or whatever the bounds enclose, is certified to lie in the band.
    """
    name, colour, marker = look(label)
    lower = [
        _curve(t, x, lambda t: np.fmax.accumulate(t.column("lower"))) for t in traces
    ]
    upper = [
        _curve(t, x, lambda t: np.fmin.accumulate(t.column("upper"))) for t in traces
    ]
    grid, values = on_grid(lower + upper)
    begun = sum(len(xs) > 0 for xs, _ in lower)
    low, high = quartiles(values[:begun])[1], quartiles(values[begun:])[1]
    ax.fill_between(grid, low, high, color=colour, alpha=0.2, linewidth=0)
    style: dict = {"color": colour, "marker": marker}
    for edge, label in ((low, name), (high, None)):
        ax.plot(
            grid, edge, linewidth=1.1, markevery=[len(grid) - 1], label=label, **style
        )
        if any(trace.cut for trace in traces):
            ax.plot(grid[-1], edge[-1], **style, **HOLLOW)
    _x_axis(ax, x, [traces])


def band(ax: Axes, table: pd.DataFrame, **style) -> None:
    """Draw medians as a line and shade the range between the quartiles.

    Parameters
    ----------
    table : DataFrame
        The quartiles at each value of the x axis, as
        :func:`workbench.figures.frames.spread` returns them.
    style : properties of the line, with its ``color``
    """
    ax.plot(table.index, table["median"], **style)
    shade: dict = {"color": style["color"], "alpha": 0.18, "linewidth": 0}
    ax.fill_between(table.index, table["low"], table["high"], **shade)


def ended_by_clock(traces: Iterable[Trace]) -> str:
    """Return a sentence on the runs that the clock ended, for a caption; empty without
    any."""
    solvers: dict[str, list[Trace]] = {}
    for trace in traces:
        solvers.setdefault(trace.header["solver"], []).append(trace)
    limits, counts = dict[str, None](), []
    for name, runs in solvers.items():
        cut = [trace.stopped_by for trace in runs if trace.cut]
        limits |= dict.fromkeys(cut)
        label = SOLVERS[name].label if name in SOLVERS else name
        counts += [f"{label} in {len(cut)} of {len(runs)} runs"] if cut else []
    if not counts:
        return ""
    return f"{ENDED} ({', '.join(limits)}): {', '.join(counts)}."


def ranked(values: Mapping[str, float], unit: str = "s") -> str:
    """Return labels and values in words, in ascending order, with multiples of the
    smallest.

    Infinite values were not reached.

    >>> ranked({"mrc_ccg": 160.0, "mrc_lp": np.inf, "ours": 0.1})
    'ours 0.1 s, MRC-CCG 160 s (1,600 times), not reached by MRC-LP'
    """
    reached = sorted(
        (value, label) for label, value in values.items() if np.isfinite(value)
    )
    words = [
        f"{look(label).label} {two_digits(value)} {unit}" for value, label in reached
    ]
    words[1:] = [
        f"{text} ({two_digits(value / reached[0][0])} times)"
        for text, (value, _) in zip(words[1:], reached[1:], strict=True)
    ]
    missed = [
        look(label).label for label, value in values.items() if not np.isfinite(value)
    ]
    return ", ".join(words + [f"not reached by {', '.join(missed)}"] * bool(missed))


def two_digits(value: float) -> str:
    """Return a number with its first two digits, as people write it: 0.052, 7.5,
    1,600."""
    return f"{float(f'{value:.2g}'):,g}"


def clock_label(x: str, groups: Iterable[Sequence[Trace]]) -> str:
    """Return the label of an axis of ``seconds``, ``cpu`` or ``round``.

    It says ``approximate`` if a run's seconds were not measured in timing mode.
    """
    label = LABELS.get(x, x)
    runs = [trace for traces in groups for trace in traces]
    if x == "round" or all(trace.header.get("timed", False) for trace in runs):
        return label
    return f"{label}, approximate"


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
        low, high = ax.get_xlim()
        if high < 20 * low:  # powers of ten alone would leave it without numbers
            plain_log(ax.xaxis)
    ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10)))
    ax.xaxis.set_minor_formatter(NullFormatter())
