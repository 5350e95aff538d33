"""Workbench: large-scale multiclass classification, every solver a stream of certified iterates."""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

# Names that users need first, imported on first use: the estimators need none of them.
FIRST = {
    "as_problem": "workbench.core.problem",
    "below": "workbench.core.stream",
    "certify": "workbench.certification",
    "load": "workbench.data",
    "rounds": "workbench.core.stream",
    "run": "workbench.runs.run",
    "seconds": "workbench.core.stream",
    "SOLVERS": "workbench.registry",
}


def __getattr__(name: str) -> Any:  # of a kind of its own
    if name not in FIRST:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    return getattr(import_module(FIRST[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *FIRST])
