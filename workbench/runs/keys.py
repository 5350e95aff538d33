"""Content keys: two runs share one exactly when nothing that can change their result differs."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

import workbench
from workbench.data.cache import state_of_folders
from workbench.runs.notebooks import Notebook
from workbench.runs.run import versions

PACKAGE = Path(workbench.__file__).parent


def key(**parts: Any) -> str:
    """Return 24 hex digits of the SHA-256 of named parts; the order of names does not count.

    Parts are plain data. 1 and 1.0 are one number and make one key, True is another.
    """
    text = json.dumps(_canonical(parts), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def code(*modules: str) -> str:
    """Return a hash of the source of some modules and of all that they import of their package.

    Imports of this package count too, those of libraries do not; nor do comments and layout. The
    source is read once, until a sweep that is planned asks anew.
    """
    packages = {"workbench", *(module.partition(".")[0] for module in modules)}
    seen, waiting = {}, list(modules)
    while waiting:
        path = _source(module := waiting.pop())
        if path and path not in seen:
            seen[path] = ast.parse(path.read_text(encoding="utf-8"))
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            names = _imports(seen[path], package)
            waiting += [name for name in names if name.partition(".")[0] in packages]
    dumps = "".join(ast.dump(seen[path]) for path in sorted(seen))
    return hashlib.sha256(dumps.encode()).hexdigest()[:16]


@cache
def package_code() -> str:
    """Return a hash of every Python file of the package."""
    files = sorted(PACKAGE.rglob("*.py"))
    names = [".".join(["workbench", *f.relative_to(PACKAGE).with_suffix("").parts]) for f in files]
    return code(*names)


def library_versions() -> dict[str, str]:
    """Return the versions that can change a number: Python's and the numeric libraries'."""
    return {name: v for name, v in versions().items() if name not in ("workbench", "commit")}


def notebook_key(notebook: Notebook, values: Mapping[str, Any]) -> str:
    """Return the key of all that a notebook's figures depend on, whatever it does inside.

    Its code and parameters, the package, the libraries, and the names, sizes and dates of the
    files in the data folders and of those that the parameters name.
    """
    return key(
        notebook=notebook.code,
        parameters=dict(values),
        package=package_code(),
        versions=library_versions(),
        data=state_of_folders(str(value) for value in values.values()),
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


def _source(module: str) -> Path | None:
    """Return the file of a module without importing anything, None for what is no module."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # __main__
        return None
    if spec is None or not spec.submodule_search_locations:
        return Path(spec.origin) if spec and not rest and spec.has_location else None
    place = Path(spec.submodule_search_locations[0]).joinpath(*rest)
    choices = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((path for path in choices if path.is_file()), None)


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(name, package)
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))
