"""Notebooks by papermill, as tasks of the engine: over a grid of parameters, or one of a figure."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import textwrap
import time
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from workbench.core.files import whole
from workbench.data.words import parts
from workbench.runs import worker
from workbench.runs.keys import PACKAGE, key, notebook_key
from workbench.runs.notebooks import (
    Notebook,
    Parameter,
    here_or_there,
    parse,
    read,
    runs_folder,
    typed,
)
from workbench.runs.worker import Limits, duration

FOREVER_S = 7 * 86400.0  # limit of a notebook that is given none
OUTPUT_S = 600  # that the outputs of a cell may take to arrive after its end
READ = "workbench_files_read"  # in the metadata of an executed notebook: digests by path


@dataclass(frozen=True)
class NotebookRun:
    """A notebook with values for all of its parameters: a task of the engine.

    Attributes
    ----------
    notebook, values, key, label
    place : the executed notebook, in the folder of tasks; a failed one is NAME.failed.ipynb
    environment : variables of its kernel; None removes one
    loud : whether the worker reports what the notebook prints, and its traceback
    """

    notebook: Notebook
    values: Mapping[str, Any]
    key: str
    label: str
    place: str
    environment: Mapping[str, str | None] = field(default_factory=dict)
    loud: bool = False
    grace_s = 120.0  # a kernel is interrupted on time by the worker, which need not be killed

    def path(self, folder: Path) -> Path:
        return folder / self.place

    def check(self, path: Path) -> None:
        read(path, figures=False)
        try:
            files = json.loads(path.read_text(encoding="utf-8"))["metadata"].get(READ, {})
        except (ValueError, AttributeError):
            raise ValueError(f"{path}: is damaged") from None
        from workbench.runs.jupyter_kernels import digest

        if changed := [name for name, sha in files.items() if digest(name) != sha]:
            raise ValueError(f"{', '.join(changed)}: changed after the notebook had read it")

    def run(self, folder: Path, limits: Limits) -> str:
        """Execute the notebook in a kernel of its own, in the notebook's folder."""
        say = worker.say if self.loud else lambda line: None
        variables = {"WORKBENCH_FIGURES": str(self.path(folder).parent)} | dict(self.environment)
        tic = time.monotonic()
        with environment(**variables):
            reason, traceback = run_notebook(
                self.notebook, dict(self.values), self.path(folder), limits.seconds, say
            )
        if reason:
            say(textwrap.indent(traceback, f"{self.notebook.name} | ", lambda line: True))
            failed = self.path(folder).with_suffix(".failed.ipynb")
            raise RuntimeError(f"{reason}; see {failed}")
        figures = Path(variables["WORKBENCH_FIGURES"]) / self.notebook.name
        pictures = ", ".join(
            os.path.relpath(figures / f"{name}.png") for name in self.notebook.figures
        )
        return f"done in {duration(time.monotonic() - tic)}" + f": {pictures}" * bool(pictures)


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
        axes.append(_axis(notebook.parameter(name), text))
        if any(axes[-1].count(value) > 1 for value in axes[-1]):
            raise ValueError(f"{name}: a value appears twice in {text!r}")
    runs = []
    for chosen in product(*axes):
        chosen = dict(zip(texts, chosen))
        values = notebook.values() | here_or_there(chosen, notebook.path.parent)
        # A notebook that ran at the same time as others was not timed: its results differ.
        own = key(notebook=notebook_key(notebook, values), alone=jobs == 1)
        label = " ".join([notebook.name, *(f"{name}={value}" for name, value in chosen.items())])
        place = f"{notebook.name}-{own[:10]}/{notebook.name}.ipynb"
        variables = {"WORKBENCH_JOBS": str(jobs)}
        runs.append(NotebookRun(notebook, values, own, label, place, variables))
    return runs


def _axis(parameter: Parameter, text: str) -> list:
    """Return the values in a YAML list, or between commas; a list parameter takes one list."""
    if not text.startswith("["):
        return [parse(parameter, part.strip()) for part in parts(text)]
    try:
        items = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{parameter.name}: is not a YAML list: {text!r}") from None
    if parameter.type is list and not all(isinstance(item, list) for item in items):
        items = [items]
    return [typed(parameter, item) for item in items]


def run_notebook(
    notebook: Notebook, values: dict[str, Any], kept: Path, seconds: float | None, say: worker.Say
) -> tuple[str, str]:
    """Run one notebook and keep it executed at `kept`, or as NAME.failed.ipynb next to it.

    Returns
    -------
    reason : of its failure, in one line, empty if it ran to its end
    traceback : of that failure
    """
    # papermill takes a second to import; `workbench list` reads notebooks without it.
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    from workbench.runs.jupyter_kernels import IpcKernelManager, digests
    from workbench.runs.kernel import LIST

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it logs is in the reason
    seconds = seconds or FOREVER_S
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part.ipynb")
    tic, started = time.monotonic(), time.time_ns()
    reason = traceback = ""
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        files_read = Path(folder, "files_read")
        files_read.touch()
        source, content = notebook.path, notebook.path.read_bytes()
        if content.startswith(BOM_UTF8):  # papermill cannot read it
            source = Path(folder, notebook.path.name)
            source.write_bytes(content.removeprefix(BOM_UTF8))
        try:
            with environment(**{LIST: str(files_read)}):
                execute_notebook(
                    source,
                    part,
                    values,
                    kernel_name="python3",
                    language="python",
                    cwd=notebook.path.parent,
                    progress_bar=False,
                    stdout_file=_Lines(f"  {notebook.name} | ", say),
                    kernel_manager_class=IpcKernelManager,
                    start_timeout=300,
                    iopub_timeout=OUTPUT_S,
                    # The shutdown interrupts the kernel, which would log that as an error.
                    extra_arguments=["--log-level=CRITICAL"],
                    # nbclient's timeout is for one cell; each gets what is left until the deadline.
                    timeout_func=lambda cell: max(tic + seconds - time.monotonic(), 0.01),
                )
            reason = traceback = _missing(notebook, started)
        except PapermillExecutionError as error:
            traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)) or _printed(part)
            traceback = f"in cell {error.cell_index}:\n{traceback}"
            reason = traceback.splitlines()[-1]
        except TimeoutError:
            reason = traceback = f"not done after {seconds:g} s"
        except Exception as error:  # a dead kernel, a full disk: only this notebook's failure
            reason = traceback = f"{type(error).__name__}: {error}"
        read = digests(files_read, (PACKAGE, kept.parent, runs_folder().absolute(), notebook.path))
    failed = kept.with_suffix(".failed.ipynb")
    failed.unlink(missing_ok=True)
    if part.exists():
        content = json.loads(part.read_text(encoding="utf-8"))
        content["metadata"][READ] = read
        with whole(failed if reason else kept) as file:
            file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        part.unlink()
    return reason, traceback


def _printed(path: Path) -> str:
    """Return what an executed notebook printed: IPython itself reports some errors only there."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [out.get("text", "") for cell in cells for out in cell.get("outputs", ())]
    return "".join(map("".join, texts)).strip() or "an error without a message"


def _missing(notebook: Notebook, started: int) -> str:
    """Return which declared figures were not written since `started` (in ns), "" if all were."""
    folder = Path(os.environ.get("WORKBENCH_FIGURES", ""), notebook.name)
    paths = [folder / f"{name}.json" for name in notebook.figures]
    stale = [p.stem for p in paths if not p.exists() or p.stat().st_mtime_ns < started]
    return f"did not make the figures {stale} that its metadata declare" if stale else ""


class _Lines:
    """A text file that passes on whole lines, each with a prefix."""

    def __init__(self, prefix: str, say: worker.Say):
        self.prefix, self.say, self.rest = prefix, say, ""

    def write(self, text: str) -> None:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self.say(self.prefix + line)

    def flush(self) -> None:
        """Do nothing: only an unfinished line is held back."""


@contextmanager
def environment(**variables: str | None) -> Iterator[None]:
    """Set environment variables for a while; None removes one."""
    before = {name: os.environ.get(name) for name in variables}

    def put(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(variables)
    try:
        yield
    finally:
        put(before)
