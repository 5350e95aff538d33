"""Student copies of the lessons: the same notebooks without a solution in them."""

from __future__ import annotations

import copy
import re

import nbformat

from workbench.course.lessons import DETAILS, Lesson, tags
from workbench.course.links import in_students

OPENING = """\
> **Your copy.** It holds no solutions. Replace each `...` and run the cell: the `check_...` in its
> last line says `right`, gives a hint, or says `not yet`. Cells below may use your answers, so go
> from top to bottom; where you are stuck, go on, and come back.
>
> *To open it:* `make lab` in a checkout of the workbench, then this file; any Jupyter will do whose
> kernel can `import workbench`. *To hand it in:* Kernel, Restart Kernel and Run All Cells, save,
> and give this file in under your name. What the checks then print is what counts."""


def student_copy(lesson: Lesson) -> nbformat.NotebookNode:
    """Return a valid notebook without the cells tagged ``solution`` and without outputs.

    Of the folded texts (<details>) only those stay whose summary begins with "Hint".

    Raises
    ------
    ValueError
        Naming the lesson, for a link to a file that is not there.
    """
    notebook = copy.deepcopy(lesson.notebook)
    cells = [cell for cell in notebook.cells if "solution" not in tags(cell)]
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        elif cell.cell_type == "markdown":
            try:
                kept = DETAILS.sub(_hint, cell.source).strip()
                cell.source = in_students(kept, lesson.path, lesson.path.parent)
            except ValueError as error:
                raise ValueError(f"{lesson.name}: cell {cell.id}: {error}") from None
    opening = nbformat.v4.new_markdown_cell(OPENING, id="your-copy")
    # A cell that was nothing but a solution leaves nothing.
    notebook.cells = [opening, *(cell for cell in cells if cell.source)]
    nbformat.validate(notebook)
    return notebook


def _hint(match: re.Match) -> str:
    return match[0] if match[1].strip().startswith("Hint") else ""
