"""Uses of `load`: lists of descriptions, recipes, and test rows for any data set."""

import re
from contextlib import suppress

from workbench.core.kinds import Record
from workbench.core.problem import Problem
from workbench.data import load, names, places
from workbench.data.words import GENERATED, GIVEN, Words, alternatives
from workbench.data.words import listed as listed


def with_test_rows(spec: str, test: float, seed: int = 0) -> Problem:
    """Return a problem with its published test rows, else a random fraction `test`."""
    problem = load(spec, seed=seed)
    if problem.X_test is None:
        return load(spec, seed=seed, test=test)
    return problem


def remade(recipe: Record) -> Problem:
    """Return the problem of a recipe (:attr:`workbench.core.problem.Problem.recipe`).

    A recipe may come from a stranger, so it may name data sets, but no files and no
    numbers of six digits. Data that are not available are not downloaded, but raise a
    FileNotFoundError. Every other fault raises a ValueError.
    """
    try:
        options = dict(recipe)
        spec = options.pop("panel")
        data = {text: alternatives(text)[0].data for text in re.split(r"\sor\s", spec)}
        if re.search(r"\d{6}", spec) or not {*data.values()} <= {*names()}:
            raise ValueError("it must name a data set, without a number of six digits")
        available = [text for text in data if data[text] in places()]
        if not available:
            name = data.popitem()[1]
            raise FileNotFoundError(
                f"{name} is not available; run `workbench data fetch {name}`"
            )
        return load(" or ".join(available), **options)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"recipe: cannot be followed: {error}") from None


def available_specs(text: str) -> list[str]:
    """Return the descriptions in a list whose data are available, and print the others.

    If no data are available, raise a FileNotFoundError.
    """
    specs = []
    for spec in listed(text):
        if any(map(_is_available, alternatives(spec))):
            specs.append(spec)
        else:
            print(f"left out because its data are not available: {spec}", flush=True)
    if not specs:
        raise FileNotFoundError(f"data: none of {text!r} is available")
    return specs


def _is_available(words: Words) -> bool:
    with suppress(FileNotFoundError):
        return bool(GENERATED.fullmatch(words.data) or load(words.data, scale=GIVEN))
    return False
