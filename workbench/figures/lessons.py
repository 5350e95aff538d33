"""The course: student copies of the lessons, and pages to read offline without a kernel.

>>> build(["ls_1"])                                                        # doctest: +SKIP
"""

from __future__ import annotations

import copy
import json
import os
import re
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from html import unescape
from pathlib import Path

import nbformat
from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML, markdown2html, strip_ansi
from nbconvert.preprocessors import CoalesceStreamsPreprocessor, ExecutePreprocessor
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from workbench.core.names import hint
from workbench.data.cache import state_of_folders
from workbench.figures.lesson_files import (
    FOLDER,
    PARTS,
    Page,
    checks_of,
    graded_copy,
    mathml,
    read,
    rewritten,
    student_copy,
)
from workbench.figures.papers import ACROSS, ON_PAPER, PAPERS, title
from workbench.live import replay
from workbench.runs.jupyter_kernels import IpcKernelManager
from workbench.runs.keys import key, package_code
from workbench.runs.mill import environment, side_by_side
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.sweep import runs_folder

# In reading order, that of the twelve-week plan.
SERIES = ("weston_watkins", "mrc", "sampled_cuts", "least_squares", "memoir", ACROSS, ON_PAPER)
WIDGET = "application/vnd.jupyter.widget-view+json"  # is nothing without a kernel
TIMEOUT_S = 900  # for one cell on a slow and busy machine
SECTION = re.compile(r'<h[1-3] id="(.*?)">(.*?)</h[1-3]>(.*?)(?=<h[1-3] id=|$)', re.DOTALL)
HIDDEN = re.compile(r"<(script|style|noscript|details|pre|math)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
BARE_TABLE = SanitizeHTML(
    tags=["div", "table", "thead", "tbody", "tr", "th", "td"], attributes={}, strip=True
)


def build(
    names: Iterable[str] = (),
    out: Path | None = None,
    *,
    jobs: int = 1,
    again: bool = False,
    nbgrader: bool = False,
    folder: Path = FOLDER,
    executed: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Write ``students/``, a page for each lesson and cheat sheet, and ``index.html``.

    Every lesson has its student copy next to the checks, executed or not. Pages are written for the
    lessons executed now, and for those executed before that have not changed since.

    Parameters
    ----------
    names : beginnings of the names of lessons to execute (default: all)
    out : folder of the course (default: ``course/`` of the checkout)
    jobs : number of lessons executed at a time
    again : execute lessons even if nothing changed
    nbgrader : also write each lesson asked for as an assignment, ``nbgrader/source/``
    folder : folder of the lessons
    executed : folder that keeps executed lessons (default: ``runs/lessons/``)
    say : receives the progress, line by line

    Returns
    -------
    failed : names of the lessons that have no page because they failed

    Raises
    ------
    ValueError
        Before anything runs, naming the file and the cell: an unknown lesson, an invalid notebook,
        a formula that is not understood, a link to a file that does not exist.
    """
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs}")
    names = tuple(names)
    found = [*folder.glob("*.ipynb"), *folder.glob(f"{ON_PAPER}/*.ipynb")]
    lessons = [read(path) for path in sorted(found)]
    lessons.sort(key=lambda lesson: SERIES.index(lesson.series))
    sheets = [read(path) for path in sorted(folder.glob("cheat_sheets/*.md"))]
    known = [lesson.name for lesson in lessons]
    for name in names:
        if not any(lesson.name.startswith(name) for lesson in lessons):
            raise ValueError(f"lesson: unknown name {name!r}; {hint(name, known)}")
    copies = {lesson.path: f"students/{lesson.name}.ipynb" for lesson in lessons}
    places = copies | {sheet.path: sheet.place for sheet in sheets}
    files = {copies[lesson.path]: student_copy(lesson, places) for lesson in lessons}
    files |= {f"students/{name}": text for name, text in checks_of(folder).items()}
    for page in [*lessons, *sheets]:
        for cell in page.notebook.cells:
            rewritten(cell, page, places)  # a bad formula is reported now, not after the runs
    out = Path(out or CHECKOUT / "course").absolute()
    executed = Path(executed or runs_folder() / "lessons").absolute()
    asked = [lesson for lesson in lessons if not names or lesson.name.startswith(names)]
    for lesson in asked if nbgrader else ():
        if lesson.series != ON_PAPER:
            folder_of = f"nbgrader/source/{lesson.name}"
            place = f"{folder_of}/{lesson.name}.ipynb"
            files[place] = graded_copy(lesson, places | {lesson.path: place})
            files |= {f"{folder_of}/{name}": text for name, text in checks_of(folder).items()}
    try:
        failed = execute(asked, executed, jobs=jobs, again=again, say=say)
    finally:  # Ctrl-C keeps what is done
        found = {lesson.place: outputs(lesson, executed) for lesson in lessons}
        done = [lesson for lesson in lessons if found[lesson.place] is not None]
        places = {page.path: page.place for page in [*done, *sheets]}
        for page in [*done, *sheets]:
            files[page.place] = html_page(page, places, done, found.get(page.place))
        files["index.html"] = index_page(lessons, sheets, files)
        for place in found.keys() - files.keys():
            (out / place).unlink(missing_ok=True)  # it shows an earlier version of the lesson
        for name, text in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")
    for name, error in failed.items():
        say(textwrap.indent(error, f"  {name} | ", lambda line: True))
    say(f"the course: {out / 'index.html'}")
    return list(failed)


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
        contents=[(anchor, words) for level, anchor, words in headings if level == "2"],
        script=replay.script() if plays else "",
        style=replay.style() if plays else "",
        before=course[at - 1] if at else None,
        after=course[at + 1] if at is not None and at + 1 < len(course) else None,
    )


def index_page(lessons: list[Page], sheets: list[Page], files: Iterable[str]) -> str:
    """Return the first page: the series, the cheat sheets, the student copies among `files`."""
    series = [
        (title(key), PAPERS.get(key), [lesson for lesson in lessons if lesson.series == key])
        for key in SERIES
    ]
    series = [entry for entry in series if entry[2]]
    return _rendered(
        new_notebook(),
        home="index.html",
        series=series,
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


def execute(
    lessons: list[Page], folder: Path, *, jobs: int, again: bool, say: Callable[[str], None]
) -> dict[str, str]:
    """Run lessons, each in its own kernel, and keep them in `folder`; return errors by name."""
    folder.mkdir(parents=True, exist_ok=True)
    work = [lesson for lesson in lessons if again or outputs(lesson, folder) is None]
    same = f"; {len(lessons) - len(work)} unchanged" if work != lessons else ""
    say(f"{len(lessons)} lessons, {jobs} at a time{same}")
    failed: dict[str, str] = {}
    ended = side_by_side(lambda lesson, lane: _run(lesson, folder), work, jobs)
    with environment(WORKBENCH_JOBS=str(jobs)), closing(ended):
        for done, (lesson, (seconds, error)) in enumerate(ended, 1):
            outcome = "FAILED after" if error else "done in"
            say(f"[{done}/{len(work)}] {lesson.name} {outcome} {seconds:.0f} s")
            failed |= {lesson.name: error} if error else {}
    return failed


def outputs(lesson: Page, folder: Path) -> dict[str, list] | None:
    """Return the outputs of a lesson's cells by their ids, None if it must be run first."""
    try:
        executed = nbformat.read(folder / f"{lesson.name}.ipynb", as_version=4)
        if executed.metadata["workbench_key"] != lesson_key(lesson):
            return None
        return {cell.id: cell.outputs for cell in executed.cells if cell.cell_type == "code"}
    except Exception:  # the file is missing, or damaged in one of many ways
        return None


def lesson_key(lesson: Page) -> str:
    """Return the key of all that a lesson's outputs depend on; its prose is not part of it."""
    code = [cell for cell in lesson.notebook.cells if cell.cell_type == "code"]
    return key(
        cells=[[cell.id, cell.metadata.get("tags", []), cell.source] for cell in code],
        checks=checks_of(lesson.path.parent),
        package=package_code(),
        data=state_of_folders(),
    )


def _run(lesson: Page, folder: Path) -> tuple[float, str | None]:
    """Run one lesson and keep it; return the wall seconds, and the error or None."""
    tic, wanted = time.monotonic(), lesson_key(lesson)
    kept, notebook = folder / f"{lesson.name}.ipynb", copy.deepcopy(lesson.notebook)
    runner = ExecutePreprocessor(
        timeout=TIMEOUT_S,
        kernel_manager_class=IpcKernelManager,
        extra_arguments=[
            "--log-level=CRITICAL",  # the shutdown's interrupt would be logged as an error
            "--InlineBackend.figure_formats=retina",  # twice the pixels, the same size
        ],
    )
    try:  # where the lesson imports its checks
        runner.preprocess(notebook, {"metadata": {"path": str(lesson.path.parent)}})
        error = _rejected(notebook)
    except Exception as failure:  # an error in a cell, a dead kernel: this lesson's only
        error = strip_ansi(str(failure)) or repr(failure)
    if error:
        kept.unlink(missing_ok=True)
    else:
        notebook.metadata["workbench_key"] = wanted
        nbformat.write(notebook, kept)
    return time.monotonic() - tic, error


def _rejected(executed: NotebookNode) -> str | None:
    """Return which solution its own check does not accept, None if all are right."""
    for cell in executed.cells:
        text = "".join(out.get("text", "") for out in cell.get("outputs", ()))
        if "solution" in cell.metadata.get("tags", ()) and not text.startswith("right"):
            return f"cell {cell.id}: its solution is not accepted: {text.strip() or 'no output'}"
    return None


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
    exporter = TemplateExporter(
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
    return exporter.from_notebook_node(notebook, resources)[0]
