"""The course: student copies of the lessons, and pages to read offline without a kernel.

>>> build(["ls_1"])                                                        # doctest: +SKIP
"""

from __future__ import annotations

import copy
import textwrap
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import product
from pathlib import Path

import nbformat
from nbconvert.filters import strip_ansi
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat import NotebookNode

from workbench.core.names import hint
from workbench.data.cache import state_of_folders
from workbench.figures.course_pages import dashboards, figure_pages, heading
from workbench.figures.lesson_files import (
    FOLDER,
    Page,
    assignment,
    checks_of,
    read,
    rewritten,
    student_copy,
)
from workbench.figures.lesson_pages import index_page, pages_of
from workbench.figures.papers import ON_PAPER, SERIES
from workbench.runs.jupyter_kernels import IpcKernelManager, OneThreadKernelManager
from workbench.runs.keys import key, package_code
from workbench.runs.mill import environment, figures_folder, side_by_side
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.sweep import runs_folder

ASSIGNMENTS = {"nbgrader": "nbgrader/source", "otter": "otter"}
TIMEOUT_S = 900  # for one cell on a slow and busy machine


def build(
    names: Iterable[str] = (),
    out: Path | None = None,
    *,
    jobs: int = 1,
    again: bool = False,
    graders: Iterable[str] = (),
    folder: Path = FOLDER,
    figures: Path | None = None,
    executed: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Write ``students/``, a page for each lesson, dashboard and cheat sheet, and ``index.html``.

    Every lesson has its student copy next to the checks, executed or not. Pages are written for the
    lessons executed now, and for those executed before that have not changed since. Figures are
    shown as they were drawn, and the source of the methods as it is now.

    Parameters
    ----------
    names : beginnings of the names of lessons to execute (default: all)
    out : folder of the course (default: ``course/`` of the checkout)
    jobs : number of lessons executed at a time, with one thread each if there are several
    again : execute lessons even if nothing changed
    graders : of ``nbgrader`` and ``otter``; each lesson asked for is also written as an assignment
        of theirs, to ``nbgrader/source/`` or ``otter/``
    folder : folder of the lessons; next to it are ``explore/``, with the dashboards, and
        ``figures/``, with the notebooks of the figures
    figures : folder of the pictures (default: the folder that figures are saved in)
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
    boards = dashboards(folder.parent / "explore")
    for page in [*lessons, *boards, *sheets]:
        for cell in page.notebook.cells:
            # A bad formula is reported now, not after the runs.
            rewritten(cell, page, places | {page.path: page.place})
    out = Path(out or CHECKOUT / "course").absolute()
    executed = Path(executed or runs_folder() / "lessons").absolute()
    asked = [lesson for lesson in lessons if not names or lesson.name.startswith(names)]
    on_screen = [lesson for lesson in asked if lesson.series != ON_PAPER]
    for grader, lesson in product(graders, on_screen):
        below = f"{ASSIGNMENTS[grader]}/{lesson.name}"
        own = {lesson.path: f"{below}/{lesson.name}.ipynb"}
        made = assignment(lesson, places | own, grader) | checks_of(folder)
        files |= {f"{below}/{name}": text for name, text in made.items()}
    try:
        failed = execute([*asked, *boards * (not names)], executed, jobs=jobs, again=again, say=say)
    finally:  # Ctrl-C keeps what is done
        found = {page.place: outputs(page, executed) for page in [*lessons, *boards]}
        done = [page for page in [*lessons, *boards] if found[page.place] is not None]
        gone = found.keys() - {page.place for page in done}
        places = {page.path: page.place for page in [*done, *sheets]}
        for page, pictures, drawn in figure_pages(
            Path(figures or figures_folder()), folder.parent / "figures"
        ):
            done, found = [*done, page], found | {page.place: pictures}
            places |= {p.resolve(): f"{page.place}#{heading(p).replace(' ', '-')}" for p in drawn}
        files |= pages_of(done, sheets, places, found)
        files["index.html"] = index_page([*lessons, *boards, *done], sheets, files)
        for place in gone:
            (out / place).unlink(missing_ok=True)  # it shows an earlier version of the lesson
        for name, text in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")
    for name, error in failed.items():
        say(textwrap.indent(error, f"  {name} | ", lambda line: True))
    say(f"the course: {out / 'index.html'}")
    return list(failed)


def execute(
    lessons: list[Page], folder: Path, *, jobs: int, again: bool, say: Callable[[str], None]
) -> dict[str, str]:
    """Run lessons, each in its own kernel, and keep them in `folder`; return errors by name."""
    folder.mkdir(parents=True, exist_ok=True)
    work = [lesson for lesson in lessons if again or outputs(lesson, folder) is None]
    same = f"; {len(lessons) - len(work)} unchanged" if work != lessons else ""
    say(f"{len(lessons)} lessons, {jobs} at a time{same}")
    failed: dict[str, str] = {}
    manager = OneThreadKernelManager if jobs > 1 else IpcKernelManager
    ended = side_by_side(lambda lesson, lane: _run(lesson, folder, manager), work, jobs)
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


def _run(lesson: Page, folder: Path, manager: type) -> tuple[float, str | None]:
    """Run one lesson and keep it; return the wall seconds, and the error or None."""
    tic, wanted = time.monotonic(), lesson_key(lesson)
    kept, notebook = folder / f"{lesson.name}.ipynb", copy.deepcopy(lesson.notebook)
    runner = ExecutePreprocessor(
        timeout=TIMEOUT_S,
        kernel_manager_class=manager,
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
