"""Wording of messages: suggestions for unknown names, and plurals."""

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests similar names, or a list of all known names."""
    return near(name, known) or f"known names: {', '.join(known)}"


def near(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" with up to three similar names, or an empty text."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(close)}?" if close else ""


def count(number: int, what: str) -> str:
    """Return a number and the noun that it counts, in the singular or plural."""
    if number != 1:
        what = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what}"
