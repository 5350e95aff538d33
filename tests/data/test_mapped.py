"""Rows in a memory-mapped .npy file: read as an array, without a copy, and refused in
one line."""

import os
import re
import tracemalloc
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from helpers import each, refuses
from helpers.solvers import after

from workbench import SOLVERS, as_problem, load
from workbench.cli import main

N = 200
D = 6


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.npy"


@pytest.fixture
def twins(blobs, path, tmp_path):
    """Return a problem in memory, and the same loaded from a file."""
    given = blobs(n=N, d=D, dtype="f4")
    np.save(path, given.X)
    np.save(tmp_path / "rows.labels.npy", given.classes[given.y])
    return given, load(path)


def test_the_file_is_mapped_and_not_copied(twins, tmp_path, capsys):
    memory, file = twins
    assert isinstance(file.X.base, np.memmap) and not file.X.flags.owndata
    assert file.checksum == memory.checksum
    assert file.classes.tolist() == memory.classes.tolist()
    for name in ("ls_accelerated", "ww_walrus", "memoir_pegasos"):
        one, other = (after(3, name, problem) for problem in twins)
        assert one.info() == other.info()
    path = file.X.base.filename
    assert load(path, test=0.5).X_test.shape[1] == D
    np.save(tmp_path / "y.npy", memory.y == 0)
    more = "--labels", str(tmp_path / "y.npy")
    assert main(["run", "ls_accelerated", "--rounds", "3", str(path), *more]) == 0
    assert f"n = {N}, d = {D}, k = 2" in capsys.readouterr().out
    ones = np.eye(4, 2)  # of other types and orders there is a copy
    for rows in (ones.astype("f2"), ones.astype(">f4"), np.asfortranarray(ones)):
        np.save(tmp_path / "other.npy", rows)
        X = load(tmp_path / "other.npy", labels=[0, 1, 0, 1]).X
        assert np.array_equal(X, rows) and X.flags.c_contiguous and X.dtype.isnative


def test_labels_are_an_array_or_a_file(twins, path, tmp_path):
    memory, file = twins
    labels = memory.classes[memory.y]
    other = tmp_path / "other.npy"
    np.save(other, labels)
    for given in (labels, labels.tolist(), other, str(other)):
        assert load(path, labels=given).checksum == file.checksum
    with refuses("y: has 199 labels for 200 rows"):
        load(path, labels=labels[1:])
    other.write_bytes(b"\x93NUMPY")
    with refuses(r"other.npy: cannot be read as an \.npy file"):
        load(path, labels=other)
    os.remove(tmp_path / "rows.labels.npy")
    with refuses(r"there is no file .*rows\.labels\.npy", FileNotFoundError):
        load(path)


@each(
    "rows, message",
    [
        (np.full((4, 2), np.nan), "X: contains NaN or infinite values"),
        (np.array([[1, {}]], object), "rows.npy: cannot be read as an .npy file"),
        (b"", "rows.npy: cannot be read as an .npy file"),
        (b"PK\3\4", "rows.npy: cannot be read as an .npy file"),
        (np.ones((40, 20)), "rows.npy: cannot be read as an .npy file"),
    ],
)
def test_a_file_without_rows_is_refused(rows, message, path):
    np.save(path, rows, allow_pickle=True)
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    else:
        os.truncate(path, min(path.stat().st_size, 1000))
    with refuses(message) as refused:
        load(path, labels=[0, 1, 0, 1])
    assert "\n" not in str(refused.value)


TABLE = (Path(__file__).parents[2] / "data" / "README.md").read_text("utf-8")
TABLE = TABLE.split("do not copy it whole:")[1].split("Every other solver")[0]
WITHOUT_A_COPY = sorted(set(re.findall(r"`(\w+_\w+)`", TABLE)))
SETTINGS = {
    "ls_stagewise": {"n_features": 64, "block": 32},
    "ls_columns": {"block": 50},
}


@each("name", WITHOUT_A_COPY)
def test_a_solver_does_not_copy_the_rows(name, path, monkeypatch, rng):
    monkeypatch.setattr("workbench.core.blocks.BLOCK_BYTES", 2**18)
    for module in "products block_visits calibrated stagewise".split():
        monkeypatch.setattr(f"workbench.least_squares.{module}.GRAM_ROWS", 256)
    monkeypatch.setattr("workbench.least_squares.block_visits.KEPT_BYTES", 0)
    monkeypatch.setattr("workbench.data.features.SAMPLE", 100)
    y = np.arange(20_000) % 2
    X = rng.standard_normal((20_000, 300), np.float32)
    np.save(path, X)
    steps = SOLVERS[name].steps
    settings = SETTINGS.get("_".join(name.split("_")[:2]), {})
    list(islice(steps(as_problem(X[:99], y[:99]), **settings), 2))  # compiles
    tracemalloc.start()
    list(islice(steps(load(path, labels=y), **settings), 3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2 and len(WITHOUT_A_COPY) >= 10
