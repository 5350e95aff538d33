"""Figure notebooks through papermill: what they must declare, and how they are run."""

import json
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import each, module_fixture, notebooks, refuses
from PIL import Image

from workbench import load, rounds, run, seconds
from workbench.core.trace import Trace
from workbench.figures import Figures, plots, provenance, style
from workbench.runs import mill as room
from workbench.runs.mill import make, notebook_key
from workbench.runs.notebooks import read

KINDS = "png", "svg", "pdf"
PARAMETERS = "points: int = 3  # how many points\ngrid: str = '1,2'  # where"
DRAW = """
from pathlib import Path
import matplotlib.pyplot as plt
from workbench.figures import Figures
figures = Figures({name!r}, globals(), notebooks=Path({folder!r}))
fig, ax = plt.subplots(figsize=(3, 2))
ax.plot(range(points))
numbers = [{{"points": points}}]
figures.save(fig, "line", f"A line of {{points}} points.", numbers=numbers)
print("drawn")
"""


def write(folder: Path, name: str, *code: str, parameters=PARAMETERS, **declared):
    """Write a toy figure notebook; `declared` replaces entries of its metadata."""
    profiles = {"smoke": {"points": 2}, "paper": {}}
    declared = {"figures": ["line"], "profiles": profiles} | declared
    path = folder / f"{name}.ipynb"
    if parameters is None:
        return notebooks.write(path, *code, tagged=False, workbench=declared)
    return notebooks.write(path, parameters, *code, workbench=declared)


def mill_in(place):
    """Return a runner of toy notebooks, which returns failures and what was said."""
    folder = place / "notebooks"
    folder.mkdir()
    places = {"figures": place / "figures", "executed": place / "runs"}

    def run(*names, **options):
        lines = []
        given = places | {"notebooks": folder, "say": lines.append, "jobs": 1} | options
        return make(names, **given), lines

    run.folder = folder
    return run


@pytest.fixture
def mill(tmp_path):
    return mill_in(tmp_path)


def draw(folder: Path, name: str) -> str:
    return DRAW.format(name=name, folder=str(folder))


THREADS = """
import numba, sys
from ipykernel.kernelapp import IPKernelApp
from threadpoolctl import threadpool_info
print(sys.executable)
print(IPKernelApp.instance().transport)
print(numba.get_num_threads(), {pool["num_threads"] for pool in threadpool_info()})
"""


@module_fixture
def three(tmp_path_factory):
    """Run a good notebook next to two bad ones; return the folder and what was said."""
    place = tmp_path_factory.mktemp("three")
    mill = mill_in(place)
    write(mill.folder, "a_broken", "print('so far')\nraise RuntimeError('no luck')")
    write(mill.folder, "b_dead", "import os; os._exit(3)")
    write(mill.folder, "toy", THREADS + draw(mill.folder, "toy"))
    failed, lines = mill(profile="smoke", jobs=2)
    assert sorted(failed) == ["a_broken", "b_dead"]
    return place, lines


def test_failing_notebooks_are_kept_and_stop_no_other(three):
    place, lines = three
    assert "RuntimeError: no luck" in "\n".join(lines)
    assert sum("toy: done" in line and "toy/line.png" in line for line in lines) == 1
    assert len(lines) == 2 + 3, "one line per notebook"
    kept = {p.name for p in (place / "runs").iterdir()}
    assert kept >= {"toy.ipynb", "a_broken.failed.ipynb"}
    assert not [name for name in kept if ".part." in name]


def test_notebooks_side_by_side_have_one_thread_each(three):
    said = notebooks.printed(three[0] / "runs" / "toy.ipynb").splitlines()
    assert sys.executable in said and "drawn" in said
    assert "ipc" in said or os.name == "nt"
    assert "1 {1}" in said


def test_a_figure_is_saved_with_how_it_was_made(three):
    made = three[0] / "figures" / "toy"
    kinds = {path.suffix for path in made.glob("line.*")}
    assert kinds == {".png", ".svg", ".pdf", ".json"} and len([*made.iterdir()]) == 4
    record = json.loads((made / "line.json").read_text())
    wanted = {
        "profile": "smoke",
        "jobs": 2,
        "parameters": {"points": 2, "grid": "1,2"},
        "numbers": [{"points": 2}],
    }
    assert record.items() >= wanted.items()
    caption = record["caption"]
    assert caption.startswith("A line of 2 points. ") and "Machine: " in caption
    assert "Not timed: 2 notebooks ran side by side." in caption
    assert set(record["versions"]) >= {"python", "numpy", "workbench", "commit"}
    assert set(record["machine"]) == {"cpu", "cores", "memory_gb", "system"}


@pytest.fixture
def toy(mill, tmp_path, monkeypatch, no_kernels):
    """Return a runner of one notebook, which says whether it had to run."""
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))

    def runs(**options):
        failed, lines = mill("toy", **options)
        assert failed == []
        return any("done in" in line for line in lines)

    runs.write = lambda code: write(mill.folder, "toy", code)
    runs.code = draw(mill.folder, "toy")
    runs.folder = tmp_path / "figures" / "toy"
    runs.write(runs.code)
    assert runs() and not runs()
    return runs


def test_a_notebook_runs_again_only_if_something_changed(toy, tmp_path):
    assert toy(overrides={"points": "4"}) and not toy(overrides={"points": "4"})
    assert toy()
    (tmp_path / "new.npz").write_bytes(b"data")
    assert toy()
    toy.write(toy.code + "\nprint(points)")
    assert toy() and not toy()
    sidecar = toy.folder / "line.json"  # of a run next to another, which is not timed
    record = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps(record | {"jobs": 2}))
    assert not toy(jobs=2) and toy()


def test_equal_figures_are_equal_files_and_a_failure_leaves_them(toy, mill):
    def files():
        return [(toy.folder / f"line.{kind}").read_bytes() for kind in KINDS]

    before = files()
    assert toy(again=True) and files() == before
    toy.write(toy.code.replace("ax.plot", "ax.plott"))
    assert mill()[0] == ["toy"] and files() == before
    toy.write(toy.code)
    assert not toy()


def test_a_damaged_figure_is_drawn_again(toy):
    (toy.folder / "line.svg").unlink()
    assert toy()
    for sidecar in ("{", "[]", "", '{"files": 1}'):
        (toy.folder / "line.json").write_text(sidecar)
        assert toy()
    for kind, size in (("png", 0), ("svg", -9), ("pdf", 0)):
        path = toy.folder / f"line.{kind}"
        whole = path.read_bytes()
        path.write_bytes(bytes(len(whole)) if kind == "pdf" else whole[:size])
        assert toy() and not toy()


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
        "savefig.pad_inches": 1,
        "text.color": "red",
        "axes.facecolor": "red",
    }
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
        drawn.append([(figures.folder / f"line.{k}").read_bytes() for k in KINDS])
        record = json.loads((figures.folder / "line.json").read_text())
        assert record["labels"] == ["a label"]
    plt.switch_backend("agg")
    assert all(each == drawn[0] for each in drawn)


def test_a_figure_has_a_key_and_the_command_that_makes_it_again(
    mill, monkeypatch, tmp_path
):
    write(mill.folder, "toy", draw(mill.folder, "toy"))
    notebook = read(mill.folder / "toy.ipynb")
    keys = set()

    def keep():
        keys.add(notebook_key(notebook, notebook.values()))

    keep()
    monkeypatch.setattr(room, "PACKAGE", tmp_path)  # another package
    keep()
    (tmp_path / "shark.csv").write_text("12")
    monkeypatch.setattr(room, "PRINTED", tmp_path)
    keep()
    (mill.folder / "shared.py").write_text("A = 1")
    keep()
    assert len(keys) == 4
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


CALM = {"timed": True, "load": 0.5, "load_at_end": 0.5, "threads": {"openblas": 1}}


@module_fixture
def whole():
    return run("mrc_interior_point", load("iris", test=0.3), rounds(2))[0]


@each("timing, change, reason", LOADS)
def test_what_was_not_timed_says_so(timing, change, reason, whole):
    assert set(whole.header) >= {"load", "load_at_end"}
    rows = [row | {"seconds": row["cpu"]} for row in whole.rows]
    header = whole.header | CALM | {"timed": timing} | change
    made = provenance.made_by([Trace(header, rows)])
    assert made["timed"] is (not reason)
    said = " ".join(provenance.in_words(made))
    assert said.count("Not timed: ") == bool(reason) and reason in said
    assert ("Not timed." in provenance.in_words(made, times=False)) == bool(reason)
    assert made["traces"][0]["solver"] == "mrc_interior_point"


def test_wall_time_beyond_cpu_time_is_not_timed(whole):
    slow = Trace(whole.header | CALM, [{"round": 1, "seconds": 1.3, "cpu": 1.0}])
    other = Trace(slow.header | {"machine": {"cpu": "Z80"}}, slow.rows)
    made = provenance.made_by([slow, other])
    assert made["machine"]["cpu"].endswith(" and Z80")
    assert made["timed"] is False
    assert "wall time was 1.3 times CPU time" in made["not_timed"]
    assert provenance.made_by([])["timed"] is None


def test_records_are_strict_json():
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
        with refuses(message):
            mill("good", "toy", overrides={} if change else {"pints": "3"})
    assert not touched.exists() and not (tmp_path / "figures").exists()


@pytest.fixture
def saved(tmp_path):
    """Return figures of a notebook, and a reader of the sidecar of its only one."""
    write(tmp_path, "toy")
    values = {"points": 3, "grid": 0.01}
    figures = Figures("toy", values, folder=tmp_path, notebooks=tmp_path)
    assert figures.parameters == {"points": 3, "grid": "0.01"}
    path = tmp_path / "toy" / "line.json"
    return figures, lambda: json.loads(path.read_text())


def test_a_proof_is_kept_with_its_figure_while_it_is_of_it(saved, tmp_path):
    figures, sidecar = saved
    (tmp_path / "a.npz").write_bytes(b"a proof")
    figures.save(plt.subplots()[0], "line", "A line.", proofs=[tmp_path / "a.npz"])
    assert (tmp_path / "toy/line.proofs/a.npz").read_bytes() == b"a proof"
    assert sidecar()["proofs"] == ["line.proofs/a.npz"]
    figures.save(plt.figure(), "line", "A line.")
    assert not (tmp_path / "toy" / "line.proofs").exists()


@each("name", style.PAPER_SIZES)
def test_a_paper_s_style_has_its_size_fonts_and_key(name, saved, tmp_path, monkeypatch):
    figures, sidecar = saved
    figures.save(plt.figure(), "line", "A line.")
    key = sidecar()["key"]
    width, scale = style.PAPER_SIZES[name]
    monkeypatch.setenv("WORKBENCH_STYLE", name)
    with plt.rc_context():
        style.use_style()
        assert plt.rcParams["font.size"] == pytest.approx(9 * scale)
        figure, ax = plt.subplots(figsize=(7.2, 3.0))
        ax.plot(np.eye(9), label=[f"the label of line {i}" for i in range(9)])
        style.legend(figure, 9)
        values = {"points": 3, "grid": 1}
        bare = Figures("toy", values, folder=tmp_path, notebooks=tmp_path)
        bare.save(figure, "line", "A line.")
    size = Image.open(tmp_path / "toy" / "line.png").size
    assert size == (160 * width, 480 * scale)
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width
    assert b"/FontFile2" in (tmp_path / "toy" / "line.pdf").read_bytes()
    assert sidecar()["caption"].startswith("A line.") and sidecar()["key"] != key
    figures.save(plt.figure(), "line", "A line.")
    kept = {path.name for path in (tmp_path / "toy").iterdir()}
    assert kept == {"line.png", "line.json"}, "nothing is left of the other style"


def test_figures_say_which_runs_the_clock_ended(saved):
    figures, sidecar = saved
    trace, _ = run("mrc_interior_point", load("iris", test=0.3), seconds(0.0))
    figures.save(plt.figure(), "line", "A line.", iter([trace]))
    said = f"{plots.ENDED} (0 seconds): 1 of 1 runs of MRC interior point (ours)."
    assert sidecar()["caption"].startswith(f"A line. {said} Data: iris")


def test_what_a_notebook_does_not_declare_is_refused(saved, tmp_path):
    with refuses(r"does not declare 'curve'.*declares line"):
        saved[0].save(None, "curve", "")
    with refuses("points: must be of type int, got 'x'"):
        Figures("toy", {"points": "x", "grid": ""}, notebooks=tmp_path)
    with refuses("not set"):
        Figures("toy", {"points": 3}, notebooks=tmp_path)


@each("name, expected", [("mine", {}), ("toy", {"points": 3, "grid": "1,2.5"})])
def test_a_copied_notebook_saves_in_runs(name, expected, tmp_path, monkeypatch):
    write(tmp_path, "toy")
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("WORKBENCH_FIGURES", raising=False)
    monkeypatch.chdir(tmp_path)
    figures = Figures(name, {"points": 3, "grid": [1, 2.5]})
    assert figures.parameters == expected
    figures.save(plt.figure(), "line", "A line.")
    assert (tmp_path / "runs" / "by_hand" / name / "line.png").exists()
