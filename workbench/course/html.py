"""The pages of the course: lesson, cheat sheet and index, each of them one file, no script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from workbench.course.executed import Outputs
from workbench.course.lessons import SERIES, Lesson, Sheet, tags
from workbench.course.links import in_the_course
from workbench.course.markup import Page, code_styles, coloured
from workbench.figures.papers import PAPERS, title
from workbench.figures.report.markup import policy

ROOM = Path(__file__).parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")
ADVICE = """\
Read a lesson here, or work through it in JupyterLab: the student copies in `students/` are the same
notebooks without solutions, and they check your answers as you go. Before each plot, say what you
expect to see. Solutions are folded away beneath the exercises; open one when you have an answer of
your own, or have honestly looked for it.

Each series stands on its own, and its lessons build on one another. The last lesson puts the five
papers side by side; read it when you know two or three of them.
"""
FOREIGN = r"<(script|link|iframe|img)\b|url\(|\son\w+\s*="  # what loads or runs something


def lesson_page(
    lesson: Lesson, outputs: Outputs, course: Sequence[Lesson], pages: set[Path]
) -> str:
    """Return the page of a lesson.

    Parameters
    ----------
    outputs : of its code cells, by their ids
    course : the lessons that have a page, as they are read
    pages : the files that have a page, for links

    Raises
    ------
    ValueError
        Naming the cell: a formula that is not understood, a link to a file that is not there.
    """
    folder = lesson.path.parent
    page = Page(lesson.path, in_the_course(lesson.path, folder, pages))
    cells, parts = lesson.notebook.cells, []
    for at, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            try:
                parts.append(page.html(cell.source))
            except ValueError as error:
                raise ValueError(f"cell {cell.id}: {error}") from None
        elif cell.cell_type == "code":
            reading = cells[at + 1].source if at + 1 < len(cells) else ""
            found = _outputs(outputs.get(cell.id, ()), _alt(page, reading))
            parts.append(_code_cell(cell, found))
    at = [other.name for other in course].index(lesson.name)
    before = course[at - 1] if at else None
    after = course[at + 1] if at + 1 < len(course) else None
    return filled(
        title=lesson.title,
        kind="lesson",
        where=f" <span>{escape(title(lesson.series))}</span>",
        relations="".join(
            f'<link rel="{how}" href="{other.name}.html">\n'
            for how, other in (("prev", before), ("next", after))
            if other
        ),
        contents=_contents(page.headings),
        body="".join(parts),
        footer=_neighbours(before, after),
    )


def sheet_page(sheet: Sheet, folder: Path, pages: set[Path]) -> str:
    """Return the page of a cheat sheet of the lessons in `folder`; it prints on one side of A4."""
    page = Page(sheet.path, in_the_course(sheet.path, folder, pages))
    opening, *sections = re.split(r"^(?=## )", sheet.text, flags=re.MULTILINE)
    body = page.html(opening) + '<div class="sections">'
    for section in sections:
        body += f"<section>{page.html(section)}</section>\n"
    return filled(
        title=sheet.title,
        kind="sheet",
        where=" <span>cheat sheet</span>",
        body=body + "</div>\n",
        home="../index.html",
    )


def index_page(
    lessons: Iterable[Lesson],
    done: Iterable[Lesson],
    sheets: Iterable[Sheet],
    copies: Iterable[str],
) -> str:
    """Return the first page: the series and their lessons, the cheat sheets, the student copies.

    Parameters
    ----------
    lessons : all of them
    done : those that have a page
    copies : the names of those that have a student copy
    """
    lessons, have = list(lessons), {lesson.name for lesson in done}
    page = Page(ROOM, lambda target: None)  # it has no links of its own
    body = f"<h1>The course</h1>\n{page.html(ADVICE)}"
    body += '<h2 id="series">The series</h2>\n<div class="map">\n'
    for series in SERIES:
        entries = [_entry(page, x, x.name in have) for x in lessons if x.series == series]
        if entries:
            body += f"<section><h3>{escape(title(series))}</h3>"
            if paper := PAPERS.get(series):
                body += f'<p class="paper">{escape(paper.authors)}, {escape(paper.where)}</p>'
            body += f"\n<ol>{''.join(entries)}</ol></section>\n"
    body += "</div>\n"
    if rows := [
        f'<li><a href="cheat_sheets/{s.path.stem}.html">{page.inline(s.title)}</a></li>\n'
        for s in sheets
    ]:
        body += '<h2 id="sheets">Cheat sheets</h2>\n<p>One method on one page, to print.</p>\n'
        body += f"<ul>\n{''.join(rows)}</ul>\n"
    rows = [f'<li><a href="students/{name}.ipynb">{name}</a></li>\n' for name in copies]
    body += f'<h2 id="students">Student copies</h2>\n<ul class="copies">\n{"".join(rows)}</ul>\n'
    return filled(title="The course", kind="index", body=body)


def _entry(page: Page, lesson: Lesson, done: bool) -> str:
    name = page.inline(re.sub(r"^\d+ · ", "", lesson.title))
    question = f'<p class="question">{page.inline(lesson.question)}</p>' if lesson.question else ""
    link = f'<a href="{lesson.name}.html">{name}</a>' if done else f"{name} (not made yet)"
    return f"<li>{link}{question}</li>\n"


def _code_cell(cell, outputs: str) -> str:
    code = coloured(cell.source)
    if "solution" in tags(cell):
        inside = f"<summary>Solution</summary>\n{code}{outputs}"
        return f'<details class="solution">{inside}</details>\n'
    if "exercise" in tags(cell):
        return f'<div class="exercise">{code}</div>\n'  # its output says no more than "not yet"
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        code = f"<details><summary>Code</summary>\n{code}</details>\n"
    return code + outputs


def _outputs(outputs: Iterable, alt: str) -> str:
    parts, text = [], ""
    for output in outputs:
        if output.output_type == "stream":
            text += output.text if output.name == "stdout" else ""
        else:
            parts += [_printed(text), _shown(output, alt)]
            text = ""
    return "".join([*parts, _printed(text)])


def _shown(output, alt: str) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        size = output.metadata.get("image/png", {})
        width = f' width="{size["width"]}" height="{size["height"]}"' if "width" in size else ""
        png = "".join(data["image/png"].split())
        return f'<img src="data:image/png;base64,{png}" alt="{escape(alt)}"{width}>\n'
    html = data.get("text/html", "")
    if html and not re.search(FOREIGN, html, re.IGNORECASE):
        html = re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)
        html = re.sub(r'(<table[^>]*?) border="\d+"', r"\1", html)
        return f'<div class="wide">{html}</div>\n'
    text = data.get("text/plain", "")
    return "" if re.fullmatch(r"<.+ at 0x[0-9a-f]+>", text) else _printed(text)


def _printed(text: str) -> str:
    text = ANSI.sub("", text).rstrip()
    return f'<pre class="printed" tabindex="0">{escape(text, quote=False)}</pre>\n' if text else ""


def _alt(page: Page, reading: str) -> str:
    """Return words for a plot: its section, and the sentence that reads it in the cell below."""
    section = re.sub(r"<[^>]+>", "", page.headings[-1][2]) if page.headings else "this lesson"
    text = re.sub(r"[*`$\\]|\]\([^)]*\)|\[", "", " ".join(reading.split()))
    sentence = re.match(r"[^#<].{0,240}?[.:](?= |$)", text)
    return f"Plot, {section}. {sentence[0] if sentence else ''}".strip()


def _contents(headings: Iterable[tuple[int, str, str]]) -> str:
    entries = "".join(
        f'<li><a href="#{anchor}">{text}</a></li>\n'
        for level, anchor, text in headings
        if level == 2
    )
    if not entries:
        return ""
    return (
        '<nav class="contents" aria-label="On this page"><details open><summary>On this page'
        f"</summary>\n<ol>\n{entries}</ol></details></nav>"
    )


def _neighbours(before: Lesson | None, after: Lesson | None) -> str:
    links = [
        f'<a rel="{how}" href="{lesson.name}.html"><span>{words}</span> {escape(lesson.title)}</a>'
        for how, words, lesson in (("prev", "Before:", before), ("next", "Next:", after))
        if lesson
    ]
    home = '<a href="index.html">All lessons</a>'
    return f'<nav class="neighbours" aria-label="Lessons">{"".join([*links, home])}</nav>'


def filled(
    *,
    title: str,
    kind: str,
    body: str,
    where: str = "",
    relations: str = "",
    contents: str = "",
    footer: str = "",
    home: str = "index.html",
    site: str = "workbench · the course",
    style: str = "",
    script: str = "",
) -> str:
    """Return a page in the course's looks.

    Parameters
    ----------
    title : of the window, Markdown
    kind : the body's class
    where : HTML behind the link home
    relations : elements for the head
    contents, footer : HTML before and behind the body
    home, site : where the link home leads, and its words
    style : what is set otherwise than in the course
    script : the only one that may run
    """
    plain = re.sub(r"[$*`]", "", title)
    return Template((ROOM / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{plain} · workbench"),
        kind=kind,
        where=where,
        relations=relations,
        contents=contents,
        body=body,
        footer=footer,
        home=home,
        site=site,
        policy=policy(script),
        style=_style() + style,
        script=f"<script>{script}</script>\n" if script else "",
    )


@cache
def _style() -> str:
    return (ROOM / "style.css").read_text(encoding="utf-8") + code_styles()
