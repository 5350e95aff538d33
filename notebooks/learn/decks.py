"""Slides: a Markdown file for each paper becomes one page that needs no network.

A heading begins a slide. A line ``[play](../LESSON.ipynb)`` plays the run of the
lesson's cell ``recorded``, and pictures are put into the page.
"""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from string import Template

from nbconvert.filters import markdown2html
from nbformat import NotebookNode

from markup import LEARN, rewritten
from workbench.live import replay

PLAY = re.compile(r"^\[play\]\((\S+\.ipynb)\)$", re.MULTILINE)
PLAYED = re.compile(r"<!-- (\S+\.ipynb) -->")
PICTURE = re.compile(r'(?<=<img src=")([^":]+\.png)(?=")')
SCRIPT = replay.SCRIPT + (LEARN / "deck.js").read_text(encoding="utf-8")


def decks() -> list[Path]:
    """Return the files of the decks."""
    return sorted(LEARN.glob("decks/*.md"))


def title(path: Path) -> str:
    """Return the title of a deck."""
    return path.read_text("utf-8").splitlines()[0].removeprefix("# ")


def played(path: Path) -> list[Path]:
    """Return the lessons whose recorded runs a deck plays."""
    found = PLAY.findall(path.read_text("utf-8"))
    return [(path.parent / lesson).resolve() for lesson in found]


def deck(path: Path, done: dict[Path, NotebookNode]) -> str:
    """Return the page of a deck.

    Parameters
    ----------
    path : file of the deck
    done : executed lessons by their path, with those that the deck plays

    Raises
    ------
    ValueError
        If a lesson has no cell ``recorded`` with a run.
    """

    def picture(match: re.Match) -> str:
        png = (path.parent / match[1]).read_bytes()
        return f"data:image/png;base64,{b64encode(png).decode()}"

    def recorded(match: re.Match) -> str:
        cells = done[(path.parent / match[1]).resolve()].cells
        outputs = [
            out for cell in cells if cell.id == "recorded" for out in cell.outputs
        ]
        for output in outputs:
            if run := replay.embedded(output.get("data", {}).get(replay.MIME)):
                return run
        raise ValueError(f"{path.name}: {match[1]} has recorded no run")

    slides = []
    for text in re.split(r"^(?=##? )", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        html = markdown2html(rewritten(PLAY.sub(r"<!-- \1 -->", text), path))
        slides.append(PLAYED.sub(recorded, PICTURE.sub(picture, html)))
    return page(title(path), slides)


def page(title: str, slides: list[str]) -> str:
    """Return the page of slides, given as HTML."""
    return Template((LEARN / "deck.html").read_text(encoding="utf-8")).substitute(
        title=title,
        slides="\n".join(f"<section>\n{slide}</section>" for slide in slides),
        script=SCRIPT,
        hash=replay.hashed(SCRIPT),
        style=replay.STYLE,
    )
