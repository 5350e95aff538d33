"""Mark what a class handed in: run each notebook, check each exercise again, and print
a table.

``python mark.py handed_in/*.ipynb > marks.csv``, with the Python of a checkout of the
workbench. Run it in a container or as a user without rights: what students hand in is
code.

A right answer counts 1, and an exercise whose cell was deleted 0. An exercise graded by
certificate counts the provable share of its decades. If a notebook cannot be marked,
its line has the error.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from time import monotonic

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from workbench.runs.notebooks import CHECKOUT

LEARN = CHECKOUT / "notebooks" / "learn"
CELL_S, NOTEBOOK_S = (
    600,
    1800,
)  # limits in wall seconds, after which cells are interrupted
LATE = {"ename": "TimeoutError", "evalue": "the time is up", "traceback": []}
# The checks are the instructor's, whatever folder the notebook was handed in from.
CREDIT = """\
import sys
sys.path.insert(0, {learn!r})
from checks.exercise import credit
print("credit", credit(lambda: {check}))"""


def exercises(path: Path) -> dict[str, str]:
    """Return the check of each exercise of a lesson, by the id of its cell."""
    cells = nbformat.read(path, as_version=4).cells
    asked = [cell for cell in cells if "exercise" in cell.metadata.get("tags", ())]
    return {cell.id: cell.source.splitlines()[-1] for cell in asked}


def lesson_of(notebook: NotebookNode) -> tuple[str, dict[str, str]]:
    """Return the lesson that shares most exercises with a notebook, whatever its file
    is called."""
    ids = {cell.get("id") for cell in notebook.cells}
    found = {path.stem: exercises(path) for path in LEARN.glob("*.ipynb")}
    name, asked = max(found.items(), key=lambda lesson: len(ids & lesson[1].keys()))
    if not ids & asked.keys():
        raise ValueError("notebook: has no exercise of any lesson")
    return name, asked


def marked(notebook: NotebookNode) -> tuple[str, list[float]]:
    """Return the lesson of a notebook, and the credit in [0, 1] of each exercise of the
    lesson."""
    lesson, asked = lesson_of(notebook)
    cells, checked = [], {}
    for cell in notebook.cells:
        cells.append(cell)
        if (exercise := cell.get("id")) in asked:
            source = CREDIT.format(learn=str(LEARN), check=asked[exercise])
            cells.append(checked.setdefault(exercise, new_code_cell(source)))
    notebook.cells = cells
    where = {"metadata": {"path": str(LEARN)}}
    kernel = {"kernel_name": "python3", "allow_errors": True}
    end = monotonic() + NOTEBOOK_S
    kernel |= {"timeout_func": lambda cell: max(1, min(CELL_S, end - monotonic()))}
    kernel |= {
        "interrupt_on_timeout": True,
        "error_on_timeout": LATE,
    }  # a loop may ignore it
    NotebookClient(notebook, resources=where, **kernel).execute()
    credits = dict.fromkeys(asked, 0.0)
    for exercise, cell in checked.items():
        printed = "".join(
            output.get("text", "") for output in cell.outputs
        ).splitlines()
        if printed and printed[-1].startswith("credit "):
            credits[exercise] = float(printed[-1].removeprefix("credit "))
    return lesson, [*credits.values()]


def main() -> None:
    """Print one line per notebook: file, lesson, sum, of how many, each credit, or the
    error."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "notebooks", nargs="+", type=Path, help="notebooks that were handed in"
    )
    table = csv.writer(sys.stdout)
    table.writerow(["file", "lesson", "sum", "of", "exercises", "error"])
    for path in parser.parse_args().notebooks:
        try:
            lesson, credits = marked(nbformat.read(path, as_version=4))
        except (
            Exception
        ) as error:  # an unreadable file or a dead kernel ends this notebook only
            told = f"{type(error).__name__}: {' '.join(str(error).split())}"
            table.writerow([path.name, "", "", "", "", told])
            continue
        each = " ".join(f"{credit:.2f}" for credit in credits)
        table.writerow(
            [path.name, lesson, f"{sum(credits):.2f}", len(credits), each, ""]
        )


if __name__ == "__main__":
    main()
