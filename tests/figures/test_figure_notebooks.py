"""The committed notebooks of figures and sweeps: clean, paired with their figures, and
running."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial

import nbformat
import pytest
from helpers import each, each_path, slow
from matplotlib.figure import Figure
from nbformat.v4 import new_output
from papermill import inspect_notebook

from workbench.core.files import digest
from workbench.figures.provenance import why_not_timed
from workbench.figures.saved import MAX_LINES
from workbench.runs.grid import read_points
from workbench.runs.mill import fan_out
from workbench.runs.notebooks import CHECKOUT, FOLDER, find, read
from workbench.runs.results import read_results

COMMITTED = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
ALL = [
    p
    for p in sorted((CHECKOUT / "notebooks").glob("**/*.ipynb"))
    if ".ipynb_" not in str(p)
]
GRIDS, SWEEPS = (
    sorted((CHECKOUT / "notebooks/sweeps").glob(f"*.{x}")) for x in ("yaml", "ipynb")
)
SWEPT = {  # the notebooks with the swept parameters, at a small scale
    "mrc_ccg": {"data": "iris", "eps1": "1e-1,1e-2", "n_max": "20"},
    "pegasos": {"data": "iris", "batch_size": "1,20", "max_cpu": "0.2"},
}


@each_path(ALL)
def test_committed_notebooks_have_no_outputs(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert nbformat.writes(notebook) + "\n" == path.read_text("utf-8"), (
        "as Jupyter writes it"
    )
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            assert cell.source.count("\n") < 30
        assert "papermill" not in cell.metadata and "execution" not in cell.metadata
    assert "papermill" not in notebook.metadata and "widgets" not in notebook.metadata
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    checks = re.search(r"^from checks", code, re.MULTILINE)
    assert not checks or "import workbench.runs.lessons" in code[: checks.start()]
    assert path.parent.name != "sweeps" or read(path).parameters


@each("name", COMMITTED)
def test_papermill_reads_the_same_parameters_as_we_do(name):
    """One scalar a line, each with help, in which papermill's pattern allows no equals
    sign."""
    (notebook,) = find([name])
    cells = nbformat.read(notebook.path, 4).cells
    (source,) = (c.source for c in cells if "parameters" in c.metadata.get("tags", ()))
    line = re.compile(r"(\w+): (int|float|str|bool) = [^#]+(\"[^\"]*\"[^#]*)?  # [^=]+")
    lines = source.splitlines()
    assert [line.fullmatch(text)[1] for text in lines] == list(notebook.parameters)
    assert {*notebook.profiles} - {"decide"} == {"smoke", "paper"}
    assert notebook.figures
    seen = inspect_notebook(notebook.path)
    assert {key: entry["help"].strip() for key, entry in seen.items()} == {
        key: parameter.help for key, parameter in notebook.parameters.items()
    }


NEEDED = """caption date seconds data solvers runs machine threads load wall_over_cpu
    jobs versions commit commits_of_runs command key timed traces""".split()


def records(name):
    """Yield each committed figure's picture, and its record."""
    for path in (CHECKOUT / "figures" / name).glob("*.json"):
        yield path.with_suffix(".png"), json.loads(path.read_text())


@each("name", COMMITTED)
def test_committed_figures_pair_with_their_notebook(name):
    (notebook,) = find([name])
    pictures = (CHECKOUT / "figures" / name).glob("*.png")
    assert {picture.stem for picture in pictures} == set(notebook.figures)
    assert {picture.stem for picture, _ in records(name)} == set(notebook.figures)
    for picture, record in records(name):
        assert record["notebook"] == f"notebooks/figures/{name}.ipynb"
        assert record["figure"] == picture.stem
        assert record["parameters"].keys() == notebook.parameters.keys()
        assert record["command"].startswith(f"workbench figures {name} ")
        assert record["files"]["png"] == digest(picture)
        assert picture.stat().st_size < 200_000
        assert set(record) >= {*NEEDED}


@each("name", COMMITTED)
def test_committed_figures_name_commits_machine_and_data(name):
    for _, record in records(name):
        for commit in (record["commit"], *record["commits_of_runs"]):
            assert re.fullmatch("[0-9a-f]{12}", commit), "it cannot be checked out"
        assert len(record["beneath"]) <= MAX_LINES, "its first sentence is too long"
        beneath = " ".join(record["beneath"])
        assert record["machine"]["cpu"] in beneath
        for problem in record["data"]:
            assert re.fullmatch("[0-9a-f]{16}", problem["checksum"])
            if problem["synthetic"]:
                assert "synthetic" in record["caption"]
                assert "synthetic" in beneath


@each("name", COMMITTED)
def test_committed_figures_say_if_they_were_not_timed(name):
    for _, record in records(name):
        reason = why_not_timed(record)
        assert record["timed"] == (not reason), reason
        if not reason:
            assert record["machine"]["cpu"] in record["caption"]
            assert "Not timed" not in record["caption"]
        elif record["parameters"].get("timing", True):
            assert f"Not timed: {reason}." in record["caption"]
        else:
            assert "Not timed" in record["caption"]


# All of them take minutes: whoever changes labels or captions sets the variable.
REDRAWN = (
    COMMITTED if os.environ.get("WORKBENCH_REDRAW") else ["ls_table1", "mrc_epsilon"]
)


@each("name", REDRAWN)
def test_the_words_of_committed_figures_are_those_of_the_code(
    name, execute, tmp_path, monkeypatch
):
    found = CHECKOUT / "results" / f"{name}.parquet"
    monkeypatch.setenv("WORKBENCH_FIGURES", str(tmp_path))
    monkeypatch.setenv("WORKBENCH_RESULTS", str(found))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (notebook,) = find([name])
    execute(notebook.path, notebook.values("paper", read_results(found)[1]))
    for figure in notebook.figures:
        place = f"{name}/{figure}.json"
        folders = (CHECKOUT / "figures", tmp_path)
        ours, redrawn = (json.loads((f / place).read_text("utf-8")) for f in folders)
        # A figure without runs names the machine that draws it.
        words = ("labels", "caption", "beneath") if ours["traces"] else ("labels",)
        assert {w: redrawn[w] for w in words} == {w: ours[w] for w in words}


def test_every_folder_of_figures_has_its_notebook():
    folders = {p.name for p in (CHECKOUT / "figures").iterdir() if p.is_dir()}
    assert folders - {"quick", "smoke"} == set(COMMITTED)


@pytest.fixture
def rough(monkeypatch):
    """Let figures be drawn coarsely and without a layout, which takes most of the
    time."""
    savefig = Figure.savefig

    def coarse(figure, sink, **given):
        savefig(figure, sink, format=given["format"], dpi=20)

    monkeypatch.setattr(Figure, "savefig", coarse)
    monkeypatch.setattr(Figure, "draw_without_rendering", lambda figure: None)
    monkeypatch.setattr(Figure, "get_tightbbox", lambda figure: figure.bbox_inches)


@slow
@each("name", COMMITTED)
def test_every_figure_notebook_runs_at_its_smallest_scale(
    name, execute, tmp_path, no_workers, monkeypatch, request
):
    if name != "mrc_epsilon":  # one is drawn as it is for readers
        request.getfixturevalue("rough")
    monkeypatch.setenv("WORKBENCH_FIGURES", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which some notebooks append
    notebook = read(FOLDER / f"{name}.ipynb")
    execute(notebook.path, notebook.values("smoke"))
    for figure in notebook.figures:
        record = json.loads((tmp_path / name / f"{figure}.json").read_text())
        assert record["data"] and record["solvers"] and record["profile"] == "smoke"


@each_path(GRIDS)
def test_every_grid_reads(path):
    points = read_points(path)
    assert len(points) > 1 and len({point.label for point in points}) == len(points)


def test_every_hyper_parameter_has_its_sweep():
    declared = {name for path in SWEEPS for name in read(path).parameters}
    assert {*"eps1 eps2 n_max batch_size lam".split()} <= declared
    swept = {
        name for path in GRIDS for point in read_points(path) for name in point.varied
    }
    assert {*"eps1 eps2 n_max batch_size lam lambda0 C".split()} <= swept


@slow
@each_path(SWEEPS)
def test_every_notebook_runs_over_a_grid_of_its_parameters(path, execute):
    """As tests/runs/test_fanout.py holds of any notebook, each run is then kept as
    executed."""
    runs = fan_out(read(path), SWEPT[path.stem])
    assert len(runs) == 2 and len({run.key for run in runs}) == 2
    ran = execute(path, runs[0].work.args[1])
    assert sum(figures for *_, figures in ran)


def test_git_sees_a_notebook_that_was_run_as_it_was(tmp_path):
    """`make lab` sets the filter; the file keeps its outputs, yours are your own."""
    make = (CHECKOUT / "Makefile").read_text("utf-8")
    (command,) = re.findall(r"git config filter\.notebook\.clean '(.*)'", make)
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    git(["git", "init", "--quiet"])
    git(["git", "config", "filter.notebook.clean", command])
    for name in (".gitattributes", ".jupyter/clean.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    source = CHECKOUT / "notebooks/00_start_here.ipynb"
    for name in ("notebooks/known.ipynb", "mine.ipynb", "notebooks/broken.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, tmp_path / name)
    git(["git", "add", "."])
    content = nbformat.read(source, 4)
    output = new_output("stream", text="x")
    content.cells[1] |= {"outputs": [output], "execution_count": 1}
    content.cells[1].metadata["execution"] = {"iopub.status.busy": "2026"}
    version = {"name": "python", "version": "3.11"}
    content.metadata |= {"widgets": {}, "language_info": version}
    for name in ("notebooks/known.ipynb", "mine.ipynb"):
        nbformat.write(content, tmp_path / name)
    (tmp_path / "notebooks/broken.ipynb").write_text("{")
    changed = git(["git", "diff", "--name-only"], text=True).stdout.split()
    assert changed == ["mine.ipynb", "notebooks/broken.ipynb"]
    assert nbformat.read(tmp_path / "notebooks/known.ipynb", 4).cells[1].outputs


def test_every_notebook_is_behind_a_door():
    content = nbformat.read(CHECKOUT / "notebooks/00_start_here.ipynb", 4)
    names = {path.relative_to(CHECKOUT / "notebooks").as_posix() for path in ALL}
    behind = content.cells[0].source + content.cells[2].source
    assert names - set(re.findall(r"\]\((.*?)\)", behind)) == {"00_start_here.ipynb"}
