"""Figure notebooks as files: what they declare, checked strictly before anything runs.

A figure notebook holds one cell tagged ``parameters``, one scalar a line,
``name: type = value  # help``, and in its metadata ``workbench`` the names of the figures that it
makes and the parameters that the profiles ``smoke`` and ``paper`` change; ``quick`` is the cell.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import workbench
from workbench.core.names import hint, near

CHECKOUT = Path(workbench.__file__).parents[1]
FOLDER = CHECKOUT / "notebooks" / "figures"
PROFILES = ("smoke", "quick", "paper")
TYPES = {"int": int, "float": float, "str": str, "bool": bool}


class Parameter(NamedTuple):
    """One line of a parameters cell; `default` is of `type`: int, float, str or bool."""

    name: str
    type: type
    default: int | float | str | bool
    help: str


@dataclass(frozen=True)
class Notebook:
    """A figure notebook: its file and its declarations.

    Attributes
    ----------
    path : its name without suffix is the notebook's name
    parameters : by name, in the order of the parameters cell
    profiles : the parameters that ``smoke`` and ``paper`` change, with their values
    figures : the names of the figures that it makes
    code : the source of its code cells
    """

    path: Path
    parameters: dict[str, Parameter]
    profiles: dict[str, dict[str, Any]]
    figures: tuple[str, ...]
    code: str = ""

    @property
    def name(self) -> str:
        return self.path.stem

    def values(self, profile: str = "quick", overrides: Mapping[str, str] | None = None) -> dict:
        """Return every parameter's value under a profile, then under `overrides` as typed text.

        Raises
        ------
        ValueError
            For a parameter that does not exist, or a value of the wrong type.
        """
        values = {name: p.default for name, p in self.parameters.items()}
        values |= self.profiles.get(profile, {})
        for name, text in (overrides or {}).items():
            values[name] = parse(self.parameter(name), text)
        return values

    def check(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` in their declared types; a ValueError names one that does not fit."""
        return {name: _typed(self.parameter(name), value) for name, value in values.items()}

    def parameter(self, name: str) -> Parameter:
        """Return a declared parameter by name, or raise a ValueError that lists them."""
        if name not in self.parameters:
            known = near(name, self.parameters) or f"it takes {', '.join(self.parameters)}"
            raise ValueError(f"{self.name}: has no parameter {name!r}; {known}")
        return self.parameters[name]


def find(names: tuple[str, ...] | list[str] = (), folder: Path = FOLDER) -> list[Notebook]:
    """Return the notebooks of `folder` with these names, or all of them, read and checked.

    Raises
    ------
    ValueError
        For a name without a notebook, or a notebook that breaks the rules of :func:`read`.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.ipynb"))}
    for name in names:
        if name not in paths:
            raise ValueError(f"notebook: unknown name {name!r}; {hint(str(name), paths)}")
    return [read(paths[name]) for name in names or paths]


def read(path: Path, figures: bool = True) -> Notebook:
    """Read what a figure notebook declares; without `figures`, any notebook with parameters.

    Raises
    ------
    ValueError
        Naming the notebook and the fault: not JSON, another kernel than ``python3``, not
        exactly one parameters cell, a line of it that is not ``name: type = value  # help``,
        metadata with unknown keys, or a profile that sets what the cell does not declare.
    OSError
        If the file cannot be read.
    """
    broken = ValueError, KeyError, TypeError, AttributeError, RecursionError
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        cells, metadata = content["cells"], content["metadata"]
        kernel = metadata.get("kernelspec", {}).get("name")
        tagged = [c for c in cells if "parameters" in c["metadata"].get("tags", ())]
        sources = ["".join(c["source"]) for c in tagged]
        code = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        declared = metadata.get("workbench", {})
        named, profiled = tuple(declared.get("figures", ())), dict(declared.get("profiles", ()))
        profiled = {profile: dict(values) for profile, values in profiled.items()}
    except broken as error:
        raise ValueError(f"{path.stem}: not a notebook; {error}") from None
    if kernel != "python3":
        raise ValueError(f"{path.stem}: its kernelspec must be python3, not {kernel!r}")
    if len(tagged) != 1:
        raise ValueError(
            f"{path.stem}: needs exactly one cell tagged 'parameters', has {len(tagged)}"
        )
    parameters = parameters_of(sources[0], path.stem)
    if not figures:
        return Notebook(path, parameters, {}, (), code)
    if set(declared) != {"figures", "profiles"}:
        raise ValueError(
            f"{path.stem}: metadata 'workbench' must contain 'figures' and 'profiles', "
            f"got {sorted(declared)}"
        )
    if set(profiled) != {"smoke", "paper"}:
        raise ValueError(f"{path.stem}: metadata must set the profiles 'smoke' and 'paper'")
    notebook = Notebook(path, parameters, profiled, named, code)
    for profile, values in profiled.items():
        try:
            profiled[profile] = notebook.check(values)
        except ValueError as error:
            raise ValueError(f"{error}, in profile {profile!r}") from None
    return notebook


def parameters_of(source: str, notebook: str) -> dict[str, Parameter]:
    """Parse the source of a parameters cell.

    Raises
    ------
    ValueError
        Naming the notebook and the line that is not ``name: type = value  # help``.
    """
    parameters = {}
    for line in source.splitlines():
        if not line.strip():
            continue
        parameter = _parse_line(line)
        if parameter is None:
            raise ValueError(
                f"{notebook}: parameters cell: {line.strip()!r} is not 'name: type = value  # help'"
                f" with a type of {', '.join(TYPES)} and no equals sign in the help"
            )
        if parameter.name in parameters:
            raise ValueError(f"{notebook}: parameters cell: {parameter.name!r} is declared twice")
        parameters[parameter.name] = parameter
    if not parameters:
        raise ValueError(f"{notebook}: parameters cell: declares nothing")
    return parameters


def parse(parameter: Parameter, text: str) -> Any:
    """Return the value that `text`, typed on a command line, gives to a parameter.

    Raises
    ------
    ValueError
        If the text does not denote a value of the parameter's type.
    """
    if parameter.type is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{parameter.name}: must be true or false, got {text!r}")
        return text.lower() == "true"
    try:
        return parameter.type(text)
    except ValueError:
        kind = parameter.type.__name__
        raise ValueError(f"{parameter.name}: must be of type {kind}, got {text!r}") from None


def _typed(parameter: Parameter, value: Any) -> Any:
    if type(value) is parameter.type:
        return value
    if parameter.type is float and type(value) is int:
        return float(value)
    raise ValueError(f"{parameter.name}: must be of type {parameter.type.__name__}, got {value!r}")


def _parse_line(line: str) -> Parameter | None:
    try:
        body = ast.parse(line).body
    except SyntaxError:
        return None
    match body:
        case [ast.AnnAssign(ast.Name(name), ast.Name(kind), value) as statement] if value:
            comment = line.encode()[statement.end_col_offset :].decode().strip()
        case _:
            return None
    help_text = comment.removeprefix("#").strip()
    # papermill reads the line by a pattern of its own, which a second equals sign confuses.
    if kind not in TYPES or not comment.startswith("#") or not help_text or "=" in help_text:
        return None
    try:
        parameter = Parameter(name, TYPES[kind], ast.literal_eval(value), help_text)
        return parameter._replace(default=_typed(parameter, parameter.default))
    except ValueError:
        return None
