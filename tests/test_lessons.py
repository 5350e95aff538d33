"""The lessons: a check prints and never raises, and every lesson runs from top to bottom."""

import re
from pathlib import Path
from time import perf_counter

import nbformat
import numpy as np
import pytest

from checks import mrc as teach
from checks.exercise import Hint, Unfinished, array, ask, exercise, number

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "notebooks" / "learn").glob("*.ipynb"))
NOTEBOOKS = [ROOT / "notebooks" / "00_start_here.ipynb", *LESSONS]
KINDS = {"derive", "code", "predict", "break"}
SECONDS = 240  # for one lesson on a slow, shared core


# The machinery of a check.


@exercise
def check_half(answer):
    """A check to check the checks with."""
    if number(answer) != 0.5:
        raise Hint("heads and tails are equally likely")
    return "a fair coin"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (0.5, "right: a fair coin"),
        (0.4, "try again: heads and tails are equally likely"),
        (..., "not yet: "),
        (None, "not yet: "),
        ([0.5, ...], "not yet: "),
        ("half", "try again: a number is asked for, got 'half'"),
    ],
)
def test_a_check_prints_and_never_raises(answer, told, capsys):
    assert check_half(answer) is None
    assert capsys.readouterr().out.startswith(told)


def test_a_check_survives_the_students_errors(capsys):
    teach.check_two_labels(lambda a, b: 1 / 0)
    assert capsys.readouterr().out.startswith("try again: your answer raised ZeroDivisionError")
    with pytest.raises(Unfinished):
        ask(lambda: (1, ...))
    with pytest.raises(Hint, match=r"M should have the shape \(2,\), has \(3,\)"):
        array([1, 2, 3], (2,), "M")


# The notebooks.


def read(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_clean_and_its_cells_are_short(path):
    notebook = read(path)
    assert notebook.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in ids)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    lengths = np.array([len(cell.source.splitlines()) for cell in code])
    assert lengths.max() <= 30
    assert np.mean(lengths <= 12) > 0.6


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_exercise_has_its_check_and_a_hidden_solution(path):
    kinds, cells = [], read(path).cells
    waiting = False  # for the cells of the last exercise announced
    for cell, after in zip(cells, [*cells[1:], None]):
        announced = re.findall(r"^### Exercise (\d+) · (\w+)$", cell.source, flags=re.M)
        tags = cell.metadata.get("tags", ())
        if cell.cell_type == "markdown" and announced:
            assert not waiting and len(announced) == 1
            (at, kind), waiting = announced[0], True
            kinds.append(kind)
            assert int(at) == len(kinds)
        elif "exercise" in tags:
            (check,) = re.findall(r"^teach\.check_\w+\(.*\)$", cell.source, flags=re.M)
            assert waiting and "..." in cell.source and after.metadata.tags == ["solution"]
            assert after.metadata.jupyter.source_hidden and after.source.endswith(check)
            waiting = False
    assert not waiting and len(kinds) >= 4 and set(kinds) == KINDS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(path, execute, monkeypatch):
    monkeypatch.chdir(ROOT)
    begun, pictures = perf_counter(), 0
    for cell, text, figures, _ in execute(path):
        tags = cell.metadata.get("tags", ())
        expected = {"exercise": "not yet:", "solution": "right:"}
        for tag in set(tags) & set(expected):
            assert text.startswith(expected[tag]), cell.source
        assert "try again" not in text
        pictures += figures
    assert pictures
    duration = perf_counter() - begun
    assert duration < SECONDS, f"{path.stem} took {duration:.0f} s"
