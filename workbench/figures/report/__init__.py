"""One HTML page of the claims, the papers' numbers next to ours, and all figures.

>>> report()    # doctest: +SKIP
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
from workbench.figures.report.claims import read_claims
from workbench.figures.report.law import VERDICTS
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
from workbench.runs.notebooks import CHECKOUT, FOLDER


def report(
    path: PathLike | None = None,
    *,
    figures: PathLike | None = None,
    printed: pd.DataFrame | None = None,
) -> Path:
    """Write the report, print which files were left out, and return its path.

    The page needs no network. It is written whole or not at all.

    Parameters
    ----------
    path : file of the page (default: ``runs/report.html`` of the checkout)
    figures : folder of figures and sidecars (default: the folder that figures are
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
    collected, faults = collect(folder)
    for fault in faults:
        print(fault)
    if printed is None:
        printed = reference.printed()
    rows = side_by_side(printed, measurements(collected))
    papers = {figure.paper for figure in collected}
    papers |= {row.names["paper"] for row in rows}
    sections = [_section(paper, collected, rows) for paper in sorted(papers, key=order)]
    notebooks = Path(os.path.relpath(FOLDER, path.parent))

    def source(figure: Figure) -> str:
        return quote((notebooks / f"{figure.notebook}.ipynb").as_posix())

    claims = read_claims()
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html").render(
        now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=workbench.__version__,
        figures=collected,
        board=[(title(key), [c for c in claims if c.paper == key]) for key in PAPERS],
        verdicts=VERDICTS,
        proofs=Counter(proof.outcome for f in collected for proof in f.proofs),
        total=counts(rows),
        standings=STANDINGS,
        faults=faults,
        sections=sections,
        source=source,
        token=token,
        counts=counts,
    )
    with whole(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def _section(paper: str, figures: list[Figure], rows: list[Row]) -> Record:
    """Return the section of the page on one paper.

    Each table has the figures that have its numbers first; the other figures are of no
    table.
    """
    of_paper = [row for row in rows if row.names["paper"] == paper]
    by_table: dict[str, list[Figure]] = {row.names["table"]: [] for row in of_paper}
    no_table: list[Figure] = []
    for figure in figures:
        if figure.paper == paper:
            named = {row.get("table") for row in figure.record["numbers"]}
            first = next((table for table in by_table if table in named), None)
            (no_table if first is None else by_table[first]).append(figure)
    captions = {
        row["table"]: row["caption"]
        for row in reference.listed("captions")
        if row["paper"] == paper
    }
    tables = [
        (table, captions.get(table, ""), list(group), by_table[table])
        for table, group in groupby(of_paper, key=lambda row: row.names["table"])
    ]
    return {
        "title": title(paper),
        "about": PAPERS.get(paper),
        "figures": no_table,
        "count": sum(figure.paper == paper for figure in figures),
        "counts": counts(of_paper),
        "tables": tables,
    }
