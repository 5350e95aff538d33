"""Check an answer of a lesson: print ``right``, a hint or ``not yet``; never raise.

The checks themselves are in a file for each series of lessons, as ``checks/mrc.py``:

>>> @exercise
... def check_coin(answer):
...     need(number(answer) == 0.5, "heads and tails are equally likely")
...     return "a fair coin"
>>> check_coin(...)
not yet: put your answer where the ... is, then run the cell again
>>> check_coin(0.4)
try again: heads and tails are equally likely
>>> check_coin(0.5)
right: a fair coin
"""

from __future__ import annotations

import io
import json
import re
import sys
import zlib
from base64 import b64decode
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.runs.notebooks import CHECKOUT

CLOSE = 1e-6  # the error that is accepted, relative to numbers above 1
NEAR = 5e-4  # a relative error below this one is no mistake of thought
# The names of the checks of this kernel whose latest answer is right.
SOLVED: set[str] = set()
SEED = 0  # of the cases that checks try; marking sets another


class Hint(Exception):
    """An answer is wrong; the message is a hint for the student."""


class Unfinished(Exception):
    """An answer still holds its ``...``."""


class Near(int):
    """A false value that knows by how much an answer is off, relative to its size."""

    off: float


def exercise(check: Callable[..., str]) -> Callable[..., None]:
    """Turn ``check(answer, ...) -> praise``, which raises a Hint, into one that
    prints."""

    @wraps(check)
    def printed(*answers, **settings) -> None:
        SOLVED.discard(check.__name__)
        try:
            finished(*answers)
            print("right:", check(*answers, **settings))
            SOLVED.add(check.__name__)
        except Unfinished:
            print("not yet: put your answer where the ... is, then run the cell again")
        except Hint as hint:
            print("try again:", hint)
        except Exception as error:  # the student's code may raise anything
            print(f"try again: your answer raised {type(error).__name__}: {error}")

    return printed


class Answer(NamedTuple):
    """The lesson's own answer: the number of its exercise, code, and its check."""

    number: int
    source: str
    check: str


def given(*cells: str) -> None:
    """Set the variables of unsolved exercises to the lesson's own answers, and say so.

    The exercises are named by their cells: "cut" for ``cut-yours``. They stay unsolved.
    """
    variables = sys._getframe(1).f_globals  # of the lesson
    answers = solutions(variables["teach"].__name__)
    for cell in cells:
        if cell not in answers:
            raise LookupError(
                f"given: there is no answer to {cell!r} here; install the workbench "
                "from a checkout, with pip install -e, or use the folder for students"
            )
        number, source, check = answers[cell]
        if check not in SOLVED:
            exec(source, variables)
            print(
                f"given: Exercise {number} is not solved; here its answer is the "
                "lesson's own"
            )


def solutions(checks: str) -> dict[str, Answer]:
    """Return the answers of the lessons with these checks, by the cell's name.

    They come from the lessons of the checkout or, in a folder for students, from the
    file ``answers.txt``, which is only packed so that nobody reads it by accident.
    """
    packed = Path(__file__).with_name("answers.txt")
    if packed.is_file():
        text = zlib.decompress(b64decode(packed.read_bytes())).decode("utf-8")
        found = json.loads(text).get(checks, {})
        return {cell: Answer(*answer) for cell, answer in found.items()}
    answers = {}
    teach = checks.replace("checks.", "from checks import ") + " as teach\n"
    for path in (CHECKOUT / "notebooks" / "learn").glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells]
        if any(teach in text for text in texts):
            answers |= _answers(cells, texts)
    return answers


def _answers(cells: list[dict], texts: list[str]) -> dict[str, Answer]:
    answers = {}
    number = 0
    for cell, text in zip(cells, texts):
        announced = re.search(r"^### Exercise (\d+)", text, flags=re.MULTILINE)
        number = int(announced[1]) if announced else number
        if cell["id"].endswith("-solution"):
            source, _, check = text.rpartition("\nteach.")
            name = cell["id"].removesuffix("-solution")
            answers[name] = Answer(number, source, check.partition("(")[0])
    return answers


def credit(check: Callable[[], None]) -> float:
    """Run a check, print what it says, and return the credit in [0, 1], for
    nbgrader."""
    share, told = graded(check)
    print(told, end="")
    return share


def graded(check: Callable[[], None]) -> tuple[float, str]:
    """Run a check; return the credit in [0, 1] and what the check says."""
    with redirect_stdout(io.StringIO()) as printed:
        check()
    told = printed.getvalue()
    part = re.match(r"try again: .*: ([\d.]+) of ([\d.]+) decades", told)
    return float(part[1]) / float(part[2]) if part else float(
        told.startswith("right: ")
    ), told


def finished(*values) -> None:
    """Raise Unfinished where a value is, or a list or tuple holds, ``...`` or None."""
    for value in values:
        if value is ... or value is None:
            raise Unfinished
        if isinstance(value, (list, tuple)):
            finished(*value)


def ask(function: Callable, *arguments):
    """Return the value of the student's function; ``...`` and None do not count as an
    answer."""
    found = function(*arguments)
    need(found is not None, "your function returned None: is a `return` missing?")
    finished(found)
    return found


def need(condition, hint: str) -> None:
    """Raise a Hint unless the condition holds.

    An answer that is only a little off gets a hint about its accuracy instead.
    """
    if isinstance(condition, Near) and not condition:
        raise Hint(
            f"close, but off by {condition.off:.1g} of its size, where {CLOSE:g} is "
            "accepted: is a number rounded, in single precision, or a loop ended early?"
        )
    if not condition:
        raise Hint(hint)


def cases(number: int = 0) -> np.random.Generator:
    """Return the generator of a check's test cases, which depend on :data:`SEED`."""
    return np.random.default_rng([SEED, number] if SEED else number)


def several(found, count: int, hint: str) -> None:
    """Raise a Hint unless `found` is a tuple, a list or an array of `count` things."""
    need(isinstance(found, tuple | list | np.ndarray) and len(found) == count, hint)


def pick(answer, words: tuple[str, ...], truth: str, hint: str) -> None:
    """Raise a Hint unless `answer`, one of `words`, is the truth; check its reason
    before."""
    need(answer in words, f"choose one of {words}")
    need(answer == truth, hint)


def same(answer, truth) -> bool | Near:
    """Return whether numbers or arrays agree to 1e-6, relative to a truth above 1.

    If they agree to 5e-4 of the truth, the false value is :class:`Near`.
    """
    apart = np.abs(np.subtract(answer, truth, dtype=float))
    size = np.max(np.abs(truth), initial=0)
    most = np.max(apart, initial=0)
    if most <= CLOSE * max(1, size):
        return True
    if not most <= NEAR * size:
        return False
    near = Near(0)
    near.off = most / size
    return near


def number(value) -> float:
    """Return `value` as a float, or raise a Hint if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        shape = getattr(value, "shape", ())
        got = f"an array of the shape {shape}" if shape else repr(value)
        raise Hint(f"a number is asked for, got {got}") from None


def array(value, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return `value` as an array of the shape, or raise a Hint if it has a different
    one."""
    value = np.asarray(value)
    need(
        value.shape == shape, f"{name} should have the shape {shape}, has {value.shape}"
    )
    return value
