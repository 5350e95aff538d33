"""Figure notebooks as files: what they declare, checked strictly before anything runs.

A figure notebook holds one cell tagged ``parameters``, one scalar a line,
``name: type = value  # help``, and in its metadata ``workbench`` the names of the figures that it
makes and the parameters that the profiles ``smoke`` and ``paper`` change; ``quick`` is the cell.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import workbench
from workbench.core.names import hint, near
from workbench.data.words import with_data

CHECKOUT = Path(workbench.__file__).parents[1]
FOLDER = CHECKOUT / "notebooks" / "figures"
PROFILES = ("smoke", "quick", "paper")
TYPES = {"int": int, "float": float, "str": str, "bool": bool}
NUMBER = r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*"
NUMBERS = re.compile(f"{NUMBER}((,| |or){NUMBER})*", re.IGNORECASE)  # `0.1 or 1` are choices


class Parameter(NamedTuple):
    """One line of a parameters cell; `default` is of `type`.

    A text whose default is a list of numbers, such as ``"1e-2,1e-4"``, takes no other text.
    """

    name: str
    type: type
    default: Any
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
    kernel : the name in its kernelspec, empty if there is none
    """

    path: Path
    parameters: dict[str, Parameter]
    profiles: dict[str, dict[str, Any]]
    figures: tuple[str, ...]
    code: str = ""
    kernel: str = ""

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
        return {name: typed(self.parameter(name), value) for name, value in values.items()}

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


def runs_folder() -> Path:
    """Return where runs are kept: ``WORKBENCH_RUNS``, or ``runs/`` of the checkout or from here."""
    checkout = CHECKOUT if (CHECKOUT / "pyproject.toml").is_file() else Path()
    return Path(os.environ.get("WORKBENCH_RUNS") or checkout / "runs")


def read(path: Path, figures: bool = True) -> Notebook:
    """Read what a figure notebook declares; without `figures`, any notebook with parameters.

    Raises
    ------
    ValueError
        Naming the notebook and the fault: not JSON, another language than Python, not exactly one
        parameters cell; of a figure notebook also a line of that cell that is not
        ``name: type = value  # help``, metadata with unknown keys, or a profile that sets what the
        cell does not declare.
    OSError
        If the file cannot be read.
    """
    broken = ValueError, KeyError, TypeError, AttributeError, RecursionError
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        cells, metadata = content["cells"], content["metadata"]
        language = language_of(metadata)
        kernel = str((metadata.get("kernelspec") or {}).get("name") or "")
        tagged = [c for c in cells if "parameters" in c["metadata"].get("tags", ())]
        sources = ["".join(c["source"]) for c in tagged]
        code = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        declared = metadata.get("workbench", {})
        named, profiled = tuple(declared.get("figures", ())), dict(declared.get("profiles", ()))
        profiled = {profile: dict(values) for profile, values in profiled.items()}
    except broken as error:
        raise ValueError(f"{path.stem}: not a notebook; {error}") from None
    if language.lower() not in ("python", "ipython"):
        raise ValueError(f"{path.stem}: must be a Python notebook, got {language}")
    if len(tagged) != 1:
        raise ValueError(
            f"{path.stem}: needs exactly one cell tagged 'parameters', has {len(tagged)}"
        )
    if not figures:
        parameters = parameters_of(sources[0], path.stem, strict=False)
        return Notebook(path, parameters, {}, (), code, kernel)
    parameters = parameters_of(sources[0], path.stem)
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


def language_of(metadata: Mapping[str, Any]) -> str:
    """Return the language of a notebook, Python if its metadata do not say."""
    spec = metadata.get("kernelspec") or {}
    named = (metadata.get("language_info") or {}).get("name") or spec.get("language")
    return named or ("R" if spec.get("name") == "ir" else "python")


def here_or_there(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return values as a kernel in `folder` understands them.

    A path that exists from the current folder, and not from `folder`, becomes absolute, also as
    an item of a list.
    """

    def absolute(item: str) -> str:
        path = os.path.expanduser(item.strip())
        if len(path) < 1000 and os.path.isfile(path) and not (folder / path).exists():
            return os.path.abspath(path)
        return item

    return {
        name: with_data(value, absolute) if isinstance(value, str) else value
        for name, value in values.items()
    }


def parameters_of(source: str, notebook: str, strict: bool = True) -> dict[str, Parameter]:
    """Return what a parameters cell sets to literals, by name.

    Raises
    ------
    ValueError
        If it is not Python or sets nothing; with `strict`, naming the notebook and the line that
        is not ``name: type = value  # help``.
    """
    where = f"{notebook}: parameters cell:"
    try:
        body, lines = ast.parse(source).body, source.splitlines()
    except SyntaxError as error:
        raise ValueError(f"{where} {error.msg}, line {error.lineno}") from None
    parameters = {}
    for statement in body:
        line = lines[statement.end_lineno - 1]
        comment = line.encode()[statement.end_col_offset :].decode().strip()
        parameter = _declared(statement, comment.removeprefix("#").strip())
        annotated = isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation)
        # papermill reads the line by a pattern of its own, which a second equals sign confuses.
        if strict and not (
            parameter
            and annotated in TYPES
            and comment.startswith("#")
            and parameter.help
            and "=" not in parameter.help
        ):
            raise ValueError(
                f"{where} {line.strip()!r} is not 'name: type = value  # help' with a type of "
                f"{', '.join(TYPES)} and no equals sign in the help"
            )
        if strict and parameter.name in parameters:
            raise ValueError(f"{where} {parameter.name!r} is declared twice")
        if parameter:
            parameters[parameter.name] = parameter
    if not parameters:
        raise ValueError(f"{where} declares nothing")
    return parameters


def _declared(statement: ast.stmt, help_text: str) -> Parameter | None:
    """Return the parameter that a statement sets to a literal, None if it does something else."""
    match statement:
        case ast.Assign([ast.Name(name)], value):
            kind = None
        case ast.AnnAssign(ast.Name(name), annotation, value) if value:
            kind = TYPES.get(ast.unparse(annotation))
        case _:
            return None
    try:
        default = ast.literal_eval(value)
        parameter = Parameter(name, kind or type(default), default, help_text)
        return parameter._replace(default=typed(parameter, default))
    except ValueError:  # computed, or of another type than it says
        return None


def parse(parameter: Parameter, text: str) -> Any:
    """Return the value that `text`, typed on a command line, gives to a parameter.

    Raises
    ------
    ValueError
        If the text does not denote a value of the parameter's type.
    """
    kind = parameter.type
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{parameter.name}: must be true or false, got {text!r}")
        return text.lower() == "true"
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            what = f"{parameter.name}: must be of type {kind.__name__}"
            raise ValueError(f"{what}, got {text!r}") from None
    value = text
    if kind is not str or text.startswith("["):
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"{parameter.name}: is not valid YAML: {text!r}") from None
    return typed(parameter, value)


def typed(parameter: Parameter, value: Any) -> Any:
    """Return a value in the parameter's type; lists and numbers become a text's items."""
    name, kind, default = parameter.name, parameter.type, parameter.default
    if kind is str and not isinstance(value, (str, bool, type(None), Mapping)):
        value = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind and default is not None:
        raise ValueError(f"{name}: must be of type {kind.__name__}, got {value!r}")
    if kind is str and "," in str(default) and "" in map(str.strip, value.split(",")):
        raise ValueError(f"{name}: an item is empty in {value!r}")
    if kind is str and NUMBERS.fullmatch(str(default)) and value != default:
        if not NUMBERS.fullmatch(value):
            raise ValueError(
                f"{name}: must be numbers separated by commas, such as {default!r}, got {value!r}"
            )
    return value
