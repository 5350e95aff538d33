"""Notebooks over a grid of their parameters: each kept as executed, none run twice."""

import os
import signal
import subprocess
import sys

import nbformat
import pytest
from test_engine import ended_from_outside, family
from test_player import wait

from workbench.cli import main
from workbench.runs.mill import fan_out
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
    code = CODE.format(log=str(tmp_path / "log"), mended=str(tmp_path / "mended"))
    return write(tmp_path / "little.ipynb", PARAMETERS, code)


def write(path, *sources, **kernel):
    """Write a notebook of these cells, the first of which has the parameters."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"} | kernel
    content = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
    path.parent.mkdir(exist_ok=True)
    nbformat.write(content, path)
    return path


def printed(path):
    content = nbformat.read(path, as_version=4)
    return "".join(out.get("text", "") for cell in content.cells for out in cell.get("outputs", ()))


def test_every_combination_is_a_run_with_all_parameters_and_a_key(notebook):
    little = read(notebook)
    runs = fan_out(little, {"a": "1, 2", "b": "1e-2,0.1,1"})
    expected = [{"a": a, "b": b, "name": "x"} for a in (1, 2) for b in (0.01, 0.1, 1.0)]
    assert [run.work.args[1] for run in runs] == expected
    assert len({run.key for run in runs}) == len({run.label for run in runs}) == 6
    assert runs[0].label == "little a=1 b=0.01"
    # Neither order nor spelling counts, but whether a run is alone, and the code of the notebook.
    other = fan_out(little, {"b": "1.0,0.10,0.01", "a": "2,1"})
    assert {run.key for run in runs} == {run.key for run in other}
    alone, two, four = (fan_out(little, {}, jobs)[0].key for jobs in (1, 2, 4))
    assert alone == fan_out(little, {"a": "1"})[0].key != two == four
    notebook.write_text(notebook.read_text().replace("a + b", "a - b"))
    assert fan_out(read(notebook), {})[0].key != alone
    for bad, message in (("c", "little has no 'c'"), ("a", "a: must be of type int, got 'two'")):
        with pytest.raises(ValueError, match=message):
            fan_out(little, {bad: "1,two"})


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


ODD = """# Parameters, as people write them
scale = 2.0
names = ["a", "b"]
note: str | None = None
"""
BESIDE = """
from helper import factor
import pack.model
print("folder", open("rows.csv").read().strip(), factor * scale, pack.model.value, names, note)
"""


@pytest.mark.slow
def test_a_notebook_runs_as_in_its_folder_and_again_if_its_modules_change(
    tmp_path, monkeypatch, capsys
):
    """Of another environment's kernel."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    home = tmp_path / "project"
    write(home / "odd.ipynb", ODD, BESIDE, name="conda-env-ml-py")
    (home / "pack").mkdir()
    (home / "pack" / "model.py").write_text("value = 1")
    (home / "rows.csv").write_text("rows")
    monkeypatch.chdir(tmp_path)
    for factor, said in ((1, "1 to run"), (1, "1 done before"), (10, "1 to run")):
        (home / "helper.py").write_text(f"factor = {factor}")
        assert main(["sweep", "project/odd.ipynb", "-p", "scale=3", "-p", "names=[c]"]) == 0
        assert said in capsys.readouterr().out
        kept = (tmp_path / "runs").glob("sweeps/odd-*/odd.ipynb")
        text = printed(max(kept, key=lambda path: path.stat().st_mtime_ns))
        assert text == f"folder rows {3.0 * factor} 1 ['c'] None\n"


COMPILED = "import ctypes\nopen({mark!r}, 'w').close()\nctypes.PyDLL(None).sleep(600)"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("how", ["limit", "SIGKILL", "SIGHUP"])
def test_a_kernel_in_compiled_code_ends_with_its_limit_and_with_its_command(how, tmp_path):
    mark, runs = tmp_path / "mark", tmp_path / "runs"
    path = write(tmp_path / "long.ipynb", "a = 1", COMPILED.format(mark=str(mark)))
    command = [sys.executable, "-m", "workbench.cli", "sweep", path]
    command += ["--seconds", "10"] * (how == "limit")
    variables = os.environ | {"WORKBENCH_RUNS": str(runs)}
    with open(tmp_path / "out", "w") as out:
        process = subprocess.Popen(command, stdout=out, env=variables, start_new_session=True)
    if how == "limit":
        assert process.wait(90) == 1 and "not done after 10 s" in (tmp_path / "out").read_text()
        assert len(list(runs.glob("sweeps/long-*/long.failed.ipynb"))) == 1
        assert not family("WORKBENCH_RUNS", str(runs))
    else:
        wait(mark.exists, 90, process)
        number = getattr(signal, how)
        assert ended_from_outside(process, number, "WORKBENCH_RUNS", str(runs))
