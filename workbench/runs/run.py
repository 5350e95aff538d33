"""Run a solver once, timed, evaluated and recorded, for sweeps, figures and
estimators."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import psutil
import threadpoolctl

import workbench
from workbench.core.checks import check_known, shown
from workbench.core.interrupts import Held
from workbench.core.kinds import Given, PathLike, Record, Steps, Values
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.core.stream import (
    Measure,
    Row,
    Rule,
    State,
    Stream,
    When,
    always,
    nothing,
    until,
    watch,
)
from workbench.core.trace import Trace, record
from workbench.registry import SOLVERS
from workbench.runs.parameters import check_names, parameters_of

PROBLEM = ("name", "n", "d", "k", "synthetic", "checksum")
# The libraries whose versions are in the header of a run.
LIBRARIES = ("numpy", "scipy", "numba", "highspy", "scikit-learn")
Run = tuple[Trace, State | None]  # a run returns this, and can be resumed from it


def run(
    solver: str | Steps,
    problem: Problem,
    *rules: Rule,
    parameters: Values | None = None,
    measure: Measure = nothing,
    when: When = always,
    path: PathLike | None = None,
    proof: PathLike | None = None,
    after: Run | None = None,
    warm_up: bool = True,
    **unknown: object,
) -> Run:
    """Run a solver until a rule or Ctrl-C stops it or it finishes; record every round.

    Ctrl-C ends the run after the round in progress. A second Ctrl-C ends it
    immediately, without a state.

    >>> first = run("ww_walrus", problem, rounds(5))                # doctest: +SKIP
    >>> both = run("ww_walrus", problem, rounds(9), after=first)    # doctest: +SKIP

    Parameters
    ----------
    solver : a name in :data:`workbench.registry.SOLVERS`, or any function
        ``solver(problem, *, ...) -> iterator of states``
    problem : a Problem, such as ``load("digits")``
    rules : stopping rules of :mod:`workbench.core.stream`
    parameters : the solver's keyword parameters; the others keep their defaults
    measure : a function that evaluates a state; it is not timed
    when : a function that returns whether a row is evaluated
    path : the file to which the trace is written during the run
    proof : the file for the proof of the last state (:func:`workbench.proofs.write`)
    after : the result of an earlier run, which is resumed from a copy of its state.
        Rounds and seconds are counted from the start of that run, and parameters that
        are not given keep their values; only the solver's live parameters may change
    warm_up : bool, whether the kernels are compiled on ``problem.tiny()`` before the
        clock starts

    Returns
    -------
    trace : a Trace whose last row has ``stopped_by``, and whose header has the load
        average before and after the run. A resumed run also has the earlier rows, and
        the earlier header as ``after``
    state : the last state, which belongs to the trace's last row; None if the solver
        was interrupted before its first state, or within a round

    Raises
    ------
    ValueError
        If the solver or a parameter is unknown, or arguments are in the wrong order.
        Also, before the first new round, if a `proof` is asked of a solver that has
        none, or if `after` belongs to another problem, solver or parameter value.
    """
    if unknown:
        raise ValueError(
            f"{next(iter(unknown))}: is not an argument of run; give parameters of "
            f"the solver as parameters={unknown}"
        )
    check_data(problem, "run(solver, problem, *rules, parameters=...)")
    _check_form(problem, rules)
    steps, parameters = resolve(solver, _kept(after) | dict(parameters or {}))
    if warm_up:
        warm(steps, problem, parameters)
    trace = Trace(header(solver, problem, parameters, rules))
    clock: Record = {}
    resumed: Record = {}
    if after is not None:
        earlier, resumed["state"] = after
        clock = {name: earlier.last[name] for name in ("seconds", "cpu")}
        trace.header["after"] = earlier.header
        trace.rows = [dict(row) for row in earlier.rows[:-1]]
    earlier_rows = len(trace.rows)
    held = Held()
    if proof is not None:
        from workbench.proofs.writers import proof_of, save  # imports all solvers
    try:
        with held:
            stream = steps(problem, **parameters, **resumed)
            rows = _continued(watch(stream, measure, when, **clock), after)
            rows = until(rows, *rules, held.stop)
            for _, held.state in record(rows, trace, path, rules):
                if proof is not None and len(trace.rows) == earlier_rows + 1:
                    # If the solver has no proof, this raises an error before the work
                    # is done.
                    proof_of(problem, held.state, parameters)
    except KeyboardInterrupt:
        pass
    if after is not None and len(trace.rows) == earlier_rows:
        return after  # the run was cut before its first state
    state = held.state
    trace.header["load_at_end"] = load_average()
    if proof is not None and state is not None:
        save(proof, *proof_of(problem, state, parameters))
    return trace, state


def check_data(data: Given, form: str) -> None:
    """Refuse names of solvers instead of data; `form` shows the right order."""
    names = data.split(",") if isinstance(data, str) else data
    if isinstance(names, list | tuple):
        stripped = {name.strip() for name in names if isinstance(name, str)}
        if stripped and stripped <= SOLVERS.keys():
            raise ValueError(f"data: got {shown(data)} instead of data; write {form}")


def _check_form(problem: Given, rules: Sequence[Given]) -> None:
    """Refuse a problem that is not a Problem, and rules that are not functions."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem: must be a Problem, such as load('digits'), got {shown(problem)}"
        )
    for rule in rules:
        if not callable(rule):
            raise ValueError(
                "rules: must be stopping rules, such as below('gap', 1e-3) and "
                f"rounds(9), got {rule!r}; give parameters as parameters={{...}}"
            )


def _kept(after: Run | None) -> Record:
    """Return the parameters of the run that is resumed, if there is one."""
    if after is None:
        return {}
    trace, state = after
    if state is None:
        raise ValueError(
            "after: has no state, as its run was cut within a round; start a new run"
        )
    if not trace.rows or trace.last["round"] != state.round:
        raise ValueError(
            f"after: must be a trace and the state of its last row, got "
            f"round {trace.last.get('round')} and round {state.round}"
        )
    origin = getattr(state, "origin", None)
    return dict(origin.parameters) if origin else {}


def _continued(stream: Stream, after: Run | None) -> Stream:
    """Yield a stream; add the earlier evaluation to the row of the resumed iterate."""
    measured: Row = {}
    if after is not None:
        measured = dict(after[0].last)
        measured.pop("stopped_by", None)
    for row, state in stream:
        yield measured | row, state
        measured = {}


def warm(steps: Steps, problem: Problem, parameters: Values) -> None:
    """Run the solver for three states on ``problem.tiny()``, to compile its kernels.

    Errors are ignored, because the run itself raises all that are not due to the tiny
    problem.
    """
    with suppress(Exception):
        for _ in islice(steps(problem.tiny(), **parameters), 3):
            pass


def resolve(solver: str | Steps, parameters: Values) -> tuple[Steps, Record]:
    """Return the solver's function and all its parameters, including defaults.

    A ValueError names an unknown solver, or a parameter that the solver does not
    declare.
    """
    if isinstance(solver, str):
        check_known(solver, SOLVERS, "solver")
        solver = SOLVERS[solver].steps
    if not hasattr(solver, "live"):
        solver = resumable()(solver)
    declared = parameters_of(solver)
    check_names(parameters, declared, solver.__name__)
    defaults = {name: parameter.default for name, parameter in declared.items()}
    return solver, defaults | dict(parameters)


def header(
    solver: str | Steps,
    problem: Problem,
    parameters: Values,
    rules: Iterable[Rule] = (),
) -> Record:
    """Return the facts that one needs to repeat a run and to interpret its times."""
    return {
        "solver": solver if isinstance(solver, str) else solver.__name__,
        "parameters": dict(parameters),
        "rules": [rule.__name__ for rule in rules],
        "problem": {name: getattr(problem, name) for name in PROBLEM},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": load_average(),
        "threads": threads(),
        "machine": machine(),
        "versions": versions(),
    }


def load_average() -> float:
    """Return the load average of the last minute."""
    return round(psutil.getloadavg()[0], 2)


def threads() -> dict[str, int]:
    """Return the number of threads of each linear-algebra library in use."""
    pools = threadpoolctl.threadpool_info()
    return {pool["internal_api"]: pool["num_threads"] for pool in pools}


@cache
def machine() -> Record:
    """Return the processor, cores, memory and operating system of this machine."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, this package (with its commit) and the numeric
    libraries."""
    return {
        "python": platform.python_version(),
        "workbench": workbench.__version__,
        "commit": _commit(),
        **{name: version(name) for name in LIBRARIES},
    }


def _cpu() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    names = re.findall(r"model name\s*: (.+)", text)
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str:
    """Return the commit of the checkout, marked if the code differs from it."""
    root = Path(workbench.__file__).parents[1]
    if not (root / ".git").exists():
        return "none"
    git = partial(
        subprocess.run, cwd=root, capture_output=True, text=True, timeout=10, check=True
    )
    try:
        commit = git(["git", "rev-parse", "--short=12", "HEAD"]).stdout.strip()
        # Only changes that can affect a result count; a figure that was just redrawn
        # does not.
        code = ["--", "workbench", "notebooks"]
        changed = git(["git", "diff", "--name-only", "HEAD", *code]).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}-dirty" if changed else commit
