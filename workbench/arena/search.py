"""The search of the arena: the same budget, validation rows and rules for every
solver."""

from __future__ import annotations

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

VALIDATION = 0.2  # fraction of the training rows that all choices are made on
MIN_VALIDATION_ROWS = 1000  # with fewer, a trial runs on up to five random splits
MAX_TRIALS = 30  # at most 31; reached by solvers whose fit costs next to nothing
PATIENCE = 5.0  # a trial ends after this many times the seconds to its best round
MIN_TRIAL_FRACTION = (
    0.1  # fraction of the seconds of a fit that a trial is given in any case
)
CLOSED_GAP = 0.1  # certified gap over the upper bound at which a run is near its end
OVERRUN = (
    10.0  # a trial with its evaluation may take this many times the seconds of a fit
)
EDGE_FRACTION = 0.1  # fraction of a range, in decades, that counts as its edge

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
    """Choose parameters and the number of rounds on validation rows, by one rule for
    all solvers.

    A trial runs the solver at one point of the box on one random split of the rows, or
    on several if validation rows are few (:data:`MIN_VALIDATION_ROWS`). A run is
    evaluated at geometric rounds and ends after `fit` seconds, when its best round lies
    far behind (:data:`PATIENCE`), or by itself. While its bounds are apart
    (:data:`CLOSED_GAP`), equal errors in all rounds do not end it, as a cutting plane's
    first rounds all give one classifier. The next trial begins while less than `budget`
    seconds and fewer than :data:`MAX_TRIALS` trials are spent. The setting and the
    round with the least mean validation error win; ties go to fewer rounds, and then to
    the earlier trial. Rounds that end after `fit` seconds do not count.

    Parameters
    ----------
    steps : the solver
    fixed : its other parameters
    ranges : {parameter: (low, high)}, searched on a log scale
    problem : training rows alone; a fraction :data:`VALIDATION` of them becomes
        validation rows
    budget, fit : CPU seconds of all trials, and of one run
    seed : whole number of at least 0, seeds the choice of validation rows

    Returns
    -------
    found : the chosen ``values``, their number of ``rounds``, ``validation_error`` (a
        fraction), ``cpu`` seconds to that round, and whether the clock ``cut`` a run;
        all ``trials``, with the same entries and the ``reason`` of a failure; their
        ``search_cpu`` seconds; and ``at_edge``, the parameters chosen at the edge of
        their range

    Raises
    ------
    RuntimeError
        If no trial reached a round that counts, with the reason of the first.
    """
    if problem.X_test is not None:
        raise ValueError("problem: a search must not be given test rows")
    repeats = int(np.clip(MIN_VALIDATION_ROWS / (VALIDATION * problem.n), 1, 5))
    splits = [problem.split(VALIDATION, [seed, f]) for f in range(repeats)]
    trials, spent = [], 0.0
    for values in points(ranges):
        runs = [_run(steps, {**fixed, **values}, held, fit) for held in splits]
        spent += sum(run.spent for run in runs)
        trials.append({"values": values} | _best(runs))
        if spent >= budget:
            break
    best = min(
        trials, key=lambda trial: (trial["validation_error"], trial["rounds"] or 0)
    )
    if best["rounds"] is None:
        raise RuntimeError(f"search: no trial has a result: {trials[0]['reason']}")
    at_edge = [
        name
        for name, (low, high) in ranges.items()
        if abs(log(best["values"][name] / low) / log(high / low) - 0.5)
        >= 0.5 - EDGE_FRACTION
    ]
    return best | {"trials": trials, "search_cpu": spent, "at_edge": at_edge}


def points(ranges: Ranges) -> list[dict[str, float]]:
    """Return Sobol's points of the box, the first in its middle; values have three
    digits."""
    if not ranges:
        return [{}]
    unit = qmc.Sobol(len(ranges), scramble=False).random_base2(5)[1 : MAX_TRIALS + 1]
    ends = ranges.items()
    return [
        {
            name: float(f"{low * (high / low) ** u:.3g}")
            for u, (name, (low, high)) in zip(row, ends)
        }
        for row in unit
    ]


class _Run(NamedTuple):
    """One run on one split: its evaluated rounds with errors and CPU seconds, and how
    it ended."""

    rounds: list[int]
    errors: list[float]
    cpu: list[float]
    spent: float
    cut: bool
    reason: str


def _run(steps: Callable, parameters: Values, held: Problem, fit: float) -> _Run:
    """Run a solver on the training rows of a split, evaluated on its other rows."""
    stream, judge = (
        steps(replace(held, X_test=None, y_test=None), **parameters),
        held_out(held),
    )
    sampled, seen = geometric(1.4), []
    row, state, cut, reason = Row(round=0, cpu=0.0), None, False, ""

    def when(row: Row) -> bool:
        return 0 < row["round"] and row["cpu"] <= fit and sampled(row)

    try:
        with _at_most(OVERRUN * fit + 5.0):
            for row, state in until(watch(stream, judge, when), processor_seconds(fit)):  # noqa: B007
                if "test_error" in row:
                    seen.append((row["round"], row["test_error"], row["cpu"]))
                if _given_up(row, seen, fit):
                    break
            if 0 < row["round"] and row["cpu"] <= fit and "test_error" not in row:
                seen.append((row["round"], judge(state)["test_error"], row["cpu"]))
        cut = "processor" in row.get("stopped_by", "")
    except TimeoutError:
        cut, row = (
            True,
            row | {"cpu": max(row["cpu"], OVERRUN * fit)},
        )  # it took at least this
    except (
        Exception
    ) as error:  # a solver fails in its own way; the rounds before that count
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
    reason = "" if seen else reason or f"no round ended within {fit:.2g} s"
    at, errors, cpu = map(list, zip(*seen) if seen else ([], [], []))
    return _Run(at, errors, cpu, row["cpu"], cut, reason)


def _best(runs: list[_Run]) -> Record:
    """Return the round of least mean error over the runs; a run that has ended keeps
    its last."""
    if failed := [run.reason for run in runs if not run.rounds]:
        none = {"validation_error": inf, "rounds": None, "cpu": inf, "cut": False}
        return none | {"reason": failed[0]}
    first, seen = (
        max(run.rounds[0] for run in runs),
        {r for run in runs for r in run.rounds},
    )
    rounds = np.array(sorted(r for r in seen if r >= first))
    at = [np.searchsorted(run.rounds, rounds, side="right") - 1 for run in runs]
    errors = np.mean([np.array(run.errors)[i] for run, i in zip(runs, at)], axis=0)
    best = int(np.argmin(errors))  # the earliest of equal ones
    cpu = np.mean([run.cpu[i[best]] for run, i in zip(runs, at)])
    error, last = float(errors[best]), int(rounds[best])
    cut = any(run.cut for run in runs)
    return {
        "validation_error": error,
        "rounds": last,
        "cpu": float(cpu),
        "cut": cut,
        "reason": "",
    }


def _given_up(row: Row, seen: list[tuple[int, float, float]], fit: float) -> bool:
    """Return whether the best of the evaluated rounds (round, error, cpu) lies far
    behind."""
    if not seen:
        return False
    _, least, cpu = min(seen, key=lambda judged: judged[1])
    moved = least == 0.0 or any(error != least for _, error, _ in seen)
    closed = row.get("gap", inf) <= CLOSED_GAP * row.get("upper", 0.0)
    return (moved or closed) and row["cpu"] > max(
        PATIENCE * cpu, MIN_TRIAL_FRACTION * fit
    )


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after `seconds` of CPU time, when compiled code returns to
    Python.

    Otherwise a round that does not end would hold up the contest until its worker is
    killed.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() != threading.main_thread()
    ):
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
