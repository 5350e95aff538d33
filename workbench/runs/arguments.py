"""How command lines are read: errors of one line, and NAME=VALUE in the type of a default."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line, and no abbreviations: a typo is an error."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; try {self.prog} --help\n")


def add_parameters(parser: argparse.ArgumentParser, what: str) -> None:
    """Let ``-p NAME=VALUE`` be given any number of times."""
    parser.add_argument(
        "-p",
        dest="parameters",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"{what}; may be repeated",
    )


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of ``NAME=VALUE`` by their names."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"-p: must be NAME=VALUE, got {text!r}")
        if name in found:
            raise ValueError(f"-p: {name} is there twice")
        found[name] = value
    return found


def typed(default: Any, name: str, text: str) -> Any:
    """Return `text` as the type of the default; where that is None, as any Python scalar."""
    from workbench.runs.notebooks import Parameter, parse

    if default is not None:
        return parse(Parameter(name, type(default), default, ""), text)
    try:
        return ast.literal_eval(text.capitalize() if text in ("true", "false") else text)
    except (ValueError, SyntaxError):
        return text
