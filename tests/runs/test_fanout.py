"""Notebooks over a grid of their parameters: each kept as executed, none run twice."""

import os
import re
import signal
from pathlib import Path

import nbformat
import pytest
from helpers import each, refuses, slow, wait
from helpers.notebooks import printed, write
from helpers.processes import ended_from_outside, family, started

from workbench.cli import main
from workbench.runs import worker
from workbench.runs.mill import fan_out
from workbench.runs.notebooks import read

PARAMETERS = (
    "a: int = 1  # the first\nb: float = 0.5  # the second\nname: str = 'x'  # a "
    "label\n"
)
CODE = """
from pathlib import Path
with open({log!r}, "a") as log:
    log.write(f"{{a}} {{b}}\\n")
if a == 3 and not Path({mended!r}).exists():
    get_ipython().run_line_magic("notamagic", "three")
print("sum", a + b)
"""


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Return a small notebook, which fails where a is 3 until it is mended from
    outside."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    code = CODE.format(log=str(tmp_path / "log"), mended=str(tmp_path / "mended"))
    return write(tmp_path / "little.ipynb", PARAMETERS, code)


def test_every_combination_is_a_run_with_its_key(notebook):
    little = read(notebook)
    runs = fan_out(little, {"a": "1, 2", "b": "1e-2,0.1,1"})
    expected = [{"a": a, "b": b, "name": "x"} for a in (1, 2) for b in (0.01, 0.1, 1.0)]
    assert [run.work.args[1] for run in runs] == expected
    assert len({run.key for run in runs}) == len({run.label for run in runs}) == 6
    assert runs[0].label == "little a=1 b=0.01"
    # Neither order nor spelling counts, but whether a run is alone, and the code of the
    # notebook.
    other = fan_out(little, {"b": "1.0,0.10,0.01", "a": "2,1"})
    assert {run.key for run in runs} == {run.key for run in other}
    alone, two, four = (fan_out(little, {}, jobs)[0].key for jobs in (1, 2, 4))
    assert alone == fan_out(little, {"a": "1"})[0].key != two == four
    notebook.write_text(notebook.read_text().replace("a + b", "a - b"))
    assert fan_out(read(notebook), {})[0].key != alone
    with refuses("little has no 'c'"):
        fan_out(little, {"c": "1"})


def parameters_of(path, parameters, texts, given=None):
    """Return the parameters of the runs of a notebook with this parameters cell."""
    write(path, parameters)
    return [run.work.args[1] for run in fan_out(read(path), texts, 1, given)]


UNTYPED = "eps = [0.1, 0.2]\nnames = ['a']\nsetting = {'C': 1.0}\npair = (1, 2)\n"
UNTYPED += "x = None\nn = 1\n"
GIVEN = {  # values of the command line, and what they are
    "eps=[1e-3, 010]": [0.001, 10],
    "names=[no, 010, NO]": ["no", "010", "NO"],
    "setting={C: 1e-2, b: yes}": {"C": 0.01, "b": "yes"},
    "pair=[3, 4]": (3, 4),
    "x=1e-3": 0.001,
    "x=no": "no",
    "x=[1, a]": [1, "a"],
    "x=2026-11-29": "2026-11-29",
    "x=null": None,
    "n=010": 10,
    "eps=[1:30]": "eps: must be of type float, got '1:30'",
    "eps=1e-2, 1": [0.01, 1],
    "eps=0.3": [0.3],
    "names=a | 30 % test, 1": ["a | 30 % test", "1"],
    "eps=1,,2": "eps: must be of type list, such as [1, 2], got '1,,2'; while",
    "names=a,,b": "names: must be of type list, such as [1, 2], got 'a,,b'; list: an",
    "eps=[1, 2": "while parsing a flow sequence",
    "setting={C: 1, C: 2}": "'C' appears twice",
    "setting={C: a}": "setting: must be of type float, got 'a'",
    "setting=[1]": "setting: must be of type dict, such as {a: 1}, got '[1]'",
    "n=0.5": "n: must be of type int, got '0.5'",
}


@each("text", GIVEN)
def test_untyped_parameters_take_values_as_people_write_them(text, tmp_path):
    (name, value), expected = text.split("=", 1), GIVEN[text]
    if isinstance(expected, str) and expected != value:
        with refuses(re.escape(expected)):
            parameters_of(tmp_path / "odd.ipynb", UNTYPED, {name: value})
    else:
        [found] = parameters_of(tmp_path / "odd.ipynb", UNTYPED, {name: value})
        assert found[name] == expected and type(found[name]) is type(expected)


def test_values_of_files_and_raw_ones_are_not_split(tmp_path, monkeypatch):
    (tmp_path / "p.yaml").write_text("n: [1, 010]\neps: [1e-3]\nx: a,b\n")
    write(path := tmp_path / "odd.ipynb", UNTYPED + "s = {1}\n")
    ran = []
    execute = lambda tasks, *_, **__: ran.extend(tasks) or {}  # noqa: E731
    monkeypatch.setattr("workbench.runs.engine.execute", execute)
    options = ["-f", str(tmp_path / "p.yaml"), "-r", "names=[1, no]", "-p", "x=7"]
    assert main(["sweep", str(path), *options]) == 0
    found = [task.work.args[1] for task in ran]
    assert [values["n"] for values in found] == [1, 10] and "s" not in found[0]
    assert found[0] | {"n": 1} == {
        **{"eps": [0.001], "names": ["1", "no"], "setting": {"C": 1.0}},
        **{"pair": (1, 2), "x": 7, "n": 1},
    }
    (tmp_path / "p.yaml").write_text("- 1")
    assert main(["sweep", str(path), *options]) == 2
    with refuses("at most 100,000 points, got 250,000"):
        many = [*range(500)]
        parameters_of(path, UNTYPED, {}, {"n": many, "x": many})


def large(place):
    place.touch()
    os.truncate(place, 2**40)  # takes no room


def test_what_lies_beside_a_notebook_is_read_by_its_bytes(tmp_path):
    write(path := tmp_path / "here" / "n.ipynb", "a = 1")
    keys = [fan_out(read(path), {})[0].key]
    for kind, name, make in (
        ("same", ".#model.py", lambda place: place.symlink_to("ann@host.1234")),
        ("same", "gone.py", lambda place: place.symlink_to("ann@host.1234")),
        ("same", "._model.py", lambda place: place.write_bytes(b"\xff\x00")),
        ("same", ".ipynb_checkpoints/n.py", Path.touch),
        ("same", "folder.py", Path.mkdir),
        ("same", "pipe.py", os.mkfifo),
        ("other", "latin.py", lambda place: place.write_text("# Grüße", "latin-1")),
        ("other", "pack/large.py", large),
    ):
        place = path.parent / name
        place.parent.mkdir(exist_ok=True)
        make(place)
        keys.append(fan_out(read(path), {})[0].key)
        assert (keys[-1] == keys[-2]) == (kind == "same"), name
    # which may read other files
    write(elsewhere := tmp_path / "there" / "n.ipynb", "a = 1")
    assert fan_out(read(elsewhere), {})[0].key != keys[0]


@slow
def test_notebooks_are_kept_and_failing_ones_tried_again(notebook, tmp_path, capsys):
    command = ["sweep", str(notebook), "-p", "a=2,3", "-p", "b=0.25", "-j", "2"]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert err == "workbench: 1 notebook failed; run the sweep again to retry\n"
    assert out.count("FAILED, RuntimeError") == 1
    assert "magic function `%notamagic` not found" in out
    folder = tmp_path / "runs" / "sweeps"
    (kept,) = folder.glob("little-*/little.ipynb")
    assert f": {kept}" in out
    assert len(list(folder.glob("little-*/little.failed.ipynb"))) == 1
    assert list(folder.glob("**/*.part*")) == list(folder.glob("*.begun")) == []
    content = nbformat.read(kept, as_version=4)
    assert content.metadata.papermill.parameters == {"a": 2, "b": 0.25, "name": "x"}
    assert "sum 2.25" in printed(kept)

    (tmp_path / "mended").touch()
    assert main(command) == 0  # runs the one that failed
    assert len(list(folder.glob("little-*/little.ipynb"))) == 2
    assert list(folder.glob("little-*/little.failed.ipynb")) == []
    assert main(command) == 0  # runs nothing
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
rows = open("rows.csv").read().strip()
print("folder", rows, factor * scale, pack.model.value, names, note)
"""


@slow
def test_a_notebook_runs_again_if_its_modules_change(tmp_path, monkeypatch, capsys):
    """Of another environment's kernel, with a byte order mark, in a folder with
    braces."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "{runs}"))
    home = tmp_path / "project {a}"
    odd = write(home / "odd.ipynb", ODD, BESIDE, kernel="conda-env-ml-py")
    odd.write_text("\ufeff" + odd.read_text())
    (home / "pack").mkdir()
    (home / "pack" / "model.py").write_text("value = 1")
    (home / "rows.csv").write_text("rows")
    monkeypatch.chdir(tmp_path)
    for factor, said in ((1, "1 to run"), (1, "1 done before"), (10, "1 to run")):
        (home / "helper.py").write_text(f"factor = {factor}")
        assert main(["sweep", str(odd), "-p", "scale=3", "-p", "names=[c]"]) == 0
        assert said in capsys.readouterr().out
        kept = (tmp_path / "{runs}").glob("sweeps/odd-*/odd.ipynb")
        text = printed(max(kept, key=lambda path: path.stat().st_mtime_ns))
        assert text == f"folder rows {3.0 * factor} 1 ['c'] None\n"


COMPILED = "import ctypes\nopen({mark!r}, 'w').close()\nctypes.PyDLL(None).sleep(600)"


@slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@each("how", ["limit", "SIGKILL", "SIGHUP"])
def test_a_kernel_in_compiled_code_ends_with_its_command(how, tmp_path):
    mark = tmp_path / "mark"
    runs = tmp_path / "runs"
    path = write(tmp_path / "long.ipynb", "a = 1", COMPILED.format(mark=str(mark)))
    command = ["-m", "workbench.cli", "sweep", path]
    command += ["--seconds", "10"] * (how == "limit")
    process = started(*command, WORKBENCH_RUNS=str(runs))
    if how == "limit":
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 1
        kept = [*runs.glob("sweeps/long-*/*.failed.ipynb")]
        # On a busy machine the kernel may take longer to start than the worker is
        # given.
        assert (
            "not done after 10 s" in said and len(kept) == 1
        ) or worker.TOO_LONG in said
        wait(lambda: not family("WORKBENCH_RUNS", str(runs)), 300)
    else:
        wait(mark.exists, 300, process)
        number = getattr(signal, how)
        assert ended_from_outside(process, number, "WORKBENCH_RUNS", str(runs))
