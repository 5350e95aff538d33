"""Write what an instructor has and students do not: solutions, exams with answers,
marking, slides.

``make lessons ARGS="--instructor DIR"`` calls this with the executed lessons.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbconvert.filters import markdown2html
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from markup import rewritten

LEARN = Path(__file__).parent.resolve()
SYLLABUS, MAP = LEARN / "syllabus.md", LEARN / "README.md"
EXAM = """\
# Exam {paper}{of}

90 minutes for ten questions of equal weight. The cheat sheets are allowed, and nothing
else. Give a reason with every answer: an answer without a reason counts for nothing.
"""
ANSWER = re.compile(
    r"\s*<details><summary>Answer</summary>\s+(.*?)\s*</details>\s*", re.DOTALL
)
FOLDED = re.compile(
    r"<details[^>]*>(?:\s*<summary>(.*?)</summary>)?.*?</details>", re.DOTALL
)
QUIZ = "## Five questions"
SENTENCES = re.compile(r"(?:(?<=[.?!])|(?<=[.?!]\*\*))\s+(?=[A-Z*$\[])")
# without reveal.js, too
HIDDEN = "<style>.reveal aside.notes { display: none; }</style></head>"
MAX_LINES = 14  # of printed output on a slide
PLAIN = {
    "exclude_input": True,
    "exclude_input_prompt": True,
    "exclude_output_prompt": True,
}


def write(
    folder: Path,
    done: dict[Path, NotebookNode],
    page: Callable[..., str],
    start: date | None = None,
) -> None:
    """Write the instructor's folder.

    Parameters
    ----------
    done : the executed lessons by their path, in order
    page : returns the HTML of a notebook, of the path it came from, among such pages
    start : the day of the first lab, from which ``due.csv`` is made
    """
    (folder / "slides").mkdir(parents=True, exist_ok=True)
    (folder / "solutions").mkdir(exist_ok=True)
    shutil.copy(LEARN / "marking.py", folder / "mark.py")
    for path, notebook in done.items():
        html = page(notebook, path, [*done])
        (folder / "solutions" / f"{path.stem}.html").write_text(html, encoding="utf-8")
        nbformat.write(notebook, folder / "solutions" / path.name)
    for name, text in exams(MAP.read_text(encoding="utf-8")).items():
        path = folder / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        html = page(new_notebook(cells=[new_markdown_cell(text)]), path, [])
        path.with_suffix(".html").write_text(html, encoding="utf-8")
    if start:
        days = due(SYLLABUS.read_text(encoding="utf-8"), start)
        with (folder / "due.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("lesson", "due"), *days.items()])
    for week, taught in weeks(SYLLABUS.read_text(encoding="utf-8")).items():
        if lessons := [path for path in taught if path in done]:
            text = slides(f"Week {week}", {path: done[path] for path in lessons})
            (folder / "slides" / f"week_{week:02}.html").write_text(
                text, encoding="utf-8"
            )


def starts(week: str | int, start: date) -> date:
    """Return the day of the lab of a week, the first of which is at the start."""
    return start + timedelta(weeks=int(week) - 1)


def dated(syllabus: str, start: date) -> str:
    """Return the syllabus with the day of each week's lab below its number."""
    return re.sub(
        r"^\| (\d+) \|",
        lambda match: f"| {match[1]}, {starts(match[1], start):%d %b} |",
        syllabus,
        flags=re.MULTILINE,
    )


def due(syllabus: str, start: date) -> dict[str, date]:
    """Return the day on which each lesson and problem set of the syllabus is due.

    A lesson is due a week after its lab, a problem set two weeks after its first
    problems. What the weeks do not name has no date.
    """
    days: dict[str, date] = {}
    for week, row in re.findall(r"^\| (\d+) \|(.*)", syllabus, flags=re.MULTILINE):
        for folder, name in re.findall(r"\]\((problems/)?(\w+)\.ipynb\)", row):
            later = timedelta(weeks=2 if folder else 1)
            days.setdefault(name, starts(week, start) + later)
    return days


def exams(text: str) -> dict[str, str]:
    """Return two papers, and both with answers, of the first four questions of each
    paper's series.

    The first paper takes the odd questions of the instructor's map, the second one the
    even ones.
    """
    found = {}
    for paper in (1, 2):
        asked = []
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            # the series of a paper
            if re.search(r" \(\w+_1 to ", section.splitlines()[0]):
                questions = section.partition("*Exam questions*\n")[2].partition(
                    "*A pitfall"
                )[0]
                asked += re.split(r"^\d+\. ", questions, flags=re.MULTILINE)[paper:5:2]
        for name, of, answer in (
            (f"exam_{paper}", "", ""),
            (f"exam_{paper}_answers", ", with answers", r"\n\n    *Answer.* \1"),
        ):
            each = (ANSWER.sub(answer, question).strip() for question in asked)
            numbered = (f"{i}. {question}" for i, question in enumerate(each, 1))
            found[name] = (
                "\n\n".join([EXAM.format(paper=paper, of=of), *numbered]) + "\n"
            )
    return found


def weeks(syllabus: str) -> dict[int, list[Path]]:
    """Return the lessons that each week of the syllabus teaches in class."""
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", syllabus, flags=re.MULTILINE)
    return {
        int(week): [LEARN / name for name in re.findall(r"\]\((\w+\.ipynb)\)", taught)]
        for week, taught in rows
    }


def slides(title: str, done: dict[Path, NotebookNode]) -> str:
    """Return a deck by nbconvert's exporter: plots, displayed formulas and what stands
    out in bold.

    A section begins a column of slides, each plot has a slide, and what is read from it
    comes after a click. The whole text is in the speaker's notes. Exercises and
    solutions are left out.
    """
    deck = new_notebook(metadata={"title": title})
    for path, notebook in done.items():
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                deck.cells += cut(cell.source, path)
            elif not {"exercise", "solution"} & {*cell.metadata.get("tags", ())}:
                cell.outputs = [each for each in cell.outputs if shown(each)]
                if cell.outputs:
                    deck.cells.append(typed(cell, "subslide"))
    exporter = SlidesExporter(filters={"markdown2html": lambda source: source}, **PLAIN)
    return exporter.from_notebook_node(deck)[0].replace("</head>", HIDDEN, 1)


def cut(source: str, path: Path) -> list[NotebookNode]:
    """Return the cells of a deck for a cell of text: what is shown, and all of it as
    notes.

    What is folded is left out; of a quiz, each question has a slide with its answers.
    """
    if source.startswith(QUIZ):
        questions = re.split(r"^(?=\*\*\d\. )", source, flags=re.MULTILINE)[1:]
        asked = [(FOLDED.sub(r"- \1", each), each, "subslide") for each in questions]
        return [cell for each in asked for cell in noted(*each, path)]
    text, cells = FOLDED.sub("", source), []
    for section in re.split(
        r"^(?=##? )", text.partition("\n### Exercise")[0], flags=re.MULTILINE
    ):
        blocks = [
            block for block in section.strip().split("\n\n") if block[:4] != "### "
        ]
        kept = [words for block in blocks if (words := essence(block))]
        if kept and kept == blocks[:1] and len(blocks) > 1:  # a bare heading
            kept.append(SENTENCES.split(blocks[1])[0])
        if kept:
            kind = "slide" if section.startswith("#") else "fragment"
            cells += noted("\n\n".join(kept), section, kind, path)
    return cells


def noted(words: str, notes: str, kind: str, path: Path) -> list[NotebookNode]:
    """Return the cell of a slide of this kind, and that of its speaker's notes."""
    return [
        typed(new_markdown_cell(markdown2html(rewritten(text, path))), typing)
        for text, typing in ((words, kind), (notes, "notes"))
    ]


def essence(block: str) -> str:
    """Return what a slide shows of a paragraph.

    That is a heading, a table, a displayed formula, the first sentence of each item of
    a list, the question before a plot, and sentences in bold.
    """
    if block.startswith(("#", "$$", "|", "```")):
        return block
    if block.startswith("- "):
        items = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
        return "\n".join(f"- {SENTENCES.split(item.strip())[0]}" for item in items)
    if "*Before you run" in block:
        return block[block.index("*Before you run") :]
    bold = [each for each in SENTENCES.split(block) if "**" in each or "$$" in each]
    return " ".join(
        each for each in bold if not each.startswith(("**Next", "**On one page"))
    )


def shown(output: NotebookNode) -> bool:
    """Return whether an output goes on a slide: a plot, a table, or a few lines."""
    return "data" in output or 0 < output.get("text", "").count("\n") <= MAX_LINES


def typed(cell: NotebookNode, kind: str) -> NotebookNode:
    """Return the cell as a slide of this kind."""
    cell.metadata["slideshow"] = {"slide_type": kind}
    return cell
