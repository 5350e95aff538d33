"""Run notebooks by papermill: figure notebooks that have changed, and any notebook over
a grid."""

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from workbench.core.checks import check_counts, check_known
from workbench.core.files import digest, whole
from workbench.core.kinds import Given, Record, Values
from workbench.core.names import count
from workbench.data.cache import state_of_folders
from workbench.runs.engine import PACKAGE, Say, execute, key, python_files, sources
from workbench.runs.notebooks import (
    BROKEN,
    CHECKOUT,
    FOLDER,
    PROFILES,
    Notebook,
    find,
    read,
    runs_folder,
)
from workbench.runs.parameters import (
    COLLECTIONS,
    Parameter,
    check_names,
    combinations,
)
from workbench.runs.worker import Limits, Task, duration

WEEK = 7 * 86400.0
TIMEOUTS = {"smoke": 300.0, "quick": 900.0, "paper": WEEK, "decide": WEEK}
PRINTED = CHECKOUT / "data" / "reference"  # the papers' printed numbers
NUMBERS = re.compile(r"[-+.,\deE\s]*")  # a text of numbers, which does not name data
# Notebooks show the pictures that they save, so they do not use the user's own
# Matplotlib backend.
BACKEND = {"MPLBACKEND": "agg"}


def make(
    names: Iterable[str] = (),
    profile: str = "quick",
    overrides: Mapping[str, str] | None = None,
    *,
    jobs: int | None = None,
    again: bool = False,
    results: Path | None = None,
    timeout: float | None = None,
    notebooks: Path = FOLDER,
    figures: Path | None = None,
    executed: Path | None = None,
    say: Say = print,
) -> list[str]:
    """Run figure notebooks, each in a kernel of its own; a failing one does not stop
    the others.

    Each notebook has one thread. Notebooks that run in parallel do not time anything.

    Parameters
    ----------
    names : the names of notebooks in the folder `notebooks` (default: all of them)
    profile : ``smoke`` (seconds), ``quick`` (minutes), ``paper``, or ``decide``, which
        makes the runs that the claims on the papers lack
    overrides : values of parameters as text; every notebook must declare all of these
        parameters
    jobs : int >= 1, the number of notebooks that run at a time (default: 2, or 1 in the
        profiles paper and decide unless figures are redrawn)
    again : bool, whether notebooks run even if nothing has changed
    results : a folder of files of results (:mod:`workbench.runs.results`), from which
        figures are redrawn with the parameters of these results
    timeout : float, the limit for each notebook in wall seconds (default: the profile's
        limit in :data:`TIMEOUTS`)
    notebooks : the folder of the notebooks
    figures, executed : the folders of the figures and of the executed notebooks
        (default: ``figures/`` and ``runs/figures/`` of the checkout, with a subfolder
        for each profile except paper; figures of the profile decide go to
        ``runs/decided/figures``)
    say : a function that receives a line for each notebook

    Returns
    -------
    failed : the names of the notebooks that failed

    Raises
    ------
    ValueError
        If an argument is faulty, before any notebook runs; the message names the
        argument or the notebook.
    """
    if results:
        profile = "paper"
        results = Path(results).absolute()
    check_known(profile, PROFILES, "profile")
    limits = Limits(TIMEOUTS[profile] if timeout is None else timeout)
    chosen = find(list(names), notebooks)
    if jobs is None:
        alone = len(chosen) == 1 or (TIMEOUTS[profile] == WEEK and not results)
        jobs = 1 if alone else 2
    check_counts(jobs=jobs)
    for_figures, for_executed = _folders(profile)
    figures = Path(figures or for_figures).absolute()
    executed = Path(executed or for_executed).absolute()
    # Notebooks that are redrawn in parallel do not disturb any run.
    variables = BACKEND | {
        "WORKBENCH_FIGURES": str(figures),
        "WORKBENCH_JOBS": "1" if results else str(jobs),
    }
    sources.cache_clear()  # this process may be older than the code; kernels are not
    tasks = []
    for notebook in chosen:
        name = notebook.name  # also the key: copies make other figures
        values = _values(notebook, profile, overrides, results)
        figure_key = notebook_key(notebook, values)
        environment = variables | {"WORKBENCH_KEY": figure_key}
        if results:
            environment["WORKBENCH_RESULTS"] = str(results / f"{name}.parquet")
        elif not again and unchanged(notebook, values, figure_key, figures, jobs):
            continue
        run = partial(run_notebook, notebook, values, environment)
        tasks.append(Task(name, name, f"{name}.ipynb", run, read))
    line = f"{count(len(chosen), 'notebook')}, profile {profile}"
    if len(chosen) > len(tasks):
        line += f"; {len(chosen) - len(tasks)} unchanged"
    say(f"{line}; figures go to {figures}")
    for task in tasks:
        task.path(executed).unlink(missing_ok=True)  # from an earlier call
    failures = execute(
        tasks, executed, jobs=jobs, limits=limits, what="notebook", say=say
    )
    return [task.key for task in tasks if task.key in failures]


def _folders(profile: str) -> tuple[Path, Path]:
    """Return a profile's folders of figures and of executed notebooks."""
    subfolder = "" if profile == "paper" else profile
    figures = figures_folder() / subfolder
    if profile == "decide":
        figures = decided_folder() / "figures"
    return figures, runs_folder() / "figures" / subfolder


def _values(
    notebook: Notebook, profile: str, overrides: Values | None, results: Path | None
) -> Record:
    """Return the values of a notebook's parameters.

    They come from the profile, or from the run that made `results`, and from the
    overrides.
    """
    if results is None:
        return notebook.values(profile, overrides)
    from workbench.runs.results import read_results  # Parquet takes a second to import

    path = results / f"{notebook.name}.parquet"
    if not path.exists():
        raise ValueError(f"from: {notebook.name} has no results; there is no {path}")
    _, recorded = read_results(path)
    return notebook.values(profile, recorded | dict(overrides or {}))


def timed(values: Values) -> bool:
    """Return whether a notebook with these parameters times what it runs."""
    return bool(values.get("timing", True))


def figures_folder() -> Path:
    """Return the folder ``WORKBENCH_FIGURES``, or ``figures/`` of the checkout."""
    return Path(os.environ.get("WORKBENCH_FIGURES") or CHECKOUT / "figures")


def decided_folder() -> Path:
    """Return the folder of the runs that decide claims, ``runs/decided`` by default."""
    return runs_folder() / "decided"


def unchanged(
    notebook: Notebook, values: Values, key: str, folder: Path, jobs: int = 1
) -> bool:
    """Return whether the notebook's figures in `folder` are complete and have this key.

    If `jobs` is 1, figures of a notebook that ran in parallel with others count as
    changed, unless the notebook does not time anything.
    """
    for name in notebook.figures:
        stem = folder / notebook.name / name
        try:
            record = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
            alone = record["jobs"] == 1 or jobs > 1 or not timed(values)
            files = record["files"]
            whole_files = "png" in files and all(
                digest(Path(f"{stem}.{kind}")) == checksum
                for kind, checksum in files.items()
            )
        except (*BROKEN, FileNotFoundError):  # the sidecar is missing or was changed
            return False
        if record["key"] != key or not alone or not whole_files:
            return False
    return True


def notebook_key(notebook: Notebook, values: Values) -> str:
    """Return the key of everything that a notebook's figures depend on.

    They depend on its code and the modules next to it, its parameters, the package with
    its libraries, the papers' printed numbers, the names, sizes and dates of the files
    in the data folders, and the content of the files that texts among the parameters
    name. Other files that the notebook reads are not included.
    """
    modules = []
    for pattern in ("*.py", "*/*.py"):
        modules += python_files(notebook.path.parent, pattern)
    return key(
        notebook=notebook.code,
        beside=[*filter(None, map(digest, modules))],
        parameters=values,
        package=sources(PACKAGE),
        printed=[*map(digest, sorted(PRINTED.glob("*.csv")))],
        data=state_of_folders(_texts(values)),
    )


def _texts(values: Values) -> Iterator[str]:
    """Yield the texts that may name data, among values and the items of lists."""
    for value in values.values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, str) and not NUMBERS.fullmatch(item):
                yield item


def fan_out(
    notebook: Notebook,
    texts: Mapping[str, str],
    jobs: int = 1,
    given: Values | None = None,
) -> list[Task]:
    """Return a task for every combination of the values in `texts` and `given`.

    Parameters
    ----------
    notebook : the notebook; its parameters cell gives the values of all other
        parameters
    texts : the values of each parameter, as in ``{"eps1": "1e-2,1e-3"}``; for a list
        parameter, the text is one list
    jobs : int >= 1, the number of notebooks that will run in parallel; with more than
        one, they do not time anything
    given : a value for each parameter, or a list of values unless the parameter itself
        is a list

    Raises
    ------
    ValueError
        If the notebook does not declare a parameter, or a value has the wrong type.
    """
    given = dict(given or {})
    check_names(given | dict(texts), notebook.parameters, notebook.name)
    axes: dict[str, list[Given]] = {}
    for name, value in given.items():
        parameter = notebook.parameters[name]
        several = isinstance(value, list) and parameter.type not in COLLECTIONS
        items = value if several else [value]
        axes[name] = [parameter.typed(item) for item in items]
    for name, text in texts.items():
        parameter = notebook.parameters[name]
        axes[name] = [parameter.read(item) for item in _items(parameter, text)]
    folder = str(notebook.path.parent.resolve())
    tasks = []
    for combination in combinations(*axes.values()):
        chosen = dict(zip(axes, combination))
        values = notebook.values() | chosen
        figure_key = notebook_key(notebook, values)
        # A notebook that ran in parallel with others was not timed, so its results
        # differ. A notebook may also read other files of its folder.
        task_key = key(notebook=figure_key, alone=jobs == 1, folder=folder)
        words = [f"{name}={value}" for name, value in chosen.items()]
        label = " ".join([notebook.name, *words])
        place = f"{notebook.name}-{task_key[:10]}/{notebook.name}.ipynb"
        variables = {"WORKBENCH_JOBS": str(jobs), "WORKBENCH_KEY": figure_key}
        run = partial(run_notebook, notebook, values, variables)
        tasks.append(Task(task_key, label, place, run, read))
    return tasks


def _items(parameter: Parameter, text: str) -> list[str]:
    """Return the texts of a parameter's values; a text of a list is one value."""
    untyped = parameter.type is None
    if parameter.type in COLLECTIONS or (untyped and text.startswith(("[", "{"))):
        return [text]
    return [item.strip() for item in text.split(",")]


def run_notebook(
    notebook: Notebook,
    values: Values,
    variables: Mapping[str, str],
    path: Path,
    limits: Limits,
) -> str:
    """Run one notebook in its folder, and keep it executed at `path`, or as
    NAME.failed.ipynb.

    Parameters
    ----------
    notebook : the notebook
    values : the values of all its parameters
    variables : environment variables of its kernel
    path : the file of the executed notebook
    limits : the limits of the run; only its wall seconds are used here

    Returns
    -------
    text : the time that the notebook took, and the pictures that it made

    Raises
    ------
    RuntimeError
        If the notebook fails; the message says why.
    """
    seconds = limits.seconds or WEEK
    started = time.monotonic()
    figures = Path(variables.get("WORKBENCH_FIGURES") or path.parent, notebook.name)
    failed = path.with_suffix(".failed.ipynb")
    with whole(path, ".ipynb") as part:
        with _environment({"WORKBENCH_FIGURES": str(figures.parent), **variables}):
            reason = _executed(notebook, values, part, seconds)
        failed.unlink(missing_ok=True)
        if reason:
            if part.exists():
                os.replace(part, failed)
            raise RuntimeError(f"{reason}; see {failed}")
    text = f"done in {duration(time.monotonic() - started)}"
    pictures = [os.path.relpath(figures / f"{name}.png") for name in notebook.figures]
    return f"{text}: {', '.join(pictures)}" if pictures else text


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, and restore all of them at the end."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _executed(notebook: Notebook, values: Values, path: Path, seconds: float) -> str:
    """Execute a notebook into `path`; return why it failed, or an empty text."""
    deadline = time.monotonic() + seconds
    # papermill takes a second to import; `workbench list` reads notebooks without it.
    import nbformat
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    from workbench.runs.jupyter_kernels import IpcKernelManager

    # The reason contains everything that papermill logs.
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    text = notebook.path.read_text(encoding="utf-8-sig")
    try:
        content = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
        execute_notebook(
            # The notebook is passed as content, and braces in the path are escaped,
            # because papermill would fill in text in braces.
            content,
            str(path).replace("{", "{{").replace("}", "}}"),
            dict(values),
            kernel_name="python3",
            language="python",
            cwd=notebook.path.parent,
            progress_bar=False,
            kernel_manager_class=IpcKernelManager,
            start_timeout=300,
            iopub_timeout=600,  # seconds that outputs may take to arrive
            # The shutdown interrupts the kernel, which would log that as an error.
            extra_arguments=["--log-level=CRITICAL"],
            # nbclient's timeout is for one cell; each cell gets the time that is left
            # until the deadline.
            timeout_func=lambda cell: max(deadline - time.monotonic(), 0.01),
        )
    except PapermillExecutionError as error:
        # Errors of IPython itself, such as an unknown magic, are only on stderr.
        return f"{error.ename}: {error.evalue or _last_stderr(path)}"
    except TimeoutError:
        return f"not done after {seconds:g} s"
    except Exception as error:  # such as a dead kernel or a full disk
        return f"{type(error).__name__}: {error}"
    return ""


def _last_stderr(path: Path) -> str:
    """Return the last text that a notebook's cells have written to stderr."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    texts = ["".join(o["text"]) for o in outputs if o.get("name") == "stderr"]
    return texts[-1].strip() if texts else ""
