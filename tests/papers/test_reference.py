"""The papers' printed numbers: the files keep their rules, and say what the papers
say."""

import math
from collections import Counter

import pandas as pd
from helpers import each, module_fixture

from workbench.data.sources import SOURCES
from workbench.figures.reference import PAPERS, listed, measured, printed
from workbench.figures.report.rows import STANDINGS, cell

COLUMNS = "paper table dataset method quantity setting".split()  # these name the number
COLUMNS += "value spread unit hardware note".split()
QUANTITIES = """
samples, features, classes, parameter, training time, test time, subproblem time,
iterations, memory, classification error, accuracy, macro-F1, worst-case error,
average error, speed-up, slow-down, condition number"""
QUANTITIES = QUANTITIES.strip().replace("\n", " ").split(", ")
UNITS = ("", "fraction", "%", "s", "MB", "GB", "x", "thousand", "sqrt(C)")
# Paper, table, rows and columns of numbers, with the empty cells, as counted in the
# papers. MEMOIR's Table 3 has also n, d and C in its first column.
TABLES = """
mrc I 14 3
mrc II 7 8
mrc III 7 3
mrc IV 9 6
mrc V 7 13
mrc VI 7 8
weston_watkins 1 8 3
weston_watkins 3 8 3
weston_watkins 4 8 10
weston_watkins 5 8 10
weston_watkins 6 8 10
weston_watkins 7 24 10
weston_watkins 8 2 6
weston_watkins 9 2 7
memoir 1 5 5
memoir 2 3 5
memoir 3 25 9
memoir 3 5 3
memoir 4 22 5
least_squares 1 3 3
least_squares 2 3 4
"""
CELLS = Counter()
for line in TABLES.strip().splitlines():
    paper, table, rows, columns = line.split()
    CELLS[paper, table] += int(rows) * int(columns)


@module_fixture
def everything():
    return printed()


def test_the_tables_of_all_papers_are_whole(everything):
    assert list(everything.columns) == COLUMNS
    texts = everything.drop(columns=["value", "spread"])
    assert texts.map(lambda text: type(text) is str).all(axis=None)
    assert not everything.duplicated(COLUMNS[:6]).any()
    assert (everything["note"][everything["value"].isna()] != "").all()
    assert (everything[["value", "spread"]].fillna(1.0) > 0).all(axis=None)
    assert set(everything["quantity"]) == set(QUANTITIES)
    assert set(everything["unit"]) == set(UNITS)
    times = everything["quantity"].str.endswith("time")
    assert (everything["hardware"][times] != "").all()
    known = {*SOURCES, "", "checkers", "rcv1_four_classes"}
    assert set(everything["dataset"]) <= known
    methods = everything[["paper", "method"]].drop_duplicates()
    assert not methods.apply(lambda column: column.str.lower()).duplicated().any()
    tables = everything[everything["table"].str.fullmatch(r"[IVX]+|\d+")]
    counted = tables.groupby(["paper", "table"]).size().to_dict()
    assert counted.pop(("sampled_cuts", "1")) > 0  # masked: they cannot be counted
    assert counted == CELLS
    apart = pd.concat([printed(paper) for paper in PAPERS], ignore_index=True)
    pd.testing.assert_frame_equal(apart, everything)


# Typed from the papers, not copied from the files.
SPOTS = """
mrc|II|pulsar|MRC-CCG|training time||7.2 ± 1 s
mrc|II|yearbook_resnet18|SVM-CCG|average error||1e-11 fraction
mrc|IV|real_sim|MRC-CCG|training time|eps1=1e-4 eps2=1e-5|29000 s
mrc|V|rcv1|MRC-SUB|worst-case error||0.25 fraction
weston_watkins|1|sector||features||55197
weston_watkins|5|aloi|Walrus|accuracy|C=2 delta=0.009|90.18 %
weston_watkins|8||CP solver|subproblem time|dimension=4096|12.6057 s
memoir|1|wiki_50k||samples|part=test|276939
memoir|2|lshtc1|MEMOIR|macro-F1|b=10*sqrt(C) T=250|22.7 %
memoir|3|wiki_small|PD-Sparse|memory||12.4 GB
memoir|4|wiki_100k|RecallTree|parameter|parameter=b|28
least_squares|1|mnist|Logistic|classification error|features=8000|1.33 %
least_squares|2|rcv1_four_classes|Liblinear|training time||120 s
"""


@each("spot", SPOTS.split("\n")[1:-1])
def test_spot_checks(everything, spot):
    *key, shown = spot.split("|")
    row = everything.set_index(COLUMNS[:6]).loc[tuple(key)]
    number, _, rest = shown.partition(" ")
    spread, _, unit = rest.removeprefix("± ").rpartition(" ")
    assert (row["value"], row["unit"]) == (float(number), unit)
    assert math.isnan(row["spread"]) if not spread else row["spread"] == float(spread)


def test_numbers_that_a_paper_prints_twice_agree(everything):
    rows = everything[everything["value"].notna()]
    values = rows.groupby(["paper", *COLUMNS[2:6], "unit"])["value"]
    assert (values.size() > 1).sum() > 300 and (values.nunique() == 1).all()
    rows = rows[(rows["paper"] == "memoir") & (rows["quantity"] == "samples")]
    parts, wholes = (
        rows[rows["table"] == table].groupby("dataset")["value"].sum() for table in "13"
    )
    assert parts.to_dict() == wholes.to_dict()


@each(
    "data, named",
    [
        ("mnist, over its maximum", "mnist"),
        ("Mnist", "mnist"),
        ("mnist, 3,000 of the training rows", "mnist, 3,000 of the training rows"),
        ("mnist_resnet18, standardised", "mnist_resnet18"),
        ("synthetic 60000x512x10, standardised", "synthetic 60000x512x10"),
    ],
)
def test_a_row_on_other_data_than_the_papers_has_their_name(data, named):
    (row,) = measured(
        "mrc", ["VI"], "mnist", "MRC-CCG", "accuracy", [1.0], "%", data=data
    )
    assert (row["dataset"], row["data"]) == (named, data)
    (row,) = measured("memoir", ["2"], "", "MEMOIR", "accuracy", [1.0], "%", data=data)
    assert row["dataset"] == "", "it is about no data set"


def test_every_table_has_a_caption(
    everything,
):
    numbered = {(row.paper, row.table) for row in everything.itertuples()}
    captions = {
        (row["paper"], row["table"]): row["caption"] for row in listed("captions")
    }
    assert {where for where in numbered if where[1] not in ("", "text")} <= set(
        captions
    )
    assert all(captions.values()) and {paper for paper, _ in captions} == set(PAPERS)
    kinds = {row["kind"] for row in listed("missing")}
    assert kinds == {"not reached", "not public"} < {*STANDINGS}
    assert {row["dataset"] for row in listed("missing")} <= {*everything["dataset"]}
    found = {cell(row): row["found"] for row in listed("tried")}
    assert found.keys() <= {cell(row) for row in everything.to_dict("records")}
    assert all(found.values()) and len(found) == len(listed("tried"))
