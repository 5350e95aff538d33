"""The lessons and cheat sheets as files: their names, where they belong, what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from workbench.figures.papers import ACROSS, PAPERS, PREFIXES
from workbench.runs.notebooks import CHECKOUT

FOLDER = CHECKOUT / "notebooks" / "learn"
SERIES = ("mrc", "weston_watkins", "least_squares", "sampled_cuts", "memoir", ACROSS)  # as read
HEADINGS = (
    "Problem",
    "Dual",
    "Update",
    "Cost",
    "Certificate",
    "When to use it (and when not)",
    "Here",
)
DETAILS = re.compile(r"<details[^>]*>\s*<summary>(.*?)</summary>.*?</details>\n*", re.DOTALL)


@dataclass(frozen=True)
class Lesson:
    """A lesson: its notebook, read and valid.

    Attributes
    ----------
    path : where it lies; its name without suffix is the lesson's name
    series : a key of the papers, or ``across``
    title : of its first heading
    question : the first question in bold of its first cell, empty where there is none
    """

    path: Path
    notebook: nbformat.NotebookNode
    series: str
    title: str
    question: str

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Sheet:
    """A cheat sheet: one method on one page."""

    path: Path
    text: str
    title: str


def read_lessons(folder: Path = FOLDER) -> list[Lesson]:
    """Return the lessons of a folder, series by series.

    Raises
    ------
    ValueError
        Naming the lesson: no valid notebook, a first cell without a title, or a <details> that
        does not begin with a <summary> or does not end.
    """
    lessons = [_lesson(path) for path in sorted(folder.glob("*.ipynb"))]
    return sorted(lessons, key=lambda lesson: (SERIES.index(lesson.series), lesson.name))


def chosen(lessons: Iterable[Lesson], names: Iterable[str]) -> list[Lesson]:
    """Return the lessons whose names begin with one of `names`; all of them where there is none.

    Raises
    ------
    ValueError
        For a name that no lesson begins with.
    """
    lessons, names = list(lessons), list(names)
    for name in names:
        if not any(lesson.name.startswith(name) for lesson in lessons):
            known = ", ".join(lesson.name for lesson in lessons)
            raise ValueError(f"lesson: unknown name {name!r}; known are {known}")
    return [lesson for lesson in lessons if not names or lesson.name.startswith(tuple(names))]


def read_sheets(folder: Path) -> list[Sheet]:
    """Return the cheat sheets of a folder, by name.

    Raises
    ------
    ValueError
        Naming the file and the first heading that is missing or not in its place.
    """
    return [read_sheet(path) for path in sorted(folder.glob("*.md"))]


def read_sheet(path: Path) -> Sheet:
    """Return a cheat sheet whose headings are a title and then HEADINGS, in this order."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^(#+) +(.+?) *$", text, flags=re.MULTILINE)
    if not found or found[0][0] != "#":
        raise ValueError(f"{path.name}: does not begin with '# <method> (<paper, year>)'")
    for at, heading in enumerate(HEADINGS, 1):
        if found[at : at + 1] != [("##", heading)]:
            here = " ".join(found[at]) if at < len(found) else "its end"
            raise ValueError(f"{path.name}: the heading '## {heading}' is missing before {here}")
    if len(found) > len(HEADINGS) + 1:
        raise ValueError(f"{path.name}: has one heading too many, {found[-1][1]!r}")
    return Sheet(path, text, found[0][1])


def tags(cell) -> tuple[str, ...]:
    """Return the tags of a cell."""
    return tuple(cell.metadata.get("tags", ()))


def _lesson(path: Path) -> Lesson:
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # nbformat's own, or of JSON that is of another kind
        raise ValueError(f"{path.stem}: not a notebook; {error}") from None
    opening = notebook.cells[0].source if notebook.cells else ""
    title = re.match(r"# (.+)", opening)
    if not title:
        raise ValueError(f"{path.stem}: its first cell does not begin with '# title'")
    for cell in notebook.cells:
        whole = len(DETAILS.findall(cell.source))
        if cell.cell_type == "markdown" and {whole} != {
            len(re.findall(tag, cell.source)) for tag in ("<details", "</details>")
        }:
            raise ValueError(
                f"{path.stem}: cell {cell.id}: a <details> lacks its summary or its end"
            )
    prefix = path.stem.partition("_")[0]
    series = PREFIXES.get(prefix, prefix)
    bold = re.search(r"\*\*([^*]+\?)\*\*", opening)
    question = " ".join(bold[1].split()) if bold else ""
    return Lesson(
        path,
        notebook,
        series if series in PAPERS else ACROSS,
        title[1].strip(),
        question[:1].upper() + question[1:],
    )
