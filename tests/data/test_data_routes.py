"""The registry, and what its routes make of the published files: miniatures of each."""

import gzip
import struct
import zipfile

import numpy as np
from helpers import each, refuses

from rcv1 import four_classes
from workbench.data.sources import ROUTES, SHA256, SOURCES, Source


def parse(name, *paths):
    return SOURCES[name].parse(paths)


def archive(path, members):
    """Pack these texts, by the names of their files."""
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in members.items():
            packed.writestr(name, text)
    return path


def test_tables_in_archives(tmp_path):
    arff = (
        "@RELATION bean\n% words\n@ATTRIBUTE a REAL\n@DATA\n1,2.5,SEKER\n3,4.125,CALI\n"
    )
    path = archive(tmp_path / "beans.zip", {"folder/Dry_Bean_Dataset.arff": arff})
    rows = parse("dry_bean", path)
    assert rows.X.tolist() == [[1, 2.5], [3, 4.125]]
    assert rows.y.tolist() == ["SEKER", "CALI"]
    with refuses(r"HTRU_2\.csv", KeyError):
        parse("pulsar", path)
    tables = {"sat.trn": "1 2 7\n3 4 5\n", "sat.tst": "5 6 7\n"}
    rows = parse("satimage", archive(tmp_path / "sat.zip", tables))
    assert rows.y.tolist() == [7, 5, 7]
    assert rows.n_train == 4_435 and rows.X.dtype == np.float32
    wheel = {
        "MRCpy/satellite.csv": "2,2,,\n,,\n92,115,3\n84,102,7\n",
        "MRCpy/letter-recognition.csv": "2,1,,\n,,\nT,2,8\nA,4,9\n",
    }
    path = archive(tmp_path / "a.whl", wheel)
    rows = parse("satellite", path)
    assert rows.X.tolist() == [[92, 115], [84, 102]] and rows.y.tolist() == [3, 7]
    rows = parse("letter_uci", path)
    assert rows.X.tolist() == [[2, 8], [4, 9]] and rows.y.tolist() == ["T", "A"]


def test_texts_of_medical_codes(tmp_path):
    terms = (
        "<inclusionTerm><note>cold fever</note><note>swamp fever</note></inclusionTerm>"
    )
    codes = (
        "<name>A00</name><desc>fever</desc><includes><note>no text</note></includes>"
    )
    for i in range(4):
        codes += (
            f"<diag><name>A00.{i}</name><desc>fever "
            f"{'of ' * i}unheard{i}</desc>{terms}</diag>"
        )
    few = "<diag><name>B00</name><desc>rare fever</desc></diag>"
    text = f"<tabular><chapter><diag>{codes}</diag>{few}</chapter></tabular>"
    path = archive(tmp_path / "a.whl", {SOURCES["icd10"].members[0]: text})
    rows = parse("icd10", path)
    assert set(rows.y) == {"A00"} and (len(rows.y), rows.n_train) == (7, 6)
    assert rows.X.shape == (7, 2)  # fever and of
    assert sorted(rows.X.toarray().tolist()) == [[1, 0]] * 4 + [[1, 1], [1, 2], [1, 3]]


TERMS = """format-version: 1.2

[Term]
id: HP:1
name: Cold fever
synonym: "Fever, \\"cold\\"" EXACT []
def: "A fever of the cold." [x]

[Term]
id: HP:2
name: fever
is_obsolete: true

[Term]
id: HP:3
name: Single

[Typedef]
id: of
name: cold of
"""
DISEASES = """#version: 1
database_id\tdisease_name\tqualifier\thpo_id
a\tcold fever\t\tHP:1
a\tcold fever\t\tHP:2
b\tswamp fever\t\tHP:1
b\tswamp fever\tNOT\tHP:2
b\tswamp fever\t\tHP:1
"""


def test_texts_of_an_ontology_and_of_what_is_annotated_with_it(tmp_path):
    texts = {"phenotypes": TERMS, "diseases": DISEASES}
    members = {SOURCES[name].members[0]: text for name, text in texts.items()}
    path = archive(tmp_path / "a.whl", members)
    rows = parse("phenotypes", path)
    assert set(rows.y) == {"HP:1"} and (len(rows.y), rows.n_train) == (3, 2)
    assert rows.X.toarray().tolist() == [[1, 1]] * 3  # cold and fever
    rows = parse("diseases", path)
    assert set(rows.y) == {"HP:1"} and (len(rows.y), rows.n_train) == (2, 1)
    assert rows.X.toarray().tolist() == [[1]] * 2  # fever


def test_planes_of_colour_become_pixels(tmp_path):
    (tmp_path / "rgb").write_text("1 1:1 2:2 3:3 4:4 5:5 6:6\n0 1:7\n")
    rows = Source("", (2, 6, 2), route="libsvm planes").parse([tmp_path / "rgb"])
    assert rows.X.tolist() == [[1, 3, 5, 2, 4, 6], [7, 0, 0, 0, 0, 0]]
    assert rows.n_train is None


def test_idx_files(tmp_path):
    images = np.arange(48, dtype="u1").reshape(3, 4, 4)
    labels = np.array([3, 1, 3], "u1")
    paths = [tmp_path / name for name in SOURCES["mnist"].files]
    for path, a in zip(
        paths, (images[:2], labels[:2], images[2:], labels[2:]), strict=True
    ):
        header = bytes([0, 0, 8, a.ndim]) + struct.pack(f">{a.ndim}I", *a.shape)
        path.write_bytes(gzip.compress(header + a.tobytes()))
    rows = parse("mnist", *paths)
    assert (rows.X == images.reshape(3, 16)).all()
    assert (rows.y.tolist(), rows.n_train) == ([3, 1, 3], 2)
    whole = gzip.decompress(paths[0].read_bytes())
    for broken in (whole[:-1], whole[:3], b"text", b""):
        paths[0].write_bytes(gzip.compress(broken))
        with refuses("not an idx file of bytes, or cut short"):
            parse("mnist", *paths)


def test_features_of_resnet18_in_parts(tmp_path):
    for name, text in (("cats_vs_dogs_resnet18", "a,b,c\n"), ("yearbook_resnet18", "")):
        paths = [
            archive(tmp_path / f"{name}_{i}.csv.zip", {"part.csv": text + rows})
            for i, rows in enumerate(("1.5,2,0\n", "3,4,1\n5,6,0\n"))
        ]
        rows = parse(name, *paths)
        assert rows.X.tolist() == [[1.5, 2], [3, 4], [5, 6]]
        assert rows.X.dtype == np.float32
        assert rows.y.tolist() == [0, 1, 0] and rows.n_train is None


@each("name", SOURCES)
def test_the_registry_is_consistent(name):
    source = SOURCES[name]
    n, _, k = source.shape
    assert n is None or source.n_train is None or 0 < source.n_train < n
    if source.labels is not None:
        assert (np.diff(np.unique(source.labels, return_index=True)[1]) == 1).all()
        assert len(source.labels) == k
    assert source.route in ("", *ROUTES) and bool(source.route) >= bool(source.files)
    for file, url in source.files.items():
        assert url.startswith("https://") or (url.startswith("pip:") and file in SHA256)
        assert file == file.rpartition("/")[2] and " " not in file
    assert not SHA256.keys() - {
        file for source in SOURCES.values() for file in source.files
    }
    assert all(len(bytes.fromhex(digest)) == 32 for digest in SHA256.values())


def test_rcv1s_four_classes_are_stories_of_one_class(tmp_path):
    """Section A.2.2 of least squares revisited, with the folds exchanged."""
    topics = "CCAT 1 1\nC15 1 1\nECAT 2 1\nMCAT 2 1\nGCAT 3 1\nMCAT 4 1\nE11 5 1\n"
    (tmp_path / "rcv1-v2.topics.qrels").write_text(topics)
    stories = {
        "train": ".I 1\n.W\nbank rate\nbank\n\n",
        "test_pt0": ".I 2\n.W\nrate\n\n",
        "test_pt1": ".I 3\n.W\nbank vote\n\n.I 4\n.W\nrate rate\n\n.I 5\n.W\noil\n",
    }
    for part, text in stories.items():
        (tmp_path / f"lyrl2004_tokens_{part}.dat.gz").write_bytes(
            gzip.compress(text.encode())
        )
    X, y, n_train, *_ = four_classes(tmp_path)
    assert y.tolist() == ["GCAT", "MCAT", "CCAT"] and n_train == 2
    assert X.toarray().tolist() == [[1, 0, 1], [0, 2, 0], [2, 1, 0]]  # bank, rate, vote
