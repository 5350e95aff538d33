"""Loading by name: embedded and generated data sets, splits, the local mirror, the
list."""

import os
import re

import numpy as np
import pandas as pd
import pytest
from helpers import each, refuses
from helpers.problems import X, Y
from scipy.sparse import csr_matrix
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

from workbench import data
from workbench.data.cache import available_files, state_of_folders
from workbench.data.formats import Rows, write_npz
from workbench.data.sources import SOURCES


@pytest.fixture(autouse=True)
def mirror(monkeypatch, tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("WORKBENCH_DATA", str(folder))
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    return folder


@each("name", data.EMBEDDED)
def test_a_data_set_that_needs_no_file(name):
    problem = data.load(name, scale="given")
    shape = problem.n, problem.d, problem.k
    assert shape == data.EMBEDDED[name] and problem.X_test is None
    assert not problem.synthetic
    said = data.check(name)
    assert said.startswith("scikit-learn") and problem.checksum in said
    theirs = getattr(datasets, f"load_{name}")()
    assert (problem.X == theirs.data).all() and problem.features == tuple(
        theirs.feature_names
    )
    assert (problem.classes[problem.y] == theirs.target_names[theirs.target]).all()


def test_synthetic_classes_overlap():
    problem = data.synthetic(2000, 10, 4, seed=1).split(0.5)
    model = LogisticRegression().fit(problem.X, problem.y)
    assert 0.05 < 1 - model.score(problem.X_test, problem.y_test) < 0.4
    assert data.synthetic(seed=1).checksum != data.synthetic(seed=2).checksum
    for wrong, name in (
        ({"n": 3, "k": 5}, "n"),
        ({"n": 9, "k": 1}, "k"),
        ({"n": 9, "d": 0}, "d"),
    ):
        with refuses(f"{name}: must"):
            data.synthetic(**wrong)


def test_a_pair_of_rows_and_labels():
    problem = data.load((X, list("abaabb")), test=0.34, seed=2)
    assert problem.n + len(problem.y_test) == 6
    assert data.load((csr_matrix(X), Y)).is_sparse
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    assert data.load((frame, pd.Series(Y))).features == ("u", "v", "w")


@each(
    "arguments, error, message",
    [
        (
            {"source": "iriss"},
            ValueError,
            "no data set or file is called 'iriss'; .* iris",
        ),
        ({"source": "no/such"}, FileNotFoundError, "there is no file no/such"),
        ({"source": 3}, ValueError, "source: must be a name, a path or a pair"),
        ({"source": (X, Y, X)}, ValueError, r"a pair \(X, y\), got \("),
        ({"source": (X, "rows.csv")}, ValueError, "a pair of files, not one of each"),
        (
            {"source": "iris", "n_features": 4},
            ValueError,
            "n_features: is not an argument",
        ),
        ({"source": "iris", "scale": "tfidf"}, ValueError, "dense"),
        ({"source": "iris", "test": 0.5, "seed": -1}, ValueError, "seed: "),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with refuses(message, error):
        data.load(**arguments)


def test_the_mirror_goes_first_and_any_name_in_it_is_known(mirror):
    write_npz(mirror / "mine.npz", Rows(X.astype("u1"), Y, 4))
    problem = data.load("mine @ given")
    assert problem.name == "mine" and problem.X.dtype == np.float32
    again = data.load("mine", test=0.5)
    assert again.n + len(again.y_test) == 6
    line = data.available()["mine"]
    assert re.match(r"mine +\? x +\? +\? classes +local mirror", line)
    said = "local mirror, 4 rows and 2 test rows, d = 3, k = 2"
    assert data.check("mine").startswith(said)


def test_data_in_a_text_count_by_their_content(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    rows = tmp_path / "rows.csv"
    write_npz(mirror / "mine.npz", Rows(X, Y))

    def changed(path, text):
        path.write_bytes(content := bytes(100))  # then others of equal size and date
        date = path.stat().st_mtime_ns
        before = state_of_folders([text])
        path.write_bytes(content[:-1] + b"1")
        os.utime(path, ns=(date, date))
        return state_of_folders([text]) != before

    assert changed(rows, f"iris, {rows} @ given + constant")
    assert changed(rows, "~/rows.csv | 3 classes")
    (tmp_path / "rows.npy").write_bytes(b"")
    assert changed(tmp_path / "rows.labels.npy", str(tmp_path / "rows.npy"))
    assert changed(mirror / "mine.npz", "mine + 20 fourier")
    assert not changed(tmp_path / "other.csv", str(rows))


def test_only_files_that_can_be_read_are_data_sets(mirror, tmp_path):
    write_npz(tmp_path / "cache" / "mine.npz", Rows(X, Y))
    for name in ("._mine.npz", ".#mine.npz"):
        (mirror / name).write_bytes(b"")
    before = state_of_folders()
    (mirror / "gone.npz").symlink_to("nowhere")
    (mirror / ".#other.npz").symlink_to("ann@host.1:2")
    (mirror / "mine.npz").mkdir()
    os.mkfifo(mirror / "pipe.npz")
    assert available_files() == {"mine": ("cache", tmp_path / "cache" / "mine.npz")}
    assert state_of_folders() == before
    assert data.load("mine").n == 6
    with refuses(r"there is no file .*, only a folder", FileNotFoundError):
        data.load(mirror / "mine.npz")


def test_check_compares_with_the_registry_and_lists_all(mirror):
    lines = data.available()
    assert {*data.EMBEDDED, *SOURCES} == lines.keys()
    assert "download" in lines["letter"] and "20,000" in lines["letter"]
    assert "not available" in lines["omniglot"]
    write_npz(mirror / "pulsar.npz", Rows(X, np.array(["1", "2"])[Y]))
    assert data.load("pulsar").classes.tolist() == ["noise", "pulsar"]
    write_npz(mirror / "letter.npz", Rows(X, Y))
    with refuses(r"rows: 6, published 20000; .*training rows: None, pub"):
        data.check("letter")
    (mirror / "letter.npz").write_bytes(b"PK")
    for name, message in (
        ("letter", r"not an \.npz archive"),
        ("leter", "did you mean letter"),
    ):
        with refuses(message):
            data.check(name)


@each("name", sorted({*SOURCES} & {*available_files()}))
def test_the_real_mirror_and_cache_are_sound(name, monkeypatch):
    monkeypatch.undo()
    assert "intact" in data.check(name)
