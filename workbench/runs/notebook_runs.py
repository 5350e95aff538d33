"""Notebooks by papermill, as tasks of the engine: one of a figure, or many over a grid."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from workbench.runs.keys import key, notebook_key
from workbench.runs.notebooks import Notebook, here_or_there, read
from workbench.runs.parameters import Parameter, check_names
from workbench.runs.worker import Limits, Task, duration

FOREVER_S = 7 * 86400.0  # limit of a notebook that is given none
OUTPUT_S = 600  # that the outputs of a cell may take to arrive after its end
GRACE_S = 120.0  # papermill interrupts a kernel on time: its worker need not be killed
READ = "workbench_files_read"  # in the metadata of an executed notebook: sizes and dates by path
QUOTED = re.compile(r"""(["'])([^"'\n]{1,200})\1""")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def notebook_task(
    notebook: Notebook,
    values: Mapping[str, Any],
    key: str,
    label: str,
    place: str,
    variables: Mapping[str, str | None],
) -> Task:
    """Return the task that runs a notebook and keeps it, executed, at `place`.

    Parameters
    ----------
    values : of all its parameters
    variables : environment variables of its kernel; None removes one
    """
    work = partial(run_notebook, notebook, values, variables)
    return Task(key, label, place, work, check_executed, GRACE_S)


def fan_out(notebook: Notebook, texts: Mapping[str, str], jobs: int = 1) -> list[Task]:
    """Return a task for every combination of the comma-separated values in `texts`.

    Parameters
    ----------
    notebook : its parameters cell gives the values of the other parameters
    texts : parameter -> its values, as in ``{"eps1": "1e-2,1e-3"}``
    jobs : how many will run side by side; with more than one nothing inside is timed

    Raises
    ------
    ValueError
        For a parameter that the notebook does not declare, a value of the wrong type or a
        duplicate value.
    """
    check_names(texts, notebook.parameters, notebook.name)
    axes = [_axis(notebook.parameters[name], text) for name, text in texts.items()]
    tasks = []
    for chosen in product(*axes):
        chosen = dict(zip(texts, chosen))
        values = notebook.values() | here_or_there(chosen, notebook.path.parent)
        # A notebook that ran at the same time as others was not timed: its results differ.
        own = key(notebook=notebook_key(notebook, values), alone=jobs == 1)
        label = " ".join([notebook.name, *(f"{name}={value}" for name, value in chosen.items())])
        place = f"{notebook.name}-{own[:10]}/{notebook.name}.ipynb"
        tasks.append(
            notebook_task(notebook, values, own, label, place, {"WORKBENCH_JOBS": str(jobs)})
        )
    return tasks


def _axis(parameter: Parameter, text: str) -> list:
    """Return the values in a YAML list, or between commas; a list parameter takes one list."""
    items = [part.strip() for part in text.split(",")]
    if text.startswith("["):
        try:
            items = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"{parameter.name}: is not a YAML list: {text!r}") from None
        if parameter.type is list and not all(isinstance(item, list) for item in items):
            items = [items]
    values = [parameter.typed(item) for item in items]
    if any(values.count(value) > 1 for value in values):
        raise ValueError(f"{parameter.name}: a value appears twice in {text!r}")
    return values


def run_notebook(
    notebook: Notebook,
    values: Mapping[str, Any],
    variables: Mapping[str, str | None],
    path: Path,
    limits: Limits,
) -> str:
    """Run one notebook in its folder, and keep it executed at `path` or as NAME.failed.ipynb.

    Returns
    -------
    text : how long it took, and the pictures that it made

    Raises
    ------
    RuntimeError
        With the reason of its failure, and the path of the failed notebook.
    """
    # papermill takes a second to import; `workbench list` reads notebooks without it.
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    from workbench.runs.jupyter_kernels import IpcKernelManager

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it logs is in the reason
    seconds, tic = limits.seconds or FOREVER_S, time.monotonic()
    figures = Path(variables.get("WORKBENCH_FIGURES") or path.parent, notebook.name)
    variables = {"WORKBENCH_FIGURES": str(figures.parent)} | dict(variables)
    failed, part = path.with_suffix(".failed.ipynb"), path.with_suffix(".part.ipynb")
    started, files, reason = time.time_ns(), _files_named(notebook), ""
    with environment(variables):
        try:
            execute_notebook(
                notebook.path,
                part,
                dict(values),
                kernel_name="python3",
                language="python",
                cwd=notebook.path.parent,
                progress_bar=False,
                kernel_manager_class=IpcKernelManager,
                start_timeout=300,
                iopub_timeout=OUTPUT_S,
                # The shutdown interrupts the kernel, which would log that as an error.
                extra_arguments=["--log-level=CRITICAL"],
                # nbclient's timeout is for one cell; each gets what is left until the deadline.
                timeout_func=lambda cell: max(tic + seconds - time.monotonic(), 0.01),
            )
            made = {p.stem for p in figures.glob("*.json") if p.stat().st_mtime_ns >= started}
            if missing := sorted(set(notebook.figures) - made):
                reason = f"did not make the figures {missing} that its metadata declare"
        except PapermillExecutionError as error:
            lines = COLOURS.sub("", "\n".join(error.traceback)).strip().splitlines()
            reason = lines[-1] if lines else f"an error in cell {error.cell_index}"
        except TimeoutError:
            reason = f"not done after {seconds:g} s"
        except Exception as error:  # a dead kernel, a full disk: only this notebook's failure
            reason = f"{type(error).__name__}: {error}"
    failed.unlink(missing_ok=True)
    if part.exists():
        content = json.loads(part.read_text(encoding="utf-8"))
        now = _files_named(notebook)  # what has not been written meanwhile has been read
        content["metadata"][READ] = {n: stamp for n, stamp in files.items() if now.get(n) == stamp}
        part.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        os.replace(part, failed if reason else path)
    if reason:
        raise RuntimeError(f"{reason}; see {failed}")
    pictures = ", ".join(os.path.relpath(figures / f"{name}.png") for name in notebook.figures)
    return f"done in {duration(time.monotonic() - tic)}" + f": {pictures}" * bool(pictures)


def check_executed(path: Path) -> None:
    """Raise a ValueError if an executed notebook is damaged, or a file that it read has changed."""
    read(path)
    for name, stamp in (
        json.loads(path.read_text(encoding="utf-8"))["metadata"].get(READ, {}).items()
    ):
        if _stamp(Path(name)) != stamp:
            raise ValueError(f"{name}: changed after the notebook had read it")


def _files_named(notebook: Notebook) -> dict[str, list[int]]:
    """Return the stamps of the files that the notebook's code names in quotes, by path."""
    paths = {notebook.path.parent / text for _, text in QUOTED.findall(notebook.code)}
    return {str(path.absolute()): _stamp(path) for path in paths if os.path.isfile(path)}


def _stamp(path: Path) -> list[int]:
    """Return size and date of a file, nothing if there is none."""
    return [path.stat().st_size, path.stat().st_mtime_ns] if path.exists() else []


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables for a while; None removes one."""
    before = dict(os.environ)
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    for name in variables:
        if variables[name] is None:
            os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
