"""Mark what a class handed in: check each exercise again, and print a table.

``python mark.py handed_in/*.ipynb > marks.csv``, with the Python of a checkout of the
workbench. Run it in a container or as a user without rights: what students hand in is
code.

Each notebook runs in a process of its own, whose checks are the instructor's: they try
cases of their own, which `--seed` draws, and what a notebook does to the checks that it
imports changes nothing. A right answer counts 1, also if it stands in another cell; an
exercise graded by certificate counts the provable share of its decades. An answer that
`given` took from the lesson counts 0. If a notebook cannot be run to its end, its line
has the error, and counts what was marked until then.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib
import json
import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import date
from functools import cache
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from workbench.runs.jupyter_kernels import IpcKernelManager
from workbench.runs.notebooks import CHECKOUT

LEARN = CHECKOUT / "notebooks" / "learn"
# Packages that a notebook cannot change for its checks.
KEPT = {"builtins", "json", "math", "re", "io", "functools", "itertools", "operator"}
KEPT |= {"contextlib", "numpy", "workbench"}
# Names with which a notebook could reach the marker in its process.
INSIDES = {"gc", "inspect", "ctypes", "globals", "_getframe", "__globals__", "modules"}
# The audit events of starting a program.
PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
# Limits in wall seconds, after which cells are interrupted.
CELL_S = 600
NOTEBOOK_S = 1800
LATE = {"ename": "TimeoutError", "evalue": "the time is up", "traceback": []}
SET_UP = """\
import sys
sys.path.insert(0, {learn!r})
import marking
{token} = marking.Marker({lesson!r}, {present!r}, {seed})
{token}.seal()
del sys.modules["marking"], sys.path[0], marking"""
COLUMNS = ["file", "lesson", "sum", "of", "exercises", "days late", "seed"]
COLUMNS += ["feedback", "look at", "error"]
ITEMS = ["lesson", "exercise", "handed in", "tried", "solved", "mean"]
ITEMS += ["hint seen most", "times", "wrong answer given most", "times"]
ANSWER_CHARACTERS = 200  # of a wrong answer in the table of exercises


class Mark(NamedTuple):
    """What an exercise counts, in [0, 1], and what its check says."""

    credit: float
    said: str


class Marked(NamedTuple):
    """A notebook that was marked.

    It has its lesson, the marks and the answers as code in the order of the exercises,
    what in its cells a person should look at, and what ended the run.
    """

    lesson: str
    marks: list[Mark]
    answers: list[str]
    odd: str = ""
    error: str = ""


class Marker:
    """Marks the exercises of one notebook, inside the process that runs it.

    Parameters
    ----------
    lesson : the name of the lesson that the notebook is a copy of
    present : the ids of the exercises that the notebook contains
    seed : at least 1, draws the cases that the checks try
    """

    def __init__(self, lesson: str, present: list[str], seed: int):
        self._asked = exercises(LEARN / f"{lesson}.ipynb")
        self._open = set(present)  # exercises that are not marked yet
        self._solved: dict[str, Mark] = {}
        self._taken: set[str] = set()  # exercises whose answer is the lesson's own
        self._teach, self._exercise = self._imported(lesson)
        self._exercise.SEED = seed
        self._answers = self._exercise.solutions(self._teach.__name__)
        self._output = sys.stdout
        self._kept = [
            (module, vars(module).copy())
            for name, module in sys.modules.items()
            if name.partition(".")[0] in KEPT
        ]

    @staticmethod
    def _imported(lesson: str) -> tuple:
        """Return the checks of a lesson and what all checks share, to nobody else."""
        source = (LEARN / f"{lesson}.ipynb").read_text("utf-8")
        name = source.partition("from checks import ")[2].partition(" as teach")[0]
        modules = (
            importlib.import_module(f"checks.{name}"),
            importlib.import_module("checks.exercise"),
        )
        for module in [each for each in sys.modules if each.startswith("checks")]:
            del sys.modules[module]
        return modules

    def seal(self) -> None:
        """Let the notebook's `given` ask this marker, and lessons not be read.

        No other program is started either, as it could read them.
        """
        importlib.import_module("checks.exercise").given = self.given

        def refuse(event: str, arguments: tuple) -> None:
            if event in PROGRAMS:
                raise PermissionError("no program is started while one is marked")
            if event == "open" and isinstance(arguments[0], str | bytes):
                path = Path(os.fsdecode(arguments[0])).resolve()
                if path.parent == LEARN and path.suffix == ".ipynb":
                    raise PermissionError("no lesson is read while one is marked")

        sys.addaudithook(refuse)

    def given(self, *cells: str) -> None:
        """Answer unsolved exercises as the lesson does, unless they are still to come.

        An exercise that takes its answer from here before it was marked is not solved.
        """
        variables = sys._getframe(1).f_globals
        for cell in cells:
            exercise = f"{cell}-yours"
            if exercise in self._open:
                self._taken.add(exercise)
            elif exercise not in self._solved:
                self._restore()
                if self._marked(exercise, variables).credit < 1:
                    exec(self._answers[cell].source, variables)
                    self._taken.add(exercise)

    def mark(self, exercise: str, variables: dict) -> None:
        """Print the mark of an exercise as JSON."""
        self._restore()
        self._open.discard(exercise)
        if exercise in self._taken:
            mark = Mark(0.0, "the answer was taken from the lesson, with `given`")
        else:
            mark = self._solved.get(exercise) or self._marked(exercise, variables)
        print(json.dumps([exercise, *mark]), file=self._output)

    def _restore(self) -> None:
        """Undo what the notebook has done to modules that the checks use."""
        for module, kept in self._kept:
            for name, value in kept.items():
                if vars(module).get(name) is not value:
                    setattr(module, name, value)

    def _marked(self, exercise: str, variables: dict) -> Mark:
        check = compile(self._asked[exercise], exercise, "eval")
        names = variables | {"teach": self._teach}
        try:
            credit, said = self._exercise.graded(lambda: eval(check, names))
        except Exception as error:  # the answer's name may be missing
            return Mark(0.0, f"try again: {type(error).__name__}: {error}")
        mark = Mark(credit, " ".join(said.split()))
        if credit == 1:
            self._solved[exercise] = mark
        return mark


@cache
def exercises(path: Path) -> dict[str, str]:
    """Return the check of each exercise of a lesson, by the id of its cell."""
    cells = nbformat.read(path, as_version=4).cells
    asked = [cell for cell in cells if "exercise" in cell.metadata.get("tags", ())]
    return {cell.id: cell.source.splitlines()[-1] for cell in asked}


def lesson_of(notebook: NotebookNode) -> tuple[str, dict[str, str]]:
    """Return the lesson that shares most exercises with a notebook, and its checks."""
    ids = {cell.get("id") for cell in notebook.cells}
    lessons = {path.stem: exercises(path) for path in LEARN.glob("*.ipynb")}
    name = max(lessons, key=lambda name: len(ids & lessons[name].keys()))
    if not ids & lessons[name].keys():
        raise ValueError("notebook: has no exercise of any lesson")
    return name, lessons[name]


def marked(notebook: NotebookNode, seed: int = 1) -> Marked:
    """Run a notebook and return its marks; its cells are changed."""
    lesson, asked = lesson_of(notebook)
    present = [cell.id for cell in notebook.cells if cell.get("id") in asked]
    code = {cell.get("id"): cell.source for cell in notebook.cells}
    answers = [
        " ".join(code.get(exercise, "").replace(check, "").split())
        for exercise, check in asked.items()
    ]
    token = f"_{secrets.token_hex(8)}"
    setting = {"lesson": lesson, "present": present, "seed": seed, "token": token}
    marking = [new_code_cell(SET_UP.format(learn=str(LEARN), **setting))]
    cells = [*marking]
    for cell in notebook.cells:
        cells.append(cell)
        if cell.get("id") in present:
            marking.append(_marking(token, cell.id))
            cells.append(marking[-1])
    # An answer may stand in another cell: all that are not right are tried again.
    again = [_marking(token, exercise) for exercise in asked]
    strange = odd(notebook.cells, nbformat.read(LEARN / f"{lesson}.ipynb", 4).cells)
    notebook.cells = cells + again
    error = _run(notebook)
    marks = {exercise: Mark(0.0, "the cell is missing") for exercise in asked}
    marks |= _printed(marking)
    for exercise, mark in _printed(again).items():
        if mark.credit > marks[exercise].credit:
            marks[exercise] = Mark(mark.credit, f"in another cell: {mark.said}")
    return Marked(lesson, [*marks.values()], answers, strange, error)


def odd(cells: list[NotebookNode], lesson: list[NotebookNode]) -> str:
    """Return what in a notebook's own cells may deceive the marker, or ''.

    That is a name of Python's insides, and an assignment to a variable of the lesson
    that a check reads.
    """
    known = {cell.source for cell in lesson}
    asked, answered = set(), set()
    for cell in lesson:
        tags = cell.metadata.get("tags", ())
        if "exercise" in tags:
            asked |= names_of(cell.source.splitlines()[-1])[0]
        elif "solution" in tags:
            answered |= names_of(cell.source)[1]
    found = []
    for cell in cells:
        if cell.cell_type == "code" and cell.source not in known:
            read, assigned = names_of(cell.source)
            found += sorted(read & INSIDES)
            found += [f"{name} = ..." for name in sorted(assigned & asked - answered)]
    return ", ".join(dict.fromkeys(found))


def names_of(source: str) -> tuple[set[str], set[str]]:
    """Return the names that code reads, with attributes and imports, and assigns."""
    read, assigned = set(), set()
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return read, assigned
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (assigned if isinstance(node.ctx, ast.Store) else read).add(node.id)
        elif isinstance(node, ast.Attribute):
            read.add(node.attr)
        elif isinstance(node, ast.alias):
            read.add(node.name.partition(".")[0])
        elif isinstance(node, ast.FunctionDef):
            assigned.add(node.name)
    return read, assigned


def _marking(token: str, exercise: str) -> NotebookNode:
    return new_code_cell(f"{token}.mark({exercise!r}, globals())")


def _run(notebook: NotebookNode) -> str:
    """Run the cells of a notebook; return what ended it before its end, or ''."""
    end = monotonic() + NOTEBOOK_S
    client = NotebookClient(
        notebook,
        resources={"metadata": {"path": str(LEARN)}},
        kernel_name="python3",
        kernel_manager_class=IpcKernelManager,
        allow_errors=True,
        timeout_func=lambda cell: max(1, min(CELL_S, end - monotonic())),
        interrupt_on_timeout=True,
        error_on_timeout=LATE,  # a loop may ignore the interrupt
    )
    try:
        client.execute()
    except Exception as error:  # a dead kernel ends this notebook only
        return in_one_line(error)
    return ""


def in_one_line(error: Exception) -> str:
    """Return an error as a cell of the table."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _printed(cells: Iterable[NotebookNode]) -> dict[str, Mark]:
    """Return the marks that cells have printed, by exercise."""
    marks = {}
    for cell in cells:
        text = "".join(output.get("text", "") for output in cell.outputs)
        if text.strip():
            exercise, credit, said = json.loads(text.splitlines()[-1])
            marks[exercise] = Mark(credit, said)
    return marks


def feedback(marks: list[Mark]) -> str:
    """Return a line for the student: what is not right, exercise by exercise."""
    said = [
        f"{number}: {mark.said}"
        for number, mark in enumerate(marks, 1)
        if not mark.said.startswith("right")
    ]
    return "; ".join(said)


def items(classes: list[Marked]) -> list[list]:
    """Return a row for each exercise of each lesson that the class handed in.

    A row has the lesson, the number of the exercise, how many handed it in, how many
    tried it, how many solved it, and the mean credit. For those who tried and failed it
    has the hint and the answer that are most frequent, each with its number.
    """
    rows = []
    for lesson in sorted({each.lesson for each in classes}):
        handed = [
            zip(each.marks, each.answers) for each in classes if each.lesson == lesson
        ]
        for number, pairs in enumerate(zip(*handed), 1):
            failed = [pair for pair in pairs if pair[0].said.startswith("try again")]
            credits = [mark.credit for mark, _ in pairs]
            solved = credits.count(1)
            counts = [len(pairs), solved + len(failed), solved]
            mean = f"{sum(credits) / len(pairs):.2f}"
            hints = Counter(mark.said for mark, _ in failed)
            answers = Counter(answer[:ANSWER_CHARACTERS] for _, answer in failed)
            most = [*hints.most_common(1), *answers.most_common(1)]
            rows.append([lesson, number, *counts, mean, *(x for m in most for x in m)])
    return rows


def days_late(path: Path, day: str) -> str:
    """Return by how many days a file was last changed after the day it was due."""
    changed = date.fromtimestamp(path.stat().st_mtime)
    return str(max(0, (changed - date.fromisoformat(day)).days))


def main() -> None:
    """Print one line per notebook: its marks, a line of feedback, and the error."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "notebooks", nargs="+", type=Path, help="notebooks that were handed in"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1 + secrets.randbelow(10**6),
        help="draws the cases that checks try (default: another one each time)",
    )
    parser.add_argument(
        "--items", type=Path, metavar="CSV", help="write how each exercise was answered"
    )
    parser.add_argument(
        "--due",
        type=Path,
        metavar="CSV",
        help="lessons and the days they are due, for the column of days late",
    )
    options = parser.parse_args()
    due = {}
    if options.due:
        with options.due.open(encoding="utf-8", newline="") as file:
            due = {row["lesson"]: row["due"] for row in csv.DictReader(file)}
    table = csv.writer(sys.stdout)
    table.writerow(COLUMNS)
    classes = []
    for path in options.notebooks:
        try:
            done = marked(nbformat.read(path, as_version=4), options.seed)
        except Exception as error:  # an unreadable file ends this notebook only
            table.writerow([path.name, *[""] * 8, in_one_line(error)])
            continue
        classes.append(done)
        credits = [mark.credit for mark in done.marks]
        each = " ".join(f"{credit:.2f}" for credit in credits)
        row = [path.name, done.lesson, f"{sum(credits):.2f}", len(credits), each]
        late = days_late(path, due[done.lesson]) if done.lesson in due else ""
        row += [late, options.seed, feedback(done.marks), done.odd, done.error]
        table.writerow(row)
    if options.items:
        with options.items.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([ITEMS, *items(classes)])


if __name__ == "__main__":
    main()
