"""Files: tables, LIBSVM's format and the workbench's own; whole, damaged and malicious."""

import bz2
import gzip
import lzma
import pickle
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from workbench import data
from workbench.data import formats
from workbench.data.formats import Rows, read_npz, write_npz

X = np.array([[0.5, 0, 2], [0, 1, 0], [3, 0, 0], [0, 4, 0.25], [1, 1, 1], [2, 0, 5]])
Y = np.array([0, 1, 0, 1, 1, 0])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".parquet"])
def test_tables_round_trip(tmp_path, suffix):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=np.arange(6), Class=list("xyxyyx"))
    frame = frame[["a", "Class", "b", "c", "d"]]
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


LAST = "label column 'kind', the last"
MAY_BE_A_ROW = "give header=None if it is, header=0 if these are the names"
SHIFTED = (
    "give index_col=0 if the first column is no feature, header=None if the first line is a row"
)


# What a table is read as: its columns, classes, and words of the line that says so.
@pytest.mark.parametrize(
    "text, features, classes, note",
    [
        # separators, names and what may be no header
        ("a;b;y\n1;2.5;0\n4;5;1\n", "a b", [0, 1], "label column 'y'"),
        ('"a";"b, c";"y"\n"1";"2.5";"0"\n4;5;1\n', "a|b, c", [0, 1], "label column 'y'"),
        ("a,a,y\n1,2.5,0\n4,5,1\n", "a a.1", [0, 1], "label column 'y'"),
        ("1;2.5;0\n4;5;1\n", "", [], MAY_BE_A_ROW),
        ("2019,2020,kind\n1,2.5,u\n4,5,v\n", "", [], MAY_BE_A_ROW),
        # delimiters at the ends of lines, names of rows
        ("label,a,b\nu,1,2.5,\nv,4,5,\n", "a b", ["u", "v"], "at the end of rows makes no column"),
        ("a,b,kind,\n1,2.5,u,\n4,5,v,\n", "a b", ["u", "v"], "an empty column without a name"),
        ("a,b,kind\nr1,1,2.5,u\nr2,4,5,v\n", "a b", ["u", "v"], "names of the rows"),
        ("a,b,y\n1,2,0,9\n1,2,3\n", "", [], SHIFTED),
        (",a,y\n3,1,2\n3,1,3\n", "", [], SHIFTED),
        ("a,y\n1,0\n1,2\n3,2,3\n", "", [], "Expected 2 fields in line 4, saw 3"),
        # blanks, byte order marks, and classes that pandas would take for gaps or numbers
        ("label ,a, b\nu ,1,2.5\n u,4,5\nv,0,0\n", "a b", ["u", "v"], "label column 'label'"),
        ("\ufeff Class\xa0,a,b\nu\xa0,1,2.5\nv,4,5\n", "a b", ["u", "v"], "column 'Class'"),
        ("a,b,kind\n1,2.5,NA\n4,5,EU\n", "a b", ["EU", "NA"], "'NA' is a class, not a gap"),
        ("a,b,kind\n1,2.5,007\n4,5,07\n", "a b", ["007", "07"], LAST),
        ("a,b,kind\n1,2.5,1.0\n4,5,2\n", "a b", [1, 2], LAST),
        ("a,b,y\n1,2.5,9007199254740993\n4,5,9007199254740992\n", "a b", [2**53, 2**53 + 1], "y"),
        ("a,b,kind\n1,2.5,no\n4,5,No\n", "a b", ["No", "no"], "differ in case only are classes"),
        # what is refused, and why
        ("y,label\n1,2\n2,3\n", "", [], "has the columns ['y', 'label']; name the one"),
        ("y,y \n1,2\n2,3\n", "", [], "several columns are called 'y'; give names="),
        ("a,b,y\n1,red,0\n2,blue,1\n", "", [], "features must be numbers; b are not"),
        ("a;b;y\n1,5;2;0\n2,5;3;1\n", "", [], "give decimal=',' if that is a number"),
        ("a,b,y\n1,?,0\n2,5,1\n", "", [], "b contains '?'; give na_values="),
        ("a,y\n1,0\n,1\n3,1\n", "", [], "NaN: 1 gap, 1 of them in the column 'a', first in row 2"),
        ("a,y\n1,0\n1,1\n3,NA\n", "", [], "y: 1 label is missing"),
        ("a,y\n1,u\n2, \n3,v\n", "", [], "y: 1 label is missing"),
        ("a,y\n1,1\n2,1\n", "", [], "y: needs at least two classes"),
        ("y\n1\n2\n", "", [], "needs a label column and a feature"),
        ("a\ty\n1\t0\n2\t1\n", "", [], "are not separated by commas, give sep="),
        ("", "", [], "cannot be read as a table: it is empty"),
        ("größe,y\n1,0\n", "", [], "cannot be read as a table: its text is not UTF-8"),
    ],
)
def test_a_table_is_read_as_it_says_or_refused(tmp_path, text, features, classes, note):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode("latin-1" if "größe" in text else "utf-8"))
    if not features:
        with pytest.raises(ValueError, match=re.escape(note)):
            data.load(path)
        return
    problem = data.load(path)
    assert problem.features == tuple(features.split("|" if "|" in features else " "))
    assert problem.X.tolist()[:2] == [[1, 2.5], [4, 5]]
    assert problem.classes.tolist() == classes
    assert note in problem.about and problem.about.endswith("no gaps")


@pytest.mark.parametrize(
    "text, options",
    [
        ("u,1\nv,4\n", {"header": None}),
        ("u,1\nv,4\n", {"names": ["kind", "a"], "target": "kind"}),
        ("kind|a\nu|1\nv|4\n", {"sep": "|"}),
        ("kind;a\nu;1,0\nv;4,0\n", {"decimal": ","}),
        ("id,kind,a\n7,u,1\n7,v,4\n", {"index_col": 0}),
        ("kind,a,b\nu,1,x\nv,4,y\n", {"usecols": ["kind", "a"]}),
        ("# from a device\nkind,a\nu,1\nv,4\n", {"comment": "#"}),
    ],
)
def test_options_of_pandas_decide(tmp_path, text, options):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    target = {"target": "0" if options.get("header", 0) is None else "kind"}
    for place in (path, str(path)):
        problem = data.load(place, **target | options)
        assert problem.X.tolist() == [[1], [4]] and problem.classes.tolist() == ["u", "v"]
    with pytest.raises(ValueError, match="unexpected keyword argument 'seperator'"):
        data.load(path, seperator=";")
    for wrong, message in (
        ({"labels": [0, 1]}, "labels: only the rows of"),
        ({"target": "z"}, r"target: .* no column 'z'; it has \["),
    ):
        with pytest.raises(ValueError, match=message):
            data.load(path, **options | wrong)
    (tmp_path / "rows.XLSX").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"rows.XLSX: is a spreadsheet; save .* as CSV"):
        data.load(tmp_path / "rows.XLSX")


def test_training_and_test_tables(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,kind\n1,2,u\n3,4,v\n")
    (tmp_path / "b.csv").write_text("b,kind,a\n6,v,5\n")
    problem = data.load((tmp_path / "a.csv", tmp_path / "b.csv"))
    assert problem.X_test.tolist() == [[5, 6]] and problem.y_test.tolist() == [1]
    (tmp_path / "b.csv").write_text("b,kind,c\n6,v,5\n")
    with pytest.raises(ValueError, match=r"have other columns: \['a', 'c'\]"):
        data.load((tmp_path / "a.csv", tmp_path / "b.csv"))


LISTS = "7, 3 1:2 5:1\n9 2:1\n3 1:1 2:2.5 # 1, 2\n12,3,9\n"  # as in the files of LSHTC
LINES = "+1 1:0.5 3:2 \n-1 2:1\n+1 1:3\n-1 2:4 3:0.25 # remark\n"


@pytest.mark.parametrize(
    "name, pack",
    [
        *(("rows.svm", bytes), ("rows", bytes), ("rows.txt.bz2", bz2.compress)),
        *(("rows.svm.gz", gzip.compress), ("rows.svm.xz", lzma.compress)),
    ],
)
def test_libsvm_files(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(LINES.encode()))
    problem = data.load(tmp_path / name)
    assert problem.is_sparse and problem.about == "indices count from 1"
    assert (problem.X.toarray() == X[:4]).all()
    assert problem.classes.tolist() == [-1, 1] and problem.y.tolist() == [1, 0, 1, 0]
    (tmp_path / name).write_bytes(pack(b"1 1:2 2:3\n0.5 1:4\n"))  # mostly full: it becomes dense
    problem = data.load(tmp_path / name)
    assert not problem.is_sparse and problem.classes.tolist() == [0.5, 1]


def test_dialects_of_libsvm_and_several_labels(tmp_path):
    for text in (
        "0 1: 0.5 3:2\n1 2:1\n2 1 :3\n",
        "\ufeff0 1:.5 3:2\n1 2:1\n2 1:3.\n",
        "# by hand\n0 1:  0.5\t3:\t2 # 1: 7\r\n\r\n1 qid:4 2:1\r\n2e0 1:3",
        "0 0:0.5 2:2\n1 1:1\n2 0:3\n",
    ):
        (tmp_path / "rows.txt").write_bytes(text.encode())
        problem = data.load(tmp_path / "rows.txt")
        rows = problem.X.toarray() if problem.is_sparse else problem.X
        assert rows.tolist() == [[0.5, 0, 2], [0, 1, 0], [3, 0, 0]]
        assert problem.classes[problem.y].tolist() == [0, 1, 2]
        assert problem.about == f"indices count from {int(' 0:' not in text)}"
    (tmp_path / "train.txt").write_text(LISTS)  # a line becomes a row for each of its labels
    problem = data.load(tmp_path / "train.txt")
    assert problem.classes[problem.y].tolist() == [3, 7, 9, 3, 3, 9, 12]
    first, other, empty = [2, 0, 0, 0, 1], [1, 2.5, 0, 0, 0], [0] * 5
    assert problem.X.toarray()[[0, 1, 3, 6]].tolist() == [first, first, other, empty]
    assert "2 of 4 lines with several labels are a row for each" in problem.about


def test_widths_and_first_indices_of_libsvm_files(tmp_path):
    one, zero, narrow = (tmp_path / name for name in ("one", "zero", "narrow"))
    one.write_text("0 1:1 4:1\n1 2:1 3:1\n")
    zero.write_text("0 0:1 3:1\n1 1:1\n")
    narrow.write_text("1 2:5\n0 1:7\n")
    assert data.load(narrow, n_features=4).X.toarray().tolist() == [[0, 5, 0, 0], [7, 0, 0, 0]]
    assert data.load(narrow, zero_based=True).d == 3
    with pytest.raises(ValueError, match="has 4 features, more than 3; indices count from 1"):
        data.load(one, n_features=3)
    with pytest.raises(ValueError, match="it has an index 0, and indices were to count from 1"):
        data.load(zero, zero_based=False)
    for files in ((one, narrow), (str(one), str(narrow))):
        problem = data.load(files)
        assert problem.X_test.toarray().tolist() == [[0, 5, 0, 0], [7, 0, 0, 0]]
    assert problem.about.endswith("test rows: indices count from 1, 2 of 4 features occur")
    assert data.load((narrow, one)).d == 4
    # Which base a file without an index 0 has is said, or asked if the files disagree.
    problem = data.load((zero, narrow))
    assert problem.X_test.toarray().tolist() == [[0, 0, 5, 0], [0, 7, 0, 0]]
    assert problem.about.endswith("test rows: indices count from 0, 3 of 4 features occur")
    for files in ((one, zero), (zero, one)):
        with pytest.raises(ValueError, match=r"give zero_based=True if both count from 0, or for"):
            data.load(files)
    both = data.load((zero, one), zero_based=(True, False)).X_test
    assert both.toarray().tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    assert data.load((one, zero), zero_based=True).d == 5


@pytest.mark.parametrize("matrix", [X.astype(np.uint8), X, sp.csr_matrix(X.astype(np.int16))])
def test_npz_round_trip_and_what_is_cut_short(tmp_path, matrix):
    labels = np.array(["no", "yes"])[Y]
    path = tmp_path / "deep" / "rows.npz"
    write_npz(path, Rows(matrix, labels, 4, ("a", "b", "c"), "where from"))
    rows = read_npz(path)
    assert rows.X.dtype == matrix.dtype
    assert (rows.X != matrix).sum() == 0
    assert rows.y.tolist() == labels.tolist()
    assert rows[2:5] == (4, ("a", "b", "c"), "where from")
    problem = data.load(path)
    assert (problem.n, problem.k, problem.about) == (4, 2, "where from")
    assert problem.X_test.shape == (2, 3)
    assert [file.name for file in path.parent.iterdir()] == ["rows.npz"]
    whole = path.read_bytes()
    for keep in (0.2, 0.6, 0.99):
        path.write_bytes(whole[: int(keep * len(whole))])
        with pytest.raises(ValueError, match=r"not an \.npz archive, or cut short"):
            data.load(path)
    write_npz(path, Rows(X, np.array(["10", "-1"])[Y]))  # labels that spell integers
    assert data.load(path).classes.tolist() == [-1, 10]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"a,b\n1,2\n", ""),
        (bz2.compress(b"1 1:2\n" * 99)[:-9], ""),
        (b"1,2 3:x\n2 1:1\n", ""),
        (b"1 2 3:4\n2 1:1\n", ""),
        (b"1 2:1\n 3:1\n", "a line has no label"),
        (b" 1:1\n 2:1\n", "no line with a label"),
        (b"2 3 9\n1 0:1\n2 3:1\n", ""),
        ("1 1:1\n2 2:1\n".encode("utf-16"), "its text is UTF-16; save it again as UTF-8"),
    ],
)
def test_other_files_are_not_taken_for_libsvm(tmp_path, content, message):
    path = tmp_path / ("rows.bz2" if content.startswith(b"BZ") else "rows.svm")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path.name}: cannot be read as LIBSVM.*{message}"):
        data.load(path)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


CSR = {"data": np.ones(2), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 3])}


@pytest.mark.parametrize(
    "parts, message",
    [
        ({"y": Y}, "lacks 'data'"),
        ({"X": X}, "lacks 'y'"),
        ({"X": X, "y": Y[:3]}, "shapes .* do not match"),
        ({"X": X, "y": Y, "labels": np.array(["one"])}, r"y must contain codes 0\.\.0"),
        ({"X": X, "y": Y, "n_train": np.array(6)}, "n_train is 6, there are 6 rows"),
        ({"X": np.ones(6), "y": Y}, "X: must have two dimensions"),
        ({"X": X, "y": np.array(["2020-01-01"] * 6, "M8[D]")}, "y: "),
        ({"X": X, "y": Y, "labels": np.array("one")}, "refused, "),
        ({"X": X, "y": Y, "n_train": np.array(2.5)}, "n_train is 2.5"),
        ({"X": X, "y": Y, "features": np.array("a")}, "refused, "),
        ({"y": Y[:2], "indices": np.array([0.0, 1.0]), **CSR}, "refused, .*indices"),
        ({"y": Y[:2], "indices": np.array([0, 1]), **CSR, "shape": np.array(3)}, "refused, "),
        ({"y": Y[:2], "indices": np.array([0, 3]), **CSR}, "refused, .*indices"),
        ({"y": Y[:2], "indices": np.array([0, -1]), **CSR}, "refused, .*indices"),
    ],
)
def test_archives_at_odds_with_themselves(tmp_path, parts, message):
    np.savez(tmp_path / "rows.npz", **parts)
    with pytest.raises(ValueError, match=message):
        data.load(tmp_path / "rows.npz")


@pytest.mark.parametrize("suffix", ["csv.zip", "npz"])
def test_archives_that_grow_too_large_are_refused_and_so_are_pickles(suffix, tmp_path, monkeypatch):
    path, rows = tmp_path / f"rows.{suffix}", 10**5
    if suffix == "npz":
        np.savez(path, X=X, y=np.array([Bomb()] * 6, object))
        with pytest.raises(ValueError, match=r"rows\.npz: refused, Object arrays cannot be loaded"):
            data.load(path)
        path.write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ValueError, match=r"not an \.npz archive"):
            data.load(path)
        np.savez_compressed(path, X=np.zeros((rows, 2)), y=np.arange(rows) % 2)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("rows.csv", "a,y\n" + "1,1\n1,2\n" * (rows // 2))
    monkeypatch.setattr(formats, "MAX_RATIO", 1)
    assert data.load(path).n == rows
    monkeypatch.setattr(formats, "MAX_BYTES", 10**5)
    with pytest.raises(ValueError, match=rf"rows.{suffix}: .*it unpacks to more than .* GB"):
        data.load(path)
