"""Any notebook over a grid of its parameters, each combination a task of the engine."""

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
        """Return the executed notebook; its figures are in folders next to it."""
        return folder / f"{self.notebook.name}-{self.key[:10]}" / f"{self.notebook.name}.ipynb"

    def check(self, path: Path) -> None:
        read(path, figures=False)

    def run(self, folder: Path, limits: Limits) -> str:
        """Execute the notebook."""
        home = self.path(folder).parent
        home.mkdir(exist_ok=True)
        timeout = limits.seconds or TIMEOUTS["paper"]
        with environment(WORKBENCH_FIGURES=str(home), WORKBENCH_JOBS=str(self.jobs)):
            ended, error, _ = run_notebook(
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
        For a parameter that the notebook does not declare, a value of the wrong type or a
        duplicate value.
    """
    axes = []
    for name, text in texts.items():
        axes.append([parse(notebook.parameter(name), part.strip()) for part in text.split(",")])
        if len(set(axes[-1])) < len(axes[-1]):
            raise ValueError(f"{name}: a value appears twice in {text!r}")
    runs = []
    for chosen in product(*axes):
        values = notebook.values() | dict(zip(texts, chosen))
        # A notebook that ran at the same time as others was not timed: its results differ.
        own = key(notebook=notebook_key(notebook, values), alone=jobs == 1)
        runs.append(NotebookRun(notebook, values, own, tuple(texts), jobs))
    return runs
