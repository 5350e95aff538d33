"""Read the declarations of notebooks, without running them.

A notebook has one cell tagged ``parameters``, with a line for each parameter, ``name:
type = value  # help``. A figure notebook also names in its metadata ``workbench`` the
figures that it makes, and the parameters that the profiles ``smoke``, ``paper`` and
``decide`` change; the profile ``quick`` has the values of the cell.
"""

import ast
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import workbench
from workbench.core.checks import check_known
from workbench.core.kinds import Record, Values
from workbench.runs.parameters import Parameter, check_names, type_of

CHECKOUT = Path(workbench.__file__).parents[1]
FOLDER = CHECKOUT / "notebooks" / "figures"
PROFILES = ("smoke", "quick", "paper", "decide")
# Errors of reading a notebook, or another file of JSON, that is damaged.
BROKEN = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    RecursionError,
)


@dataclass(frozen=True)
class Notebook:
    """A notebook's file and its declarations.

    Attributes
    ----------
    path : the file; its name without the suffix is the name of the notebook
    parameters : the parameters by name, in the order of their cell
    profiles : for each profile, the values of the parameters that it changes
    figures : the names of the figures that the notebook makes
    code : the source of all its code cells
    """

    path: Path
    parameters: dict[str, Parameter]
    profiles: dict[str, Record]
    figures: tuple[str, ...]
    code: str = ""

    @property
    def name(self) -> str:
        return self.path.stem

    def values(self, profile: str = "quick", overrides: Values | None = None) -> Record:
        """Return all parameters' values in a profile; `overrides` may be texts."""
        usual = {name: p.default for name, p in self.parameters.items()}
        return usual | self.profiles.get(profile, {}) | self.check(overrides or {})

    def check(self, values: Values) -> Record:
        """Return `values` in their declared types; a ValueError names a wrong value."""
        check_names(values, self.parameters, self.name)
        return {
            name: self.parameters[name].typed(value) for name, value in values.items()
        }


def find(names: Iterable[str] = (), folder: Path = FOLDER) -> list[Notebook]:
    """Return the notebooks of `folder` with these names, or all of them.

    A ValueError names a notebook that does not exist.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.ipynb"))}
    for name in names:
        check_known(name, paths, "notebook")
    return [read(paths[name]) for name in names or paths]


def runs_folder() -> Path:
    """Return the folder ``WORKBENCH_RUNS``, or ``runs/`` of the checkout or of the
    current folder."""
    checkout = CHECKOUT if (CHECKOUT / "pyproject.toml").is_file() else Path()
    return Path(os.environ.get("WORKBENCH_RUNS") or checkout / "runs")


def read(path: Path) -> Notebook:
    """Return a notebook with its declarations.

    Raises
    ------
    ValueError
        If the file is not JSON, does not have exactly one parameters cell, has a
        parameters cell that is not Python, or a profile that sets a parameter that the
        cell does not declare. The message names the notebook and the fault.
    OSError
        If the file cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        cells = content["cells"]
        declared = content["metadata"].get("workbench", {})
        tagged = [c for c in cells if "parameters" in c["metadata"].get("tags", ())]
        if len(tagged) != 1:
            raise ValueError(
                f"needs exactly one cell tagged 'parameters', has {len(tagged)}"
            )
        parameters = parameters_in("".join(tagged[0]["source"]))
        sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        figures = tuple(declared.get("figures", ()))
        profiles = dict(declared.get("profiles", ()))
    except BROKEN as error:
        message = f"{path.stem}: not a notebook with parameters; {error}"
        raise ValueError(message) from None
    notebook = Notebook(path, parameters, profiles, figures, "\n\n".join(sources))
    for profile, values in profiles.items():
        profiles[profile] = notebook.check(values)
    return notebook


def parameters_in(source: str) -> dict[str, Parameter]:
    """Return the parameters that a cell sets to literals, by name."""
    parameters = {}
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                annotation = ""
            case ast.AnnAssign(ast.Name(name), annotation, value) if value:
                annotation = ast.unparse(annotation)
            case _:
                continue
        try:
            default = ast.literal_eval(value)
            json.dumps(default)
        except (ValueError, TypeError):  # the value is an expression or a set
            continue
        last = lines[(statement.end_lineno or 0) - 1].encode()
        comment = last[statement.end_col_offset :].decode()
        help_text = comment.strip().removeprefix("#").strip()
        parameter = Parameter(name, type_of(annotation, default), default, help_text)
        parameters[name] = parameter._replace(default=parameter.typed(default))
    return parameters
