"""Build the course: student copies of the lessons, and pages to read without a kernel or a network.

``python notebooks/learn/course.py ww ls_1 --out course -j 2 --nbgrader``
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from math_core import LatexError, LatexToMathML
from nbclient import NotebookClient
from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML, markdown2html, strip_ansi
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from workbench.live import replay
from workbench.runs.jupyter_kernels import IpcKernelManager
from workbench.runs.notebooks import CHECKOUT

LEARN = Path(__file__).parent.resolve()
# In the order of the twelve-week plan; other lessons follow.
SERIES = "ww", "mrc", "cuts", "ls", "memoir"
PROBLEMS = "problems"  # the folder of the problem sets on paper
CELL_TIMEOUT_S = 900
COPY = """\
> **Your copy.** It contains no solutions. Replace each `...` and run the cell: the `check_...` in
> its last line prints `right`, a hint, or `not yet`. Cells below may use your answers, so work from
> top to bottom. If you are stuck, go on, and come back: cells below then take the lesson's own
> answer and say so, but the exercise stays unsolved. Proofs go on paper or into your own cells.
>
> *To open it:* `make lab` in a checkout of the workbench, then this file; any Jupyter will do whose
> kernel can `import workbench`. *To hand it in:* Kernel, Restart Kernel and Run All Cells, save,
> and hand in this file under your name. Only what the checks then print counts."""
GRADED = "from checks.exercise import credit\n\ncredit(lambda: {check})"
DETAILS = re.compile(r"<details[^>]*>\s*<summary>(.*?)</summary>.*?</details>\n*", re.DOTALL)
# Code comes first, because it contains neither formulas nor links; formulas contain no links.
PARTS = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?:\\.|[^$\\\n]|\n(?!\s*\n))+)\$"
    r"|(?<!!)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<target>[^()\s]+)\)",
    re.DOTALL | re.MULTILINE,
)


def lessons() -> list[Path]:
    """Return the lessons, series by series, and then the problem sets."""
    rank = {name: i for i, name in enumerate(SERIES)}
    order = lambda p: (rank.get(p.name.partition("_")[0], len(rank)), p.name)  # noqa: E731
    found = sorted(LEARN.glob("*.ipynb"), key=order)
    return found + sorted(LEARN.glob(f"{PROBLEMS}/*.ipynb"))


def sheets() -> list[Path]:
    """Return the cheat sheets."""
    return sorted(LEARN.glob("cheat_sheets/*.md"))


def read(path: Path) -> NotebookNode:
    """Return a lesson, or a cheat sheet as a notebook of one cell."""
    if path.suffix == ".md":
        return new_notebook(cells=[new_markdown_cell(path.read_text("utf-8"), id="sheet")])
    return nbformat.read(path, as_version=4)


def heading(path: Path) -> tuple[str, str]:
    """Return the title of a page, and the first question in bold that follows it, or ''."""
    opening = read(path).cells[0].source
    bold = re.search(r"\*\*((?:\$[^$]+\$|[^*$])+\?)\*\*", opening)
    return opening.splitlines()[0].removeprefix("# "), " ".join(bold[1].split()) if bold else ""


def rewritten(source: str, path: Path, copies: bool = False) -> str:
    """Return Markdown of `path` with the links of the course, and with formulas as MathML.

    With `copies` links lead to student copies, and formulas stay as they are. A link to a file that
    is not part of the course becomes its words and the file's path in the checkout. A ValueError
    names the page if a formula is not understood or a link leads to no file.
    """

    def part(match: re.Match) -> str:
        if match["target"]:
            return link(PARTS.sub(part, match["words"]), *match["target"].partition("#"))
        if match["code"] or copies:
            return match[0]
        return mathml(match["display"] or match["inline"], match["display"] is not None)

    def link(words: str, target: str, *anchor: str) -> str:
        place, found = target, (path.parent / target).resolve()
        if target and not re.match(r"https?:|mailto:", target):
            if not found.exists():
                raise ValueError(f"{path.name}: there is no file {target}")
            if found not in [*lessons(), *sheets()]:
                return f"{words} (`{found.relative_to(CHECKOUT).as_posix()}`)"
            place = f"{found.stem}.html"
            if copies:
                place = found.name if found.suffix == ".ipynb" else f"../{place}"
        return f"[{words}]({place}{''.join(anchor)})"

    def mathml(formula: str, display: bool) -> str:
        try:
            convert = LatexToMathML(fancy_error=False).convert_with_local_state
            made = convert(" ".join(formula.split()), displaystyle=display)
        except LatexError as error:
            raise ValueError(f"{path.name}: formula {formula.strip()!r}: {error}") from None
        # XML does not know this name of a sign, and a bar would end a table's cell.
        made = made.replace("&ApplyFunction;", "&#8289;").replace("|", "&#124;")
        return f'<span class="formula">{made}</span>' if display else made

    return PARTS.sub(part, source)


def student_copy(path: Path, nbgrader: bool = False) -> NotebookNode:
    """Return a lesson without outputs, solution cells and folded texts other than hints.

    With `nbgrader` a locked cell follows each exercise; it runs the check again for the credit.
    """
    notebook, cells = read(path), []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", ())
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            hint = lambda m: m[0] if m[1].strip().startswith("Hint") else ""  # noqa: E731
            cell.source = rewritten(DETAILS.sub(hint, cell.source).strip(), path, copies=True)
        if "solution" not in tags and cell.source:
            cells.append(cell)
        if "exercise" in tags and nbgrader:
            check = GRADED.format(check=cell.source.splitlines()[-1])
            graded = {"schema_version": 3, "grade_id": f"{path.stem}-{cell.id}", "points": 1}
            graded |= {"grade": True, "locked": True, "solution": False, "task": False}
            more = {"nbgrader": graded, "tags": ["graded"]}
            cells.append(new_code_cell(check, id=f"{cell.id}-graded", metadata=more))
    notebook.cells = [new_markdown_cell(COPY, id="your-copy"), *cells]
    return notebook


def executed(path: Path) -> tuple[NotebookNode, str]:
    """Return a lesson with its outputs, and '' or what failed: a cell, or a rejected solution."""
    notebook, where = read(path), {"metadata": {"path": str(path.parent)}}
    settings = {"timeout": CELL_TIMEOUT_S, "kernel_manager_class": IpcKernelManager}
    settings["extra_arguments"] = ["--log-level=CRITICAL"]  # a kernel's shutdown is no news
    try:
        NotebookClient(notebook, resources=where, **settings).execute()
    except Exception as error:  # an error in a cell or a dead kernel ends this lesson only
        return notebook, strip_ansi(str(error)) or repr(error)
    for cell in notebook.cells:
        printed = "".join(output.get("text", "") for output in cell.get("outputs", ()))
        if "solution" in cell.metadata.get("tags", ()) and not printed.startswith("right"):
            return notebook, f"cell {cell.id}: its solution is not accepted: {printed.strip()}"
    return notebook, ""


def page(notebook: NotebookNode, path: Path | None, pages: list[Path]) -> str:
    """Return the HTML of a lesson or sheet, or of the contents if there is no path.

    `pages` are the lessons that have a page, in their order.
    """
    notebook, found = copy.deepcopy(notebook), []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = markdown2html(rewritten(cell.source, path))
            found += re.findall(r'<h2 id="(.*?)">(.*?)<a class="anchor-link"', cell.source)
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    plays = any(replay.MIME in out.get("data", ()) for out in outputs)
    neighbours = dict(zip(pages, zip([None, *pages], [*pages[1:], None])))
    before, after = neighbours.get(path, (None, None))
    exporter = TemplateExporter(
        template_name="base",
        template_file=str(LEARN / "course.html.j2"),
        preprocessors=[CoalesceStreamsPreprocessor],
        filters={
            "heading": heading,
            "markdown": lambda text, path: markdown2html(rewritten(text, path)),
            "highlight_code": Highlight2HTML(),
            "hashed": replay.hashed,
            "recorded": lambda output: replay.embedded(output.get("data", {}).get(replay.MIME)),
        },
    )
    resources = {
        "page": path,
        "sections": found,
        "before": before,
        "after": after,
        "pages": pages,
        "sheets": sheets(),
        "names": [lesson.stem for lesson in lessons()],
        "script": replay.SCRIPT if plays else "",
        "style": replay.STYLE if plays else "",
    }
    return exporter.from_notebook_node(notebook, resources)[0]


def build(names: list[str], out: Path, jobs: int = 1, nbgrader: bool = False) -> dict[str, str]:
    """Write the course; return what failed by the name of its lesson, which then has no page.

    Lessons whose names begin with one of `names` are executed, all by default, `jobs` at a time;
    every lesson has its copy.
    """
    chosen = [path for path in lessons() if not names or path.stem.startswith(tuple(names))]
    if unknown := [name for name in names if not any(p.stem.startswith(name) for p in chosen)]:
        known = ", ".join(path.stem for path in lessons())
        raise ValueError(f"lesson: unknown name {unknown[0]!r}; choose of {known}")
    files = {}
    copies = [(path, "students", False) for path in lessons()]
    graded = [path for path in chosen if nbgrader and path.parent == LEARN]
    copies += [(path, f"nbgrader/source/{path.stem}", True) for path in graded]
    for path, folder, credit in copies:
        files[f"{folder}/{path.name}"] = nbformat.writes(student_copy(path, credit)) + "\n"
        for check in LEARN.glob("checks/*.py"):
            files[f"{folder}/checks/{check.name}"] = check.read_text("utf-8")
    if jobs > 1:  # one thread each
        threads = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"
        os.environ |= dict.fromkeys(threads, "1")
    done, failed = {}, {}
    with ThreadPoolExecutor(jobs) as pool:
        for path, (notebook, error) in zip(chosen, pool.map(executed, chosen)):
            print(f"{path.stem}: {'FAILED' if error else 'done'}", flush=True)
            (failed if error else done)[path] = error or notebook
    for path in [*done, *sheets()]:
        files[f"{path.stem}.html"] = page(done.get(path) or read(path), path, [*done])
    files["index.html"] = page(new_notebook(), None, [*done])
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
    return {path.stem: error for path, error in failed.items()}


def main(arguments: list[str] | None = None) -> int:
    """Build the course from the command line; return 1 if a lesson failed, 2 for a bad name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add, folder = parser.add_argument, CHECKOUT / "course"
    add("names", nargs="*", metavar="NAME", help="prefixes of lesson names (default: all)")
    add("--out", type=Path, default=folder, help="folder (default: course/)")
    add("-j", "--jobs", type=int, default=1, help="lessons at a time (default: 1)")
    add("--nbgrader", action="store_true", help="also write nbgrader assignments")
    given = parser.parse_args(arguments)
    try:
        failed = build(given.names, given.out, given.jobs, given.nbgrader)
    except ValueError as error:
        parser.error(str(error))
    for name, error in failed.items():
        print(f"{name} failed: {error}", file=sys.stderr)
    print(f"the course: {given.out / 'index.html'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
