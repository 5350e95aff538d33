"""The docstrings are there and true of the signatures, and their examples run."""

import ast
import doctest
import importlib
import pydoc
import re
from pathlib import Path

import workbench
from workbench import FIRST, SOLVERS
from workbench.runs.parameters import described, explained

PACKAGE = Path(workbench.__file__).parent
ROOT = PACKAGE.parent
PATHS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    ): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
ROLE = re.compile(r":(?:func|class|data|meth|mod|attr):`~?([\w.]+)`")


def arguments(node):
    """Return the names of a function's arguments, or of a class's fields and of its
    __init__."""
    if isinstance(node, ast.ClassDef):
        own = [x.target.id for x in node.body if isinstance(x, ast.AnnAssign)]
        made = [x for x in node.body if getattr(x, "name", "") == "__init__"]
        return own + [name for x in made for name in arguments(x)]
    return [x.arg for x in ast.walk(node.args) if isinstance(x, ast.arg)]


def documented(module, node, within=""):
    """Yield (module, name, docstring, arguments) of each public class, function and
    method."""
    for child in node.body:
        if isinstance(
            child, ast.ClassDef | ast.FunctionDef
        ) and not child.name.startswith("_"):
            yield (
                module,
                within + child.name,
                ast.get_docstring(child) or "",
                arguments(child),
            )
            if isinstance(child, ast.ClassDef):
                yield from documented(module, child, f"{child.name}.")


TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}
ENTRIES = [entry for name, tree in TREES.items() for entry in documented(name, tree)]


def test_every_module_and_public_name_has_a_docstring():
    assert not [name for name, tree in TREES.items() if not ast.get_docstring(tree)]
    assert not [entry[:2] for entry in ENTRIES if not entry[2] and "." not in entry[1]]


def test_the_top_of_the_package_has_what_a_notebook_needs_first():
    assert all(getattr(workbench, name).__doc__ for name in FIRST)


def test_docstrings_list_parameters_that_exist():
    listed = [(name, described(doc), known) for _, name, doc, known in ENTRIES]
    assert not [entry for entry in listed if not entry[1].keys() <= set(entry[2])]
    assert sum(len(entry[1]) for entry in listed) > 300


def test_docstrings_explain_every_parameter_of_every_solver():
    pairs = [(n, p) for n, s in SOLVERS.items() for p in explained(s.steps).values()]
    assert len(pairs) > 100 and not [(n, p.name) for n, p in pairs if not p.help]


def test_docstrings_refer_to_names_that_exist():
    known = {f".{module}.{name}" for module, name, *_ in ENTRIES}
    known |= {
        f".{module}.{name}.{field}"
        for module, name, _, fields in ENTRIES
        for field in fields
    }
    docs = [(module, doc) for module, _, doc, _ in ENTRIES]
    docs += [(name, ast.get_docstring(tree)) for name, tree in TREES.items()]
    assert not [
        f"{module}: {target}"
        for module, doc in docs
        for target in ROLE.findall(doc)
        if not any(name.endswith(f".{target}") for name in known)
        and not (pydoc.locate(target) or pydoc.locate(f"{module}.{target}"))
    ]


def test_examples_run():
    tried = 0
    for name, path in PATHS.items():
        if re.search(r"^ *>>> (?!.*\+SKIP)", path.read_text("utf-8"), re.MULTILINE):
            result = doctest.testmod(importlib.import_module(name))
            assert not result.failed, name
            tried += result.attempted
    assert tried
