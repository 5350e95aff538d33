"""The arena's search for parameters, with the same budget and rules for all solvers."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf, log
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from workbench.core.kinds import Record, Values
from workbench.core.measures import held_out
from workbench.core.problem import Problem
from workbench.core.stream import Row, geometric, processor_seconds, until, watch
from workbench.runs import worker

VALIDATION = 0.2  # fraction of the training rows, on which all choices are made
MIN_VALIDATION_ROWS = 1000  # with half of it or fewer, a trial has 2 to 5 splits
MAX_TRIALS = 30  # at most 31; only solvers with very fast fits reach it
PATIENCE = 5.0  # a run ends after this many times the seconds to its best round
# `PATIENCE` never ends a run before this fraction of `fit` has passed.
MIN_TRIAL_FRACTION = 0.1
CLOSED_GAP = 0.1  # certified gap over the upper bound at which a run is near its end
# A run with its evaluation may take this many times `fit`, plus 5 CPU seconds.
OVERRUN = 10.0
EDGE_FRACTION = 0.1  # fraction of a range, in decades, that counts as each edge

Ranges = Mapping[str, tuple[float, float]]


def search(
    steps: Callable,
    fixed: Values,
    ranges: Ranges,
    problem: Problem,
    *,
    budget: float,
    fit: float,
    seed: int = 0,
) -> Record:
    """Choose parameters and the number of rounds, by one rule for all solvers.

    A trial runs the solver at one point of the box on one random split of the rows, or
    on several if validation rows are few (:data:`MIN_VALIDATION_ROWS`). A run is
    evaluated at geometric rounds. It ends after `fit` seconds, by itself, or if no
    round has been better for long (:data:`PATIENCE`). If all rounds have equal errors,
    that rule waits until the bounds are close (:data:`CLOSED_GAP`), because the first
    rounds of a cutting plane method may all give one classifier. Another trial begins
    if less than `budget` seconds have been spent and fewer than :data:`MAX_TRIALS`
    trials made. Rounds that end after `fit` seconds do not count. The setting and the
    round with the smallest mean validation error win. If errors are equal, fewer rounds
    win, then the earlier trial.

    Parameters
    ----------
    steps : the solver
    fixed : the solver's other parameters
    ranges : {parameter: (low, high)}, the ranges to search on a log scale
    problem : training rows alone; a fraction :data:`VALIDATION` of them becomes
        validation rows
    budget : float > 0, the CPU seconds for all trials
    fit : float > 0, the CPU seconds for one run
    seed : int >= 0, seeds the choice of validation rows

    Returns
    -------
    choice : the chosen ``values``, their number of ``rounds``, ``validation_error`` (a
        fraction), the ``cpu`` seconds to that round, and whether the time limit ``cut``
        a run; all ``trials``, with the same entries and the ``reason`` of a failure;
        their ``search_cpu`` seconds; and ``at_edge``, the parameters that were chosen
        at the edge of their range

    Raises
    ------
    RuntimeError
        If no trial reached a round that counts; the message has the reason of the
        first.
    ValueError
        If the problem has test rows.
    """
    if problem.X_test is not None:
        raise ValueError("problem: a search must not be given test rows")
    repeats = int(np.clip(MIN_VALIDATION_ROWS / (VALIDATION * problem.n), 1, 5))
    splits = [problem.split(VALIDATION, [seed, number]) for number in range(repeats)]
    trials: list[Record] = []
    spent = 0.0
    for values in points(ranges):
        parameters = {**fixed, **values}
        runs = [_run(steps, parameters, split, fit) for split in splits]
        spent += sum(run.spent for run in runs)
        trials.append({"values": values} | _best(runs))
        if spent >= budget:
            break
    best = min(trials, key=lambda t: (t["validation_error"], t["rounds"] or 0))
    if best["rounds"] is None:
        raise RuntimeError(f"search: no trial has a result: {trials[0]['reason']}")
    at_edge = []
    for name, (low, high) in ranges.items():
        value = best["values"][name]
        nearest = min(value / low, high / value)  # the factor to the nearer end
        if log(nearest) < EDGE_FRACTION * log(high / low):
            at_edge.append(name)
    return best | {"trials": trials, "search_cpu": spent, "at_edge": at_edge}


def points(ranges: Ranges) -> list[dict[str, float]]:
    """Return the points of a Sobol sequence in the box; the first is its middle.

    The values are rounded to three significant digits.
    """
    if not ranges:
        return [{}]
    unit = qmc.Sobol(len(ranges), scramble=False).random_base2(5)[1 : MAX_TRIALS + 1]
    low, high = np.array([*ranges.values()]).T
    values = low * (high / low) ** unit
    return [
        {name: float(f"{value:.3g}") for name, value in zip(ranges, row)}
        for row in values
    ]


class _Run(NamedTuple):
    """One run on one split, and how it ended.

    ``rounds`` has the evaluated rounds, ``errors`` and ``cpu`` their errors and
    seconds.
    """

    rounds: list[int]
    errors: list[float]
    cpu: list[float]
    spent: float
    cut: bool
    reason: str


def _run(steps: Callable, parameters: Values, split: Problem, fit: float) -> _Run:
    """Run a solver on the training rows of a split, evaluated on its other rows."""
    stream = steps(replace(split, X_test=None, y_test=None), **parameters)
    evaluate = held_out(split)
    is_sampled = geometric(1.4)
    run = _Run([], [], [], 0.0, False, "")
    row = Row(round=0, cpu=0.0)
    state = None

    def counts(row: Row) -> bool:
        return 0 < row["round"] and row["cpu"] <= fit

    def when(row: Row) -> bool:
        return counts(row) and is_sampled(row)

    def note(row: Row) -> None:
        run.rounds.append(row["round"])
        run.errors.append(row["test_error"])
        run.cpu.append(row["cpu"])

    try:
        with _at_most(OVERRUN * fit + 5.0):
            rows = until(watch(stream, evaluate, when), processor_seconds(fit))
            for row, state in rows:  # noqa: B007
                if "test_error" in row:
                    note(row)
                if _is_past_its_best(row, run, fit):
                    break
            if counts(row) and "test_error" not in row:
                note(row | evaluate(state))
        run = run._replace(cut="processor" in row.get("stopped_by", ""))
    except TimeoutError:
        run = run._replace(cut=True)
        row = row | {"cpu": max(row["cpu"], OVERRUN * fit)}  # it took at least this
    except Exception as error:  # the solver failed, but its earlier rounds count
        run = run._replace(reason=worker.failed(error).text)
    reason = ""
    if not run.rounds:
        reason = run.reason or f"no round ended within {fit:.2g} s"
    return run._replace(spent=row["cpu"], reason=reason)


def _best(runs: list[_Run]) -> Record:
    """Return the round with the smallest mean error over the runs.

    After its end, a run keeps its last error.
    """
    for run in runs:
        if not run.rounds:
            failed = {"validation_error": inf, "rounds": None, "cpu": inf, "cut": False}
            return failed | {"reason": run.reason}
    first = max(run.rounds[0] for run in runs)
    rounds = np.unique(np.concatenate([run.rounds for run in runs]))
    rounds = rounds[rounds >= first]
    errors = []
    cpu = []
    for run in runs:
        last = np.searchsorted(run.rounds, rounds, side="right") - 1
        errors.append(np.array(run.errors)[last])
        cpu.append(np.array(run.cpu)[last])
    mean = np.mean(errors, axis=0)
    best = int(np.argmin(mean))  # the earliest of equal ones
    return {
        "validation_error": float(mean[best]),
        "rounds": int(rounds[best]),
        "cpu": float(np.mean(cpu, axis=0)[best]),
        "cut": any(run.cut for run in runs),
        "reason": "",
    }


def _is_past_its_best(row: Row, run: _Run, fit: float) -> bool:
    """Return whether a row is long after the best of the evaluated rounds."""
    if not run.rounds:
        return False
    smallest = min(run.errors)
    cpu = run.cpu[run.errors.index(smallest)]
    has_moved = smallest == 0.0 or max(run.errors) > smallest
    is_closed = row.get("gap", inf) <= CLOSED_GAP * row.get("upper", 0.0)
    patience = max(PATIENCE * cpu, MIN_TRIAL_FRACTION * fit)
    return (has_moved or is_closed) and row["cpu"] > patience


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after `seconds` of CPU time.

    The exception comes when compiled code returns to Python. Without it, a round that
    does not end would delay the contest until its worker is killed.
    """
    is_main = threading.current_thread() == threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
