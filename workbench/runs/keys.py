"""Content keys: two runs share one exactly when nothing that can change their result differs."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

import workbench
from workbench.data.cache import state_of_folders
from workbench.runs.notebooks import CHECKOUT, Notebook, here_or_there

PACKAGE = Path(workbench.__file__).parent
PRINTED = CHECKOUT / "data" / "reference"
# Not followed: what a run takes from these tables is in its key, and from the writers nothing.
TABLES = ("workbench", "workbench.registry", "workbench.arena.entries", "workbench.proofs.writers")
# What comes with a library, where that is not one distribution of the module's name.
DISTRIBUTIONS = {
    "numba": ("numba", "llvmlite"),
    "sklearn": ("scikit-learn",),
    "yaml": ("pyyaml",),
    "PIL": ("pillow",),
}


def key(**parts: Any) -> str:
    """Return 24 hex digits of the SHA-256 of named parts, whatever the order of names.

    Parts are plain data. 1 and 1.0 are one number and make one key, True is another.
    """
    text = json.dumps(_canonical(parts), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def code(*modules: str) -> str:
    """Return a hash of the code of some modules: their sources, libraries and Python.

    Whatever they import of their own packages and of this one is followed; of other libraries the
    version counts. Comments and layout do not. Sources are read again after ``code.cache_clear()``,
    which the planning of a sweep calls: a notebook's kernel may be older than the code.

    Raises
    ------
    ValueError
        If a source cannot be read, as in a zip file.
    """
    files, libraries = reached(*modules)
    sources = [_parsed(_text(path))[0] for path in files]
    return key(sources=sources, python=platform.python_version(), libraries=_versions(libraries))


@cache
def package_code() -> str:
    """Return the hash of all modules of this package, as :func:`code`."""
    files = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py"))
    return code(*(".".join(file.with_suffix("").parts) for file in files))


def reached(*modules: str) -> tuple[list[Path], set[str]]:
    """Return the files of some modules and of all that they import, and the other libraries.

    The libraries are names of modules, without those of Python's standard library.
    """
    packages = {"workbench", *(module.partition(".")[0] for module in modules)}
    waiting = [found for name in modules if (found := _module(name))]
    if len(waiting) < len(modules):
        raise ValueError(f"code: no source of {', '.join(modules)} can be read")
    files, libraries = set(), set()
    while waiting:
        module, path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for name in _parsed(_text(path))[1]:
            name = importlib.util.resolve_name(name, package)
            if (top := name.partition(".")[0]) not in packages:
                libraries.add(top)
            elif (found := _module(name)) and found[0] not in TABLES:
                waiting.append(found)
    return sorted(files), libraries - sys.stdlib_module_names


def notebook_key(notebook: Notebook, values: Mapping[str, Any]) -> str:
    """Return the key of everything that a notebook's figures depend on, whatever it does inside.

    Its code and that of modules next to it, its parameters, the package with its libraries, the
    papers' printed numbers, and the names, sizes and dates of the files in the data folders and of
    those that the parameters name.
    """
    folder = notebook.path.parent
    return key(
        notebook=notebook.code,
        beside=[_text(path) for path in sorted([*folder.glob("*.py"), *folder.glob("*/*.py")])],
        parameters=dict(values),
        package=package_code(),
        printed=[path.read_text(encoding="utf-8") for path in sorted(PRINTED.glob("*.csv"))],
        data=state_of_folders(map(str, here_or_there(values, folder).values())),
    )


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _canonical(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        # A mapping, so that it is not the text "nan".
        return int(value) if value.is_integer() else value if isfinite(value) else {"": str(value)}
    return value


def _module(name: str) -> tuple[str, Path] | None:
    """Return the module that a dotted name is, or is in, with its file; nothing is imported."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # __main__
        return None
    if spec is None or not spec.submodule_search_locations:
        return (top, Path(spec.origin)) if spec and spec.has_location else None
    for depth in reversed(range(len(rest) + 1)):
        place = Path(spec.submodule_search_locations[0], *rest[:depth])
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return ".".join([top, *rest[:depth]]), path
    return None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _parsed(text: str) -> tuple[str, list[str]]:
    """Return a hash of a source, and the dotted names that it imports."""
    tree, names = ast.parse(text), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (f"{node.module}." if node.module else "")
            names += [module + alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            names += [a.value for a in node.args if isinstance(a, ast.Constant)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), names


def _versions(libraries: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of libraries, None for one that is not installed."""
    names = [name for library in libraries for name in DISTRIBUTIONS.get(library, (library,))]
    versions = dict.fromkeys(names)
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
