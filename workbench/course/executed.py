"""Lessons executed with their solutions, several at a time, and again only after a change."""

from __future__ import annotations

import copy
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import nbformat

from workbench.course.lessons import Lesson, tags
from workbench.data.cache import state_of_folders
from workbench.runs.keys import key, package_code
from workbench.runs.mill import environment, run_notebook, side_by_side
from workbench.runs.notebooks import Notebook

TIMEOUT = 900.0  # seconds, for one lesson on a slow and busy machine
CRISP = '%config InlineBackend.figure_formats = ["retina"]\n'  # twice the pixels, the same size

Outputs = dict[str, list[Any]]


def execute(
    lessons: Iterable[Lesson],
    folder: Path,
    *,
    jobs: int = 1,
    again: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, str]:
    """Run lessons, each in a kernel of its own; a failing one does not stop the others.

    Parameters
    ----------
    folder : where executed notebooks are kept
    jobs : lessons at a time
    again : run those too for which nothing has changed
    say : receives the progress, line by line

    Returns
    -------
    failed : name -> what went wrong
    """
    lessons = list(lessons)
    folder.mkdir(parents=True, exist_ok=True)
    work = [lesson for lesson in lessons if again or outputs(lesson, folder) is None]
    same = f"; nothing has changed for {len(lessons) - len(work)}" if work != lessons else ""
    say(f"{len(lessons)} lessons, {jobs} at a time{same}")
    failed: dict[str, str] = {}
    lock = threading.Lock()

    def start(lesson: Lesson) -> tuple[str, str | None]:
        with lock:
            say(f"{lesson.name}: starts")
        return _run(lesson, folder)

    with environment(WORKBENCH_JOBS=str(jobs)), closing(side_by_side(start, work, jobs)) as ended:
        for done, (lesson, (outcome, error)) in enumerate(ended, 1):
            with lock:
                say(f"[{done}/{len(work)}] {lesson.name} {outcome}")
            if error:
                failed[lesson.name] = error
    return failed


def outputs(lesson: Lesson, folder: Path) -> Outputs | None:
    """Return the outputs of a lesson's cells by their ids, None where it must be run first."""
    try:
        executed = nbformat.read(folder / f"{lesson.name}.ipynb", as_version=4)
        if executed.metadata["workbench_key"] != lesson_key(lesson):
            return None
        return {cell.id: cell.outputs for cell in executed.cells if cell.cell_type == "code"}
    except Exception:  # there is none, or it is damaged in one of many ways
        return None


def lesson_key(lesson: Lesson) -> str:
    """Return the key of all that a lesson's outputs depend on; its prose is not part of it."""
    code = [cell for cell in lesson.notebook.cells if cell.cell_type == "code"]
    return key(
        cells=[[cell.id, tags(cell), cell.source] for cell in code],
        package=package_code(),
        data=state_of_folders(),
    )


def _run(lesson: Lesson, folder: Path) -> tuple[str, str | None]:
    """Run one lesson; return how it ended, and what went wrong or None."""
    tic, wanted = time.monotonic(), lesson_key(lesson)
    with tempfile.TemporaryDirectory(prefix="wb-") as scratch:
        source = Path(scratch) / f"{lesson.name}.ipynb"
        copied = copy.deepcopy(lesson.notebook)
        first = next((cell for cell in copied.cells if cell.cell_type == "code"), None)
        if first is not None:
            first.source = CRISP + first.source
        nbformat.write(copied, source)
        kept = Path(scratch) / "executed"
        kept.mkdir()
        _, error = run_notebook(
            Notebook(source, {}, {}, ()), {}, kept, kept, TIMEOUT, lambda line: None
        )
        if error:
            return f"FAILED after {time.monotonic() - tic:.0f} s", error
        executed = nbformat.read(kept / source.name, as_version=4)
    if error := _rejected(executed):
        return f"FAILED after {time.monotonic() - tic:.0f} s", error
    executed.metadata["workbench_key"] = wanted
    part = folder / f"{lesson.name}.part.ipynb"
    nbformat.write(executed, part)
    os.replace(part, folder / f"{lesson.name}.ipynb")
    return f"done in {time.monotonic() - tic:.0f} s", None


def _rejected(executed: nbformat.NotebookNode) -> str | None:
    """Say which solution its own check does not accept, None when all are right."""
    for cell in executed.cells:
        text = "".join(out.text for out in cell.get("outputs", ()) if out.output_type == "stream")
        if "solution" in tags(cell) and not text.startswith("right"):
            return f"cell {cell.id}: its solution is not accepted: {text.strip() or 'no word'}"
    return None
