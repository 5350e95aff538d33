"""The command line: what each command prints, and errors of one line with exit code 2."""

import os
import subprocess
import sys

import pytest

import workbench
from workbench.cli import main
from workbench.core.trace import read_trace
from workbench.registry import SOLVERS
from workbench.runs import mill


def test_list_is_one_screen_and_describes_each_name(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in [*SOLVERS, "digits", "mrc_convergence"])
    assert len(out.splitlines()) < 30
    for name, parts in {
        "mrc_ccg": ("MRC-CCG: ", "n_max", "400"),
        "digits": ("1,797",),
        "mrc_epsilon": ("mrc_epsilon makes", "eps1_grid", "smallest violation"),
    }.items():
        assert main(["list", name]) == 0
        out = capsys.readouterr().out
        assert all(part in out for part in parts)
    assert main(["list", "mrc_cgg"]) == 2
    assert "unknown name 'mrc_cgg'; did you mean mrc_ccg" in capsys.readouterr().err


def test_run_prints_rows_and_writes_the_trace(capsys, tmp_path):
    path = tmp_path / "trace.jsonl"
    command = "run mrc_ccg iris --scale standard --test 0.2 -p eps1=1e-4 -p n_max=50 --gap 1e-2"
    assert main([*command.split(), "--out", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("n = 120, d = 4, k = 3")
    assert lines[1].startswith("round 0  seconds")
    assert "stopped_by gap <= 0.01" in lines[-1]
    assert "train_error 0." in lines[-1] and "test_error 0." in lines[-1]
    trace = read_trace(path)
    assert 0.0 <= trace.last["test_error"] <= 1.0 and "test_error" in trace.rows[1]
    assert trace.header["parameters"]["eps1"] == 1e-4
    assert trace.header["parameters"]["n_max"] == 50
    assert trace.last["gap"] <= 1e-2

    for command, last in (
        ("mrc_ccg iris --scale standard --gap 1e-6 -p eps1=0.1", "finished before gap <= 1e-06"),
        ("mrc_ccg wine --scale range --gap 0 --rounds 2 -p columns=true", "round 2"),
    ):
        assert main(["run", *command.split()]) == 0
        assert last in capsys.readouterr().out.splitlines()[-1]


MISTAKES = {
    "": "required: COMMAND",
    "run mrc_ccg irises": "workbench: source: no data set or file is called 'irises'",
    "run mrc_ccg no/such": "workbench: source: there is no file no/such",
    "run mrc_ccg iris -p eps=1": "has no 'eps'; did you mean eps2 or eps1?",
    "run mrc_ccg iris -p eps1=-1": "eps1: must be a number that is not negative",
    "run mrc_ccg iris -p eps1": "-p: must be NAME=VALUE, got 'eps1'",
    "run mrc_ccg iris -p n_max=1 -p n_max=2": "-p: n_max appears twice",
    "run mrc_ccg iris --second 1": "workbench run: unknown argument '--second'; did you",
    "run mrc_ccg iris --seconds -1": "stop: seconds must be finite and not negative, got -1.0",
    "figures --timeout 0": "seconds: must be positive and finite, got 0.0",
    "figures --profile slow": "unknown name 'slow'; known names: smoke, quick, paper",
    "data fetch": "name at least one data set",
    "data check nothing": "nothing",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(command, capsys):
    assert main(command.split()) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith("workbench"), err
    assert MISTAKES[command] in err


def test_figures_tells_by_its_exit_code_what_failed(monkeypatch, capsys):
    monkeypatch.setattr(mill, "make", lambda *args, **options: ["mrc_nmax"])
    assert main(["figures"]) == 1
    assert "1 notebook failed: mrc_nmax" in capsys.readouterr().err
    monkeypatch.setattr(mill, "make", lambda *args, **options: [])
    assert main(["figures"]) == 0


def test_data_lists_and_checks(capsys):
    assert main(["data"]) == 0
    assert "breast_cancer" in capsys.readouterr().out
    assert main(["data", "check", "iris"]) == 0
    assert capsys.readouterr().out.startswith("iris: scikit-learn")


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another error on Windows")
def test_a_reader_that_has_gone_is_no_error():
    command = [sys.executable, "-m", "workbench.cli", "list"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == ("", 141)


def test_help_does_not_wait_for_the_solvers(capsys):
    code = "import sys; from workbench.cli import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in done.stdout.split() and "papermill" not in done.stdout.split()
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"workbench {workbench.__version__}\n"
