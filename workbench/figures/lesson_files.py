"""Lessons and cheat sheets: their text, links and formulas, and the student copies."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import nbformat
from math_core import LatexError, LatexToMathML
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from workbench.figures.papers import ACROSS, ON_PAPER, PAPERS, PREFIXES
from workbench.runs.notebooks import CHECKOUT

FOLDER = CHECKOUT / "notebooks" / "learn"
OPENING = """\
> **Your copy.** It contains no solutions. Replace each `...` and run the cell: the `check_...` in
> its last line says `right`, gives a hint, or says `not yet`. Cells below may use your answers, so
> go from top to bottom; if you are stuck, go on, and come back.
>
> *To open it:* `make lab` in a checkout of the workbench, then this file; any Jupyter will do whose
> kernel can `import workbench`. *To hand it in:* Kernel, Restart Kernel and Run All Cells, save,
> and hand in this file under your name. Only what the checks then print counts."""
ON_PAPER_OPENING = """\
> **Your copy.** It contains no solutions. Write your proofs on paper or in cells of your own, and
> hand in either. The cells of code compute a claim on random instances: run them *before* you prove
> it, and change them. A claim that survives is not proved yet.
>
> *To open it:* `make lab` in a checkout of the workbench, then this file; any Jupyter will do whose
> kernel can `import workbench`."""
GRADED = "from checks.exercise import credit\n\ncredit(lambda: {check})"
CERTIFIED = re.compile(r'check_certified\(.*"')  # with the solver that makes the proof
DECADES = 3  # decades of the certified gap, from 1 to 1e-3
OTTER = '''\
"""One exercise for otter-grader: its check in as many steps of the credit as it has parts."""

from checks.exercise import graded
from otter.test_files import test_case

OK_FORMAT, name, points, parts = False, {name!r}, 1, {parts}
check = {check!r}


def step(part):
    def case(env):
        share, told = graded(lambda: eval(check, env))
        reached = int(share * parts + 1e-9)
        assert reached >= part, told if reached == part - 1 else "not reached"

    return test_case(name=f"{{name}}, part {{part}} of {{parts}}")(case)


for part in range(1, parts + 1):
    globals()[f"part_{{part}}"] = step(part)
'''
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


class Page(NamedTuple):
    """A lesson, or a cheat sheet as a notebook of one cell.

    Attributes
    ----------
    path : its file, an absolute path
    place : path of its HTML page in the course
    title : its first heading
    question : the first question in bold of its first cell, or empty
    series : of a lesson, a key of the papers or ``across``; of a problem set ``problems``; empty
        for a cheat sheet
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
    bold = re.search(r"\*\*((?:\$[^$]+\$|[^*$])+\?)\*\*", opening)
    question = " ".join(bold[1].split()) if bold else ""
    prefix = name.partition("_")[0]
    series = PREFIXES.get(prefix, prefix)
    others = ON_PAPER if path.parent.name == ON_PAPER else ACROSS
    return Page(
        path.resolve(),
        notebook,
        place=f"cheat_sheets/{name}.html" if sheet else f"{name}.html",
        title=heading[1].strip(),
        question=question[:1].upper() + question[1:],
        series="" if sheet else series if series in PAPERS else others,
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
    words = ON_PAPER_OPENING if lesson.series == ON_PAPER else OPENING
    opening = new_markdown_cell(words, id="your-copy")
    # A cell may have contained only a solution.
    notebook.cells = [opening, *(cell for cell in cells if cell.source)]
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def assignment(lesson: Page, places: Mapping[Path, str], grader: str) -> dict[str, str]:
    """Return the files of a lesson as a grader takes it, one point for each exercise.

    Parameters
    ----------
    places : see :func:`rewritten`
    grader : ``nbgrader``, which finds a locked cell behind each exercise that runs its check again
        and returns the credit; or ``otter``, which finds the tests of an exercise in ``tests/`` by
        the metadata of its cell, and gives credit for each half of a decade

    Returns
    -------
    files : the student copy and its tests, by their paths below the folder of the assignment
    """
    notebook, cells = nbformat.reads(student_copy(lesson, places), as_version=4), []
    files: dict[str, str] = {}
    for cell in notebook.cells:
        cells.append(cell)
        if "exercise" not in cell.metadata.get("tags", ()):
            continue
        check = cell.source.splitlines()[-1]
        if grader == "otter":
            parts = 2 * DECADES if CERTIFIED.search(check) else 1
            cell.metadata["otter"] = {"tests": [cell.id]}
            files[f"tests/{cell.id}.py"] = OTTER.format(name=cell.id, check=check, parts=parts)
        else:
            graded = {"schema_version": 3, "grade_id": f"{lesson.name}-{cell.id}", "points": 1}
            graded |= {"grade": True, "locked": True, "solution": False, "task": False}
            more = {"nbgrader": graded, "tags": ["graded"]}
            locked = GRADED.format(check=check)
            cells.append(new_code_cell(locked, id=f"{cell.id}-graded", metadata=more))
    notebook.cells = cells
    nbformat.validate(notebook)
    return files | {f"{lesson.name}.ipynb": nbformat.writes(notebook).rstrip("\n") + "\n"}


def checks_of(folder: Path) -> dict[str, str]:
    """Return the sources that check the exercises, by their paths below the lessons' folder."""
    return {f"checks/{p.name}": p.read_text("utf-8") for p in sorted(folder.glob("checks/*.py"))}
