"""The documented example becomes a solver by one line of the registry."""

import re
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns

from helpers.processes import started

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "frank_wolfe.py"
LINE = '    "frank_wolfe": Solver("frank_wolfe:frank_wolfe", "Frank-Wolfe", '
LINE += 'colour="#123456"),\n'
PROGRAM = """
import sys
from pathlib import Path

import pytest

import workbench
from workbench.arena import contest
from workbench.cli import main
from workbench.core.stream import below, rounds
from workbench.data import load
from workbench.core.state import resumable
from workbench.live.inside import portrait
from workbench.live.lane import Lane
from workbench.registry import SOLVERS
from workbench.runs.grid import grid
from workbench.runs.run import run
from workbench.runs.sweep import sweep

if __name__ == "__main__":
    assert Path(workbench.__file__).is_relative_to(Path.cwd())
    assert main(["list"]) == main(["list", "frank_wolfe"]) == 0
    assert main(["run", "frank_wolfe", "iris", "--gap", "0.01"]) == 0

    # The minimum is the one that our working sets certify, C = 1 / (alpha n).
    problem = load("iris")
    stop, penalty = (below("gap", 1e-5), rounds(2000)), {"alpha": 0.1}
    mine = run("frank_wolfe", problem, *stop, parameters=penalty)[0].last
    given = {"C": 10 / problem.n, "l1": 0.0}
    other = run("cs_working_set", problem, *stop, parameters=given)[0].last
    assert mine["gap"] <= 1e-5
    assert mine["lower"] <= other["upper"] / given["C"] / problem.n
    assert other["lower"] / given["C"] / problem.n <= mine["upper"]

    alphas = {"frank_wolfe": {"alpha": [0.01, 0.1]}}
    points = grid(alphas, "iris", stop={"rounds": 5}, test=0.3)
    assert list(sweep(points).frame()["status"]) == ["done", "done"]
    entries = ["frank_wolfe", "centroid"]
    found = contest(["iris + constant"], entries, partitions=1, budget=0.2).frame()
    row = found.set_index("entry").loc["frank_wolfe"]
    assert row["status"] == "done" and "alpha" in row["settings"]
    assert row["test_error"] < 0.25

    lane = Lane("frank_wolfe", problem, {})
    for _ in range(4):
        assert lane.advance()["gap"] > 0
    assert lane.back() and lane.last["round"] == 2
    pictures = portrait(lane.state, problem)
    assert "Weights of each class" in [picture.title for picture in pictures]
    print("everywhere")

    options = ["-n0", "-rpf", "-p", "no:cacheprovider", "-k"]
    chosen = "frank_wolfe or which_of_its or colour or downwards or has_a_docstring"
    print("exit code", pytest.main([*options, chosen, *sys.argv[1:]]))
    dishonest = resumable("alpha")(SOLVERS["frank_wolfe"].steps.__wrapped__)
    SOLVERS["frank_wolfe"] = SOLVERS["frank_wolfe"]._replace(function=dishonest)
    del sys.modules["test_midrun"]
    options += ["all_is_true and frank_wolfe", *sys.argv[1:]]
    print("exit code", pytest.main(options))
"""


def test_one_line_and_a_solver_is_everywhere_and_held_to_all(tmp_path, monkeypatch):
    """Also, a live parameter that the solver does not handle is found out."""
    said = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert "examples/frank_wolfe.py" in said and LINE.strip() in said
    assert 'ARGS="-k frank_wolfe"' in " ".join(said.split())
    # A checkout with the example in it, and all that tests of all solvers look at.
    package = tmp_path / "workbench"
    copytree(ROOT / "workbench", package, ignore=ignore_patterns("__pycache__"))
    (tmp_path / "figures").mkdir()
    for name in "pyproject.toml Makefile notebooks data".split():
        (tmp_path / name).symlink_to(ROOT / name)
    copyfile(EXAMPLE, package / "frank_wolfe.py")
    text = (ROOT / "workbench/registry.py").read_text("utf-8")
    text = text.replace("SOLVERS = {\n", "SOLVERS = {\n" + LINE, 1)
    (package / "registry.py").write_text(text, "utf-8")
    (tmp_path / "everywhere.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    own = {"PYTHONPATH": str(tmp_path), "WORKBENCH_RUNS": str(tmp_path / "runs")}
    process = started("everywhere.py", ROOT / "tests", **own, OMP_NUM_THREADS="1")
    out, err = process.communicate()
    assert process.returncode == 0, out[-3000:] + err[-3000:]
    printed, _, tested = out.partition("everywhere\n")
    assert "Solvers: frank_wolfe, " in printed
    described = printed.partition("\nFrank-Wolfe: ")[2].splitlines()[1:3]
    assert [line.split()[:3] for line in described] == [
        ["alpha", "0.01", "float"],
        ["seed", "0", "int"],
    ]
    honest, dishonest, code = tested.split("exit code ")
    assert (dishonest[0], code[0]) == ("0", "1"), honest[-3000:]
    assert honest.count("[frank_wolfe") > 20 and "skipped" not in honest
    # Each of its tests is behind a promise, and each promise that names a test has one.
    tried = re.findall(r"::(\w+)", honest)
    promised = re.findall(r"`-k (\w+)`", said)
    own = {name for name in tried if f"{name}[frank_wolfe" in honest}
    assert not [name for name in own if not any(word in name for word in promised)]
    files = (ROOT / "tests").rglob("test_*.py")
    tests = "".join(path.read_text("utf-8") for path in files)
    assert not [w for w in promised if not re.search(rf"def test_\w*{w}", tests)]
    assert "which_of_its_parameters_are_live" in honest and "colour" in honest
    false_bounds = re.findall(r">       assert (?:max|min)\(best\[", dishonest)
    assert len(false_bounds) == 2, dishonest[-3000:]
