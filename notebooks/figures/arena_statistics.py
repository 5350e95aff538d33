"""Performance profiles of a contest, and how ``arena_error`` draws its fits.

The statistics take costs, an array (sets, partitions, entries): less is better, and
infinity means that an entry never got there: it was refused, failed, was cut by the
clock or was not good enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from workbench.core.trace import Trace
from workbench.figures.style import Look, look


def table(
    frame: pd.DataFrame, column: str, where: pd.Series | None = None
) -> tuple[list[str], list[str], np.ndarray]:
    """Return one column of a contest as costs.

    Parameters
    ----------
    frame : of :meth:`workbench.arena.contest.Contest.frame`: a row for each data set,
        partition and entry
    where : the rows that count; in all others the cost is infinite, as it is where it
        is missing

    Returns
    -------
    entries, sets : in the order of the frame
    costs : (sets, partitions, entries)

    Raises
    ------
    ValueError
        For two rows of one match, or if sets have different partitions.
    """
    values = frame[column] if where is None else frame[column].where(where)
    values = values.astype(float).fillna(np.inf)
    indexed = values.set_axis(
        pd.MultiIndex.from_frame(frame[["data", "partition", "entry"]])
    )
    if not indexed.index.is_unique:
        raise ValueError("frame: two rows have the same data set, partition and entry")
    levels = [frame[name].unique() for name in indexed.index.names]
    shape = [len(level) for level in levels]
    if len(frame) != math.prod(shape):
        raise ValueError("frame: needs a row for each data set, partition and entry")
    costs = indexed.reindex(pd.MultiIndex.from_product(levels)).to_numpy()
    return list(levels[2]), list(levels[0]), costs.reshape(shape)


def until_there(frame: pd.DataFrame, traces: Sequence[Trace]) -> pd.DataFrame:
    """Return the frame with the target of each set and partition, and when each entry
    reached it.

    A fit that the clock cut is not a result: it sets no target and never gets there.

    Parameters
    ----------
    frame, traces : of a contest; the traces are those of the rows that are done, in
        their order

    Returns
    -------
    frame : with ``whole``, done and not cut; ``target``, the least test error of any
        entry plus its standard error, NaN if there is none; ``there``, whole and at the
        target; and ``since``, see :func:`stays`, times ``fit_cpu`` over the trace's,
        infinite for those that are not whole
    """
    places, done = ["data", "partition"], frame["status"] == "done"
    frame = frame.assign(whole=done & ~frame["cut"].eq(True), since=np.inf)
    ranked = frame[frame["whole"]].sort_values("test_error").groupby(places)
    best = ranked[["test_error", "standard_error"]].first()
    frame = frame.join(best.sum(axis=1, min_count=2).rename("target"), on=places)
    frame["there"] = frame["whole"] & (frame["test_error"] <= frame["target"])
    for row, trace in zip(frame.index[done], traces, strict=True):
        if frame.loc[row, "whole"]:
            since, whole = stays(trace, frame.loc[row, "target"]), trace.last["cpu"]
            # of one fit, whose time may be too short for the clock
            if 0 < since < math.inf:
                since *= frame.loc[row, "fit_cpu"] / whole
            frame.loc[row, "since"] = since
    return frame


def stays(trace: Trace, target: float) -> float:
    """Return the CPU seconds from which on the test error is at most `target`, to the
    run's end.

    Infinity for a run that ends above it: one lucky round does not count.
    """
    errors = trace.column("test_error")
    judged = np.isfinite(errors)
    errors, clock = errors[judged], trace.column("cpu")[judged]
    above = np.flatnonzero(errors > target)
    first = above[-1] + 1 if len(above) else 0
    return float(clock[first]) if first < len(errors) else math.inf


def performance_ratios(costs: np.ndarray) -> np.ndarray:
    """Return the performance ratios of Dolan and Moré (2002), (instances, entries).

    A ratio is a positive cost over the least of its instance, a set and a partition;
    infinite if the entry never got there. The share of an entry's ratios that are at
    most tau is its profile.
    """
    flat = costs.reshape(-1, costs.shape[-1])
    there, best = np.isfinite(flat), flat.min(axis=1, keepdims=True)
    return np.divide(flat, best, out=np.full(flat.shape, np.inf), where=there)


def looks(frame: pd.DataFrame) -> dict[str, Look]:
    """Return how each entry of a contest's frame is drawn: as its solver, under its own
    label."""
    labels = dict(zip(frame["entry"], frame["label"]))
    return {name: look(name)._replace(label=label) for name, label in labels.items()}


GREY = "#C4C4C4"


def coloured(look: Look, best: bool) -> Look:
    """Return how an entry is drawn: in its colour, or in grey and without a name in the
    legend."""
    return look if best else look._replace(colour=GREY, label=None)


def draw_spread(
    ax: Axes, look: Look, x: Sequence[float], y: Sequence[float], cut: Sequence[bool]
) -> None:
    """Draw the medians of some runs as one mark, with whiskers to the least and the
    most.

    The runs that the clock `cut` get a hollow mark of their own; the legend shows a
    full one.
    """
    style = {
        "color": look.colour,
        "marker": look.marker,
        "markersize": 4,
        "linestyle": "none",
    }
    x, y, cut = np.asarray(x), np.asarray(y), np.asarray(cut, dtype=bool)
    for runs, face in ((~cut, look.colour), (cut, "white")):
        if runs.any():
            (left, at, right), (low, up, high) = (
                np.quantile(v[runs], [0, 0.5, 1]) for v in (x, y)
            )
            whiskers = {
                "xerr": [[at - left], [right - at]],
                "yerr": [[up - low], [high - up]],
            }
            behind = {"zorder": 1} if look.colour == GREY else {}
            ax.errorbar(at, up, **whiskers, **style, **behind, elinewidth=0.6, mfc=face)
    if look.label:
        ax.plot([], [], **style, label=look.label)
