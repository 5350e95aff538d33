"""A solver that bears a paper's name has the printed settings:
data/reference/defaults.csv."""

import ast
import csv
import inspect
import math

from helpers import each

from workbench import SOLVERS
from workbench.papers import PAPERS, paper_of_solver
from workbench.runs.notebooks import CHECKOUT

TABLE = CHECKOUT / "data" / "reference" / "defaults.csv"
with TABLE.open(encoding="utf-8", newline="") as file:
    _, *LINES = csv.reader(file)
PRINTED = {
    name
    for name, solver in SOLVERS.items()
    if paper_of_solver(name) in PAPERS and "(ours)" not in solver.label
}
NOT_PRINTED = {"seed", "state"}  # of this machine's randomness, and of resumed runs


def defaults(name):
    takes = inspect.signature(SOLVERS[name].steps).parameters.values()
    return {p.name: p.default for p in takes if p.default is not p.empty} | {
        "state": None
    }


@each("name", sorted(PRINTED))
def test_every_default_is_printed_or_said_to_be_left_open(name):
    printed = {
        parameter: value for solver, parameter, value, _ in LINES if solver == name
    }
    given = defaults(name)
    assert printed.keys() == given.keys() - NOT_PRINTED
    for parameter, text in printed.items():
        if text != "open":
            value = math.inf if text == "inf" else ast.literal_eval(text)
            assert given[parameter] == value, (
                f"{name}: {parameter} is printed as {text}"
            )


def test_each_line_of_the_table_says_where_or_why():
    assert all(place.strip() for *_, place in LINES)
    assert {solver for solver, *_ in LINES} == PRINTED
