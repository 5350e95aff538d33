"""Data sets and lists as text: what notebooks, sweeps and dashboards take as parameters."""

import numpy as np
import pytest

from workbench.data.panels import at_hand, listed, panel
from workbench.data.synthetic import checkers


def test_lists_as_text():
    assert listed("1e-2, 1e-3", float) == [0.01, 0.001]
    assert listed("1e3,20", int) == [1000, 20]
    assert listed(0.01, float) == [0.01]
    assert listed("digits") == ["digits"]
    with pytest.raises(ValueError, match="empty"):
        listed("1,,2", int)
    with pytest.raises(ValueError, match="not a whole number"):
        listed("2.7", int)


def test_panels_as_text():
    plain = panel("wine", seed=1)
    assert (plain.n, plain.d, len(plain.y_test)) == (125, 13, 53)
    assert plain.X.mean(axis=0) == pytest.approx(0) and plain.X.std(axis=0) == pytest.approx(1)
    waves = panel("wine + 20 fourier", seed=1)
    assert waves.d == 33 and "20 Fourier" in waves.name
    made = panel("synthetic 200x5x4", test=0.1)
    assert (made.n, made.d, made.k, made.synthetic) == (180, 5, 4, True)
    assert panel("synthetic 200x5x4", seed=1, test=None).checksum != made.checksum
    assert panel("synthetic 200x5x4", test=None).n == 200
    for wrong in ("", "wine + fourier", "wine + 20", "+ 20 fourier", "synthetic 200x5"):
        with pytest.raises((ValueError, FileNotFoundError)):
            panel(wrong)


def test_the_scale_can_be_chosen():
    given = panel("digits @ given")
    assert (given.X.min(), given.X.max()) == (0, 16)
    assert panel("digits @ maximum").X == pytest.approx(given.X / 16)
    ranged = panel("digits@range | 3 classes")
    assert (ranged.X.min(), ranged.X.max(), ranged.k) == (-1, 1, 3)
    assert np.linalg.norm(panel("wine @ unit").X, axis=1) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"unknown scale 'huge'.*known names: given, standard"):
        panel("digits @ huge")


def test_a_board_keeps_its_scale_and_has_test_rows_of_its_own():
    board = panel("checkers 3000", seed=4)
    assert (board.n, board.d, board.k, len(board.y_test)) == (3000, 2, 2, 20_000)
    assert board.synthetic
    assert (board.X == checkers(3000, 4).X).all()
    for X, y in ((board.X, board.y), (board.X_test, board.y_test)):
        right = np.mean(np.floor(4 * X).astype(int).sum(axis=1) % 2 == y)
        assert right == pytest.approx(0.9, abs=0.03)
    fewer = panel("checkers 1000 | 50 % rows", seed=4, test=0.1)
    assert fewer.n == 500 and (fewer.X_test == board.X_test).all()
    assert not (panel("checkers 3000", seed=5).X_test == board.X_test).any()
    assert not set(map(bytes, board.X)) & set(map(bytes, board.X_test))
    assert panel("checkers 3000", seed=4, test=None).X_test is None
    standard = panel("checkers 3000 @ standard", seed=4)
    assert standard.X.std(axis=0) == pytest.approx(1, abs=1e-5)
    assert standard.X_test.std(axis=0) == pytest.approx(1, abs=0.05)
    assert at_hand("checkers 3000") == ["checkers 3000"]
    for wrong in ("checkers", "checkers 1", "checkers 3000x2", "checkers 1e4"):
        with pytest.raises(ValueError):
            panel(wrong)


def test_steps_follow_one_another():
    whole = panel("digits", seed=2)
    few = panel("digits | 4 classes | 50 % rows", seed=2)
    assert few.k == 4 and set(few.y_test) == set(range(4))
    assert few.n == pytest.approx(0.5 * np.sum(whole.y < 4), abs=2)
    assert len(few.y_test) == np.sum(whole.y_test < 4)
    layer = panel("digits | 32 relu", seed=2)
    assert layer.d == 32 and layer.X.std(axis=0) == pytest.approx(1)
    assert panel("wine + 10 fourier | 20 % rows").d == 23
    components = panel("digits @ maximum | 12 pca | 5 classes", seed=2)
    assert (components.d, components.X_test.shape[1], components.k) == (12, 12, 5)
    assert "PCA 12" in components.name
    waves = panel("digits @ maximum | 12 pca | 40 fourier+constant", seed=2)
    assert waves.d == 41 and (waves.X[:, -1] == 1).all()
    assert np.linalg.norm(waves.X[:, :-1], axis=1) == pytest.approx(1)
    words = panel("synthetic_text @ given | 3 log counts")
    assert words.is_sparse and words.X.data.min() == pytest.approx(np.log(2))
    assert words.X.getnnz(axis=0).min() == 3
    for wrong in (
        *("digits | 1 classes", "digits | 11 classes", "digits | 2.5 classes"),
        *("digits | 0 % rows", "digits | fun", "digits + 1.2.3 fourier", "wine | 14 pca"),
        *("digits + 2 constant", "digits | constant", "digits | 3 constant"),
        *("wine | 3 log counts", "digits @ given | 0 log counts"),
    ):
        with pytest.raises(ValueError):
            panel(wrong)


def test_the_first_rows_of_each_class_can_be_the_training_rows():
    whole = panel("wine @ given", test=None)
    first = panel("wine @ given | 30 a class", test=None)
    assert np.bincount(first.y).tolist() == [30, 30, 30] and len(first.y_test) == 178 - 90
    for c in range(3):
        rows = np.vstack([first.X[first.y == c], first.X_test[first.y_test == c]])
        assert (rows == whole.X[whole.y == c]).all()
    for wrong in ("wine | 0 a class", "wine | 71 a class"):
        with pytest.raises(ValueError, match="no test rows"):
            panel(wrong, test=None)
    with pytest.raises(ValueError, match="already"):
        panel("wine | 30 a class")


def test_an_alternative_stands_in_only_where_the_first_is_not_at_hand(capsys, monkeypatch):
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    assert panel("iris or wine").k == 3 and panel("iris or wine").d == 4
    stand_in = panel("cats_vs_dogs_resnet18 or synthetic 300x8x2")
    assert stand_in.synthetic and stand_in.name.startswith("synthetic 300x8x2")
    with pytest.raises(ValueError, match="no data set or file is called"):
        panel("irsi or wine")
    assert at_hand("iris, yearbook_resnet18, wine") == ["iris", "wine"]
    assert "yearbook_resnet18" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="yearbook_resnet18"):
        at_hand("yearbook_resnet18")
