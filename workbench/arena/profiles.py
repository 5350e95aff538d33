"""Who is best, how often, and how sure that is: profiles, ranks and what they can carry.

All functions take costs, an array (sets, partitions, entries): less is better, infinity stands
for an entry that never got there, be it refused, failed, cut by the clock or not good enough.

>>> labels, sets, error = table(contest.frame(), "test_error")             # doctest: +SKIP
>>> verdict(ranks(error), labels)                                          # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scipy.stats import rankdata, studentized_range

from workbench.core.trace import Trace
from workbench.figures.curves import on_grid, ratios, share
from workbench.figures.style import Look, look

LEVEL = 0.05  # of all intervals and tests here
DRAWS = 4000  # resamples
WIDEST = 1e3  # times the best cost: farther no profile is drawn


class Verdict(NamedTuple):
    """What some sets say of who is best.

    Attributes
    ----------
    best : the entry of the least mean rank
    rank, low, high : its mean rank and the interval of that
    rivals : the entries that the sets do not tell from it, by mean rank
    sets : how many there were
    text : all this in words that claim no more than it supports
    """

    best: str
    rank: float
    low: float
    high: float
    rivals: tuple[str, ...]
    sets: int
    text: str


def looks(frame: pd.DataFrame) -> dict[str, Look]:
    """Return how each entry of a contest's frame is drawn: as its solver, under its own label."""
    labels = dict(zip(frame["entry"], frame["label"]))
    return {name: look(name)._replace(label=label) for name, label in labels.items()}


def table(
    frame: pd.DataFrame, column: str, where: pd.Series | None = None
) -> tuple[list[str], list[str], np.ndarray]:
    """Return one column of a contest as costs.

    Parameters
    ----------
    frame : of :meth:`workbench.arena.contest.Contest.frame`: a row for each data set, partition
        and entry
    where : the rows that count; in all others the cost is infinite, as it is where it is missing

    Returns
    -------
    entries, sets : in the order of the frame
    costs : (sets, partitions, entries)

    Raises
    ------
    ValueError
        For two rows of one match, or where sets have different partitions.
    """
    values = frame[column] if where is None else frame[column].where(where)
    indexed = values.set_axis(pd.MultiIndex.from_frame(frame[["data", "partition", "entry"]]))
    if not indexed.index.is_unique:
        raise ValueError("frame: has two rows of one data set, partition and entry")
    levels = [frame[name].unique() for name in indexed.index.names]
    if len(frame) != math.prod(map(len, levels)):
        raise ValueError("frame: needs a row for each data set, partition and entry")
    costs = indexed.reindex(pd.MultiIndex.from_product(levels)).to_numpy(float)
    shape = [len(level) for level in levels]
    return list(levels[2]), list(levels[0]), np.where(np.isnan(costs), np.inf, costs).reshape(shape)


def until_there(frame: pd.DataFrame, traces: Sequence[Trace]) -> pd.DataFrame:
    """Return the frame with what counts as there on each set and partition, and who came when.

    A fit that the clock cut is not a result: it sets no target and never gets there.

    Parameters
    ----------
    frame, traces : of a contest; the traces are those of the rows that are done, in their order

    Returns
    -------
    frame : with ``whole``, done and not cut; ``target``, the least test error of any entry and its
        standard error, NaN if there is none; ``there``, whole and at the target; and ``since``, see
        :func:`stays`, infinite for those that are not whole
    """
    places, done = ["data", "partition"], frame["status"] == "done"
    frame = frame.assign(whole=done & ~frame["cut"].eq(True), since=np.inf)
    ranked = frame[frame["whole"]].sort_values("test_error").groupby(places)
    best = ranked[["test_error", "standard_error"]].first()
    frame = frame.join(best.sum(axis=1, min_count=2).rename("target"), on=places)
    frame["there"] = frame["whole"] & (frame["test_error"] <= frame["target"])
    for row, trace in zip(frame.index[done], traces, strict=True):
        if frame.loc[row, "whole"]:
            frame.loc[row, "since"] = stays(trace, frame.loc[row, "target"])
    return frame


def stays(trace: Trace, target: float) -> float:
    """Return the CPU seconds from which on the test error is `target` at most, to the run's end.

    Infinity for a run that ends above it: nobody is let off at a lucky round.
    """
    errors = trace.column("test_error")
    judged = np.isfinite(errors)
    errors, clock = errors[judged], trace.column("cpu")[judged]
    above = np.flatnonzero(errors > target)
    first = above[-1] + 1 if len(above) else 0
    return float(clock[first]) if first < len(errors) else math.inf


def ranks(costs: np.ndarray) -> np.ndarray:
    """Return the ranks of the entries on each set and partition, 1 for the least cost.

    Equal costs share the mean of their ranks; so do all that never got there, at the end.
    """
    return rankdata(costs, axis=-1)


def resampled(ranks: np.ndarray) -> np.ndarray:
    """Return the entries' mean ranks over resamples, (:data:`DRAWS`, entries).

    Sets are drawn with replacement, and in each drawn set its partitions: both kinds of chance are
    in the spread. A set stays one voice however many partitions it has.
    """
    n_sets, n_parts, _ = ranks.shape
    rng = np.random.default_rng(0)
    drawn = rng.integers(n_sets, size=(DRAWS, n_sets, 1))
    parts = rng.integers(n_parts, size=(DRAWS, n_sets, n_parts))
    counts = np.zeros((DRAWS, n_sets * n_parts))
    flat = (drawn * n_parts + parts).reshape(DRAWS, -1)
    np.add.at(counts, (np.arange(DRAWS)[:, None], flat), 1.0)
    return counts @ ranks.reshape(n_sets * n_parts, -1) / (n_sets * n_parts)


def sets_needed() -> int:
    """Return the number of sets below which not even a winner on all of them proves anything.

    The chance that one of two equal entries wins on all of N sets is ``2 ** (1 - N)``.
    """
    return 1 + math.ceil(math.log2(1 / LEVEL))


def critical_difference(entries: int, sets: int) -> float:
    """Return Nemenyi's critical difference of mean ranks (Demšar 2006, Section 3.2.2).

    Two of `entries` entries whose mean ranks over `sets` sets are closer are not told apart, all
    pairs being compared at once. Partitions of one set are not independent: they do not count.
    """
    return float(
        studentized_range.ppf(1 - LEVEL, entries, np.inf)
        * math.sqrt(entries * (entries + 1) / (12 * sets))
    )


def verdict(ranks: np.ndarray, labels: Sequence[str]) -> Verdict:
    """Say which entry has the least mean rank, and which are not told from it.

    A rival is not told apart when the interval of its difference from the best, over resamples of
    sets and partitions, reaches zero; the level is shared among all rivals (Bonferroni). Of fewer
    sets than :func:`sets_needed` nothing is claimed.
    """
    mean, spread = ranks.mean(axis=(0, 1)), resampled(ranks)
    order = np.argsort(mean, kind="stable")
    best, others = order[0], order[1:]
    low, high = np.quantile(spread[:, best], [LEVEL / 2, 1 - LEVEL / 2])
    apart = spread[:, others] - spread[:, [best]]
    least = np.quantile(apart, LEVEL / (2 * max(len(others), 1)), axis=0)
    rivals = tuple(labels[j] for j, bound in zip(others, least) if bound <= 0)
    name, n_sets = labels[best], ranks.shape[0]
    if n_sets < (needed := sets_needed()):
        text = f"no difference shown: {n_sets} of the {needed} sets that a claim needs"
    elif rivals:
        text = f"no difference shown from {len(rivals)} of {len(others)}"
    else:
        text = "ahead of all others"
    return Verdict(name, float(mean[best]), float(low), float(high), rivals, n_sets, text)


def draw_profiles(
    ax: Axes, looks: Mapping[str, Look], costs: np.ndarray, shown: Collection[str] | None = None
) -> dict[str, tuple[float, float]]:
    """Draw the performance profiles of Dolan and Moré (2002): who is within τ times the best.

    Parameters
    ----------
    looks : the entries' looks, in the order of `costs`
    costs : positive; what cannot be measured should be raised to the least that can
    shown : entries in colour, with a place in a legend; the others are grey. By default all

    Returns
    -------
    shares : entry -> the share of all instances on which it was the best, and that on which it got
        there at all
    """
    flat = costs.reshape(-1, costs.shape[-1])
    found, count = ratios({name: dict(enumerate(flat[:, j])) for j, name in enumerate(looks)})
    largest = max((own[-1] for own in found.values() if len(own)), default=1.0)
    edge = min(max(2 * largest, 10.0), WIDEST)
    for name, own in found.items():
        at = np.concatenate([[1.0], own[own <= edge], [edge]])
        heights = [share(own, count, tau) for tau in at]
        style = {"color": "#D0D0D0", "linewidth": 0.7, "zorder": 1}
        if shown is None or name in shown:
            label, colour, marker = looks[name]
            style = {"color": colour, "marker": marker, "label": label, "linewidth": 1.3}
            style |= {"markevery": [len(at) - 1], "clip_on": False}
        ax.step(at, heights, where="post", **style)
    ax.set(xscale="log", xlim=(1, edge), ylim=(0, 1.02))
    plain_log(ax.xaxis)
    return {name: (share(own, count, 1.0), len(own) / count) for name, own in found.items()}


def draw_ranks(
    ax: Axes, looks: Mapping[str, Look], ranks: np.ndarray, order: Sequence[str] | None = None
) -> pd.DataFrame:
    """Draw mean ranks with their intervals over resamples, best at the top.

    The bar is Nemenyi's critical difference, from the best on: who is inside is not told from it.

    Parameters
    ----------
    order : entries from the top, by default by mean rank

    Returns
    -------
    table : a row an entry in this order: ``entry``, ``rank``, ``low``, ``high``
    """
    low, high = np.quantile(resampled(ranks), [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    values = {"rank": ranks.mean(axis=(0, 1)), "low": low, "high": high}
    drawn = pd.DataFrame(values, index=pd.Index(looks, name="entry")).sort_values("rank")
    best, last = drawn["rank"].iloc[0], len(drawn) + 0.5
    drawn = drawn if order is None else drawn.loc[list(order)]
    for height, row in enumerate(drawn.itertuples()):
        _, colour, marker = looks[row.Index]
        ax.plot([row.low, row.high], [height, height], color=colour, linewidth=1.4)
        ax.plot(row.rank, height, marker=marker, color=colour)
    ax.set_yticks(range(len(drawn)), [looks[name].label for name in drawn.index])
    ax.set(ylim=(len(drawn) - 0.4, -0.6), xlim=(0.5, last))
    end = best + critical_difference(len(drawn), ranks.shape[0])
    ax.axvspan(best, min(end, last), color="#DDDDDD", alpha=0.6, zorder=0)
    ax.grid(False, axis="y")
    return drawn.reset_index()


def draw_errors(ax: Axes, look: Look, traces: Sequence[Trace], floor: float = 1e-4) -> None:
    """Draw the median curve of test errors over CPU seconds, and where the runs ended.

    The end is that of :func:`draw_spread`; runs that the clock cut have a mark of their own and no
    part in the curve. Both axes are for logarithms; errors below `floor` are drawn at it. Round 0,
    in which nothing is learnt, is left out.
    """
    curves = []
    for trace in traces:
        rows = [row for row in trace.rows if row["round"] > 0 and "test_error" in row]
        errors = [max(row["test_error"], floor) for row in rows]
        curves.append((np.array([row["cpu"] for row in rows]), np.array(errors)))
    cut = [trace.header["contest"]["cut"] for trace in traces]
    grid, values = on_grid([curve for curve, by_clock in zip(curves, cut) if not by_clock])
    if len(grid) > 1:
        ax.plot(grid, np.median(values, axis=0), color=look.colour, linewidth=0.9)
    draw_spread(ax, look, *([values[-1] for values in part] for part in zip(*curves)), cut)


def draw_spread(
    ax: Axes, look: Look, x: Sequence[float], y: Sequence[float], cut: Sequence[bool]
) -> None:
    """Draw the medians of some runs as one mark, with whiskers to the least and the most.

    The runs that the clock `cut` have a hollow mark of their own; in the legend it is full.
    """
    style = {"color": look.colour, "marker": look.marker, "markersize": 4, "linestyle": "none"}
    x, y, cut = np.asarray(x), np.asarray(y), np.asarray(cut, dtype=bool)
    for runs, face in ((~cut, look.colour), (cut, "white")):
        if runs.any():
            (left, at, right), (low, up, high) = (np.quantile(v[runs], [0, 0.5, 1]) for v in (x, y))
            whiskers = {"xerr": [[at - left], [right - at]], "yerr": [[up - low], [high - up]]}
            ax.errorbar(at, up, **whiskers, **style, elinewidth=0.6, mfc=face)
    ax.plot([], [], **style, label=look.label)


def plain_log(axis) -> None:
    """Number a logarithmic axis as people write it, at 1, 2 and 5 where it is short."""
    low, high = axis.get_view_interval()
    subs = (1, 2, 5) if high < 200 * low else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
