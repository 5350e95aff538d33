"""The command line: ``workbench list | run | sweep | figures | report | ...``

Here are the arguments; what the commands do with them is in :mod:`workbench.cli.commands`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import workbench
from workbench.cli import commands


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 for failed work, 2 for a usage error, 130 for Ctrl-C.

    A request to terminate is a Ctrl-C, also where that is ignored, as in the background.
    Return 141 if the reader of the output has gone, as after ``workbench list | head``.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # what a terminal cannot show is a question mark
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
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
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        file = getattr(error, "filename", None)
        message = " ".join((f"{file}: {error.strerror}" if file else str(error)).split())
        if isinstance(error, MemoryError):
            message = f"out of memory; {message}"
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
    parser.add_argument("--version", action="version", version=f"workbench {workbench.__version__}")
    kinds = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(function, text: str):
        add = kinds.add_parser(function.__name__.removesuffix("_command"), help=text)
        add.set_defaults(command=function)
        return add.add_argument

    def parameters(add, text: str) -> None:
        text += "; may be repeated"
        options = {"dest": "parameters", "action": "append", "default": []}
        add("-p", **options, metavar="NAME=VALUE", help=text)

    def jobs(add, text: str, default: int | None = 1, usual: str = "1") -> None:
        text = f"{text} (default: {usual})"
        add("-j", "--jobs", type=int, default=default, metavar="N", help=text)

    add = command(commands.list_command, "list solvers, data sets and figure notebooks")
    add("name", metavar="NAME", nargs="?", help="one of them, with its parameters")

    add = command(commands.run_command, "run one solver on one data set, live")
    add("solver", metavar="SOLVER")
    add("data", metavar="DATA", help="a name of `workbench data list`, or a file")
    text = "labels of the rows of an .npy file (default: a.labels.npy for a.npy)"
    add("--labels", metavar="FILE", help=text)
    add("--memory", type=float, metavar="GB", help="end the run if it needs more memory")
    parameters(add, "a parameter of the solver")
    add("--scale", help="standard, unit, given, ... (default: standard for names, given for files)")
    add("--test", type=float, metavar="FRACTION", help="hold out a fraction as test rows")
    add("--gap", type=float, default=1e-3, help="stop at this certified gap (default: 1e-3)")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    text = "stop after S wall seconds of the solver (default: 60)"
    add("--seconds", type=float, default=60.0, metavar="S", help=text)
    add("--cpu", type=float, metavar="S", help="stop after S CPU seconds of the solver")
    add("--out", type=Path, metavar="FILE", help="write the trace as JSON Lines")
    add("--proof", type=Path, metavar="FILE", help="write a proof of the result")

    add = command(
        commands.verify_command, "verify proofs: intervals that certainly hold the optimum"
    )
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--data", help="a name of `workbench data list`, or a file (default: as the proof says)")
    add("--scale", help="scale of the features of --data: standard, unit, tfidf or another")
    add("--expect", default="", metavar="C=1,loss=hinge", help="refuse proofs of other problems")

    add = command(commands.sweep_command, "run a grid of solvers, or of a notebook's parameters")
    add("grid", type=Path, metavar="GRID.yaml|NOTEBOOK.ipynb")
    parameters(add, "values of a notebook's parameter, separated by commas")
    jobs(add, "worker processes")
    add("--timing", action="store_true", help="time solvers: one pinned process, at least 3 runs")
    add("--cluster", metavar="ADDRESS", help="address of a Dask scheduler, tcp://HOST:PORT")
    add("--seconds", type=float, metavar="S", help="limit per point, in wall seconds")
    add("--memory", type=float, metavar="GB", help="limit per point, in GB of memory")
    add("--parquet", type=Path, metavar="FILE", help="write all traces as one table")
    add("--proofs", action="store_true", help="keep a proof next to each trace")

    add = command(commands.figures_command, "run the figure notebooks")
    add("names", nargs="*", metavar="NAME", help="notebooks (default: all)")
    add("--profile", default="quick", help="smoke (seconds), quick (minutes, default) or paper")
    parameters(add, "a parameter of the notebooks")
    jobs(add, "notebooks at a time", None, "2, in the profile paper 1")
    add("--again", action="store_true", help="rerun notebooks even if nothing changed")
    add("--from", dest="results", type=Path, metavar="DIR", help="redraw from results, run nothing")
    add("--timeout", type=float, metavar="S", help="limit per notebook, in wall seconds")
    add("--no-caption", action="store_true", help="pictures for a paper, without a caption")
    add("--out", type=Path, metavar="DIR", help="folder of the figures (default: figures/, quick/)")

    add = command(commands.replay_command, "write a page that plays runs again, without a kernel")
    add("traces", nargs="+", type=Path, metavar="TRACE", help="what `workbench run --out` writes")
    page = Path("replay.html")
    add("--out", type=Path, metavar="FILE", default=page, help=f"the page (default: {page})")
    add("--title", default="", help="heading of the page")

    add = command(commands.report_command, "write an HTML page of figures and the papers' numbers")
    add("--figures", type=Path, metavar="DIR", help="folder of the figures (default: figures/)")
    add("--out", type=Path, metavar="FILE", help="file of the page (default: runs/report.html)")

    command(commands.warm_command, "compile all solvers for this machine; once is enough")

    add = command(commands.data_command, "list, fetch or check data sets")
    add("action", choices=("list", "fetch", "check"), nargs="?", default="list")
    add("names", nargs="*", metavar="NAME")
    return parser
