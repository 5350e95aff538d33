"""The stream of a solver's iterates: sampling, evaluation and stopping.

Sampling (`when`), evaluation (`measure`) and stopping (`until`) are three separate
arguments:

>>> steps = mrc_ccg(problem)                                    # doctest: +SKIP
>>> for row, state in until(watch(steps), below("gap", 1e-3)):  # doctest: +SKIP
...     print(row)
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter, process_time

from workbench.core.interrupts import whole_rounds
from workbench.core.state import Row as Row
from workbench.core.state import State as State

Rule = Callable[[Row], str | None]
Measure = Callable[[State], Row]
When = Callable[[Row], bool]  # whether to evaluate the iterate of a row
Stream = Iterator[tuple[Row, State]]


def always(row: Row) -> bool:
    """Sample every row."""
    return True


def geometric(ratio: float = 1.2) -> When:
    """Sample rounds 0 and 1, then the first round to reach each power of `ratio`."""

    def power(number: int) -> int:
        return math.floor(math.log(number, ratio) + 1e-9)

    def when(row: Row) -> bool:
        number = row["round"]
        return number < 2 or power(number) > power(number - 1)

    return when


def nothing(state: State) -> Row:
    """Measure nothing."""
    return {}


def watch(
    steps: Iterable[State],
    measure: Measure = nothing,
    when: When = always,
    seconds: float = 0.0,
    cpu: float = 0.0,
) -> Stream:
    """Yield ``(row, state)`` for every iterate. The clock runs inside ``next()`` only.

    Parameters
    ----------
    steps : iterable of State
        The solver's generator.
    measure : ``measure(state) -> dict``
        Evaluates an iterate; it is not timed.
    when : ``when(row) -> bool``
        Selects the rows that are evaluated.
    seconds, cpu : float
        The wall and CPU seconds that a resumed run has already spent.

    Yields
    ------
    row : dict
        ``round``, ``seconds`` and ``cpu`` (both cumulative), the state's ``info()``
        and, on selected rows, the result of `measure`.
    state : State
        The iterate.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, once the iterate of that round has been yielded; immediately if
        Ctrl-C is pressed twice, or before the first state.
    """
    steps = whole_rounds(steps)
    while True:
        wall, process = _clock()
        state = next(steps, None)
        now, processed = _clock()
        seconds += now - wall
        cpu += processed - process
        if state is None:
            return
        row = {"round": state.round, "seconds": seconds, "cpu": cpu, **state.info()}
        if when(row):
            row |= measure(state)
        yield row, state


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Pause the clock of :func:`watch` while a solver evaluates an iterate."""
    wall, process = perf_counter(), process_time()
    try:
        yield
    finally:
        give_back(perf_counter() - wall, process_time() - process)


def give_back(seconds: float, cpu: float) -> None:
    """Subtract wall and CPU seconds of this thread from the clock of :func:`watch`."""
    _paused.seconds += seconds
    _paused.cpu += cpu


def until(stream: Stream, *rules: Rule) -> Stream:
    """Yield the stream until a rule returns a reason for the last row's ``stopped_by``.

    A row with a NaN, or with a lower bound above its upper bound, also ends the stream.
    If the solver ends by itself, the last row has no ``stopped_by`` (see
    :func:`finished`).
    """
    for row, state in stream:
        reasons = (rule(row) for rule in (diverged, crossed, *rules))
        reason = next(filter(None, reasons), None)
        if reason:
            yield row | {"stopped_by": reason}, state
            return
        yield row, state


def diverged(row: Row) -> str | None:
    """Stop when any number of the row is NaN."""
    return "diverged" if any(value != value for value in row.values()) else None


def crossed(row: Row) -> str | None:
    """Stop when the lower bound is above the upper bound, as one of them is then wrong.

    Bounds must allow for their own rounding errors (see
    :func:`workbench.core.certificates.svm_bounds`).
    """
    lower = row.get("lower", -math.inf)
    upper = row.get("upper", math.inf)
    return "bounds crossed" if lower > upper else None


def below(key: str, threshold: float) -> Rule:
    """Stop when ``row[key] <= threshold``; rows without `key` are ignored."""
    rule = _named(
        lambda row: key in row and row[key] <= threshold,
        f"{key} <= {threshold:g}",
        key,
        threshold,
    )
    rule.column = key  # type: ignore[attr-defined]  # on a function
    return rule


def finished(rules: Iterable[Rule], rows: Sequence[Row]) -> str:
    """Return "finished" and the missed goals, for a solver that ended by itself.

    Goals are the rules of :func:`below`.
    """
    reason = "finished"
    for rule in rules:
        if column := getattr(rule, "column", ""):
            values = [row[column] for row in rows if column in row]
            if values:
                reason += f" before {rule.__name__}, at {column} {values[-1]:.4g}"
            else:
                reason += f" and reports no {column}"
    return reason


def rounds(limit: float) -> Rule:
    """Stop at round `limit`."""
    return _named(lambda row: row["round"] >= limit, f"{limit} rounds", "rounds", limit)


def seconds(limit: float) -> Rule:
    """Stop at the first row after `limit` wall seconds of solver time."""
    reason = f"{limit:g} seconds"
    return _named(lambda row: row["seconds"] >= limit, reason, "seconds", limit)


def processor_seconds(limit: float) -> Rule:
    """Stop at the first row after `limit` CPU seconds of solver time."""
    reason = f"{limit:g} processor seconds"
    return _named(lambda row: row["cpu"] >= limit, reason, "cpu", limit)


LIMITS = {"rounds": rounds, "seconds": seconds, "cpu": processor_seconds}


def stopping(stop: Mapping[str, float]) -> tuple[Rule, ...]:
    """Return the stopping rules of a mapping, ``{"gap": 1e-3, "rounds": 500}``.

    Names are those of :data:`LIMITS`, or columns of the rows (see :func:`below`).
    """
    return tuple(
        LIMITS.get(name, partial(below, name))(value) for name, value in stop.items()
    )


class _Paused(threading.local):
    seconds = 0.0
    cpu = 0.0


_paused = _Paused()


def _clock() -> tuple[float, float]:
    return perf_counter() - _paused.seconds, process_time() - _paused.cpu


def _named(test: When, reason: str, name: str, value: float) -> Rule:
    """Return a rule whose ``stop`` is the mapping that :func:`stopping` accepts."""

    def rule(row: Row) -> str | None:
        return reason if test(row) else None

    rule.__name__ = reason
    rule.stop = {name: value}  # type: ignore[attr-defined]  # on a function
    return rule
