"""Figure notebooks through papermill: what they must declare, and how they are run."""

import json
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from helpers.notebooks import printed
from PIL import Image

from workbench.core.stream import rounds, seconds
from workbench.core.trace import Trace
from workbench.data import load
from workbench.figures import Figures, plots, provenance, style
from workbench.runs import mill as room
from workbench.runs.mill import make, notebook_key
from workbench.runs.notebooks import read
from workbench.runs.run import run

PARAMETERS = "points: int = 3  # how many points\ngrid: str = '1,2'  # where"
DRAW = """
from pathlib import Path
import matplotlib.pyplot as plt
from workbench.figures import Figures
figures = Figures({name!r}, globals(), notebooks=Path({folder!r}))
fig, ax = plt.subplots(figsize=(3, 2))
ax.plot(range(points))
figures.save(fig, "line", f"A line of {{points}} points.", numbers=[{{"points": points}}])
print("drawn")
"""


def write(folder: Path, name: str, *code: str, parameters=PARAMETERS, **declared):
    """Write a toy figure notebook; `declared` replaces entries of its metadata."""
    declared = {
        "figures": ["line"],
        "profiles": {"smoke": {"points": 2}, "paper": {}},
    } | declared
    cells = [nbformat.v4.new_code_cell(source) for source in code]
    if parameters is not None:
        cells.insert(
            0, nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        )
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata |= {"kernelspec": kernel, "workbench": declared}
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def mill(tmp_path):
    """Run toy notebooks of a folder; returns the failures and the lines that were
    said."""
    folder = tmp_path / "notebooks"
    folder.mkdir()

    def run(*names, **options):
        lines, places = (
            [],
            {"figures": tmp_path / "figures", "executed": tmp_path / "runs"},
        )
        given = places | {"notebooks": folder, "say": lines.append, "jobs": 1} | options
        return make(names, **given), lines

    run.folder = folder
    return run


def draw(folder: Path, name: str) -> str:
    return DRAW.format(name=name, folder=str(folder))


def test_a_figure_is_saved_with_how_it_was_made(mill, tmp_path):
    code = "import numba, sys\nfrom ipykernel.kernelapp import IPKernelApp\nprint(sys.executable)\n"
    code += "from threadpoolctl import threadpool_info\nprint(IPKernelApp.instance().transport)\n"
    code += "print(numba.get_num_threads(), {pool['num_threads'] for pool in threadpool_info()})\n"
    write(mill.folder, "a_broken", "print('so far')\nraise RuntimeError('no luck')")
    write(mill.folder, "b_dead", "import os; os._exit(3)")
    write(mill.folder, "toy", code + draw(mill.folder, "toy"))
    failed, lines = mill(profile="smoke", jobs=2)
    assert sorted(failed) == ["a_broken", "b_dead"]
    assert "RuntimeError: no luck" in "\n".join(lines)
    said = printed(tmp_path / "runs" / "toy.ipynb").splitlines()
    assert (
        sys.executable in said
        and "drawn" in said
        and ("ipc" in said or os.name == "nt")
    )
    assert "1 {1}" in said, "each has one thread"
    assert sum("toy: done" in line and "toy/line.png" in line for line in lines) == 1
    assert len(lines) == 2 + 3, "one line per notebook"
    made = tmp_path / "figures" / "toy"
    assert {p.name for p in made.iterdir()} == {
        f"line.{kind}" for kind in ("png", "svg", "pdf", "json")
    }
    kept = {p.name for p in (tmp_path / "runs").iterdir()}
    assert kept >= {"toy.ipynb", "a_broken.failed.ipynb"}
    assert not [name for name in kept if ".part." in name]
    record = json.loads((made / "line.json").read_text())
    wanted = {"notebook": "notebooks/figures/toy.ipynb", "profile": "smoke", "jobs": 2}
    wanted |= {"parameters": {"points": 2, "grid": "1,2"}, "numbers": [{"points": 2}]}
    assert record.items() >= wanted.items()
    assert (
        record["caption"].startswith("A line of 2 points. ")
        and "Machine: " in record["caption"]
    )
    assert "Not timed: 2 notebooks ran side by side." in record["caption"]
    assert set(record["versions"]) >= {"python", "numpy", "workbench", "commit"}
    assert set(record["machine"]) == {"cpu", "cores", "memory_gb", "system"}


def test_a_notebook_runs_again_only_if_something_changed(
    mill, tmp_path, monkeypatch, no_kernels
):
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    made = tmp_path / "figures" / "toy"
    good = draw(mill.folder, "toy")

    def runs(**options):
        failed, lines = mill("toy", **options)
        assert failed == []
        return any("done in" in line for line in lines)

    def files():
        return [(made / f"line.{kind}").read_bytes() for kind in ("png", "svg", "pdf")]

    write(mill.folder, "toy", good)
    assert runs() and not runs()
    before = files()
    assert runs(again=True)
    assert files() == before, "equal figures are equal files"
    write(mill.folder, "toy", good.replace("ax.plot", "ax.plott"))
    assert mill()[0] == ["toy"] and files() == before, "a failure leaves the old figure"
    write(mill.folder, "toy", good)
    assert not runs()
    assert runs(overrides={"points": "4"}) and not runs(overrides={"points": "4"})
    assert runs()
    record = json.loads((made / "line.json").read_text())
    (made / "line.json").write_text(
        json.dumps(record | {"jobs": 2})
    )  # next to another: not timed
    assert not runs(jobs=2) and runs() and not runs()
    (made / "line.svg").unlink()
    assert runs()
    for sidecar in ("{", "[]", "", '{"files": 1}'):
        (made / "line.json").write_text(sidecar)
        assert runs()
    for kind, content in (
        ("png", b""),
        ("svg", before[1][:-9]),
        ("pdf", bytes(len(before[2]))),
    ):
        (made / f"line.{kind}").write_bytes(content)
        assert runs() and not runs()
    (tmp_path / "new.npz").write_bytes(b"data")
    assert runs()
    write(mill.folder, "toy", good + "\nprint(points)")
    assert runs() and not runs()


def test_pictures_are_the_same_whatever_the_user_has_set(tmp_path):
    write(tmp_path, "toy")
    figures = Figures(
        "toy", {"points": 3, "grid": 1}, folder=tmp_path / "figures", notebooks=tmp_path
    )
    odd = {
        "font.size": 20,
        "savefig.facecolor": "red",
        "svg.fonttype": "none",
        "lines.marker": "o",
    }
    odd |= {"savefig.pad_inches": 1, "text.color": "red", "axes.facecolor": "red"}
    drawn = []
    for backend, settings in (("agg", {}), ("agg", odd), ("pdf", odd), ("svg", odd)):
        with plt.rc_context(settings):
            plt.switch_backend(backend)
            style.use_style()
            figure, ax = plt.subplots(figsize=(3, 2))
            ax.plot(range(3))
            ax.set_xlabel("a label")
            plt.rcParams.update(settings)
            figures.save(figure, "line", "A line of some words.")
            plt.close(figure)
        drawn.append(
            [
                (figures.folder / f"line.{kind}").read_bytes()
                for kind in ("png", "svg", "pdf")
            ]
        )
        record = json.loads((figures.folder / "line.json").read_text())
        assert record["labels"] == ["a label"]
    plt.switch_backend("agg")
    assert all(each == drawn[0] for each in drawn)


def test_a_figure_has_a_key_and_the_command_that_makes_it_again(
    mill, monkeypatch, tmp_path
):
    write(mill.folder, "toy", draw(mill.folder, "toy"))
    notebook = read(mill.folder / "toy.ipynb")
    keys = [notebook_key(notebook, notebook.values())]
    monkeypatch.setattr(room, "PACKAGE", tmp_path)  # another package
    keys.append(notebook_key(notebook, notebook.values()))
    (tmp_path / "shark.csv").write_text("12")
    monkeypatch.setattr(room, "PRINTED", tmp_path)
    keys.append(notebook_key(notebook, notebook.values()))
    (mill.folder / "shared.py").write_text("A = 1")
    keys.append(notebook_key(notebook, notebook.values()))
    assert len(set(keys)) == 4
    profile, command = provenance.regenerated_by(notebook, notebook.values("smoke"))
    assert (profile, command) == ("smoke", "workbench figures toy --profile smoke")
    values = notebook.values(overrides={"points": "4", "grid": "3, 4"})
    command = "workbench figures toy -p points=4 -p grid='3, 4'"
    assert provenance.regenerated_by(notebook, values) == (None, command)


LOADS = (  # of a run with one thread: timing mode, changes of its header, the reason
    (True, {"load": 0.2, "load_at_end": 1.4}, ""),
    (True, {"load": None, "load_at_end": None}, ""),
    (False, {"load": 0.2}, "the seconds were not measured in timing mode"),
    (True, {"load": 6.66}, "the machine was busy (load 6.66, this run used 1 thread)"),
    (True, {"load_at_end": 1.5}, "the machine was busy (load 1.5, this run"),
    (True, {"load_at_end": 2.4, "beside": 1}, ""),
    (True, {"load_at_end": 2.4, "parameters": {"threads": 2}}, ""),
    (True, {"load": 2.5, "parameters": {"threads": 2}}, "this run used 2 threads"),
)


def test_what_was_not_timed_says_so_and_records_are_strict_json():
    whole, _ = run("mrc_interior_point", load("iris", test=0.3), rounds(2))
    assert set(whole.header) >= {"load", "load_at_end"}
    calm = {"timed": True, "load": 0.5, "load_at_end": 0.5, "threads": {"openblas": 1}}
    for timing, change, reason in LOADS:
        rows = [row | {"seconds": row["cpu"]} for row in whole.rows]
        made = provenance.made_by(
            [Trace(whole.header | calm | {"timed": timing} | change, rows)]
        )
        assert made["timed"] is (not reason) and bool(made.get("not_timed")) == bool(
            reason
        )
        said = [s for s in provenance.in_words(made) if s.startswith("Not timed: ")]
        assert len(said) == bool(reason) and all(
            reason in sentence for sentence in said
        )
        assert ("Not timed." in provenance.in_words(made, times=False)) == bool(reason)
        assert made["traces"][0]["solver"] == "mrc_interior_point"
    slow = Trace(whole.header | calm, [{"round": 1, "seconds": 1.3, "cpu": 1.0}])
    made = provenance.made_by([slow])
    assert (
        made["timed"] is False
        and "wall time was 1.3 times CPU time" in made["not_timed"]
    )
    assert provenance.made_by([])["timed"] is None
    record = {"a": np.inf, "b": [{"n": 1, "text": "x"}], "c": []}
    assert json.loads(provenance.as_json(record)) == record | {"a": "inf"}


REFUSALS = {
    "exactly one cell tagged 'parameters'": {"parameters": None},
    "toy: not a notebook .* invalid syntax": {"parameters": "points: int ="},
    "toy has no 'pints'": {"profiles": {"smoke": {"pints": 2}, "paper": {}}},
    "points: must be of type int, got 'two'": {
        "profiles": {"smoke": {"points": "two"}}
    },
    "good has no 'pints'; did you mean points": {},
}


def test_refused_before_anything_runs(mill, tmp_path):
    touched = tmp_path / "touched"
    touch = f"open({str(touched)!r}, 'w')"
    write(mill.folder, "good", touch)
    for message, change in REFUSALS.items():
        write(mill.folder, "toy", touch, **change)
        with pytest.raises(ValueError, match=message):
            mill("good", "toy", overrides={} if change else {"pints": "3"})
    assert not touched.exists() and not (tmp_path / "figures").exists()


def test_figures_say_which_runs_the_clock_ended(tmp_path, monkeypatch):
    write(tmp_path, "toy")
    figures = Figures(
        "toy", {"points": 3, "grid": 0.01}, folder=tmp_path, notebooks=tmp_path
    )
    assert figures.parameters == {"points": 3, "grid": "0.01"}
    trace, _ = run("mrc_interior_point", load("iris", test=0.3), seconds(0.0))
    (tmp_path / "a.npz").write_bytes(b"a proof")
    read_back = lambda: json.loads((tmp_path / "toy" / "line.json").read_text())  # noqa: E731
    figures.save(plt.subplots()[0], "line", "A line.", proofs=[tmp_path / "a.npz"])
    assert (tmp_path / "toy" / "line.proofs" / "a.npz").read_bytes() == b"a proof"
    assert read_back()["proofs"] == ["line.proofs/a.npz"]
    key = read_back()["key"]
    for name, (width, scale) in style.PAPER_SIZES.items():
        monkeypatch.setenv("WORKBENCH_STYLE", name)
        with plt.rc_context():
            style.use_style()
            assert plt.rcParams["font.size"] == pytest.approx(9 * scale)
            figure, ax = plt.subplots(figsize=(7.2, 3.0))
            ax.plot(np.eye(9), label=[f"the label of line {i}" for i in range(9)])
            style.legend(figure, 9)
            bare = Figures(
                "toy", {"points": 3, "grid": 1}, folder=tmp_path, notebooks=tmp_path
            )
            bare.save(figure, "line", "A line.")
        assert Image.open(tmp_path / "toy" / "line.png").size == (
            160 * width,
            480 * scale,
        )
        assert figure.legends[0].get_window_extent().width <= figure.bbox.width
        assert b"/FontFile2" in (tmp_path / "toy" / "line.pdf").read_bytes()
        assert (
            read_back()["caption"].startswith("A line.") and read_back()["key"] != key
        )
    figures.save(plt.figure(), "line", "A line.", iter([trace]))
    assert {p.name for p in (tmp_path / "toy").iterdir()} == {"line.png", "line.json"}
    said = f"{plots.ENDED} (0 seconds): MRC interior point (ours) in 1 of 1 runs."
    assert read_back()["caption"].startswith(f"A line. {said} Data: iris")
    with pytest.raises(ValueError, match=r"does not declare 'curve'.*declares line"):
        figures.save(None, "curve", "")
    with pytest.raises(ValueError, match="points: must be of type int, got 'x'"):
        Figures("toy", {"points": "x", "grid": ""}, notebooks=tmp_path)
    with pytest.raises(ValueError, match="not set"):
        Figures("toy", {"points": 3}, notebooks=tmp_path)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("WORKBENCH_FIGURES", raising=False)
    monkeypatch.chdir(tmp_path)  # a copied notebook saves its figures from any folder
    for name, expected in (("mine", {}), ("toy", {"points": 3, "grid": "1,2.5"})):
        figures = Figures(name, {"points": 3, "grid": [1, 2.5]})
        assert figures.parameters == expected
        figures.save(plt.figure(), "line", "A line.")
        assert (tmp_path / "runs" / "by_hand" / name / "line.png").exists()
