"""The stream of a solver's iterates: sampled, judged and stopped.

Sampling (`when`), judging (`measure`) and stopping (`until`) are three arguments, never
one:

>>> steps = mrc_ccg(problem)                                    # doctest: +SKIP
>>> for row, state in until(watch(steps), below("gap", 1e-3)):  # doctest: +SKIP
...     print(row)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter, process_time

from workbench.core.interrupts import whole_rounds
from workbench.core.kinds import Record
from workbench.core.state import State as State

Row = Record
Rule = Callable[[Row], str | None]


def always(row: Row) -> bool:
    """Sample every row."""
    return True


def geometric(ratio: float = 1.2) -> Callable[[Row], bool]:
    """Sample rounds 0, 1, and then about every `ratio`-th multiple: dense early, sparse
    late."""

    def when(row: Row) -> bool:
        r = row["round"]
        return r < 2 or math.floor(math.log(r, ratio)) > math.floor(
            math.log(r - 1, ratio)
        )

    return when


def nothing(state: State) -> Row:
    """Measure nothing."""
    return {}


def watch(
    steps: Iterable[State],
    measure: Callable[[State], Row] = nothing,
    when: Callable[[Row], bool] = always,
    seconds: float = 0.0,
    cpu: float = 0.0,
) -> Iterator[tuple[Row, State]]:
    """Yield ``(row, state)`` for every iterate. The clock runs inside ``next()`` only.

    Parameters
    ----------
    steps : the solver's generator
    measure : the judge, ``measure(state) -> dict``, not timed
    when : ``when(row) -> bool``, which rows are judged
    seconds, cpu : wall and process seconds already spent, for a resumed run

    Yields
    ------
    row : dict with ``round``, ``seconds``, ``cpu`` (cumulative), the state's ``info()``
        and, on sampled rows, the result of `measure`
    state : the iterate

    Raises
    ------
    KeyboardInterrupt
        When the iterate of the round in which Ctrl-C was pressed has been yielded; at
        once if it is pressed twice, or before there is a state.
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
        yield (row | measure(state) if when(row) else row), state


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Pause :func:`watch`'s clock inside a solver while it evaluates an iterate."""
    wall, process = perf_counter(), process_time()
    try:
        yield
    finally:
        give_back(perf_counter() - wall, process_time() - process)


def give_back(seconds: float, cpu: float) -> None:
    """Subtract wall and process seconds from :func:`watch`'s clock, inside a solver."""
    _paused.seconds += seconds
    _paused.cpu += cpu


def until(
    stream: Iterable[tuple[Row, State]], *rules: Rule
) -> Iterator[tuple[Row, State]]:
    """Pass the stream on until a rule gives a reason; that row is the last and has
    ``stopped_by``.

    A row with a NaN ends the stream too, as ``diverged``, and so does one whose bounds
    cross. A stream that ends by itself passes unmarked (:func:`finished`).
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
    """Stop when the lower bound is above the upper one, even by one rounding: one is
    false.

    Bounds must include their own rounding, see
    :func:`workbench.core.measures.svm_bounds`.
    """
    return (
        "bounds crossed"
        if row.get("lower", -math.inf) > row.get("upper", math.inf)
        else None
    )


def below(key: str, threshold: float) -> Rule:
    """Stop when ``row[key] <= threshold``; rows without `key` pass."""
    rule = _named(
        lambda row: key in row and row[key] <= threshold,
        f"{key} <= {threshold:g}",
        key,
        threshold,
    )
    rule.column = key  # type: ignore[attr-defined]  # of this function
    return rule


def finished(rules: Iterable[Rule], rows: Sequence[Row]) -> str:
    """Return why a run whose solver ended by itself stopped, with the goals that it
    missed.

    Goals are the rules of :func:`below`.
    """
    missed = []
    for rule in rules:
        if column := getattr(rule, "column", ""):
            values = [row[column] for row in rows if column in row]
            said = (
                f"before {rule.__name__}, at {column} {values[-1]:.4g}"
                if values
                else ""
            )
            missed.append(said or f"and reports no {column}")
    return " ".join(["finished", *missed])


def rounds(limit: float) -> Rule:
    """Stop at round `limit`."""
    return _named(lambda row: row["round"] >= limit, f"{limit} rounds", "rounds", limit)


def seconds(limit: float) -> Rule:
    """Stop at the first row after `limit` wall seconds of solver time."""
    reason = f"{limit:g} seconds"
    return _named(lambda row: row["seconds"] >= limit, reason, "seconds", limit)


def processor_seconds(limit: float) -> Rule:
    """Stop at the first row after `limit` CPU seconds, which other work does not
    disturb."""
    reason = f"{limit:g} processor seconds"
    return _named(lambda row: row["cpu"] >= limit, reason, "cpu", limit)


LIMITS = {"rounds": rounds, "seconds": seconds, "cpu": processor_seconds}


def stopping(stop: Mapping[str, float]) -> tuple[Rule, ...]:
    """Return stopping rules from plain data: ``{"gap": 1e-3, "rounds": 500, "cpu":
    60}``.

    Names other than those of :data:`LIMITS` are columns of the rows (:func:`below`).
    """
    return tuple(
        LIMITS[name](value) if name in LIMITS else below(name, value)
        for name, value in stop.items()
    )


class _Paused(threading.local):
    seconds = 0.0
    cpu = 0.0


_paused = _Paused()


def _clock() -> tuple[float, float]:
    return perf_counter() - _paused.seconds, process_time() - _paused.cpu


def _named(test: Callable[[Row], bool], reason: str, name: str, value: float) -> Rule:
    """Return a rule that knows its plain data, as :func:`stopping` reads them."""

    def rule(row: Row) -> str | None:
        return reason if test(row) else None

    rule.__name__ = reason
    rule.stop = {name: value}  # type: ignore[attr-defined]  # of this function
    return rule
