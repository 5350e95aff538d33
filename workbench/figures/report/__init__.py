"""HTML pages of the claims, the papers' numbers next to ours, and all figures.

>>> report()    # doctest: +SKIP
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, FileSystemLoader

import workbench
from workbench.core.files import whole
from workbench.core.kinds import PathLike, Record
from workbench.figures import reference
from workbench.figures.report.claims import Claim, read_claims
from workbench.figures.report.coverage import COLUMNS, read_coverage
from workbench.figures.report.law import VERDICTS
from workbench.figures.report.rows import (
    STANDINGS,
    Row,
    counts,
    measurements,
    side_by_side,
)
from workbench.figures.report.sidecars import Figure, collect
from workbench.papers import ACROSS, PAPERS, order, title, token
from workbench.runs.mill import figures_folder
from workbench.runs.notebooks import CHECKOUT, FOLDER
from workbench.runs.run import versions


def report(
    path: PathLike | None = None,
    *,
    figures: PathLike | None = None,
    printed: pd.DataFrame | None = None,
) -> Path:
    """Write the report, print which files were left out, and return its first page.

    The first page has the claims. Next to it are a page for each paper, a page on
    coverage, and the claims as data. The pages need no network, and each file is
    written whole or not at all.

    Parameters
    ----------
    path : the file of the first page (default: ``runs/report.html`` of the checkout);
        the other files have its name with ``-<paper>``, ``-coverage`` and
        ``-claims.json``
    figures : the folder of figures and sidecars (default: the folder in which figures
        are saved)
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
    sections = []
    for place, paper in enumerate(sorted(papers, key=order)):
        known = paper in (*PAPERS, ACROSS)
        page = f"{path.stem}-{paper if known else place}.html"
        sections.append({"page": page} | _section(paper, collected, rows))
    pages = {section["paper"]: section["page"] for section in sections}
    links = {f.anchor: f"{pages[f.paper]}#{quote(f.anchor)}" for f in collected}
    claims = sorted(read_claims(), key=lambda claim: VERDICTS.index(claim.verdict))
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "now": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": workbench.__version__,
        "stem": path.stem,
        "figures": collected,
        "claims": claims,
        "verdicts": VERDICTS,
        "proofs": Counter(proof.outcome for f in collected for proof in f.proofs),
        "total": counts(rows),
        "standings": STANDINGS,
        "faults": faults,
        "sections": sections,
        "columns": COLUMNS,
        "items": read_coverage(),
        "PAPERS": PAPERS,
        "notebooks": quote(Path(os.path.relpath(FOLDER, path.parent)).as_posix()),
        "links": links,
        "token": token,
        "counts": counts,
    }

    texts = {f"{path.stem}-claims.json": as_data(claims)}
    for section in sections:
        paper = environment.get_template("paper.html")
        texts[section["page"]] = paper.render(section=section)
    for name, end in (("coverage", "-coverage"), ("report", "")):
        page = environment.get_template(f"{name}.html")
        texts[f"{path.stem}{end}.html"] = page.render()
    for name, text in texts.items():
        with whole(path.with_name(name)) as part:
            part.write_text(text, encoding="utf-8")
    return path


def as_data(claims: Iterable[Claim]) -> str:
    """Return claims as the JSON of data/reference/claims.schema.json.

    The open ends of intervals are null.
    """
    content: Record = {name: versions()[name] for name in ("workbench", "commit")}
    content["claims"] = entries = [claim._asdict() for claim in claims]
    for entry in entries:
        entry["cells"] = [cell._asdict() for cell in entry["cells"]]
        for cell in entry["cells"]:
            cell |= {end: None for end in ("low", "high") if math.isinf(cell[end])}
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _section(paper: str, figures: list[Figure], rows: list[Row]) -> Record:
    """Return the section of the page on one paper.

    A figure belongs to the first table whose numbers it has; the other figures belong
    to no table.
    """
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        if row.names["paper"] == paper:
            by_table.setdefault(row.names["table"], []).append(row)
    own: dict[str | None, list[Figure]] = {}
    for figure in figures:
        if figure.paper == paper:
            named = {row.get("table") for row in figure.record["numbers"]}
            first = next((table for table in by_table if table in named), None)
            own.setdefault(first, []).append(figure)
    listed = reference.listed("captions")
    captions = {row["table"]: row["caption"] for row in listed if row["paper"] == paper}
    return {
        "paper": paper,
        "title": title(paper),
        "short": PAPERS[paper].short if paper in PAPERS else title(paper),
        "about": PAPERS.get(paper),
        "figures": own.get(None, []),
        "count": sum(map(len, own.values())),
        "counts": counts(chain(*by_table.values())),
        "tables": [
            (table, captions.get(table, ""), by_table[table], own.get(table))
            for table in by_table
        ],
    }
