"""The course's other pages: dashboards with a recorded run, figures, and the source of a lesson."""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path

from nbconvert.filters import Highlight2HTML
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from workbench.figures.lesson_files import Page, read
from workbench.figures.papers import (
    ACROSS,
    DASHBOARDS,
    FIGURES,
    PAPERS,
    SERIES,
    paper_of_name,
    title,
)
from workbench.figures.report.sidecars import Figure
from workbench.registry import SOLVERS
from workbench.runs.notebooks import CHECKOUT

ROOMS = {*PAPERS, "tuning"}  # the folders of methods; a lesson's other imports are tools
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$|~])")  # of Markdown, and the first of an HTML tag
START = """\
## To start it

`make lab`, then open `{notebook}` and run its cells.{more}

## A recorded run

Its first solvers on its first data, for 100 rounds or five seconds each. Press *play*, or drag the
slider; with a running kernel they compute while you look, and you change what they do."""
STANDS_IN = "\n\nWithout a running kernel"  # from here on the text of the controls shows a figure
RACE = " `make race` serves it as a page of its own, without JupyterLab around it."


def dashboards(folder: Path) -> list[Page]:
    """Return the pages of the dashboards of a folder, as notebooks that record their first runs.

    A dashboard is a notebook with a cell ``live``. Of its text the title, the controls and what to
    try stay; its pictures, which stand in for it without a kernel, are not needed here.
    """
    found = []
    in_order = lambda path: SERIES.index(paper_of_name(path.stem) or ACROSS)  # noqa: E731
    for path in sorted(folder.glob("*.ipynb"), key=in_order):
        page = read(path)
        cells = {cell.id: cell for cell in page.notebook.cells}
        if "live" not in cells:
            continue
        live = cells["live"].source.replace(
            "from workbench.live import explore",
            "from workbench.live.replay import recorded as explore",
        )
        controls = cells["live-text"].source.partition(STANDS_IN)[0]
        name, more = path.relative_to(folder.parents[1]).as_posix(), RACE * (path.stem == "race")
        hidden = {"jupyter": {"source_hidden": True}}
        shown = [
            cells["title"],
            new_markdown_cell(START.format(notebook=name, more=more), id="start"),
            new_code_cell(f"{cells['parameters'].source}\n\n{live}", id="live", metadata=hidden),
            new_markdown_cell(controls, id="controls"),
            cells["try"],
        ]
        notebook = new_notebook(cells=shown, metadata=page.notebook.metadata)
        place = f"dashboard_{path.stem}.html"
        found.append(page._replace(notebook=notebook, place=place, series=DASHBOARDS))
    return found


def figure_pages(folder: Path, notebooks: Path) -> Iterator[tuple[Page, dict[str, list], list]]:
    """Yield a page for the figures of each paper: quick pictures, captions, how to redraw them.

    Parameters
    ----------
    folder : of the figures, one folder per notebook with ``.png`` and ``.json``
    notebooks : folder of the notebooks that draw them

    Yields
    ------
    page : its cells without source have a picture each
    outputs : of these cells, by their ids
    drawn : the notebooks' files; a link to one of them leads to the page
    """
    found = []
    for path in sorted(folder.glob("*/*.json")):
        picture = path.with_suffix(".png")
        if picture.exists() and (notebooks / f"{path.parent.name}.ipynb").exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            made = Figure(path.parent.name, path.stem, "", record, picture.read_bytes())
            found.append(made)
    found.sort(key=lambda figure: (SERIES.index(figure.paper), figure.notebook))
    for paper, own in groupby(found, key=lambda figure: figure.paper):
        name = f"Figures · {title(paper)}"
        cells, outputs, drawn = [new_markdown_cell(f"# {name}", id="title")], {}, []
        for notebook, figures in groupby(own, key=lambda figure: figure.notebook):
            drawn.append(notebooks / f"{notebook}.ipynb")
            for i, figure in enumerate(figures):
                if not i:
                    cells.append(new_markdown_cell(_introduced(drawn[-1], figure), id=notebook))
                cells.append(new_code_cell("", id=f"{notebook}-{figure.name}"))
                outputs[cells[-1].id] = [_picture(figure)]
                caption = SPECIAL.sub(r"\\\1", figure.record["caption"])
                cells.append(new_markdown_cell(caption, id=f"{notebook}-{figure.name}-caption"))
        path = notebooks / f"{paper}.ipynb"
        place = f"figures_{paper}.html"
        notebook = new_notebook(cells=cells)
        yield Page(path, notebook, place, name, "", FIGURES), outputs, drawn


def _introduced(path: Path, figure: Figure) -> str:
    """Return the heading of a notebook's figures, its title, its file and the command."""
    return (
        f"## {heading(path)}\n\n**{read(path).title}** `{path.name}` in `notebooks/figures/`; "
        f"to draw it again: `{figure.record['command']}`."
    )


def heading(notebook: Path) -> str:
    """Return the heading of a notebook's figures, whose anchor has hyphens for the spaces."""
    return notebook.stem.replace("_", " ")


def _picture(figure: Figure) -> NotebookNode:
    width, height = figure.size
    size = {"image/png": {"width": width // 2, "height": height // 2}}
    png = base64.b64encode(figure.png).decode("ascii")
    return new_output("display_data", data={"image/png": png}, metadata=size)


def sources(page: Page) -> dict[Path, dict[str, int]]:
    """Return the code of methods that a page uses: by file, names and the lines they begin at.

    A lesson uses what it imports, and the solvers that it names; a cheat sheet those that it names.
    """
    used: dict[Path, dict[str, int]] = {}
    for module, name in _named(page):
        at = defined(module, name)
        if at and at[0].relative_to(CHECKOUT).parts[1] in ROOMS:
            used.setdefault(at[0], {})[name] = at[1]
    return {file: dict(sorted(used[file].items())) for file in sorted(used)}


def _named(page: Page) -> Iterator[tuple[str, str]]:
    """Yield module and name of all imports from the package and of all solvers that are named."""
    for cell in page.notebook.cells:
        words = re.findall(r"`(\w+)`", cell.source) if not page.series else []
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.ImportFrom):
                    yield from ((node.module, each.name) for each in node.names)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    words.append(node.value)
        for word in words:
            if word in SOLVERS:
                yield SOLVERS[word].steps.__module__, SOLVERS[word].steps.__name__


@cache
def defined(module: str, name: str) -> tuple[Path, int] | None:
    """Return the file and the line of a function or class of the package, None of all else."""
    path = CHECKOUT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not module.startswith("workbench.") or not file.exists():
        return None
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return file, node.lineno
        if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
            return defined(node.module, name)
    return None


def source_place(file: Path) -> str:
    """Return the path in the course of the page of a source file."""
    return f"source/{'.'.join(file.relative_to(CHECKOUT).with_suffix('').parts)}.html"


def source_page(file: Path, users: Mapping[str, str]) -> tuple[Page, NotebookNode]:
    """Return the page of a source file and its notebook, whose one cell is HTML.

    Each line has an anchor, as ``#L-12``. `users` has the titles of the lessons that use it, in
    HTML, by their places.
    """
    name = file.relative_to(CHECKOUT).as_posix()
    shown = Highlight2HTML("python", extra_formatter_options={"linespans": "L"})
    code = shown(file.read_text(encoding="utf-8"))
    links = ", ".join(f'<a href="../{place}">{title}</a>' for place, title in users.items())
    html = f'<h1 id="file"><code>{name}</code></h1>\n'
    html += f'<nav aria-label="Lessons">Used by {links}.</nav>\n'
    html += code.replace("<pre>", '<pre tabindex="0">')
    notebook = new_notebook(cells=[new_markdown_cell(html, id="source")])
    return Page(file, notebook, source_place(file), name, "", ""), notebook
