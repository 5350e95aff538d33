"""What of the papers is covered: pointers lead somewhere, and marks are computed."""

import json

from helpers import each

from workbench.figures.reference import printed
from workbench.figures.report import coverage
from workbench.figures.report.claims import read_claims
from workbench.figures.report.coverage import COLUMNS, mark, read_coverage
from workbench.papers import PAPERS

ROW = {
    "paper": "mrc",
    "item": "a table",
    "implemented": "mrc_subgradient",
    "shown": "mrc_tables -",
    "data": "V; pulsar",
    "judged": "Theorem 2; -",
    "why": "words",
}


def leads_nowhere(item):
    """Return the pointers of an item to what does not exist."""
    claims = {claim.claim for claim in read_claims() if claim.paper == item.paper}
    known = {*printed(item.paper)["dataset"], *claims}
    known |= {
        name for kind in COLUMNS[:2] for name, is_ in item.parts[kind].items() if is_
    }
    return {name for parts in item.parts.values() for name in parts} - known - {"-"}


def test_pointers_lead_somewhere_and_gaps_have_reasons():
    items = read_coverage()
    assert len(items) >= 128 and {item.paper for item in items} == set(PAPERS)
    for item in items:
        assert not leads_nowhere(item), item.item
        assert list(item.marks) == list(COLUMNS)
        lacks = {item.marks["implemented"], item.marks["shown"]} & {"no", "in part"}
        assert item.why or not lacks, item.item


def test_marks_are_those_of_the_parts():
    assert mark({}) == "" and mark({"a": True, "b": True}) == "yes"
    assert mark({"a": True, "b": False}) == "in part" and mark({"a": False}) == "no"


NOWHERE = """
implemented mrc_walrus
implemented mrc.ccg:gone
implemented mrc.gone:start
implemented tests/mrc/test_mrc.py::test_x
implemented tests/gone.py
shown mrc_gone
data XIV
judged a thousand times
"""


@each("line", NOWHERE.strip().splitlines())
def test_a_pointer_that_leads_nowhere_is_found_and_is_no_mark(line):
    column, _, pointer = line.partition(" ")
    item = coverage._item(ROW | {column: pointer})
    assert leads_nowhere(item) == {pointer}
    assert item.marks[{"data": "measured"}.get(column, column)] == "no"


def test_a_data_set_is_measured_by_whole_runs_on_all_of_it(monkeypatch):
    runs = {
        ("mrc_ccg", "pulsar", False),
        ("mrc_subgradient", "house16, 500 rows", False),
        ("mrc_subgradient", "rcv1", True),
        ("mrc_subgradient", "real_sim, standardised", False),
    }
    monkeypatch.setattr(coverage, "_whole_runs", lambda notebook: runs)
    item = coverage._item(ROW)
    found = {name for name, there in item.parts["measured"].items() if there}
    assert found == {"real_sim"}
    assert item.marks["measured"] == item.marks["shown"] == "in part"
    assert len(item.parts["measured"]) == 7


def test_a_run_that_the_clock_ended_measures_nothing(tmp_path, monkeypatch):
    ends = {"mrc_lp": "60 processor seconds", "mrc_ccg": "gap <= 0.01", "svm_lp": None}
    runs = [{"solver": s, "data": "iris", "stopped_by": end} for s, end in ends.items()]
    path = tmp_path / "figures" / "of_a_test" / "a.json"
    path.parent.mkdir(parents=True)
    data = [{"name": "iris", "synthetic": False}]
    path.write_text(json.dumps({"data": data, "traces": runs}))
    monkeypatch.setattr(coverage, "sources", lambda: [tmp_path, tmp_path / "none"])
    whole = coverage._whole_runs("of_a_test")
    assert whole == {(solver, "iris", False) for solver in ("mrc_ccg", "svm_lp")}
