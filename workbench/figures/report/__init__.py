"""One HTML page of all figures and of the papers' numbers next to ours, to read offline.

>>> report()                                                               # doctest: +SKIP
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, FileSystemLoader

import workbench
from workbench.core.files import whole
from workbench.figures import reference
from workbench.figures.papers import PAPERS, order, title, token
from workbench.figures.report.rows import (
    DESCRIPTIONS,
    STANDINGS,
    Row,
    counts,
    measurements,
    side_by_side,
)
from workbench.figures.report.sidecars import Figure, collect
from workbench.runs.mill import figures_folder
from workbench.runs.notebooks import CHECKOUT, PROFILES

ROOM = Path(__file__).parent


def report(
    path: str | os.PathLike | None = None,
    *,
    figures: str | os.PathLike | None = None,
    printed: pd.DataFrame | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Write the report, whole or not at all.

    Parameters
    ----------
    path : the page (default: ``runs/report.html`` of the checkout)
    figures : the folder of figures and sidecars (default: the folder that figures are saved in)
    printed : the papers' numbers (default: those of ``data/reference``)
    say : receives a line per file that had to be left out

    Returns
    -------
    path : of the page

    Raises
    ------
    ValueError
        If the folder of figures does not exist.
    """
    path = Path(path or CHECKOUT / "runs" / "report.html").absolute()
    folder = Path(figures or figures_folder())
    if not folder.is_dir():
        raise ValueError(f"figures: there is no folder {folder}")
    found, faults = collect(folder)
    for fault in faults:
        say(fault)
    rows = side_by_side(reference.printed() if printed is None else printed, measurements(found))
    page = render(found, rows, faults, path.parent)
    with whole(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def render(
    figures: list[Figure],
    rows: list[Row],
    faults: list[str],
    folder: Path,
) -> str:
    """Return the page; its links are relative to `folder`. All text is escaped by Jinja."""
    script = (ROOM / "report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    named = {f.paper for f in figures} | {row.names["paper"] for row in rows}
    sections = [_section(paper, figures, rows) for paper in sorted(named, key=order)]
    sets = {s for f in figures for s in f.sets} | {row.names["dataset"] for row in rows}
    methods = {m for f in figures for m in f.methods} | {row.names["method"] for row in rows}
    environment = Environment(
        loader=FileSystemLoader([ROOM, ROOM.parent]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["token"] = token
    return environment.get_template("report.html").render(
        script=script,
        digest=digest,
        now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=workbench.__version__,
        figures=figures,
        profiles=Counter(sorted((f.profile for f in figures), key=[*PROFILES, "custom"].index)),
        machines=_distinct(figures, lambda f: f.record.get("machine", {}).get("cpu", "unknown")),
        commits=_distinct(figures, lambda f: f.record.get("commit", "unknown")),
        dates=sorted(str(f.record["date"])[:10] for f in figures if f.record.get("date")),
        total=counts(rows),
        faults=faults,
        sections=sections,
        choices={"sets": _choices(sets), "methods": _choices(methods)},
        standings=STANDINGS,
        links=lambda figure: _links(figure, folder),
        remarks=_remarks,
        without_result=lambda rows: all(
            row.names["quantity"] in {*DESCRIPTIONS, "parameter"} for row in rows
        ),
    )


def _section(paper: str, figures: list[Figure], rows: list[Row]) -> dict[str, Any]:
    """Return the title, the figures, the tables and the counts of one paper."""
    own = [row for row in rows if row.names["paper"] == paper]
    return {
        "paper": paper,
        "title": title(paper),
        "about": PAPERS.get(paper),
        "figures": [figure for figure in figures if figure.paper == paper],
        "counts": counts(own),
        "tables": [
            _table(paper, name, list(group))
            for name, group in groupby(own, key=lambda row: row.names["table"])
        ],
    }


def _table(paper: str, name: str, rows: list[Row]) -> dict[str, Any]:
    """Return a table; its groups have the rows of one data set and method."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:  # they need not be neighbours in print
        groups.setdefault((row.names["dataset"], row.names["method"]), []).append(row)
    heading = name if name.startswith("Figure") else f"Table {name}"
    return {
        "anchor": f"table-{paper}-{token(name) or 'none'}",
        "heading": {"text": "In the text", "": "In no table"}.get(name, heading),
        "caption": reference.captions().get((paper, name), ""),
        "counts": counts(rows),
        "rows": rows,
        "groups": groups,
    }


def _remarks(rows: list[Row]) -> dict[str, str]:
    """Return each remark on some rows once, with the rows that it is about if not all."""
    found: dict[str, list[str]] = {}
    for row in rows:
        about = f"{row.names['quantity']} {row.names['setting']}".strip()
        for remark in row.remarks:
            found.setdefault(remark, []).append(about)
    few = {
        remark: ", ".join(about) if len(about) <= 2 else f"{len(about)} of {len(rows)} lines"
        for remark, about in found.items()
    }
    return {remark: few[remark] if len(found[remark]) < len(rows) else "" for remark in found}


def _choices(names: set[str]) -> list[tuple[str, str]]:
    """Return the choices of a filter: (token, name), each token once."""
    tokens = {token(name): name for name in sorted(names)}
    return sorted(((t, n) for t, n in tokens.items() if t), key=lambda choice: choice[1].casefold())


def _links(figure: Figure, folder: Path) -> dict[str, str]:
    """Return the addresses of the figure's notebook as committed and as executed."""
    name, found = f"{figure.notebook}.ipynb", {}
    executed = CHECKOUT / "runs" / "figures" / figure.place / name
    for said, path in (("source", CHECKOUT / "notebooks/figures" / name), ("executed", executed)):
        if path.exists():
            found[said] = quote(Path(os.path.relpath(path, folder)).as_posix())
    return found


def _distinct(figures: list[Figure], key: Callable[[Figure], Any]) -> str:
    return ", ".join(dict.fromkeys(str(key(figure)) for figure in figures))
