"""Run notebooks by papermill: figure notebooks if something changed, any one over a
grid."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from workbench.core.files import digest, whole
from workbench.core.kinds import Record, Values
from workbench.core.names import count, hint
from workbench.data.cache import state_of_folders
from workbench.runs.engine import PACKAGE, Say, execute, key, python_files, sources
from workbench.runs.notebooks import (
    CHECKOUT,
    FOLDER,
    PROFILES,
    Notebook,
    find,
    read,
    runs_folder,
)
from workbench.runs.parameters import Parameter, check_names, combinations
from workbench.runs.worker import Limits, Task, duration

TIMEOUTS = {"smoke": 300.0, "quick": 900.0, "paper": 7 * 86400.0}
# Errors from a sidecar that somebody changed.
DAMAGED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    FileNotFoundError,
)
COLLECTIONS = (list, tuple, dict)
PRINTED = CHECKOUT / "data" / "reference"  # the papers' printed numbers


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

    Each has one thread. Nothing is timed in notebooks that run side by side.

    Parameters
    ----------
    names : notebooks of the folder `notebooks`; all of them by default
    profile : ``smoke`` (seconds), ``quick`` (minutes) or ``paper``
    overrides : parameter values as text; every notebook must declare all of these
        parameters
    jobs : notebooks at a time, by default two, in the profile paper one
    again : rerun notebooks even if nothing changed
    results : redraw from the files of this folder, see :mod:`workbench.runs.results`,
        with the parameters that they were made with
    timeout : wall seconds for each notebook, by default those of the profile in
        :data:`TIMEOUTS`
    figures, executed : where the figures and the executed notebooks go, by default
        ``figures/`` and ``runs/figures/`` of the checkout; profiles other than paper
        have folders in them
    say : receives a line for each notebook

    Returns
    -------
    failed : the names of the notebooks that failed

    Raises
    ------
    ValueError
        Before any notebook runs, naming the argument or the notebook.
    """
    profile, results = (
        ("paper", Path(results).absolute()) if results else (profile, None)
    )
    if profile not in PROFILES:
        raise ValueError(
            f"profile: unknown name {profile!r}; {hint(str(profile), PROFILES)}"
        )
    limits = Limits(TIMEOUTS[profile] if timeout is None else timeout)
    found = find(list(names), notebooks)
    if jobs is None:
        jobs = 1 if len(found) == 1 or (profile == "paper" and not results) else 2
    work = [
        (notebook, _values(notebook, profile, overrides, results)) for notebook in found
    ]
    subfolder = "" if profile == "paper" else profile
    figures = Path(figures or figures_folder() / subfolder).absolute()
    executed = Path(executed or runs_folder() / "figures" / subfolder).absolute()
    changed = (
        work
        if again or results
        else [w for w in work if not unchanged(*w, figures, jobs)]
    )
    same = f"; {len(work) - len(changed)} unchanged" if len(work) > len(changed) else ""
    say(
        f"{count(len(work), 'notebook')}, profile {profile}{same}; figures go to "
        f"{figures}"
    )
    # Notebooks that are redrawn side by side disturb no run.
    variables = {
        "WORKBENCH_FIGURES": str(figures),
        "WORKBENCH_JOBS": str(1 if results else jobs),
    }
    variables |= {"MPLBACKEND": "agg"}  # notebooks show the pictures that they save
    tasks = []
    for notebook, values in changed:
        name = (
            notebook.name
        )  # the key, too: copies of one notebook make different figures
        kept = (
            {"WORKBENCH_RESULTS": str(results / f"{name}.parquet")} if results else {}
        )
        run = partial(run_notebook, notebook, values, variables | kept)
        tasks.append(Task(name, name, f"{name}.ipynb", run, read))
        tasks[-1].path(executed).unlink(missing_ok=True)  # of an earlier call
    failures = execute(
        tasks, executed, jobs=jobs, limits=limits, what="notebook", say=say
    )
    return [task.key for task in tasks if task.key in failures]


def _values(
    notebook: Notebook, profile: str, overrides: Values | None, results: Path | None
) -> Record:
    """Return the values of the parameters: of the profile, of the results if given,
    overridden."""
    if results is None:
        return notebook.values(profile, overrides)
    from workbench.runs.results import read_results  # Parquet takes a second to import

    path = results / f"{notebook.name}.parquet"
    if not path.exists():
        raise ValueError(f"from: {notebook.name} has no results; there is no {path}")
    return notebook.values(profile, read_results(path)[1] | dict(overrides or {}))


def timed(values: Values) -> bool:
    """Return whether a notebook with these parameters times what it runs."""
    return bool(values.get("timing", True))


def figures_folder() -> Path:
    """Return the folder ``WORKBENCH_FIGURES``, or ``figures/`` of the checkout."""
    return Path(os.environ.get("WORKBENCH_FIGURES") or CHECKOUT / "figures")


def unchanged(notebook: Notebook, values: Values, folder: Path, jobs: int = 1) -> bool:
    """Return whether the notebook's figures in `folder` are whole and would come out
    the same.

    If `jobs` is 1, figures that ran side by side with others count as changed unless
    untimed.
    """
    wanted = notebook_key(notebook, values)
    for name in notebook.figures:
        stem = folder / notebook.name / name
        try:
            record = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
            alone = record["jobs"] == 1 or jobs > 1 or not timed(values)
            files = record["files"]
            same = "png" in files and all(
                digest(Path(f"{stem}.{kind}")) == own for kind, own in files.items()
            )
        except DAMAGED:
            return False
        if record["key"] != wanted or not alone or not same:
            return False
    return True


def notebook_key(notebook: Notebook, values: Values) -> str:
    """Return the key of everything that a notebook's figures depend on, whatever it
    does inside.

    Its code and that of modules next to it, its parameters, the package with its
    libraries, the papers' printed numbers, and the names, sizes and dates of the files
    in the data folders and of those that the parameters name. Other files that it reads
    do not count.
    """
    beside = [
        file
        for p in ("*.py", "*/*.py")
        for file in python_files(notebook.path.parent, p)
    ]
    return key(
        notebook=notebook.code,
        beside=[*filter(None, map(digest, beside))],
        parameters=dict(values),
        package=sources(PACKAGE),
        printed=[*map(digest, sorted(PRINTED.glob("*.csv")))],
        data=state_of_folders(map(str, values.values())),
    )


def fan_out(
    notebook: Notebook,
    texts: Mapping[str, str],
    jobs: int = 1,
    given: Values | None = None,
) -> list[Task]:
    """Return a task for every combination of the values in `texts` and `given`.

    Parameters
    ----------
    notebook : its parameters cell gives the values of the other parameters
    texts : parameter -> its values, as in ``{"eps1": "1e-2,1e-3"}``; a list parameter
        takes one YAML list
    jobs : how many will run side by side; with more than one nothing inside is timed
    given : parameter -> a value, or a list of values unless the parameter itself is a
        list

    Raises
    ------
    ValueError
        For a parameter that the notebook does not declare, or a value of the wrong
        type.
    """
    axes = {**(given or {}), **texts}
    check_names(axes, notebook.parameters, notebook.name)
    for name, value in axes.items():
        parameter = notebook.parameters[name]
        if name in texts:
            axes[name] = [
                parameter.read(item.strip()) for item in _items(parameter, value)
            ]
        else:
            several = isinstance(value, list) and parameter.type not in COLLECTIONS
            axes[name] = [
                parameter.typed(item) for item in (value if several else [value])
            ]
    folder, tasks = str(notebook.path.parent.resolve()), []
    for values in combinations(*axes.values()):
        chosen = dict(zip(axes, values))
        values = notebook.values() | chosen
        # A notebook that ran at the same time as others was not timed: its results
        # differ. It may read other files of its folder.
        own = key(
            notebook=notebook_key(notebook, values), alone=jobs == 1, folder=folder
        )
        label = " ".join(
            [notebook.name, *(f"{name}={value}" for name, value in chosen.items())]
        )
        place = f"{notebook.name}-{own[:10]}/{notebook.name}.ipynb"
        run = partial(run_notebook, notebook, values, {"WORKBENCH_JOBS": str(jobs)})
        tasks.append(Task(own, label, place, run, read))
    return tasks


def _items(parameter: Parameter, text: str) -> list[str]:
    one = parameter.type in COLLECTIONS or (
        parameter.type is None and text.startswith(("[", "{"))
    )
    return [text] if one else text.split(",")


def run_notebook(
    notebook: Notebook,
    values: Values,
    variables: Mapping[str, str],
    path: Path,
    limits: Limits,
) -> str:
    """Run one notebook in its folder, and keep it executed at `path` or as
    NAME.failed.ipynb.

    Parameters
    ----------
    values : of all its parameters
    variables : environment variables of its kernel

    Returns
    -------
    text : how long it took, and the pictures that it made; a RuntimeError says why it
        failed
    """
    # papermill takes a second to import; `workbench list` reads notebooks without it.
    import nbformat
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    from workbench.runs.jupyter_kernels import IpcKernelManager

    logging.getLogger("papermill").setLevel(
        logging.CRITICAL
    )  # the reason has all that it logs
    seconds, tic = limits.seconds or TIMEOUTS["paper"], time.monotonic()
    figures = Path(variables.get("WORKBENCH_FIGURES") or path.parent, notebook.name)
    failed, reason, environment = (
        path.with_suffix(".failed.ipynb"),
        "",
        dict(os.environ),
    )
    text = notebook.path.read_text(encoding="utf-8-sig")
    with whole(path, ".ipynb") as part:
        os.environ.update({"WORKBENCH_FIGURES": str(figures.parent), **variables})
        try:
            execute_notebook(
                # Not its path, nor the other as it is: papermill fills in what is in
                # braces.
                nbformat.reads(text, as_version=4),  # type: ignore[no-untyped-call]
                str(part).replace("{", "{{").replace("}", "}}"),
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
                # nbclient's timeout is for one cell; each gets what is left until the
                # deadline.
                timeout_func=lambda cell: max(tic + seconds - time.monotonic(), 0.01),
            )
        except PapermillExecutionError as error:
            # What IPython itself refuses, such as a magic, is on stderr only.
            reason = f"{error.ename}: {error.evalue or _said_last(part)}"
        except TimeoutError:
            reason = f"not done after {seconds:g} s"
        except (
            Exception
        ) as error:  # a dead kernel, a full disk: only this notebook's failure
            reason = f"{type(error).__name__}: {error}"
        finally:
            os.environ.clear()
            os.environ.update(environment)
        failed.unlink(missing_ok=True)
        if reason:
            if part.exists():
                os.replace(part, failed)
            raise RuntimeError(f"{reason}; see {failed}")
    pictures = ", ".join(
        os.path.relpath(figures / f"{name}.png") for name in notebook.figures
    )
    return f"done in {duration(time.monotonic() - tic)}" + f": {pictures}" * bool(
        pictures
    )


def _said_last(path: Path) -> str:
    """Return the last text that a notebook's cells have written to stderr."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    texts = ["".join(o["text"]) for o in outputs if o.get("name") == "stderr"]
    return texts[-1].strip() if texts else ""
