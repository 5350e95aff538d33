"""One function per command: it takes the arguments and returns the exit status.

Imports are inside the commands, so that ``workbench --help`` does not wait for the solvers.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Collection, Iterable
from typing import Any

from workbench.core.names import count, hint

RETRY = "; run the sweep again to retry"


def list_command(arguments: argparse.Namespace) -> int:
    """Print the names of solvers, data sets and figure notebooks, or what one of them takes."""
    from workbench.data import available
    from workbench.registry import SOLVERS
    from workbench.runs.notebooks import find
    from workbench.runs.parameters import parameters_of

    data, notebooks, name = available(), {n.name: n for n in find()}, arguments.name
    if name is None:
        for title, names in (("Solvers", SOLVERS), ("Data sets", data), ("Figures", notebooks)):
            print(textwrap.fill(f"{title}: {', '.join(names)}", 98, subsequent_indent="  "))
        print("`workbench list NAME` describes one of them.")
        return 0
    if name in SOLVERS:
        steps, parameters = SOLVERS[name].steps, parameters_of(SOLVERS[name].steps)
        print(f"{SOLVERS[name].label}: {inspect.getdoc(steps).partition(chr(10))[0]}")
    elif name in data:
        print(data[name])
        return 0
    elif name in notebooks:
        parameters = notebooks[name].parameters
        print(f"{name} makes {', '.join(notebooks[name].figures)}")
    else:
        known = [*SOLVERS, *data, *notebooks]
        raise ValueError(f"list: unknown name {name!r}; {hint(name, known)}")
    for parameter in parameters.values():
        print(f"  {parameter.name:18} {parameter.default!r:20} {parameter.help}".rstrip())
    return 0


def run_command(arguments: argparse.Namespace) -> int:
    """Run one solver on one data set and print its rows as they come."""
    from workbench.core.measures import errors
    from workbench.core.stream import geometric, stopping
    from workbench.data import load
    from workbench.runs.grid import checked_stop
    from workbench.runs.parameters import parameters_of
    from workbench.runs.run import resolve, run
    from workbench.runs.worker import Limits, limited_memory

    memory = Limits(memory=arguments.memory).memory
    stop = {name: getattr(arguments, name) for name in ("gap", "seconds", "cpu", "rounds")}
    rules = stopping(checked_stop({n: value for n, value in stop.items() if value is not None}))
    texts = _pairs(arguments.parameters)
    declared = parameters_of(resolve(arguments.solver, texts)[0])
    parameters = {name: declared[name].typed(text) for name, text in texts.items()}
    split = {"test": arguments.test, "scale": arguments.scale}
    problem = load(arguments.data, labels=arguments.labels, **split)
    print(f"{problem.name}: n = {problem.n:,}, d = {problem.d:,}, k = {problem.k:,}", flush=True)
    sampled = geometric()

    def show(row: dict[str, Any]) -> bool:
        if seen := sampled(row):
            print(_line(row), flush=True)
        return seen

    options = {"parameters": parameters, "path": arguments.out, "proof": arguments.proof}
    with limited_memory(memory):
        trace, state = run(arguments.solver, problem, *rules, when=show, **options)
        if state is None:
            return 130
        print(_line(trace.last | errors(problem)(state)))
    return {"diverged": 1, "interrupted": 130}.get(trace.stopped_by, 0)


def verify_command(arguments: argparse.Namespace) -> int:
    """Verify proofs; return 1 if one of them is refused."""
    from workbench.data import load
    from workbench.proofs import ProofError, expected, read, verify

    if arguments.scale and not arguments.data:
        raise ValueError("--scale: must be used with --data, whose rows it scales")
    wanted = _pairs(filter(None, arguments.expect.split(",")), "--expect")
    given = load(arguments.data, scale=arguments.scale) if arguments.data else None
    refused = 0
    for file in arguments.files:
        try:
            proof = read(file)
            expected(proof.header, wanted)
            start = time.perf_counter()
            verdict = verify(proof, given)
            took = f"verified in {time.perf_counter() - start:.2f} s"
            print(f"{verdict.statement}; {took}", flush=True)
        except ProofError as error:
            name = "" if str(error).startswith(str(file)) else f"{file}: "
            print(f"refused: {name}{error}", flush=True)
            refused = 1
    return refused


def sweep_command(arguments: argparse.Namespace) -> int:
    """Run a grid of solvers, or of the parameters of a notebook."""
    if arguments.grid.suffix == ".ipynb":
        return _fan_out(arguments)
    if arguments.grid.suffix not in (".yaml", ".yml"):
        raise ValueError(f"sweep: must be given a .yaml or an .ipynb file, got {arguments.grid}")
    if arguments.parameters:
        raise ValueError("-p: must be used with a notebook; write values of a grid into its file")
    from workbench.runs.grid import read_points
    from workbench.runs.results import write_results
    from workbench.runs.sweep import runs_folder, summary, sweep

    options = _options(arguments, "jobs timing cluster seconds memory proofs")
    done = sweep(read_points(arguments.grid), **options)
    table = runs_folder() / "sweeps" / f"{arguments.grid.stem}.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    done.frame().to_csv(table, index=False)
    print(summary(done).to_string(index=False))
    print(f"every point: {table}")
    if arguments.parquet is not None:
        write_results(arguments.parquet, done.traces())
        print(f"traces: {arguments.parquet}")
    return _failed(done.failures, "point", RETRY)


def _fan_out(arguments: argparse.Namespace) -> int:
    for option in ("timing", "parquet", "proofs"):
        if getattr(arguments, option):
            raise ValueError(f"--{option}: must be used with a grid, got a notebook")
    from workbench.runs.engine import execute
    from workbench.runs.mill import fan_out
    from workbench.runs.notebooks import read, runs_folder
    from workbench.runs.worker import Limits

    tasks = fan_out(read(arguments.grid), _pairs(arguments.parameters), jobs=arguments.jobs)
    folder = (runs_folder() / "sweeps").absolute()
    how = _options(arguments, "jobs cluster") | {"what": "notebook"}
    failures = execute(tasks, folder, limits=Limits(arguments.seconds, arguments.memory), **how)
    for task in tasks:
        if task.key not in failures:
            print(f"{task.label}: {task.path(folder)}")
    return _failed(failures, "notebook", RETRY)


def replay_command(arguments: argparse.Namespace) -> int:
    """Write a page on which recorded runs play."""
    from workbench.core.trace import read_trace
    from workbench.live.replay import Replay

    page = Replay(*map(read_trace, arguments.traces)).page(arguments.title)
    arguments.out.write_text(page, encoding="utf-8")
    print(arguments.out)
    return 0


def report_command(arguments: argparse.Namespace) -> int:
    """Write the report."""
    _in_a_checkout()
    from workbench.figures.report import report

    print(report(arguments.out, figures=arguments.figures))
    return 0


def figures_command(arguments: argparse.Namespace) -> int:
    """Run figure notebooks."""
    _in_a_checkout()
    from workbench.runs.mill import make

    overrides = _pairs(arguments.parameters)
    if overrides and not arguments.names:
        raise ValueError("-p: must be used with names; name the notebooks whose parameters it sets")
    options = _options(arguments, "jobs again timeout results") | {"figures": arguments.out}
    os.environ["WORKBENCH_CAPTION"] = str(int(not arguments.no_caption))
    failed = make(arguments.names, arguments.profile, overrides, **options)
    return _failed(failed, "notebook", f": {', '.join(failed)}")


def warm_command(arguments: argparse.Namespace) -> int:
    """Compile all solvers."""
    from workbench.runs.warm import warm_all

    warm_all(_say)
    return 0


def data_command(arguments: argparse.Namespace) -> int:
    """List, fetch or check data sets."""
    from workbench.data import available, check, fetch

    if arguments.action == "list":
        print("\n".join(available().values()))
        return 0
    if not arguments.names:
        raise ValueError(f"data {arguments.action}: name at least one data set")
    for name in arguments.names:
        found = fetch(name, progress=True) if arguments.action == "fetch" else check(name)
        print(f"{name}: {found}", flush=True)
    return 0


def _in_a_checkout() -> None:
    from workbench.runs.notebooks import CHECKOUT

    if not (CHECKOUT / "pyproject.toml").is_file():
        raise ValueError(
            "figures and report are made from notebooks: run this in a checkout of the "
            "repository (`make figures`), or in its unpacked sdist"
        )


def _options(arguments: argparse.Namespace, names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names.split()} | {"say": _say}


def _say(line: str) -> None:
    """Print a line of progress; on a terminal the next line overwrites it unless it failed."""
    if not sys.stdout.isatty():
        print(line, flush=True)
        return
    done, _, total = line.partition("]")[0].removeprefix("[").partition("/")
    passing = line.startswith("[") and done != total and "FAILED" not in line
    width = shutil.get_terminal_size().columns - 1 if passing else None
    print(f"\r\x1b[K{line[:width]}", end="" if passing else "\n", flush=True)


def _failed(failures: Collection[str], what: str, remedy: str) -> int:
    """Return the exit status, and say on stderr how many failed."""
    if failures:
        print(f"workbench: {count(len(failures), what)} failed{remedy}", file=sys.stderr)
    return 1 if failures else 0


def _line(row: dict[str, Any]) -> str:
    numbers = {
        key: f"{value:.4g}" if isinstance(value, float) else str(value)
        for key, value in row.items()
        if key != "cpu"
    }
    return "  ".join(f"{key} {value}" for key, value in numbers.items())


def _pairs(texts: Iterable[str], option: str = "-p") -> dict[str, str]:
    """Return the values of ``NAME=VALUE`` by their names."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{option}: must be NAME=VALUE, got {text!r}")
        if name in found:
            raise ValueError(f"{option}: {name} appears twice")
        found[name] = value
    return found
