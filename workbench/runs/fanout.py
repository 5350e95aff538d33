"""Whole notebooks over a grid of their parameters: each executed by papermill, and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from workbench.runs.keys import key, notebook_key
from workbench.runs.mill import TIMEOUTS, environment, run_notebook
from workbench.runs.notebooks import Notebook, parse, read
from workbench.runs.worker import Limits


@dataclass(frozen=True)
class NotebookRun:
    """A notebook with values for all of its parameters: a task of the engine."""

    notebook: Notebook
    values: Mapping[str, Any]
    key: str
    varied: tuple[str, ...]
    jobs: int = 1

    @property
    def label(self) -> str:
        return " ".join([self.notebook.name, *(f"{n}={self.values[n]}" for n in self.varied)])

    def path(self, folder: Path) -> Path:
        """Return the executed notebook; its figures are in folders beside it."""
        return folder / f"{self.notebook.name}-{self.key[:10]}" / f"{self.notebook.name}.ipynb"

    def check(self, path: Path) -> None:
        read(path, figures=False)

    def run(self, folder: Path, limits: Limits) -> str:
        """Execute the notebook."""
        home = self.path(folder).parent
        home.mkdir(exist_ok=True)
        timeout = limits.seconds or TIMEOUTS["paper"]
        with environment(WORKBENCH_FIGURES=str(home), WORKBENCH_JOBS=str(self.jobs)):
            ended, error = run_notebook(
                self.notebook, dict(self.values), home, home, timeout, lambda line: None
            )
        if error:
            raise RuntimeError(f"{ended}: {error.splitlines()[-1]}")
        return ended


def fan_out(notebook: Notebook, texts: Mapping[str, str], jobs: int = 1) -> list[NotebookRun]:
    """Return a run for every combination of the comma-separated values in `texts`.

    Parameters
    ----------
    notebook : with a parameters cell, which gives the values of the other parameters
    texts : parameter -> its values, as in ``{"eps1": "1e-2,1e-3"}``
    jobs : how many will run side by side; with more than one nothing inside is timed

    Raises
    ------
    ValueError
        For a parameter that the notebook does not declare, a value of the wrong type or a value
        that is there twice.
    """
    axes = []
    for name, text in texts.items():
        parameter = notebook.parameter(name)
        values = [parse(parameter, part.strip()) for part in text.split(",")]
        if len(set(values)) < len(values):
            raise ValueError(f"{name}: a value is there twice in {text!r}")
        axes.append(values)
    return [_run(notebook, dict(zip(texts, chosen)), jobs) for chosen in product(*axes)]


def _run(notebook: Notebook, chosen: dict[str, Any], jobs: int) -> NotebookRun:
    values = notebook.values() | chosen
    # What ran beside others was not timed: it is not what one at a time would give.
    own = key(notebook=notebook_key(notebook, values), alone=jobs == 1)
    return NotebookRun(notebook, values, own, tuple(chosen), jobs)
