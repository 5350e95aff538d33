"""Compile all solvers for this machine, after ``make`` has made the environment."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context

import matplotlib.font_manager  # noqa: F401  (the first import lists all fonts)

from workbench.data import load
from workbench.kernels.compiled import folder
from workbench.registry import SOLVERS
from workbench.runs.run import warm

KEPT_DAYS = 60  # machine code older than this is deleted
ROWS = ("digits", "text 300x9")  # dense and sparse
# Modules that commands import: importing them writes bytecode, which uv leaves out.
IMPORTED = (
    "ipykernel.kernelapp workbench.figures.plots papermill nbconvert jupyterlab.labapp"
)
IMPORTED = (*IMPORTED.split(), "voila.app", "hypothesis", "pytest")


def warm_all() -> None:
    """Compile the kernels of every solver for dense and for sparse rows, on all cores
    at once.

    What a solver compiles for other rows (single precision, more classes than a byte
    counts) or other parameters is compiled when it is first needed. A counter goes to
    stdout, on one line.
    """
    for path in folder().glob("*.nb[ci]") if folder() else ():
        if path.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
            path.unlink()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(_warm, name) for name in (*IMPORTED, *SOLVERS)]
        for done, task in enumerate(as_completed(tasks), 1):
            task.result()
            print(f"\r    compiled {done} of {len(tasks)}", end="", flush=True)
    print()


def _warm(name: str) -> str:
    for rows in ROWS if name in SOLVERS else ():
        warm(SOLVERS[name].steps, load(rows), {})
    if name not in SOLVERS:
        with suppress(ImportError):  # an extra that is not installed
            import_module(name)
    return name


if __name__ == "__main__":
    warm_all()
