"""The command line: what each command prints, and errors of one line with exit code
2."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import each

import workbench
from workbench import SOLVERS
from workbench.cli import main
from workbench.core.trace import read_trace
from workbench.runs import mill


def test_list_is_one_screen_and_describes_each_name(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in [*SOLVERS, "digits", "mrc_convergence"])
    assert len(out.splitlines()) < 30
    for name, parts in {
        "mrc_ccg": ("MRC-CCG: ", "n_max", "400", "number of constraints"),
        "solvers": ("ww_walrus            Walrus", "mrc_lp "),
        "data": ("digits", "1,797"),
        "figures": ("mrc_epsilon",),
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
    command = "run mrc_ccg iris --scale standard --test 0.2 -p eps1=1e-4 -p n_max=50"
    command += " --gap 1e-2"
    assert main([*command.split(), "--out", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("n = 120, d = 4, k = 3")
    assert lines[1].startswith("round 0  seconds")
    assert "stopped_by gap <= 0.01" in lines[-1]
    assert "train_error 0." in lines[-1] and "test_error 0." in lines[-1]
    trace = read_trace(path)
    assert 0.0 <= trace.last["test_error"] <= 1.0 and "test_error" in trace.rows[1]
    assert trace.header["parameters"].items() >= {"eps1": 1e-4, "n_max": 50}.items()
    assert trace.last["gap"] <= 1e-2


ENDS = {
    "mrc_ccg iris --scale standard --gap 1e-6 -p eps1=0.1": "before gap <= 1e-06",
    "mrc_ccg wine --scale range --gap 0 --rounds 2 -p columns=true": "round 2",
}


@each("command", ENDS)
def test_the_last_line_says_how_a_run_ended(command, capsys):
    assert main(["run", *command.split()]) == 0
    assert ENDS[command] in capsys.readouterr().out.splitlines()[-1]


MISTAKES = """
 | required: COMMAND
runn mrc_ccg iris | invalid choice: 'runn' (choose from
list solver | unknown name 'solver'; did you mean solvers
run mrc_ccg irises | workbench: source: no data set or file is called 'irises'
run mrc_ccg no/such | workbench: source: there is no file no/such
run mrc_ccg iris -p eps=1 | has no 'eps'; did you mean eps2 or eps1?
run mrc_ccg iris -p eps1=-1 | eps1: must be a number that is not negative
run mrc_ccg iris -p eps1 | -p: must be NAME=VALUE, got 'eps1'
run mrc_ccg iris extra | workbench run: unknown argument 'extra'; known names: -h
run mrc_ccg iris -o header | must be NAME=VALUE, got 'header'
run mrc_ccg iris -o header=0 | header: is not an argument of load for iris
run mrc_ccg iris --target y | target: is not an argument of load for iris
judge none.npz iris --loss hinge | workbench: none.npz: No such file
judge none.npz iris --loss hinge --intercept no | must be free or a number, got 'no'
run mrc_ccg iris -p n_max=1 -p n_max=2 | -p: n_max appears twice
run mrc_ccg iris --second 1 | workbench run: unknown argument '--second'; did you
run mrc_ccg iris --seconds -1 | stop: seconds must be finite and not negative, got -1.0
run mrc_ccg words.txt -o test=x | must be an option of the file's reader, got 'test'
judge words.txt iris --loss hinge | must be an .npz file with an array W
sweep no.yaml | No such file or directory
sweep odd.yaml | 'irises'
sweep grid.yaml -p eps1=1 | -p, -r, -f: must be used with a notebook, got a grid
sweep grid.yaml -j 0 | jobs: must be a whole number of at least 1
sweep grid.yaml --seconds nan | seconds: must be positive
sweep grid.yaml --timing -j 2 | jobs: must be 1 with timing, got 2
sweep words.txt | must contain 'name: value' lines of solvers
replay words.txt | words.txt: not a trace; its first line
figures --timeout 0 | seconds: must be positive and finite, got 0.0
figures --profile slow | unknown name 'slow'; known names: smoke, quick, paper
data fetch | name at least one data set
data check nothing | nothing
"""
MISTAKES = dict(line.split(" | ") for line in MISTAKES.split("\n")[1:-1])


@each("command", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    (tmp_path / "words.txt").write_text("W")
    for name, data in (("grid", "iris"), ("odd", "irises")):
        text = f"solvers: mrc_ccg\ndata: {data}\nstop: {{rounds: 3}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    assert main(command.split()) == 2
    assert not (tmp_path / "runs").exists()
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith("workbench"), err
    assert MISTAKES[command] in err


ADVICE = {  # what a message advises, and a table that needs it
    "header=None": "1,2,u\n3,4,v\n",
    "sep=;": "a;b;c\n1;2;u\n3;4;v\n",
    "na_values=?": "a,b,c\n?,2,u\n1,2,v\n3,4,u\n5,6,v\n",
    "decimal=,": 'a,b,c\n"1,5",2,u\n"2,5",2,v\n',
    "index_col=0": ",a,b,c\nr,1,2,u\ns,3,4,v\n",
    "target=b": "a,b,c\n1,u,2\n3,v,4\n",
    "encoding=latin-1": "a,b,c\n1,2,\xfc\n3,4,v\n",
}


@each("advised", ADVICE)
def test_run_and_judge_take_the_option_that_a_message_advises(
    advised, capsys, tmp_path
):
    table = tmp_path / "rows.csv"
    weights = tmp_path / "w.npz"
    table.write_bytes(ADVICE[advised].encode("latin-1"))
    np.savez(weights, W=np.ones(2))
    for command in (
        ["run", "mrc_ccg", str(table)],
        ["judge", str(weights), str(table)],
    ):
        command += ["--rounds", "1"] if command[0] == "run" else ["--loss", "hinge"]
        assert main(command) == 2
        name = advised.partition("=")[0]
        assert f"-o {name}=VALUE" in capsys.readouterr().err
        assert main([*command, "-o", advised]) == 0
        assert name != "target" or main([*command, *f"--{advised}".split("=")]) == 0


def test_held_out_rows_are_read_like_the_rows(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("p,q,y\n1,0,1\n0,1,u\n")
    (tmp_path / "b.csv").write_text("p,q,y\n1,0,1\n")
    np.savez("w.npz", W=[[1, -1], [-1, 1]])
    assert main("judge w.npz a.csv --held-out b.csv --loss hinge".split()) == 0
    assert "held-out error  0.00 %" in capsys.readouterr().out


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
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 141)


@each(
    "arguments, most, without",
    [
        (["--help"], 300, "numpy papermill"),
        (["list"], 600, "numba sklearn pandas"),
        (
            "run ww_walrus wine --rounds 1".split(),
            1000,
            "sklearn pandas pyarrow matplotlib",
        ),
    ],
)
def test_a_command_does_not_wait_for_what_it_does_not_use(arguments, most, without):
    code = (
        f"import sys; from workbench.cli import main; main({arguments}); "
        "print(*sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    modules = set(printed.splitlines()[-1].split())
    assert "workbench.cli" in modules and not modules & set(without.split())
    assert len(modules) < most


def test_the_version_is_said(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"workbench {workbench.__version__}\n"
