"""Plots of traces in one house style: one colour and one marker per solver everywhere.

Functions draw into an Axes. ``runs`` is a dict from a label to the traces of its
repetitions. A label that names a solver of the registry gets the solver's label, colour
and marker; other labels, such as settings of one solver, are drawn as they are given.

A marker is hollow exactly if the clock ended one of its runs;
:class:`workbench.figures.Figures` appends the sentence of :func:`ended_by_clock` to
every caption. A number printed in a paper is drawn as a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from workbench.core.kinds import Array
from workbench.core.trace import Trace
from workbench.figures.curves import on_grid, quartiles
from workbench.figures.style import LABELS, look, plain_log

if TYPE_CHECKING:
    import pandas as pd

Runs = Mapping[str, Sequence[Trace]]
RAMP = colormaps["viridis"]  # for ordered settings
HOLLOW: dict = {"markerfacecolor": "white", "linestyle": "none"}
ENDED = "Runs that hit the time limit are hollow, in brackets or missing"


def convergence(
    ax: Axes,
    runs: Runs,
    x: str = "seconds",
    y: str | Callable[[Trace], Array] = "gap",
    floor: float = 1e-9,
    ylabel: str | None = None,
) -> None:
    """Draw the median curve and the quartile band of each label over its repetitions.

    A run is a step function: it keeps the value of a row until the next row, and the
    value of its last row forever. A label has a marker at the end of its longest run;
    it is hollow if the clock ended one of the runs.

    Parameters
    ----------
    x : str
        ``seconds``, ``cpu`` or ``round``. The axis is logarithmic; an axis of rounds
        also shows 0.
    y : str or function
        A column of the rows, or ``y(trace) -> array`` with one value per row. The axis
        is logarithmic. Values that are not finite, such as NaN if a row was not
        evaluated, are skipped.
    floor : float
        The smallest value that is drawn, since a logarithmic axis has no 0.
    ylabel : str, optional
        The label of the axis (default: the label of the column; none for a
        function).
    """
    for position, (label, traces) in enumerate(runs.items()):
        grid, values = on_grid([_curve(trace, x, y) for trace in traces])
        if not len(grid):
            continue
        name, colour, marker = look(label, position)
        low, median, high = np.maximum(quartiles(values), floor)
        _line(ax, grid, median, traces, color=colour, marker=marker, label=name)
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
    """Fill the band between the best lower and the best upper bound so far.

    The bounds are medians over the runs. If all runs solve the same problem, the
    minimax risk, or another quantity that the bounds enclose, certainly lies in the
    band.
    """
    name, colour, marker = look(label)

    def best(bound: str, choose: np.ufunc) -> list:
        def so_far(trace: Trace) -> Array:
            return choose.accumulate(trace.column(bound))

        return [_curve(trace, x, so_far) for trace in traces]

    lower = best("lower", np.fmax)
    grid, values = on_grid(lower + best("upper", np.fmin))
    begun = sum(len(times) > 0 for times, _ in lower)
    low = quartiles(values[:begun])[1]
    high = quartiles(values[begun:])[1]
    ax.fill_between(grid, low, high, color=colour, alpha=0.2, linewidth=0)
    style: dict = {"color": colour, "marker": marker, "linewidth": 1.1}
    _line(ax, grid, low, traces, label=name, **style)
    _line(ax, grid, high, traces, **style)
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
    """Return a caption's sentence on the runs that the clock ended, empty without
    any."""
    solvers: dict[str, list[Trace]] = {}
    for trace in traces:
        solvers.setdefault(trace.header["solver"], []).append(trace)
    limits = dict[str, None]()
    counts = []
    for name, runs in solvers.items():
        cut = [str(trace.stopped_by) for trace in runs if trace.cut]
        if cut:
            limits |= dict.fromkeys(cut)
            counts.append(f"{len(cut)} of {len(runs)} runs of {look(name).label}")
    if not counts:
        return ""
    words = " or ".join(limits).replace("processor seconds", "s of CPU time")
    return f"{ENDED} ({words}): {', '.join(counts)}."


def ranked(values: Mapping[str, float] | pd.Series, unit: str = "s") -> str:
    """Return a text of values in ascending order, with multiples of the smallest one.

    Infinite values mean that a goal was not reached.

    >>> ranked({"mrc_ccg": 160.0, "mrc_lp": np.inf, "ours": 0.1})
    'ours 0.1 s, MRC-CCG 160 s (1,600 times), not reached by MRC-LP'
    """
    reached = {name: value for name, value in values.items() if np.isfinite(value)}
    words: list[str] = []
    for name, value in sorted(reached.items(), key=lambda pair: pair[::-1]):
        text = f"{look(name).label} {two_digits(value)} {unit}"
        if words:
            text += f" ({two_digits(value / min(reached.values()))} times)"
        words.append(text)
    missed = [look(name).label for name, _ in values.items() if name not in reached]
    if missed:
        words.append(f"not reached by {', '.join(missed)}")
    return ", ".join(words)


def two_digits(value: float) -> str:
    """Return a number with two digits in plain notation: 0.052, 7.5, 1,600."""
    return f"{float(f'{value:.2g}'):,g}"


def clock_label(x: str, groups: Iterable[Sequence[Trace]]) -> str:
    """Return the label of an axis of ``seconds``, ``cpu`` or ``round``.

    A label of seconds ends with ``approximate`` if a run was not measured in timing
    mode.
    """
    label = LABELS.get(x, x)
    exact = x == "round" or all(t.header.get("timed") for runs in groups for t in runs)
    return label if exact else f"{label}, approximate"


def _curve(trace: Trace, x: str, y) -> tuple[Array, Array]:
    times = trace.column(x)
    values = trace.column(y) if isinstance(y, str) else np.asarray(y(trace), float)
    known = np.isfinite(values)
    return times[known], values[known]


def _line(ax: Axes, x, y, traces: Iterable[Trace], **style) -> None:
    """Draw a curve with a marker at its end, hollow if the clock ended a run."""
    ax.plot(x, y, markevery=[len(x) - 1], **style)
    if any(trace.cut for trace in traces):
        hollow = HOLLOW | {"color": style["color"], "marker": style["marker"]}
        ax.plot(x[-1], y[-1], **hollow)


def _x_axis(ax: Axes, x: str, groups: Iterable[Sequence[Trace]]) -> None:
    ax.set_xlabel(clock_label(x, groups))
    if x == "round":
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(left=0)
    else:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        if high < 20 * low:  # powers of ten alone might leave the axis without numbers
            plain_log(ax.xaxis)
    ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10)))
    ax.xaxis.set_minor_formatter(NullFormatter())
