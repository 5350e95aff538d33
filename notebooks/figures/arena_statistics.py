"""Performance profiles of a contest, and how ``arena_error`` draws its fits.

The statistics take costs, an array (data sets, splits, entries). A cost is infinite if
an entry did not reach the target: it was refused, failed, hit the time limit or was not
good enough.
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
    frame : DataFrame
        The frame of a :class:`workbench.arena.contest.Contest`, with one row for each
        data set, split and entry.
    column : str
        The column of the costs.
    where : Series of bool, optional
        The rows that count. The cost of all other rows, and a missing cost, is
        infinite.

    Returns
    -------
    entries, sets : list of str
        Their names, in the order of the frame.
    costs : (data sets, splits, entries) array

    Raises
    ------
    ValueError
        If two rows have the same data set, split and entry, or if data sets have
        different splits.
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
    """Return the frame with the target of each data set and split, and the time at
    which each entry reached it.

    A fit that hit the time limit is not a result: it defines no target and does not
    reach one.

    Parameters
    ----------
    frame : DataFrame
        The frame of a contest.
    traces : sequence of Trace
        The traces of the rows that are done, in their order.

    Returns
    -------
    frame : DataFrame
        New columns are ``whole``, whether a fit is done and did not hit the limit;
        ``target``, the lowest test error of any whole fit plus its standard error, NaN
        if there is none; ``there``, whether a whole fit reaches the target; and
        ``since``, the CPU seconds of :func:`stays`, scaled to the median time of the
        fit, infinite for fits that are not whole.
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
            # The time of a single fit may be too short for the clock.
            if 0 < since < math.inf:
                since *= frame.loc[row, "fit_cpu"] / whole
            frame.loc[row, "since"] = since
    return frame


def stays(trace: Trace, target: float) -> float:
    """Return the CPU seconds after which the test error stays at or below `target`.

    The result is infinite for a run that ends above it: one lucky round does not count.
    """
    errors = trace.column("test_error")
    judged = np.isfinite(errors)
    errors, clock = errors[judged], trace.column("cpu")[judged]
    above = np.flatnonzero(errors > target)
    first = above[-1] + 1 if len(above) else 0
    return float(clock[first]) if first < len(errors) else math.inf


def performance_ratios(costs: np.ndarray) -> np.ndarray:
    """Return the performance ratios of Dolan and Moré (2002), (instances, entries).

    A ratio is a positive cost divided by the lowest cost of its instance, a data set
    and a split; it is infinite if the entry did not reach the target. The profile of an
    entry at tau is the fraction of its ratios that are at most tau.
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
    """Draw the medians of some runs as one mark, with whiskers to the minima and
    maxima.

    The runs that hit the time limit (`cut`) get a separate, hollow mark; the legend
    shows a filled one.
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
