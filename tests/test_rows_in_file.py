"""Rows that stay in a file: the same iterates in little memory, and faults in one line."""

import os
import pickle
import tracemalloc
from dataclasses import replace
from itertools import islice

import numpy as np
import psutil
import pytest
from test_solvers import NAMES, SHORT

from workbench.cli import main
from workbench.core import rows_in_file
from workbench.core.measures import errors
from workbench.core.problem import as_problem
from workbench.core.rows_in_file import RowsInFile
from workbench.data import load
from workbench.registry import SOLVERS

IN_BLOCKS = {"ls_generalized", "ls_accelerated", "ls_calibrated", "ls_stagewise", "ls_columns"}
IN_BLOCKS |= {"mrc_ccg", "mrc_subgradient", "mrc_splitting", "mrc_interior_point", "mrc_pdhg"}
IN_BLOCKS |= {"cs_working_set", "memoir_pegasos", "memoir_l2", "memoir_l1"}
IN_BLOCKS |= {"cuts_nystroem"}
SMALL = {"mrc_lp"}  # which says in its own words that a problem of many rows is too large
N, D = 200, 6


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    return request.param


@pytest.fixture
def twins(blobs, tmp_path, monkeypatch):
    """Return a maker of a problem in memory and the same in a file, of blocks of 30 rows."""

    def make(dtype=np.float32, k=3):
        monkeypatch.setattr(rows_in_file, "BLOCK", 30 * D * np.dtype(dtype).itemsize)
        given = blobs(n=N, d=D, k=k, dtype=dtype)
        np.save(tmp_path / "rows.npy", given.X)
        np.save(tmp_path / "rows.labels.npy", given.classes[given.y])
        return replace(given, name="rows.npy"), load(tmp_path / "rows.npy")

    return make


@pytest.mark.parametrize(
    "rows",
    [
        slice(None),
        slice(3, 40),
        slice(190, 999),
        slice(5, 5),
        slice(0, N, 7),
        slice(None, None, -1),
        [4, 5, 6, 0, 199, 4, 4],
        [],
        np.arange(N) % 3 == 1,
    ],
)
def test_an_index_reads_the_rows_of_the_array(rows, dtype, twins):
    memory, file = twins(dtype)
    whole = memory.X[np.asarray(rows, int) if isinstance(rows, list) else rows]
    read = file.X[rows]
    assert read.dtype == dtype and read.flags.owndata and np.array_equal(read, whole)


def test_products_are_those_of_the_array(dtype, twins):
    memory, file = twins(dtype)
    rng = np.random.default_rng(0)
    for W in (rng.normal(size=(D, 3)), rng.normal(size=D).astype(np.float32)):
        product = file.X @ W
        assert product.dtype == (memory.X @ W).dtype
        np.testing.assert_allclose(product, memory.X @ W, rtol=1e-5)
    R = rng.normal(size=(N, 3))
    np.testing.assert_allclose(file.X.T @ R, memory.X.T @ R, rtol=1e-5)


@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        abs,
        list,
        lambda X: X[:, 1],
        lambda X: X[3],
        lambda X: X * 2,
        lambda X: np.ones((2, N)) @ X,
        lambda X: X.astype(float),
        lambda X: np.hstack([X, X]),
        lambda X: X.mean(axis=0),
    ],
)
def test_what_needs_all_rows_in_memory_is_refused(use, twins):
    with pytest.raises(ValueError, match=r"rows stay in .*rows.npy, and this method needs them in"):
        use(twins()[1].X)


def test_one_index_reads_no_more_than_its_limit(twins, monkeypatch):
    _, file = twins()
    monkeypatch.setattr(rows_in_file, "AT_ONCE", 50 * D * 4)
    assert len(file.X[:50]) == 50
    for rows in (slice(51), np.arange(N) < 51):
        with pytest.raises(ValueError, match="needs them in memory"):
            file.X[rows]
    for row in (N, -1):
        with pytest.raises(IndexError, match=f"has 200 rows, asked for row {row}"):
            file.X[[row]]
    assert not hasattr(file.X, "columns")


@pytest.mark.parametrize("name", NAMES)
def test_a_solver_has_the_same_iterates_or_says_that_it_cannot(name, twins):
    memory, file = twins(k=2 if name in ("svm_lp", "svm_ccg") else 3)
    steps, settings = SOLVERS[name].steps, SHORT.get(name, {})
    if name not in IN_BLOCKS | SMALL:
        with pytest.raises(ValueError, match=r"rows stay in .*rows.npy"):
            list(islice(steps(file, **settings), 3))
        return
    runs = [islice(steps(problem, **settings), 4) for problem in (memory, file)]
    for one, other in zip(*runs, strict=True):
        a, b = one.info(), other.info()
        assert list(a) == list(b)
        if name == "cuts_nystroem":  # which computes them again for each pass
            assert a.pop("kernel_values") < b.pop("kernel_values")
        np.testing.assert_allclose([*a.values()], [*b.values()], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one.scores(memory.X), other.scores(file.X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name, settings",
    [
        ("mrc_pdhg", {"steps": 20}),
        ("cs_working_set", {"l1": 0.0}),
        ("cs_working_set", {"threads": 2}),
        ("cs_working_set", {"loss": "weston_watkins", "working_set": 2}),
        ("memoir_pegasos", {"batch_size": 7}),
        ("memoir_l2", {"in_batch": "frozen", "sampling": "balanced", "threads": 2}),
        ("memoir_l2", {"batch_size": 3, "sampling": "passes", "average": True, "bias": True}),
        ("memoir_l2", {"batch_size": 300, "mips": "simple_lsh"}),
        ("memoir_l1", {"batch_size": 70, "dense": False}),
        ("cuts_nystroem", {"landmarks": 30}),
        ("cuts_nystroem", {"landmarks": 9, "stabilised": False, "kernel": "linear"}),
    ],
)
@pytest.mark.parametrize("zeros", [False, True])
def test_sums_of_one_order_are_the_same_bit_for_bit(name, settings, zeros, dtype, twins):
    memory, file = twins(dtype, 5)
    if zeros:
        memory.X[np.random.default_rng(1).random(memory.X.shape) < 0.6] = 0.0
        memory.X[:, 0] += 1.0
        np.save(file.X.path, memory.X)
        file = load(file.X.path)
    steps = SOLVERS[name].steps
    costs = dict.fromkeys(("query_seconds", "build_seconds", "kernel_values"), 0.0)
    for one, other in islice(zip(steps(memory, **settings), steps(file, **settings)), 4):
        assert one.info() | costs == other.info() | costs
        if name.startswith(("memoir", "cs")):
            assert np.array_equal(one.scores(memory.X), other.scores(memory.X))


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("features", ["orthogonal_fourier", "nystroem"])
def test_shares_of_a_file_are_those_of_an_array(features, workers, twins, monkeypatch):
    monkeypatch.setattr("workbench.least_squares.rows.GRAM_ROWS", 16)
    settings = {"features": features, "n_features": 24, "block": 8, "kept": 0}
    memory, file = twins()
    steps = SOLVERS["ls_stagewise"].steps
    one = [(s.primal, s.loss) for s in islice(steps(memory, **settings), 5)]
    other = [(s.primal, s.loss) for s in islice(steps(file, workers=workers, **settings), 5)]
    np.testing.assert_allclose(other, one, rtol=1e-10)


def test_working_rows_that_are_too_many_are_read_again(twins, monkeypatch):
    memory, file = twins()
    few = [s.info() for s in islice(SOLVERS["mrc_splitting"].steps(memory), 8)]
    monkeypatch.setattr(rows_in_file, "AT_ONCE", 31 * (D + 1) * 8)
    all_rows = [s.info() for s in islice(SOLVERS["mrc_splitting"].steps(file), 8)]
    *_, exact = SOLVERS["mrc_ccg"].steps(memory, eps1=0.0, eps2=0.0)
    for one, other in zip(few, all_rows):
        assert other["lower"] - 1e-9 <= exact.upper and exact.lower <= other["upper"] + 1e-9
        assert other["upper"] == pytest.approx(one["upper"], rel=0.05)
    assert all_rows[-1]["gap"] < 0.05


def test_a_problem_of_rows_in_a_file_has_all_that_others_have(dtype, twins):
    memory, file = twins(dtype)
    assert file.checksum == memory.checksum and file.classes.tolist() == memory.classes.tolist()
    for few, other in ((file.tiny(), memory.tiny()), (file.subset(0.1), memory.subset(0.1))):
        assert isinstance(few.X, np.ndarray) and np.array_equal(few.X, other.X)
    state = next(islice(SOLVERS["ls_accelerated"].steps(memory), 5, None))
    assert errors(file)(state) == errors(memory)(state)
    assert state.scores(file.X).shape == (N, 3)


def test_labels_are_an_array_or_a_file(twins, tmp_path):
    memory, file = twins()
    path, labels = tmp_path / "rows.npy", memory.classes[memory.y]
    np.save(tmp_path / "other.npy", labels)
    for given in (labels, labels.tolist(), tmp_path / "other.npy", str(tmp_path / "other.npy")):
        assert load(path, labels=given).checksum == file.checksum
    with pytest.raises(ValueError, match="y: has 199 labels for 200 rows"):
        load(path, labels=labels[1:])
    with pytest.raises(ValueError, match=r"labels: only the rows of \.npy files"):
        load("iris", labels=labels)
    (tmp_path / "other.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"other.npy: cannot be read as an \.npy file"):
        load(path, labels=tmp_path / "other.npy")
    os.remove(tmp_path / "rows.labels.npy")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*rows\.labels\.npy"):
        load(path)


def in_folder(memory, folder, cuts=(1, 90, 95)):
    """Write the rows and labels of a problem as the files of a folder."""
    folder.mkdir()
    for at, rows in enumerate(np.split(np.arange(memory.n), cuts)):
        np.save(folder / f"{at}.npy", memory.X[rows])
        np.save(folder / f"{at}.labels.npy", memory.classes[memory.y[rows]])
    return folder


@pytest.mark.parametrize("name", ["ls_accelerated", "mrc_pdhg", "cs_working_set"])
def test_the_files_of_a_folder_are_one_problem(name, dtype, twins, tmp_path):
    memory, file = twins(dtype)
    folder = in_folder(memory, tmp_path / "rows")
    problem, labels = load(folder), memory.classes[memory.y]
    assert problem.checksum == load(folder, labels=labels).checksum == memory.checksum
    for rows in (slice(None), slice(88, 97), slice(None, None, -1), [0, 1, 0, 89, 90, 94, 95, 199]):
        assert np.array_equal(problem.X[rows], file.X[rows])
    one, other = (
        next(islice(SOLVERS[name].steps(p, **SHORT.get(name, {})), 3, None))
        for p in (file, problem)
    )
    assert one.info() == other.info()
    os.remove(folder / "2.labels.npy")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*2\.labels\.npy"):
        load(folder)
    cut_off(folder / "3.npy")
    with pytest.raises(ValueError, match=r"rows.3\.npy: was cut or has changed while in use; load"):
        problem.X[95:]


def test_a_folder_without_rows_or_of_unequal_rows_is_refused(twins, tmp_path):
    folder = in_folder(twins()[0], tmp_path / "rows")
    for X in (np.ones((5, D + 1), np.float32), np.ones((5, D))):
        np.save(folder / "2.npy", X)
        with pytest.raises(ValueError, match=r"2\.npy: has \d features of .*, the first has"):
            load(folder)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"none contains neither \.npy nor \.parquet files; conv"):
        load(tmp_path / "none")


@pytest.mark.parametrize(
    "rows, message",
    [
        (np.zeros((4, 2), np.float16), "must contain rows of float32 or float64 in C order, got"),
        (np.zeros((4, 2), ">f4"), "must contain rows of float32"),
        (np.zeros(4), r"of shape \(4,\)"),
        (np.zeros((4, 0)), r"got float64 of shape \(4, 0\)"),
        (np.asfortranarray(np.ones((4, 2))), "in C order"),
        (np.array([[1, {}]], object), "cannot be read as an .npy file"),
        (b"", "cannot be read as an .npy file"),
        (b"PK\x03\x04", "cannot be read as an .npy file"),
        ("cut", "cannot be read as an .npy file"),
    ],
)
def test_a_file_that_is_no_such_array_is_refused(rows, message, tmp_path):
    path = tmp_path / "rows.npy"
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    else:
        np.save(path, np.ones((40, 20)) if isinstance(rows, str) else rows, allow_pickle=True)
    if isinstance(rows, str):
        os.truncate(path, 1000)
    with pytest.raises(ValueError, match=message) as refused:
        load(path, labels=[0, 1, 0, 1])
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


@pytest.mark.parametrize("value, message", [(np.nan, "NaN or infinite"), (1e20, "beyond 1e")])
def test_values_of_the_last_block_are_checked(value, message, twins, tmp_path):
    memory, _ = twins()
    memory.X[-1, -1] = value
    np.save(tmp_path / "rows.npy", memory.X)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "rows.npy")
    memory.X[:, 1] = 1e-25
    memory.X[-1, -1] = 0.0
    with pytest.raises(ValueError, match="column 1 contains no value beyond 1e-25"):
        as_problem(memory.X, memory.y)


def cut_off(path):
    os.truncate(path, os.path.getsize(path) // 2)


def written_to(path):
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\0")
    os.utime(path, ns=(0, 0))  # a date that it did not have, however coarse the clock


@pytest.mark.parametrize("harm", [cut_off, written_to])
@pytest.mark.parametrize("name", sorted(IN_BLOCKS))
def test_a_file_that_changes_under_a_run_ends_it_in_one_line(name, harm, twins):
    _, file = twins()
    steps = SOLVERS[name].steps(file, **SHORT.get(name, {}))
    state = next(steps)
    before = state.info()
    harm(file.X.path)
    with pytest.raises(ValueError, match=r"rows\.npy: was cut or has changed while in use; load"):
        list(islice(steps, 2))
    after = state.info()
    for name in {"steps", "norm", "nonzeros", "active"} & set(after):
        del before[name], after[name]  # of weights that a row has changed since
    assert after == before


def test_another_process_finds_the_file_from_another_folder(twins, tmp_path, monkeypatch):
    memory, _ = twins()
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(load("rows.npy").X)
    monkeypatch.chdir("/")
    assert np.array_equal(pickle.loads(sent)[:], memory.X)


def test_a_file_that_is_replaced_is_still_the_one_that_was_opened(twins, tmp_path):
    memory, file = twins()
    np.save(tmp_path / "new.npy", 2 * memory.X)
    os.replace(tmp_path / "new.npy", file.X.path)
    assert np.array_equal(file.X[:], memory.X)
    assert RowsInFile(file.X.path)[:1].tolist() == (2 * memory.X[:1]).tolist()


@pytest.mark.parametrize("name", sorted(IN_BLOCKS))
def test_a_run_takes_a_fraction_of_the_memory_of_its_rows(name, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_in_file, "BLOCK", 2**18)
    for module in ("products", "rows", "calibrated", "stagewise"):
        monkeypatch.setattr(f"workbench.least_squares.{module}.GRAM_ROWS", 256)
    monkeypatch.setattr("workbench.data.features.SAMPLE", 100)
    monkeypatch.setattr("workbench.memoir.mips.oracle.BLOCK_BYTES", 2**18)
    monkeypatch.setattr(rows_in_file, "AT_ONCE", 2**20)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 300), np.float32)
    np.save(tmp_path / "rows.npy", X)
    settings = {
        "ls_stagewise": {"n_features": 64, "block": 32, "kept": 0},
        "ls_columns": {"block": 50, "kept": 0},
        "mrc_ccg": {"n_max": 20},
        "mrc_subgradient": {"steps": 2},
        "mrc_splitting": {"steps": 2},
        "mrc_pdhg": {"steps": 2},
        "cuts_nystroem": {"landmarks": 20},
    }.get(name, {})
    list(islice(SOLVERS[name].steps(as_problem(X[:999], np.arange(999) % 2), **settings), 2))
    tracemalloc.start()
    problem = load(tmp_path / "rows.npy", labels=np.arange(20_000) % 2)
    list(islice(SOLVERS[name].steps(problem, **settings), 3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 4


def test_the_command_line_runs_on_a_file_and_reports_its_faults(twins, capsys):
    _, file = twins()
    run = ["run", "ls_accelerated", file.X.path, "--rounds", "3"]
    assert main(run) == 0 and "train_error" in capsys.readouterr().out
    assert main(["run", "ww_walrus", file.X.path]) == 2
    assert "needs them in memory" in capsys.readouterr().err
    cut_off(file.X.path)
    assert main(run) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_line_takes_a_folder_its_labels_and_a_limit_of_memory(twins, tmp_path, capsys):
    memory, _ = twins()
    folder, labels = in_folder(memory, tmp_path / "rows"), tmp_path / "y.npy"
    np.save(labels, memory.y == 0)
    run = ["run", "ls_accelerated", "--rounds", "3", "--rows", str(folder)]
    for more, k in ([], 3), (["--labels", str(labels), "--memory", "900MB"], 2):
        assert main([*run, *more]) == 0
        told = capsys.readouterr().out
        assert f"n = {N}, d = {D}, k = {k}" in told and "train_error" in told
    assert main(["run", "ls_accelerated", "--rows", "iris"]) == 2
    told = capsys.readouterr().err
    assert "--rows: must be an .npy file, or a folder of .npy or .parquet files, got iris" in told


@pytest.mark.skipif(not psutil.LINUX, reason="no such limit elsewhere")
def test_a_run_that_needs_more_memory_says_how_much(capsys):
    assert main(["run", "cuts_exact", "synthetic_10k", "--memory", "0.1GB"]) == 2
    told = capsys.readouterr().err
    assert "workbench: out of memory; Unable to allocate" in told and told.count("\n") == 1
