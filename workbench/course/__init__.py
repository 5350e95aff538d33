"""The course: student copies of the lessons, and pages to read without a kernel or a network.

>>> build(["ls_1"])                                                        # doctest: +SKIP
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import nbformat

from workbench.course import html
from workbench.course.executed import execute, outputs
from workbench.course.lessons import FOLDER, Lesson, Sheet, chosen, read_lessons, read_sheets
from workbench.course.students import student_copy
from workbench.figures.report.markup import write_page
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.sweep import runs_folder


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
    """Write ``students/*.ipynb``, a page for each lesson and cheat sheet, and ``index.html``.

    Every lesson has its student copy, executed or not. The pages are of the lessons executed now,
    and of those executed before for which nothing has changed.

    Parameters
    ----------
    names : beginnings of the names of lessons to execute; all by default
    out : where the course goes, ``course/`` of the checkout by default
    jobs : lessons that are executed at a time
    again : execute those too for which nothing has changed
    folder : of the lessons
    executed : where executed lessons are kept, by default ``runs/lessons/``
    say : receives the progress, line by line

    Returns
    -------
    failed : the names of the lessons that have no page, because they failed

    Raises
    ------
    ValueError
        Before anything runs: an unknown lesson, a notebook that is none, a cheat sheet without one
        of its headings.
    """
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs}")
    lessons, sheets = read_lessons(folder), read_sheets(folder / "cheat_sheets")
    asked = chosen(lessons, names)
    for sheet in sheets:
        html.sheet_page(sheet, folder, set())
    out = Path(out or CHECKOUT / "course").absolute()
    executed = Path(executed or runs_folder() / "lessons").absolute()
    errors, files = {}, {}
    for lesson in lessons:
        try:
            copied = nbformat.writes(student_copy(lesson), indent=1, ensure_ascii=False)
            html.lesson_page(lesson, {}, lessons, set())  # a formula fails now, not at the end
        except ValueError as error:
            errors[lesson.name] = str(error)
        else:
            files[f"students/{lesson.name}.ipynb"] = copied.rstrip("\n") + "\n"
    copies = [lesson.name for lesson in lessons if lesson.name not in errors]
    try:
        sound = [lesson for lesson in asked if lesson.name not in errors]
        errors |= execute(sound, executed, jobs=jobs, again=again, say=say)
    finally:  # Ctrl-C keeps what is done
        good = [lesson for lesson in lessons if lesson.name not in errors]
        files |= _pages(good, sheets, executed)
        done = [lesson for lesson in good if f"{lesson.name}.html" in files]
        files["index.html"] = html.index_page(lessons, done, sheets, copies)
        for lesson in lessons:
            for name in (f"students/{lesson.name}.ipynb", f"{lesson.name}.html"):
                if name not in files:  # what has changed since would not be true
                    (out / name).unlink(missing_ok=True)
        for name, text in files.items():
            write_page(out / name, text)
    for name, error in errors.items():
        say(textwrap.indent(error, f"  {name} | ", lambda line: True))
    say(f"the course: {out / 'index.html'}")
    return list(errors)


def _pages(lessons: list[Lesson], sheets: list[Sheet], executed: Path) -> dict[str, str]:
    """Return the pages, by their paths in the course, of the lessons that have been executed."""
    found = {lesson.name: outputs(lesson, executed) for lesson in lessons}
    done = [lesson for lesson in lessons if found[lesson.name] is not None]
    pages = {page.path.resolve() for page in [*done, *sheets]}
    files = {x.name + ".html": html.lesson_page(x, found[x.name], done, pages) for x in done}
    for sheet in sheets:
        page = html.sheet_page(sheet, sheet.path.parents[1], pages)
        files[f"cheat_sheets/{sheet.path.stem}.html"] = page
    return files
