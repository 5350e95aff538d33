"""Data sets and lists as text: what notebooks, sweeps and dashboards take as
parameters."""

from pathlib import Path

import numpy as np
import pytest
from helpers import each, refuses, wait
from pytest import approx

from workbench import cli, explore, grid, load, sweep
from workbench.core.trace import read_trace
from workbench.data.specs import available_specs, listed, with_test_rows
from workbench.data.synthetic import checkers
from workbench.data.words import data_in


def test_lists_as_text():
    assert listed("1e-2, 1e-3", float) == [0.01, 0.001] == listed([0.01, 1e-3], float)
    assert listed(0.01, float) == [0.01]
    assert listed("1e3,20", int) == [1000, 20] and listed("digits") == ["digits"]
    for wrong, message in (("1,,2", "empty"), ("2.7", "not a whole number")):
        with refuses(message):
            listed(wrong, int)


def test_given_test_rows_are_kept():
    given = load("wine | 30 % test", seed=1)
    drawn = load("wine", seed=1, test=0.5)
    assert with_test_rows("wine | 30 % test", 0.5, seed=1).checksum == given.checksum
    assert (
        with_test_rows("wine", 0.5, seed=1).checksum == drawn.checksum != given.checksum
    )


def test_the_scale_can_be_chosen():
    plain = load("wine", seed=1, test=0.3)
    assert (plain.n, plain.d, len(plain.y_test)) == (125, 13, 53)
    assert plain.X.mean(axis=0) == approx(0) and plain.X.std(axis=0) == approx(1)
    given = load("digits @ given")
    assert (given.X.min(), given.X.max()) == (0, 16)
    assert load("digits @ maximum").X == approx(given.X / 16)
    ranged = load("digits@range | 3 classes")
    assert (ranged.X.min(), ranged.X.max(), ranged.k) == (-1, 1, 3)
    assert np.linalg.norm(load("wine @ unit").X, axis=1) == approx(1)
    for words, same in (
        ("wine", {"scale": "standard"}),
        ("wine @ unit", {"scale": "unit"}),
        ("wine | 30 % test", {"test": 0.3}),
        ("text 60x3", {"scale": "tfidf"}),
        ("checkers 60", {"scale": "given"}),
    ):
        name = words.split(" @")[0].split(" |")[0]
        assert load(words, seed=3).checksum == load(name, seed=3, **same).checksum
    for words, given, message in (
        (
            "digits @ huge",
            {},
            r"scale: unknown name 'huge'.*known names: given, standard",
        ),
        ("wine | 30 % test", {"test": 0.2}, r"test: .* holds out test rows already"),
        ("wine @ unit", {"scale": "given"}, "scale: 'wine @ unit' has a scale already"),
    ):
        with refuses(message):
            load(words, **given)


def test_a_board_keeps_its_scale_and_has_test_rows_of_its_own():
    board = load("checkers 3000", seed=4, test=0.3)
    assert (board.n, board.d, board.k, len(board.y_test)) == (3000, 2, 2, 20_000)
    assert board.synthetic and (board.X == checkers(3000, 4).X).all()
    for X, y in ((board.X, board.y), (board.X_test, board.y_test)):
        right = np.mean(np.floor(4 * X).astype(int).sum(axis=1) % 2 == y)
        assert right == approx(0.9, abs=0.03)
    fewer = load("checkers 1000 | 50 % rows", seed=4, test=0.1)
    assert fewer.n == 500 and (fewer.X_test == board.X_test).all()
    assert not (load("checkers 3000", seed=5, test=0.3).X_test == board.X_test).any()
    assert not set(map(bytes, board.X)) & set(map(bytes, board.X_test))


WRONG = """; wine + fourier; wine + 20; + 20 fourier; synthetic 200x5; checkers;
checkers 1;
checkers 3000x2; checkers 1e4; digits | 1 classes; digits | 11 classes; digits | 2.5
classes; digits | 0 % rows; digits | fun; digits + 1.2.3 fourier; wine | 14 pca;
digits + 2 constant; digits | constant; wine | 3 log counts; wine | 0 % test; wine | 3
classes | 30 % test; wine | 30 % test | 20 % test; wine + 30 % test; wine | 0 a class;
wine | 71 a class; text 20x300"""


def test_steps_follow_one_another():
    whole = load("digits | 30 % test", seed=2)
    few = load("digits | 30 % test | 4 classes | 50 % rows", seed=2)
    assert few.k == 4 and set(few.y_test) == set(range(4))
    assert few.n == approx(0.5 * np.sum(whole.y < 4), abs=2)
    assert len(few.y_test) == np.sum(whole.y_test < 4)
    waves = load("wine + 10 fourier | 20 % rows")
    assert waves.d == 23 and "10 Fourier" in waves.name
    made = load("synthetic 200x5x4", test=0.1)
    assert (made.n, made.d, made.k, made.synthetic) == (180, 5, 4, True)
    components = load("digits @ maximum | 30 % test | 12 pca | 5 classes", seed=2)
    assert (components.d, components.X_test.shape[1], components.k) == (12, 12, 5)
    waves = load("digits @ maximum | 12 pca + 40 fourier+constant", seed=2)
    assert waves.d == 53 and (waves.X[:, -1] == 1).all()
    assert np.linalg.norm(waves.X[:, 12:-1], axis=1) == approx(1)
    words = load("text 2000x50 @ given | 3 log counts")
    assert words.is_sparse and words.X.data.min() == approx(np.log(2))
    for wrong in WRONG.replace("\n", " ").split("; "):
        with pytest.raises((ValueError, FileNotFoundError)):
            load(wrong)
    with refuses("already"):
        load("wine | 30 a class", test=0.3)


FOLDERS = """this or that; a @ unit; a, b; a + 2 fourier; a | 2 classes; c#d; größe; ~;
~ann; [x]; 50 % rows; digits or wine"""


@each("folder", FOLDERS.replace("\n", " ").split("; "))
def test_a_path_is_a_path_whatever_its_signs(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir()
    path = f"{folder}/rows.csv"
    Path(path).write_text("a,b,kind\n1,2,u\n3,4,v\n5,6,w\n")
    for place in (path, str(tmp_path / path)):
        for more in ("", " @ given | 3 classes", " or wine", "+constant"):
            assert load(place + more).k == 3 and load(place + more).n == 3
            items = ["iris", place + more, "wine"]
            assert listed(", ".join(items)) == items
        assert data_in(f"iris, {place} or {place} + constant") == ["iris", place, place]
    assert load(Path(path)).n == 3


@each(
    "words",
    [
        "synthetic 9x99999999999x3",
        "checkers 99999999999",
        "text 99999999999x9",
        "wine + 99999999998 fourier",
        "wine | 99999999998 mrcpy",
        "text 9x9999999999999999",
        f"synthetic {'9' * 400}x3x3",
        f"text 9x{'9' * 400}",
        f"wine + {'9' * 400} fourier",
    ],
)
def test_sizes_are_compared_with_the_memory_first(words):
    with refuses(r"too large for .* need .* GB free|must be"):
        load(words)


def test_the_first_rows_of_each_class_can_be_the_training_rows():
    whole = load("wine @ given")
    first = load("wine @ given | 30 a class")
    assert np.bincount(first.y).tolist() == [30, 30, 30]
    assert len(first.y_test) == 178 - 90
    for c in range(3):
        rows = np.vstack([first.X[first.y == c], first.X_test[first.y_test == c]])
        assert (rows == whole.X[whole.y == c]).all()


def test_an_alternative_is_taken_only_if_the_first_is_missing(capsys, monkeypatch):
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    assert load("iris or wine").k == 3 and load("iris or wine").d == 4
    stand_in = load("cifar10_resnet18 or synthetic 300x8x2")
    assert stand_in.synthetic and stand_in.name.startswith("synthetic 300x8x2")
    with refuses("no data set or file is called"):
        load("irsi or wine")
    assert available_specs("iris, cifar100_resnet18, wine") == ["iris", "wine"]
    assert "cifar100_resnet18" in capsys.readouterr().out
    with refuses("cifar100_resnet18", FileNotFoundError):
        available_specs("cifar100_resnet18")


# The words of one problem for `load`, the command line, a grid and a dashboard.
WORDS = (
    "wine",
    "wine @ given",
    "wine + 20 fourier",
    "wine | 30 % test",
    "rows.csv",
    "no or wine",
)


@each("words", WORDS)
def test_the_same_words_are_the_same_problem_everywhere(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = words.replace("no", "cifar100_resnet18")
    Path("rows.csv").write_text("a,b,kind\n" + "1,20.5,u\n2,30,v\n0,7,w\n" * 5)
    problem = load(words)
    cli.main(["run", "mrc_subgradient", words, "--rounds", "1", "--out", "trace.jsonl"])
    points = grid("mrc_subgradient", words, stop={"rounds": 1})
    [trace] = sweep(points, folder=tmp_path).traces()
    for read in (trace, read_trace(Path("trace.jsonl"))):
        assert read.header["problem"]["checksum"] == problem.checksum
    dashboard = explore("mrc_subgradient", words, parameters={"lambda0": 0.1})
    dashboard.step()
    wait(lambda: dashboard.player.lanes)
    assert dashboard.player.lanes[0].problem.checksum == problem.checksum
