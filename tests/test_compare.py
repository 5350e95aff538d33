"""Your own data in one line: messages on bad tables, and code that repeats the result."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from workbench.arena import compare
from workbench.arena.comparison import Comparison
from workbench.arena.contest import COLUMNS
from workbench.arena.entries import ENTRIES
from workbench.arena.own_data import inspected, thinned
from workbench.cli import main
from workbench.data import load
from workbench.runs.notebooks import CHECKOUT

n = 60
rng = np.random.default_rng(0)
KIND = np.array(["oak", "elm", "ash"])[np.arange(n) % 3]
GOOD = pd.DataFrame(
    {
        "height": (np.arange(n) % 3 + rng.normal(0, 0.4, n)).round(3),
        "girth": (np.arange(n) % 3 - rng.normal(0, 0.4, n)).round(3),
        "kind": KIND,
    }
)
HOLES = np.where(np.arange(n) % 20 == 0, np.nan, GOOD["height"])
BARK = np.where(np.arange(n) % 4, "rough", None)
BAD = {
    "no such column": (GOOD, "knd", r"no column 'knd'; did you mean kind\? there are height, gi"),
    "gaps": (
        GOOD.assign(height=HOLES),
        "kind",
        r"height: 3 missing values\. Fill gaps.*--fill \(in Python fill=True\) replaces missing",
    ),
    "infinity": (GOOD.assign(girth=GOOD["girth"] / 0.0), "kind", "girth: 60 infinite values"),
    "numbers as text": (
        GOOD.assign(height=["?", *map(str, GOOD["height"][1:])]),
        "kind",
        r"height: numbers, except for 1 entry such as '\?'",
    ),
    "gaps of all kinds": (
        GOOD.assign(height=HOLES, girth=["?", None, *map(str, GOOD["girth"][2:])], bark=BARK),
        "kind",
        r"height: 3 missing values; girth: numbers, except for 1 entry such as '\?', and 1 missing "
        r"value\. Fill gaps",
    ),
    "commas between thousands": (
        GOOD.assign(girth=["?", *map("{:,.1f}".format, range(990, 1049))]),
        "kind",
        r"girth: 49 numbers with a comma such as '1,000\.0'\. Write numbers with a decimal point",
    ),
    "one class": (GOOD.assign(kind="oak"), "kind", "all rows have the label oak"),
    "a quantity": (GOOD, "height", "different fractional numbers look like a quantity"),
    "names of rows": (GOOD.assign(kind=np.arange(n) * 7), "kind", "60 of 60 classes have one row"),
    "few rows": (GOOD[:9], "kind", "9 labelled rows found; at least 20"),
    "no feature": (GOOD[["kind"]].assign(all=1), "kind", "no feature is left.*same value"),
    "two candidates": (GOOD.assign(label=1, Class=2), None, "label and Class could be"),
    "one column": (GOOD[["kind"]], "kind", "got one column.*is the separator a comma"),
    "uneven": ((GOOD[["height"]], KIND[1:]), None, "has 59 labels for 60 rows"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_is_said_in_plain_words(kind):
    data, target, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        inspected(data, target)


@pytest.mark.parametrize("pack", [".gz", ".bz2", ".xz", ".zip"])
def test_a_damaged_table_is_one_line(pack, tmp_path, capsys):
    path = tmp_path / f"trees.csv{pack}"
    GOOD.to_csv(path, index=False)
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["compare", str(path)]) == 2
    assert f"{path}: cannot be read as a table: " in capsys.readouterr().err
    with pytest.raises(ValueError, match="cannot be read as a table"):
        load(path)


@pytest.mark.parametrize("separator", [",", ";"])
def test_decimal_commas_are_refused_by_name(separator, tmp_path):
    GOOD.to_csv(tmp_path / "trees.csv", index=False, sep=separator, decimal=",")
    said = r"height: 60 numbers with a comma such as '.*'; girth: 60 .*decimal point.*decimal=','"
    with pytest.raises(ValueError, match=said):
        inspected(tmp_path / "trees.csv")


def test_what_can_be_mended_is_mended_and_told(tmp_path):
    frame = GOOD.assign(
        bark=BARK,
        name=[f"tree {i}" for i in range(n)],
        row=range(n),
        planet="earth",
        seen=pd.Timestamp("2020-01-01"),
        native=np.arange(n) % 2 == 0,
    )
    frame.loc[0, "kind"] = None
    frame.loc[1, "kind"] = "yew"
    frame = pd.concat([frame, frame.iloc[[5]]])
    frame.to_parquet(tmp_path / "trees.parquet")
    X, y, features, name, notes = inspected(tmp_path / "trees.parquet", "kind")
    assert name == "trees" and X.shape == (n, 6) and set(y) == {"oak", "elm", "ash", "yew"}
    assert features == ("height", "girth", "bark=missing", "bark=rough", "row", "native")
    said = "\n".join(notes)
    assert "1 row without a label left out" in said and "training alone: class yew" in said
    assert "zeros and ones (number of different texts): bark (2, 14 gaps counted as one)" in said
    assert "name (59 different texts; convert them to numbers" in said
    assert "seen (datetime64" in said and "row (row numbers)" not in said  # 5 comes again
    assert "the same value: planet" in said and "1 row duplicated" in said
    assert "row (row numbers)" in "".join(inspected(frame[1:n], "kind").notes)


def test_a_target_with_other_capitals_or_a_blank_is_taken_and_told():
    frame = GOOD.rename(columns={"kind": "Kind "})
    data = inspected(frame, "kind")
    assert set(data.y) == set(KIND) and data.X.shape == (n, 2)
    assert "the labels are taken from the column 'Kind ', not 'kind'" in data.notes
    both = frame.assign(KIND="a")
    with pytest.raises(ValueError, match="no column 'kind'"):
        inspected(both, "kind")
    assert set(inspected(frame.assign(kind=GOOD["kind"]), "kind").y) == set(KIND)


def test_a_copy_of_the_labels_is_asked_about():
    copies = {"word": pd.Series(KIND).str.upper(), "number": np.arange(n) % 3 - 7.5}
    others = {"finer": np.arange(n) % 6, "coarser": np.arange(n) % 3 == 0}
    frame = GOOD.assign(**copies, **others, once=np.r_[9, np.arange(1, n) % 3])
    *_, note = (note for note in inspected(frame, "kind").notes if "duplicated" not in note)
    assert note.startswith("identifies the label of every row") and note.endswith(": word, number")
    assert inspected(frame, "kind").X.shape[1] == 2 + 3 + 1 + 2 + 1
    long = pd.concat([GOOD.assign(word=KIND)] * 20, ignore_index=True)
    long.loc[len(long) - 1, "kind"] = "elm"
    assert not any("identifies" in note for note in inspected(long, "kind").notes)
    rare = GOOD.assign(kind=np.arange(n) < 4, same=np.arange(n) < 4)  # may well be chance
    assert not any("identifies" in note for note in inspected(rare, "kind").notes)


def test_every_kind_of_data_is_taken(tmp_path):
    GOOD.to_csv(tmp_path / "a.csv.gz", index=False)
    plain = GOOD.drop(columns="kind")
    whole = inspected(tmp_path / "a.csv.gz")
    assert whole.notes == ("the labels are taken from the column 'kind'; set target to change it",)
    pair = inspected((plain.to_numpy(), KIND))
    assert np.array_equal(pair.X, whole.X) and list(pair.y) == list(whole.y) == list(KIND)
    assert np.array_equal(inspected((plain, KIND)).X, whole.X)
    sparse = inspected((sp.csr_matrix(plain.to_numpy()), KIND))
    assert sp.issparse(sparse.X) and np.array_equal(sparse.X.toarray(), whole.X)
    pl = pytest.importorskip("polars")
    assert np.array_equal(inspected(pl.from_pandas(GOOD), "kind").X, whole.X)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        inspected(tmp_path / "b.csv")
    with pytest.raises(ValueError, match="no data set or file is called 'irs'"):
        inspected("irs")


def test_thinning_keeps_every_class_and_is_told():
    y = np.r_[np.zeros(300, int), 1, 2]
    data = inspected((np.random.default_rng(0).normal(size=(302, 2)), y))
    few = thinned(data, 40)
    assert len(few.y) == 40 and set(few.y) == {0, 1, 2}
    assert few.notes[-1].startswith("40 of 302 rows")
    assert thinned(data, 302) is data


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Matches run in this process; a second thread of BLAS would cost short ones their time."""
    with threadpool_limits(1):
        yield


NAMES = ("random_forest", "boosting", "centroid", "mrc_fourier", "ridge")


def here(run, tasks, jobs, mark):
    """The engine's workers, without their start: in this process."""
    yield from map(run, tasks.values())


def cut_off(run, tasks, jobs, mark):
    """The same, and Ctrl-C after the first."""
    yield run(next(iter(tasks.values())))
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A comparison that was cut off after its first match, and how it stood; then the rest."""
    folder = tmp_path_factory.mktemp("own data + more | odd")
    GOOD.assign(**{"<b>": range(n)}).to_csv(folder / "trees.csv", index=False)
    lines = []
    options = {"entries": NAMES, "seconds": 10.0, "jobs": 1, "folder": folder / "arena"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.runs.worker._one_thread", lambda: None)
        patch.setattr("workbench.runs.engine._in_processes", cut_off)
        first = compare(folder / "trees.csv", "kind", **options, say=lines.append)
        stood = first.interrupted, first.table()
        patch.setattr("workbench.runs.engine._in_processes", here)
        second = compare(folder / "trees.csv", "kind", **options, say=lines.append)
    return folder, stood, second, lines


def test_an_interrupted_comparison_keeps_what_it_has(shown):
    _, (interrupted, table), again, lines = shown
    assert interrupted and not again.interrupted
    assert set(table["status"]) == {"done", "not run"} and table["status"][0] == "done"
    kept = [line for line in lines if line.startswith("Random forest") and "first" in line]
    assert len(kept) == 2 and kept[0] == kept[1], "what was done before is told again, not run"
    assert (again.table()["status"] == "done").all()


def test_the_table_tells_the_best_and_its_code_gives_the_same_error(
    shown, tmp_path, capsys, monkeypatch
):
    _, _, done, _ = shown
    table = done.table()
    assert table["test_error"].is_monotonic_increasing and table["tied"][0]
    monkeypatch.chdir(tmp_path)  # the code finds the file from any folder
    new = GOOD[["girth", "height"]][:7]  # other columns' order, no label
    for name in table["entry"]:
        place = {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(done.code(name), place)
            predicted = place["model"].predict(place["data"].encode(new))
        error = table.set_index("entry").loc[name, "test_error"]
        assert capsys.readouterr().out == f"test error: {100 * error:.2f} %\n"
        assert (predicted == KIND[:7]).sum() >= 5
    text, page = str(done), done._repr_html_()
    assert "left out: <b> (row numbers)" in text and done.code() in text
    assert "<b>" not in page and "<svg" in page
    assert ENTRIES["ridge"].label in page and "test error %" in page
    assert "worst case %" in page and "A certified worst case bounds" in text
    done.save(tmp_path / "out")
    names = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert names == {".png", ".svg", ".pdf", ".csv", ".py"}
    assert (tmp_path / "out" / "compare.py").read_text("utf-8") == done.code()
    assert len(pd.read_csv(tmp_path / "out" / "compare.csv")) == len(NAMES)


def test_the_first_answers_are_there_before_the_search(shown):
    lines = shown[3]
    first = [line for line in lines if "first search: test error" in line][1:]  # of the second
    assert [line.partition(" (")[0] for line in first[:2]] == ["Random forest", "Gradient boosting"]
    assert len(first) == 5 and all("(two standard errors)" in line for line in first)
    after = lines[lines.index(first[-1]) + 1 :]
    assert after[0] == "solvers: 5, 1 at a time, 0.4 s of CPU time for each search"
    assert after[1] == "5 points, 5 to run"


class Search(SimpleNamespace):
    """A contest that is done."""

    def run(self, **how):
        return self


def search(wrong, m=1000, budget=1.0):
    """A search whose entries have these test rows wrong, in the order of :data:`SIMPLEST`."""
    rows = []
    for name, places in wrong.items():
        bits = np.isin(np.arange(m), places)
        row = {"entry": name, "label": name, "status": "done", "reason": "", "fit_cpu": 1.0}
        row |= {"test_error": bits.mean(), "standard_error": 0.01, "n_test": m, "settings": ""}
        row |= {"cut": False, "memory_mb": 1.0, "worst_case": np.nan, "family": "", "key": name}
        row |= {"validation_error": 0.1}
        rows.append(row | {"wrong": np.packbits(bits).tobytes().hex()})
    frame = pd.DataFrame(rows, columns=COLUMNS)
    matches = [SimpleNamespace(budget=budget, name=name) for name in wrong or [""]]
    return Search(frame=lambda: frame, matches=matches)


def found(wrong, m=1000):
    return Comparison(inspected(GOOD, "kind"), (search(wrong, m),), "", 0.3)


def test_ties_are_of_the_same_rows_and_the_simplest_of_the_nearest_is_recommended():
    """Of 100 and 110 errors in 1,000 rows, the standard error of one is 9.5."""
    few, apart = np.arange(100), np.arange(200, 310)
    table = found({"libsvm": few, "ridge": np.arange(110)}).table().set_index("entry")
    assert table["excess"]["ridge"] == 0.01 and not table["tied"]["ridge"], "2^-9 < 5 % / 2"
    assert table["excess_error"]["ridge"] == pytest.approx(np.sqrt(10) / 1000)
    further = found({"libsvm": few, "ridge": apart, "centroid": np.arange(200, 325)})
    assert further.table()["tied"].all(), "10 of 210 and 25 of 225 are nothing"
    assert further.recommended == "libsvm", "10 is more than a fiftieth of 100"
    for more, name in ((2, "ridge"), (3, "libsvm")):
        assert found({"libsvm": few, "ridge": np.arange(200, 300 + more)}).recommended == name
    sure = found({"libsvm": np.arange(500), "ridge": np.arange(510)}, 2000)
    assert not sure.table()["tied"].all() and sure.recommended == "libsvm", "10 > sqrt(10)"
    assert "cannot tell most of these methods apart" in "".join(further._sentences())
    assert "cannot tell" not in "".join(
        found({"libsvm": few, "ridge": np.arange(110)})._sentences()
    )
    assert found({"libsvm": few[:0], "ridge": few[:1]}).table()["tied"].all(), "a row is nothing"


RACES = {
    # Of three at the first look, 2^-7 is less than 5 % / 2 / 2, and 2^-6 is more.
    "two tied ones": ({"ridge": 100, "centroid": 107, "libsvm": 108}, [3, 2], "2 tied ones are"),
    "one": ({"ridge": 100, "centroid": 300, "libsvm": 300}, [3, 1], "one is"),
    "all": ({"ridge": 100, "centroid": 100, "libsvm": 107}, [3, 3], ""),
}


@pytest.mark.parametrize("case", RACES)
def test_who_is_surely_worse_is_out_and_the_end_comes_early(case, monkeypatch, tmp_path):
    wrong, sizes, rest = RACES[case]
    planned = []

    def plan(specs, names, *, budget, fit, **settings):
        planned.append((budget, fit))
        return search({name: np.arange(wrong[name]) for name in names}, budget=budget)

    monkeypatch.setattr("workbench.arena.run_comparison.plan", plan)
    options = {"entries": list(wrong), "seconds": 15.0, "jobs": 1, "folder": tmp_path}
    done = compare(GOOD, "kind", **options, say=lambda line: None)
    assert [len(contest.matches) for contest in done.contests] == sizes
    assert planned == [pytest.approx((0.2, 0.2)), pytest.approx((1.0, 0.2))]
    said = " ".join(done._sentences())
    assert done.left == list(wrong)[: sizes[1]] and done.early in said
    assert (f"all but {rest} out." in done.early) if rest else not done.early
    assert ("Out after searches of 0.2 s" in said) == (sizes[1] < 3)


def test_the_code_of_an_entry_that_has_not_ended_is_refused_by_name(shown):
    with pytest.raises(ValueError, match=r"code: 'libsvm' has not finished; finished: .*centroid"):
        shown[2].code("libsvm")
    none = found({})
    assert none.recommended == "" and "no solver finished" in str(none) and none._repr_html_()
    with pytest.raises(ValueError, match="code: '' has not finished; finished: none"):
        none.code()


def test_gaps_are_filled_by_the_medians_of_the_training_rows():
    frame = GOOD.assign(height=HOLES, bark=BARK)
    data = inspected(frame, "kind", fill=True)
    assert np.isnan(data.X).sum() == 3 and "height (3)" in data.notes[-1]
    X, y, X_test, y_test = data.split(0.4)
    rows = data.filled(0.4)
    assert len(X) + len(X_test) == n and set(rows.y) == {*y, *y_test}
    assert set(rows.X[np.isnan(data.X[:, 0]), 0]) == {np.nanmedian(X[:, 0])}
    assert np.array_equal(rows.X[0 == np.isnan(data.X)], data.X[0 == np.isnan(data.X)])
    with pytest.raises(ValueError, match="girth: 60 infinite values"):
        inspected(GOOD.assign(girth=GOOD["girth"] / 0.0), "kind", fill=True)


def test_new_rows_are_encoded_as_the_old(tmp_path):
    data = inspected(GOOD.assign(bark=BARK), "kind")
    assert data.features == ("height", "girth", "bark=missing", "bark=rough")
    new = pd.DataFrame({"bark": ["rough", "smooth", None], "girth": [1, 2, 3], "height": [4, 5, 6]})
    expected = [[4, 1, 0, 1], [5, 2, 0, 0], [6, 3, 1, 0]]
    assert data.encode(new).tolist() == expected
    new.to_csv(tmp_path / "new.csv", index=False)
    assert data.encode(tmp_path / "new.csv").tolist() == expected
    with pytest.raises(ValueError, match="encode: no column for height; there are bark, girth"):
        data.encode(new.drop(columns="height"))
    with pytest.raises(ValueError, match="no column for girth"):
        data.encode(new.assign(girth="wide"))
    with pytest.raises(ValueError, match="have no named columns"):
        inspected((sp.csr_matrix(GOOD[["height"]].to_numpy()), KIND)).encode(new)


def test_a_fit_that_the_clock_cut_is_hollow_and_named(shown, monkeypatch):
    done, table = shown[2], shown[2].table()
    first = table["label"][0]
    cut = pd.Series([True, *[False] * (len(table) - 1)])
    monkeypatch.setattr(Comparison, "table", lambda self: table.assign(cut=cut))
    assert f"perhaps better with more time: {first}.\n" in str(done)
    faces = [bars.lines[0].get_markerfacecolor() for bars in done.figure().axes[0].containers]
    assert [face == "white" for face in faces] == list(cut)
    monkeypatch.setattr(Comparison, "table", lambda self: table.assign(cut=False))
    assert "time limit" not in str(done)


@pytest.fixture
def as_before(shown, monkeypatch):
    """Let what the comparison has done be done for the command line and the notebook, too."""
    monkeypatch.setattr("workbench.arena.run_comparison.SENSIBLE", NAMES)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setenv("WORKBENCH_RUNS", str(shown[0]))
    return shown[0] / "trees.csv"


def test_the_command_line_compares(as_before, capsys, tmp_path):
    command = ["compare", str(as_before), "--target", "kind", "--seconds", "10"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "5 done before, 0 to run" in out and "The code that repeats" in out
    assert (tmp_path / "out" / "compare.pdf").exists()
    assert main(["compare", str(as_before), "--target", "kinds"]) == 2
    assert "did you mean kind?" in capsys.readouterr().err


def test_the_notebook_runs(as_before, execute):
    path, seen = CHECKOUT / "notebooks" / "explore" / "compare.ipynb", {}
    values = {"data": as_before, "target": "kind", "seconds": 10.0}
    ran = execute(path, values, lambda cell, namespace: seen.update(namespace))
    assert seen["done"].recommended in NAMES
    assert any(seen["done"].code() in printed for _, printed, *_ in ran)
