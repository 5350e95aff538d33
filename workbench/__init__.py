"""Large-scale multiclass classification: a solver is a stream of iterates."""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"

# The names that a notebook needs first; each is imported when it is first used.
FIRST = {
    "as_problem": "workbench.core.problem",
    "below": "workbench.core.stream",
    "certify": "workbench.certification",
    "errors": "workbench.core.measures",
    "explore": "workbench.live",
    "geometric": "workbench.core.stream",
    "Figures": "workbench.figures",
    "grid": "workbench.runs.grid",
    "listed": "workbench.data.specs",
    "load": "workbench.data",
    "one_thread": "workbench.runs.worker",
    "processor_seconds": "workbench.core.stream",
    "rounds": "workbench.core.stream",
    "run": "workbench.runs.run",
    "seconds": "workbench.core.stream",
    "sweep": "workbench.runs.sweep",
    "there": "workbench.runs.results",
    "timed_alone": "workbench.runs.worker",
    "use_style": "workbench.figures.style",
    "SOLVERS": "workbench.registry",
    "GeneralizedLeastSquares": "workbench.estimators",
    "MinimaxRiskClassifier": "workbench.estimators",
    "SampledCutClassifier": "workbench.estimators",
    "WestonWatkinsClassifier": "workbench.estimators",
    "WorkingSetClassifier": "workbench.estimators",
}
__all__ = [*FIRST]  # the pages of the API show these first


def __getattr__(name: str) -> Any:  # each name has its own type
    if name not in FIRST:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    return getattr(import_module(FIRST[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *FIRST])
