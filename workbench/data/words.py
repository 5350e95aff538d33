"""Data in words: the one grammar of `load`, `run`, grids, notebooks and dashboards.

``DATA @ SCALE`` with any number of steps, or several such descriptions joined by `` or
``: the first whose data are available is used. data/README.md has the table of all
words. The longest start of a description that is a path of this machine is its data,
whatever signs the path contains.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.core.names import hint
from workbench.core.problem import Problem, by_class
from workbench.data import features
from workbench.data.synthetic import checkers, synthetic
from workbench.data.text import zipf_text

GIVEN = "given"  # the name of no scale
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
MAX_TEST_ROWS = (
    20_000  # of generated data: an error of 9 % has a standard deviation of 0.2 points
)
COMMA, OR, NEXT, SIGN = map(re.compile, (",", r"\sor\s", r",|\sor\s", r"[@+|,]|\sor\s"))
STEP = re.compile(
    r"\s*([+|])\s*(?:(\d+(?:\.\d+)?)\s*"
    r"(fourier|mrcpy|pca|log counts|classes|a class|% test|% rows|% validation)|(constant))\s*"
)
# Of a problem, an amount (a whole number, or a fraction for %) and a seed.
STEPS: dict[tuple[str, str], Callable[..., Problem]] = {
    ("+", "constant"): lambda problem, *_: features.constant(problem),
    ("+", "fourier"): features.fourier,
    ("|", "fourier"): partial(features.fourier, append=False),
    ("|", "mrcpy"): partial(features.fourier, append=False, mrcpy=True),
    ("|", "pca"): features.pca,
    ("|", "log counts"): lambda problem, m, _: features.log_counts(problem, m),
    ("|", "classes"): lambda problem, k, _: problem.first_classes(k),
    ("|", "a class"): lambda problem, m, _: _first_of_classes(problem, m),
    ("|", "% rows"): Problem.subset,
    ("|", "% validation"): lambda problem, share, seed: _validation(
        problem, share, seed
    ),
}


class Words(NamedTuple):
    """One description of data, parsed."""

    data: str  # a name, a path or a generated problem, as it is written
    scale: str | None  # None if the words have no ``@``
    test: float | None  # the fraction of ``| P % test``
    steps: tuple[tuple[Callable[..., Problem], float], ...]  # with their amounts


def listed(text: str | float | list, kind: type = str) -> list:
    """Return the items of a comma-separated parameter, each as `kind`: ``"1e-2,
    1e-3"``.

    papermill passes a number for ``-p grid 1e-2``, a list for ``-y "grid: [1e-2,
    1e-3]"``. An item that is empty or not of this kind is a ValueError.
    """
    items = text if isinstance(text, list) else _split(str(text), COMMA)
    items = [str(item).strip() for item in items]
    if "" in items:
        raise ValueError(f"list: an item is empty in {text!r}")
    if kind is int:
        if broken := [item for item in items if not float(item).is_integer()]:
            raise ValueError(f"list: {broken[0]!r} is not a whole number in {text!r}")
        return [int(float(item)) for item in items]
    return [kind(item) for item in items]


def alternatives(text: str) -> list[Words]:
    """Return the alternatives of a description, ``A or B``; a ValueError names a faulty
    one."""
    return [_parsed(choice) for choice in _split(text, OR)]


def data_in(text: str) -> list[str]:
    """Return the names and paths in a list of descriptions, whatever else it says."""
    return [_data(choice).strip() for choice in _split(text, NEXT)]


def generated(data: str, seed: int, test: float | None) -> Problem | None:
    """Return the problem that words such as ``checkers 1000`` generate, or None for
    other data.

    `test` is the fraction of test rows. ``synthetic NxDxK`` splits its N rows.
    ``checkers N`` has N training rows and, whatever N, the same 20,000 test rows of a
    seed. ``text NxC`` has N training rows and this fraction of all as test rows, at
    most 20,000.
    """
    if not GENERATED.fullmatch(data):
        return None
    kind, _, sizes = data.partition(" ")
    n, *others = map(int, sizes.split("x"))
    if kind == "text":
        n_test = min(round(n * test / (1 - test)), MAX_TEST_ROWS) if test else 0
        return zipf_text(n, others[0], seed, n_test=n_test)
    if kind == "synthetic":
        problem = synthetic(n, others[0], others[1], seed)
        return problem.split(test, seed) if test else problem
    problem = checkers(n, seed)
    if not test:
        return problem
    tests = checkers(
        MAX_TEST_ROWS, [seed, 1]
    )  # a stream that no seed of training rows has
    return replace(problem, X_test=tests.X, y_test=tests.y)


def default_scale(data: str, is_name: bool) -> str:
    """Return the scale of words without ``@``, as data/README.md lists it."""
    if GENERATED.fullmatch(data):
        return {"text": "tfidf", "synthetic": "standard"}.get(
            data.partition(" ")[0], GIVEN
        )
    return "standard" if is_name else GIVEN


def check_scale(scale: str, text: str) -> None:
    """Raise a ValueError that names the argument unless there is such a scale."""
    if scale not in SCALES:
        raise ValueError(
            f"scale: unknown scale {scale!r} in {text!r}; {hint(scale, SCALES)}"
        )


def existing(text: str) -> Path | None:
    """Return the path of a file or folder that exists, or None; ``~`` is the home
    folder."""
    places = [
        place for place in (text, os.path.expanduser(text)) if os.path.exists(place)
    ]
    return Path(places[0]) if places else None


def _path(text: str) -> str:
    """Return the longest start of a text that is a path and ends before a sign."""
    ends = [len(text), *(sign.start() for sign in reversed([*SIGN.finditer(text)]))]
    return next((text[:end] for end in ends if existing(text[:end].strip())), "")


def _data(text: str) -> str:
    """Return the start of a description that is its data."""
    return _path(text) or re.match(r"[^@+|]*", text)[0]


def _split(text: str, sign: re.Pattern) -> list[str]:
    """Return the parts of a text between signs, except those inside a path."""
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
        rest, scale = rest[1 + len(scale) :], scale.strip()
        check_scale(scale, text)
    steps = []
    while rest:
        found = STEP.match(rest)
        sign, kind = (found[1], found[3] or found[4]) if found else ("", "")
        if (sign, kind) not in STEPS and (sign, kind) != ("|", "% test"):
            raise ValueError(
                f"data: {text!r} is not a name followed by steps such as '+ 400 "
                "fourier', '+ constant', '| 64 pca', '| 3 log counts', '| 7 classes', "
                "'| 81 a class', '| 30 % test', '| 40 % rows' or '| 20 % validation'"
            )
        amount = float(found[2] or 1)
        if kind.startswith("%"):
            amount /= 100
        elif amount.is_integer():
            amount = int(amount)
        else:
            raise ValueError(f"data: {kind} must be a whole number in {text!r}")
        if kind != "% test":
            steps.append((STEPS[sign, kind], amount))
        elif steps or test is not None or not 0 < amount < 1:
            raise ValueError(
                f"data: '| {100 * amount:g} % test' must be the first step, with a "
                f"number between 0 and 100, in {text!r}"
            )
        else:
            test = amount
        rest = rest[found.end() :]
    return Words(data.strip(), scale, test, tuple(steps))


def _validation(problem: Problem, share: float, seed: int) -> Problem:
    """Hold out every 1 / share-th training row in the order of classes, counting on
    across them."""
    if not 0 < share < 1:
        raise ValueError(
            f"data: '| {100 * share:g} % validation' must be between 0 and 100"
        )
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(problem.n)
    order, starts = by_class(problem.y[drawn], problem.k)
    held = np.diff(np.floor(share * np.arange(problem.n + 1) + rng.random())) > 0
    first = starts[:-1]
    held[first[np.logical_and.reduceat(held, first)]] = (
        False  # no class is held out whole
    )
    if not held.any():
        raise ValueError(f"data: '| {100 * share:g} % validation' holds out no row")
    return problem.held_out(np.isin(np.arange(problem.n), drawn[order[held]]))


def _first_of_classes(problem: Problem, m: int) -> Problem:
    if problem.X_test is not None:
        raise ValueError(
            "data: '| M a class' makes the split, but there are test rows already"
        )
    order, starts = by_class(problem.y, problem.k)
    place = (
        np.arange(problem.n) - starts[problem.y[order]]
    )  # of a row among those of its class
    if m < 1 or (place < m).all():
        raise ValueError(
            f"data: '| {m} a class' leaves no training rows or no test rows"
        )
    return problem.held_out(np.isin(np.arange(problem.n), order[place >= m]))
