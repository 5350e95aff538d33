"""One HTML page of all figures and of the papers' numbers beside ours, to read without a network.

>>> report()                                                               # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from string import Template

import pandas as pd

from workbench.figures import reference
from workbench.figures.report import kept as kept_runs
from workbench.figures.report.comparison import Measurement, Number, number, side_by_side
from workbench.figures.report.markup import embedded, policy, write_page
from workbench.figures.report.page import body
from workbench.figures.report.profiles import payload, scopes
from workbench.figures.report.sidecars import Figure, collect
from workbench.runs.mill import figures_folder
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.sweep import runs_folder

RANKS = ("smoke", "quick", None, "paper")  # of profiles, the last is the best


def report(
    path: str | os.PathLike | None = None,
    *,
    figures: str | os.PathLike | None = None,
    kept: str | os.PathLike | None = None,
    printed: pd.DataFrame | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Write the report, whole or not at all.

    Parameters
    ----------
    path : the page, by default ``runs/report.html`` of the checkout
    figures : the folder of figures and sidecars, by default where figures go
    kept : the folder of runs that were kept on a dashboard, by default ``kept/`` where runs go
    printed : the papers' numbers, by default those of ``data/reference``
    say : receives a line on each file of the folder that had to be left out

    Returns
    -------
    path : where the page is

    Raises
    ------
    ValueError
        If there is no folder of figures.
    """
    path = Path(path or CHECKOUT / "runs" / "report.html").absolute()
    folder = Path(figures or figures_folder())
    if not folder.is_dir():
        raise ValueError(f"figures: there is no folder {folder}")
    found, faults = collect(folder)
    runs, unread = kept_runs.collect(Path(kept or runs_folder() / "kept"))
    faults += unread
    for fault in faults:
        say(fault)
    if printed is None:
        printed = reference.printed()
    write_page(path, _page(found, runs, printed, faults, path))
    return path


def measurements(figures: list[Figure]) -> list[Measurement]:
    """Return what the figures measured beside the papers: the rows that name one."""
    found = []
    for figure in figures:
        record = figure.record
        generated = {str(p.get("name")) for p in record.get("data", []) if p.get("synthetic")}
        profile = record.get("profile")
        for row in record.get("numbers", []):
            if not row.get("paper"):
                continue
            timed = bool(row.get("timed", record.get("timed")))
            value, spread = number(row.get("value")), number(row.get("spread"))
            data = str(row.get("data") or "")
            found.append(
                Measurement(
                    row=row,
                    number=Number(value, spread, str(row.get("unit") or "")),
                    data=data,
                    synthetic=data in generated,
                    timed=timed,
                    machine=str(record.get("machine", {}).get("cpu") or ""),
                    anchor=figure.anchor,
                    rank=(
                        value is not None,
                        RANKS.index(profile if profile in RANKS else None),
                        timed,
                        str(record.get("date")),
                    ),
                )
            )
    # The figures of one notebook may carry the same rows.
    return list({(m.key, repr(sorted(m.row.items()))): m for m in found}.values())


def _page(figures: list[Figure], runs, printed: pd.DataFrame, faults: list[str], path: Path) -> str:
    room = Path(__file__).parent
    files = ("report.css", "profile.js", "report.js")
    style, *scripts = ((room / name).read_text("utf-8") for name in files)
    script = "".join(scripts)
    rows, compared = side_by_side(printed, measurements(figures)), scopes(figures)
    return Template((room / "page.html").read_text("utf-8")).substitute(
        policy=policy(script),  # whatever a sidecar holds
        style=style,
        script=script,
        body=body(figures, rows, compared, runs, faults, path),
        data=embedded([payload(scope) for scope in compared], "scopes"),
    )
