"""The course's pages: a lesson, a dashboard, a page of figures, a cheat sheet, the first page."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import unescape
from pathlib import Path

from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML, markdown2html
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from workbench.figures.course_pages import source_page, source_place, sources
from workbench.figures.lesson_files import PARTS, Page, mathml, rewritten
from workbench.figures.papers import DASHBOARDS, FIGURES, PAPERS, SERIES, title
from workbench.live import replay

WIDGET = "application/vnd.jupyter.widget-view+json"  # is nothing without a kernel
SECTION = re.compile(r'<h[1-3] id="(.*?)">(.*?)</h[1-3]>(.*?)(?=<h[1-3] id=|$)', re.DOTALL)
HIDDEN = re.compile(r"<(script|style|noscript|details|nav|pre|math)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
BARE_TABLE = SanitizeHTML(
    tags=["div", "table", "thead", "tbody", "tr", "th", "td"], attributes={}, strip=True
)


def pages_of(
    course: list[Page],
    sheets: list[Page],
    places: Mapping[Path, str],
    found: Mapping[str, Mapping | None],
) -> dict[str, str]:
    """Return the pages of the course and of its cheat sheets, and of the source that they use."""
    files, users = {}, {}
    for page in [*course, *sheets]:
        files[page.place] = html_page(page, places, course, found.get(page.place))
        for file in sources(page):
            users.setdefault(file, {})[page.place] = _inline(page.title)
    for file, titles in users.items():
        page, notebook = source_page(file, titles)
        files[page.place] = _rendered(
            notebook, page=page, home="../index.html", where="the source", kind="source"
        )
    return files


def html_page(
    page: Page, places: Mapping[Path, str], course: list[Page], outputs: Mapping | None = None
) -> str:
    """Return the HTML of a lesson or cheat sheet.

    Parameters
    ----------
    places : see :func:`rewritten`
    course : the lessons that have a page, in their order
    outputs : of the code cells, by their ids
    """
    notebook, headings = copy.deepcopy(page.notebook), []
    for cell, below in zip(notebook.cells, [*page.notebook.cells[1:], None]):
        if cell.cell_type == "markdown":
            cell.source = markdown2html(rewritten(cell, page, places))
            headings += re.findall(r'<h(\d) id="(.*?)">(.*?)<a class="anchor-link"', cell.source)
        elif cell.cell_type == "code" and outputs:
            section = unescape(re.sub(r"<[^>]+>", "", headings[-1][2]))
            alt = f"Plot, {section}. {_first_sentence(below.source if below else '')}".strip()
            shown = (out for out in outputs.get(cell.id, ()) if WIDGET not in out.get("data", ()))
            cell.outputs = [_harmless(output, alt) for output in shown]
    at = course.index(page) if page in course else None
    outs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    plays = any(replay.MIME in out.get("data", ()) for out in outs)
    return _rendered(
        notebook,
        page=page,
        home=os.path.relpath("index.html", os.path.dirname(page.place)),
        where=title(page.series) if page.series else "cheat sheet",
        kind="lesson" if page.series else "sheet",
        sources=[
            (os.path.relpath(source_place(file), os.path.dirname(page.place)), file.name, names)
            for file, names in sources(page).items()
        ],
        contents=[(anchor, words) for level, anchor, words in headings if level == "2"],
        script=replay.script() if plays else "",
        style=replay.style() if plays else "",
        before=course[at - 1] if at else None,
        after=course[at + 1] if at is not None and at + 1 < len(course) else None,
    )


def index_page(pages: list[Page], sheets: list[Page], files: Iterable[str]) -> str:
    """Return the first page: the series, other pages, cheat sheets, the copies among `files`."""
    pages = list({page.place: page for page in pages}.values())
    of = {key: [page for page in pages if page.series == key] for key in {p.series for p in pages}}
    series = [(title(key), PAPERS.get(key), of[key]) for key in SERIES if key in of]
    return _rendered(
        new_notebook(),
        home="index.html",
        kind="index",
        series=series,
        dashboards=of.get(DASHBOARDS, []),
        figures=of.get(FIGURES, []),
        sheets=sheets,
        files=list(files),
        sections=json.dumps(sections(files), ensure_ascii=False).replace("<", "\\u003c"),
        script=Path(__file__).with_name("search.js").read_text(encoding="utf-8"),
    )


def sections(files: Mapping[str, str]) -> list[list[str]]:
    """Return place, lesson, heading and prose of each section of these pages; nothing folded."""
    found = []
    for place in (place for place in files if place.endswith(".html")):
        main = files[place].partition("<main")[2].partition("</main>")[0]
        parts = SECTION.findall(HIDDEN.sub("", main))
        plain = [[" ".join(unescape(TAG.sub("", part)).split()) for part in each] for each in parts]
        titles = [title.removesuffix("¶").strip() for _, title, _ in plain]
        rows = zip(parts, titles, plain)
        found += [[f"{place}#{at}", titles[0], title, text] for (at, *_), title, (*_, text) in rows]
    return found


def _harmless(output: NotebookNode, alt: str) -> NotebookNode:
    """Return an output with no HTML but a bare table, and with `alt` as a plot's description.

    A recorded run has its data only: what plays them is the page's own script.
    """
    if recorded := output.get("data", {}).get(replay.MIME):
        return NotebookNode(output | {"data": {replay.MIME: recorded}})
    if "data" in output:
        html = output.data.get("text/html", "")
        output.data["text/html"] = re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)
        output.metadata["alt"] = alt
    return BARE_TABLE.sanitize_code_outputs([output])[0]


def _first_sentence(markdown: str) -> str:
    text = re.sub(r"[*`$\\]|\]\([^)]*\)|\[", "", " ".join(markdown.split()))
    sentence = re.match(r"[^#<].{0,240}?[.:](?= |$)", text)
    return sentence[0] if sentence else ""


def _inline(markdown: str) -> str:
    """Return a line of Markdown with formulas as HTML, without the paragraph around it."""
    made = PARTS.sub(lambda m: mathml(m["inline"]) if m["inline"] else m[0], markdown)
    return markdown2html(made).strip().removeprefix("<p>").removesuffix("</p>")


def _rendered(notebook: NotebookNode, **resources) -> str:
    return _exporter().from_notebook_node(notebook, resources)[0]


@cache
def _exporter() -> TemplateExporter:
    """Return the exporter of all pages: it compiles its templates only once."""
    return TemplateExporter(
        template_name="base",
        template_file=str(Path(__file__).with_name("lessons.html")),
        preprocessors=[CoalesceStreamsPreprocessor],
        filters={
            "inline": _inline,
            "highlight_code": Highlight2HTML(),
            "hashed": replay.hashed,
            "recorded": lambda output: replay.embedded(output.get("data", {}).get(replay.MIME)),
        },
    )
