"""The problem sets: copies without solutions, sound pages, and every claim computed."""

import contextlib
import io
import re
from pathlib import Path

import nbformat
import pytest
from test_course import formulas, sound

from workbench.figures.lesson_files import read, student_copy
from workbench.figures.lessons import html_page, index_page

LEARN = Path(__file__).parents[1] / "notebooks" / "learn"
SETS = [read(path) for path in sorted(LEARN.glob("problems/*.ipynb"))]
PLACES = {path.resolve(): f"{path.stem}.html" for path in LEARN.glob("**/*.ipynb")}
COPIES = {path: f"students/{place[:-5]}.ipynb" for path, place in PLACES.items()}
BY_NAME = pytest.mark.parametrize("page", SETS, ids=lambda page: page.name)


@BY_NAME
def test_a_set_has_problems_with_solutions_and_references(page):
    text = "\n".join(cell.source for cell in page.notebook.cells)
    numbers = re.findall(r"^## Problem (\d+) · ", text, flags=re.M)
    assert numbers == [str(i + 1) for i in range(len(numbers))] and 5 <= len(numbers) <= 8
    assert text.count("<summary>Worked solution</summary>") == len(numbers)
    assert page.series == "problems" and page.question
    for word in ("*Time*: ", "*Assumed*: ", "## References", "](https://"):
        assert word in text


@BY_NAME
def test_copies_hold_no_solution_and_pages_fold_them(page):
    theirs = student_copy(page, COPIES)
    assert "olution</summary>" not in theirs and "solution" not in theirs.replace(
        "It contains no solutions", ""
    )
    copy = nbformat.reads(theirs, as_version=4)
    questions = [cell.source for cell in copy.cells if cell.source.startswith("## Problem")]
    ours = [cell.source for cell in page.notebook.cells if cell.source.startswith("## Problem")]
    assert len(questions) == len(ours) and "without" not in copy.cells[0].source
    own = [cell for cell in page.notebook.cells if "<details" in cell.source]
    hidden = {line for cell in own for line in cell.source.splitlines() if len(line) > 40}
    assert hidden and not [line for line in hidden if line in theirs]
    page_text = html_page(page, PLACES, SETS)
    sound(page_text)
    made = len(re.findall(r"<math.*?</math>", page_text.partition("<main")[2]))
    assert made == sum(len(formulas(cell)) for cell in page.notebook.cells)
    assert page_text.count("Worked solution") == len(own)


@BY_NAME
def test_every_cell_of_a_set_computes_what_it_claims(page):
    cells = [cell for cell in page.notebook.cells if cell.cell_type == "code"]
    namespace = {}
    for cell in cells:
        assert len(cell.source.splitlines()) <= 30
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(cell.source, f"{page.name}:{cell.id}", "exec"), namespace)
        if "solution" in cell.metadata.get("tags", ()):
            assert printed.getvalue().startswith("right"), (cell.id, printed.getvalue())


def test_the_index_lists_the_sets():
    index = index_page(SETS, [], {page.place: "" for page in SETS})
    assert "Problems on paper" in index and all(page.place in index for page in SETS)
