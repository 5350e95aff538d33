"""The parts of the five papers that are implemented, shown, measured and judged here.

data/reference/coverage.csv only has pointers for each item of a paper (a theorem, an
algorithm, a table): its solvers, functions or tests, its notebooks, the data that the
paper uses, and the board's claims. The marks are computed. A part that does
not exist counts as missing, and ``-`` stands for a missing part of an item.
"""

import json
from functools import cache
from importlib import import_module
from typing import NamedTuple

from workbench.figures.reference import listed, printed
from workbench.figures.report.claims import read_claims, sources
from workbench.figures.report.rows import EDITIONS
from workbench.papers import same_data
from workbench.registry import SOLVERS
from workbench.runs.notebooks import CHECKOUT

COLUMNS = "implemented", "shown", "measured", "judged"
NAMES = {"adult": "a9a"}  # data that have another name here than in the paper
GENERATED = {"checkers"}  # data that are generated in the paper, too


class Item(NamedTuple):
    """An item of a paper.

    Attributes
    ----------
    paper, item, why : str
        The paper's key, the item, and what is missing, in a few words.
    parts : dict
        For each of :data:`COLUMNS` the item's parts, and whether each exists.
    """

    paper: str
    item: str
    why: str
    parts: dict[str, dict[str, bool]]

    @property
    def marks(self) -> dict[str, str]:
        """For each column ``yes`` if all parts exist, ``in part``, ``no``, or an empty
        text if the column does not apply."""
        return {column: mark(parts) for column, parts in self.parts.items()}


def mark(parts: dict[str, bool]) -> str:
    """Return the mark of some parts, given whether each part exists."""
    if not parts:
        return ""
    there = parts.values()
    return "yes" if all(there) else "in part" if any(there) else "no"


@cache
def read_coverage() -> tuple[Item, ...]:
    """Return all items, checked against the checkout."""
    return tuple(_item(row) for row in listed("coverage"))


def _item(row: dict[str, str]) -> Item:
    shown = row["shown"].split()
    by = row["implemented"].split()
    runs = {run for notebook in shown for run in _whole_runs(notebook)}
    if solvers := SOLVERS.keys() & by:
        runs = {run for run in runs if run[0] in solvers}
    notebooks = {path.stem for path in (CHECKOUT / "notebooks").glob("*/**/*.ipynb")}
    sets = _data_sets(row)
    parts = {
        "implemented": {pointer: _exists(pointer) for pointer in by},
        "shown": {name: name in notebooks for name in shown},
        "measured": {name: any(_is_on(name, *run) for run in runs) for name in sets},
        "judged": _judged(row),
    }
    return Item(row["paper"], row["item"], row["why"], parts)


def _exists(pointer: str) -> bool:
    """Return whether a solver, a function ``module:name``, a test or a file exists."""
    if "/" in pointer:
        file, _, name = pointer.partition("::")
        path = CHECKOUT / file
        return path.is_file() and (
            not name or f"def {name}(" in path.read_text("utf-8")
        )
    module, _, name = pointer.partition(":")
    if not name:
        return pointer in SOLVERS
    try:
        return hasattr(import_module(f"workbench.{module}"), name)
    except ModuleNotFoundError:
        return False


def _data_sets(row: dict[str, str]) -> dict[str, None]:
    """Return the paper's data sets of an item, from its tables or their own names."""
    table = printed(row["paper"])
    found: dict[str, None] = {}
    for name in filter(None, row["data"].split("; ")):
        of_table = table["dataset"][table["table"] == name]
        found |= dict.fromkeys(filter(None, of_table)) or {name: None}
    return found


def _judged(row: dict[str, str]) -> dict[str, bool]:
    """Return whether the claims with these words in their names are decided."""
    own = [claim for claim in read_claims() if claim.paper == row["paper"]]
    found: dict[str, bool] = {}
    for words in filter(None, row["judged"].split("; ")):
        named = [c for c in own if words != "-" and words in c.claim]
        found |= {c.claim: c.decided for c in named} or {words: False}
    return found


def _is_on(dataset: str, _: str, data: str, synthetic: bool) -> bool:
    """Return whether the data of a run are all of a paper's data set."""
    name = NAMES.get(dataset, dataset)
    made_up = synthetic and dataset not in GENERATED
    return dataset not in EDITIONS and same_data(name, data, made_up)


@cache
def _whole_runs(notebook: str) -> frozenset[tuple[str, str, bool]]:
    """Return the solver, the data and whether they are synthetic, of the runs that the
    clock did not end."""
    found = set()
    for folder in sources():
        for path in (folder / "figures" / notebook).glob("*.json"):
            record = json.loads(path.read_text("utf-8"))
            generated = {data["name"] for data in record["data"] if data["synthetic"]}
            for run in record["traces"]:
                if not str(run["stopped_by"]).endswith("seconds"):
                    found.add((run["solver"], run["data"], run["data"] in generated))
    return frozenset(found)
