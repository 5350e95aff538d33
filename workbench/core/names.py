"""Words of messages: suggestions for a name that is unknown, and plurals."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests similar known names, or all names if none is
    similar."""
    return near(name, known) or f"known names: {', '.join(known)}"


def near(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" with the known names, three at most, that are spelt
    alike."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(close)}?" if close else ""


def count(number: int, what: str) -> str:
    """Return a number with the plural of what it counts."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"
