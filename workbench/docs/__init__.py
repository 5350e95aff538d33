"""The documentation in one folder, to read without a network: course, report and API.

>>> build("docs")                                                          # doctest: +SKIP
"""

from __future__ import annotations

import os
from pathlib import Path

from workbench.course.html import filled
from workbench.course.links import local
from workbench.course.markup import Page
from workbench.docs.modules import PACKAGE, read_modules
from workbench.docs.pages import STYLE, Names, index_page, module_page, solvers_page
from workbench.figures.report.markup import join, tag, write_page
from workbench.runs.notebooks import CHECKOUT

PARTS = (
    ("course/index.html", "The course", "lessons, exercises with solutions, cheat sheets"),
    ("report.html", "The report", "every figure, and the papers' numbers beside ours"),
    ("api/index.html", "API", "every public name, from the docstrings"),
)


def build(out: str | os.PathLike | None = None) -> Path:
    """Write the API pages, and the first page that leads to them, to the course and the report.

    The course and the report are made before, in the same folder: ``make docs`` does.

    Parameters
    ----------
    out : where they go, ``docs/`` of the checkout by default

    Returns
    -------
    path : the first page
    """
    out = Path(out or CHECKOUT / "docs").absolute()
    modules = read_modules()
    names = Names(modules)
    files = {f"{module.name}.html": module_page(module, names) for module in modules}
    files |= {"index.html": index_page(modules), "solvers.html": solvers_page(names)}
    for page in (out / "api").glob("*.html"):
        if page.name not in files:  # of a module that is no more
            page.unlink()
    for name, text in files.items():
        write_page(out / "api" / name, text)
    write_page(out / "index.html", _first_page(out))
    return out / "index.html"


def _first_page(out: Path) -> str:
    """Return the README, below links to the parts that are there."""
    readme = CHECKOUT / "README.md"

    def resolve(target: str) -> str | None:
        found = local(target, readme)
        if found is None:
            return target
        room = ".".join(found.relative_to(PACKAGE.parent).with_suffix("").parts)
        pages = (f"api/{room}.html", "course/index.html" if found.name == "learn" else "")
        return next((page for page in pages if page and (out / page).is_file()), None)

    parts = [
        tag("section", tag("h3", tag("a", name, href=page)), tag("p", words, class_="paper"))
        for page, name, words in PARTS
        if (out / page).is_file()
    ]
    body = Page(readme, resolve).html(readme.read_text(encoding="utf-8"))
    return filled(
        title="Documentation",
        kind="front",
        body=join(tag("div", parts, class_="map")) + body,
        site="workbench",
        style=STYLE,
    )
