"""The command line: ``workbench list | run | compare | sweep | figures | report | lessons | data``.

Imports are inside the commands, so that ``workbench --help`` does not wait for the solvers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.runs.arguments import Parser, add_parameters, pairs, typed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 for failed work, 2 for a usage error, 130 for Ctrl-C.

    It is 141 where nobody reads on, as after ``workbench list | head``.
    """
    try:
        try:
            arguments = _parser().parse_args(argv)
            code = arguments.command(arguments)
        except SystemExit as exit:
            code = exit.code or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is left in the buffer goes nowhere, or Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, RuntimeError) as error:
        file = getattr(error, "filename", None)
        message = " ".join((f"{file}: {error.strerror}" if file else str(error)).split())
        print(f"workbench: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("workbench: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="workbench", description="Large-scale multiclass classification.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    add = commands.add_parser("list", help="solvers, data sets and figure notebooks")
    add.set_defaults(command=_list)

    add = commands.add_parser("run", help="run one solver on one data set, live")
    add.add_argument("solver", metavar="SOLVER")
    add.add_argument("data", metavar="DATA", help="a name of `workbench data list`, or a file")
    add_parameters(add, "a parameter of the solver")
    add.add_argument("--scale", help="scale the features first: standard, unit, tfidf or another")
    add.add_argument("--test", type=float, metavar="SHARE", help="hold out a share as test rows")
    add.add_argument("--gap", type=float, default=1e-3, help="stop at this certified gap (1e-3)")
    add.add_argument("--rounds", type=int, metavar="N", help="stop after N rounds")
    add.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="stop after S solver seconds (60)"
    )
    add.add_argument("--out", type=Path, metavar="FILE", help="write the trace as JSON Lines")
    add.set_defaults(command=_run)

    add = commands.add_parser("compare", help="a sensible set of solvers on your own data")
    add.add_argument("data", metavar="FILE", help="a table, or any file or name of data")
    add.add_argument(
        "--target", metavar="COLUMN", help="by default target, label, class, y or last"
    )
    add.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="about how long it may take (60)"
    )
    add.add_argument(
        "-j", "--jobs", type=int, metavar="N", help="worker processes (half the cores)"
    )
    add.add_argument("--out", type=Path, metavar="DIR", help="write table, figure and code")
    add.set_defaults(command=_compare)

    add = commands.add_parser("sweep", help="run a grid of solvers, or of a notebook's parameters")
    add.add_argument("grid", type=Path, metavar="GRID.yaml|NOTEBOOK.ipynb")
    add_parameters(add, "values of a notebook's parameter, separated by commas")
    add.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="worker processes (1)")
    add.add_argument("--timing", action="store_true", help="one pinned job, at least five runs")
    add.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, tcp://HOST:PORT")
    add.add_argument(
        "--seconds", type=float, metavar="S", help="wall seconds that a point may take"
    )
    add.add_argument("--memory", type=float, metavar="GB", help="memory that a point may take")
    add.add_argument("--parquet", type=Path, metavar="FILE", help="write all traces, tidy")
    add.set_defaults(command=_sweep)

    add = commands.add_parser("figures", help="run the figure notebooks")
    add.add_argument("names", nargs="*", metavar="NAME", help="notebooks; all by default")
    add.add_argument(
        "--profile", default="quick", help="smoke (seconds), quick (minutes, the default) or paper"
    )
    add_parameters(add, "a parameter of the notebooks")
    add.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="notebooks at a time")
    add.add_argument("--again", action="store_true", help="also those for which nothing changed")
    add.add_argument("--timeout", type=float, metavar="S", help="seconds for each notebook")
    add.add_argument("--out", type=Path, metavar="DIR", help="where figures go (figures/)")
    add.set_defaults(command=_figures)

    add = commands.add_parser("report", help="one HTML page: figures, papers' numbers and ours")
    add.add_argument("--figures", type=Path, metavar="DIR", help="where figures are (figures/)")
    add.add_argument("--out", type=Path, metavar="FILE", help="the page (runs/report.html)")
    add.set_defaults(command=_report)

    add = commands.add_parser("lessons", help="student copies, and an offline HTML course")
    add.add_argument("names", nargs="*", metavar="NAME", help="how names begin; all by default")
    add.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="lessons at a time")
    add.add_argument("--again", action="store_true", help="also those for which nothing changed")
    add.add_argument("--out", type=Path, metavar="DIR", help="where the course goes (course/)")
    add.set_defaults(command=_lessons)

    add = commands.add_parser("data", help="list, fetch or check data sets")
    add.add_argument("action", choices=("list", "fetch", "check"), nargs="?", default="list")
    add.add_argument("names", nargs="*", metavar="NAME")
    add.set_defaults(command=_data)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    from workbench.data import available
    from workbench.registry import SOLVERS
    from workbench.runs import notebooks
    from workbench.runs.run import resolve

    print("Solvers")
    for name, solver in SOLVERS.items():
        defaults = ", ".join(f"{key}={value!r}" for key, value in resolve(name, {})[1].items())
        print(f"  {name:20} {solver.label:20} {defaults}")
    print("Data sets")
    for entry in available():
        print(f"  {entry}")
    print("Figure notebooks")
    for notebook in notebooks.find():
        print(f"  {notebook.name:20} makes {', '.join(notebook.figures)}")
        for parameter in notebook.parameters.values():
            print(f"    {parameter.name:18} {parameter.default!r:20} {parameter.help}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from workbench.core.checks import check_counts, check_not_negative, check_positive
    from workbench.core.measures import errors
    from workbench.core.stream import below, geometric, rounds, seconds
    from workbench.data import load
    from workbench.runs.run import resolve, run

    check_positive(arguments.seconds, "seconds")
    check_not_negative(gap=arguments.gap)
    if arguments.rounds is not None:
        check_counts(rounds=arguments.rounds)
    _, defaults = resolve(arguments.solver, {})
    texts = pairs(arguments.parameters)
    resolve(arguments.solver, texts)
    parameters = {name: typed(defaults[name], name, text) for name, text in texts.items()}
    problem = load(arguments.data, test=arguments.test, scale=arguments.scale)
    print(f"{problem.name}: n = {problem.n:,}, d = {problem.d:,}, k = {problem.k:,}", flush=True)
    rules = [below("gap", arguments.gap), seconds(arguments.seconds)]
    if arguments.rounds is not None:
        rules.append(rounds(arguments.rounds))
    sampled = geometric()

    def show(row: dict[str, Any]) -> bool:
        if seen := sampled(row):
            print(_line(row), flush=True)
        return seen

    trace, state = run(
        arguments.solver,
        problem,
        *rules,
        parameters=parameters,
        when=show,
        path=arguments.out,
    )
    if state is None:
        return 130
    print(_line(trace.last | errors(problem)(state)))
    return {"diverged": 1, "interrupted": 130}.get(trace.stopped_by, 0)


def _compare(arguments: argparse.Namespace) -> int:
    from workbench.arena import compare

    done = compare(
        arguments.data,
        arguments.target,
        seconds=arguments.seconds,
        jobs=arguments.jobs,
        say=_say,
    )
    print(f"\n{done}")
    if not done.ended:
        return 130 if done.interrupted else 1
    if arguments.out is not None:
        print(f"table, figure and code: {done.save(arguments.out)}")
    return 130 if done.interrupted else 0


def _sweep(arguments: argparse.Namespace) -> int:
    if arguments.grid.suffix == ".ipynb":
        return _fan_out(arguments)
    if arguments.grid.suffix not in (".yaml", ".yml"):
        raise ValueError(f"sweep: a .yaml or an .ipynb file is accepted, got {arguments.grid}")
    if arguments.parameters:
        raise ValueError("-p: is for notebooks; write the values into the YAML file")
    if arguments.timing and arguments.jobs > 1:
        raise ValueError("--timing: runs one job, leave -j out")
    from workbench.runs.export import to_parquet
    from workbench.runs.grid import read_points
    from workbench.runs.sweep import runs_folder, summary, sweep

    done = sweep(
        read_points(arguments.grid),
        jobs=arguments.jobs,
        timing=arguments.timing,
        cluster=arguments.cluster,
        seconds=arguments.seconds,
        memory=arguments.memory,
        say=_say,
    )
    table = runs_folder() / "sweeps" / f"{arguments.grid.stem}.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    done.frame().to_csv(table, index=False)
    print(summary(done).to_string(index=False))
    print(f"every point: {table}")
    if arguments.parquet is not None:
        to_parquet(done.traces(), arguments.parquet)
        print(f"traces: {arguments.parquet}")
    return _failed(done.failures, "points")


def _fan_out(arguments: argparse.Namespace) -> int:
    for option in ("timing", "parquet"):
        if getattr(arguments, option):
            raise ValueError(f"--{option}: is for grids, not for notebooks")
    from workbench.runs.engine import execute
    from workbench.runs.fanout import fan_out
    from workbench.runs.notebooks import read
    from workbench.runs.sweep import runs_folder
    from workbench.runs.worker import Limits

    notebook = read(arguments.grid, figures=False)
    runs = fan_out(notebook, pairs(arguments.parameters), jobs=arguments.jobs)
    folder = (runs_folder() / "sweeps").absolute()
    limits = Limits(arguments.seconds, arguments.memory)
    options = {"jobs": arguments.jobs, "cluster": arguments.cluster, "limits": limits}
    failures = execute(runs, folder, **options, say=_say)
    for run in runs:
        if run.key not in failures:
            print(f"{run.label}: {run.path(folder)}")
    return _failed(failures, "notebooks")


def _report(arguments: argparse.Namespace) -> int:
    _in_a_checkout()
    from workbench.figures.report import report

    print(report(arguments.out, figures=arguments.figures))
    return 0


def _lessons(arguments: argparse.Namespace) -> int:
    _in_a_checkout()
    from workbench.figures.lessons import build

    options = {"jobs": arguments.jobs, "again": arguments.again}
    failed = build(arguments.names, arguments.out, **options, say=_say)
    if failed:
        print(f"workbench: {len(failed)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _figures(arguments: argparse.Namespace) -> int:
    _in_a_checkout()
    from workbench.runs.mill import make

    overrides = pairs(arguments.parameters)
    if overrides and not arguments.names:
        raise ValueError("-p: name the notebooks whose parameters it sets")
    failed = make(
        arguments.names,
        arguments.profile,
        overrides,
        jobs=arguments.jobs,
        again=arguments.again,
        timeout=arguments.timeout,
        figures=arguments.out,
        say=_say,
    )
    if failed:
        print(f"workbench: {len(failed)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _data(arguments: argparse.Namespace) -> int:
    from workbench.data import available, check, fetch

    if arguments.action == "list":
        for entry in available():
            print(entry)
        return 0
    if not arguments.names:
        raise ValueError(f"data {arguments.action}: name at least one data set")
    sound = True
    for name in arguments.names:
        found = fetch(name, progress=True) if arguments.action == "fetch" else check(name)
        print(f"{name}: {found}", flush=True)
        sound &= found.ok
    return 0 if sound else 1


def _in_a_checkout() -> None:
    from workbench.runs.notebooks import CHECKOUT

    if not (CHECKOUT / "pyproject.toml").is_file():
        raise ValueError(
            "figures, lessons and the report are made of notebooks: run this in a checkout of the "
            "repository (`make figures`), or in its unpacked sdist"
        )


def _say(line: str) -> None:
    print(line, flush=True)


def _failed(failures: dict[str, str], what: str) -> int:
    if not failures:
        return 0
    print(
        f"workbench: {len(failures)} {what} failed; they are tried again next time", file=sys.stderr
    )
    return 1


def _line(row: dict[str, Any]) -> str:
    numbers = {
        key: f"{value:.4g}" if isinstance(value, float) else str(value)
        for key, value in row.items()
        if key != "cpu"
    }
    return "  ".join(f"{key} {value}" for key, value in numbers.items())


if __name__ == "__main__":
    sys.exit(main())
