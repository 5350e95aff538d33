"""Parameters of solvers and of notebooks: their names, types and values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import yaml

from workbench.core.kinds import Given, Steps, Values
from workbench.core.names import near

TYPES = {kind.__name__: kind for kind in (bool, int, float, str)}


class Parameter(NamedTuple):
    """A parameter; `type` is None if neither an annotation nor the default says it."""

    name: str
    type: type | None
    default: object
    help: str = ""

    def typed(self, value: Given) -> Given:
        """Return a value in the parameter's type.

        Texts become numbers, booleans and lists: values from a command line are texts, and YAML
        reads 1e-2, without a point, as a text. Lists and numbers become a text's items.

        Raises
        ------
        ValueError
            If it is not a value of this type.
        """
        kind = self.type
        if self.default is None and value in (None, "None", "none", "null"):
            return None
        if type(value) is kind or (kind is None and isinstance(value, (bool, int, float, str))):
            return value
        text = isinstance(value, str)
        if kind is bool and text and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if kind is str and type(value) in (int, float, list, tuple):
            return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        if kind in (int, float) and (text or type(value) in (int, float)):
            with suppress(ValueError, OverflowError):
                if kind is int and text and value.strip().lstrip("+-").isdigit():
                    return int(value)  # exactly, however large it is
                if kind is float or float(value) == int(float(value)):
                    return kind(float(value))
        if kind in (list, dict) and text:
            with suppress(yaml.YAMLError):
                if type(value := yaml.safe_load(value)) is kind:
                    return value
        kind = "a single value" if kind is None else f"of type {kind.__name__}"
        raise ValueError(f"{self.name}: must be {kind}, got {value!r}")


def type_of(annotation: object, default: object) -> type | None:
    """Return the type that an annotation such as ``float | None`` names, or the default's."""
    name = getattr(annotation, "__name__", str(annotation)).partition(" |")[0]
    return TYPES.get(name, None if default is None else type(default))


def parameters_of(solver: Steps) -> dict[str, Parameter]:
    """Return the parameters that a solver declares, by name."""
    return {
        name: Parameter(name, type_of(p.annotation, p.default), p.default)
        for name, p in inspect.signature(solver).parameters.items()
        if p.kind is p.KEYWORD_ONLY and name != "state"
    }


def explained(solver: Steps) -> dict[str, Parameter]:
    """Return the parameters of a solver with the help that docstrings have for them.

    That is its own docstring, its module's, or that of another function of the module.
    """
    module = inspect.getmodule(solver)
    functions = [f for _, f in inspect.getmembers(module, inspect.isfunction)]
    docs = [solver, module, *(f for f in functions if f.__module__ == solver.__module__)]
    helps: dict[str, str] = {}
    for part in docs:
        helps = described(inspect.getdoc(part) or "") | helps
    return {n: p._replace(help=helps.get(n, "")) for n, p in parameters_of(solver).items()}


def described(doc: str) -> dict[str, str]:
    """Return what the section Parameters of a docstring says of each name, on one line."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w[\w ]*\n---|\Z)", doc, re.M | re.S)
    helps = {}
    for entry in re.split(r"^(?=\S)", section[1], flags=re.M) if section else ():
        names, colon, text = entry.partition(" : ")
        text = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", " ".join(text.split()))
        for name in names.split(",") if colon else ():
            helps[name.strip("* \n")] = text.replace("``", "")
    return helps


def check_names(names: Values, declared: Mapping[str, Parameter], owner: str) -> None:
    """Raise a ValueError that names the first parameter that its owner does not declare."""
    for name in sorted(set(names) - set(declared), key=str):
        known = near(str(name), declared) or f"it takes {', '.join(declared)}"
        raise ValueError(f"parameters: {owner} has no {name!r}; {known}")
