"""Build the course: student copies of the lessons, and pages to read without a kernel
or a network.

``python notebooks/learn/course.py ww ls_1 --out course -j 2 --nbgrader --instructor
teacher``
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from html import unescape
from itertools import groupby
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML, markdown2html, strip_ansi
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import instructor
from checks.exercise import solutions
from decks import deck, decks, played, title
from markup import described, rewritten
from workbench.live import replay
from workbench.runs.jupyter_kernels import IpcKernelManager
from workbench.runs.notebooks import CHECKOUT

HERE = Path(__file__).parent.resolve()
LEARN = HERE
BROWSERS = "chromium", "chromium-browser", "google-chrome", "chrome"
AUTHORS = CHECKOUT / "notebooks" / "figures" / "authors_code.py"  # lessons run it, too
SEARCH = (LEARN / "search.js").read_text(encoding="utf-8")
# In the order of the syllabus; lessons across the series follow.
SERIES = {"ww": "The Weston-Watkins SVM", "mrc": "Minimax risk", "cuts": "Sampled cuts"}
SERIES |= {"ls": "Least squares", "memoir": "MEMOIR"}
PROBLEMS = "problems"  # the folder of the problem sets on paper
CELL_TIMEOUT_S = 900
COPY = """\
> **Your copy.** It contains no solutions. Replace each `...` and run the cell: the
> `check_...` in its last line prints `right`, a hint, or `not yet`. Cells below may use
> your answers, so work from top to bottom. If you are stuck, go on, and come back:
> cells below then take the lesson's own answer and say so, but the exercise stays
> unsolved. Proofs go on paper or into your own cells.
>
> *To open it:* `README.md` beside this file says how; in a checkout of the workbench,
> `make lab` does, too.
> *To hand it in:* Kernel, Restart Kernel and Run All Cells, save, and hand in this file
> under your name. Only what the checks then print counts."""
GRADED = "from checks.exercise import credit\n\ncredit(lambda: {check})"
COLAB = """\
# Colab only: fetch a checkout of the workbench, install it, and work in its folder.
import os, sys
if "google.colab" in sys.modules:
    folder = "/content/workbench"
    if not os.path.isdir(folder):
        get_ipython().system(f"git clone -q --depth 1 {url} {{folder}}")
        get_ipython().system(f"pip install -q -c {{folder}}/constraints.txt {{folder}}")
    sys.path.insert(0, folder)
    os.chdir(f"{{folder}}/notebooks/learn")"""
FOLDED = re.compile(  # of the first cell of a lesson
    r"\s+A\s+solution\s+is\s+folded\s+away\s+below\s+each\s+exercise\."
    r'(\s+"Run\s+All"\s+also\s+works;.*?\.)?',
    re.DOTALL,
)
DETAILS = re.compile(
    r"<details[^>]*>\s*<summary>(.*?)</summary>.*?</details>\n*", re.DOTALL
)


def lessons() -> list[Path]:
    """Return the lessons, series by series, and then the problem sets."""
    rank = [*SERIES.values(), series(LEARN / "across")].index
    found = sorted(
        LEARN.glob("*.ipynb"), key=lambda path: (rank(series(path)), path.name)
    )
    return found + sorted(LEARN.glob(f"{PROBLEMS}/*.ipynb"))


def series(path: Path) -> str:
    """Return the name of a lesson's series."""
    other = (
        "Problem sets on paper" if path.parent.name == PROBLEMS else "Across the series"
    )
    return SERIES.get(path.stem.partition("_")[0], other)


def sheets() -> list[Path]:
    """Return the cheat sheets."""
    return sorted(LEARN.glob("cheat_sheets/*.md"))


def texts() -> list[Path]:
    """Return the pages that are not lessons: syllabus, glossary and cheat sheets."""
    return [*LEARN.glob("syllabus.md"), *LEARN.glob("glossary.md"), *sheets()]


def read(path: Path) -> NotebookNode:
    """Return a lesson, or a cheat sheet as a notebook of one cell."""
    if path.suffix == ".md":
        return new_notebook(
            cells=[new_markdown_cell(path.read_text("utf-8"), id="sheet")]
        )
    return nbformat.read(path, as_version=4)


def heading(path: Path) -> tuple[str, str, str, str]:
    """Return a page's title, its first question in bold, and the prerequisites and time
    it states.

    What a page does not state is ''.
    """
    opening = read(path).cells[0].source
    stated = (
        r"\*\*((?:\$[^$]+\$|[^*$])+\?)\*\*",
        r"\*Assumed:?\*:?\s(.+?\.)(?=\s)",
        r"\*Time:?\*:?\s(.+?)(?=[.;]\s|[.;]?$|\n\n)",
    )
    found = (re.search(pattern, opening, re.DOTALL) for pattern in stated)
    return opening.splitlines()[0].removeprefix("# "), *(
        " ".join(match[1].split()) if match else "" for match in found
    )


def without_solutions(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without solution cells, and without what is folded to explain one.

    Such a text is called "Worked solution", or begins the cell below a solution. Hints
    stay, and so do the proofs of what the lesson itself states.
    """
    notebook = copy.deepcopy(notebook)
    cells = []
    solved = False  # whether the cell above is a solution
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _open(cell.source, explains=solved)
        solved = "solution" in cell.metadata.get("tags", ())
        if cell.source and not solved:
            cells.append(cell)
    notebook.cells = cells
    return notebook


def _open(text: str, explains: bool) -> str:
    """Return a text without folded solutions, and without the sentence on them."""

    def kept(match: re.Match) -> str:
        title = match[1].strip()
        answers = title == "Worked solution" or (explains and match.start() == 0)
        return "" if answers and not title.startswith("Hint") else match[0]

    return FOLDED.sub("", DETAILS.sub(kept, text)).strip()


def student_copy(path: Path, nbgrader: bool = False, colab: str = "") -> NotebookNode:
    """Return a lesson without outputs and without solutions.

    With `nbgrader` a locked cell follows each exercise; it runs the check again for the
    credit. With `colab`, the address of a public repository, a first cell installs it
    on Colab.
    """
    notebook, cells = without_solutions(read(path)), []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = rewritten(cell.source, path, copies=True, formulas=False)
        cells.append(cell)
        if "exercise" in cell.metadata.get("tags", ()) and nbgrader:
            check = GRADED.format(check=cell.source.splitlines()[-1])
            graded = {
                "schema_version": 3,
                "grade_id": f"{path.stem}-{cell.id}",
                "points": 1,
            }
            graded |= {"grade": True, "locked": True, "solution": False, "task": False}
            more = {"nbgrader": graded, "tags": ["graded"]}
            cells.append(new_code_cell(check, id=f"{cell.id}-graded", metadata=more))
    if colab:
        cells.insert(0, new_code_cell(COLAB.format(url=colab), id="colab"))
    notebook.cells = [new_markdown_cell(COPY, id="your-copy"), *cells]
    return notebook


def students() -> dict[str, str]:
    """Return the files beside the copies with which they run without a checkout.

    The answers that cells below an unsolved exercise need are packed, so that nobody
    reads them by accident; a key would have to lie beside them.
    """
    teach = [f"checks.{path.stem}" for path in LEARN.glob("checks/*.py")]
    answers = {name: found for name in teach if (found := solutions(name))}
    packed = b64encode(zlib.compress(json.dumps(answers).encode("utf-8")))
    return {
        "README.md": (HERE / "students.md").read_text("utf-8"),
        "constraints.txt": (CHECKOUT / "constraints.txt").read_text("utf-8"),
        "authors_code.py": AUTHORS.read_text("utf-8"),
        "checks/answers.txt": packed.decode("ascii"),
    }


def wheel(folder: Path) -> None:
    """Build the wheel of the workbench into the folder for students."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(
        [*command, "-d", str(folder.resolve())],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ValueError(f"wheel: was not built: {done.stderr.strip()}")


def executed(path: Path) -> tuple[NotebookNode, str]:
    """Return a lesson with its outputs, and '' or what failed: a cell, or a rejected
    solution."""
    notebook, where = read(path), {"metadata": {"path": str(path.parent)}}
    settings = {"timeout": CELL_TIMEOUT_S, "kernel_manager_class": IpcKernelManager}
    # a kernel's shutdown is no news
    settings["extra_arguments"] = ["--log-level=CRITICAL"]
    # a backend that is set, as usual on servers, would leave the pages without plots
    inline = {name: os.environ[name] for name in os.environ if name != "MPLBACKEND"}
    try:
        NotebookClient(notebook, resources=where, **settings).execute(env=inline)
    # an error in a cell or a dead kernel ends this lesson only
    except Exception as error:
        return notebook, strip_ansi(str(error)) or repr(error)
    described(notebook)
    for cell in notebook.cells:
        printed = "".join(output.get("text", "") for output in cell.get("outputs", ()))
        if "solution" in cell.metadata.get("tags", ()) and not printed.startswith(
            "right"
        ):
            return (
                notebook,
                f"cell {cell.id}: its solution is not accepted: {printed.strip()}",
            )
    return notebook, ""


def pdf(pages: Sequence[Path]) -> str:
    """Print pages as PDF files beside them; return '' or why there are none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        return (
            "no PDF: none of " + ", ".join(BROWSERS) + " is on the path; install one, "
            "or open a page in any browser and print it"
        )
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    options = ["--headless", "--disable-gpu", "--no-pdf-header-footer"]
    options += ["--virtual-time-budget=10000"]  # milliseconds in which a run is drawn
    options += ["--no-sandbox"] if root else []  # without which root has no Chromium
    for path in pages:
        file = path.with_suffix(".pdf").resolve()
        command = [browser, *options, f"--print-to-pdf={file}", path.resolve().as_uri()]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not file.is_file():
            return f"no PDF of {path.name}: {done.stderr.strip()[-500:]}"
    return ""


def passages(place: str, text: str) -> list[tuple[str, str, str]]:
    """Return the sections of a page for the search: link, the page's title, words.

    The words have no formulas, code or plots.
    """
    title = unescape(re.search("<title>(.*?) · workbench", text)[1])
    main = text.partition("<main>")[2].partition("</main>")[0]
    main = re.sub(r"<(script|pre|style)\b.*?</\1>", " ", main, flags=re.DOTALL)
    main = re.sub(r"<math\b.*?</math>", " … ", main, flags=re.DOTALL)
    found = []
    for section in main.split('<h2 id="'):
        anchor, _, rest = section.partition('">') if found else ("", "", section)
        words = unescape(re.sub("<[^>]+>", " ", rest)).replace("¶", ":")
        found.append((f"{place}#{anchor}", title, " ".join(words.split())))
    return found


def page(
    notebook: NotebookNode,
    path: Path | None,
    pages: list[Path],
    sections: Sequence = (),
    unfolded: bool = False,
    copies: bool = False,
) -> str:
    """Return the HTML of a lesson, sheet or syllabus, or of the contents if there is no
    path.

    `pages` are the lessons that have a page, in their order, `sections` what the
    contents search. Folded texts are printed if `unfolded`, but not those of a quiz.
    With `copies` the page is one beside the student copies, to which its links lead.
    """
    notebook, found = copy.deepcopy(notebook), []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = markdown2html(rewritten(cell.source, path, copies))
            found += re.findall(
                r'<h2 id="(.*?)">(.*?)<a class="anchor-link"', cell.source
            )
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
            "recorded": lambda output: replay.embedded(
                output.get("data", {}).get(replay.MIME)
            ),
        },
    )
    resources = {
        "page": path,
        "sections": found,
        "unfolded": unfolded,
        "copies": copies,
        "before": before,
        "after": after,
        "groups": [(name, [*paths]) for name, paths in groupby(pages, series)],
        "sheets": sheets(),
        "syllabus": [*LEARN.glob("syllabus.md")],
        "glossary": [*LEARN.glob("glossary.md")],
        "decks": [
            (f"{each.stem}.html", title(each))
            for each in decks()
            if all(lesson in pages for lesson in played(each))
        ],
        "found": json.dumps(sections, ensure_ascii=False).replace("<", "\\u003c"),
        "names": [lesson.stem for lesson in lessons()],
        "script": replay.SCRIPT if plays else "" if path else SEARCH,
        "style": replay.STYLE if plays else "",
    }
    return exporter.from_notebook_node(notebook, resources)[0]


def dated(path: Path, start: date | None) -> NotebookNode:
    """Return a text to read, with the days of the weeks if it is the syllabus."""
    notebook = read(path)
    if start and path.name == "syllabus.md":
        source = notebook.cells[0].source
        notebook.cells[0].source = instructor.dated(source, start)
    return notebook


def copied(graded: list[Path], colab: str, start: date | None) -> dict[str, str]:
    """Return the files of the students' folder, and of nbgrader's for some lessons."""
    files = {}
    copies = [(path, "students", False) for path in lessons()]
    copies += [(path, f"nbgrader/source/{path.stem}", True) for path in graded]
    for path, folder, credit in copies:
        files[f"{folder}/{path.name}"] = (
            nbformat.writes(student_copy(path, credit, colab)) + "\n"
        )
        for check in LEARN.glob("checks/*.py"):
            files[f"{folder}/checks/{check.name}"] = check.read_text("utf-8")
    for path in texts():
        text = page(dated(path, start), path, [], copies=True)
        files[f"students/{path.stem}.html"] = text
    return files | {f"students/{name}": text for name, text in students().items()}


def build(
    names: list[str],
    out: Path,
    jobs: int = 1,
    nbgrader: bool = False,
    colab: str = "",
    teacher: Path | None = None,
    start: date | None = None,
) -> dict[str, str]:
    """Write the course; return what failed by the name of its lesson, which then has no
    page.

    Lessons whose names begin with one of `names` are executed, all by default, `jobs`
    at a time; every lesson has its copy. If there is a folder for the `teacher`,
    solutions are only there. The syllabus has dates if the course has a `start`.
    """
    chosen = [
        path for path in lessons() if not names or path.stem.startswith(tuple(names))
    ]
    if unknown := [
        name for name in names if not any(p.stem.startswith(name) for p in chosen)
    ]:
        known = ", ".join(path.stem for path in lessons())
        raise ValueError(f"lesson: unknown name {unknown[0]!r}; choose of {known}")
    graded = [path for path in chosen if nbgrader and path.parent == LEARN]
    files = copied(graded, colab, start)
    if jobs > 1:  # one thread each
        threads = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"
        os.environ |= dict.fromkeys(threads, "1")
    done, failed = {}, {}
    with ThreadPoolExecutor(jobs) as pool:
        for path, (notebook, error) in zip(chosen, pool.map(executed, chosen)):
            print(f"{path.stem}: {'FAILED' if error else 'done'}", flush=True)
            (failed if error else done)[path] = error or notebook
    sections = []
    for path in [*done, *texts()]:
        shown = done.get(path) or dated(path, start)
        ours = without_solutions(shown) if teacher else shown
        text = page(ours, path, [*done], unfolded=bool(teacher))
        files[f"{path.stem}.html"] = text
        sections += passages(f"{path.stem}.html", text)
    for path in decks():
        if all(lesson in done for lesson in played(path)):
            files[f"{path.stem}.html"] = deck(path, done)
    files["index.html"] = page(new_notebook(), None, [*done], sections)
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
    wheel(out / "students")
    if teacher:
        instructor.write(teacher, done, page, start)
    return {path.stem: error for path, error in failed.items()}


def main(arguments: list[str] | None = None) -> int:
    """Build the course from the command line; return 1 if a lesson failed, 2 for a bad
    name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add, folder = parser.add_argument, CHECKOUT / "course"
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help="prefixes of lesson names (default: all)",
    )
    add("--out", type=Path, default=folder, help="folder (default: course/)")
    add("-j", "--jobs", type=int, default=1, help="lessons at a time (default: 1)")
    add("--nbgrader", action="store_true", help="also write nbgrader assignments")
    add(
        "--colab",
        default="",
        metavar="URL",
        help="copies install this public repository on Colab",
    )
    words = (
        "write solutions, exams, marking and slides here, and the course without "
        "solutions"
    )
    add("--instructor", type=Path, metavar="DIR", help=words)
    add("--pdf", action="store_true", help="also print pages and exams, by Chromium")
    add(
        "--start",
        type=date.fromisoformat,
        metavar="DAY",
        help="day of the first lab, such as 2027-10-04: the syllabus has dates then",
    )
    given = parser.parse_args(arguments)
    try:
        options = given.nbgrader, given.colab, given.instructor, given.start
        failed = build(given.names, given.out, given.jobs, *options)
    except ValueError as error:
        parser.error(str(error))
    for name, error in failed.items():
        print(f"{name} failed: {error}", file=sys.stderr)
    print(f"the course: {given.out / 'index.html'}")
    if given.pdf:
        pages = sorted({*given.out.glob("*.html")} - {given.out / "index.html"})
        if given.instructor:
            pages += sorted(given.instructor.glob("exam_*.html"))
        if reason := pdf(pages):
            print(reason, file=sys.stderr)
            return 1
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
