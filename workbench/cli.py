"""The command line: ``workbench list | run | compare | sweep | figures | report | lessons | ...``

Imports are inside the commands, so that ``workbench --help`` does not wait for the solvers.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 for failed work, 2 for a usage error, 130 for Ctrl-C.

    Return 141 if the reader of the output has gone, as after ``workbench list | head``.
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
        # The rest of the buffer is discarded, or Python would complain at its end.
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


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line, and no abbreviations: a typo is an error."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; try {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="workbench", description="Large-scale multiclass classification.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(function, text: str):
        add = commands.add_parser(function.__name__.removeprefix("_"), help=text)
        add.set_defaults(command=function)
        return add.add_argument

    def parameters(add, text: str) -> None:
        text += "; may be repeated"
        options = {"dest": "parameters", "action": "append", "default": []}
        add("-p", **options, metavar="NAME=VALUE", help=text)

    def jobs(add, text: str) -> None:
        add("-j", "--jobs", type=int, default=1, metavar="N", help=f"{text} (default: 1)")

    add = command(_list, "solvers, data sets and figure notebooks")

    add = command(_run, "run one solver on one data set, live")
    add("solver", metavar="SOLVER")
    add("data", metavar="DATA", help="a name of `workbench data list`, or a file")
    parameters(add, "a parameter of the solver")
    add("--scale", help="scale the features first: standard, unit, tfidf or another")
    add("--test", type=float, metavar="FRACTION", help="hold out a fraction as test rows")
    add("--gap", type=float, default=1e-3, help="stop at this certified gap (default: 1e-3)")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    add("--seconds", type=float, default=60.0, metavar="S", help="solver seconds (default: 60)")
    add("--out", type=Path, metavar="FILE", help="write the trace as JSON Lines")
    add("--proof", type=Path, metavar="FILE", help="write a proof of the result")

    add = command(_verify, "verify proofs: intervals that certainly hold the optimum")
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--data", help="a name of `workbench data list`, or a file (default: as the proof says)")
    add("--scale", help="scale of the features of --data: standard, unit, tfidf or another")
    add("--expect", default="", metavar="C=1,loss=hinge", help="refuse proofs of other problems")

    add = command(_compare, "a sensible set of solvers on your own data")
    add("data", metavar="FILE", help="a table, or any file or name of data")
    add("--target", metavar="COLUMN", help="label column (default: target, label, class, y, last)")
    add("--seconds", type=float, default=60.0, metavar="S", help="about how long (default: 60)")
    add("-j", "--jobs", type=int, metavar="N", help="worker processes (default: half the cores)")
    add("--out", type=Path, metavar="DIR", help="write table, figure and code")

    add = command(_sweep, "run a grid of solvers, or of a notebook's parameters")
    add("grid", type=Path, metavar="GRID.yaml|NOTEBOOK.ipynb")
    parameters(add, "values of a notebook's parameter, separated by commas")
    jobs(add, "worker processes")
    add("--timing", action="store_true", help="time solvers: one pinned process, at least 3 runs")
    add("--cluster", metavar="ADDRESS", help="a Dask scheduler, tcp://HOST:PORT")
    add("--seconds", type=float, metavar="S", help="wall seconds that a point may take")
    add("--memory", type=float, metavar="GB", help="memory that a point may take")
    add("--parquet", type=Path, metavar="FILE", help="write all traces, tidy")
    add("--proofs", action="store_true", help="keep a proof next to each trace")

    add = command(_figures, "run the figure notebooks")
    add("names", nargs="*", metavar="NAME", help="notebooks (default: all)")
    add("--profile", default="quick", help="smoke (seconds), quick (minutes, default) or paper")
    parameters(add, "a parameter of the notebooks")
    jobs(add, "notebooks at a time")
    add("--again", action="store_true", help="rerun notebooks even if nothing changed")
    add("--timeout", type=float, metavar="S", help="seconds for each notebook")
    add("--out", type=Path, metavar="DIR", help="folder of the figures (default: figures/)")

    add = command(_report, "one HTML page of all figures, with the papers' numbers")
    add("--figures", type=Path, metavar="DIR", help="folder of the figures (default: figures/)")
    add("--out", type=Path, metavar="FILE", help="the page (default: runs/report.html)")

    add = command(_lessons, "student copies, and an offline HTML course")
    add("names", nargs="*", metavar="NAME", help="how names begin (default: all)")
    jobs(add, "lessons at a time")
    add("--again", action="store_true", help="rerun lessons even if nothing changed")
    add("--out", type=Path, metavar="DIR", help="folder of the course (default: course/)")

    command(_warm, "compile all solvers for this machine, which is done once")

    add = command(_data, "list, fetch or check data sets")
    add("action", choices=("list", "fetch", "check"), nargs="?", default="list")
    add("names", nargs="*", metavar="NAME")
    return parser


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


def _typed(default: Any, name: str, text: str) -> Any:
    """Return `text` in the type of the default; if that is None, as any Python scalar."""
    from workbench.runs.notebooks import Parameter, parse

    if default is not None:
        return parse(Parameter(name, type(default), default, ""), text)
    try:
        return ast.literal_eval(text.capitalize() if text in ("true", "false") else text)
    except (ValueError, SyntaxError):
        return text


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
    texts = _pairs(arguments.parameters)
    resolve(arguments.solver, texts)
    parameters = {name: _typed(defaults[name], name, text) for name, text in texts.items()}
    problem = load(arguments.data, test=arguments.test, scale=arguments.scale)
    print(f"{problem.name}: n = {problem.n:,}, d = {problem.d:,}, k = {problem.k:,}", flush=True)
    rules = [below("gap", arguments.gap), seconds(arguments.seconds)]
    rules += [rounds(arguments.rounds)] if arguments.rounds is not None else []
    sampled = geometric()

    def show(row: dict[str, Any]) -> bool:
        if seen := sampled(row):
            print(_line(row), flush=True)
        return seen

    options = {"parameters": parameters, "when": show, "path": arguments.out}
    options["proof"] = arguments.proof
    trace, state = run(arguments.solver, problem, *rules, **options)
    if state is None:
        return 130
    print(_line(trace.last | errors(problem)(state)))
    return {"diverged": 1, "interrupted": 130}.get(trace.stopped_by, 0)


def _verify(arguments: argparse.Namespace) -> int:
    from workbench.data import load
    from workbench.proofs import ProofError, expected, read, verify

    if arguments.scale and not arguments.data:
        raise ValueError("--scale: is for the rows of --data")
    wanted = _pairs(filter(None, arguments.expect.split(",")), "--expect")
    given, refused = None, 0
    if arguments.data:
        given = load(arguments.data, scale=arguments.scale)
    for file in arguments.files:
        try:
            proof = read(file)
            expected(proof.header, wanted)
            start = time.perf_counter()
            verdict = verify(proof, given)
            seconds = time.perf_counter() - start
            print(f"{verdict.statement}; verified in {seconds:.2f} s", flush=True)
        except ProofError as error:
            name = "" if str(error).startswith(str(file)) else f"{file}: "
            print(f"refused: {name}{error}", flush=True)
            refused = 1
    return refused


def _compare(arguments: argparse.Namespace) -> int:
    from workbench.arena import compare

    options = _options(arguments, "seconds jobs")
    done = compare(arguments.data, arguments.target, **options)
    print(f"\n{done}")
    if not done.ended.empty and arguments.out is not None:
        print(f"table, figure and code: {done.save(arguments.out)}")
    return 130 if done.interrupted else int(done.ended.empty)


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

    options = _options(arguments, "jobs timing cluster seconds memory proofs")
    done = sweep(read_points(arguments.grid), **options)
    table = runs_folder() / "sweeps" / f"{arguments.grid.stem}.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    done.frame().to_csv(table, index=False)
    print(summary(done).to_string(index=False))
    print(f"every point: {table}")
    if arguments.parquet is not None:
        to_parquet(done.traces(), arguments.parquet)
        print(f"traces: {arguments.parquet}")
    return _retried(done.failures, "point")


def _fan_out(arguments: argparse.Namespace) -> int:
    for option in ("timing", "parquet", "proofs"):
        if getattr(arguments, option):
            raise ValueError(f"--{option}: is for grids, not for notebooks")
    from workbench.runs.engine import execute
    from workbench.runs.fan_out import fan_out
    from workbench.runs.notebooks import read
    from workbench.runs.sweep import runs_folder
    from workbench.runs.worker import Limits

    notebook = read(arguments.grid, figures=False)
    runs = fan_out(notebook, _pairs(arguments.parameters), jobs=arguments.jobs)
    folder = (runs_folder() / "sweeps").absolute()
    limits = Limits(arguments.seconds, arguments.memory)
    failures = execute(runs, folder, limits=limits, **_options(arguments, "jobs cluster"))
    for run in runs:
        if run.key not in failures:
            print(f"{run.label}: {run.path(folder)}")
    return _retried(failures, "notebook")


def _report(arguments: argparse.Namespace) -> int:
    _in_a_checkout()
    from workbench.figures.report import report

    print(report(arguments.out, figures=arguments.figures))
    return 0


def _lessons(arguments: argparse.Namespace) -> int:
    _in_a_checkout()
    from workbench.figures.lessons import build

    return _failed(build(arguments.names, arguments.out, **_options(arguments, "jobs again")))


def _figures(arguments: argparse.Namespace) -> int:
    _in_a_checkout()
    from workbench.runs.mill import make

    overrides = _pairs(arguments.parameters)
    if overrides and not arguments.names:
        raise ValueError("-p: name the notebooks whose parameters it sets")
    options = _options(arguments, "jobs again timeout") | {"figures": arguments.out}
    if sys.stderr.isatty():
        options["say"] = _live()
    return _failed(make(arguments.names, arguments.profile, overrides, **options))


def _warm(arguments: argparse.Namespace) -> int:
    from workbench.runs.warm import warm_all

    warm_all(_say)
    return 0


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


def _options(arguments: argparse.Namespace, names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names.split()} | {"say": _say}


def _say(line: str) -> None:
    print(line, flush=True)


def _live() -> Callable[[str], None]:
    """Return a `say` whose last line is what the notebooks do now."""
    from tqdm import tqdm

    now = tqdm(bar_format="{desc}", leave=False, dynamic_ncols=True)

    def say(line: str) -> None:
        detail = line.startswith("  ") and " | " in line and "warning" not in line
        now.set_description_str(line.strip()[: now.ncols or 80] if detail else "")
        if not detail:
            tqdm.write(line)

    return say


def _failed(failed: Sequence[str]) -> int:
    if failed:
        print(f"workbench: {len(failed)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _retried(failures: dict[str, str], what: str) -> int:
    if failures:
        what += "s" * (len(failures) > 1)
        told = f"workbench: {len(failures)} {what} failed; run the sweep again to retry"
        print(told, file=sys.stderr)
    return 1 if failures else 0


def _line(row: dict[str, Any]) -> str:
    numbers = {
        key: f"{value:.4g}" if isinstance(value, float) else str(value)
        for key, value in row.items()
        if key != "cpu"
    }
    return "  ".join(f"{key} {value}" for key, value in numbers.items())


if __name__ == "__main__":
    sys.exit(main())
