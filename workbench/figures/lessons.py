"""The course: student copies of the lessons, and pages to read offline without a kernel.

>>> build(["ls_1"])                                                        # doctest: +SKIP
"""

from __future__ import annotations

import copy
import os
import re
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from html import unescape
from pathlib import Path
from typing import NamedTuple

import nbformat
from math_core import LatexError, LatexToMathML
from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML, markdown2html, strip_ansi
from nbconvert.preprocessors import CoalesceStreamsPreprocessor, ExecutePreprocessor
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from workbench.data.cache import state_of_folders
from workbench.figures.papers import ACROSS, PAPERS, PREFIXES, title
from workbench.runs.jupyter_kernels import IpcKernelManager
from workbench.runs.keys import key, package_code
from workbench.runs.mill import environment, side_by_side
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.sweep import runs_folder

FOLDER = CHECKOUT / "notebooks" / "learn"
# In reading order.
SERIES = ("mrc", "weston_watkins", "least_squares", "sampled_cuts", "memoir", ACROSS)
TIMEOUT_S = 900  # for one cell on a slow and busy machine
OPENING = """\
> **Your copy.** It contains no solutions. Replace each `...` and run the cell: the `check_...` in
> its last line says `right`, gives a hint, or says `not yet`. Cells below may use your answers, so
> go from top to bottom; if you are stuck, go on, and come back.
>
> *To open it:* `make lab` in a checkout of the workbench, then this file; any Jupyter will do whose
> kernel can `import workbench`. *To hand it in:* Kernel, Restart Kernel and Run All Cells, save,
> and hand in this file under your name. Only what the checks then print counts."""
DETAILS = re.compile(r"<details[^>]*>\s*<summary>(.*?)</summary>.*?</details>\n*", re.DOTALL)
# Code comes first: it contains neither formulas nor links. Formulas contain no links.
PARTS = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?:\\.|[^$\\\n]|\n(?!\s*\n))+)\$"
    r"|(?<!!)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<target>[^()\s]+)\)",
    re.DOTALL | re.MULTILINE,
)
MATHML = LatexToMathML(fancy_error=False)
BARE_TABLE = SanitizeHTML(
    tags=["div", "table", "thead", "tbody", "tr", "th", "td"], attributes={}, strip=True
)


class Page(NamedTuple):
    """A lesson, or a cheat sheet as a notebook of one cell.

    Attributes
    ----------
    path : its file, an absolute path
    place : path of its HTML page in the course
    title : its first heading
    question : the first question in bold of its first cell, or empty
    series : of a lesson, a key of the papers or ``across``; empty for a cheat sheet
    """

    path: Path
    notebook: NotebookNode
    place: str
    title: str
    question: str
    series: str

    @property
    def name(self) -> str:
        return self.path.stem


def build(
    names: Iterable[str] = (),
    out: Path | None = None,
    *,
    jobs: int = 1,
    again: bool = False,
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
    lessons = [read(path) for path in sorted(folder.glob("*.ipynb"))]
    lessons.sort(key=lambda lesson: SERIES.index(lesson.series))
    sheets = [read(path) for path in sorted(folder.glob("cheat_sheets/*.md"))]
    for name in names:
        if not any(lesson.name.startswith(name) for lesson in lessons):
            known = ", ".join(lesson.name for lesson in lessons)
            raise ValueError(f"lesson: unknown name {name!r}; known are {known}")
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


def read(path: Path) -> Page:
    """Return a lesson (``.ipynb``) or a cheat sheet (``.md``).

    Raises
    ------
    ValueError
        Naming the file: not a valid notebook, a first cell without a title, or a <details> that
        does not begin with a <summary> or does not end.
    """
    name, sheet = path.stem, path.suffix == ".md"
    try:
        if sheet:
            cell = new_markdown_cell(path.read_text(encoding="utf-8"), id="sheet")
            notebook = new_notebook(cells=[cell])
        else:
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
    except Exception as error:  # nbformat's own, or of JSON that is of another kind
        raise ValueError(f"{name}: not a notebook; {error}") from None
    opening = notebook.cells[0].source if notebook.cells else ""
    heading = re.match(r"# (.+)", opening)
    if not heading:
        raise ValueError(f"{name}: its first cell does not begin with '# title'")
    for cell in notebook.cells:
        tags = [len(re.findall(tag, cell.source)) for tag in ("<details", "</details>")]
        if cell.cell_type == "markdown" and tags != 2 * [len(DETAILS.findall(cell.source))]:
            raise ValueError(f"{name}: cell {cell.id}: a <details> lacks its summary or its end")
    bold = re.search(r"\*\*([^*]+\?)\*\*", opening)
    question = " ".join(bold[1].split()) if bold else ""
    prefix = name.partition("_")[0]
    series = PREFIXES.get(prefix, prefix)
    return Page(
        path.resolve(),
        notebook,
        place=f"cheat_sheets/{name}.html" if sheet else f"{name}.html",
        title=heading[1].strip(),
        question=question[:1].upper() + question[1:],
        series="" if sheet else series if series in PAPERS else ACROSS,
    )


def rewritten(
    cell: NotebookNode, page: Page, places: Mapping[Path, str], formulas: bool = True
) -> str:
    """Return a cell's Markdown with the links of the course and with formulas as MathML.

    Parameters
    ----------
    places : file -> its path in the course, for `page` and the targets of links; a link to another
        file becomes its words and the file's path in the repository
    formulas : whether formulas become MathML

    Raises
    ------
    ValueError
        Naming the page and the cell: a formula that is not understood, a link to a file that does
        not exist.
    """

    def part(match: re.Match) -> str:
        if match["words"]:
            return link(PARTS.sub(part, match["words"]), match["target"])
        if match["code"] or not formulas:
            return match[0]
        return mathml(match["display"] or match["inline"], match["display"] is not None)

    def link(words: str, target: str) -> str:
        path, _, fragment = target.partition("#")
        if not path or re.match(r"https?:|mailto:", path):
            return f"[{words}]({target})"
        found = (page.path.parent / path).resolve()
        if not found.exists():
            raise ValueError(f"link to {target}: there is no such file")
        if found not in places:
            inside = found.is_relative_to(CHECKOUT)
            return f"{words} (`{found.relative_to(CHECKOUT).as_posix() if inside else found.name}`)"
        leads = os.path.relpath(places[found], os.path.dirname(places[page.path]))
        return f"[{words}]({Path(leads).as_posix()}{'#' * bool(fragment)}{fragment})"

    if cell.cell_type != "markdown":
        return cell.source
    try:
        return PARTS.sub(part, cell.source)
    except ValueError as error:
        raise ValueError(f"{page.name}: cell {cell.id}: {error}") from None


def mathml(formula: str, display: bool = False) -> str:
    """Return a LaTeX formula as a ``<math>`` element for Markdown; quote it in an error."""
    try:
        made = MATHML.convert_with_local_state(" ".join(formula.split()), displaystyle=display)
    except LatexError as error:
        raise ValueError(f"formula {formula.strip()!r}: {error}") from None
    # XML does not know this name of a sign, and a bar would end a table's cell.
    made = made.replace("&ApplyFunction;", "&#8289;").replace("|", "&#124;")
    return f'<span class="formula">{made}</span>' if display else made


def student_copy(lesson: Page, places: Mapping[Path, str]) -> str:
    """Return a notebook file without outputs and without the cells tagged ``solution``.

    Of the folded texts (<details>) only those stay whose summary begins with "Hint".
    """
    notebook = copy.deepcopy(lesson.notebook)
    cells = [c for c in notebook.cells if "solution" not in c.metadata.get("tags", ())]
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            hint = lambda m: m[0] if m[1].strip().startswith("Hint") else ""  # noqa: E731
            cell.source = DETAILS.sub(hint, cell.source).strip()
            cell.source = rewritten(cell, lesson, places, formulas=False)
    opening = new_markdown_cell(OPENING, id="your-copy")
    # A cell may have contained only a solution.
    notebook.cells = [opening, *(cell for cell in cells if cell.source)]
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


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
            cell.outputs = [_harmless(output, alt) for output in outputs.get(cell.id, ())]
    at = course.index(page) if page in course else None
    resources = {
        "page": page,
        "home": os.path.relpath("index.html", os.path.dirname(page.place)),
        "where": title(page.series) if page.series else "cheat sheet",
        "contents": [(anchor, words) for level, anchor, words in headings if level == "2"],
        "before": course[at - 1] if at else None,
        "after": course[at + 1] if at is not None and at + 1 < len(course) else None,
    }
    return EXPORTER.from_notebook_node(notebook, resources)[0]


def index_page(lessons: list[Page], sheets: list[Page], files: Iterable[str]) -> str:
    """Return the first page: the series, the cheat sheets, the student copies among `files`."""
    series = [(key, [lesson for lesson in lessons if lesson.series == key]) for key in SERIES]
    resources = {
        "home": "index.html",
        "series": [(title(key), PAPERS.get(key), inside) for key, inside in series if inside],
        "sheets": sheets,
        "files": list(files),
    }
    return EXPORTER.from_notebook_node(new_notebook(), resources)[0]


def execute(
    lessons: list[Page], folder: Path, *, jobs: int, again: bool, say: Callable[[str], None]
) -> dict[str, str]:
    """Run lessons, each in its own kernel, and keep them in `folder`; see :func:`build`.

    Returns
    -------
    failed : name -> the error; a failing lesson does not stop the others
    """
    folder.mkdir(parents=True, exist_ok=True)
    work = [lesson for lesson in lessons if again or outputs(lesson, folder) is None]
    same = f"; nothing has changed for {len(lessons) - len(work)}" if work != lessons else ""
    say(f"{len(lessons)} lessons, {jobs} at a time{same}")
    failed: dict[str, str] = {}
    ended = side_by_side(partial(_run, folder=folder), work, jobs)
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


def checks_of(folder: Path) -> dict[str, str]:
    """Return the sources that check the exercises, by their paths below the lessons' folder."""
    found = sorted(folder.glob("checks/*.py"))
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in found}


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
    """Return an output with no HTML but a bare table, and with `alt` as a plot's description."""
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


EXPORTER = TemplateExporter(
    template_name="base",
    template_file=str(Path(__file__).with_name("lessons.html")),
    file_extension=".html",
    preprocessors=[CoalesceStreamsPreprocessor],
    filters={"inline": _inline, "highlight_code": Highlight2HTML()},
)
