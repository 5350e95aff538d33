"""The report: comparisons, the contents of the page, and hostile sidecars."""

import io
import json
import math
import re
import shlex
from html import unescape
from html.parser import HTMLParser

import jsonschema
import numpy as np
import pandas as pd
import pytest
from helpers import each, module_fixture, refuses
from PIL import Image
from pytest import approx

from workbench import load, rounds, run
from workbench.figures import reference
from workbench.figures.report import as_data, report
from workbench.figures.report import rows as room
from workbench.figures.report.claims import Claim, read_claims
from workbench.figures.report.comparison import Number, compare
from workbench.figures.report.law import VERDICTS, Cell
from workbench.figures.report.rows import (
    Measurement,
    caveat,
    counts,
    measurements,
    side_by_side,
)
from workbench.figures.report.sidecars import collect
from workbench.papers import PAPERS, base, same_data, title, token
from workbench.runs.mill import make
from workbench.runs.notebooks import CHECKOUT, find

HARDWARE = "Intel Core i7-6850K 3.60 GHz, 31 GiB"
PRINTED = """
mrc|II|dna|MRC-CCG|training time||7.2|1|s|HARDWARE|
mrc|II|dna|MRC-CCG|classification error||8|nan|%||
mrc|II|dna|MRC-SUB|classification error||9.5|0.5|%||
mrc|II|letter|SVM-CCG|training time|C=1|3e4|1e3|s|HARDWARE|
sampled_cuts|1|rings|svmlight|test error||nan|nan|||masked in the text
""".replace("HARDWARE", HARDWARE)
COLUMNS = [*room.KEYS, "value", "spread", "unit", "hardware", "note"]
PRINTED = pd.read_csv(io.StringIO(PRINTED), sep="|", names=COLUMNS, na_filter=False)
PRINTED = PRINTED.astype({"value": float, "spread": float})


def measured(value, unit="%", data="dna", timed=True, cpu="EPYC", **row):
    number = Number(value, None, unit)
    return Measurement(
        row, number, data, False, timed, cpu, "figure", (True, 1, timed, "")
    )


def read(text):
    """Return the number that is written so: value, unit, spread."""
    value, unit, spread, *_ = [*text.replace("± ", "").split(), "", ""]
    if unit[:1].isdigit():
        unit, spread = "", unit
    value = None if value == "none" else float(value)
    return Number(value, float(spread) if spread else None, unit)


# A quantity, the paper's number, ours of twenty runs, the verdict and what is shown.
# Half of the interval is 0.387 times their spread.
AGREEMENT = """
classification error | 8.1 % | 8.4 % ± 0.5 | agrees | +0.30 ± 0.19 points
classification error | 8.1 % | 8.4 % ± 0.6 | undecided | +0.30 ± 0.23 points
classification error | 8.1 % | 8.9 % ± 0.5 | differs | +0.80 ± 0.19 points; worse
classification error | 8.1 % | 0.07 ± 0.001 | differs | −1.1 ± 0.039 points; better
test error | 8.1 % | 8.1 % | undecided | 0 points; one run has no interval
accuracy | 0.9 fraction | 90.5 % ± 0 | agrees | +0.0050
worst-case error | 0.49 fraction | 0.495 ± 0.01 | agrees | +0.0050 ± 0.0039
worst-case error | 0.22 fraction | 0.24 ± 0.01 | differs | +0.020 ± 0.0039; worse
average error | 1e-11 fraction | 1.8e-7 ± 1e-9 | differs | +1.8e-7 ± 3.9e-10; worse
condition number | 72000 | 37 ± 1 | differs | 5.1e-4×
training time | 2 s | 900 ms ± 10 | differs | 0.45×; better
training time | 2 s | 3 s ± 0 | agrees | 1.5×
memory | 1 GB | 800 MB ± 500 | undecided | 0.80×
samples | 8 thousand | 9 thousand ± 0 | agrees | +1.0
training time | 2 s | 9 GB | context | other unit
training time | none s | 9 s | none |
training time | 2 s | 0 s | none |
"""


@each("case", AGREEMENT.strip().splitlines())
def test_agreement(case):
    quantity, paper, ours, tone, shown = (text.strip() for text in case.split("|"))
    paper = read(paper)
    ours = read(ours)
    verdict = compare(quantity, paper, ours, runs=20)
    assert (verdict.tone, verdict.amount) == (tone, shown)
    if tone not in ("none", "context"):
        other = compare(quantity, paper, ours, caveat="other data", runs=20)
        assert other.tone == "context"


@each("runs", (2, 3, 10))
def test_a_mean_at_the_margin_agrees_in_one_case_of_twenty(runs, rng):
    tones = []
    for _ in range(2000):
        ours = np.round(rng.normal(90.5, 0.02, runs), 9)
        own = Number(np.mean(ours), np.std(ours, ddof=1), "%")
        tones.append(compare("accuracy", Number(90.0, None, "%"), own, runs=runs).tone)
    assert tones.count("agrees") / len(tones) == approx(0.05, abs=0.015)
    assert tones.count("differs") / len(tones) == approx(0.05, abs=0.015)


def test_only_like_and_like_is_a_claim():
    assert same_data("dna", "dna, standardised") and same_data(
        "Fashion-MNIST", "fashion_mnist"
    )
    assert base("synthetic 20000x30x2, standardised") == "synthetic"
    assert base("breast_cancer, standardised + 200 Fourier") == "breast_cancer"
    assert not same_data("dna", "") and not same_data("dna", "letter")
    assert not same_data("dna", "dna", synthetic=True)
    assert not same_data("mnist", "mnist, 5000 rows") and not same_data(
        "mnist", "mnist[:500]"
    )
    for ours, expected in [
        (measured(1.0, "s", cpu="Intel Core i7-6850K"), ""),
        (measured(1.0, "s"), "other machine"),
        (measured(1.0, "s", cpu=""), "other machine"),
        (measured(1.0, "s", timed=False), "other machine, not timed"),
        (measured(1.0, "s", data="synthetic 9x9x9"), "other data, other machine"),
    ]:
        assert caveat("training time", "dna", HARDWARE, ours) == expected
    error = "classification error", "dna", ""
    assert caveat(*error, measured(8.0, timed=False)) == ""
    assert caveat(*error, measured(8.0, cut=2)) == "ended by the clock"


@module_fixture
def committed():
    """Return the papers' numbers with those of the committed figures."""
    return side_by_side(
        reference.printed(), measurements(collect(CHECKOUT / "figures")[0])
    )


def given_by(command):
    """Return the notebook of a command, and the parameters that it sets."""
    words = shlex.split(command)
    # With --out the committed figures stay.
    assert words[:2] == ["workbench", "figures"] and "--out" in words
    pairs = [words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "-p"]
    return find([words[2]])[0], dict(pairs)


def test_every_number_has_a_command_for_its_own_data_and_setting(committed):
    rows = [
        row for row in committed if row.standing in ("agrees", "undecided", "differs")
    ]
    assert len(rows) > 150
    for row in rows:
        notebook, given = given_by(row.ours.command)
        usual = notebook.values("paper")
        values = notebook.values("paper", given)
        narrowed = any(values[name] != usual[name] for name in given)
        # one number of all runs
        assert narrowed or notebook.name == "ls_recipe", row.ours.command
        assert row.standing != "differs" or row.tried, f"what was tried? {row.names}"
        # which have several data sets
        if notebook.name in ("mrc_tables", "ww_accuracy"):
            assert base(row.ours.data) in {
                text.split(" ")[0] for text in given.values()
            }
        for name, value in re.findall(
            r"(C|delta|features)=([\d.]+)", row.names["setting"]
        ):
            parameter = {"C": "C_grid", "delta": "deltas", "features": "n_features"}[
                name
            ]
            assert str(usual[parameter]) == value or str(values[parameter]) == value


@each(
    "wanted",
    [
        ("5", "letter", "Walrus", "accuracy", "C=0.25 delta=0.009"),
        ("1", "mnist", "Linear", "classification error", "features=4000"),
        ("II", "house16", "SVM-CCG", "average error", ""),
    ],
)
def test_the_command_of_a_number_runs_what_it_is_made_of(
    wanted, committed, tmp_path, no_kernels
):
    """Drawn from the results, the narrowed notebook finds its runs and has the same
    number."""

    def of(rows):
        (row,) = [
            row for row in rows if row.ours and tuple(row.names.values())[1:] == wanted
        ]
        return row.ours

    notebook, given = given_by(of(committed).command)
    # there is always some run
    idle = {"multiclass", "more"} if "multiclass" in given else set()
    given = {name: value for name, value in given.items() if name not in idle}
    assert not make(
        [notebook.name],
        overrides=given,
        results=CHECKOUT / "results",
        figures=tmp_path,
        executed=tmp_path / "ran",
    )
    again = of(side_by_side(reference.printed(), measurements(collect(tmp_path)[0])))
    assert again.number == of(committed).number
    assert again.row["runs"] == of(committed).row["runs"]


def test_every_printed_number_has_one_standing(committed):
    text = (CHECKOUT / "data" / "reference" / "CLAIMS.md").read_text("utf-8")
    found = counts(committed)
    said = f"{found['printed']} distinct numbers, of which {found['settings']} are"
    assert said in text
    for paper in PAPERS:
        found = counts(row for row in committed if row.names["paper"] == paper)
        names = "results, own, agrees, undecided, differs, no claim".split(", ")
        line = f"| {title(paper)} | {' | '.join(str(found[name]) for name in names)} |"
        assert line in text, line
    # A linear program without a result shows what the interior point has.
    wanted = "V", "house16", "MRC-LP", "worst-case error", ""
    (row,) = [row for row in committed if tuple(row.names.values())[1:] == wanted]
    assert row.standing == "no result" and not row.measured
    remark = r"MRC interior point \(ours\) has 0\.28\d* ± 0\.\d+, on the same splits"
    assert any(re.fullmatch(remark, text) for text in row.remarks), row.remarks
    rows = side_by_side(reference.printed(), [])
    found = counts(rows)
    others = found["reprint"] + found["masked"]
    assert sum(found[name] for name in room.STANDINGS) == found["printed"] + others
    assert (found["printed"], found["reprint"]) == (962, 327)
    for row in rows:
        known = row.paper.value is not None or row.printed == "masked"
        assert (row.standing in room.STANDINGS) == known, row.names
    by_names = {
        (row.names["dataset"], row.names["quantity"]): row for row in rows[::-1]
    }
    assert by_names["pulsar", "samples"].standing == "settings"
    assert by_names["pulsar", "samples"].remarks == ["here 17,898"]
    lost = by_names["dmoz", "training time"]
    assert lost.standing == "not reached"
    assert "lshtc.iit.demokritos.gr" in lost.remarks[0]
    assert len(rows) == len(reference.printed())


def write(folder, notebook, name, **record):
    folder = folder / notebook
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (320, 160), "white").save(folder / f"{name}.png")
    usual = {
        "caption": f"The caption of {name}. And more.",
        "profile": "quick",
        "timed": True,
        "machine": {"cpu": "EPYC"},
        "date": "2026-01-01",
    }
    (folder / f"{name}.json").write_text(json.dumps(usual | record))


FIELDS = [*room.KEYS, *"data value unit spread runs reason cut".split()]


def numbers(lines):
    """Return the rows of a sidecar; what is left empty is None."""
    frame = pd.read_csv(io.StringIO(lines), sep="|", names=FIELDS)
    return json.loads(frame.to_json(orient="records"))


MEASURED = """
mrc|II|dna|MRC-CCG|training time||dna|14|s||5||
mrc|II|dna|MRC-CCG|classification error||dna|0.08||0.001|3|fewer rows|
mrc|II|dna|ours|classification error||synthetic 9x9x9|5|%|0.001|3|fewer rows|
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder of figures, one of them with measurements."""
    folder = tmp_path / "figures"
    write(folder, "mrc_tables", "table", numbers=numbers(MEASURED))
    write(folder, "elsewhere", "other")
    write(folder, "elsewhere", "old", timed=False, runs=3, machine=None)
    return folder


def page_of(folder, tmp_path, **options):
    options = {"printed": PRINTED} | options
    report(tmp_path / "r.html", figures=folder, **options)
    return "".join(pages_in(tmp_path).values())


def pages_in(folder):
    return {path.name: path.read_text("utf-8") for path in folder.glob("r*.html")}


def test_the_join_loses_no_number_and_the_page_says_all(folder, tmp_path):
    rows = side_by_side(PRINTED, measurements(collect(folder)[0]))
    assert len(rows) == len(PRINTED) + 1
    by_name = {(r.names["method"], r.names["quantity"]): r for r in rows}
    time = by_name["MRC-CCG", "training time"]
    assert time.verdict[:3] == ("context", "1.9×", "other machine")
    assert by_name["MRC-CCG", "classification error"].verdict.tone == "agrees"
    assert by_name["MRC-SUB", "classification error"].ours is None
    ours = by_name["ours", "classification error"]
    assert ours.paper.value is None and ours.note == "not in print"
    # each with the others of its table
    assert [r.names["table"] for r in rows] == ["II"] * 5 + ["1"]
    assert rows[-1].printed == "masked"
    page = page_of(folder, tmp_path)
    assert 'alt="mrc tables: table' in page and 'alt="elsewhere: old' in page
    assert all(w in page for w in ("not run", "masked", "fewer rows", "other machine"))
    with refuses("figures: there is no folder"):
        page_of(tmp_path / "nowhere", tmp_path)
    (tmp_path / "empty").mkdir()
    assert "There are no figures yet" in page_of(tmp_path / "empty", tmp_path)


MORE = """
mrc|II|letter|SVM-CCG|training time|C=1|letter||s||||
mrc|II|dna|MRC-SUB|classification error||dna|20|%|1|3|other partitions|
sampled_cuts|1|rings|svmlight|test error||rings|0.1|||||
mrc|II|dna|MRC-CCG|training time||dna|20|s||3|other partitions|1
"""


def test_values_are_counted_and_differences_need_a_reason(folder, tmp_path):
    write(folder, "mrc_more", "more", profile="paper", numbers=numbers(MORE))
    rows = side_by_side(PRINTED, measurements(collect(folder)[0]))
    # Of the six rows one is without print, one masked.
    found = {name: count for name, count in counts(rows).items() if count}
    standings = {"agrees": 1, "differs": 1, "no claim": 1, "no result": 1, "masked": 1}
    assert found == {"printed": 4, "results": 4, "own": 3, "alone": 1} | standings
    time = next(
        r for r in rows if r.names["method"] == "MRC-CCG" and r.paper.unit == "s"
    )
    assert time.verdict[:2] == ("context", "ended by the clock"), "no time to compare"
    assert time.shown == "> 20.0 s" and time.printed == "7.2 ± 1 s"
    page = page_of(folder, tmp_path)
    said = "4 distinct numbers in print, 3 of them measured on the paper's own data"
    assert said in unescape(page)
    remarks = [remark for r in rows for remark in r.remarks]
    assert "here other partitions" in remarks
    # of what differs, and of nothing else
    assert remarks.count(room.NOT_EXPLAINED) == 1
    assert "the paper's limits were 200,000 s and 180 GB" in remarks


def test_the_better_of_two_measurements_is_shown(tmp_path):
    row = "mrc|II|DNA|mrc-ccg|classification error||dna|{}|%|0.01|3||"
    for name, profile, value, date in (
        ("a", "smoke", 1.0, "2027"),
        ("b", "quick", 8.02, "2026"),
        ("c", "paper", "nan", "2026"),
    ):
        write(
            tmp_path,
            f"mrc_{name}",
            "x",
            profile=profile,
            date=date,
            numbers=numbers(row.format(value)),
        )
    found = side_by_side(PRINTED, measurements(collect(tmp_path)[0]))[1]
    assert found.ours.number.value == 8.02
    assert found.verdict.tone == "agrees", "spelling does not keep the two apart"


def test_a_bad_sidecar_or_picture_is_one_line_and_left_out(folder, tmp_path, capsys):
    for text, said in (
        ("{", "damaged"),
        ('{"caption": "x", "numbers": [1]}', "'numbers' is not a list of dict"),
        ('{"caption": "x"}', "picture bad.png is missing"),
        ('{"caption": "x", "proofs": ["../../a/x.npz"]}', "not a file of its own"),
        ("<svg>", "picture old.png is not a png"),
    ):
        name = "old.png" if text == "<svg>" else "bad.json"
        (folder / "elsewhere" / name).write_text(text)
        page = page_of(folder, tmp_path)
        *lines, line = capsys.readouterr().out.splitlines()
        assert re.match(r"elsewhere/(bad|old)\.json: left out; ", line) and said in line
        assert len(lines) == (name == "old.png")
        assert line in unescape(page) and "The caption of table" in page


def test_proofs_of_figures_are_verified_as_the_page_is_made(
    folder, tmp_path, monkeypatch
):
    problem = load("iris", test=0.3)
    names = [f"table.proofs/{name}.npz" for name in "good cut gone elsewhere".split()]
    good, cut, _, elsewhere = (folder / "mrc_tables" / name for name in names)
    good.parent.mkdir()
    run("ww_walrus", problem, rounds(50), proof=good)
    cut.write_bytes(good.read_bytes()[:-9])
    object.__setattr__(problem, "recipe", {"panel": "house16", "seed": 0, "test": None})
    run("ww_walrus", problem, rounds(1), proof=elsewhere)
    write(folder, "mrc_tables", "table", proofs=names)
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.setattr(
        "workbench.data.fetch_into_cache", lambda *_: pytest.fail("a download")
    )
    page = unescape(page_of(folder, tmp_path))
    for words in (
        "1 of 4 proofs that figures carry are verified, 2 are <strong>refused</strong>",
        "Weston-Watkins SVM, C=1.0; iris, 105 x 4, 3 classes",
        "1 not verified here",
        "without proof",
        "there is no such file",
        "house16 is not a",
    ):
        assert words in page


def test_pages_lead_to_each_other_and_fit_a_phone(folder, tmp_path, browser):
    write(folder, "mrc_scalability", "scalability")
    pages = {}
    page_of(folder, tmp_path)
    for name, text in pages_in(tmp_path).items():
        pages[name] = {given.get("id") for _, given in Page(text).elements}
    papers = {f"r-{paper}.html" for paper in ("mrc", "sampled_cuts", "across")}
    assert pages.keys() == papers | {"r.html", "r-coverage.html"}
    linked = set()
    for name, text in pages_in(tmp_path).items():
        for _, given in Page(text).elements:
            file, _, anchor = given.get("href", "data:,").partition("#")
            if (file.startswith("r") and file.endswith(".html")) or not file:
                assert not anchor or anchor in pages[file or name], anchor
                linked.add(file)
        browser.get((tmp_path / name).as_uri())
        how = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", how)
        width = "return document.documentElement.scrollWidth"
        assert browser.execute_script(width) <= 420, name
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert linked >= pages.keys()


def test_a_link_filters_the_claims_by_paper_and_verdict(folder, tmp_path, browser):
    page_of(folder, tmp_path)
    claims = read_claims()
    verdict = claims[0].verdict
    shown = """return [...document.querySelectorAll('.claim')]
        .filter(x => x.offsetParent)"""
    for paper, word in (("mrc", ""), ("", verdict), ("mrc", verdict), ("", "")):
        address = (tmp_path / "r.html").as_uri() + f"#c-{token(paper)}-{token(word)}"
        browser.get("about:blank")
        browser.get(address)
        found = [c for c in claims if paper in c.paper and word in c.verdict]
        assert len(browser.execute_script(shown)) == len(found), (paper, word)


def test_the_claims_are_data(folder, tmp_path):
    page_of(folder, tmp_path)
    schema = CHECKOUT / "data" / "reference" / "claims.schema.json"
    schema = json.loads(schema.read_text("utf-8"))
    content = json.loads((tmp_path / "r-claims.json").read_text("utf-8"))
    jsonschema.validate(content, schema)
    claims = {claim.claim: claim for claim in read_claims()}
    assert len(content["claims"]) == len(claims)
    assert schema["$defs"]["claim"]["properties"]["verdict"]["enum"] == list(VERDICTS)
    assert schema["$defs"]["claim"]["properties"].keys() == set(Claim._fields)
    assert schema["$defs"]["cell"]["properties"].keys() == set(Cell._fields)
    cells = (Cell("a", -math.inf, 2.0, 1, "cut"),)
    text = as_data([claim._replace(cells=cells) for claim in claims.values()])
    jsonschema.validate(json.loads(text), schema)
    assert json.loads(text)["claims"][0]["cells"][0]["low"] is None


EVIL = (
    "\"'></script></style><script>alert(1)</script><img src=x onerror=alert(2)><b "
    "id=evil>"
)


class Page(HTMLParser):
    """A page as a browser parses it: its elements, and its text with that of all
    attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.text = ""
        self.handle_data = lambda data: setattr(self, "text", self.text + data)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.text += "".join(value or "" for _, value in attributes)


def hostile(value):
    """Return a sidecar's value with every text in it hostile."""
    if isinstance(value, dict):
        return {key: hostile(v) for key, v in value.items()}
    return [hostile(v) for v in value] if isinstance(value, list) else EVIL + value


def test_nothing_hostile_is_active_in_the_report(tmp_path, capsys):
    place = EVIL.replace("/", "|")  # a file's name cannot hold a slash
    name = f"{place}javascript:alert(3)"
    folder = tmp_path / "figures" / place
    write(folder.parent, place, name)
    row = dict.fromkeys((*room.KEYS, "unit", "reason", "data", "only"), "words")
    texts = "caption command commit date profile".split()
    record = hostile(
        dict.fromkeys(texts, "words")
        | {"data": [{"name": "rows"}], "parameters": {"p": "value"}, "numbers": [row]}
        | {"solvers": [{"solver": "mine"}], "traces": [{"solver": "mine"}]}
    )
    record["parameters"] |= {EVIL: EVIL}
    record["numbers"][0] |= {"value": 1.0, "runs": EVIL}
    (folder / f"{name}.json").write_text(json.dumps(record), "utf-8")
    (folder / "broken.json").write_text(json.dumps({EVIL: EVIL}), "utf-8")
    printed = pd.DataFrame(
        [dict.fromkeys((*room.KEYS, "unit", "hardware", "note"), EVIL)]
    )
    printed["value"], printed["spread"] = 1.0, EVIL
    text = page_of(folder.parent, tmp_path, printed=printed)
    page = Page(text)
    assert capsys.readouterr().out.count("\n") == 1 and not re.search(
        r"@import|url\(", text
    )
    names = {tag for tag, _ in page.elements}
    assert not names & {*"script iframe object embed base svg".split()}
    for _, given in page.elements:
        assert not [a for a in given if a.startswith("on") or a == "srcdoc"]
        assert given != {"id": "evil"}
        address = given.get("href") or given.get("src") or ""
        assert not re.match(r"\s*javascript:|\w+://", address, re.IGNORECASE), address
    assert "default-src 'none'" in next(
        a["content"] for _, a in page.elements if "http-equiv" in a
    )
    assert page.text.count("<script>alert(1)") > 20
