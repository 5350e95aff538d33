"""Mark what a class handed in: run each notebook, check each exercise again, and print a table.

``python mark.py handed_in/*.ipynb > marks.csv``, with the Python of a checkout of the workbench.
Run it in a container or as a user without rights: what students hand in is code.

A right answer counts 1. An exercise graded by certificate counts the provable share of its decades.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from workbench.runs.notebooks import CHECKOUT

LEARN = CHECKOUT / "notebooks" / "learn"
TIMEOUT_S = 600
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
    """Return the lesson that shares most exercises with a notebook, whatever its file is called."""
    ids = {cell.id for cell in notebook.cells}
    found = {path.stem: exercises(path) for path in LEARN.glob("*.ipynb")}
    return max(found.items(), key=lambda lesson: len(ids & lesson[1].keys()))


def marked(notebook: NotebookNode) -> tuple[str, list[float]]:
    """Return the lesson of a notebook, and the credit in [0, 1] of each of its exercises."""
    lesson, asked = lesson_of(notebook)
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.id in asked:
            source = CREDIT.format(learn=str(LEARN), check=asked[cell.id])
            cells.append(new_code_cell(source, metadata={"tags": ["credit"]}))
    notebook.cells = cells
    where = {"metadata": {"path": str(LEARN)}}
    kernel = {"kernel_name": "python3", "allow_errors": True, "timeout": TIMEOUT_S}
    NotebookClient(notebook, resources=where, **kernel).execute()
    credits = []
    for cell in notebook.cells:
        if "credit" in cell.metadata.get("tags", ()):
            printed = "".join(output.get("text", "") for output in cell.outputs).splitlines()
            last = printed[-1] if printed else ""
            credits.append(float(last.removeprefix("credit ")) if last[:7] == "credit " else 0.0)
    return lesson, credits


def main() -> None:
    """Print one line per notebook: file, lesson, sum, of how many, and each exercise's credit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="+", type=Path, help="notebooks that were handed in")
    table = csv.writer(sys.stdout)
    table.writerow(["file", "lesson", "sum", "of", "exercises"])
    for path in parser.parse_args().notebooks:
        lesson, credits = marked(nbformat.read(path, as_version=4))
        each = " ".join(f"{credit:.2f}" for credit in credits)
        table.writerow([path.name, lesson, f"{sum(credits):.2f}", len(credits), each])


if __name__ == "__main__":
    main()
