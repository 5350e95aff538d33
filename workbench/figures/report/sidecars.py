"""The figures folder as read: every sidecar with its picture, and one line on each that is bad."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.figures.papers import ACROSS, base, paper_of_name, paper_of_solver
from workbench.registry import SOLVERS

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SHAPES = {  # what a sidecar's keys must hold where they are there at all
    "caption": str,
    "data": list,
    "solvers": list,
    "traces": list,
    "numbers": list,
    "parameters": dict,
    "machine": dict,
    "versions": dict,
    "threads": dict,
}


@dataclass(frozen=True)
class Figure:
    """One figure: its sidecar and its picture.

    Attributes
    ----------
    notebook, name : the names of its folder and of its file
    place : the profile whose folder of figures it lies in, empty for that of all figures
    record : the sidecar, as `workbench.figures` writes it; older ones lack keys
    png : the picture's bytes
    """

    notebook: str
    name: str
    place: str
    record: dict[str, Any]
    png: bytes

    @property
    def anchor(self) -> str:
        """The figure's name in links."""
        return "-".join(filter(None, ("figure", self.place, self.notebook, self.name)))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        return struct.unpack(">II", self.png[16:24])

    @cached_property
    def paper(self) -> str:
        """The paper's key: said by the notebook's name, by its numbers, or by all its solvers."""
        named = paper_of_name(self.notebook)
        rows = {str(row["paper"]) for row in self.record.get("numbers", []) if row.get("paper")}
        solvers = {paper_of_solver(solver) for solver in self._solvers} - {None}
        return named or next((s.pop() for s in (rows, solvers) if len(s) == 1), ACROSS)

    @cached_property
    def sets(self) -> list[str]:
        """The data sets shown, without what was done to them, in order of appearance."""
        names = [str(problem.get("name", "")) for problem in self.record.get("data", [])]
        named = [row.get("dataset") or row.get("data") for row in self.record.get("numbers", [])]
        return [name for name in dict.fromkeys(map(base, names + list(map(text, named)))) if name]

    @cached_property
    def methods(self) -> list[str]:
        """The labels of the solvers and methods shown."""
        rows = self.record.get("numbers", [])
        named = [text(row.get("method") or row.get("solver")) for row in rows]
        return [label(name) for name in dict.fromkeys([*self._solvers, *named]) if name]

    @property
    def _solvers(self) -> list[str]:
        made = [*self.record.get("solvers", []), *self.record.get("traces", [])]
        return list(dict.fromkeys(text(entry.get("solver")) for entry in made))


def collect(folder: Path) -> tuple[list[Figure], list[str]]:
    """Read a figures folder, and in it that of the profile ``paper``; ``smoke`` shows nothing.

    Returns
    -------
    figures : by notebook and name
    faults : one line on each file that was left out, naming it and saying why
    """
    figures, faults = [], []
    # What begins with a dot is being written.
    paths = [*sorted(folder.glob("paper/*/*.json")), *sorted(folder.glob("*/*.json"))]
    for path in (path for path in paths if not path.name.startswith(".")):
        place = path.relative_to(folder).parts[:-2]
        try:
            figures.append(_read(path, "".join(place)))
        except (OSError, ValueError) as error:
            faults.append(f"{path.relative_to(folder).as_posix()}: left out; {error}")
    return figures, faults


def label(solver: str) -> str:
    """Return a solver's label in legends; another name as it is."""
    return SOLVERS[solver].label if solver in SOLVERS else solver


def text(value: Any) -> str:
    """Return a value of a sidecar as text, nothing and NaN as the empty one."""
    return "" if value is None or value != value else str(value)


def _read(path: Path, place: str) -> Figure:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if not isinstance(record, dict) or record.get("caption") is None:
        raise ValueError("it is no figure's sidecar: it has no caption")
    for key, kind in SHAPES.items():
        if record.get(key) is None:
            record.pop(key, None)
        elif not isinstance(record[key], kind):
            raise ValueError(f"its {key!r} is no {kind.__name__}")
        elif kind is list and not all(isinstance(entry, dict) for entry in record[key]):
            raise ValueError(f"its {key!r} holds something that is no object")
    for trace in record.get("traces", []):
        if not isinstance(trace.get("times"), dict) or not trace.get("solver"):
            raise ValueError("one of its 'traces' lacks a solver or its times")
    picture = path.with_suffix(".png")
    if not picture.exists():
        raise ValueError(f"its picture {picture.name} is missing")
    png = picture.read_bytes()
    if len(png) < 24 or not png.startswith(SIGNATURE):
        raise ValueError(f"its picture {picture.name} is no png")
    return Figure(path.parent.name, path.stem, place, record, png)
