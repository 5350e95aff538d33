"""Around `load`: lists of descriptions, test rows where none are published, recipes."""

from __future__ import annotations

import re
from contextlib import suppress

from workbench.core.kinds import Record
from workbench.core.problem import Problem
from workbench.data import load, names, places
from workbench.data.words import GENERATED, GIVEN, Words, alternatives
from workbench.data.words import listed as listed


def with_test_rows(spec: str, test: float, seed: int = 0) -> Problem:
    """Return a problem with its published test rows, else with a random fraction
    `test`."""
    problem = load(spec, seed=seed)
    return load(spec, seed=seed, test=test) if problem.X_test is None else problem


def remade(recipe: Record) -> Problem:
    """Return the problem of a recipe (:attr:`workbench.core.problem.Problem.recipe`).

    A recipe from a stranger can name data sets, but no files and no numbers of six
    digits. Missing data are not downloaded: they are a FileNotFoundError. Every other
    fault is a ValueError.
    """
    try:
        given = dict(recipe)
        spec = given.pop("panel")
        chosen = {
            text: alternatives(text)[0].data for text in re.split(r"\sor\s", spec)
        }
        if re.search(r"\d{6}", spec) or not {*chosen.values()} <= {*names()}:
            raise ValueError("it must name a data set, without a number of six digits")
        if not (found := [text for text in chosen if chosen[text] in places()]):
            name = chosen.popitem()[1]
            raise FileNotFoundError(
                f"{name} is not available; run `workbench data fetch {name}`"
            )
        return load(" or ".join(found), **given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"recipe: cannot be followed: {error}") from None


def available_specs(text: str) -> list[str]:
    """Return the descriptions with data, and print the others; none is a
    FileNotFoundError."""
    found = []
    for spec in listed(text):
        if any(map(_is_available, alternatives(spec))):
            found.append(spec)
        else:
            print(f"left out, its data are not available: {spec}", flush=True)
    if not found:
        raise FileNotFoundError(f"data: none of {text!r} is available")
    return found


def _is_available(words: Words) -> bool:
    with suppress(FileNotFoundError):
        return bool(GENERATED.fullmatch(words.data) or load(words.data, scale=GIVEN))
    return False
