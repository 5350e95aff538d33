"""Descriptions of data, with one grammar for `load`, `run`, grids and notebooks.

A description is ``DATA @ SCALE`` with any number of steps. Several descriptions may be
joined by the word "or"; the first one whose data are available is used. data/README.md
has a table of all words. If a description begins with a path that exists, the longest
such path is its data, even if the path contains signs such as ``+`` or ``@``.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.core.checks import check_known
from workbench.core.problem import Problem, by_class
from workbench.data import features
from workbench.data.synthetic import checkers, synthetic
from workbench.data.text import zipf_text

GIVEN = "given"  # the name of the scale that changes nothing
SCALES: dict[str, Callable[[Problem], Problem]] = {
    GIVEN: lambda problem: problem,
    # columns to mean 0 and variance 1; sparse ones to variance 1
    "standard": features.standardise,
    "unit": features.unit_rows,  # rows to Euclidean norm 1
    "root": features.root_rows,  # square roots, then unit rows
    # columns onto [-1, 1]; sparse ones over their largest magnitude
    "range": features.ranged,
    "maximum": features.over_maximum,  # all entries over the largest magnitude
    "tfidf": features.tfidf,  # sparse counts to unit rows of tf-idf
}
GENERATED = re.compile(r"synthetic \d+x\d+x\d+|checkers \d+|text \d+x\d+")
# Test rows of generated data: an error of 9 % has a standard deviation of 0.2 points.
MAX_TEST_ROWS = 20_000
COMMA = re.compile(",")
OR = re.compile(r"\sor\s")
COMMA_OR = re.compile(r",|\sor\s")
SIGN = re.compile(r"[@+|,]|\sor\s")
STEP = re.compile(r"([+|])\s*(\d+(?:\.\d+)?)?\s*(.+)")  # sign, amount and kind


class Words(NamedTuple):
    """One description of data, parsed.

    Attributes
    ----------
    data : str
        A name, a path or the words of a generated problem.
    scale : str or None
        The scale after ``@``, if there is one.
    test : float or None
        The fraction P / 100 of ``| P % test``, if there is one.
    steps : tuple
        The function and the amount of each step.
    """

    data: str
    scale: str | None
    test: float | None
    steps: tuple[tuple[Callable[..., Problem], float], ...]


def listed(text: str | float | list, kind: type = str) -> list:
    """Return the items of a list such as ``"1e-2, 1e-3"``, each as `kind`.

    Parameters
    ----------
    text : str, number or list
        Items separated by commas. papermill passes a number for ``-p grid 1e-2``, and a
        list for ``-y "grid: [1e-2, 1e-3]"``.
    kind : type
        The type of an item. An empty item, or one of another type, raises a ValueError.
    """
    items = text if isinstance(text, list) else _split(str(text), COMMA)
    items = [str(item).strip() for item in items]
    if "" in items:
        raise ValueError(f"list: an item is empty in {text!r}")
    if kind is int:
        for item in items:
            if not float(item).is_integer():
                raise ValueError(f"list: {item!r} is not a whole number in {text!r}")
        items = [float(item) for item in items]
    return [kind(item) for item in items]


def alternatives(text: str) -> list[Words]:
    """Return the parsed alternatives of ``A or B``; faults raise a ValueError."""
    return [_parsed(choice) for choice in _split(text, OR)]


def data_in(text: str) -> list[str]:
    """Return the names and paths in a list of descriptions, which may be faulty."""
    return [_data(choice).strip() for choice in _split(text, COMMA_OR)]


def generated(data: str, seed: int, test: float | None) -> Problem | None:
    """Return the problem that words such as ``checkers 1000`` generate.

    Return None for other data. `test` is the fraction of test rows. ``synthetic NxDxK``
    has N rows, which are split. ``checkers N`` has N training rows and 20,000 test
    rows, which depend only on the seed. ``text NxC`` has N training rows; the test rows
    are this fraction of all rows, but at most 20,000.
    """
    if not GENERATED.fullmatch(data):
        return None
    kind, _, sizes = data.partition(" ")
    n, *others = map(int, sizes.split("x"))
    if kind == "text":
        n_test = 0
        if test:
            n_test = min(round(n * test / (1 - test)), MAX_TEST_ROWS)
        return zipf_text(n, others[0], seed, n_test=n_test)
    if kind == "synthetic":
        problem = synthetic(n, others[0], others[1], seed)
        return problem.split(test, seed) if test else problem
    problem = checkers(n, seed)
    if not test:
        return problem
    # No seed of training rows gives the same random numbers as this pair.
    tests = checkers(MAX_TEST_ROWS, [seed, 1])
    return replace(problem, X_test=tests.X, y_test=tests.y)


def default_scale(data: str, is_name: bool) -> str:
    """Return the scale of a description without ``@``, as in data/README.md."""
    kind = data.split(" ")[0] if GENERATED.fullmatch(data) else ""
    if kind == "text":
        return "tfidf"
    return "standard" if is_name or kind == "synthetic" else GIVEN


def existing(text: str) -> Path | None:
    """Return the path of a file or folder that exists, or None.

    ``~`` is the home folder.
    """
    for place in (text, os.path.expanduser(text)):
        if os.path.exists(place):
            return Path(place)
    return None


def _path(text: str) -> str:
    """Return the longest path that a text begins with; it ends at a sign or the end."""
    ends = [len(text), *(sign.start() for sign in reversed([*SIGN.finditer(text)]))]
    return next((text[:end] for end in ends if existing(text[:end].strip())), "")


def _data(text: str) -> str:
    """Return the data of a description."""
    return _path(text) or re.match(r"[^@+|]*", text)[0]


def _split(text: str, sign: re.Pattern) -> list[str]:
    """Return the parts of a text between signs; signs inside a path do not count."""
    parts = []
    while cut := sign.search(text, len(_path(text))):
        parts.append(text[: cut.start()])
        text = text[cut.end() :]
    return [*parts, text]


def _parsed(text: str) -> Words:
    text = text.strip()
    data = _data(text)
    rest = text[len(data) :]
    scale = test = None
    if rest.startswith("@"):
        scale = re.match(r"@([^+|]*)", rest)[1]
        rest = rest[1 + len(scale) :]
        scale = scale.strip()
        check_known(scale, SCALES, "scale")
    steps = []
    for part in filter(None, re.split(r"(?=[+|])", rest)):
        kind, amount = _step(part.strip(), text)
        if kind != TEST:
            steps.append((STEPS[kind], amount))
        elif steps or test is not None or not 0 < amount < 1:
            raise ValueError(
                f"data: '| {100 * amount:g} % test' must be the first step, with a "
                f"number between 0 and 100, in {text!r}"
            )
        else:
            test = amount
    return Words(data.strip(), scale, test, tuple(steps))


def _step(part: str, text: str) -> tuple[str, float]:
    """Return the kind of a step of `text`, with its sign, and its amount."""
    match = STEP.fullmatch(part)
    sign, number, word = match.groups() if match else ("", "", "")
    kind = f"{sign} {word}"
    if kind not in (TEST, *STEPS) or (number is None) != (word == "constant"):
        raise ValueError(
            f"data: {text!r} is not a name followed by steps such as '+ 400 "
            "fourier', '+ constant', '| 64 pca', '| 3 log counts', '| 7 classes', "
            "'| 81 a class', '| 30 % test', '| 40 % rows' or '| 20 % validation'"
        )
    amount = float(number or 1)
    if "%" in kind:
        return kind, amount / 100
    if not amount.is_integer():
        raise ValueError(f"data: the number before {word} must be whole in {text!r}")
    return kind, int(amount)


def _validation(problem: Problem, fraction: float, seed: int) -> Problem:
    """Hold out a fraction of the training rows, spread evenly over the classes."""
    if not 0 < fraction < 1:
        raise ValueError(
            f"data: '| {100 * fraction:g} % validation' must be between 0 and 100"
        )
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(problem.n)
    order, starts = by_class(problem.y[drawn], problem.k)
    whole = np.floor(fraction * np.arange(problem.n + 1) + rng.random())
    held_out = np.diff(whole) > 0
    # A row of each class stays.
    first = starts[:-1]
    held_out[first[np.logical_and.reduceat(held_out, first)]] = False
    if not held_out.any():
        raise ValueError(f"data: '| {100 * fraction:g} % validation' holds out no row")
    rows = drawn[order[held_out]]
    return problem.held_out(np.isin(np.arange(problem.n), rows))


def _first_of_classes(problem: Problem, m: int, _: int) -> Problem:
    """Keep the first `m` rows of each class as training rows; hold out the others."""
    if problem.X_test is not None:
        raise ValueError(
            "data: '| M a class' splits the rows, but there are test rows already"
        )
    order, starts = by_class(problem.y, problem.k)
    # The place of each row within its class.
    place = np.arange(problem.n) - starts[problem.y[order]]
    if m < 1 or (place < m).all():
        raise ValueError(
            f"data: '| {m} a class' leaves no training rows or no test rows"
        )
    return problem.held_out(np.isin(np.arange(problem.n), order[place >= m]))


TEST = "| % test"
# The functions take a problem, an amount (a whole number, or a fraction for %) and a
# seed.
STEPS: dict[str, Callable[..., Problem]] = {
    "+ constant": lambda problem, *_: features.constant(problem),
    "+ fourier": features.fourier,
    "| fourier": partial(features.fourier, append=False),
    "| mrcpy": partial(features.fourier, append=False, mrcpy=True),
    "| pca": features.pca,
    "| log counts": lambda problem, m, _: features.log_counts(problem, m),
    "| classes": lambda problem, k, _: problem.first_classes(k),
    "| a class": _first_of_classes,
    "| % rows": Problem.subset,
    "| % validation": _validation,
}
