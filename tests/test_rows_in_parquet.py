"""Rows that stay in a folder of Parquet files: those of memory, and faults in one line."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.cli import main
from workbench.core import rows_in_file
from workbench.core.rows_in_file import blocks
from workbench.data import load
from workbench.registry import SOLVERS

N, D = 200, 6


@pytest.fixture
def memory(blobs):
    return blobs(n=N, d=D, k=3, dtype=np.float32)


@pytest.fixture
def folder(memory, tmp_path):
    """Return a folder of three files in row groups of 30, whose labels are between the features."""
    folder = tmp_path / "rows"
    folder.mkdir()
    frame = pd.DataFrame(memory.X, columns=[f"x.{j}" for j in range(D)])
    frame.insert(2, "label", [f"class {c}" for c in memory.y])
    for at, rows in enumerate(np.split(np.arange(N), [70, 71])):
        frame.iloc[rows].to_parquet(folder / f"{at}.parquet", index=False, row_group_size=30)
    return folder


def changed(folder, change, at=0):
    path = folder / f"{at}.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def test_the_rows_are_those_of_memory_and_each_group_is_decoded_once(memory, folder, monkeypatch):
    monkeypatch.setattr(rows_in_file, "BLOCK", 7 * D * 4)
    decoded, read = [], pq.ParquetFile.read_row_group

    def counted(self, group, *rest, **options):
        decoded.append(group)
        return read(self, group, *rest, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    problem = load(folder)
    assert (problem.checksum, problem.name, problem.d) == (memory.checksum, "rows", D)
    assert problem.classes[2] == "class 2" and problem.features[1:3] == ("x.1", "x.2")
    for rows in (slice(None), slice(65, 73), slice(None, None, -1), [0, 1, 0, 69, 70, 71, 199]):
        assert np.array_equal(problem.X[rows], memory.X[rows])
    decoded.clear()
    assert np.array_equal(np.vstack([*blocks(problem.X)]), memory.X)
    assert decoded[::D] == [0, 1, 2, 0, 0, 1, 2, 3, 4]  # column by column
    monkeypatch.chdir(folder)
    sent = pickle.dumps(load("../rows").X)
    monkeypatch.chdir("/")
    elsewhere = pickle.loads(sent)
    with ThreadPoolExecutor(2) as threads:
        starts = [*range(N - 40), *reversed(range(N - 40))]
        for start, found in zip(starts, threads.map(lambda at: elsewhere[at : at + 40], starts)):
            assert np.array_equal(found, memory.X[start : start + 40])


@pytest.mark.parametrize("name", ["ls_stagewise", "mrc_pdhg", "cs_working_set"])
def test_a_solver_has_the_iterates_of_rows_in_memory(name, memory, folder, monkeypatch):
    monkeypatch.setattr(rows_in_file, "BLOCK", 30 * D * 4)
    settings = {"ls_stagewise": {"n_features": 24, "block": 8}, "mrc_pdhg": {"steps": 20}}
    runs = [
        [s.info() for s in islice(SOLVERS[name].steps(p, **settings.get(name, {})), 4)]
        for p in (memory, load(folder, target="label"))
    ]
    for one, other in zip(*runs):
        np.testing.assert_allclose([*other.values()], [*one.values()], rtol=1e-10)


def test_a_label_is_named_or_guessed_as_in_a_table(folder, memory):
    for at in range(3):
        changed(folder, lambda table: table.rename_columns({"label": "kind"}), at)
    assert load(folder, target="kind").checksum == memory.checksum
    with pytest.raises(ValueError, match=r"x\.0 is float, kind is "):  # the label is the last
        load(folder)
    for at in range(3):
        changed(folder, lambda table: table.rename_columns({"kind": "label"}), at)
    changed(folder, lambda table: table.append_column("y", table["label"]))
    with pytest.raises(ValueError, match=r"target: .*0\.parquet has the columns \['label', 'y'\]"):
        load(folder)
    with pytest.raises(ValueError, match=r"target: .*0\.parquet has no column 'z'; it has \['x"):
        load(folder, target="z")
    with pytest.raises(ValueError, match=r"labels: only the rows of \.npy files have labels"):
        load(folder, labels=[0])
    np.save(folder / "a.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"target: only tables .* and folders of \.parquet files"):
        load(folder, target="label")
    assert load(folder, labels=[0, 1]).X.shape == (2, 2)


DOUBLE = pa.schema([(f"x.{j}", pa.float64()) for j in range(D)])
DOUBLE = DOUBLE.insert(2, pa.field("label", pa.large_string()))


def put(name, values):
    return lambda table: table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    "change, message",
    [
        (put("x.4", pa.array([1] * 70)), "all float32 .* x.0 is float, x.4 is int64"),
        (put("x.4", pa.array([1.0] * 70)), "all float32 .* x.0 is float, x.4 is double"),
        (put("x.0", pa.array(["a"] * 70)), "all float32 .* x.1 is float, x.0 is string"),
        (put("x.4", pa.array([None] * 70, pa.float32())), "X: contains NaN"),
        (put("label", pa.array([None] + ["class 1"] * 69)), "y: 1 label is missing"),
        (lambda table: table.select(["label"]), "a label column and features of different names"),
        (lambda table: table.rename_columns([*"abaab", "label", "c"]), "of different names"),
        (
            lambda table: table.select([*table.column_names[1:], "x.0"]),
            "1.parquet: .* not those",
        ),
        (lambda table: table.cast(DOUBLE), "1.parquet: has 6 features of float32, the first has 6"),
        (put("label", pa.array([7] * 70)), "y: mixes labels of types int, str"),
        (lambda table: table.drop_columns("x.5"), "columns are not those of .*0.parquet"),
    ],
)
def test_columns_that_are_no_rows_are_refused(change, message, folder):
    changed(folder, change)
    with pytest.raises(ValueError, match=message) as refused:
        load(folder)
    assert "\n" not in str(refused.value)


def test_files_without_rows_are_left_out_unless_all_are(folder, memory):
    empty = lambda table: table.slice(0, 0)  # noqa: E731
    changed(folder, empty, 1)
    assert len(load(folder).X) == N - 1
    for at in range(3):
        changed(folder, empty, at)
    with pytest.raises(ValueError, match=r"0\.parquet: contains no rows"):
        load(folder)


def test_a_row_group_that_is_too_large_is_refused_with_a_size(folder, monkeypatch):
    monkeypatch.setattr(rows_in_file, "AT_ONCE", 29 * D * 4)
    with pytest.raises(ValueError, match=r"group 0 has 30 rows, at most 29 .* row_group_size=29"):
        load(folder)


def test_a_damaged_file_or_one_that_changes_ends_a_run_in_one_line(folder, capsys):
    problem, path = load(folder), folder / "2.parquet"
    run = ["run", "ls_accelerated", str(folder), "--rows", "--rounds", "2"]
    assert main(run) == 0 and f"n = {N}, d = {D}, k = 3" in capsys.readouterr().out
    for harm in (lambda: os.utime(path, ns=(0, 0)), lambda: os.truncate(path, 2000)):
        harm()
        with pytest.raises(ValueError, match=r"2\.parquet: was cut or has changed while in use"):
            problem.X[100:]
    assert main(run) == 2
    told = capsys.readouterr().err
    assert "2.parquet: cannot be read in row groups; " in told and told.count("\n") == 1
