"""One HTML page of the claims, of the papers' numbers next to ours, and of all figures,
offline.

>>> report()                                                               # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, FileSystemLoader

import workbench
from workbench.core.files import whole
from workbench.core.kinds import PathLike, Record
from workbench.figures import reference
from workbench.figures.report.claims import VERDICTS, read_claims
from workbench.figures.report.rows import (
    STANDINGS,
    Row,
    counts,
    measurements,
    side_by_side,
)
from workbench.figures.report.sidecars import Figure, collect
from workbench.papers import PAPERS, order, title, token
from workbench.runs.mill import figures_folder
from workbench.runs.notebooks import CHECKOUT


def report(
    path: PathLike | None = None,
    *,
    figures: PathLike | None = None,
    printed: pd.DataFrame | None = None,
) -> Path:
    """Write the report, whole or not at all, print which files were left out, return
    its path.

    Parameters
    ----------
    path : the page (default: ``runs/report.html`` of the checkout)
    figures : the folder of figures and sidecars (default: the folder that figures are
        saved in)
    printed : the papers' numbers (default: those of ``data/reference``)

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
        print(fault)
    rows = side_by_side(
        reference.printed() if printed is None else printed, measurements(found)
    )
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    papers = {figure.paper for figure in found} | {row.names["paper"] for row in rows}
    notebooks = Path(os.path.relpath(CHECKOUT / "notebooks" / "figures", path.parent))
    page = environment.get_template("report.html").render(
        now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=workbench.__version__,
        figures=found,
        board=[
            (title(key), [c for c in read_claims() if c.paper == key]) for key in PAPERS
        ],
        verdicts=VERDICTS,
        proofs=Counter(proof.outcome for figure in found for proof in figure.proofs),
        total=counts(rows),
        standings=STANDINGS,
        faults=faults,
        sections=[_section(paper, found, rows) for paper in sorted(papers, key=order)],
        source=lambda figure: quote(
            (notebooks / f"{figure.notebook}.ipynb").as_posix()
        ),
        token=token,
        counts=counts,
    )
    with whole(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def _section(paper: str, figures: list[Figure], rows: list[Row]) -> Record:
    """Return the title and the counts of one paper, its tables, each with the figures
    that have its numbers first, and all other figures.
    """
    own = [row for row in rows if row.names["paper"] == paper]
    beside: dict[str, list[Figure]] = {row.names["table"]: [] for row in own}
    beside["no table"] = []
    for figure in (figure for figure in figures if figure.paper == paper):
        tables = {row.get("table") for row in figure.record["numbers"]}
        beside[next((name for name in beside if name in tables), "no table")].append(
            figure
        )
    captions = reference.listed("captions")
    captions = {
        row["table"]: row["caption"] for row in captions if row["paper"] == paper
    }
    return {
        "title": title(paper),
        "about": PAPERS.get(paper),
        "figures": beside["no table"],
        "count": sum(map(len, beside.values())),
        "counts": counts(own),
        "tables": [
            (name, captions.get(name, ""), list(group), beside[name])
            for name, group in groupby(own, key=lambda row: row.names["table"])
        ],
    }
