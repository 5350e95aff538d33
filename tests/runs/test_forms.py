"""One form for all that runs solvers: solver, data, rules and parameters."""

import re

from helpers import each, refuses

from workbench import explore, grid, load, run, sweep
from workbench.arena import contest
from workbench.core.stream import below, processor_seconds, rounds, seconds, stopping

IRIS = load("iris")
OTHERWISE = {  # what somebody writes instead, and a part of the answer
    "write run(solver, problem, *rules": lambda: run(IRIS, "ww_walrus", rounds(1)),
    "got 'ww_walrus' instead of data": lambda: run("iris", "ww_walrus"),
    "write grid(solvers, data, *rules": lambda: grid("iris", "ww_walrus, mrc_lp"),
    "write explore(solvers, problem": lambda: explore("iris", ["ww_walrus"]),
    "write contest(data, entries)": lambda: contest(["ww_walrus"], ["iris"]),
    "such as load('digits'), got 'iris'": lambda: run("ww_walrus", "iris", rounds(1)),
    "give parameters as parameters=": lambda: run("ww_walrus", IRIS, {"C": 1.0}),
    "and rounds(9), got 5": lambda: run("ww_walrus", IRIS, 5),
    "C: is not an argument of run": lambda: run("ww_walrus", IRIS, C=1.0),
    "rounds(9), got {'C': 1.0}": lambda: grid("ww_walrus", "iris", {"C": 1.0}),
    "stop: rounds appears twice": lambda: grid("mrc_lp", "iris", rounds(1), rounds(2)),
    "must be left out": lambda: grid("mrc_lp", "iris", rounds(1), stop={"cpu": 1}),
    "must come from grid(": lambda: sweep("ww_walrus"),
}


@each("answer", OTHERWISE)
def test_another_order_or_form_is_answered_with_the_right_one(answer):
    with refuses(re.escape(answer)):
        OTHERWISE[answer]()


def test_a_grid_takes_the_rules_of_a_run():
    rules = below("gap", 1e-3), rounds(50), processor_seconds(60), seconds(90)
    plain = {"gap": 1e-3, "rounds": 50, "cpu": 60.0, "seconds": 90.0}
    [point] = grid("mrc_ccg", "iris", *rules)
    assert [point] == grid("mrc_ccg", "iris", stop=plain)
    again = [rule.__name__ for rule in stopping(point.stop)]
    assert again == [rule.__name__ for rule in rules]
    with refuses("stop: must set a limit"):
        grid("mrc_ccg", "iris", below("gap", 1e-3))
