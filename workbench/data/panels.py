"""Data sets and lists as text: what notebooks, sweeps and dashboards take as parameters.

>>> for spec in listed("digits, breast_cancer + 400 fourier | 40 % rows"):  # doctest: +SKIP
...     problem = panel(spec, seed=1)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.core.names import hint
from workbench.core.problem import Problem, noted
from workbench.data import SCALES, load, names
from workbench.data.cache import available_files
from workbench.data.features import constant, fourier, log_counts, pca, relu, standardise
from workbench.data.sources import SOURCES
from workbench.data.synthetic import checkers, synthetic
from workbench.data.text import zipf_text

SIZES = re.compile(r"synthetic (\d+)x(\d+)x(\d+)")
CHECKERS = re.compile(r"checkers (\d+)")
TEXT = re.compile(r"text (\d+)x(\d+)")
TEXT_TEST = 20_000  # test rows at most: they tell an error to 0.4 points
BOARD_TEST = 20_000  # test rows: an error of 9 % has a standard deviation of 0.2 points
STEP = re.compile(
    r"\s*([+|])\s*(?:(\d+(?:\.\d+)?)\s*"
    r"(fourier|relu|pca|log counts|classes|a class|% rows|% validation)|(constant))\s*"
)
STEPS: dict[tuple[str, str], Callable[[Problem, float, int], Problem]] = {
    ("+", "constant"): lambda problem, _, seed: constant(problem),
    ("+", "fourier"): lambda problem, m, seed: fourier(problem, int(m), seed),
    ("|", "fourier"): lambda problem, m, seed: fourier(problem, int(m), seed, append=False),
    ("|", "relu"): lambda problem, m, seed: standardise(relu(problem, int(m), seed)),
    ("|", "pca"): lambda problem, m, seed: pca(problem, int(m), seed),
    ("|", "log counts"): lambda problem, m, seed: log_counts(problem, int(m)),
    ("|", "classes"): lambda problem, k, seed: problem.first_classes(int(k)),
    ("|", "a class"): lambda problem, m, seed: _first_of_classes(problem, int(m)),
    ("|", "% rows"): lambda problem, share, seed: problem.subset(share / 100, seed),
    ("|", "% validation"): lambda problem, share, seed: _validation(problem, share / 100, seed),
}


def listed(text: str | float | list, kind: type = str) -> list:
    """Return the items of a comma-separated parameter, each as `kind`: ``"1e-2, 1e-3"``.

    papermill passes a number for ``-p grid 1e-2``, a list for ``-y "grid: [1e-2, 1e-3]"``.

    Raises
    ------
    ValueError
        If an item is empty or not of this kind.
    """
    items = [str(i).strip() for i in (text if isinstance(text, list) else str(text).split(","))]
    if "" in items:
        raise ValueError(f"list: an item is empty in {text!r}")
    if kind is int:
        if broken := [item for item in items if not float(item).is_integer()]:
            raise ValueError(f"list: {broken[0]!r} is not a whole number in {text!r}")
        return [int(float(item)) for item in items]
    return [kind(item) for item in items]


def panel(spec: str, seed: int = 0, test: float | None = 0.3) -> Problem:
    """Return the problem that `spec` describes, standardised unless it names another scale.

    Parameters
    ----------
    spec : ``DATA @ SCALE`` with any number of steps; ``A or B`` is B if A is not available

        - ``DATA`` is a name or file of :func:`workbench.data.load`; ``synthetic NxDxK``, a
          generated problem of that size; ``checkers N``, N rows of a noisy board; ``text NxC``, N
          generated documents of C classes (:func:`~workbench.data.text.zipf_text`).
        - ``@ SCALE`` is a scale of ``load``, or ``given`` for none; by default "standard", for
          ``checkers`` given and for ``text`` tfidf.
        - ``+ M fourier`` appends M random Fourier features, as the paper on minimax risk
          classifiers does; ``+ constant`` appends a column of ones.
        - ``| M fourier`` replaces the features by M random Fourier features, ``| M relu`` by a
          random ReLU layer of M units, ``| M pca`` by the first M principal components, ``| M log
          counts`` by log(1 + x) of those that are not zero in M training rows or more.
        - ``| K classes`` keeps the first K classes; ``| M a class`` makes the first M rows of each
          class the training rows and the others the test rows; ``| P % rows`` keeps a stratified
          random fraction of the training rows; ``| P % validation`` makes such a fraction of them
          the test rows, and drops the test rows there were. Every class keeps a training row;
          the scale and earlier steps were fitted on all of them.
    seed : int, seeds the split, random features and fractions, and generated rows
    test : random fraction of test rows, in (0, 1), or None for the published split, if any.
        ``checkers N`` has N training rows and 20,000 test rows of the same board, the same ones
        for every N and fraction, none for None; ``text NxC`` has N training rows and this fraction
        of all as test rows, at most 20,000.

    Raises
    ------
    ValueError, FileNotFoundError
        As ``load``, and for a text that is not such a description.
    """
    problem = _first_of(spec, lambda choice: _made(choice, seed, test))
    noted(problem, {"panel": spec, "seed": seed, "test": test})
    return problem


def remade(recipe: dict[str, Any], download: bool = True) -> Problem:
    """Return the problem of a recipe (:attr:`workbench.core.problem.Problem.recipe`) of a file.

    Nobody need trust it: it can name data sets and no files, and ask for no vast numbers.

    Raises
    ------
    ValueError, FileNotFoundError
        As :func:`panel` and ``load``, and for anything that is not such a recipe; without
        `download` also for a data set that is not available on this machine.
    """
    try:
        given = dict(recipe)
        spec = given.pop("panel", None)
        name = given.pop("name") if spec is None else _parsed(spec)[0]
        if name not in names() or re.search(r"\d{6}", spec or ""):
            raise ValueError("it is not of a data set by name")
        if not download and name in SOURCES and name not in available_files():
            raise FileNotFoundError(f"{name} is not available here")
        return load(name, **given) if spec is None else panel(spec, **given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"recipe: cannot be followed: {error}") from None


def at_hand(text: str) -> list[str]:
    """Return the descriptions in a list whose data are available, and print the others.

    Raises
    ------
    FileNotFoundError
        If none is.
    """
    there = []
    for spec in listed(text):
        try:
            _first_of(spec, _rows)
            there.append(spec)
        except FileNotFoundError:
            print(f"left out, its data are not available: {spec}", flush=True)
    if not there:
        raise FileNotFoundError(f"data: none of {text!r} is available")
    return there


def _made(spec: str, seed: int, test: float | None) -> Problem:
    name, scale, steps = _parsed(spec)
    if sizes := SIZES.fullmatch(name):
        problem = synthetic(*map(int, sizes.groups()), seed=seed)
        problem = problem.split(test, seed) if test else problem
    elif size := CHECKERS.fullmatch(name):
        problem = _board(int(size[1]), seed, test is not None)
    elif sizes := TEXT.fullmatch(name):
        n, k = map(int, sizes.groups())
        n_test = min(round(n * test / (1 - test)), TEXT_TEST) if test else 0
        problem = zipf_text(n, k, seed, n_test=n_test)
    else:
        problem = load(name, test=test, seed=seed)
    problem = SCALES[scale](problem) if scale else problem
    for step, amount in steps:
        problem = step(problem, amount, seed)
    return problem


def _board(n: int, seed: int, tested: bool) -> Problem:
    problem = checkers(n, seed)
    if not tested:
        return problem
    others = checkers(BOARD_TEST, [seed, 1])  # a stream that no seed of training rows has
    return replace(problem, X_test=others.X, y_test=others.y)


def _validation(problem: Problem, share: float, seed: int) -> Problem:
    """Hold out a share of the training rows: every 1 / share-th of them, in the order of classes.

    So small classes have their share in all, where rounding each would leave them out.
    """
    if not 0 < share < 1:
        raise ValueError(f"data: '| {100 * share:g} % validation' must be between 0 and 100")
    X, y, n, weights = problem.X, problem.y, problem.n, problem.weights
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    order = order[np.argsort(y[order], kind="stable")]
    held = np.diff(np.floor(share * np.arange(n + 1) + rng.random())) > 0
    starts = np.searchsorted(y[order], np.arange(problem.k))
    emptied = np.logical_and.reduceat(held, starts)
    held[starts[emptied]] = False
    held, order = order[held], order[~held]
    if not len(held):
        raise ValueError(f"data: '| {100 * share:g} % validation' holds out no row")
    held.sort()
    order.sort()
    rows = {"X": X[order], "y": y[order], "weights": weights[order]}
    return replace(problem, **rows, X_test=X[held], y_test=y[held])


def _first_of_classes(problem: Problem, m: int) -> Problem:
    if problem.X_test is not None:
        raise ValueError("data: '| M a class' makes the split, but there are test rows already")
    order = np.argsort(problem.y, kind="stable")
    starts = np.searchsorted(problem.y[order], np.arange(problem.k))
    place = np.empty(problem.n, int)  # of each row among those of its class
    place[order] = np.arange(problem.n) - starts[problem.y[order]]
    first = place < m
    if m < 1 or first.all():
        raise ValueError(f"data: '| {m} a class' leaves no training rows or no test rows")
    X, y = problem.X, problem.y
    rows = {"X": X[first], "y": y[first], "weights": problem.weights[first]}
    return replace(problem, **rows, X_test=X[~first], y_test=y[~first])


def _first_of(spec: str, make: Callable[[str], Any]) -> Any:
    """Return `make` of the first alternative that is available."""
    *first, last = spec.split(" or ")
    for choice in first:
        try:
            return make(choice)
        except FileNotFoundError:
            continue
    return make(last)


def _rows(spec: str) -> Problem | None:
    name, *_ = _parsed(spec)
    made = any(kind.fullmatch(name) for kind in (SIZES, CHECKERS, TEXT))
    return None if made else load(name)


def _parsed(spec: str) -> tuple[str, str | None, list[tuple[Callable, float]]]:
    source = re.split(r"\s*[+|]", spec.strip(), maxsplit=1)[0]
    rest, steps = spec.strip()[len(source) :], []
    name, at, scale = (part.strip() for part in source.partition("@"))
    if not at:
        scale = "given" if CHECKERS.fullmatch(name) else "standard"
        scale = "tfidf" if TEXT.fullmatch(name) else scale
    if scale != "given" and scale not in SCALES:
        near = hint(scale, ["given", *SCALES])
        raise ValueError(f"data: unknown scale {scale!r} in {spec!r}; {near}")
    while rest:
        found = STEP.match(rest)
        step = STEPS.get((found[1], found[3] or found[4])) if found else None
        if step is None:
            raise ValueError(
                f"data: {spec!r} is not a name followed by steps such as '+ 400 fourier', "
                "'+ constant', '| 512 relu', '| 64 pca', '| 3 log counts', '| 7 classes', "
                "'| 81 a class', '| 40 % rows' or '| 20 % validation'"
            )
        amount = float(found[2] or 1)
        if not (found[3] or "").startswith("%") and amount != int(amount):
            raise ValueError(f"data: {found[3]} must be a whole number in {spec!r}")
        steps.append((step, amount))
        rest = rest[found.end() :]
    return name, None if scale == "given" else scale, steps
