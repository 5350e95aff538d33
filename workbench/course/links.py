"""Where a lesson's links lead in the course: to its own pages, out into the web, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from workbench.runs.notebooks import CHECKOUT

# Code comes first: what looks like a link there is none.
LINK = re.compile(r"`[^`]*`|(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^()\s]+)\)")

Resolve = Callable[[str], str | None]


def local(target: str, page: Path) -> Path | None:
    """Return the file that a link of the file `page` points to, None for the web or the same page.

    Raises
    ------
    ValueError
        If there is no such file.
    """
    path, _, _ = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return None
    found = (page.parent / path).resolve()
    if not found.exists():
        raise ValueError(f"link to {target}: there is no such file")
    return found


def in_the_course(page: Path, folder: Path, pages: set[Path]) -> Resolve:
    """Return where a link of `page` leads among HTML pages, and None where it leads out of them.

    Parameters
    ----------
    page : the lesson or cheat sheet that the link is in
    folder : of the lessons; the pages lie in the same way
    pages : the files that have a page
    """

    def resolve(target: str) -> str | None:
        found = local(target, page)
        if found is None:
            return f"#{slug(target[1:])}" if target.startswith("#") else target
        if found not in pages:
            return None
        fragment = target.partition("#")[2]
        up = "../" * len(page.resolve().relative_to(folder.resolve()).parts[:-1])
        path = found.relative_to(folder.resolve()).with_suffix(".html").as_posix()
        return up + path + (f"#{slug(fragment)}" if fragment else "")

    return resolve


def in_students(source: str, page: Path, folder: Path) -> str:
    """Return a markdown cell as it is in a student copy: links that still lead somewhere.

    Lessons lie side by side and keep their names, cheat sheets are pages of the course, and of
    other files the path in the repository is said.
    """

    def rewritten(match: re.Match) -> str:
        words, target = match.groups()
        found = local(target, page) if target else None
        if found is None or (found.parent == folder.resolve() and found.suffix == ".ipynb"):
            return match[0]
        if found.parent == folder.resolve() / "cheat_sheets":
            return f"[{words}](../cheat_sheets/{found.stem}.html)"
        return f"{words} (`{in_repository(found)}`)"

    return LINK.sub(rewritten, source)


def in_repository(path: Path) -> str:
    """Return a file's path from the top of the checkout; of a file elsewhere its name."""
    path = path.resolve()
    top = CHECKOUT.resolve()
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else path.name


def slug(text: str) -> str:
    """Return the anchor of a heading: its words in lower case, joined by hyphens."""
    return "-".join(re.findall(r"\w+", text.lower()))
