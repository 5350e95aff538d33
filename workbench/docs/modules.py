"""The package as its source has it: modules, public names, signatures and docstrings.

The source is read and not imported: signatures are as they were written, those of compiled
functions too, and an extra that is not installed hides nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import workbench

PACKAGE = Path(workbench.__file__).parent
LONGEST = 12  # lines of a constant that are shown
Definition = ast.FunctionDef | ast.ClassDef


class Entry(NamedTuple):
    """A public name of a module or class.

    Attributes
    ----------
    name : as it is written in the module, of a method with its class, ``Problem.split``
    signature : source text; of a class with its fields and parameters, of a constant its value
    doc : its docstring, empty where there is none
    line : where it begins
    arguments : names of the parameters that a call takes
    """

    name: str
    signature: str
    doc: str
    line: int
    arguments: tuple[str, ...] = ()


class Module(NamedTuple):
    """A module.

    Attributes
    ----------
    name : as it is imported
    path : of its file
    doc : its docstring
    entries : its public functions, classes with their methods behind them, and constants
    imported : what it imports from the package, name -> full name
    """

    name: str
    path: Path
    doc: str
    entries: tuple[Entry, ...]
    imported: dict[str, str]

    @property
    def room(self) -> str:
        """The package that the module is in, or is."""
        folder = self.path.parent
        return "workbench" if folder == PACKAGE else f"workbench.{folder.name}"


def read_modules() -> list[Module]:
    """Return the modules of the package, by name; a package comes before what is in it."""
    return sorted(map(read_module, PACKAGE.rglob("*.py")), key=lambda m: m.name)


def read_module(path: Path) -> Module:
    """Return one module of the package."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    entries = tuple(_entries(tree, source.splitlines()))
    return Module(name, path, ast.get_docstring(tree) or "", entries, _imported(tree))


def _entries(tree: ast.Module, lines: list[str]) -> Iterator[Entry]:
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield _entry(node, lines)
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                        yield _entry(method, lines, f"{node.name}.")
        elif isinstance(node, ast.Assign):
            shown = lines[node.lineno - 1 : node.end_lineno]
            shown[LONGEST:] = ["    ..."] * (len(shown) > LONGEST)
            for target in getattr(node.targets[0], "elts", node.targets):
                if isinstance(target, ast.Name) and target.id.isupper() and target.id[0] != "_":
                    yield Entry(target.id, "\n".join(shown), "", node.lineno)


def _entry(node: Definition, lines: list[str], within: str = "") -> Entry:
    signature, call = _head(node, lines), node
    if isinstance(node, ast.ClassDef):
        fields = [x for x in node.body if isinstance(x, ast.AnnAssign)]
        signature = "\n".join([signature, *(_source(x, lines) for x in fields)])
        arguments = [field.target.id for field in fields]
        for call in node.body:
            if isinstance(call, ast.FunctionDef) and call.name == "__init__":
                signature += "\n" + _head(call, lines)
                arguments = _arguments(call)
    else:
        arguments = _arguments(node)
    doc = ast.get_docstring(node) or ""
    return Entry(within + node.name, dedent(signature), doc, node.lineno, tuple(arguments))


def _head(node: Definition, lines: list[str]) -> str:
    """Return the source from the first decorator to the colon."""
    first = min([node.lineno, *(x.lineno for x in node.decorator_list)])
    last = max(node.lineno, node.body[0].lineno - 1)  # a body of dots is in the same line
    head = "\n".join(line for line in lines[first - 1 : last] if line.strip())
    return head.removesuffix(" ...").removesuffix(":")


def _source(node: ast.AST, lines: list[str]) -> str:
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def _arguments(node: ast.FunctionDef) -> list[str]:
    a = node.args
    every = [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
    return [x.arg for x in every if x is not None and x.arg not in ("self", "cls")]


def _imported(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbench"):
            found |= {x.asname or x.name: f"{node.module}.{x.name}" for x in node.names}
    return found
