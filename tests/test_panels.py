"""What figure notebooks share: lists and data sets as text, and a run that reports."""

import pytest

from workbench.panels import attempt, listed, panel
from workbench.stream import below


def test_lists_as_text():
    assert listed("1e-2, 1e-3", float) == [0.01, 0.001]
    assert listed("1e3,20", int) == [1000, 20]
    assert listed(0.01, float) == [0.01]
    assert listed("digits") == ["digits"]
    with pytest.raises(ValueError, match="empty"):
        listed("1,,2", int)


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


def test_an_attempt_judges_its_last_row_and_passes_over_what_is_too_large(capsys):
    problem = panel("iris")
    trace = attempt("mrc_ccg", problem, below("gap", 1e-2), eps1=1e-3)
    assert trace.header["parameters"]["eps1"] == 1e-3
    assert trace.last["gap"] <= 1e-2 and 0 <= trace.last["test_error"] < 0.5
    assert set(trace.header["threads"].values()) == {1}
    assert attempt("mrc_lp", panel("synthetic 20000x20x20")) is None
    assert attempt("mrc_lp_compact", problem, max_seconds=0.0) is None
    told, refused, late = capsys.readouterr().out.splitlines()
    assert told.endswith("rounds, gap <= 0.01")
    assert "refused, problem: too large" in refused
    assert late.endswith("no solution in its time")
    with pytest.raises(ValueError, match="lambda0"):
        attempt("mrc_ccg", problem, lambda0=-1.0)
