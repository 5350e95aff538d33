"""The command line; ``workbench --help`` lists its commands.

Each command is a function that takes the arguments and returns the exit status. Imports
are inside the functions, so that a command does not wait for modules that it does not
use.
"""

import ast
import inspect
import os
import re
import shutil
import signal
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import workbench
from workbench.core.names import count, hint


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


# Arguments that several options share.
FILE = {"type": Path, "metavar": "FILE"}
SECONDS = {"type": float, "metavar": "S"}
COUNT = {"type": int, "metavar": "N"}
PAIRS: dict = {
    "action": "append",
    "default": [],
    "metavar": "NAME=VALUE",
    "type": _named,
}
PARAMETERS = PAIRS | {"dest": "parameters"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    The status is 0 for success, 1 for failed work, 2 for any error that one line on
    stderr explains, such as a wrong argument, 130 for Ctrl-C, and 141 if the reader of
    the output has ended, as after ``workbench list | head``.
    SIGTERM has the same effect as Ctrl-C, even in the background, where Ctrl-C itself
    is ignored.
    """
    for stream in (sys.__stdout__, sys.__stderr__):
        # Characters that a terminal cannot show are replaced by "?".
        stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        try:
            arguments = _parser().parse_args(argv)
            code = arguments.command(arguments)
        except SystemExit as exit:
            code = exit.code or 0
        sys.stdout.flush()
        return code  # type: ignore[return-value]
    except BrokenPipeError:
        # Discard the rest of the buffer, or Python reports an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        message = str(error)
        if file := getattr(error, "filename", None):
            message = f"{file}: {getattr(error, 'strerror', '')}"
        print("workbench:", *message.split(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("workbench: interrupted", file=sys.stderr)
        return 130


class Parser(ArgumentParser):
    """A parser whose errors have one line, and which accepts no abbreviations."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs, allow_abbrev=False)

    def parse_known_args(self, args=None, namespace=None):
        """Refuse unknown arguments with the usage of the command that has them."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            known = hint(name, self._option_string_actions)
            self.error(f"unknown argument {unknown[0]!r}; {known}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        message = " ".join(message.split())
        self.exit(2, f"{self.prog}: {message}; try {self.prog} --help\n")


def _parser() -> ArgumentParser:
    parser = Parser(
        prog="workbench", description="Large-scale multiclass classification."
    )
    parser.add_argument(
        "--version", action="version", version=f"workbench {workbench.__version__}"
    )
    kinds = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(function):
        name = function.__name__.removesuffix("_command")
        add = kinds.add_parser(name, help=function.__doc__)
        add.set_defaults(command=function)
        return add.add_argument

    add = command(list_command)
    add(
        "name",
        metavar="NAME",
        nargs="?",
        help="a name, to show its parameters; or a list: solvers, data or figures",
    )
    _add_run(command(run_command))
    add = command(verify_command)
    add("files", nargs="+", **FILE)
    add(
        "--data",
        help="data set, such as 'iris @ standard' (default: named by the proof)",
    )
    add(
        "--rows",
        metavar="NPZ",
        type=Path,
        help="also write the rows of one proof, for the page checker.html",
    )
    _add_judge(command(judge_command))
    _add_sweep(command(sweep_command))
    _add_figures(command(figures_command))
    add = command(decide_command)
    add("name", metavar="CLAIM", nargs="?", help="words of a claim's name")
    add(
        "--hours",
        type=float,
        metavar="H",
        help="run the missing parts for H hours, the most important first",
    )
    add = command(replay_command)
    add("traces", nargs="+", **FILE, help="traces that `workbench run --out` wrote")
    add(
        "--out",
        **FILE,
        default=Path("replay.html"),
        help="the page (default: replay.html)",
    )

    add = command(report_command)
    add("--out", **FILE, help="file of the first page (default: runs/report.html)")

    add = command(data_command)
    add("action", choices=("list", "fetch", "check"), nargs="?", default="list")
    add("names", nargs="*", metavar="NAME")
    return parser


def _add_reading(add):
    """Add the options of a file's reader."""
    add(
        "--target",
        metavar="COLUMN",
        help="label column of a table (default: label, y, ...)",
    )
    add(
        "--labels",
        metavar="FILE",
        help="labels of the rows in a.npy (default: a.labels.npy)",
    )
    add(
        "-o",
        "--option",
        dest="options",
        help="an option of the file's reader, such as header=None or sep=';'; may "
        "be repeated",
        **PAIRS,
    )


def _add_run(add):
    add("solver", metavar="SOLVER")
    add("data", metavar="DATA", help="a name of `workbench data list`, or a file")
    _add_reading(add)
    add("-p", **PARAMETERS, help="a parameter of the solver; may be repeated")
    add(
        "--scale",
        help="standard, unit, given, ... (default: standard for names, given for "
        "files)",
    )
    add(
        "--test",
        type=float,
        metavar="FRACTION",
        help="fraction of rows to hold out as test rows",
    )
    add(
        "--gap",
        type=float,
        default=1e-3,
        help="stop at this certified gap (default: 1e-3)",
    )
    add("--rounds", **COUNT, help="stop after N rounds")
    add(
        "--seconds",
        **SECONDS,
        default=60.0,
        help="stop after S wall seconds (default: 60)",
    )
    add("--cpu", **SECONDS, help="stop after S CPU seconds of the solver")
    add("--out", **FILE, help="write the trace as JSON Lines")
    add("--proof", **FILE, help="write a proof of the result")


def _add_judge(add):
    add(
        "weights",
        **FILE,
        help="an .npz file with W, (d,) or (d, k), and any intercepts b",
    )
    add("rows", help="training rows as for `workbench run`, such as rows.csv")
    add(
        "--loss",
        required=True,
        help="hinge, squared_hinge, logistic, crammer_singer, weston_watkins, softmax "
        "or squared",
    )
    add("-C", type=float, default=1.0, help="C in C sum loss + 1/2 |W|^2 (default: 1)")
    add(
        "--intercept",
        type=_free_or_number,
        metavar="S",
        default="free",
        help="free, or S to penalise b / S as well (default: free)",
    )
    _add_reading(add)
    add(
        "--held-out",
        metavar="ROWS",
        help="also compare errors on these rows (default: test rows)",
    )


def _add_sweep(add):
    add("grid", type=Path, metavar="GRID.yaml|NOTEBOOK.ipynb")
    add(
        "-p", **PARAMETERS, help="values of a notebook's parameter, separated by commas"
    )
    add(
        "-r",
        **PAIRS,
        dest="raw",
        help="one value of a notebook's parameter, which is not split at commas",
    )
    add(
        "-f",
        dest="files",
        action="append",
        default=[],
        **FILE,
        help="YAML file of such values",
    )
    add(
        "-j",
        "--jobs",
        **COUNT,
        default=1,
        help="worker processes (default: 1)",
    )
    add(
        "--timing",
        action="store_true",
        help="time solvers: one pinned process, at least 3 runs",
    )
    add("--seconds", **SECONDS, help="limit per point, in wall seconds")
    add("--memory", type=float, metavar="GB", help="limit per point, in GB of memory")
    add("--parquet", **FILE, help="write all traces as one table")


def _add_figures(add):
    add("names", nargs="*", metavar="NAME", help="notebooks (default: all)")
    add(
        "--profile",
        default="quick",
        help="smoke (seconds), quick (minutes, default) or paper",
    )
    add("-p", **PARAMETERS, help="a parameter of the notebooks; may be repeated")
    add(
        "-j",
        "--jobs",
        **COUNT,
        help="notebooks at a time (default: 2; paper: 1)",
    )
    add("--again", action="store_true", help="rerun notebooks even if nothing changed")
    add(
        "--from",
        dest="results",
        type=Path,
        metavar="DIR",
        help="redraw from results, run nothing",
    )
    add("--timeout", **SECONDS, help="limit per notebook, in wall seconds")
    add("--style", choices=("column", "page"), help="width as in a paper, no captions")
    add(
        "--out",
        dest="figures",
        type=Path,
        metavar="DIR",
        help="folder of the figures (default: figures/quick/; paper: figures/)",
    )


def list_command(arguments: Namespace) -> int:
    """List solvers, data sets and figure notebooks, or describe one of them."""
    from workbench.core.checks import check_known
    from workbench.data import available
    from workbench.registry import SOLVERS
    from workbench.runs.notebooks import FOLDER, find
    from workbench.runs.parameters import explained

    data = available()
    name = arguments.name
    parameters = {}
    notebooks = {path.stem: path.stem for path in sorted(FOLDER.glob("*.ipynb"))}
    solvers = {name: f"{name:20} {solver.label}" for name, solver in SOLVERS.items()}
    lists = {"solvers": solvers, "data": data, "figures": notebooks}
    if name is None:
        for title, names in lists.items():
            text = f"{title.capitalize()}: {', '.join(names)}"
            print(textwrap.fill(text, 98, subsequent_indent="  "))
        print(
            "`workbench list NAME` describes one of them, `workbench list solvers` "
            "all solvers."
        )
    elif name in lists:
        print("\n".join(lists[name].values()))
    elif name in SOLVERS:
        steps = SOLVERS[name].steps
        parameters = explained(steps)
        summary = inspect.getdoc(steps).partition("\n\n")[0]
        print(f"{SOLVERS[name].label}: {' '.join(summary.split())}")
    elif name in data:
        print(data[name])
    elif name in notebooks:
        [notebook] = find([name])
        parameters = notebook.parameters
        print(f"{name} makes {', '.join(notebook.figures)}")
    else:
        known = [*lists, *SOLVERS, *data, *notebooks]
        check_known(name, known, "name")
    for parameter in parameters.values():
        text = f"  {parameter.name:18} {parameter.default!r:20} {parameter.help}"
        print(textwrap.fill(text, 98, subsequent_indent=" " * 42).rstrip())
    return 0


def run_command(arguments: Namespace) -> int:
    """Run one solver on one data set and print its rows as they come."""
    from workbench.core.measures import errors
    from workbench.core.stream import geometric, stopping
    from workbench.core.trace import write_trace
    from workbench.runs.grid import checked_stop
    from workbench.runs.parameters import parameters_of
    from workbench.runs.run import resolve, run

    names = "gap seconds cpu rounds".split()
    limits = {name: getattr(arguments, name) for name in names}
    stop = {name: value for name, value in limits.items() if value is not None}
    rules = stopping(checked_stop(stop))
    texts = _pairs(arguments.parameters)
    declared = parameters_of(resolve(arguments.solver, texts)[0])
    parameters = {name: declared[name].typed(text) for name, text in texts.items()}
    problem = _loaded(
        arguments.data, arguments, test=arguments.test, scale=arguments.scale
    )
    print(
        f"{problem.name}: n = {problem.n:,}, d = {problem.d:,}, k = {problem.k:,}",
        flush=True,
    )
    sampled = geometric()
    evaluate = errors(problem)

    def show(row: dict) -> bool:
        due = sampled(row)
        if due:
            print(_line(row), flush=True)
        return due

    trace, state = run(
        arguments.solver,
        problem,
        *rules,
        measure=evaluate,
        when=show,
        parameters=parameters,
        path=arguments.out,
        proof=arguments.proof,
    )
    if state is None:
        return 130
    trace.last.update(evaluate(state))
    if arguments.out:
        write_trace(arguments.out, trace)  # once more, with the errors of the last row
    print(_line(trace.last))
    return {"diverged": 1, "interrupted": 130}.get(trace.stopped_by, 0)


def verify_command(arguments: Namespace) -> int:
    """Verify proofs: intervals that certainly contain the optimum."""
    from workbench.data import load
    from workbench.data.formats import Rows, write_npz
    from workbench.proofs import ProofError, read, recalled, verify

    if arguments.rows and len(arguments.files) > 1:
        raise ValueError("--rows: must come with one proof, whose rows it writes")
    problem = load(arguments.data) if arguments.data else None
    status = 0
    for file in arguments.files:
        try:
            if arguments.rows:
                problem = problem or recalled(read(file))
                write_npz(arguments.rows, Rows(problem.X, problem.y))
            print(verify(file, problem).statement, flush=True)
        except ProofError as error:
            reason = str(error).removeprefix(f"{file}: ")
            print(f"refused: {file}: {reason}", flush=True)
            status = 1
    return status


def judge_command(arguments: Namespace) -> int:
    """Prove how far weights are from the optimum of their problem."""
    import numpy as np

    from workbench.certification import certify
    from workbench.data.formats import BROKEN, check_unpacked

    try:
        check_unpacked(arguments.weights)
        with np.load(arguments.weights, allow_pickle=False) as file:
            W = file["W"]
            b = file.get("b")
    except FileNotFoundError:
        raise
    except BROKEN as error:
        message = f"{arguments.weights}: must be an .npz file with an array W; {error}"
        raise ValueError(message) from error
    source = arguments.rows
    if arguments.held_out:
        source = source, arguments.held_out
    rows = _loaded(source, arguments)
    test = None
    if rows.X_test is not None:
        test = rows.X_test, rows.classes[rows.y_test]
    print(
        certify(
            W,
            rows.X,
            rows.classes[rows.y],
            b=b,
            held_out=test,
            loss=arguments.loss,
            C=arguments.C,
            intercept=arguments.intercept,
        )
    )
    return 0


def sweep_command(arguments: Namespace) -> int:
    """Run a grid of solvers, or of a notebook's parameters."""
    if arguments.grid.suffix == ".ipynb":
        return _fan_out(arguments)
    if arguments.parameters or arguments.raw or arguments.files:
        raise ValueError(
            "-p, -r, -f: must be used with a notebook, got a grid; edit its file"
        )
    from workbench.core.files import whole
    from workbench.runs.engine import key
    from workbench.runs.grid import read_points
    from workbench.runs.results import write_results
    from workbench.runs.sweep import runs_folder, summary, sweep

    points = read_points(arguments.grid)
    done = sweep(points, **_options(arguments, "jobs timing seconds memory"))
    # Grids of other folders may have its name.
    place = key(grid=str(arguments.grid.resolve()))[:8]
    table = runs_folder() / "sweeps" / f"{arguments.grid.stem}-{place}.csv"
    with whole(table) as part:
        done.frame().to_csv(part, index=False)
    print(summary(done).to_string(index=False))
    print(f"every point: {table}")
    if arguments.parquet is not None:
        write_results(arguments.parquet, done.traces())
    return _failed(done.failures, "point", "; run the sweep again to retry")


def _fan_out(arguments: Namespace) -> int:
    if arguments.timing or arguments.parquet:
        raise ValueError(
            "--timing, --parquet: must be used with a grid, got a notebook"
        )
    from workbench.runs.engine import execute
    from workbench.runs.mill import fan_out
    from workbench.runs.notebooks import read, runs_folder
    from workbench.runs.parameters import read_entries
    from workbench.runs.worker import Limits

    raw: dict = {}
    for file in arguments.files:
        raw |= read_entries(file, "parameters")
    raw |= _pairs(arguments.raw)
    notebook = read(arguments.grid)
    tasks = fan_out(notebook, _pairs(arguments.parameters), arguments.jobs, raw)
    folder = (runs_folder() / "sweeps").absolute()
    limits = Limits(arguments.seconds, arguments.memory)
    failures = execute(
        tasks, folder, jobs=arguments.jobs, limits=limits, what="notebook", say=_say
    )
    for task in tasks:
        if task.key not in failures:
            print(f"{task.label}: {task.path(folder)}")
    return _failed(failures, "notebook", "; run the sweep again to retry")


def replay_command(arguments: Namespace) -> int:
    """Write a page that replays runs without a kernel."""
    from workbench.core.files import whole
    from workbench.core.trace import read_trace
    from workbench.live.replay import Replay

    page = Replay(*map(read_trace, arguments.traces)).page()
    with whole(arguments.out) as part:
        part.write_text(page, encoding="utf-8")
    print(arguments.out)
    return 0


def report_command(arguments: Namespace) -> int:
    """Write HTML pages of the claims, figures and the papers' numbers."""
    _in_a_checkout()
    from workbench.figures.report import report

    print(report(arguments.out))
    return 0


def figures_command(arguments: Namespace) -> int:
    """Run the figure notebooks."""
    _in_a_checkout()
    from workbench.runs.mill import make

    options = _options(arguments, "jobs again timeout results figures")
    os.environ["WORKBENCH_STYLE"] = arguments.style or ""
    failed = make(
        arguments.names, arguments.profile, _pairs(arguments.parameters), **options
    )
    return _failed(failed, "notebook", f": {', '.join(failed)}")


def decide_command(arguments: Namespace) -> int:
    """List the claims that are not decided, or make the runs that they lack."""
    _in_a_checkout()
    from workbench.figures.report.decide import decide, lacks, undecided

    if arguments.hours is not None and not arguments.hours > 0:
        raise ValueError(f"--hours: must be positive, got {arguments.hours:g}")
    claims = undecided(arguments.name or "")
    if arguments.name is None and arguments.hours is None:
        print(*map(lacks, claims), sep="\n")
        return 0
    failed = decide(claims, arguments.hours, say=_say)
    return _failed(failed, "notebook", f": {', '.join(failed)}")


def data_command(arguments: Namespace) -> int:
    """List, fetch or check data sets."""
    from workbench.data import available, check, fetch

    if arguments.action == "list":
        print("\n".join(available().values()))
        return 0
    if not arguments.names:
        raise ValueError(f"data {arguments.action}: name at least one data set")
    for name in arguments.names:
        if arguments.action == "fetch":
            result = fetch(name, progress=True)
        else:
            result = check(name)
        print(f"{name}: {result}", flush=True)
    return 0


def _loaded(source: str | tuple, arguments: Namespace, **how):
    """Return a problem; errors of `load` also name the options of the command line."""
    from workbench.data import load

    given = {"target": arguments.target, "labels": arguments.labels} | how
    not_of_files = {*inspect.signature(load).parameters} - {"target", "labels"}
    for name, text in _pairs(arguments.options, "-o").items():
        if name in not_of_files:
            raise ValueError(
                f"-o: must be an option of the file's reader, got {name!r}"
            )
        given[name] = text
        with suppress(ValueError, SyntaxError):  # otherwise the value is a text
            given[name] = ast.literal_eval(text)
    try:
        return load(source, **given)
    except ValueError as error:
        options = dict.fromkeys(re.findall(r"\b[a-z_]+=", str(error)))
        if not options:
            raise
        advice = " or ".join(f"-o {option}VALUE" for option in options)
        raise ValueError(f"{error} (on the command line: {advice})") from error


def _free_or_number(text: str) -> float | str:
    try:
        return text if text == "free" else float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be free or a number, got {text!r}") from None


def _in_a_checkout() -> None:
    from workbench.runs.notebooks import CHECKOUT

    if not (CHECKOUT / "pyproject.toml").is_file():
        raise ValueError(
            "decide, figures and report need the notebooks of a checkout: call its "
            ".venv/bin/workbench"
        )


def _options(arguments: Namespace, names: str) -> dict:
    return {name: getattr(arguments, name) for name in names.split()} | {"say": _say}


def _say(line: str) -> None:
    """Print a progress line; on a terminal, the next one replaces it if none failed."""
    if not sys.stdout.isatty():
        print(line, flush=True)
        return
    done, _, total = line.partition("]")[0].removeprefix("[").partition("/")
    passing = line.startswith("[") and done != total and "FAILED" not in line
    width = shutil.get_terminal_size().columns - 1 if passing else None
    print(f"\r\x1b[K{line[:width]}", end="" if passing else "\n", flush=True)


def _failed(failures: Collection[str], what: str, remedy: str) -> int:
    """Return the exit status, and print to stderr how many failed."""
    if not failures:
        return 0
    failed = count(len(failures), what)
    print(f"workbench: {failed} failed{remedy}", file=sys.stderr)
    return 1


def _line(row: dict) -> str:
    texts = []
    for name, value in row.items():
        if name != "cpu":
            number = f"{value:.4g}" if isinstance(value, float) else value
            texts.append(f"{name} {number}")
    return "  ".join(texts)


def _pairs(pairs: Iterable[tuple[str, str]], option: str = "-p") -> dict[str, str]:
    """Return the values of ``NAME=VALUE`` by their names."""
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{option}: {name} appears twice")
        values[name] = value
    return values


if __name__ == "__main__":
    sys.exit(main())
