"""Files: tables, LIBSVM's format and the workbench's own; whole, damaged and
malicious."""

import bz2
import errno
import re

import numpy as np
import pandas as pd
from helpers import each, refuses
from helpers.problems import X, Y
from scipy.sparse import csr_matrix

from workbench import data
from workbench.core.matrices import as_dense
from workbench.data import formats
from workbench.data.formats import Rows, read_npz, write_npz


@each("suffix", ".csv .tsv .csv.gz .csv.bz2 .csv.xz .parquet".split())
def test_tables_round_trip(tmp_path, suffix):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        d=np.arange(6), Class=list("xyxyyx")
    )
    frame = frame["a Class b c d".split()]
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    problem = data.load(path)
    assert problem.features == ("a", "b", "c", "d")
    assert problem.classes.tolist() == ["x", "y"]
    assert (problem.X == np.column_stack([X, np.arange(6)])).all()
    assert data.load(str(path)).checksum == problem.checksum


# What a table is read as: its columns and classes, and a note.
@each(
    "text, features, classes, note",
    [
        ("a,a,y\n1,2.5,0\n4,5,1\n", "a a.1", [0, 1], "label column 'y'"),
        (
            "label ,a, b\nu,1,2.5\nv,4,5\nv,0,0\n",
            "a b",
            ["u", "v"],
            "2 classes: v 2, u 1; always",
        ),
        (
            "\ufeffClass,a,b\nu,1,2.5\nv,4,5\n",
            "a b",
            ["u", "v"],
            "u has an error of 50.0 %",
        ),
        ("a,b,kind\n1,2.5,1.0\n4,5,2\n", "a b", [1, 2], "label column 'kind'"),
        (
            "a,b,y\n1,2.5,9007199254740993\n4,5,9007199254740992\n",
            "a b",
            [2**53, 2**53 + 1],
            "y",
        ),
        (
            "a,b,y\n1,2.5,no\n4,5,No \n0,0,yes\n",
            "a b",
            ["No ", "no", "yes"],
            "labels that differ only in case or blanks are separate classes: ['No ', "
            "'no']",
        ),
        ("a,b,y\n1,2.5,01\n4,5,1\n", "a b", ["01", "1"], "2 classes: 01 1, 1 1"),
        ("a,b,y\n1,2.5,2.50\n4,5,2.5\n", "a b", ["2.5", "2.50"], "y"),
        ("a,b,y\n1,2.5,1_0\n4,5,10\n", "a b", ["10", "1_0"], "y"),
        ("a,b,y\n1,2.5,FALSE\n4,5,TRUE\n", "a b", ["FALSE", "TRUE"], "y"),
        (f"a,b,y\n1,2.5,{'9' * 20}\n4,5,7\n", "a b", ["7", "9" * 20], "y"),
        ("a,b,y\n1,2.5,+1\n4,5,-1 \n", "a b", [-1, 1], "y"),
    ],
)
def test_a_table_is_read_as_it_says(tmp_path, text, features, classes, note):
    (tmp_path / "rows.csv").write_text(text, "utf-8")
    problem = data.load(tmp_path / "rows.csv")
    assert problem.features == tuple(features.split())
    assert problem.X.tolist()[:2] == [[1, 2.5], [4, 5]]
    assert problem.classes.tolist() == classes and note in problem.about


NO_TABLES = {
    "y,b,y\n1,2.5,2\n4,5,3\n": "two columns are called 'y'; give usecols= or names=",
    "2019,2020,kind\n1,2.5,u\n4,5,v\n": "may be a row; give header=None or header=0",
    ",a,y\n3,1,2\n3,1,3\n": "a column has no name; give index_col=0",
    "a,b,y\n1,2,0,9\n1,2,3,9\n": "a row has more values than there are names",
    "a,y\n1,0\n1,2\n3,2,3\n": "Expected 2 fields in line 4, saw 3",
    "y,label\n1,2\n2,3\n": "has the columns ['y', 'label']; name the one",
    "y,y \n1,2\n2,3\n": "columns must have different names",
    "a,b,y\n1,red,0\n2,blue,1\n": "column 'b': 2 of 2 values are not, most often",
    "a;b;y\n1,5;2;0\n2,5;3;1\n": "give sep=",
    'a,b,y\n"1,5",2,0\n"2,5",3,1\n': "give decimal=',' or thousands=','",
    "a,y\n1,0\n,1\n3,1\n": "NaN: 1 of 3 values of column 'a' are missing; fill them",
    "y\n1\n2\n": "needs a label column and a feature",
    "": "cannot be read as a table: No columns to parse",
    "größe,y\n1,0\n": "cannot be read as a table: 'utf-8' codec can't decode",
}
NO_TABLES["a,b,y\n1,?,0\n2,5,1\n3,?,1\n0,0,0\n5,5,0\n"] = (
    "'b': 2 of 5 values are not, most often '?'; give na_values='?' if that is a gap"
)
for gap in ("NA", "null", "None", "nan", ""):
    said = f"{gap!r}; fill them, or give keep_default_na="
    NO_TABLES[f"a,y\n1,0\n1,1\n3,{gap}\n"] = said


@each("text", NO_TABLES)
def test_a_table_that_cannot_be_read_is_refused(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode("latin-1" if "größe" in text else "utf-8"))
    with refuses(re.escape(NO_TABLES[text])):
        data.load(path)


@each(
    "text, options",
    [
        ("u,1\nv,4\n", {"header": None}),
        ("u,1\nv,4\n", {"names": ["kind", "a"], "target": "kind"}),
        ("kind;a\nu;1,0\nv;4,0\n", {"decimal": ",", "sep": ";"}),
        ("id,kind,a\n7,u,1\n8,v,4\n", {"index_col": 0}),
        ("kind,a\nu,1\nu,?\nv,4\n", {"na_values": "?"}),
        ("a,kind\n1,u\n4,v\n", {"chunksize": 1}),
        ("a;;kind\n1;;u\n4;;v\n", {"sep": ";;"}),
        ("kind,a,ö\nu,1,2\nv,4,3\n", {"encoding": "latin-1", "usecols": [0, 1]}),
    ],
)
def test_options_of_pandas_decide(tmp_path, text, options):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode(options.get("encoding", "utf-8")))
    target = {"target": "0" if options.get("header", 0) is None else "kind"}
    for place in (path, str(path)):
        problem = data.load(place, **target | options)
        assert problem.X.tolist() == [[1], [4]]
        assert [*problem.classes] == ["u", "v"]
        assert ("1 of 3 rows have gaps" in problem.about) == ("na_values" in options)
    for wrong, message in (
        ({"seperator": ";"}, "unexpected keyword argument 'seperator'"),
        ({"labels": [0, 1]}, "labels: is not an argument of load for rows.csv"),
        ({"target": "z"}, r"target: .* no column 'z'; it has \["),
    ):
        with refuses(message):
            data.load(path, **options | wrong)


@each(
    "common, rare, options",
    [
        ("001", "V01", {}),
        ("001", "1", {"dtype": {"kind": "category"}}),
        ("250.00", "E8", {}),
        ("TRUE", "UNKNOWN", {}),
    ],
)
def test_no_type_is_guessed_for_a_part_of_the_labels(tmp_path, common, rare, options):
    """pandas reads 512 such rows at a time, and guesses a type for each chunk of a
    column."""
    labels = [common] * 1000 + [rare] * 40
    features = ",".join("0" * 2100)
    names = ",".join(f"f{j}" for j in range(2100))
    lines = [f"{names},kind", *(f"{features},{label}" for label in labels)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    problem = data.load(tmp_path / "rows.csv", **options)
    assert problem.classes[problem.y].tolist() == labels


def test_training_and_test_tables(tmp_path):
    pair = tmp_path / "a.csv", tmp_path / "b.csv"
    pair[0].write_text("a,b,kind\n1,2,01\n3,4,V1\n3,4,2\n")
    pair[1].write_text("a,b,kind\n5,6,01\n5,6,2\n")
    problem = data.load(pair)
    assert problem.X_test.tolist() == [[5, 6]] * 2
    assert problem.classes[problem.y_test].tolist() == ["01", "2"]
    pair[1].write_text("b,a,kind\n6,5,V1\n")
    with refuses(r"b\.csv: must have the same columns in the same order"):
        data.load(pair)


@each("names", [(1, 2, 0), (1.5, 2.5, 0.5), ("", "Unnamed: 0", "y")])
def test_a_parquet_table_may_have_any_names(tmp_path, names):
    labels = np.array([b"01", b"1"])[Y]
    path = tmp_path / "rows.parquet"
    pd.DataFrame({names[0]: X[:, 0], names[1]: X[:, 1], names[2]: labels}).to_parquet(
        path
    )
    for options in ({}, {"target": names[2]}):
        problem = data.load(path, **options)
        assert problem.features == tuple(map(str, names[:2]))
        assert (problem.classes[problem.y] == np.array(["01", "1"])[Y]).all()


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with refuses(r"No space left on device: '.*/rows\.npz'", OSError):
        write_npz(tmp_path / "rows.npz", Rows(X, Y))
    assert not [*tmp_path.iterdir()]


LINES = "+1 1:0.5 3:2 \n-1 2:1\n+1 1:3\n-1 2:4 3:0.25 # remark\n"


@each("name, pack", [("rows", bytes), ("rows.txt.bz2", bz2.compress)])
@each("lines", [LINES, LINES.replace(":", ": \t"), f"\ufeff{LINES}"])
def test_libsvm_files(tmp_path, name, pack, lines):
    path = tmp_path / name
    path.write_bytes(pack(lines.encode()))
    problem = data.load(path)
    assert problem.is_sparse and (problem.X.toarray() == X[:4]).all()
    assert problem.classes.tolist() == [-1, 1] and problem.y.tolist() == [1, 0, 1, 0]
    assert data.load(path, n_features=5).d == 5
    assert data.load(path, zero_based=True).d == 4
    other = tmp_path / "test"
    other.write_text("-1 1:2\n")
    problem = data.load((str(path), str(other)))
    assert problem.X_test.toarray().tolist() == [[2, 0, 0]]
    assert problem.y_test.tolist() == [0]
    path.write_bytes(pack(b"1 1:2 2:3\n0.5 1:4\n"))  # mostly full: it becomes dense
    problem = data.load(path)
    assert not problem.is_sparse and problem.classes.tolist() == [0.5, 1]


@each("comma", [",", ", "])
def test_a_row_of_several_labels_is_a_row_for_each(tmp_path, comma):
    path = tmp_path / "rows"
    path.write_text("3,1,12 1:2 3:1\n 2:5\n1 3:4\n".replace(",", comma))
    problem = data.load(path, multilabel=True)
    assert problem.classes[problem.y].tolist() == [1, 3, 12, 1]
    assert as_dense(problem.X).tolist() == [[2, 0, 1], [2, 0, 1], [2, 0, 1], [0, 0, 4]]
    with refuses("cannot be read as LIBSVM's format"):
        data.load(path)


@each("matrix", [X.astype("u1"), X, csr_matrix(X.astype("i2"))])
def test_npz_round_trip_and_what_is_cut_short(tmp_path, matrix):
    labels = np.array(["no", "yes"])[Y]
    path = tmp_path / "deep" / "rows.npz"
    write_npz(path, Rows(matrix, labels, 4, ("a", "b", "c"), "where from"))
    rows = read_npz(path)
    assert rows.X.dtype == matrix.dtype
    assert (rows.X != matrix).sum() == 0
    assert rows.y.tolist() == labels.tolist()
    assert rows[2:5] == (4, ("a", "b", "c"), "where from")
    upper = path.rename(path.with_suffix(".NPZ"))
    problem = data.load(upper)
    assert (problem.n, problem.k, problem.about) == (4, 2, "where from")
    assert problem.X_test.shape == (2, 3)
    upper.write_bytes(upper.read_bytes()[:-9])
    with refuses(r"not an \.npz archive, or cut short"):
        data.load(upper)
    write_npz(path, Rows(X, np.array(["10", "-1"])[Y]))  # labels that spell integers
    assert data.load(path).classes.tolist() == [-1, 10]
    for synthetic in (False, True):
        np.savez(path, X=X, y=Y, synthetic=synthetic)
        assert data.load(path).synthetic is synthetic


@each("content", [b"a,b\n1,2\n", bz2.compress(b"1 1:2\n" * 99)[:-9], b"1 2:1\n 3:1\n"])
def test_other_files_are_not_taken_for_libsvm(tmp_path, content):
    path = tmp_path / ("rows.bz2" if content.startswith(b"BZ") else "rows.svm")
    path.write_bytes(content)
    with refuses(f"{path.name}: cannot be read as LIBSVM"):
        data.load(path)


DENSE = {"X": X, "y": Y}
CSR = {"data": [1.0, 1.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 3]}
CSR |= {"y": Y[:2]}


@each(
    "parts, message",
    [
        ({"y": Y}, "lacks 'data'"),
        (DENSE | {"y": Y[:3]}, "shapes .* do not match"),
        (DENSE | {"labels": ["one"]}, r"y must contain codes 0\.\.0"),
        (DENSE | {"n_train": 6}, "n_train must be above 0 and below the 6 rows"),
        (DENSE | {"X": np.ones(6)}, "X: must have two dimensions"),
        (DENSE | {"y": np.array(["2020-01-01"] * 6, "M8[D]")}, "y: "),
        (DENSE | {"labels": "one"}, "refused, "),
        (DENSE | {"n_train": 2.5}, "refused, only integer"),
        (DENSE | {"features": "a"}, "refused, "),
        (CSR | {"indices": [0.0, 1.0]}, "refused, .*indices"),
        (CSR | {"shape": 3}, "refused, "),
        (CSR | {"indices": [0, 3]}, "refused, .*ind(ices|ex)"),
    ],
)
def test_archives_at_odds_with_themselves(tmp_path, parts, message):
    np.savez(tmp_path / "rows.npz", **parts)
    with refuses(message):
        data.load(tmp_path / "rows.npz")


def test_archives_too_large_or_with_objects_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.npz"
    rows = 10**5
    np.savez(path, X=X, y=np.array([{}] * 6, object))
    with refuses(r"rows\.npz: refused, Object arrays cannot be loaded"):
        data.load(path)
    np.savez_compressed(path, X=np.zeros((rows, 2)), y=np.arange(rows) % 2)
    monkeypatch.setattr(formats, "MAX_RATIO", 1)
    assert data.load(path).n == rows
    monkeypatch.setattr(formats, "MAX_BYTES", 10**5)
    with refuses(r"rows.npz: .*it unpacks to 0.0\d+ GB or more, above the limit of"):
        data.load(path)


@each("kind", formats.OPENERS)
@each("name, line", [("rows.csv", b"1,2,a\n"), ("rows.libsvm", b"1 1:2\n")])
def test_packed_files_are_unpacked_up_to_a_limit(
    tmp_path, monkeypatch, kind, name, line
):
    path = tmp_path / (name + kind)
    with formats.OPENERS[kind](path, "wb") as file:
        file.write(line * 10**5)
    assert path.stat().st_size < 10**4
    monkeypatch.setattr(formats, "MAX_BYTES", 10**5)
    with refuses(rf"{name}{kind}: .*it unpacks to .* GB or more, above the limit of"):
        data.load(path)
