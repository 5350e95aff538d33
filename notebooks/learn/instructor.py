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
from html import escape
from pathlib import Path

import nbformat
from nbconvert.filters import markdown2html
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

import decks
from markup import rewritten
from workbench.live import replay

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
MAX_LINES = 14  # of printed output on a slide


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
        html = page(notebook, path, [*done], unfolded=True)
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
    """Return a deck: plots, displayed formulas and what stands out in bold.

    A section and each plot begin a slide, on which the text that follows goes on. The
    whole text is in the notes. Exercises and solutions are left out.
    """
    deck: list[list[str]] = []
    for path, notebook in done.items():
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                for words, notes, begins in cut(cell.source, path):
                    deck += [[]] if begins or not deck else []
                    deck[-1] += [words, f'<aside class="notes">{notes}</aside>']
            elif not {"exercise", "solution"} & {*cell.metadata.get("tags", ())}:
                seen = [html for output in cell.outputs if (html := shown(output))]
                deck += [seen] if seen else []
    return decks.page(title, ["\n".join(slide) for slide in deck])


def cut(source: str, path: Path) -> list[tuple[str, str, bool]]:
    """Return pieces of a deck for a cell of text: what is shown, all of it as notes,
    and whether it begins a slide.

    What is folded is left out; of a quiz, each question has a slide with its answers.
    """
    if source.startswith(QUIZ):
        questions = re.split(r"^(?=\*\*\d\. )", source, flags=re.MULTILINE)[1:]
        asked = [(FOLDED.sub(r"- \1", each), each, True) for each in questions]
    else:
        text, asked = FOLDED.sub("", source), []
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
                asked.append(("\n\n".join(kept), section, section.startswith("#")))
    made = lambda text: markdown2html(rewritten(text, path))  # noqa: E731
    return [(made(words), made(notes), begins) for words, notes, begins in asked]


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


def shown(output: NotebookNode) -> str:
    """Return the HTML of an output that goes on a slide, or ''.

    That is a run to play, a plot, a table, or a few lines of text.
    """
    data = output.get("data", {})
    text = output.get("text", data.get("text/plain", ""))
    if replay.MIME in data:
        return replay.embedded(data[replay.MIME])
    if "image/png" in data:
        alt = escape(output.metadata.get("image/png", {}).get("alt", ""))
        png = "".join(data["image/png"].split())
        return f'<p><img src="data:image/png;base64,{png}" alt="{alt}"></p>'
    if "text/html" in data:
        return data["text/html"]
    return f"<pre>{escape(text)}</pre>" if 0 < text.count("\n") <= MAX_LINES else ""
