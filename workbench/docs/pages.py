"""The API pages: one for each module, one of all solvers, and an index to search in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby, islice
from pathlib import Path

from workbench.core.problem import Problem
from workbench.course.html import filled
from workbench.course.markup import coloured
from workbench.data import load
from workbench.docs.docstrings import docstring_html, text_html
from workbench.docs.modules import PACKAGE, Entry, Module
from workbench.figures.papers import PAPERS, paper_of_solver
from workbench.figures.report.markup import Html, join, tag
from workbench.registry import SOLVERS, Solver
from workbench.runs.run import resolve

ROOM = Path(__file__).parent
STYLE = (ROOM / "style.css").read_text(encoding="utf-8")
API = "workbench · API"
BASES = re.compile(r"^class \w+\(([\w., ]+)\)", re.MULTILINE)


class Names:
    """Where the names of the package lead.

    Parameters
    ----------
    modules : those that have a page
    """

    def __init__(self, modules: Sequence[Module]):
        self.modules = {module.name: module for module in modules}
        self.pages = {module.name: f"{module.name}.html" for module in modules}
        self.short: dict[str, list[str]] = {}
        for module in modules:
            for entry in module.entries:
                page = f"{module.name}.html#{entry.name}"
                self.pages[f"{module.name}.{entry.name}"] = page
                self.short.setdefault(entry.name, []).append(page)
                for field in entry.arguments:  # is with its class
                    self.pages.setdefault(f"{module.name}.{entry.name}.{field}", page)

    def link(self, target: str, module: Module, within: str = "") -> str | None:
        """Return the page of a name as a docstring of `module` has it, None if it is not ours.

        Parameters
        ----------
        target : a full name, one of the module or of the class `within`, one imported there, or
            one that the package has only once
        """
        names = [target, f"{module.name}.{target}", f"{module.name}.{within}.{target}"]
        first, dot, rest = target.partition(".")
        if first in module.imported:
            names.append(module.imported[first] + dot + rest)
        for name in names:
            if name in self.pages:
                return self.pages[name]
            package, _, last = name.rpartition(".")  # what a package offers is another module's
            if package in self.modules and last in self.modules[package].imported:
                return self.pages.get(self.modules[package].imported[last])
        pages = self.short.get(target, [])
        return pages[0] if len(pages) == 1 else None


def module_page(module: Module, names: Names) -> str:
    """Return the page of a module: its docstring, then each public name as in its source."""
    parts = [tag("h1", module.name), Html(docstring_html(module.doc, _linker(module, names)))]
    constants = [entry for entry in module.entries if entry.name.isupper()]
    defined = [entry for entry in module.entries if not entry.name.isupper()]
    if constants:
        parts.append(tag("h2", "Constants", class_="words"))
        for signature, same in groupby(constants, key=lambda entry: entry.signature):
            anchors = [tag("span", id=entry.name) for entry in same]
            parts.append(tag("div", anchors, Html(coloured(signature))))
    parts += [_definition(entry, module, names) for entry in defined]
    listed = [
        tag("li", tag("a", entry.name, href=f"#{entry.name}"))
        for entry in defined
        if "." not in entry.name
    ]
    summary = tag("summary", "On this page")
    contents = tag("details", summary, tag("ol", listed), open=True)
    return filled(
        title=module.name,
        kind="lesson api",
        where=f" <span>{escape(module.room)}</span>",
        contents=tag("nav", contents, class_="contents", aria_label="On this page")
        if listed
        else "",
        body=join(parts),
        site=API,
        style=STYLE,
    )


def index_page(modules: Sequence[Module]) -> str:
    """Return the index: every module and public name, with a field to search in them."""
    rooms = []
    for room, inside in groupby(sorted(modules, key=lambda m: m.room), key=lambda m: m.room):
        blocks = [_listed(module) for module in inside]
        rooms.append(tag("section", tag("h2", room), blocks, class_="room"))
    field = tag("input", type="search", id="search", placeholder="names and first lines")
    form = tag(
        "form",
        tag("label", "Search ", field),
        " ",
        tag("output", id="found", aria_live="polite"),
        id="filter",
        hidden=True,
        role="search",
    )
    solvers = tag("p", tag("a", "All solvers", href="solvers.html"), " in one table.")
    return filled(
        title="API",
        kind="index api",
        body=join(tag("h1", "API"), solvers, form, rooms),
        home="../index.html",
        site="workbench",
        style=STYLE,
        script=(ROOM / "filter.js").read_text(encoding="utf-8"),
    )


def solvers_page(names: Names) -> str:
    """Return the table of all solvers: colour, paper, parameters, and what its rows certify."""
    problem = load("iris", scale="standard")
    head = ("solver", "label", "paper", "parameters", "bounds")
    rows = [_solver(name, solver, problem, names) for name, solver in SOLVERS.items()]
    table = tag(
        "table",
        tag("thead", tag("tr", [tag("th", words, scope="col") for words in head])),
        tag("tbody", rows),
    )
    about = (
        "By the names that runs, sweeps, figures and the command line use. The paper is the one "
        "whose problem is solved; by whose method, the docstring says. Parameters are shown with "
        "their defaults; those in bold may change in mid-run. A solver has bounds where its rows "
        "hold a lower and an upper bound on the optimum: tried on iris when this page is made."
    )
    return filled(
        title="Solvers",
        kind="index api",
        body=join(tag("h1", "Solvers"), tag("p", about), tag("div", table, class_="wide solvers")),
        site=API,
        style=STYLE,
    )


def _solver(name: str, solver: Solver, problem: Problem, names: Names) -> Html:
    paper = PAPERS.get(paper_of_solver(name))
    module = inspect.getmodule(solver.steps).__name__
    shown = []
    for key, value in resolve(name, {})[1].items():
        kind = "live" if key in solver.live else None
        shown += [tag("code", f"{key}={value!r}", class_=kind), " "]
    swatch = tag("span", class_="swatch", style=f"background: {solver.colour}")
    link = tag("a", tag("code", name), href=names.pages[f"{module}.{solver.steps.__name__}"])
    cells = (
        [swatch, link],
        solver.label,
        f"{paper.authors}, {paper.where}" if paper else "–",
        shown,
        _certified(solver, problem),
    )
    return tag("tr", [tag("td", cell) for cell in cells])


def _certified(solver: Solver, problem: Problem) -> str:
    """Return whether a row after one round has both bounds, by trying it."""
    for tried in (problem, problem.first_classes(2)):
        try:
            *_, state = islice(solver.steps(tried), 2)
        except ValueError as error:  # two classes only, or an extra that is not installed
            said = str(error)
        else:
            return "yes" if {"lower", "upper"} <= set(state.info()) else "no"
    return f"not tried: {said}"


def _definition(entry: Entry, module: Module, names: Names) -> Html:
    method = "." in entry.name
    link = _linker(module, names, entry.name.partition(".")[0])
    doc = docstring_html(entry.doc, link)
    above = BASES.search(entry.signature)
    bases = [name for name in above[1].split(", ") if link(name)] if above else []
    inherits = [[", and what is in ", tag("a", name, href=link(name))] for name in bases]
    where = f"{module.path.relative_to(PACKAGE.parent).as_posix()}, line {entry.line}"
    return tag(
        "section",
        tag("h3" if method else "h2", entry.name, id=entry.name),
        tag("p", where, inherits, class_="line"),
        Html(coloured(entry.signature)),
        tag("div", Html(doc), class_="doc"),
        class_="method" if method else None,
    )


def _linker(module: Module, names: Names, within: str = "") -> Callable[[str], str | None]:
    return lambda target: names.link(target, module, within)


def _listed(module: Module) -> Html:
    page = f"{module.name}.html"
    entries = [
        tag("li", tag("a", e.name, href=f"{page}#{e.name}"), tag("span", " ", _first(e.doc)))
        for e in module.entries
    ]
    line = tag("p", tag("a", module.name, href=page), " ", _first(module.doc))
    return tag(
        "div", line, tag("ul", entries, class_="names") if entries else None, class_="module"
    )


def _first(docstring: str) -> Html:
    """Return the first line of a docstring, in a row."""
    line = text_html(docstring.partition("\n")[0], lambda target: None)
    return Html(line.strip().removeprefix("<p>").removesuffix("</p>"))
