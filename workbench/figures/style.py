"""The house style of all figures: fonts, axes, and a colour and a marker per solver."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axis import Axis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import TICKDOWN, TICKLEFT
from matplotlib.ticker import Locator, LogLocator, NullLocator

from workbench.core.problem import Array, Problem
from workbench.registry import SOLVERS

HOUSE = Path(__file__).with_name("house.mplstyle")
STYLE = matplotlib.rc_params_from_file(HOUSE, use_default_template=False)
PALETTE = STYLE["axes.prop_cycle"].by_key()["color"]
MARKERS = "sDo^vPX<>*ph"
# The width of a paper's column or page in inches, and the size of letters and lines
# relative to the house style.
PAPER_SIZES = {"column": (3.5, 0.8), "page": (7.2, 1.0)}
LABELS = {
    "seconds": "solver time (s)",
    "cpu": "CPU time (s)",
    "round": "rounds",
    "gap": "certified gap",
    "span_gap": "certified gap in the span of the landmarks",
    "train_error": "training error (fraction)",
    "test_error": "test error (fraction)",
}


class Look(NamedTuple):
    """The look of one label in plots."""

    label: str
    colour: str
    marker: str


def use_style() -> None:
    """Set matplotlib to the house style, in the size of ``WORKBENCH_STYLE``.

    It replaces all settings of the user's matplotlibrc.
    """
    _, scale = PAPER_SIZES.get(os.environ.get("WORKBENCH_STYLE"), (None, 1.0))
    sizes = {
        name: scale * STYLE[name] for name in STYLE if name.endswith(("size", "width"))
    }
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(STYLE | sizes)


def look(label: str, position: int = 0) -> Look:
    """Return the look of a solver, or for other labels the look at a palette
    position."""
    if label in SOLVERS:
        solver = SOLVERS[label]
        return Look(solver.label, solver.colour, solver.marker)
    return Look(
        label, PALETTE[position % len(PALETTE)], MARKERS[position % len(MARKERS)]
    )


def data_name(problem: Problem) -> str:
    """Return the name of the data without sizes and ``standardised``; add ``synthetic``
    if the data are."""
    name = re.sub(r" \d+x\d+x\d+|, standardised", "", problem.name)
    return name + ", synthetic" * (problem.synthetic and "synthetic" not in name)


def title(problem: Problem, between: str = "\n", sizes: str = "ndk") -> str:
    """Return the title of a panel: the name of the data and the given `sizes`."""
    numbers = ", ".join(f"{size} = {getattr(problem, size):,}" for size in sizes)
    return f"{data_name(problem)}{between}{numbers}"


def small_plots(
    number: int, columns: int = 3, height: float = 2.3, above: float = 1.0, **how
) -> tuple[Figure, Array]:
    """Return a figure of `number` plots, and its (rows, columns) axes.

    Each plot is `height` inches high, with `above` inches of space above all of them.
    ``plt.subplots`` receives further options.
    """
    columns = min(columns, number)
    rows = -(-number // columns)
    size = 7.2, above + height * rows
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **how)
    for ax in axes.flat[number:]:
        ax.remove()
    return figure, axes


def plain_log(axis: Axis, *subs: float) -> None:
    """Number a logarithmic axis in plain decimals.

    Each decade has the numbers `subs` (default: 1, and more if the axis is short).
    """
    low, high = axis.get_view_interval()
    if not subs:
        subs = (1, 2, 5) if high < 40 * low else (1,)
        subs = (1, 1.5, 2, 3, 5, 7) if high < 5 * low else subs
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter("")


def legend(figure: Figure, columns: int = 4) -> None:
    """Put one legend above all panels, without duplicates, in the registry's order."""
    entries: dict = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    order = {solver.label: place for place, solver in enumerate(SOLVERS.values())}
    labels = sorted(entries, key=lambda label: order.get(label, len(order)))
    handles = [entries[label] for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def hide_minor_ticks(figure: Figure) -> list[tuple[Axis, Locator]]:
    """Remove the minor ticks of logarithmic axes; return these axes and their locators.

    Axes whose minor ticks have numbers keep them.
    """
    hidden: list[tuple[Axis, Locator]] = []
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            places = axis.get_minorticklocs().tolist()
            numbers = axis.get_minor_formatter().format_ticks(places)
            if axis.get_scale() != "linear" and not any(numbers):
                hidden.append((axis, axis.get_minor_locator()))
    for axis, _ in hidden:  # only now, since shared axes have one locator
        axis.set_minor_locator(NullLocator())
    return hidden


def mark_minor_ticks(hidden: Iterable[tuple[Axis, Locator]]) -> None:
    """Draw hidden minor ticks as one line of markers per axis.

    The picture is the same, but matplotlib makes three lines and two texts per tick.
    The axes must have their final size, on which the number of ticks depends.
    """
    for axis, locator in hidden:
        low, high = sorted(axis.get_view_interval())
        places = np.setdiff1d(locator(), axis.get_majorticklocs())
        places = places[(low <= places) & (places <= high)]
        points = [places, np.zeros(len(places))]
        mark, transform = TICKDOWN, axis.axes.get_xaxis_transform()
        if isinstance(axis, YAxis):
            points.reverse()
            mark, transform = TICKLEFT, axis.axes.get_yaxis_transform()
        size = matplotlib.rcParams["xtick.minor.size"]
        width = matplotlib.rcParams["xtick.minor.width"]
        line = Line2D(*points, color="black", linestyle="none", zorder=2.01)
        line.set(marker=mark, markersize=size, markeredgewidth=width, clip_on=False)
        line.set(transform=transform, in_layout=False)
        axis.axes.add_artist(line)
