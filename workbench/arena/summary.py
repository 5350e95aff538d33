"""A contest in short: a table, a picture, and a note on which entries are tied."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binom

from workbench.figures.style import look

LEVEL = 0.05  # the chance that an entry as good as the best is called worse
MEANS = ["test_error", "standard_error", "fit_cpu", "memory_mb", "worst_case"]


def wrong_rows(row) -> np.ndarray:
    """Return which test rows a match has wrong, from its row of the frame."""
    packed = np.frombuffer(bytes.fromhex(row.wrong), np.uint8)
    return np.unpackbits(packed, count=int(row.n_test)).astype(bool)


def unequal(only_first: int, only_second: int, comparisons: int = 1) -> bool:
    """Return whether two classifiers differ significantly on the same test rows.

    McNemar's exact test: if both are equally good, each row that only one of them has wrong is a
    fair coin. The level, :data:`LEVEL`, is shared among the comparisons.

    References
    ----------
    McNemar: Note on the sampling error of the difference between correlated proportions. 1947.
    """
    rows = only_first + only_second
    chance = min(1.0, 2.0 * binom.cdf(min(only_first, only_second), rows, 0.5))
    return bool(chance <= LEVEL / comparisons)


def tied(frame: pd.DataFrame) -> pd.Series:
    """Return for each match whether its entry is not significantly worse than the best.

    The best is the entry of the least test error on the same data and partition. An entry is
    called worse if it is on every partition of the data set. A match that is not done is not tied.
    """
    done, near = frame["status"] == "done", pd.Series(False, frame.index)
    for _, rows in frame[done].groupby(["data", "partition"], sort=False):
        rows = rows.sort_values(["test_error", "fit_cpu"], kind="stable")
        wrong = {row.Index: wrong_rows(row) for row in rows.itertuples()}
        best, others = wrong[rows.index[0]], max(1, len(wrong) - 1)
        for place, own in wrong.items():
            b, c = int((own & ~best).sum()), int((best & ~own).sum())
            near[place] = not (b > c and unequal(b, c, others))
    return near.groupby([frame["data"], frame["entry"]]).transform("any") & done


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each data set and entry, by test error: means over the partitions.

    ``done`` counts the partitions that are done; ``tied`` is that of :func:`tied`; ``cut`` says
    that the clock ended a run; ``settings`` are those of the first partition.
    """
    frame = frame.assign(tied=tied(frame), done=frame["status"] == "done")
    frame[MEANS] = frame[MEANS].astype(float)
    how = dict.fromkeys(MEANS, "mean") | {"done": "sum", "tied": "any"}
    how |= {"cut": lambda cut: cut.eq(True).any(), "settings": "first", "reason": "first"}
    found = frame.groupby(["data", "entry", "label"], sort=False).agg(how).reset_index()
    order = found["data"].map({name: i for i, name in enumerate(frame["data"].unique())})
    found = found.assign(order=order).sort_values(["order", "test_error", "fit_cpu"], kind="stable")
    return found.drop(columns="order").reset_index(drop=True)


def note(found: pd.DataFrame) -> str:
    """Return a sentence for each data set of the table: the best entry, and which are tied."""
    said = []
    for name, rows in found.groupby("data", sort=False):
        done = rows[rows["done"] > 0]
        if done.empty:
            said.append(f"{name}: no entry is done.")
            continue
        best, others = done.iloc[0], done.iloc[1:]
        near = ", ".join(others["label"][others["tied"]])
        near = f"not significantly different from it: {near}" if near else "all others are worse"
        error = f"{100 * best.test_error:.2f} % (standard error {100 * best.standard_error:.2f})"
        said.append(
            f"{name}: the lowest test error is that of {best.label}, {error}"
            + (f"; {near}." if len(others) else ".")
        )
        if cut := ", ".join(done["label"][done["cut"]]):
            said.append(f"{name}: stopped by the time limit, perhaps better with more time: {cut}.")
        left = [f"{row.label} ({row.reason})" for row in rows.itertuples() if not row.done]
        if left:
            said.append(f"{name}: without a result: {', '.join(left)}.")
    return "\n".join(said)


def figure(found: pd.DataFrame) -> Figure:
    """Draw test error over the CPU time of a fit, a panel for each data set of the table.

    Bars show one standard error; hollow marks are runs that the time limit ended.
    """
    names, entries = list(found["data"].unique()), list(found["entry"].unique())
    drawn = Figure(figsize=(3.6 * len(names) + 3.0, 3.8), layout="constrained")
    axes = drawn.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names):
        for row in found[(found["data"] == name) & (found["done"] > 0)].itertuples():
            _, colour, marker = look(row.entry, entries.index(row.entry))
            style = {"color": colour, "marker": marker, "linestyle": "none"}
            error, spread = 100 * row.test_error, 100 * row.standard_error
            face = "white" if row.cut else colour
            ax.errorbar(row.fit_cpu, error, spread, elinewidth=0.8, mfc=face, **style)
        ax.set(xscale="log", xlabel="CPU time of the fit (s)", ylabel="test error (%)", title=name)
        ax.set_ylim(bottom=0)
    for entry, label in dict(zip(found["entry"], found["label"])).items():
        _, colour, marker = look(entry, entries.index(entry))
        axes[0].plot([], [], label=label, color=colour, marker=marker, linestyle="none")
    drawn.legend(loc="outside right upper", fontsize=7)
    return drawn
