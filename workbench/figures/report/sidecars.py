"""Read the figures of a folder; each is a sidecar with a picture."""

import base64
import json
import re
import struct
from pathlib import Path
from typing import NamedTuple

from workbench.core.files import digest
from workbench.core.kinds import Record, Values
from workbench.data.specs import remade
from workbench.papers import ACROSS, paper_of_name, paper_of_solver
from workbench.proofs import ProofError, read, verify

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PROOF = re.compile(r"[\w-][\w.-]*\.proofs/[\w-][\w.-]*\.npz")
# Fields that may be missing or null; the items of all but the last are dictionaries.
LISTS = ("data", "solvers", "traces", "numbers", "proofs")


class Checked(NamedTuple):
    """A proof of a figure: ``verified``, ``refused`` or ``not verified here``."""

    outcome: str
    words: str


class Figure(NamedTuple):
    """One figure: its sidecar and its picture.

    Attributes
    ----------
    notebook, name : names of its folder and of its file
    place : profile in whose folder of figures it lies, empty for the main folder
    record : the sidecar, as :meth:`workbench.figures.saved.Figures.save` writes it
    png : bytes of the picture
    proofs : the proofs that the sidecar lists, verified now
    """

    notebook: str
    name: str
    place: str
    record: Values
    png: bytes
    proofs: tuple[Checked, ...] = ()

    @property
    def anchor(self) -> str:
        """The figure's name in links."""
        return "-".join(filter(None, ("figure", self.place, self.notebook, self.name)))

    @property
    def heading(self) -> str:
        """The figure's name in words."""
        notebook, name = self.notebook.replace("_", " "), self.name.replace("_", " ")
        both = notebook if notebook.endswith(name) else f"{notebook}: {name}"
        return f"{both}, {self.place}" if self.place else both

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        return struct.unpack(">II", self.png[16:24])

    @property
    def source(self) -> str:
        """The picture as a data address."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")

    @property
    def paper(self) -> str:
        """The paper's key, from the notebook's name, its numbers or all its solvers;
        ``ACROSS`` if they name no paper or several."""
        if named := paper_of_name(self.notebook):
            return named
        numbers = {text(row.get("paper")) for row in self.record["numbers"]}
        entries = self.record["solvers"] + self.record["traces"]
        solvers = {paper_of_solver(text(entry.get("solver"))) for entry in entries}
        for papers in (numbers - {""}, solvers - {None}):
            if len(papers) == 1:
                return papers.pop()
        return ACROSS


def collect(folder: Path) -> tuple[list[Figure], list[str]]:
    """Read a figures folder and its ``quick/``; the profile ``smoke`` is left out.

    Returns
    -------
    figures : by notebook and name, those of ``quick/`` last
    faults : one line per file that was left out, with its name and the reason
    """
    figures = []
    faults = []
    # A dot begins the name of a sidecar that is being written.
    paths = sorted(folder.glob("*/[!.]*.json"))
    paths += sorted(folder.glob("quick/*/[!.]*.json"))
    for path in paths:
        place = path.relative_to(folder)
        try:
            figures.append(_read(path, "".join(place.parts[:-2])))
        except (OSError, ValueError) as error:
            faults.append(f"{place.as_posix()}: left out; {error}")
    return figures, faults


def text(value: object) -> str:
    """Return a value of a table or a sidecar as text; None and NaN are empty."""
    return "" if value is None or value != value else str(value).strip()


def _read(path: Path, place: str) -> Figure:
    """Return a figure; a ValueError says what is wrong with its sidecar or picture."""
    record = _record(path)
    picture = path.with_suffix(".png")
    if not picture.exists():
        raise ValueError(f"its picture {picture.name} is missing")
    png = picture.read_bytes()
    if len(png) < 24 or not png.startswith(SIGNATURE):
        raise ValueError(f"its picture {picture.name} is not a png")
    files = record.get("files")
    if files and files.get("png") != digest(picture):
        raise ValueError(f"its picture {picture.name} has changed since it was drawn")
    proofs = tuple(_checked(path.parent / file) for file in record["proofs"])
    return Figure(path.parent.name, path.stem, place, record, png, proofs)


def _record(path: Path) -> Record:
    """Return the content of a sidecar, with all of :data:`LISTS`."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if not isinstance(record, dict) or record.get("caption") is None:
        raise ValueError("it is not a figure's sidecar: it has no caption")
    for name in ("files", "machine"):
        record[name] = record.get(name) or {}
        if not isinstance(record[name], dict):
            raise ValueError(f"its {name!r} is not a dict")
    for name in LISTS:
        items = record[name] = record.get(name) or []
        kind = str if name == "proofs" else dict
        if not isinstance(items, list) or not all(isinstance(i, kind) for i in items):
            raise ValueError(f"its {name!r} is not a list of {kind.__name__}")
    if not all(map(PROOF.fullmatch, record["proofs"])):
        raise ValueError("its 'proofs' lists something that is not a file of its own")
    return record


def _checked(path: Path) -> Checked:
    """Verify one proof if its data set is available; nothing is downloaded."""
    try:
        proof = read(path)
        verified = verify(proof, remade(proof.header.get("recipe") or {}))
        return Checked("verified", " ".join(verified.statement.split()))
    except ProofError as error:
        return Checked("refused", str(error).removeprefix(f"{path}: "))
    except (ValueError, OSError) as error:  # its data set is not available
        return Checked("not verified here", str(error).partition("\n")[0])
