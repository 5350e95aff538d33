"""Compile the solvers for this machine; ``make`` runs this once, at set-up."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from importlib import import_module
from multiprocessing import get_context

import matplotlib.font_manager  # noqa: F401  (its first import lists the fonts)

from workbench.data import load
from workbench.kernels.compiled import folder
from workbench.registry import SOLVERS
from workbench.runs.run import warm

KEPT_DAYS = 60  # older machine code is deleted
ROWS = ("digits", "text 300x9")  # dense and sparse
# The solvers of a folder share kernels, so one process compiles all of them. Those of
# these folders take as long as all others together; peers use kernels of sampled cuts.
FIRST_HALF = ("memoir", "sampled_cuts", "peers")
# The modules that commands import. uv writes no bytecode; these imports write it for
# the modules in use, in a third of the time that all installed ones would take.
IMPORTED = (
    "ipykernel.kernelapp papermill nbconvert jupyterlab.labapp voila.app "
    "workbench.figures.plots matplotlib.backends.backend_pdf hypothesis "
    "pytest"
).split()


def warm_all() -> None:
    """Compile the kernels of every solver for dense and for sparse rows.

    Two processes work at once. Kernels for other rows (another precision, another
    number of lanes) or other parameters are compiled when a solver first needs them.
    """
    delete_old_code()
    halves: tuple[list[str], list[str]] = [*IMPORTED], []
    for name, solver in SOLVERS.items():
        room = str(solver.function).split(".")[0]
        halves[room not in FIRST_HALF].append(name)
    with ExitStack() as stack:
        tasks = []
        for names in halves:
            pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            stack.enter_context(pool)
            tasks += [pool.submit(warm_one, name) for name in names]
        for number, task in enumerate(as_completed(tasks), 1):
            task.result()
            show(number, len(tasks))


def delete_old_code() -> None:
    """Delete machine code that was written more than :data:`KEPT_DAYS` days ago."""
    oldest = time.time() - KEPT_DAYS * 86400
    for path in folder().glob("*.nb[ci]") if folder() else ():
        if path.stat().st_mtime < oldest:
            path.unlink()


def warm_one(name: str) -> None:
    """Compile a solver, or import a module, unless it belongs to a missing extra."""
    if name in SOLVERS:
        for rows in ROWS:
            warm(SOLVERS[name].steps, load(rows), {})
    else:
        with suppress(ImportError):
            import_module(name)


def show(number: int, total: int) -> None:
    """Print a counter: one line on a terminal, otherwise a line for each quarter."""
    text = f"    compiling {number} of {total}"
    if sys.stdout.isatty():
        print(f"\r{text}", end="\n" if number == total else "", flush=True)
    elif number * 4 // total > (number - 1) * 4 // total:
        print(text, flush=True)


if __name__ == "__main__":
    warm_all()
