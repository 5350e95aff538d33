"""Notebooks over a grid of their parameters: each kept as executed, none run twice."""

import nbformat
import pytest

from workbench.cli import main
from workbench.runs.fan_out import fan_out
from workbench.runs.notebooks import read

PARAMETERS = "a: int = 1  # the first\nb: float = 0.5  # the second\nname: str = 'x'  # a label\n"
CODE = """
from pathlib import Path
with open({log!r}, "a") as log:
    log.write(f"{{a}} {{b}}\\n")
if a == 3 and not Path({mended!r}).exists():
    raise ValueError("a must not be three")
print("sum", a + b)
"""


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Return a small notebook, which fails where a is 3 until it is mended from outside."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    log, mended = str(tmp_path / "log"), str(tmp_path / "mended")
    cells = [
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(CODE.format(log=log, mended=mended)),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    path = tmp_path / "little.ipynb"
    nbformat.write(content, path)
    return path


def test_every_combination_is_a_run_with_all_parameters_and_a_key(notebook):
    little = read(notebook, figures=False)
    runs = fan_out(little, {"a": "1, 2", "b": "1e-2,0.1,1"})
    assert [(run.values["a"], run.values["b"]) for run in runs] == [
        (a, b) for a in (1, 2) for b in (0.01, 0.1, 1.0)
    ]
    assert all(run.values["name"] == "x" for run in runs)
    assert len({run.key for run in runs}) == len({run.label for run in runs}) == 6
    assert runs[0].label == "little a=1 b=0.01"
    # Neither order nor spelling counts, but whether a run is alone, and the code of the notebook.
    other = fan_out(little, {"b": "1.0,0.10,0.01", "a": "2,1"})
    assert {run.key for run in runs} == {run.key for run in other}
    alone, two, four = (fan_out(little, {}, jobs)[0].key for jobs in (1, 2, 4))
    assert alone == fan_out(little, {"a": "1"})[0].key != two == four
    notebook.write_text(notebook.read_text().replace("a + b", "a - b"))
    assert fan_out(read(notebook, figures=False), {})[0].key != alone


@pytest.mark.slow
def test_each_notebook_is_kept_with_its_parameters_and_a_failing_one_is_tried_again(
    notebook, tmp_path, capsys
):
    command = ["sweep", str(notebook), "-p", "a=2,3", "-p", "b=0.25", "-j", "2"]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert err == "workbench: 1 notebook failed; run the sweep again to retry\n"
    assert out.count("FAILED, RuntimeError") == 1 and "ValueError: a must not be three" in out
    folder = tmp_path / "runs" / "sweeps"
    [kept] = folder.glob("little-*/little.ipynb")
    assert f": {kept}" in out and len(list(folder.glob("little-*/little.failed.ipynb"))) == 1
    assert list(folder.glob("**/*.part*")) == list(folder.glob("*.begun")) == []
    content = nbformat.read(kept, as_version=4)
    assert content.metadata.papermill.parameters == {"a": 2, "b": 0.25, "name": "x"}
    assert "sum 2.25" in "".join(output.text for output in content.cells[-1].outputs)

    (tmp_path / "mended").touch()
    assert main(command) == 0  # runs the one that failed
    assert "1 done before, 1 to run" in capsys.readouterr().out
    assert len(list(folder.glob("little-*/little.ipynb"))) == 2
    assert list(folder.glob("little-*/little.failed.ipynb")) == []

    assert main(command) == 0  # runs nothing
    assert "2 done before, 0 to run" in capsys.readouterr().out
    log = (tmp_path / "log").read_text().splitlines()
    assert sorted(log) == ["2 0.25", "3 0.25", "3 0.25"]


MISTAKES = {
    "-p c=1": "little: has no parameter 'c'; it takes a, b, name",
    "-p a=1,two": "a: must be of type int, got 'two'",
    "-p a=1.5": "a: must be of type int, got '1.5'",
    "-p a=1,": "a: must be of type int, got ''",
    "-p b=1,1.0": "b: a value appears twice in '1,1.0'",
    "-p a": "-p: must be NAME=VALUE, got 'a'",
    "-p a=1 -p a=2": "-p: a appears twice",
    "-j 0": "jobs: must be at least 1",
    "--timing": "--timing: must be used with a grid",
    "--parquet x.parquet": "--parquet: must be used with a grid",
    "--seconds -1": "seconds: must be positive",
}


@pytest.mark.parametrize("options", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_runs(options, notebook, tmp_path, capsys):
    assert main(["sweep", str(notebook), *options.split()]) == 2
    _, err = capsys.readouterr()
    assert err.count("\n") == 1 and MISTAKES[options] in err
    assert not (tmp_path / "log").exists()


def test_a_notebook_without_parameters_cell_is_refused(notebook, capsys):
    notebook.write_text(notebook.read_text().replace('"parameters"', '"others"'))
    assert main(["sweep", str(notebook)]) == 2
    assert "needs exactly one cell tagged 'parameters'" in capsys.readouterr().err
